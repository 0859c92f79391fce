"""Model files for the tests: a small valid one, and ways to write, load and refuse others."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.models import Model, RunResult, Timing, load_model, run_model

FLOAT3 = {"DataType": "FLOAT32", "Sizes": [3]}

SIGN_MODEL: dict[str, Any] = {
    "resources": {
        "X": {"initialValuesDataType": "FLOAT32", "initialValues": [-3, 0, 5]},
        "Out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 3, "value": 9}},
    },
    "dispatchables": {"sign": {"type": "ELEMENT_WISE_SIGN", "desc": {"InputTensor": FLOAT3, "OutputTensor": FLOAT3}}},
    "commands": [
        {"type": "dispatch", "dispatchable": "sign", "bindings": {"InputTensor": "X", "OutputTensor": "Out"}},
        {"type": "print", "resource": "Out"},
    ],
}


@pytest.fixture
def sign_model() -> dict[str, Any]:
    """A valid model that a test may change."""
    return copy.deepcopy(SIGN_MODEL)


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Any], Model]:
    """Writes a model (text, bytes, or what JSON is made from) to a file and loads it."""

    def load_content(content: Any) -> Model:
        path = tmp_path / "model.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        return load_model(path)

    return load_content


@pytest.fixture
def refused(load: Callable[[Any], Model], tmp_path: Path) -> Callable[[Any], str]:
    """Loads a model that must be refused, and returns ``line:column: message``."""

    def message_of(content: Any) -> str:
        with pytest.raises(dml.ModelFileError) as caught:
            load(content)
        message = str(caught.value)
        prefix = f"{tmp_path / 'model.json'}:"
        assert message.startswith(prefix)
        return message.removeprefix(prefix)

    return message_of


@pytest.fixture
def run(load: Callable[[Any], Model], device: dml.Device, tmp_path: Path) -> Callable[..., tuple[RunResult, list[str]]]:
    """Loads and runs a model on each device; files go to ``tmp_path / "out"``; returns the result and the output."""

    def run_content(content: Any, timing: Timing | None = None) -> tuple[RunResult, list[str]]:
        lines: list[str] = []
        result = run_model(load(content), device, tmp_path / "out", lines.append, timing)
        return result, lines

    return run_content
