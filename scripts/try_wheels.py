#!/usr/bin/env python3
"""Install dmlvk's wheels by pip where nothing else is, and compute: on other Linuxes, from a folder for an index.

    scripts/try_wheels.py dist                          on each; prints a table
    scripts/try_wheels.py dist --system debian13        on one of them (repeatable)
    scripts/try_wheels.py dist --operators '*'          and dmlvk conformance there, with few values of each case

A system is unpacked from its own packages into a folder of the user's cache, with Python, the Vulkan loader and Mesa's
drivers, and becomes the root of a process: that takes root's rights. It has no compiler and no network. pip gets a
folder with these wheels, and with PyPI's of what dmlvk requires. A system whose Python dmlvk does not serve is asked
for what pip says, and whether it loads the libraries all the same: that tells whether its C library is new enough.

Exit status: 0 a first result within 60 s wherever Python is served, 1 not so, 2 wrong usage, 3 nothing can be tried.
"""

from __future__ import annotations

import argparse
import ensurepip
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.build_kompute import default_cache
from scripts.build_wheels import COMPILER, FIRST_RESULT
from scripts.cross.debian_roots import DEBIAN, UBUNTU, Distribution, Root, command, unpacked, why_not_here
from scripts.cross.parts import NATIVE
from scripts.cross.targets import HERE, CrossBuildError
from scripts.cross.tools import run

OLDEST_PYTHON = 10

CONFORMANCE = ("--patterns", "1024", "--attribute-sets", "1")
"""Few values of each case."""

MOST_SECONDS = 60.0

REQUIRED = ("numpy>=1.23", "click>=8.1", "rich>=13", "pillow>=9.1")

_PACKAGES = ("python3", "python3-distutils", "mesa-vulkan-drivers", "libvulkan1")

_COMPILERS = """
import shutil
names = "cc", "c++", "gcc", "g++", "clang", "cmake", "make", "glslangValidator"
print(*(name for name in names if shutil.which(name)))
"""

_LOAD = "its libraries load"

_LOADS = """
import ctypes, subprocess, sys
ctypes.CDLL(sys.argv[1])
subprocess.run([sys.argv[2], "--version"], check=True)
"""


def _root(title: str, distribution: Distribution, suite: str, minor: int, *, machine: str = "amd64") -> Root:
    triplet = "aarch64-linux-gnu" if machine == "arm64" else "x86_64-linux-gnu"
    emulator = Path("/usr/bin/qemu-aarch64-static") if machine == "arm64" else None
    packages = tuple(name for name in _PACKAGES if minor < 12 or name != "python3-distutils")
    merged = suite in ("trixie", "forky", "sid", "noble", "resolute")
    return Root(title, machine, triplet, suite, minor, emulator, merged, distribution, packages)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", metavar="DIR", type=Path, help="the folder of wheels")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="this one only; repeatable")
    parser.add_argument("--operators", metavar="GLOB", help="of which promises and bits are tried there, too")
    options = parser.parse_args(arguments)
    wheels = sorted(options.wheels.glob("dmlvk-*.whl"))
    if not wheels:
        parser.error(f"{options.wheels} has no wheels of dmlvk")
    lines, statuses = [], []
    for name in options.system or SYSTEMS:
        root = SYSTEMS[name]
        try:
            if reason := why_not_here(root):
                print(f"{name}: not tried: {reason}", file=sys.stderr, flush=True)
                continue
            row, is_well = tried(root, wheels, options.operators)
        except (CrossBuildError, OSError, subprocess.SubprocessError, ValueError) as error:
            row, is_well = ["–", "–", "–", "–", f"{error}".strip().splitlines()[-1]], False
        lines.append(f"| {' | '.join([root.title, *row])} |")
        statuses.append(is_well)
        print(lines[-1], file=sys.stderr, flush=True)
    print("| system | Python | glibc | pip installs | first result | what it is |\n|---|---|---|---:|---:|---|")
    print("\n".join(lines))
    return 3 if not statuses else 0 if all(statuses) else 1


def tried(root: Root, wheels: Sequence[Path], operators: str | None) -> tuple[list[str], bool]:
    """A row of the table without the system's name, and whether all is well.

    Args:
        root: the system.
        wheels: dmlvk's.
        operators: whose promises and bits are tried; ``None`` for none.

    Raises:
        CrossBuildError: the system or PyPI's packages are not to be had, or a step fails there.
    """
    folder = _prepared(root, wheels)
    # Mesa asks Linux there how much memory is free.
    run(["mount", "--bind", "/proc", str(folder / "proc")])
    try:
        return _tried(root, folder, wheels, operators)
    finally:
        run(["umount", str(folder / "proc")])


def _tried(root: Root, folder: Path, wheels: Sequence[Path], operators: str | None) -> tuple[list[str], bool]:
    version, _, libc = (
        _inside(root, folder, "-c", "import platform as p; print(p.python_version(), p.libc_ver()[1] or '–')")
        .stdout.strip()
        .partition(" ")
    )
    if found := _inside(root, folder, "-c", _COMPILERS).stdout.split():
        raise CrossBuildError(f"it has compilers: {', '.join(found)}")
    install = ("/pip/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels", "--target", "/dmlvk", "dmlvk")
    begun = time.monotonic()
    done = _inside(root, folder, *install, *(["--no-deps"] if root.minor < OLDEST_PYTHON else []))
    installed = time.monotonic() - begun
    if root.minor < OLDEST_PYTHON:
        said = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr.strip()[-200:])
        loads = _loads(root, folder, wheels)
        row = [version, libc, "refused", "–", f"{said.removeprefix('ERROR: ')}; {loads}"]
        return row, "requires a different Python" in said and loads == _LOAD
    if done.returncode != 0:
        raise CrossBuildError(f"pip does not install: {(done.stdout + done.stderr).strip()[-1000:]}")
    begun = time.monotonic()
    first = _inside(root, folder, "-c", FIRST_RESULT)
    took = time.monotonic() - begun
    if first.returncode != 0 or "no device" in first.stdout:
        raise CrossBuildError(f"no first result: {(first.stdout + first.stderr).strip()[-1000:]}")
    if operators is not None:
        measured = _inside(root, folder, "-m", "dmlvk", "conformance", *CONFORMANCE, "--operators", operators)
        if measured.returncode != 0:
            raise CrossBuildError(f"a promise is broken: {(measured.stdout + measured.stderr).strip()[-1000:]}")
    row = [version, libc, f"{installed:.1f} s", f"{took:.1f} s", first.stdout.strip()]
    return row, root.emulator is not None or installed + took <= MOST_SECONDS


def _prepared(root: Root, wheels: Sequence[Path]) -> Path:
    """The root's folder, with pip and wheels in it and dmlvk not."""
    folder = unpacked(root)
    for name in ("wheels", "pip", "dmlvk"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "wheels").mkdir()
    for wheel in wheels:
        shutil.copy(wheel, folder / "wheels")
    for wheel in _required(root).glob("*.whl") if root.minor >= OLDEST_PYTHON else ():
        shutil.copy(wheel, folder / "wheels")
    (pip,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    with zipfile.ZipFile(pip) as archive:
        archive.extractall(folder / "pip")
    return folder


def _required(root: Root) -> Path:
    """A folder with PyPI's wheels of what dmlvk requires, for a system's Python."""
    digest = hashlib.sha256(repr((root.machine, root.minor, REQUIRED)).encode()).hexdigest()[:12]
    folder = default_cache() / "required" / f"3.{root.minor}-{root.machine}-{digest}"
    if not folder.is_dir():
        machine = {"arm64": "aarch64", "amd64": "x86_64"}[root.machine]
        partial = folder.with_name(f"{folder.name}.partial")
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(partial)]
        words += ["--python-version", f"3.{root.minor}", "--implementation", "cp"]
        for glibc in ("2_17", "2_27", "2_28"):
            words += ["--platform", f"manylinux_{glibc}_{machine}"]
        words += ["--platform", f"manylinux2014_{machine}", *REQUIRED]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CrossBuildError(f"what dmlvk requires is not to be had: {done.stderr.strip()[-500:]}")
        partial.rename(folder)
    return folder


def _loads(root: Root, folder: Path, wheels: Sequence[Path]) -> str:
    """Whether the system loads Kompute and runs the compiler, which a newer Python there would do."""
    machine = {"arm64": "aarch64", "amd64": "x86_64"}[root.machine]
    wheel = next(wheel for wheel in wheels if "manylinux" in wheel.name and wheel.name.endswith(f"{machine}.whl"))
    (folder / "dmlvk").mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(NATIVE) or name.endswith(f"/{COMPILER}"):
                target = folder / "dmlvk" / Path(name).name
                target.write_bytes(archive.read(name))
                target.chmod(0o755)
    library = f"/dmlvk/{HERE.library('dmlvk_kompute')}"
    done = _inside(root, folder, "-c", _LOADS, library, f"/dmlvk/{COMPILER}")
    return _LOAD if done.returncode == 0 else f"its libraries fail: {done.stderr.strip()[-200:]}"


def _inside(root: Root, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs that system's Python with arguments."""
    drivers = sorted((folder / "usr/share/vulkan/icd.d").glob("lvp_icd*.json"))  # not in the oldest
    settings = {
        "PYTHONPATH": "/dmlvk",
        "PATH": "/dmlvk/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **({"VK_ICD_FILENAMES": f"/usr/share/vulkan/icd.d/{drivers[0].name}"} if drivers else {}),
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
    }
    words = command(root, folder, [f"/usr/bin/python3.{root.minor}", *arguments], settings)
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, env={**os.environ})


if __name__ == "__main__":
    sys.exit(main())
