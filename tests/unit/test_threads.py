"""Work that is shared among threads."""

from __future__ import annotations

import threading
import time

import pytest

from dmlvk.support.threads import map_in_threads


@pytest.mark.parametrize("threads", [1, 2, 5, 100])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def late(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number**2

    assert list(map_in_threads(late, range(20), threads)) == [number**2 for number in range(20)]


def test_several_threads_work_at_once() -> None:
    together = threading.Barrier(3)
    assert list(map_in_threads(lambda _: together.wait(10) >= 0, range(3), 3)) == [True] * 3


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
