"""Matrices of experts in folders of the hub: one tensor for each, or one for all, with gates and what they gate joined.

The layouts are those of transformers (modeling_mixtral.py, modeling_granitemoe.py, modeling_gpt_oss.py); the numbers of
MXFP4 are OCP's (Microscaling Formats, 5.3.3), two in a byte, the first one in its lowest bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dmlvk.language.gguf_blocks import mxfp4_matrix
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix, Numbers

_NAMES = {part: f"{part}_proj" for part in ("gate", "up", "down")}
_NUMBERED = {"gate": "w1", "up": "w3", "down": "w2"}
_PARTS: Mapping[str, Mapping[str, str]] = {"mixtral": _NUMBERED, "lfm2_moe": _NUMBERED}
_LINES = {"gate": slice(0, None, 2), "up": slice(1, None, 2), "down": slice(None)}  # Rows of gpt-oss's joined matrices


def experts_of(source: Source, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
    """The matrices of all experts, one behind the other.

    Args:
        own: the layer, ``blk.N``.
        part: ``"gate"``, ``"up"`` or ``"down"``.
        sizes: how many experts, rows and columns of each.
    """
    return _READ[source.architecture](source, own, part, sizes)


def _single(source: Source, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
    if source.has(f"{own}.experts.down_proj"):
        return _of_halves(source, [f"{own}.experts.{name}" for name in ("gate_up_proj", "down_proj")], part, sizes)
    name = _PARTS.get(source.architecture, _NAMES)[part]
    made = [source.matrix(f"{own}.experts.{number}.{name}.weight", sizes[1], sizes[2]) for number in range(sizes[0])]
    if len({each.kind for each in made}) > 1 or made[0].order is not None:
        made = [Matrix(32, each.multiplied_out()) for each in made]
    return Matrix.joined(made)


def _halves(source: Source, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
    return _of_halves(source, [f"{own}.experts.{name}.weight" for name in ("gate_up", "down")], part, sizes)


def _of_halves(source: Source, names: Sequence[str], part: str, sizes: tuple[int, int, int]) -> Matrix:
    """Of each expert the rows of gates, and then the others; and the matrices behind these."""
    return source.cube(names[1], sizes) if part == "down" else source.half(names[0], sizes, is_second=part == "up")


def _in_turn(source: Source, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
    """Rows of gates and others take turns; plain matrices are transposed, those of MXFP4 are not."""
    count, rows, columns = sizes
    name, lines = f"{own}.experts.{'down' if part == 'down' else 'gate_up'}_proj", _LINES[part]
    high = rows if part == "down" else 2 * rows
    if source.has(f"{name}_blocks"):
        if columns % 32:
            raise source.fault(f"{source.tensor_named(name)}_blocks: rows of {columns} elements are no blocks of 32")
        blocks = source.codes(f"{name}_blocks", (count, high, columns // 32, 16)).reshape(count * high, -1, 16)
        scales = source.codes(f"{name}_scales", (count, high, columns // 32)).reshape(count * high, -1)
        return mxfp4_matrix(blocks[lines], scales[lines])
    return Matrix(32, source.turned(name, (count, columns, high), lines))


def expert_biases(source: Source, own: str, part: str, sizes: tuple[int, int]) -> Numbers:
    """What experts of gpt-oss add, FLOAT32 [experts, rows]."""
    name, high = ("down", sizes[1]) if part == "down" else ("gate_up", 2 * sizes[1])
    both = source.matrix(f"{own}.experts.{name}_proj_bias", sizes[0], high).read
    return np.ascontiguousarray(both[:, _LINES[part]])


_READ: Mapping[str, Callable[[Source, str, str, tuple[int, int, int]], Matrix]] = {
    **dict.fromkeys(("mixtral", "lfm2_moe"), _single),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "glm4_moe", "qwen3_next", "qwen3_5_moe_text", "gemma4_text"), _single),
    "granitemoe": _halves,
    "gpt_oss": _in_turn,
}
