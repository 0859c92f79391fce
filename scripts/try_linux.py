#!/usr/bin/env python3
"""Try dmlvk on another Linux, with that one's own Python and llvmpipe: whether it works, and whether bits are equal.

    scripts/try_linux.py aarch64                     64-bit Arm (Debian 12) under qemu: some minutes the first time
    scripts/try_linux.py aarch64_debian13            the same with Debian 13
    scripts/try_linux.py debian13                    a newer Mesa, LLVM, NumPy and Python on this processor
    scripts/try_linux.py aarch64 --every 10          every tenth operator and family only
    scripts/try_linux.py aarch64_debian13 --minutes 30 --keep DIR     a part of all, and the next when called again
    scripts/try_linux.py aarch64_debian13 --jobs 16  by so many processes side by side
    scripts/try_linux.py debian13 --table docs/notes/platforms.md     put what is found into the table

Debian's packages are unpacked into a folder of the user's cache, known by what was asked for, which becomes the root of
a process: that takes root's rights. Arm needs qemu-user-static.

Exit status: 0 it works and all bits are equal, 1 not so, 2 wrong usage, 3 qemu or root's rights are not here.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import build_kompute
from scripts.build_wheels import WheelError, found_pythons
from scripts.cross.both import Command, run_both, settings_of
from scripts.cross.debian_roots import ROOTS, Root, command, unpacked, why_not_here
from scripts.cross.platform_table import add_row, is_well, table_row
from scripts.cross.targets import CrossBuildError

ROOT = Path(__file__).resolve().parent.parent

FIRST_RESULT = """
import numpy as np, dmlvk as dml
tensor = dml.TensorDesc(dml.FLOAT32, (3,))
desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
with dml.Device() as device:
    assert not device.arithmetic_faults, device.arithmetic_faults
    assert device.run(desc, {"InputTensor": np.float32([-1, 2, -3])})["OutputTensor"].tolist() == [1, 2, 3]
    print(f"{device.info.name}, {device.info.driver_version}")
"""


class NoLinuxError(Exception):
    """What is needed is not installed, or not permitted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", choices=ROOTS, help="which one")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth operator and family only")
    parser.add_argument("--small", action="store_true", help="a small conformance case of every family instead")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep results; those of this state are not computed again"
    )
    parser.add_argument("--minutes", metavar="N", type=float, default=math.inf, help="what is not run then is left")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--table", metavar="FILE", type=Path, help="put what is found into this page's table")
    options = parser.parse_args(arguments)
    if options.small and options.table is not None:
        parser.error("--small: the table is filled by whole conformance cases")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least one process is needed")
    root: Root = ROOTS[options.system]
    try:
        if reason := why_not_here(root):
            raise NoLinuxError(reason)
        folder = prepared(root)
        first = inside(root, folder, "-c", FIRST_RESULT)
        if first.returncode != 0:
            raise CrossBuildError(f"it does not work: {first.stderr.strip()[-2000:]}")
        print(f"{options.system}: a first result on {first.stdout.strip()}", flush=True)
        script = "/checkout/scripts/cross/results.py"
        what = f"{options.every}{'-small' if options.small else ''}"
        kept = options.keep and options.keep / f"{options.system}-{state_of()}-{what}.jsonl"
        result = run_both(
            lambda *words: Command(python_command(root, folder, script, *words, **settings_of(options.jobs))),
            options.every,
            is_small=options.small,
            kept=kept,
            seconds=60 * options.minutes,
            jobs=options.jobs,
        )
    except NoLinuxError as error:
        print(f"try_linux.py: not tried: {error}", file=sys.stderr)
        return 3
    except (CrossBuildError, WheelError, OSError, subprocess.SubprocessError) as error:
        print(f"try_linux.py: {error}", file=sys.stderr)
        return 1
    print(f"{options.system}: {result['told']}")
    if options.table is not None:
        how = ", qemu" if root.emulator is not None else ""
        device, _, driver = first.stdout.strip().partition(", ")
        version = driver.partition("-")[0].partition(" (")[0]
        row = {"imported": f"CPython 3.{root.minor}{how}, {device}, {version}".rstrip(", "), **table_row(result)}
        add_row(options.table, root.title, row)
    return 0 if is_well(result) else 1


def state_of() -> str:
    """A digest of what is tried."""
    digest = hashlib.sha256()
    for folder in (ROOT / "dmlvk", ROOT / "shaders", ROOT / "scripts"):
        for path in sorted(each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size} ".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def inside(root: Root, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs that system's Python with arguments."""
    words = python_command(root, folder, *arguments)
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)


def python_command(root: Root, folder: Path, *words: str, **environment: str) -> list[str]:
    """The command that runs that system's Python with arguments, and further environment variables."""
    driver = next((folder / "usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    libraries = f"/usr/lib/{root.triplet}"
    settings = {
        "PYTHONPATH": "/checkout",
        # Those of BLAS a package's scripts would have set up.
        "LD_LIBRARY_PATH": f"{libraries}/blas:{libraries}/lapack",
        "VK_ICD_FILENAMES": f"/usr/share/vulkan/icd.d/{driver.name}",
        "VK_DRIVER_FILES": f"/usr/share/vulkan/icd.d/{driver.name}",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        **environment,
    }
    return command(root, folder, [f"/usr/bin/python3.{root.minor}", *words], settings)


def prepared(root: Root) -> Path:
    """The root folder, with everything; the checkout is put there anew.

    Args:
        root: the system.

    Raises:
        CrossBuildError: something cannot be built or had.
    """
    folder = unpacked(root)
    _compile_bytecode(root, folder, f"usr/lib/python3.{root.minor}", "usr/lib/python3")
    checkout = folder / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    for name in ("dmlvk", "shaders", "scripts"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "*.pack"))
    library = build_kompute.build(root.target)
    assert library is not None
    (checkout / "dmlvk" / "runtime" / "native").mkdir(exist_ok=True)
    shutil.copy(library, checkout / "dmlvk" / "runtime" / "native" / library.name)
    _compile_bytecode(root, folder, "checkout")
    return folder


def _compile_bytecode(root: Root, folder: Path, *directories: str) -> None:
    """Does what that system's Python would do at its first import, which takes minutes under an emulator."""
    for directory in directories:
        words = ["-m", "compileall", "-q", "-s", str(folder), "-p", "/", str(folder / directory)]
        # What fails is compiled there.
        subprocess.run([_same_python(root), *words], stdout=subprocess.DEVNULL, check=False)


def _same_python(root: Root) -> str:
    """A Python of this machine that has the same version."""
    python = found_pythons().get((3, root.minor))
    if python is None:
        raise NoLinuxError(f"there is no CPython 3.{root.minor} here, which compiles bytecode for that one")
    return python


if __name__ == "__main__":
    sys.exit(main())
