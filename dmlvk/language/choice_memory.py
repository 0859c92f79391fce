"""Memory of choices of tokens: what has the same shape always lies in the same place, so that few recordings do."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.array import Array
from dmlvk.arrays.tensor_bytes import copy_elements
from dmlvk.datatypes import DataType
from dmlvk.runtime.kompute import Chain

if TYPE_CHECKING:
    from dmlvk.arrays.memory_pool import Storage
    from dmlvk.device import Device
    from dmlvk.objects.buffers import Buffer

MOST_STEPS = 256  # For so many steps random numbers lie on the device


class ChoiceMemory:
    """Where choices find what they read, and put what they give, for one choice or chain of steps at a time.

    Attributes:
        owner: whose values stand there.
        chain: of what is recorded to run on it step by step.
    """

    def __init__(self, device: Device) -> None:
        self.owner: object = None
        self.chain = Chain(())
        self._device = device
        self._arrays: dict[tuple[object, ...], Array] = {}
        self._buffers: dict[tuple[int, int], Buffer] = {}

    def array(self, name: str, shape: tuple[int, ...], data_type: DataType, number: int = 0) -> Array:
        """One of the arrays of a name, by its number."""
        key = name, shape, data_type, number
        if key not in self._arrays:
            if name in values_of_texts(1):
                self._lay_together(shape[0])
            else:
                self._arrays[key] = self._device.empty(shape, data_type)
        return self._arrays[key]

    def _lay_together(self, rows: int) -> None:
        """Has one piece of memory for what the host says of so many texts, which so goes to the device at once."""
        values = values_of_texts(rows)
        zeros = [np.zeros(shape, data_type.numpy_dtype) for shape, data_type in values.values()]
        parts = self._device.arrays.uploaded_together(self._device, zeros)
        for (name, (shape, data_type)), part in zip(values.items(), parts, strict=True):
            self._arrays[name, shape, data_type, 0] = Array.of(part)

    def scratch(self, sizes: Sequence[int]) -> list[Buffer]:
        """Memory of so many bytes each, for one graph at a time."""
        for key in enumerate(sizes):
            if key not in self._buffers:
                self._buffers[key] = self._device.create_buffer(key[1], zeroed=False)
        return [self._buffers[key] for key in enumerate(sizes)]

    def write(self, arrays: Mapping[str, Array], values: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """New elements of arrays from the first one on; what else stands in their memory is lost."""
        places: dict[Storage, list[tuple[int, npt.NDArray[np.uint8]]]] = {}
        for name, array in arrays.items():
            if name in values:
                contents = np.ascontiguousarray(values[name]).reshape(-1).view(np.uint8)
                places.setdefault(array.storage, []).append((array.memory().offset, contents))
        for storage, parts in places.items():
            self._device.engine.write(storage.allocation, functools.partial(_fill, parts), keeps_contents=False)


def _fill(parts: Sequence[tuple[int, npt.NDArray[np.uint8]]], there: npt.NDArray[np.uint8]) -> None:
    for offset, contents in parts:
        copy_elements(there[offset : offset + contents.size], contents)


def values_of_texts(rows: int) -> dict[str, tuple[tuple[int, ...], DataType]]:
    """Shapes and types of what the host says of texts before their steps."""
    line, steps = (rows, 1), (rows, MOST_STEPS)
    return {
        "points": (steps, DataType.FLOAT32),
        "temperature": (line, DataType.FLOAT32),
        "top_p": (line, DataType.FLOAT32),
        "top_k": (line, DataType.UINT32),
        "penalty": (line, DataType.FLOAT32),
        "forced": (steps, DataType.UINT32),
    }
