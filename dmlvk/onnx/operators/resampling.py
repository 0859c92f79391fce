"""Resize and Upsample: scales and pixel offsets for RESAMPLE2."""

from __future__ import annotations

import dataclasses

from dmlvk.onnx.assembly import New
from dmlvk.onnx.translation import Node, translates
from dmlvk.onnx.values import NotOnDevice

_NEAREST, _LINEAR = 0, 1  # DML_INTERPOLATION_MODE
_CEILING, _FLOOR = 0, 1  # DML_AXIS_DIRECTION: where NEAREST takes a coordinate between two pixels

_ROUNDINGS = {
    "floor": (_FLOOR, 0.0),
    "ceil": (_CEILING, 0.0),
    "round_prefer_floor": (_CEILING, 0.5),  # the ceiling of x - 1/2
    "round_prefer_ceil": (_FLOOR, -0.5),  # the floor of x + 1/2
}
"""How NEAREST rounds: the direction, and what is taken from the coordinate before."""


@dataclasses.dataclass(frozen=True)
class _Axis:
    """How coordinates of the output become those of the input: (x - output) / scale - input."""

    scale: float
    input: float = 0.0
    output: float = 0.0


@translates("Resize", "Upsample", by=["RESAMPLE2"], note="cubic, antialiased, and regions beyond the edges: host")
def resize(node: Node) -> None:
    """Nearest and linear, every way to count coordinates."""
    tensor, output = node.tensor(0), node.new()
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear", "trilinear"):
        raise NotOnDevice(f"the mode {mode!r}")
    if node.integer("exclude_outside"):
        raise NotOnDevice("exclude_outside")
    transformation, rounding = _conventions(node)
    scales = _scales(node, tensor.shape, output.shape)
    if node.integer("antialias") and min(scales, default=1.0) < 1 and mode != "nearest":
        raise NotOnDevice("antialiasing, whose weights at the edges are others than DirectML's")
    regions = _regions(node, tensor.rank) if transformation == "tf_crop_and_resize" else [(0.0, 1.0)] * tensor.rank
    axes = [
        _axis(transformation, length, out, scale, region)
        for length, out, scale, region in zip(tensor.shape, output.shape, scales, regions, strict=True)
    ]
    direction, less = _ROUNDINGS[rounding] if mode == "nearest" else (_FLOOR, 0.0)
    node.set(
        node.apply(
            "RESAMPLE2",
            input_tensor=tensor,
            output_tensor=New(tensor.element, output.shape),
            interpolation_mode=_NEAREST if mode == "nearest" else _LINEAR,
            rounding_direction=direction,
            dimension_count=tensor.rank,
            scales=[axis.scale for axis in axes],
            input_pixel_offsets=[axis.input + less for axis in axes],
            output_pixel_offsets=[axis.output for axis in axes],
        )
    )


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
    """The scale of every axis, as it is given or as the sizes make it."""
    axes = _axes(node, len(shape))
    scales = [1.0] * len(shape)
    place = 1 if node.op_type == "Upsample" or node.version < 11 else 2
    if node.op_type == "Upsample" and node.version < 9:
        given = [float(scale) for scale in node.attribute("scales") or []]
    else:
        given = [float(scale) for scale in node.array(place).reshape(-1)] if node.has(place) else []
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
    for place, axis in enumerate(axes):
        start, end = given[place], given[place + len(axes)]
        if not 0 <= start < end <= 1:
            raise NotOnDevice("a region beyond the edges, or backwards")
        regions[axis] = (start, end)
    return regions


def _axis(transformation: str, length: int, out: int, scale: float, region: tuple[float, float]) -> _Axis:
    """Scale and offsets of one axis."""
    if length == out and scale == 1 and region == (0.0, 1.0) and transformation != "tf_half_pixel_for_nn":
        return _Axis(1.0)
    if transformation == "half_pixel" or (transformation == "pytorch_half_pixel" and out > 1):
        return _Axis(scale, 0.5, -0.5)
    if transformation == "pytorch_half_pixel":
        return _Axis(scale)
    if transformation == "asymmetric":
        return _Axis(scale)
    if transformation == "align_corners":
        return _Axis((scale * length - 1) / (length - 1) if out > 1 and length > 1 else 1.0)
    if transformation == "half_pixel_symmetric":
        shift = length / 2 * (1 - out / (length * scale))
        return _Axis(scale, 0.5 - shift, -0.5)
    if transformation == "tf_half_pixel_for_nn":
        return _Axis(scale, 0.0, -0.5)
    if transformation == "tf_crop_and_resize":
        start, end = region
        if out > 1 and length > 1:
            return _Axis((out - 1) / ((end - start) * (length - 1)), -start * (length - 1))
        return _Axis(1.0, -0.5 * (start + end) * (length - 1))
    raise NotOnDevice(f"coordinate_transformation_mode {transformation!r}")
