"""Recordings of a device's compiled operators, kept for the memory that they ran on."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from typing import TypeAlias

from dmlvk.objects.compilation import CompiledOperator
from dmlvk.runtime.kompute import Allocation, Recording

Location: TypeAlias = tuple[Allocation, int]  # what something lies in, and its first byte there

_MOST_WEIGHT = {"CPU": 2**13}
"""Of all recordings of a device together: 8 MiB with llvmpipe. They are less work for it than what they run."""

_MOST_WEIGHT_OF_GPU = 2**15  # A GPU's keep less memory and take more work: a training step of a hundred layers

_FEWEST = 32  # Recordings that are kept however much they weigh

_OWN_WEIGHT = 2  # Of a recording, beside 1 for each dispatch

_Key: TypeAlias = tuple[weakref.ref[CompiledOperator], tuple[Location, ...]]


class KeptRecordings:
    """Those of one device: of too many, those not used for longest go first. Its engine's lock is held by who calls.

    An interrupt may come between any two steps; so the weight that is noted is never less than that of what is kept,
    and is found out anew where it says that there is too much.
    """

    def __init__(self, kind: str) -> None:  # of the device
        self._kept: collections.OrderedDict[_Key, Recording] = collections.OrderedDict()
        self._most, self._weight = _MOST_WEIGHT.get(kind, _MOST_WEIGHT_OF_GPU), 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, compiled: CompiledOperator, places: tuple[Location, ...]) -> Recording | None:
        """What was recorded of an operator for such places."""
        key = weakref.ref(compiled), places
        try:
            self._kept.move_to_end(key)
        except KeyError:
            return None
        return self._kept[key]

    def keep(self, compiled: CompiledOperator, places: tuple[Location, ...], recording: Recording) -> Recording:
        """Keeps what was recorded, and gives it back."""
        self._weight += _weight_of(recording)
        self._kept[weakref.ref(compiled), places] = recording
        if self._weight > self._most:
            self._thin_out()
        return recording

    def _thin_out(self) -> None:
        """Forgets those of operators that are gone, and a part of the others, so that it is not done each time."""
        self._forget(lambda key, _: key[0]() is None)
        self._weight = sum(map(_weight_of, list(self._kept.values())))
        while self._weight > self._most * 7 // 8 and len(self._kept) > _FEWEST:
            self._weight -= _weight_of(self._kept.popitem(last=False)[1])

    def forget(self, allocation: Allocation) -> None:
        """Lets go of those that use memory which is freed."""
        self._forget(lambda _, recording: recording.uses(allocation))

    def _forget(self, is_meant: Callable[[_Key, Recording], bool]) -> None:
        for key, recording in list(self._kept.items()):  # a signal's handler may run operators meanwhile
            if is_meant(key, recording):
                self._kept.pop(key, None)

    def clear(self) -> None:
        """Lets go of all of them."""
        self._kept.clear()


def _weight_of(recording: Recording) -> int:
    return _OWN_WEIGHT + len(recording.dispatch_steps)
