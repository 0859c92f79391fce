"""Copies: parts, joins, pads, repetitions, gathering and scattering, casts."""

from __future__ import annotations

import itertools
import math

import numpy as np
from onnx import TensorProto

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.onnx.host.evaluation.movement import clipped_slice
from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.matrix import largest_operand
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import DATA_TYPES, NotOnDevice, Tensor, element_name

_PADDING_MODES = {"constant": 0, "edge": 1, "reflect": 2, "wrap": 4}  # DML_PADDING_MODE
_DEPTH_COLUMN_ROW, _COLUMN_ROW_DEPTH = 0, 1  # DML_DEPTH_SPACE_ORDER
_MOST_TURNED = 2**12  # Places of a part up to which a list of them costs less than a copy


@translates("Concat", by=["JOIN"], batch=batches.joined)
def concat(node: Node) -> None:
    """Inputs without elements are left out."""
    axis = node.axis(node.integer("axis", 1), len(node.shape(0)))
    tensors = [node.tensor(index) for index in range(node.input_count) if 0 not in node.shape(index)]
    if not tensors:
        raise NotOnDevice("DirectML has no tensors without elements")
    if len(tensors) == 1:
        node.set(tensors[0])
        return
    if (turned := _turned(node, tensors, axis)) is not None:
        node.set(turned)
        return
    node.set(node.apply("JOIN", input_tensors=tensors, axis=axis))


def _turned(node: Node, tensors: list[Tensor], axis: int) -> Tensor | None:
    """Parts of one tensor along the axis, gathered from it: what is behind them before what is before them, as
    ``torch.roll`` has it, is a copy less. ``None``: they are other parts.
    """
    cuts = [node.assembly.cut(tensor) for tensor in tensors]
    whole = None if cuts[0] is None else cuts[0][0]
    indices: list[int] = []
    for cut in cuts:
        if whole is None or cut is None or (cut[0].source, cut[0].strides) != (whole.source, whole.strides):
            return None
        desc = cut[1]
        windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
        for number, (first, size, step) in enumerate(windows):
            if number == axis and step > 0 and size <= _MOST_TURNED:
                indices += range(first, first + size, step)
            elif number == axis or (first, size, step) != (0, whole.shape[number], 1):
                return None
    assert whole is not None
    lines = node.assembly.constant(np.array(indices, np.int64), TensorProto.INT64)
    return node.apply(
        "GATHER",
        input_tensor=whole,
        indices_tensor=lines.viewed((1,) * (whole.rank - 1) + (len(indices),)),
        axis=axis,
        index_dimensions=1,
    )


@translates("Split", by=["SPLIT"], batch=batches.along_an_axis(0))
def split(node: Node) -> None:
    """Sizes are an attribute, an input that is known, or equal parts."""
    sizes = (node.integers(1) if node.has(1) else None) if node.version >= 13 else node.list("split")
    tensor = node.tensor(0)
    axis, count = node.axis(node.integer("axis"), tensor.rank), node.output_count
    if sizes is None:
        count = node.integer("num_outputs", count)
        each = -(-tensor.shape[axis] // count)
        sizes = [each] * (count - 1) + [tensor.shape[axis] - each * (count - 1)]
    if len(sizes) != node.output_count:
        raise NotOnDevice(f"{len(sizes)} parts in {node.output_count} outputs")
    outputs = [New(tensor.element, (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])) for size in sizes]
    made = node.apply_all("SPLIT", input_tensor=tensor, output_tensors=outputs, axis=axis)
    for index, part in enumerate(made):
        node.set(part, index)


@translates("Slice", by=["SLICE1"], batch=batches.outside_of_axes(3))
def part(node: Node) -> None:
    tensor = node.tensor(0)
    if node.version >= 10:
        starts, ends = node.integers(1), node.integers(2)
        axes = node.integers(3) if node.has(3) else list(range(len(starts)))
        steps = node.integers(4) if node.has(4) else [1] * len(starts)
    else:
        starts, ends = node.list("starts") or [], node.list("ends") or []
        axes, steps = node.list("axes") or list(range(len(starts))), [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise NotOnDevice("starts, ends, axes and steps must have one length")
    offsets, sizes, strides = [0] * tensor.rank, list(tensor.shape), [1] * tensor.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        number = node.axis(axis, tensor.rank)
        if step == 0:
            raise NotOnDevice("a step of 0")
        first, count = clipped_slice(start, end, step, tensor.shape[number])
        if count == 0:
            raise NotOnDevice("DirectML has no tensors without elements")
        last = first + (count - 1) * step
        low, high = (first, last) if step > 0 else (last, first)
        offsets[number], sizes[number], strides[number] = low, high - low + 1, step
    is_whole = not is_dynamic(tensor.shape) and list(tensor.shape) == sizes and set(strides) == {1}
    node.set(tensor if is_whole else sliced(node, tensor, offsets, sizes, strides))


def sliced(node: Node, tensor: Tensor, offsets: list[int], sizes: list[int], strides: list[int]) -> Tensor:
    """SLICE1: the windows' elements, each so many steps from the last; those of a part come from its whole."""
    cut = node.assembly.cut(tensor)
    if cut is not None and min(strides, default=1) > 0 and min(cut[1].input_window_strides, default=1) > 0:
        tensor, desc = cut
        steps = list(desc.input_window_strides)
        offsets = [
            before + offset * step
            for before, offset, step in zip(desc.input_window_offsets, offsets, steps, strict=True)
        ]
        sizes = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)]
        strides = [stride * step for stride, step in zip(strides, steps, strict=True)]
    return node.apply(
        "SLICE1",
        input_tensor=tensor,
        input_window_offsets=offsets,
        input_window_sizes=sizes,
        input_window_strides=strides,
    )


@translates("Cast", batch=batches.elementwise)
@translates("CastLike")
def cast(node: Node) -> None:
    """BOOL is what differs from 0."""
    tensor = node.tensor(0)
    if node.op_type == "CastLike":
        target = node.element(1)
    else:
        target = node.integer("to")
    if target not in DATA_TYPES:
        raise NotOnDevice(f"the device has no {element_name(target)}")
    node.set(converted(node, tensor, target))


def converted(node: Node, tensor: Tensor, target: int) -> Tensor:
    """Another type; to BOOL by comparison with 0."""
    if tensor.element == target:
        return tensor
    if target == TensorProto.BOOL:
        return ~tensor.equals(0)
    if tensor.element == TensorProto.BOOL and target == TensorProto.UINT8:
        return tensor.viewed(tensor.shape, tensor.strides, target)
    return node.cast(tensor, target)


@translates("Pad", by=["PADDING1"])
def pad(node: Node) -> None:
    """Pads and the value are known; negative pads cut off first."""
    tensor = node.tensor(0)
    mode = node.text("mode", "constant")
    if mode not in _PADDING_MODES:
        raise NotOnDevice(f"the mode {mode!r}")
    if node.version >= 11:
        pads = node.integers(1)
        value = node.array(2).reshape(-1)[0].item() if node.has(2) else 0
        axes = [node.axis(axis, tensor.rank) for axis in node.integers(3)] if node.has(3) else list(range(tensor.rank))
    else:
        pads, value, axes = node.list("pads") or [], node.real("value"), list(range(tensor.rank))
    if len(pads) != 2 * len(axes):
        raise NotOnDevice(f"{len(pads)} pads do not fit {len(axes)} axes")
    start, end = [0] * tensor.rank, [0] * tensor.rank
    for position, axis in enumerate(axes):
        start[axis], end[axis] = pads[position], pads[position + len(axes)]
    node.set(padded(node, tensor, start, end, mode, int(value) if isinstance(value, bool) else value))


def padded(
    node: Node, tensor: Tensor, start: list[int], end: list[int], mode: str = "constant", value: float = 0
) -> Tensor:
    """PADDING1 by so many elements before and behind each axis; negative numbers cut off first."""
    if min((*start, *end), default=0) < 0:
        offsets = [max(0, -before) for before in start]
        sizes = [
            size - max(0, -before) - max(0, -after)
            for size, before, after in zip(tensor.shape, start, end, strict=True)
        ]
        if min(sizes) < 1:
            raise NotOnDevice("nothing is left of the tensor")
        tensor = sliced(node, tensor, offsets, sizes, [1] * tensor.rank)
        start, end = [max(0, before) for before in start], [max(0, after) for after in end]
    if not any((*start, *end)):
        return tensor
    return node.apply(
        "PADDING1",
        input_tensor=tensor,
        padding_mode=_PADDING_MODES[mode],
        padding_value_data_type=tensor.data_type,
        padding_value=value,
        start_padding=start,
        end_padding=end,
    )


@translates("CenterCropPad", by=["SLICE1", "PADDING1"])
def center_crop_pad(node: Node) -> None:
    """Of an odd number of elements, one more is cut off or added behind than before."""
    tensor, sizes, axes = node.tensor(0), node.integers(1), node.list("axes")
    chosen = list(range(tensor.rank)) if axes is None else [node.axis(axis, tensor.rank) for axis in axes]
    if len(sizes) != len(chosen) or min(sizes, default=1) < 1:
        raise NotOnDevice(f"the sizes {sizes} do not fit {len(chosen)} axes")
    start, end = [0] * tensor.rank, [0] * tensor.rank
    for axis, size in zip(chosen, sizes, strict=True):
        more = size - tensor.shape[axis]
        start[axis] = more // 2 if more >= 0 else -(-more // 2)
        end[axis] = more - start[axis]
    node.set(padded(node, tensor, start, end))


@translates("Tile", by=["TILE"])
def tile(node: Node) -> None:
    tensor, repeats = node.tensor(0), node.integers(1)
    node.set(node.apply("TILE", input_tensor=tensor, repeats=repeats))


def _indices(node: Node, index: int) -> Tensor:
    tensor = node.tensor(index)
    if tensor.element not in (TensorProto.INT32, TensorProto.INT64):
        raise NotOnDevice(f"indices of {element_name(tensor.element)}")
    return tensor


def _check_known(node: Node, index: int, size: int) -> None:
    """Refuses constant indices beyond an axis, which the host names; those that are computed count as the nearest one.

    Raises:
        NotOnDevice: when there is such an index.
    """
    known = node.known(index)
    if known is None or known.size == 0:
        return
    low, high = int(known.min()), int(known.max())
    if low < -size or high >= size:
        raise NotOnDevice(f"the index {high if high >= size else low} is beyond the {size} elements of its axis")


@translates("Gather", by=["GATHER"], batch=batches.gathered, rows_along="axis")
def gather(node: Node) -> None:
    """Whole slices; negative indices count from the end."""
    tensor, indices = node.tensor(0), _indices(node, 1)
    axis = node.axis(node.integer("axis"), tensor.rank)
    _check_known(node, 1, tensor.shape[axis])
    if axis == 0 and tensor.rank > 1 and is_beyond_a_buffer(node, tensor):
        node.set(gathered_of_parts(node, tensor, indices).viewed((*indices.shape, *tensor.shape[1:])))
        return
    if indices.rank or tensor.is_packed or is_dynamic((*tensor.shape, *tensor.strides)):
        node.set(_gathered(node, tensor, indices, axis))
        return
    # One of several that lie behind one another, as queries beside keys: what is left keeps its order in memory.
    order = sorted(range(tensor.rank), key=lambda each: tensor.strides[each], reverse=True)
    left = [each for each in order if each != axis]
    made = _gathered(node, tensor.transposed(order), indices, order.index(axis))
    node.set(made.transposed([left.index(each) for each in sorted(left)]))


def _gathered(node: Node, tensor: Tensor, indices: Tensor, axis: int) -> Tensor:
    shape = (*tensor.shape[:axis], *indices.shape, *tensor.shape[axis + 1 :])
    rank = max(tensor.rank, indices.rank, len(shape), 1)
    lead = rank - tensor.rank
    made = node.apply(
        "GATHER",
        input_tensor=_leading(tensor, rank),
        indices_tensor=_leading(indices, rank),
        axis=axis + lead,
        index_dimensions=indices.rank,
    )
    return made.viewed(shape)


def is_beyond_a_buffer(node: Node, table: Tensor) -> bool:
    """Whether a table is a constant that is larger than what a kernel may be given, and can be taken in parts."""
    source = table.source
    return source.array is not None and table.is_packed and source.size_in_bytes > largest_operand(node)


def gathered_of_parts(node: Node, table: Tensor, indices: Tensor) -> Tensor:
    """Slices of a constant that is larger than what a kernel may be given: of each part one, of which the right counts.

    Returns:
        [indices, elements of a slice].
    """
    rows, columns, count = table.shape[0], math.prod(table.shape[1:]), math.prod(indices.shape)
    parts = -(-table.source.size_in_bytes // largest_operand(node))
    lines = table.viewed((rows, columns))

    chosen = node.cast(node.packed(indices), TensorProto.INT32).viewed((1, count))
    chosen = (chosen < 0).where(chosen + rows, chosen)
    made: Tensor | None = None
    for start, stop in itertools.pairwise(rows * part // parts for part in range(parts + 1)):
        found = node.apply(
            "GATHER",
            input_tensor=node.assembly.part(lines, 0, start, stop),
            indices_tensor=chosen - start,
            axis=0,
            index_dimensions=1,
        )
        made = found if made is None else (chosen < start).viewed((count, 1)).where(made, found)
    assert made is not None  # there are parts
    return made


def _leading(tensor: Tensor, rank: int) -> Tensor:
    missing = rank - tensor.rank
    return tensor.viewed((1,) * missing + tensor.shape, (0,) * missing + tensor.strides)


@translates("GatherElements", by=["GATHER_ELEMENTS"])
def gather_elements(node: Node) -> None:
    """Single elements along an axis; indices may stop short along the others."""
    tensor, indices = node.tensor(0), _indices(node, 1)
    axis = node.axis(node.integer("axis"), tensor.rank)
    if indices.rank != tensor.rank:
        raise NotOnDevice(f"indices of {indices.rank} axes for {tensor.rank}")
    _check_known(node, 1, tensor.shape[axis])
    seen = [size if index == axis else indices.shape[index] for index, size in enumerate(tensor.shape)]
    if any(part > size for part, size in zip(seen, tensor.shape, strict=True)):
        raise NotOnDevice(f"indices of {list(indices.shape)} for {list(tensor.shape)}")
    tensor = tensor.viewed(seen, tensor.strides)
    node.set(node.apply("GATHER_ELEMENTS", input_tensor=tensor, indices_tensor=indices, axis=axis))


def _tuples(node: Node, most: int) -> Tensor:
    """Indices of which the last axis goes through those of one element; plans are for the length that it has."""
    indices = _indices(node, 1)
    length = next((length for length in range(1, most + 1) if indices.shape[-1] == length), indices.shape[-1])
    return indices.viewed((*indices.shape[:-1], length), indices.strides)


@translates("GatherND", by=["GATHER_ND1"])
def gather_nd(node: Node) -> None:
    """Slices by several indices each."""
    tensor, indices, batch = node.tensor(0), _tuples(node, node.tensor(0).rank), node.integer("batch_dims")
    shape = (*indices.shape[:-1], *tensor.shape[batch + indices.shape[-1] :])
    rank = max(tensor.rank, indices.rank, len(shape), 1)
    made = node.apply(
        "GATHER_ND1",
        input_tensor=_leading(tensor, rank),
        indices_tensor=_leading(indices, rank),
        input_dimension_count=tensor.rank,
        indices_dimension_count=indices.rank,
        batch_dimension_count=batch,
    )
    node.set(made.viewed(shape))


@translates("Scatter", "ScatterElements", by=["SCATTER"], note="with a reduction, or fewer indices than elements: host")
def scatter(node: Node) -> None:
    """Single elements along an axis, without a reduction."""
    if node.text("reduction", "none") != "none":
        raise NotOnDevice("a reduction of what is scattered")
    tensor, indices = node.tensor(0), _indices(node, 1)
    node.set(
        node.apply(
            "SCATTER",
            input_tensor=tensor,
            indices_tensor=indices,
            updates_tensor=node.tensor(2),
            axis=node.axis(node.integer("axis"), tensor.rank),
        )
    )


@translates("ScatterND", by=["SCATTER_ND"], note="with a reduction: host")
def scatter_nd(node: Node) -> None:
    """Slices by several indices each, without a reduction."""
    if node.text("reduction", "none") != "none":
        raise NotOnDevice("a reduction of what is scattered")
    tensor, indices, updates = node.tensor(0), _tuples(node, node.tensor(0).rank), node.tensor(2)
    rank = max(tensor.rank, indices.rank, updates.rank)
    made = node.apply(
        "SCATTER_ND",
        input_tensor=_leading(tensor, rank),
        indices_tensor=_leading(indices, rank),
        updates_tensor=_leading(updates, rank),
        input_dimension_count=tensor.rank,
        indices_dimension_count=indices.rank,
    )
    node.set(made.viewed(tensor.shape))


@translates("OneHot", by=["ONE_HOT"])
def one_hot(node: Node) -> None:
    """The depth is known; indices that are not integers go to the host."""
    indices, values, depth = _indices(node, 0), node.tensor(2), int(node.array(1).reshape(-1)[0])
    axis = node.axis(node.integer("axis", -1), indices.rank + 1)
    node.set(
        node.apply(
            "ONE_HOT",
            indices_tensor=indices.with_axis(axis),
            values_tensor=_leading(values, indices.rank + 1),
            output_tensor=New(values.element, (*indices.shape[:axis], depth, *indices.shape[axis:])),
            axis=axis,
        )
    )


@translates("DepthToSpace", by=["DEPTH_TO_SPACE1"], batch=batches.each_picture)
def depth_to_space(node: Node) -> None:
    """Modes DCR and CRD."""
    _set_blocks(node, "DEPTH_TO_SPACE1")


@translates("SpaceToDepth", by=["SPACE_TO_DEPTH1"], batch=batches.each_picture)
def space_to_depth(node: Node) -> None:
    """Blocks become channels."""
    _set_blocks(node, "SPACE_TO_DEPTH1")


def _set_blocks(node: Node, operator: str) -> None:
    order = _COLUMN_ROW_DEPTH if node.text("mode", "DCR") == "CRD" else _DEPTH_COLUMN_ROW
    size = node.integer("blocksize")
    node.set(node.apply(operator, input_tensor=node.tensor(0), block_size=size, order=order))


@translates("Trilu", by=["DIAGONAL_MATRIX1"])
@translates("Trilu", by=["DIAGONAL_MATRIX1"], domain=MICROSOFT)
def triangle(node: Node) -> None:
    """The upper or the lower triangle of each matrix; the rest becomes 0."""
    tensor = node.tensor(0)
    shift = int(node.array(1).reshape(-1)[0]) if node.has(1) else 0
    rows, columns = tensor.shape[-2:]
    bounds = (-rows, shift) if node.integer("upper", 1) else (shift + 1, columns)
    low, high = max(-rows, min(columns, bounds[0])), max(-rows, min(columns, bounds[1]))
    if low >= high:
        node.set(tensor)
        return
    batch = math.prod(tensor.shape[:-2])
    seen = node.reshaped(tensor, (1, batch, rows, columns))
    made = node.apply(
        "DIAGONAL_MATRIX1",
        input_tensor=seen,
        value_data_type=tensor.data_type,
        value=0,
        diagonal_fill_begin=low,
        diagonal_fill_end=high,
    )
    node.set(made.viewed(tensor.shape))


@translates("ReverseSequence", by=["REVERSE_SUBSEQUENCES"])
def reverse_sequence(node: Node) -> None:
    """Each sequence's first elements, as many as its length says, in the opposite order."""
    tensor, lengths = node.tensor(0), node.tensor(1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis")
    shape = tuple(size if axis == batch else 1 for axis, size in enumerate(tensor.shape))
    wanted = tuple(1 if axis == time else size for axis, size in enumerate(tensor.shape))
    node.set(
        node.apply(
            "REVERSE_SUBSEQUENCES",
            input_tensor=tensor,
            sequence_lengths_tensor=lengths.viewed(shape, element=TensorProto.UINT64).broadcast(wanted),
            axis=time,
        )
    )


@translates("BiasAdd", by=["ELEMENT_WISE_ADD"], domain=MICROSOFT)
def bias_add(node: Node) -> None:
    """The input, a bias along the last axis, and what is skipped, added."""
    added = node.tensor(0) + node.tensor(1)
    node.set(added + node.tensor(2))


@translates("Col2Im", by=["FOLD"], note="of FLOAT types")
def col2im(node: Node) -> None:
    """Blocks added up where they come from; what lies in the padding is left out."""
    tensor, image, block = node.tensor(0), node.integers(1), node.integers(2)
    node.check_element(0, *FLOATS)
    rank = len(image)
    pads = node.list("pads") or [0] * 2 * rank
    strides, dilations = node.list("strides") or [1] * rank, node.list("dilations") or [1] * rank
    if tensor.rank != 3 or not len(block) == len(strides) == len(dilations) == len(pads) // 2 == rank:
        raise NotOnDevice("an input {N, C * block, L}, and as many numbers in every attribute as the image has axes")
    if min(pads) < 0 or min(*block, *image) < 1 or tensor.shape[1] % math.prod(block):
        raise NotOnDevice("a negative padding, or channels that are no multiple of the block")
    node.set(
        node.apply(
            "FOLD",
            input_tensor=tensor,
            output_tensor=New(tensor.element, (tensor.shape[0], tensor.shape[1] // math.prod(block), *image)),
            window_sizes=block,
            strides=strides,
            dilations=dilations,
            start_padding=pads[:rank],
            end_padding=pads[rank:],
        )
    )
