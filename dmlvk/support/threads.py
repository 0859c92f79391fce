"""Work that is shared among threads, also where no thread can start any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def map_in_threads(function: Callable[[Item], Made], items: Sequence[Item], threads: int) -> Iterator[Made]:
    """What a function makes of each item, in the items' order.

    The thread that asks works too. So this ends where ``concurrent.futures`` raises: in a thread that outlives the main
    one, and in an exit handler.

    Args:
        function: called for each item, in any order.
        threads: that work at most, the one that asks included.
    """
    made: dict[int, Made] = {}
    failed: list[BaseException] = []
    left = iter(range(len(items)))
    changed = threading.Condition()

    def work_at_one() -> bool:
        with changed:
            number = next(left, None)
        if number is None or failed:
            return False
        try:
            result = function(items[number])
        except BaseException as error:  # noqa: BLE001 - whoever asks gets it
            with changed:
                failed.append(error)
                changed.notify_all()
            return False
        with changed:
            made[number] = result
            changed.notify_all()
        return True

    def work() -> None:
        while work_at_one():
            pass

    with contextlib.suppress(RuntimeError):  # the system or the end of the interpreter lets no more threads start
        for _ in range(min(threads, len(items)) - 1):
            threading.Thread(target=work, daemon=True).start()
    try:
        for number in range(len(items)):
            while number not in made and work_at_one():
                pass
            with changed:
                while number not in made and not failed:
                    changed.wait()
            if failed:
                raise failed[0]
            yield made.pop(number)
    finally:
        left = iter(())  # whoever was interrupted, or wants no more, leaves no work behind
