"""onnxruntime-genai on any Vulkan device: ``import dmlvk.onnxruntime.genai``.

onnxruntime-genai keeps caches on the device for providers that it knows by name, and in memory of the host for all
others. So dmlvk stands in for the one that runs on any GPU there: models whose ``genai_config.json`` names the provider
``webgpu``, or ``Config.append_provider("webgpu")``, run by dmlvk.
"""

from __future__ import annotations

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

try:
    _genai.register_execution_provider_library(STANDS_IN_FOR, library_path())
except Exception as _error:
    raise DmlError(" ".join(f"dmlvk.onnxruntime.genai: {_error}".split())) from _error

__all__ = ["STANDS_IN_FOR"]
