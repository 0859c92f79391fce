"""What random models of whose inputs contents decide are drawn by: such integers, and the nodes that read them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx import models

Array = npt.NDArray[Any]

MOST_ELEMENTS = 3000
OPSET = 18

Draw = Callable[[random.Random, Mapping[str, Array]], Sequence[int]]
"""Integers of an input, which follow from the arrays of a run."""


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    rank: int


class ContentModel(models.Writer):
    """A model that is made, step by step; of each input what draws it."""

    def __init__(self, choose: random.Random) -> None:
        super().__init__()
        self.choose = choose
        self.inputs: dict[str, tuple[int, list[str | int]]] = {}
        self.draws: dict[str, Any] = {}  # of each input what draws it of the arrays of a run; nothing: any numbers do
        self.floats: list[Value] = []
        self.integers: list[Value] = []
        self.order: list[str | onnx.NodeProto] = []

    def name(self) -> str:
        return f"v{len(self.order) + len(self.constants)}"

    def constant(self, array: Any, dtype: str = "i8") -> str:
        return super().constant(np.asarray(array, dtype))

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = super().node(op_type, *inputs, outputs=outputs, **attributes)
        self.order.append(self.nodes[-1])
        return names

    def input(self, element: int, shape: list[str | int], draw: Any) -> str:
        name = f"i{len(self.inputs)}"
        self.inputs[name], self.draws[name] = (element, shape), draw
        self.order.append(name)
        return name

    def add(self, name: str, rank: int) -> None:
        self.floats.append(Value(name, rank))

    def small(self, name: str) -> str:
        """The same with numbers that stay small."""
        return self.one("Clip", name, self.constant(-8, "f4"), self.constant(8, "f4"))

    def pick(self, least: int = 0, most: int = 4) -> Value | None:
        fit = [value for value in self.floats if least <= value.rank <= most]
        return self.choose.choice(fit[-3:] if self.choose.random() < 0.6 else fit) if fit else None

    # Integers that decide.

    def decisive(self, draw: Draw, length: int | None) -> str:
        """Integers as drawn, of a length or a single one: an input, or what nodes make of inputs."""
        way = self.choose.randrange(9)
        shape: list[str | int] = [] if length is None else [length]

        def as_array(of: Draw, dtype: str, more: int = 0) -> Any:
            def made(choose: random.Random, there: dict[str, Array]) -> Array:
                drawn = [number + more for number in of(choose, there)]
                return np.array(drawn, dtype).reshape([] if length is None else -1)

            return made

        if way == 0:
            return self.one("Cast", self.input(TensorProto.INT32, shape, as_array(_bounded(draw), "i4")), to=7)
        if way == 1:  # the device computes it
            name = self.input(TensorProto.FLOAT, shape, as_array(_bounded(draw), "f4"))
            return self.one("Cast", self.one("Neg", self.one("Neg", name)), to=7)
        if way == 2:
            name = self.input(TensorProto.INT64, shape, as_array(_bounded(draw), "i8", 3))
            return self.one("Sub", name, self.constant(3))
        if way == 3 and length:
            first = self.choose.randint(0, length)
            one = self.input(TensorProto.INT64, [first], as_array(lambda c, t: self._kept(c, t, draw)[:first], "i8"))
            two = self.input(TensorProto.INT64, [length - first], as_array(lambda c, t: self._now[first:], "i8"))
            return self.one("Concat", one, two, axis=0)
        if way == 4 and length:  # the host finds it among others
            mask = [True] * length + [False] * 2
            self.choose.shuffle(mask)

            def among(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
                drawn = list(draw(choose, there))
                return [drawn.pop(0) if is_one else choose.randint(-9, 9) for is_one in mask]

            name = self.input(TensorProto.INT64, [length + 2], as_array(among, "i8"))
            return self.one("Compress", name, self.constant(mask, "?"), axis=0)
        if way == 5:  # an initializer that an input may stand for
            name = self.input(TensorProto.INT64, shape, as_array(draw, "i8"))
            self.constants[name] = np.ones([] if length is None else length, "i8")
            return name
        if way == 6 and length:
            once = as_array(draw, "i8")

            def twice(choose: random.Random, there: Mapping[str, Array]) -> Array:
                return np.stack([once(choose, there)] * choose.randint(1, 3), 1)

            name = self.input(TensorProto.INT64, [length, "twice"], twice)
            return self.one("Gather", name, self.constant(0), axis=1)
        return self.input(TensorProto.INT64, shape, as_array(draw, "i8"))

    _now: Sequence[int] = ()

    def _kept(self, choose: random.Random, there: Mapping[str, Array], draw: Draw) -> Sequence[int]:
        self._now = list(draw(choose, there))
        return self._now

    def proto(self, outputs: Sequence[str]) -> onnx.ModelProto:
        return models.model(self.nodes, self.inputs, outputs, self.constants, opset=OPSET)


def _bounded(draw: Draw) -> Draw:
    return lambda choose, there: [max(-(2**20), min(2**20, number)) for number in draw(choose, there)]


# Steps; each adds nodes, and says so where it did not: ``False``.

_Step = Callable[[ContentModel], bool | None]
_StepOf = Callable[[ContentModel, Value], bool | None]
STEPS: list[Callable[[ContentModel], bool]] = []


def _step(count: int = 1) -> Callable[[_Step], _Step]:
    def noted(step: _Step) -> _Step:
        STEPS.extend([lambda m: step(m) is not False] * count)
        return step

    return noted


def _step_of(count: int = 1, least: int = 0, most: int = 4) -> Callable[[_StepOf], _StepOf]:
    """A step that begins with a value of so many dimensions."""

    def noted(step: _StepOf) -> _StepOf:
        @_step(count)
        def begun(m: ContentModel) -> bool | None:
            value = m.pick(least, most)
            return False if value is None else step(m, value)

        return step

    return noted


def _factors(choose: random.Random, size: int, count: int) -> list[int]:
    made = [1] * count
    made[choose.randrange(count)] = size
    for _ in range(3):
        a, b = choose.randrange(count), choose.randrange(count)
        divisors = [d for d in range(1, made[a] + 1) if made[a] % d == 0][:6]
        if a != b and divisors:
            divisor = choose.choice(divisors)
            made[a] //= divisor
            made[b] *= divisor
    return made


@_step(3)
def reshape(m: ContentModel) -> bool:
    value, rank = m.pick(), m.choose.randint(1, 4)
    if value is None:
        return False

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        array = there[value.name]
        sizes = _factors(choose, array.size, rank)
        if array.size and choose.random() < 0.5:
            sizes[choose.randrange(rank)] = -1
        equal = [n for n in range(min(rank, array.ndim)) if sizes[n] == array.shape[n]]
        if equal and choose.random() < 0.3:
            sizes[choose.choice(equal)] = 0
        return sizes

    m.add(m.one("Reshape", value.name, m.decisive(draw, rank)), rank)
    return True


@_step_of(1, 1)
def reshape_by_size(m: ContentModel, value: Value) -> None:
    """Sizes of which one is a value's own."""
    own = m.one("Slice", m.one("Shape", value.name), *(m.constant([n]) for n in (0, 1, 0)))

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        size = int(np.prod(there[value.name].shape[1:]))
        return _factors(choose, size, 2)

    m.add(m.one("Reshape", value.name, m.one("Concat", own, m.decisive(draw, 2), axis=0)), 3)


@_step_of(1, 0, 3)
def expand(m: ContentModel, value: Value) -> bool:
    rank = value.rank + m.choose.randint(0, 4 - value.rank)

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        made = [1] * (rank - value.rank) + [choose.choice((1, size)) for size in there[value.name].shape]
        room = MOST_ELEMENTS // max(1, there[value.name].size)
        axes = [axis for axis, size in enumerate(([1] * rank + [*there[value.name].shape])[-rank:]) if size == 1]
        if axes:
            made[choose.choice(axes)] = choose.randint(1, max(1, min(3, room)))
        return made

    if not rank:
        return False
    m.add(m.one("Expand", value.name, m.decisive(draw, rank)), rank)
    return True


@_step_of(3, 1)
def slice_(m: ContentModel, value: Value) -> None:
    count = m.choose.randint(1, value.rank)
    axes = m.choose.sample(range(value.rank), count)
    has_axes, has_steps = m.choose.random() < 0.7, m.choose.random() < 0.5
    if not has_axes:
        axes = list(range(count))
    steps = [1] * count

    def draw_steps(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        steps[:] = [choose.choice((1, 1, 2, 3, -1, -2)) for _ in axes] if has_steps else [1] * count
        return steps

    begins = [0] * count

    def draw_begins(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        for n, axis in enumerate(axes):
            size = there[value.name].shape[axis]
            begins[n] = (
                choose.choice((0, choose.randint(-size - 1, size))) if steps[n] > 0 else choose.choice((-1, size))
            )
        return begins

    def draw_ends(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        made = []
        for n, axis in enumerate(axes):
            size = there[value.name].shape[axis]
            first = begins[n] + size if begins[n] < 0 else begins[n]
            if steps[n] < 0:
                made.append(choose.choice((-(2**62), -size - 1, choose.randint(0, max(0, size - 1)))))
            elif choose.random() < 0.1:
                made.append(choose.randint(-size, size))
            else:
                made.append(choose.choice((2**62, size, min(size, max(0, first) + choose.randint(1, 3)), -1)))
        return made

    by = m.decisive(draw_steps, count) if has_steps else ""
    begin, end = m.decisive(draw_begins, count), m.decisive(draw_ends, count)
    places = (
        m.decisive(lambda c, t: [a - c.choice((0, value.rank)) for a in axes], count)
        if has_axes
        else (m.constant(axes) if has_steps else "")
    )
    given = [value.name, begin, end, places, by]
    while not given[-1]:
        given.pop()
    m.add(m.one("Slice", *given), value.rank)


@_step_of(1, 1)
def tile(m: ContentModel, value: Value) -> None:

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        made = [1] * value.rank
        if there[value.name].size * 3 <= MOST_ELEMENTS:
            made[choose.randrange(value.rank)] = choose.randint(1, 3)
        return made

    m.add(m.one("Tile", value.name, m.decisive(draw, value.rank)), value.rank)


@_step_of(2, 1)
def top_k(m: ContentModel, value: Value) -> None:
    axis = m.choose.randrange(-value.rank, value.rank)
    count = m.decisive(lambda c, t: [c.randint(min(1, t[value.name].shape[axis]), t[value.name].shape[axis])], 1)
    best, places = m.node("TopK", value.name, count, outputs=2, axis=axis, largest=m.choose.randint(0, 1))
    m.add(best, value.rank)
    m.integers.append(Value(places, value.rank))


@_step(2)
def ranges(m: ContentModel) -> None:
    """Places from one number to another one."""
    start = m.decisive(lambda c, t: [c.randint(-3, 3)], None)
    limit = m.decisive(lambda c, t: [c.choice((4, c.randint(0, 20)))], None)
    by = m.decisive(lambda c, t: [c.choice((1, 1, 2, 3))], None)
    if m.choose.random() < 0.5:
        start, limit, by = (m.one("Cast", name, to=1) for name in (start, limit, by))
        m.add(m.small(m.one("Range", start, limit, by)), 1)
    else:
        name = m.one("Range", start, limit, by)
        m.integers.append(Value(name, 1))
        m.add(m.small(m.one("Cast", name, to=1)), 1)


@_step_of()
def counted_range(m: ContentModel, value: Value) -> None:
    """As many places as the device counts, as in speech."""
    total = m.one("ReduceSum", m.one("Abs", value.name), keepdims=0)
    bound = m.decisive(lambda c, t: [c.randint(1, 12)], None)
    if m.choose.random() < 0.5:
        count = m.one("Cast", m.one("Ceil", total), to=7)
        last = m.one("Min", count, bound)
        m.add(m.small(m.one("Cast", m.one("Range", m.constant(0), last, m.constant(1)), to=1)), 1)
    else:
        last = m.one("Min", total, m.one("Cast", bound, to=1))
        m.add(m.small(m.one("Range", m.constant(0, "f4"), last, m.constant(1, "f4"))), 1)


@_step()
def constant_of_shape(m: ContentModel) -> None:
    rank = m.choose.randint(1, 3)
    sizes = m.decisive(lambda c, t: [c.choice((1, 2, 3, 5, 8)) for _ in range(rank)], rank)
    filled = numpy_helper.from_array(np.array([2], np.float32))
    m.add(m.one("ConstantOfShape", sizes, value=filled), rank)


@_step()
def one_hot(m: ContentModel) -> bool:
    value = m.choose.choice(m.integers) if m.integers else None
    if value is None or value.rank > 3:
        return False
    depth = m.decisive(lambda c, t: [c.randint(1, 6)], m.choose.choice((None, 1)))
    axis = m.choose.randint(-1, value.rank)
    m.add(m.one("OneHot", value.name, depth, m.constant([-1, 2], "f4"), axis=axis), value.rank + 1)
    return True


@_step_of(1, 4, 4)
def resize(m: ContentModel, value: Value) -> None:

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        shape = there[value.name].shape
        return [*shape[:2], *(choose.randint(1, min(2 * size + 1, 9)) for size in shape[2:])]

    options = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    m.add(m.one("Resize", value.name, "", "", m.decisive(draw, 4), **options), 4)


@_step_of(1, 1)
def pad(m: ContentModel, value: Value) -> None:
    mode = m.choose.choice(("constant", "constant", "edge", "reflect"))

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        sizes = there[value.name].shape
        most = 2 if mode == "constant" else 1
        made = [choose.choice((0, choose.randint(0, most))) for _ in range(2 * value.rank)]
        for axis, size in enumerate(sizes):
            if mode != "constant" and size < 3:
                made[axis] = made[axis + value.rank] = 0
            elif mode == "constant" and size > 2 and choose.random() < 0.3:
                made[axis] = -1
        return made

    given = [value.name, m.decisive(draw, 2 * value.rank)]
    if mode == "constant":
        given.append(m.constant(3, "f4"))
    m.add(m.one("Pad", *given, mode=mode), value.rank)


@_step_of(1, 1)
def split(m: ContentModel, value: Value) -> None:
    axis = m.choose.randrange(value.rank)

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        size = there[value.name].shape[axis]
        first = choose.randint(min(1, size - 1), max(0, size - 1))
        return [first, size - first]

    for name in m.node("Split", value.name, m.decisive(draw, 2), outputs=2, axis=axis):
        m.add(name, value.rank)


@_step_of(2, 1)
def gather(m: ContentModel, value: Value) -> None:
    axis = m.choose.randrange(value.rank)
    length = m.choose.choice((None, 1, 2, 3))

    def draw(choose: random.Random, there: Mapping[str, Array]) -> list[int]:
        size = there[value.name].shape[axis]
        return [choose.randint(-size, max(size - 1, -size)) for _ in range(length or 1)]

    m.add(m.one("Gather", value.name, m.decisive(draw, length), axis=axis), value.rank - (length is None))


@_step_of(3, 1, 3)
def non_zero(m: ContentModel, value: Value) -> None:
    """What is above nothing: the host finds out how many there are."""
    places = m.one("NonZero", m.one("Greater", value.name, m.constant(m.choose.choice((-3, 0, 0, 2)), "f4")))
    if m.choose.random() < 0.5:
        found = m.one("GatherND", value.name, m.one("Transpose", places, perm=[1, 0]))
        m.add(found, 1)
        if m.choose.random() < 0.5:
            changed = m.small(m.one("Add", found, m.constant(1, "f4")))
            m.add(m.one("ScatterND", value.name, m.one("Transpose", places, perm=[1, 0]), changed), value.rank)
    else:
        m.integers.append(Value(places, 2))
        m.add(m.small(m.one("Cast", places, to=1)), 2)


@_step_of(2, 1)
def compress(m: ContentModel, value: Value) -> None:
    axis = m.choose.randrange(value.rank)

    def draw(choose: random.Random, there: dict[str, Array]) -> Array:
        size = there[value.name].shape[axis]
        made = np.array([choose.random() < 0.6 for _ in range(size)], bool)
        made[: 1 if size and choose.random() < 0.9 else 0] = True
        return made

    m.add(m.one("Compress", value.name, m.input(TensorProto.BOOL, [f"m{len(m.order)}"], draw), axis=axis), value.rank)


def _graph(m: ContentModel, name: str, op_types: Sequence[str], source: str, more: Sequence[Any] = ()) -> Any:
    """A graph inside of a node: what it takes from outside goes through nodes without other inputs."""
    nodes, last = list(more), source
    for number, op_type in enumerate(op_types):
        nodes.append(helper.make_node(op_type, [last], [f"{name}{number}"]))
        last = f"{name}{number}"
    shown = [onnx.ValueInfoProto(name=last)]
    if not op_types:
        nodes.append(helper.make_node("Identity", [last], [f"{name}e"]))
        shown = [onnx.ValueInfoProto(name=f"{name}e")]
    return helper.make_graph(nodes, name, [], shown)


@_step_of(2, 1)
def choice(m: ContentModel, value: Value) -> None:
    """An If by a condition that an input says, or by a number; inside nodes decide by what is outside."""
    if m.choose.random() < 0.5:
        condition = m.input(TensorProto.BOOL, [], lambda c, t: np.array(c.random() < 0.5))
    else:
        condition = m.one("Greater", m.decisive(lambda c, t: [c.randint(0, 6)], None), m.constant(3))
    axis = m.constant([0])
    last = m.decisive(lambda c, t: [c.randint(1, max(1, t[value.name].shape[0]))], 1)
    first = m.constant([0])
    name = m.name()
    cut = helper.make_node("Slice", [value.name, first, last, axis], [f"{name}cut"])
    graphs = {
        "then_branch": _graph(m, f"{name}t", ("Neg", "Abs")[: m.choose.randint(0, 2)], f"{name}cut", [cut]),
        "else_branch": _graph(m, f"{name}o", ("Neg", "Relu")[: m.choose.randint(0, 2)], value.name),
    }
    m.add(m.one("If", condition, **graphs), value.rank)


@_step_of(1, 1, 2)
def loop(m: ContentModel, value: Value) -> None:
    """As many times as a number says; what grows, and what is counted."""
    trips, name = m.decisive(lambda c, t: [c.randint(0, 4)], None), m.name()
    bound, one = m.constant(8, "f4"), m.constant(1, "f4")
    body = helper.make_graph(
        [
            helper.make_node("Identity", [f"{name}c"], [f"{name}go"]),
            helper.make_node("Add", [f"{name}x", one], [f"{name}a"]),
            helper.make_node("Min", [f"{name}a", bound], [f"{name}y"]),
            helper.make_node("ReduceMax", [f"{name}y"], [f"{name}r"], keepdims=0),
        ],
        "body",
        [
            helper.make_tensor_value_info(f"{name}n", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"{name}c", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"{name}x", TensorProto.FLOAT, None),
        ],
        [onnx.ValueInfoProto(name=f"{name}{end}") for end in ("go", "y", "r")],
    )
    last, all_of_them = m.node("Loop", trips, m.constant(True, "?"), value.name, outputs=2, body=body)
    m.add(last, value.rank)
    m.add(all_of_them, 1)


@_step_of(2, 1)
def along_axes(m: ContentModel, value: Value) -> None:
    """Axes that an input says."""
    way = m.choose.randrange(3)
    axis = m.decisive(lambda c, t: [c.randrange(-value.rank, value.rank)], 1 if way else m.choose.choice((None, 1)))
    if way == 0:
        m.add(m.small(m.one("CumSum", value.name, axis)), value.rank)
    elif way == 1:
        m.add(m.small(m.one("ReduceSum", value.name, axis, keepdims=1)), value.rank)
    elif value.rank < 4:
        m.add(m.one("Unsqueeze", value.name, axis), value.rank + 1)


@_step_of(1, 2)
def triangle(m: ContentModel, value: Value) -> None:
    m.add(m.one("Trilu", value.name, m.decisive(lambda c, t: [c.randint(-2, 2)], None)), value.rank)


@_step(2)
def computed(m: ContentModel) -> bool:
    """What the device computes of one value, or of two."""
    value, other = m.pick(), m.pick()
    if value is None or other is None:
        return False
    if m.choose.random() < 0.5:
        m.add(m.one(m.choose.choice(("Neg", "Abs", "Relu")), value.name), value.rank)
    elif value.rank:
        total = m.one(
            "ReduceMax",
            m.one("Concat", m.one("Reshape", other.name, m.constant([-1])), m.constant([1], "f4"), axis=0),
            keepdims=0,
        )
        m.add(m.small(m.one("Add", value.name, total)), value.rank)
    return True


@_step_of()
def shape_of(m: ContentModel, value: Value) -> None:
    name = m.one(m.choose.choice(("Shape", "Size")), value.name)
    m.integers.append(Value(name, 1 if m.nodes[-1].op_type == "Shape" else 0))
