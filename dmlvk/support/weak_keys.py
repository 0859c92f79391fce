"""Something for each of several objects, for as long as they live, whatever interrupts whoever looks at it."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class WeakKeys(Generic[_Key, _Value]):
    """What ``weakref.WeakKeyDictionary`` is for, also where signals' handlers raise exceptions.

    That one puts off forgetting while somebody iterates over it, and notes who does. Where an interrupt comes between
    the steps of that it stays noted, and nothing is forgotten any more. Here an object's end is noted by a method of
    ``dict`` and listings are made by another: nothing comes between the steps of either, which are not Python's.

    An entry is never taken out before its object ends, or the method would complain; what is dropped leaves ``None``.
    """

    def __init__(self) -> None:
        self._values: dict[weakref.ref[_Key], _Value | None] = {}

    def __len__(self) -> int:
        return len(self.items())

    def get(self, key: _Key) -> _Value | None:
        return self._values.get(weakref.ref(key))

    def keep(self, key: _Key, value: _Value) -> None:
        """Keeps something for an object, instead of what there was; it becomes the last one of :meth:`items`."""
        self._values.pop(weakref.ref(key), None)
        self._values[weakref.ref(key, self._values.pop)] = value

    def drop(self, key: _Key) -> None:
        """Keeps nothing for an object any more."""
        entry = weakref.ref(key)
        if entry in self._values:
            self._values[entry] = None

    def clear(self) -> None:
        """Keeps nothing for anybody any more."""
        for entry in list(self._values):
            self._values[entry] = None

    def items(self) -> list[tuple[_Key, _Value]]:
        """The objects, and what is kept for them."""
        found = []
        for entry in list(self._values):
            key, value = entry(), self._values.get(entry)
            if key is not None and value is not None:
                found.append((key, value))
        return found
