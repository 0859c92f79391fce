"""CPython 3.14 without its global lock, for systems whose own Python dmlvk does not serve.

It is built from Ubuntu's source, with Zig for the glibc of the wheels: no package has one that old systems run.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.debian_roots import DEBIAN13, UBUNTU, unpacked
from scripts.cross.targets import TARGETS
from scripts.cross.tools import fetched, run

VERSION = "3.14.4"

PROGRAM = "/opt/python/bin/python3.14t"

ABI = "cp314t"

_URL = f"{UBUNTU.mirror}/pool/main/p/python3.14/python3.14_{VERSION}.orig.tar.xz"
_SHA256 = "d923c51303e38e249136fc1bdf3568d56ecb03214efdef48516176d3d7faaef8"

_LIBRARIES = dataclasses.replace(
    DEBIAN13, suite="bullseye", is_merged=False, packages=("libffi-dev", "liblzma-dev", "zlib1g-dev")
)  # of an old system

_HEADERS = ("zlib.h", "zconf.h", "ffi.h", "ffitarget.h", "lzma.h", "lzma")


def built() -> Path:
    """The folder with ``/opt/python``, which takes some minutes once.

    Raises:
        CrossBuildError: the source is not to be had, or does not compile.
    """
    kept = default_cache() / "python" / f"{VERSION}t"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(prefix="dmlvk-python-") as name:
            _build(Path(name), kept)
    return kept


def _build(work: Path, kept: Path) -> None:
    libraries = unpacked(_LIBRARIES)
    for header in _HEADERS:
        (work / header).symlink_to(next((libraries / "usr" / "include").rglob(header)))
    (work / "python.tar.xz").write_bytes(fetched(_URL, _SHA256))
    run(["tar", "-xf", str(work / "python.tar.xz"), "-C", str(work)])
    source, partial = work / f"Python-{VERSION}", kept.with_name(f"{kept.name}.partial")
    compiler = " ".join(TARGETS["manylinux_x86_64"].compiler_words()).replace(" c++ ", " cc ")
    settings = [f"CC={compiler}", "OPT=-DNDEBUG -O1 -Wno-date-time", "PKG_CONFIG=false"]
    for name, library in (
        ("ZLIB", "lib/{}/libz.so.1"),
        ("LIBFFI", "usr/lib/{}/libffi_pic.a"),
        ("LIBLZMA", "lib/{}/liblzma.so.5"),
    ):
        path = libraries / library.format(DEBIAN13.triplet)
        settings += [f"{name}_CFLAGS=-I{work}", f"{name}_LIBS={path}"]
    options = ["--prefix=/opt/python", "--disable-gil", "--disable-test-modules", "--without-ensurepip"]
    run(["env", "-C", str(source), *settings, "./configure", *options])
    run(["make", "-C", str(source), f"-j{os.cpu_count()}"])
    run(["make", "-C", str(source), "install", f"DESTDIR={partial}"])
    partial.rename(kept)
