"""Values that a program holds by ONNX Runtime's names: on the host or on the device, bound to inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from dmlvk.arrays.array import Array as DeviceArray
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from dmlvk.onnx.nodes.values import DATA_TYPES, NUMPY_TYPES, Array, element_name, element_of, numpy_type
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.support import faults
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.onnx.api.options import RunOptions
    from dmlvk.onnx.api.session import InferenceSession

_HOST = "cpu"
_DEVICE = "dml"


class OrtValue:
    """A value that a session takes or gives: on the host, or on the device, where it is read in place.

    One that is made for the device goes to that of the first session that takes it, and stays there.
    """

    def __init__(self, value: Any, element: int | None, *, is_on_device: bool = False) -> None:
        self._value = value
        self._element = element
        self._is_on_device = is_on_device or isinstance(value, DeviceValue)

    # How they are made.

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: npt.ArrayLike, device_type: str = _HOST, device_id: int = 0) -> OrtValue:
        """A value of an array; on the host it shares the array's memory.

        Args:
            numpy_obj: the array.
            device_type: ``"cpu"``; all others mean the device of the session that takes it.
            device_id: accepted for ONNX Runtime's sake.
        """
        array = np.asarray(numpy_obj)
        return cls(array, _element_of_any(array), is_on_device=_is_device(device_type))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: npt.NDArray[Any], onnx_element_type: int) -> OrtValue:
        """A value of an array whose elements are those of a type of ONNX of the same width: bits of BFLOAT16, say."""
        array = np.asarray(data)
        wanted = numpy_type(onnx_element_type)
        if array.dtype.itemsize != wanted.itemsize:
            raise InvalidArgumentError(f"OrtValue: elements of {array.dtype} are not as wide as those of {wanted}")
        return cls(array.view(wanted), onnx_element_type)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: npt.DTypeLike | int, device_type: str = _HOST, device_id: int = 0
    ) -> OrtValue:
        """A value of zeros.

        Args:
            shape: its sizes.
            element_type: of NumPy, or a number of ``onnx.TensorProto``.
            device_type: as for :meth:`ortvalue_from_numpy`.
            device_id: likewise.

        Raises:
            InvalidArgumentError: when there is no such value.
            OutOfMemoryError: when it does not fit into the host's memory.
        """
        sizes = checked_integers(shape, "OrtValue: shape", 0)
        try:
            dtype = numpy_type(element_type) if isinstance(element_type, int) else np.dtype(element_type)
            zeros = np.zeros(tuple(sizes), dtype)
        except MemoryError as error:
            raise OutOfMemoryError(f"OrtValue: {sizes} elements of {dtype}: {error}") from error
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidArgumentError(f"OrtValue: {sizes} elements of {element_type!r}: {error}") from error
        return cls.ortvalue_from_numpy(zeros, device_type, device_id)

    @classmethod
    def ortvalue_from_array(cls, array: DeviceArray) -> OrtValue:
        """A value of an array that lies on the device, which it shares. dmlvk's own.

        Raises:
            UnsupportedError: when ONNX has no such element type here (UINT4, INT4).
        """
        element = next((e for e, data_type in DATA_TYPES.items() if data_type is array.data_type), None)
        if element is None or array.data_type.size_in_bits < 8:
            raise UnsupportedError(f"OrtValue: takes no {array.text}")
        if not array.size:
            return cls(array.numpy(), element, is_on_device=True)
        return cls(DeviceValue(element, array.shape, array.memory()), element)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value of what another library has on the host.

        Raises:
            InvalidArgumentError: it is no array that gives itself by DLPack.
            UnsupportedError: NumPy cannot take it: it lies elsewhere, or has a type such as bfloat16.
        """
        if isinstance(data, type) or not (hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__")):
            raise InvalidArgumentError(
                f"OrtValue.from_dlpack: takes arrays with __dlpack__ and __dlpack_device__; got {type(data).__name__}"
            )
        try:
            array = np.from_dlpack(data)
        except Exception as error:  # of another library: what it says of its array, in its own words
            faults.raise_of_handler(error)
            raise UnsupportedError(
                f"OrtValue.from_dlpack: {type(data).__name__} does not give its elements: {error}"
            ) from error
        return cls.ortvalue_from_numpy(array)

    # What it is.

    def numpy(self) -> Any:
        """The contents as an array; those of a device are copied."""
        return self._value.array() if isinstance(self._value, DeviceValue) else self._value

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> Array:
        """For NumPy."""
        array = np.asarray(self.numpy(), dtype)
        return array.copy() if copy and not isinstance(self._value, DeviceValue) else array

    def __dlpack__(self, **options: Any) -> Any:
        """For other libraries: a value on the device is copied to the host."""
        return np.asarray(self.numpy()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"<dmlvk.onnx.OrtValue {self.data_type()} {list(self.shape())} on {self.device_name()}>"

    def array(self) -> DeviceArray | None:
        """The array on the device, which shares the value's memory; ``None`` for a value on the host. dmlvk's own."""
        if not isinstance(self._value, DeviceValue):
            return None
        return DeviceArray.of(self._value.on_device, NUMPY_TYPES[self._value.element], self._value.shape)

    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self._value.shape if isinstance(self._value, DeviceValue) else np.shape(self._value))

    def element_type(self) -> int:
        """A number of ``onnx.TensorProto``."""
        return TensorProto.UNDEFINED if self._element is None else self._element

    def data_type(self) -> str:
        """``"tensor(float)"`` and so on."""
        return type_name(helper.make_tensor_type_proto(self.element_type(), None))

    def device_name(self) -> str:
        """``"dml"`` or ``"cpu"``."""
        return _DEVICE if self._is_on_device else _HOST

    def tensor_size_in_bytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape()) * numpy_type(self.element_type()).itemsize

    def data_ptr(self) -> int:
        """The address of the first element.

        Raises:
            UnsupportedError: for a value on the device, whose memory has no address on the host.
        """
        if self._is_on_device:
            raise UnsupportedError("OrtValue.data_ptr: memory of the device has no address; numpy() copies it")
        return int(self._value.ctypes.data)

    def has_value(self) -> bool:
        """Whether it is not an optional without value."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, (DeviceValue, np.ndarray))

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """False: sparse tensors become dense ones here."""
        return False

    def update_inplace(self, np_arr: npt.ArrayLike) -> None:
        """Other contents of the same shape and type.

        Raises:
            InvalidArgumentError: when they are not.
        """
        array = np.asarray(np_arr)
        if list(array.shape) != self.shape() or _element_of_any(array) != self._element:
            raise InvalidArgumentError(
                f"OrtValue.update_inplace: needs {self.data_type()} {self.shape()}; got {array.dtype} "
                f"{list(array.shape)}"
            )
        there = self._value.on_device if isinstance(self._value, DeviceValue) else None
        if there is not None and there.fits(TensorDesc(there.data_type, there.shape)):
            there.device.arrays.overwrite(there, array.reshape(there.shape).view(there.dtype))
        elif isinstance(self._value, np.ndarray) and not self._is_on_device:
            np.copyto(self._value, array)
        else:
            self._value = array.copy()  # goes to the device when a session takes it

    # What sessions do with it.

    def taken(self, device: Device) -> Any:
        """What a session on a device computes with.

        Raises:
            InvalidArgumentError: when it lies on another device.
        """
        if isinstance(self._value, DeviceValue):
            if self._value.on_device.device is not device:
                check_device(self._value.on_device, device)
            return self._value
        can_stay = self._is_on_device and isinstance(self._value, np.ndarray) and self._value.size > 0
        if can_stay and self._element in DATA_TYPES and DATA_TYPES[self._element].size_in_bits >= 8:
            self._value = DeviceValue(self._element, self._value.shape, device.array(self._value).memory())
        return self._value

    def fill(self, result: OrtValue) -> None:
        """Takes over a result.

        Raises:
            InvalidArgumentError: when it has another type or shape.
        """
        if self._value is result._value:
            return
        if self._element != result._element or self.shape() != result.shape():
            raise InvalidArgumentError(
                f"the bound OrtValue is {self.data_type()} {self.shape()}; the output is {result.data_type()} "
                f"{result.shape()}"
            )
        if self._is_on_device or not isinstance(self._value, np.ndarray):
            self._value = result._value
        else:
            np.copyto(self._value, result.numpy())


class IOBinding:
    """What a session reads and writes in ``run_with_iobinding``. Made by ``InferenceSession.io_binding``."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | str] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: npt.ArrayLike) -> None:
        """An array of the host as an input.

        Raises:
            InvalidArgumentError: when the model has no such input.
        """
        self._session.check_input(name)
        self._inputs[name] = np.asarray(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """A value as an input.

        Raises:
            InvalidArgumentError: when the model has no such input, or it is no OrtValue.
        """
        self._session.check_input(name)
        _check_value(ortvalue, f"IOBinding.bind_ortvalue_input: {name!r}")
        self._inputs[name] = ortvalue

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Not there: an address of memory says nothing about memory of this device.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"IOBinding.bind_input: bind {name!r} as an OrtValue: dmlvk takes no addresses")

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """A value of the output's type and shape, which takes the result.

        Raises:
            InvalidArgumentError: when the model has no such output, or it is no OrtValue.
        """
        self._session.check_output(name)
        _check_value(ortvalue, f"IOBinding.bind_ortvalue_output: {name!r}")
        self._outputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = _HOST,
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Where an output is to lie: on the host, or (every other ``device_type``) on the device.

        Raises:
            UnsupportedError: when an address is given.
            InvalidArgumentError: when the model has no such output.
        """
        self._session.check_output(name)
        if buffer_ptr is not None:
            raise UnsupportedError(f"IOBinding.bind_output: bind {name!r} as an OrtValue: dmlvk takes no addresses")
        self._outputs[name] = device_type

    def synchronize_inputs(self) -> None:
        """Nothing: a run waits for what computes its inputs."""

    def synchronize_outputs(self) -> None:
        """Waits until the outputs are computed."""
        for value in self._results:
            if isinstance(value._value, DeviceValue):
                value._value.on_device.wait()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The same as arrays."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs."""
        self._outputs.clear()
        self._results = []

    def run(self, run_options: RunOptions | None = None) -> None:
        """Runs the session on what is bound."""
        if not self._outputs:
            self._results = []
            raise InvalidArgumentError("IOBinding: no output is bound; bind_output and bind_ortvalue_output bind them")
        names, kept, targets = list(self._outputs), [], {}
        for name, target in self._outputs.items():
            if isinstance(target, OrtValue):
                targets[name] = target
            if target._is_on_device if isinstance(target, OrtValue) else _is_device(target):
                kept.append(name)
        results = self._session.run_where_it_is(names, self._inputs, kept, targets)
        for index, name in enumerate(names):
            if name in targets:
                targets[name].fill(results[index])
                results[index] = targets[name]
        self._results = results


def _check_value(value: object, where: str) -> None:
    if not isinstance(value, OrtValue):
        raise InvalidArgumentError(f"{where}: must be an OrtValue; got {value!r}")


def value_of(result: Any, element: int | None, *, is_on_device: bool = False) -> OrtValue:
    """A result of a run as a value."""
    if isinstance(result, DeviceValue):
        return OrtValue(result, result.element)
    found = _element_of_any(result) if isinstance(result, np.ndarray) else element
    return OrtValue(result, found, is_on_device=is_on_device)


def type_name(kind: onnx.TypeProto) -> str:
    """``"tensor(float)"``, ``"seq(tensor(int64))"`` and so on, as ONNX Runtime has it."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        names: dict[int, str] = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double"}
        element = kind.tensor_type.elem_type
        return f"tensor({names.get(element, element_name(element).lower())})"
    if which == "sequence_type":
        return f"seq({type_name(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_name(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = element_name(kind.map_type.key_type).lower()
        return f"map({key},{type_name(kind.map_type.value_type)})"
    if which == "sparse_tensor_type":
        return f"sparse_{type_name(helper.make_tensor_type_proto(kind.sparse_tensor_type.elem_type, None))}"
    return "tensor"  # a model need not say what its outputs are


def check_device(array: TensorMemory, device: Device) -> None:
    """Refuses an array of another device.

    Raises:
        InvalidArgumentError: when it is.
    """
    if array.device is not device:
        raise InvalidArgumentError(f"{array!r} lies on another device than the session's: {device!r}")


def run_inputs(feed: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Inputs as a session computes with them: arrays of the host, and what lies on the device."""
    taken: dict[str, Any] = {}
    for name in feed:
        value = feed[name]
        if isinstance(value, OrtValue):
            value = value.taken(device)
        elif isinstance(value, DeviceArray):
            value = OrtValue.ortvalue_from_array(value).taken(device)
        taken[name] = value
    return taken


def _is_device(device_type: str) -> bool:
    return device_type.lower() != _HOST


def _element_of_any(array: Array) -> int | None:
    """The ONNX type of an array's elements, also one that the device does not have."""
    known = element_of(array)
    if known is not None:
        return known
    if array.dtype.kind in "OUS":
        return int(TensorProto.STRING)
    try:
        return int(helper.np_dtype_to_tensor_dtype(array.dtype))
    except (ValueError, KeyError):
        return None
