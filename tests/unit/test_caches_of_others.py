"""What others can write is not trusted; where nothing can be written, Mesa's cache is off."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dmlvk.kernels.library.store import Store
from dmlvk.support import caches


def test_kernels_are_not_kept_where_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path))
    assert caches.cache_directory() == tmp_path
    tmp_path.chmod(0o777)
    assert caches.cache_directory() is None
    tmp_path.chmod(0o700)
    assert caches.cache_directory() == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert caches.is_own(tmp_path) == (tmp_path.stat().st_uid == 0)
    assert caches.is_own(tmp_path / "not there yet")


def test_only_what_this_user_wrote_here_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def renewed(cache: str) -> Path:
        monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / cache))
        caches._secret.cache_clear()  # as a new process
        return tmp_path / cache / "secret"

    file = tmp_path / "file"
    secret = renewed("mine")
    caches.keep_contents(file, "key", b"contents")
    renewed("mine")
    assert caches.kept_contents(file, "key") == b"contents"
    assert secret.stat().st_mode & 0o777 == 0o600
    renewed("of another user or machine")
    with pytest.raises(ValueError, match="not what was written here"):
        caches.kept_contents(file, "key")
    monkeypatch.setattr(caches, "_PACKAGE", tmp_path / "package")
    caches.keep_contents(tmp_path / "package" / "file", "key", b"compiled here")
    renewed("of whom the checkout is copied to")
    assert caches.kept_contents(tmp_path / "package" / "file", "key") == b"compiled here"
    renewed("mine")
    for spoil in (lambda: secret.chmod(0o640), lambda: secret.write_bytes(b""), lambda: secret.write_bytes(bytes(33))):
        spoil()
        renewed("mine")
        with pytest.raises(ValueError):
            caches.kept_contents(file, "key")
        assert secret.stat().st_mode & 0o777 == 0o600
        caches.keep_contents(file, "key", b"contents")
        renewed("mine")
        assert caches.kept_contents(file, "key") == b"contents"
    secret.unlink()
    secret.mkdir()
    renewed("mine")
    caches.keep_contents(file, "key", b"contents")
    assert caches.kept_contents(file, "key") == b"contents", "a process trusts itself where no secret can be kept"
    renewed("mine")
    with pytest.raises(ValueError):
        caches.kept_contents(file, "key")


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
            kept = caches.cache_directory()
            found = 0 if kept is not None and Store(kept).get("kernel") is None and Store(kept).prune([]) == 0 else 2
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
