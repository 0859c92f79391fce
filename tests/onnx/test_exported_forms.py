"""What PyTorch's exporters write out as several nodes is joined and right, in the very graphs that they write.

``python -m tests.torch.exported_forms`` wrote these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.models import on_host
from tests.onnx.test_joining import joined_nodes

onnxruntime = pytest.importorskip("onnxruntime")

FORMS = sorted(Path(__file__).with_name("exported_forms").glob("*.txt"))
"""Graphs by both exporters, named after the form, the exporter, and what nodes are joined to."""

ERRORS = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3}
"""Of the largest element, by the type of the input: ONNX Runtime computes FLOAT16 in FLOAT32, too, with other sums."""


def with_weights(text: str) -> onnx.ModelProto:
    """A model from a text that only declares its weights."""
    random = np.random.default_rng(0)
    model = onnx.parser.parse_model(text)
    written = {name for node in model.graph.node for name in node.output}
    for info in model.graph.value_info:
        if info.name not in written:
            shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            weight = np.asarray(0.5 + random.random(shape)).astype(dtype)
            model.graph.initializer.append(numpy_helper.from_array(weight, info.name))
    model.graph.ClearField("value_info")
    return model


def test_both_exporters_are_there_for_every_form() -> None:
    names = {path.name.split(".")[0] for path in FORMS}
    assert len(FORMS) == 2 * len(names) >= 24


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name.rpartition(".")[0].rpartition(".")[0])
def test_an_exported_form_is_joined_and_right(any_device: dml.Device, path: Path) -> None:
    model = with_weights(path.read_text())
    source = model.graph.input[0].type.tensor_type
    sizes = [dimension.dim_value for dimension in source.shape.dim]
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(source.elem_type))
    session = ort.InferenceSession(model, device=any_device)
    reference = onnxruntime.InferenceSession(model.SerializeToString())
    for batch in (2,) if sizes[0] else (2, 3):
        x = np.random.default_rng(batch).standard_normal((batch, *sizes[1:])).astype(dtype)
        (expected,) = reference.run(None, {"x": x})
        (got,) = session.run(None, {"x": x})
        assert got.dtype == expected.dtype
        largest = float(np.abs(expected.astype(np.float64)).max())
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=ERRORS[dtype] * largest)
    assert joined_nodes(session) == {path.name.split(".")[2]}
    assert not on_host(session)
