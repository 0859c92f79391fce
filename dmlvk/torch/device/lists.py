"""Operators of lists of tensors, by which PyTorch's optimizers go: those of single tensors, recorded side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import torch

from dmlvk.torch.device.recorder import RECORDER

_aten = torch.ops.aten
_PREFIX = "aten::_foreach_"
_PARTS = torch._C.DispatchKey.CompositeExplicitAutograd
_OF_TENSORS = ("add", "sub", "mul", "div")
"""Those of which PyTorch has one with tensors only: a number becomes one."""


class ListKernel:
    """One of PyTorch's operators of lists.

    Args:
        single: the one of tensors, with the same arguments.
        kernel: what computes that.
    """

    def __init__(self, operator: Any, single: Any, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self._parts = functools.partial(operator._op_dk, _PARTS)
        declared = operator._schema.arguments
        self._places = {one.name: place for place, one in enumerate(declared)}
        self._is_list = [str(one.type).startswith("List") for one in declared]
        self._names = [one.name if one.kwarg_only else None for one in single._schema.arguments]
        self._is_in_place = operator._schema.is_mutable
        self._wraps = single._schema.name.removeprefix("aten::").rstrip("_") in _OF_TENSORS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records it for each tensor; all of them count as one operator for what runs together."""
        given = dict(enumerate(args)) | {self._places[name]: item for name, item in kwargs.items()}
        lists = [item for place, item in given.items() if self._is_list[place]]
        if len(set(map(len, lists))) != 1 or not lists[0]:  # which PyTorch refuses
            return self._parts(*args, **kwargs)
        for place, item in given.items() if self._wraps else ():
            if place == 1:
                given[place] = [_wrapped(one) for one in item] if self._is_list[place] else _wrapped(item)
        RECORDER.widen(len(lists[0]) - 1)
        columns = {place: item if self._is_list[place] else repeat(item) for place, item in given.items()}
        names = {place: name for place in columns if (name := self._names[place]) is not None}
        count, order = len(columns) - len(names), [place for place in columns if place not in names] + list(names)
        made = [
            self._kernel(*each[:count], **dict(zip(names.values(), each[count:], strict=True)))
            for each in zip(*[columns[place] for place in order], strict=False)  # of which some have no end
        ]
        if self._is_in_place:
            torch.autograd.graph.increment_version(made)
            return None
        return made


def _wrapped(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    return torch.scalar_tensor(value, dtype=_TYPES[type(value)], device="cpu")


_TYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}


def _single(operator: Any) -> Any:
    """The operator of tensors for one of lists; ``None``: there is none."""
    schema = operator._schema
    name = schema.name.removeprefix(_PREFIX)
    wanted = [str(one.type).removeprefix("List[").removesuffix("]") for one in schema.arguments]
    if name.rstrip("_") in _OF_TENSORS:
        wanted[1] = "Tensor"
    for overload in getattr(_aten, name).overloads() if hasattr(_aten, name) else ():
        found = getattr(getattr(_aten, name), overload)
        arguments = found._schema.arguments
        types = [str(one.type) for one in arguments]
        has_defaults = all(one.has_default_value() for one in arguments[len(wanted) :])
        if types[: len(wanted)] == wanted and has_defaults and len(found._schema.returns) == 1 and not _is_out(found):
            return found
    return None


def _is_out(operator: Any) -> bool:
    return any(one.is_out for one in operator._schema.arguments)


def list_kernels(known: dict[str, Any]) -> Iterator[tuple[str, ListKernel]]:
    """Those whose operators of tensors the device has.

    Args:
        known: kernels by names.
    """
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        if not full.startswith(_PREFIX) or "out" in overload:
            continue
        if not hasattr(_aten, f"{name.removesuffix('_')}_"):  # some that no optimizer calls have rules of their own
            continue
        operator = getattr(getattr(_aten, name), overload or "default")
        single = _single(operator)
        kernel = known.get(str(single).removeprefix("aten.").removesuffix(".default"))
        if kernel is not None:
            yield full.removeprefix("aten::"), ListKernel(operator, single, kernel)
