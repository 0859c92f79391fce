"""GroupNorm, written out as the normalization of groups that a Reshape has put together."""

from __future__ import annotations

from collections.abc import Sequence

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes, attribute


def instance_normalization(nodes: Nodes, step: Step) -> Joined | None:
    """GroupNorm as an InstanceNormalization of groups, which has no scale and bias of its own (Wu, He, 2018)."""
    if step.proto.op_type != "InstanceNormalization":
        return None
    operand, scale, bias = step.proto.input
    if not nodes.is_filled(scale, 1.0) or not nodes.is_filled(bias, 0.0):
        return None
    return of_groups(nodes, operand, None, attribute(step, "epsilon", 1e-5), [step])


def of_groups(
    nodes: Nodes, operand: str, axes: Sequence[int] | None, epsilon: float, body: Sequence[Step]
) -> Joined | None:
    """A normalization between two Reshapes, with scale and bias behind the second.

    Args:
        axes: along which; ``None``: all behind the second.
        epsilon: what is added to the variance.
        body: the nodes that normalize, of which the first gives the result.
    """
    before, after = nodes.writer(operand, "Reshape"), nodes.reader(body[0].proto.output[0], "Reshape")
    if before is None or after is None or after.proto.input[0] != body[0].proto.output[0]:
        return None
    members = [*body, before, after]
    scale, name = nodes.constant_behind(after.proto.output[0], "Mul", members)
    bias, _ = nodes.constant_behind(name, "Add", members)
    inputs = [before.proto.input[0], scale, bias, before.proto.input[1], after.proto.input[1]]
    allowzero = max(attribute(before, "allowzero", 0), attribute(after, "allowzero", 0))
    return nodes.join("GroupNormalization", inputs, members, axes=axes, epsilon=epsilon, allowzero=allowzero)
