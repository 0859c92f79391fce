"""The operators that move elements by sizes and attributes alone: JOIN, SPLIT and SLICE."""

from __future__ import annotations

from dmlvk.operators.words import *

_WITHOUT_BYTES = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16)

MOVED = "Elements are moved bit by bit: denormals and the payloads of NaN stay as they are."
"""What holds for every operator that moves elements."""

_SLICE_SUPPORT = (
    Support("1_0", (4, 5), _WITHOUT_BYTES),
    Support("2_1", (4, 5), TYPES_TO_32),
    Support("3_0", (1, 8), TYPES_TO_32),
    Support("4_1", (1, 8), ALL_TYPES),
)


def _check_others(desc: Described, member: str, reference: Sequence[int], axis: int, why: str) -> int:
    """Checks that a tensor agrees in all sizes but that along an axis, and returns that one."""
    check_dimension_count(desc, member, len(reference), why)
    sizes: tuple[int, ...] = tuple(tensor_of(desc, member).sizes)
    check_sizes(desc, member, (*reference[:axis], sizes[axis], *reference[axis + 1 :]), why)
    return sizes[axis]


def _join_sizes(desc: Join | Draft) -> Mapping[str, Sequence[int]]:
    tensors = desc.input_tensors
    if not tensors:
        refuse(desc, "input_count", "must be at least 1; got 0")
    axis = check_axis(desc, "axis", "input_tensors[0]")
    first = tuple(tensors[0].sizes)
    why = "as InputTensors[0] has them along other axes than Axis"
    total = sum(_check_others(desc, f"input_tensors[{i}]", first, axis, why) for i in range(len(tensors)))
    return {"output_tensor": (*first[:axis], total, *first[axis + 1 :])}


def _split_sizes(desc: Split | Draft) -> Mapping[str, Sequence[int]]:
    axis = check_axis(desc, "axis", "input_tensor")
    outputs = desc.output_tensors
    if not outputs and not desc.output_count:
        refuse(desc, "output_count", f"must be at least 1; got {desc.output_count}")
    sizes = tuple(desc.input_tensor.sizes)
    if outputs:
        why = "as InputTensor has them along other axes than Axis"
        total = sum(_check_others(desc, f"output_tensors[{i}]", sizes, axis, why) for i in range(len(outputs)))
        if total != sizes[axis]:
            refuse(desc, "output_tensors", f"must have {sizes[axis]} places along Axis {axis} together; got {total}")
        return {}
    each, left = divmod(sizes[axis], desc.output_count)
    if left:
        refuse(
            desc,
            "output_count",
            f"must divide InputTensor.Sizes[{axis}] {sizes[axis]} where no sizes are given; got {desc.output_count}",
        )
    part = (*sizes[:axis], each, *sizes[axis + 1 :])
    return {f"output_tensors[{i}]": part for i in range(desc.output_count)}


def check_count_of_axes(desc: WithCount | Draft, tensor_member: str, arrays: Sequence[str]) -> int:
    """Checks that DimensionCount is a tensor's, and that arrays have as many entries.

    Raises:
        InvalidArgumentError: when it is not, or they have not.
    """
    count = int(tensor_of(desc, tensor_member).dimension_count)
    if desc.dimension_count != count:
        name = "".join(part.capitalize() for part in tensor_member.split("_"))
        refuse(desc, "dimension_count", f"must be {name}.DimensionCount {count}; got {desc.dimension_count}")
    for member in arrays:
        values = getattr(desc, member)
        if len(values) != count:
            refuse(desc, member, f"must have {count} entries, one for each dimension; got {list(values)}")
    return count


def _slice_sizes(desc: Slice | Draft) -> Mapping[str, Sequence[int]]:
    count = check_count_of_axes(desc, "input_tensor", ("offsets", "sizes", "strides"))
    sizes = tuple(desc.input_tensor.sizes)
    for axis in range(count):
        offset, size, stride = desc.offsets[axis], desc.sizes[axis], desc.strides[axis]
        if size < 1:
            refuse(desc, f"sizes[{axis}]", f"must be at least 1; got {size}")
        if stride < 1:
            refuse(desc, f"strides[{axis}]", f"must be at least 1; got {stride}")
        last = offset + (size - 1) * stride
        if last >= sizes[axis]:
            refuse(
                desc,
                f"offsets[{axis}]",
                f"{offset} with Sizes[{axis}] {size} and Strides[{axis}] {stride} must stay below "
                f"InputTensor.Sizes[{axis}] {sizes[axis]}; the last element is at {last}",
            )
    return {"output_tensor": tuple(desc.sizes)}


def window_limits(desc: WithCount | Draft, tensor_member: str) -> tuple[int, ...]:
    """How many elements the window of a SLICE1 has at most along each axis of the tensor that it lies in.

    Raises:
        InvalidArgumentError: when the window reaches beyond the tensor, or has no elements, or a stride is 0.
    """
    arrays = ("input_window_offsets", "input_window_sizes", "input_window_strides")
    count = check_count_of_axes(desc, tensor_member, arrays)
    name = "".join(part.capitalize() for part in tensor_member.split("_"))
    sizes = tuple(tensor_of(desc, tensor_member).sizes)
    limits = []
    for axis in range(count):
        offset, size, stride = (getattr(desc, member)[axis] for member in arrays)
        if stride == 0:
            refuse(desc, f"input_window_strides[{axis}]", "must not be 0")
        if size < 1:
            refuse(desc, f"input_window_sizes[{axis}]", f"must be at least 1; got {size}")
        if offset + size > sizes[axis]:
            refuse(
                desc,
                f"input_window_sizes[{axis}]",
                f"with InputWindowOffsets[{axis}] {offset} must end within {name}.Sizes[{axis}] {sizes[axis]}; "
                f"got {size}",
            )
        limits.append(1 + (size - 1) // abs(stride))
    return tuple(limits)


def check_within_limits(desc: Described, member: str, limits: Sequence[int]) -> None:
    """Checks that a tensor has at most so many elements along each axis.

    Raises:
        InvalidArgumentError: when it has more.
    """
    check_dimension_count(desc, member, len(limits), "DimensionCount")
    for axis, (size, most) in enumerate(zip(tensor_of(desc, member).sizes, limits, strict=True)):
        if size > most:
            rule = "must be at most 1 + (InputWindowSizes - 1) / |InputWindowStrides|"
            refuse(desc, f"{member}.sizes[{axis}]", f"{rule} = {most}; got {size}")


def _slice1_sizes(desc: Slice1 | Draft) -> Mapping[str, Sequence[int]]:
    limits = window_limits(desc, "input_tensor")
    if desc.output_tensor is None:
        return {"output_tensor": limits}
    check_within_limits(desc, "output_tensor", limits)
    return {}


class Join(OperatorDesc):
    """Puts tensors one behind the other along an axis (DML_JOIN_OPERATOR_DESC)."""

    input_count: int = count_attribute("number of InputTensors")
    input_tensors: Sequence[TensorDesc] = tensor_array_input("the parts, in order", counted_by="input_count")
    output_tensor: TensorDesc = tensor_output("all of them")
    axis: int = unsigned_attribute("the axis along which they lie behind one another")
    declaration: ClassVar = Declaration(
        "copies",
        "the inputs one behind the other along Axis",
        decisions=(MOVED,),
        shapes=_join_sizes,
        moves=("input_tensors", "output_tensor"),
        support=(
            Support("1_0", (4, 4), _WITHOUT_BYTES),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("3_0", (4, 5), TYPES_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )


class Slice(OperatorDesc):
    """Every so many elements of a part of a tensor (DML_SLICE_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is cut")
    output_tensor: TensorDesc = tensor_output("the elements of the part")
    dimension_count: int = count_attribute("number of dimensions")
    offsets: Sequence[int] = unsigned_array_attribute("where the part begins, along each dimension")
    sizes: Sequence[int] = unsigned_array_attribute("how many elements of it there are, along each dimension")
    strides: Sequence[int] = unsigned_array_attribute("how far apart they lie, along each dimension; at least 1")
    declaration: ClassVar = Declaration(
        "copies",
        "Output[c] = Input[Offsets + c * Strides]",
        decisions=(MOVED, "Strides are at least 1, and no element may lie outside InputTensor."),
        shapes=_slice_sizes,
        moves=("input_tensor", "output_tensor"),
        support=_SLICE_SUPPORT,
    )


class InputWindow(OperatorDesc):
    """Elements of a part of a tensor, from either end."""

    dimension_count: int = count_attribute("number of dimensions")
    input_window_offsets: Sequence[int] = unsigned_array_attribute("where the window begins, along each dimension")
    input_window_sizes: Sequence[int] = unsigned_array_attribute("how long the window is, along each dimension")
    input_window_strides: Sequence[int] = integer_array_attribute(
        "how far apart its elements lie, along each dimension; below 0: from the window's end backwards"
    )


class Slice1(InputWindow, OneInput):
    """Every so many elements of a part of a tensor, from either end (DML_SLICE1_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is cut")
    output_tensor: TensorDesc = tensor_output("the elements of the window; may be fewer than it has")
    declaration: ClassVar = Slice.declaration.version(
        formula="Output[c] = Input[start + c * InputWindowStrides]; start is the window's first element, or its last "
        "one along dimensions whose stride is below 0",
        decisions=(
            MOVED,
            "OutputTensor may have fewer elements along a dimension than the window: the first ones are taken, from "
            "its end where the stride is below 0.",
        ),
        shapes=_slice1_sizes,
        support=_SLICE_SUPPORT[1:],
    )


class Split(OperatorDesc):
    """Cuts a tensor into parts along an axis (DML_SPLIT_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is cut")
    output_count: int = count_attribute("number of OutputTensors")
    output_tensors: Sequence[TensorDesc] = tensor_array_output("the parts, in order", counted_by="output_count")
    axis: int = unsigned_attribute("the axis along which they lie behind one another")
    declaration: ClassVar = Declaration(
        "copies",
        "the parts of the input that lie behind one another along Axis",
        decisions=(MOVED,),
        shapes=_split_sizes,
        moves=("input_tensor", "output_tensors"),
        support=(
            Support("1_0", (4, 4), _WITHOUT_BYTES),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("3_0", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )
