"""onnxruntime-genai on any Vulkan device: ``import dmlvk.onnxruntime.genai``.

onnxruntime-genai keeps caches on the device for providers that it knows by name, and in memory of the host for all
others. So dmlvk stands in for the one that runs on any GPU there: models whose ``genai_config.json`` names the provider
``webgpu``, or ``Config.append_provider("webgpu")``, run by dmlvk.
"""

from __future__ import annotations

import ctypes
from typing import Any

try:
    import onnxruntime_genai as _genai
except ImportError as _error:
    raise ImportError(
        "dmlvk.onnxruntime.genai needs the package onnxruntime-genai: pip install onnxruntime-genai"
    ) from _error

from dmlvk.errors import DmlError
from dmlvk.onnxruntime import library_path

STANDS_IN_FOR = "WebGpuExecutionProvider"
"""The provider whose place dmlvk takes in onnxruntime-genai; of its options none is looked at."""

_SHORT = "webgpu"  # What configurations call it

try:
    _genai.register_execution_provider_library(STANDS_IN_FOR, library_path())
except Exception as _error:
    raise DmlError(" ".join(f"dmlvk.onnxruntime.genai: {_error}".split())) from _error


def _stay() -> None:
    """Keeps onnxruntime-genai from taking providers' memory away while the interpreter ends.

    It does so when its module is cleared. Generators that a program has in a cycle are collected after that, and free
    their caches there.
    """
    cleanup = getattr(_genai.onnxruntime_genai, "_cleanup", None)
    if cleanup is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(cleanup))


_stay()


def take_models() -> None:
    """Lets every ``Config`` and ``Model`` that is made from now on run by dmlvk; providers that are named are not used.

    Twice changes nothing.
    """
    if hasattr(_genai.Config, "takes_dmlvk"):
        return
    config: Any = _genai.Config
    model: Any = _genai.Model

    class Config(config):  # type: ignore[misc]  # a class of C++
        takes_dmlvk = True

        def __init__(self, path: str) -> None:
            super().__init__(path)
            self.clear_providers()

        def clear_providers(self) -> None:
            super().clear_providers()
            super().append_provider(_SHORT)

        def append_provider(self, provider: str) -> None:
            """Nothing: dmlvk's is there."""

        def set_provider_option(self, provider: str, name: str, value: str) -> None:
            """Nothing: another provider's."""

    class Model(model):  # type: ignore[misc]  # a class of C++
        def __init__(self, config: Any) -> None:
            super().__init__(config if isinstance(config, Config) else Config(config))

    _genai.Config, _genai.Model = Config, Model
