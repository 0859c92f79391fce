"""Memory of large results: what an array leaves behind serves the next one, whose pages the system need not make anew.

An array of new memory is written at a quarter of the speed of one whose pages are there, as the system clears each page
first; and the C library gives large blocks back as soon as they are free.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_BYTES = 8 * 2**20  # Of results that have such memory

MOST_IDLE_BYTES = 256 * 2**20  # Kept for results to come; what is in use by arrays does not count

_STEP = 2**20  # Sizes are multiples of it, so that results of nearly the same size share memory

Memory = npt.NDArray[np.uint8]

# Each step on it is atomic, as arrays are collected at any time, in any thread: a lock could be the same thread's own.
_idle: deque[Memory] = deque()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array in C order, not initialized.

    Its memory is taken back when it and all views of it are gone.

    Args:
        dtype: of its elements, which are no Python objects.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LEAST_BYTES:
        return np.empty(shape, dtype)
    size = -(-nbytes // _STEP) * _STEP
    memory = _taken(size)
    lent = (ctypes.c_char * size).from_buffer(memory.data)
    weakref.finalize(lent, _give_back, memory).atexit = False
    return np.frombuffer(memoryview(lent), np.uint8, nbytes).view(dtype).reshape(shape)


def idle_bytes() -> int:
    """What is kept for results to come."""
    while True:
        try:
            return sum(memory.nbytes for memory in tuple(_idle))
        except RuntimeError:
            continue  # making the tuple had garbage collected, an array among it: the deque is another now


def release_idle() -> None:
    """Gives all of it back to the system."""
    _idle.clear()


def _taken(size: int) -> Memory:
    """Memory of a size: the last one that was given back, whose pages are the warmest, or new one."""
    for _ in range(len(_idle)):
        try:
            memory = _idle.pop()
        except IndexError:
            break  # somebody else took it
        if memory.nbytes == size:
            return memory
        _idle.appendleft(memory)
    return np.empty(size, np.uint8)


def _give_back(memory: Memory) -> None:
    if memory.nbytes > MOST_IDLE_BYTES:
        return
    _idle.append(memory)
    while idle_bytes() > MOST_IDLE_BYTES:
        try:
            _idle.popleft()
        except IndexError:
            break
