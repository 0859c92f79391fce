"""Commands as the file states them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlvk.models import Model
from dmlvk.models.commands import DispatchCommand, ExpectCommand, PrintCommand, WriteFileCommand

Load = Callable[[Any], Model]
Refused = Callable[[Any], str]


def with_command(base: dict[str, Any], *commands: Any) -> dict[str, Any]:
    return {**base, "commands": list(commands)}


def dispatch(**bindings: Any) -> dict[str, Any]:
    bound = {"InputTensor": "X", "OutputTensor": "Out", **bindings}
    return {"type": "dispatch", "dispatchable": "sign", "bindings": bound}


@pytest.mark.parametrize("name", ["dispatch", "Dispatch", "DISPATCH"])
def test_dispatch(load: Load, sign_model: dict[str, Any], name: str) -> None:
    sign_model["resources"]["Big"] = {
        "initialValuesDataType": "FLOAT32",
        "initialValues": {"valueCount": 64, "value": 1},
    }
    command = {
        **dispatch(
            InputTensor={"name": "Big", "elementOffset": 8, "elementCount": 3, "format": "R32_FLOAT", "shape": [3]},
            OutputTensor=[{"name": "Big", "elementOffset": 8, "elementSizeInBytes": 16}],
        ),
        "type": name,
        "threadGroupCount": [1, 1, 1],
    }
    read = load(with_command(sign_model, command)).commands[0]
    assert isinstance(read, DispatchCommand)
    assert [[binding.offset_in_bytes for binding in bound] for bound in read.bindings] == [[32], [128]]
    assert read.dispatchable.name == "sign"


def test_print_write_and_expect(load: Load, sign_model: dict[str, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([[-1, 0, 1]], np.float32))
    commands = load(
        with_command(
            sign_model,
            {"type": "print", "resource": "X", "verbose": True},
            {"type": "writefile", "resource": "X", "targetPath": "a/b.npy", "dimensions": [1, 3]},
            {"type": "expect", "resource": "Out", "values": [-1, 0, 1], "ulp": 2},
            {"type": "expect", "resource": "Out", "values": {"valueCount": 3, "value": 1}, "rtol": 0.5},
            {"type": "expect", "resource": "Out", "values": {"valueCount": 3, "valueStart": 1, "valueDelta": 1}},
            {"type": "expect", "resource": "Out", "sourcePath": "e.npy", "atol": 0},
            {"type": "expect", "resource": "Out", "values": {"sourcePath": "e.npy"}},
        )
    ).commands
    assert isinstance(commands[0], PrintCommand)
    assert commands[0].is_verbose
    assert isinstance(commands[1], WriteFileCommand)
    assert (commands[1].target, commands[1].dimensions) == (Path("a/b.npy"), (1, 3))
    expectations = [command for command in commands if isinstance(command, ExpectCommand)]
    assert [(e.tolerance.kind, e.tolerance.amount) for e in expectations] == [
        ("ulp", 2), ("rtol", 0.5), ("exact", 0), ("atol", 0), ("exact", 0),
    ]  # fmt: skip
    assert expectations[3].values.read().tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "1:1: a model file must be an object; got an array"),
        ({}, "1:1: a model file needs the member 'resources'"),
        ({"resources": {}, "dispatchables": {}}, "1:1: a model file needs the member 'commands'"),
        ({"resources": [], "dispatchables": {}, "commands": []}, "2:15: resources must be an object; got an array"),
        ({"resources": {}, "dispatchables": {}, "commands": {}}, "4:14: commands must be an array; got an object"),
        (
            {"resources": {}, "dispatchables": {}, "commands": [], "comands": []},
            "5:2: a model file has no member 'comands'; did you mean 'commands'?",
        ),
    ],
)
def test_the_root(refused: Refused, content: Any, message: str) -> None:
    assert refused(content) == message


def test_keys_for_editors_are_ignored(load: Load, sign_model: dict[str, Any]) -> None:
    load({"$schema": "./_schema.json", **sign_model})
