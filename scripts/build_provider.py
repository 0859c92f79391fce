#!/usr/bin/env python3
"""Build the library that ONNX Runtime loads for dmlvk's execution provider, with the machine's C compiler.

    python scripts/build_provider.py --folder FOLDER        prints the file

It takes a second, and nothing but a C compiler: a checkout builds it by itself, when ``dmlvk.onnxruntime`` is imported;
this is for the wheels that carry it (``build_wheels.py``).

Exit status: 0 it is there, 1 it cannot be built, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.errors import UnsupportedError
from scripts.cross.targets import CrossBuildError, Platform

LIBRARIES = {"win32": ".dll", "darwin": ".dylib", "linux": ".so"}
"""How names of shared libraries end, by system."""

MODULE = Path(__file__).resolve().parent.parent / "dmlvk" / "onnxruntime" / "building.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script.

    Args:
        argv: command line without the program's name; the process's own when None.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Build the library that ONNX Runtime loads.")
    parser.add_argument("--folder", metavar="FOLDER", type=Path, required=True, help="where it goes")
    options = parser.parse_args(argv)
    # The module by itself: its package would register the provider, and needs ONNX Runtime for that.
    spec = importlib.util.spec_from_file_location("dmlvk_onnxruntime_building", MODULE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = options.folder / module.NAME
    try:
        module.compile_library(target)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return 1
    print(target)
    return 0


def for_target(target: Platform, folder: Path) -> Path:
    """The library for another system.

    Args:
        target: the system, with its compiler.
        folder: where it goes.

    Raises:
        CrossBuildError: when it cannot be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"dmlvk_onnxruntime{LIBRARIES[target.system]}"
    source = MODULE.parent / "native" / "provider.c"
    words = [*target.compiler_words(), "-x", "c", "-std=c11", "-O2", "-fvisibility=hidden", *target.flags, *target.link]
    done = subprocess.run([*words, "-o", str(library), str(source)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CrossBuildError(f"{target.name}: {library.name}: {done.stderr.strip()}")
    return library


if __name__ == "__main__":
    sys.exit(main())
