"""The compiler of the kernels of graphs for other systems: glslang from Debian's source, without the validator."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.targets import CrossBuildError, Platform
from scripts.cross.tools import run

VERSION = "12.0.0"
"""Debian 12's, whose modules are those that are tested."""

_URL = f"http://deb.debian.org/debian/pool/main/g/glslang/glslang_{VERSION}.orig.tar.gz"
_SHA256 = "7cb45842ec1d4b6ea775d624c3d2d8ba9450aa416b0482b0cc7e4fdd399c3d75"

_SOURCES = (
    "glslang/MachineIndependent/*.cpp", "glslang/MachineIndependent/preprocessor/*.cpp", "glslang/GenericCodeGen/*.cpp",
    "SPIRV/*.cpp", "StandAlone/ResourceLimits.cpp", "OGLCompilersDLL/InitializeDll.cpp",
)  # fmt: skip
_LEFT_OUT = ("SPVRemapper.cpp", "SpvTools.cpp")  # SPIRV-Tools' optimizer, which nothing here asks for
_PROGRAM = Path(__file__).parents[1] / "native" / "shader_compiler.cpp"


def build(target: Platform, output: Path, *, jobs: int = 1) -> tuple[Path, Path]:
    """Builds ``dmlvk-glslang`` for a system, or takes it from the user's cache.

    Args:
        target: the system.
        output: a folder for the program and its licence.
        jobs: compilers at a time.

    Returns:
        the program, and its licence.

    Raises:
        CrossBuildError: something is missing, or does not compile.
    """
    program = _path_of(target)
    if not program.is_file():
        target.check_compiler()
        with tempfile.TemporaryDirectory(prefix="dmlvk-glslang-") as folder:
            _build(target, Path(folder), program.parent, program.name, jobs)
    output.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(program, output)), Path(shutil.copy(program.with_name("glslang-LICENSE.txt"), output))


def kept(target: Platform) -> Path | None:
    """The program where it was built before; ``None`` where not."""
    program = _path_of(target)
    return program if program.is_file() else None


def _path_of(target: Platform) -> Path:
    name = "dmlvk-glslang.exe" if target.system == "win32" else "dmlvk-glslang"
    recipe = hashlib.sha256(repr(target).encode() + _PROGRAM.read_bytes() + Path(__file__).read_bytes()).hexdigest()[
        :12
    ]
    return default_cache() / "compilers" / f"{target.name}-{VERSION}-{recipe}" / name


def _build(target: Platform, folder: Path, kept: Path, name: str, jobs: int) -> None:
    source = _source(folder)
    generated = folder / "include"
    (generated / "glslang").mkdir(parents=True)
    information = [sys.executable, str(source / "build_info.py"), str(source), "-i", str(source / "build_info.h.tmpl")]
    run([*information, "-o", str(generated / "glslang" / "build_info.h")])
    # Zig resolves ".." by words alone: what headers behind a link name relatively to themselves is linked beside it.
    for part in filter(Path.is_dir, (source / "glslang").iterdir()):
        (generated / "glslang" / part.name).symlink_to(part)
    (generated / "glslang" / "glslang").symlink_to(source / "glslang")
    # As Debian installs them: glslang/SPIRV beside glslang/Public, and its private headers among one another.
    (generated / "glslang" / "SPIRV").symlink_to(source / "SPIRV")
    system = "Windows" if target.system == "win32" else "Unix"
    macro = f"-DGLSLANG_OSINCLUDE_{'WIN32' if target.system == 'win32' else 'UNIX'}"
    files = [path for pattern in _SOURCES for path in sorted(source.glob(pattern)) if path.name not in _LEFT_OUT]
    files += [source / "glslang" / "OSDependent" / system / "ossource.cpp", _PROGRAM]
    options = ["-std=c++17", "-O2", "-w", "-DNDEBUG", "-DENABLE_OPT=0", "-DWITHOUT_VALIDATOR", macro, *target.flags]
    options += [f"-I{generated}", f"-I{source}"]

    def compiled(index: int) -> Path:
        made = folder / f"{index}.o"
        run([*target.compiler, *options, "-c", "-o", str(made), str(files[index])])
        return made

    with ThreadPoolExecutor(jobs) as compilers:
        objects = list(compilers.map(compiled, range(len(files))))
    program = folder / name
    run([*target.compiler, *target.program_link, "-o", str(program), *map(str, objects)])
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "LICENSE.txt", kept / "glslang-LICENSE.txt")
    partial = Path(shutil.copy(program, kept / f"{name}.partial"))
    partial.replace(kept / name)


def _source(folder: Path) -> Path:
    archive = default_cache() / "sources" / f"glslang-{_SHA256[:12]}.tar.gz"
    if not archive.is_file():
        archive.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(_URL, timeout=120) as answer:
                content = answer.read()
        except OSError as error:
            raise CrossBuildError(f"{_URL} is not to be had: {error}") from error
        if hashlib.sha256(content).hexdigest() != _SHA256:
            raise CrossBuildError(f"{_URL} is not what it was")
        archive.write_bytes(content)
    run(["tar", "-xzf", str(archive), "-C", str(folder)])
    return folder / f"glslang-{VERSION}"
