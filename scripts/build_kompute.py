#!/usr/bin/env python3
"""Build Kompute with dmlvk's changes as one library in C, and put it where ``dmlvk/runtime/bundled.py`` loads it.

    scripts/build_kompute.py                           for this machine, by its C++ compiler: seconds; prints a wheel
                                                       of it, for checkouts on machines without a compiler
    scripts/build_kompute.py --library                 the same, without the wheel; prints the library
    scripts/build_kompute.py --unchanged --output DIR  ``kp`` as it is on PyPI, for this Python, to try dmlvk on it

Kompute 0.9.0 is on PyPI as source only. This takes that source distribution, applies the patches of
``scripts/kompute/``, and compiles it against Vulkan's headers. The library is kept in the user's cache, by what it is
made from. ``build_wheels.py`` builds it for other systems, too.

Needs: a C++ compiler and Vulkan's headers (Debian: ``g++ libvulkan-dev``), and PyPI for the source; ``--unchanged``
Python's headers and pybind11, too.

Exit status: 0 it is there, 1 it cannot be built, 2 wrong usage, 3 it is not in the cache (``--cached-only``).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.cross.targets import HERE, CrossBuildError, Platform
from scripts.cross.tools import run
from scripts.cross.wheel import write_wheel

ROOT = Path(__file__).resolve().parent.parent

KOMPUTE_VERSION = "0.9.0"

KOMPUTE_SHA256 = "98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949"

NATIVE = ROOT / "scripts" / "native"

PROGRAM = NATIVE / "kompute_library.cpp"

LICENSE = "LICENSE"

LIBRARY_FOLDER = "dmlvk_kompute"  # Where its wheel puts the library: as a namespace package, beside other packages

_DEFINITIONS = (
    # Without this Kompute switches the Vulkan validation layer on by itself wherever it is installed: slow, and dmlvk
    # decides about it (DMLVK_VALIDATION).
    "-DKOMPUTE_DISABLE_VK_DEBUG_LAYERS=1",
    "-DKOMPUTE_OPT_LOG_LEVEL_DISABLED=1",
)

_OPTIONS = ("-std=c++17", "-O2", "-DNDEBUG", "-w", "-fvisibility=hidden", *_DEFINITIONS)

_SYSTEM_HEADERS = ("vulkan", "vk_video")
"""Folders of /usr/include that are the same on all systems; the others there are this system's own."""


def patches() -> list[Path]:
    """The changes to Kompute's source in their order."""
    return sorted((ROOT / "scripts" / "kompute").glob("*.patch"))


def apply_patch(patch: Path, source: Path) -> None:
    """Applies a unified diff to the files of a source tree, which must be exactly those that it was made of.

    Args:
        patch: what is said before the first ``---`` is for readers.

    Raises:
        CrossBuildError: a line is not there; the tree is then of no use.
    """
    beginning = r"^(?:diff --git .*\nindex .*\n)?--- a/.*\n\+\+\+ b/"
    _, *files = re.split(beginning, patch.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for part in files:
        name, _, body = part.partition("\n")
        lines = (source / name).read_text(encoding="utf-8").split("\n")
        _, *hunks = re.split(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@.*\n", body, flags=re.MULTILINE)
        for start, hunk in zip(hunks[::2], hunks[1::2], strict=True):
            changed = hunk.removesuffix("\n").split("\n")
            old = [line[1:] for line in changed if line[:1] in (" ", "-")]
            first = int(start) - 1  # the hunks before have been applied
            if lines[first : first + len(old)] != old or any(line[:1] not in (" ", "-", "+") for line in changed):
                raise CrossBuildError(f"{patch.name}: {name} is not as it was at line {start}")
            lines[first : first + len(old)] = [line[1:] for line in changed if line[:1] in (" ", "+")]
        (source / name).write_text("\n".join(lines), encoding="utf-8", newline="\n")


def default_cache() -> Path:
    """Return the user's cache folder for dmlvk, by the XDG rules."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dmlvk"


def fetch_source(folder: Path) -> Path:
    """Kompute's source distribution from PyPI, whose hash pip checks, unpacked.

    Raises:
        CrossBuildError: it is not to be had.
    """
    pin = folder / "kompute.txt"
    pin.write_text(f"kp=={KOMPUTE_VERSION} --hash=sha256:{KOMPUTE_SHA256}\n", encoding="utf-8")
    # Having unpacked it, pip asks its setup.py for metadata, which needs an old setuptools: that may fail. What is
    # wanted is there before, and stays by --no-clean.
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-clean", "--no-binary=kp", "--no-deps"]
    words += ["--no-build-isolation", "--require-hashes", "--requirement", str(pin), "--dest", str(folder)]
    done = subprocess.run(words, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=False)
    found = next(folder.glob("*/kp_*/src/Algorithm.cpp"), None)
    if found is None:
        reason = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise CrossBuildError(f"Kompute's source is not to be had from PyPI: {reason}")
    return found.parents[1]


def _shaders(source: Path, folder: Path) -> Path:
    """Two headers that Kompute's CMake would make, and that nothing here uses."""
    made = folder / "shader"
    made.mkdir()
    for name in ("ShaderOpMult.hpp", "ShaderLogisticRegression.hpp"):
        shutil.copy(source / "src" / "shaders" / "glsl" / f"{name}.in", made / name)
    return made


def _headers(folder: Path) -> Path:
    made = folder / "system"
    made.mkdir()
    for name in _SYSTEM_HEADERS:
        if not Path("/usr/include", name).is_dir():
            raise CrossBuildError(f"/usr/include/{name} is not here (Debian, Ubuntu: apt install libvulkan-dev)")
        (made / name).symlink_to(Path("/usr/include", name))
    return made


def _kept(target: Platform) -> Path:
    files = [*patches(), Path(__file__), PROGRAM, *sorted((NATIVE / "fmt").iterdir())]
    headers = Path("/usr/include/vulkan/vulkan_core.h")
    parts = [repr(target).encode(), *(file.read_bytes() for file in files)]
    parts += [headers.read_bytes()] if headers.is_file() else []
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    return default_cache() / "kompute" / f"{target.name}-{digest}" / target.library("dmlvk_kompute")


def build(target: Platform = HERE, *, is_cached_only: bool = False, is_new: bool = False) -> Path | None:
    """The library for a system, in the user's cache, with Kompute's licence beside it.

    Args:
        is_new: build it also where the cache has it.

    Returns:
        the library; ``None`` where it is not in the cache and nothing shall be built.

    Raises:
        CrossBuildError: something is missing, or does not compile.
    """
    kept = _kept(target)
    if (kept.is_file() and not is_new) or is_cached_only:
        return kept if kept.is_file() else None
    with tempfile.TemporaryDirectory(prefix="dmlvk-kompute-") as name:
        folder = Path(name)
        headers = _headers(folder)
        source = fetch_source(folder)
        for patch in patches():
            apply_patch(patch, source)
        includes = [NATIVE, source / "src", source / "src" / "include", _shaders(source, folder), headers]
        made = folder / kept.name
        words = [*target.compiler_words(), *_OPTIONS, *target.flags, *target.link, *(f"-I{path}" for path in includes)]
        run([*words, "-o", str(made), str(PROGRAM)])
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / LICENSE, kept.parent / LICENSE)
        # Under a temporary name first: a half-copied library must never be found there.
        partial = Path(shutil.copy(made, kept.with_suffix(f".{os.getpid()}")))
        partial.replace(kept)
    return kept


def build_unchanged(output: Path) -> Path:
    """``kp`` as it is on PyPI, for the Python that runs this.

    Args:
        output: a folder for the module.

    Raises:
        CrossBuildError: something is missing, or does not compile.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dmlvk-kompute-") as name:
        folder = Path(name)
        headers = _headers(folder)
        run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "pip"), "pybind11>=2.13,<4"])
        source = fetch_source(folder)
        includes = [NATIVE, source / "src" / "include", _shaders(source, folder), headers]
        includes += [folder / "pip" / "pybind11" / "include", Path(sysconfig.get_paths()["include"])]
        # As one file: Vulkan's headers, most of the work, are read once.
        together = folder / "kompute.cpp"
        parts = [*sorted((source / "src").glob("*.cpp")), source / "src" / "logger" / "Logger.cpp"]
        together.write_text("".join(f'#include "{path}"\n' for path in parts), encoding="utf-8")
        made = output / f"kp{sysconfig.get_config_var('EXT_SUFFIX')}"
        words = [*HERE.compiler_words(), *_OPTIONS, "-DKOMPUTE_BUILD_PYTHON=1", *HERE.flags, *HERE.link]
        words += [f"-I{path}" for path in includes]
        run([*words, "-o", str(made), str(source / "python" / "src" / "main.cpp"), str(together), "-lvulkan"])
    return made


def install(library: Path) -> Path:
    """Puts the library where this checkout loads it; a process that has the old one keeps it."""
    folder = ROOT / "dmlvk" / "runtime" / "native"
    folder.mkdir(exist_ok=True)
    target = folder / library.name
    if not target.is_file() or target.read_bytes() != library.read_bytes():
        partial = Path(shutil.copy(library, target.with_suffix(f".{os.getpid()}")))
        partial.replace(target)
    return target


def write_library_wheel(library: Path) -> Path:
    """A wheel named as Kompute's, with the library where :mod:`dmlvk.runtime.kompute_library` looks for it.

    Args:
        library: as :func:`build` returns it; the wheel is written beside it, and installs for any Python.
    """
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    version = f"{KOMPUTE_VERSION}+dmlvk"
    own = f"kp-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: kp\nVersion: {version}\nSummary: Kompute as dmlvk's checkouts load it\n"
    files = {f"{LIBRARY_FOLDER}/{library.name}": library.read_bytes(), f"{own}/METADATA": about.encode()}
    files[f"{own}/{LICENSE}"] = library.with_name(LICENSE).read_bytes()
    return write_wheel(library.parent, "kp", version, f"py3-none-{tag}", files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build Kompute's library for this checkout, and print a wheel's path.")
    parser.add_argument("--library", action="store_true", help="print the library's path, and write no wheel")
    parser.add_argument("--cached-only", action="store_true", help="build nothing: exit status 3 if it is not cached")
    parser.add_argument("--rebuild", action="store_true", help="build it also where it is cached")
    parser.add_argument("--unchanged", action="store_true", help="kp as it is on PyPI, without dmlvk's changes")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where kp goes")
    options = parser.parse_args(arguments)
    if options.unchanged != (options.output is not None):
        parser.error("--unchanged and --output go together")
    try:
        if options.unchanged:
            print(build_unchanged(options.output))
            return 0
        library = build(is_cached_only=options.cached_only, is_new=options.rebuild)
        if library is None:
            return 3
        installed = install(library)
        print(installed if options.library else write_library_wheel(library))
    except (CrossBuildError, OSError) as error:
        print(f"build_kompute.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
