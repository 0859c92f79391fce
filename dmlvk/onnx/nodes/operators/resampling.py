"""Resize and Upsample: scales and pixel offsets for RESAMPLE2, and what it does not do by weighed elements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import Array, NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import MOST_WEIGHED_TAPS

_MOST_TAPS = 2**24  # Elements that count along an axis, for all places together

_MOST_GATHERED = 2**24  # Elements that are gathered at once, where a single tap does not take more


@dataclasses.dataclass(frozen=True)
class FilterTaps:
    """How far a place looks, and how it weighs what it sees."""

    mode: str  # ``"nearest"``, ``"linear"`` or ``"cubic"``
    cubic: float = -0.75  # Keys' parameter
    antialias: bool = False  # whether shrinking widens it
    exclude_outside: bool = False  # whether elements beyond the edges count nothing, instead of as those at the edges


@dataclasses.dataclass(frozen=True)
class Taps:
    """What an axis becomes: for each place of the output elements of the input and their weights."""

    indices: Array  # places of the output by elements
    weights: Array  # likewise


def taps_of(kernel: FilterTaps, positions: Array, length: int, scale: float) -> Taps:
    """The taps of an axis.

    Args:
        positions: of the output's elements among the input's, in FLOAT64; rounded already for ``"nearest"``.
        scale: by what it is stretched.

    Raises:
        NotOnDevice: when more elements count for a place than any picture has.
    """
    if kernel.mode == "nearest":
        return Taps(np.clip(positions, 0, length - 1).astype(np.int64)[:, None], np.ones((len(positions), 1)))
    reach = 1 if kernel.mode == "linear" else 2
    shrink = min(scale, 1.0) if kernel.antialias else 1.0
    if 2 * reach * len(positions) > _MOST_TAPS * shrink:
        raise NotOnDevice(f"{len(positions)} elements of a size times {scale}: too many count for each of them")
    first = math.floor(-reach / shrink) + 1
    base = np.ceil(positions) - 1  # so that the place lies behind it, or on the next one
    steps = np.arange(first, 2 - first)
    distances = np.abs((steps[None, :] - (positions - base)[:, None]) * shrink)
    weights = np.clip(1 - distances, 0, 1) if kernel.mode == "linear" else _keys(distances, kernel.cubic)
    indices = base[:, None] + steps[None, :]
    if kernel.exclude_outside:
        weights = np.where((indices >= 0) & (indices < length), weights, 0.0)
    if kernel.exclude_outside or kernel.antialias:
        sums = weights.sum(1, keepdims=True)
        weights = weights / np.where(sums == 0, 1, sums)
    return Taps(np.clip(indices, 0, length - 1).astype(np.int64), weights)


def _keys(distances: Array, a: float) -> Array:
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = a * (((distances - 5) * distances + 8) * distances - 4)
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))


def resampled(node: Node, tensor: Tensor, axes: Sequence[tuple[int, Taps]], element: int) -> Tensor:
    """A tensor whose axes are resampled, those that shrink most first.

    Args:
        element: ONNX's data type of the result; between axes it is FLOAT, but where all are single elements.
    """
    ordered = sorted(axes, key=lambda item: len(item[1].indices) / tensor.shape[item[0]])
    for number, (axis, taps) in enumerate(ordered, start=1):
        tensor = _along(node, tensor, axis, taps, element if number == len(ordered) else TensorProto.FLOAT)
    return node.cast(tensor, element)


def _along(node: Node, tensor: Tensor, axis: int, taps: Taps, element: int) -> Tensor:
    out, count = taps.indices.shape
    if count == 1 and np.all(taps.weights == 1):
        return _gathered(node, tensor, axis, taps.indices).without_axes([axis + 1])
    others = math.prod(tensor.shape) // tensor.shape[axis]
    group = max(_MOST_GATHERED // max(others * out, 1), 1)
    if count <= MOST_WEIGHED_TAPS:
        return _weighed_at_once(node, tensor, axis, taps, min(group, count), element)
    return _in_groups(node, node.cast(tensor, TensorProto.FLOAT), axis, taps, group)


def _weighed_at_once(node: Node, tensor: Tensor, axis: int, taps: Taps, group: int, element: int) -> Tensor:
    """One kernel gathers, weighs and adds, in the order of groups."""
    outer, inner = math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis + 1 :])
    made = node.apply(
        "WEIGHED_TAPS",
        input_tensor=node.packed(tensor).viewed((outer, tensor.shape[axis], inner)),
        index_tensor=node.assembly.constant(taps.indices.astype(np.uint32), TensorProto.UINT32),
        weight_tensor=node.assembly.constant(taps.weights.astype(np.float32), TensorProto.FLOAT),
        output_tensor=New(element, (outer, len(taps.indices), inner)),
        group=group,
    )
    return made.viewed((*tensor.shape[:axis], len(taps.indices), *tensor.shape[axis + 1 :]))


def _in_groups(node: Node, tensor: Tensor, axis: int, taps: Taps, group: int) -> Tensor:
    """Groups of taps are gathered into an axis of their own, weighed, and summed."""
    count = taps.indices.shape[1]
    total: Tensor | None = None
    for start in range(0, count, group):
        indices, weights = taps.indices[:, start : start + group], taps.weights[:, start : start + group]
        found = _weighed(node, _gathered(node, tensor, axis, indices), axis, weights)
        total = found if total is None else total + found
    assert total is not None  # a place has at least one tap
    return total


def _gathered(node: Node, tensor: Tensor, axis: int, indices: Array) -> Tensor:
    """The elements with an axis for the taps behind the one that they come from."""
    constant = node.assembly.constant(np.ascontiguousarray(indices.reshape(-1)), TensorProto.INT64)
    flat = node.apply(
        "GATHER",
        input_tensor=tensor,
        indices_tensor=constant.viewed((1,) * (tensor.rank - 1) + (indices.size,)),
        axis=axis,
        index_dimensions=1,
    )
    return flat.viewed((*tensor.shape[:axis], *indices.shape, *tensor.shape[axis + 1 :]))


def _weighed(node: Node, found: Tensor, axis: int, weights: Array) -> Tensor:
    """The sums along the axis of the taps."""
    shape = tuple(size if position in (axis, axis + 1) else 1 for position, size in enumerate(found.shape))
    numbers = np.ascontiguousarray(weights.astype(np.float32).reshape(shape))
    products = found * node.assembly.constant(numbers, TensorProto.FLOAT)
    return reduced(node, ReduceFunction.SUM, products, [axis + 1]).without_axes([axis + 1])


_NEAREST, _LINEAR = 0, 1  # DML_INTERPOLATION_MODE
_CEILING, _FLOOR = 0, 1  # DML_AXIS_DIRECTION: where NEAREST takes a coordinate between two pixels

_ROUNDINGS = {
    "floor": (_FLOOR, 0.0),
    "ceil": (_CEILING, 0.0),
    "round_prefer_floor": (_CEILING, 0.5),  # the ceiling of x - 1/2
    "round_prefer_ceil": (_FLOOR, -0.5),  # the floor of x + 1/2
}
"""How NEAREST rounds: the direction, and what is taken from the coordinate before."""

_MOST_AXES = 4  # Of a tensor that RESAMPLE2 takes

_LONGEST = 2**22  # Elements along an axis of which the host computes places

_ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda positions: np.ceil(positions - 0.5),
    "round_prefer_ceil": lambda positions: np.floor(positions + 0.5),
}
"""The same of places that the host computes."""


@dataclasses.dataclass(frozen=True)
class _CoordinateMap:
    """How coordinates of the output become those of the input: (x - output) / scale - input."""

    scale: float
    input: float = 0.0
    output: float = 0.0


@dataclasses.dataclass(frozen=True)
class _ResizeRequest:
    mode: str  # ``"nearest"``, ``"linear"`` or ``"cubic"``
    transformation: str  # how coordinates are counted
    rounding: str  # how nearest rounds
    shape: tuple[int, ...]  # of the input
    output: tuple[int, ...]  # of the output
    scales: list[float]  # of every axis
    regions: list[tuple[float, float]]  # of every axis, from 0 to 1
    axes: list[int]  # those that the node names

    def rests(self, axis: int) -> bool:
        """Whether an axis stays as it is."""
        is_same = self.shape[axis] == self.output[axis] and self.scales[axis] == 1
        return is_same and self.regions[axis] == (0.0, 1.0) and self.transformation != "tf_half_pixel_for_nn"

    def folded(self) -> _ResizeRequest:
        """The same with neighbouring axes that stay as they are as one."""
        shape: list[int] = []
        output: list[int] = []
        scales: list[float] = []
        regions: list[tuple[float, float]] = []
        follows = False
        for axis, size in enumerate(self.shape):
            if follows and self.rests(axis):
                shape[-1], output[-1] = shape[-1] * size, output[-1] * size
                continue
            follows = self.rests(axis)
            shape.append(size)
            output.append(self.output[axis])
            scales.append(self.scales[axis])
            regions.append(self.regions[axis])
        axes = list(range(len(shape)))
        return dataclasses.replace(
            self, shape=tuple(shape), output=tuple(output), scales=scales, regions=regions, axes=axes
        )


@translates(
    "Resize",
    "Upsample",
    by=["RESAMPLE2"],
    note="cubic, antialiased and cropped ones of FLOAT types by weighed elements",
    batch=batches.resized,
    reads_sizes=True,
)
def resize(node: Node) -> None:
    """Nearest, linear and cubic, every way to count coordinates."""
    tensor = node.tensor(0)
    output = _output(node, tensor)
    mode = {"bilinear": "linear", "trilinear": "linear"}.get(said := node.text("mode", "nearest"), said)
    if mode not in ("nearest", "linear", "cubic"):
        raise NotOnDevice(f"the mode {mode!r}")
    transformation, rounding = _conventions(node)
    scales = _scales(node, tensor.shape, output)
    is_cropped = transformation == "tf_crop_and_resize"
    regions = _regions(node, tensor.rank) if is_cropped else [(0.0, 1.0)] * tensor.rank
    axes = _axes(node, tensor.rank)
    asked = _ResizeRequest(mode, transformation, rounding, tensor.shape, output, scales, regions, axes)
    if tensor.rank > _MOST_AXES:
        asked = asked.folded()
        tensor = node.reshaped(tensor, asked.shape)
    shrinks = mode != "nearest" and node.integer("antialias") and min(scales, default=1.0) < 1
    is_beyond = any(not 0 <= start < end <= 1 for start, end in regions)
    if mode == "cubic" or node.integer("exclude_outside") or shrinks or is_beyond or tensor.rank > _MOST_AXES:
        made = _by_taps(node, tensor, asked)
    else:
        made = _by_resample(node, tensor, asked)
    node.set(node.reshaped(made, output))


def _output(node: Node, tensor: Tensor) -> tuple[int, ...]:
    """Sizes, or sizes times factors, rounded as ONNX Runtime does; all else as ONNX infers it."""
    index = 1 if node.op_type == "Upsample" or node.version < 11 else 2
    is_plain = node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    if is_plain and index == 2 and node.has(3) and node.attribute("axes") is None:
        return tuple(node.integers(3))
    factors, axes = node.known(index), _axes(node, tensor.rank)
    if not is_plain or factors is None or factors.size != len(axes):
        return node.inferred().shape
    output = list(tensor.shape)
    for axis, factor in zip(axes, factors.reshape(-1).tolist(), strict=True):
        size = output[axis]
        is_whole = factor == int(factor)
        output[axis] = size * int(factor) if is_whole else int(np.float32(int(size)) * np.float32(factor))
    return tuple(output)


def _by_resample(node: Node, tensor: Tensor, asked: _ResizeRequest) -> Tensor:
    axes = [
        _axis(asked.transformation, length, out, scale, region)
        for length, out, scale, region in zip(tensor.shape, asked.output, asked.scales, asked.regions, strict=True)
    ]
    direction, less = _ROUNDINGS[asked.rounding] if asked.mode == "nearest" else (_FLOOR, 0.0)
    return node.apply(
        "RESAMPLE2",
        input_tensor=tensor,
        output_tensor=New(tensor.element, asked.output),
        interpolation_mode=_NEAREST if asked.mode == "nearest" else _LINEAR,
        rounding_direction=direction,
        scales=[axis.scale for axis in axes],
        input_pixel_offsets=[axis.input + less for axis in axes],
        output_pixel_offsets=[axis.output for axis in axes],
    )


def _by_taps(node: Node, tensor: Tensor, asked: _ResizeRequest) -> Tensor:
    """One axis after the other, in FLOAT32; beyond a region is extrapolation_value."""
    is_plain = asked.mode == "nearest" and asked.transformation != "tf_crop_and_resize"
    if not is_plain:
        node.check_element(0, *FLOATS)
    antialias, outside = bool(node.integer("antialias")), bool(node.integer("exclude_outside"))
    kernel = FilterTaps(asked.mode, node.real("cubic_coeff_a", -0.75), antialias, outside)
    wanted = []
    beyond = np.zeros((1,) * tensor.rank, np.bool_)
    if max(asked.output, default=0) > _LONGEST:
        raise NotOnDevice(f"more than {_LONGEST} elements along an axis")
    for axis in asked.axes:
        length, out, scale = tensor.shape[axis], asked.output[axis], asked.scales[axis]
        if asked.rests(axis):
            continue
        positions = _positions(asked.transformation, length, out, scale, asked.regions[axis])
        if asked.transformation == "tf_crop_and_resize":
            is_beyond = (positions < 0) | (positions > length - 1)
            beyond = beyond | is_beyond.reshape([out if index == axis else 1 for index in range(tensor.rank)])
        if asked.mode == "nearest":
            positions = _ROUNDED[asked.rounding](positions)
        wanted.append((axis, taps_of(kernel, positions, length, scale)))
    element = TensorProto.FLOAT if beyond.any() else tensor.element
    made = resampled(node, tensor, wanted, element)
    if beyond.any():
        value = node.scalar(node.real("extrapolation_value"), TensorProto.FLOAT)
        made = node.assembly.constant(beyond, TensorProto.BOOL).where(value, made)
    return node.cast(made, tensor.element)


def _positions(transformation: str, length: int, out: int, scale: float, region: tuple[float, float]) -> Array:
    """The place of each element of the output among the input's."""
    x, whole = np.arange(out, dtype=np.float64), scale * length
    if transformation == "align_corners":
        return np.zeros(out) if whole == 1 else x * (length - 1) / (whole - 1)
    if transformation == "half_pixel_symmetric":
        return length / 2 * (1 - out / whole) + (x + 0.5) / scale - 0.5
    if transformation == "tf_crop_and_resize":
        start, end = (np.float32(bound) for bound in region)
        last = np.float32(length - 1)
        if out == 1:
            return np.full(out, np.float32(0.5) * (start + end) * last, np.float64)
        # In FLOAT32 and in this order, as ONNX Runtime has it: which element is nearest may depend on the last bit.
        within = x.astype(np.float32) * (end - start) * last / np.float32(out - 1)
        return np.asarray(start * last + within, np.float64)
    axis = _axis(transformation, length, out, scale, region)
    return (x - axis.output) / axis.scale - axis.input


def _conventions(node: Node) -> tuple[str, str]:
    """How coordinates are counted, and how nearest rounds; both are attributes from version 11 on."""
    if node.op_type == "Upsample" or node.version < 11:
        return "asymmetric", "floor"
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if rounding not in _ROUNDINGS:
        raise NotOnDevice(f"nearest_mode {rounding!r}")
    return node.text("coordinate_transformation_mode", "half_pixel"), rounding


def _axes(node: Node, rank: int) -> list[int]:
    named = node.list("axes")
    return list(range(rank)) if named is None else [node.axis(axis, rank) for axis in named]


def _scales(node: Node, shape: tuple[int, ...], output: tuple[int, ...]) -> list[float]:
    axes = _axes(node, len(shape))
    scales = [1.0] * len(shape)
    index = 1 if node.op_type == "Upsample" or node.version < 11 else 2
    if node.op_type == "Upsample" and node.version < 9:
        given = node.reals("scales")
    else:
        given = [float(scale) for scale in node.array(index).reshape(-1)] if node.has(index) else []
    if given:
        if len(given) != len(axes) or min(given) <= 0:
            raise NotOnDevice(f"scales {given} do not fit {len(axes)} axes")
        for axis, scale in zip(axes, given, strict=True):
            scales[axis] = scale
        return scales
    sizes = node.integers(3)
    if len(sizes) != len(axes) or min(sizes, default=1) < 1:
        raise NotOnDevice(f"sizes {sizes} do not fit {len(axes)} axes")
    wanted = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        wanted = [min(wanted) if policy == "not_larger" else max(wanted)] * len(axes)
    for axis, scale in zip(axes, wanted, strict=True):
        scales[axis] = scale
    if policy == "stretch" and any(output[axis] != size for axis, size in zip(axes, sizes, strict=True)):
        raise NotOnDevice("sizes that are not the output's")
    return scales


def _regions(node: Node, rank: int) -> list[tuple[float, float]]:
    """The part of each axis that tf_crop_and_resize takes, from 0 to 1."""
    given = [float(bound) for bound in node.array(1).reshape(-1)]
    axes = _axes(node, rank)
    if len(given) != 2 * len(axes):
        raise NotOnDevice(f"a region of {len(given)} bounds for {len(axes)} axes")
    regions = [(0.0, 1.0)] * rank
    for index, axis in enumerate(axes):
        regions[axis] = given[index], given[index + len(axes)]
    return regions


def _axis(transformation: str, length: int, out: int, scale: float, region: tuple[float, float]) -> _CoordinateMap:
    if length == out and scale == 1 and region == (0.0, 1.0) and transformation != "tf_half_pixel_for_nn":
        return _CoordinateMap(1.0)
    if transformation == "half_pixel" or (transformation == "pytorch_half_pixel" and out > 1):
        return _CoordinateMap(scale, 0.5, -0.5)
    if transformation == "pytorch_half_pixel":
        return _CoordinateMap(scale)
    if transformation == "asymmetric":
        return _CoordinateMap(scale)
    if transformation == "align_corners":
        return _CoordinateMap((scale * length - 1) / (length - 1) if out > 1 and length > 1 else 1.0)
    if transformation == "half_pixel_symmetric":
        shift = length / 2 * (1 - out / (length * scale))
        return _CoordinateMap(scale, 0.5 - shift, -0.5)
    if transformation == "tf_half_pixel_for_nn":
        return _CoordinateMap(scale, 0.0, -0.5)
    if transformation == "tf_crop_and_resize":
        start, end = region
        if out > 1 and length > 1:
            return _CoordinateMap((out - 1) / ((end - start) * (length - 1)), -start * (length - 1))
        return _CoordinateMap(1.0, -0.5 * (start + end) * (length - 1))
    raise NotOnDevice(f"coordinate_transformation_mode {transformation!r}")
