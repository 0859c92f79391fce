"""GELU by the error function and by tanh, SiLU and SwiGLU, written out as products."""

from __future__ import annotations

import math

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_BY_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def gelu(nodes: Nodes, step: Step) -> Joined | None:
    """X / 2 * (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) (Hendrycks, Gimpel, 2016)."""
    if step.proto.op_type != "Mul":
        return None
    body: list[Step] = []
    factors = nodes.factors(step.proto.output[0], body)
    halves = [name for name in factors if nodes.is_number(name, 0.5)]
    halved = [half for name in factors if (half := _halved(nodes, name)) is not None]
    added = [(name, found) for name in factors if (found := _one_more(nodes, name)) is not None]
    if len(added) != 1:
        return None
    name, (function, add) = added[0]
    rest = [factor for factor in factors if factor != name and factor not in halves]
    if len(rest) != 1 or len(halves) + len(halved) != 1:
        return None
    operand = rest[0]
    if halved:
        operand = halved[0].proto.input[0]
        body.append(halved[0])
    body += [add, function]
    matches = _is_scaled(nodes, function, operand, body) if function.proto.op_type == "Erf" else None
    if function.proto.op_type == "Tanh":
        matches = _is_cubic(nodes, function, operand, body)
    if not matches:
        return None
    return nodes.join("Gelu" if function.proto.op_type == "Erf" else "FastGelu", [operand], body)


def _halved(nodes: Nodes, name: str) -> Step | None:
    step = nodes.writer(name, "Div")
    return step if step is not None and nodes.is_number(step.proto.input[1], 2.0) else None


def _one_more(nodes: Nodes, name: str) -> tuple[Step, Step] | None:
    """The Erf or Tanh to which one is added, and the node that adds it."""
    add = nodes.writer(name, "Add")
    parts = None if add is None else nodes.with_number(add)
    if add is None or parts is None or parts[1] != 1.0:
        return None
    function = nodes.writer(parts[0], "Erf", "Tanh")
    return None if function is None else (function, add)


def _is_scaled(nodes: Nodes, function: Step, operand: str, body: list[Step]) -> bool:
    """Whether an Erf is that of the operand divided by the root of two."""
    scaled = nodes.writer(function.proto.input[0], "Div", "Mul")
    parts = None if scaled is None else nodes.with_number(scaled)
    if scaled is None or parts is None or parts[0] != operand:
        return False
    wanted = 1 / _ROOT_HALF if scaled.proto.op_type == "Div" else _ROOT_HALF
    is_divisor = scaled.proto.op_type == "Mul" or scaled.proto.input[0] == operand
    body.append(scaled)
    return is_divisor and nodes.is_number(scaled.proto.input[1 if parts[0] == scaled.proto.input[0] else 0], wanted)


def _is_cubic(nodes: Nodes, function: Step, operand: str, body: list[Step]) -> bool:
    """Whether a Tanh is that of sqrt(2 / pi) * (x + 0.044715 x^3), or sqrt(2 / pi) * x * (1 + 0.044715 x^2)."""
    factors = nodes.factors(function.proto.input[0], body)
    left = [name for name in factors if not nodes.is_number(name, _ROOT_TWO_BY_PI)]
    if len(left) != len(factors) - 1:
        return False
    power = 3
    if len(left) == 2 and operand in left:
        left.remove(operand)
        power = 2
    add = nodes.writer(left[0], "Add") if len(left) == 1 else None
    if add is None:
        return False
    body.append(add)
    first, second = add.proto.input
    for plain, curved in ((first, second), (second, first)):
        is_plain = plain == operand if power == 3 else nodes.number(plain) == 1.0
        inside: list[Step] = []
        if is_plain and _is_power(nodes, curved, operand, power, inside):
            body += inside
            return True
    return False


def _is_power(nodes: Nodes, name: str, operand: str, power: int, body: list[Step]) -> bool:
    """Whether a value is 0.044715 times a power of the operand."""
    exponent, has_factor = 0, False
    for factor in nodes.factors(name, body):
        raised = nodes.writer(factor, "Pow")
        if factor == operand:
            exponent += 1
        elif raised is not None and raised.proto.input[0] == operand:
            body.append(raised)
            exponent += int(nodes.number(raised.proto.input[1]) or 0)
        elif nodes.is_number(factor, _CUBIC) and not has_factor:
            has_factor = True
        else:
            return False
    return has_factor and exponent == power


def swish(nodes: Nodes, step: Step) -> Joined | None:
    """X * sigmoid(alpha * x) (Ramachandran, Zoph, Le, 2017), and the same as a gate (SwiGLU: Shazeer, 2020)."""
    if step.proto.op_type != "Mul":
        return None
    first, second = step.proto.input
    for operand, other in ((first, second), (second, first)):
        sigmoid = nodes.writer(other, "Sigmoid")
        if sigmoid is None:
            continue
        if sigmoid.proto.input[0] == operand:
            return _gated(nodes, operand, [step, sigmoid], 1.0)
        scaled = nodes.writer(sigmoid.proto.input[0], "Mul")
        parts = None if scaled is None else nodes.with_number(scaled)
        if scaled is not None and parts is not None and parts[0] == operand:
            return _gated(nodes, operand, [step, sigmoid, scaled], parts[1])
    return None


def _gated(nodes: Nodes, operand: str, body: list[Step], alpha: float) -> Joined | None:
    """With what is multiplied by it, where that is all that reads it."""
    name = body[0].proto.output[0]
    product = nodes.reader(name, "Mul")
    if product is not None:
        first, second = product.proto.input
        gated = second if first == name else first
        if gated != name and not nodes.is_constant(gated):
            made = nodes.join("SwiGLU", [operand, gated], [*body, product], alpha=alpha)
            if made is not None:
                return made
    return nodes.join("Swish", [operand], body, alpha=alpha)
