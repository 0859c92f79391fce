#!/usr/bin/env python3
"""Make the wheels of dmlvk: one for each system, with all that pip need not compile, and for every Python from 3.10 on.

    scripts/build_wheels.py                            all of them, into dist/
    scripts/build_wheels.py --platform win_amd64       one: manylinux_x86_64, manylinux_aarch64, win_amd64, win_arm64,
                                                       macosx_arm64, macosx_x86_64 (repeatable)
    pip install --find-links dist dmlvk                on another machine, with these wheels in dist/

A wheel has the package with all shaders, Kompute with dmlvk's changes as a library in C (``build_kompute.py``),
``dmlvk-glslang``, the compiler of the kernels of graphs, and the library that ONNX Runtime loads. Zig compiles them for
every system (``scripts/cross/targets.py``). Each part of others has its licence in the wheel; THIRD-PARTY.txt names
them for people, and a list of components for programs (PEP 770). Vulkan's loader and drivers are the system's.

At the end ``check_wheels.py`` looks at each wheel, and dmlvk is installed from the folder into a fresh environment of
each CPython that is here and gives a first result (``--no-check`` leaves both out); ``try_wheels.py`` does so on other
systems. Needs Linux, glslangValidator, Vulkan's headers (Debian: ``glslang-tools libvulkan-dev``), PyPI, and Debian's
server for glslang's source. Zig and what else builds are installed into ``build/wheel-tools``.

Exit status: 0 done, 1 a step failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import build_kompute, check_wheels
from scripts.cross import glslang, moltenvk, parts, provider
from scripts.cross.targets import CPYTHONS, TARGETS, CrossBuildError, Platform, lean_libraries, tools_python
from scripts.cross.wheel import with_tag

ROOT = Path(__file__).resolve().parent.parent

NAMES = tuple(f"python3.{minor}" for minor in CPYTHONS)

COMPILER = "dmlvk-glslang"

_IDENTITY = """
import json, platform, sys, sysconfig
print(json.dumps([platform.python_implementation(), *sys.version_info[:2]]))
"""

FIRST_RESULT = """
import numpy as np
import dmlvk as dml

tensor = dml.TensorDesc(dml.FLOAT32, (2, 3))
desc = dml.operator_desc("ELEMENT_WISE_SIGN", InputTensor=tensor, OutputTensor=tensor)
x = np.array([[-2.5, -1.0, 0.0], [np.nan, 0.5, np.inf]], np.float32)
known = dml.list_devices()
devices = [info for info in known if info.usable]
for info in devices:
    with dml.Device(info.index) as device:
        y = device.run(desc, {"InputTensor": x})["OutputTensor"]
        graph = dml.Graph(device)
        a = graph.input("a", dml.FLOAT32, (3,))
        model = graph.compile(y=abs(a) * 2 + 1)
        z = device.run(model, {"a": x[0]})["y"]
    assert y.tolist() == [[-1, -1, 0], [0, 1, 1]], (info.name, y)
    assert z.tolist() == [6, 3, 1], (info.name, z)
    assert len(model.steps) == 1, f"{info.name}: no compiler has made one kernel of the graph"
said = f"a first result on {', '.join(info.name for info in devices)}"
bad = ", ".join(f"{info.name}: {info.unusable_reason}" for info in known) or "there is none"
print(f"dmlvk {dml.__version__}: {said if devices else f'no device: {bad}'}")
"""


class WheelError(Exception):
    """A step failed; the message says which."""


def run(command: Sequence[str | Path], *, folder: Path = ROOT, more: Mapping[str, str] | None = None) -> str:
    """Run a command and return its standard output; what it says otherwise goes to the error stream.

    Raises:
        WheelError: the command failed.
    """
    words = [str(word) for word in command]
    print("+", " ".join(words if len(words[-1]) < 200 else [*words[:-1], "…"]), file=sys.stderr, flush=True)
    # Other environments' settings must not leak into the ones that are made here.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        words, cwd=folder, env={**environment, **(more or {})}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise WheelError(f"exit status {done.returncode}: {' '.join(words[:4])} …")
    return done.stdout


def identity(python: str) -> tuple[int, int] | None:
    """The version of a CPython that dmlvk serves; ``None`` for any other program."""
    try:
        done = subprocess.run([python, "-I", "-c", _IDENTITY], capture_output=True, text=True, check=True, timeout=60)
        implementation, major, minor = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None  # pyenv has names for versions that are not there
    return (major, minor) if implementation == "CPython" and major == 3 and minor >= CPYTHONS[0] else None


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


def made_environment(folder: Path, python: str, *packages: str) -> Path:
    """A fresh virtual environment with packages; its folder of programs is returned."""
    run([python, "-m", "venv", folder])
    if packages:
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages])
    return folder / "bin"


def build_base(folder: Path) -> Path:
    """The wheel of what is the same for all systems; it is no wheel that anybody installs."""
    # A process that compiles many shaders takes a fifth of the time of one for each: where it can be built at all.
    with tempfile.TemporaryDirectory() as programs:
        compiler: list[str | Path] = [
            sys.executable,
            ROOT / "scripts" / "build_compiler.py",
            "--output",
            Path(programs, COMPILER),
        ]
        path = os.environ.get("PATH", os.defpath)
        if subprocess.run([str(word) for word in compiler], stdout=subprocess.DEVNULL, check=False).returncode == 0:
            path = os.pathsep.join([programs, path])
        run(
            [tools_python(), "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
            more={"DMLVK_WHEEL": "base", "PATH": path},
        )
    (made,) = folder.glob("dmlvk-*-any.whl")
    return made


def natives(target: Platform, folder: Path) -> tuple[Path, Path, Path]:
    """What is compiled for a system: Kompute, the compiler of kernels, the library that ONNX Runtime loads."""
    kompute = build_kompute.build(target)
    assert kompute is not None
    return kompute, glslang.build(target), provider.build(target, folder / target.name)


def assembled(base: Path, target: Platform, compiled: tuple[Path, Path, Path], output: Path) -> Path:
    kompute, compiler, onnxruntime = compiled
    version = base.name.split("-")[1]
    info = f"dmlvk-{version}.dist-info"
    added = {f"{info}/{name}": text for name, text in parts.files(parts.parts(target, *compiled[:2]), version).items()}
    added |= {
        f"{parts.NATIVE}/{kompute.name}": kompute.read_bytes(),
        f"dmlvk/onnxruntime/{onnxruntime.name}": onnxruntime.read_bytes(),
        f"dmlvk-{version}.data/scripts/{compiler.name}": compiler.read_bytes(),
    }
    if target.system == "darwin":
        added[f"{parts.NATIVE}/{moltenvk.LIBRARY}"] = moltenvk.build(target).read_bytes()
        added[f"{parts.NATIVE}/{moltenvk.MANIFEST}"] = moltenvk.manifest()
    tag = f"py3-none-{target.tag}"
    for old in output.glob(f"dmlvk-*-{tag}.whl"):
        old.unlink()
    return with_tag(base, output, tag, added)


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
    return run([programs / "python", "-c", FIRST_RESULT], folder=folder).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    parser.add_argument("--platform", action="append", choices=TARGETS, help="this one only; repeatable")
    parser.add_argument("--no-check", action="store_true", help="check and install nothing at the end")
    options = parser.parse_args(arguments)
    output, start, cores = options.output.resolve(), time.monotonic(), os.cpu_count() or 1
    targets = [TARGETS[name] for name in options.platform or TARGETS]
    try:
        if sys.platform != "linux":
            raise WheelError("wheels are built on Linux only")
        lean_libraries()
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dmlvk-wheels-") as name, ThreadPoolExecutor(cores) as workers:
            # Systems side by side, of each one file after the other: compilers have a core each to the end.
            built = {target: workers.submit(natives, target, Path(name)) for target in targets}
            base = build_base(Path(name))
            made = [assembled(base, target, future.result(), output) for target, future in built.items()]
            print(f"built in {time.monotonic() - start:.0f} s", file=sys.stderr)
            if not options.no_check:
                if check_wheels.main([str(wheel) for wheel in made]) != 0:
                    raise WheelError("a wheel is not as it must be")
                is_own = any(target.name == f"manylinux_{platform.machine()}" for target in targets)
                for version, python in found_pythons().items() if is_own else ():
                    folder = Path(name) / f"{version[0]}.{version[1]}"
                    folder.mkdir()
                    print(f"Python {folder.name}: {check(python, output, folder)}")
    except (WheelError, CrossBuildError, OSError) as error:
        print(f"build_wheels.py: {error}", file=sys.stderr)
        return 1
    for wheel in made:
        print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
