#!/usr/bin/env python3
"""Build a wheel of Kompute (``kp`` on PyPI) for the Python that runs this script, and print the wheel's path.

Kompute 0.9.0 is on PyPI as source only, and its build clones four projects from GitHub. This script takes that source
distribution from PyPI, applies the patches of ``scripts/kompute/`` (``--unchanged``: only what it needs to build), and
builds against the system's Vulkan headers and fmt and PyPI's pybind11, so that nothing but PyPI is asked. The wheel is
kept in a cache: the next call with the same Python, operating system and build recipe prints the cached wheel's path at
once.

Needs: CMake >= 3.20, make, a C++ compiler, the Vulkan headers and loader, fmt, and Python's own headers
(Debian: ``cmake make g++ libvulkan-dev libfmt-dev python3-dev``).
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
import venv
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

KOMPUTE_VERSION = "0.9.0"
LOCAL_VERSION = "dmlvk.11"
"""What ``pip list`` shows behind it: this is not the package as it is on PyPI."""

KOMPUTE_SHA256 = "98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949"

#: pybind11 >= 2.13 knows CPython up to 3.13 and both NumPy 1 and 2. setuptools stands in for the distutils that
#: Python 3.12 dropped and Kompute's setup.py imports.
BUILD_REQUIREMENTS = ("setuptools>=68,<81", "wheel", "pybind11>=2.13,<4")

MINIMUM_CMAKE = (3, 20)

#: Kompute's CMakeLists.txt reads its options from the environment.
CMAKE_OPTIONS = {
    # Everything that it would clone from GitHub comes from the system or from PyPI instead.
    "KOMPUTE_OPT_USE_BUILT_IN_VULKAN_HEADER": "OFF",
    "KOMPUTE_OPT_USE_BUILT_IN_FMT": "OFF",
    "KOMPUTE_OPT_USE_BUILT_IN_PYBIND11": "OFF",
    # The rules to install Kompute as a C++ library fail without the built-in fmt, and a wheel does not need them.
    "KOMPUTE_OPT_INSTALL": "OFF",
    # Without this Kompute switches the Vulkan validation layer on by itself wherever it is installed: slow, and
    # dmlvk decides about it (DMLVK_VALIDATION).
    "KOMPUTE_OPT_DISABLE_VK_DEBUG_LAYERS": "ON",
    # The machine that builds may have no Vulkan driver at all.
    "KOMPUTE_OPT_DISABLE_VULKAN_VERSION_CHECK": "ON",
}


class KomputeBuildError(Exception):
    """Kompute cannot be built here; the message says why."""


def patches(unchanged: bool) -> list[Path]:
    """The changes to Kompute's source in their order; ``unchanged``: only what the package needs to build at all."""
    every = sorted(Path(__file__).with_name("kompute").glob("*.patch"))
    return every[:1] if unchanged else every


def apply_patch(patch: Path, source: Path) -> None:
    """Applies a unified diff to the files of a source tree, which must be exactly those that it was made of.

    Args:
        patch: what is said before the first ``---`` is for readers.
        source: the tree.

    Raises:
        KomputeBuildError: a line is not there; the tree is then of no use.
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
                raise KomputeBuildError(f"{patch.name}: {name} is not as it was at line {start}")
            lines[first : first + len(old)] = [line[1:] for line in changed if line[:1] in (" ", "+")]
        (source / name).write_text("\n".join(lines), encoding="utf-8", newline="\n")


def change_source(source: Path, jobs: int, unchanged: bool) -> None:
    """Makes all changes.

    Args:
        source: Kompute's source.
        jobs: compilers at a time: a bare -j starts every one at once and can exhaust the memory of a small machine.
        unchanged: only what the package needs to build at all.

    Raises:
        KomputeBuildError: the source is another one.
    """
    for patch in patches(unchanged):
        apply_patch(patch, source)
    setup = source / "setup.py"
    text = setup.read_text(encoding="utf-8")
    marked = f"version='{KOMPUTE_VERSION}'" if unchanged else f"version='{KOMPUTE_VERSION}+{LOCAL_VERSION}'"
    for old, new in (("'--', '-j']", f"'--', '-j{jobs}']"), (f"version='{KOMPUTE_VERSION}'", marked)):
        if text.count(old) != 1:
            raise KomputeBuildError(f"setup.py does not have {old!r} once")
        text = text.replace(old, new)
    setup.write_text(text, encoding="utf-8", newline="\n")


def run(command: Sequence[str | Path], env: dict[str, str] | None = None) -> None:
    """Run a command with its output on the error stream (the standard output is for the wheel's path alone).

    Raises:
        KomputeBuildError: the command failed.
    """
    words = [str(word) for word in command]
    print("+", " ".join(words), file=sys.stderr, flush=True)
    status = subprocess.run(words, env=env, stdout=sys.stderr, check=False).returncode
    if status != 0:
        raise KomputeBuildError(f"exit status {status}: {' '.join(words)}")


def find_cmake() -> Path:
    """Return a CMake that is recent enough, the system's own first.

    A CMake that pip installed is a Python program that finds its module only from its own environment; in a build
    started by pip it fails, so it comes last.

    Raises:
        KomputeBuildError: there is none, or only older ones.
    """
    seen = []
    for name in ("/usr/bin/cmake", "/usr/local/bin/cmake", shutil.which("cmake")):
        if name is None or not os.access(name, os.X_OK):
            continue
        words = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"version (\d+)\.(\d+)", words)
        if match and (int(match[1]), int(match[2])) >= MINIMUM_CMAKE:
            return Path(name)
        seen.append(f"{name} ({match[0] if match else 'does not run'})")
    needed = ".".join(map(str, MINIMUM_CMAKE))
    raise KomputeBuildError(f"Kompute needs CMake >= {needed}; found {', '.join(seen) if seen else 'none'}")


#: What the compiler must find, and Debian's package that has it.
HEADERS = {"vulkan/vulkan.hpp": "libvulkan-dev", "fmt/core.h": "libfmt-dev", "Python.h": "python3-dev"}
LIBRARIES = {"vulkan": "libvulkan-dev", "fmt": "libfmt-dev"}


def check_tools() -> None:
    """Looks for everything that the build needs, because its own errors come after a minute and are hard to read.

    Raises:
        KomputeBuildError: something is missing; the message says what to install.
    """
    missing = [] if shutil.which("make") else ["make"]
    compiler = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++")
    if compiler is None:
        missing += ["g++", *HEADERS.values()]  # nothing can tell which of them are there
    else:
        include = f"-I{sysconfig.get_paths()['include']}"
        with tempfile.TemporaryDirectory() as folder:

            def compiles(text: str, option: str) -> bool:
                words = [compiler, include, "-o", str(Path(folder, "made")), "-x", "c++", "-", option]
                return subprocess.run(words, input=text, text=True, capture_output=True, check=False).returncode == 0

            missing += [package for name, package in HEADERS.items() if not compiles(f"#include <{name}>\n", "-E")]
            missing += [package for name, package in LIBRARIES.items() if not compiles("int main() {}\n", f"-l{name}")]
    try:
        find_cmake()
    except KomputeBuildError as error:
        raise KomputeBuildError(f"{error} (Debian, Ubuntu: apt install {' '.join(['cmake', *missing])})") from None
    if missing:
        wanted = " ".join(dict.fromkeys(missing))
        raise KomputeBuildError(
            f"Kompute cannot be built without a compiler and headers (Debian, Ubuntu: apt install {wanted})"
        )


def make_build_environment(folder: Path) -> Path:
    """Create a virtual environment with the build requirements in ``folder`` and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", *BUILD_REQUIREMENTS])
    return python


def fetch_source(python: Path, folder: Path) -> Path:
    """Download Kompute's source distribution from PyPI, checked against its hash, and return the unpacked tree."""
    pin = folder / "kompute.txt"
    pin.write_text(f"kp=={KOMPUTE_VERSION} --hash=sha256:{KOMPUTE_SHA256}\n", encoding="utf-8")
    options = ["--quiet", "--no-binary=kp", "--no-deps", "--no-build-isolation", "--require-hashes"]
    run([python, "-m", "pip", "download", *options, "--requirement", pin, "--dest", folder])
    shutil.unpack_archive(folder / f"kp-{KOMPUTE_VERSION}.tar.gz", folder)
    return folder / f"kp-{KOMPUTE_VERSION}"


def build_wheel(python: Path, source: Path, folder: Path) -> Path:
    """Build the wheel from the repaired ``source`` into ``folder`` and return its path."""
    query = "import pybind11; print(pybind11.get_cmake_dir())"
    pybind11_folder = subprocess.run([python, "-c", query], capture_output=True, text=True, check=True).stdout.strip()
    environment = {
        **os.environ,
        **CMAKE_OPTIONS,
        "pybind11_DIR": pybind11_folder,
        "PATH": os.pathsep.join([str(find_cmake().parent), os.environ.get("PATH", os.defpath)]),
        # Kompute compiles with -Werror; a newer compiler's new warnings must not stop the build. -w is the one flag
        # that wins over -Werror wherever it stands on the command line.
        "CXXFLAGS": f"{os.environ.get('CXXFLAGS', '')} -w".strip(),
    }
    options = ["--verbose", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    run([python, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source], env=environment)
    return next(folder.glob("kp-*.whl"))


def operating_system() -> str:
    """Return a short name of the system whose libraries the extension is linked with, such as ``debian-12``."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except FileNotFoundError:
        return sys.platform
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return "-".join(fields[key].strip('"') for key in ("ID", "VERSION_ID") if key in fields) or sys.platform


def recipe_of(*files: Path) -> str:
    """A short hash of what files contain."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def cache_key(unchanged: bool) -> str:
    """Return the name of the cache folder: equal names mean that the wheel can be used again."""
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    recipe = recipe_of(Path(__file__), *patches(unchanged))
    version = KOMPUTE_VERSION if unchanged else f"{KOMPUTE_VERSION}+{LOCAL_VERSION}"
    return f"kp-{version}-{abi}-{operating_system()}-{recipe}"


def default_cache() -> Path:
    """Return the user's cache folder for dmlvk, by the XDG rules."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dmlvk"


def main() -> int:
    """Build the wheel, or find it in the cache, and print its path. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Build a wheel of Kompute for this Python and print its path.")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder that keeps wheels (%(default)s)")
    parser.add_argument("--cached-only", action="store_true", help="build nothing: exit status 3 if none is cached")
    parser.add_argument("--unchanged", action="store_true", help="Kompute as it is on PyPI, without dmlvk's changes")
    parser.add_argument("--rebuild", action="store_true", help="build even if a wheel is cached")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8), help="compilers at a time")
    arguments = parser.parse_args()
    kept = arguments.cache / "wheels" / cache_key(arguments.unchanged)
    if not arguments.rebuild:
        for wheel in kept.glob("kp-*.whl"):
            print(wheel)
            return 0
        if arguments.cached_only:
            return 3
    try:
        check_tools()
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dmlvk-kompute-") as name:
            folder = Path(name)
            python = make_build_environment(folder / "env")
            source = fetch_source(python, folder)
            change_source(source, arguments.jobs, arguments.unchanged)
            wheel = build_wheel(python, source, folder)
            # Into the cache under a temporary name first: a half-copied wheel must never be found there.
            partial = kept / f"{wheel.name}.{os.getpid()}"
            shutil.copyfile(wheel, partial)
            partial.replace(kept / wheel.name)
    except (KomputeBuildError, OSError) as error:
        print(f"build_kompute.py: {error}", file=sys.stderr)
        return 1
    print(kept / wheel.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
