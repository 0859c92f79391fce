#!/usr/bin/env python3
"""Build ``dmlvk-glslang``, which compiles many shaders in one process, with the machine's C++ compiler.

    python scripts/build_compiler.py            build it into this Python's environment, unless it is there already
    python scripts/build_compiler.py --output FILE
    python scripts/build_compiler.py --portable --output FILE      for machines with another C++ library, too

It takes two seconds, a C++ compiler, and the headers and libraries of glslang and SPIRV-Tools (Debian: g++,
glslang-dev, spirv-tools). Nothing needs it: without it glslangValidator and spirv-val do the same, more slowly.

Exit status: 0 it is there, 1 it cannot be built, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.kernels.library.glslang import own_program

SOURCE = Path(__file__).parent / "native" / "shader_compiler.cpp"

LIBRARIES = (
    "glslang", "SPIRV", "MachineIndependent", "GenericCodeGen", "OGLCompiler", "OSDependent", "HLSL", "SPVRemapper",
    "glslang-default-resource-limits", "SPIRV-Tools-opt", "SPIRV-Tools",
)  # fmt: skip
"""glslang 11 to 16 come in different parts: those that are there are linked, and need each other in circles."""


class BuildError(Exception):
    """It cannot be built; the message is the C++ compiler's, or says what is missing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script.

    Args:
        argv: command line without the program's name; the process's own when None.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Build the compiler of many shaders.")
    parser.add_argument("--output", metavar="FILE", type=Path, default=own_program(), help="program (%(default)s)")
    parser.add_argument("--portable", action="store_true", help="with the C++ library inside, for other machines")
    options = parser.parse_args(argv)
    program: Path = options.output
    try:
        version = build(program, is_portable=options.portable)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{program}: glslang {version}")
    return 0


def build(program: Path, *, is_portable: bool = False) -> str:
    """Build the program where its source, the C++ compiler or a library has changed since, or where it does not run.

    Args:
        program: where it shall be; put there in one step.
        is_portable: whether the C++ library goes into it, of which other machines may have an older one.

    Returns:
        glslang's version.

    Raises:
        BuildError: there is no C++ compiler, it refuses the source, or what it makes does not run.
    """
    cxx = shutil.which(os.environ.get("CXX") or "c++")
    if cxx is None:
        raise BuildError("there is no C++ compiler: install g++")
    libraries = {name: file for name in LIBRARIES if (file := _library_file(cxx, name)) is not None}
    stamp_file = program.with_name(f".{program.name}.stamp")
    stamp = _stamp(cxx, libraries.values())
    if stamp_file.is_file() and stamp_file.read_text() == stamp:
        try:
            return _version(program)
        except BuildError:
            pass  # damaged: it is built anew
    program.parent.mkdir(parents=True, exist_ok=True)
    temporary = program.with_name(f".{program.name}.{os.getpid()}.tmp")
    command = [cxx, "-std=c++17", "-O2", "-s", "-pthread", "-o", str(temporary), str(SOURCE)]
    command += ["-static-libstdc++", "-static-libgcc"] if is_portable else []
    command += ["-Wl,--start-group", *(f"-l{name}" for name in libraries), "-Wl,--end-group"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode != 0:
            raise BuildError(f"{result.stderr.strip()}\n{cxx} cannot build it: install glslang-dev and spirv-tools")
        version = _version(temporary)
        os.replace(temporary, program)
    finally:
        temporary.unlink(missing_ok=True)
    stamp_file.write_text(stamp)
    return version


def _library_file(cxx: str, name: str) -> Path | None:
    """Where the linker finds a library; ``None`` where it does not."""
    for suffix in (".a", ".so"):
        command = [cxx, f"-print-file-name=lib{name}{suffix}"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if os.path.isabs(found):
            return Path(found)
    return None


def _stamp(cxx: str, libraries: Iterable[Path]) -> str:
    """A text that changes with what the program is made of."""
    hasher = hashlib.sha256(SOURCE.read_bytes())
    for file in (Path(cxx).resolve(), *libraries):
        status = file.stat()
        hasher.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return hasher.hexdigest()


def _version(program: Path) -> str:
    try:
        command = [str(program.resolve()), "--version"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return result.stdout.splitlines()[0].removeprefix("Glslang Version: ")
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise BuildError(f"{program} does not run: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
