"""Plans normalizations whose rows a work group holds while it makes its sums:
shaders/patterns/rows/register_rows.glsl.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import float32_bits
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.layout import FoldedLayout, fold, fold_in_order
from dmlvk.kernels.rows import reduction
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.tensors import TensorDesc

_VARIANT = "register_rows"
_ELEMENTS_OF_BLOCK = 4
_MOST_OTHER_AXES = 4
_ABSENT, _ONE_FOR_ROW, _ALONG_ROW = range(3)
"""How far a row's Scale or Bias lie apart: ``SCALE`` and ``BIAS`` in the shader."""


def variants() -> Iterator[ShaderVariant]:
    yield ShaderVariant(_VARIANT, "normalization/register_rows.comp", ())


def kernel(
    operator_name: str,
    source: TensorDesc,
    result: TensorDesc,
    scale: TensorDesc | None,  # the optional Scale, broadcast to the input's sizes
    bias: TensorDesc | None,  # the optional Bias, likewise
    axes: Sequence[int],  # the axes of a row
    epsilon: float,  # what is added to the variance
    *,
    has_relu: bool,  # whether negative results become 0
) -> PlainKernel | None:
    """The kernel that normalizes rows, or ``None`` where rows are too long or do not lie contiguously.

    It reads the input, Scale and Bias, for which another region may stand in where they are absent.
    """
    zeros = (0,) * source.dimension_count
    strides = [tensor.element_strides if tensor is not None else zeros for tensor in (source, scale, bias, result)]
    along = sorted(axes)
    others = [axis for axis in range(source.dimension_count) if axis not in along]

    def parts(of: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        return [source.sizes[axis] for axis in of], [[each[axis] for axis in of] for each in strides]

    def how_given(tensor: TensorDesc | None, steps: Sequence[int]) -> int:
        return _ABSENT if tensor is None else _ALONG_ROW if steps[0] else _ONE_FOR_ROW

    row, other = fold_in_order(*parts(along)), fold(*parts(others))
    length = math.prod(row.sizes)
    if not _lie_in_one_tile(row, other) or length > reduction.CHUNK or len(other.sizes) > _MOST_OTHER_AXES:
        return None
    lanes = reduction.lanes(length)
    blocks_of_lane = -(-length // (_ELEMENTS_OF_BLOCK * lanes))
    count = math.prod(other.sizes)
    groups = launch_size(operator_name, -(-count // (WORK_GROUP_SIZE // lanes)) * WORK_GROUP_SIZE)
    missing = _MOST_OTHER_AXES - len(other.sizes)
    return PlainKernel(
        variant=_VARIANT,
        work_groups=groups,
        constants={
            "WIDTH": source.data_type.size_in_bits,
            "OTHER_AXES": len(other.sizes),
            "LANES_OF_ROW": lanes,
            "BLOCKS_OF_LANE": blocks_of_lane,
            "HAS_ALL_BLOCKS": int(length == _ELEMENTS_OF_BLOCK * lanes * blocks_of_lane),
            "SCALE": how_given(scale, row.strides[1]),
            "BIAS": how_given(bias, row.strides[2]),
            "HAS_RELU": int(has_relu),
        },
        parameters=(
            count,
            length,
            float32_bits(epsilon),
            *other.sizes,
            *[1] * missing,
            *(stride for steps in other.strides for stride in (*steps, *[0] * missing)),
        ),
    )


def _lie_in_one_tile(row: FoldedLayout, other: FoldedLayout) -> bool:
    """Whether rows are whole blocks of neighbours, and Scale and Bias likewise, or one number for a row."""
    if len(row.sizes) != 1 or row.sizes[0] % _ELEMENTS_OF_BLOCK:
        return False
    steps = [each[0] for each in row.strides]
    if steps[0] != 1 or not set(steps) <= {0, 1}:  # the output's is never 0
        return False
    tiles = (each for step, each in zip(steps, other.strides, strict=True) if step)
    return not any(stride % _ELEMENTS_OF_BLOCK for each in tiles for stride in each)
