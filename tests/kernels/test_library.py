"""A damaged or incomplete shader library is refused by name, with what to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels import library

HINT = r"compile the shaders with scripts/compile_shaders\.py, or install dmlvk again$"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library with one shader of five bytes."""
    (tmp_path / "a.b.spv").write_bytes(b"SPIRV")
    entry = {"key": "0", "sha256": hashlib.sha256(b"SPIRV").hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "complete": True, "variants": {"a.b": entry}}))
    monkeypatch.setattr(library, "DIRECTORY", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    library.load.cache_clear()
    library._checksums.cache_clear()


def test_a_shader_is_loaded(directory: Path) -> None:
    assert library.load("a.b") == b"SPIRV"


def test_a_missing_shader_is_named(directory: Path) -> None:
    with pytest.raises(ShaderLibraryError, match=rf"^the shader library lacks a\.c \(.*a\.c\.spv.*\): {HINT}"):
        library.load("a.c")


def test_a_changed_shader_is_refused(directory: Path) -> None:
    (directory / "a.b.spv").write_bytes(b"SPIRW")
    with pytest.raises(ShaderLibraryError, match=rf"^the shader a\.b does not match its manifest: {HINT}"):
        library.load("a.b")


def test_a_shader_that_the_manifest_does_not_name_is_refused(directory: Path) -> None:
    (directory / "new.spv").write_bytes(b"SPIRV")
    with pytest.raises(ShaderLibraryError, match=rf"^the shader new does not match its manifest: {HINT}"):
        library.load("new")


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"variants": 1}', '{"variants": {"a.b": {}}}'])
def test_an_unreadable_manifest_is_refused(directory: Path, content: str | None) -> None:
    file = directory / "manifest.json"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(ShaderLibraryError, match=rf"^the shader library has no readable manifest \(.*\): {HINT}"):
        library.load("a.b")
