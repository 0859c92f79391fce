"""What others can write is not trusted; where nothing can be written, Mesa's cache is off."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dmlvk.kernels.library import glsl
from dmlvk.support import caches


def test_kernels_are_not_kept_where_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path))
    assert glsl.cache_directory() == tmp_path
    tmp_path.chmod(0o777)
    assert glsl.cache_directory() is None
    tmp_path.chmod(0o700)
    assert glsl.cache_directory() == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert caches.is_own(tmp_path) == (tmp_path.stat().st_uid == 0)
    assert caches.is_own(tmp_path / "not there yet")


def test_mesas_cache_is_off_where_its_folder_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in caches._MESA_SWITCHES:
        monkeypatch.setenv(name, "")  # so that it is taken away afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2**20))
    caches.spare_full_disk()
    assert [os.environ[name] for name in caches._MESA_SWITCHES] == ["true", "true"]
