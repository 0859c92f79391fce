"""Caches that a model joins by itself, outside of attention operators: few plans for all lengths, on the device too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort

Array = npt.NDArray[Any]

_HEADS, _SIZE, _BATCH = 2, 8, 2
_HIDDEN = _HEADS * _SIZE
_CACHES = ("past_key", "past_value")
_OUTPUTS = ["y", "present_key", "present_value"]
_PARTS = (5, *[1] * 18, 3, 1)


def _attention(kind: str) -> list[onnx.NodeProto]:
    """From ``q``, ``present_key``, ``present_value`` and ``bias`` to ``y``."""
    node = helper.make_node
    if kind == "MultiHeadAttention":
        flat = [
            part
            for name in ("present_key", "present_value")
            for part in (
                node("Transpose", [name], [f"{name} turned"], perm=[0, 2, 1, 3]),
                node("Reshape", [f"{name} turned", "flat"], [f"{name} flat"]),
            )
        ]
        given = ["q", "present_key flat", "present_value flat", "", "", "bias"]
        return [*flat, node(kind, given, ["y"], domain="com.microsoft", num_heads=_HEADS)]
    return [
        node("Reshape", ["q", "split"], ["q split"]),
        node("Transpose", ["q split"], ["queries"], perm=[0, 2, 1, 3]),
        node("Transpose", ["present_key"], ["keys"], perm=[0, 1, 3, 2]),
        node("MatMul", ["queries", "keys"], ["products"]),
        node("Mul", ["products", "factor"], ["scores"]),
        node("Add", ["scores", "bias"], ["masked"]),
        node("Softmax", ["masked"], ["weights"], axis=-1),
        node("MatMul", ["weights", "present_value"], ["mixed"]),
        node("Transpose", ["mixed"], ["mixed turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["mixed turned", "flat"], ["y"]),
    ]


def _model(kind: str) -> onnx.ModelProto:
    """Keys and values joined by Concat; the bias is ALiBi's: products of slopes and distances, of FLOAT32."""
    node = helper.make_node
    nodes = []
    for name in ("key", "value"):
        nodes += [
            node("Reshape", [name, "split"], [f"{name} split"]),
            node("Transpose", [f"{name} split"], [f"new {name}"], perm=[0, 2, 1, 3]),
            node("Concat", [f"past_{name}", f"new {name}"], [f"present_{name}"], axis=2),
        ]
    nodes += [
        node("Shape", ["present_key"], ["shape"]),
        node("Gather", ["shape", "two"], ["all"], axis=0),
        node("Shape", ["past_key"], ["past shape"]),
        node("Gather", ["past shape", "two"], ["past"], axis=0),
        node("Range", ["past", "all", "one"], ["rows"]),
        node("Range", ["zero", "all", "one"], ["columns"]),
        node("Unsqueeze", ["rows", "last"], ["standing"]),
        node("Sub", ["columns", "standing"], ["signed"]),
        node("Cast", ["signed"], ["distances"], to=TensorProto.FLOAT),
        node("Mul", ["distances", "slopes"], ["sloped"]),
        node("Greater", ["signed", "zero"], ["behind"]),
        node("Where", ["behind", "low", "sloped"], ["bias"]),
        *_attention(kind),
    ]
    constants: dict[str, Array] = {
        "split": np.array([0, 0, _HEADS, _SIZE]),
        "flat": np.array([0, 0, _HIDDEN]),
        "factor": np.array(_SIZE**-0.5, np.float32),
        "slopes": np.array([0.5, 0.25], np.float32).reshape(1, _HEADS, 1, 1),
        "low": np.array(-1e9, np.float32),
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "last": np.array([1]),
    }
    read = {name for each in nodes for name in each.input}
    inputs = [
        *(
            helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", "new", _HIDDEN])
            for n in ("q", "key", "value")
        ),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", _HEADS, "old", _SIZE]) for n in _CACHES),
    ]
    graph = helper.make_graph(
        nodes,
        "joined caches",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in _OUTPUTS],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items() if name in read],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def _fed(step: int, new: int) -> dict[str, Array]:
    random = np.random.default_rng(step)
    return {name: random.standard_normal((_BATCH, new, _HIDDEN)).astype(np.float32) for name in ("q", "key", "value")}


def _steps(session: Any) -> list[list[Array]]:
    """The outputs of every step, by arrays of the host."""
    caches: dict[str, Array] = {name: np.zeros((_BATCH, _HEADS, 0, _SIZE), np.float32) for name in _CACHES}
    made = []
    for step, new in enumerate(_PARTS):
        made.append(session.run(None, _fed(step, new) | caches))
        caches = dict(zip(_CACHES, made[-1][1:], strict=True))
    return made


def _steps_on_device(session: ort.InferenceSession) -> list[list[Array]]:
    """The same by values that stay on the device, which are read when all is done."""
    empty = np.zeros((_BATCH, _HEADS, 0, _SIZE), np.float32)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(empty) for name in _CACHES}
    made = []
    for step, new in enumerate(_PARTS):
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(step, new).items()}
        made.append(session.run_with_ort_values(None, fed | caches))
        assert all(value.array() is not None for value in made[-1])
        caches = dict(zip(_CACHES, made[-1][1:], strict=True))
    return [[value.numpy() for value in step] for step in made]


@pytest.mark.parametrize("kind", ["products", "MultiHeadAttention"])
def test_a_decoder_s_own_caches_have_few_plans_and_one_result_wherever_they_lie(
    any_device: dml.Device, kind: str
) -> None:
    model = _model(kind)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    of_host = ort.InferenceSession(model, device=any_device)
    on_device = ort.InferenceSession(model, device=any_device)
    made = _steps(of_host)
    for got, wanted, lying in zip(made, _steps(theirs), _steps_on_device(on_device), strict=True):
        for ours, other, kept in zip(got, wanted, lying, strict=True):
            assert ours.tobytes() == kept.tobytes()
            np.testing.assert_allclose(ours, other, rtol=2e-5, atol=2e-5)
    assert of_host._program.plan_count < len(_PARTS) // 2
    assert on_device._program.plan_count < len(_PARTS) // 2


def test_sizes_that_stay_the_same_on_the_device_are_planned_alone(device: dml.Device) -> None:
    session = ort.InferenceSession(_model("products"), device=device)
    random = np.random.default_rng(1)
    caches = {name: random.standard_normal((_BATCH, _HEADS, 4, _SIZE)).astype(np.float32) for name in _CACHES}
    there = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in caches.items()}
    for step in range(3):
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(step, 2).items()}
        results = session.run_with_ort_values(["y", "present_key"], fed | there)
        expected = session.run(["y", "present_key"], _fed(step, 2) | caches)
        for result, wanted in zip(results, expected, strict=True):
            assert result.numpy().tobytes() == wanted.tobytes()
    assert len(session._program._dynamic) == 1  # that of the host's arrays


def test_an_array_that_was_closed_is_refused_and_later_runs_go_on(device: dml.Device) -> None:
    session = ort.InferenceSession(_model("products"), device=device)
    for old in (4, 6, 5, 7):
        caches = {name: device.array(np.ones((_BATCH, _HEADS, old, _SIZE), np.float32)) for name in _CACHES}
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(old, 2).items()}
        there = {name: ort.OrtValue.ortvalue_from_array(array) for name, array in caches.items()}
        if old == 5:
            caches["past_key"].close()
            with pytest.raises(dml.DmlError, match="closed"):
                session.run_with_ort_values(None, fed | there)
            continue
        present = session.run_with_ort_values(None, fed | there)[1].numpy()
        assert present.shape == (_BATCH, _HEADS, old + 2, _SIZE) and (present[:, :, :old] == 1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("width", [3, 4096])
def test_an_open_axis_may_be_joined_wherever_it_is_and_however_long_rows_are(
    device: dml.Device, axis: int, width: int
) -> None:
    """Copies that are not small choose the axis of which an invocation takes four elements by its length."""
    shape: list[int | str] = [2, 5, width]
    added = shape.copy()
    shape[axis], added[axis] = "old", "new"
    graph = helper.make_graph(
        [helper.make_node("Concat", ["past", "x"], ["present"], axis=axis)],
        "joined",
        [helper.make_tensor_value_info(*each) for each in (("past", 1, shape), ("x", 1, added))],
        [helper.make_tensor_value_info("present", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = ort.InferenceSession(model, device=device)
    random = np.random.default_rng(axis)
    wanted = random.standard_normal([4 if size == "old" else int(size) for size in shape]).astype(np.float32)
    past = ort.OrtValue.ortvalue_from_numpy(wanted, "dml")
    for _ in range(20):
        row = random.standard_normal([2 if size == "new" else int(size) for size in added]).astype(np.float32)
        given = {"past": past, "x": ort.OrtValue.ortvalue_from_numpy(row)}
        (past,) = session.run_with_ort_values(None, given)
        wanted = np.concatenate([wanted, row], axis)
        assert np.array_equal(past.numpy(), wanted)
    assert session._program.plan_count <= 6
