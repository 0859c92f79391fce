"""What large results leave behind serves later ones, and nobody's array changes."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.arrays import result_memory
from dmlvk.arrays.tensor_bytes import copied
from tests.processes import in_threads

COUNT = result_memory.LEAST_BYTES // 4
FLOAT32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_idle() -> Iterator[None]:
    gc.collect()  # what other tests have left
    result_memory.release_idle()
    yield
    result_memory.release_idle()


def test_memory_is_used_again_when_no_view_of_it_is_left() -> None:
    first = result_memory.empty((2, COUNT), FLOAT32)
    address, view = first.ctypes.data, first[1, 5:10]
    del first
    assert result_memory.idle_bytes() == 0
    beside = result_memory.empty((2, COUNT), FLOAT32)
    assert beside.ctypes.data != address
    del view
    assert result_memory.idle_bytes() == 2 * result_memory.LEAST_BYTES
    again = result_memory.empty((COUNT, 2), FLOAT32)
    assert again.ctypes.data == address
    assert result_memory.idle_bytes() == 0


def test_another_type_of_nearly_the_same_size_shares_memory() -> None:
    address = result_memory.empty((2 * COUNT,), FLOAT32).ctypes.data
    shorter = result_memory.empty((4 * COUNT - 7,), np.dtype(np.float16))
    assert shorter.ctypes.data == address
    assert shorter.shape == (4 * COUNT - 7,)
    assert shorter.dtype == np.dtype(np.float16)


def test_results_are_like_other_arrays() -> None:
    source = np.arange(COUNT, dtype=np.float32).reshape(2, -1).T  # another order
    result = copied(source)
    assert (result == source).all()
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert type(result) is np.ndarray
    assert (pickle.loads(pickle.dumps(result)) == source).all()
    result[0, 0] = -1
    assert (copied(result)[0, :2] == [-1, source[0, 1]]).all()


def test_little_memory_is_kept() -> None:
    large = [result_memory.empty((COUNT * 4,), FLOAT32) for _ in range(12)]
    large.append(result_memory.empty((result_memory.MOST_IDLE_BYTES + 1,), np.dtype(np.uint8)))
    large.append(result_memory.empty((COUNT - 1,), FLOAT32))  # not large
    del large
    assert 0 < result_memory.idle_bytes() <= result_memory.MOST_IDLE_BYTES


class _Cycle:
    """Garbage that only the collector finds, with an array."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.itself = self
        self.array = array


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_arrays_are_collected_while_idle_memory_is_counted() -> None:
    thresholds = gc.get_threshold()
    try:
        for threshold in range(1, 61):  # the collector comes at another allocation each time
            gc.disable()
            result_memory.release_idle()
            arrays = [result_memory.empty((COUNT,), FLOAT32) for _ in range(25)]
            last = arrays.pop()
            del arrays
            _Cycle(result_memory.empty((COUNT,), FLOAT32))
            gc.set_threshold(threshold)
            gc.enable()
            result_memory.idle_bytes()
            del last
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


def test_threads_never_share_what_is_in_use() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(40):
            own = result_memory.empty((COUNT,), FLOAT32)
            own[:: COUNT // 16] = 100 * number + turn
            beside = copied(own)
            if not (own[:: COUNT // 16] == 100 * number + turn).all() or not (beside == own)[:: COUNT // 16].all():
                wrong.append(number)

    in_threads(work, range(4))
    assert wrong == []
