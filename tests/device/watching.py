"""What tests of threads that wait for one device have in common."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.runtime import kompute_library

NEEDS_FENCES = pytest.mark.skipif(
    not hasattr(kompute_library.kompute(), "OpMemoryBarrier"), reason="the unchanged Kompute waits where it submits"
)
"""Of what is submitted without being waited for."""

SIZE = 48
PATIENCE = 30  # Seconds after which something that must happen counts as missing

Values = npt.NDArray[np.float32]


def values_of(number: int) -> Values:
    return np.random.default_rng(number).integers(-5, 6, SIZE).astype(np.float32)


class Watch:
    """Calls something before a thread waits for the device, and notes which threads are about to."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None
        self.failure: dict[int, str] = {}
        self._changed = threading.Condition()
        self.waiting = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._changed:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self._changed.notify_all()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self.waiting -= 1

    def wait_until(self, count: int) -> None:
        """Returns when so many threads are about to wait for the device."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.waiting >= count, PATIENCE)


class Watched:
    """Kompute's sequence, under watch."""

    def __init__(self, sequence: Any, watch: Watch) -> None:
        self._sequence, self._watch = sequence, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sequence, name)

    def eval_await(self) -> None:
        with self._watch:
            self._watch.before()
        self._sequence.eval_await()  # also before it fails: a device that is lost is at rest
        if threading.get_ident() in self._watch.failure:
            raise RuntimeError(self._watch.failure[threading.get_ident()])


def run(device: dml.Device, operator: dml.CompiledOperator, number: int = 0) -> None:
    """Runs SIGN, and looks at the result."""
    x = values_of(number)
    assert np.array_equal(device.run(operator, {"InputTensor": x})["OutputTensor"], np.sign(x))


def allocation_count(device: dml.Device) -> int:
    gc.collect()
    return len(device.engine._allocations)
