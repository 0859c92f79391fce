"""What is shared among threads, kept for objects and collected, and how faults of dmlvk's own are told."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from dmlvk.support import faults, weak_keys
from dmlvk.support.collection import collection_paused
from dmlvk.support.threads import map_in_threads
from dmlvk.support.weak_keys import WeakKeys
from tests.interrupts import interrupted


@pytest.mark.parametrize("threads", [1, 2, 5, 100])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def late(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number**2

    assert list(map_in_threads(late, range(20), threads)) == [number**2 for number in range(20)]


def test_several_threads_work_at_once() -> None:
    together = threading.Barrier(3)
    assert list(map_in_threads(lambda _: together.wait(60) >= 0, range(3), 3)) == [True] * 3


def test_without_any_thread_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert list(map_in_threads(str, range(4), 3)) == ["0", "1", "2", "3"]


def test_what_an_item_raises_is_raised_and_ends_the_work() -> None:
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        raise KeyError(number)

    with pytest.raises(KeyError):
        list(map_in_threads(fail, range(1000), 2))
    assert len(begun) <= 2


def test_whoever_stops_asking_leaves_no_work_behind() -> None:
    begun: list[int] = []
    results = map_in_threads(begun.append, range(1000), 1)
    next(results)
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert begun == [0]


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """What the tests themselves have frozen is frozen again afterwards."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    gc.unfreeze()
    if was_frozen:
        gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_the_collector_works_again_and_nothing_stays_frozen() -> None:
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer pause has not ended"
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_an_application_froze_stays_frozen() -> None:
    gc.freeze()
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("nothing_frozen")
def test_a_collector_that_was_switched_off_stays_so() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Thing:
    """What can be referred to weakly."""


def calls(kept: WeakKeys[Thing, Thing], owner: Thing, new: Thing) -> dict[str, Callable[[], object]]:
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
        was_interrupted = interrupted(calls(kept, owner, Thing())[call], steps, weak_keys.__file__)
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


def broken(table: dict[str, int]) -> int:
    return table["what nobody put there"]


def report_of_broken(what: str) -> None:
    """What a caller does that has another way to go."""
    try:
        broken({})
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, what)


def test_a_fault_is_raised_where_tests_run_and_noted_should_something_swallow_it() -> None:
    with pytest.raises(faults.FaultError, match="translating 'first': KeyError") as raised:
        report_of_broken("translating 'first'")
    assert isinstance(raised.value.__cause__, KeyError)
    assert "in broken" in faults.reported[0]
    faults.reported.clear()


def test_a_process_that_a_test_starts_raises_faults() -> None:
    command = [sys.executable, "-c", "from dmlvk.support import faults; faults.report(KeyError('a'), 'trying')"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1 and "FaultError: trying: KeyError" in ended.stderr, ended.stderr


def test_a_users_program_hears_of_each_kind_of_fault_once_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("DMLVK_RAISE_FAULTS")
    monkeypatch.setattr(faults, "_kinds", set())
    with caplog.at_level(logging.WARNING, "dmlvk"):
        report_of_broken("translating 'first'")
        report_of_broken("translating 'second'")
        faults.report(TypeError("of another kind"), "planning")
    first, second = (record.getMessage() for record in caplog.records)
    assert "translating 'first'" in first and 'return table["what nobody put there"]' in first
    assert "while planning" in second and "of another kind" in second


def test_want_of_memory_is_no_fault() -> None:
    for error in (MemoryError(), RecursionError()):
        with pytest.raises(type(error)):
            faults.report(error, "translating")
