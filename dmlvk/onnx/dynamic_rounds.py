"""Plans of a model for open sizes: made as they are needed, and found by their guards."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dmlvk.dynamic.sizes import FEWEST, Guards
from dmlvk.errors import DmlError
from dmlvk.graphs.dynamic import open_sizes
from dmlvk.onnx.dynamic_execution import DynamicRound
from dmlvk.onnx.execution import Held
from dmlvk.onnx.loading import OnnxModel
from dmlvk.onnx.round_plans import Live, NotDynamicError
from dmlvk.onnx.values import element_of

_log = logging.getLogger("dmlvk")

_MOST_PLANS = 128
"""Plans that are kept; those not used for longest go first."""

_MOST_OF_ONE_SIZE = 4
"""Plans in a row that are for one set of sizes only, after which plans are made without dynamic sizes."""

_Key: TypeAlias = tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class Opening:
    """The shapes of a run, and what of them is open.

    Attributes:
        key: what plans are told apart by besides their guards.
        sizes: the open sizes.
        shapes: of each input the element type, and for each axis a plain size, or ``~n`` for the open size ``n``.
        elsewhere: inputs that lie on the device already, and outputs that get memory of their own there.
    """

    key: _Key
    sizes: tuple[int, ...]
    shapes: Mapping[str, tuple[int, tuple[int, ...]]]
    elsewhere: frozenset[str]

    def live(self, sizes: Sequence[int]) -> dict[str, Live]:
        """The inputs with these numbers in the place of open sizes."""
        return {
            name: Live(element, tuple(sizes[~size] if size < 0 else size for size in shape))
            for name, (element, shape) in self.shapes.items()
        }


class DynamicRounds:
    """Those of one model.

    Args:
        model: the model.
        tells_multiples: as for :class:`Guards`.
    """

    def __init__(self, model: OnnxModel, *, tells_multiples: bool) -> None:
        self._tells_multiples = tells_multiples
        self._open = {
            info.name: info.shape
            for info in model.inputs
            if info.shape is None or not all(isinstance(size, int) for size in info.shape)
        }
        self._plans: dict[_Key, list[DynamicRound]] = {}
        self._of_one_size: dict[_Key, int] = {}
        self.refused: dict[_Key, str] = {}
        """Why there are no plans for open sizes."""

    def __len__(self) -> int:
        return sum(map(len, self._plans.values()))

    def opening(self, values: Mapping[str, Any], kept: Collection[str] = ()) -> Opening | None:
        """What of a run's inputs is open; ``None``: nothing is, or not all of them are arrays that the device has.

        Sizes of one name that are equal are one size; sizes of 0 and 1 are none.

        Args:
            values: the inputs.
            kept: outputs that get memory of their own on the device.
        """
        if not self._open:
            return None
        shapes: dict[str, tuple[int, tuple[int, ...]]] = {}
        sizes: list[int] = []
        numbers: dict[object, int] = {}
        elsewhere = set(kept)
        for name, value in values.items():
            element = element_of(value) if isinstance(value, np.ndarray) else None
            if isinstance(value, Held):
                element = value.element
                elsewhere.add(name)
            if element is None or 0 in value.shape:
                return None
            declared = self._open.get(name, value.shape)
            made = []
            for axis, size in enumerate(value.shape):
                said = None if declared is None else declared[axis]
                if isinstance(said, int) or size < FEWEST:
                    made.append(size)
                    continue
                number = numbers.setdefault((said, size) if said else (name, axis), len(sizes))
                if number == len(sizes):
                    sizes.append(size)
                made.append(~number)
            shapes[name] = (element, tuple(made))
        key = (frozenset(elsewhere), *((name, *shape) for name, shape in shapes.items()))
        if not sizes or key in self.refused:
            return None
        return Opening(key, tuple(sizes), shapes, frozenset(elsewhere))

    def find(self, opening: Opening, has_contents: Callable[[DynamicRound], bool]) -> DynamicRound | None:
        """A plan for these sizes."""
        plans = self._plans.get(opening.key, [])
        for index, made in enumerate(plans):
            if made.is_for(opening.sizes) and has_contents(made):
                if index:  # the one used last is asked first
                    plans.insert(0, plans.pop(index))
                return made
        return None

    def forget_others(self, opening: Opening, kept: DynamicRound) -> bool:
        """Lets go of all plans but one, whose memory others need; whether there were any."""
        is_alone = len(self) == 1
        self._plans = {opening.key: [kept]}
        return not is_alone

    def make(self, opening: Opening, planned: Callable[[Guards, dict[str, Live], Sequence[int]], DynamicRound]) -> Any:
        """A new plan for these sizes, and all others for which its guards hold; ``None`` where there cannot be one.

        Args:
            opening: the sizes.
            planned: makes the plan, of guards, of inputs with dynamic sizes, and of numbers for operands' places.
        """
        guards = Guards(tells_multiples=self._tells_multiples)
        sizes, offsets = open_sizes(guards, opening.sizes)
        try:
            made = planned(guards, opening.live(sizes), offsets)
        except (NotDynamicError, DmlError, TypeError, ValueError, LookupError, ArithmeticError) as reason:
            # Whatever is wrong with the model is said by the plan for plain sizes, which is made instead.
            self.refused[opening.key] = f"{type(reason).__name__}: {reason}"
            _log.debug("no plan for open sizes: %s", self.refused[opening.key])
            return None
        finally:
            guards.made.clear()  # sizes in it lead back to the guards: a circle
        if not made.is_for(opening.sizes):
            self.refused[opening.key] = "a plan is not for the sizes that it was made with"
            return None
        pinned = self._of_one_size.get(opening.key, 0) + 1 if guards.locations else 0
        self._of_one_size[opening.key] = pinned
        if pinned >= _MOST_OF_ONE_SIZE:
            self.refused[opening.key] = f"plans are for one size only: {', '.join(guards.locations)}"
        plans = self._plans.setdefault(opening.key, [])
        plans.insert(0, made)
        while len(self) > _MOST_PLANS:
            next(plans for plans in self._plans.values() if plans).pop()
        return made
