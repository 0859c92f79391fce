"""Shaders broken on purpose."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest

from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.sources import SourceTree
from scripts.shader_tools.project import SHADERS


def break_shader(monkeypatch: pytest.MonkeyPatch, root: Path, file: str, text: str, broken: str) -> None:
    """From now on shaders are compiled from a copy of the sources in which one text was exchanged."""
    shaders = root / "shaders"
    shutil.copytree(SHADERS, shaders)
    source = (shaders / file).read_text(encoding="utf-8")
    assert source.count(text) >= 1, f"{file} no longer has {text!r}: choose another character to change"
    (shaders / file).write_text(source.replace(text, broken, 1), encoding="utf-8")
    compiler = Compiler.find(SourceTree(shaders))
    variants = {variant.name: variant for variant in all_variants()}

    @functools.cache
    def load(name: str) -> bytes:
        return compiler.compile(variants[name])

    monkeypatch.setattr(library, "load", load)
