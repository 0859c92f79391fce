"""Models in FLOAT64, by the onnx package's reference evaluator: what they would give without rounding.

It tells which of two programs is nearer to that. Operators that the evaluator takes minutes for, or does not have, are
written here, for what models of packages ask of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = npt.NDArray[Any]


class Doubled:
    """A model whose numbers of FLOAT are DOUBLE.

    Args:
        model: the model, which stays as it is.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        _widen(made.graph)
        self._evaluator = ReferenceEvaluator(made, new_ops=_OPERATORS)

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Array]:
        """The outputs. Values are let go behind their last reader: a detector's take 8 GB together.

        Raises:
            Exception: whatever the evaluator raises where it lacks something.
        """
        arrays = {name: np.asarray(value) for name, value in feed.items()}
        wide = {name: array.astype("f8") if array.dtype == np.float32 else array for name, array in arrays.items()}
        nodes, wanted = self._evaluator.rt_nodes_, list(self._evaluator.output_names if names is None else names)
        if any(node.need_context() for node in nodes):  # graphs of theirs may read any value
            return list(self._evaluator.run(wanted, wide))
        last_reader = {name: number for number, node in enumerate(nodes) for name in node.input}
        values: dict[str, Any] = {"": None, **self._evaluator.rt_inits_, **wide}
        for number, node in enumerate(nodes):
            values.update(zip(node.output, node.run(*(values[name] for name in node.input)), strict=False))
            for name in {*node.input, *node.output} - {"", *wanted}:
                if last_reader.get(name, number) == number:
                    values.pop(name, None)
        return [values[name] for name in wanted]


def _widen(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype("f8")
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _spatial(slices: Sequence[Any]) -> tuple[Any, ...]:
    """All of the first two axes, and something of each axis behind."""
    return slice(None), slice(None), *slices


def _padding(size: int, kernel: int, stride: int, dilation: int, auto_pad: str) -> tuple[int, int]:
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        reach = (kernel - 1) * dilation + 1
        total = max(0, (-(-size // stride) - 1) * stride + reach - size)
        return (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)
    return 0, 0


def _windows(
    x: Array,
    kernel: Sequence[int],
    named: Mapping[str, Any],
    fill: float,
) -> list[tuple[tuple[int, ...], Array]]:
    """For each place in a kernel the elements of the input that it meets."""
    rank = len(kernel)
    strides, dilations = (list(named.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = list(named.get("pads") or [0] * 2 * rank)
    automatic = named.get("auto_pad") or "NOTSET"
    if automatic != "NOTSET":
        sizes = zip(x.shape[2:], kernel, strides, dilations, strict=True)
        both = [_padding(*size, automatic) for size in sizes]
        pads = [*(low for low, _ in both), *(high for _, high in both)]
    ends = list(zip(pads[:rank], pads[rank:], strict=True))
    filled = np.pad(x, [(0, 0), (0, 0), *ends], constant_values=fill)
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    counts = [
        (size - reach) // stride + 1 for size, reach, stride in zip(filled.shape[2:], reaches, strides, strict=True)
    ]
    found = []
    for tap in itertools.product(*map(range, kernel)):
        begins = [number * dilation for number, dilation in zip(tap, dilations, strict=True)]
        chosen = tuple(
            slice(begin, begin + (count - 1) * stride + 1, stride)
            for begin, count, stride in zip(begins, counts, strides, strict=True)
        )
        found.append((tap, filled[_spatial(chosen)]))
    return found


def _convolved(x: Array, weights: Array, groups: int, named: Mapping[str, Any]) -> Array:
    batch, channels, outs, own = x.shape[0], x.shape[1], weights.shape[0], weights.shape[1]
    total: Array | None = None
    for tap, met in _windows(x, weights.shape[2:], named, 0):
        sizes = met.shape[2:]
        rows = met.reshape(batch, groups, channels // groups, -1)
        factor = weights[_spatial(tap)].reshape(groups, outs // groups, own)
        product = (factor[None] @ rows).reshape(batch, outs, *sizes)
        total = product if total is None else total + product
    assert total is not None  # a kernel has elements
    return total


class Conv(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array, w: Array, b: Array | None = None, group: int = 1, **named: Any) -> tuple[Array]:
        made = _convolved(x, w, group or 1, named)
        return (made if b is None else made + b.reshape(-1, *[1] * (x.ndim - 2)),)


class ConvInteger(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(
        self, x: Array, w: Array, x_zero: Any = None, w_zero: Any = None, group: int = 1, **named: Any
    ) -> tuple[Array]:
        wide = x.astype("f8") - (0 if x_zero is None else np.asarray(x_zero, "f8"))
        less = 0 if w_zero is None else np.asarray(w_zero, "f8").reshape(-1, *[1] * (w.ndim - 1))
        return (_convolved(wide, w.astype("f8") - less, group or 1, named).astype(np.int32),)


class BatchNormalization(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    """The evaluator's versions before 14 take a momentum for training, and the batch's own mean."""

    def _run(
        self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float = 1e-5, **named: Any
    ) -> tuple[Array]:
        if named.get("training_mode") or named.get("spatial") == 0:
            raise NotImplementedError("normalization for training, or of places")
        shape = (1, -1, *[1] * (x.ndim - 2))
        factor = scale / np.sqrt(np.asarray(variance, "f8") + epsilon)
        return ((x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape),)


class MaxPool(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array, kernel_shape: Sequence[int] = (), ceil_mode: int = 0, **named: Any) -> tuple[Array]:
        if ceil_mode or named.get("storage_order"):
            raise NotImplementedError("pools with ceil_mode")
        return (np.max([met for _, met in _windows(x, kernel_shape, named, -np.inf)], axis=0),)


class ConvTranspose(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array, w: Array, b: Array | None = None, group: int = 1, **named: Any) -> tuple[Array]:
        rank = x.ndim - 2
        if (named.get("auto_pad") or "NOTSET") != "NOTSET" or named.get("output_shape"):
            raise NotImplementedError("automatic padding")
        strides, dilations = (list(named.get(name) or [1] * rank) for name in ("strides", "dilations"))
        pads, more = list(named.get("pads") or [0] * 2 * rank), list(named.get("output_padding") or [0] * rank)
        groups, (batch, channels), own = group or 1, x.shape[:2], w.shape[1]
        kernel = w.shape[2:]
        shape = [
            (size - 1) * stride + (count - 1) * dilation + 1 + extra
            for size, stride, count, dilation, extra in zip(x.shape[2:], strides, kernel, dilations, more, strict=True)
        ]
        whole = np.zeros((batch, own * groups, *shape), x.dtype)
        rows = x.reshape(batch, groups, channels // groups, -1)
        for tap in itertools.product(*map(range, kernel)):
            factor = w[_spatial(tap)].reshape(groups, channels // groups, own)
            added = (factor.transpose(0, 2, 1)[None] @ rows).reshape(batch, own * groups, *x.shape[2:])
            chosen = tuple(
                slice(number * dilation, number * dilation + (size - 1) * stride + 1, stride)
                for number, dilation, size, stride in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            whole[_spatial(chosen)] += added
        cut = tuple(slice(low, size - high) for low, high, size in zip(pads[:rank], pads[rank:], shape, strict=True))
        made = whole[_spatial(cut)]
        return (made if b is None else made + b.reshape(-1, *[1] * rank),)


def _quantized(x: Array) -> tuple[Array, Any, Any]:
    """Integers of 0 to 255, their scale and their zero point, as DynamicQuantizeLinear says."""
    low, high = min(0.0, float(x.min(initial=0))), max(0.0, float(x.max(initial=0)))
    scale = (high - low) / 255 or 1.0
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.float64(scale), np.uint8(zero)


class DynamicQuantizeLinear(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array) -> tuple[Array, Any, Any]:
        made, scale, zero = _quantized(x)
        return made, np.asarray(scale), np.asarray(zero)


def _along(parameter: Any, rank: int, axis: int) -> Array:
    """A number, or one for each place of an axis, in FLOAT64 and so that it broadcasts."""
    wide = np.asarray(parameter, "f8")
    shape = [1] * rank
    if wide.size > 1:
        shape[axis] = wide.size
    return wide.reshape(shape) if rank else wide.reshape(())


class DequantizeLinear(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array, scale: Any, zero: Any = None, axis: int = 1, **_: Any) -> tuple[Array]:
        less = 0.0 if zero is None else _along(zero, x.ndim, axis)
        return ((x.astype("f8") - less) * _along(scale, x.ndim, axis),)


class QuantizeLinear(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(self, x: Array, scale: Any, zero: Any = None, axis: int = 1, **_: Any) -> tuple[Array]:
        kind = np.dtype(np.uint8 if zero is None else np.asarray(zero).dtype)
        bounds = np.iinfo(kind)
        more = 0.0 if zero is None else _along(zero, x.ndim, axis)
        return (np.clip(np.rint(x / _along(scale, x.ndim, axis)) + more, bounds.min, bounds.max).astype(kind),)


class DynamicQuantizeLSTM(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    op_domain = "com.microsoft"

    def _run(self, *given: Any, direction: str = "forward", hidden_size: int = 0, **_: Any) -> tuple[Array, ...]:
        inputs: list[Any] = [*given, *[None] * (12 - len(given))]
        x, w, r, b, lengths, first, cell, peepholes, *scales = inputs
        if lengths is not None and (np.asarray(lengths) != len(x)).any():
            raise NotImplementedError("sequences of several lengths")
        if peepholes is not None:
            raise NotImplementedError("peepholes")
        steps, batch, _width = x.shape
        results, last, cells = [], [], []
        for number in range(w.shape[0]):
            weights = (
                _BlockWeightsOfNode(w, scales[0], scales[1], number),
                _BlockWeightsOfNode(r, scales[2], scales[3], number),
            )
            bias = np.zeros(8 * hidden_size) if b is None else np.asarray(b)[number]
            h = np.zeros((batch, hidden_size)) if first is None else np.asarray(first)[number]
            c = np.zeros((batch, hidden_size)) if cell is None else np.asarray(cell)[number]
            is_back = direction == "reverse" or number == 1
            given_gates = weights[0].times(x.reshape(steps * batch, -1)).reshape(steps, batch, -1)
            made: list[Any] = [None] * steps
            for step in reversed(range(steps)) if is_back else range(steps):
                gates = given_gates[step] + weights[1].times(h) + bias[: 4 * hidden_size] + bias[4 * hidden_size :]
                i, o, f, n = np.split(gates, 4, axis=1)
                c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(n)
                h = made[step] = _sigmoid(o) * np.tanh(c)
            results.append(np.stack(made))
            last.append(h)
            cells.append(c)
        return np.stack(results, axis=1), np.stack(last), np.stack(cells)


class _BlockWeightsOfNode:
    """A direction's matrix of integers, which numbers that are rounded to integers are multiplied by."""

    def __init__(self, weights: Any, scale: Any, zero: Any, number: int) -> None:
        self._scale = np.asarray(scale, "f8").reshape(weights.shape[0], -1)[number]
        zeros = np.asarray(zero, "f8").reshape(weights.shape[0], -1)[number]
        self._numbers = np.asarray(weights[number], "f8") - zeros

    def times(self, rows: Array) -> Array:
        quantized, scale, zero = _quantized(rows)
        made: Array = (quantized.astype("f8") - zero) @ self._numbers * (scale * self._scale)
        return made


def _sigmoid(x: Array) -> Array:
    made: Array = 1 / (1 + np.exp(-x))
    return made


class STFT(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    def _run(
        self, signal: Array, step: Any, window: Array | None = None, length: Any = None, onesided: int = 1
    ) -> tuple[Array]:
        if signal.ndim == 3 and signal.shape[2] == 2:
            raise NotImplementedError("complex signals")
        count = int(length) if window is None else len(window)
        framed = np.lib.stride_tricks.sliding_window_view(signal.reshape(len(signal), -1), count, axis=1)
        frames = framed[:, :: int(step)] * (1 if window is None else window)
        made = np.fft.rfft(frames) if onesided in (1, None) else np.fft.fft(frames)
        return (np.stack([made.real, made.imag], axis=-1),)


class FastGelu(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    op_domain = "com.microsoft"

    def _run(self, x: Array, bias: Array | None = None, **_: Any) -> tuple[Array]:
        x = x if bias is None else x + bias
        return (0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),)


class SkipLayerNormalization(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    op_domain = "com.microsoft"

    def _run(self, *given: Any, epsilon: float = 1e-12, **_: Any) -> tuple[Array, ...]:
        inputs: list[Any] = [*given, *[None] * (5 - len(given))]
        x, skip, gamma, beta, bias = inputs
        whole = x + skip if bias is None else x + skip + bias
        centred = whole - whole.mean(axis=-1, keepdims=True)
        made = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * gamma
        results = (made if beta is None else made + beta, np.zeros(0), np.zeros(0), whole)
        return results[: len(self.onnx_node.output)]


class FusedMatMul(OpRun):  # type: ignore[misc, unused-ignore]  # onnx has no types
    op_domain = "com.microsoft"

    def _run(self, a: Array, b: Array, alpha: float = 1.0, transA: int = 0, transB: int = 0, **_: Any) -> tuple[Array]:
        left, right = (x.swapaxes(-1, -2) if turned else x for x, turned in ((a, transA), (b, transB)))
        return ((1.0 if alpha is None else alpha) * (left @ right),)


_OPERATORS = [
    *(BatchNormalization, Conv, ConvInteger, ConvTranspose, MaxPool),
    *(DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear, DynamicQuantizeLSTM),
    *(FastGelu, FusedMatMul, SkipLayerNormalization, STFT),
]

__all__ = ["Doubled"]
