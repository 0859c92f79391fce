"""The finder of cliffs draws nodes that mean the same to dmlvk and to PyTorch, and says what it lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.bench.comparisons.cliffs import Cliff, summary
from dmlvk.bench.random_nodes import KINDS, random_node
from dmlvk.cli import cli


def run(*arguments: str) -> None:
    cli.main(["bench", "cliffs", *arguments], standalone_mode=False)


def test_without_pytorch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(click.UsageError, match=r"cliffs: needs PyTorch .* not installed"):
        run("-n", "1")


def test_without_a_gpu_of_pytorchs_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    with pytest.raises(click.UsageError, match="PyTorch finds no CUDA device; --small"):
        run("-n", "1")


def test_a_seed_draws_the_same_node_again() -> None:
    for seed in range(40):
        first, again = (random_node(seed, "float16", small=True) for _ in range(2))
        assert first.name == again.name
        assert first.attributes == again.attributes
        for one, other in zip(first.inputs, again.inputs, strict=True):
            assert (one is None) == (other is None)
            assert one is None or other is None or np.array_equal(one, other)


def test_large_nodes_stay_below_what_a_session_takes() -> None:
    """Checked by their shapes alone: 2^30 bytes is what a session makes of a result."""
    for seed in range(60):
        node = random_node(seed, "float32", ("matmul", "gemm"))
        a, b = (each for each in node.inputs[:2] if each is not None)
        rows = a.shape[-1] if node.attributes.get("transA") else a.shape[-2]
        columns = b.shape[-2] if node.attributes.get("transB") else b.shape[-1]
        assert 4 * np.prod(a.shape[:-2], dtype=np.int64) * rows * columns < 2**30, node.name


@pytest.mark.sweep
@pytest.mark.parametrize("kinds", [("conv", "conv_transpose"), ("matmul", "pool"), ("movement", "reduction", "norm")])
def test_small_nodes_have_pytorchs_results(device: dml.Device, tmp_path: Path, kinds: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "cliffs.json"
    chosen = [word for kind in kinds for word in ("-k", kind)]
    run("--small", "-n", "5", "-t", "float32", "-d", str(device.info.index), "--json", str(path), *chosen)
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert len(results) == 5
    assert all(each["error"] < 2e-5 and each["seconds"] > 0 and each["peer_seconds"] > 0 for each in results)


def test_the_summary_is_of_long_nodes_alone() -> None:
    times = {"a": (5e-5, 1e-5), "b": (4e-4, 1e-4), "c": (1e-4, 4e-4)}
    cliffs = [Cliff("conv", name, "float32", 0, *each, 0.0, False) for name, each in times.items()]
    head, *lines = summary(cliffs, 1e-4)
    assert "100 µs" in head
    assert {tuple(line.split()) for line in lines} == {
        ("2", "1.00", "0.25", "0.30", "float32", kind) for kind in ("ALL", "conv")
    }


def test_every_kind_is_drawn() -> None:
    assert {random_node(seed, "float32", (kind,), small=True).operator for kind in KINDS for seed in range(3)} > {
        "Conv",
        "ConvTranspose",
        "MatMul",
        "MultiHeadAttention",
        "Resize",
    }
