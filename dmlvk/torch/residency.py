"""Which tensors lie on the device already: weights, and what one graph gave that the next one takes."""

from __future__ import annotations

import collections
import copy
import ctypes
import dataclasses
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from dmlvk.arrays.tensor_memory import array_tensor
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.shared_work import Helpers
from dmlvk.torch.lazy import DeviceTensor
from dmlvk.torch.types import to_numpy

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.datatypes import DataType
    from dmlvk.device import Device


Span = tuple[int, int, int]  # Addresses of two pieces, and their bytes

_MOST_THREADS = 8
"""That compare at once, the one that asks included: memory is as fast as that many cores of a large machine."""

_PARALLEL_BYTES = 8 * 2**20  # From how many bytes on several threads compare

_PART_BYTES = 2 * 2**20  # What one of them takes at a time

_helpers = Helpers("dmlvk-compare")


@functools.cache
def _memcmp() -> Callable[[int, int, int], int]:
    library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
    function: Any = library.memcmp
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    compare: Callable[[int, int, int], int] = function
    return compare


def differing(spans: Sequence[Span]) -> list[int]:
    """Which of the spans have two pieces of different bytes, by their places, in order.

    Args:
        spans: pieces of memory that are there, and stay until this returns.
    """
    memcmp = _memcmp()
    if sum(span[2] for span in spans) < _PARALLEL_BYTES:
        return [number for number, span in enumerate(spans) if memcmp(*span)]
    found: set[int] = set()

    def compare(parts: Sequence[tuple[int, Span]]) -> None:
        for number, span in parts:
            if number not in found and memcmp(*span):
                found.add(number)

    parts = [(number, part) for number, span in enumerate(spans) for part in _cut(span)]
    groups: list[list[tuple[int, Span]]] = [[]]
    filled = 0
    for part in parts:
        if filled >= _PART_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(part)
        filled += part[1][2]
    _helpers.share([functools.partial(compare, group) for group in groups], min(_MOST_THREADS, os.cpu_count() or 1))
    return sorted(found)


def _cut(span: Span) -> list[Span]:
    first, second, size = span
    return [(first + at, second + at, min(_PART_BYTES, size - at)) for at in range(0, size, _PART_BYTES)]


_TOGETHER = 64 * 2**20  # Bytes of tensors that share memory, where they are not larger themselves


class _Attributes(dict[str, Any]):
    """A tensor's ``__dict__`` to which weak references are possible; saved and copied as any other one.

    It lives as long as the tensor, and ``torch.utils.swap_tensors`` exchanges it with the contents. A tensor to which
    there are weak references it refuses.
    """

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> Any:
        return collections.OrderedDict, (list(self.items()),)  # which torch.load knows

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)


def reference(tensor: torch.Tensor, forget: Callable[[object], None]) -> weakref.ref[Any]:
    """A weak reference to what dies with a tensor and goes with its contents: its ``__dict__``."""
    if not isinstance(tensor.__dict__, _Attributes):
        tensor.__dict__ = _Attributes(tensor.__dict__)
    return weakref.ref(tensor.__dict__, forget)


@dataclasses.dataclass(frozen=True, eq=False)
class Resident:
    """What the device has of a tensor. Contents that are uploaded anew make another one, be it in the same memory."""

    owner: weakref.ref[Any]  # a reference to the tensor whose contents they are (:func:`reference`)
    form: tuple[object, ...]  # of the tensor then, as :func:`_form_of` has it
    array: TensorMemory  # where they lie
    is_plain: bool  # whether the tensor's own memory has the same bytes as well

    @functools.cached_property
    def address(self) -> int:
        """Of the same bytes on the host's side of that memory, which stays from now on."""
        return int(self.array.storage.allocation.host_bytes.ctypes.data) + self.array.offset


Lying: TypeAlias = dict[int, tuple[torch.Tensor, Resident]]
"""Tensors and what the device has of them, by the tensors' numbers as objects."""


class Residency:
    """Arrays on a device, by the tensor whose contents they have.

    A tensor is known again by having the same attributes (:func:`reference`), as it does while nothing is swapped with
    it, with the same type, shape, strides, address and version
    (:meth:`known`), and by having the same contents (:meth:`refresh`), for PyTorch's count of versions does not see all
    that changes a tensor: writes through ``tensor.data``, through NumPy, DLPack or shared memory. What the device has
    is compared with on the host's side of its memory: the memory itself on CPUs and integrated GPUs, else the copy from
    which it was uploaded, so that nothing is kept for it.

    Args:
        compares: whether contents are compared; otherwise what PyTorch does not count is not seen.
    """

    def __init__(self, device: Device, *, compares: bool = True) -> None:
        self._device, self._compares = device, compares
        self._lock = threading.RLock()  # a finalizer can come while it is held
        self._residents: dict[int, Resident] = {}
        self.uploads = 0  # how many tensors were copied to the device

    def known(self, tensor: torch.Tensor) -> Resident | None:
        """What the device has of a tensor, as far as can be said without a look at its contents."""
        with self._lock:
            resident = self._residents.get(id(tensor.__dict__))
        if resident is None or resident.owner() is not tensor.__dict__:
            return None
        return resident if isinstance(tensor, DeviceTensor) or resident.form == _form_of(tensor) else None

    def refresh(self, lying: Lying) -> bool:
        """Uploads those of tensors that are known whose contents are others than what the device has.

        Args:
            lying: the tensors, and what the device has of them, which is changed.

        Returns:
            whether there are any.
        """
        changed = self._changed(lying.values()) if self._compares else []
        if changed:
            made = self._renew(changed)
            lying |= {id(tensor): (tensor, made[id(tensor)]) for tensor in changed}
        return bool(changed)

    def residents(self, tensors: Sequence[torch.Tensor]) -> list[Resident]:
        """What the device has of several tensors; those that are not known are uploaded together."""
        made = {id(tensor): resident for tensor in tensors if (resident := self.known(tensor)) is not None}
        missing = {id(tensor): tensor for tensor in tensors if id(tensor) not in made}
        made |= self._renew(missing.values())
        return [made[id(tensor)] for tensor in tensors]

    def _changed(self, residents: Iterable[tuple[torch.Tensor, Resident]]) -> list[torch.Tensor]:
        spans: list[Span] = []
        compared: list[torch.Tensor] = []
        copies = []  # which live as long as their addresses are looked at
        for tensor, resident in residents:
            if isinstance(tensor, DeviceTensor) and tensor.is_on_device:
                continue
            allocation = resident.array.storage.allocation
            if allocation.download_pending:
                self._device.engine.read(allocation, len)
            address = tensor.data_ptr() if resident.is_plain else 0
            if not resident.is_plain:
                copies.append(to_numpy(tensor))
                address = copies[-1].ctypes.data
            spans.append((address, resident.address, resident.array.nbytes))
            compared.append(tensor)
        engine = self._device.engine
        with engine.afterwards, engine.afterwards.visit():  # meanwhile nobody closes the device
            engine.check_open()
            return [compared[number] for number in differing(spans)]

    def _renew(self, tensors: Iterable[torch.Tensor]) -> dict[int, Resident]:
        """Uploads tensors; gives what the device has of them then, by their numbers as objects.

        The contents of one of which there are some go where the former ones are: work that is recorded for it stays
        right.
        """
        made: dict[int, Resident] = {}
        group: list[tuple[torch.Tensor, Any]] = []
        for tensor in tensors:
            values = self.host_values(tensor)
            before = self._before(tensor)
            if before is not None and before.tensor == array_tensor(values.dtype, values.shape, ""):
                self._device.arrays.overwrite(before, values)
                made[id(tensor)] = self.keep(tensor, before)
                continue
            if group and sum(each.nbytes for _, each in group) + values.nbytes > _TOGETHER:
                made |= self._uploaded(group)
                group = []
            group.append((tensor, values))
        return made | self._uploaded(group)

    def _before(self, tensor: torch.Tensor) -> TensorMemory | None:
        """Where a tensor's former contents lie."""
        with self._lock:
            resident = self._residents.get(id(tensor.__dict__))
        if resident is None or resident.owner() is not tensor.__dict__ or resident.array.is_closed:
            return None
        return resident.array

    def _uploaded(self, group: Sequence[tuple[torch.Tensor, Any]]) -> dict[int, Resident]:
        if not group:
            return {}
        arrays = self._device.arrays.uploaded_together(self._device, [values for _, values in group])
        return {id(tensor): self.keep(tensor, array) for (tensor, _), array in zip(group, arrays, strict=True)}

    def host_values(self, tensor: torch.Tensor) -> Any:
        """What is to be uploaded, which is counted.

        Raises:
            InvalidArgumentError: when a tensor reaches beyond its memory.
        """
        with self._lock:
            self.uploads += 1
        _check_memory(tensor)
        return to_numpy(tensor)

    def keep(self, tensor: torch.Tensor, array: TensorMemory) -> Resident:
        """Notes where a tensor's contents lie."""
        residents = self._residents

        def forget(_: object) -> None:
            residents.pop(key, None)

        owner = reference(tensor, forget)
        key = id(tensor.__dict__)
        is_lazy = isinstance(tensor, DeviceTensor)  # whose shape never changes, and which is not at an address
        resident = Resident(
            owner,
            () if is_lazy else _form_of(tensor),
            array,
            not is_lazy and tensor.dtype is not torch.bfloat16 and tensor.is_contiguous() and not tensor.is_neg(),
        )
        if not is_lazy:
            _ = resident.address  # as long as its host's side has these bytes: else they would be downloaded
        with self._lock:
            residents[key] = resident
        return resident


def _form_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """What PyTorch says of a tensor that is another one after most changes of it."""
    return (
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.data_ptr(),
        tensor.untyped_storage().nbytes(),
        tensor.is_neg(),
        -1 if tensor.is_inference() else tensor._version,  # of those in inference mode nobody counts changes
    )


def _check_memory(tensor: torch.Tensor) -> None:
    if isinstance(tensor, DeviceTensor) or not tensor.numel():
        return
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * step for size, step in steps)
    needed, there = (last + 1) * tensor.element_size(), tensor.untyped_storage().nbytes()
    if needed > there:
        raise InvalidArgumentError(
            f"dmlvk.torch: a tensor of {tensor.dtype} {list(tensor.shape)} needs {needed} bytes; its memory has {there}"
        )


def check_argument(
    place: int, data_type: DataType, shape: Sequence[int], wanted_type: DataType, wanted_shape: Sequence[int]
) -> None:
    """Raises InvalidArgumentError when an argument is not as the graph takes it: where nothing noticed a change."""
    if data_type is not wanted_type or tuple(shape) != tuple(wanted_shape):
        raise InvalidArgumentError(
            f"dmlvk.torch: argument {place} of a compiled graph must be {wanted_type.name} {list(wanted_shape)}, as it "
            f"was when the graph was compiled; got {data_type.name} {list(shape)}"
        )
