"""ONNX's rules for shapes, for shapes with open sizes.

ONNX's own inference knows numbers only. A rule here is checked against it each time a node is planned: its shapes must
be those of ONNX for the sizes of the run that is planned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dmlvk.dynamic.sizes import is_dynamic, value_of
from dmlvk.onnx.host.evaluation.movement import clipped_slice
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.model.node_attributes import NodeAttributes
from dmlvk.onnx.nodes.translation import ShapeRule, translation_of
from dmlvk.onnx.nodes.values import Derived, Known, NotOnDevice, Value, broadcast_shape, shape_of
from dmlvk.onnx.nodes.window_counts import window_counts
from dmlvk.support import faults

Shape: TypeAlias = tuple[Any, ...]


class NoRuleError(Exception):
    """There is no rule here for a node; its sizes are plain numbers from now on."""


class Given(NodeAttributes):
    """A node's inputs and attributes, as rules look at them."""

    refusal = NoRuleError

    def __init__(self, step: Step, inputs: Sequence[Value | None]) -> None:
        super().__init__(step.proto, step.schema)
        self.domain, self.inputs, self.outputs = step.domain, inputs, len(step.proto.output)

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input."""
        found = shape_of(self.inputs[index]) if self.has(index) else None
        if found is None:
            raise NoRuleError
        return found

    def numbers(self, index: int) -> list[Any] | None:
        """The contents of an input; ``None`` where it is absent."""
        if not self.has(index):
            return None
        value = self.inputs[index]
        if isinstance(value, Derived):
            return list(value.numbers.reshape(-1))
        if isinstance(value, Known) and isinstance(value.value, np.ndarray) and value.value.dtype.kind in "iu":
            return [int(number) for number in value.value.reshape(-1)]
        raise NoRuleError

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, or what its operator's definition says; else the default."""
        found = super().attribute(name)
        return default if found is None else found

    def axes(self, index: int, rank: int) -> list[int] | None:
        """Axes by an attribute or by an input, which is known."""
        axes = self.attribute("axes")
        found = self.numbers(index) if axes is None else list(axes)
        if found is None:
            return None
        if is_dynamic(found):
            raise NoRuleError
        return [axis % rank for axis in found]


def same(given: Given) -> Sequence[Shape]:
    """That of the first input."""
    if given.outputs != 1 and any(given.proto.output[1:]):
        raise NoRuleError
    return [given.shape()]


def broadcast(given: Given) -> Sequence[Shape]:
    """What all inputs broadcast to."""
    return [broadcast_shape(*(given.shape(index) for index in range(len(given.inputs))))]


def product(given: Given) -> Sequence[Shape]:
    """A product of matrices, by NumPy's rules."""
    a, b = given.shape(0), given.shape(1)
    if given.attribute("transBatchA") or given.attribute("transBatchB") or min(len(a), len(b)) < 1:
        raise NoRuleError
    a = (*a[:-2], a[-1], a[-2]) if given.attribute("transA") and len(a) > 1 else a
    b = (*b[:-2], b[-1], b[-2]) if given.attribute("transB") and len(b) > 1 else b
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    if left[-1] != right[-2]:
        raise NoRuleError
    rows = [] if len(a) == 1 else [left[-2]]
    columns = [] if len(b) == 1 else [right[-1]]
    return [(*broadcast_shape(left[:-2], right[:-2]), *rows, *columns)]


def packed_product(given: Given) -> Sequence[Shape]:
    """A product with weights of few bits."""
    return [(*given.shape()[:-1], int(given.attribute("N")))]


def of_experts(given: Given) -> Sequence[Shape]:
    """Columns for each number of an expert."""
    return [(*given.shape(2), int(given.attribute("N")))]


def attention(given: Given) -> Sequence[Shape]:
    """ONNX's Attention: of three or four axes, with what is behind the caches."""
    if given.domain:
        raise NoRuleError
    queries, keys, values = (given.shape(index) for index in range(3))
    past = given.shape(4)[2] if given.has(4) else 0
    if len(queries) == 4:
        batch, heads, rows, _ = queries
        of_keys = batch, keys[1], past + keys[2]
        return [
            (batch, heads, rows, values[3]),
            (*of_keys, keys[3]),
            (*of_keys, values[3]),
            (batch, heads, rows, of_keys[2]),
        ]
    heads, key_heads = given.attribute("q_num_heads"), given.attribute("kv_num_heads")
    batch, rows = queries[:2]
    of_keys = batch, key_heads, past + keys[1]
    each = keys[2] // key_heads, values[2] // key_heads
    return [
        (batch, rows, heads * each[1]),
        (*of_keys, each[0]),
        (*of_keys, each[1]),
        (batch, heads, rows, of_keys[2]),
    ]


def gemm(given: Given) -> Sequence[Shape]:
    """A product of two matrices, each of which may be transposed."""
    a, b = given.shape(0), given.shape(1)
    return [(a[1 if given.attribute("transA") else 0], b[0 if given.attribute("transB") else 1])]


def quantized(given: Given) -> Sequence[Shape]:
    """Numbers, with a scale and a zero point for all."""
    return [given.shape(), (), ()]


def transposed(given: Given) -> Sequence[Shape]:
    """The axes in another order."""
    shape = given.shape()
    order = given.attribute("perm") or list(reversed(range(len(shape))))
    return [tuple(shape[axis] for axis in order)]


def reshaped(given: Given) -> Sequence[Shape]:
    """Sizes by an input, of which one may follow from the others."""
    source, wanted = given.shape(), given.numbers(1)
    if wanted is None:
        raise NoRuleError
    keeps_zeros = bool(given.attribute("allowzero", 0))
    sizes = [source[i] if not keeps_zeros and size == 0 else size for i, size in enumerate(wanted)]
    if any(size == -1 for size in sizes):
        known = math.prod(size for size in sizes if size != -1)
        sizes = [math.prod(source) // known if size == -1 else size for size in sizes]
    return [tuple(sizes)]


def flattened(given: Given) -> Sequence[Shape]:
    """A matrix of what is before and behind an axis."""
    shape = given.shape()
    axis = given.attribute("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def squeezed(given: Given) -> Sequence[Shape]:
    """Without axes of one element."""
    shape = given.shape()
    axes = given.axes(1, len(shape))
    if axes is None:
        return [tuple(size for size in shape if size != 1)]
    if any(shape[axis] != 1 for axis in axes):
        raise NoRuleError
    return [tuple(size for axis, size in enumerate(shape) if axis not in axes)]


def unsqueezed(given: Given) -> Sequence[Shape]:
    """With further axes of one element."""
    shape = given.shape()
    axes = given.axes(1, 2**31)
    if axes is None:
        raise NoRuleError
    rank = len(shape) + len(axes)
    removed = [axis - 2**31 + rank if axis >= 2**30 else axis for axis in axes]
    rest = iter(shape)
    return [tuple(1 if axis in removed else next(rest) for axis in range(rank))]


def expanded(given: Given) -> Sequence[Shape]:
    """What the input and a shape broadcast to."""
    wanted = given.numbers(1)
    if wanted is None:
        raise NoRuleError
    return [broadcast_shape(given.shape(), tuple(wanted))]


def constant(given: Given) -> Sequence[Shape]:
    """A shape by an input."""
    numbers = given.numbers(0)
    return [tuple(numbers or ())]


def counted(given: Given) -> Sequence[Shape]:
    """How many numbers there are from start to limit."""
    start, limit, delta = (_one(given.numbers(index)) for index in range(3))
    if is_dynamic(delta) or delta == 0:
        raise NoRuleError
    count = -(-(limit - start) // delta)
    return [(count if count > 0 else 0,)]


def _one(numbers: list[Any] | None) -> Any:
    if numbers is None or len(numbers) != 1:
        raise NoRuleError
    return numbers[0]


def joined(given: Given) -> Sequence[Shape]:
    """One behind the other along an axis."""
    shapes = [given.shape(index) for index in range(len(given.inputs))]
    axis = given.attribute("axis", 1) % len(shapes[0])
    first = shapes[0]
    for shape in shapes[1:]:
        if any(a != b for number, (a, b) in enumerate(zip(shape, first, strict=True)) if number != axis):
            raise NoRuleError
    return [(*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])]


def parts(given: Given) -> Sequence[Shape]:
    """Parts along an axis."""
    shape = given.shape()
    axis = given.attribute("axis", 0) % len(shape)
    given_sizes = given.attribute("split")
    sizes = given.numbers(1) if given_sizes is None else list(given_sizes)
    if sizes is None:
        count = int(given.attribute("num_outputs", given.outputs))
        each = -(-shape[axis] // count)
        sizes = [each] * (count - 1) + [shape[axis] - each * (count - 1)]
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def sliced(given: Given) -> Sequence[Shape]:
    """What slices take along axes."""
    shape = given.shape()
    if given.version < 10:
        starts, ends = given.attribute("starts"), given.attribute("ends")
        axes, steps = given.attribute("axes"), None
    else:
        starts, ends, axes, steps = (given.numbers(index) for index in range(1, 5))
    if starts is None or ends is None:
        raise NoRuleError
    sizes = list(shape)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = number if axes is None else axes[number] % len(shape)
        step = 1 if steps is None else steps[number]
        if is_dynamic(step) or is_dynamic(axis):
            raise NoRuleError
        sizes[axis] = clipped_slice(start, end, step, shape[axis])[1]
    return [tuple(sizes)]


def gathered(given: Given) -> Sequence[Shape]:
    """The axis replaced by those of the indices."""
    shape = given.shape(0)
    axis = given.attribute("axis", 0) % len(shape)
    return [(*shape[:axis], *given.shape(1), *shape[axis + 1 :])]


def gathered_elements(given: Given) -> Sequence[Shape]:
    """That of the indices."""
    return [given.shape(1)]


def reduced(given: Given) -> Sequence[Shape]:
    """Axes reduced to one element, or left out."""
    shape = given.shape()
    if given.op_type.startswith("Arg"):
        axes: list[int] | None = [given.attribute("axis", 0) % len(shape)]
    else:
        axes = given.axes(1, len(shape))
        if not axes and given.attribute("noop_with_empty_axes", 0):
            return [shape]
    chosen = axes or list(range(len(shape)))
    if given.attribute("keepdims", 1):
        return [tuple(1 if axis in chosen else size for axis, size in enumerate(shape))]
    return [tuple(size for axis, size in enumerate(shape) if axis not in chosen)]


def padded(given: Given) -> Sequence[Shape]:
    """With elements before and behind."""
    shape = given.shape()
    if given.version < 11:
        raise NoRuleError
    pads, axes = given.numbers(1), given.numbers(3)
    if pads is None:
        raise NoRuleError
    chosen = list(range(len(shape))) if axes is None else [axis % len(shape) for axis in axes]
    sizes = list(shape)
    for index, axis in enumerate(chosen):
        sizes[axis] = sizes[axis] + pads[index] + pads[index + len(chosen)]
    return [tuple(sizes)]


def tiled(given: Given) -> Sequence[Shape]:
    """Repeated along each axis."""
    repeats = given.numbers(1)
    if repeats is None:
        raise NoRuleError
    return [tuple(size * count for size, count in zip(given.shape(), repeats, strict=True))]


def largest(given: Given) -> Sequence[Shape]:
    """So many along an axis, twice."""
    shape = given.shape()
    axis = given.attribute("axis", -1) % len(shape)
    made = (*shape[:axis], _one(given.numbers(1)), *shape[axis + 1 :])
    return [made, made]


def one_hot(given: Given) -> Sequence[Shape]:
    """With a further axis."""
    shape = given.shape()
    axis = given.attribute("axis", -1) % (len(shape) + 1)
    return [(*shape[:axis], _one(given.numbers(1)), *shape[axis:])]


def gathered_parts(given: Given) -> Sequence[Shape]:
    """Parts of the input in the place of the last axis of indices."""
    source, indices = given.shape(0), given.shape(1)
    return [(*indices[:-1], *source[given.attribute("batch_dims", 0) + int(indices[-1]) :])]


def sampled(given: Given) -> Sequence[Shape]:
    """Sizes of the grid in the place of those of the picture."""
    return [(*given.shape(0)[:2], *given.shape(1)[1:-1])]


def regions(given: Given) -> Sequence[Shape]:
    """A picture for each region."""
    sizes = (given.attribute("output_height", 1), given.attribute("output_width", 1))
    return [(given.shape(1)[0], given.shape(0)[1], *sizes)]


def regions_pooled(given: Given) -> Sequence[Shape]:
    """Likewise, of one size."""
    return [(given.shape(1)[0], given.shape(0)[1], *given.attribute("pooled_shape"))]


def recurrent(given: Given) -> Sequence[Shape]:
    """All states, and the last ones."""
    first, second, _ = given.shape()
    directions, _, hidden = given.shape(2)
    if given.attribute("layout", 0):
        return [(first, second, directions, hidden), *[(first, directions, hidden)] * 2]
    return [(first, directions, second, hidden), *[(directions, second, hidden)] * 2]


def summed(given: Given) -> Sequence[Shape]:
    """By the sizes of its letters; with an ellipsis there is none."""
    left, arrow, right = bytes(given.attribute("equation")).decode().replace(" ", "").partition("->")
    if "." in left or not arrow:
        raise NoRuleError
    sizes: dict[str, Any] = {}
    for index, letters in enumerate(left.split(",")):
        for letter, size in zip(letters, given.shape(index), strict=True):
            if sizes.setdefault(letter, size) != size:
                raise NoRuleError
    return [tuple(sizes[letter] for letter in right)]


def spread(given: Given) -> Sequence[Shape]:
    """Blocks of channels become pictures."""
    (batch, channels, *sizes), block = given.shape(), given.attribute("blocksize")
    return [(batch, channels // (block * block), *(size * block for size in sizes))]


def folded(given: Given) -> Sequence[Shape]:
    """Blocks of pictures become channels."""
    (batch, channels, *sizes), block = given.shape(), given.attribute("blocksize")
    return [(batch, channels * block * block, *(size // block for size in sizes))]


def pooled_at_once(given: Given) -> Sequence[Shape]:
    """One element for each channel."""
    shape = given.shape()
    return [(*shape[:2], *(1 for _ in shape[2:]))]


def convolved(given: Given) -> Sequence[Shape]:
    """By the places of a window, for each filter."""
    weights = 3 if given.op_type == "QLinearConv" else 1
    filters = given.shape(weights)
    source = given.shape()
    return [(source[0], filters[0], *window_counts(given, source[2:], filters[2:]))]


def pooled(given: Given) -> Sequence[Shape]:
    """By the places of a window."""
    if given.integer("ceil_mode"):
        raise NoRuleError
    shape, kernel = given.shape(), given.list("kernel_shape") or []
    return [(*shape[:2], *window_counts(given, shape[2:], kernel, is_pool=True))] * given.outputs


def spread_out(given: Given) -> Sequence[Shape]:
    """A convolution backwards."""
    source, filters = given.shape(0), given.shape(1)
    rank = len(source) - 2
    if given.attribute("output_shape") or bytes(given.attribute("auto_pad") or b"NOTSET") != b"NOTSET":
        raise NoRuleError
    strides, dilations = given.attribute("strides") or [1] * rank, given.attribute("dilations") or [1] * rank
    pads, more = given.attribute("pads") or [0] * 2 * rank, given.attribute("output_padding") or [0] * rank
    sizes = tuple(
        strides[i] * (source[2 + i] - 1) + more[i] + (filters[2 + i] - 1) * dilations[i] + 1 - pads[i] - pads[i + rank]
        for i in range(rank)
    )
    return [(source[0], filters[1] * given.attribute("group", 1), *sizes)]


def resized(given: Given) -> Sequence[Shape]:
    """By sizes, or by factors that are known."""
    shape = given.shape()
    index = 1 if given.op_type == "Upsample" or given.version < 11 else 2
    if given.attribute("axes") is not None or given.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise NoRuleError
    if given.has(3) and index == 2:
        sizes = given.numbers(3)
        assert sizes is not None  # it is there
        return [tuple(sizes)]
    value = given.inputs[index] if given.has(index) else None
    if not isinstance(value, Known) or value.value.size != len(shape):
        raise NoRuleError
    scales = [float(scale) for scale in value.value.reshape(-1)]
    if any(scale != int(scale) and is_dynamic(size) for scale, size in zip(scales, shape, strict=True)):
        raise NoRuleError
    return [
        tuple(size * int(s) if s == int(s) else math.floor(size * s) for size, s in zip(shape, scales, strict=True))
    ]


_OF_CONSTANTS: Mapping[str, ShapeRule] = {"ConstantOfShape": constant, "Range": counted}
"""Operators that no translator has: what they give follows from sizes alone."""


def rule_of(step: Step) -> ShapeRule | None:
    """The rule for a node's operator, as its translator has it; ``None`` where there is none."""
    translation = translation_of(step.domain, step.proto.op_type, step.version)
    return _OF_CONSTANTS.get(step.proto.op_type) if translation is None else translation.shape


def shapes_by_rule(
    step: Step, inputs: Sequence[Value | None], found: Sequence[tuple[int, tuple[int, ...]] | None]
) -> list[tuple[int, tuple[int, ...]] | None]:
    """A node's outputs with shapes of open sizes.

    Args:
        step: the node.
        inputs: its inputs.
        found: what ONNX infers for the sizes of the run that is planned.

    Raises:
        NoRuleError: when there is no rule, or it does not give what ONNX does.
    """
    if all(inferred is None for inferred in found):
        return list(found)  # the operator's translator knows its own shapes
    rule = rule_of(step)
    if rule is None:
        raise NoRuleError
    try:
        shapes = list(rule(Given(step, inputs)))
    except NotOnDevice as error:
        raise NoRuleError from error
    except NoRuleError:
        raise
    except Exception as error:
        faults.report(error, f"inferring the shapes of {step.label}")
        raise NoRuleError from error
    made: list[tuple[int, tuple[int, ...]] | None] = []
    for number, inferred in enumerate(found):
        if inferred is None:
            made.append(None)
            continue
        if number >= len(shapes) or tuple(map(value_of, shapes[number])) != inferred[1]:
            raise NoRuleError
        made.append((inferred[0], tuple(shapes[number])))
    return made
