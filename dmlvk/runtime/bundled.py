"""Kompute with dmlvk's changes, by the names of ``kp``: a library in C beside this file, called by ctypes.

One library serves every Python of a system. ``scripts/build_kompute.py`` builds it, and wheels carry it. It has what
dmlvk calls of Kompute, and no more; ``scripts/native/kompute_library.cpp`` states the functions.

Calls that compile, submit or wait let other threads run meanwhile; all others are over before another thread runs.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
from collections import abc
from ctypes import c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.runtime.kompute_choice import LIBRARY
from dmlvk.runtime.vulkan.loader import get_instance_proc_addr

VERSION = 1  # Of the library's functions; another one's is not called

_MEMORY = 2

_ordinary, _waiting = ctypes.PyDLL(str(LIBRARY)), ctypes.CDLL(str(LIBRARY))


def _function(name: str, result: Any, *arguments: Any, library: ctypes.CDLL = _ordinary) -> Any:
    function = library[f"dmlvk_{name}"]
    function.restype, function.argtypes = result, arguments
    return function


if (_found := _function("version", c_int)()) != VERSION:
    raise ImportError(
        f"{LIBRARY} has version {_found} of its functions, not {VERSION}: scripts/build_kompute.py builds it"
    )

COPIES_PARTS = hasattr(_ordinary, "dmlvk_copy")
"""Whether the library has :func:`copy_of_part`: one that was built before it came does without."""

_method = ctypes.pythonapi.PyInstanceMethod_New
_method.restype, _method.argtypes = ctypes.py_object, (ctypes.py_object,)


def _frees(name: str) -> Any:
    """A method that calls a function of the library without a line of Python, between which a signal would come."""
    return _method(_function(name, None, c_void_p))


class _Handle(c_void_p):
    """Something that the library has made, and frees with the last reference to it.

    No signal's handler comes in between: ctypes makes it of what the library returns, and what frees it is in C, too.
    """

    __hash__ = object.__hash__  # of which c_void_p has none


class TensorTypes(enum.IntEnum):
    """Which memory a tensor has: the device's own with a copy for the host, the host's, or the device's alone."""

    device = 0
    host = 1
    storage = 2


class Tensor(_Handle):
    """Memory of the device, in 32-bit words."""

    __del__ = _frees("free_tensor")

    def data(self) -> npt.NDArray[np.uint32]:
        """The host's side, which lives as long as the array that is returned."""
        return np.asarray(_HostSide(self))

    def is_init(self) -> bool:
        return bool(_tensor_is_init(self))

    def create_staging(self) -> None:
        _check(_tensor_create_staging(self))

    def destroy_staging(self) -> None:
        """Frees the host's copy."""
        _check(_tensor_destroy_staging(self))

    def destroy(self) -> None:
        _check(_tensor_destroy(self))


class _HostSide:
    """What NumPy makes an array of that keeps the tensor. (Of a handle itself it would take the pointer.)"""

    def __init__(self, tensor: Tensor) -> None:
        address = _tensor_data(tensor)
        if not address:
            _raise()
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3, "shape": (_tensor_size(tensor),), "typestr": "<u4", "data": (address, False)
        }  # fmt: skip


class Algorithm(_Handle):
    """A compiled shader, bound to tensors, with a number of work groups."""

    __del__ = _frees("free_algorithm")

    def destroy(self) -> None:
        _check(_algorithm_destroy(self))


class Operation(_Handle):
    """What is recorded: a copy, a barrier, a dispatch."""

    __del__ = _frees("free_operation")


class Sequence(_Handle):
    """Operations that are recorded, submitted, and waited for."""

    __del__ = _frees("free_sequence")

    def record(self, operation: Operation) -> Sequence:
        if _record(self, operation):
            _raise()
        return self

    def eval(self) -> Sequence:
        """Submits everything, and waits."""
        if _eval(self):
            _raise()
        return self

    def eval_async(self) -> Sequence:
        if _eval_async(self):
            _raise()
        return self

    def eval_await(self, nanoseconds: int = 2**64 - 1) -> Sequence:
        """Waits for what was submitted."""
        if _eval_await(self, nanoseconds):
            _raise()
        return self

    def is_running(self) -> bool:
        """Whether something was submitted and not waited for."""
        return bool(_is_running(self))

    def get_timestamps(self) -> list[int]:
        """When each operation had ended, in ticks of the device's clock; the first is when the first began."""
        count = c_uint32(0)
        _check(_timestamps(self, None, ctypes.byref(count)))
        ticks = (c_uint64 * count.value)()
        _check(_timestamps(self, ticks, ctypes.byref(count)))
        return list(ticks)

    def destroy(self) -> None:
        _check(_sequence_destroy(self))


class Manager(_Handle):
    """A device that is open, and all that is made on it.

    Args:
        device: its place in Vulkan's list.
        family_queue_indices: queue families, each of which gets a queue; Kompute's choice where there are none.
        desired_extensions: names of device extensions, of which those that the device lacks are left out.
    """

    def __new__(
        cls, device: int = 0, family_queue_indices: abc.Sequence[int] = (), desired_extensions: abc.Sequence[str] = ()
    ) -> Manager:
        families = (c_uint32 * len(family_queue_indices))(*family_queue_indices)
        extensions = (c_char_p * len(desired_extensions))(*(name.encode() for name in desired_extensions))
        _check(_open(get_instance_proc_addr()))
        made: Manager = _manager(device, families, len(families), extensions, len(extensions)) or _raise()
        return made

    def __init__(self, *_: object) -> None:
        """Nothing: the library has made it."""

    __del__ = _frees("free_manager")

    def destroy(self) -> None:
        """Frees everything that was made on the device, and closes it."""
        _check(_manager_destroy(self))

    def clear(self) -> None:
        _check(_manager_clear(self))

    def device_names(self) -> list[str]:
        """Of all devices, in Kompute's order."""
        names = itertools.takewhile(bool, (_device_name(self, number) for number in itertools.count()))
        return [name.decode(errors="replace") for name in names]

    def sequence(self, queue_index: int = 0, total_timestamps: int = 0) -> Sequence:
        """A new sequence; with room for timestamps where some are asked for."""
        made: Sequence = _sequence(self, queue_index, total_timestamps) or _raise()
        return made

    def tensor_t(self, data: npt.NDArray[np.uint32], tensor_type: TensorTypes = TensorTypes.device) -> Tensor:
        """A tensor whose host's side has these words."""
        flat = np.ascontiguousarray(data, np.uint32)
        made: Tensor = _tensor(self, flat.ctypes.data, flat.size, tensor_type) or _raise()
        return made

    def device_tensor(self, words: int, tensor_type: TensorTypes = TensorTypes.device) -> Tensor:
        """A tensor that nobody has written; one of the device's own memory without a host's side."""
        made: Tensor = _tensor(self, None, words, tensor_type) or _raise()
        return made

    def algorithm(
        self,
        tensors: abc.Sequence[Tensor],
        spirv: bytes,
        workgroup: abc.Sequence[int],
        spec_consts: npt.NDArray[np.uint32],
        push_consts: npt.NDArray[np.uint32],
    ) -> Algorithm:
        """A shader, compiled with specialization constants; of the push constants only the number counts."""
        constants, push = spec_consts.tobytes(), push_consts.tobytes()
        bound, groups = (c_void_p * len(tensors))(*tensors), (c_uint32 * 3)(*workgroup)
        made: Algorithm = (
            _algorithm(self, bound, len(tensors), spirv, len(spirv), groups, constants, len(constants), push, len(push))
            or _raise()
        )
        return made

    def algorithms(
        self,
        tensors: abc.Sequence[abc.Sequence[Tensor]],
        spirv: abc.Sequence[bytes],
        workgroups: abc.Sequence[abc.Sequence[int]],
        spec_consts: abc.Sequence[abc.Sequence[int]],
        push_consts: abc.Sequence[abc.Sequence[int]],
    ) -> list[Algorithm]:
        """Several, compiled side by side."""
        parts = tuple(zip(tensors, spirv, spec_consts, push_consts, strict=True))
        counts = [len(part) for each in parts for part in each]
        bound = list(itertools.chain(*tensors))
        made = (Algorithm * len(parts))()
        _check(
            _algorithms(
                self,
                len(parts),
                (c_size_t * len(counts))(*counts),
                (c_void_p * len(bound))(*bound),
                (c_char_p * len(parts))(*spirv),
                _words(workgroups),
                _words(spec_consts),
                _words(push_consts),
                made,
            )
        )
        return list(made)

    def algorithm_like(
        self, other: Algorithm, tensors: abc.Sequence[Tensor], workgroup: abc.Sequence[int]
    ) -> Algorithm:
        """A shader that is compiled already, bound to other tensors, with another number of work groups."""
        count = len(tensors)
        made: Algorithm = _algorithm_like(self, other, (c_void_p * count)(*tensors), count, *workgroup) or _raise()
        return made


def OpTensorSyncDevice(tensors: abc.Sequence[Tensor]) -> Operation:
    """Copies of the hosts' sides to the device."""
    made: Operation = _upload((c_void_p * len(tensors))(*tensors), len(tensors)) or _raise()
    return made


def OpTensorSyncLocal(tensors: abc.Sequence[Tensor]) -> Operation:
    """Copies of the device's sides to the host."""
    made: Operation = _download((c_void_p * len(tensors))(*tensors), len(tensors)) or _raise()
    return made


def copy_of_part(source: Tensor, target: Tensor, offset: int, size: int) -> Operation:
    """A copy of so many bytes, from the first one of a tensor's memory to a place in another one's."""
    made: Operation = _copy(source, target, offset, size) or _raise()
    return made


def OpMemoryBarrier(tensors: abc.Sequence[Tensor], to_host: bool = False, of_transfers: bool = False) -> Operation:
    """What makes later dispatches, or the host, see what earlier dispatches, or copies, have written."""
    count = len(tensors)
    made: Operation = _barrier((c_void_p * count)(*tensors), count, to_host, of_transfers) or _raise()
    return made


class OpAlgoDispatch(Operation):
    """A dispatch that waits for the copies before it."""

    def __new__(cls, algorithm: Algorithm, push_consts: npt.NDArray[np.uint32]) -> OpAlgoDispatch:
        push = push_consts.tobytes()
        made: OpAlgoDispatch = _dispatch(algorithm, push, len(push), 1) or _raise()
        return made

    def __init__(self, *_: object) -> None:
        """Nothing: the library has made it."""


def unordered_dispatch(algorithm: Algorithm, push_consts: npt.NDArray[np.uint32]) -> OpAlgoDispatch:
    """A dispatch that waits for nothing."""
    push = push_consts.tobytes()
    made: OpAlgoDispatch = _dispatch(algorithm, push, len(push), 0) or _raise()
    return made


enabled_features = (
    "shaderFloat16", "shaderInt8", "shaderIntegerDotProduct", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope",
    "cooperativeMatrix", "shaderBFloat16Type", "shaderBFloat16CooperativeMatrix",
)  # fmt: skip
"""Vulkan's names of the optional features with which a device is opened where it has them."""


def _raise() -> Any:
    """Raises what the last call of this thread has met.

    Raises:
        MemoryError: the host's memory is exhausted.
        RuntimeError: anything else.
    """
    kind = c_int()
    message = _error(ctypes.byref(kind)).decode(errors="replace")
    raise (MemoryError if kind.value == _MEMORY else RuntimeError)(message)


def _check(status: int) -> None:
    if status:
        _raise()


def _words(lists: abc.Iterable[abc.Sequence[int]]) -> ctypes.Array[c_uint32]:
    words = list(itertools.chain.from_iterable(lists))
    return (c_uint32 * len(words))(*words)


_error = _function("error", c_char_p, c_void_p)
_open = _function("open", c_int, c_void_p)
_manager = _function("manager", Manager, c_uint32, c_void_p, c_uint32, c_void_p, c_uint32)
_manager_destroy = _function("manager_destroy", c_int, c_void_p)
_manager_clear = _function("manager_clear", c_int, c_void_p)
_device_name = _function("device_name", c_char_p, c_void_p, c_uint32)
_sequence = _function("sequence", Sequence, c_void_p, c_uint32, c_uint32)
_sequence_destroy = _function("sequence_destroy", c_int, c_void_p)
_tensor = _function("tensor", Tensor, c_void_p, c_void_p, c_uint32, c_int)
_tensor_data = _function("tensor_data", c_void_p, c_void_p)
_tensor_is_init = _function("tensor_is_init", c_int, c_void_p)
_tensor_size = _function("tensor_size", c_uint32, c_void_p)
_tensor_create_staging = _function("tensor_create_staging", c_int, c_void_p)
_tensor_destroy_staging = _function("tensor_destroy_staging", c_int, c_void_p)
_tensor_destroy = _function("tensor_destroy", c_int, c_void_p)
_algorithm = _function(
    "algorithm", Algorithm, c_void_p, c_void_p, c_uint32, c_char_p, c_size_t, c_void_p, c_char_p, c_size_t, c_char_p,
    c_size_t,
)  # fmt: skip
_algorithms = _function(
    "algorithms", c_int, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    library=_waiting,
)  # fmt: skip
_algorithm_like = _function(
    "algorithm_like", Algorithm, c_void_p, c_void_p, c_void_p, c_uint32, c_uint32, c_uint32, c_uint32
)
_algorithm_destroy = _function("algorithm_destroy", c_int, c_void_p)
_upload = _function("upload", Operation, c_void_p, c_uint32)
_download = _function("download", Operation, c_void_p, c_uint32)
if COPIES_PARTS:
    _copy = _function("copy", Operation, c_void_p, c_void_p, c_uint64, c_uint64)
_barrier = _function("barrier", Operation, c_void_p, c_uint32, c_int, c_int)
_dispatch = _function("dispatch", OpAlgoDispatch, c_void_p, c_char_p, c_size_t, c_int)
_record = _function("record", c_int, c_void_p, c_void_p)
_eval = _function("eval", c_int, c_void_p, library=_waiting)
_eval_async = _function("eval_async", c_int, c_void_p)
_eval_await = _function("eval_await", c_int, c_void_p, c_uint64, library=_waiting)
_is_running = _function("is_running", c_int, c_void_p)
_timestamps = _function("timestamps", c_int, c_void_p, c_void_p, c_void_p)
