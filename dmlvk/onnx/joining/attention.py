"""Attention, written out as two products with a softmax between them."""

from __future__ import annotations

from dmlvk.onnx.joining.pattern import Joined, Nodes, attribute
from dmlvk.onnx.loading import Step


def attention(nodes: Nodes, step: Step) -> Joined | None:
    """Softmax(query x transposed key * scale + mask) x value (Vaswani et al., 2017)."""
    if step.proto.op_type != "MatMul":
        return None
    body = [step]
    softmax = nodes.writer(nodes.uncast(step.proto.input[0], body), "Softmax")
    value, element = step.proto.input[1], None
    if len(body) == 1:  # shares of another type, and values that become it: so is the result
        value = nodes.uncast(value, body)
        element = attribute(body[1], "to") if len(body) > 1 else None
    if softmax is None:
        return None
    axis = attribute(softmax, "axis", -1 if softmax.version >= 13 else 1)
    if axis != -1 and (softmax.version >= 13 or axis < 2):
        return None
    body.append(softmax)
    name = nodes.uncast(softmax.proto.input[0], body)
    mask = ""
    added = nodes.writer(name, "Add")
    if added is not None:
        product = next((i for i in (0, 1) if _is_scores(nodes, added.proto.input[i])), None)
        if product is None:
            return None
        body.append(added)
        name, mask = nodes.uncast(added.proto.input[product], body), added.proto.input[1 - product]
    scale = 1.0
    scaled = nodes.writer(name, "Div", "Mul")
    if scaled is not None:
        parts = nodes.with_number(scaled)
        if parts is None or parts[1] == 0 or (scaled.proto.op_type == "Div" and scaled.proto.input[0] != parts[0]):
            return None
        body.append(scaled)
        name, scale = parts[0], parts[1] if scaled.proto.op_type == "Mul" else 1 / parts[1]
    scores = nodes.writer(name, "MatMul")
    if scores is None:
        return None
    body.append(scores)
    query, key = scores.proto.input
    return nodes.join("Attention", [query, key, value, mask], body, scale=scale, axis=axis, to=element)


def _is_scores(nodes: Nodes, name: str) -> bool:
    """Whether a value is a product, or a multiple of one, perhaps of another type."""
    name = nodes.uncast(name, [])
    scaled = nodes.writer(name, "Div", "Mul")
    parts = None if scaled is None else nodes.with_number(scaled)
    return nodes.writer(name if parts is None else parts[0], "MatMul") is not None
