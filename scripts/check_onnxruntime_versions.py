#!/usr/bin/env python3
"""Test dmlvk's provider with several versions of ONNX Runtime: the newest on PyPI, and the two before it.

    python scripts/check_onnxruntime_versions.py [--version 1.31.1 …] [--folder FOLDER] [--quick]

Each is installed into a folder of its own, without what it depends on, and is found there before the environment's.
--quick runs those tests alone that touch the interface: devices, parts, memory, profiles, errors; and not with
the version that this Python has, with which all tests run.

Exit status: 0 all tests pass with each, 1 they do not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_QUICK = (
    "usable or whole_graphs or policies or divides or external_data_run or names_node or profile or refused or "
    "memory or device or kept or state or bytes"
)
"""Parts of the names of tests."""

_QUICK_FILES = ("tests/onnxruntime/test_provider.py", "tests/onnxruntime/test_memory.py")


def newest(count: int) -> list[str]:
    """The last release of each of the newest minor versions on PyPI."""
    command = [sys.executable, "-m", "pip", "index", "versions", "onnxruntime"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = {}
    for version in re.findall(r"\d+\.\d+\.\d+", said.partition("Available versions:")[2]):
        found.setdefault(version.rpartition(".")[0], version)  # the newest come first
    return list(found.values())[:count]


def is_fine(version: str, folder: Path, *, is_quick: bool) -> bool:
    """Whether the tests pass with a version."""
    directory = folder / f"onnxruntime-{version}"
    if not directory.is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory)]
        subprocess.run([*install, f"onnxruntime=={version}"], check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)])}
    print(f"onnxruntime {version}", flush=True)
    chosen = ["-k", _QUICK, *_QUICK_FILES] if is_quick else ["tests/onnxruntime"]
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", *chosen]
    return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="append", metavar="VERSION", help="this one; repeatable")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "onnxruntime", help="where they go (%(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="only the tests that touch the interface")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    left_out = importlib.metadata.version("onnxruntime") if options.quick else None
    versions = options.version or [version for version in newest(3) if version != left_out]
    results = [is_fine(version, folder, is_quick=options.quick) for version in versions]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
