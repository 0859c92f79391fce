"""The operators that move elements by a rule of their own: TILE, PADDING, and blocks between depth and space."""

from __future__ import annotations

import enum

from dmlvk.operators.movement import MOVED, check_count_of_axes
from dmlvk.operators.words import *


class PaddingMode(enum.IntEnum):
    """DML_PADDING_MODE: what PADDING puts around a tensor."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class DepthSpaceOrder(enum.IntEnum):
    """DML_DEPTH_SPACE_ORDER: how blocks lie among the channels."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


_BLOCK_SUPPORT = (
    Support("1_0", (4, 4), FLOATS),
    Support("2_1", (4, 4), TYPES_TO_32),
    Support("5_0", (4, 4), ALL_TYPES),
)

_PADDING_MODES = (
    "REFLECTION and SYMMETRIC go on periodically where a padding is longer than what it mirrors; REFLECTION of a "
    "single element repeats it.",
    "WRAP, which DirectML has from feature level 6_4 on and does not describe, repeats the tensor periodically.",
    MOVED,
)


def _tile_sizes(desc: Tile | Draft) -> Mapping[str, Sequence[int]]:
    sizes = tuple(desc.input_tensor.sizes)
    if len(desc.repeats) != len(sizes):
        rule = f"must have {len(sizes)} entries, one for each dimension of InputTensor"
        refuse(desc, "repeats", f"{rule}; got {list(desc.repeats)}")
    for axis, repeat in enumerate(desc.repeats):
        if repeat < 1:
            refuse(desc, f"repeats[{axis}]", f"must be at least 1; got {repeat}")
    return {"output_tensor": tuple(size * repeat for size, repeat in zip(sizes, desc.repeats, strict=True))}


def _padding_sizes(desc: Padding | Padding1 | Draft) -> Mapping[str, Sequence[int]]:
    check_count_of_axes(desc, "input_tensor", ("start_padding", "end_padding"))
    parts = zip(desc.start_padding, desc.input_tensor.sizes, desc.end_padding, strict=True)
    return {"output_tensor": tuple(sum(part) for part in parts)}


def _block_area(desc: DepthToSpace | DepthToSpace1 | SpaceToDepth | SpaceToDepth1 | Draft) -> int:
    if desc.block_size < 1:
        refuse(desc, "block_size", f"must be at least 1; got {desc.block_size}")
    return int(desc.block_size) ** 2


def _depth_to_space_sizes(desc: DepthToSpace | DepthToSpace1 | Draft) -> Mapping[str, Sequence[int]]:
    area, block = _block_area(desc), desc.block_size
    batch, channels, height, width = desc.input_tensor.sizes
    if channels % area:
        rule = f"must be a multiple of BlockSize * BlockSize {area}"
        refuse(desc, "input_tensor.sizes[1]", f"{rule}; got {channels}")
    return {"output_tensor": (batch, channels // area, height * block, width * block)}


def _space_to_depth_sizes(desc: SpaceToDepth | SpaceToDepth1 | Draft) -> Mapping[str, Sequence[int]]:
    area, block = _block_area(desc), desc.block_size
    batch, channels, height, width = desc.input_tensor.sizes
    for axis, size in ((2, height), (3, width)):
        if size % block:
            refuse(desc, f"input_tensor.sizes[{axis}]", f"must be a multiple of BlockSize {block}; got {size}")
    return {"output_tensor": (batch, channels * area, height // block, width // block)}


class _Blocks(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("batch, channels, height, width")
    output_tensor: TensorDesc = tensor_output("the same with fewer channels, in blocks of pixels")
    block_size: int = unsigned_attribute("height and width of a block, in pixels")


class DepthToSpace(_Blocks):
    """Channels as blocks of pixels (DML_DEPTH_TO_SPACE_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "copies",
        "Output[n, c, h * B + i, w * B + j] = Input[n, (i * B + j) * C + c, h, w]; B is BlockSize, C the "
        "channels of the output",
        decisions=(MOVED,),
        shapes=_depth_to_space_sizes,
        moves=("input_tensor", "output_tensor"),
        support=_BLOCK_SUPPORT,
    )


class DepthToSpace1(_Blocks):
    """Channels as blocks of pixels, in either order (DML_DEPTH_TO_SPACE1_OPERATOR_DESC)."""

    order: DepthSpaceOrder = enum_attribute("how blocks lie among the channels", DepthSpaceOrder)
    declaration: ClassVar = DepthToSpace.declaration.version(
        formula="as DEPTH_TO_SPACE; with COLUMN_ROW_DEPTH from channel (c * B + i) * B + j", support=_BLOCK_SUPPORT[1:]
    )


class Padding(OperatorDesc):
    """A tensor with something around it (DML_PADDING_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is in the middle")
    output_tensor: TensorDesc = tensor_output("the same with what is around it")
    padding_mode: PaddingMode = enum_attribute(
        "what is put around it", PaddingMode, since={PaddingMode.SYMMETRIC: "3_0", PaddingMode.WRAP: "6_4"}
    )
    padding_value: float = float_attribute("what CONSTANT puts there", converted_to="output_tensor")
    dimension_count: int = count_attribute("number of dimensions")
    start_padding: Sequence[int] = unsigned_array_attribute("how many elements are put before it, along each dimension")
    end_padding: Sequence[int] = unsigned_array_attribute("how many elements are put behind it, along each dimension")
    declaration: ClassVar = Declaration(
        "copies",
        "Input in the middle; around it PaddingValue, or the nearest or mirrored elements",
        decisions=(
            "PaddingValue is converted to the tensor's data type as CAST does: truncated and saturated for integers.",
            *_PADDING_MODES,
        ),
        shapes=_padding_sizes,
        moves=("input_tensor", "output_tensor"),
        support=(
            Support("1_0", (4, 5), FLOATS),
            Support("2_1", (4, 5), TYPES_TO_32),
            Support("3_1", (1, 8), TYPES_TO_32),
            Support("5_0", (1, 8), ALL_TYPES),
        ),
    )


class Padding1(OperatorDesc):
    """A tensor with something around it, a value of its own data type perhaps (DML_PADDING1_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is in the middle")
    output_tensor: TensorDesc = tensor_output("the same with what is around it")
    padding_mode: PaddingMode = enum_attribute("what is put around it", PaddingMode, since={PaddingMode.WRAP: "6_4"})
    padding_value_data_type: Any = data_type_attribute("data type of PaddingValue", equals="output_tensor")
    padding_value: float | int = scalar_union_attribute(
        "what CONSTANT puts there", typed_by="padding_value_data_type", converted_to="output_tensor"
    )
    dimension_count: int = count_attribute("number of dimensions")
    start_padding: Sequence[int] = unsigned_array_attribute("how many elements are put before it, along each dimension")
    end_padding: Sequence[int] = unsigned_array_attribute("how many elements are put behind it, along each dimension")
    declaration: ClassVar = Padding.declaration.version(
        decisions=_PADDING_MODES, support=(Support("5_0", (1, 8), ALL_TYPES),)
    )


class SpaceToDepth(_Blocks):
    """Blocks of pixels as channels (DML_SPACE_TO_DEPTH_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the same with fewer pixels, and more channels")
    declaration: ClassVar = Declaration(
        "copies",
        "Output[n, (i * B + j) * C + c, h, w] = Input[n, c, h * B + i, w * B + j]; B is BlockSize, C the "
        "channels of the input",
        decisions=(MOVED,),
        shapes=_space_to_depth_sizes,
        moves=("input_tensor", "output_tensor"),
        support=_BLOCK_SUPPORT,
    )


class SpaceToDepth1(_Blocks):
    """Blocks of pixels as channels, in either order (DML_SPACE_TO_DEPTH1_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the same with fewer pixels, and more channels")
    order: DepthSpaceOrder = enum_attribute("how blocks lie among the channels", DepthSpaceOrder)
    declaration: ClassVar = SpaceToDepth.declaration.version(
        formula="as SPACE_TO_DEPTH; with COLUMN_ROW_DEPTH into channel (c * B + i) * B + j", support=_BLOCK_SUPPORT[1:]
    )


class Tile(OperatorDesc):
    """A tensor side by side with itself (DML_TILE_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is repeated")
    output_tensor: TensorDesc = tensor_output("it, side by side")
    repeats_count: int = count_attribute("number of Repeats")
    repeats: Sequence[int] = unsigned_array_attribute(
        "how often it lies along each dimension", counted_by="repeats_count"
    )
    declaration: ClassVar = Declaration(
        "copies",
        "Output[c] = Input[c modulo Input.Sizes]",
        decisions=(MOVED,),
        shapes=_tile_sizes,
        moves=("input_tensor", "output_tensor"),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("3_1", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), TYPES_TO_64),
        ),
    )
