"""The systems for which wheels are built, and what builds for them: Zig, from PyPI (``pip install ziglang``).

Zig brings the C libraries of all of them, and links its C++ library into what it makes: nothing is left to be there but
each system's own C library, of which Linux needs glibc 2.28 or newer. It compiles both for each system, which takes
long: what no wheel calls is left out. Where something is missing after all, nothing is linked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

CPYTHONS = tuple(range(10, 15))  # Minor versions of CPython 3 that dmlvk is tried on

GLIBC = (2, 28)


TOOLS = ("ziglang>=0.15", "build>=1.2", "hatchling>=1.24", "numpy>=1.23", "rich>=13", "twine>=6")
"""What wheels are made with; numpy and rich are for the script that compiles the shaders."""

_TOOLS_FOLDER = Path(__file__).resolve().parents[2] / "build" / "wheel-tools"


def tools_python() -> Path:
    """The Python of an environment with :data:`TOOLS`, made in ``build/wheel-tools`` where it is not there.

    Raises:
        CrossBuildError: PyPI does not have them.
    """
    python, stamp = _TOOLS_FOLDER / "bin" / "python", _TOOLS_FOLDER / "tools.txt"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != " ".join(TOOLS):
        shutil.rmtree(_TOOLS_FOLDER, ignore_errors=True)
        for words in (
            [sys.executable, "-m", "venv", str(_TOOLS_FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *TOOLS],
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CrossBuildError(f"{' '.join(TOOLS)} are not to be had: {done.stderr.strip()[-500:]}")
        stamp.write_text(" ".join(TOOLS), encoding="utf-8")
    return python


def zig_folder() -> Path:
    """Where Zig is, with the sources and licences of what it links."""
    (folder,) = tools_python().parents[1].glob("lib/python3*/site-packages/ziglang")
    return folder


_UNUSED = (
    "libcxx/src/filesystem", "libcxx/src/ryu", "libc/mingw/libsrc", "libc/mingw/math", "libc/mingw/complex",
    "libc/mingw/winpthreads", "libc/mingw/string", "libc/mingw/stdio/mingw_*.c", "libc/mingw/misc/[ft]*.c",
    *(f"libcxx/src/{name}.cpp" for name in (
        "algorithm", "any", "atomic", "barrier", "bind", "charconv", "expected", "fstream", "memory_resource",
        "optional", "ostream", "print", "random", "random_shuffle", "regex", "shared_mutex", "strstream", "valarray",
        "variant", "vector",
    )),
)  # fmt: skip
"""Folders and sources of Zig's libraries."""

_NO_DEMANGLER = """
#include <cstddef>
extern "C" char *__cxa_demangle(const char *, char *, std::size_t *, int *status) { return *status = -1, nullptr; }
"""
"""Nobody reads the name of an exception that nobody catches."""


def lean_libraries() -> Path:
    """Zig's folder of libraries as links, in which sources that no wheel needs are empty."""
    whole, recipe = zig_folder() / "lib", hashlib.sha256(repr((_UNUSED, _NO_DEMANGLER)).encode()).hexdigest()[:12]
    lean = _TOOLS_FOLDER / f"lean-{recipe}"
    if not lean.is_dir():
        partial = Path(tempfile.mkdtemp(prefix="lean-", dir=_TOOLS_FOLDER))
        shutil.copytree(whole, partial, dirs_exist_ok=True, copy_function=os.link)
        for path in (found for pattern in _UNUSED for found in partial.glob(pattern)):
            for source in [path] if path.is_file() else [*path.rglob("*.c"), *path.rglob("*.cpp"), *path.rglob("*.S")]:
                source.unlink()
                source.touch()
        demangler = partial / "libcxxabi" / "src" / "cxa_demangle.cpp"
        demangler.unlink()
        demangler.write_text(_NO_DEMANGLER, encoding="ascii")
        partial.rename(lean)
    return lean


class CrossBuildError(Exception):
    """Nothing can be built for another system here; the message says what is missing, or which step failed."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """A system, and what builds for it."""

    name: str  # what ``build_wheels.py --platform`` is given
    tag: str  # the platform of a wheel's name
    system: str  # ``"win32"``, ``"darwin"`` or ``"linux"``, as ``sys.platform`` says it there
    title: str  # what the table of platforms calls it
    compiler: tuple[str, ...]  # the C++ compiler's words, of which ``"zig"`` stands for the program of PyPI's ziglang
    flags: tuple[str, ...] = ()  # for compiling
    link: tuple[str, ...] = ("-shared", "-s")  # for linking a shared library

    def library(self, name: str) -> str:
        return {"win32": f"{name}.dll", "darwin": f"lib{name}.dylib"}.get(self.system, f"lib{name}.so")

    def program(self, name: str) -> str:
        return f"{name}.exe" if self.system == "win32" else name

    def compiler_words(self) -> list[str]:
        """The C++ compiler, which is installed where it is Zig.

        Raises:
            CrossBuildError: it is not here.
        """
        if self.compiler[0] == "zig":
            settings = ["env", f"ZIG_LIB_DIR={lean_libraries()}"]
            return [*settings, str(tools_python()), "-m", "ziglang", *self.compiler[1:]]
        if shutil.which(self.compiler[0]) is None:
            raise CrossBuildError(f"there is no C++ compiler {self.compiler[0]} (Debian, Ubuntu: apt install g++)")
        return list(self.compiler)


def _by_zig(name: str, tag: str, title: str, target: str) -> Platform:
    system = {"win": "win32", "macosx": "darwin"}.get(name.partition("_")[0], "linux")
    return Platform(
        name=name,
        tag=tag,
        system=system,
        title=title,
        compiler=("zig", "c++", "-target", target),
        flags=("-D_WIN32_WINNT=0x0A00",) if system == "win32" else ("-fPIC",),
    )


_GLIBC = ".".join(map(str, GLIBC))

TARGETS: Mapping[str, Platform] = MappingProxyType(
    {
        target.name: target
        for target in (
            *(
                _by_zig(
                    f"manylinux_{machine}",
                    f"manylinux_{_GLIBC.replace('.', '_')}_{machine}",
                    title,
                    f"{machine}-linux-gnu.{_GLIBC}",
                )
                for machine, title in (("x86_64", "Linux x86-64"), ("aarch64", "Linux on Arm (aarch64)"))
            ),
            _by_zig("win_amd64", "win_amd64", "Windows x86-64", "x86_64-windows-gnu"),
            _by_zig("win_arm64", "win_arm64", "Windows on Arm", "aarch64-windows-gnu"),
            _by_zig("macosx_arm64", "macosx_13_0_arm64", "macOS", "aarch64-macos.13.0"),
            _by_zig("macosx_x86_64", "macosx_13_0_x86_64", "macOS x86-64", "x86_64-macos.13.0"),
        )
    }
)
"""By name."""

HERE = Platform(
    name=f"here-{sys.platform}",
    tag="",
    system=sys.platform,
    title="this machine",
    compiler=(os.environ.get("CXX") or "c++",),
    flags=("-fPIC",) if sys.platform != "win32" else (),
)
"""This machine, by its own compiler."""
