"""Where files are kept between runs and how they are written: whole or not at all, never where others can write."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.kernels.library.store import Store
from dmlvk.support import caches
from dmlvk.support.caches import file_contents, user_cache
from dmlvk.support.files import check_writable, write_whole


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


@contextlib.contextmanager
def a_small_disk() -> Iterator[None]:
    """No file may have more than 64 bytes, which ends with the test's body: what pytest prints may go to one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@a_small_disk()
def test_what_a_file_held_stays_where_there_is_no_room_for_more(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_whole(path, "before")
    path.chmod(0o640)
    with pytest.raises(OSError, match="File too large"):
        write_whole(path, "x" * 65)
    assert path.read_text() == "before"
    write_whole(path, "after")
    assert path.read_text() == "after" and path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_that_a_link_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "text"


def test_standard_output_is_written_where_it_is_a_pipe() -> None:
    words = "from dmlvk.support.files import check_writable, write_whole; p = '/dev/stdout'; check_writable(p)"
    done = subprocess.run([sys.executable, "-c", f"{words}; write_whole(p, 'text')"], capture_output=True, check=True)
    assert done.stdout == b"text"


def test_what_cannot_be_written_is_found_out_before(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("no/where")
    for name in ("pipe", "circle", "nowhere", "no/where", ".", "x" * 300):
        with pytest.raises(OSError):
            check_writable(tmp_path / name)
    with pytest.raises(ValueError, match="null"):
        check_writable("\0")
    for path in (tmp_path / "file", Path("/dev/null"), Path("/dev/stdout")):
        check_writable(path)
    assert not (tmp_path / "file").exists()
