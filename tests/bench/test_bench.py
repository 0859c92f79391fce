"""``dmlvk bench`` compares equal things, refuses wrong results, and says what it measured."""

from __future__ import annotations

import json
import types
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.bench import measurement
from dmlvk.bench.expressions import OF_NUMPY, OF_TORCH
from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.layouts import LAYOUTS, regular_tasks, task_of
from dmlvk.bench.libraries import opened
from dmlvk.bench.measurement import Result, Spread, Timing, difference, measure
from dmlvk.bench.numpy_library import NumPyLibrary
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.plots import write_plot
from dmlvk.bench.report import BenchReport
from dmlvk.bench.task import Array, Task
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.bench import parsed_attributes, parsed_sizes
from dmlvk.conformance.references import expected_output
from dmlvk.errors import InvalidArgumentError
from dmlvk.operators import OPERATORS
from tests.cli.outcome import Outcome
from tests.drawings import lines, overlapping, rectangles, texts


class Wrong:
    """A library that computes something else."""

    name, version, device, on_gpu = "Wrong", "1", "nowhere", False

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> Wrong:
        self.task, self.inputs = task, list(inputs.values())
        return self

    def result(self) -> Array:
        return np.full(self.inputs[0].shape, 7, np.float32)

    def seconds(self, _: int) -> float:
        raise AssertionError("what is wrong must not be timed")

    def wall_seconds(self) -> float:
        raise AssertionError("what is wrong must not be timed")

    def close(self) -> None:
        pass


class Off(Wrong):
    name = "Off"

    def __init__(self, factor: float = 1.0, added: float = 0.0) -> None:
        self.factor, self.added = factor, added

    def result(self) -> Array:
        right = expected_output(self.task.desc, [np.ascontiguousarray(array) for array in self.inputs])
        return right.astype(np.float64) * self.factor + self.added

    def seconds(self, _: int) -> float:
        return 1e-3

    def wall_seconds(self) -> float:
        return 1e-3


class Rising(Off):
    """A library whose device wakes up slowly, and waits whenever another library had it."""

    name = "Rising"

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.calls_alone = 0
        self.now = 0.0

    def clock(self) -> float:
        """A clock that goes on when the library works, and a little whenever somebody looks at it."""
        self.now += 1e-3
        return self.now

    def seconds(self, _: int) -> float:
        self.calls += 1
        self.calls_alone = 0
        self.now += max(0.002, 0.02 - 0.001 * self.calls)
        return 1.0 / self.calls

    def wall_seconds(self) -> float:
        self.calls_alone += 1
        return 2e-4 if self.calls_alone == 1 else 1e-5


def chosen(
    name: str,
    data_type: dml.DataType,
    layout: str = "contiguous",
    elements: int = 4096,
    attributes: Mapping[str, float] | None = None,
) -> Task | None:
    return next(
        regular_tasks(name, data_type, layout, elements * max(8, data_type.size_in_bits) // 8, attributes or {}), None
    )


def some(name: str, data_type: dml.DataType = dml.FLOAT32, layout: str = "contiguous", elements: int = 4096) -> Task:
    made = chosen(name, data_type, layout, elements)
    assert made is not None
    return made


def strides_of(task: Task) -> list[tuple[int, ...]]:
    tensors = [tensor for _, tensor in (*task.desc.inputs, *task.desc.outputs) if tensor is not None]
    return [tensor.element_strides for tensor in tensors]


NUMPY_HAS = sorted({name for name, function in FUNCTIONS.items() if function.numpy} | set(OF_NUMPY))


@pytest.mark.parametrize("name", NUMPY_HAS)
def test_other_libraries_are_asked_for_the_same_function(any_device: dml.Device, name: str) -> None:
    """NumPy's words, of every data type, agree with the operator's definition within what floats may differ."""
    layout = "rows" if (OPERATORS[name].declaration.pattern == "rows") else "contiguous"
    measured = 0
    for data_type in dml.DataType:
        made = chosen(name, data_type, layout)
        if made is None:
            continue
        result = measure(made, [OwnLibrary(any_device), NumPyLibrary()], seconds=0.0)
        numpy_does = NumPyLibrary().prepare(made, made.inputs()) is not None
        assert [timing.status for timing in result.timings] == ["measured"] * (1 + numpy_does), (made.name, result)
        measured += numpy_does
    assert measured or (name == "ELEMENT_WISE_BIT_COUNT" and not hasattr(np, "bitwise_count"))


@pytest.mark.parametrize("name", sorted(OF_TORCH))
def test_pytorch_is_asked_for_the_same_function(any_device: dml.Device, name: str) -> None:
    """Where it is installed: with the usual attributes, and with others."""
    torch_library = TorchLibrary(pytest.importorskip("torch"))
    layout = "rows" if (OPERATORS[name].declaration.pattern == "rows") else "contiguous"
    for attributes in ({}, {"alpha": 0.75, "beta": 0.3, "gamma": 1.5, "bias": 0.25, "sigmoid_input_scale": 1.5}):
        made = chosen(name, dml.FLOAT32, layout, 4096, attributes) or chosen(name, dml.INT8, layout, 4096, attributes)
        assert made
        result = measure(made, [OwnLibrary(any_device), torch_library], seconds=0.0)
        assert [timing.status for timing in result.timings] == ["measured", "measured"], (attributes, result)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT8, dml.INT64], ids=lambda t: t.name)
def test_layouts_mean_the_same_for_all(any_device: dml.Device, layout: str, data_type: dml.DataType) -> None:
    for name in ("ELEMENT_WISE_ADD", "ELEMENT_WISE_IF"):
        made = some(name, data_type, layout, 2**13)
        result = measure(made, [OwnLibrary(any_device), NumPyLibrary()], seconds=0.0)
        assert [timing.status for timing in result.timings] == ["measured", "measured"], result


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX1"])
def test_operators_that_look_along_rows_are_measured_on_rows(any_device: dml.Device, name: str) -> None:
    assert chosen(name, dml.FLOAT32, "contiguous", 2**13) is None
    made = some(name, layout="rows", elements=2**13)
    assert made.inputs()["InputTensor"].shape == (8, 1024)
    result = measure(made, [OwnLibrary(any_device)], seconds=0.0)
    assert [timing.status for timing in result.timings] == ["measured"], result


def test_layouts_are_what_their_names_say() -> None:
    def strides(layout: str) -> list[tuple[int, ...]]:
        made = some("ELEMENT_WISE_ADD", layout=layout, elements=2**20)
        assert made.inputs()["ATensor"].size == 2**20
        return strides_of(made)

    assert strides("contiguous") == [(1,), (1,), (1,)]
    assert strides("transposed") == [(1, 1024), (1024, 1), (1024, 1)]
    assert strides("row-broadcast")[1] == (0, 1)
    assert strides("column-broadcast")[1] == (1, 0)
    assert some("ELEMENT_WISE_ADD", layout="permuted", elements=2**20).inputs()["ATensor"].shape == (16, 64, 16, 64)
    assert strides("permuted")[0] == (65536, 64, 4096, 1)
    assert strides("channels-last")[0][1] == 1


@pytest.mark.parametrize("exponent", [2.5, 3.0, -0.5])
def test_attributes_are_those_that_are_asked_for(any_device: dml.Device, exponent: float) -> None:
    """Also in the words of other libraries; operators without such an attribute have their own."""
    asked = {"exponent": exponent, "steepness": 4.0}
    made = chosen("ELEMENT_WISE_CONSTANT_POW", dml.FLOAT32, attributes=asked)
    assert made is not None
    result = measure(made, [OwnLibrary(any_device), NumPyLibrary()], seconds=0.0)
    assert [timing.status for timing in result.timings] == ["measured", "measured"], result
    assert result.attributes == {"exponent": exponent}


@pytest.mark.parametrize(
    ("operator", "values", "attribute", "ordinary", "other"),
    [
        (
            dml.ElementWiseRound,
            [-1.75, 0.5, 2.5, np.nan],
            "rounding_mode",
            dml.RoundingMode.HALVES_TO_NEAREST_EVEN,
            dml.RoundingMode.TOWARD_ZERO,
        ),
        (
            dml.ElementWiseIsInfinity,
            [-np.inf, 0.5, np.inf, np.nan],
            "infinity_mode",
            dml.IsInfinityMode.EITHER,
            dml.IsInfinityMode.POSITIVE,
        ),
    ],
)
def test_modes_that_no_other_library_has_are_not_compared_with_it(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    operator: type[dml.OperatorDesc],
    values: list[float],
    attribute: str,
    ordinary: int,
    other: int,
) -> None:
    """NumPy's rint is no truncation: its results are then different, and nothing is timed."""
    monkeypatch.setattr(Task, "_values", lambda *_: np.array(values, np.float32))
    for mode, status in ((ordinary, "measured"), (other, "different results")):
        desc = some(operator.operator_name, elements=len(values)).desc
        members = {field.attribute: getattr(desc, field.attribute) for field in desc.fields}
        made = task_of(operator(**{**members, attribute: mode}), dml.FLOAT32, "contiguous")
        result = measure(made, [OwnLibrary(any_device), NumPyLibrary()], seconds=0.0)
        assert [timing.status for timing in result.timings] == ["measured", status], result


def test_attributes_that_an_operator_forbids_are_an_error() -> None:
    with pytest.raises(dml.DmlError, match="ELEMENT_WISE_THRESHOLD: Min must fit into FLOAT"):
        chosen("ELEMENT_WISE_THRESHOLD", dml.FLOAT32, attributes={"min": 1e50})


def test_functions_that_numpy_does_not_have_are_verified_too(any_device: dml.Device) -> None:
    made = some("ACTIVATION_SOFTPLUS")
    result = measure(made, [OwnLibrary(any_device), Wrong()], seconds=0.0)
    assert [timing.status for timing in result.timings] == ["measured", "different results"]


def test_each_byte_counts_once() -> None:
    assert some("ELEMENT_WISE_ADD", elements=2**20).work == 3 * 4 * 2**20
    assert some("ELEMENT_WISE_ADD", layout="row-broadcast", elements=2**20).work == 2 * 4 * 2**20 + 4 * 1024
    assert some("ELEMENT_WISE_IF", elements=2**20).work == (1 + 3 * 4) * 2**20


def test_wrong_results_are_not_timed(any_device: dml.Device) -> None:
    result = measure(some("ELEMENT_WISE_ADD"), [OwnLibrary(any_device), Wrong()], seconds=0.0)
    own, wrong = result.timings
    assert own.status == "measured"
    assert (wrong.status, wrong.seconds) == ("different results", None)
    assert "4096 of 4096 results; the first is" in wrong.detail


@pytest.mark.parametrize(
    ("name", "data_type", "added", "factor", "status"),
    [
        ("ACTIVATION_LINEAR", dml.FLOAT16, 5e-4, 1.0, "measured"),  # libraries that round what is between
        ("ACTIVATION_LINEAR", dml.FLOAT16, 5e-3, 1.0, "different results"),
        ("ELEMENT_WISE_SIN", dml.FLOAT32, 2e-6, 1.0, "measured"),  # at zeros of drivers' functions
        ("ELEMENT_WISE_SIN", dml.FLOAT32, 3e-5, 1.0, "different results"),
        ("ELEMENT_WISE_SIN", dml.FLOAT32, 0.0, 1.0001, "measured"),
        ("ELEMENT_WISE_SIN", dml.FLOAT32, 0.0, 1.001, "different results"),
        ("ELEMENT_WISE_IDENTITY", dml.FLOAT64, 0.0, 1.0, "measured"),
        ("ELEMENT_WISE_IDENTITY", dml.FLOAT64, 1e-14, 1.0, "different results"),
        ("ACTIVATION_SOFTMAX", dml.FLOAT16, 0.0, 1.3, "different results"),  # of 1024 elements, all are small
        ("ACTIVATION_SOFTMAX", dml.FLOAT32, 0.0, 1.01, "different results"),
    ],
)
def test_results_may_be_off_by_what_float_types_make_of_them(
    any_device: dml.Device, name: str, data_type: dml.DataType, added: float, factor: float, status: str
) -> None:
    made = some(name, data_type, "rows" if (OPERATORS[name].declaration.pattern == "rows") else "contiguous")
    result = measure(made, [OwnLibrary(any_device), Off(factor, added)], seconds=0.0)
    assert [timing.status for timing in result.timings] == ["measured", status], result


def test_equal_infinities_and_nans_are_equal() -> None:
    made = some("ELEMENT_WISE_ABS", elements=4)
    values = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    assert difference(np.abs(values), np.abs(values), made) == ""
    assert difference(values, np.abs(values), made).startswith("1 of 4 results; the first is ")
    assert difference(np.array([1e30, np.inf, 0.0, 0.0], np.float32), np.abs(values), made).startswith("2 of 4 results")


def test_libraries_that_are_not_there_are_named_with_the_reason(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with opened(["numpy", "torch"], any_device) as (libraries, absent):
        assert [library.name for library in libraries] == ["NumPy"]
        assert absent == {"torch": "not installed"}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("64MiB", [2**26]), ("4k,1M", [2**12, 2**20]), ("1KiB..64KiB", [2**10, 2**12, 2**14, 2**16]), ("100b", [100])],
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parsed_sizes(text) == sizes


def test_attributes_on_the_command_line() -> None:
    assert parsed_attributes("") == {}
    assert parsed_attributes("alpha=0.5, steepness=2e-3") == {"alpha": 0.5, "steepness": 0.002}
    for text, message in (
        ("steepnes=2", "'steepnes' is none of alpha, beta"),
        ("alpha", "'alpha' is no NAME=NUMBER"),
        ("alpha=x", "'alpha=x' is no NAME=NUMBER"),
        ("alpha=1,", "'' is none of"),
        ("rounding_mode=1", "'rounding_mode' is none of"),
    ):
        with pytest.raises(click.UsageError, match=message):
            parsed_attributes(text)


@pytest.mark.parametrize("text", ["", "x", "1", "-4k", "4TiB", "1M..1k", "1k..", "99999999999999999999"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(click.UsageError, match="--sizes"):
        parsed_sizes(text)


def report(device: dml.Device, slower: float = 1.0, names: Sequence[str] = ("ELEMENT_WISE_EXP",)) -> BenchReport:
    def result(elements: int, name: str) -> Result:
        seconds = elements * 1e-9 * (1.0 if name == "ELEMENT_WISE_IDENTITY" else slower)
        spread = Spread(seconds, seconds * 0.9, seconds * 1.2)
        timings = (
            Timing("dmlvk", "measured", seconds=spread, wall_seconds=spread),
            Timing("X", "not measured", "out of memory"),
        )
        series = f"{name}, contiguous"
        work = 8 * elements
        return Result(name, f"{name} {elements}", "float32", "contiguous", work, "B/s", series, work, {}, timings)

    results = [result(4**n, name) for n in range(5, 12) for name in ("ELEMENT_WISE_IDENTITY", *names)]
    return BenchReport.of(device, [OwnLibrary(device)], {"torch": "not installed"}, results)


def test_plots(any_device: dml.Device, tmp_path: Path) -> None:
    write_plot(report(any_device), tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert "ELEMENT_WISE_EXP, contiguous, float32" in text
    assert "copy, 8 GB/s" in text


@pytest.mark.parametrize("slower", [0.001, 0.03, 0.5, 0.95, 1.05, 1.2, 2.0, 1000.0])
def test_nothing_is_drawn_over_a_plots_labels(any_device: dml.Device, tmp_path: Path, slower: float) -> None:
    """Wherever the copy's line comes, and however long a name is."""
    path = tmp_path / "plot.svg"
    longest = max(OPERATORS, key=lambda name: len(name.removeprefix("ELEMENT_WISE_")))
    write_plot(report(any_device, slower, (longest, "ELEMENT_WISE_EXP")), path)
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    labels = texts(root)
    assert sum(label.what == "copy, 8 GB/s" for label in labels) == 4  # the bars have one, too
    assert overlapping(labels) == []
    over = [
        (label.what, what.what) for label in labels for what in (*lines(root), *rectangles(root)) if label.meets(what)
    ]
    assert over == []


def test_a_plot_of_another_kind_is_refused(any_device: dml.Device, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must end in \.svg"):
        write_plot(report(any_device), tmp_path / "plot.png")


def test_the_command(device: dml.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, plot = tmp_path / "bench.json", tmp_path / "bench.svg"
    arguments = ["bench", "-d", str(device.info.index), "-o", "add,EXP", "-t", "float32,int8", "--seconds", "0.01"]
    arguments += ["-s", "1KiB..16KiB", "--libraries", "numpy", "--json", str(json_file), "--plot", str(plot)]
    outcome = Outcome(capsys, *arguments)
    assert (outcome.status, outcome.err) == (0, "")
    assert "NumPy" in outcome.out
    found: dict[str, Any] = json.loads(json_file.read_text(encoding="utf-8"))
    assert found["device"] == device.info.name
    assert {each["name"] for each in found["libraries"]} == {"dmlvk", "NumPy"}
    names = [(each["operator"], each["data_type"], each["work"]) for each in found["results"]]
    sizes = (2**10, 2**12, 2**14)
    assert names == [
        *(("ELEMENT_WISE_ADD", "float32", 3 * size) for size in sizes),
        *(("ELEMENT_WISE_ADD", "int8", 3 * size) for size in sizes),
        *(("ELEMENT_WISE_EXP", "float32", 2 * size) for size in sizes),
        *(("ELEMENT_WISE_IDENTITY", "float32", 2 * size) for size in sizes),  # what everything is compared with
    ]
    assert found["copy_ceiling_in_bytes_per_second"] > 0
    assert "A packed copy reached" in outcome.out
    for each in found["results"]:
        for timing in each["timings"]:
            assert 0 < timing["seconds"]["low"] <= timing["seconds"]["median"] <= timing["seconds"]["high"]
    assert plot.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "NOTHING"], "'NOTHING' is no operator"),
        (["-t", "float8"], "'float8' is no data type"),
        (["-l", "diagonal"], "'diagonal' is none of contiguous"),
        (["--libraries", "numpi"], "'numpi' is none of numpy"),
        (["-o", "SIN", "-t", "int8"], "no operator of these takes"),
        (["--json", "/nowhere/x.json"], "no such directory"),
        (["--plot", "x.pdf"], "must end in .svg"),
        (["-s", "huge"], "'huge' is no size"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "bench", *arguments)
    assert outcome.status == 2
    assert message in outcome.err


def test_a_library_works_until_it_is_no_faster_before_anything_counts(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is short is timed when the device is there for it."""
    rising = Rising()
    monkeypatch.setattr(measurement, "time", types.SimpleNamespace(perf_counter=rising.clock))
    result = measure(some("ELEMENT_WISE_ADD"), [OwnLibrary(any_device), rising], seconds=0.001)
    (timing,) = (each for each in result.timings if each.library == "Rising")
    assert timing.seconds is not None and timing.wall_seconds is not None
    assert timing.seconds.high < 1.0 / 18  # the first calls, until the eighteenth, take longer and longer less
    assert timing.wall_seconds.high == 1e-5
