"""What random models with open sizes are drawn by: sizes that are polynomials of open ones, values, nodes."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto, helper

from tests.onnx.models import Writer

Term = tuple[str, ...]
FLOAT = TensorProto.FLOAT


@dataclasses.dataclass(frozen=True)
class Size:
    """A size of an axis: a polynomial of open sizes, as coefficients of products of names."""

    terms: tuple[tuple[Term, int], ...]

    @classmethod
    def of(cls, given: Size | int | str) -> Size:
        if isinstance(given, Size):
            return given
        term: dict[Term, int] = {(given,): 1} if isinstance(given, str) else {(): given}
        return cls._made(term)

    @classmethod
    def _made(cls, terms: Mapping[Term, int]) -> Size:
        return cls(tuple(sorted((term, count) for term, count in terms.items() if count)))

    def __add__(self, other: Size | int) -> Size:
        found = dict(self.terms)
        for term, count in Size.of(other).terms:
            found[term] = found.get(term, 0) + count
        return self._made(found)

    def __mul__(self, other: Size | int) -> Size:
        found: dict[Term, int] = {}
        for term, count in self.terms:
            for others, factor in Size.of(other).terms:
                product = tuple(sorted((*term, *others)))
                found[product] = found.get(product, 0) + count * factor
        return self._made(found)

    def at(self, sizes: Mapping[str, int]) -> int:
        return sum(count * math.prod(sizes[name] for name in term) for term, count in self.terms)

    @property
    def number(self) -> int | None:
        if not self.terms:
            return 0
        ((term, count), *more) = self.terms
        return count if not more and not term else None


Shape = tuple[Size, ...]


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a model that is made.

    Attributes:
        name: it.
        shape: its sizes.
        element: ONNX's element type.
        is_given: whether its elements are those of an input, so that what compares them gives the same everywhere.
    """

    name: str
    shape: Shape
    element: int = FLOAT
    is_given: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)


class ModelDraw(Writer):
    def __init__(self, choose: random.Random) -> None:
        super().__init__()
        self.choose = choose
        self.numbers = np.random.default_rng(choose.randrange(2**32))
        self.names = ["n", "m", "b"][: choose.randint(1, 3)]
        self.values: list[Value] = []
        self._inputs: list[Value] = []
        for _ in range(choose.randint(1, 2)):
            self.input()

    def size(self) -> Size:
        if self.choose.random() < 0.6:
            return Size.of(self.choose.choice(self.names))
        return Size.of(self.choose.choice((1, 2, 3, 4, 6, 8, 16, 24)))

    def input(self, shape: Shape | None = None, element: int = FLOAT) -> Value:
        if shape is None:
            shape = tuple(self.size() for _ in range(self.choose.randint(1, 4)))
            if all(size.number is not None for size in shape):
                shape = (Size.of(self.names[0]), *shape[1:])
        value = Value(f"x{len(self._inputs)}", shape, element, is_given=True)
        self._inputs.append(value)
        self.values.append(value)
        return value

    def inputs(self) -> list[tuple[str, int, list[int | str]]]:
        found = []
        for value in self._inputs:
            axes: list[int | str] = []
            for size in value.shape:
                number = size.number
                axes.append(size.terms[0][0][0] if number is None else number)
            found.append((value.name, value.element, axes))
        return found

    def outputs(self) -> list[str]:
        """The values that nothing reads, and now and then one that something does."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        found = [name for name in made if name not in read]
        return found + [name for name in made if name in read and self.choose.random() < 0.1]

    def most_elements(self, sizes: Mapping[str, int]) -> int:
        return max(math.prod(size.at(sizes) for size in value.shape) for value in self.values)

    def pick(self, fits: Callable[[Value], bool] = lambda value: True, element: int | None = FLOAT) -> Value | None:
        """A value, rather one of the latest."""
        found = [value for value in self.values if (element is None or value.element == element) and fits(value)]
        if not found:
            return None
        return found[-1] if self.choose.random() < 0.5 else self.choose.choice(found)

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def weights(self, *shape: int, element: int = FLOAT, scale: float = 1.0) -> str:
        dtype = helper.tensor_dtype_to_np_dtype(element)
        return self.constant((self.numbers.standard_normal(shape) * scale).astype(dtype))

    def add(self, name: str, shape: Shape, of: Value, *, element: int | None = None, is_given: bool = False) -> bool:
        self.values.append(Value(name, shape, of.element if element is None else element, is_given))
        return True

    def axis(self, value: Value, fits: Callable[[Size], bool] = lambda size: True) -> int | None:
        found = [axis for axis, size in enumerate(value.shape) if fits(size)]
        return self.choose.choice(found) if found else None


Step = Callable[[ModelDraw], bool]
_StepOf = Callable[[ModelDraw, Value], bool]
STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    """Registers a step.

    Args:
        weight: how often it is drawn.
    """

    def register(function: Step) -> Step:
        STEPS.extend([function] * weight)
        return function

    return register


def step_of(weight: int = 1, fits: Callable[[Value], bool] = lambda value: True) -> Callable[[_StepOf], _StepOf]:
    """Registers a step that begins with a value.

    Args:
        weight: how often it is drawn.
    """

    def register(function: _StepOf) -> _StepOf:
        @step(weight)
        def begun(draw: ModelDraw) -> bool:
            value = draw.pick(fits)
            return value is not None and function(draw, value)

        return function

    return register


def is_number(size: Size) -> bool:
    """Whether an axis has the same size always, and some elements."""
    return bool(size.number)


def fixed(value: Value, axis: int) -> int:
    number = value.shape[axis].number
    assert number is not None
    return number


def joined(a: Shape, b: Shape) -> Shape | None:
    """What two shapes are broadcast to; ``None`` where that depends on sizes."""
    length = max(len(a), len(b))
    one = Size.of(1)
    pairs = zip((one,) * (length - len(a)) + a, (one,) * (length - len(b)) + b, strict=True)
    made = []
    for x, y in pairs:
        if x != y and one not in (x, y):
            return None
        made.append(y if x == one else x)
    return tuple(made)
