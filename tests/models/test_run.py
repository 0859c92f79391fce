"""Model files are run: their results, commands, comparisons."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.models import Model, RunResult, Timing
from dmlvk.models.commands import DispatchCommand, ExpectCommand, PrintCommand, Tolerance, WriteFileCommand
from dmlvk.models.comparison import compare
from dmlvk.models.formatting import format_bits, format_value

Run = Callable[..., tuple[RunResult, list[str]]]

EXAMPLES = Path(__file__).parents[2] / "examples"


def bind(source: Any = "X", target: Any = "Out") -> dict[str, Any]:
    return {"type": "dispatch", "dispatchable": "sign", "bindings": {"InputTensor": source, "OutputTensor": target}}


def test_dispatch_and_print(run: Run, sign_model: dict[str, Any]) -> None:
    result, lines = run(sign_model)
    assert lines == ["Resource 'Out': -1, 0, 1"]
    assert (result.expectations, result.failures, result.files) == (0, 0, [])


def test_in_place_and_kept_contents(run: Run, sign_model: dict[str, Any]) -> None:
    show = {"type": "print", "resource": "X"}
    sign_model["commands"] = [show, bind("X", "X"), show, bind("X", "X"), show]
    assert run(sign_model)[1] == ["Resource 'X': -3, 0, 5", "Resource 'X': -1, 0, 1", "Resource 'X': -1, 0, 1"]


def test_one_resource_side_by_side(run: Run, sign_model: dict[str, Any]) -> None:
    sign_model["resources"]["Both"] = {"initialValuesDataType": "FLOAT32", "initialValues": [-2, 3, 0, 7, 7, 7, 7]}
    target = {"name": "Both", "elementOffset": 4}
    sign_model["commands"] = [bind("Both", target), {"type": "print", "resource": "Both"}]
    assert run(sign_model)[1] == ["Resource 'Both': -2, 3, 0, 7, -1, 1, 0"]


def test_prints(run: Run) -> None:
    resources = {
        "bytes": {"initialValuesDataType": "INT8", "initialValues": [65, -1, 0, 1, 2]},
        "half": {"initialValuesDataType": "FLOAT16", "initialValues": [0.5, "nan"]},
        "mixed": {"initialValues": [{"type": "UINT8", "value": 1}, {"type": "FLOAT32", "value": -0.0}]},
        "inside": {
            "initialValuesDataType": "UINT16",
            "initialValues": [7, 8],
            "initialValuesOffsetInBytes": 6,
            "sizeInBytes": 64,
        },
        "sequence": {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5},
        },
    }
    commands = [{"type": "print", "resource": name} for name in resources]
    commands += [{"type": "print", "resource": name, "verbose": True} for name in ("half", "mixed")]  # type: ignore[dict-item]  # JSON
    assert run({"resources": resources, "dispatchables": {}, "commands": commands})[1] == [
        *("Resource 'bytes': 65, -1, 0, 1, 2", "Resource 'half': 0.5, nan", "Resource 'mixed': 1, -0"),
        *("Resource 'inside': 7, 8", "Resource 'sequence': 1, 3.5, 6, 8.5", "Resource 'half':", "[0] 0.5 (0x3800)"),
        *("[1] nan (0x7E00)", "Resource 'mixed':", "[0] 1 (0x01)", "[1] -0 (0x80000000)"),
    ]


def test_files(run: Run, sign_model: dict[str, Any], tmp_path: Path) -> None:
    sign_model["resources"]["bytes"] = {"initialValuesDataType": "UINT8", "initialValues": [0, 128, 255, 1, 2, 3]}
    sign_model["resources"]["sized"] = {
        "initialValuesDataType": "UINT8",
        "initialValues": [5],
        "initialValuesOffsetInBytes": 1,
        "sizeInBytes": 10,
    }
    sign_model["commands"] += [
        {"type": "writeFile", "resource": "Out", "targetPath": "deep/down/out.npy", "dimensions": [1, 3]},
        {"type": "writeFile", "resource": "bytes", "targetPath": "bytes.npy"},
        {"type": "writeFile", "resource": "bytes", "targetPath": "bytes.bin"},
        {"type": "writeFile", "resource": "sized", "targetPath": "sized.bin"},
        {"type": "writeFile", "resource": "sized", "targetPath": "sized.npy"},
        {"type": "writeFile", "resource": "bytes", "targetPath": "bytes.png", "dimensions": [1, 3, 1, 2]},
    ]
    result, lines = run(sign_model)
    out = tmp_path / "out"
    assert result.files == [
        out / name for name in ("deep/down/out.npy", "bytes.npy", "bytes.bin", "sized.bin", "sized.npy", "bytes.png")
    ]
    assert lines[1] == f"Resource 'Out' written to '{out / 'deep/down/out.npy'}'"
    np.testing.assert_array_equal(np.load(out / "deep/down/out.npy"), np.array([[-1, 0, 1]], np.float32))
    np.testing.assert_array_equal(np.load(out / "bytes.npy"), np.array([0, 128, 255, 1, 2, 3], np.uint8))
    assert (out / "bytes.bin").read_bytes() == bytes([0, 128, 255, 1, 2, 3, 0, 0])
    assert (out / "sized.bin").read_bytes() == bytes([0, 5, 0, 0, 0, 0, 0, 0, 0, 0])
    assert np.load(out / "sized.npy").shape == (10,)
    with Image.open(out / "bytes.png") as picture:
        assert [picture.getpixel((x, 0)) for x in range(2)] == [(0, 255, 2), (128, 1, 3)]


def test_a_picture_comes_back(run: Run, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 3, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    for data_type in ("FLOAT32", "FLOAT16", "UINT8"):
        resource = {"initialValuesDataType": data_type, "initialValues": {"sourcePath": "in.png"}}
        command = {"type": "writeFile", "resource": "P", "targetPath": "out.png"}
        run({"resources": {"P": resource}, "dispatchables": {}, "commands": [command]})
        with Image.open(tmp_path / "out" / "out.png") as picture:
            np.testing.assert_array_equal(np.asarray(picture), pixels)


def test_files_that_cannot_be_written(run: Run, sign_model: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "out" / "taken.npy").mkdir(parents=True)
    for target in ("taken.npy", "x" * 300 + ".bin"):
        sign_model["commands"] = [{"type": "writeFile", "resource": "X", "targetPath": target}]
        with pytest.raises(dml.ModelFileError, match=rf":\d+:\d+: cannot write '.*{target[:9]}"):
            run(sign_model)


def test_files_stay_inside_the_output_directory(run: Run, sign_model: dict[str, Any], tmp_path: Path) -> None:
    """Symbolic links are followed as long as they lead to places inside it."""
    out, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / "file.npy").write_bytes(b"kept")
    (out / "inside").mkdir(parents=True)
    for name, location in {"folder": outside, "file.npy": outside / "file.npy", "new.bin": outside / "new.bin"}.items():
        (out / name).symlink_to(location)
    (out / "near").symlink_to(out / "inside")
    for target in ("folder/x.npy", "folder/deep/x.npy", "file.npy", "new.bin"):
        sign_model["commands"] = [{"type": "writeFile", "resource": "X", "targetPath": target}]
        with pytest.raises(dml.ModelFileError, match=r":\d+: targetPath must stay inside .*; a symbolic link"):
            run(sign_model)
    assert sorted(path.name for path in outside.iterdir()) == ["file.npy"]
    assert (outside / "file.npy").read_bytes() == b"kept"
    sign_model["commands"] = [{"type": "writeFile", "resource": "X", "targetPath": "near/x.npy"}]
    run(sign_model)
    assert (out / "inside" / "x.npy").is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such pipes")
def test_a_pipe_is_not_written_to(run: Run, sign_model: dict[str, Any], tmp_path: Path) -> None:
    """That would wait for somebody who reads."""
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "x.npy")
    sign_model["commands"] = [{"type": "writeFile", "resource": "X", "targetPath": "x.npy"}]
    with pytest.raises(dml.ModelFileError, match=r"x\.npy': it is there, and no regular file"):
        run(sign_model)


def test_names_cannot_imitate_other_lines(run: Run, sign_model: dict[str, Any]) -> None:
    odd = "a\nExpect 'Out': 3 values as expected (exact)\r\x1b[2K\u2028\x85é"
    sign_model["resources"][odd] = sign_model["resources"]["X"]
    sign_model["commands"] = [
        {"type": "print", "resource": odd},
        {"type": "print", "resource": odd, "verbose": True},
        {"type": "expect", "resource": odd, "values": [-3, 0, 5]},
        {"type": "writeFile", "resource": odd, "targetPath": "b\nc.npy"},
    ]
    lines = run(sign_model)[1]
    assert all(line.isprintable() for line in lines)
    shown = r"a\nExpect 'Out': 3 values as expected (exact)\r\x1b[2K\u2028\x85é"
    assert lines[0] == f"Resource '{shown}': -3, 0, 5"
    assert lines[-1].endswith(r"b\nc.npy'")


def test_expectations(run: Run, sign_model: dict[str, Any], tmp_path: Path) -> None:
    sign_model["commands"] = [
        bind(),
        {"type": "expect", "resource": "Out", "values": [-1, 0, 1]},
        {"type": "expect", "resource": "Out", "values": [-1, 0, 2]},
        {"type": "expect", "resource": "Out", "values": [-1, 0, 2], "rtol": 0.5},
        {"type": "print", "resource": "Out"},
    ]
    result, lines = run(sign_model)
    assert (result.expectations, result.failures) == (3, 1)
    text = json.dumps(sign_model, indent=1).splitlines()
    line = next(i for i, content in enumerate(text) if content.strip() == "2" and text[i - 1].strip() == "0,") - 4
    assert lines == [
        "Expect 'Out': 3 values as expected (exact)",
        f"Expect 'Out' FAILED ({tmp_path / 'model.json'}:{line - 1}:3): 1 of 3 values differ (exact)",
        "  [2] got 1 (0x3F800000), expected 2 (0x40000000), off by 1, 8388608 ULP",
        "Expect 'Out': 3 values as expected (rtol 0.5)",
        "Resource 'Out': -1, 0, 1",
    ]


def test_timing_does_not_change_results(run: Run) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    model = {
        "resources": {"X": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2]}},
        "dispatchables": {
            "twice": {
                "type": "ELEMENT_WISE_THRESHOLD",
                "InputTensor": tensor,
                "OutputTensor": tensor,
                "ScaleBias": {"Scale": 2, "Bias": 0},
                "Min": 0,
            }
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "twice", "bindings": {"InputTensor": "X", "OutputTensor": "X"}},
            {"type": "expect", "resource": "X", "values": [2, 4]},
        ],
    }
    for timing, kinds in ((Timing(), ("cold", "hot")), (Timing(3, 0, 2), ("hot",)), (Timing(1, 5, 7), ("cold",))):
        result, lines = run(model, timing)
        assert result.failures == 0
        assert lines[0].startswith(f"Dispatch 'twice': {timing.iterations} iterations, median wall time ")
        for part in lines[0].split("; device time"):
            assert [kind for kind in ("cold", "hot") if f" ms {kind}" in part] == list(kinds)
        assert lines[0].count("; device time ") == 1


def test_owned_values_are_those_of_the_beginning(run: Run) -> None:
    """They are copied before the first command."""
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    content: dict[str, Any] = {
        "resources": {
            name: {"initialValuesDataType": "FLOAT32", "initialValues": values}
            for name, values in (("X", [1, 5]), ("W", [3, 3]), ("Out", [0, 0]))
        },
        "dispatchables": {
            "max": {
                "type": "ELEMENT_WISE_MAX",
                "desc": {"ATensor": tensor, "BTensor": {**tensor, "Flags": "OWNED_BY_DML"}, "OutputTensor": tensor},
                "bindings": {"BTensor": "W"},
            },
            "abs": {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": tensor, "OutputTensor": tensor}},
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "abs", "bindings": {"InputTensor": "X", "OutputTensor": "W"}},
            {"type": "dispatch", "dispatchable": "max", "bindings": {"ATensor": "X", "OutputTensor": "Out"}},
            {"type": "expect", "resource": "Out", "values": [3, 5]},
            {"type": "expect", "resource": "W", "values": [1, 5]},
        ],
    }
    result, lines = run(content)
    assert (result.expectations, result.failures) == (2, 0), lines
    content["commands"] = []
    content["resources"]["W"] = {"initialValuesDataType": "FLOAT32", "initialValues": [3]}
    with pytest.raises(dml.ModelFileError, match=r"the dispatchable 'max': .*size"):
        run(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda model: model["dispatchables"]["sign"]["desc"].update(
                InputTensor={"DataType": "FLOAT64", "Sizes": [3]}, OutputTensor={"DataType": "FLOAT64", "Sizes": [3]}
            ),
            r":\d+:\d+: the dispatchable 'sign': ELEMENT_WISE_SIGN: InputTensor\.DataType must be one of ",
        ),
        (
            lambda model: model["dispatchables"]["sign"]["desc"].update(
                OutputTensor={"DataType": "FLOAT32", "Sizes": [4]}
            ),
            r":\d+:\d+: the dispatchable 'sign': ELEMENT_WISE_SIGN: InputTensor\.Sizes must equal ",
        ),
        (
            lambda model: model["commands"].__setitem__(0, bind({"name": "X", "elementOffset": 1})),
            r":\d+:\d+: ELEMENT_WISE_SIGN: InputTensor: the binding's offset must be a multiple of 16 bytes; got 4",
        ),
        (
            lambda model: model["resources"]["X"].update(initialValues=[1, 2]),
            r":\d+:\d+: ELEMENT_WISE_SIGN: InputTensor: the binding's size must be at least TotalTensorSizeInBytes 12",
        ),
    ],
)
def test_errors_of_the_device_name_the_place(
    run: Run, sign_model: dict[str, Any], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    change(sign_model)
    with pytest.raises(dml.ModelFileError, match=message) as caught:
        run(sign_model)
    assert isinstance(caught.value.__cause__, dml.DmlError)


def test_a_buffer_that_the_device_refuses_takes_no_memory_here(
    run: Run, sign_model: dict[str, Any], device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: dml.Device, size: int) -> dml.Buffer:
        raise dml.OutOfMemoryError(f"Buffer: {size} bytes do not fit")

    monkeypatch.setattr(dml.Device, "create_buffer", refuse)
    sign_model["resources"] = {
        "Huge": {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 2**32 - 4, "value": 1}},
        **sign_model["resources"],
    }
    with pytest.raises(dml.ModelFileError, match=r":3:11: the resource 'Huge': Buffer: 4294967292 bytes do not fit$"):
        run(sign_model)


def test_arrays_of_tensors_are_bound_by_arrays_of_resources(run: Run) -> None:
    """Also with an offset, and one resource twice."""
    with open(EXAMPLES / "join_split.json", encoding="utf-8") as file:
        text = "".join(line for line in file if not line.startswith("//"))
    model = json.loads(text)
    model["resources"]["B"]["initialValues"] = [9] * 8 + [-1, -2]
    model["commands"][0]["bindings"]["InputTensors"][1] = {"name": "B", "elementOffset": 8}
    result, _ = run(model)
    assert (result.expectations, result.failures) == (3, 0)


@pytest.mark.parametrize("bound", ["A", ["A", "B"], []])
def test_as_many_resources_as_tensors(run: Run, bound: Any) -> None:
    with open(EXAMPLES / "join_split.json", encoding="utf-8") as file:
        text = "".join(line for line in file if not line.startswith("//"))
    model = json.loads(text)
    model["commands"][0]["bindings"]["InputTensors"] = bound
    count = len(bound) if isinstance(bound, list) else 1
    with pytest.raises(dml.ModelFileError, match=rf"InputTensors takes 3 resources; {count} are bound"):
        run(model)


def test_values_of_fills(run: Run) -> None:
    """A FLOAT64 in either form, and steps below 0 of an unsigned type."""
    result, lines = run(
        {
            "resources": {
                "D": {"initialValuesDataType": "FLOAT64", "initialValues": [0, 0]},
                "S": {"initialValuesDataType": "UINT8", "initialValues": [0, 0, 0, 0]},
            },
            "dispatchables": {
                "fill": {
                    "type": "FILL_VALUE_CONSTANT",
                    "desc": {
                        "OutputTensor": {"DataType": "FLOAT64", "Sizes": [2]},
                        "ValueDataType": "FLOAT64",
                        "Value": {"Float64": 0.1},
                    },
                },
                "count": {
                    "type": "FILL_VALUE_SEQUENCE",
                    "desc": {
                        "OutputTensor": {"DataType": "UINT8", "Sizes": [4]},
                        "ValueDataType": "UINT8",
                        "ValueStart": 10,
                        "ValueDelta": -4,
                    },
                },
            },
            "commands": [
                {"type": "dispatch", "dispatchable": "fill", "bindings": {"OutputTensor": "D"}},
                {"type": "dispatch", "dispatchable": "count", "bindings": {"OutputTensor": "S"}},
                {"type": "print", "resource": "S"},
                {"type": "expect", "resource": "D", "values": [0.1, 0.1]},
            ],
        }
    )
    assert lines[0] == "Resource 'S': 10, 6, 2, 254"
    assert (result.expectations, result.failures) == (1, 0)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_examples(device: dml.Device, tmp_path: Path, path: Path) -> None:
    from dmlvk.models import load_model, run_model

    lines: list[str] = []
    result = run_model(load_model(path), device, tmp_path, lines.append)
    assert result.failures == (1 if path.stem == "failing_expect" else 0), lines
    assert result.expectations or path.stem == "color_splash"
    if path.stem == "color_splash":
        check_color_splash(tmp_path)


def check_color_splash(directory: Path) -> None:
    """The suit keeps its colour, the face turns grey, and the mask is black and white."""
    assert sorted(path.name for path in directory.iterdir()) == ["color_splash.png", "mask.png", "poster.png"]
    with Image.open(directory / "color_splash.png") as opened:
        splash = np.asarray(opened)
    with Image.open(directory / "mask.png") as opened:
        mask = np.asarray(opened)
    with Image.open(EXAMPLES / "pictures" / "astronaut.jpg") as opened:
        picture = np.asarray(opened)
    assert splash.shape == picture.shape == (512, 512, 3)
    assert set(np.unique(mask)) == {0, 255}
    assert 0.15 < (mask == 255).mean() < 0.4
    suit, face = (slice(310, 340), slice(90, 130)), (slice(100, 130), slice(210, 240))
    assert (mask[suit] == 255).all()
    np.testing.assert_array_equal(splash[suit], picture[suit])
    np.testing.assert_array_equal(splash[face], picture[face][:, :, 1:2].repeat(3, axis=2))


INF, NAN = float("inf"), float("nan")

EXACT = Tolerance("exact")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "passes"),
    [
        (1.0, 1.0, EXACT, True),
        (0.0, -0.0, EXACT, False),
        (NAN, NAN, EXACT, True),
        (NAN, 1.0, EXACT, False),
        (INF, INF, EXACT, True),
        (0.0, -0.0, Tolerance("ulp", 0), True),
        (NAN, NAN, Tolerance("ulp", 0), True),
        (NAN, 0.0, Tolerance("ulp", 2**32 - 1), False),
        (INF, -INF, Tolerance("atol", 1e300), False),
        (INF, INF, Tolerance("rtol", 0), True),
        (INF, 1.0, Tolerance("ulp", 2**32 - 1), False),
        (1.0, 1.5, Tolerance("atol", 0.5), True),
        (1.0, 1.5, Tolerance("atol", 0.499), False),
        (3.0, 2.0, Tolerance("rtol", 0.5), True),
        (2.0, 3.0, Tolerance("rtol", 0.3), False),
        (0.0, 0.0, Tolerance("rtol", 0), True),
        (0.0, -0.0, Tolerance("rtol", 0), True),
    ],
)
def test_floats(dtype: Any, got: float, expected: float, tolerance: Tolerance, passes: bool) -> None:
    assert compare(np.array([got], dtype), np.array([expected], dtype), tolerance).has_passed is passes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulp_counts_representable_values(dtype: Any) -> None:
    tiny = np.nextafter(dtype(0), dtype(1))
    largest = np.finfo(dtype).max
    for start, steps in ((dtype(1), 3), (-tiny, 2), (tiny, 1), (dtype(-2), 5), (largest, 1)):
        value = start
        for _ in range(steps):
            value = np.nextafter(value, dtype(-INF))
        pair = np.array([start], dtype), np.array([value], dtype)
        assert compare(*pair, Tolerance("ulp", steps)).has_passed
        assert not compare(*pair, Tolerance("ulp", steps - 1)).has_passed
        assert not compare(pair[1], pair[0], Tolerance("ulp", steps - 1)).has_passed


@pytest.mark.parametrize(
    ("dtype", "got", "expected", "distance"),
    [
        (np.int64, 2**63 - 1, -(2**63), 2**64 - 1),
        (np.uint64, 0, 2**64 - 1, 2**64 - 1),
        (np.uint64, 2**53 + 1, 2**53, 1),
        (np.int8, -128, 127, 255),
        (np.uint8, 3, 5, 2),
    ],
)
def test_integers(dtype: Any, got: int, expected: int, distance: int) -> None:
    pair = np.array([got], dtype), np.array([expected], dtype)
    assert not compare(*pair, EXACT).has_passed
    assert compare(*pair, Tolerance("atol", 2.0**64)).has_passed
    if distance < 2**32:
        assert compare(*pair, Tolerance("ulp", distance)).has_passed
        assert not compare(*pair, Tolerance("ulp", distance - 1)).has_passed
        assert not compare(*pair, Tolerance("atol", distance - 0.5)).has_passed
    assert f"off by {distance}" in compare(*pair, EXACT).report[1]


def test_integers_relative() -> None:
    assert compare(np.array([110]), np.array([100]), Tolerance("rtol", 0.1)).has_passed
    assert not compare(np.array([111]), np.array([100]), Tolerance("rtol", 0.1)).has_passed


def test_the_report_is_short() -> None:
    comparison = compare(np.arange(100, dtype=np.float32), np.zeros(100, np.float32), Tolerance("atol", 0.5))
    assert comparison.wrong.tolist() == list(range(1, 100))
    assert comparison.report[0] == "99 of 100 values differ (atol 0.5)"
    assert comparison.report[1] == "[1] got 1 (0x3F800000), expected 0 (0x00000000), off by 1, 1065353216 ULP"
    assert len(comparison.report) == 10
    assert comparison.report[-1] == "… and 91 more"


@pytest.mark.parametrize(
    ("value", "text", "bits"),
    [
        (np.float32(6), "6", "0x40C00000"),
        (np.float32(-0.0), "-0", "0x80000000"),
        (np.float32(0.1), "0.1", "0x3DCCCCCD"),
        (np.float16(65504), "65504", "0x7BFF"),
        (np.float64(0.1), "0.1", "0x3FB999999999999A"),
        (np.float32(3.4028235e38), "3.4028235e+38", "0x7F7FFFFF"),
        (np.float32("nan"), "nan", "0x7FC00000"),
        (np.float32("-inf"), "-inf", "0xFF800000"),
        (np.uint8(65), "65", "0x41"),
        (np.int8(-1), "-1", "0xFF"),
        (np.int64(-(2**63)), "-9223372036854775808", "0x8000000000000000"),
    ],
)
def test_formats(value: np.generic, text: str, bits: str) -> None:
    assert format_value(value) == text
    assert format_bits(value) == bits


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
