"""ONNX Runtime on any Vulkan device: its sessions, unchanged, compute with dmlvk::

    import onnxruntime
    import dmlvk.onnxruntime        # registers DmlVkExecutionProvider

    session = onnxruntime.InferenceSession("model.onnx", providers=["DmlVkExecutionProvider", "CPUExecutionProvider"])

Needs the packages onnx and onnxruntime 1.24 or newer: ``pip install dmlvk[onnxruntime]``. It works inside of Python
alone: programs in C#, C++ and so on cannot use it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

try:
    import onnx as _onnx
    import onnxruntime as _onnxruntime
    from onnxruntime.capi import _pybind_state, onnxruntime_pybind11_state
except ImportError as _error:  # pragma: no cover - the tests have them
    raise ImportError(
        "dmlvk.onnxruntime needs the packages onnx and onnxruntime: pip install dmlvk[onnxruntime]"
    ) from _error

import dmlvk
from dmlvk.errors import DmlError, UnsupportedError
from dmlvk.onnxruntime.library import library
from dmlvk.onnxruntime.memory import Traffic
from dmlvk.onnxruntime.provider import OPTIONS, PROVIDER, Provider

assert _onnx

REGISTRATION = "dmlvk"
"""The name under which the library is registered with ONNX Runtime."""

_lock = threading.Lock()
_registered: list[str] = []


@functools.cache
def _provider() -> Provider:
    """What the library calls; there is one in a process."""
    provider = Provider(library())
    library().attach(PROVIDER, "dmlvk", dmlvk.__version__, provider.functions())
    return provider


def library_path() -> str:
    """The file of the library, ready to be registered with another ONNX Runtime of this process.

    onnxruntime-genai has one of its own: ``onnxruntime_genai.register_execution_provider_library("dmlvk",
    dmlvk.onnxruntime.library_path())``.

    Raises:
        UnsupportedError: when there is no library, and no C compiler to build it.
    """
    _provider()
    return os.fspath(library().path)


def register() -> None:
    """Registers the provider with ONNX Runtime; importing this package has done so. Twice changes nothing.

    Raises:
        UnsupportedError: when ONNX Runtime is older than 1.24, or there is no library, and no C compiler to build it.
        DmlError: with ONNX Runtime's words, when it refuses.
    """
    with _lock:
        if _registered:
            return
        path = library_path()
        if not hasattr(_onnxruntime, "register_execution_provider_library"):
            raise UnsupportedError(_too_old())
        try:
            _onnxruntime.register_execution_provider_library(REGISTRATION, path)
        except Exception as error:
            raise UnsupportedError(" ".join(f"dmlvk.onnxruntime: {error}".split())) from error
        _registered.append(REGISTRATION)
        _list_first()
        _hold_signals()


def _list_first() -> None:
    """Lets ``onnxruntime.get_available_providers()`` list dmlvk's before all others.

    That list goes by priority, as ONNX Runtime documents it, and programs make sessions with all of it; ONNX Runtime
    itself puts what is registered behind its CPU provider, which leaves nothing to those behind it.
    """
    listed: Any = _onnxruntime.get_available_providers
    if hasattr(listed, "lists_dmlvk"):
        return

    def get_available_providers() -> list[str]:
        """Available execution providers, in the order of their priority."""
        return sorted(listed(), key=lambda name: name != PROVIDER)

    get_available_providers.lists_dmlvk = True  # type: ignore[attr-defined]
    for module in (_onnxruntime, _pybind_state, onnxruntime_pybind11_state):
        vars(module)["get_available_providers"] = get_available_providers


def _hold_signals() -> None:
    """Lets signals wait while ``onnxruntime.InferenceSession`` makes a session, as they do while it runs.

    What their handlers raise is raised when the session is made. ONNX Runtime's own constructor takes a ValueError or
    RuntimeError, whoever raises it, for a provider that fails, and makes a session without the provider.
    """
    session: Any = _onnxruntime.InferenceSession
    made: Callable[..., None] = session.__init__
    if hasattr(made, "holds_signals"):
        return

    @functools.wraps(made)
    def make(self: Any, *arguments: Any, **more: Any) -> None:
        library().watch_signals()  # a program may have set its first handler since
        library().hold_signals(functools.partial(made, self, *arguments, **more))

    make.holds_signals = True  # type: ignore[attr-defined]
    session.__init__ = make


def unregister() -> None:
    """Takes the provider away from ONNX Runtime; sessions that use it stay as they are.

    Raises:
        DmlError: with ONNX Runtime's words, when it refuses.
    """
    with _lock:
        if not _registered:
            return
        try:
            _onnxruntime.unregister_execution_provider_library(REGISTRATION)
        except Exception as error:
            raise DmlError(" ".join(f"dmlvk.onnxruntime: {error}".split())) from error
        _registered.clear()


def devices() -> list[Any]:
    """The provider's devices, as ``onnxruntime.get_ep_devices()`` lists them."""
    return [device for device in _onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def traffic() -> Traffic:
    """Bytes that went between the host and devices so far."""
    return dataclasses.replace(_provider().memory.traffic)


def memory_blocks() -> int:
    """How many blocks of the devices' memory ONNX Runtime has."""
    return _provider().memory.count


def _too_old() -> str:
    return (
        f"dmlvk.onnxruntime: its execution provider is written for version {library().abi_version} of ONNX Runtime's "
        f"interface and those that extend it: ONNX Runtime {_onnxruntime.__version__} does not have that; install "
        f"onnxruntime>=1.{library().abi_version}"
    )


register()

VENDOR_ID = library().vendor_id
"""By which ONNX Runtime tells memory of dmlvk's devices from that of others.

``OrtValue.ortvalue_from_numpy(array, "gpu", index, VENDOR_ID)`` puts a value there."""

__all__ = [
    "OPTIONS", "PROVIDER", "REGISTRATION", "VENDOR_ID", "Traffic", "devices", "library_path", "memory_blocks",
    "register", "traffic", "unregister",
]  # fmt: skip
