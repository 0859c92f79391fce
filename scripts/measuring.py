"""What the scripts that measure have in common: the choice of a device, and results as JSON with their environment."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import dmlvk as dml
from dmlvk.bench.report import environment, named, write_json
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.runtime.vulkan import DeviceInfo


def argument_parser(documentation: str) -> argparse.ArgumentParser:
    """A parser of ``--device`` and ``--json``, whose description is the first line of some documentation."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("-d", "--device", type=_selector, default=None, help="index of a device, or a part of its name")
    parser.add_argument("--json", type=_new_file, metavar="FILE", help="write everything that was measured")
    return parser


def _selector(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _new_file(text: str) -> Path:
    path = Path(text)
    if not path.absolute().parent.is_dir():  # found out before anything is measured
        raise argparse.ArgumentTypeError(f"{path}: there is no such directory")
    return path


def write_measured(
    path: Path,
    device: DeviceInfo,
    libraries: Iterable[dict[str, str]],
    results: Sequence[dict[str, Any]],
) -> None:
    """Writes results that were measured a moment ago, with the environment as ``dmlvk bench --json`` has it.

    Args:
        path: the file.
        device: the one that was measured.
        libraries: name, version and device of each that was measured.
        results: one entry for each.
    """
    write_json(path, {**environment(device, libraries), "results": list(results), "dmlvk": dml.__version__})


def torch_named(torch: Any) -> list[dict[str, str]]:
    """PyTorch's entry among the libraries, where it is there."""
    return [named(TorchLibrary(torch))] if torch is not None else []
