"""What was made, kept while it is used: of too many, those not used for longest go first."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

from dmlvk.errors import OutOfMemoryError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(collections.OrderedDict[_Key, _Value]):
    """What is kept by keys, that used last at the end. Not locked."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most  # the same

    def keep(self, key: _Key, value: _Value) -> _Value:
        """Keeps something, and gives it back."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
        return value

    def of(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """What is kept under a key, or is made now."""
        if key not in self:
            return self.keep(key, make())
        self.move_to_end(key)
        return self[key]


class Repetitions(Generic[_Key, _Value]):
    """What is made of runs that come a second time, by what tells them apart. Bounded, and not locked.

    Args:
        is_there: whether what was made can be used, for a key that comes twice in a row or not.
    """

    def __init__(self, most: int, is_there: Callable[[_Value, bool], bool]) -> None:
        self._kept: Recent[_Key, _Value] = Recent(most)
        self._seen: Recent[_Key, object] = Recent(most)
        self._is_there = is_there
        self._last: _Key | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> bool:
        """Forgets all of them, which others may then free; whether there were any."""
        self._last, were_any = None, bool(self._kept)
        self._kept.clear()
        self._seen.clear()
        return were_any

    def find(self, key: _Key) -> _Value | None:
        """What was made of such runs, if it can be used again."""
        found = self._kept.get(key)
        if found is None:
            return None
        if not self._is_there(found, key == self._last):
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        self._last = key
        return found

    def note(self, key: _Key | None, make: Callable[[bool], _Value | None], more: object = None) -> None:
        """Notes the run that was just done.

        Args:
            key: tells it from others; ``None``: it cannot come again.
            make: makes of it what is kept, where the same comes a second time, in a row or not; ``None``: nothing can
                be made.
            more: what must be the same, too.
        """
        last, self._last = self._last, key
        if key is None:
            return
        was_seen = key in self._seen and self._seen[key] == more
        self._seen.keep(key, more)
        if was_seen:
            with contextlib.suppress(OutOfMemoryError):  # the run itself is done
                made = make(key == last)
                for gone in [known for known, value in self._kept.items() if not self._is_there(value, False)]:
                    del self._kept[gone]
                if made is not None:
                    self._kept.keep(key, made)
