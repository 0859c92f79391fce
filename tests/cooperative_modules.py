"""Modules that multiply cooperative matrices, which no processor runs: tests run them with what imitates these."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from dmlvk.kernels import library
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.variants import ShaderVariant

_IMITATIONS = ("cooperative_bytes.glsl", "cooperative_floats.glsl", "cooperative_rows.glsl", "cooperative_quads.glsl")


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
