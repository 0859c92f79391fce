"""Which tensors lie on the device already: weights, and what one graph gave that the next one takes."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import torch

from dmlvk.torch.types import to_numpy

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array
    from dmlvk.device import Device


class Residency:
    """Arrays on a device, by the tensor whose contents they have.

    A tensor is known again by being the same object with the same version, which PyTorch counts up whenever it is
    changed in place. What is written past that count (through ``tensor.data`` or memory that is shared with NumPy) is
    not seen.

    Args:
        device: where the arrays lie.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.RLock()  # a finalizer can come while it is held
        self._arrays: dict[int, tuple[weakref.ref[torch.Tensor], int, Array]] = {}
        self.uploads = 0

    def array(self, tensor: torch.Tensor) -> Array:
        """The tensor's contents on the device, uploaded if they are not there."""
        with self._lock:
            known = self._arrays.get(id(tensor))
            if known is not None and known[0]() is tensor and known[1] == _version(tensor):
                return known[2]
        array = self._device.array(to_numpy(tensor))
        with self._lock:
            self.uploads += 1
        self.keep(tensor, array)
        return array

    def keep(self, tensor: torch.Tensor, array: Array) -> None:
        """Notes where a tensor's contents lie."""
        key, version = id(tensor), _version(tensor)
        if version < 0:
            return
        arrays = self._arrays

        def forget(_: object) -> None:
            arrays.pop(key, None)

        with self._lock:
            self._arrays[key] = (weakref.ref(tensor, forget), version, array)


def _version(tensor: torch.Tensor) -> int:
    """How often it was changed; -1 where nobody counts."""
    return -1 if tensor.is_inference() else tensor._version
