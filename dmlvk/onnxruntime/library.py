"""The library that ONNX Runtime loads: where it is, or how it is built from its source, and what Python does for it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dmlvk.errors import DmlError, UnsupportedError
from dmlvk.support.caches import user_cache

SOURCES = Path(__file__).parent / "native"

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

NAME = f"dmlvk_onnxruntime{_SUFFIX}"
"""The library's file; a wheel for a platform has it beside this module."""

_LONGEST_WAIT = 60.0
"""Seconds that the interpreter's end waits for runs in other threads."""

_LEAVING = 1.0
"""Seconds that it waits for threads that have computed and are still there: daemons."""

_P, _I, _S = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p

_SIGNATURES: dict[str, tuple[Any, ...]] = {  # the result first; the order is that of Callbacks in structures.h
    "devices": (_P, _P, _P, _I, _P, _I, _P),
    "create_ep": (_P, _P, _P, _I, _P, _P, _P),
    "release_ep": (_P, _I),
    "capability": (_P, _I, _P, _P),
    "compile": (_P, _I, _P, _P, _P),
    "release_program": (_P, _I),
    "compute": (_P, _I, _P, _P, _I),
    "allocate": (_I, _I),
    "free": (None, _I),
    "copy": (_P, _P, _I, _I, _I, _I),
    "start_profiling": (_P, _I, _I, _I),
    "end_profiling": (_P, _I, _I, _P),
}

_TYPES = {name: ctypes.CFUNCTYPE(*signature) for name, signature in _SIGNATURES.items()}


class _Callbacks(ctypes.Structure):
    """What provider.c calls."""

    _fields_ = (("name", _S), ("vendor", _S), ("version", _S), *_TYPES.items())


class ProviderLibrary:
    """The library, loaded into this process.

    Args:
        path: of its file.

    Attributes:
        outputs: asks ONNX Runtime for outputs' memory; ``dmlvk_outputs`` of provider.c.
        threads: the identities of threads that have computed.

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
        self.outputs: Any = self._native.dmlvk_outputs
        self.outputs.restype = _P
        self.outputs.argtypes = [_P, _P, _I, _I, _P, _P]
        self._callbacks: _Callbacks | None = None
        self.threads: set[int] = set()

    @property
    def vendor_id(self) -> int:
        """By which dmlvk's memory is told from that of others."""
        return int(self._native.dmlvk_vendor_id())

    @property
    def abi_version(self) -> int:
        """The version of ONNX Runtime's interface that it is written for."""
        return int(self._native.dmlvk_abi_version())

    def attach(self, name: str, vendor: str, version: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Sets what it calls, until the interpreter ends.

        Args:
            name: the provider's.
            vendor: who made it.
            version: its version.
            functions: by the names of ``Callbacks`` in structures.h.
        """
        made = {key: _TYPES[key](functions[key]) for key in _TYPES}
        self._callbacks = _Callbacks(name.encode(), vendor.encode(), version.encode(), **made)
        self._native.dmlvk_attach(ctypes.byref(self._callbacks))
        atexit.register(self._detach)

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


@functools.cache
def library() -> ProviderLibrary:
    """The library: the one that came with this package, or one built from its source by the machine's C compiler.

    Raises:
        UnsupportedError: when there is none, and it cannot be built.
    """
    shipped = Path(__file__).parent / NAME
    return ProviderLibrary(shipped if shipped.is_file() else _built())


def _built() -> Path:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    folder = user_cache("onnxruntime") or Path(tempfile.mkdtemp(prefix="dmlvk-onnxruntime-"))
    target = folder / digest.hexdigest()[:16] / NAME
    if not target.is_file():
        compile_library(target)
    return target


def compile_library(target: Path) -> None:
    """Builds the library.

    Args:
        target: its file; put there in one step.

    Raises:
        UnsupportedError: when there is no C compiler, or it refuses.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise UnsupportedError(
            "dmlvk.onnxruntime: this installation of dmlvk has no library for ONNX Runtime, and there is no C compiler "
            "to build it: install the wheel for this platform, or a compiler (Debian, Ubuntu: apt install gcc)"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{NAME}.{os.getpid()}.tmp")
    command = [compiler, "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", str(temporary)]
    try:
        done = subprocess.run([*command, str(SOURCES / "provider.c")], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UnsupportedError(f"dmlvk.onnxruntime: {compiler} cannot build {NAME}: {done.stderr.strip()}")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


__all__ = ["NAME", "ProviderLibrary", "compile_library", "library"]
