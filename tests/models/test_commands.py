"""Commands as the file states them: what is read, and what is refused."""

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
    ("command", "message"),
    [
        (5, "commands[0] must be an object; got the number 5"),
        ({}, "commands[0] needs the member 'type'"),
        ({"type": "show"}, "commands[0]: unknown command 'show'; known are dispatch, print, writeFile, expect"),
        ({"type": "writeFiles"}, "commands[0]: unknown command 'writeFiles'; did you mean 'writeFile'?"),
        ({**dispatch(), "dispatchable": "sing"}, "there is no dispatchable 'sing'; did you mean 'sign'?"),
        ({"type": "dispatch", "dispatchable": "sign"}, "commands[0] needs the member 'bindings'"),
        ({**dispatch(), "bindings": []}, "bindings must be an object; got an array"),
        ({**dispatch(), "bindings": {"InputTensor": "X"}}, "bindings needs the member 'OutputTensor'"),
        (dispatch(ATensor="X"), "bindings has no member 'ATensor'; did you mean"),
        (dispatch(InputTensor="Y"), "there is no resource 'Y'; known are X, Out, Mixed"),
        (dispatch(InputTensor=["X", "X"]), "InputTensor takes 1 resources; 2 are bound"),
        (dispatch(InputTensor=[]), "InputTensor takes 1 resources; 0 are bound"),
        (dispatch(InputTensor=7), "the binding of InputTensor must be an object; got the number 7"),
        (dispatch(InputTensor={"elementOffset": 1}), "the binding of InputTensor needs the member 'name'"),
        (dispatch(InputTensor={"name": "X", "elementStride": 4}), "'elementStride' is not read by DxDispatch; write"),
        (dispatch(InputTensor={"name": "X", "offset": 4}), "the binding of InputTensor has no member 'offset'"),
        (dispatch(InputTensor={"name": "X", "elementOffset": -1}), "elementOffset must be from 0 to"),
        (
            dispatch(InputTensor={"name": "X", "elementOffset": 3}),
            "elementOffset 3 x 4 bytes is outside the resource 'X', which has 12 bytes",
        ),
        (
            dispatch(InputTensor={"name": "Mixed", "elementOffset": 1}),
            "the resource 'Mixed' has no single data type: give elementSizeInBytes",
        ),
        (dispatch(InputTensor={"name": "X", "counter": "Y"}), "there is no resource 'Y'"),
        ({**dispatch(), "threadGroupCount": [1, 1]}, "threadGroupCount must have 3 elements"),
        ({**dispatch(), "threadGroupCount": [0, 1, 1]}, "threadGroupCount[0] must be from 1"),
        ({**dispatch(), "binding": 1}, "commands[0] has no member 'binding'; did you mean 'bindings'?"),
        ({"type": "print"}, "commands[0] needs the member 'resource'"),
        ({"type": "print", "resource": "Y"}, "there is no resource 'Y'"),
        ({"type": "print", "resource": "X", "verbose": 1}, "verbose must be true or false; got the number 1"),
        ({"type": "writeFile", "resource": "X"}, "commands[0] needs the member 'targetPath'"),
        ({"type": "writeFile", "resource": "X", "targetPath": ""}, "targetPath must name a file; got ''"),
        ({"type": "writeFile", "resource": "X", "targetPath": "a\0b"}, "targetPath must name a file"),
        ({"type": "writeFile", "resource": "X", "targetPath": "."}, "targetPath must name a file; got '.'"),
        ({"type": "writeFile", "resource": "X", "targetPath": "/tmp/x"}, "targetPath must stay inside the output dire"),
        ({"type": "writeFile", "resource": "X", "targetPath": "a/../../x"}, "targetPath must stay inside the output d"),
        ({"type": "writeFile", "resource": "X", "targetPath": "..\\x"}, "targetPath must stay inside the output direc"),
        (
            {"type": "writeFile", "resource": "X", "targetPath": "x.npy", "dimensions": [2, 2]},
            "dimensions [2, 2] need 16 bytes of FLOAT32; the resource 'X' has 12",
        ),
        ({"type": "writeFile", "resource": "X", "targetPath": "x.npy", "dimensions": [0]}, "dimensions[0] must be fro"),
        ({"type": "writeFile", "resource": "Mixed", "targetPath": "x.npy"}, "the resource 'Mixed' has no single data"),
        ({"type": "writeFile", "resource": "X", "targetPath": "x.png"}, 'a picture needs its dimensions: add'),
        (
            {"type": "writeFile", "resource": "X", "targetPath": "x.png", "dimensions": [3]},
            "dimensions: a picture has the sizes [1, C, H, W] with C 1 (grey), 3 (RGB) or 4 (RGBA); got [3]",
        ),
        (
            {"type": "writeFile", "resource": "X", "targetPath": "x.jpg", "dimensions": [1, 4, 1, 1]},
            "dimensions: a JPEG picture has no alpha channel: write 1 or 3 channels, or a .png",
        ),
        (
            {"type": "writeFile", "resource": "Mixed", "targetPath": "x.png", "dimensions": [1, 1, 1, 1]},
            "a picture is written from FLOAT32, FLOAT16, UINT8; the resource 'Mixed' is a mixed list",
        ),
        ({"type": "expect", "resource": "X"}, "expect needs either 'values' or 'sourcePath'"),
        ({"type": "expect", "resource": "X", "values": [1], "sourcePath": "e.npy"}, "expect needs either 'values' or"),
        ({"type": "expect", "resource": "X", "values": [1]}, "the resource 'X' has 3 values; 1 are expected"),
        ({"type": "expect", "resource": "X", "values": 1}, "values must be an object; got the number 1"),
        ({"type": "expect", "resource": "Mixed", "values": [1]}, "the resource 'Mixed' has no single data type to com"),
        ({"type": "expect", "resource": "X", "sourcePath": "e.bin"}, "sourcePath: a file to compare with must be a .n"),
        ({"type": "expect", "resource": "X", "values": {"sourcePath": "e.bin"}}, "values: a file to compare with must"),
        ({"type": "expect", "resource": "X", "sourcePath": "i.npy"}, "i.npy' holds INT32; FLOAT32 is wanted"),
        (
            {"type": "expect", "resource": "X", "values": [1, 2, 3], "ulp": 1, "atol": 1},
            "expect takes one of 'ulp', 'atol' and 'rtol'; it has ulp, atol",
        ),
        ({"type": "expect", "resource": "X", "values": [1, 2, 3], "ulp": 0.5}, "ulp must be an integer"),
        ({"type": "expect", "resource": "X", "values": [1, 2, 3], "atol": -1}, "atol must be a finite number, at leas"),
        ({"type": "expect", "resource": "X", "values": [1, 2, 3], "rtol": "inf"}, "rtol must be a finite number, at l"),
        ({"type": "expect", "resource": "X", "values": [1, 2, 3], "tol": 1}, "commands[0] has no member 'tol'; did yo"),
    ],
)  # fmt: skip
def test_refusals(refused: Refused, sign_model: dict[str, Any], tmp_path: Path, command: Any, message: str) -> None:
    (tmp_path / "e.bin").write_bytes(b"\0" * 12)
    np.save(tmp_path / "i.npy", np.zeros(3, np.int32))
    sign_model["resources"]["Mixed"] = {
        "initialValues": [{"type": "FLOAT32", "value": 1}, {"type": "UINT8", "value": 2}]
    }
    assert message in refused(with_command(sign_model, command)).split(": ", 1)[1]


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
