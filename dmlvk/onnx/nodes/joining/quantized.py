"""Operators between DequantizeLinear and QuantizeLinear, as onnxruntime.quantization writes them.

What stands for integers is multiplied as these, and scaled behind the sum: exact sums where FLOAT32 would round each
product, and what ONNX Runtime's optimizer makes of such a model (Jacob et al., 2018, "Quantization and training of
neural networks for efficient integer-arithmetic-only inference").
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes, attribute

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclasses.dataclass(frozen=True)
class _Integers:
    """What a DequantizeLinear or QuantizeLinear of known parameters says."""

    name: str  # the integers
    scale: str  # the name of their scale
    zero: str  # of their zero point


def quantized(nodes: Nodes, step: Step) -> Joined | None:
    """A product, a sum or a convolution of integers, with what rounds it to integers again."""
    if step.proto.op_type == "MatMul":
        return None if nodes.reader(step.proto.output[0], "QuantizeLinear") else _product_of_integers(nodes, step)
    if step.proto.op_type != "QuantizeLinear":
        return None
    made = _parameters(nodes, step, step.proto.output[0])
    between = nodes.writer(step.proto.input[0], "Relu")
    is_clipped = between is not None and made is not None and _is_lowest(nodes, made.zero)
    operator = nodes.writer(between.proto.input[0] if between and is_clipped else step.proto.input[0], *_BUILDERS)
    if made is None or operator is None:
        return None
    body = [operator, step, *([between] if between and is_clipped else [])]
    return _BUILDERS[operator.proto.op_type](nodes, operator, body, made)


def _is_lowest(nodes: Nodes, zero: str) -> bool:
    """Whether integers stand for no negative number, so that a Relu before them changes nothing."""
    value = nodes.array(zero)
    return value is not None and bool((value == np.iinfo(value.dtype).min).all())


def _parameters(nodes: Nodes, step: Step, integers: str, axis: int | None = None) -> _Integers | None:
    """What a node says of scale and zero point, where both are known: one for all, or for each place of an axis."""
    given = list(step.proto.input)
    scale, zero = nodes.array(given[1]), nodes.array(given[2]) if len(given) > 2 else None
    if scale is None or zero is None or scale.dtype != np.float32 or zero.dtype not in _BYTES:
        return None
    if attribute(step, "block_size", 0):
        return None
    is_one = scale.size == 1 and zero.size == 1
    is_along = scale.ndim == 1 and zero.shape == scale.shape and attribute(step, "axis", 1) == axis
    return _Integers(integers, given[1], given[2]) if is_one or is_along else None


def _operand(nodes: Nodes, name: str, axis: int | None = None) -> _Integers | None:
    step = nodes.writer(name, "DequantizeLinear")
    return None if step is None else _parameters(nodes, step, step.proto.input[0], axis)


def _factors(nodes: Nodes, operator: Step) -> tuple[_Integers, _Integers] | None:
    """Both factors; the second one may have a scale for each column or filter."""
    given, kind = list(operator.proto.input), operator.proto.op_type
    step = nodes.writer(given[1], "DequantizeLinear")
    weights = None if step is None else nodes.array(step.proto.input[0])
    axes = [0] if kind == "Conv" or attribute(operator, "transB", 0) else [1]
    if kind == "MatMul":
        axes = [-1] if weights is None else [-1, weights.ndim - 1]
    first = _operand(nodes, given[0])
    found = (second for axis in axes if (second := _operand(nodes, given[1], axis)) is not None)
    second = next(found, None)
    return None if first is None or second is None else (first, second)


def _bias(nodes: Nodes, operator: Step, first: _Integers, second: _Integers) -> str | None:
    """The integers of a bias whose scale is that of the sums; empty: there is none; ``None``: another bias."""
    name = operator.proto.input[2] if len(operator.proto.input) > 2 else ""
    if not name:
        return ""
    step = nodes.writer(name, "DequantizeLinear")
    if step is None:
        return None
    values = [nodes.array(given) for given in (first.scale, second.scale, *step.proto.input)]
    a, b, integers, scale = values[:4]
    if a is None or b is None or integers is None or scale is None or integers.dtype != np.int32:
        return None
    zero = values[4] if len(values) > 4 else np.zeros(1)
    if zero is None or zero.any() or not np.allclose(scale, a.reshape(-1) * b, rtol=1e-4, atol=0):
        return None
    return str(step.proto.input[0])


def _product(nodes: Nodes, operator: Step, body: list[Step], made: _Integers | None) -> Joined | None:
    """A Conv, MatMul or Gemm: integers, bias, and the parameters of both factors and of the result."""
    found = _factors(nodes, operator)
    if found is None:
        return None
    bias = _bias(nodes, operator, *found)
    if bias is None or {attribute(operator, "alpha", 1.0), attribute(operator, "beta", 1.0)} != {1.0}:
        return None
    first, second = found
    inputs = [first.name, second.name, bias, first.scale, first.zero, second.scale, second.zero]
    return _joined(nodes, operator, [*inputs, *([made.scale, made.zero] if made else [])], body)


def _product_of_integers(nodes: Nodes, operator: Step) -> Joined | None:
    """A MatMul whose result stays a number."""
    return _product(nodes, operator, [operator], None)


def _element_wise(nodes: Nodes, operator: Step, body: list[Step], made: _Integers) -> Joined | None:
    """An Add or Mul: integers, and the parameters of both operands and of the result."""
    first, second = (_operand(nodes, name) for name in operator.proto.input)
    if first is None or second is None or not _are_of_one_kind(nodes, first, second, made):
        return None
    zero = nodes.array(made.zero)
    are_moved = {_is_moved(nodes, item.name, operator) for item in (first, second)} | {_is_moved(nodes, made.name)}
    if zero is None or (zero.dtype == np.int8 and len(are_moved) > 1):
        return None
    inputs = [first.name, first.scale, first.zero, second.name, second.scale, second.zero, made.scale, made.zero]
    return _joined(nodes, operator, inputs, body, moved=int(zero.dtype == np.int8 and True in are_moved))


def _is_moved(nodes: Nodes, integers: str, reader: Step | None = None) -> bool:
    """Whether ONNX Runtime makes INT8 integers UINT8 on x86-64: they go from a QuantizeLinear to one DequantizeLinear.

    Only where all operands of a sum or product are of one type afterwards, does it compute with the integers.

    Args:
        reader: the node that reads what they stand for; ``None``: any one.
    """
    back = nodes.reader(integers, "DequantizeLinear")
    if nodes.writer(integers, "QuantizeLinear") is None or back is None:
        return False
    name = back.proto.output[0]
    return nodes.has_one_reader(name) and (reader is None or list(reader.proto.input).count(name) == 1)


def _are_of_one_kind(nodes: Nodes, *items: _Integers) -> bool:
    return len({zero.dtype for item in items if (zero := nodes.array(item.zero)) is not None}) == 1


def _softmax(nodes: Nodes, operator: Step, body: list[Step], made: _Integers) -> Joined | None:
    """A Softmax: integers, and their parameters and the result's."""
    first = _operand(nodes, operator.proto.input[0])
    if first is None or not _are_of_one_kind(nodes, first, made):
        return None
    inputs = [first.name, first.scale, first.zero, made.scale, made.zero]
    axis = attribute(operator, "axis", -1 if operator.version >= 13 else 1)
    return _joined(nodes, operator, inputs, body, axis=axis, opset=operator.version)


def _joined(nodes: Nodes, operator: Step, inputs: list[str], body: list[Step], **more: int) -> Joined | None:
    """The node, which keeps what dequantizes: where the device cannot compute it, its body reads that."""
    given = {item.name: attribute(operator, item.name) for item in operator.proto.attribute} | more
    made = nodes.join(operator.proto.op_type, inputs, body, **given)
    if made is None:
        return None
    read = dict.fromkeys([*made.reads, *(name for name in operator.proto.input if name)])
    return dataclasses.replace(made, reads=tuple(read))


_BUILDERS = {
    **dict.fromkeys(("Conv", "MatMul", "Gemm"), _product),
    **dict.fromkeys(("Add", "Mul"), _element_wise),
    "Softmax": _softmax,
}
