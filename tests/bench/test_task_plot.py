"""Plots of tasks: a line for each series over its extent, bars for all others, beside the device's peak."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.bench.peaks import PEAKS, peak_of
from dmlvk.bench.task_measurement import TaskResult
from dmlvk.bench.task_plot import write_task_plot
from dmlvk.bench.tasks import tasks
from tests.cli.outcome import Outcome

_SVG = "{http://www.w3.org/2000/svg}"
_FACTS = {"device": "a <device>", "driver": "driver & 1"}
_TASK = TaskResult("CONVOLUTION 3x3", "float32", "OP/s", 2e12, 8e12)
_SQUARES = [
    TaskResult(f"GEMM {n} x {n} x {n}", "float32", "OP/s", n * 1e9, n * 4e9, "", "GEMM n x n x n", n)
    for n in (4096, 64, 512)
]


def drawn(path: Path, results: list[TaskResult], peak: float | None = 64e12) -> ElementTree.Element:
    write_task_plot(results, _FACTS, peak, path)
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
    moving = TaskResult("GEMM 1 x 9 x 9", "float16", "B/s", 5e9, None, "why")
    root = drawn(tmp_path / "plot.svg", [_TASK, moving, *_SQUARES[:2]], None)
    texts = [str(text.text) for text in root.iter(f"{_SVG}text")]
    assert {"2 TFLOP/s dmlvk", "8 TFLOP/s PyTorch", "5 GB/s dmlvk", "operations a second"} <= set(texts)
    assert "peak" not in texts and not any("data sheet" in text for text in texts)
    bars = [rect for rect in root.iter(f"{_SVG}rect") if rect.get("fill") in ("#0b5fa5", "#d1495b")]
    widths = [float(str(bar.get("width"))) for bar in bars]
    assert widths[0] * 4 == pytest.approx(widths[1], abs=1)
    assert len(widths) == 7  # two sizes make no line


def test_pictures_and_other_names(tmp_path: Path) -> None:
    write_task_plot([_TASK, *_SQUARES], _FACTS, 64e12, tmp_path / "plot.png")
    assert Image.open(tmp_path / "plot.png").width == 1920
    with pytest.raises(dml.InvalidArgumentError, match="must end in"):
        write_task_plot([_TASK], _FACTS, None, tmp_path / "plot.pdf")


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
    mixed = Outcome(capsys, "bench", "-o", "GATHER,SIGN", *sizes, "--plot", str(plot))
    assert mixed.status == 2
    assert "GATHER is timed with tasks of its own, ELEMENT_WISE_SIGN in layouts and sizes" in mixed.err
