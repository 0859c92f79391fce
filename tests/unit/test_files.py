"""Files are written as a whole or not at all, and what cannot be written is found out before."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.support.files import check_writable, write_whole


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
