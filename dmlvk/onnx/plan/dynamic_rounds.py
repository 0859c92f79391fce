"""Plans of a model for open sizes: made as they are needed, and found by their guards."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dmlvk.dynamic.sizes import FEWEST, Guards
from dmlvk.errors import DmlError
from dmlvk.graphs.plan import open_sizes
from dmlvk.onnx.decoding.caches import Cache
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array, Derived, NodeInputError, element_of
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.onnx.plan.made_rounds import KEPT_PLANS, MadeRound, Rounds
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.round_plans import Live, NotDynamicError
from dmlvk.onnx.plan.states import State, can_be_open
from dmlvk.support import faults
from dmlvk.support.recent import Recent

_log = logging.getLogger("dmlvk")

_MOST_PLANS = 128  # Plans that are kept; those not used for longest go first

_MOST_OF_ONE_SIZE = 4
"""Plans in a row that are for one set of sizes only, after which plans are made without dynamic sizes."""

_LARGEST = 2**31
"""Numbers from here on are no sizes: a plan is for each by itself."""

_HAVE_SIZES = (np.ndarray, DeviceValue, Cache)
"""Inputs that have some: no sequences, and no optional ones that are not there."""

_Key: TypeAlias = tuple[object, ...]

_Size: TypeAlias = int | tuple[int, tuple[int, ...]]
"""A plain size, or ``~n`` for the open size ``n``, or a plain number and the open sizes that are added to it."""

_Numbers: TypeAlias = tuple[int, tuple[int, ...], tuple[_Size, ...]]
"""The element type, the shape and the numbers of an array of integers; open ones are sums."""


@dataclasses.dataclass(frozen=True)
class Opening:
    key: _Key  # what plans are told apart by besides their guards
    sizes: tuple[int, ...]  # the open sizes
    shapes: Mapping[str, tuple[int, tuple[_Size, ...]]]  # of each input the element type, and its sizes
    elsewhere: frozenset[str]  # inputs that lie on the device already, and outputs that get memory of their own there
    numbers: Mapping[str, _Numbers]  # integers that follow from sizes of rounds before, or decided about a plan

    def derived(self, sizes: Sequence[int]) -> dict[str, Derived]:
        """The integers of which some are open."""
        made: dict[str, Derived] = {}
        for name, (element, shape, numbers) in self.numbers.items():
            if any(isinstance(each, tuple) for each in numbers):
                array = np.empty(len(numbers), object)
                array[:] = [_in_place(each, sizes) if isinstance(each, tuple) else each for each in numbers]
                made[name] = Derived(name, element, array.reshape(shape))
        return made

    def known(self) -> dict[str, Array]:
        """The integers of which none is open: the key tells all of them apart."""
        return {
            name: np.array(numbers, NUMPY_TYPES[element]).reshape(shape)
            for name, (element, shape, numbers) in self.numbers.items()
            if not any(isinstance(each, tuple) for each in numbers)
        }

    def live(self, sizes: Sequence[int]) -> dict[str, Live]:
        return {
            name: Live(element, tuple(_in_place(size, sizes) for size in shape))
            for name, (element, shape) in self.shapes.items()
        }


def _in_place(size: _Size, sizes: Sequence[int]) -> int:
    if isinstance(size, tuple):
        return size[0] + sum(sizes[number] for number in size[1])
    return sizes[~size] if size < 0 else size


class _RunSizes:
    def __init__(self) -> None:
        self.values: list[int] = []  # the open ones
        self._numbers: dict[object, int] = {}
        self._named: dict[str, int] = {}

    def of(self, size: int, name: str | None, axis: object) -> int:
        """A size: the same for those that are equal and of one name, or of one axis where they have none."""
        made = size
        if size >= FEWEST:
            number = self._numbers.setdefault((name, size) if name else axis, len(self.values))
            if number == len(self.values):
                self.values.append(size)
            made = ~number
        if name:
            self._named[name] = made
        return made

    def of_cache(self, name: str, cache: Cache, said: str | None) -> list[_Size]:
        """Its room is no open size, and where it has more than rows, these are one."""
        grows, rows = cache.rows != cache.shape[2], cache.rows or cache.shape[2]  # nothing reads that of none
        return [*cache.shape[:2], self.of(rows, said, (name, 2)) if grows else rows, cache.shape[3]]

    def numbers(self, arrays: Mapping[str, Array], fixed: Collection[str]) -> dict[str, _Numbers]:
        """Integers that are no sizes of values, each as the sum of an open one alone where it can be open."""

        def opened(number: int, place: tuple[str, str, int]) -> _Size:
            is_open = FEWEST <= number < _LARGEST and place[0] not in fixed
            return (0, (~self.of(number, None, place),)) if is_open else number

        return {
            name: (
                element_of(array) or 0,
                array.shape,
                tuple(opened(int(number), (name, "number", n)) for n, number in enumerate(array.reshape(-1))),
            )
            for name, array in arrays.items()
        }

    def sum(self, size: int, terms: Sequence[str]) -> _Size | None:
        """A size as the sum of others by their names, or of numbers; ``None``: it is not."""
        constant, numbers = 0, []
        for term in terms:
            found = int(term) if term.isdecimal() else self._named.get(term)
            if found is None:
                return None
            if found < 0:
                numbers.append(~found)
            else:
                constant += found
        if constant + sum(self.values[number] for number in numbers) != size:
            return None
        return (constant, tuple(sorted(numbers))) if numbers else size


class DynamicRounds(Rounds):
    """Those of one model.

    Args:
        tells_multiples: as for :class:`Guards`.
        is_first: whether they compute the model from its inputs on, and go on from no other round.
    """

    def __init__(self, model: OnnxModel, *, tells_multiples: bool, is_first: bool = True) -> None:
        super().__init__(_MOST_PLANS if is_first else KEPT_PLANS)
        self._model, self._tells_multiples, self._is_first = model, tells_multiples, is_first
        self._inputs = frozenset(info.name for info in model.inputs)
        self._open = {
            info.name: info.shape
            for info in model.inputs
            if info.shape is None or not all(isinstance(size, int) for size in info.shape)
        }
        names = {said for shape in self._open.values() for said in shape or () if isinstance(said, str)}
        self._sums = {name: terms for name in names if (terms := [part.strip() for part in name.split("+")])[1:]}
        self._of_one_size: Recent[_Key, int] = Recent(_MOST_PLANS)
        self._decisive: set[str] = set()  # integers whose contents decided how a round was planned
        self._fixed: set[str] = set()  # those of which plans for open ones were for one only
        self.refused: Recent[_Key, str] = Recent(_MOST_PLANS)
        """Why there are no plans for open sizes."""

    def following(self, made: MadeRound) -> Rounds:
        """Those behind a round; the same for all of which the same is known, but for open sizes."""
        alike = (other for other in self if other.is_open and made.plan.leaves_the_same_as(other.plan))
        other = next(alike, None) if made.is_open else None
        return (
            other.next if other else DynamicRounds(self._model, tells_multiples=self._tells_multiples, is_first=False)
        )

    def opening_of(self, state: State, steps: Pending, kept: Collection[str] = ()) -> Opening | None:
        """What is open of the values that nodes read; ``None``: nothing, or what is known of it is not so in others."""
        if self._is_first:
            return None if state.known.maps[0] else self.opening(state.values, kept)
        return self.opening({n: value for n, value in state.values.items() if steps.reads(n)}, kept, state)

    def opening(
        self, values: Mapping[str, Any], kept: Collection[str] = (), state: State | None = None
    ) -> Opening | None:
        """What of a run's inputs is open; ``None``: nothing is, or not all of them are arrays that the device has.

        Sizes of one name that are equal are one size; sizes of 0 and 1 are none. A size whose name is a sum of names
        ("past + new", as exporters write it) is that sum where it is true.

        Args:
            values: the inputs, and what is counted of them, whose sizes are all open.
            kept: outputs that get memory of their own on the device.
            state: of rounds that go on from others, what is known besides.
        """
        if (self._is_first and not self._open) or not all(isinstance(value, _HAVE_SIZES) for value in values.values()):
            return None
        found, elsewhere = _RunSizes(), set(kept).difference(values)
        shapes: dict[str, tuple[int, list[_Size]]] = {}
        sums: list[tuple[str, int, str]] = []
        integers = {name: array for name, array in values.items() if name in self._decisive and can_be_open(array)}
        integers |= {} if state is None else state.numbers
        for name, value in ((name, value) for name, value in values.items() if name not in integers):
            assert isinstance(value, _HAVE_SIZES)
            declared = self._open.get(name, value.shape) if name in self._inputs else None
            if isinstance(value, Cache):
                said = None if declared is None else declared[2]
                shapes[name] = (value.element, found.of_cache(name, value, said if isinstance(said, str) else None))
                continue
            if isinstance(value, DeviceValue):
                elsewhere.add(name)
            element = element_of(value) if isinstance(value, np.ndarray) else value.element
            if element is None or 0 in value.shape:
                return None
            made: list[_Size] = []
            for axis, size in enumerate(value.shape):
                said = None if declared is None else declared[axis]
                if isinstance(said, str) and said in self._sums:
                    sums.append((name, axis, said))
                    made.append(size)  # until all others are there
                else:
                    made.append(size if isinstance(said, int) else found.of(size, said, (name, axis)))
            shapes[name] = (element, made)
        for name, axis, said in sums:
            made, size = shapes[name][1], values[name].shape[axis]
            made[axis] = found.sum(size, self._sums[said]) or found.of(size, said, said)
        numbers = found.numbers(integers, self._fixed)
        of_inputs = {name: (element, tuple(made)) for name, (element, made) in shapes.items()}
        others = (tuple(numbers.items()), () if state is None else state.key_of_known())
        key = (frozenset(elsewhere), *others, *((name, *of) for name, of in of_inputs.items()))
        is_open = bool(found.values) and key not in self.refused
        return Opening(key, tuple(found.values), of_inputs, frozenset(elsewhere), numbers) if is_open else None

    def make(
        self, opening: Opening, planned: Callable[[Guards, Sequence[int], Sequence[int]], MadeRound]
    ) -> MadeRound | None:
        """A new plan for these sizes, and all others for which its guards hold; ``None`` where there cannot be one.

        Args:
            planned: makes the plan, of guards, of dynamic sizes, and of numbers for operands' places.
        """
        guards = Guards(tells_multiples=self._tells_multiples)
        sizes, offsets = open_sizes(guards, opening.sizes)
        try:
            made = planned(guards, sizes, offsets)
        except NodeInputError:  # these numbers, not these sizes: others may have a plan
            raise
        except (NotDynamicError, DmlError) as reason:
            # Whatever is wrong with the model is said by the plan for plain sizes, which is made instead.
            return self._refusal(opening, reason)
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, "planning for open sizes")
            return self._refusal(opening, error)
        finally:
            guards.made.clear()  # sizes in it lead back to the guards: a circle
        if not made.is_for(opening.sizes):
            return self._refusal(opening, NotDynamicError("a plan is not for the sizes that it was made with"))
        self._decisive.update(made.plan.contents)
        if guards.locations:
            self._fixed.update(opening.numbers)  # of these there is a plan for each, which others' sizes are open in
        pinned = self._of_one_size.get(opening.key, 0) + 1 if guards.locations else 0
        self._of_one_size.keep(opening.key, pinned)
        if pinned >= _MOST_OF_ONE_SIZE:
            self.refused.keep(opening.key, f"plans are for one size only: {', '.join(guards.locations)}")
        self.keep(opening.key, made)
        return made

    def _refusal(self, opening: Opening, reason: Exception) -> MadeRound | None:
        said = self.refused.keep(opening.key, f"{type(reason).__name__}: {reason}")
        _log.debug("no plan for open sizes: %s", said)
        return None
