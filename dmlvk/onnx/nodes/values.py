"""What flows between the nodes of a model while it is planned: tensors on the device, and values that are known."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from dmlvk.arrays.tensor_bytes import elements_of, lay_out
from dmlvk.datatypes import DataType
from dmlvk.dynamic.sharing import once
from dmlvk.dynamic.sizes import as_size, is_dynamic, value_of
from dmlvk.errors import DmlError, InvalidArgumentError
from dmlvk.graphs.arithmetic import Arithmetic
from dmlvk.support.file_arrays import is_of_files
from dmlvk.support.mapped_files import address_of
from dmlvk.tensors import TensorDesc, broadcast_sizes, packed_strides

if TYPE_CHECKING:
    from dmlvk.onnx.nodes.assembly import Assembly

_log = logging.getLogger("dmlvk")

DATA_TYPES: dict[int, DataType] = {
    TensorProto.FLOAT: DataType.FLOAT32, TensorProto.FLOAT16: DataType.FLOAT16, TensorProto.DOUBLE: DataType.FLOAT64,
    TensorProto.INT8: DataType.INT8, TensorProto.INT16: DataType.INT16, TensorProto.INT32: DataType.INT32,
    TensorProto.INT64: DataType.INT64, TensorProto.UINT8: DataType.UINT8, TensorProto.UINT16: DataType.UINT16,
    TensorProto.UINT32: DataType.UINT32, TensorProto.UINT64: DataType.UINT64, TensorProto.BOOL: DataType.UINT8,
}  # fmt: skip
"""The tensor types of ONNX that the device has. BOOL is UINT8 of 0 and 1, as DirectML's comparisons give it."""

NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    element: np.dtype(np.bool_) if element == TensorProto.BOOL else data_type.numpy_dtype
    for element, data_type in DATA_TYPES.items()
}
"""The NumPy types of the same."""

for _element, _small in ((TensorProto.INT4, DataType.INT4), (TensorProto.UINT4, DataType.UINT4)):
    # Arrays of them are known by types of their own (ml_dtypes), which older versions of the onnx package do not use.
    if (_numpy_type := np.dtype(helper.tensor_dtype_to_np_dtype(_element))).kind == "V" and _numpy_type.itemsize == 1:
        DATA_TYPES[_element], NUMPY_TYPES[_element] = _small, _numpy_type

_ELEMENTS = {data_type: element for element, data_type in NUMPY_TYPES.items()}

Array = npt.NDArray[Any]

Bytes = npt.NDArray[np.uint8]

MOST_DIMENSIONS = 8  # Dimensions of a tensor on the device; values of ONNX may have more

_HALVES = {dtype: DATA_TYPES[element] for dtype, element in _ELEMENTS.items() if DATA_TYPES[element].size_in_bits == 4}


def stored(array: Array) -> Array:
    """An array as its bytes lie in a tensor: of a 4-bit type two elements in a byte, all others as they are."""
    data_type = _HALVES.get(array.dtype)
    if data_type is None:
        return array
    tensor = TensorDesc(data_type, array.shape or (1,))
    contents = np.zeros(tensor.size_in_bytes, np.uint8)
    lay_out(np.ascontiguousarray(array).view(data_type.numpy_dtype).reshape(tensor.sizes), tensor, contents, "ONNX")
    return contents


def bytes_of(array: Array) -> Bytes:
    return np.ascontiguousarray(stored(array)).reshape(-1).view(np.uint8)


def restored(contents: npt.NDArray[np.uint8], data_type: DataType, shape: Sequence[int]) -> Array:
    """What :func:`stored` made bytes of, for a 4-bit type."""
    element = next(element for element, known in DATA_TYPES.items() if known is data_type)
    values = elements_of(contents, TensorDesc(data_type, tuple(shape) or (1,)))
    return values.reshape(shape).astype(NUMPY_TYPES[element])


def memory_of(array: Array) -> tuple[int, int]:
    """What tells the memory of a contiguous array from all others, as long as the array is there: address and bytes."""
    return array.address if is_of_files(array) else address_of(array), array.nbytes


def dense(array: Array) -> Array:
    """The elements of an array in the order of their addresses: a view, where it leaves none of the memory out.

    Transposed and broadcast views of the same memory have the same dense array. All others are copied, and so are views
    of 4-bit types, whose elements share bytes on the device.
    """
    if is_of_files(array):
        whole: Array = array
        return whole
    if array.flags.c_contiguous or array.size == 0:
        return array.reshape(-1)
    if array.dtype in _HALVES:
        return np.ascontiguousarray(array).reshape(-1)
    once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    if min(once.strides) > 0:
        ordered = once.transpose(sorted(range(once.ndim), key=lambda axis: -once.strides[axis]))
        if ordered.flags.c_contiguous:
            return ordered.reshape(-1)
    return np.ascontiguousarray(array).reshape(-1)


def strides_in(array: Array, whole: Array) -> tuple[int, ...]:
    """The strides, in elements, with which an array lies in what :func:`dense` made of it."""
    if is_of_files(array) or array.flags.c_contiguous or not np.may_share_memory(array, whole):
        return packed_strides(array.shape)
    return tuple(stride // array.itemsize for stride in array.strides)


class NotOnDevice(Exception):
    """A node cannot be computed by the device; the message says why."""


class NodeInputError(InvalidArgumentError):
    """Inputs of a node contradict one another: whoever computes it, the device or the host, must refuse them."""


class NeedsValue(Exception):
    """A node can be planned only when the contents of one of its inputs are known."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the contents of {name!r} decide what is computed")
        self.name = name  # the input


def element_of(array: Array) -> int | None:
    """The ONNX type of an array's elements; ``None`` for one that the device does not have."""
    return _ELEMENTS.get(array.dtype.newbyteorder("="))


def numpy_type(element: int) -> np.dtype[Any]:
    """NumPy's type of an ONNX element type, also of one that the device has not."""
    if element in NUMPY_TYPES:
        return NUMPY_TYPES[element]
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


def element_name(element: int) -> str:
    """``FLOAT16`` and so on, for messages."""
    names: dict[int, str] = {int(number): name for name, number in TensorProto.DataType.items()}
    return names.get(element, f"type {element}")


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceSource:
    """Bytes on the device; equal only to itself."""

    kind: str  # ``"input"``: bound at every run; ``"constant"``: uploaded once; ``"node"``: written by an operator
    size_in_bytes: int  # its TotalTensorSizeInBytes
    name: str = ""  # of an input
    array: Array | None = None  # of a constant
    index: int = -1  # of a node's output, the number of the node
    output: int = 0  # which of that node's outputs


@dataclasses.dataclass(frozen=True, eq=False)
class Tensor(Arithmetic):
    """A tensor on the device: a view of a source, from its first element on; with Python's operators."""

    graph: Assembly  # where its operators are added
    source: DeviceSource  # the bytes
    element: int  # ONNX's element type
    shape: tuple[int, ...]  # as ONNX has it; may have no dimension at all
    strides: tuple[int, ...]  # in elements, one for each dimension

    def has_truths(self) -> bool:
        return self.element == TensorProto.BOOL

    def elementwise(self, operator: str, **members: Any) -> Tensor:
        """What an element-wise operator gives, added to the graph."""
        return self.graph.add(f"ELEMENT_WISE_{operator}", members)[0]

    def equals(self, other: Tensor | float) -> Tensor:
        return self.elementwise("LOGICAL_EQUALS", a_tensor=self, b_tensor=other)

    @property
    def data_type(self) -> DataType:
        """DirectML's type of the elements."""
        return DATA_TYPES[self.element]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie in order without gaps."""
        packed = packed_strides(self.shape)
        return all(size == 1 or a == b for size, a, b in zip(self.shape, self.strides, packed, strict=True))

    @property
    def desc(self) -> TensorDesc:
        """As DirectML sees it; a scalar has one dimension of one element."""
        return described(
            self.data_type, self.shape, None if self.is_packed else self.strides, self.source.size_in_bytes
        )

    def viewed(self, shape: Sequence[int], strides: Sequence[int] | None = None, element: int | None = None) -> Tensor:
        """The same bytes seen otherwise.

        Args:
            strides: of it; ``None``: its elements lie in order without gaps, as this tensor's must.

        Raises:
            NotOnDevice: when this tensor's elements lie otherwise: a view would show others.
        """
        sizes = tuple(map(as_size, shape))
        if strides is None and element is None:
            self._check_order()
        steps = packed_strides(sizes) if strides is None else tuple(strides)
        return Tensor(self.graph, self.source, self.element if element is None else element, sizes, steps)

    def _check_order(self) -> None:
        """Refuses elements that do not lie in order, by the sizes of now: no plan is for these only because of it."""
        shape, strides = (tuple(map(value_of, numbers)) for numbers in (self.shape, self.strides))
        packed = packed_strides(shape)
        if any(size != 1 and step != wanted for size, step, wanted in zip(shape, strides, packed, strict=True)):
            raise NotOnDevice(f"elements of {list(shape)} in steps of {list(strides)} are to be seen in order")

    def transposed(self, axes: Sequence[int]) -> Tensor:
        return self.viewed([self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes])

    def with_axis(self, axis: int) -> Tensor:
        """With a new axis of size 1 before ``axis``."""
        shape, strides = list(self.shape), list(self.strides)
        step = strides[axis] * shape[axis] if axis < len(shape) else 1
        shape.insert(axis, 1)
        strides.insert(axis, step)
        return self.viewed(shape, strides)

    def without_axes(self, axes: Sequence[int]) -> Tensor:
        """Without some axes of size 1."""
        kept = [axis for axis in range(self.rank) if axis not in axes]
        return self.viewed([self.shape[axis] for axis in kept], [self.strides[axis] for axis in kept])

    def broadcast(self, shape: Sequence[int]) -> Tensor:
        """Repeated along axes of size 1 and along new leading ones, by strides of 0, as NumPy does it.

        Raises:
            NotOnDevice: when the shapes do not fit.
        """
        wanted = tuple(shape)
        missing = len(wanted) - self.rank
        padded = (1,) * missing + self.shape
        if missing < 0 or any(size not in (1, other) for size, other in zip(padded, wanted, strict=True)):
            raise NotOnDevice(f"the shape {list(self.shape)} does not broadcast to {list(wanted)}")
        if wanted == self.shape:
            return self
        strides = (0,) * missing + self.strides
        return self.viewed(
            wanted,
            [
                0 if size == 1 and other != 1 else stride
                for size, other, stride in zip(padded, wanted, strides, strict=True)
            ],
        )

    def collapsed(self) -> Tensor:
        """The same elements in the same order with as few axes as strides allow."""
        kept: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if kept and kept[-1][1] == stride * size:
                kept[-1] = kept[-1][0] * size, stride
            else:
                kept.append((size, stride))
        return self.viewed([size for size, _ in kept], [stride for _, stride in kept])

    def reshaped(self, shape: Sequence[int]) -> Tensor | None:
        """The same elements in another shape; ``None`` where that needs a copy."""
        sizes = tuple(map(as_size, shape))
        if math.prod(sizes) != math.prod(self.shape):
            raise NotOnDevice(f"{math.prod(self.shape)} elements cannot have the shape {list(sizes)}")
        return self.viewed(sizes) if self.is_packed else None


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """A value that is known while the model is planned: an array; or a list, ``None`` and so on, as ONNX has them."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Derived:
    """Integers that follow from open sizes."""

    name: str  # of the value
    element: int  # ONNX's element type, INT32 or INT64
    numbers: Array  # integers and dynamic sizes, as an array of objects

    def fixed(self) -> Array:
        """The numbers of the run that is planned; the plan is for these only from now on."""
        plain = [int(number) for number in self.numbers.reshape(-1)]
        return np.array(plain, NUMPY_TYPES[self.element]).reshape(self.numbers.shape)

    def current(self) -> Array:
        plain = [value_of(number) for number in self.numbers.reshape(-1)]
        return np.array(plain, NUMPY_TYPES[self.element]).reshape(self.numbers.shape)


@dataclasses.dataclass(frozen=True)
class Awaited:
    """A value that is not there yet: it depends on something that the host computes first."""

    element: int | None = None  # its ONNX type, where that is known; UNDEFINED for one that the device does not have
    is_from_host: bool = False  # whether the host computes it in the same round


Value = Tensor | Known | Awaited | Derived


def shape_of(value: Value | None) -> tuple[int, ...] | None:
    """The shape of a value; ``None`` where it is no tensor, or not known."""
    if isinstance(value, Tensor):
        return value.shape
    array = value.numbers if isinstance(value, Derived) else value.value if isinstance(value, Known) else None
    return array.shape if isinstance(array, np.ndarray) else None


def has_open_sizes(value: Value | None) -> bool:
    """Whether a value's shape, or its contents, follow from open sizes."""
    return isinstance(value, Derived) or (isinstance(value, Tensor) and is_dynamic(value.shape))


def current(value: Value | None) -> Value | None:
    """A value with the sizes of the run that is planned, for what only looks at them."""
    if isinstance(value, Derived):
        return Known(value.current())
    if isinstance(value, Tensor) and (is_dynamic(value.shape) or is_dynamic(value.strides)):
        size = value_of(value.source.size_in_bytes)
        source = dataclasses.replace(value.source, size_in_bytes=size)
        shape, strides = (tuple(map(value_of, numbers)) for numbers in (value.shape, value.strides))
        return dataclasses.replace(value, source=source, shape=shape, strides=strides)
    return value


def fix(value: Value | None, why: str) -> None:
    """Makes the sizes of a value plain numbers, which the plan is for from now on."""
    if isinstance(value, Derived):
        value.fixed()
    elif isinstance(value, Tensor) and is_dynamic(value.shape):
        _log.debug("a plan is for some sizes only: %s", why)
        for size in value.shape:
            int(size)


def described(
    data_type: DataType, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, total: int | None = None
) -> TensorDesc:
    """A tensor as DirectML sees it; a scalar has one dimension of one element.

    Args:
        strides: in elements; ``None``: it lies in order without gaps.
        total: bytes of what it is a view of; ``None``: its own.
    """
    sizes, steps = shape or (1,), None if strides is None else strides or (1,)
    if is_dynamic((sizes, steps, total)):
        return once(TensorDesc, data_type, sizes, steps, total)
    return _described(data_type, sizes, steps, total)


@functools.lru_cache(maxsize=4096)  # the tensors of a network are of few shapes
def _described(
    data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, total: int | None
) -> TensorDesc:
    return TensorDesc(data_type, sizes, strides, total)


def size_in_bytes(data_type: DataType, shape: Sequence[int]) -> int:
    """Bytes of a packed tensor of any number of axes, a multiple of 4, as DirectML counts them."""
    sizes = (math.prod(shape),) if len(shape) > MOST_DIMENSIONS else tuple(shape) or (1,)
    try:
        return described(data_type, sizes).size_in_bytes
    except DmlError as error:
        raise NotOnDevice(str(error)) from error


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that several shapes broadcast to.

    Raises:
        NotOnDevice: when there is none.
    """
    sizes = broadcast_sizes(*shapes)
    if sizes is None:
        raise NotOnDevice(f"the shapes {[list(shape) for shape in shapes]} do not broadcast")
    return sizes
