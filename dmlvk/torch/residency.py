"""Which tensors lie on the device already: weights, and what one graph gave that the next one takes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dmlvk.arrays.device_array import array_tensor
from dmlvk.torch.types import to_numpy

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array
    from dmlvk.device import Device

_TOGETHER = 64 * 2**20
"""Bytes of tensors that share memory, where they are not larger themselves."""


class Residency:
    """Arrays on a device, by the tensor whose contents they have.

    A tensor is known again by being the same object with the same version, which PyTorch counts up whenever it is
    changed in place. What is written past that count (through ``tensor.data`` or memory that is shared with NumPy) is
    not seen.

    Args:
        device: where the arrays lie.

    Attributes:
        uploads: how many tensors were copied to the device.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.RLock()  # a finalizer can come while it is held
        self._arrays: dict[int, tuple[weakref.ref[torch.Tensor], int, Array]] = {}
        self.uploads = 0

    def found(self, tensor: torch.Tensor) -> Array | None:
        """The tensor's contents on the device, if they are there."""
        with self._lock:
            known = self._arrays.get(id(tensor))
            if known is not None and known[0]() is tensor and known[1] == version_of(tensor):
                return known[2]
        return None

    def array(self, tensor: torch.Tensor) -> Array:
        """The tensor's contents on the device, uploaded if they are not there."""
        return self.arrays([tensor])[0]

    def arrays(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """The contents of several tensors, of which those that are not there are uploaded together.

        Those of a tensor that was changed go where the former ones were: work that is recorded for it stays right.
        """
        made = {id(tensor): array for tensor in tensors if (array := self.found(tensor)) is not None}
        group: list[tuple[torch.Tensor, Any]] = []
        for tensor in {id(tensor): tensor for tensor in tensors}.values():
            if id(tensor) in made:
                continue
            values = self.host_values(tensor)
            before = self._before(tensor)
            if before is not None and before.tensor == array_tensor(values.dtype, values.shape, ""):
                self._device.arrays.overwrite(before, values)
                made[id(tensor)] = before
                self.keep(tensor, before)
                continue
            if group and sum(each.nbytes for _, each in group) + values.nbytes > _TOGETHER:
                made |= self._uploaded(group)
                group = []
            group.append((tensor, values))
        made |= self._uploaded(group)
        return [made[id(tensor)] for tensor in tensors]

    def _before(self, tensor: torch.Tensor) -> Array | None:
        """Where a tensor's former contents lie."""
        with self._lock:
            known = self._arrays.get(id(tensor))
            return known[2] if known is not None and known[0]() is tensor and not known[2].is_closed else None

    def _uploaded(self, group: Sequence[tuple[torch.Tensor, Any]]) -> dict[int, Array]:
        if not group:
            return {}
        arrays = self._device.arrays.uploaded_together(self._device, [values for _, values in group])
        for (tensor, _), array in zip(group, arrays, strict=True):
            self.keep(tensor, array)
        return {id(tensor): array for (tensor, _), array in zip(group, arrays, strict=True)}

    def host_values(self, tensor: torch.Tensor) -> Any:
        """What is to be uploaded, which is counted."""
        with self._lock:
            self.uploads += 1
        return to_numpy(tensor)

    def keep(self, tensor: torch.Tensor, array: Array) -> None:
        """Notes where a tensor's contents lie."""
        key, version = id(tensor), version_of(tensor)
        if version < 0:
            return
        arrays = self._arrays

        def forget(_: object) -> None:
            arrays.pop(key, None)

        with self._lock:
            self._arrays[key] = (weakref.ref(tensor, forget), version, array)


def version_of(tensor: torch.Tensor) -> int:
    """How often it was changed; -1 where nobody counts."""
    return -1 if tensor.is_inference() else tensor._version
