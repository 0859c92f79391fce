"""What is kept for an object goes with it, also after interrupts."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dmlvk.support import weak_keys
from dmlvk.support.weak_keys import WeakKeys


class Thing:
    """What can be referred to weakly."""


class _Interrupted(Exception):
    pass


def interrupted(work: Callable[[], object], step: int) -> bool:
    """Whether an exception came before a step of the module under test, as a signal's handler may raise it."""
    left = step

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != weak_keys.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise _Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except _Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def calls(kept: WeakKeys[Thing, Thing], owner: Thing, new: Thing) -> dict[str, Callable[[], object]]:
    """Everything that may be interrupted."""
    return {
        "items": kept.items,
        "len": kept.__len__,
        "keep": lambda: kept.keep(new, Thing()),
        "keep again": lambda: kept.keep(owner, Thing()),
        "get": lambda: kept.get(owner),
        "drop": lambda: kept.drop(owner),
        "clear": kept.clear,
    }


@pytest.mark.parametrize("call", calls(WeakKeys(), Thing(), Thing()))
def test_an_interrupt_between_any_two_steps_leaves_nothing_that_is_never_forgotten(call: str) -> None:
    steps = 0
    while True:
        kept: WeakKeys[Thing, Thing] = WeakKeys()
        owners = [Thing() for _ in range(3)]
        for owner in owners:
            kept.keep(owner, Thing())
        was_interrupted = interrupted(calls(kept, owner, Thing())[call], steps)
        values = [weakref.ref(value) for _, value in kept.items()]
        del owner
        owners.clear()
        assert not kept._values and not kept.items() and not [value for value in values if value() is not None], steps
        if not was_interrupted:
            break
        steps += 1
    assert steps > 5, "no interrupt was tried"


def test_the_last_one_kept_is_the_last_item() -> None:
    kept: WeakKeys[Thing, str] = WeakKeys()
    first, second, third = Thing(), Thing(), Thing()
    for owner, value in ((first, "a"), (second, "b"), (third, "c"), (first, "d")):
        kept.keep(owner, value)
    kept.drop(second)
    kept.drop(Thing())
    assert kept.items() == [(third, "c"), (first, "d")] and len(kept) == 2
    assert kept.get(second) is None and kept.get(first) == "d" and kept.get(Thing()) is None
    kept.keep(second, "e")
    assert kept.items() == [(third, "c"), (first, "d"), (second, "e")]


def test_a_dropped_ones_end_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    kept: WeakKeys[Thing, str] = WeakKeys()
    owner = Thing()
    kept.keep(owner, "a")
    kept.keep(owner, "b")
    kept.drop(owner)
    del owner
    assert not raised and not kept._values
