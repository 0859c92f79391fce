"""The values of one run."""

from __future__ import annotations

import collections
import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.decoding.caches import Cache
from dmlvk.onnx.nodes.values import Array, element_of
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.round_plans import Live, RoundPlan

_MOST_NUMBERS = 16
"""Of a value that is known by its contents: more than dimensions are many."""


class State:
    """The values of one run, as far as they are there: arrays, or what lies on the device.

    Args:
        arrays: inputs; and what stands in the place of a constant in this run, of which plans know the contents.
    """

    def __init__(self, known: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        # copies: plans keep them
        self._instead = {name: copy.copy(value) for name, value in arrays.items() if name in known}
        self.known = collections.ChainMap[str, Any]({}, known)  # type: ignore[arg-type]  # the second one is only read
        self.values: dict[str, Any] = {}
        self.numbers: dict[str, Array] = {}  # integers among what is known that follow from open sizes
        self.kept_bytes = 0
        for name, value in arrays.items():
            self.add(name, self._instead.get(name, value))

    def add(self, name: str, value: Any) -> None:
        """Notes a value; one without elements is known as soon as its shape is."""
        if name in self._instead or (isinstance(value, np.ndarray) and value.size == 0):
            self.known[name] = value
        else:
            self.values[name] = value

    def add_of_sizes(self, arrays: Mapping[str, Array], plan: RoundPlan) -> None:
        """Notes what the host has computed of a plan's open sizes; integers are open in rounds behind it, too."""
        for name, array in arrays.items():
            if not plan.rest:
                self.known[name] = array
            elif name in plan.derived and can_be_open(array):
                self.known[name] = self.numbers[name] = array
            else:
                self.add(name, array)

    def drop(self, shown: Collection[str], pending: Pending) -> None:
        """Lets go of what is neither shown nor read by nodes that are not computed yet, nor given for a constant."""
        for values in (self.values, self.known.maps[0], self.numbers):
            for name in [name for name in values if not (name in shown or name in self._instead)]:
                if not pending.reads(name):
                    del values[name]

    def host_array(self, name: str) -> Any:
        """A value on the host; what is known as a view, so that :meth:`results` tell it from a caller's own."""
        if name in self.known:
            return _seen(self.known[name])
        value = self.values[name]
        return value.array() if isinstance(value, (Resident, DeviceValue)) else value

    def unshared(self, name: str) -> Any:
        """A value that no plan keeps for other runs: a copy of what is known."""
        value = self.host_array(name)
        return value.copy() if name in self.known and isinstance(value, np.ndarray) else value

    def results(self, names: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        """Values as the caller's own: each may be written to, and neither another one, an input nor a plan changes.

        Args:
            inputs: what was given. What passes a Loop, an If, a sequence or no node at all is the same array.
        """
        others = {id(array) for value in inputs.values() for array in (value if isinstance(value, list) else [value])}

        def own(value: Any) -> Any:
            if isinstance(value, list):
                return [own(item) for item in value]
            if not isinstance(value, np.ndarray):
                return value
            if value.dtype.kind == "U":
                return value.astype(object)  # texts are so in ONNX Runtime
            result = value if value.flags.owndata and id(value) not in others else value.copy()
            others.add(id(result))
            return result

        return [own(self.unshared(name)) for name in names]

    def uploaded(self, name: str) -> Any:
        value = self.values.get(name)
        return value if isinstance(value, DeviceValue) else self.host_array(name)

    def live(self) -> dict[str, Live]:
        """What a planner must know of the values."""
        return {name: _live(value) for name, value in self.values.items()}

    def key(self) -> tuple[object, ...]:
        """What a plan depends on, besides contents that are looked at."""
        live = tuple(
            (name, live.element, live.shape) for name, live in ((name, _live(v)) for name, v in self.values.items())
        )
        return (*self.key_of_known(), live, _contents(self.numbers))

    def key_of_known(self) -> tuple[object, ...]:
        """What a plan depends on of what is known, but for integers that follow from open sizes."""
        empty = tuple((name, self.known[name].shape) for name in self.known.maps[0] if _is_empty(self.known[name]))
        return empty, _contents(self._instead)


def _seen(value: Any) -> Any:
    if isinstance(value, list):
        return [_seen(each) for each in value]
    return np.asarray(value).view() if isinstance(value, np.ndarray) else value


def _contents(values: Mapping[str, Any]) -> tuple[tuple[object, ...], ...]:
    arrays = ((name, np.asarray(value)) for name, value in values.items())
    return tuple((name, array.dtype, array.shape, array.tobytes()) for name, array in arrays)


def can_be_open(array: Any) -> bool:
    """Whether a value's contents can be open as sizes are."""
    is_few = isinstance(array, np.ndarray) and 0 < array.size <= _MOST_NUMBERS
    return is_few and element_of(array) in (TensorProto.INT32, TensorProto.INT64)


def _is_empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size == 0


def _live(value: Any) -> Live:
    if isinstance(value, Resident):
        return Live(value.tensor.element, value.tensor.shape)
    if isinstance(value, (DeviceValue, Cache)):
        return Live(value.element, value.shape)
    if isinstance(value, np.ndarray):
        return Live(element_of(value), value.shape)
    return Live(None, ())
