"""Sessions that the tests of ONNX Runtime's provider share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

from dmlvk.bench.onnx_models import WIDTH
from dmlvk.onnxruntime import PROVIDER

BOTH = [PROVIDER, "CPUExecutionProvider"]


def session_of(
    model: onnx.ModelProto | str, *, log_severity: int = 4, profile: str = "", **options: Any
) -> onnxruntime.InferenceSession:
    """A session with the provider first, that never tries again without it."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = log_severity
    made.enable_profiling, made.profile_file_prefix = bool(profile), profile
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, made, providers=[(PROVIDER, options), "CPUExecutionProvider"])
    assert session.get_providers() == BOTH
    session.disable_fallback()
    return session


def parts_of(session: onnxruntime.InferenceSession) -> list[list[str]]:
    """The operators of each part that the device has."""
    parts = session.get_provider_graph_assignment_info()
    return [[node.op_type for node in part.get_nodes()] for part in parts if part.ep_name == PROVIDER]


def alone(model: onnx.ModelProto | str) -> onnxruntime.InferenceSession:
    """A session of the CPU provider."""
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])


def inputs(batch: int, seed: int = 0) -> dict[str, Any]:
    """For models that read x."""
    return {"x": np.random.default_rng(seed).normal(size=(batch, WIDTH)).astype(np.float32)}
