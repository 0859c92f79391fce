"""ONNX Runtime's functions as Python calls them: by name, with their statuses as errors."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from dmlvk.errors import DmlError
from dmlvk.onnx.nodes.values import NUMPY_TYPES
from dmlvk.onnxruntime.library import ProviderLibrary

_P, _I, _I32, _S = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p
_SIZE, _U32 = ctypes.c_size_t, ctypes.c_uint32

_PATH: Any = ctypes.c_wchar_p if sys.platform == "win32" else _S  # ORTCHAR_T: characters of a file's name

_STATUS = "status"

_USUAL = (_STATUS, _P, _P)  # of an object, what is given through the last argument

_RELEASES = (None, _P)

_SIGNATURES: dict[str, tuple[Any, ...]] = {  # of other functions, the result first
    "CreateStatus": (_P, _I32, _S),
    "GetErrorMessage": (_S, _P),
    "GetDimensions": (_STATUS, _P, _P, _SIZE),
    "GetSymbolicDimensions": (_STATUS, _P, _P, _SIZE),
    "Logger_LogMessage": (_STATUS, _P, _I32, _S, _PATH, _I32, _S),
    "ReadOpAttr": (_STATUS, _P, _I32, _P, _SIZE, _P),
    "CreateKeyValuePairs": (None, _P),
    "AddKeyValuePair": (None, _P, _S, _S),
    "GetKeyValuePairs": (None, _P, _P, _P, _P),
    "HardwareDevice_Type": (_I32, _P),
    "HardwareDevice_VendorId": (_U32, _P),
    "HardwareDevice_DeviceId": (_U32, _P),
    "CreateMemoryInfo_V2": (_STATUS, _S, _I32, _U32, _I32, _I32, _SIZE, _I32, _P),
    "Graph_GetOperatorSets": (_STATUS, _P, _P, _P, _SIZE),
    "ExternalInitializerInfo_GetFilePath": (_PATH, _P),
    "ExternalInitializerInfo_GetFileOffset": (_I, _P),
    "ExternalInitializerInfo_GetByteSize": (_SIZE, _P),
    "TensorTypeAndShape_HasShape": (ctypes.c_bool, _P),
    "CreateEpDevice": (_STATUS, _P, _P, _P, _P, _P),
    "EpGraphSupportInfo_AddNodesToFuse": (_STATUS, _P, _P, _SIZE, _P),
    "Value_GetMemoryDevice": (_P, _P),
    "MemoryInfo_GetMemoryDevice": (_P, _P),
    "MemoryDevice_GetDeviceType": (_I32, _P),
    "MemoryDevice_GetVendorId": (_U32, _P),
    "MemoryDevice_GetDeviceId": (_U32, _P),
    "CreateProfilingEvent": (_STATUS, _I32, _I32, _I32, _S, _I, _I, _P, _P, _SIZE, _P),
    "ProfilingEventsContainer_AddEvents": (_STATUS, _P, _P, _SIZE),
    "CreateHardwareDevice": (_STATUS, _I32, _U32, _U32, _S, _P, _P),
}

for _owner, _what in (
    ("Graph", ("Inputs", "Outputs", "Initializers", "Nodes")),
    ("Node", ("Inputs", "Outputs", "ImplicitInputs", "Attributes")),
):
    for _name in _what:
        _SIGNATURES[f"{_owner}_Get{_name}"] = (_STATUS, _P, _P, _SIZE)

WARNING, INFO, VERBOSE = 2, 1, 0
"""OrtLoggingLevel."""

EP_FAIL = 11  # OrtErrorCode

GPU = 1  # OrtHardwareDeviceType, and OrtMemoryInfoDeviceType


class Api:
    """The functions of one ONNX Runtime: a process may have several, onnxruntime-genai's beside onnxruntime's.

    Args:
        factory: what that ONNX Runtime was given.
    """

    def __init__(self, library: ProviderLibrary, factory: int) -> None:
        self.factory = factory
        self._library = library
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function.

        Raises:
            DmlError: with ONNX Runtime's words, where the function returns a status.
        """
        function, is_status = self.function(name)
        result = function(*arguments)
        if is_status and result:
            message = self.call("GetErrorMessage", result) or b""
            self.call("ReleaseStatus", result)
            raise DmlError(f"ONNX Runtime: {name}: {message.decode(errors='replace')}")
        return result

    def function(self, name: str) -> Any:
        """A function, and whether it returns a status."""
        found = self._functions.get(name)
        if found is None:
            result, *arguments = _SIGNATURES.get(name, _RELEASES if name.startswith("Release") else _USUAL)
            prototype = ctypes.PYFUNCTYPE(_P if result is _STATUS else result, *arguments)
            found = (prototype(self._library.function(self.factory, name)), result is _STATUS)
            self._functions[name] = found
        return found

    # What functions give through their last argument.

    def pointer(self, name: str, *arguments: Any) -> int | None:
        found = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(found))
        return found.value

    def text(self, name: str, *arguments: Any) -> str:
        found = ctypes.c_char_p()
        self.call(name, *arguments, ctypes.byref(found))
        return (found.value or b"").decode()

    def path(self, name: str, *arguments: Any) -> str:
        found = _PATH()
        self.call(name, *arguments, ctypes.byref(found))
        return as_text(found.value)

    def integer(self, name: str, *arguments: Any) -> int:
        """An integer of at most 64 bits."""
        found = ctypes.c_int64()  # zeros behind a smaller one: all machines that Vulkan is on are little-endian
        self.call(name, *arguments, ctypes.byref(found))
        return found.value

    def pointers(self, owner: str, what: str, thing: int) -> list[int]:
        """``Graph_GetNumNodes`` and ``Graph_GetNodes``, say: an array; missing things are 0."""
        count = self.integer(f"{owner}_GetNum{what}", thing)
        found = (ctypes.c_void_p * count)()
        if count:
            self.call(f"{owner}_Get{what}", thing, found, count)
        return [pointer or 0 for pointer in found]

    # Statuses and logs.

    def failure(self, message: str, code: int = EP_FAIL) -> int:
        """A status that says what went wrong."""
        return int(self.call("CreateStatus", code, message.encode()))

    def log(self, logger: int, severity: int, message: str) -> None:
        """A line in ONNX Runtime's log."""
        if severity >= self.integer("Logger_GetLoggingSeverityLevel", logger):
            where: Any = "dmlvk" if sys.platform == "win32" else b"dmlvk"
            self.call("Logger_LogMessage", logger, severity, message.encode(), where, 0, b"dmlvk.onnxruntime")

    # Pairs of keys and values.

    def pairs(self, pairs: int) -> dict[str, str]:
        keys, values, count = ctypes.POINTER(_S)(), ctypes.POINTER(_S)(), ctypes.c_size_t()
        self.call("GetKeyValuePairs", pairs, ctypes.byref(keys), ctypes.byref(values), ctypes.byref(count))
        return {(keys[i] or b"").decode(): (values[i] or b"").decode() for i in range(count.value)}

    def made_pairs(self, items: Iterable[tuple[str, str]]) -> int:
        """New ones, for the caller to release."""
        made = ctypes.c_void_p()
        self.call("CreateKeyValuePairs", ctypes.byref(made))
        for key, value in items:
            self.call("AddKeyValuePair", made, key.encode(), value.encode())
        assert made.value is not None
        return made.value

    # Tensors.

    def shape_of(self, info: int) -> tuple[int, tuple[int | str | None, ...] | None]:
        """Element type and shape of an OrtTensorTypeAndShapeInfo; ``None`` for what is not known."""
        element = self.integer("GetTensorElementType", info)
        if not self.call("TensorTypeAndShape_HasShape", info):
            return element, None
        rank = self.integer("GetDimensionsCount", info)
        sizes, names = (ctypes.c_int64 * rank)(), (ctypes.c_char_p * rank)()
        if rank:
            self.call("GetDimensions", info, sizes, rank)
            self.call("GetSymbolicDimensions", info, names, rank)
        return element, tuple(
            size if size >= 0 else (name or b"").decode() or None for size, name in zip(sizes, names, strict=True)
        )

    def contents(self, value: int) -> npt.NDArray[Any]:
        """A copy of what a tensor on the host holds, with onnx's types for those that NumPy lacks."""
        info = self.pointer("GetTensorTypeAndShape", value)
        assert info is not None
        try:
            element, shape = self.shape_of(info)
        finally:
            self.call("ReleaseTensorTypeAndShapeInfo", info)
        assert shape is not None
        sizes = [int(size) for size in shape if isinstance(size, int)]
        if element == TensorProto.STRING:
            raise DmlError("texts are not read")
        data = self.pointer("GetTensorData", value)
        return array_of(element, sizes, ctypes.string_at(data or 0, self.integer("GetTensorSizeInBytes", value)))


def as_text(given: bytes | str | None) -> str:
    """A file's name as ONNX Runtime has it: of wide characters on Windows."""
    return given.decode() if isinstance(given, bytes) else given or ""


def array_of(element: int, shape: Sequence[int], contents: Any) -> npt.NDArray[Any]:
    """An array of the bytes of a tensor, which it shares where elements have whole bytes."""
    dtype = NUMPY_TYPES.get(element)
    if dtype is None:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    count = math.prod(shape)
    if element in (TensorProto.INT4, TensorProto.UINT4):
        packed = np.frombuffer(contents, np.uint8)
        halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:count]
        if element == TensorProto.INT4:
            halves = ((halves ^ 8).astype(np.int8) - 8).astype(np.int8)
        typed: npt.NDArray[Any] = halves.astype(dtype).reshape(shape)
        return typed
    return np.frombuffer(contents, dtype, count).reshape(shape)
