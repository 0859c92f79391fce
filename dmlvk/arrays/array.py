"""The array of a user: elements on a device, of any shape, computed when they are needed. ``dmlvk.Array``."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.conversion import converted
from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_bytes import plain_array
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.arrays.values import Shape, Value
from dmlvk.datatypes import DataType
from dmlvk.errors import CopyError, DataTypeError, InvalidArgumentError
from dmlvk.objects.portable import refuse_pickling
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device

VERSION = "2024.12"
"""Of the array API standard."""

_VERSIONS = (None, "2021.12", "2022.12", "2023.12", VERSION)

_DLPACK_CPU = 1  # DLPack's number of main memory (kDLCPU)

_NUMPY_DEFAULTS = (np.dtype(np.float64), np.dtype(np.int64))
"""Types that NumPy gives numbers which have none: beside an array they take the array's, where no value changes."""

_Binary: TypeAlias = "Callable[[Array, Any], Any]"


def _binary(name: str) -> _Binary:
    """An operator: a function of the standard, of the array and another operand."""

    def method(self: Array, other: Any, /) -> Any:
        operand = _operand(self, other, name)
        return operand if operand is NotImplemented else getattr(self.functions, name)(self, operand)

    return method


def _reflected(name: str) -> _Binary:
    """The same with the other operand in front."""

    def method(self: Array, other: Any, /) -> Any:
        operand = _operand(self, other, name)
        return operand if operand is NotImplemented else getattr(self.functions, name)(operand, self)

    return method


def _in_place(name: str) -> _Binary:
    function = _binary(name)

    def method(self: Array, other: Any, /) -> Any:
        made = function(self, other)
        if made is NotImplemented:
            return made
        if made.shape != self.shape or made.dtype != self.dtype:
            raise InvalidArgumentError(
                f"{name}: in place, {self.dtype.name} {list(self.shape)} cannot become {made.dtype.name} "
                f"{list(made.shape)}"
            )
        return self._become(made)

    return method


def _unary(name: str) -> Callable[[Array], Array]:
    def method(self: Array, /) -> Array:
        made: Array = getattr(self.functions, name)(self)
        return made

    return method


def _operand(array: Array, other: Any, where: str) -> Any:
    """The other operand: numbers and arrays as they are; NumPy's arrays and lists as an array on the device.

    What has one of NumPy's default types takes this array's, where no value changes. Arrays of other libraries are
    asked themselves (``NotImplemented``), and so is whatever is compared for equality.

    Raises:
        DataTypeError: when it is no operand.
        InvalidArgumentError: when it is a list that is no array, or a value would change.
    """
    if isinstance(other, (Array, bool, int, float, complex, np.generic)):
        return other
    if isinstance(other, (np.ndarray, list, tuple)):
        values = plain_array(other, where)
        if values.dtype in _NUMPY_DEFAULTS and values.dtype != array.dtype:
            values = converted(values, array.dtype, where)
        return array.device.array(values)
    if where in ("equal", "not_equal") or hasattr(other, "__array_priority__") or hasattr(other, "__array_ufunc__"):
        return NotImplemented
    raise DataTypeError(f"{where}: takes arrays, numbers and lists of them; got {other!r}")


class Array:
    """Elements on a device: the array of the array API standard, with NumPy's operators, slices and conversions.

    Made by ``Device.array``, ``Device.empty``, ``Device.run(…, keep=True)`` and the functions of
    :mod:`dmlvk.array_api`. ``Device.run`` and ONNX sessions read it where it is; ``numpy.asarray(array)`` and
    :meth:`numpy` copy it to the host.

    Element-wise operations are computed when their elements are needed, several at once. ``x[key] = value`` and
    ``x += y`` give this array new elements: others that were made from it, by slices too, keep theirs. Only what a run
    writes to an array by ``out`` changes its memory, and with it the arrays that are views of it: parts, ``reshape``,
    ``transpose`` and ``T``, where strides of 0 and more can say them.

    The memory is freed, or kept for the next array, when nobody refers to the array and its views any more;
    :meth:`close` and the end of a ``with`` block free it at once, and so does closing the device.

    Attributes:
        device: where the elements are, a ``dmlvk.Device``.
        dtype: NumPy's type of the elements; bool of comparisons.
        shape: sizes along 0 to 8 axes, any of which may be 0.
        namespace: gives :mod:`dmlvk.array_api`, whose functions make arrays and so stand above: told by the package.
    """

    __array_priority__ = 1000  # NumPy's arrays and numbers on the left leave the operator to this class
    __hash__ = object.__hash__

    namespace: ClassVar[Callable[[], types.ModuleType]]

    def __init__(self, device: Device, dtype: np.dtype[Any], shape: Shape, value: Value | None) -> None:
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self._value = value
        if value is not None:
            value.handles += 1

    @classmethod
    def of(cls, memory: TensorMemory, dtype: np.dtype[Any] | None = None, shape: Shape | None = None) -> Array:
        """The array of a tensor in memory, which is not copied.

        Args:
            memory: where the elements are.
            dtype: their type, if it is bool.
            shape: the array's, if it has no axis.
        """
        made = memory.shape if shape is None else shape
        value = Value(memory.device, memory.data_type, made, memory)
        return cls(memory.device, memory.dtype if dtype is None else dtype, made, value)

    def __del__(self) -> None:
        value = getattr(self, "_value", None)
        if value is not None:
            value.handles -= 1

    def __reduce__(self) -> NoReturn:
        refuse_pickling("Array", "pickle its values: array.numpy()")

    def __copy__(self) -> Array:
        if self._value is None:
            return self.same()
        return Array.of(self.device.arrays.moved(self.memory()), self.dtype, self.shape)

    def __deepcopy__(self, _memory: object) -> Array:
        return self.__copy__()

    def same(self) -> Array:
        """Another array of the same elements, which are not copied."""
        return Array(self.device, self.dtype, self.shape, self._value)

    @property
    def functions(self) -> Any:
        """:mod:`dmlvk.array_api`."""
        return type(self).namespace()

    # What it is.

    @property
    def data_type(self) -> DataType:
        """DirectML's type of the elements; UINT8 of bool."""
        return DataType(self.dtype) if self._value is None else self._value.data_type

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, of which two of a 4-bit type share one."""
        return self.data_type.bytes_of(self.size)

    @property
    def value(self) -> Value:
        """The elements, of which there must be some, perhaps not computed yet."""
        assert self._value is not None, self.shape  # callers have looked for empty axes
        return self._value

    @property
    def is_pending(self) -> bool:
        """Whether the elements still have to be computed."""
        return self._value is not None and self._value.is_pending

    def __repr__(self) -> str:
        if self.is_closed:
            return f"{self.text} (closed)"
        return f"Array({np.array2string(self.numpy(), separator=', ', threshold=20)}, dtype={self.dtype.name})"

    @property
    def text(self) -> str:
        """What messages call the array: its type, shape and device, for which no element is computed."""
        name = "BOOL" if self.dtype == np.bool_ else self.data_type.name
        return f"<dmlvk.Array {name} {list(self.shape)} on {self.device.info.name}>"

    # Its memory.

    def memory(self) -> TensorMemory:
        """Where the elements are, computed now if they were not yet; (1,) where there is no axis; bool as UINT8.

        Raises:
            InvalidArgumentError: when there are no elements.
        """
        if self._value is None:
            raise InvalidArgumentError(f"{self.text} has no elements, and tensors have some")
        return self._value.memory()

    def device_array(self) -> Array:
        """The array itself: what graphs and models take."""
        return self

    @property
    def tensor(self) -> TensorDesc:
        """Data type, sizes and strides (in elements) in memory."""
        return self.memory().tensor

    @property
    def offset(self) -> int:
        """Of the first element in its memory, in bytes."""
        return self.memory().offset

    @property
    def storage(self) -> Storage:
        """The memory, which views share."""
        return self.memory().storage

    @property
    def is_closed(self) -> bool:
        """Whether the memory was freed, by :meth:`close` or with the device."""
        if self._value is None or self._value.is_pending:
            return self.device.engine.is_closed
        return self._value.memory().is_closed

    def close(self) -> None:
        """Frees the memory, also that of views. Closing twice is allowed; any other use afterwards raises."""
        if self._value is not None and not (self.is_pending and self.device.engine.is_closed):
            self._value.memory().storage.close()

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Waits until the elements are computed; :meth:`numpy` does so itself.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """
        if self._value is not None:
            self._value.memory().wait()

    # What other libraries take.

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements in main memory, in C order; waits for what computes them.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """
        if self._value is None:
            return np.empty(self.shape, self.dtype)
        return self._value.memory().numpy().reshape(self.shape).view(self.dtype)

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """For NumPy: :meth:`numpy`, converted where another type is asked for."""
        if copy is False:
            raise CopyError(f"{self.text} cannot become a NumPy array without a copy: it is in the device's memory")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Main memory: other libraries cannot reach what a Vulkan device has, and get a copy."""
        return (_DLPACK_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """For other libraries, as the array API standard has it: a copy in main memory.

        Raises:
            CopyError: without a copy, by a stream, for another device, or of elements that DLPack does not have.
        """
        if self.data_type.size_in_bits < 8:
            raise CopyError(f"{self.text}: DLPack has no elements of {self.data_type.name}")
        if copy is False:
            raise CopyError(f"{self.text} is in the device's memory: other libraries get a copy")
        if stream is not None:
            raise CopyError(f"{self.text}: main memory has no streams; got stream={stream!r}")
        if dl_device not in (None, self.__dlpack_device__(), [*self.__dlpack_device__()]):
            raise CopyError(f"{self.text} can be copied to main memory (1, 0); got dl_device={dl_device!r}")
        array: Any = self.numpy()
        try:
            return array.__dlpack__(max_version=max_version)
        except TypeError:  # a NumPy before 2.1
            return array.__dlpack__()

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        """:mod:`dmlvk.array_api`.

        Raises:
            InvalidArgumentError: another version than 2024.12 or one before it is asked for.
        """
        if api_version not in _VERSIONS:
            raise InvalidArgumentError(f"__array_namespace__: has version {VERSION}; got {api_version!r}")
        return type(self).namespace()

    def to_device(self, device: Device, /, *, stream: None = None) -> Array:
        """The array on a device; the same one where it is there already, else a copy through main memory.

        Raises:
            InvalidArgumentError: streams are asked for, of which dmlvk has none.
        """
        if stream is not None:
            raise InvalidArgumentError(f"{self.text}.to_device: there are no streams; got {stream!r}")
        if self.functions.array.checked_device(device, "to_device") is self.device:
            return self
        made: Array = self.functions.asarray(self.numpy(), device=device)
        return made

    # One element.

    def item(self) -> Any:
        """The only element as a number of Python; waits for what computes it.

        Raises:
            DataTypeError: there are more, or none.
        """
        return self._number("is no number")

    def tolist(self) -> Any:
        """The elements in nested lists."""
        return self.numpy().tolist()

    def _number(self, what: str) -> Any:
        if self.size != 1:
            raise DataTypeError(f"{self.text} {what}: it has {self.size} elements; numpy() gives them")
        return self.numpy().item()

    def __bool__(self) -> bool:
        return bool(self._number("has no truth value"))

    def __float__(self) -> float:
        return float(self._number("is no number"))

    def __int__(self) -> int:
        return int(self._number("is no number"))

    def __complex__(self) -> complex:
        return complex(self._number("is no number"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise DataTypeError(f"{self.text} is no index: it must be an integer without axes")
        return int(self._number("is no index"))

    # Parts and shapes.

    def __len__(self) -> int:
        if not self.shape:
            raise DataTypeError(f"{self.text} has no length: it has no axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise DataTypeError(f"{self.text} cannot be iterated over: it has no axis")
        return (self[number] for number in range(self.shape[0]))

    def __getitem__(self, key: Any, /) -> Array:
        """Elements by integers, slices, ``...``, ``None``, integer arrays, or one boolean array.

        Raises:
            InvalidArgumentError: it is another index.
            IndexError: it lies outside.
        """
        made: Array = self.functions.indexing.item_of(self, key)
        return made

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """New elements where an index says; other arrays keep theirs.

        Raises:
            InvalidArgumentError: it is another index, or the value does not broadcast to what it names.
            IndexError: it lies outside.
        """
        self._become(self.functions.indexing.with_item(self, key, _operand(self, value, "x[key] = value")))

    def _become(self, other: Array) -> Array:
        old, self._value = self._value, other._value
        if self._value is not None:
            self._value.handles += 1
        if old is not None:
            old.handles -= 1
        return self

    def reshape(self, *sizes: int | Sequence[int]) -> Array:
        """The same elements in another shape, given as integers or as one sequence of them; one size may be -1.

        Raises:
            InvalidArgumentError: when the number of elements differs.
        """
        made: Array = self.functions.reshape(self, sizes[0] if len(sizes) == 1 else sizes)
        return made

    def transpose(self, *axes: int | Sequence[int]) -> Array:
        """The axes in another order, given as integers or as one sequence of them; without any in the opposite one.

        Raises:
            InvalidArgumentError: when ``axes`` is no permutation.
        """
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
        made: Array = self.functions.permute_dims(self, order or range(self.ndim)[::-1])
        return made

    @property
    def T(self) -> Array:
        """The axes in the opposite order."""
        return self.transpose()

    @property
    def mT(self) -> Array:
        """The last two axes exchanged.

        Raises:
            InvalidArgumentError: when there are fewer.
        """
        made: Array = self.functions.matrix_transpose(self)
        return made

    # Operators.

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __eq__ = _binary("equal")  # an array, as in NumPy
    __ne__ = _binary("not_equal")  # an array, as in NumPy
    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder"), _reflected("remainder"), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _binary("pow"), _reflected("pow"), _in_place("pow")
    __matmul__, __rmatmul__, __imatmul__ = _binary("matmul"), _reflected("matmul"), _in_place("matmul")
    __and__, __rand__, __iand__ = _binary("bitwise_and"), _reflected("bitwise_and"), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or"), _reflected("bitwise_or"), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor"), _reflected("bitwise_xor"), _in_place("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _reflected("bitwise_left_shift")
    __ilshift__ = _in_place("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _reflected("bitwise_right_shift")
    __irshift__ = _in_place("bitwise_right_shift")

    def __divmod__(self, other: Any, /) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Array, Array]:
        return other // self, other % self
