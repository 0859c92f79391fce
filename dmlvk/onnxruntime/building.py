"""The library that ONNX Runtime loads, built from its source by the machine's C compiler, and kept for the user."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from dmlvk.errors import UnsupportedError
from dmlvk.support.caches import file_contents, is_private, user_cache

_log = logging.getLogger("dmlvk")

SOURCES = Path(__file__).parent / "native"

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

_STEM = "dmlvk_onnxruntime"

NAME = f"{_STEM}{_SUFFIX}"  # The library's file; a wheel for a platform has it beside this module


def built() -> Path:
    """A library built on this machine: one that was kept, or a new one.

    It is executed as it is. So it is taken only from where nobody but the user can have put it, and only with the
    contents by which it is named: a part of a file is none.

    Raises:
        UnsupportedError: when it cannot be built.
    """
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    cache = user_cache("onnxruntime")
    folder = None if cache is None else cache / digest.hexdigest()[:16]
    if folder is not None and not is_private(folder):
        _log.warning(
            "%s: the library for ONNX Runtime is neither taken from there nor kept: no other user may own or write to "
            "it, or to a folder above it",
            folder,
        )
        folder = None
    try:
        kept = [] if folder is None else sorted(folder.glob(f"{_STEM}-*{_SUFFIX}"))
        found = next(filter(_is_whole, kept), None)
        if found is not None:
            return found
        return _kept(folder) if folder is not None else _kept(_temporary())
    except OSError as error:  # a home that cannot be written to, or a full disk
        try:
            return _kept(_temporary())
        except OSError:
            raise UnsupportedError(f"dmlvk.onnxruntime: there is no place for {NAME}: {error}") from error


def _temporary() -> Path:
    """A folder of this process, which is removed when it ends."""
    folder = tempfile.mkdtemp(prefix="dmlvk-onnxruntime-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _kept(folder: Path) -> Path:
    """A new library in a folder, named by its contents.

    Raises:
        UnsupportedError: as for :func:`compile_library`.
        OSError: when it cannot be written.
    """
    made = folder / f".{threading.get_native_id()}-{os.getpid()}{_SUFFIX}"
    try:
        compile_library(made)
        target = folder / f"{_STEM}-{hashlib.sha256(made.read_bytes()).hexdigest()}{_SUFFIX}"
        os.replace(made, target)
    finally:
        made.unlink(missing_ok=True)
    return target


def _is_whole(path: Path) -> bool:
    try:
        return is_private(path) and path.stem == f"{_STEM}-{hashlib.sha256(file_contents(path)).hexdigest()}"
    except OSError:
        return False


def compile_library(target: Path) -> None:
    """Builds the library.

    Args:
        target: its file; put there in one step.

    Raises:
        UnsupportedError: when there is no C compiler, or it refuses.
        OSError: when the file's folder cannot be made.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise UnsupportedError(
            "dmlvk.onnxruntime: this installation of dmlvk has no library for ONNX Runtime, and there is no C compiler "
            "to build it: install the wheel for this platform, or a compiler (Debian, Ubuntu: apt install gcc)"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.tmp")
    command = [compiler, "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", str(temporary)]
    try:
        done = subprocess.run([*command, str(SOURCES / "provider.c")], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UnsupportedError(f"dmlvk.onnxruntime: {compiler} cannot build {NAME}: {done.stderr.strip()}")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
