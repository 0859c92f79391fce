"""Where files are kept between runs: where each system keeps them, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dmlvk.support.caches import file_contents, user_cache


def test_the_users_cache_is_where_the_system_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache("kernels") == tmp_path / "dmlvk" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_cache("kernels") == Path.home() / ".cache" / "dmlvk" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache("kernels") == Path.home() / ".cache" / "dmlvk" / "kernels"
    monkeypatch.setattr("sys.platform", "darwin")
    assert user_cache("kernels") == Path.home() / "Library" / "Caches" / "dmlvk" / "kernels"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert user_cache("kernels") == tmp_path / "dmlvk" / "kernels"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert user_cache("kernels") is None


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    assert file_contents(tmp_path / "file") == b"kept"
    with pytest.raises(OSError):
        file_contents(tmp_path)
    with pytest.raises(FileNotFoundError):
        file_contents(tmp_path / "nothing")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="is no file that was kept"):
            file_contents(tmp_path / "pipe")
