"""Tensors of PyTorch's whose memory is a value on the device: which may still have to be computed.

A tensor's storage has no bytes for PyTorch. It carries a :class:`Record`: the value in row-major order, for which views
are windows. What is changed in place makes another value of the storage's, so that all of its views see it, and what
was recorded before has the former one.
"""

from __future__ import annotations

import functools
import math
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dmlvk.array_api.lazy import Operation
from dmlvk.arrays.tensor_memory import TensorMemory, array_tensor
from dmlvk.arrays.values import Value
from dmlvk.datatypes import DataType
from dmlvk.errors import DataTypeError, DeviceNotFoundError, InvalidArgumentError, UnsupportedError
from dmlvk.support.recent import Recent
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc, packed_strides
from dmlvk.torch.device import geometry
from dmlvk.torch.device.geometry import Geometry, Shape
from dmlvk.torch.device.recorder import RECORDER, Recorded, deferred
from dmlvk.torch.types import DATA_TYPES, NAME, from_numpy, to_numpy

if TYPE_CHECKING:
    from dmlvk.runtime.work import Allocation

_META = torch._C.DispatchKey.Meta
_With = torch._C._IncludeDispatchKeyGuard
_as_strided = torch.ops.aten.as_strided.default
_set = torch.ops.aten.set_.source_Storage_storage_offset
_empty = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]  # PyTorch's own for devices in Python


class Journal(threading.local):
    """What changed of this thread's tensors, to be undone; ``None``: nobody wants to know."""

    entries: list[tuple[Record, Value | None]] | None = None


JOURNAL = Journal()


class Form:
    """How elements lie, and of which type of PyTorch's they are; there is one object of each: :func:`form_of`.

    Attributes:
        strides: in elements; ``None``: in row-major order.
        count: how many elements there are.
    """

    __slots__ = ("count", "dtype", "shape", "strides")

    def __init__(self, shape: Shape, dtype: torch.dtype, strides: Shape | None = None) -> None:
        self.shape, self.dtype, self.strides, self.count = shape, dtype, strides, math.prod(shape)


form_of = functools.lru_cache(4096)(Form)


class View:
    """What a tensor shows of its memory; there is one object of each: :func:`view_of`.

    Attributes:
        form: of the tensor.
        last: its last element in memory.
        operation: what gives its elements.
    """

    __slots__ = ("form", "geometry", "last", "operation")

    def __init__(self, shape: Shape, strides: Shape, offset: int, dtype: torch.dtype) -> None:
        self.form = form_of(tuple(shape), dtype, strides)
        self.geometry = Geometry(self.form.shape, strides, offset)
        self.last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        self.operation = Operation(geometry.seen, (self.geometry,))


view_of = functools.lru_cache(4096)(View)

_NONE: dict[View, Value] = {}


class Record:
    """What a storage has.

    Attributes:
        form: of all its elements, as they lie.
        views: values of windows that were looked at since the last change; :data:`_NONE` is nobody's own.
        spare: memory that it had before the present one, and has next.
    """

    __slots__ = ("__weakref__", "_last", "_value", "form", "spare", "views")

    def __init__(self, form: Form, value: Value | None) -> None:
        self.form = form
        self.views: dict[View, Value] = _NONE
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
            if value.shape != self.form.shape:
                self.form = form_of(value.shape, self.form.dtype)
            if isinstance(value, Recorded) and value._memory is None:
                value.target = weakref.ref(self)
        self.views = _NONE
        if before is not None:
            before.handles -= 1
            memory = before._memory
            if memory is not None:
                self._last = memory.storage.allocation if memory.is_whole else None

    def is_lying(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of it has the elements in the shape's row-major order, as the value has them."""
        form = self.form
        is_alike = form.shape == tensor.shape and form.dtype is tensor.dtype
        return is_alike and tensor.is_contiguous() and not tensor.storage_offset()

    def is_all_of(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of it shows all elements in order."""
        form = self.form
        return tensor.is_contiguous() and tensor.numel() == form.count and tensor.dtype is form.dtype

    def turn(self) -> None:
        """Has new elements in memory: what it had before is for the next ones."""
        before, self.spare, self._last = self.spare, self._last, None
        if self.spare is not None:
            self.spare.is_reserved = True
        value = self._value
        if before is not None and value is not None:
            value.device.arrays.pool.unreserve(before)
        if value is None or value._memory is None:
            return
        for view, known in list(self.views.items()):  # which what is recorded next would compute again
            if known._memory is None and (shown := _shown(value, view.geometry)) is not None:
                known.settle(shown.memory())

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
        return self.record.form.count * self.record.form.dtype.itemsize

    def size(self) -> int:
        """As :meth:`nbytes`."""
        return self.nbytes()

    def data_ptr(self) -> int:
        """No address, but another number for each storage that has elements."""
        return id(self.record) if self.record.form.count else 0

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
        form = self.record.form
        self.record.become(uploaded(plain.view(form.dtype)) if form.count else None)
        return self

    def _write_file(self, *arguments: Any) -> Any:
        return self.cpu()._write_file(*arguments)

    def _set_from_file(self, *arguments: Any) -> Any:
        return self.copy_(torch.UntypedStorage(self.nbytes())._set_from_file(*arguments))

    def _tensor(self) -> torch.Tensor:
        form = self.record.form
        return tensor_of(self.record.value, (form.count,), form.dtype)


_places_lock = threading.RLock()  # in which a signal's handler may have tensors written
_places: Recent[Any, int] = Recent(1024)
"""Where parts of each form were written first."""


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
    order = None if strides is None or value is None else _order(shape, strides)
    if order is None or value is None or strides is None:
        return lying_tensor(value, form_of(shape, dtype))
    operation, sizes = order
    flat = deferred(operation, (value,), value.data_type, sizes)
    made = lying_tensor(flat, form_of(sizes, dtype))
    storage: Any = made.untyped_storage()
    storage.record.views = {view_of(shape, strides, 0, dtype): value}
    flat.target = weakref.ref(storage.record)
    return window(made, shape, strides, 0)


def window(tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int], offset: int) -> torch.Tensor:
    """A view of a tensor's memory: what PyTorch does for tensors without elements."""
    if type(tensor) is not torch.Tensor or torch._C._len_torch_function_stack():  # somebody looks
        made: torch.Tensor = _as_strided._op_dk(_META, tensor, shape, strides, offset)
        return made
    with _With(_META):
        return torch.as_strided(tensor, shape, strides, offset)


def lying_tensor(value: Value | None, form: Form) -> torch.Tensor:
    """A new tensor with memory of its own, in row-major order."""
    made: torch.Tensor = _empty(form.shape, form.dtype)
    storage: Any = made.untyped_storage()
    storage.__class__ = DeviceStorage
    storage.record = Record(form, value)
    return made


@functools.lru_cache(4096)
def _order(shape: Shape, strides: Shape) -> tuple[Operation, Shape] | None:
    """What brings axes into the order in which they lie, and their sizes then; ``None``: they lie so, or fill none."""
    if geometry.flattened(shape, strides) is None or strides == packed_strides(shape):
        return None
    axes = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis)))
    return Operation(geometry.ordered, (axes,)), tuple(shape[axis] for axis in axes)


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


def value_of(tensor: torch.Tensor) -> Value:
    """A tensor's elements, in its own shape."""
    record = record_of(tensor)
    if record.is_lying(tensor):
        value = record._value
        assert value is not None, "callers leave tensors without elements out"
        return value
    if record.form.dtype is not tensor.dtype:
        return _reinterpreted(tensor, record)
    return seen(record, view_of(tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype))


def seen(record: Record, view: View) -> Value:
    """Elements of a storage where they do not lie in order."""
    value = record._value
    assert value is not None, "callers leave tensors without elements out"
    known = record.views.get(view)
    if known is not None and (value._memory is None or known._memory is not None):
        return known
    if view.last >= record.form.count:
        window = view.geometry
        raise InvalidArgumentError(
            f"dmlvk: a view of {list(window.shape)} by strides {list(window.strides)} from element {window.offset} on "
            f"reaches beyond its memory of {record.form.count} elements"
        )
    made = None if value._memory is None else _shown(value, view.geometry)
    if made is None:
        made = deferred(view.operation, (value,), value.data_type, view.form.shape)
    if record.views is _NONE:
        record.views = {}
    record.views[view] = made
    return made


def _shown(value: Value, view: Geometry) -> Value | None:
    """A view of memory as it is, without a kernel; ``None``: the device cannot have it so."""
    memory = value.memory()
    if len(view.shape) > MAXIMUM_DIMENSION_COUNT or not memory.tensor.is_packed:
        return None
    tensor, first, alignment = _part(memory.data_type, view)
    offset = memory.offset + first
    if offset % alignment:
        return None
    part = TensorMemory(value.device, memory.storage, tensor, offset, is_whole=False)
    return Value(value.device, value.data_type, view.shape, part)


@functools.lru_cache(4096)
def _part(data_type: DataType, view: Geometry) -> tuple[TensorDesc, int, int]:
    """A view of memory, its first byte, and of what its place must be a multiple."""
    tensor = TensorDesc(data_type, view.shape or (1,), view.strides or (1,))
    return tensor, data_type.bytes_of(view.offset), tensor.binding_alignment


def _reinterpreted(tensor: torch.Tensor, record: Record) -> Value:
    """Elements of another type than the storage has: the same bytes, by way of the host."""
    whole = host_of(tensor_of(record.value, (record.form.count,), record.form.dtype)).view(tensor.dtype)
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
    if record.form.dtype is not tensor.dtype:
        raise InvalidArgumentError(f"dmlvk: memory of {record.form.dtype} cannot be written as {tensor.dtype}")
    if record.is_all_of(tensor):
        record.become(value)
        return
    shape: Shape = tuple(tensor.shape)
    view = Geometry(shape, tensor.stride(), tensor.storage_offset())
    if view.overlaps:
        raise InvalidArgumentError(
            f"dmlvk: a tensor of {list(shape)} with strides {list(view.strides)} has several elements in one place and "
            "cannot be written: clone it first"
        )
    operands: tuple[Value, ...]
    form = record.form.count, shape, view.strides
    with _places_lock:
        first = _places.of(form, lambda: view.offset)
    if first == view.offset:
        operation, operands = Operation(geometry.written, (view,)), (before, value)
    else:  # one plan for all other places
        operation = Operation(geometry.written_at, (Geometry(shape, view.strides, 0),))
        operands = (before, value, RECORDER.numbers.value(RECORDER.device, view.offset, DataType.INT32))
    record.become(deferred(operation, operands, before.data_type, before.shape))
    record.views = {view_of(shape, view.strides, view.offset, tensor.dtype): value}


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
    values = value_of(tensor.detach()).memory().numpy()
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
    record.form = form_of(tuple(shape), tensor.dtype)
    record.become(value)
    _set._op_dk(_META, tensor, storage, 0, shape, strides)
