#!/usr/bin/env python3
"""Install dmlvk's wheels by pip where nothing else is, and compute: on other Linuxes, from a folder for an index.

    scripts/try_wheels.py dist                          on each, and wine; prints a table
    scripts/try_wheels.py dist --system debian13        on one of them (repeatable)
    scripts/try_wheels.py dist --operators '*'          and dmlvk conformance there, with few values of each case

A system is unpacked from its own packages into a folder of the user's cache, with Python, the Vulkan loader and Mesa's
drivers, and becomes the root of a process: that takes root's rights. It has no compiler and no network. pip gets a
folder with these wheels, and with PyPI's of what dmlvk requires. Where dmlvk does not serve the system's own Python,
pip must say so; then CPython 3.14 without its global lock, built once, does the rest. Where it does not serve the
system's own driver for the processor, it must say so, too.

Windows is wine with CPython for Windows; ``try_windows.py`` tries more there. Of RHEL no packages are to be had: what
its wheel needs of glibc stands in its place.

A busy machine takes longer than an idle one: seconds of a processor are in brackets, and count.

Exit status: 0 a first result within 60 s everywhere, 1 not so, 2 wrong usage, 3 nothing can be tried.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import try_windows
from scripts.build_kompute import default_cache
from scripts.build_wheels import FIRST_RESULT
from scripts.cross import binaries, built_python
from scripts.cross.debian_roots import DEBIAN, UBUNTU, Distribution, Root, command, unpacked, why_not_here
from scripts.cross.targets import GLIBC, CrossBuildError
from scripts.cross.tools import run

_Result = TypeVar("_Result")

OLDEST_PYTHON = 10

CONFORMANCE = ("--patterns", "1024", "--attribute-sets", "1")  # Few values of each case

MOST_SECONDS = 60.0

REQUIRED = ("pip==25.0.1", "numpy>=1.23", "click>=8.1", "rich>=13", "pillow>=9.1")

_PACKAGES = ("python3", "python3-distutils", "mesa-vulkan-drivers", "libvulkan1")

_INSTALL = ("/pip/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels", "--target", "/dmlvk", "dmlvk")

_VERSIONS = """
import platform, sys
print(platform.python_version() + sys.abiflags, platform.libc_ver()[1] or "–")
"""

_COMPILERS = """
import shutil
names = "cc", "c++", "gcc", "g++", "clang", "cmake", "make", "glslangValidator"
print(*(name for name in names if shutil.which(name)))
"""


def _root(title: str, distribution: Distribution, suite: str, minor: int, *, machine: str = "amd64") -> Root:
    triplet = "aarch64-linux-gnu" if machine == "arm64" else "x86_64-linux-gnu"
    is_emulated = machine == "arm64"
    packages = tuple(name for name in _PACKAGES if minor < 12 or name != "python3-distutils")
    has_old_driver = suite == "bullseye"  # Mesa 20.3, whose llvmpipe offers Vulkan 1.0
    merged = suite in ("trixie", "forky", "sid", "noble", "resolute")
    return Root(title, machine, triplet, suite, minor, is_emulated, merged, distribution, packages, has_old_driver)


SYSTEMS: Mapping[str, Root] = MappingProxyType(
    {
        "debian11": _root("Debian 11", DEBIAN, "bullseye", 9),
        "debian12": _root("Debian 12", DEBIAN, "bookworm", 11),
        "debian13": _root("Debian 13", DEBIAN, "trixie", 13),
        "ubuntu20.04": _root("Ubuntu 20.04", UBUNTU, "focal", 8),
        "ubuntu22.04": _root("Ubuntu 22.04", UBUNTU, "jammy", 10),
        "ubuntu24.04": _root("Ubuntu 24.04", UBUNTU, "noble", 12),
        "ubuntu26.04": _root("Ubuntu 26.04", UBUNTU, "resolute", 14),
        "aarch64": _root("Debian 13 on Arm (qemu)", DEBIAN, "trixie", 13, machine="arm64"),
    }
)
"""By name; of an emulated processor no time is promised."""

TITLES: Mapping[str, str] = MappingProxyType(
    {
        **{name: root.title for name, root in SYSTEMS.items()},
        "windows": "Windows (wine)",
        "rhel": "RHEL 8 and 9",
    }
)


class NotHereError(Exception):
    """Something must be installed on this machine first; the message says what."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", metavar="DIR", type=Path, help="the folder of wheels")
    parser.add_argument("--system", action="append", choices=TITLES, help="this one only; repeatable")
    parser.add_argument("--operators", metavar="GLOB", help="of which promises and bits are tried there, too")
    options = parser.parse_args(arguments)
    wheels = sorted(options.wheels.glob("dmlvk-*.whl"))
    if not wheels:
        parser.error(f"{options.wheels} has no wheels of dmlvk")
    lines, statuses = [], []
    for name in options.system or TITLES:
        try:
            row, is_well = attempt(name, wheels, options.operators)
        except (NotHereError, try_windows.NoWindowsError) as error:
            print(f"{name}: not tried: {error}", file=sys.stderr, flush=True)
            continue
        except (CrossBuildError, OSError, subprocess.SubprocessError, ValueError) as error:
            row, is_well = ["–", "–", "–", "–", f"{error}".strip().splitlines()[-1]], False
        lines.append(f"| {' | '.join([TITLES[name], *row])} |")
        statuses.append(is_well)
        print(lines[-1], file=sys.stderr, flush=True)
    print("| system | Python | glibc | pip installs | first result | what it is |\n|---|---|---|---:|---:|---|")
    print("\n".join(lines))
    return 3 if not statuses else 0 if all(statuses) else 1


def attempt(name: str, wheels: Sequence[Path], operators: str | None) -> tuple[list[str], bool]:
    """A row of the table without the system's name, and whether all is well.

    Args:
        operators: whose promises and bits are tried; ``None`` for none.

    Raises:
        NotHereError: something must be installed here first.
        CrossBuildError: the system or PyPI's packages are not to be had, or a step fails there.
    """
    if name == "windows":
        return _of_windows(wheels[0].parent)
    if name == "rhel":
        return _of_glibc(wheels)
    if reason := why_not_here(SYSTEMS[name]):
        raise NotHereError(reason)
    return tried(SYSTEMS[name], wheels, operators)


def _of_windows(wheels: Path) -> tuple[list[str], bool]:
    if missing := [program for program in ("wine", "Xvfb") if shutil.which(program) is None]:
        raise NotHereError(f"{' and '.join(missing)} (apt install wine wine64 xvfb)")
    python = try_windows.prepared(wheels)
    with try_windows.display() as number:
        wine = try_windows.Wine(python, number)
        with wine.desktop():
            _, installs = _timed(lambda: try_windows.installed(wine, wheels))
            first, computes = _timed(lambda: wine.run("-c", FIRST_RESULT))
    _must_be_result(first)
    row = [f"3.{try_windows.MINOR}", "–", f"{installs}", f"{computes}", first.stdout.strip()]
    return row, installs.idle + computes.idle <= MOST_SECONDS


def _of_glibc(wheels: Sequence[Path]) -> tuple[list[str], bool]:
    """What programs and libraries for Linux need at most, which RHEL 8 has."""
    needed = (0, 0)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            found = [binaries.read(archive.read(name)) for name in archive.namelist()]
        of_linux = (each.oldest or needed for each in found if each is not None and each.system == "linux")
        needed = max([needed, *of_linux])  # wheels of other systems have none
    said = f"not tried: its packages are on no server that is asked; wheels need at most glibc {needed[0]}.{needed[1]}"
    return ["–", "2.28, 2.34", "–", "–", said], (0, 0) < needed <= GLIBC


def tried(root: Root, wheels: Sequence[Path], operators: str | None) -> tuple[list[str], bool]:
    """The row of a Linux, and whether all is well."""
    folder = _prepared(root, wheels)
    # Mesa asks Linux there how much memory is free.
    run(["mount", "--bind", "/proc", str(folder / "proc")])
    try:
        return _tried(root, folder, operators)
    finally:
        run(["umount", str(folder / "proc")])


def _tried(root: Root, folder: Path, operators: str | None) -> tuple[list[str], bool]:
    python, refused = f"/usr/bin/python3.{root.minor}", ""
    if root.minor < OLDEST_PYTHON:
        said = _inside(folder, python, *_INSTALL, "--no-deps").stderr
        if "requires a different Python" not in said:
            raise CrossBuildError(f"pip does not refuse Python 3.{root.minor}: {said.strip()[-500:]}")
        python, refused = built_python.PROGRAM, f"3.{root.minor} refused; "
    version, _, libc = _inside(folder, python, "-c", _VERSIONS).stdout.strip().partition(" ")
    if found := _inside(folder, python, "-c", _COMPILERS).stdout.split():
        raise CrossBuildError(f"it has compilers: {', '.join(found)}")
    done, installs = _timed(lambda: _inside(folder, python, *_INSTALL))
    if done.returncode != 0:
        raise CrossBuildError(f"pip does not install: {(done.stdout + done.stderr).strip()[-1000:]}")
    first, computes = _timed(lambda: _inside(folder, python, "-c", FIRST_RESULT))
    is_refused = root.has_old_driver and "needs Vulkan 1.1" in first.stdout
    if not is_refused:
        _must_be_result(first)
    if operators is not None and not is_refused:
        measured = _inside(folder, python, "-m", "dmlvk", "conformance", *CONFORMANCE, "--operators", operators)
        if measured.returncode != 0:
            raise CrossBuildError(f"a promise is broken: {(measured.stdout + measured.stderr).strip()[-1000:]}")
    row = [f"{refused}{version}", libc, f"{installs}", "–" if is_refused else f"{computes}", first.stdout.strip()]
    return row, root.is_emulated or installs.idle + computes.idle <= MOST_SECONDS


class Seconds(NamedTuple):
    wall: float
    processor: float  # of the programs that it runs

    @property
    def idle(self) -> float:
        """What it would take about, were this machine not busy with other work, too."""
        return min(self.wall, self.processor)

    def __str__(self) -> str:
        """Both, for a table."""
        return f"{self.wall:.1f} s ({self.processor:.1f})"


def _timed(work: Callable[[], _Result]) -> tuple[_Result, Seconds]:
    def spent() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    wall, processor = time.monotonic(), spent()
    result = work()
    return result, Seconds(time.monotonic() - wall, spent() - processor)


def _must_be_result(first: subprocess.CompletedProcess[str]) -> None:
    if first.returncode != 0 or "no device" in first.stdout:
        raise CrossBuildError(f"no first result: {(first.stdout + first.stderr).strip()[-1000:]}")


def _prepared(root: Root, wheels: Sequence[Path]) -> Path:
    """The root's folder, with pip and wheels in it and dmlvk not."""
    folder = unpacked(root)
    for name in ("wheels", "pip", "dmlvk"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "wheels").mkdir()
    for wheel in wheels:
        shutil.copy(wheel, folder / "wheels")
    if root.minor < OLDEST_PYTHON and not (folder / "opt").is_dir():
        shutil.copytree(built_python.built() / "opt", folder / "opt", symlinks=True)
    required = _required(root)
    for wheel in required.glob("*.whl"):
        shutil.copy(wheel, folder / "wheels")
    (pip,) = required.glob("pip-*.whl")
    with zipfile.ZipFile(pip) as archive:
        archive.extractall(folder / "pip")
    return folder


def _required(root: Root) -> Path:
    """A folder with PyPI's wheels of what dmlvk requires, for a system's Python."""
    minor, abi = (root.minor, "") if root.minor >= OLDEST_PYTHON else (14, built_python.ABI)
    digest = hashlib.sha256(repr((root.machine, minor, abi, REQUIRED)).encode()).hexdigest()[:12]
    folder = default_cache() / "required" / f"3.{minor}-{root.machine}-{digest}"
    if not folder.is_dir():
        machine = {"arm64": "aarch64", "amd64": "x86_64"}[root.machine]
        partial = folder.with_name(f"{folder.name}.partial")
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(partial)]
        words += ["--python-version", f"3.{minor}", "--implementation", "cp"]
        words += ["--abi", abi, "--abi", "none"] if abi else []
        for glibc in ("2_17", "2_27", "2_28"):
            words += ["--platform", f"manylinux_{glibc}_{machine}"]
        words += ["--platform", f"manylinux2014_{machine}", *REQUIRED]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CrossBuildError(f"what dmlvk requires is not to be had: {done.stderr.strip()[-500:]}")
        partial.rename(folder)
    return folder


def _inside(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    drivers = sorted((folder / "usr/share/vulkan/icd.d").glob("lvp_icd*.json"))  # not in the oldest
    settings = {
        "PYTHONPATH": "/dmlvk",
        "PATH": "/dmlvk/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **({"VK_ICD_FILENAMES": f"/usr/share/vulkan/icd.d/{drivers[0].name}"} if drivers else {}),
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
    }
    given = command(folder, words, settings)
    return subprocess.run(given, capture_output=True, text=True, errors="replace", check=False, env={**os.environ})


if __name__ == "__main__":
    sys.exit(main())
