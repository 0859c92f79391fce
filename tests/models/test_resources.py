"""Resources: every initializer, sizes, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.models import Model, load_model
from dmlvk.models.resources import Resource

Load = Callable[[Any], Model]
Refused = Callable[[Any], str]


@pytest.fixture
def resource(load: Load) -> Callable[[dict[str, Any]], Resource]:
    """Loads a model whose only resource is the given one."""

    def load_resource(members: dict[str, Any]) -> Resource:
        return load({"resources": {"A": members}, "dispatchables": {}, "commands": []}).resources["A"]

    return load_resource


@pytest.fixture
def refusal(refused: Refused) -> Callable[[dict[str, Any]], str]:
    """The message, without its place, about a model whose only resource is the given one."""

    def message_of(members: dict[str, Any]) -> str:
        message = refused({"resources": {"A": members}, "dispatchables": {}, "commands": []})
        return message.split(": ", 1)[1]

    return message_of


ResourceOf = Callable[[dict[str, Any]], Resource]
Refusal = Callable[[dict[str, Any]], str]


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("FLOAT32", [1, 2.5, "nan", "INF", "-Inf", -0.0], [1, 2.5, np.nan, np.inf, -np.inf, -0.0]),
        ("DML_TENSOR_DATA_TYPE_FLOAT16", [65504, 6e-8, 0.1], [65504, 6e-8, 0.1]),
        ("FLOAT64", [0.1, 1e308], [0.1, 1e308]),
        ("UINT64", [2**64 - 1, 0], [2**64 - 1, 0]),
        ("INT64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
        ("INT8", [-128, 127], [-128, 127]),
        ("UINT16", [65535], [65535]),
    ],
)
def test_arrays(resource: ResourceOf, data_type: str, values: list[Any], expected: list[Any]) -> None:
    read = resource({"initialValuesDataType": data_type, "initialValues": values})
    dtype = np.dtype(data_type.rsplit("_", 1)[-1].lower())
    np.testing.assert_array_equal(read.values.read(), np.array(expected, dtype))
    assert read.values.read().dtype == dtype
    assert read.element_count == len(values)
    assert read.size_in_bytes == -(-len(values) * dtype.itemsize // 4) * 4


def test_constant(resource: ResourceOf) -> None:
    read = resource({"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 5, "value": 7}})
    np.testing.assert_array_equal(read.values.read(), np.full(5, 7, np.uint8))
    assert (read.size_in_bytes, read.element_count, read.stored_element_count) == (8, 5, 5)


@pytest.mark.parametrize(
    ("data_type", "start", "delta", "count"),
    [
        ("FLOAT32", 0.1, 0.1, 5000),
        ("FLOAT16", 1, 0.1, 5000),
        ("UINT8", 250, 3, 300),
        ("INT16", 32767, 1, 3),
        ("INT64", 1, -2, 4),
    ],
)
def test_sequences_accumulate_in_their_type(
    resource: ResourceOf, data_type: str, start: float, delta: float, count: int
) -> None:
    read = resource(
        {
            "initialValuesDataType": data_type,
            "initialValues": {"valueCount": count, "valueStart": start, "valueDelta": delta},
        }
    )
    dtype = np.dtype(data_type.lower())
    expected = np.empty(count, dtype)
    value = np.array([start]).astype(dtype)
    step = np.array([delta]).astype(dtype)
    with np.errstate(over="ignore"):
        for i in range(count):
            expected[i] = value[0]
            value = value + step
    np.testing.assert_array_equal(read.values.read(), expected)


def test_a_large_count_takes_no_memory_before_it_is_needed(resource: ResourceOf) -> None:
    read = resource({"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 4_000_000_000, "value": 0}})
    assert read.size_in_bytes == 4_000_000_000


def test_mixed_list(resource: ResourceOf) -> None:
    read = resource(
        {
            "initialValuesDataType": "UNKNOWN",
            "initialValues": [
                {"type": "UINT8", "value": 200},
                {"name": "alpha", "type": "FLOAT32", "value": "inf"},
                {"type": "INT16", "value": -2},
            ],
            "sizeInBytes": 256,
        }
    )
    assert read.is_mixed
    assert read.element_type is None
    assert read.size_in_bytes == 256
    assert read.values.read().tobytes() == b"\xc8" + b"\x00\x00\x80\x7f" + b"\xfe\xff"
    assert [value.item() for value in read.split(read.values.read().tobytes())] == [200, np.inf, -2]


def test_size_and_offset(resource: ResourceOf) -> None:
    values = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2]}
    assert resource({**values, "sizeInBytes": 32}).stored_element_count == 8
    read = resource({**values, "initialValuesOffsetInBytes": 6})
    assert (read.values_offset, read.size_in_bytes, read.element_count) == (6, 16, 2)
    odd = resource({**values, "sizeInBytes": 9})
    assert (odd.size_in_bytes, odd.buffer_size_in_bytes) == (9, 12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "u1", "<f2", ">f8"])
def test_npy_files(resource: ResourceOf, tmp_path: Path, order: Any, dtype: str) -> None:
    array = np.asarray(np.arange(6).reshape(2, 3), dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    read = resource({"initialValues": {"sourcePath": "a.npy"}})
    assert read.sizes == (2, 3)
    assert read.values.read().dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(read.values.read(), np.arange(6))


def test_raw_files(resource: ResourceOf, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x01\x00\x02\x00\x03")
    read = resource({"initialValuesDataType": "UINT16", "initialValues": {"sourcePath": "a.bin"}})
    assert (read.size_in_bytes, read.element_count) == (8, 2)
    assert read.values.read().tobytes() == b"\x01\x00\x02\x00\x03"


def test_source_path_is_tried_beside_the_file_then_in_the_current_directory(
    resource: ResourceOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (elsewhere / "a.bin").write_bytes(b"here")
    members = {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "a.bin"}}
    assert resource(members).values.read().tobytes() == b"here"
    (tmp_path / "a.bin").write_bytes(b"beside")
    assert resource(members).values.read().tobytes() == b"beside"


def save_picture(path: Path, mode: str = "RGB") -> np.ndarray[Any, Any]:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return pixels


def test_pictures(resource: ResourceOf, tmp_path: Path) -> None:
    pixels = save_picture(tmp_path / "a.png")
    planes = pixels.transpose(2, 0, 1).reshape(-1)
    members: dict[str, Any] = {"initialValues": {"sourcePath": "a.png"}}
    read = resource({**members, "initialValuesDataType": "UINT8"})
    assert read.sizes == (1, 3, 4, 6)
    np.testing.assert_array_equal(read.values.read(), planes)
    floats = resource({**members, "initialValuesDataType": "FLOAT32"}).values.read()
    np.testing.assert_array_equal(floats, planes.astype(np.float32) / np.float32(255))
    halves = resource({**members, "initialValuesDataType": "FLOAT16"}).values.read()
    np.testing.assert_array_equal(halves, floats.astype(np.float16))
    small = resource(
        {**members, "initialValuesDataType": "FLOAT32", "resampleSize": [1, 1, 2, 3], "resampleMode": "scale"}
    )
    assert small.sizes == (1, 1, 2, 3)
    assert small.values.read().shape == (6,)
    assert 0 <= small.values.read().min() <= small.values.read().max() <= 1


def test_picture_channels_follow_the_file(resource: ResourceOf, tmp_path: Path) -> None:
    for mode, channels in (("L", 1), ("RGBA", 4), ("P", 3), ("1", 1)):
        save_picture(tmp_path / "a.png", mode)
        read = resource({"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "a.png"}})
        assert read.sizes == (1, channels, 4, 6)
        assert read.values.read().size == channels * 24


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY\1\0\x0a\0{'descr': (",
        b"PK\3\4" + bytes(50),
        b"\x93NUMPY\1\0\xff\x0f" + b"-" * 4094 + b"1",
        b"\x93NUMPY\1\0\x40\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}".ljust(64),
        b"\x93NUMPY\1\0\x30\0" + b"{'descr': 3, 'fortran_order': 0, 'shape': None}".ljust(48),
        b"\x93NUMPY\1\0\x20\0" + b"\xff" * 32,
        b"\x93NUMPY\x09\0\x20\0",
        b"\x93NUMPY",
        b"",
    ],
    ids=["a token", "an archive", "nesting", "a key", "types", "bytes", "version", "cut", "empty"],
)
def test_damaged_npy_files_are_refused(refusal: Refusal, tmp_path: Path, data: bytes) -> None:
    """Whatever NumPy's reader makes of them, in one line."""
    (tmp_path / "x.npy").write_bytes(data)
    message = refusal({"initialValues": {"sourcePath": "x.npy"}})
    assert "x.npy' cannot be read as a .npy file: " in message
    assert "\n" not in message


def test_the_place_of_a_bad_element(refused: Refused) -> None:
    text = """{
 "resources": {
  "A": {"initialValuesDataType": "INT8",
   "initialValues": [1,
    300]}
 }, "dispatchables": {}, "commands": []}"""
    assert refused(text) == "5:5: initialValues[1] (INT8) must be from -128 to 127; got 300"


def test_files_that_change_after_loading(resource: ResourceOf, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    (tmp_path / "a.bin").write_bytes(b"abcd")
    npy = resource({"initialValues": {"sourcePath": "a.npy"}})
    raw = resource({"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "a.bin"}})
    np.save(tmp_path / "a.npy", np.zeros(4, np.float32))
    (tmp_path / "a.bin").write_bytes(b"abc")
    for changed in (npy, raw):
        with pytest.raises(dml.InvalidArgumentError, match="has changed since it was first read"):
            changed.values.read()
    (tmp_path / "a.bin").unlink()
    with pytest.raises(dml.InvalidArgumentError, match="cannot be read"):
        raw.values.read()


def test_a_root_keeps_what_a_model_file_reads_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    for folder in (tmp_path, root, root / "below"):
        np.save(folder / "x.npy", np.zeros(4, np.float32))
    (root / "link.npy").symlink_to(tmp_path / "x.npy")

    def load(name: str) -> None:
        values = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": name}}
        path = root / "model.json"
        path.write_text(json.dumps({"resources": {"a": values}, "dispatchables": {}, "commands": []}))
        load_model(path, root)

    load("x.npy")
    load("below/../below/x.npy")
    for name in ("../x.npy", "link.npy", str(tmp_path / "x.npy"), "../nowhere.npy"):
        with pytest.raises(dml.ModelFileError, match="lies outside of"):
            load(name)
