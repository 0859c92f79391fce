"""Single nodes at random: operators with attributes and inputs that ONNX Runtime and dmlvk should both compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F32, F16, F64 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64)
INTEGERS = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
FLOATS = (F32, F32, F16, F64)


@dataclasses.dataclass
class Drawn:
    op_type: str  # its operator
    inputs: list[Array | None]  # ``None`` for an absent one
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)  # those that are given
    outputs: int = 1  # how many
    domain: str = ""  # of the operator
    steady: tuple[int, ...] = ()  # numbers of inputs that are always initializers
    tolerance: float = 1.0  # a factor of what results may differ by


class Draw:
    """Random choices for a node.

    Args:
        opset: the version of the operators.
    """

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        self.rng, self.opset = rng, opset

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, part: float = 0.5) -> bool:
        return bool(self.rng.random() < part)

    def between(self, low: int, high: int) -> int:
        """An integer, both bounds among them."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 1, high: int = 4, largest: int = 5) -> tuple[int, ...]:
        return tuple(self.between(1, largest) for _ in range(self.between(low, high)))

    def array(
        self, shape: Sequence[int], dtype: np.dtype[Any] | None = None, low: float = -3, high: float = 3
    ) -> Array:
        wanted = self.one(FLOATS) if dtype is None else dtype
        if wanted.kind == "b":
            return self.rng.random(tuple(shape)) < 0.5
        if wanted.kind in "iu":
            least = 0 if wanted.kind == "u" else int(low)
            return self.rng.integers(least, int(high) + 1, tuple(shape)).astype(wanted)
        return np.asarray(self.rng.uniform(low, high, tuple(shape))).astype(wanted)

    def partner(self, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = [1 if self.chance(0.3) else size for size in shape]
        return tuple(sizes[self.between(0, len(sizes)) if self.chance(0.3) else 0 :])

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return self.between(-rank, rank - 1)

    def maybe(self, **attributes: Any) -> dict[str, Any]:
        return {name: value for name, value in attributes.items() if self.chance(0.6)}


Recipe = Callable[[Draw], Drawn]
RECIPES: dict[str, Recipe] = {}


def recipe(*names: str) -> Callable[[Callable[[Draw, str], Drawn]], Callable[[Draw, str], Drawn]]:
    def register(function: Callable[[Draw, str], Drawn]) -> Callable[[Draw, str], Drawn]:
        for name in names:
            RECIPES[name] = lambda draw, name=name: function(draw, name)  # type: ignore[misc]
        return function

    return register


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


_DOMAINS = {"Log": (0.1, 5), "Sqrt": (0, 5), "Acosh": (1, 5), "Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.9, 0.9)}
_DOMAINS |= {"Reciprocal": (0.2, 3), "Tan": (-1.2, 1.2)}


@recipe(
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "IsNaN"),
    *("Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt"),
    *("Tan", "Tanh", "HardSwish", "Mish", "Selu", "Identity", "GlobalAveragePool", "GlobalMaxPool"),
)
def unary(d: Draw, name: str) -> Drawn:
    shape = d.shape(3, 5) if name.startswith("Global") else d.shape(0, 5)
    dtype = d.one(INTEGERS[:4]) if name in ("Abs", "Neg", "Sign") and d.chance(0.3) else None
    return Drawn(name, [d.array(shape, dtype, *_DOMAINS.get(name, (-3, 3)))])


@recipe("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Shrink", "Gelu", "IsInf", "Swish")
def with_attributes(d: Draw, name: str) -> Drawn:
    given: dict[str, dict[str, Any]] = {
        "HardSigmoid": d.maybe(alpha=0.3, beta=0.4),
        "Shrink": d.maybe(lambd=0.3, bias=0.2),
        "Gelu": d.maybe(approximate=d.one(["none", "tanh"])),
        "IsInf": d.maybe(detect_negative=0, detect_positive=d.between(0, 1)),
    }
    array = d.array(d.shape(0, 4))
    if name == "IsInf" and array.ndim:
        array = np.where(d.rng.random(array.shape) < 0.3, np.inf * np.sign(array), array).astype(array.dtype)
    return Drawn(name, [array], given.get(name, d.maybe(alpha=0.3)))


@recipe("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def binary(d: Draw, name: str) -> Drawn:
    dtype = d.one(FLOATS) if d.chance(0.6) else d.one(INTEGERS)
    shape = d.shape(0, 4)
    low = 1 if name in ("Div", "Mod") and dtype.kind != "f" else -3
    a, b = d.array(shape, dtype, -9, 9), d.array(d.partner(shape), dtype, low, 7)
    if name == "Pow":
        a, b = d.array(shape, dtype, 0.2, 3), d.array(d.partner(shape), dtype, 0, 3)
    if name == "Div" and dtype.kind == "f":
        b = np.where(np.abs(b) < 0.2, 1, b).astype(dtype)
    if name == "Sub" and dtype.kind == "u":
        a = (a + 9).astype(dtype)
    fmod: dict[str, Any] = {"fmod": 1} if name == "Mod" and (dtype.kind == "f" or d.chance(0.3)) else {}
    if name != "PRelu" and d.chance(0.3):
        a, b = (b, a) if name not in ("Div", "Mod", "Pow", "Sub") else (a, b)
    return Drawn(name, [a, b], fmod)


@recipe("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
def bits(d: Draw, name: str) -> Drawn:
    dtype = (
        np.dtype(np.bool_) if not name.startswith("Bit") else d.one(INTEGERS[4:] if name == "BitShift" else INTEGERS)
    )
    shape = d.shape(0, 4)
    a, b = d.array(shape, dtype, -9, 99), d.array(d.partner(shape), dtype, 0, 6)
    direction: dict[str, Any] = {"direction": d.one(["LEFT", "RIGHT"])} if name == "BitShift" else {}
    return Drawn(name, [a] if name.endswith("Not") else [a, b], direction)


@recipe("Max", "Min", "Sum", "Mean")
def several(d: Draw, name: str) -> Drawn:
    dtype = d.one(INTEGERS[2:4]) if name in ("Max", "Min") and d.chance(0.3) else d.one(FLOATS)
    shape = d.shape(0, 4)
    return Drawn(name, [d.array(shape, dtype), *(d.array(d.partner(shape), dtype) for _ in range(d.between(0, 2)))])


@recipe("Clip")
def clip(d: Draw, name: str) -> Drawn:
    dtype = d.one(INTEGERS) if d.opset >= 12 and d.chance(0.3) else d.one(FLOATS)
    array = d.array(d.shape(0, 4), dtype)
    if d.opset < 11:
        return Drawn(name, [array], d.maybe(min=-1.0, max=1.5))
    bounds = [np.array(bound, dtype) if d.chance(0.7) else None for bound in (1, 2)]
    return Drawn(name, [array, *bounds])


@recipe(*(f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")))
def reduce(d: Draw, name: str) -> Drawn:
    dtype = d.one([*INTEGERS[2:4]]) if d.chance(0.25) else d.one(FLOATS)
    array = d.array(d.shape(1, 4), dtype, 0.5 if "Log" in name else -2, 2)
    return _reduced(d, name, array, 13 if name == "ReduceSum" else 18)


def _reduced(d: Draw, name: str, array: Array, input_since: int) -> Drawn:
    count = d.between(0, array.ndim)
    axes = [int(axis) - (array.ndim if d.chance(0.3) else 0) for axis in d.rng.permutation(array.ndim)[:count]]
    given = d.maybe(keepdims=d.between(0, 1))
    if d.opset < input_since:
        return Drawn(name, [array], given | ({"axes": axes} if axes else {}), tolerance=4)
    given |= d.maybe(noop_with_empty_axes=d.between(0, 1))
    return Drawn(name, [array, i64(*axes)] if d.chance(0.8) or axes else [array], given, steady=(1,), tolerance=4)


@recipe("ReduceSumSquare")
def sum_of_squares(d: Draw, name: str) -> Drawn:
    return _reduced(d, name, d.array(d.shape(1, 4), d.one([*FLOATS, *INTEGERS[2:4]])), 18)


@recipe("ArgMax", "ArgMin")
def arg(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4), d.one([F32, F16, F64, *INTEGERS[2:4]]))
    given = d.maybe(
        axis=d.axis(array.ndim) if d.opset >= 11 else d.between(0, array.ndim - 1), keepdims=d.between(0, 1)
    )
    return Drawn(name, [array], given | (d.maybe(select_last_index=1) if d.opset >= 12 else {}))


@recipe("TopK")
def top(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 3), d.one([F32, F64, np.dtype(np.int64)]) if d.opset >= 11 else F32, -30, 30)
    axis = d.axis(array.ndim) if d.opset >= 11 else d.between(0, array.ndim - 1)
    count = d.between(1, array.shape[axis])
    given = {"axis": axis} | (d.maybe(largest=d.between(0, 1)) if d.opset >= 11 else {})
    if d.opset < 10:
        return Drawn(name, [array], given | {"k": count}, 2)
    return Drawn(name, [array, i64(count)], given, 2, steady=(1,))


@recipe("CumSum")
def cumulative(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 3), d.one([F32, F64, *INTEGERS[2:4]]))
    axis = np.array(d.axis(array.ndim), d.one([np.int32, np.int64]))
    return Drawn(name, [array, axis], d.maybe(exclusive=1, reverse=1), steady=(1,))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(1, 4), d.one([F32, F16] if name == "Hardmax" else FLOATS))
    axis = d.axis(array.ndim) if d.opset >= 11 else d.between(0, array.ndim - 1)
    must = d.opset < 13 and array.ndim < 2
    return Drawn(name, [array], {"axis": 0} if must else d.maybe(axis=axis))


@recipe("BatchNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization")
def normalization(d: Draw, name: str) -> Drawn:
    array = d.array(d.shape(3, 5), d.one([F32, F32, F64, F16]))
    channels = [d.array((array.shape[1],), array.dtype, 0.5, 2) for _ in range(4)]
    if name == "BatchNormalization":
        return Drawn(name, [array, *channels], d.maybe(epsilon=1e-3, momentum=0.5), tolerance=4)
    if name == "InstanceNormalization":
        return Drawn(
            name, [array.astype(F32), *(c.astype(F32) for c in channels[:2])], d.maybe(epsilon=1e-3), tolerance=8
        )
    if name == "LRN":
        four = array.astype(F32).reshape((*array.shape[:3], -1))
        return Drawn(name, [four], {"size": d.one([1, 3, 5])} | d.maybe(alpha=0.1, beta=0.5, bias=2.0))
    if name == "LpNormalization":
        return Drawn(name, [d.array(d.shape(1, 4), d.one([F32, F64]))], d.maybe(axis=0, p=d.between(1, 2)), tolerance=4)
    if array.shape[0] == 1:  # ONNX Runtime divides 0 by 0 where there is one element, and gives NaN for ONNX's 0
        array = d.array((2, *array.shape[1:]), F32)
    return Drawn(name, [array.astype(F32)], d.maybe(axes=[0, 2, 3][: array.ndim - 1]), tolerance=20)


@recipe("LayerNormalization", "GroupNormalization", "RMSNormalization")
def layers(d: Draw, name: str) -> Drawn:
    dtype = d.one([F32, F64] if name == "LayerNormalization" else [F32])
    if name == "GroupNormalization":
        groups = d.between(1, 2)
        array = d.array((2, groups * 2, *d.shape(1, 2)), dtype)
        array[:, ::2] += 4  # ONNX Runtime takes one mean square from another: of near numbers nothing is left
        count = groups if d.opset < 21 else groups * 2
        return Drawn(name, [array, *(d.array((count,), dtype) for _ in range(2))], {"num_groups": groups}, tolerance=8)
    array = d.array((*d.shape(1, 3), 6), dtype)
    axis = d.between(0, array.ndim - 1)
    scale = d.array(array.shape[axis:], dtype)
    bias = [d.array(array.shape[axis:], dtype)] if name == "LayerNormalization" and d.chance() else []
    return Drawn(name, [array, scale, *bias], {"axis": axis} | d.maybe(epsilon=1e-3), tolerance=20)


def _window(d: Draw, axes: int, largest: int = 3) -> dict[str, Any]:
    kernel = [d.between(1, largest) for _ in range(axes)]
    given: dict[str, Any] = {"kernel_shape": kernel} | d.maybe(strides=[d.between(1, 3) for _ in range(axes)])
    if d.chance(0.4):
        given["auto_pad"] = d.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif d.chance(0.6):
        given["pads"] = [d.between(0, max(size - 1, 0)) for size in kernel * 2]
    return given


@recipe("AveragePool", "MaxPool", "LpPool")
def pool(d: Draw, name: str) -> Drawn:
    axes = d.between(1, 3)
    array = d.array((d.between(1, 2), d.between(1, 3), *(d.between(4, 8) for _ in range(axes))), d.one([F32, F32, F64]))
    given = _window(d, axes)
    if name == "AveragePool":
        given |= d.maybe(count_include_pad=1)
    if name == "LpPool":
        array = array.astype(F32)
        given |= d.maybe(p=d.between(1, 3))
    if d.opset >= (18 if name == "LpPool" else 10):
        given |= {} if given.get("auto_pad", "VALID") != "VALID" else d.maybe(ceil_mode=1)
    is_same = given.get("auto_pad", "").startswith("SAME")  # where ONNX Runtime's sizes are not ONNX's with dilations
    if not is_same and d.opset >= 10 and name == "MaxPool" and d.chance(0.3):
        given["dilations"] = [d.between(1, 2) for _ in range(axes)]
    outputs = 2 if name == "MaxPool" and d.opset >= 8 and d.chance(0.4) else 1
    if outputs == 2:
        given |= d.maybe(storage_order=d.between(0, 1))
    return Drawn(name, [array], given, outputs, tolerance=2)


@recipe("Conv", "ConvTranspose")
def convolution(d: Draw, name: str) -> Drawn:
    axes, groups = d.between(1, 3), d.one([1, 1, 2])
    dtype = d.one([F32, F32, F16, F64]) if name == "Conv" else F32
    given = _window(d, axes) | d.maybe(dilations=[d.between(1, 2) for _ in range(axes)])
    if given.get("auto_pad", "").startswith("SAME"):
        given.pop("dilations", None)
    channels, filters = groups * d.between(1, 2), groups * d.between(1, 2)
    array = d.array((d.between(1, 2), channels, *(d.between(5, 8) for _ in range(axes))), dtype)
    leading = (filters, channels // groups) if name == "Conv" else (channels, filters // groups)
    inputs: list[Array | None] = [array, d.array((*leading, *given["kernel_shape"]), dtype)]
    if d.chance():
        inputs.append(d.array((filters,), dtype))
    given |= {"group": groups} if groups > 1 else {}
    if name == "ConvTranspose" and "strides" in given and "auto_pad" not in given and d.chance(0.4):
        given["output_padding"] = [d.between(0, stride - 1) for stride in given["strides"]]
    return Drawn(name, inputs, given, tolerance=8)


@recipe("MatMul", "Gemm", "Einsum")
def product(d: Draw, name: str) -> Drawn:
    rows, terms, columns = (d.between(1, 6) for _ in range(3))
    dtype = d.one([F32, F32, F16, F64])
    if name == "MatMul":
        batch = d.shape(0, 2)
        return Drawn(
            name,
            [d.array((*batch, rows, terms), dtype), d.array((*d.partner(batch), terms, columns), dtype)],
            tolerance=8,
        )
    if name == "Einsum":
        equation = d.one(["ij,jk->ik", "ij,kj->ki", "ij,jk", "ij,jk->", "ij,jk->ijk"])
        second = (terms, columns) if "jk" in equation else (columns, terms)
        return Drawn(
            name, [d.array((rows, terms), dtype), d.array(second, dtype)], {"equation": equation}, tolerance=20
        )
    given = d.maybe(transA=d.between(0, 1), transB=d.between(0, 1), alpha=0.5, beta=2.0)
    a = (terms, rows) if given.get("transA") else (rows, terms)
    b = (columns, terms) if given.get("transB") else (terms, columns)
    dtype = F32 if dtype == F16 else dtype
    inputs: list[Array | None] = [d.array(a, dtype), d.array(b, dtype)]
    if d.opset < 11 or d.chance():
        inputs.append(d.array(d.one([(rows, columns), (columns,), (1,), (rows, 1)]), dtype))
    return Drawn(name, inputs, given, tolerance=8)
