"""The JSON dialect, and the places that errors name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.models import json_source
from dmlvk.models.json_source import JsonNode, parse_json, read_json_file


def plain(node: JsonNode) -> Any:
    """The value without places."""
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
        ('"abc', "1:1: this string has no end"),
        ('"a\tb"', "1:3: a string may not contain the control character '\\t'; write an escape"),
        ('"\\q"', "1:2: unknown escape in a string: a backslash before 'q'"),
        ('"\\u12x4"', "1:2: \\u must be followed by four hexadecimal digits"),
        ('"\\ud800x"', "1:2: half of a surrogate pair stands alone"),
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
