"""Tasks and their plots: what is timed is theirs, what is drawn is what was timed."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest

import dmlvk as dml
from dmlvk.bench import measurement
from dmlvk.bench.measurement import Result, Spread, Timing, measure
from dmlvk.bench.own import OwnLibrary, OwnPrepared
from dmlvk.bench.peaks import PEAKS, peak_of
from dmlvk.bench.plots import write_plot
from dmlvk.bench.registry import MAKERS
from dmlvk.bench.report import BenchReport
from dmlvk.bench.task import Array, Task
from dmlvk.bench.tasks import OPERATORS_WITH_TASKS, tasks
from dmlvk.operators import OPERATORS, check_operator
from tests.cli.outcome import Outcome

SMALL = 2**18


@pytest.mark.parametrize("name", [name for name in OPERATORS_WITH_TASKS if name in OPERATORS])
def test_tasks_are_descriptions_that_hold(name: str) -> None:
    made = tasks(name, dml.FLOAT32, SMALL)
    assert made
    for task in made:
        check_operator(task.desc, max(dml.FeatureLevel))
        inputs = task.inputs()
        assert set(inputs) == {field.name for field, tensor in task.desc.inputs if tensor is not None}
        for member, below in task.indices.items():
            assert 0 <= inputs[member].min() <= inputs[member].max() < below


def test_an_operator_whose_tasks_fail_or_are_not_there_is_named_and_the_others_are_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(data_type: dml.DataType, size: int) -> Iterator[Task]:
        raise ZeroDivisionError("no rows")

    monkeypatch.setitem(MAKERS, "JOIN", functools.partial(failing))
    outcome = Outcome(capsys, "bench", "-o", "JOIN,LP_NORMALIZATION,GATHER", "-t", "float32", "-s", "16KiB")
    assert outcome.status == 0
    lacking, failed = outcome.err.splitlines()[:2]
    assert lacking == "not timed, for there is no bench task in dmlvk/bench/tasks.py: LP_NORMALIZATION"
    assert failed.startswith("not timed: JOIN: bench task: ZeroDivisionError: no rows (test_tasks.py:")
    assert "gather" in outcome.out.lower()


def test_a_task_is_timed(any_device: dml.Device) -> None:
    (task, *_) = tasks("GATHER", dml.FLOAT32, SMALL)
    result = measure(task, [OwnLibrary(any_device)], 0.0)
    assert (result.name, result.data_type, result.unit) == (task.name, "float32", "B/s")
    assert 0 < (result.speed("dmlvk") or 0.0) < math.inf


def test_products_with_packed_weights_are_timed_as_one_graph(any_device: dml.Device) -> None:
    (task,) = (
        task for task in tasks("DEQUANTIZE", dml.FLOAT16, 2**21) if task.name.startswith("GEMM 1 x 2048 by 2048")
    )
    assert task.work == 2048 * 2048 // 2 + 2048 * 64 * 2
    assert list(task.inputs()) == ["ATensor", "PackedTensor", "ScaleTensor"]
    assert (measure(task, [OwnLibrary(any_device)], 0.0).speed("dmlvk") or 0.0) > 0


def test_the_command_times_them(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "bench", "-o", "GATHER", "-s", "256KiB", "--seconds", "0.01")
    assert (outcome.status, outcome.err) == (0, "")
    assert "GATHER of rows" in outcome.out and "GB/s" in outcome.out


@pytest.mark.sweep
def test_the_command_goes_on_after_a_task_that_does_not_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = OwnLibrary.prepare

    def prepared(library: OwnLibrary, task: Task, inputs: Mapping[str, Array]) -> OwnPrepared:
        if "32 x" in task.name:
            raise dml.DeviceLimitError("4 GiB in one buffer")
        return prepare(library, task, inputs)

    monkeypatch.setattr(OwnLibrary, "prepare", prepared)
    outcome = Outcome(capsys, "bench", "-o", "GEMM", "-s", "1KiB", "--seconds", "0.01")
    assert (outcome.status, outcome.err) == (0, "")
    lines = [line for line in outcome.out.splitlines() if line.startswith("GEMM")]
    assert len(lines) == 6
    assert [line.split("float32")[1].strip() for line in lines if "32 x" in line] == [
        "not measured: 4 GiB in one buffer"
    ]


@pytest.mark.parametrize("size", [2**16, 2**24, 2**28, 2**30])
def test_matrices_of_products_fit_into_a_buffer(size: int) -> None:
    for task in tasks("GEMM", dml.FLOAT32, size):
        tensors = [tensor for _, tensor in (*task.desc.inputs, *task.desc.outputs) if tensor is not None]
        assert max(tensor.size_in_bytes for tensor in tensors) <= max(size, 2**30)


def test_each_turn_is_timed_on_a_device_that_has_settled_into_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = types.SimpleNamespace(perf_counter=functools.partial(next, itertools.count()))
    monkeypatch.setattr(measurement, "time", clock)
    last: list[str] = []

    class Runner:
        """The clock follows what the device has lately done."""

        def __init__(self, name: str) -> None:
            self.name = name

        def seconds(self, _: int) -> float:
            found = 1e-3 if last[-5:] == [self.name] * 5 else 5e-3
            last.append(self.name)
            return found

        def wall_seconds(self) -> float:
            return 1.0

        def result(self) -> Array:
            raise NotImplementedError

        def close(self) -> None:
            raise NotImplementedError

    found = measurement._in_turn({name: Runner(name) for name in ("one", "other")}, 0.0, 9)
    assert [set(device) for device, _ in found.values()] == [{1e-3}] * 2, "a turn was timed behind the other one's work"


_SVG = "{http://www.w3.org/2000/svg}"


def result(
    name: str, unit: Literal["B/s", "OP/s"], own: float, torch: float | None, series: str = "", extent: int = 0
) -> Result:
    speeds = {"dmlvk": own, **({} if torch is None else {"PyTorch": torch})}
    spreads = {library: Spread(1e15 / speed, 0.0, 0.0) for library, speed in speeds.items()}
    timings = tuple(Timing(library, "measured", "", spread, spread) for library, spread in spreads.items())
    return Result("GEMM", name, "float32", "", 10**15, unit, series, extent, {}, timings)


_TASK = result("CONVOLUTION 3x3", "OP/s", 2e12, 8e12)

_SQUARES = [result(f"GEMM {n} x {n} x {n}", "OP/s", n * 1e9, n * 4e9, "GEMM n x n x n", n) for n in (4096, 64, 512)]


def report(results: Sequence[Result], device: str) -> BenchReport:
    return BenchReport("", device, "driver & 1", "GPU", "", (), "portable", {}, tuple(results))


def drawn(path: Path, results: Sequence[Result], device: str = "a <device> L4") -> ElementTree.Element:
    write_plot(report(results, device), path)
    return ElementTree.parse(path).getroot()


def lines(root: ElementTree.Element, colour: str) -> list[list[tuple[float, float]]]:
    found = [line for line in root.iter(f"{_SVG}polyline") if line.get("stroke") == colour]
    pairs = [[pair.split(",") for pair in str(line.get("points")).split()] for line in found]
    return [[(float(x), float(y)) for x, y in points] for points in pairs]


def test_a_series_is_a_line_over_its_extent_below_the_peak(tmp_path: Path) -> None:
    root = drawn(tmp_path / "plot.svg", _SQUARES)
    texts = [text.text for text in root.iter(f"{_SVG}text")]
    assert "GEMM n x n x n, float32" in texts
    assert {"64", "512", "4096", "n", "peak", "product and sum apart", "dmlvk", "PyTorch"} <= set(texts)
    (own,), (torch,) = lines(root, "#0b5fa5"), lines(root, "#d1495b")
    assert [x for x, _ in own] == sorted(x for x, _ in own) and len(own) == 3
    assert own[1][0] - own[0][0] == pytest.approx(own[2][0] - own[1][0], abs=0.2)  # both steps are eightfold
    assert all(below > above for (_, below), (_, above) in zip(own, torch, strict=True))
    peak, half = sorted(points[0][1] for points in lines(root, "#555555") if points[0][1] == points[1][1])
    decade = (own[0][1] - own[2][1]) / 1.80618  # from 64 to 4096
    assert half - peak == pytest.approx(decade * 0.30103, abs=0.2)
    assert min(y for _, y in torch) > peak


def test_other_tasks_are_bars_as_long_as_they_are_fast(tmp_path: Path) -> None:
    moving = result("GEMM 1 x 9 x 9", "B/s", 5e9, None)
    root = drawn(tmp_path / "plot.svg", [_TASK, moving, *_SQUARES[:2]], "a <device>")
    texts = [str(text.text) for text in root.iter(f"{_SVG}text")]
    assert {"2 TFLOP/s dmlvk", "8 TFLOP/s PyTorch", "5 GB/s dmlvk", "Device time: operations a second"} <= set(texts)
    assert "peak" not in texts and not any("data sheet" in text for text in texts)
    bars = [rect for rect in root.iter(f"{_SVG}rect") if rect.get("fill") in ("#0b5fa5", "#d1495b")]
    widths = [float(str(bar.get("width"))) for bar in bars]
    assert widths[0] * 4 == pytest.approx(widths[1], abs=1)
    assert len(widths) == 7  # two sizes make no line


def test_peaks_are_found_by_whole_words() -> None:
    assert peak_of("NVIDIA H200") == peak_of("NVIDIA H100 80GB HBM3") == PEAKS["H100"]
    assert peak_of("NVIDIA H100 PCIe") == PEAKS["H100 PCIe"]
    assert peak_of("NVIDIA GeForce RTX 4090") == 82.6e12
    assert peak_of("NVIDIA L40") is None and peak_of("llvmpipe (LLVM 15.0.6, 256 bits)") is None
    for name in PEAKS:
        assert peak_of(f"NVIDIA {name}") == PEAKS[name]


def test_square_products_of_all_sizes_are_one_series_of_operations() -> None:
    made = [task for size in (2**10, 2**16, 2**24) for task in tasks("GEMM", dml.FLOAT32, size)]
    squares = [task for task in made if task.series == "GEMM n x n x n"]
    assert [(task.extent, task.unit) for task in squares] == [(16, "OP/s"), (128, "OP/s"), (2048, "OP/s")]


def test_the_command_draws_tasks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot, file = tmp_path / "plot.svg", tmp_path / "found.json"
    sizes = ("-s", "1KiB,256KiB", "--libraries", "none")
    outcome = Outcome(capsys, "bench", "-o", "GATHER", *sizes, "--plot", str(plot), "--json", str(file))
    assert (outcome.status, outcome.err) == (0, "")
    assert "GATHER of rows" in plot.read_text()
    document = json.loads(file.read_text())
    assert document["arithmetic"] == "portable" and document["peak_in_operations_per_second"] is None
    assert len(document["results"]) == len(re.findall(r"GATHER of rows", outcome.out)) == 2
