"""``dmlvk bench decoder`` and ``dmlvk bench models`` time what they say, with the same bits on every device."""

from __future__ import annotations

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.bench import served
from dmlvk.bench.decoder import DecoderBench
from dmlvk.bench.decoder_models import SIZES, write_decoder
from dmlvk.bench.network_graphs import compiled_network
from dmlvk.bench.networks import NETWORKS
from dmlvk.bench.plots import write_decoder_plot, write_network_plot
from dmlvk.cli import bench_decoder
from tests.cli.outcome import Outcome
from tests.drawings import texts

HASH = "b08adea3b7274f10"
"""Of llvmpipe and SwiftShader (``dmlvk bench decoder --hash -t float32``)."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("decoder") / "tiny.onnx"
    write_decoder(file, SIZES["tiny"], 4096 + 256, np.float32)
    return file


@pytest.mark.parametrize(("batch", "capacity", "chunks"), [(1, 80, [24]), (2, 300, [7, 17])])
def test_logits_have_the_bits_of_every_device_batch_cache_and_chunk(
    device: dml.Device, model: Path, batch: int, capacity: int, chunks: list[int]
) -> None:
    made = DecoderBench(device, model, SIZES["tiny"], capacity, batch, dml.FLOAT32)
    with contextlib.closing(made) as bench:
        assert bench.hashed_logits(48, chunks) == HASH


def texts_of(plot: Path) -> set[str]:
    return {box.what for box in texts(ElementTree.parse(plot).getroot())}


@pytest.mark.sweep
def test_the_command_says_what_prompts_and_tokens_take(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    results, plot = tmp_path / "results.json", tmp_path / "plot.svg"
    arguments = ["-l", "16,64", "-p", "8", "-n", "8", "-b", "2", "--no-torch", "--kernels"]
    outcome = Outcome(capsys, "bench", "decoder", *arguments, "--json", str(results), "--plot", str(plot))
    assert outcome.status == 0, outcome.err
    (result,) = json.loads(results.read_text())
    assert result["batch"] == 2 and set(result["prompts"]) == {"8"} and set(result["tokens"]) == {"16", "64"}
    for times in result["tokens"].values():
        assert times["host_seconds"] > 0 and 0 < times["seconds"] <= times["slowest_tenth_seconds"]
        assert f"{times['launches']} launches" in outcome.out
    assert "x gate + gate" in outcome.out
    memory = result["memory"]
    assert memory["cache_bytes"] == 2 * 2 * 2 * 2 * 64 * (64 + 8 + 16) * 2  # layers, both, batch, heads, size, places
    assert memory["file_bytes"] < memory["device_bytes"] < 2 * memory["file_bytes"]
    assert f"{memory['device_bytes'] / memory['file_bytes']:.2f} times the file" in outcome.out
    assert "dmlvk, batch 2" in texts_of(plot)


@pytest.mark.sweep
def test_the_command_says_what_texts_of_a_server_take(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, less in (("_QUEUED", 3), ("_SERVED_STEPS", 8), ("_EDITED", 96)):
        monkeypatch.setattr(bench_decoder, name, less)
    monkeypatch.setattr(served, "_TRAINED_ON", 8)
    folders, results = [tmp_path / "before", tmp_path / "after"], tmp_path / "results.json"
    for folder, number in zip(folders, (3, 4), strict=True):
        folder.mkdir()
        (folder / "same.py").write_text("import this\n")
        (folder / "changed.py").write_text(f"def doubled(x: int) -> int:\n    return {number} * x\n" * 2)
    arguments = ["-l", "16", "-p", "8", "-n", "8", "-b", "1,2", "--no-torch", "--served", "--json", str(results)]
    outcome = Outcome(capsys, "bench", "decoder", *arguments, "--edits", *map(str, folders))
    assert outcome.status == 0, outcome.err
    first, second = json.loads(results.read_text())
    assert len(first["prompts"]["8"]["queued_seconds"]) == 3
    assert min(each["tokens"]["16"]["served_seconds"] for each in (first, second)) > 0
    guessed = first["guessed"]
    assert guessed["files"] == 1 and 0 < guessed["steps"] < guessed["tokens"] / 2
    assert f"1 files written again, {guessed['tokens']} tokens" in outcome.out and "2 texts behind 16" in outcome.out


def test_a_plot_has_a_line_for_each_batch_and_library(tmp_path: Path) -> None:
    tokens = {"16": {"seconds": 0.002, "torch_seconds": 0.001}, "4000": {"seconds": 0.003, "torch_seconds": 0.002}}
    file = tmp_path / "plot.svg"
    write_decoder_plot([{"batch": 1, "tokens": tokens}, {"batch": 8, "tokens": tokens}], "1B", file)
    names = {f"{library}, batch {batch}" for library in ("dmlvk", "PyTorch FLOAT16") for batch in (1, 8)}
    assert names <= texts_of(file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "3B"], "'3B' is none of tiny, 135M, 1B, 8B"),
        (["-l", "16,x"], "positive integers with commas between them; got '16,x'"),
        (["-b", "none"], "at least one is needed"),
        (["--plot", "tokens.txt"], ".svg"),
        (["--served", "-b", "2"], "--batches must have 1"),
        (["--edits", ".", "."], "--edits is a part of --served"),
    ],
)
def test_what_cannot_be_timed_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    outcome = Outcome(capsys, "bench", "decoder", *arguments)
    assert outcome.status == 2 and message in outcome.err


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_a_result_for_each_of_its_batch_in_both_types(device: dml.Device, name: str) -> None:
    for data_type in (dml.FLOAT16, dml.FLOAT32):
        compiled = compiled_network(device, NETWORKS[name], 3, data_type, small=True)
        (given,), (made,) = compiled.input_tensors, compiled.outputs
        assert given is not None and made.tensor is not None
        assert given.sizes[0] == made.tensor.sizes[0] == 3
        assert given.data_type == made.tensor.data_type == data_type


@pytest.mark.sweep
def test_the_command_says_what_networks_and_their_kernels_take(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results, plot = tmp_path / "results.json", tmp_path / "plot.svg"
    arguments = ["-m", "bert", "-b", "1,2", "-t", "float32", "--small", "--no-torch", "--kernels"]
    outcome = Outcome(capsys, "bench", "models", *arguments, "--json", str(results), "--plot", str(plot))
    assert outcome.status == 0, outcome.err
    timed = json.loads(results.read_text())
    assert [(each["model"], each["batch"]) for each in timed] == [("BERT-base", 1), ("BERT-base", 2)]
    assert all(each["seconds"] > 0 for each in timed)
    assert "12 x GEMM" in outcome.out
    assert "BERT-base, float32, batch 2" in texts_of(plot)


def test_a_plot_has_a_bar_for_each_library(tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    result = {"model": "ViT-B/16", "data_type": "float16", "batch": 32, "seconds": 0.016, "torch_seconds": 0.008}
    write_network_plot([result], "a card", file)
    assert {"dmlvk: 16.0 ms, 2,000 a second", "PyTorch: 8.00 ms, 4,000 a second"} <= texts_of(file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "alexnet"], "'alexnet' is part of none of ResNet-50, VGG-19"),
        (["-b", "1,none"], "positive integers with commas between them; got '1,none'"),
        (["-b", "0"], "positive integers with commas between them; got '0'"),
        (["-t", "int8"], "float16 and float32; got 'int8'"),
        (["--plot", "models.txt"], ".svg"),
    ],
)
def test_what_cannot_be_timed_is_refused_of_network(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    outcome = Outcome(capsys, "bench", "models", *arguments)
    assert outcome.status == 2 and message in outcome.err
