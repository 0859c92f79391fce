"""Comparisons with other programs print what they write, and write what a reader needs to judge it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.bench import comparisons
from dmlvk.cli import cli


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
    assert [each["name"] for each in found["libraries"]] == ["dmlvk", "Kompute"] + ["PyTorch"] * has_torch
    names = [each["name"] for each in found["results"]]
    assert names[:2] == ["one small operator, submitted and waited for", "one of 1000 dependent small operators"]
    assert ("PyTorch, one of 1000 dependent small operators" in names) == has_torch
    assert (torch.most_dependent >= 999) == has_torch
    assert len(set(names)) == len(names) == (16 if has_torch else 11)
    assert all(each["seconds"] > 0 for each in found["results"])
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in names)


def test_fusion(
    device: dml.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "fusion.json"
    run("fusion", "-d", str(device.info.index), "-n", "4096", "--json", str(path))
    found = written(path, device)
    assert [each["chain"] for each in found["results"]] == ["arithmetic", "functions", "functions_of_two"]
    for each, operators, tensors in zip(found["results"], (12, 12, 9), (2, 2, 3), strict=True):
        assert (each["elements"], each["operators"], each["kernels"], each["same_bits"]) == (4096, operators, 1, True)
        assert [timing["name"] for timing in each["timings"]] == ["fused", "one by one"]
        for timing in each["timings"]:
            assert timing["bytes_per_second"] == pytest.approx(4 * tensors * 4096 / timing["seconds"])
    assert "12 operators in 1 kernel(s)" in capsys.readouterr().out


@pytest.mark.sweep
def test_a_cluster_gives_the_same_results_as_one_device(device: dml.Device, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    each = ("-d", str(device.info.index))
    run("cluster", *each, *each, "--small", "-b", "2", "-n", "8", "--json", str(path))
    found = written(path, device)
    assert [(each["workers"], each["batch"]) for each in found["results"]] == [(1, 2), (2, 2)]
    assert all(each["pictures_per_second"] > 0 for each in found["results"])
    with pytest.raises(click.UsageError, match="takes two devices or more, and there is 1"):
        run("cluster", *each)
    with pytest.raises(dml.DeviceNotFoundError, match="77"):
        run("cluster", *each, "-d", "77")


@pytest.mark.parametrize("name", ["small-work", "fusion", "arrays", "reductions"])
def test_a_file_that_cannot_be_written_is_an_error_at_once(name: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="there is no such directory"):
        run(name, "--json", str(tmp_path / "nowhere" / "x.json"))


def test_help_names_each_comparison_without_the_packages_that_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", None)
    run("--help")
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in comparisons.NAMES)
    with pytest.raises(click.UsageError, match="genai: needs the package onnxruntime_genai"):
        run("genai")
