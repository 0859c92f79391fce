"""What a graph must be (rules 83 to 93), each broken rule with its node or edge; and what a look inside shows."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.graphs import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from tests.binding.support import NOT_INTEGERS, floats, greater_than, kind_of, sign
from tests.graphs.support import DIAMOND_OF_X, TENSOR, X, add, chain, diamond, maximum, negate, node

OWNED = dml.TensorFlags.OWNED_BY_DML


def refused(device: dml.Device, desc: GraphDesc, message: str, error: type[dml.DmlError] = dml.DmlError) -> None:
    with pytest.raises(error) as caught:
        device.compile_graph(desc)
    assert str(caught.value) == message


def test_graph_needs_feature_level_2_1(any_device: dml.Device) -> None:
    """Rule 83."""
    with dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_2_0) as device:
        message = "compile_graph: needs feature level 2_1; this device was opened at 2_0"
        tensor = floats(1, 1, 4, 6)
        absolute = dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor)
        refused(device, chain(device, [absolute]), message, dml.UnsupportedError)


def test_constant_needs_feature_level_6_2(any_device: dml.Device) -> None:
    """Rule 92."""
    with dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_6_1) as device:
        message = "GraphDesc: nodes[3]: a constant node needs feature level 6_2; this device was opened at 6_1"
        refused(device, diamond(device), message, dml.UnsupportedError)
    with dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_6_2) as device:
        device.compile_graph(diamond(device))


def test_cycle_is_named(any_device: dml.Device) -> None:
    """Rule 84."""
    desc = GraphDesc(
        1,
        1,
        [node(any_device, add(), "first"), node(any_device, negate(), "second"), node(any_device, add(), "third")],
        [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 2, 1)],
        [OutputGraphEdge(2, 0, 0)],
        [IntermediateGraphEdge(0, 0, 1, 0), IntermediateGraphEdge(1, 0, 2, 0), IntermediateGraphEdge(2, 0, 0, 1)],
    )
    with pytest.raises(dml.InvalidArgumentError, match=r"^GraphDesc: nodes form a cycle: (.*)$") as caught:
        any_device.compile_graph(desc)
    names = str(caught.value).split(": ")[-1].split(" -> ")
    assert names[0] == names[-1]
    assert "first second third first second" in " ".join(names + names[1:])


def test_node_that_reads_itself_is_a_cycle(any_device: dml.Device) -> None:
    """Rule 84."""
    desc = GraphDesc(
        0, 1, [node(any_device, negate(), "n")], [], [OutputGraphEdge(0, 0, 0)], [IntermediateGraphEdge(0, 0, 0, 0)]
    )
    refused(any_device, desc, "GraphDesc: nodes form a cycle: n -> n")


def test_every_input_and_output_of_a_node_needs_an_edge(any_device: dml.Device) -> None:
    """Rule 84."""
    one = node(any_device, maximum(), "m")
    desc = GraphDesc(1, 1, [one], [InputGraphEdge(0, 0, 0)], [OutputGraphEdge(0, 0, 0)])
    refused(any_device, desc, "GraphDesc: no edge leads to BTensor of nodes[0] (m)")
    two = [node(any_device, negate()), node(any_device, negate())]
    inputs = [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 1, 0)]
    desc = GraphDesc(1, 1, two, inputs, [OutputGraphEdge(0, 0, 0)])
    refused(any_device, desc, "GraphDesc: no edge begins at OutputTensor of nodes[1] (ELEMENT_WISE_NEGATE 1)")
    desc = GraphDesc(1, 1, [two[0], ConstantGraphNode(X)], inputs[:1], [OutputGraphEdge(0, 0, 0)])
    refused(any_device, desc, "GraphDesc: no edge begins at nodes[1] (constant 1)")


def test_optional_tensor_needs_no_edge_when_it_is_absent(any_device: dml.Device) -> None:
    """Rule 84."""
    quantize = dml.ElementWiseQuantizeLinear(
        input_tensor=TENSOR, scale_tensor=TENSOR, output_tensor=dml.TensorDesc(dml.INT8, TENSOR.sizes)
    )
    edges = [InputGraphEdge(0, 0, 0), InputGraphEdge(1, 0, 1)]
    desc = GraphDesc(2, 1, [node(any_device, quantize, "q")], edges, [OutputGraphEdge(0, 0, 0)])
    compiled = any_device.compile_graph(desc)
    result = any_device.run(compiled, {"Input0": X, "Input1": np.full_like(X, 0.5)})["Output0"]
    assert (result == np.rint(X / 0.5)).all()
    desc = dataclasses.replace(desc, input_edges=[*edges, InputGraphEdge(1, 0, 2)])
    refused(any_device, desc, "GraphDesc: input_edges[2]: ZeroPointTensor of q is absent, so no edge may lead to it")


def edges_of(name: str, *edge: int) -> dict[str, Any]:
    kind = {"input_edges": InputGraphEdge, "intermediate_edges": IntermediateGraphEdge, "output_edges": OutputGraphEdge}
    return {name: [kind[name](*edge)]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (edges_of("input_edges", 1, 0, 0), "input_edges[0]: graph_input_index must be below input_count 1; got 1"),
        (edges_of("input_edges", 0, 2, 0), "input_edges[0]: to_node_index must be below 2, the number of nodes; got 2"),
        (
            edges_of("input_edges", 0, 0, 1),
            "input_edges[0]: to_node_input_index must be below 1, the inputs of ELEMENT_WISE_NEGATE 0; got 1",
        ),
        (
            edges_of("intermediate_edges", 4294967295, 0, 1, 0),
            "intermediate_edges[0]: from_node_index must be below 2, the number of nodes; got 4294967295",
        ),
        (
            edges_of("intermediate_edges", 0, 1, 1, 0),
            "intermediate_edges[0]: from_node_output_index must be below 1, the outputs of ELEMENT_WISE_NEGATE 0; "
            "got 1",
        ),
        (
            edges_of("intermediate_edges", 0, 0, 0, 0),
            "intermediate_edges[0]: input_edges[0] leads to InputTensor of ELEMENT_WISE_NEGATE 0 already",
        ),
        (edges_of("output_edges", 1, 0, 1), "output_edges[0]: graph_output_index must be below output_count 1; got 1"),
        (
            edges_of("output_edges", 2, 0, 0),
            "output_edges[0]: from_node_index must be below 2, the number of nodes; got 2",
        ),
        ({"output_edges": []}, "no output edge leads to graph output 0"),
        ({"output_count": 2**32 - 1}, "no output edge leads to graph output 1"),
        (
            {"output_edges": [OutputGraphEdge(1, 0, 0), OutputGraphEdge(0, 0, 0, "again")]},
            "output_edges[1] ('again'): graph output 0 has an edge already",
        ),
        ({"nodes": []}, "nodes must not be empty"),
        ({"input_count": 2**16 + 1}, "input_count must be at most 65536; got 65537"),
    ],
)
def test_edges_lead_to_what_is_there(any_device: dml.Device, changes: dict[str, Any], message: str) -> None:
    """Rules 85 to 87, 93."""
    desc = dataclasses.replace(chain(any_device, [negate(), negate()]), **changes)
    refused(any_device, desc, f"GraphDesc: {message}", dml.InvalidArgumentError)


def test_connected_tensors_have_the_same_total_size(any_device: dml.Device) -> None:
    """Rule 89: sizes, data types and numbers of dimensions may differ."""
    smaller = floats(4, 5)
    message = (
        "GraphDesc: intermediate_edges[0]: TotalTensorSizeInBytes must be the same at both ends; it is 96 of "
        "ELEMENT_WISE_NEGATE 0, and 80 of the input of ELEMENT_WISE_NEGATE 1"
    )
    refused(any_device, chain(any_device, [negate(), negate(smaller)]), message)
    halves = dml.TensorDesc(dml.FLOAT16, (48,))
    compiled = any_device.compile_graph(chain(any_device, [negate(), negate(halves)]))
    result = any_device.run(compiled, {"Input0": X})["Output0"]
    assert (result.view(np.uint16) == (-X).view(np.uint16).ravel() ^ 0x8000).all()


def test_owned_tensors_hang_on_graph_inputs_and_agree(any_device: dml.Device) -> None:
    """Rule 91."""
    owned = dataclasses.replace(TENSOR, flags=OWNED)
    nodes = [node(any_device, negate(), "n"), node(any_device, maximum(TENSOR, owned), "m")]
    desc = GraphDesc(
        1, 1, nodes, [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 1, 0)], [OutputGraphEdge(1, 0, 0)],
        [IntermediateGraphEdge(0, 0, 1, 1)],
    )  # fmt: skip
    refused(
        any_device,
        desc,
        "GraphDesc: intermediate_edges[0]: m's tensor is OWNED_BY_DML, so it must hang on a graph input",
    )
    desc = GraphDesc(
        1, 1, nodes, [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 1, 1)], [OutputGraphEdge(1, 0, 0)],
        [IntermediateGraphEdge(0, 0, 1, 0)],
    )  # fmt: skip
    message = "GraphDesc: input_edges[1]: all tensors at graph input 0 must be OWNED_BY_DML, or none of them"
    refused(any_device, desc, message)


def test_constant_is_no_graph_output(any_device: dml.Device) -> None:
    """Rule 92."""
    desc = GraphDesc(0, 1, [ConstantGraphNode(X, "c")], [], [OutputGraphEdge(0, 0, 0)])
    refused(any_device, desc, "GraphDesc: output_edges[0]: c is a constant, which cannot be a graph output")


@pytest.mark.parametrize("data", [b"", [], np.array([], np.int8), np.array([object()]), "text", object()], ids=kind_of)
def test_constant_needs_bytes(data: Any) -> None:
    """Rule 92."""
    with pytest.raises(dml.InvalidArgumentError, match=r"^ConstantGraphNode: data"):
        ConstantGraphNode(data)


def test_constant_is_copied() -> None:
    """Rule 92."""
    data = np.array([1, 2, 3], np.int16)
    constant = ConstantGraphNode(data)
    data[:] = 0
    assert constant.contents == b"\1\0\2\0\3\0"
    assert ConstantGraphNode(np.arange(6, dtype=np.int8).reshape(2, 3).T).contents == b"\0\3\1\4\2\5"


def test_nodes_belong_to_the_device(any_device: dml.Device) -> None:
    """Rule 84."""
    with dml.Device(any_device.info.index) as other:
        desc = chain(other, [sign(TENSOR)])
        refused(any_device, desc, "GraphDesc: nodes[0] (ELEMENT_WISE_SIGN 0): created by another device")


@pytest.mark.parametrize("index", [*NOT_INTEGERS, -1, 2**32], ids=kind_of)
def test_indices_are_unsigned_integers(index: Any) -> None:
    """Rules 86 and 87."""
    for make in (
        lambda: InputGraphEdge(0, index, 0),
        lambda: OutputGraphEdge(0, 0, index),
        lambda: IntermediateGraphEdge(index, 0, 0, 0),
        lambda: GraphDesc(index, 0, []),
    ):
        with pytest.raises(dml.InvalidArgumentError):
            make()


def test_members_are_of_their_types(any_device: dml.Device) -> None:
    """Rules 88, 92 and 93."""
    operator: Any = greater_than(2, 3)
    with pytest.raises(dml.InvalidArgumentError, match="operator must be what create_operator returned"):
        OperatorGraphNode(operator)
    name: Any = 3
    with pytest.raises(dml.InvalidArgumentError, match="name must be a string"):
        InputGraphEdge(0, 0, 0, name)
    for wrong in (None, 3, "nodes", [3], [InputGraphEdge(0, 0, 0)]):
        nodes: Any = wrong
        with pytest.raises(dml.InvalidArgumentError, match="GraphDesc: nodes"):
            GraphDesc(0, 1, nodes)
    no_graph: Any = negate()
    with pytest.raises(dml.InvalidArgumentError, match="takes a GraphDesc"):
        any_device.compile_graph(no_graph)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], []], ids=repr)
def test_names_of_inputs_are_different_strings(any_device: dml.Device, names: Any) -> None:
    edges = [InputGraphEdge(0, 0, 0), InputGraphEdge(1, 0, 1)]
    desc = GraphDesc(2, 1, [node(any_device, add())], edges, [OutputGraphEdge(0, 0, 0)])
    with pytest.raises(dml.InvalidArgumentError, match="input_names must be 2 different strings"):
        any_device.compile_graph(desc, input_names=names)


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def model(any_device: dml.Device) -> dml.CompiledGraph:
    """Three kernels: EXP of a row, what it is used for, and another output."""
    graph = dml.Graph(any_device)
    a, row = graph.input("a & <b>", dml.FLOAT32, (4, 6)), graph.input("row", dml.FLOAT32, (6,))
    weights = graph.constant(np.arange(24, dtype=np.float32).reshape(4, 6), name='the "weights"')
    return graph.compile(y=F.clip(a * F.exp(row) + weights, min=0, max=9), root=F.sqrt(abs(row)))


def test_svg_shows_kernels_operators_and_tensors(model: dml.CompiledGraph, tmp_path: Path) -> None:
    model.write_picture(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert len([text for text in texts if text.startswith("kernel ")]) == len(model.stages) == 3
    for wanted in ("a & <b>", "row", 'the "weights"', "y", "EXP", "MULTIPLY", "ADD", "CLIP", "SQRT", "ABS"):
        assert wanted in texts
    assert "FLOAT32 [4, 6]" in texts
    assert "FLOAT32 [4, 6], strides [0, 1]" in texts
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.attrib["class"] != "operator"
    ]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for number, (x, y, w, h) in enumerate(boxes):  # nothing lies upon something else
        for x2, y2, w2, h2 in boxes[:number]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    arrows = [path for path in root.iter(f"{SVG}path") if "C" in path.attrib["d"]]
    assert len(arrows) == 7


def test_dot_is_what_graphviz_reads(model: dml.CompiledGraph, tmp_path: Path) -> None:
    model.write_picture(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert len(re.findall(r"subgraph cluster_\d+ \{", text)) == len(model.stages)
    assert 'label="the \\"weights\\""' in text
    assert len(re.findall(r"^    \w+ -> node_\d+ ", text, re.MULTILINE)) == sum(
        len(node.reads()) for node in model.network.nodes
    )
    assert text.count("{") == text.count("}")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", tmp_path / "out.svg", tmp_path / "graph.dot"], check=True)


def test_pictures_have_a_known_suffix(model: dml.CompiledGraph, tmp_path: Path) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"a \.svg or a \.dot file; got '.*graph\.png'"):
        model.write_picture(tmp_path / "graph.png")


def test_values_inside_a_fused_graph(device: dml.Device) -> None:
    compiled = device.compile_graph(diamond(device))
    assert len(compiled.stages) == 1
    values = compiled.node_values({"Input0": X})
    assert list(values) == ["sign", "threshold", "max", "sum"]
    assert (values["threshold"] == np.maximum(X, np.float32(0.25))).all()
    assert (values["sum"] == DIAMOND_OF_X).all()


def test_profile_and_trace(model: dml.CompiledGraph, any_device: dml.Device, tmp_path: Path) -> None:
    arrays = {"a & <b>": X, "row": X[0]}
    times = any_device.profile(model, arrays, repeats=3)
    assert [time.label for time in times] == [step.label for step in model.steps]
    assert all(time.seconds > 0 for time in times)
    dml.write_trace(tmp_path / "trace.json", times, any_device)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [span["name"] for span in spans] == [time.label for time in times]
    assert spans[1]["ts"] == pytest.approx(spans[0]["ts"] + spans[0]["dur"])
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {any_device.info.name, "compute queue"}
    for repeats in (0, True, "3"):
        with pytest.raises(dml.InvalidArgumentError, match="repeats"):
            any_device.profile(model, arrays, repeats=repeats)  # type: ignore[arg-type]  # refused
