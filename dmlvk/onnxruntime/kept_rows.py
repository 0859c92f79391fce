"""Rows of a decoder's caches as they were, for when what is written there turns out not to be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dmlvk.kernels.program import BindingKind
from dmlvk.operators import operator_desc

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.device import Device

_ROWS = 256  # That are kept at a time


class KeptRows:
    """The rows of some caches that stay where they are.

    Args:
        caches: [batch, heads, rows, size] each.
    """

    def __init__(self, device: Device, caches: Sequence[TensorMemory]) -> None:
        self._device, self._caches = device, list(caches)
        self._first = 0
        self._kept: list[TensorMemory] = []

    def keep(self, row: int) -> None:
        """Copies a row and those behind it, unless it was kept already.

        Raises:
            OutOfMemoryError: when there is no room for the copy.
        """
        if self._kept and self._first <= row < self._first + self._kept[0].shape[2]:
            return
        self._first, self._kept = row, []
        self._kept = [self._device.arrays.moved(cache[:, :, row : row + _ROWS]) for cache in self._caches]

    def put_back(self, row: int) -> None:
        """Writes a row that was kept where it was, unless the caches are gone."""
        for cache, kept in zip(self._caches, self._kept, strict=True):
            if cache.is_closed:
                continue
            source = kept[:, :, row - self._first : row - self._first + 1]
            target = cache[:, :, row : row + 1]
            identity = operator_desc("ELEMENT_WISE_IDENTITY", InputTensor=source.tensor, OutputTensor=target.tensor)
            compiled = self._device.compile_operator(self._device.create_operator(identity))
            self._device.arrays.run_bound(compiled, {(BindingKind.INPUT, 0): source, (BindingKind.OUTPUT, 0): target})

    def forget(self) -> None:
        """Forgets what was kept: the rows may be others from now on."""
        self._kept = []
