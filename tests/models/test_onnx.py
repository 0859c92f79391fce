"""ONNX models and pictures in model files: what is computed, shown and refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.models import Model, RunResult, Timing
from dmlvk.models.images import PictureShape, picture_shape, read_picture, write_picture
from tests.onnx.models import model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model: y = 2 x, of any number of rows of 3; and s, the sum of each row."""
    nodes = "y = Add (x, x)  s = ReduceSum <keepdims = 0> (y, axes)"
    made = model(nodes, {"x": ["rows", 3]}, ["y", "s"], {"axes": np.array([1])}, opset=18)
    onnx.save(made, str(tmp_path / "twice.onnx"))
    return tmp_path


def _model(bindings: dict[str, Any], *more: dict[str, Any], **dispatchable: Any) -> dict[str, Any]:
    return {
        "resources": {
            "X": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
            "Y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 9}},
            "S": {"initialValues": "deferred"},
        },
        "dispatchables": {
            "twice": {"type": "Onnx", "sourcePath": "twice.onnx", **dispatchable},
            "sign": {
                "type": "ELEMENT_WISE_SIGN",
                "desc": {name: {"DataType": "FLOAT32", "Sizes": [2]} for name in ("InputTensor", "OutputTensor")},
            },
        },
        "commands": [{"type": "dispatch", "dispatchable": "twice", "bindings": bindings}, *more],
    }


PRINT_S = {"type": "print", "resource": "S"}


def test_a_model_runs_on_what_is_bound(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    bindings = {"x": {"name": "X", "shape": [2, 3]}, "y": ["Y"], "s": "S"}
    more: list[dict[str, Any]] = [
        {"type": "print", "resource": "Y"},
        {"type": "dispatch", "dispatchable": "sign", "bindings": {"InputTensor": "S", "OutputTensor": "Y"}},
        {"type": "print", "resource": "Y"},
        {"type": "writeFile", "resource": "S", "targetPath": "s.npy"},
        PRINT_S,
    ]
    _, lines = run(_model(bindings, *more))
    assert lines[:3] == [
        "Resource 'S': FLOAT32 [2] of output s",
        "Resource 'Y': 2, 4, 6, 8, 10, 12",
        "Resource 'Y': 1, 1, 6, 8, 10, 12",
    ]
    assert lines[-1] == "Resource 'S': 12, 30"
    np.testing.assert_array_equal(np.load(folder / "out" / "s.npy"), [12, 30])


def test_open_sizes_are_1_or_what_the_file_says_and_unbound_inputs_are_zeros(
    folder: Path, run: Callable[..., tuple[RunResult, list[str]]]
) -> None:
    _, lines = run(_model({"x": "X", "s": "S"}, PRINT_S))
    assert lines[-1] == "Resource 'S': 12"
    fixed = {"freeDimensionNameOverrides": {"rows": 2}, "graphOptimizationLevel": 99, "loggingLevel": 2}
    _, lines = run(_model({"x": "X", "s": "S"}, PRINT_S, **fixed, sessionOptionsConfigEntries={"a": "b"}))
    assert lines[-1] == "Resource 'S': 12, 30"
    _, lines = run(_model({"s": "S"}, PRINT_S, **fixed))
    assert lines[-1] == "Resource 'S': 0, 0"


def test_runs_are_timed(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    result, lines = run(_model({"x": "X", "s": "S"}), Timing(iterations=3))
    assert lines[-1].startswith("Dispatch 'twice': 3 iterations, median wall time")
    assert not result.kernel_times or result.kernel_times[0].label


def test_what_a_resource_is_to_hold_is_checked(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    content = _model({"x": "X", "s": "S"}, {"type": "expect", "resource": "S", "values": [12]})
    content["resources"]["S"]["initialValuesDataType"] = "FLOAT32"
    result, _ = run(content)
    assert (result.expectations, result.failures) == (1, 0)
    content["resources"]["S"]["initialValuesDataType"] = "INT32"
    with pytest.raises(dml.ModelFileError, match="'S' is to hold INT32; the output is FLOAT32"):
        run(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            _model({"x": "X", "q": "Y"}),
            r"dispatchable 'twice': the model has no input or output 'q'; it has \['x', 'y'",
        ),
        (_model({"x": {"name": "X", "shape": [3, 3]}}), "takes 36 bytes; the resource 'X' has 24"),
        (
            _model({"x": {"name": "X", "shape": [2, 3]}, "y": {"name": "Y", "shape": [3, 3]}}),
            r"the shape \[2, 3\], not",
        ),
        (_model({"x": "S"}), "'S' is deferred, and is used before an ONNX model gives it"),
        (_model({"x": "X"}, PRINT_S), "'S' is deferred, and is used before an ONNX model gives it"),
        (_model({"x": {"name": "X", "shape": [1, 4]}}), r"must have the shape \['rows', 3\]; got \[1, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    folder: Path, run: Callable[..., tuple[RunResult, list[str]]], content: dict[str, Any], message: str
) -> None:
    with pytest.raises(dml.ModelFileError, match=rf"model.json:\d+:\d+: .*{message}"):
        run(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_model({"x": ["X", "Y"]}), "x: a tensor of an ONNX model takes one resource; 2 are bound"),
        (_model({"x": {"name": "X", "elementOffset": 1}}), "elementOffset must be 0"),
        (_model({"x": {"name": "X", "counter": "Y"}}), "has no counter"),
        (_model({"x": "Z"}), "there is no resource 'Z'"),
        (_model({}, freeDimensionNameOverrides={"rows": -1}), "freeDimensionNameOverrides: rows must be from 0"),
        (_model({}, graphOptimizationLevel=7), "graphOptimizationLevel must be one of"),
        (_model({}, sourcePath="nothing.onnx"), "sourcePath: there is no file 'nothing.onnx'"),
        (_model({}, loglevel=2), "'loglevel'"),
        (_model({}, {"type": "expect", "resource": "S", "values": [1]}), "say its initialValuesDataType"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(
    folder: Path, refused: Callable[[Any], str], content: dict[str, Any], message: str
) -> None:
    assert message in refused(content)


def test_a_file_that_is_no_model_and_a_missing_package_are_named(
    folder: Path,
    any_device: dml.Device,
    load: Callable[[Any], Model],
    run: Callable[..., tuple[RunResult, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "twice.onnx").write_bytes(b"no model")
    with pytest.raises(dml.ModelFileError, match=r"model.json:\d+:\d+: the dispatchable 'twice': .*is no ONNX model"):
        run(_model({}))
    for name in [name for name in sys.modules if name.startswith("dmlvk.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(dml.ModelFileError, match=r"the dispatchable 'twice': .*pip install dmlvk\[onnx\]"):
        run(_model({}))


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.UINT8])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_8_bit_value_survives(tmp_path: Path, data_type: dml.DataType, channels: int) -> None:
    shape = PictureShape(channels, 16, 16)
    values = (
        np.random.default_rng(0).permuted(np.tile(np.arange(256, dtype=np.uint8), (channels, 1)), axis=1).reshape(-1)
    )
    write_picture(tmp_path / "a.png", values, shape)
    assert picture_shape(tmp_path / "a.png") == shape
    read = read_picture(tmp_path / "a.png", shape, data_type)
    assert read.dtype == data_type.numpy_dtype
    write_picture(tmp_path / "b.png", read, shape)
    np.testing.assert_array_equal(read_picture(tmp_path / "b.png", shape, dml.UINT8), values)


def test_floats_are_clamped_and_rounded_to_nearest(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.5, 1.5, 0.5, 1.4 / 255, 1.6 / 255], np.float32)
    write_picture(tmp_path / "a.png", values, PictureShape(1, 2, 4))
    written = read_picture(tmp_path / "a.png", PictureShape(1, 2, 4), dml.UINT8)
    assert written.tolist() == [0, 255, 0, 0, 255, 128, 1, 2]


def test_channel_order_is_red_green_blue(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", np.array([255, 0, 0, 10, 0, 20], np.uint8), PictureShape(3, 1, 2))
    with Image.open(tmp_path / "a.png") as picture:
        assert [picture.getpixel((x, 0)) for x in range(2)] == [(255, 0, 0), (0, 10, 20)]


def test_jpeg(tmp_path: Path) -> None:
    shape = PictureShape(3, 8, 8)
    write_picture(tmp_path / "a.JPG", np.full(192, 0.5, np.float16), shape)
    assert read_picture(tmp_path / "a.JPG", shape, dml.UINT8).tolist() == [128] * 192
    with pytest.raises(dml.InvalidArgumentError, match="a JPEG picture has no alpha channel"):
        write_picture(tmp_path / "a.jpg", np.zeros(256, np.uint8), PictureShape(4, 8, 8))


def test_broken_pictures_end_in_one_error(tmp_path: Path) -> None:
    """Every cut and a few hundred flipped bytes: a picture, or the one error."""
    path = tmp_path / "a.png"
    rng = np.random.default_rng(3)
    for suffix in ("png", "jpg"):
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(tmp_path / f"whole.{suffix}")
        whole = (tmp_path / f"whole.{suffix}").read_bytes()
        broken = [whole[:length] for length in range(0, len(whole), 7)]
        for _ in range(200):
            flipped = bytearray(whole)
            flipped[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
            broken.append(bytes(flipped))
        for data in broken:
            path.write_bytes(data)
            try:
                shape = picture_shape(path)
                if shape.element_count < 10**6:
                    assert read_picture(path, shape, dml.UINT8).size == shape.element_count
            except dml.InvalidArgumentError as error:
                assert str(path) in str(error) or "a picture" in str(error)
