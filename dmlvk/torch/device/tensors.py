"""Tensors of PyTorch's whose memory is a value on the device: which may still have to be computed.

A tensor's storage has no bytes for PyTorch. It carries a :class:`Record`: the value in row-major order, for which views
are windows. What is changed in place makes another value of the storage's, so that all of its views see it, and what
was recorded before has the former one.
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dmlvk.array_api.lazy import Operation, settle
from dmlvk.arrays.tensor_memory import TensorMemory, array_tensor
from dmlvk.arrays.values import Value
from dmlvk.datatypes import DataType
from dmlvk.errors import DataTypeError, DeviceNotFoundError, InvalidArgumentError, UnsupportedError
from dmlvk.objects.portable import default_device
from dmlvk.support.recent import Recent
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc
from dmlvk.torch.device import geometry
from dmlvk.torch.device.geometry import Geometry, Shape
from dmlvk.torch.types import DATA_TYPES, NAME, from_numpy, to_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.runtime.work import Allocation

MOST_PENDING = 160  # Operators that are recorded before they run at most

_FEWEST_BEFORE_PRODUCT = 24
"""Operators after which a product begins the next graph: so layers that are alike share a plan."""

_RUNS_OF_NUMBERS = 512
"""Runs after which numbers take a turn without an optimizer's step."""

_META = torch._C.DispatchKey.Meta
_as_strided = torch.ops.aten.as_strided.default
_set = torch.ops.aten.set_.source_Storage_storage_offset
_empty = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]  # PyTorch's own for devices in Python


class Journal(threading.local):
    """What changed of this thread's tensors, to be undone; ``None``: nobody wants to know."""

    entries: list[tuple[Record, Value | None]] | None = None


JOURNAL = Journal()


class Record:
    """What a storage has.

    Attributes:
        dtype: PyTorch's type of the elements.
        count: how many there are.
        views: values of windows that were looked at since the last change.
        spare: memory that it had before the present one, and has next.
    """

    __slots__ = ("__weakref__", "_last", "_value", "count", "dtype", "spare", "views")

    def __init__(self, dtype: torch.dtype, count: int, value: Value | None) -> None:
        self.dtype, self.count, self.views = dtype, count, dict[Geometry, Value]()
        self._value = value
        self.spare: Allocation | None = None
        self._last: Allocation | None = None
        if value is not None:
            value.handles += 1

    @property
    def value(self) -> Value | None:
        """The elements in row-major order; ``None``: there are none."""
        return self._value

    def become(self, value: Value | None) -> None:
        """Takes other elements."""
        if JOURNAL.entries is not None:
            JOURNAL.entries.append((self, self._value))  # first: an interrupt may come behind it
        before, self._value = self._value, value
        if value is not None:
            value.handles += 1
            if value.is_pending:
                value.target = weakref.ref(self)
        self.views.clear()
        if before is not None:
            before.handles -= 1
            if not before.is_pending:
                memory = before.memory()
                self._last = memory.storage.allocation if memory.is_whole else None

    def turn(self) -> None:
        """Has new elements in memory: what it had before is for the next ones."""
        before, self.spare, self._last = self.spare, self._last, None
        if self.spare is not None:
            self.spare.is_reserved = True
        if before is not None and self._value is not None:
            self._value.device.arrays.pool.unreserve(before)

    def __del__(self) -> None:
        value = getattr(self, "_value", None)
        if value is not None:
            value.handles -= 1
            if self.spare is not None:
                value.device.arrays.pool.unreserve(self.spare)


class DeviceStorage(torch.UntypedStorage):
    """The memory of tensors on the device, for PyTorch's functions of storages."""

    record: Record

    def nbytes(self) -> int:
        """How many bytes PyTorch's tensors of the same elements have."""
        return self.record.count * self.record.dtype.itemsize

    def size(self) -> int:
        """As :meth:`nbytes`."""
        return self.nbytes()

    def data_ptr(self) -> int:
        """No address, but another number for each storage that has elements."""
        return id(self.record) if self.record.count else 0

    def clone(self) -> Any:
        """The same elements in memory of their own."""
        return self._tensor().clone().untyped_storage()

    def cpu(self) -> Any:
        """The bytes on the host."""
        return host_of(self._tensor()).untyped_storage()

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Takes another storage's bytes."""
        if source.device.type == NAME:
            source = source.cpu()
        plain = torch.empty(0, dtype=torch.uint8, device="cpu").set_(source)
        self.record.become(uploaded(plain.view(self.record.dtype)) if self.record.count else None)
        return self

    def _write_file(self, *arguments: Any) -> Any:
        return self.cpu()._write_file(*arguments)

    def _set_from_file(self, *arguments: Any) -> Any:
        return self.copy_(torch.UntypedStorage(self.nbytes())._set_from_file(*arguments))

    def _tensor(self) -> torch.Tensor:
        record = self.record
        return tensor_of(record.value, (record.count,), record.dtype)


class Numbers:
    """Numbers of Python in the device's memory, so that others need no other graph.

    Those stay that were asked for since the turn before the last one. So numbers that change with each step of an
    optimizer lie in two pieces of memory in turn, as parameters do, and what was recorded for these is run again.
    """

    def __init__(self) -> None:
        self._device: Device | None = None
        self._young: dict[Any, TensorMemory] = {}
        self._old: dict[Any, TensorMemory] = {}

    def value(self, device: Device, value: float, data_type: DataType) -> Value:
        """One without axes."""
        if device is not self._device:
            self._device, self._young, self._old = device, {}, {}
        key = data_type, struct.pack("d", value) if isinstance(value, float) else int(value)  # -0 equals 0
        known = self._young.get(key)
        if known is None:
            known = self._old.get(key)
            if known is None:
                with np.errstate(over="ignore"):  # infinity
                    known = device.array(np.array(value).astype(data_type.numpy_dtype)).memory()
            self._young[key] = known
        return Value(device, data_type, (), known)

    def turn(self) -> None:
        """Lets go of those that nobody asked for since the last turn."""
        self._young, self._old = {}, self._young


class Recorder:
    """What is recorded for the device and has not run.

    Attributes:
        numbers: beside tensors.
    """

    def __init__(self) -> None:
        self.numbers = Numbers()
        self._runs = 0
        self._pending: list[Value] = []
        self._lock = threading.RLock()
        self._device: Device | None = None
        self._is_chosen = False
        self._last: list[weakref.ref[Value]] = []

    @property
    def device(self) -> Device:
        """What :meth:`use` chose; without that, the process's device, opened when it is first needed."""
        device = self._device
        if device is None or device.engine.is_removed:
            if device is not None and self._is_chosen:
                device.engine.check_open()
            device = self._device = default_device()
        return device

    def use(self, device: Device | None) -> None:
        """Has another device of Vulkan's stand behind PyTorch's; tensors that there are stay on theirs."""
        self.run()
        self._device, self._is_chosen = device, device is not None

    def add(self, value: Value, *, is_product: bool = False) -> None:
        """Notes a value that waits; runs what came before it where it is enough."""
        count = len(self._pending)
        if count >= _FEWEST_BEFORE_PRODUCT and (is_product or count >= MOST_PENDING):
            self.run()
        self._pending.append(value)

    def run(self) -> None:
        """Hands everything that somebody still needs to the device, as one graph."""
        with self._lock:
            pending, self._pending = self._pending, []
            self._runs += bool(pending)
            if self._runs >= _RUNS_OF_NUMBERS:
                self.turn()
            try:
                needed = [value for value in pending if value.handles > 0 and value.is_pending]
                if needed and not needed[0].device.engine.is_removed:
                    settle(needed[0].device, needed)
                    self._last = [weakref.ref(value) for value in needed]
            except BaseException:
                self._pending = pending + self._pending
                raise

    def turn(self) -> None:
        """Lets go of numbers that nobody needs any more: after a step of an optimizer, or many runs."""
        self._runs = 0
        self.numbers.turn()

    def wait(self) -> None:
        """Runs what is recorded, and waits for it."""
        self.run()
        for value in filter(None, (known() for known in self._last)):
            value.memory().wait()


RECORDER = Recorder()

_places: Recent[Any, int] = Recent(1024)
"""Where parts of each form were written first."""


def deferred(operation: Operation, operands: Sequence[Value], data_type: DataType, shape: Shape) -> Value:
    """One result of an operation, recorded."""
    value = Value(RECORDER.device, data_type, shape, operation=operation, operands=tuple(operands))
    RECORDER.add(value)
    return value


def memory_of(value: Value) -> TensorMemory:
    """Where a value is, with everything that was recorded computed."""
    if value.is_pending:
        RECORDER.run()
    return value.memory()


def check_dtype(dtype: torch.dtype) -> None:
    """Checks that the device has a data type.

    Raises:
        DataTypeError: it has not.
    """
    if dtype not in DATA_TYPES:
        names = ", ".join(str(one).removeprefix("torch.") for one in DATA_TYPES)
        raise DataTypeError(f"dmlvk: the device has no {str(dtype).removeprefix('torch.')}; it has {names}")


def check_layout(tensor: torch.Tensor) -> None:
    """Checks that a tensor lies by strides.

    Raises:
        UnsupportedError: it does not.
    """
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"dmlvk: the device has no tensors of {tensor.layout}: use .to_dense()")


def check_device(device: Any) -> None:
    """Checks that a number, a name or a ``torch.device`` is of the one device that there is; ``None`` is.

    Raises:
        DeviceNotFoundError: it is not.
    """
    kind, number = NAME, device
    if device is not None and not isinstance(device, int):
        kind, number = torch.device(device).type, torch.device(device).index
    if kind != NAME or number not in (None, 0, -1):
        raise DeviceNotFoundError(f"torch.{NAME}: there is one device {NAME}, number 0; got {device!r}")


def check_index(device: torch.device | None) -> None:
    """Checks that there is a device.

    Raises:
        DeviceNotFoundError: there is none of that number.
    """
    if device is not None and device.type == NAME and device.index:
        raise DeviceNotFoundError(f"torch: there is one device {NAME}, number 0; got {device}")


def tensor_of(value: Value | None, shape: Shape, dtype: torch.dtype, strides: Shape | None = None) -> torch.Tensor:
    """A new tensor with memory of its own.

    Args:
        value: its elements; ``None``: it has none.
        strides: in elements, which must fill the memory; ``None``: in row-major order.
    """
    made: torch.Tensor = _empty(shape, dtype)
    storage: Any = made.untyped_storage()
    storage.__class__ = DeviceStorage
    lying = None if strides is None or value is None else geometry.flattened(shape, strides)
    if lying is None or made.stride() == strides:
        storage.record = Record(dtype, math.prod(shape), value)
        return made
    assert value is not None and strides is not None
    axes = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis)))
    sizes = tuple(shape[axis] for axis in axes)
    moved = deferred(Operation(geometry.ordered, (axes,), is_elementwise=True), (value,), value.data_type, sizes)
    storage.record = Record(dtype, math.prod(shape), moved)
    storage.record.views[lying] = value
    strided: torch.Tensor = _as_strided._op_dk(_META, made, shape, strides, 0)
    return strided


def record_of(tensor: torch.Tensor) -> Record:
    """What a tensor's storage has.

    Raises:
        InvalidArgumentError: PyTorch made the tensor without memory of the device's.
    """
    record: Record | None = getattr(tensor.untyped_storage(), "record", None)
    if record is None:
        raise InvalidArgumentError(
            f"dmlvk: a tensor of {tensor.dtype} {list(tensor.shape)} has no memory on the device"
        )
    return record


def lying(tensor: torch.Tensor) -> Value | None:
    """A tensor's elements where they lie in its shape's row-major order; ``None``: they do not, or elsewhere."""
    try:
        record: Record = tensor.untyped_storage().record  # type: ignore[attr-defined]
    except AttributeError:  # it is on the CPU
        return None
    value = record._value
    if value is None or value.shape != tensor.shape or record.dtype is not tensor.dtype:
        return None
    return value if tensor.is_contiguous() and not tensor.storage_offset() else None


def value_of(tensor: torch.Tensor) -> Value:
    """A tensor's elements, in its own shape."""
    known = lying(tensor)
    if known is not None:
        return known
    record = record_of(tensor)
    value = record.value
    assert value is not None, "callers leave tensors without elements out"
    shape: Shape = tuple(tensor.shape)
    if record.dtype is not tensor.dtype:
        return _reinterpreted(tensor, record)
    return _seen(record, value, Geometry(shape, tensor.stride(), tensor.storage_offset()))


def _seen(record: Record, value: Value, view: Geometry) -> Value:
    known = record.views.get(view)
    if known is not None and (value.is_pending or not known.is_pending):
        return known
    last = view.offset + sum((size - 1) * step for size, step in zip(view.shape, view.strides, strict=True))
    if last >= record.count:
        raise InvalidArgumentError(
            f"dmlvk: a view of {list(view.shape)} by strides {list(view.strides)} from element {view.offset} on "
            f"reaches beyond its memory of {record.count} elements"
        )
    made = None if value.is_pending else _shown(value, view)
    if made is None:
        operation = Operation(geometry.seen, (view,), is_elementwise=True)
        made = deferred(operation, (value,), value.data_type, view.shape)
    record.views[view] = made
    return made


def _shown(value: Value, view: Geometry) -> Value | None:
    """A view of memory as it is, without a kernel; ``None``: the device cannot have it so."""
    memory = value.memory()
    if len(view.shape) > MAXIMUM_DIMENSION_COUNT or not memory.tensor.is_packed:
        return None
    tensor = TensorDesc(memory.data_type, view.shape or (1,), view.strides or (1,))
    offset = memory.offset + memory.data_type.bytes_of(view.offset)
    if offset % tensor.binding_alignment:
        return None
    seen = TensorMemory(value.device, memory.storage, tensor, offset, is_whole=False)
    return Value(value.device, value.data_type, view.shape, seen)


def _reinterpreted(tensor: torch.Tensor, record: Record) -> Value:
    """Elements of another type than the storage has: the same bytes, by way of the host."""
    whole = host_of(tensor_of(record.value, (record.count,), record.dtype)).view(tensor.dtype)
    return uploaded(torch.as_strided(whole, tensor.shape, tensor.stride(), tensor.storage_offset()))


def write(tensor: torch.Tensor, value: Value) -> None:
    """Gives a tensor other elements, which all tensors of its memory see.

    Args:
        value: of its shape and type.

    Raises:
        InvalidArgumentError: several of its elements lie in one place, or its memory has another type.
    """
    record = record_of(tensor)
    before = record.value
    assert before is not None, "callers leave tensors without elements out"
    if record.dtype is not tensor.dtype:
        raise InvalidArgumentError(f"dmlvk: memory of {record.dtype} cannot be written as {tensor.dtype}")
    shape: Shape = tuple(tensor.shape)
    if tensor.is_contiguous() and tensor.numel() == record.count:
        record.become(value)
        return
    view = Geometry(shape, tensor.stride(), tensor.storage_offset())
    if view.overlaps:
        raise InvalidArgumentError(
            f"dmlvk: a tensor of {list(shape)} with strides {list(view.strides)} has several elements in one place and "
            "cannot be written: clone it first"
        )
    form = record.count, shape, view.strides
    if _places.of(form, lambda: view.offset) == view.offset:
        operation, operands = Operation(geometry.written, (view,), is_elementwise=True), [before, value]
    else:  # one plan for all other places
        operation = Operation(geometry.written_at, (Geometry(shape, view.strides, 0),), is_elementwise=True)
        operands = [before, value, RECORDER.numbers.value(RECORDER.device, view.offset, DataType.INT32)]
    record.become(deferred(operation, operands, before.data_type, before.shape))
    record.views[view] = value


def uploaded(tensor: torch.Tensor) -> Value:
    """A CPU tensor's elements on the device.

    Raises:
        DataTypeError: the device has no such type.
    """
    check_layout(tensor)
    check_dtype(tensor.dtype)
    values = to_numpy(tensor)
    device = RECORDER.device
    memory = device.arrays.uploaded(device, values, array_tensor(values.dtype, values.shape, NAME), NAME)
    return Value(device, DATA_TYPES[tensor.dtype], tuple(tensor.shape), memory)


def from_host(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor, copied to the device."""
    check_layout(tensor)
    check_dtype(tensor.dtype)
    value = uploaded(tensor) if tensor.numel() else None
    strides = tuple(tensor.stride()) if geometry.flattened(tensor.shape, tensor.stride()) else None
    return tensor_of(value, tuple(tensor.shape), tensor.dtype, strides)


def host_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's elements as a tensor of the CPU, computed now, with the same strides where they fill its memory."""
    shape, dtype = tuple(tensor.shape), tensor.dtype
    strides = tensor.stride() if geometry.flattened(shape, tensor.stride()) else None
    if not tensor.numel():
        return torch.empty(shape, dtype=dtype, device="cpu")
    values = memory_of(value_of(tensor.detach())).numpy()
    if strides is None:
        example = torch.empty(shape, dtype=dtype, device="meta")
    else:
        example = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return from_numpy(values, example)


def reset(tensor: torch.Tensor, shape: Sequence[int], value: Value | None) -> None:
    """Gives a tensor memory of another size, which all tensors of it see."""
    storage: Any = tensor.untyped_storage()
    strides = torch.empty(tuple(shape), device="meta").stride()
    record = record_of(tensor)
    record.dtype, record.count = tensor.dtype, math.prod(shape)
    record.become(value)
    _set._op_dk(_META, tensor, storage, 0, shape, strides)
