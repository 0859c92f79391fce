"""Values of specialization constants by name, as patterns of shaders name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT


def numbered(name: str, values: Sequence[int]) -> dict[str, int]:
    """Constants that differ in the number behind their names, from 0 on: ``{"CANDIDATES_0": 4, "CANDIDATES_1": 1}``."""
    return {f"{name}_{number}": value for number, value in enumerate(values)}


def axes(sizes: Sequence[int], strides: Mapping[str, Sequence[int]], *, is_packed: bool = False) -> dict[str, int]:
    """The constants of ``shaders/patterns/axes.glsl``.

    Args:
        sizes: of the folded axes, innermost first; at most :data:`~dmlvk.tensors.MAXIMUM_DIMENSION_COUNT`.
        strides: by operand, as the shader calls it, how far elements lie apart along these axes.
        is_packed: whether the output is gone through word by word, however many elements these have.
    """
    missing = MAXIMUM_DIMENSION_COUNT - len(sizes)
    made = {"GROUPS_PER_ROW": 0, "OUTPUT_PACKED": int(is_packed), **numbered("SIZE", [*sizes, *[1] * missing])}
    for operand, steps in strides.items():
        made |= numbered(f"STRIDE_{operand}", [*steps, *[0] * missing])
    return made
