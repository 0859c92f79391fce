"""Attention, written out as two products with a softmax between them."""

from __future__ import annotations

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes, attribute


def attention(nodes: Nodes, step: Step) -> Joined | None:
    """Softmax(query x transposed key * scale + mask) x value (Vaswani et al., 2017).

    PyTorch's exporter multiplies queries and keys by the scale's root each, and writes zeros where a row of shares is
    not a number since its mask hides every key.
    """
    if step.proto.op_type != "MatMul":
        return None
    body = [step]
    shares, guard, hides_nan = _unguarded(nodes, nodes.uncast(step.proto.input[0], body), body)
    softmax = nodes.writer(shares, "Softmax")
    value, element = step.proto.input[1], None
    if not any(member.proto.op_type == "Cast" for member in body):
        # Shares of another type, and values that become it: so is the result.
        value = nodes.uncast(value, body)
        element = attribute(body[-1], "to") if body[-1].proto.op_type == "Cast" else None
    if softmax is None:
        return None
    axis = attribute(softmax, "axis", -1 if softmax.version >= 13 else 1)
    if axis < 2 and axis != -1:  # what is not the last one of so many is refused when sizes are known
        return None
    body.append(softmax)
    windows = _windows(nodes, softmax.proto.input[0], body)
    name = nodes.uncast(softmax.proto.input[0] if windows is None else windows[0], body)
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
    (query, by), (key, key_by) = (_unscaled(nodes, name, body) for name in scores.proto.input)
    scale *= by * key_by
    inputs = [query, key, value, mask, guard, *(() if windows is None else windows[1:])]
    return nodes.join("Attention", inputs, body, scale=scale, axis=axis, to=element, hides_nan=hides_nan)


def _windows(nodes: Nodes, name: str, within: list[Step]) -> tuple[str, str, str, str] | None:
    """Scores before masks of windows were added, these masks, and the shapes for that and behind it (Z. Liu and others,
    Swin Transformer, 2021); ``None``: there are none.
    """
    behind = nodes.writer(name, "Reshape")
    added = None if behind is None else nodes.writer(behind.proto.input[0], "Add")
    if behind is None or added is None:
        return None
    for number in (0, 1):
        before = nodes.writer(added.proto.input[number], "Reshape")
        if before is not None and nodes.writer(before.proto.input[0], "Add") is not None:
            within += [behind, added, before]
            return before.proto.input[0], added.proto.input[1 - number], before.proto.input[1], behind.proto.input[1]
    return None


def _unguarded(nodes: Nodes, name: str, within: list[Step]) -> tuple[str, str, int | None]:
    """Shares before some became zeros; where they do; 1: where they are not numbers."""
    step = nodes.writer(name, "Where")
    if step is None:
        return name, "", None
    condition, zero, shares = step.proto.input
    typed = nodes.writer(zero, "CastLike")
    if not nodes.is_filled(zero if typed is None else typed.proto.input[0], 0):
        return name, "", None
    within += [step] if typed is None else [step, typed]
    test = nodes.writer(condition, "IsNaN")
    if test is None or test.proto.input[0] != shares:
        return nodes.uncast(shares, within), condition, None
    within.append(test)
    return nodes.uncast(shares, within), "", 1


def _unscaled(nodes: Nodes, name: str, within: list[Step]) -> tuple[str, float]:
    """An operand of the scores' product before it was multiplied by a number, and the number."""
    step = nodes.writer(name, "Mul") if nodes.reader(name, "MatMul") is not None else None
    found = None if step is None else nodes.with_number(step)
    if step is None or found is None:
        return name, 1.0
    within.append(step)
    return found


def _is_scores(nodes: Nodes, name: str) -> bool:
    """Whether a value is a product, or a multiple of one, perhaps of another type."""
    name = nodes.uncast(name, [])
    scaled = nodes.writer(name, "Div", "Mul")
    parts = None if scaled is None else nodes.with_number(scaled)
    return nodes.writer(name if parts is None else parts[0], "MatMul") is not None
