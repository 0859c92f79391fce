"""Recordings of a device's compiled operators, kept for the memory that they ran on."""

from __future__ import annotations

import collections
import weakref
from typing import TypeAlias

from dmlvk.objects.compilation import CompiledOperator
from dmlvk.runtime.kompute import Allocation, Recording
from dmlvk.support.weak_keys import WeakKeys

Location: TypeAlias = tuple[Allocation, int]  # what something lies in, and its first byte there

_MOST_WEIGHT = {"CPU": 2**13}
"""Of all recordings of a device together: 8 MiB with llvmpipe. They are less work for it than what they run."""

_MOST_WEIGHT_OF_GPU = 2**15  # A GPU's keep less memory and take more work: a training step of a hundred layers

_FEWEST = 32  # Recordings that are kept however much they weigh

_OWN_WEIGHT = 2  # Of a recording, beside 1 for each dispatch

_Places: TypeAlias = tuple[Location, ...]


class KeptRecordings:
    """Those of one device: of too many, those not used for longest go first, and an operator's go with it.

    Its engine's lock is held by who calls. An interrupt may come between any two steps; so what is kept is in the order
    first, and the weight that is noted is never less than that of what is kept. It is found out anew where it says that
    there is too much.
    """

    def __init__(self, kind: str) -> None:  # of the device
        self._of: WeakKeys[CompiledOperator, dict[_Places, Recording]] = WeakKeys()
        # what was used last at the end, with its weight; something of it may be gone
        self._order: collections.OrderedDict[tuple[weakref.ref[CompiledOperator], _Places], int]
        self._order = collections.OrderedDict()
        self._most, self._weight = _MOST_WEIGHT.get(kind, _MOST_WEIGHT_OF_GPU), 0

    def __len__(self) -> int:
        return sum(len(kept) for _, kept in self._of.items())

    def find(self, compiled: CompiledOperator, places: _Places) -> Recording | None:
        kept = self._of.get(compiled)
        recording = None if kept is None else kept.get(places)
        if recording is not None:
            key = weakref.ref(compiled), places
            try:
                self._order.move_to_end(key)
            except KeyError:  # an interrupt came when it was kept or was to go
                self._order[key] = _weight_of(recording)
        return recording

    def keep(self, compiled: CompiledOperator, places: _Places, recording: Recording) -> Recording:
        """Keeps what was recorded, and gives it back."""
        kept = self._of.get(compiled)
        if kept is None:
            kept = {}
            self._of.keep(compiled, kept)
        weight = _weight_of(recording)
        self._weight += weight
        self._order[weakref.ref(compiled), places] = weight
        kept[places] = recording
        if self._weight > self._most:
            self._thin_out()
        return recording

    def _thin_out(self) -> None:
        """Forgets a part of them, so that it is not done each time."""
        for operator, places in list(self._order):
            if places not in self._kept_of(operator):
                self._order.pop((operator, places), None)
        self._weight = sum(list(self._order.values()))
        while self._weight > self._most * 7 // 8 and len(self._order) > _FEWEST:
            operator, places = key = next(iter(self._order))
            self._kept_of(operator).pop(places, None)
            self._weight -= self._order.pop(key, 0)

    def _kept_of(self, operator: weakref.ref[CompiledOperator]) -> dict[_Places, Recording]:
        compiled = operator()
        return (None if compiled is None else self._of.get(compiled)) or {}

    def forget(self, allocation: Allocation) -> None:
        """Lets go of those that use memory which is freed."""
        for _, kept in self._of.items():
            for places, recording in list(kept.items()):  # a signal's handler may run operators meanwhile
                if recording.uses(allocation):
                    kept.pop(places, None)

    def clear(self) -> None:
        """Lets go of all of them."""
        self._of.clear()
        self._order.clear()


def _weight_of(recording: Recording) -> int:
    return _OWN_WEIGHT + len(recording.dispatch_steps)
