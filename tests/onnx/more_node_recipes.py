"""Single nodes at random: what moves, chooses, resamples and quantizes, networks with steps, ONNX Runtime's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from tests.onnx.node_recipes import F16, F32, F64, FLOATS, INTEGERS, Array, Draw, Drawn, i64, recipe

_ANY = (F32, F16, F64, *INTEGERS, np.dtype(np.bool_))
_MICROSOFT = "com.microsoft"


@recipe("Transpose", "Flatten", "Shape", "Size", "NonZero", "Dropout")
def moved(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 5), d.one(FLOATS if name == "Dropout" else (F32, F16, F64, np.dtype(np.int64))))
    given: dict[str, dict[str, Any]] = {
        "Transpose": d.maybe(perm=[int(axis) for axis in d.rng.permutation(array.ndim)]),
        "Flatten": d.maybe(axis=d.between(0 if d.opset < 11 else -array.ndim, array.ndim)),
        "Shape": d.maybe(start=d.between(-5, 5), end=d.between(-5, 5)) if d.opset >= 15 else {},
    }
    return Drawn(name, [array], given.get(name, {}))


@recipe("Reshape", "Expand", "Tile", "ConstantOfShape")
def shaped(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4), d.one(FLOATS))
    if name == "ConstantOfShape":
        value = d.array((1,), d.one(_ANY))
        return Drawn(name, [i64(*array.shape)], d.maybe(value=numpy_helper.from_array(value)), steady=(0,))
    if name == "Expand":
        wide = [size if d.chance() else 1 for size in array.shape]
        return Drawn(name, [d.array(wide, array.dtype), i64(*d.shape(0, 1), *array.shape)], steady=(1,))
    if name == "Tile":
        return Drawn(name, [array, i64(*(d.between(1, 3) for _ in array.shape))], steady=(1,))
    sizes: list[int] = [-1, *array.shape[1:]] if d.chance() else [0] * (array.ndim - 1) + [array.shape[-1]]
    return Drawn(name, [array, i64(*sizes)], steady=(1,))


@recipe("Squeeze", "Unsqueeze")
def axes_of_one(d: Draw, name: str) -> Drawn:
    if name == "Squeeze":
        shape = [1 if d.chance() else size for size in d.shape(1, 4)]
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    else:
        shape = list(d.shape(0, 3))
        axes = sorted({d.between(0, len(shape)) for _ in range(1)})
    if d.opset >= 11 and d.chance(0.4):
        axes = [axis - len(shape) - (len(axes) if name == "Unsqueeze" else 0) for axis in axes]
    array = d.array(shape)
    if d.opset < 13:
        return Drawn(name, [array], {"axes": axes} if axes or name == "Unsqueeze" else {})
    return Drawn(name, [array, i64(*axes)] if axes or name == "Unsqueeze" else [array], steady=(1,))


@recipe("Concat", "Split", "Slice")
def parts(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4, 7), d.one(FLOATS))
    axis = d.axis(array.ndim) if d.opset >= 11 else d.between(0, array.ndim - 1)
    if name == "Concat":
        others = [
            d.array([d.between(1, 4) if i == axis % array.ndim else s for i, s in enumerate(array.shape)], array.dtype)
            for _ in range(d.between(0, 2))
        ]
        return Drawn(name, [array, *others], {"axis": axis})
    if name == "Split":
        first = d.between(0 if d.opset >= 11 else 1, array.shape[axis])
        sizes = [first, array.shape[axis] - first]
        if d.opset < 13:
            return Drawn(name, [array], {"axis": axis, "split": sizes}, 2)
        if d.opset >= 18 and d.chance() and array.shape[axis] > 1:
            return Drawn(name, [array], {"axis": axis, "num_outputs": 2}, 2)
        return Drawn(name, [array, i64(*sizes)], {"axis": axis}, 2, steady=(1,))
    axes = [int(index) for index in d.rng.permutation(array.ndim)[: d.between(1, array.ndim)]]
    starts, ends = ([d.between(-8, 8) for _ in axes] for _ in range(2))
    if d.opset < 10:
        return Drawn(name, [array], {"starts": starts, "ends": ends, "axes": axes})
    steps = [d.one([1, 1, 2, -1, -2]) for _ in axes]
    return Drawn(name, [array, i64(*starts), i64(*ends), i64(*axes), i64(*steps)], steady=(1, 2, 3, 4))


@recipe("Pad")
def pad(d: Draw, name: str) -> Drawn:
    array = d.array([size + 2 for size in d.shape(1, 4)], d.one([F32, F32, F64]))
    mode = d.one(["constant", "edge", "reflect"] + (["wrap"] if d.opset >= 19 else []))
    low = -1 if mode == "constant" else 0
    pads = [d.between(low, 2) for _ in range(2 * array.ndim)]
    if d.opset < 11:
        return Drawn(name, [array], {"pads": pads, "mode": mode} | ({"value": 1.5} if d.chance() else {}))
    inputs: list[Array | None] = [array, i64(*pads)]
    if mode == "constant" and d.chance():
        inputs.append(np.array(1.5, array.dtype))
    return Drawn(name, inputs, {"mode": mode}, steady=(1,))


@recipe("Gather", "GatherElements", "GatherND")
def gathered(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4), d.one(_ANY))
    least = 0 if d.opset < 11 else -1
    if name == "GatherND":
        depth = d.between(1, array.ndim)
        count = d.shape(0, 2)
        columns = [np.asarray(d.rng.integers(least * size, size, count)) for size in array.shape[:depth]]
        return Drawn(name, [array, np.stack(columns, -1).astype(np.int64)])
    axis = d.axis(array.ndim) if d.opset >= 11 else d.between(0, array.ndim - 1)
    size = array.shape[axis]
    if name == "GatherElements":
        shape = [d.between(1, s) if d.chance(0.3) else s for s in array.shape]
        shape[axis] = d.between(1, 6)
    else:
        shape = list(d.shape(0, 2))
    indices = d.rng.integers(least * size, size, shape).astype(d.one([np.int32, np.int64]))
    return Drawn(name, [array, np.asarray(indices)], {"axis": axis})


@recipe("ScatterElements", "ScatterND")
def scattered(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 3), d.one([F32, F64, np.dtype(np.int64)]))
    since = 18 if d.chance() else 16
    reduction = (
        d.one(["none", "add", "mul", *(["min", "max"] if d.opset >= 18 else [])]) if d.opset >= since else "none"
    )
    given: dict[str, Any] = {"reduction": reduction} if reduction != "none" else {}
    if name == "ScatterND":
        positions = d.rng.permutation(array.shape[0])[: d.between(1, array.shape[0])]
        return Drawn(
            name,
            [array, positions[:, None].astype(np.int64), d.array((len(positions), *array.shape[1:]), array.dtype)],
            given,
        )
    axis = d.axis(array.ndim)
    count = d.between(1, array.shape[axis])
    indices = np.argsort(d.rng.random(array.shape), axis)
    indices = np.take(indices, np.arange(count), axis).astype(np.int64)
    return Drawn(name, [array, indices, d.array(indices.shape, array.dtype)], given | {"axis": axis})


@recipe("Where", "Compress", "Trilu", "EyeLike", "OneHot", "Range", "Unique", "Cast", "CastLike")
def chosen(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4), d.one([F32, F64, *INTEGERS[2:4]]))
    if name == "Where":
        condition = d.array(d.partner(array.shape), np.dtype(np.bool_))
        return Drawn(name, [condition, array, d.array(d.partner(array.shape), array.dtype)])
    if name == "Compress":
        axis = None if d.chance(0.3) else d.between(0, array.ndim - 1)
        size = array.size if axis is None else array.shape[axis]
        given: dict[str, Any] = {} if axis is None else {"axis": axis}
        return Drawn(name, [array, d.array((d.between(1, size),), np.dtype(np.bool_))], given)
    if name in ("Trilu", "EyeLike"):
        matrix = d.array((*(d.shape(0, 2) if name == "Trilu" else ()), d.between(1, 5), d.between(1, 5)), array.dtype)
        if name == "EyeLike":
            return Drawn(name, [matrix], d.maybe(k=d.between(-2, 2), dtype=d.one([1, 7, 11])))
        return Drawn(name, [matrix, np.array(d.between(-3, 3), np.int64)], d.maybe(upper=d.between(0, 1)), steady=(1,))
    if name == "OneHot":
        indices = d.rng.integers(-4, 6, d.shape(1, 3)).astype(np.int64)
        values = d.array((2,), d.one([F32, np.dtype(np.int64)]))
        return Drawn(name, [indices, i64(4)[0:1], values], d.maybe(axis=d.axis(indices.ndim + 1)), steady=(1,))
    if name == "Range":
        dtype = d.one([F32, F64, *INTEGERS[2:4]])
        return Drawn(name, [np.array(bound, dtype) for bound in (d.between(-3, 3), d.between(3, 12), d.between(1, 3))])
    if name == "Unique":
        return Drawn(name, [d.array(d.shape(1, 2), np.dtype(np.int64))], d.maybe(sorted=d.between(0, 1), axis=0), 4)
    other = d.one(_ANY)
    source = d.array(d.shape(0, 4), d.one(_ANY), 0, 9)
    if name == "CastLike":
        return Drawn(name, [source, d.array((1,), other)])
    return Drawn(name, [source], {"to": helper.np_dtype_to_tensor_dtype(other)})


@recipe("DepthToSpace", "SpaceToDepth", "ReverseSequence")
def rearranged(d: Draw, name: str) -> Drawn:
    block = d.between(1, 3)
    n, c, h, w = (d.between(1, 3) for _ in range(4))
    if name == "DepthToSpace":
        array = d.array((n, c * block**2, h, w), d.one([F32, F64]))
        return Drawn(
            name, [array], {"blocksize": block} | (d.maybe(mode=d.one(["DCR", "CRD"])) if d.opset >= 11 else {})
        )
    if name == "SpaceToDepth":
        return Drawn(name, [d.array((n, c, h * block, w * block), d.one([F32, F64]))], {"blocksize": block})
    array, time = d.array((4, 4, *d.shape(0, 2)), d.one([F32, F64])), d.between(0, 1)
    lengths = d.rng.integers(1, 5, 4).astype(np.int64)
    return Drawn(name, [array, lengths], {"time_axis": time, "batch_axis": 1 - time})


@recipe("Resize", "Upsample")
def resampled(d: Draw, name: str) -> Drawn:
    axes = d.between(1, 2)
    array = d.array((1, 2, *(d.between(2, 5) for _ in range(axes))), d.one([F32, F32, F64]))
    scales = np.array([1, 1, *(d.one([0.5, 1, 1.5, 2, 3]) for _ in range(axes))], np.float32)
    mode = d.one(["nearest", "linear"])
    if name == "Upsample":
        scales, array = np.maximum(scales, 1), array.astype(F32)
        if d.opset < 9:
            return Drawn(name, [array], {"scales": [float(scale) for scale in scales], "mode": mode})
        return Drawn(name, [array, scales], {"mode": mode}, steady=(1,))
    if d.opset < 11:
        return Drawn(name, [array, scales], {"mode": mode}, steady=(1,))
    mode = d.one(["nearest", "linear", "cubic"]) if axes == 2 else mode
    ways = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    given: dict[str, Any] = {"mode": mode} | d.maybe(coordinate_transformation_mode=d.one(ways))
    if mode == "nearest":
        given |= d.maybe(nearest_mode=d.one(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    if mode == "cubic":
        given |= d.maybe(cubic_coeff_a=-0.5, exclude_outside=1)
        array = array.astype(F32)
    if d.chance(0.4):
        sizes = i64(*array.shape[:2], *(d.between(1, 7) for _ in range(axes)))
        return Drawn(
            name, [array, np.zeros(0, np.float32), np.zeros(0, np.float32), sizes], given, steady=(1, 2, 3), tolerance=4
        )
    if given.get("coordinate_transformation_mode") == "align_corners":
        scales = np.ceil(scales)  # ONNX's suite places by the scale itself, ONNX Runtime by the whole size
    return Drawn(name, [array, np.zeros(0, np.float32), scales], given, steady=(1, 2), tolerance=4)


@recipe("GridSample", "RoiAlign")
def sampled(d: Draw, name: str) -> Drawn:
    array = d.array((2, 2, d.between(3, 6), d.between(3, 6)), F32)
    if name == "GridSample":
        names = ["bilinear", "nearest", "bicubic"] if d.opset < 20 else ["linear", "nearest", "cubic"]
        grid = d.array((2, d.between(1, 4), d.between(1, 4), 2), F32, -1.3, 1.3)
        given = {"mode": d.one(names), "padding_mode": d.one(["zeros", "border", "reflection"])}
        return Drawn(name, [array, grid], given | d.maybe(align_corners=d.between(0, 1)), tolerance=20)
    corners = np.sort(d.array((3, 2, 2), F32, 0, 6), 1).reshape(3, 4)[:, [0, 1, 2, 3]]
    given = d.maybe(mode=d.one(["avg", "max"]), output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5)
    return Drawn(name, [array, corners, i64(0, 1, 0)], given, tolerance=8)


@recipe("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
def quantized(d: Draw, name: str) -> Drawn:
    dtype = d.one([np.dtype(np.int8), np.dtype(np.uint8)])
    array = d.array(d.shape(2, 4), F32, -10, 10)
    if name == "DynamicQuantizeLinear":
        return Drawn(name, [array], outputs=3)
    if name in ("QuantizeLinear", "DequantizeLinear"):
        axis = d.between(0, array.ndim - 1)
        count = (array.shape[axis],) if d.opset >= 13 and d.chance() else ()
        scale, zero = d.array(count, F32, 0.05, 0.5), np.asarray(d.array(count, dtype, 0, 9))
        given: dict[str, Any] = {"axis": axis} if count else {}
        first = array if name == "QuantizeLinear" else d.array(array.shape, dtype, -99, 99)
        inputs: list[Array | None] = [first, scale, zero] if d.chance(0.8) or dtype != np.uint8 else [first, scale]
        return Drawn(name, inputs, given, steady=(1, 2))
    if name == "MatMulInteger":
        a, b = (
            d.array((2, 3, 4), d.one([np.dtype(np.int8), np.dtype(np.uint8)]), -99, 99),
            d.array((4, 5), dtype, -99, 99),
        )
        zeros: list[Array | None] = [np.array(3, a.dtype), np.array(2, dtype)] if d.chance() else []
        return Drawn(name, [a, b, *zeros], steady=(2, 3))
    u8 = np.dtype(np.uint8)
    zeros = [np.array(3, u8), np.array(2, u8)] if d.chance() else []
    return Drawn(
        name,
        [d.array((1, 2, 5, 5), u8, 0, 99), d.array((3, 2, 3, 3), u8, 0, 99), *zeros],
        d.maybe(pads=[1] * 4),
        steady=(2, 3),
    )


@recipe("LSTM", "GRU", "RNN")
def with_steps(d: Draw, name: str) -> Drawn:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    direction = d.one(["forward", "reverse", "bidirectional"])
    ways, steps, batch, size, hidden = 1 + (direction == "bidirectional"), 3, 2, 3, d.between(2, 4)
    inputs: list[Array | None] = [
        d.array((steps, batch, size), F32, -1, 1),
        d.array((ways, gates * hidden, size), F32, -1, 1),
        d.array((ways, gates * hidden, hidden), F32, -1, 1),
        d.array((ways, 2 * gates * hidden), F32, -1, 1) if d.chance() else None,
        d.rng.integers(1, steps + 1, batch).astype(np.int32) if d.chance(0.3) else None,
        d.array((ways, batch, hidden), F32, -1, 1) if d.chance() else None,
    ]
    given: dict[str, Any] = {"hidden_size": hidden, "direction": direction} | d.maybe(clip=0.7)
    if name == "GRU":
        given |= d.maybe(linear_before_reset=1)
    return Drawn(name, inputs, given, 3 if name == "LSTM" else 2, tolerance=8)


@recipe("STFT", "DFT", "Det")
def others(d: Draw, name: str) -> Drawn:
    if name == "Det":
        return Drawn(name, [d.array((*d.shape(0, 2), 3, 3), F32)], tolerance=20)
    if name == "DFT":
        return Drawn(
            name,
            [d.array((2, 8, 1), F32)],
            d.maybe(axis=1, onesided=1) if d.opset < 20 else d.maybe(onesided=1),
            tolerance=40,
        )
    shape = (2, 32) if d.chance() else (2, 32, 1)
    window = np.hanning(8).astype(np.float32)
    return Drawn(
        name,
        [d.array(shape, F32), np.array(4, np.int64), window, i64(8)[0].reshape(())],
        d.maybe(onesided=1),
        steady=(1, 2, 3),
        tolerance=40,
    )


@recipe(
    "ms.Gelu",
    "ms.FastGelu",
    "ms.QuickGelu",
    "ms.BiasGelu",
    "ms.FusedMatMul",
    "ms.SkipLayerNormalization",
    "ms.QuantizeLinear",
    "ms.DequantizeLinear",
)
def of_onnx_runtime(d: Draw, name: str) -> Drawn:
    op = name.removeprefix("ms.")
    array = d.array((2, 3, 8), F32)
    if op == "BiasGelu":
        return Drawn(op, [array, d.array((8,), F32)], domain=_MICROSOFT)
    if op == "FusedMatMul":
        given = d.maybe(transB=1, alpha=0.5)
        return Drawn(
            op, [array, d.array((5, 8) if given.get("transB") else (8, 5), F32)], given, domain=_MICROSOFT, tolerance=8
        )
    if op == "SkipLayerNormalization":
        return Drawn(
            op,
            [array, d.array((2, 3, 8), F32), *(d.array((8,), F32) for _ in range(2))],
            d.maybe(epsilon=1e-3),
            domain=_MICROSOFT,
            tolerance=20,
        )
    if op.endswith("QuantizeLinear") or op == "DequantizeLinear":
        made = quantized(d, op)
        return Drawn(op, made.inputs, made.attributes, domain=_MICROSOFT, steady=made.steady)
    return Drawn(op, [array], domain=_MICROSOFT)
