"""Methods that are passed on without keeping their object alive: no cycle waits for the next collection."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def weakly(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The same method of an object that is kept alive by others; to be called only as long as it lives.

    Raises:
        ReferenceError: when it is called, and the object is gone.
    """
    reference = weakref.WeakMethod(method)

    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        alive = reference()
        if alive is None:
            raise ReferenceError(f"{method_name} of an object that is gone was called")
        return alive(*arguments, **named)

    method_name = getattr(method, "__qualname__", repr(method))
    return call
