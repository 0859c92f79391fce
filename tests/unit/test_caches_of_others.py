"""What others can write is not trusted; where nothing can be written, Mesa's cache is off."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dmlvk.kernels.library import glsl
from dmlvk.kernels.library.store import Store
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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_with_roots_home_needs_nothing_of_it(tmp_path: Path) -> None:
    """As in containers that keep HOME: its folders may not even be looked at."""
    (tmp_path / "home").mkdir(mode=0o700)
    process = os.fork()
    if process == 0:
        found = 1
        try:
            for name in (*caches._MESA_SWITCHES, "MESA_SHADER_CACHE_DIR", "XDG_CACHE_HOME", "DMLVK_CACHE_DIR"):
                os.environ.pop(name, None)
            os.environ["HOME"] = str(tmp_path / "home")
            os.setgroups([])
            os.setuid(65534)
            caches.spare_full_disk()
            kept = glsl.cache_directory()
            found = 0 if kept is not None and Store(kept).get("kernel") is None and Store(kept).prune([]) == 0 else 2
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
