"""Element-wise operators: arithmetic, comparisons, logic, bits, bounds."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import DATA_TYPES, NotOnDevice, Tensor, broadcast_shape
from dmlvk.operators import IsInfinityMode, RoundingMode

_UNARY = {
    "Abs": "ABS", "Acos": "ACOS", "Acosh": "ACOSH", "Asin": "ASIN", "Asinh": "ASINH", "Atan": "ATAN",
    "Atanh": "ATANH", "BitwiseNot": "BIT_NOT", "Ceil": "CEIL", "Cos": "COS", "Cosh": "COSH", "Erf": "ERF",
    "Exp": "EXP", "Floor": "FLOOR", "IsNaN": "IS_NAN", "Log": "LOG", "Neg": "NEGATE", "Not": "LOGICAL_NOT",
    "Reciprocal": "RECIP", "Sign": "SIGN", "Sin": "SIN", "Sinh": "SINH", "Sqrt": "SQRT", "Tan": "TAN", "Tanh": "TANH",
}  # fmt: skip

_BINARY = {
    "Add": "ADD",
    "And": "LOGICAL_AND",
    "BitwiseAnd": "BIT_AND",
    "BitwiseOr": "BIT_OR",
    "BitwiseXor": "BIT_XOR",
    "Div": "DIVIDE",
    "Equal": "LOGICAL_EQUALS",
    "Greater": "LOGICAL_GREATER_THAN",
    "GreaterOrEqual": "LOGICAL_GREATER_THAN_OR_EQUAL",
    "Less": "LOGICAL_LESS_THAN",
    "LessOrEqual": "LOGICAL_LESS_THAN_OR_EQUAL",
    "Mul": "MULTIPLY",
    "Or": "LOGICAL_OR",
    "Sub": "SUBTRACT",
    "Xor": "LOGICAL_XOR",
}


def with_equal_zeros(node: Node, tensor: Tensor) -> Tensor:
    """The elements, with +0 for -0: before places of extremes are sought, for which ONNX has them as one number."""
    if tensor.element not in FLOATS:
        return tensor
    zero = node.scalar(0, tensor.element)
    return tensor.equals(zero).where(zero, tensor)


def with_nan(node: Node, made: Tensor, *sources: Tensor) -> Tensor:
    """What an operator made, with NaN where a source that broadcasts to it has NaN; as it is unless that is asked for.

    DirectML's rules drop NaN in some operators (RELU gives 0, CLIP a bound, MAX the other number), ONNX Runtime keeps
    it; ``SessionOptions.propagate_nan`` chooses.
    """
    if not node.assembly.propagates_nan or made.element not in FLOATS:
        return made
    for source in sources:
        made = node.apply("ELEMENT_WISE_IS_NAN", input_tensor=source).where(source, made)
    return made


def _unary(name: str, node: Node) -> None:
    tensor = node.tensor(0)
    made = node.apply(name, input_tensor=tensor)
    node.set(with_nan(node, made, tensor) if name == "ELEMENT_WISE_SIGN" else made)


def _binary(name: str, node: Node) -> None:
    a, b = _aligned(node)
    node.set(node.apply(name, a_tensor=a, b_tensor=b))


def _aligned(node: Node) -> tuple[Tensor, Tensor]:
    """The two operands; before version 7 the second one's place was given by attributes."""
    a, b = node.tensor(0), node.tensor(1)
    if node.version < 7 and node.integer("broadcast") and node.attribute("axis") is not None:
        after = a.rank - node.axis(node.integer("axis"), a.rank) - b.rank
        for _ in range(after):
            b = b.with_axis(b.rank)
    return a, b


for _op_type, _operator in _UNARY.items():
    _name = f"ELEMENT_WISE_{_operator}"
    translates(_op_type, by=[_name], batch=batches.elementwise)(functools.partial(_unary, _name))

for _op_type, _operator in _BINARY.items():
    _name = f"ELEMENT_WISE_{_operator}"
    _made = functools.partial(_binary, _name)
    translates(_op_type, by=[_name], batch=batches.elementwise)(_made)


@translates("BitShift", by=["ELEMENT_WISE_BIT_SHIFT_LEFT", "ELEMENT_WISE_BIT_SHIFT_RIGHT"], batch=batches.elementwise)
def bit_shift(node: Node) -> None:
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise NotOnDevice(f"the direction must be LEFT or RIGHT; got {direction!r}")
    node.set(node.apply(f"ELEMENT_WISE_BIT_SHIFT_{direction}", a_tensor=node.tensor(0), b_tensor=node.tensor(1)))


@translates("Pow", by=["ELEMENT_WISE_POW"], batch=batches.elementwise)
def power(node: Node) -> None:
    """A constant exponent is an attribute; one of another type is cast where its values are known."""
    base, exponent = node.tensor(0), node.known(1)
    if exponent is not None and exponent.size == 1 and base.element in FLOATS:
        base = base.broadcast(broadcast_shape(base.shape, exponent.shape))
        node.set(base ** float(exponent.reshape(-1)[0]))
    else:
        node.set(base ** node.cast(node.tensor(1), base.element))


@translates("Mod", by=["ELEMENT_WISE_MODULUS_FLOOR", "ELEMENT_WISE_MODULUS_TRUNCATE"], batch=batches.elementwise)
def modulus(node: Node) -> None:
    """With fmod the sign is the dividend's, else the divisor's."""
    name = "TRUNCATE" if node.integer("fmod") else "FLOOR"
    node.set(node.apply(f"ELEMENT_WISE_MODULUS_{name}", a_tensor=node.tensor(0), b_tensor=node.tensor(1)))


@translates("Max", "Min", by=["ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN"], batch=batches.elementwise)
def extremum(node: Node) -> None:
    name = f"ELEMENT_WISE_{node.op_type.upper()}"
    tensors = node.tensors()
    made = functools.reduce(lambda a, b: node.apply(name, a_tensor=a, b_tensor=b), tensors[1:], tensors[0])
    node.set(with_nan(node, made, *tensors) if len(tensors) > 1 else made)


@translates("Sum", by=["ELEMENT_WISE_ADD"], batch=batches.elementwise)
def total(node: Node) -> None:
    """Any number of inputs, added in their order."""
    tensors = node.tensors()
    if len(tensors) == 2 and tensors[0].element in FLOATS:
        activation = node.activation()
        if activation is not None:
            a, b = tensors
            node.set(node.apply("ELEMENT_WISE_ADD1", a_tensor=a, b_tensor=b, fused_activation=activation))
            return
    node.set(node.cast(_added_up(node, tensors), tensors[0].element))


def _added_up(node: Node, tensors: Sequence[Tensor]) -> Tensor:
    """The sum in order; of more than two FLOAT16 tensors in FLOAT32, which nothing rounds before the last one."""
    if len(tensors) > 2 and tensors[0].element == TensorProto.FLOAT16:
        tensors = [node.cast(tensor, TensorProto.FLOAT) for tensor in tensors]
    return functools.reduce(operator.add, tensors[1:], tensors[0])


@translates("Mean", by=["ELEMENT_WISE_ADD", "ELEMENT_WISE_DIVIDE"], batch=batches.elementwise)
def mean(node: Node) -> None:
    """The sum in the inputs' order, divided by their number."""
    tensors = node.tensors()
    if len(tensors) == 2:
        node.set(node.apply("ELEMENT_WISE_MEAN", a_tensor=tensors[0], b_tensor=tensors[1]))
        return
    added = _added_up(node, tensors)
    if len(tensors) > 1:
        added = added / len(tensors)
    node.set(node.cast(added, tensors[0].element))


@translates("Round", by=["ELEMENT_WISE_ROUND"], batch=batches.elementwise)
def rounded(node: Node) -> None:
    """Halves go to the even integer."""
    mode = RoundingMode.HALVES_TO_NEAREST_EVEN
    node.set(node.apply("ELEMENT_WISE_ROUND", input_tensor=node.tensor(0), rounding_mode=mode))


@translates("IsInf", by=["ELEMENT_WISE_IS_INFINITY"], batch=batches.elementwise)
def is_infinite(node: Node) -> None:
    positive, negative = bool(node.integer("detect_positive", 1)), bool(node.integer("detect_negative", 1))
    if not positive and not negative:
        raise NotOnDevice("neither infinity is looked for")
    mode = IsInfinityMode.EITHER
    if positive != negative:
        mode = IsInfinityMode.POSITIVE if positive else IsInfinityMode.NEGATIVE
    node.set(node.apply("ELEMENT_WISE_IS_INFINITY", input_tensor=node.tensor(0), infinity_mode=mode))


@translates("Where", by=["ELEMENT_WISE_IF"], batch=batches.elementwise)
def where(node: Node) -> None:
    """All three broadcast."""
    condition, a, b = node.tensors()
    node.set(condition.where(a, b))


@translates("Clip", by=["ELEMENT_WISE_CLIP1"], batch=batches.elementwise)
def clip(node: Node) -> None:
    """Bounds are attributes; before version 11 of the node, later of inputs that are known, else tensors."""
    tensor = node.tensor(0)
    dtype = DATA_TYPES[tensor.element].numpy_dtype
    lowest: float = float("-inf") if dtype.kind == "f" else int(np.iinfo(dtype).min)
    highest: float = float("inf") if dtype.kind == "f" else int(np.iinfo(dtype).max)
    if node.version < 11:
        low, high = node.real("min", lowest), node.real("max", highest)
    else:
        bounds = []
        for index, default in ((1, lowest), (2, highest)):
            bound = node.array(index).reshape(-1) if node.has(index) else np.array([default])
            if bound.size != 1:
                raise NotOnDevice("a bound must be one number")
            bounds.append(bound[0].item())
        low, high = bounds
    low = min(low, high)  # ONNX applies the upper bound last
    kind = tensor.data_type
    made = node.apply("ELEMENT_WISE_CLIP1", input_tensor=tensor, min_max_data_type=kind, min=low, max=high)
    node.set(with_nan(node, made, tensor))


@translates("Affine", by=["ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ADD"])
def affine(node: Node) -> None:
    """The tensor times alpha, plus beta."""
    tensor = node.tensor(0)
    node.set(tensor * node.real("alpha", 1) + node.real("beta"))
