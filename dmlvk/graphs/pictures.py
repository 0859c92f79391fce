"""Pictures of compiled graphs: which operators there are, which of them are one kernel, what flows between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.network import NetworkNode, NetworkValue
from dmlvk.graphs.stages import Stage
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.graphs.compiled import CompiledGraph


def write_picture(graph: CompiledGraph, path: Path) -> None:
    """Writes a picture of a graph, by the file's suffix: ``.svg``, or ``.dot`` for Graphviz.

    Raises:
        InvalidArgumentError: for another suffix.
    """
    makers = {".svg": graph_as_svg, ".dot": graph_as_dot}
    maker = makers.get(path.suffix.lower())
    if maker is None:
        raise InvalidArgumentError(f"Graph: a picture is written to a .svg or a .dot file; got {str(path)!r}")
    path.write_text(maker(graph), encoding="utf-8")


def _tensor_text(tensor: TensorDesc | None) -> str:
    if tensor is None:
        return ""
    strides = "" if tensor.is_packed else f", strides {[int(stride) for stride in tensor.element_strides]}"
    return f"{tensor.data_type.name} {[int(size) for size in tensor.sizes]}{strides}"


def _node_text(node: NetworkNode) -> str:
    short = node.desc.operator_name.removeprefix("ELEMENT_WISE_")
    return short if node.name in (node.desc.operator_name, f"{node.desc.operator_name} {node.index}") else node.name


def _stage_title(number: int, stage: Stage) -> str:
    operators = "1 operator" if len(stage.nodes) == 1 else f"{len(stage.nodes)} operators"
    return f"kernel {number}: {operators}, {stage.program.steps[0].kernel.variant.rsplit('.', 1)[-1]}"


def graph_as_dot(graph: CompiledGraph) -> str:
    """A graph in Graphviz's language: operators as nodes, kernels as clusters, tensors at the edges."""
    return "\n".join(_dot_lines(graph)) + "\n"


def _dot_lines(graph: CompiledGraph) -> Iterator[str]:
    network = graph.network

    def name(value: NetworkValue) -> str:
        return f"{value.kind}_{value.index}"

    yield "digraph graph_of_operators {"
    yield '    node [shape=box, style=rounded, fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];'
    for number, point in enumerate(graph.inputs):
        if network.inputs[number] is not None:
            yield f"    input_{number} [label={_quoted(point.name)}, shape=ellipse];"
    for value in network.constants:
        yield f"    {name(value)} [label={_quoted(network.names[value])}, shape=plain];"
    drawn: set[int] = set()
    for number, stage in enumerate((*graph.stages_once, *graph.stages)):
        yield f"    subgraph cluster_{number} {{"
        yield f'        label={_quoted(_stage_title(number, stage))}; color=gray; fontname="sans-serif";'
        for node in stage.nodes:
            if node.index in drawn:  # it has parts in several stages
                continue
            drawn.add(node.index)
            yield f"        node_{node.index} [label={_quoted(_node_text(node))}];"
        yield "    }"
    for node in network.nodes:
        for _, tensor, value in node.reads():
            yield f"    {name(value)} -> node_{node.index} [label={_quoted(_tensor_text(tensor))}];"
    for number, (value, tensor) in enumerate(network.outputs):
        yield f"    output_{number} [label={_quoted(graph.outputs[number].name)}, shape=ellipse];"
        yield f"    {name(value)} -> output_{number} [label={_quoted(_tensor_text(tensor))}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_CHARACTER, _LINE, _GAP, _MARGIN = 6.6, 17, 28, 16
_STYLE = """
    text { font: 11px ui-monospace, monospace; fill: #1b1f24; text-anchor: middle }
    .title { fill: #57606a } .tensor { fill: #57606a; font-size: 9px }
    .kernel { fill: #eef4ff; stroke: #4a78c2 } .value { fill: #fff; stroke: #57606a }
    .operator { fill: #fff; stroke: #b6c8e6 } path { fill: none; stroke: #57606a; marker-end: url(#tip) }
"""


@dataclasses.dataclass
class _NodeBox:
    """Something that is drawn: a kernel with its operators, or an input, a constant or an output of the graph."""

    title: str  # its first line
    lines: list[str]  # the operators of a kernel
    sources: list[tuple[_NodeBox, str]]  # the boxes that its arrows come from, with what is written at them
    layer: int = 0  # how far down it stands
    x: float = 0.0  # its middle
    y: float = 0.0  # its upper edge

    @property
    def width(self) -> float:
        return max(len(line) for line in (self.title, *self.lines)) * _CHARACTER + 24

    @property
    def height(self) -> float:
        return (len(self.lines) + 1) * _LINE + (14 if self.lines else 8)


def graph_as_svg(graph: CompiledGraph) -> str:
    """A picture of a graph that any browser shows: kernels with their operators, and the tensors between them."""
    boxes = _boxes(graph)
    width, height = _arranged(boxes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" style="fill: #57606a; marker-end: none"/></marker></defs>',
        *(line for box in boxes for line in _drawn_arrows(box)),
        *(line for box in boxes for line in _drawn_box(box)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _boxes(graph: CompiledGraph) -> list[_NodeBox]:
    """Everything that is drawn, each behind what its arrows come from."""
    network = graph.network
    sources: dict[NetworkValue, _NodeBox] = {}
    boxes: list[_NodeBox] = []
    for number, point in enumerate(graph.inputs):
        if network.inputs[number] is not None:
            sources[NetworkValue("input", number)] = _NodeBox(point.name, [], [])
    tensors = {value: tensor for node in network.nodes for _, tensor, value in (*node.reads(), *node.writes())}
    tensors |= graph.inner_tensors
    stages = (*graph.stages_once, *graph.stages)
    for stage in stages:
        for value in stage.reads:
            if value.kind == "constant" and value not in sources:
                sources[value] = _NodeBox(network.names[value], [], [])
    boxes += sources.values()
    for number, stage in enumerate(stages):
        read = [(sources[value], _tensor_text(tensors[value])) for value in dict.fromkeys(stage.reads)]
        box = _NodeBox(_stage_title(number, stage), [_node_text(node) for node in stage.nodes], read)
        box.layer = 1 + max((source.layer for source, _ in read), default=0)
        sources.update(dict.fromkeys(stage.writes, box))
        boxes.append(box)
    last = 1 + max(box.layer for box in boxes)
    for number, (value, tensor) in enumerate(network.outputs):
        boxes.append(_NodeBox(graph.outputs[number].name, [], [(sources[value], _tensor_text(tensor))], last))
    return boxes


def _arranged(boxes: list[_NodeBox]) -> tuple[float, float]:
    """Puts the boxes into rows, each about below what it reads; returns width and height of the picture."""
    rows: dict[int, list[_NodeBox]] = {}
    for box in boxes:
        rows.setdefault(box.layer, []).append(box)
    widths = {layer: sum(box.width + _GAP for box in row) - _GAP for layer, row in rows.items()}
    width = max(widths.values()) + 2 * _MARGIN
    y = float(_MARGIN)
    for layer in sorted(rows):
        row = rows[layer]
        row.sort(key=lambda box: sum(source.x for source, _ in box.sources) / max(1, len(box.sources)))
        x = (width - widths[layer]) / 2
        for box in row:
            box.x, box.y = x + box.width / 2, y
            x += box.width + _GAP
        y += max(box.height for box in row) + 2 * _GAP
    return width, y - 2 * _GAP + _MARGIN


def _drawn_box(box: _NodeBox) -> Iterator[str]:
    left, kind = box.x - box.width / 2, "kernel" if box.lines else "value"
    yield (
        f'<rect class="{kind}" x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{6 if box.lines else 12}"/>'
    )
    title = ' class="title"' if box.lines else ""
    yield f'<text{title} x="{box.x:.1f}" y="{box.y + _LINE - 1:.1f}">{escape(box.title)}</text>'
    for number, line in enumerate(box.lines, 1):
        top = box.y + number * _LINE + 5
        yield (
            f'<rect class="operator" x="{left + 8:.1f}" y="{top:.1f}" width="{box.width - 16:.1f}" '
            f'height="{_LINE - 2}" rx="3"/>'
        )
        yield f'<text x="{box.x:.1f}" y="{top + _LINE - 6:.1f}">{escape(line)}</text>'


def _drawn_arrows(box: _NodeBox) -> Iterator[str]:
    for number, (source, label) in enumerate(box.sources):
        start = source.y + source.height
        x = box.x + (number - (len(box.sources) - 1) / 2) * min(40.0, box.width / (len(box.sources) + 1))
        bend = (box.y - start) / 2
        yield (
            f'<path d="M{source.x:.1f} {start:.1f} C{source.x:.1f} {start + bend:.1f} {x:.1f} {box.y - bend:.1f} '
            f'{x:.1f} {box.y:.1f}"/>'
        )
        if label:
            middle = (source.x + x) / 2
            yield f'<text class="tensor" x="{middle:.1f}" y="{(start + box.y) / 2 - 3:.1f}">{escape(label)}</text>'
