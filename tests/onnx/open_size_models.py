"""Small models with open sizes, of nodes as exporters write them.

Weights are random. ``MODELS`` has each with what feeds it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from tests.onnx import models

Array = npt.NDArray[Any]
Feed = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class OpenModel:
    proto: Callable[[], onnx.ModelProto]  # makes it
    feed: Callable[[int], Feed]  # its inputs for a size


class _OpenModelBuilder(models.Writer):
    def __init__(self) -> None:
        super().__init__()
        self._random = np.random.default_rng(5)

    def random(self, *shape: int, scale: float = 1.0, around: float = 0.0) -> str:
        return self.constant((self._random.standard_normal(shape) * scale + around).astype(np.float32))

    def linear(self, x: str, inputs: int, outputs: int, *, has_bias: bool = True) -> str:
        made = self.one("MatMul", x, self.random(inputs, outputs, scale=inputs**-0.5))
        return self.one("Add", made, self.random(outputs, scale=0.1)) if has_bias else made

    def normalized(self, x: str, width: int) -> str:
        return self.one("LayerNormalization", x, self.random(width, scale=0.1, around=1), self.random(width, scale=0.1))

    def shape(self, x: str, axis: int) -> str:
        """One size of a value, as exporters read it: an array of one element."""
        size = self.one("Gather", self.one("Shape", x), self.constant(np.int64(axis)))
        return self.one("Unsqueeze", size, self.constant(np.array([0], np.int64)))

    def model(
        self, inputs: Mapping[str, tuple[int, Sequence[int | str]]], outputs: Mapping[str, str]
    ) -> onnx.ModelProto:
        for shown, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [shown]))
        return models.model(self.nodes, inputs, list(outputs), self.constants)


def _attention(b: _OpenModelBuilder, x: str, width: int, heads: int, added: str, *, scaled: bool = True) -> str:
    """Self attention as it is written out: reshaped by the input's own sizes."""
    batch, length = b.shape(x, 0), b.shape(x, 1)
    split = b.one("Concat", batch, length, b.constant(np.array([heads, width // heads], np.int64)), axis=0)
    queries, keys, values = (b.one("Reshape", b.linear(x, width, width, has_bias=scaled), split) for _ in range(3))
    scores = b.one(
        "MatMul", b.one("Transpose", queries, perm=[0, 2, 1, 3]), b.one("Transpose", keys, perm=[0, 2, 3, 1])
    )
    if scaled:
        scores = b.one("Div", scores, b.constant(np.float32(np.sqrt(width // heads))))
    weights = b.one("Softmax", b.one("Add", scores, added), axis=-1)
    mixed = b.one(
        "Transpose", b.one("MatMul", weights, b.one("Transpose", values, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3]
    )
    joined = b.one("Reshape", mixed, b.one("Concat", batch, length, b.constant(np.array([width], np.int64)), axis=0))
    return b.linear(joined, width, width, has_bias=scaled)


def bert(layers: int = 2, width: int = 64, heads: int = 4, words: int = 200) -> onnx.ModelProto:
    """An encoder with learned positions, a mask, and GELU written out."""
    b = _OpenModelBuilder()
    length = b.one("Unsqueeze", b.one("Gather", b.one("Shape", "ids"), b.constant(np.int64(1))), b.constant([0]))
    positions = b.one("Slice", b.constant(np.arange(512)[None]), b.constant([0]), length, b.constant([1]))
    x = b.one("Gather", b.random(words, width, scale=0.5), "ids")
    x = b.normalized(b.one("Add", x, b.one("Gather", b.random(512, width, scale=0.5), positions)), width)
    mask = b.one("Cast", b.one("Unsqueeze", "mask", b.constant([1, 2])), to=TensorProto.FLOAT)
    added = b.one("Mul", b.one("Sub", b.constant(np.float32(1)), mask), b.constant(np.float32(-1e4)))
    for _ in range(layers):
        x = b.normalized(b.one("Add", _attention(b, x, width, heads, added), x), width)
        wide = b.linear(x, width, 2 * width)
        bent = b.one("Erf", b.one("Div", wide, b.constant(np.float32(np.sqrt(2)))))
        bent = b.one("Mul", wide, b.one("Add", bent, b.constant(np.float32(1))))
        x = b.normalized(
            b.one("Add", b.linear(b.one("Mul", bent, b.constant(np.float32(0.5))), 2 * width, width), x), width
        )
    shape: list[int | str] = ["batch", "length"]
    return b.model({"ids": (TensorProto.INT64, shape), "mask": (TensorProto.INT64, shape)}, {"y": x})


def _buckets(b: _OpenModelBuilder, length: str) -> str:
    """T5's numbers of distances: exact for near ones, by logarithms for far ones; the host computes them."""
    counted = b.one("Range", b.constant(np.int64(0)), length, b.constant(np.int64(1)))
    across, down = (b.one("Unsqueeze", counted, b.constant([axis])) for axis in (0, 1))
    distance = b.one("Sub", across, down)
    is_behind = b.one("Mul", b.one("Cast", b.one("Greater", distance, b.constant(np.int64(0))), to=7), b.constant(16))
    far = b.one("Abs", distance)
    ratio = b.one("Log", b.one("Div", b.one("Cast", far, to=1), b.constant(np.float32(8))))
    steps = b.one("Cast", b.one("Mul", ratio, b.constant(np.float32(8 / np.log(16)))), to=7)
    limited = b.one("Min", b.one("Add", steps, b.constant(8)), b.constant(15))
    chosen = b.one("Where", b.one("Less", far, b.constant(8)), far, limited)
    return b.one("Add", is_behind, chosen)


def t5(layers: int = 2, width: int = 64, heads: int = 4, words: int = 200) -> onnx.ModelProto:
    """An encoder with distances between words, root mean squares, and RELU."""
    b = _OpenModelBuilder()
    length = b.one("Gather", b.one("Shape", "ids"), b.constant(np.int64(1)))
    bias = b.one("Gather", b.random(32, heads), _buckets(b, length))
    bias = b.one("Unsqueeze", b.one("Transpose", bias, perm=[2, 0, 1]), b.constant([0]))

    def normalized(x: str) -> str:
        squares = b.one("ReduceMean", b.one("Pow", x, b.constant(np.float32(2))), axes=[-1])
        deviation = b.one("Sqrt", b.one("Add", squares, b.constant(np.float32(1e-6))))
        return b.one("Mul", b.random(width, scale=0.1, around=1), b.one("Div", x, deviation))

    x = b.one("Gather", b.random(words, width), "ids")
    for _ in range(layers):
        x = b.one("Add", x, _attention(b, normalized(x), width, heads, bias, scaled=False))
        wide = b.one("Relu", b.linear(normalized(x), width, 2 * width, has_bias=False))
        x = b.one("Add", x, b.linear(wide, 2 * width, width, has_bias=False))
    return b.model({"ids": (TensorProto.INT64, ["batch", "length"])}, {"y": normalized(x)})


def recognizer(width: int = 64, letters: int = 120) -> onnx.ModelProto:
    """A reader of lines of text: convolutions, attention over what is left of the width, and letters."""
    b = _OpenModelBuilder()
    x = "x"
    for inputs, outputs in ((3, 32), (32, width)):
        filters = b.random(outputs, inputs, 3, 3, scale=0.1)
        x = b.one("Relu", b.one("Conv", x, filters, b.random(outputs, scale=0.1), pads=[1] * 4, strides=[4, 2]))
    x = b.one("AveragePool", x, kernel_shape=[3, 2], strides=[3, 2])
    x = b.one("Transpose", b.one("Squeeze", x, b.constant([2])), perm=[0, 2, 1])
    queries, keys = b.linear(x, width, width), b.linear(x, width, width)
    weights = b.one("Softmax", b.one("MatMul", queries, b.one("Transpose", keys, perm=[0, 2, 1])), axis=-1)
    x = b.normalized(b.one("Add", b.one("MatMul", weights, x), x), width)
    return b.model(
        {"x": (TensorProto.FLOAT, ["batch", 3, 48, "width"])}, {"y": b.one("Softmax", b.linear(x, width, letters))}
    )


def detector(width: int = 8) -> onnx.ModelProto:
    """A finder of lines of text: depthwise convolutions, excitation, levels that are brought together."""
    b = _OpenModelBuilder()

    def convolved(x: str, inputs: int, outputs: int, size: int = 1, step: int = 1, groups: int = 1) -> str:
        filters = b.random(outputs, inputs // groups, size, size, scale=(size * size * inputs / groups) ** -0.5)
        pads, strides = [size // 2] * 4, [step, step]
        return b.one("Conv", x, filters, b.random(outputs, scale=0.1), pads=pads, strides=strides, group=groups)

    x = b.one("HardSwish", convolved("x", 3, width, 3, 2))
    levels = []
    for _ in range(3):
        x = b.one("HardSwish", convolved(x, width, width, 5, 2, width))
        excited = b.one("Relu", convolved(b.one("GlobalAveragePool", x), width, width))
        x = b.one("Mul", x, b.one("HardSigmoid", convolved(excited, width, width)))
        x = b.one("HardSwish", convolved(x, width, 2 * width))
        width *= 2
        levels.append((x, width))
    joined = convolved(*levels[-1], 16)
    twice = b.constant(np.array([1, 1, 2, 2], np.float32))
    for level in reversed(levels[:-1]):
        larger = b.one("Resize", joined, "", twice, mode="nearest", nearest_mode="floor")
        joined = b.one("Add", convolved(*level, 16), larger)
    y = b.one("ConvTranspose", convolved(joined, 16, 16, 3), b.random(16, 1, 2, 2, scale=0.3), strides=[2, 2])
    return b.model({"x": (TensorProto.FLOAT, ["batch", 3, "height", "width"])}, {"y": b.one("Sigmoid", y)})


def quantized(layers: int = 2, width: int = 64, words: int = 200) -> onnx.ModelProto:
    """Products of integers that are quantized as they come, as dynamic quantization writes them."""
    b = _OpenModelBuilder()
    weights = np.random.default_rng(3)

    def linear(x: str, inputs: int, outputs: int) -> str:
        values, scale, zero = b.node("DynamicQuantizeLinear", x, outputs=3)
        integers = b.constant(weights.integers(-100, 100, (inputs, outputs)).astype(np.int8))
        sums = b.one("Cast", b.one("MatMulInteger", values, integers, zero, b.constant(np.int8(0))), to=1)
        return b.one("Mul", sums, b.one("Mul", scale, b.constant(np.float32(0.002))))

    x = b.one("Gather", b.random(words, width, scale=0.5), "ids")
    for _ in range(layers):
        wide = b.one("Relu", linear(x, width, 2 * width))
        x = b.normalized(b.one("Add", linear(wide, 2 * width, width), x), width)
    pooled = b.one("ReduceMean", x, axes=[1], keepdims=0)
    return b.model({"ids": (TensorProto.INT64, ["batch", "length"])}, {"y": x, "pooled": pooled})


def speaker(width: int = 16, words: int = 200) -> onnx.ModelProto:
    """Letters that last for some frames each, as speech is made of text: the host finds out which, and how many."""
    b = _OpenModelBuilder()
    one, axes = b.constant(np.float32(1)), [b.constant(np.array([axis], np.int64)) for axis in (0, 1)]
    x = b.one("Gather", b.random(words, width, scale=0.5), "ids")
    levels = b.one("Squeeze", b.one("MatMul", x, b.random(width, 1)), axes[1])
    places = b.one("Transpose", b.one("NonZero", b.one("Greater", levels, b.constant(np.float32(0)))), perm=[1, 0])
    roots = b.one("Sqrt", b.one("GatherND", levels, places))
    levels = b.one("ScatterND", levels, places, roots)
    lengths = b.one("Add", b.one("Ceil", b.one("Abs", levels)), one)
    frames = b.one("ReduceSum", lengths, keepdims=0)
    times = b.one("Unsqueeze", b.one("Range", b.constant(np.float32(0)), frames, one), axes[1])
    ends = b.one("Unsqueeze", b.one("CumSum", lengths, b.constant(np.int64(0))), axes[0])
    spoken = b.one("MatMul", b.one("Cast", b.one("Less", times, ends), to=1), x)
    halves = b.one("Mul", b.shape(spoken, 0), b.constant(np.array([2], np.int64)))
    size = b.one("Concat", halves, b.constant(np.array([width // 2], np.int64)), axis=0)
    count = b.one("Cast", b.one("Squeeze", halves, axes[0]), to=1)
    ramp = b.one("Unsqueeze", b.one("Range", b.constant(np.float32(0)), count, one), axes[1])
    y = b.one("Tanh", b.one("Add", b.one("Reshape", spoken, size), ramp))
    return b.model({"ids": (TensorProto.INT64, ["length"])}, {"y": y, "lengths": lengths})


def _ids(length: int) -> Array:
    return np.random.default_rng(length).integers(0, 200, (1, length))


def _image(*sizes: int) -> Array:
    return np.random.default_rng(sizes[-1]).standard_normal((1, 3, *sizes)).astype(np.float32)


MODELS: Mapping[str, OpenModel] = {
    "bert": OpenModel(bert, lambda n: {"ids": _ids(n), "mask": np.ones((1, n), np.int64)}),
    "t5": OpenModel(t5, lambda n: {"ids": _ids(n)}),
    "quantized": OpenModel(quantized, lambda n: {"ids": _ids(n)}),
    "recognizer": OpenModel(recognizer, lambda n: {"x": _image(48, n)}),
    "detector": OpenModel(detector, lambda n: {"x": _image(96 + n % 3 * 32, n)}),
}
