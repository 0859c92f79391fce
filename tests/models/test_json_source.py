"""What a model file may hold, and where it is wrong: every error has its place in the file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.models import Model, json_source, load_model
from dmlvk.models.json_source import JsonNode, parse_json, read_json_file
from dmlvk.models.resources import Resource


def plain(node: JsonNode) -> Any:
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    return node.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0", 0),
        ("-0.0", -0.0),
        ("1.5e3", 1500.0),
        ("18446744073709551616", 2**64),
        ("true", True),
        ("null", None),
        ('"a\\n\\u00e9\\ud83d\\ude00\\/"', "a\né😀/"),
        ("[]", []),
        ("{}", {}),
        ("[1, [2, {}], ]", [1, [2, {}]]),
        ('{"a": {"b": 1,},}', {"a": {"b": 1}}),
        ("// x\n/* [ */ [1, // two\n 2 /* three */ ]", [1, 2]),
        ("[1] this is not looked at", [1]),
        ("1/**/", 1),
        ("\ufeff".encode().decode("utf-8-sig") + "[2]", [2]),
    ],
)
def test_reads(text: str, value: Any) -> None:
    read = plain(parse_json(text, "f"))
    assert read == value
    assert repr(read) == repr(value)  # -0.0 and 0, 1 and 1.0, 1 and True are not the same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: expected a value, found the end of the file"),
        ("// only a comment", "1:18: expected a value, found the end of the file"),
        ("{", "1:2: expected a key in double quotes or '}', found the end of the file (the object began in line 1)"),
        ("\n[1,\n", "3:1: expected a value, found the end of the file"),
        ("[1 2]", "1:4: expected ',' or ']', found '2'"),
        ("[,]", "1:2: expected a value, found ','"),
        ("{,}", "1:2: expected a key in double quotes or '}', found ','"),
        ("{a: 1}", "1:2: expected a key in double quotes or '}', found 'a'"),
        ('{"a" 1}', "1:6: expected ':' after the key 'a', found '1'"),
        ('{"a":}', "1:6: expected a value, found '}'"),
        ('{"a": 1,\r\n "a": 2}', "2:2: the key 'a' is already in line 1 of this object"),
        ("[NaN]", '1:2: \'NaN\' is not JSON; write "nan", "inf" or "-inf" in quotes'),
        ("[-Infinity]", '1:2: \'-Infinity\' is not JSON; write "nan", "inf" or "-inf" in quotes'),
        ("[01]", "1:2: expected a value, found '01'"),
        ("[1.]", "1:2: expected a value, found '1.'"),
        ("[+1]", "1:2: expected a value, found '+1'"),
        ("[1e400]", "1:2: '1e400' is too large; write \"inf\" for infinity"),
        ("[" + "9" * 5000 + "]", "1:2: this number has 5000 characters"),
        ('"abc', "1:1: this is no string of JSON: Unterminated string"),
        ('"a\tb"', "1:3: this is no string of JSON: Invalid control character"),
        ('"\\q"', "1:2: this is no string of JSON: Invalid \\escape"),
        ('"\\u12x4"', "1:3: this is no string of JSON: Invalid \\uXXXX escape"),
        ('"\\ud800x"', "1:1: half of a surrogate pair stands alone in this string"),
        ("[1] /*".replace("[1] ", ""), "1:1: this comment has no end"),
        ("[1, /* ]", "1:5: this comment has no end"),
        ("[" * 101, "1:101: arrays and objects are nested more than 100 deep"),
        ('{"a":' * 100_000, "1:501: arrays and objects are nested more than 100 deep"),
    ],
)
def test_refuses_with_a_place(text: str, message: str) -> None:
    with pytest.raises(dml.ModelFileError) as caught:
        parse_json(text, "f")
    assert str(caught.value) == f"f:{message}"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_places_of_values(line_break: str) -> None:
    node = parse_json(line_break.join(['{ "a": [1,', "  \t2.5],", '"b": {}', "}"]), "dir/f.json")
    assert isinstance(node.value, dict)
    items = node.value["a"].value
    assert isinstance(items, list)
    assert [item.location for item in (node, *items, node.value["b"])] == [
        "dir/f.json:1:1",
        "dir/f.json:1:9",
        "dir/f.json:2:4",
        "dir/f.json:3:6",
    ]
    assert str(node.key_error("b", "why")) == "dir/f.json:3:1: why"


def test_columns_count_characters() -> None:
    node = parse_json('["é😀", 1]', "f")
    assert isinstance(node.value, list)
    assert node.value[1].location == "f:1:8"


def test_located_keeps_the_innermost_place() -> None:
    node = parse_json("[1,\n2]", "f")
    assert isinstance(node.value, list)
    with pytest.raises(dml.ModelFileError, match=r"^f:2:1: inner: why$"):  # noqa: SIM117  # the inner block raises in the outer one
        with node.located("outer: "):
            with node.value[1].located("inner: "):
                raise dml.InvalidArgumentError("why")


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes('{\n "é": "'.encode() + b"\xff" + b'"}')
    with pytest.raises(dml.ModelFileError, match=r":2:8: the model file is not UTF-8 text$"):
        read_json_file(path)


def test_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert plain(read_json_file(path)) == [1]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        dml.ModelFileError, match=r"nowhere\.json:1:1: cannot read the model file: there is no such file$"
    ):
        read_json_file(tmp_path / "nowhere.json")
    with pytest.raises(dml.ModelFileError, match=r":1:1: cannot read the model file: it is not a regular file$"):
        read_json_file(tmp_path)
    with pytest.raises(dml.ModelFileError, match=r":1:1: cannot read the model file: "):
        read_json_file(Path("x" * 5000))
    with pytest.raises(dml.ModelFileError, match=r":1:1: cannot read the model file: "):
        read_json_file(Path("a\0b"))
    path = tmp_path / "large.json"
    path.write_text("[1, 2, 3]")
    monkeypatch.setattr(json_source, "MAXIMUM_FILE_BYTES", 8)
    with pytest.raises(dml.ModelFileError, match=r":1:1: the model file has 9 bytes; at most 8 are read"):
        read_json_file(path)


REFUSALS = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))

_MIXED = {"initialValues": [{"type": "FLOAT32", "value": 1}, {"type": "UINT8", "value": 2}]}


@pytest.fixture
def awkward_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "e.bin").write_bytes(b"\0" * 12)
    (tmp_path / "empty.bin").write_bytes(b"")
    arrays: dict[str, Any] = {"i": np.zeros(3, np.int32), "u1": np.zeros(3, np.uint8), "c8": np.zeros(3, np.complex64)}
    for name, array in (arrays | {"bool": np.zeros(3, np.bool_), "cut": np.zeros(300)}).items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "objects.npy", np.array([None, "x"], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, a=np.zeros(3))
    (tmp_path / "zip.npy").write_bytes(archive.getvalue())
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:500])
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(tmp_path / "a.png")


@pytest.mark.usefixtures("awkward_files")
@pytest.mark.parametrize("refusal", REFUSALS, ids=[f"{i}-{next(iter(entry))}" for i, entry in enumerate(REFUSALS)])
def test_refusals(refused: Callable[[Any], str], sign_model: dict[str, Any], refusal: dict[str, Any]) -> None:
    model: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}
    if "command" in refusal:
        model = sign_model | {"commands": [refusal["command"]]}
        sign_model["resources"]["Mixed"] = _MIXED
    elif "resource" in refusal:
        model |= {"resources": {"A": refusal["resource"]}}
    else:
        model |= {"dispatchables": {"D": refusal["dispatchable"]}}
    assert refusal["message"] in refused(model).split(": ", 1)[1]


Load = Callable[[Any], Model]

Refused = Callable[[Any], str]


@pytest.fixture
def resource(load: Load) -> Callable[[dict[str, Any]], Resource]:
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
