"""The library that ONNX Runtime loads is the one that was built here for this user, as a whole, or is built anew."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmlvk.errors import UnsupportedError
from dmlvk.onnxruntime import building

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="another way of permissions")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(building, "user_cache", lambda name: home / "dmlvk" / name)
    return home


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _one_bit(path: Path) -> None:
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 3] ^= 1
    path.write_bytes(contents)


def _other(path: Path) -> None:
    path.write_bytes(b"\x7fELF another program")


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_it_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = building.built()
    assert built.is_relative_to(cache)
    monkeypatch.setenv("CC", "there is no such compiler")
    assert building.built() == built
    assert [path.name for path in built.parent.iterdir()] == [built.name], "nothing else is left"


@pytest.mark.parametrize("damage", [_cut, _one_bit, _other, _emptied])
def test_a_damaged_one_is_built_anew(damage: Callable[[Path], None], cache: Path) -> None:
    built = building.built()
    contents = built.read_bytes()
    damage(built)
    again = building.built()
    assert again.read_bytes() == contents
    program = f"import ctypes; print(ctypes.CDLL({str(again)!r}).dmlvk_abi_version())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "24\n"


@pytest.mark.parametrize("damage", [_folder, _pipe])
def test_what_is_no_file_is_not_waited_for(damage: Callable[[Path], None], cache: Path) -> None:
    built = building.built()
    damage(built)
    again = building.built()
    assert again.is_file()
    assert building._is_whole(again)


@pytest.mark.parametrize("what", ["its folder", "a folder above", "the file"])
def test_one_that_others_can_write_is_not_taken(
    what: str, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = building.built()
    {"its folder": built.parent, "a folder above": cache, "the file": built}[what].chmod(0o777)
    with caplog.at_level(logging.WARNING, "dmlvk"):
        again = building.built()
    assert building._is_whole(again)
    if what == "the file":
        assert again.stat().st_mode & 0o022 == 0
    else:
        assert not again.is_relative_to(cache)
        assert "is neither taken from there nor kept" in caplog.text


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["its folder", "a folder above", "the file"])
def test_one_of_another_user_is_not_taken(what: str, cache: Path) -> None:
    built = building.built()
    os.chown({"its folder": built.parent, "a folder above": cache, "the file": built}[what], 65534, 65534)
    again = building.built()
    assert building._is_whole(again)
    assert again.stat().st_uid == 0


def test_a_folder_for_all_as_tmp_is_one_where_only_owners_replace_files(cache: Path) -> None:
    cache.chmod(0o1777)
    built = building.built()
    assert built.is_relative_to(cache)
    assert building.built() == built


def test_where_nothing_can_be_kept_it_is_built_for_the_process(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "dmlvk").write_text("no folder")
    built = building.built()
    assert not built.is_relative_to(cache)
    assert building._is_whole(built)
    monkeypatch.setenv("CC", "there is no such compiler")
    with pytest.raises(UnsupportedError, match="no C compiler"):
        building.built()
