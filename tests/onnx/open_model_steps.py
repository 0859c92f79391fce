"""What random models with open sizes are made of: each step adds nodes that are right for every size."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.onnx.open_model_draw import (
    FLOAT,
    STEPS,
    ModelDraw,
    Shape,
    Size,
    Value,
    fixed,
    is_number,
    joined,
    step,
    step_of,
)

_UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "HardSwish", "Softplus", "LeakyRelu", "Elu", "Gelu", "Mish")


@step_of(3)
def unary(draw: ModelDraw, value: Value) -> bool:
    (name,) = draw.node(draw.choose.choice(_UNARY), value.name)
    return draw.add(name, value.shape, value)


@step_of(4)
def binary(draw: ModelDraw, value: Value) -> bool:
    other = draw.pick(lambda each: joined(value.shape, each.shape) is not None)
    if other is None or draw.choose.random() < 0.3:
        shape = [size.number or 1 for size in value.shape]
        shape = [1 if draw.choose.random() < 0.4 else size for size in shape][draw.choose.randint(0, value.rank) :]
        other = Value(draw.weights(*shape), tuple(Size.of(size) for size in shape))
    shape_made = joined(value.shape, other.shape)
    if shape_made is None or len(shape_made) > 5:
        return False
    names = [value.name, other.name]
    draw.choose.shuffle(names)
    (name,) = draw.node(draw.choose.choice(("Add", "Mul", "Sub", "Max", "Min")), *names)
    return draw.add(name, shape_made, value)


@step()
def where(draw: ModelDraw) -> bool:
    """Elements of two values by a comparison of one that is given."""
    value = draw.pick()
    given = draw.pick(lambda each: each.is_given)
    if value is None or given is None or (made := joined(value.shape, given.shape)) is None or len(made) > 5:
        return False
    (seen,) = draw.node(draw.choose.choice(("Less", "Greater")), given.name, draw.constant(np.float32(0.25)))
    (name,) = draw.node("Where", seen, value.name, draw.constant(np.float32(draw.choose.choice((0, -1e4)))))
    return draw.add(name, made, value)


@step_of(2, fits=lambda each: each.rank > 0)
def softmax(draw: ModelDraw, value: Value) -> bool:
    axis = draw.choose.randrange(-value.rank, value.rank)
    (name,) = draw.node(draw.choose.choice(("Softmax", "LogSoftmax")), value.name, axis=axis)
    return draw.add(name, value.shape, value)


@step_of(2, fits=lambda each: each.rank > 1)
def reduce(draw: ModelDraw, value: Value) -> bool:
    axes = sorted(draw.choose.sample(range(value.rank), draw.choose.randint(1, value.rank - 1)))
    keeps = draw.choose.random() < 0.5
    op_type = draw.choose.choice(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"))
    (name,) = draw.node(op_type, value.name, draw.integers(*axes), keepdims=int(keeps))
    shape = [Size.of(1) if axis in axes else size for axis, size in enumerate(value.shape)]
    shape = shape if keeps else [size for axis, size in enumerate(value.shape) if axis not in axes]
    return draw.add(name, tuple(shape), value)


@step_of(fits=lambda each: each.rank > 0)
def cumulated(draw: ModelDraw, value: Value) -> bool:
    axis = draw.constant(np.array(draw.choose.randrange(value.rank), np.int64))
    options: dict[str, Any] = {"exclusive": draw.choose.randint(0, 1), "reverse": draw.choose.randint(0, 1)}
    (name,) = draw.node("CumSum", value.name, axis, **options)
    return draw.add(name, value.shape, value)


@step_of(fits=lambda each: each.is_given and each.rank > 0)
def greatest(draw: ModelDraw, value: Value) -> bool:
    """The place of the greatest of a value that is given, as a float."""
    axis = draw.choose.randrange(value.rank)
    (name,) = draw.node(draw.choose.choice(("ArgMax", "ArgMin")), value.name, axis=axis, keepdims=0)
    (name,) = draw.node("Cast", name, to=FLOAT)
    return draw.add(name, (*value.shape[:axis], *value.shape[axis + 1 :]), value)


@step()
def top(draw: ModelDraw) -> bool:
    value = draw.pick(lambda each: each.is_given and each.rank > 0)
    axis = None if value is None else draw.axis(value, is_number)
    if value is None or axis is None:
        return False
    count = draw.choose.randint(1, fixed(value, axis))
    names = draw.node("TopK", value.name, draw.integers(count), outputs=2, axis=axis)
    shape = (*value.shape[:axis], Size.of(count), *value.shape[axis + 1 :])
    (places,) = draw.node("Cast", names[1], to=FLOAT)
    draw.add(places, shape, value)
    return draw.add(names[0], shape, value, is_given=True)


@step_of(2, fits=lambda each: each.rank > 1 and is_number(each.shape[-1]))
def linear(draw: ModelDraw, value: Value) -> bool:
    """A product with weights, and a bias."""
    inputs, outputs = fixed(value, value.rank - 1), draw.choose.choice((1, 3, 8, 16, 24))
    (name,) = draw.node("MatMul", value.name, draw.weights(inputs, outputs, scale=inputs**-0.5))
    if draw.choose.random() < 0.6:
        (name,) = draw.node("Add", name, draw.weights(outputs))
    return draw.add(name, (*value.shape[:-1], Size.of(outputs)), value)


@step_of(2, fits=lambda each: each.rank in (2, 3, 4))
def product(draw: ModelDraw, value: Value) -> bool:
    other = draw.pick(lambda each: each.rank == value.rank and each.shape[-1] == value.shape[-1]) or value
    if joined(value.shape[:-2], other.shape[:-2]) is None:
        other = value
    order = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    (turned,) = draw.node("Transpose", other.name, perm=order)
    (name,) = draw.node("MatMul", value.name, turned)
    (name,) = draw.node("Mul", name, draw.constant(np.float32(0.1)))
    batch = joined(value.shape[:-2], other.shape[:-2])
    assert batch is not None  # value's own is
    return draw.add(name, (*batch, value.shape[-2], other.shape[-2]), value)


@step_of(2, fits=lambda each: each.rank > 1)
def transpose(draw: ModelDraw, value: Value) -> bool:
    order = draw.choose.sample(range(value.rank), value.rank)
    (name,) = draw.node("Transpose", value.name, perm=order)
    return draw.add(name, tuple(value.shape[axis] for axis in order), value, is_given=value.is_given)


@step_of(2, fits=lambda each: each.rank > 1)
def flattened(draw: ModelDraw, value: Value) -> bool:
    at = draw.choose.randrange(value.rank - 1)
    shape = (*value.shape[:at], value.shape[at] * value.shape[at + 1], *value.shape[at + 2 :])
    return _reshaped(draw, value, shape)


@step(2)
def parted(draw: ModelDraw) -> bool:
    value = draw.pick(lambda each: each.rank < 5)
    axis = None if value is None else draw.axis(value, lambda size: (size.number or 1) % 2 == 0)
    if value is None or axis is None:
        return False
    parts = [Size.of(2), Size.of(fixed(value, axis) // 2)]
    draw.choose.shuffle(parts)
    return _reshaped(draw, value, (*value.shape[:axis], *parts, *value.shape[axis + 1 :]))


def _reshaped(draw: ModelDraw, value: Value, shape: Shape) -> bool:
    """By numbers where they tell it, else by sizes that nodes read, as exporters write them."""
    open_axes = [axis for axis, size in enumerate(shape) if size.number is None]
    same = [axis for axis in open_axes if axis < value.rank and value.shape[axis] == shape[axis]]
    if len(open_axes) - len(same) <= 1 and draw.choose.random() < 0.6:
        numbers = [0 if axis in same else -1 if axis in open_axes else size.number for axis, size in enumerate(shape)]
        (name,) = draw.node("Reshape", value.name, draw.integers(*(number or 0 for number in numbers)))
        return draw.add(name, shape, value, is_given=value.is_given)
    (given,) = draw.node("Shape", value.name)
    parts = []
    for axis, size in enumerate(shape):
        if axis not in open_axes:
            parts.append(draw.integers(size.number or 0))
            continue
        found = [place for place, own in enumerate(value.shape) if own == size]
        if not found:
            pairs = [place for place in range(value.rank - 1) if value.shape[place] * value.shape[place + 1] == size]
            factors = [draw.node("Gather", given, draw.integers(pairs[0] + place))[0] for place in (0, 1)]
            parts.append(draw.node("Mul", *factors)[0])
        else:
            parts.append(draw.node("Gather", given, draw.integers(found[0]))[0])
    (whole,) = draw.node("Concat", *parts, axis=0)
    (name,) = draw.node("Reshape", value.name, whole, allowzero=1)
    return draw.add(name, shape, value, is_given=value.is_given)


@step_of(fits=lambda each: each.rank < 5)
def ones(draw: ModelDraw, value: Value) -> bool:
    """An axis of one more, or one less."""
    axis = draw.axis(value, lambda size: size == Size.of(1))
    if axis is not None and draw.choose.random() < 0.5:
        (name,) = draw.node("Squeeze", value.name, draw.integers(axis))
        return draw.add(name, (*value.shape[:axis], *value.shape[axis + 1 :]), value, is_given=value.is_given)
    axis = draw.choose.randint(0, value.rank)
    (name,) = draw.node("Unsqueeze", value.name, draw.integers(axis))
    shape = (*value.shape[:axis], Size.of(1), *value.shape[axis:])
    return draw.add(name, shape, value, is_given=value.is_given)


@step_of(2, fits=lambda each: each.rank > 0)
def concat(draw: ModelDraw, value: Value) -> bool:
    axis = draw.choose.randrange(value.rank)

    def fits(each: Value) -> bool:
        pairs = zip(each.shape, value.shape, strict=False)
        return each.rank == value.rank and all(i == axis or a == b for i, (a, b) in enumerate(pairs))

    others = [draw.pick(fits) for _ in range(draw.choose.randint(1, 2))]
    parts = [value, *(other for other in others if other is not None)]
    draw.choose.shuffle(parts)
    (name,) = draw.node("Concat", *(part.name for part in parts), axis=axis - value.rank)
    total = Size.of(0)
    for part in parts:
        total = total + part.shape[axis]
    shape = (*value.shape[:axis], total, *value.shape[axis + 1 :])
    return draw.add(name, shape, value, is_given=all(part.is_given for part in parts))


@step_of(2, fits=lambda each: each.rank > 0)
def sliced(draw: ModelDraw, value: Value) -> bool:
    """A part of an axis: of a number, or all but its ends; or backwards."""
    axis = draw.choose.randrange(value.rank)
    number = value.shape[axis].number
    if number is not None and number > 1:
        begin = draw.choose.randint(0, number - 1)
        end, size, by = draw.choose.randint(begin, number), 0, draw.choose.choice((1, 1, 2))
        end = max(end, begin + 1)
        size = -(-(end - begin) // by)
        (name,) = _slice(draw, value, begin, end, axis, by)
        shape = (*value.shape[:axis], Size.of(size), *value.shape[axis + 1 :])
    elif draw.choose.random() < 0.5:
        (name,) = _slice(draw, value, -1, -(2**31), axis, -1)
        shape = value.shape
    else:  # doubled first, so that there is something to cut off
        (twice,) = draw.node("Concat", value.name, value.name, axis=axis)
        doubled = Value(twice, value.shape, value.element)
        (size_name,) = draw.node("Gather", *(draw.node("Shape", value.name)[0], draw.integers(axis)))
        zero, one = draw.integers(0), draw.integers(1)
        (name,) = draw.node("Slice", doubled.name, zero, size_name, draw.integers(axis), one)
        shape = value.shape
    return draw.add(name, shape, value, is_given=value.is_given)


def _slice(draw: ModelDraw, value: Value, begin: int, end: int, axis: int, by: int) -> list[str]:
    return draw.node("Slice", value.name, *(draw.integers(number) for number in (begin, end, axis, by)))


@step()
def split(draw: ModelDraw) -> bool:
    value = draw.pick(lambda each: each.rank > 0)
    axis = None if value is None else draw.axis(value, lambda size: (size.number or 0) > 1)
    if value is None or axis is None:
        return False
    first = draw.choose.randint(1, fixed(value, axis) - 1)
    sizes = (first, fixed(value, axis) - first)
    names = draw.node("Split", value.name, draw.integers(*sizes), outputs=2, axis=axis)
    for name, size in zip(names, sizes, strict=True):
        shape = (*value.shape[:axis], Size.of(size), *value.shape[axis + 1 :])
        draw.add(name, shape, value, is_given=value.is_given)
    return True


@step_of(fits=lambda each: each.rank > 0)
def padded(draw: ModelDraw, value: Value) -> bool:
    """More at the ends of an axis."""
    axis = draw.choose.randrange(value.rank)
    before, behind = draw.choose.randint(0, 2), draw.choose.randint(0, 3)
    pads = [0] * (2 * value.rank)
    pads[axis], pads[axis + value.rank] = before, behind
    can_repeat = all(is_number(size) for size in value.shape)
    mode = draw.choose.choice(("constant", "edge")) if can_repeat else "constant"
    (name,) = draw.node("Pad", value.name, draw.integers(*pads), draw.constant(np.float32(0.5)), mode=mode)
    shape = (*value.shape[:axis], value.shape[axis] + before + behind, *value.shape[axis + 1 :])
    return draw.add(name, shape, value)


@step_of(fits=lambda each: each.rank > 0)
def tiled(draw: ModelDraw, value: Value) -> bool:
    repeats = [1] * value.rank
    axis = draw.choose.randrange(value.rank)
    repeats[axis] = draw.choose.choice((2, 3))
    (name,) = draw.node("Tile", value.name, draw.integers(*repeats))
    shape = (*value.shape[:axis], value.shape[axis] * repeats[axis], *value.shape[axis + 1 :])
    return draw.add(name, shape, value, is_given=value.is_given)


@step()
def expanded(draw: ModelDraw) -> bool:
    value, like = draw.pick(lambda each: Size.of(1) in each.shape), draw.pick()
    if value is None or like is None or (made := joined(value.shape, like.shape)) is None or len(made) > 5:
        return False
    (shape,) = draw.node("Shape", like.name)
    (name,) = draw.node("Expand", value.name, shape)
    return draw.add(name, made, value, is_given=value.is_given)


@step(2)
def gathered(draw: ModelDraw) -> bool:
    """Parts of an axis, by constants or by an input of integers; of a table likewise."""
    value = draw.pick(lambda each: each.rank > 0)
    axis = None if value is None else draw.axis(value, lambda size: (size.number or 0) >= 4)
    if draw.choose.random() < 0.5 or value is None or axis is None:
        indices = draw.input((draw.size(), draw.size())[: draw.choose.randint(1, 2)], TensorProto.INT64)
        if all(size.number is not None for size in indices.shape):
            return False
        width = draw.choose.choice((3, 8))
        (name,) = draw.node("Gather", draw.weights(5, width), indices.name)
        return draw.add(name, (*indices.shape, Size.of(width)), indices, element=FLOAT)
    numbers = [draw.choose.randint(-4, 3) for _ in range(draw.choose.randint(1, 3))]
    (name,) = draw.node("Gather", value.name, draw.integers(*numbers), axis=axis)
    shape = (*value.shape[:axis], Size.of(len(numbers)), *value.shape[axis + 1 :])
    return draw.add(name, shape, value, is_given=value.is_given)


@step_of(fits=lambda each: each.rank > 1)
def counted(draw: ModelDraw, value: Value) -> bool:
    """Places along an axis, which compare with each other as causal masks do."""
    (shape,) = draw.node("Shape", value.name)
    places = []
    for axis in (value.rank - 2, value.rank - 1):
        (size,) = draw.node("Gather", shape, draw.constant(np.array(axis, np.int64)))
        (row,) = draw.node("Range", draw.constant(np.int64(0)), size, draw.constant(np.int64(1)))
        places.append(draw.node("Unsqueeze", row, draw.integers(1 if axis == value.rank - 2 else 0))[0])
    (seen,) = draw.node(draw.choose.choice(("GreaterOrEqual", "Less", "Equal")), *places)
    (name,) = draw.node("Where", seen, value.name, draw.constant(np.float32(-1e4)))
    return draw.add(name, value.shape, value)


@step_of(fits=lambda each: each.rank > 1)
def triangle(draw: ModelDraw, value: Value) -> bool:
    diagonal = draw.constant(np.array(draw.choose.randint(-1, 2), np.int64))
    (name,) = draw.node("Trilu", value.name, diagonal, upper=draw.choose.randint(0, 1))
    return draw.add(name, value.shape, value, is_given=value.is_given)


@step_of(fits=lambda each: each.rank > 1 and (each.shape[-1].number or 0) > 1)
def normalized(draw: ModelDraw, value: Value) -> bool:
    """Rows of mean 0 and variance 1."""
    width = fixed(value, value.rank - 1)
    if draw.choose.random() < 0.5:
        (name,) = draw.node("LayerNormalization", value.name, draw.weights(width), draw.weights(width), axis=-1)
    else:
        (name,) = draw.node("SimplifiedLayerNormalization", value.name, draw.weights(width), axis=-1, epsilon=1e-5)
    return draw.add(name, value.shape, value)


def _picture(draw: ModelDraw, axes: int) -> Value | None:
    """A value with channels and so many axes behind them."""
    return draw.pick(lambda each: each.rank == axes + 2 and is_number(each.shape[1]))


@step(2)
def convolved(draw: ModelDraw) -> bool:
    """A convolution that leaves sizes as they are."""
    axes = draw.choose.choice((1, 2))
    value = _picture(draw, axes)
    if value is None:
        return False
    channels, width = fixed(value, 1), draw.choose.choice((1, 3))
    group = channels if draw.choose.random() < 0.3 else 1
    outputs = channels if group > 1 else draw.choose.choice((1, 4, 8))
    weights = draw.weights(outputs, channels // group, *(width,) * axes, scale=0.3)
    pads = [width // 2] * (2 * axes)
    (name,) = draw.node("Conv", value.name, weights, draw.weights(outputs), pads=pads, group=group)
    return draw.add(name, (value.shape[0], Size.of(outputs), *value.shape[2:]), value)


@step()
def pooled(draw: ModelDraw) -> bool:
    """The largest or the mean of neighbours, of a picture, or of all."""
    value = _picture(draw, draw.choose.choice((1, 2)))
    if value is None:
        return False
    axes = value.rank - 2
    way = draw.choose.randrange(3)
    if way == 0:
        (name,) = draw.node(draw.choose.choice(("GlobalAveragePool", "GlobalMaxPool")), value.name)
        return draw.add(name, (*value.shape[:2], *(Size.of(1),) * axes), value)
    options: dict[str, Any] = {"kernel_shape": [3] * axes, "pads": [1] * (2 * axes)}
    (name,) = draw.node(("MaxPool", "AveragePool")[way - 1], value.name, **options)
    return draw.add(name, value.shape, value)


@step()
def resized(draw: ModelDraw) -> bool:
    """A picture of twice the size."""
    value = _picture(draw, 2)
    if value is None:
        return False
    scales = draw.constant(np.array([1, 1, 2, 2], np.float32))
    options: dict[str, Any] = draw.choose.choice(
        (
            {"mode": "linear"},
            {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
        )
    )
    (name,) = draw.node("Resize", value.name, "", scales, **options)
    return draw.add(name, (*value.shape[:2], value.shape[2] * 2, value.shape[3] * 2), value)


@step_of(fits=lambda each: each.rank == 3 and is_number(each.shape[2]))
def recurrent(draw: ModelDraw, value: Value) -> bool:
    """A network that goes along an axis, which may be open."""
    width, hidden = fixed(value, 2), draw.choose.choice((2, 5))
    op_type, gates = draw.choose.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    directions = draw.choose.choice((1, 1, 2))
    names = draw.node(
        op_type,
        value.name,
        draw.weights(directions, gates * hidden, width, scale=0.4),
        draw.weights(directions, gates * hidden, hidden, scale=0.4),
        outputs=2,
        hidden_size=hidden,
        direction="forward" if directions == 1 else "bidirectional",
    )
    draw.add(names[0], (value.shape[0], Size.of(directions), value.shape[1], Size.of(hidden)), value)
    return draw.add(names[1], (Size.of(directions), value.shape[1], Size.of(hidden)), value)


@step()
def sampled(draw: ModelDraw) -> bool:
    value = _picture(draw, 2)
    if value is None:
        return False
    height, width = draw.size(), draw.size()
    grid = draw.input((value.shape[0] if len(value.shape[0].terms) == 1 else Size.of(1), height, width, Size.of(2)))
    if grid.shape[0] != value.shape[0] or any(len(size.terms) > 1 for size in grid.shape):
        return False
    (name,) = draw.node("GridSample", value.name, grid.name, mode=draw.choose.choice(("linear", "nearest")))
    return draw.add(name, (value.shape[0], value.shape[1], height, width), value)


@step_of(fits=lambda each: each.rank == 3)
def summed_products(draw: ModelDraw, value: Value) -> bool:
    """Einsum of a value with itself."""
    words, order = draw.choose.choice(
        (("abc,abd->acd", (0, 2, 2)), ("abc,adc->abd", (0, 1, 1)), ("abc,abc->ab", (0, 1)))
    )
    (name,) = draw.node("Einsum", value.name, value.name, equation=words)
    (name,) = draw.node("Mul", name, draw.constant(np.float32(0.1)))
    return draw.add(name, tuple(value.shape[axis] for axis in order), value)


@step_of()
def halved(draw: ModelDraw, value: Value) -> bool:
    """FLOAT16 and back."""
    (name,) = draw.node("Tanh", value.name)
    (name,) = draw.node("Cast", name, to=TensorProto.FLOAT16)
    (name,) = draw.node("Cast", name, to=FLOAT)
    return draw.add(name, value.shape, value)


@step_of(fits=lambda each: each.rank == 3 and (each.shape[2].number or 0) in (8, 16, 24))
def heads(draw: ModelDraw, value: Value) -> bool:
    """Attention as ONNX Runtime's operator has it, of a value to itself."""
    options: dict[str, Any] = {"num_heads": draw.choose.choice((1, 2)), "unidirectional": draw.choose.randint(0, 1)}
    (name,) = draw.node("MultiHeadAttention", *(value.name,) * 3, domain="com.microsoft", **options)
    return draw.add(name, value.shape, value)


__all__ = ["STEPS"]
