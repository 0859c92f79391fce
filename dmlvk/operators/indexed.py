"""The operators that move elements by indices: GATHER and its kin, SCATTER, ONE_HOT, REVERSE_SUBSEQUENCES."""

from __future__ import annotations

from dmlvk.operators.words import *

INDICES = (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
_UINT32 = (DataType.UINT32,)

NEAREST = (
    "An index outside its axis, which no program should have, counts as the nearest one inside: nothing outside of the "
    "input is ever read."
)
BITS = "Every element that is moved stays as it is, bit by bit: denormals, and NaN with its payload, too."


_SUPPORT = (
    Support("1_0", (4, 4), FLOATS, indices_tensor=_UINT32),
    Support("2_1", (4, 4), TYPES_TO_32, indices_tensor=_UINT32),
    Support("3_0", (1, 8), TYPES_TO_32, indices_tensor=INDICES),
    Support("4_1", (1, 8), ALL_TYPES, indices_tensor=INDICES),
)


def fitted(desc: Described, member: str, natural: Sequence[int], given: int, count: int) -> Sizes:
    """Sizes as an output of so many dimensions has them: right-aligned, with more or fewer leading ones.

    Args:
        member: the attribute that is refused when they do not fit.
        given: how many of the first ones come from the input, before those that the indices give.

    Raises:
        InvalidArgumentError: when more than leading ones would have to be left out.
    """
    sizes = list(natural)
    missing = count - len(sizes)
    first, others = sizes[:given], sizes[given:]
    for part in (first, others):
        while missing < 0 and part and part[0] == 1:
            del part[0]
            missing += 1
    if missing < 0:
        refuse(
            desc,
            member,
            f"must leave the output at most {count} dimensions, as many as the other tensors have; "
            f"got sizes {list(natural)}",
        )
    return (*[1] * missing, *first, *others)


def check_leading_ones(desc: Described, member: str, counted: int, what: str) -> Sizes:
    """The last sizes of a tensor, so many as an attribute says; those before must be 1.

    Raises:
        InvalidArgumentError: when one of them is not.
    """
    sizes = tuple(getattr(desc, member).sizes)
    dropped = len(sizes) - counted
    if any(size != 1 for size in sizes[:dropped]):
        refuse(desc, f"{member}.sizes", f"must be 1 before the last {counted}, which {what} keeps; got {list(sizes)}")
    return sizes[dropped:]


def _gather_shapes(desc: Gather | Draft) -> Mapping[str, Sizes]:
    count = desc.input_tensor.dimension_count
    axis = check_axis(desc, "axis", "input_tensor")
    check_dimension_count(desc, "indices_tensor", count, "as InputTensor has")
    if desc.index_dimensions > count:
        refuse(
            desc,
            "index_dimensions",
            f"must be at most IndicesTensor.DimensionCount {count}; got {desc.index_dimensions}",
        )
    indices = check_leading_ones(desc, "indices_tensor", desc.index_dimensions, "IndexDimensions")
    sizes = desc.input_tensor.sizes
    natural = (*sizes[:axis], *indices, *sizes[axis + 1 :])
    return {"output_tensor": fitted(desc, "index_dimensions", natural, axis, count)}


class Gather(OperatorDesc):
    """Takes slices of a tensor by their indices along an axis (DML_GATHER_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is taken from")
    indices_tensor: TensorDesc = tensor_input("which slices; negative ones count from the end")
    output_tensor: TensorDesc = tensor_output("the slices, where Axis was, in the shape of the indices")
    axis: int = unsigned_attribute("the axis along which the indices choose")
    index_dimensions: int = unsigned_attribute("how many of the last dimensions of IndicesTensor count")
    declaration: ClassVar = Declaration(
        "indexed",
        "output[before…, i…, after…] = input[before…, indices[i…], after…]",
        decisions=(
            NEAREST,
            BITS,
            "IndexDimensions may be as large as IndicesTensor.DimensionCount, and the sizes before those that count "
            "must be 1. Where the output would have too many dimensions, leading ones of size 1 are left out: those of "
            "the input before Axis, then those of the indices.",
        ),
        same_data_type=(("input_tensor", "output_tensor"),),
        shapes=_gather_shapes,
        support=_SUPPORT,
    )


def _gather_elements_shapes(desc: GatherElements | Draft) -> Mapping[str, Sizes]:
    axis = check_axis(desc, "axis", "input_tensor")
    check_sizes_but_for(desc, "indices_tensor", "input_tensor", axis)
    return {"output_tensor": tuple(desc.indices_tensor.sizes)}


def check_sizes_but_for(desc: Described, member: str, reference: str, axis: int) -> None:
    """Checks that a tensor has another one's sizes, of which that along an axis may differ.

    Raises:
        InvalidArgumentError: when it has others.
    """
    wanted = list(getattr(desc, reference).sizes)
    check_dimension_count(desc, member, len(wanted))
    wanted[axis] = getattr(desc, member).sizes[axis]
    check_sizes(desc, member, wanted, f"only along axis {axis} it may have another size")


class GatherElements(OperatorDesc):
    """Takes elements of a tensor by their indices along an axis (DML_GATHER_ELEMENTS_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what is taken from")
    indices_tensor: TensorDesc = tensor_input(
        "an index for each element of the output; negative ones count from the end"
    )
    output_tensor: TensorDesc = tensor_output("the elements")
    axis: int = unsigned_attribute("the axis along which the indices choose")
    declaration: ClassVar = Declaration(
        "indexed",
        "output[c] = input[c with indices[c] in the place of c[Axis]]",
        decisions=(NEAREST, BITS),
        same_data_type=(("input_tensor", "output_tensor"),),
        shapes=_gather_elements_shapes,
        support=_SUPPORT[1:],
    )


def _one_hot_shapes(desc: OneHot | Draft) -> Mapping[str, Sizes]:
    axis = check_axis(desc, "axis", "indices_tensor")
    sizes = list(desc.indices_tensor.sizes)
    check_dimension_count(desc, "values_tensor", len(sizes), "as IndicesTensor has")
    if desc.values_tensor.element_count < 2:
        refuse(desc, "values_tensor.sizes", f"must hold at least two elements; got {list(desc.values_tensor.sizes)}")
    if sizes[axis] != 1:
        refuse(desc, "indices_tensor.sizes", f"must be 1 along axis {axis}; got {sizes}")
    if desc.output_tensor is None:
        return {}
    check_dimension_count(desc, "output_tensor", len(sizes), "as IndicesTensor has")
    sizes[axis] = desc.output_tensor.sizes[axis]
    return {"output_tensor": tuple(sizes)}


class OneHot(OperatorDesc):
    """Marks the places that indices mean, along an axis (DML_ONE_HOT_OPERATOR_DESC)."""

    indices_tensor: TensorDesc = tensor_input("the marked place of each sequence; negative ones count from the end")
    values_tensor: TensorDesc = tensor_input("OffValue, then OnValue")
    output_tensor: TensorDesc = tensor_output("OnValue in the marked places, OffValue elsewhere")
    axis: int = unsigned_attribute("the axis along which the output's sequences lie")
    declaration: ClassVar = Declaration(
        "indexed",
        "output[c] = OnValue if c[Axis] = indices[c with 0 in the place of c[Axis]], else OffValue",
        decisions=(
            BITS,
            "OnValue is the second element of ValuesTensor along its last axis of a size above 1. A sequence whose "
            "index is outside of the axis is OffValue throughout.",
        ),
        same_data_type=(("values_tensor", "output_tensor"),),
        shapes=_one_hot_shapes,
        support=(Support("2_0", (4, 4), FLOATS, indices_tensor=_UINT32), *_SUPPORT[1:]),
    )


def _nd_sizes(desc: GatherNd | GatherNd1 | ScatterNd | Draft, blocks: str) -> tuple[Sizes, Sizes, Sizes]:
    """Of an operator with tuples of indices: the input's sizes that count, the indices' ones, and those of its blocks.

    Args:
        blocks: the member that has a block for each tuple.
    """
    count = desc.input_tensor.dimension_count
    check_dimension_count(desc, "indices_tensor", count, "as InputTensor has")
    for member in ("input_dimension_count", "indices_dimension_count"):
        if not 1 <= getattr(desc, member) <= count:
            refuse(desc, member, f"must be from 1 to DimensionCount {count}; got {getattr(desc, member)}")
    sizes = check_leading_ones(desc, "input_tensor", desc.input_dimension_count, "InputDimensionCount")
    indices = check_leading_ones(desc, "indices_tensor", desc.indices_dimension_count, "IndicesDimensionCount")
    batches = getattr(desc, "batch_dimension_count", None) or 0
    most = min(len(sizes), len(indices)) - 1
    if batches and batches > most:
        refuse(
            desc,
            "batch_dimension_count",
            f"must be below InputDimensionCount {len(sizes)} and IndicesDimensionCount {len(indices)}; got {batches}",
        )
    if sizes[:batches] != indices[:batches]:
        refuse(
            desc,
            "indices_tensor.sizes",
            f"must begin with InputTensor's {list(sizes[:batches])} in BatchDimensionCount {batches} dimensions; "
            f"got {list(indices[:batches])}",
        )
    if indices[-1] > len(sizes) - batches:
        refuse(
            desc,
            "indices_tensor.sizes",
            f"must end with at most {len(sizes) - batches}, the dimensions that a tuple can address; got {indices[-1]}",
        )
    natural = (*indices[:-1], *sizes[batches + indices[-1] :])
    return sizes, indices, fitted(desc, blocks, natural, len(indices) - 1, count)


def _gather_nd_shapes(desc: GatherNd | GatherNd1 | Draft) -> Mapping[str, Sizes]:
    return {"output_tensor": _nd_sizes(desc, "indices_dimension_count")[2]}


_TUPLES = (
    "The sizes before those that InputDimensionCount and IndicesDimensionCount keep must be 1. Where there would be "
    "too many dimensions, leading ones of size 1 are left out: those of the indices, then those of a block."
)


class _ByTuples(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("what is taken from")
    indices_tensor: TensorDesc = tensor_input("tuples of indices along the last axis; negative ones count from the end")
    output_tensor: TensorDesc = tensor_output("a block for each tuple")
    input_dimension_count: int = unsigned_attribute("how many of the last dimensions of InputTensor count")
    indices_dimension_count: int = unsigned_attribute("how many of the last dimensions of IndicesTensor count")


class GatherNd(_ByTuples):
    """Takes blocks of a tensor by tuples of indices (DML_GATHER_ND_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "indexed",
        "output[i…, rest…] = input[indices[i…, :], rest…]",
        decisions=(NEAREST, BITS, _TUPLES),
        same_data_type=(("input_tensor", "output_tensor"),),
        shapes=_gather_nd_shapes,
        support=_SUPPORT[1:],
    )


class GatherNd1(_ByTuples):
    """Takes blocks of each of several tensors by tuples of indices (DML_GATHER_ND1_OPERATOR_DESC)."""

    batch_dimension_count: int = unsigned_attribute("how many of the first of these dimensions both have in common")
    declaration: ClassVar = GatherNd.declaration.version(
        formula="output[batch…, i…, rest…] = input[batch…, indices[batch…, i…, :], rest…]", support=_SUPPORT[2:]
    )


_LAST = (
    "Of several updates whose indices mean the same place the last one wins, in the order of the indices' elements "
    "with the last axis fastest. An update with an index outside of its axis changes nothing."
)


def _scatter_shapes(desc: Scatter | Draft) -> Mapping[str, Sizes]:
    axis = check_axis(desc, "axis", "input_tensor")
    check_sizes_but_for(desc, "indices_tensor", "input_tensor", axis)
    check_sizes(desc, "updates_tensor", desc.indices_tensor.sizes, "as IndicesTensor has")
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


class Scatter(OperatorDesc):
    """Puts elements where indices along an axis say (DML_SCATTER_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what stays where nothing is put")
    indices_tensor: TensorDesc = tensor_input("where each update is put; negative ones count from the end")
    updates_tensor: TensorDesc = tensor_input("what is put")
    output_tensor: TensorDesc = tensor_output("the input with the updates")
    axis: int = unsigned_attribute("the axis along which the indices choose")
    declaration: ClassVar = Declaration(
        "indexed",
        "output = input; then output[c with indices[c] in the place of c[Axis]] = updates[c] for all c",
        decisions=(_LAST, BITS),
        same_data_type=(("input_tensor", "updates_tensor", "output_tensor"),),
        shapes=_scatter_shapes,
        support=_SUPPORT,
    )


def _scatter_nd_shapes(desc: ScatterNd | Draft) -> Mapping[str, Sizes]:
    check_sizes(desc, "updates_tensor", _nd_sizes(desc, "indices_dimension_count")[2], "a block for each tuple")
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


class ScatterNd(OperatorDesc):
    """Puts blocks where tuples of indices say (DML_SCATTER_ND_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("what stays where nothing is put")
    indices_tensor: TensorDesc = tensor_input("tuples of indices along the last axis; negative ones count from the end")
    updates_tensor: TensorDesc = tensor_input("a block for each tuple")
    output_tensor: TensorDesc = tensor_output("the input with the updates")
    input_dimension_count: int = unsigned_attribute("how many of the last dimensions of InputTensor count")
    indices_dimension_count: int = unsigned_attribute("how many of the last dimensions of IndicesTensor count")
    declaration: ClassVar = Declaration(
        "indexed",
        "output = input; then output[indices[i…, :], rest…] = updates[i…, rest…] for all i",
        decisions=(_LAST, BITS, _TUPLES),
        same_data_type=(("input_tensor", "updates_tensor", "output_tensor"),),
        shapes=_scatter_nd_shapes,
        support=_SUPPORT[1:],
    )


def _reverse_shapes(desc: ReverseSubsequences | Draft) -> Mapping[str, Sizes]:
    axis = check_axis(desc, "axis", "input_tensor")
    wanted = list(desc.input_tensor.sizes)
    wanted[axis] = 1
    check_sizes(desc, "sequence_lengths_tensor", wanted, f"a length for each sequence along axis {axis}")
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


class ReverseSubsequences(OperatorDesc):
    """Puts the first elements of each sequence in opposite order (DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the sequences")
    sequence_lengths_tensor: TensorDesc = tensor_input("how many elements of each sequence are reversed")
    output_tensor: TensorDesc = tensor_output("the sequences, each with its first elements reversed")
    axis: int = unsigned_attribute("the axis along which the sequences lie")
    declaration: ClassVar = Declaration(
        "indexed",
        "output[…, i, …] = input[…, length - 1 - i, …] where i < length, else input[…, i, …]",
        decisions=("A length above the size of the axis, as a number of 64 bits too, counts as that size.", BITS),
        same_data_type=(("input_tensor", "output_tensor"),),
        shapes=_reverse_shapes,
        support=(
            Support("2_1", (4, 4), TYPES_TO_32, sequence_lengths_tensor=_UINT32),
            Support("3_0", (4, 5), TYPES_TO_32, sequence_lengths_tensor=_UINT32),
            Support("4_0", (1, 8), TYPES_TO_32, sequence_lengths_tensor=_UINT32),
            Support("5_0", (1, 8), ALL_TYPES, sequence_lengths_tensor=(DataType.UINT64, DataType.UINT32)),
        ),
    )
