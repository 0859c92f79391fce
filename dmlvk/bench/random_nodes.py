"""Random single nodes of ONNX as models have them, each with what PyTorch calls the same function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CHANNELS = (
    3, 8, 12, 16, 21, 24, 32, 40, 48, 64, 72, 80, 96, 100, 112, 128, 160, 192, 240, 256, 320, 384, 512, 640, 960
)  # fmt: skip
_MOST_PRODUCTS = 2**36  # Multiplications of a node: 5 ms where a second has 27 T of them

_SMALL_PRODUCTS = 2**21
_BLOCK = 2**16 + 1  # Random numbers of which larger arrays are repetitions, by a number that is no multiple of any row


@dataclasses.dataclass(frozen=True)
class RandomNode:
    kind: str  # by which nodes are chosen: ``conv``, ``matmul``, …
    operator: str  # ONNX's name
    inputs: tuple[Array | None, ...]  # their values; ``None``: left out
    peer: Callable[..., Any]  # PyTorch's function of the module and a tensor for each input
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # the node's
    weights: tuple[int, ...] = ()  # numbers of inputs that the model has, as files have them
    label: str = ""  # sizes, and whatever else tells it from others of its kind
    domain: str = ""  # of the operator
    outputs: int = 1  # how many it has; the first is compared
    opset: int = 21  # of the standard

    @property
    def name(self) -> str:
        shapes = " ".join("x".join(map(str, each.shape)) or "()" for each in self.inputs if each is not None)
        return f"{self.operator} {shapes} {self.label}".rstrip()

    def model(self) -> bytes:
        """A model of this node alone, whose inputs are ``i0``, ``i1``, … and whose output is ``o0``."""
        from onnx import ModelProto, ValueInfoProto, helper, numpy_helper, shape_inference

        given = {f"i{number}": each for number, each in enumerate(self.inputs) if each is not None}
        kept = {f"i{number}" for number in self.weights}
        names = [f"i{number}" if each is not None else "" for number, each in enumerate(self.inputs)]
        node = helper.make_node(
            self.operator, names, [f"o{n}" for n in range(self.outputs)], domain=self.domain, **self.attributes
        )
        types = {name: helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in given.items()}
        graph = helper.make_graph(
            [node],
            "node",
            [helper.make_tensor_value_info(n, types[n], each.shape) for n, each in given.items() if n not in kept],
            [ValueInfoProto(name="o0")],
            [numpy_helper.from_array(each, name) for name, each in given.items() if name in kept],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        made: ModelProto = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))
        output = made.graph.output[0]
        if not output.type.ByteSize():
            output.type.tensor_type.elem_type = types["i0"]
        return bytes(made.SerializeToString())


class Draw:
    """Random choices of one node.

    Args:
        seed: by which they are the same again.
        data_type: of its tensors, ``float32`` or ``float16``.
        small: whether it shall be computed in a moment, on whichever device.
    """

    def __init__(self, seed: int, data_type: str, *, small: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self._type = np.dtype(data_type)
        self._small = small
        self.elements = 2 ** int(self._random.integers(8, 12) if small else self._random.integers(21, 27))
        self.products = _SMALL_PRODUCTS if small else _MOST_PRODUCTS

    def pick(self, *choices: Any) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def size(self, low: int, high: int) -> int:
        """A size, evenly by its logarithm; half of them are multiples of 8 where they can be."""
        if self._small:
            low, high = min(low, 16), min(high, 48)
        made = round(math.exp(self._random.uniform(math.log(low), math.log(high))))
        return made // 8 * 8 if made >= 16 and self._random.random() < 0.5 else made

    def channels(self) -> int:
        return int(self.pick(*(each for each in _CHANNELS if not self._small or each <= 32)))

    def batch(self) -> int:
        return int(self.pick(1, 1, 2, 4) if self._small else self.pick(1, 1, 2, 4, 8, 16, 32, 64))

    def place(self, rank: int, channels: int, least: int = 1) -> tuple[int, ...]:
        """Sizes of so many axes, of which so many channels are no more than the elements wanted."""
        side = max(least, min(1024, int((self.elements / channels) ** (1 / rank))))
        return tuple(max(least, side + int(self._random.integers(-2, 3))) for _ in range(rank))

    def array(self, *shape: int, scale: float = 1.0) -> Array:
        count = math.prod(shape)
        block = (self._random.standard_normal(min(count, _BLOCK), np.float32) * np.float32(scale)).astype(self._type)
        return np.resize(block, shape)

    def indices(self, below: int, *shape: int) -> Array:
        return self._random.integers(0, below, shape)

    def axes(self, *choices: tuple[int, ...]) -> tuple[int, ...]:
        picked: tuple[int, ...] = self.pick(*choices)
        return picked


def _conv(draw: Draw, rank: int = 2, *, transposed: bool = False) -> RandomNode:
    inside, outside = draw.channels(), draw.channels()
    shape = draw.pick("dense", "dense", "pointwise", "patches", "dilated", "grouped", "depthwise", "depthwise", "few")
    kernel = [int(draw.pick(3, 3, 5, 7) if rank < 3 else 3)] * rank
    stride = int(draw.pick(1, 1, 1, 2))
    dilation = groups = 1
    if shape == "pointwise":
        kernel = [1] * rank
    elif shape == "patches":
        kernel, stride = ([4] * rank, 4) if draw.pick(0, 1) else ([2] * rank, 2)
    elif shape == "dilated":
        kernel, stride, dilation = [3] * rank, 1, int(draw.pick(2, 4, 6, 12))
    elif shape == "grouped":
        groups = int(draw.pick(2, 4, 8, 32))
        inside, outside = groups * draw.pick(1, 4, 8, 16, 24), groups * draw.pick(1, 4, 8, 16, 24)
    elif shape == "depthwise":
        inside = outside = groups = max(8, inside)
    elif shape == "few":
        inside, outside = draw.pick((inside, 3), (3, outside), (1, outside), (4, 4))
    if transposed:
        kernel, stride, dilation = draw.pick(([2] * rank, 2, 1), ([4] * rank, 2, 1), ([3] * rank, 2, 1))
    pads = 0 if shape == "patches" and not transposed else dilation * (kernel[0] - 1) // 2
    batch, least = draw.batch(), dilation * (kernel[0] - 1) + 1
    place = draw.place(rank, batch * max(inside, outside), least)
    filters = (inside, outside // groups, *kernel) if transposed else (outside, inside // groups, *kernel)
    work = batch * math.prod(place) * math.prod(filters) / (1 if transposed else stride**rank)
    if work > draw.products:
        side = max(least, int(place[0] * (draw.products / work) ** (1 / rank)))
        place, batch = (side,) * rank, batch if work < 8 * draw.products else 1
    x, w = draw.array(batch, inside, *place), draw.array(*filters, scale=math.prod(filters[1:]) ** -0.5)
    b = draw.array((filters[1] * groups) if transposed else outside)
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    call = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    return RandomNode(
        f"conv_{shape}" if rank == 2 and not transposed else name,
        "ConvTranspose" if transposed else "Conv",
        (x, w, b),
        lambda t, x, w, b: getattr(t.nn.functional, name)(x, w, b, **call),
        {"strides": [stride] * rank, "pads": [pads] * 2 * rank, "dilations": [dilation] * rank, "group": groups},
        (1, 2),
        f"stride {stride} pads {pads} dilation {dilation} groups {groups}",
    )


def _conv_of_rank(draw: Draw) -> RandomNode:
    return _conv(draw, draw.pick(1, 3))


def _conv_transpose(draw: Draw) -> RandomNode:
    return _conv(draw, draw.pick(1, 2, 2, 3), transposed=True)


def _matmul(draw: Draw) -> RandomNode:
    batches = draw.pick((), (), (), (draw.size(2, 64),), (draw.batch(), 12))
    count = math.prod(batches)
    rows, terms = draw.pick(draw.size(17, 4096), draw.size(1, 32)), draw.size(32, 8192)
    columns = draw.pick(draw.size(32, 8192), draw.size(32, 2048), draw.pick(50257, 32000, 1000))
    rows = max(1, min(rows, 2 * draw.elements // (columns * count)))
    columns = max(8, min(columns, 2 * draw.elements // (rows * count)))
    most = min(2 * draw.elements // (max(rows, columns) * count), draw.products // (rows * columns * count))
    terms = max(8, min(terms, most))
    shared = bool(draw.pick(0, 1)) and len(batches) == 1  # one matrix for all
    a = draw.array(*batches, rows, terms, scale=terms**-0.5)
    b = draw.array(*(() if shared else batches), terms, columns)
    weights = (1,) if shared or (not batches and draw.pick(0, 1)) else ()
    return RandomNode("matmul", "MatMul", (a, b), lambda t, a, b: a @ b, {}, weights)


def _gemm(draw: Draw) -> RandomNode:
    rows, terms = draw.size(17, 4096), draw.size(64, 4096)
    columns = max(8, min(draw.size(32, 4096), draw.products // (rows * terms)))
    flip_a, flip_b = bool(draw.pick(0, 0, 1)), bool(draw.pick(0, 1))
    a = draw.array(*((terms, rows) if flip_a else (rows, terms)), scale=terms**-0.5)
    b, c = draw.array(*((columns, terms) if flip_b else (terms, columns))), draw.array(columns)
    attributes = {"transA": int(flip_a), "transB": int(flip_b)}
    return RandomNode(
        "gemm",
        "Gemm",
        (a, b, c),
        lambda t, a, b, c: t.addmm(c, a.T if flip_a else a, b.T if flip_b else b),
        attributes,
        (1, 2),
        f"transA {int(flip_a)} transB {int(flip_b)}",
    )


def _attention(draw: Draw) -> RandomNode:
    heads, width, batch = draw.pick(4, 8, 12, 16), draw.pick(32, 40, 64, 64, 72, 80, 96, 128), draw.batch()
    length = max(16, min(draw.size(49, 4096), draw.elements // (batch * heads * width)))
    keys = draw.pick(length, length, 77)
    fits = draw.products / (2.0 * batch * heads * width * length * keys)
    batch = max(1, int(batch * min(1.0, fits)))
    query = draw.array(batch, length, heads * width)
    key, value = (draw.array(batch, keys, heads * width) for _ in range(2))

    def peer(t: Any, *given: Any) -> Any:
        query, key, value = (each.view(*each.shape[:2], heads, width).transpose(1, 2) for each in given)
        made = t.nn.functional.scaled_dot_product_attention(query, key, value)
        return made.transpose(1, 2).reshape(batch, length, heads * width)

    label = f"heads {heads} of {width}"
    attributes = {"num_heads": heads}
    inputs = (query, key, value)
    return RandomNode("attention", "MultiHeadAttention", inputs, peer, attributes, (), label, "com.microsoft")


def _picture(draw: Draw, least: int = 8) -> Array:
    batch, channels = draw.batch(), max(8, draw.channels())
    return draw.array(batch, channels, *draw.place(2, batch * channels, least))


def _pool(draw: Draw) -> RandomNode:
    x, side, stride = _picture(draw), draw.pick(2, 3, 3, 5), draw.pick(1, 2)
    pads = side // 2
    attributes: dict[str, Any] = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "pads": [pads] * 4}
    label = f"{side} stride {stride}"
    if draw.pick(0, 1):
        return RandomNode(
            "pool",
            "MaxPool",
            (x,),
            lambda t, x: t.nn.functional.max_pool2d(x, side, stride, pads),
            attributes,
            label=label,
        )
    attributes["count_include_pad"] = 1
    return RandomNode(
        "pool",
        "AveragePool",
        (x,),
        lambda t, x: t.nn.functional.avg_pool2d(x, side, stride, pads),
        attributes,
        (),
        label,
    )


def _norm(draw: Draw) -> RandomNode:
    kind = draw.pick("LayerNormalization", "LayerNormalization", "GroupNormalization", "InstanceNormalization", "Batch")
    if kind == "LayerNormalization":
        width = draw.pick(96, 192, 384, 512, 768, 1000, 1024, 1280, 4096)
        x, scale, bias = draw.array(max(1, draw.elements // width), width), draw.array(width), draw.array(width)
        return RandomNode(
            "norm",
            kind,
            (x, scale, bias),
            lambda t, x, s, b: t.nn.functional.layer_norm(x, x.shape[-1:], s, b),
            {},
            (1, 2),
        )
    x = _picture(draw)
    channels = x.shape[1]
    scale, bias = draw.array(channels), draw.array(channels)
    if kind == "Batch":
        mean, variance = draw.array(channels), np.abs(draw.array(channels)) + scale.dtype.type(1)
        return RandomNode(
            "norm",
            "BatchNormalization",
            (x, scale, bias, mean, variance),
            lambda t, x, s, b, m, v: t.nn.functional.batch_norm(x, m, v, s, b),
            {},
            (1, 2, 3, 4),
        )
    if kind == "InstanceNormalization":
        return RandomNode(
            "norm",
            kind,
            (x, scale, bias),
            lambda t, x, s, b: t.nn.functional.instance_norm(x, None, None, s, b),
            {},
            (1, 2),
        )
    groups = next(each for each in (32, 8, 4, 3, 1) if channels % each == 0)
    return RandomNode(
        "norm",
        kind,
        (x, scale, bias),
        lambda t, x, s, b: t.nn.functional.group_norm(x, groups, s, b),
        {"num_groups": groups},
        (1, 2),
        f"groups {groups}",
    )


def _softmax(draw: Draw) -> RandomNode:
    kind, call = draw.pick(("Softmax", "softmax"), ("Softmax", "softmax"), ("LogSoftmax", "log_softmax"))
    if draw.pick(0, 0, 1):
        x, axis = _picture(draw), 1
    else:
        width = draw.pick(21, 49, 77, 197, 577, 1000, 1024, 4096, 32000, 50257)
        x, axis = draw.array(max(1, draw.elements // width), width), 1
    return RandomNode("softmax", kind, (x,), lambda t, x: getattr(t, call)(x, axis), {"axis": axis}, (), f"axis {axis}")


def _reduction(draw: Draw) -> RandomNode:
    x = _picture(draw)
    axes = draw.axes((0,), (1,), (2,), (3,), (2, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3), (1, 3))
    kind, call = draw.pick(("ReduceMean", "mean"), ("ReduceSum", "sum"), ("ReduceMax", "amax"), ("ReduceL2", "norm"))
    scale = x.dtype.type(0.05)  # whose sums FLOAT16 holds
    functions: dict[str, Callable[..., Any]] = {
        "norm": lambda t, x: t.linalg.vector_norm(x, dim=axes),
        "sum": lambda t, x: x.sum(axes),
        "mean": lambda t, x: x.mean(axes),
        "amax": lambda t, x: x.amax(axes),
    }
    inputs = (x * scale, np.array(axes, np.int64))
    peer = functions[call]
    return RandomNode("reduction", kind, inputs, lambda t, x, _: peer(t, x), {"keepdims": 0}, (1,), f"axes {axes}")


def _global_average(draw: Draw) -> RandomNode:
    return RandomNode(
        "pool", "GlobalAveragePool", (_picture(draw),), lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1)
    )


def _selection(draw: Draw) -> RandomNode:
    width = draw.pick(1000, 8192, 32000, 50257)
    x = draw.array(max(1, draw.elements // width), width)
    kind = draw.pick("TopK", "TopK", "ArgMax", "CumSum")
    if kind == "TopK":
        count = draw.pick(1, 5, 40, 50, 256)
        inputs = (x, np.array([count], np.int64))
        return RandomNode("selection", kind, inputs, lambda t, x, _: x.topk(count)[0], {}, (1,), f"{count}", outputs=2)
    if kind == "ArgMax":  # the first of equal ones, or any: PyTorch says nothing
        return RandomNode("selection", kind, (x,), lambda t, x: x.argmax(1, keepdim=True), {"axis": 1})
    inputs = (x * x.dtype.type(0.05), np.array(1, np.int64))
    return RandomNode("selection", kind, inputs, lambda t, x, _: x.cumsum(1), {}, (1,))


def _resize(draw: Draw) -> RandomNode:
    x = _picture(draw, 16)
    factor = draw.pick(2.0, 2.0, 0.5, 1.5, 4.0)
    x = np.ascontiguousarray(x[:1]) if factor > 2 else x
    kind, mode = draw.pick(("linear", "bilinear"), ("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest"))
    sizes = [int(size * factor) for size in x.shape[2:]]
    attributes: dict[str, Any] = {"mode": kind}
    if kind == "nearest":
        attributes |= {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    else:
        attributes |= {"cubic_coeff_a": -0.75, "coordinate_transformation_mode": "half_pixel"}
    target = np.array([*x.shape[:2], *sizes], np.int64)
    return RandomNode(
        "resize",
        "Resize",
        (x, None, None, target),
        lambda t, x, *_: t.nn.functional.interpolate(x, size=sizes, mode=mode),
        attributes,
        (3,),
        f"{kind} x{factor}",
    )


def _gather(draw: Draw) -> RandomNode:
    width = draw.pick(64, 100, 768, 1024, 4096)
    table = draw.array(max(2, draw.elements // width), width)
    if draw.pick(0, 0, 1):
        indices = draw.indices(table.shape[0], *table.shape)
        return RandomNode("gather", "GatherElements", (table, indices), lambda t, x, i: t.gather(x, 0, i), {"axis": 0})
    indices = draw.indices(table.shape[0], draw.batch(), draw.size(64, 4096))
    return RandomNode("gather", "Gather", (table, indices), lambda t, x, i: t.nn.functional.embedding(i, x))


def _movement(draw: Draw) -> RandomNode:
    kind = draw.pick("Transpose", "Transpose", "Concat", "Pad", "Pad", "Slice", "Tile", "DepthToSpace", "Expand")
    x = _picture(draw)
    if kind == "Transpose":
        axes = draw.axes(
            (0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (0, 1, 3, 2), (1, 0, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1)
        )
        label = f"{axes}"
        return RandomNode("movement", kind, (x,), lambda t, x: x.permute(axes).contiguous(), {"perm": axes}, (), label)
    if kind == "Concat":
        axis = draw.pick(1, 1, 2, 3)
        other = np.ascontiguousarray(np.take(x, range(max(1, x.shape[axis] // 2)), axis))
        return RandomNode(
            "movement", kind, (x, other), lambda t, *x: t.cat(x, axis), {"axis": axis}, (), f"axis {axis}"
        )
    if kind == "Pad":
        mode, call = draw.pick(("constant", "constant"), ("reflect", "reflect"), ("edge", "replicate"))
        by = draw.pick(1, 2, 3)
        inputs = (x, np.array([0, 0, by, by, 0, 0, by, by], np.int64))
        return RandomNode(
            "movement",
            kind,
            inputs,
            lambda t, x, _: t.nn.functional.pad(x, (by,) * 4, call),
            {"mode": mode},
            (1,),
            mode,
        )
    if kind == "Slice":
        step = draw.pick(1, 2)
        numbers = ([1, 1], [x.shape[2] - 1, x.shape[3] - 1], [2, 3], [step, step])
        return RandomNode(
            "movement",
            kind,
            (x, *(np.array(each, np.int64) for each in numbers)),
            lambda t, x, *_: x[:, :, 1:-1:step, 1:-1:step].contiguous(),
            {},
            (1, 2, 3, 4),
            f"step {step}",
        )
    if kind == "DepthToSpace":
        x = draw.array(x.shape[0], x.shape[1] // 4 * 4, *x.shape[2:])
        attributes = {"blocksize": 2, "mode": "CRD"}
        return RandomNode("movement", kind, (x,), lambda t, x: t.nn.functional.pixel_shuffle(x, 2), attributes)
    times = [1, 2, 1, 1]
    if kind == "Tile":
        return RandomNode("movement", kind, (x, np.array(times)), lambda t, x, _: x.repeat(times), {}, (1,))
    row = np.ascontiguousarray(x[:, :, :, :1])
    shape = list(x.shape)
    return RandomNode("movement", kind, (row, np.array(shape)), lambda t, x, _: x.expand(shape).contiguous(), {}, (1,))


_UNARY: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("Gelu", lambda t, x: t.nn.functional.gelu(x)),
    ("Erf", lambda t, x: t.erf(x)),
    ("Tanh", lambda t, x: t.tanh(x)),
    ("Sigmoid", lambda t, x: t.sigmoid(x)),
    ("Exp", lambda t, x: t.exp(x)),
    ("Mish", lambda t, x: t.nn.functional.mish(x)),
    ("Softplus", lambda t, x: t.nn.functional.softplus(x)),
    ("HardSwish", lambda t, x: t.nn.functional.hardswish(x)),
    ("Elu", lambda t, x: t.nn.functional.elu(x)),
    ("LeakyRelu", lambda t, x: t.nn.functional.leaky_relu(x)),
    ("Cos", lambda t, x: t.cos(x)),
    ("Abs", lambda t, x: t.abs(x)),
)
_BINARY: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("Add", lambda t, a, b: a + b),
    ("Mul", lambda t, a, b: a * b),
    ("Sub", lambda t, a, b: a - b),
    ("Max", lambda t, a, b: t.maximum(a, b)),
)


def _unary(draw: Draw) -> RandomNode:
    kind, call = draw.pick(*_UNARY)
    return RandomNode("elementwise", kind, (_picture(draw),), call)


def _binary(draw: Draw) -> RandomNode:
    kind, call = draw.pick(*_BINARY)
    x = _picture(draw)
    n, c, h, w = x.shape
    other = draw.array(*draw.pick((n, c, h, w), (c, 1, 1), (w,), (n, 1, h, w), (n, c, 1, 1), (h, 1), (1,)))
    return RandomNode("elementwise", kind, (x, other), call)


KINDS: Mapping[str, Callable[[Draw], RandomNode]] = {
    "conv": _conv,
    "conv_of_rank": _conv_of_rank,
    "conv_transpose": _conv_transpose,
    "matmul": _matmul,
    "gemm": _gemm,
    "attention": _attention,
    "pool": _pool,
    "global_average": _global_average,
    "norm": _norm,
    "softmax": _softmax,
    "reduction": _reduction,
    "selection": _selection,
    "resize": _resize,
    "gather": _gather,
    "movement": _movement,
    "unary": _unary,
    "binary": _binary,
}
"""What draws a node of a kind."""

_SHARES = {"conv": 6, "matmul": 4, "conv_of_rank": 2, "attention": 2, "norm": 2, "movement": 2}
"""How often kinds come, beside 1 of the others."""


def random_node(seed: int, data_type: str, kinds: tuple[str, ...] = (), *, small: bool = False) -> RandomNode:
    """The node of a seed.

    Args:
        data_type: ``float32`` or ``float16``.
        kinds: of ``KINDS``; none: all.
        small: whether it shall be computed in a moment.
    """
    draw = Draw(seed, data_type, small=small)
    kind = draw.pick(*(each for each in kinds or KINDS for _ in range(_SHARES.get(each, 1))))
    return KINDS[kind](draw)
