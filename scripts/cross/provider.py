"""The library that ONNX Runtime loads, for the systems of wheels: a checkout builds its own when it is imported."""

from __future__ import annotations

from pathlib import Path

from scripts.cross.targets import Platform
from scripts.cross.tools import run

FOLDER = Path(__file__).resolve().parents[2] / "dmlvk" / "onnxruntime"

_SUFFIXES = {"win32": ".dll", "darwin": ".dylib", "linux": ".so"}


def build(target: Platform, folder: Path) -> Path:
    """Builds the library into a folder.

    Raises:
        CrossBuildError: it does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"dmlvk_onnxruntime{_SUFFIXES[target.system]}"
    words = [*target.compiler_words(), "-x", "c", "-std=c11", "-O2", "-fvisibility=hidden", *target.flags, *target.link]
    run([*words, "-o", str(library), str(FOLDER / "native" / "provider.c")])
    return library
