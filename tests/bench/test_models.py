"""``dmlvk bench models`` times whole networks; tests/torch says that they compute what PyTorch does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.bench.network_graphs import compiled_network
from dmlvk.bench.network_plot import write_network_plot
from dmlvk.bench.networks import NETWORKS
from tests.bench.test_decoder import texts_of
from tests.cli.outcome import Outcome


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
    assert {"dmlvk", "PyTorch", "16.0 ms, 2,000 a second", "8.00 ms, 4,000 a second"} <= texts_of(file)


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
def test_what_cannot_be_timed_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    outcome = Outcome(capsys, "bench", "models", *arguments)
    assert outcome.status == 2 and message in outcome.err
