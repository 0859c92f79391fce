"""Steps of PyTorch's optimizers are done wholly or not at all: what a step that is interrupted changed is as before.

Values of tensors are never overwritten, so a step needs to remember no more than which ones there were.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from dmlvk.torch.device.recorder import RECORDER
from dmlvk.torch.device.tensors import JOURNAL
from dmlvk.torch.modes import without_gradients
from dmlvk.torch.types import NAME


def _is_here(optimizer: Optimizer) -> bool:
    return any(one.device.type == NAME for group in optimizer.param_groups for one in group["params"])


def _state_of(optimizer: Optimizer) -> dict[Any, dict[str, Any]]:
    """What there is of each parameter; numbers that the host counts in place, and lists, are copied."""

    def kept(value: Any) -> Any:
        if isinstance(value, list):
            return value, value[:]
        is_number = isinstance(value, torch.Tensor) and value.device.type == "cpu" and not value.dim()
        return value, value.clone() if is_number else None

    return {key: {name: kept(value) for name, value in state.items()} for key, state in optimizer.state.items()}


def _restored(optimizer: Optimizer, before: dict[Any, dict[str, Any]]) -> None:
    optimizer.state.clear()
    for key, state in before.items():
        optimizer.state[key] = {name: value for name, (value, _) in state.items()}
        for value, copied in state.values():
            if isinstance(copied, list):
                value[:] = copied
            elif copied is not None:
                value.copy_(copied)


def _whole(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def done(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, Optimizer) or JOURNAL.entries is not None or not _is_here(self):
            return step(self, *args, **kwargs)
        before, JOURNAL.entries = _state_of(self), []
        try:
            return step(self, *args, **kwargs)
        except BaseException:
            entries, JOURNAL.entries = JOURNAL.entries or [], None
            for record, value in reversed(entries):
                record.become(value)
            with without_gradients():
                _restored(self, before)
            raise
        finally:
            JOURNAL.entries = None
            RECORDER.turn()

    return done


def _classes(one: type[Optimizer]) -> list[type[Optimizer]]:
    return [one, *(each for below in one.__subclasses__() for each in _classes(below))]


def register() -> None:
    """Has steps of all optimizers be so, of those too that exist already."""
    plain = Optimizer.profile_hook_step

    def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
        return _whole(plain(step))

    Optimizer.profile_hook_step = staticmethod(hooked)  # type: ignore[method-assign,assignment]
    for one in _classes(Optimizer):
        step = one.__dict__.get("step")
        if step is not None and getattr(step, "hooked", None):
            made: Any = _whole(step)
            made.hooked = True
            one.step = made  # type: ignore[method-assign]
