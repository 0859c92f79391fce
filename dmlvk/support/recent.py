"""What was made, kept while it is used: of too many, those not used for longest go first."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(collections.OrderedDict[_Key, _Value]):
    """What is kept by keys, that used last at the end. Not locked.

    Args:
        most: how many are kept.

    Attributes:
        most: the same.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

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
