"""LayerNorm, RMSNorm and GroupNorm, written out as means, powers, roots and quotients."""

from __future__ import annotations

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.groups import of_groups
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes, attribute


def normalization(nodes: Nodes, step: Step) -> Joined | None:
    """A quotient of values and their root mean square, the mean taken off before or not, with scale and bias behind."""
    if step.proto.op_type not in ("Div", "Mul") or len(step.proto.input) != 2:
        return None
    first, second = step.proto.input
    pairs = [(first, second)] if step.proto.op_type == "Div" else [(first, second), (second, first)]
    for values, divisor in pairs:
        body = [step]
        squares = _mean_square(nodes, divisor, body, is_inverse=step.proto.op_type == "Mul")
        if squares is not None:
            operand, axes, epsilon = squares
            if not _is_same(nodes, values, operand, body):
                return None
            return _finished(nodes, values, axes, epsilon, body)
    return None


def _mean_square(nodes: Nodes, name: str, body: list[Step], *, is_inverse: bool) -> tuple[str, list[int], float] | None:
    """What is squared, the axes of its mean, and what is added to that, of its root or the root's inverse."""
    name = nodes.uncast(name, body)
    if is_inverse:
        inverse = nodes.writer(name, "Reciprocal", "Div", "Pow")
        if inverse is None:
            return None
        body.append(inverse)
        name = inverse.proto.input[0]
        if inverse.proto.op_type == "Div":
            if not nodes.is_number(name, 1.0):
                return None
            name = inverse.proto.input[1]
        if inverse.proto.op_type == "Pow":
            if not nodes.is_number(inverse.proto.input[1], -0.5):
                return None
            return _sum_with_epsilon(nodes, name, body)
    root = nodes.writer(name, "Sqrt", "Pow")
    if root is None or (root.proto.op_type == "Pow" and not nodes.is_number(root.proto.input[1], 0.5)):
        return None
    body.append(root)
    return _sum_with_epsilon(nodes, root.proto.input[0], body)


def _sum_with_epsilon(nodes: Nodes, name: str, body: list[Step]) -> tuple[str, list[int], float] | None:
    added = nodes.writer(name, "Add")
    parts = None if added is None else nodes.with_number(added)
    if added is None or parts is None or not 0 <= parts[1] < 1:
        return None
    body.append(added)
    mean = _mean(nodes, nodes.uncast(parts[0], body), body)
    if mean is None:
        return None
    square = nodes.writer(mean[0], "Pow", "Mul")
    if square is None:
        return None
    base, factor = square.proto.input
    if not (nodes.is_number(factor, 2.0) if square.proto.op_type == "Pow" else base == factor):
        return None
    body.append(square)
    return base, mean[1], parts[1]


def _mean(nodes: Nodes, name: str, body: list[Step]) -> tuple[str, list[int]] | None:
    """What a mean that keeps its dimensions is taken of, and its axes."""
    step = nodes.writer(name, "ReduceMean")
    if step is None or not attribute(step, "keepdims", 1):
        return None
    axes = attribute(step, "axes")
    if len(step.proto.input) > 1 and step.proto.input[1]:
        axes = nodes.integers(step.proto.input[1])
    if not axes:
        return None
    body.append(step)
    return step.proto.input[0], list(axes)


def _is_same(nodes: Nodes, values: str, operand: str, body: list[Step]) -> bool:
    """Whether two names are one value, perhaps of another type, or computed twice as the same difference."""
    if operand == values:
        return True
    crossed: list[Step] = []
    if nodes.uncast(operand, crossed) == values:
        body += crossed
        return True
    one, other = nodes.writer(values, "Sub"), nodes.writer(operand, "Sub")
    if one is None or other is None or list(one.proto.input) != list(other.proto.input):
        return False
    body.append(other)
    return True


def _finished(nodes: Nodes, values: str, axes: list[int], epsilon: float, body: list[Step]) -> Joined | None:
    """With the difference from the mean before it, where it is one that nothing else needs."""
    difference = nodes.writer(values, "Sub")
    if difference is not None:
        more = [*body, difference]
        mean = _mean(nodes, difference.proto.input[1], more)
        if mean is not None and mean[1] == axes and mean[0] == difference.proto.input[0]:
            made = of_groups(nodes, mean[0], axes, epsilon, more)
            made = made or _joined(nodes, "LayerNormalization", mean[0], axes, epsilon, more)
            if made is not None:
                return made
    return _joined(nodes, "RMSNormalization", values, axes, epsilon, list(body))


def _joined(
    nodes: Nodes, op_type: str, operand: str, axes: list[int], epsilon: float, body: list[Step]
) -> Joined | None:
    """With what the quotient, the first node of the body, is multiplied by and added to behind it."""
    name, element = body[0].proto.output[0], None
    cast = nodes.reader(name, "Cast")
    if cast is not None and nodes.reader(cast.proto.output[0], "Mul") is not None:
        body.append(cast)
        name, element = cast.proto.output[0], attribute(cast, "to")
    scale, name = nodes.constant_behind(name, "Mul", body)
    bias = ""
    if scale and op_type == "LayerNormalization":
        bias, name = nodes.constant_behind(name, "Add", body)
    return nodes.join(op_type, [operand, scale, bias], body, axes=axes, epsilon=epsilon, to=element)
