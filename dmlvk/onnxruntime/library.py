"""The library that ONNX Runtime loads, and what Python does for it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dmlvk.errors import DmlError, UnsupportedError
from dmlvk.onnxruntime.building import NAME, built

_LONGEST_WAIT = 60.0  # Seconds that the interpreter's end waits for runs in other threads

_LEAVING = 1.0  # Seconds that it waits for threads that have computed and are still there: daemons

_P, _I, _S = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p

_PYTHON = (
    *("PyGILState_Ensure", "PyGILState_Release", "PyThread_get_thread_ident", "PyTuple_New", "PyTuple_SetItem"),
    *("PyLong_FromLongLong", "PyLong_AsLongLong", "PyObject_CallObject", "Py_DecRef", "PyErr_Fetch", "PyErr_Restore"),
    *("PyErr_WriteUnraisable", "PyErr_CheckSignals", "Py_AddPendingCall"),
)
"""What python.h calls of Python's C API, in the order of ``Callbacks`` in structures.h."""

FUNCTIONS = (
    *("devices", "create_ep", "release_ep", "capability", "compile", "release_program", "compute", "allocate", "free"),
    *("copy", "start_profiling", "end_profiling"),
)
"""What Python does for provider.c, in the order of ``DMLVK_PYTHON_FUNCTIONS`` in structures.h."""


class _Callbacks(ctypes.Structure):
    """What provider.c knows of Python."""

    _fields_ = (
        *(("name", _S), ("vendor", _S), ("version", _S)),
        ("python", _P * len(_PYTHON)),
        ("functions", _P * len(FUNCTIONS)),
    )


class ProviderLibrary:
    """The library, loaded into this process.

    Raises:
        UnsupportedError: when it cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # PyDLL: calls of a microsecond, from functions that ONNX Runtime has called, need not let others run.
            self._native = ctypes.PyDLL(os.fspath(path))
        except OSError as error:
            raise UnsupportedError(f"dmlvk.onnxruntime: {path} cannot be loaded: {error}") from error
        self._native.dmlvk_function.restype = _P
        self._native.dmlvk_function.argtypes = [_P, _S]
        self._native.dmlvk_detach.restype = _I
        self._native.dmlvk_factory_vendor.restype = ctypes.c_uint32
        self._native.dmlvk_factory_vendor.argtypes = [_P]
        # asks ONNX Runtime for outputs' memory; ``dmlvk_outputs`` of provider.c
        self.outputs: Any = self._native.dmlvk_outputs
        self.outputs.restype = _P
        self.outputs.argtypes = [_P, _P, _I, _I, _P, _P]
        # calls a function without arguments, and gives signals that come meanwhile to Python when it is over; what
        # their handlers raise is raised instead of returning
        self.hold_signals: Any = self._native.dmlvk_hold_signals
        self.hold_signals.restype = ctypes.py_object
        self.hold_signals.argtypes = [ctypes.py_object]
        self._native.dmlvk_watch.restype = None
        self._native.dmlvk_watch.argtypes = [ctypes.c_ulong, _P]
        self._callbacks: list[object] = []
        self._handler = 0
        self.threads: set[int] = set()  # the identities of threads that have computed

    @property
    def vendor_id(self) -> int:
        """By which dmlvk's memory is told from that of others."""
        return int(self._native.dmlvk_vendor_id())

    @property
    def abi_version(self) -> int:
        """The version of ONNX Runtime's interface that it is written for."""
        return int(self._native.dmlvk_abi_version())

    def attach(self, name: str, vendor: str, version: str, functions: Mapping[str, Callable[..., int]]) -> None:
        """Sets what it calls, until the interpreter ends.

        Args:
            functions: by the names of :data:`FUNCTIONS`; what they raise is raised in the program.
        """
        called = [functions[key] for key in FUNCTIONS]
        made = _Callbacks(
            *(name.encode(), vendor.encode(), version.encode()),
            (_P * len(_PYTHON))(*(ctypes.cast(getattr(ctypes.pythonapi, key), _P).value for key in _PYTHON)),
            (_P * len(FUNCTIONS))(*(id(function) for function in called)),
        )
        self._callbacks += [made, called]  # they stay: an interrupt may come before or after the library has them
        self.watch_signals()
        self._native.dmlvk_attach(ctypes.byref(made))
        atexit.register(self._detach)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.watch_signals)

    def watch_signals(self) -> None:
        """Lets it know which thread is the main one, and how the system calls Python for a signal.

        Python has one function for all signals, and sets it with the first handler of a program: as a rule, its own
        for SIGINT.
        """
        if not self._handler:
            handled = (number for number in signal.valid_signals() if callable(signal.getsignal(number)))
            self._handler = next((_python_handler(number) for number in handled), 0)
        self._native.dmlvk_watch(threading.main_thread().ident or 0, self._handler)

    def memory_vendor(self, factory: int) -> int:
        """The vendor that ONNX Runtime is told of a factory's memory; 0 where it stands in for another provider."""
        return int(self._native.dmlvk_factory_vendor(factory))

    def function(self, factory: int, name: str) -> int:
        """The address of one of ONNX Runtime's functions, as the factory's ONNX Runtime has it."""
        address = self._native.dmlvk_function(factory, name.encode())
        if not address:
            raise DmlError(f"abi.h declares no function {name} of ONNX Runtime's")
        return int(address)

    def _detach(self) -> None:
        """Takes Python's functions away before Python ends; waits for runs in other threads.

        A thread that comes back into Python when that is no more ends the process: those that have computed are given
        time to learn from a refused run that it is over.
        """
        until = time.monotonic() + _LONGEST_WAIT
        while self._native.dmlvk_detach() and time.monotonic() < until:
            time.sleep(0.01)
        self.threads.discard(threading.get_ident())
        until = time.monotonic() + _LEAVING
        while time.monotonic() < until and any(thread.ident in self.threads for thread in threading.enumerate()):
            time.sleep(0.01)


def _python_handler(number: int) -> int:
    """Where the function lies that the system calls for a signal that Python handles."""
    function = ctypes.PYFUNCTYPE(_P, ctypes.c_int)(("PyOS_getsig", ctypes.pythonapi))
    return int(function(number) or 0)


@functools.cache
def library() -> ProviderLibrary:
    """The library: the one that came with this package, or one built from its source by the machine's C compiler.

    Raises:
        UnsupportedError: when there is none, and it cannot be built.
    """
    shipped = Path(__file__).parent / NAME
    return ProviderLibrary(shipped if shipped.is_file() else built())
