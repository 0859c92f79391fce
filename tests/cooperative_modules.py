"""Modules that multiply cooperative matrices, which no processor runs: tests run them with what imitates these."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels import library
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.target import GPU
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv.specialization import MATRICES_LIE_IN_QUADS
from dmlvk.trials.matrix_trial import matrices_lie_in_quads
from tests.targets import on_llvmpipe

_IMITATIONS = ("cooperative_bytes.glsl", "cooperative_floats.glsl", "cooperative_rows.glsl", "cooperative_quads.glsl")


ABLE = dataclasses.replace(
    GPU, has_cooperative_halves=True, device_arithmetic=True, shared_memory=49152, work_group_size=1024, buffers=16
)
"""A GPU that has matrices of FLOAT16."""


@contextlib.contextmanager
def device_with_matrices(benches: Sequence[Workbench], *, in_registers: bool) -> Iterator[dml.Device]:
    """llvmpipe, which makes matrices of what it computed in registers or by way of memory."""
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        found = matrices_lie_in_quads if in_registers else lambda engine: False
        device.engine.shaders.trials = {**device.engine.shaders.trials, MATRICES_LIE_IN_QUADS: found}
        yield device


@functools.cache
def _compiler() -> Compiler:
    """Of the shaders with what imitates matrices of numbers in the place of their includes."""
    folder = Path(tempfile.mkdtemp(prefix="dmlvk-imitations-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shaders = folder / "shaders"
    shutil.copytree(Path("shaders").resolve(), shaders)
    for name in _IMITATIONS:
        shutil.copy(Path(__file__).parent / "operators" / name, shaders / "include")
    for pattern in (shaders / "patterns").glob("*/*.*"):  # what is not written out is compiled in a fourth of the time
        pattern.write_text(pattern.read_text("utf-8").replace("[[unroll]] ", ""), "utf-8")
    return Compiler.find(SourceTree(shaders))


@functools.cache
def _compiled(variant: ShaderVariant) -> bytes:
    return _compiler().compile(variant)


def imitate_matrices(monkeypatch: pytest.MonkeyPatch, variants: Mapping[str, ShaderVariant]) -> list[str]:
    """From now on modules of these variants, by their names, multiply by what imitates matrices.

    Returns:
        the names of those that were loaded since, which grow.
    """
    load, loaded = library.load, list[str]()

    def imitation(name: str) -> bytes:
        if name not in variants:
            return load(name)
        loaded.append(name)
        return _compiled(variants[name])

    monkeypatch.setattr(library, "load", imitation)
    return loaded
