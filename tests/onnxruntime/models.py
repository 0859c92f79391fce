"""Small models and sessions that the tests of ONNX Runtime's provider share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from dmlvk.onnxruntime import PROVIDER
from tests.onnx import models

WIDTH = 48

WEIGHTS = {
    f"w{n}": np.random.default_rng(n).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for n in range(2)
}

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
    parts = session.get_provider_graph_assignment_info()
    return [[node.op_type for node in part.get_nodes()] for part in parts if part.ep_name == PROVIDER]


def alone(model: onnx.ModelProto | str) -> onnxruntime.InferenceSession:
    """A session of the CPU provider."""
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])


def inputs(batch: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(batch, WIDTH)).astype(np.float32)}


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model with FLOAT inputs of these shapes, INT64 ones where a shape is in a set."""
    elements = {
        name: TensorProto.INT64 if isinstance(shape, frozenset) else TensorProto.FLOAT for name, shape in inputs.items()
    }
    kinds = {name: (elements[name], list(shape)) for name, shape in inputs.items()}
    made = models.model(nodes, kinds, dict.fromkeys(outputs, TensorProto.FLOAT), WEIGHTS)
    made.functions.extend(functions)
    return made


def chain(batch: int | str = "batch") -> onnx.ModelProto:
    """Two products with something between them: a graph that the device has whole."""
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w1"], ["c"], name="second"),
            helper.make_node("Softmax", ["c"], ["y"]),
        ],
        {"x": [batch, WIDTH]},
        ["y"],
    )
