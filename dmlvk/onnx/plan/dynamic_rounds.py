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
from dmlvk.onnx.nodes.values import NodeInputError, element_of
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.onnx.plan.made_rounds import MadeRound, Rounds
from dmlvk.onnx.plan.round_plans import Live, NotDynamicError
from dmlvk.support import faults

_log = logging.getLogger("dmlvk")

_MOST_PLANS = 128  # Plans that are kept; those not used for longest go first

_MOST_OF_ONE_SIZE = 4
"""Plans in a row that are for one set of sizes only, after which plans are made without dynamic sizes."""

_HAVE_SIZES = (np.ndarray, DeviceValue, Cache)
"""Inputs that have some: no sequences, and no optional ones that are not there."""

_Key: TypeAlias = tuple[object, ...]

_Size: TypeAlias = int | tuple[int, tuple[int, ...]]
"""A plain size, or ``~n`` for the open size ``n``, or a plain number and the open sizes that are added to it."""


@dataclasses.dataclass(frozen=True)
class Opening:
    key: _Key  # what plans are told apart by besides their guards
    sizes: tuple[int, ...]  # the open sizes
    shapes: Mapping[str, tuple[int, tuple[_Size, ...]]]  # of each input the element type, and its sizes
    elsewhere: frozenset[str]  # inputs that lie on the device already, and outputs that get memory of their own there

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
    """

    def __init__(self, model: OnnxModel, *, tells_multiples: bool) -> None:
        super().__init__(_MOST_PLANS)
        self._tells_multiples = tells_multiples
        self._inputs = frozenset(info.name for info in model.inputs)
        self._open = {
            info.name: info.shape
            for info in model.inputs
            if info.shape is None or not all(isinstance(size, int) for size in info.shape)
        }
        names = {said for shape in self._open.values() for said in shape or () if isinstance(said, str)}
        self._sums = {name: terms for name in names if (terms := [part.strip() for part in name.split("+")])[1:]}
        self._of_one_size: dict[_Key, int] = {}
        self.refused: dict[_Key, str] = {}
        """Why there are no plans for open sizes."""

    def opening(self, values: Mapping[str, Any], kept: Collection[str] = ()) -> Opening | None:
        """What of a run's inputs is open; ``None``: nothing is, or not all of them are arrays that the device has.

        Sizes of one name that are equal are one size; sizes of 0 and 1 are none. A size whose name is a sum of names
        ("past + new", as exporters write it) is that sum where it is true.

        Args:
            values: the inputs, and what is counted of them, whose sizes are all open.
            kept: outputs that get memory of their own on the device.
        """
        if not self._open or not all(isinstance(value, _HAVE_SIZES) for value in values.values()):
            return None
        found, elsewhere = _RunSizes(), set(kept)
        shapes: dict[str, tuple[int, list[_Size]]] = {}
        sums: list[tuple[str, int, str]] = []
        for name, value in values.items():
            if not isinstance(value, (np.ndarray, DeviceValue, Cache)):
                return None  # a sequence, or an optional value
            element = element_of(value) if isinstance(value, np.ndarray) else None
            if isinstance(value, DeviceValue):
                element = value.element
                elsewhere.add(name)
            declared = self._open.get(name, value.shape) if name in self._inputs else None
            if isinstance(value, Cache):  # its room is no open size, and where it has more than rows, these are one
                said = None if declared is None else declared[2]
                grows, rows = value.rows != value.shape[2], value.rows or value.shape[2]  # nothing reads that of none
                of_rows = found.of(rows, said if isinstance(said, str) else None, (name, 2)) if grows else rows
                shapes[name] = (value.element, [*value.shape[:2], of_rows, value.shape[3]])
                continue
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
        sizes = found.values
        of_inputs = {name: (element, tuple(made)) for name, (element, made) in shapes.items()}
        key = (frozenset(elsewhere), *((name, *shape) for name, shape in of_inputs.items()))
        if not sizes or key in self.refused:
            return None
        return Opening(key, tuple(sizes), of_inputs, frozenset(elsewhere))

    def make(self, opening: Opening, planned: Callable[[Guards, dict[str, Live], Sequence[int]], MadeRound]) -> Any:
        """A new plan for these sizes, and all others for which its guards hold; ``None`` where there cannot be one.

        Args:
            planned: makes the plan, of guards, of inputs with dynamic sizes, and of numbers for operands' places.
        """
        guards = Guards(tells_multiples=self._tells_multiples)
        sizes, offsets = open_sizes(guards, opening.sizes)
        try:
            made = planned(guards, opening.live(sizes), offsets)
        except NodeInputError:  # these numbers, not these sizes: others may have a plan
            raise
        except (NotDynamicError, DmlError) as reason:
            # Whatever is wrong with the model is said by the plan for plain sizes, which is made instead.
            return self._refuse(opening, reason)
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, "planning for open sizes")
            return self._refuse(opening, error)
        finally:
            guards.made.clear()  # sizes in it lead back to the guards: a circle
        if not made.is_for(opening.sizes):
            self.refused[opening.key] = "a plan is not for the sizes that it was made with"
            return None
        pinned = self._of_one_size.get(opening.key, 0) + 1 if guards.locations else 0
        self._of_one_size[opening.key] = pinned
        if pinned >= _MOST_OF_ONE_SIZE:
            self.refused[opening.key] = f"plans are for one size only: {', '.join(guards.locations)}"
        self.keep(opening.key, made)
        return made

    def _refuse(self, opening: Opening, reason: Exception) -> None:
        self.refused[opening.key] = f"{type(reason).__name__}: {reason}"
        _log.debug("no plan for open sizes: %s", self.refused[opening.key])
