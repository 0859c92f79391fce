"""Damaged model files end in a result or in a ModelFileError, never in another exception."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.models import load_model, run_model
from tests.effort import IS_QUICK

TENSOR = {"DataType": "FLOAT32", "Sizes": [2, 2], "Strides": [2, 1], "Flags": ["NONE"], "DimensionCount": 2}
MODEL: dict[str, Any] = {
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [1, -2, "nan", 0.5], "sizeInBytes": 64},
        "B": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "valueStart": 0, "valueDelta": 1}},
        "C": {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 4, "value": 1}},
        "D": {"initialValues": {"sourcePath": "d.npy"}, "initialValuesOffsetInBytes": 4},
        "M": {"initialValues": [{"type": "UINT32", "value": 6}, {"type": "FLOAT32", "value": 2.5, "name": "x"}]},
    },
    "dispatchables": {
        "t": {
            "type": "ELEMENT_WISE_THRESHOLD",
            "desc": {
                "InputTensor": TENSOR,
                "OutputTensor": {"Type": "BUFFER", "Desc": TENSOR},
                "ScaleBias": {"Scale": 2, "Bias": "inf"},
                "Min": 1,
            },
            "executionFlags": "NONE",
        },
        "if": {
            "type": "DML_OPERATOR_ELEMENT_WISE_IF",
            "ConditionTensor": {"DataType": "UINT8", "Sizes": [2, 2]},
            "ATensor": TENSOR,
            "BTensor": TENSOR,
            "OutputTensor": TENSOR,
        },
        "scale": {
            "type": "ELEMENT_WISE_MULTIPLY",
            "dmlCompileType": "DmlCompileGraph",
            "desc": {
                "ATensor": TENSOR,
                "BTensor": {**TENSOR, "Strides": [0, 1], "Flags": ["OWNED_BY_DML"]},
                "OutputTensor": TENSOR,
            },
            "bindings": {"BTensor": {"name": "B", "elementOffset": 4}},
        },
        "add": {
            "type": "ELEMENT_WISE_ADD1",
            "desc": {
                "ATensor": TENSOR,
                "BTensor": TENSOR,
                "OutputTensor": TENSOR,
                "FusedActivation": {"Type": "ACTIVATION_ELU", "Alpha": 0.5},
            },
        },
        "largest": {
            "type": "ACTIVATION_HARDMAX1",
            "desc": {"InputTensor": TENSOR, "OutputTensor": TENSOR, "AxisCount": 1, "Axes": [1]},
        },
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "t", "bindings": {"InputTensor": "A", "OutputTensor": ["A"]}},
        {
            "type": "dispatch",
            "dispatchable": "if",
            "bindings": {
                "ConditionTensor": "C",
                "ATensor": "A",
                "BTensor": {"name": "B", "elementOffset": 4},
                "OutputTensor": "B",
            },
        },
        {"type": "dispatch", "dispatchable": "scale", "bindings": {"ATensor": "A", "OutputTensor": "B"}},
        {"type": "dispatch", "dispatchable": "add", "bindings": {"ATensor": "A", "BTensor": "B", "OutputTensor": "A"}},
        {"type": "dispatch", "dispatchable": "largest", "bindings": {"InputTensor": "A", "OutputTensor": "B"}},
        {"type": "print", "resource": "B", "verbose": True},
        {"type": "expect", "resource": "A", "values": [1, 2, 3, 4], "ulp": 2},
        {"type": "writeFile", "resource": "D", "targetPath": "d.png", "dimensions": [1, 1, 2, 2]},
    ],
}
ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2.5, 3, 4, 16, 255, 65536, 2**31, 2**32, 2**32 - 4, 2**63, 2**64, 10**400, 1e308, -0.0,
    "", "A", "nan", "-inf", "FLOAT16", "UINT8", "INT64", "UNKNOWN", "ELEMENT_WISE_SIGN", "deferred", "d.npy", "/", "..",
    "a\0b", "x.png", "x.npy", [], {}, [[]], [1, 2], [4, 0],
    {"valueCount": 2**32 - 1, "value": 0}, {"sourcePath": "p.png"},
]  # fmt: skip


MAXIMUM_BYTES = 2**28


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(inner for key, item in value.items() for inner in paths_in(item, (*path, key)))]
    if isinstance(value, list):
        return [path, *(inner for i, item in enumerate(value) for inner in paths_in(item, (*path, i)))]
    return [path]


PATHS = [inner for inner in paths_in(MODEL) if inner]


@st.composite
def damaged_models(draw: st.DrawFn) -> dict[str, Any]:
    """The model with one to three values replaced, removed, renamed or repeated."""
    model = copy.deepcopy(MODEL)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(PATHS))
        parent: Any = model
        try:
            for step in path:
                parent = parent[step]
            parent[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed this place
        if isinstance(parent, str):
            continue  # an earlier change put a string here, and it has this index
        change = draw(st.sampled_from(["replace", "replace", "remove", "rename", "repeat"]))
        if change == "replace" or (change == "rename" and isinstance(last, int)):
            parent[last] = draw(st.sampled_from(ODD_VALUES))
        elif change == "remove":
            del parent[last]
        elif change == "rename":
            parent[str(last)[:-1]] = parent.pop(last)
        elif isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        else:
            parent[last] = [copy.deepcopy(parent[last])] * 2
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    np.save(path / "d.npy", np.array([[0, 1], [2, 255]], np.uint8))
    (path / "p.png").write_bytes(b"no picture")
    return path


def run_or_refuse(folder: Path, device: dml.Device, content: bytes) -> None:
    path = folder / "model.json"
    path.write_bytes(content)
    try:
        model = load_model(path)
        if sum(resource.size_in_bytes for resource in model.resources.values()) > MAXIMUM_BYTES:
            return  # loading it took no memory; running it would, and on a large GPU succeed
        run_model(model, device, folder / "out", lambda line: None)
    except dml.ModelFileError as error:
        assert str(error).startswith(f"{path}:")  # both endings are right
        line, column = str(error).removeprefix(f"{path}:").split(":")[:2]
        assert int(line) >= 1
        assert int(column) >= 1


EXAMPLES = int(os.environ.get("DMLVK_TEST_FUZZ", "120" if IS_QUICK else "600"))  # How many damaged files are tried

FUZZ = settings(max_examples=EXAMPLES // 2)


def test_the_undamaged_model_runs(folder: Path, any_device: dml.Device) -> None:
    path = folder / "whole.json"
    path.write_text(json.dumps(MODEL))
    assert run_model(load_model(path), any_device, folder / "out", lambda line: None).expectations == 1


@given(model=damaged_models())
@FUZZ
def test_damaged_values(folder: Path, any_device: dml.Device, model: dict[str, Any]) -> None:
    run_or_refuse(folder, any_device, json.dumps(model).encode())


@given(data=st.data())
@FUZZ
def test_damaged_text(folder: Path, any_device: dml.Device, data: st.DataObject) -> None:
    text = bytearray(json.dumps(MODEL).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        offset = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.integers(0, 4))
        text[offset : offset + length] = data.draw(
            st.one_of(
                st.binary(max_size=3),
                st.sampled_from([b"/*", b"//", b'"', b"[", b"}", b"\\u", b",", b"9" * 30, b"-", b"e9"]),
            )
        )
    run_or_refuse(folder, any_device, bytes(text))
