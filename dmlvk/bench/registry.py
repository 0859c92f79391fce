"""Which function makes an operator's tasks: each says so itself, by :func:`bench_tasks`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dmlvk.bench.task import Task

MAKERS: dict[str, functools.partial[Iterator[Task]]] = {}
"""By DirectML's name of the operator; modules of this folder fill it in.

Called with the data type of the first tensor and the size in bytes of the largest, roughly: of a square matrix, for
products.
"""

_Maker = TypeVar("_Maker", bound=Callable[..., Iterator[Task]])


def bench_tasks(operator_name: str, *arguments: Any) -> Callable[[_Maker], _Maker]:
    """Declares a function to be what makes the tasks of an operator.

    Args:
        operator_name: DirectML's, ``"GEMM"``.
        arguments: what the function is given before data type and size, where it makes those of several operators.

    Raises:
        ValueError: the operator has such a function already.
    """

    def declared(function: _Maker) -> _Maker:
        if operator_name in MAKERS:
            raise ValueError(f"{operator_name}: bench task: {MAKERS[operator_name].func.__module__} has one already")
        MAKERS[operator_name] = functools.partial(function, *arguments)
        return function

    return declared
