"""Comparisons with other programs print what they write, and write what a reader needs to judge it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import gguf
import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.bench import comparisons, gguf_models
from dmlvk.bench.comparisons import llama_cpp
from dmlvk.bench.decoder_models import DecoderSize
from dmlvk.cli import cli
from dmlvk.language import LanguageModel
from tests.language.small_llama import write_llama


def test_pages_name_commands_that_are_there() -> None:
    root = Path(__file__).parents[2]
    group, named = cli.commands["bench"], dict[str, str]()
    assert isinstance(group, click.Group)
    for page in (root / "README.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        named |= dict.fromkeys(re.findall(r"dmlvk bench\s+([a-z][\w-]*)", text), page.name)
    assert named.keys() >= {"models", "decoder", "cliffs"}
    gone = named.keys() - set(group.list_commands(click.Context(group)))
    assert {name: named[name] for name in gone} == {}


class HostTensor:
    """What the script needs of PyTorch's tensors, on the host."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array

    def cuda(self) -> HostTensor:
        return HostTensor(self.array.copy())

    def cpu(self) -> HostTensor:
        return self.cuda()

    def numpy(self) -> npt.NDArray[Any]:
        return self.array


class HostTorch:
    """What the script needs of PyTorch; it counts how many operators in a row took the output of the one before."""

    __version__ = "0.0"

    def __init__(self) -> None:
        self.last: HostTensor | None = None
        self.dependent = self.most_dependent = 0
        self.cuda = SimpleNamespace(
            is_available=lambda: True, get_device_name=lambda: "a GPU", synchronize=lambda: None
        )

    def from_numpy(self, array: npt.NDArray[Any]) -> HostTensor:
        return HostTensor(array)

    def empty_like(self, tensor: HostTensor) -> HostTensor:
        return HostTensor(np.empty_like(tensor.array))

    def sign(self, tensor: HostTensor, out: HostTensor | None = None) -> HostTensor:
        self.dependent = self.dependent + 1 if out is not None and tensor is self.last else 0
        self.most_dependent = max(self.most_dependent, self.dependent)
        self.last = out if out is not None else HostTensor(np.empty_like(tensor.array))
        np.sign(tensor.array, out=self.last.array)
        return self.last


def run(*arguments: str) -> None:
    """``dmlvk bench`` with these arguments, in this process."""
    cli.main(["bench", *arguments], standalone_mode=False)


def written(path: Path, device: dml.Device) -> Any:
    """The file, once its environment has been looked at."""
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["dmlvk"] == dml.__version__
    assert (found["device"], found["device_kind"]) == (device.info.name, device.info.kind)
    assert found["driver"] == f"{device.info.driver} {device.info.driver_version}"
    assert {"date", "host"} < found.keys()
    assert all(each.keys() == {"name", "version", "device"} for each in found["libraries"])
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("has_torch", [False, True])
def test_small_work(
    device: dml.Device,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    has_torch: bool,
) -> None:
    torch = HostTorch()
    monkeypatch.setitem(sys.modules, "torch", torch if has_torch else None)
    path = tmp_path / "small.json"
    run("small-work", "-d", str(device.info.index), "-m", "1", "--json", str(path))
    found = written(path, device)
    assert [each["name"] for each in found["libraries"]] == ["dmlvk"] + ["PyTorch"] * has_torch
    names = [each["name"] for each in found["results"]]
    assert names[:2] == ["one small operator, submitted and waited for", "one of 1000 dependent small operators"]
    assert ("PyTorch, one of 1000 dependent small operators" in names) == has_torch
    assert (torch.most_dependent >= 999) == has_torch
    assert len(set(names)) == len(names) == (16 if has_torch else 11)
    assert all(each["seconds"] > 0 for each in found["results"])
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in names)


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="there is no such directory"):
        run("small-work", "--json", str(tmp_path / "nowhere" / "x.json"))


def test_help_names_each_comparison_without_the_packages_that_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, llama_cpp.__name__)
    run("--help")
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in comparisons.NAMES)
    with pytest.raises(click.UsageError, match="llama-cpp: needs the package gguf"):
        run("llama-cpp")


def test_what_llama_cpp_reads_has_the_values_of_the_packed_file(tmp_path: Path) -> None:
    write_llama(tmp_path / "packed.gguf", gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q4_0)
    llama_cpp.write_unpacked(tmp_path / "packed.gguf", tmp_path / "plain.gguf")
    tensors = gguf.GGUFReader(tmp_path / "plain.gguf").tensors
    assert {tensor.tensor_type for tensor in tensors} == {gguf.GGMLQuantizationType.F32}
    packed, plain = (logits_of(tmp_path / f"{name}.gguf") for name in ("packed", "plain"))
    np.testing.assert_allclose(packed, plain, atol=1e-5)


def logits_of(path: Path) -> npt.NDArray[Any]:
    with LanguageModel(path, max_length=8) as model:
        return model.logits(model.encode("abc")).numpy()


@pytest.mark.parametrize("kind", gguf_models.TYPES)
def test_a_file_of_random_weights_is_timed_alone(
    device: dml.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path, counts = tmp_path / "times.json", ("-l", "5", "-p", "7", "-n", "5", "--folder", str(tmp_path))
    run("llama-cpp", "-d", str(device.info.index), "-t", kind, *counts, "--json", str(path))
    (found,) = written(path, device)["results"]
    assert found["opened"] > 0
    assert min(found["prompt of 7"], found["token behind 5"]) > 0
    assert re.search(r"token behind +5: +[\d.]+ ms", capsys.readouterr().out)
    (file,) = tmp_path.glob(f"tiny-{kind}-*.gguf")
    for tensor in gguf.GGUFReader(file).tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        wanted = 1 if tensor.name.endswith("norm.weight") else 1 / tensor.shape[0]
        assert np.square(values).mean() == pytest.approx(wanted, rel=0.1), tensor.name


def test_types_of_q4_k_m_are_those_that_llama_cpp_chooses(tmp_path: Path) -> None:
    size = DecoderSize(layers=32, hidden=256, heads=2, key_heads=1, head=64, inner=320, vocabulary=512)
    gguf_models.write_model(tmp_path / "model.gguf", size, 64, "Q4_K_M")
    types = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    better = [*range(4), *range(6, 28, 3), *range(28, 32)]  # as llama_model_quantize writes them
    assert [layer for layer in range(32) if types[f"blk.{layer}.attn_v.weight"] == "Q6_K"] == better
    assert [layer for layer in range(32) if types[f"blk.{layer}.ffn_down.weight"] == "Q8_0"] == better
    assert {types[f"blk.{layer}.ffn_down.weight"] for layer in range(32)} == {"Q5_0", "Q8_0"}
    assert types["output.weight"] == "Q6_K"
    assert {types[name] for name in ("token_embd.weight", "blk.0.ffn_gate.weight", "blk.9.attn_q.weight")} == {"Q4_K"}


def test_texts_of_a_file_are_compared_with_libraries_only(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with pytest.raises(click.UsageError, match="--text: needs LIBRARIES"):
        run("llama-cpp", "--text", str(tmp_path / "model.gguf"))
