#!/usr/bin/env python3
"""Try dmlvk on 64-bit Arm Linux, under qemu, with Arm's own llvmpipe: whether it works, and whether bits are equal.

    scripts/try_aarch64.py                     the checkout, and Kompute built for it: some minutes the first time
    scripts/try_aarch64.py --every 10          compare the bits of every tenth operator only; all take an hour of a core
    scripts/try_aarch64.py --table docs/measurements/platforms.json     put what is found into the table of platforms

Debian's packages for arm64 (Python 3.11, NumPy, Mesa) are unpacked into a folder of the user's cache, which becomes the
root of an emulated process: that takes root's rights. Needs qemu-user-static and g++-aarch64-linux-gnu.

Exit status: 0 it works and all bits are equal, 1 not so, 2 wrong usage, 3 qemu or root's rights are not here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.build_kompute import default_cache
from scripts.build_wheels import _HEADERS, WheelError, found_pythons
from scripts.cross import kompute
from scripts.cross.platform_table import add_row, bits_row, compared
from scripts.cross.targets import TARGETS, CrossBuildError

ROOT = Path(__file__).resolve().parent.parent

MINOR = 11
"""Debian 12's Python."""

PACKAGES = ("python3-numpy", "python3-click", "python3-rich", "python3-pil", "mesa-vulkan-drivers", "libvulkan1")

QEMU = Path("/usr/bin/qemu-aarch64-static")

_SOURCES = "deb [arch=arm64 signed-by={key}] http://deb.debian.org/debian bookworm main\n"
_KEY = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LIBRARIES = "/usr/lib/aarch64-linux-gnu"
_DRIVER = "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json"

FIRST_RESULT = """
import numpy as np, dmlvk as dml
tensor = dml.TensorDesc(dml.FLOAT32, (3,))
desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
with dml.Device() as device:
    assert not device.arithmetic_faults, device.arithmetic_faults
    assert device.run(desc, {"InputTensor": np.float32([-1, 2, -3])})["OutputTensor"].tolist() == [1, 2, 3]
    print(device.info.name)
"""


class NotHereError(Exception):
    """What is needed is not installed, or not permitted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="compare bits of each Nth operator only")
    parser.add_argument("--table", metavar="FILE", type=Path, help="put what is found into this table")
    options = parser.parse_args(arguments)
    try:
        if not QEMU.is_file():
            raise NotHereError(f"{QEMU} is not here (apt install qemu-user-static)")
        if os.geteuid() != 0:
            raise NotHereError("only root may have another root folder")
        folder = prepared()
        first = emulated(folder, "-c", FIRST_RESULT)
        if first.returncode != 0:
            raise CrossBuildError(f"it does not work: {first.stderr.strip()[-2000:]}")
        print(f"aarch64: a first result on {first.stdout.strip()}", flush=True)
        words = ["--every", str(options.every)]
        there = emulated(folder, "/checkout/scripts/cross/bits.py", *words)
        script = str(ROOT / "scripts" / "cross" / "bits.py")
        here = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    except NotHereError as error:
        print(f"try_aarch64.py: not tried: {error}", file=sys.stderr)
        return 3
    except (CrossBuildError, WheelError, OSError, subprocess.SubprocessError) as error:
        print(f"try_aarch64.py: {error}", file=sys.stderr)
        return 1
    result = compared(here, there)
    print(f"aarch64: {result['told']}")
    if options.table is not None:
        told = {"imported": f"CPython 3.{MINOR} under qemu, {first.stdout.strip()}", **bits_row(result)}
        add_row(options.table, TARGETS["manylinux_aarch64"].system_name, told)
    return 1 if result["different"] or result["count"] == 0 else 0


def emulated(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs Arm's Python with arguments."""
    settings = {
        "PYTHONPATH": "/checkout",
        "LD_LIBRARY_PATH": f"{_LIBRARIES}/blas:{_LIBRARIES}/lapack",  # which a package's scripts would have set up
        "VK_ICD_FILENAMES": _DRIVER,
        "VK_DRIVER_FILES": _DRIVER,
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
    }
    given = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
    command = ["chroot", str(folder), f"/{QEMU.name}", *given, f"/usr/bin/python3.{MINOR}", *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def prepared() -> Path:
    """The root folder, with everything; Debian's packages are unpacked once, the checkout is copied anew.

    Raises:
        CrossBuildError: something cannot be built or had.
    """
    folder = default_cache() / "aarch64" / "root"
    if not folder.is_dir():
        _unpack(folder)
    shutil.copy(QEMU, folder)
    checkout = folder / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    for name in ("dmlvk", "shaders", "scripts"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "*.pack"))
    python = found_pythons().get((3, MINOR))
    if python is None:
        raise NotHereError(f"there is no CPython 3.{MINOR} here, whose headers Kompute is built against")
    headers = subprocess.run([python, "-c", _HEADERS], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as made:
        target = TARGETS["manylinux_aarch64"]
        for wheel in kompute.build(target, {MINOR: Path(headers)}, Path(made), jobs=os.cpu_count() or 1):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(checkout)
    return folder


def _unpack(folder: Path) -> None:
    apt = folder.with_name("apt")
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(_SOURCES.format(key=_KEY), encoding="ascii")
    (apt / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Debug::NoLocking": "1",
    }
    command = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    wanted = ["install", "-y", "--download-only", "--no-install-recommends", *PACKAGES]
    for words in (["update"], wanted):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CrossBuildError(f"Debian's packages for arm64 are not to be had: {done.stderr.strip()[-500:]}")
    partial = folder.with_name("root.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("tmp", "dev", "proc"):
        (partial / name).mkdir(parents=True)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(partial)], check=True)
    for name, minor in (("null", 3), ("urandom", 9)):
        os.mknod(partial / "dev" / name, 0o666 | 0o020000, os.makedev(1, minor))
    partial.rename(folder)


if __name__ == "__main__":
    sys.exit(main())
