"""Operators that move and choose elements of any type. Where NumPy has a view of the same memory, it is the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx import helper, numpy_helper

from dmlvk.onnx.host.evaluation.call import LENGTHS, MASKS, Array, Call, NotComputed, checked_axis, computes
from dmlvk.onnx.host.evaluation.random_numbers import trained

_NO_BOUND = (2**31 - 1, 2**63 - 1)  # Ends of Slice that stand for no end


@computes("Identity", of_sizes=True, counts=LENGTHS)
def identity(call: Call) -> object:
    return call.inputs[0]


@computes("Constant")
def constant(call: Call) -> Array:
    if len(call.proto.attribute) != 1:
        raise ValueError(f"needs one attribute; it has {len(call.proto.attribute)}")
    attribute = call.proto.attribute[0]
    value = helper.get_attribute_value(attribute)
    match attribute.name:
        case "value":
            return numpy_helper.to_array(value)
        case "value_int":
            return np.array(value, np.int64)
        case "value_ints":
            return np.array(value, np.int64).reshape(-1)
        case "value_float":
            return np.array(value, np.float32)
        case "value_floats":
            return np.array(value, np.float32).reshape(-1)
        case "value_string":
            return np.array(value.decode(), object)
        case "value_strings":
            return np.array([text.decode() for text in value], object)
    raise NotComputed(f"the attribute {attribute.name}")


@computes("ConstantOfShape", counts=MASKS)
def constant_of_shape(call: Call) -> Array:
    """One element, everywhere: a view of it."""
    shape = call.array(0)
    if shape.ndim != 1 or shape.dtype != np.int64:
        raise ValueError(f"needs a list of INT64; got {shape.dtype} of {shape.ndim} dimensions")
    given = call.attribute("value")
    value = np.zeros(1, np.float32) if given is None else numpy_helper.to_array(given)
    if value.size != 1:
        raise ValueError(f"its value has {value.size} elements")
    return np.broadcast_to(value.reshape(()), call.checked_shape(shape.tolist(), value.dtype))


@computes("Dropout", since=7, draws=3)
def dropout(call: Call) -> tuple[Array, ...]:
    """Without training nothing is left out."""
    if call.has(2) and bool(call.array(2).reshape(-1).any()):
        return trained(call)
    if call.wants(1) and call.version < 12:
        raise NotComputed("the mask of version 11 and before")
    return call.array(0), np.broadcast_to(np.array(True), call.array(0).shape)


# Shapes.


@computes("Shape", counts=LENGTHS, of_shape=True)
def shape_of(call: Call) -> Array:
    array = call.array(0)
    end = call.attribute("end")
    return np.array(array.shape, np.int64)[call.integer("start", 0) : array.ndim if end is None else int(end)]


@computes("Size", counts=LENGTHS, of_shape=True)
def size_of(call: Call) -> Array:
    return np.array(call.array(0).size, np.int64)


@computes("Reshape", of_sizes=True, counts=LENGTHS)
def reshape(call: Call) -> Array:
    """The same elements in order; 0: the input's size, -1: what is left."""
    array = call.array(0)
    given = call.list("shape") if call.version < 5 else call.integers(1)
    sizes = list(given or ())
    if not call.integer("allowzero", 0):
        for axis, size in enumerate(sizes):
            if size == 0:
                if axis >= array.ndim:
                    raise ValueError(f"the shape {sizes} keeps a size that {list(array.shape)} does not have")
                sizes[axis] = array.shape[axis]
    if min(sizes, default=0) < -1:  # which NumPy would take for -1
        raise ValueError(f"the shape {sizes} has a size below -1")
    if -1 in sizes and 0 in sizes and call.integer("allowzero", 0):
        raise ValueError(f"the shape {sizes} has both 0 and -1")
    return array.reshape(sizes)


@computes("Flatten", of_sizes=True, counts=MASKS)
def flatten(call: Call) -> Array:
    array = call.array(0)
    axis = call.integer("axis", 1)
    if not -array.ndim <= axis <= array.ndim:
        raise ValueError(f"the axis {axis} is not among {array.ndim} dimensions")
    axis = axis + array.ndim if axis < 0 else axis
    return array.reshape(math.prod(array.shape[:axis]), math.prod(array.shape[axis:]))


@computes("Squeeze", of_sizes=True, counts=LENGTHS)
def squeeze(call: Call) -> Array:
    """Without some axes of size 1."""
    array = call.array(0)
    given = call.list("axes") if call.version < 13 else (call.integers(1) if call.has(1) else None)
    if given is None:
        return array.reshape([size for size in array.shape if size != 1])
    return np.squeeze(array, tuple(checked_axis(axis, array.ndim) for axis in given))


@computes("Unsqueeze", of_sizes=True, counts=LENGTHS)
def unsqueeze(call: Call) -> Array:
    """With new axes of size 1."""
    array = call.array(0)
    given = (call.list("axes") or []) if call.version < 13 else call.integers(1)
    rank = array.ndim + len(given)
    axes = {checked_axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise ValueError(f"the axes {given} name one twice")
    sizes = iter(array.shape)
    return array.reshape(call.checked_shape([1 if axis in axes else next(sizes) for axis in range(rank)], array.dtype))


@computes("Transpose", of_sizes=True, counts=MASKS)
def transpose(call: Call) -> Array:
    array = call.array(0)
    return np.transpose(array, call.list("perm"))


@computes("Expand", of_sizes=True, counts=LENGTHS)
def expand(call: Call) -> Array:
    """Repeated along axes of size 1."""
    array = call.array(0)
    wanted = call.checked_shape(call.integers(1), array.dtype)
    shape = np.broadcast_shapes(array.shape, wanted)
    return np.broadcast_to(array, call.checked_shape(shape, array.dtype))


@computes("Tile", since=6, of_sizes=True, counts=MASKS, grows=True)
def tile(call: Call) -> Array:
    """Repeated along each axis."""
    array = call.array(0)
    repeats = call.integers(1)
    if len(repeats) != array.ndim:
        raise ValueError(f"{len(repeats)} repeats for {array.ndim} dimensions")
    call.checked_shape([size * count for size, count in zip(array.shape, repeats, strict=True)], array.dtype)
    return np.tile(array, repeats)


# Together and apart.


@computes("Concat", of_sizes=True, counts=LENGTHS)
def concat(call: Call) -> Array:
    """Behind one another along an axis."""
    arrays = call.arrays()
    default = 1 if call.version < 4 else 0
    axis = checked_axis(call.integer("axis", default), arrays[0].ndim)
    if len({array.dtype for array in arrays}) > 1:
        raise ValueError(f"its inputs have the types {[str(array.dtype) for array in arrays]}")
    return np.concatenate(arrays, axis)


@computes("Split", since=2, of_sizes=True, counts=MASKS)
def split(call: Call) -> tuple[Array, ...]:
    array = call.array(0)
    axis = call.axis(array.ndim)
    count = len(call.proto.output)
    given = call.list("split") if call.version < 13 else (call.integers(1) if call.has(1) else None)
    length = array.shape[axis]
    if given is None and call.version >= 18:
        wanted = call.integer("num_outputs", count)
        part = -(-length // wanted)
        given = [part] * (wanted - 1) + [length - part * (wanted - 1)]
    elif given is None:
        if length % count:
            raise ValueError(f"{length} elements do not divide into {count} parts")
        given = [length // count] * count
    if len(given) != count or sum(given) != length or min(given, default=0) < 0:
        raise ValueError(f"the parts {given} are not {length} elements in {count} outputs")
    bounds = np.cumsum(given)[:-1]
    return tuple(np.split(array, bounds, axis))


@computes("Slice", of_sizes=True, counts=LENGTHS)
def slices(call: Call) -> Array:
    """Every n-th element from one to another, along some axes."""
    array = call.array(0)
    if call.version < 10:
        starts, ends = call.list("starts") or [], call.list("ends") or []
        axes, steps = call.list("axes"), None
    else:
        starts, ends = call.integers(1), call.integers(2)
        axes = call.integers(3) if call.has(3) else None
        steps = call.integers(4) if call.has(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dimension = checked_axis(axis, array.ndim)
        if step == 0:
            raise ValueError("a step of 0")
        first, count = clipped_slice(start, end, step, array.shape[dimension])
        last = first + count * step
        index[dimension] = slice(first, last if last >= 0 else None, step) if count else slice(0, 0)
    return array[tuple(index)]


def clipped_slice(start: Any, end: Any, step: int, size: Any) -> tuple[Any, Any]:
    """The elements that Slice takes along an axis: the first index, and how many there are.

    Unlike Python's, a start before the first one is the first one; and backwards an end without bound, too, is behind
    the last element that is taken, as ONNX Runtime has it. Bounds and size may follow from open sizes.

    Args:
        start: from here on; negative numbers count from the end.
        step: not 0.
    """
    if step < 0 and any(end == bound for bound in _NO_BOUND):
        end = -size - 1
    first, last = (bound + size if bound < 0 else bound for bound in (start, end))
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)
    first = highest if first > highest else first if first > 0 else 0
    last = highest if last > highest else last if last > lowest else lowest
    count = -(-(last - first) // step) if step > 0 else -(-(first - last) // -step)
    return first, count if count > 0 else 0


@computes("Pad", counts=MASKS, grows=True)
def pad(call: Call) -> Array:
    """With more elements, or fewer, on both sides of each axis."""
    array = call.array(0)
    mode = call.text("mode", "constant")
    axes = list(range(array.ndim))
    if call.version < 11:
        given = call.list("pads") if call.version >= 2 else call.list("paddings")
        counts = list(given or ())
        value: Any = np.array(call.attribute("value") or 0).astype(array.dtype)
    else:
        counts = call.integers(1)
        value = call.array(2).reshape(-1)[0] if call.has(2) and call.array(2).size else np.zeros((), array.dtype)[()]
        if array.dtype.kind in "OU" and not call.has(2):
            value = ""
        if call.has(3):
            axes = [checked_axis(axis, array.ndim) for axis in call.integers(3)]
    if len(counts) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise ValueError(f"{len(counts)} numbers of elements for {len(axes)} axes")
    widths = [(0, 0)] * array.ndim
    for index, axis in enumerate(axes):
        widths[axis] = (counts[index], counts[index + len(axes)])
    sizes = [size + before + after for (before, after), size in zip(widths, array.shape, strict=True)]
    if not array.size and mode == "constant" and min(sizes) >= 0:  # of nothing, nothing is taken away
        return np.full(call.checked_shape(sizes, array.dtype), value, array.dtype)
    slices = tuple(
        slice(max(-before, 0), size - max(-after, 0)) for (before, after), size in zip(widths, array.shape, strict=True)
    )
    if any(part.stop < part.start for part in slices):
        raise ValueError(f"{counts} takes more away than there is in {list(array.shape)}")
    kept = array[slices]
    more = [(max(before, 0), max(after, 0)) for before, after in widths]
    call.checked_shape([size + sum(pair) for size, pair in zip(kept.shape, more, strict=True)], array.dtype)
    if mode == "constant":
        return np.pad(kept, more, constant_values=value)
    if mode not in ("edge", "reflect", "wrap") or any(count < 0 for count in counts):
        raise NotComputed(f"mode {mode}, {counts}")
    if mode == "reflect" and any(max(pair) >= max(size, 1) for size, pair in zip(kept.shape, more, strict=True)):
        raise NotComputed("reflects more than there is")
    made: Array = np.pad(kept, more, cast("Any", mode))
    return made


# Chosen by indices.


def _checked_indices(indices: Array, size: int) -> Array:
    if indices.dtype.kind not in "iu":
        raise NotComputed(f"indices of {indices.dtype}")
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise ValueError(f"an index lies outside of {size} elements: they go from {indices.min()} to {indices.max()}")
    return np.where(indices < 0, indices + size, indices).astype(np.int64)


@computes("Gather", of_sizes=True, counts=LENGTHS)
def gather(call: Call) -> Array:
    """Slices along an axis."""
    array, indices = call.array(0), call.array(1)
    axis = call.axis(array.ndim)
    call.checked_shape((*array.shape[:axis], *indices.shape, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, _checked_indices(indices, array.shape[axis]), axis)


@computes("GatherElements", counts=MASKS)
def gather_elements(call: Call) -> Array:
    """One element for each index; the indices may be fewer than the elements along every axis."""
    array, indices = call.array(0), call.array(1)
    axis = call.axis(array.ndim)
    grid = _grid(array, indices, axis)
    return np.asarray(array[grid])


def _grid(array: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """Where each index points."""
    if indices.ndim != array.ndim:
        raise ValueError(f"indices of {indices.ndim} dimensions for {array.ndim}")
    for index, (size, count) in enumerate(zip(array.shape, indices.shape, strict=True)):
        if index != axis and count > size:
            raise ValueError(f"{count} indices along an axis of {size} elements")
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis] = _checked_indices(indices, array.shape[axis])
    return tuple(grid)


@computes("ScatterElements", counts=MASKS)
@computes("Scatter")
def scatter_elements(call: Call) -> Array:
    array, indices, updates = (call.array(index) for index in range(3))
    if indices.shape != updates.shape:
        raise NotComputed("updates of another shape")
    made = array.copy()
    axis = call.axis(array.ndim)
    grid = tuple(np.broadcast_to(part, indices.shape).reshape(-1) for part in _grid(array, indices, axis))
    _assign(call, made, grid, updates.reshape(-1))
    return made


_REDUCTIONS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _assign(call: Call, made: Array, grid: tuple[Array, ...], updates: Array) -> None:
    """Updates come one after the other, as NumPy documents it: the last of several of one place holds.

    With a reduction it is what that gives of the update and of what is there, each time rounded to the elements' type.
    """
    reduction = call.text("reduction", "none")
    if reduction == "none":
        made[grid] = updates
        return
    if reduction not in _REDUCTIONS or made.dtype.kind not in "biuf" or updates.dtype != made.dtype:
        raise NotComputed(f"the reduction {reduction!r} of {updates.dtype} into {made.dtype}")
    places, values = np.arange(made.size).reshape(made.shape)[grid].reshape(-1), updates.reshape(-1)
    found = made.reshape(-1)  # the same memory: a copy has no gaps
    if reduction in ("max", "min") and made.dtype.kind == "f":
        places, values = _behind_nan(found, places, values, -np.inf if reduction == "max" else np.inf)
    with np.errstate(all="ignore"):
        _REDUCTIONS[reduction].at(found, places, values)


def _behind_nan(found: Array, places: Array, values: Array, least: float) -> tuple[Array, Array]:
    """The updates that count in a maximum or minimum, where a place forgets at each NaN what it had.

    That is ONNX Runtime's ``a > b ? a : b``. A place with NaN before updates that count has ``least`` from here on.
    """
    last = np.full(found.size, -1)
    number = np.arange(values.size)
    np.maximum.at(last, places, np.where(np.isnan(values), number, -1))
    found[last >= 0] = np.nan
    counts = number > last[places]
    places, values = places[counts], values[counts]
    found[places] = np.where(np.isnan(found[places]), found.dtype.type(least), found[places])
    return places, values


def _tuples(indices: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    return tuple(_checked_indices(indices[..., index], size) for index, size in enumerate(shape))


@computes("GatherND", counts=MASKS)
def gather_nd(call: Call) -> Array:
    """Slices, each named by a tuple of indices."""
    array, indices = call.array(0), call.array(1)
    batch = call.integer("batch_dims", 0)
    if not 0 <= batch < min(array.ndim, indices.ndim) or array.shape[:batch] != indices.shape[:batch]:
        raise ValueError(f"{batch} leading axes in common of {list(array.shape)} and {list(indices.shape)}")
    depth = indices.shape[-1]
    if not depth <= array.ndim - batch:
        raise ValueError(f"tuples of {depth} indices for {array.ndim - batch} axes")
    shape = call.checked_shape((*indices.shape[:-1], *array.shape[batch + depth :]), array.dtype)
    leading = [
        part.reshape(part.shape + (1,) * (indices.ndim - 1 - batch))
        for part in (np.indices(indices.shape[:batch], sparse=True) if batch else ())
    ]
    index = (*leading, *_tuples(indices, array.shape[batch : batch + depth]))
    return np.broadcast_to(array[index], shape)  # tuples of no indices name all of it


@computes("ScatterND", counts=MASKS)
def scatter_nd(call: Call) -> Array:
    array, indices, updates = (call.array(index) for index in range(3))
    depth = indices.shape[-1] if indices.ndim else -1
    if not 0 <= depth <= array.ndim or updates.shape != (*indices.shape[:-1], *array.shape[depth:]):
        raise ValueError(f"updates of {list(updates.shape)} for indices of {list(indices.shape)}")
    made, count = array.copy(), math.prod(indices.shape[:-1])
    grid = (part.reshape(-1) for part in _tuples(indices, array.shape[:depth]))
    whole = np.zeros(count, np.intp)  # tuples of no indices name all of it
    _assign(call, made[np.newaxis], (whole, *grid), updates.reshape(count, *array.shape[depth:]))
    return made


@computes("Where", of_sizes=True, counts=LENGTHS)
def where(call: Call) -> Array:
    condition, a, b = (call.array(index) for index in range(3))
    if condition.dtype != np.bool_ or a.dtype != b.dtype:
        raise ValueError(f"its inputs have the types {condition.dtype}, {a.dtype} and {b.dtype}")
    call.checked_shape(np.broadcast_shapes(condition.shape, a.shape, b.shape), a.dtype)
    return np.where(condition, a, b)


@computes("Compress")
def compress(call: Call) -> Array:
    """The slices, or the elements, that a condition holds for."""
    array, condition = call.array(0), call.array(1)
    if condition.ndim != 1 or condition.dtype != np.bool_:
        raise ValueError(f"needs a list of BOOL; got {condition.dtype} of {condition.ndim} dimensions")
    axis = None if call.attribute("axis") is None else call.axis(array.ndim)
    length = array.size if axis is None else array.shape[axis]
    return np.compress(condition[:length], array, axis)


@computes("NonZero")
def non_zero(call: Call) -> Array:
    array = call.array(0)
    if array.ndim == 0:
        raise NotComputed("a scalar")
    return np.stack(np.nonzero(array)).astype(np.int64)


@computes("Trilu", counts=MASKS)
def trilu(call: Call) -> Array:
    """The triangle above or below a diagonal."""
    array = call.array(0)
    if array.ndim < 2:
        raise ValueError(f"needs matrices; got {array.ndim} dimensions")
    offset = call.integer_input(1) if call.has(1) else 0
    rows, columns = array.shape[-2:]
    distances = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = distances >= offset if call.integer("upper", 1) else distances <= offset
    return np.where(kept, array, np.zeros((), array.dtype))


@computes("EyeLike", of_shape=True)
def eye_like(call: Call) -> Array:
    array = call.array(0)
    given = call.attribute("dtype")
    if array.ndim != 2:
        raise ValueError(f"needs a matrix; got {array.ndim} dimensions")
    dtype = array.dtype if given is None else np.dtype(helper.tensor_dtype_to_np_dtype(int(given)))
    rows, columns = call.checked_shape(array.shape, dtype)
    return np.eye(rows, columns, call.integer("k", 0), dtype)


@computes("OneHot", since=9)
def one_hot(call: Call) -> Array:
    """One element differs along a new axis; an index outside names none."""
    indices, values = call.array(0), call.array(2)
    depth = call.array(1).reshape(-1)
    if values.shape != (2,) or depth.size != 1:
        raise ValueError(f"needs one depth and two values; got {depth.size} and {values.size}")
    if indices.dtype.kind not in "iu":
        raise NotComputed(f"indices of {indices.dtype}")
    count = int(depth[0])
    axis = checked_axis(call.integer("axis", -1), indices.ndim + 1)
    call.checked_shape((*indices.shape, count), values.dtype)
    there = np.where(indices < 0, indices.astype(np.int64) + count, indices.astype(np.int64))
    positions = np.arange(count).reshape((count,) + (1,) * (indices.ndim - axis))
    return np.where(np.expand_dims(there, axis) == positions, values[1], values[0])


@computes("DepthToSpace")
def depth_to_space(call: Call) -> Array:
    """Channels become places."""
    array, block = call.array(0), call.integer("blocksize")
    if array.ndim != 4 or block < 1 or array.shape[1] % block**2:
        raise ValueError(f"blocks of {block} in {list(array.shape)}")
    n, channels, height, width = array.shape
    depth = channels // block**2
    if call.text("mode", "DCR") == "DCR":
        parts = array.reshape(n, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = array.reshape(n, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, depth, height * block, width * block)


@computes("SpaceToDepth")
def space_to_depth(call: Call) -> Array:
    """Places become channels."""
    array, block = call.array(0), call.integer("blocksize")
    if array.ndim != 4 or block < 1 or array.shape[2] % block or array.shape[3] % block or call.is_given("mode"):
        raise NotComputed(f"blocks of {block} in {list(array.shape)}")
    n, depth, height, width = array.shape
    parts = array.reshape(n, depth, height // block, block, width // block, block).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, depth * block**2, height // block, width // block)


@computes("ReverseSequence")
def reverse_sequence(call: Call) -> Array:
    array, lengths = call.array(0), call.integers(1)
    batch, time = call.axis(array.ndim, "batch_axis", 1), call.axis(array.ndim, "time_axis", 0)
    if batch == time or len(lengths) != array.shape[batch]:
        raise ValueError(f"{len(lengths)} lengths along the axis {batch} of {list(array.shape)}")
    if any(not 0 <= length <= array.shape[time] for length in lengths):
        raise ValueError(f"lengths of {min(lengths)} to {max(lengths)} in {array.shape[time]} elements")
    made = array.copy()
    rows = np.moveaxis(made, (batch, time), (0, 1))
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    return made


@computes("MaxUnpool")
def unpool(call: Call) -> Array:
    """Each element at the place that MaxPool took it from, in a result that may be larger than that of its windows."""
    array, indices = call.array(0), call.array(1)
    window, axes = call.list("kernel_shape") or [], array.ndim - 2
    strides, pads = call.list("strides") or [1] * axes, call.list("pads") or [0] * (2 * axes)
    if indices.shape != array.shape or not len(window) == len(strides) == len(pads) // 2 == axes:
        raise ValueError(f"windows of {window} for {list(array.shape)}, indices of {list(indices.shape)}")
    sizes = [
        step * (size - 1) + width - pads[axis] - pads[axes + axis]
        for axis, (size, width, step) in enumerate(zip(array.shape[2:], window, strides, strict=True))
    ]
    whole = [*array.shape[:2], *sizes]
    shape = call.integers(2) if call.has(2) else whole
    if len(shape) != len(whole) or any(wanted < size for wanted, size in zip(shape, whole, strict=True)):
        raise ValueError(f"the shape {shape} has no place for {whole}")
    made = np.zeros(call.checked_shape(whole, array.dtype), array.dtype)
    made.reshape(-1)[_checked_indices(indices.reshape(-1), made.size)] = array.reshape(-1)
    call.checked_shape(shape, array.dtype)
    return np.pad(made, [(0, wanted - size) for wanted, size in zip(shape, whole, strict=True)])
