"""The compiler of the kernels of graphs for other systems: glslang from Debian's source, without the validator."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.targets import Platform
from scripts.cross.tools import fetched, run

VERSION = "12.0.0"  # Debian 12's, whose modules are those that are tested

_URL = f"http://deb.debian.org/debian/pool/main/g/glslang/glslang_{VERSION}.orig.tar.gz"
_SHA256 = "7cb45842ec1d4b6ea775d624c3d2d8ba9450aa416b0482b0cc7e4fdd399c3d75"

_SOURCES = (
    "glslang/MachineIndependent/*.cpp", "glslang/MachineIndependent/preprocessor/*.cpp", "glslang/GenericCodeGen/*.cpp",
    "SPIRV/*.cpp", "StandAlone/ResourceLimits.cpp", "OGLCompilersDLL/InitializeDll.cpp",
)  # fmt: skip
_LEFT_OUT = ("SPVRemapper.cpp", "SpvTools.cpp")  # SPIRV-Tools' optimizer, which nothing here asks for
_ALONE = ("glslang_tab.cpp", "ossource.cpp")
_PROGRAM = Path(__file__).parents[1] / "native" / "shader_compiler.cpp"

_LEAN = ("-O2", "-s")
"""For each step: else Zig writes what debuggers need, which takes a third of the time, and links what finds faults."""

_QUICK = ("-Xclang", "-O1")
"""Half the time again, and shaders are compiled as fast; Zig's own word -O1 is -O2."""

LICENSE = "LICENSE.txt"


def build(target: Platform) -> Path:
    """Builds ``dmlvk-glslang`` for a system, or takes it from the user's cache.

    Returns:
        the program, with its licence beside it.

    Raises:
        CrossBuildError: something is missing, or does not compile.
    """
    program = path_of(target)
    if not program.is_file():
        with tempfile.TemporaryDirectory(prefix="dmlvk-glslang-") as folder:
            _build(target, Path(folder), program.parent, program.name)
    return program


def path_of(target: Platform) -> Path:
    """Where the program is once it was built."""
    name = target.program("dmlvk-glslang")
    recipe = hashlib.sha256(repr(target).encode() + _PROGRAM.read_bytes() + Path(__file__).read_bytes()).hexdigest()[
        :12
    ]
    return default_cache() / "compilers" / f"{target.name}-{VERSION}-{recipe}" / name


def _build(target: Platform, folder: Path, kept: Path, name: str) -> None:
    source, compiler = _source(folder), target.compiler_words()
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
    files.append(source / "glslang" / "OSDependent" / system / "ossource.cpp")
    # As one file, since most of the work is to read headers; what the parser and Windows' headers define others must
    # not see.
    together = folder / "glslang.cpp"
    together.write_text("".join(f'#include "{path}"\n' for path in files if path.name not in _ALONE), encoding="utf-8")
    files = [together, *(path for path in files if path.name in _ALONE), _PROGRAM]
    options = ["-std=c++17", "-w", "-DNDEBUG", "-DENABLE_OPT=0", "-DWITHOUT_VALIDATOR", macro, *target.flags]
    options += [f"-I{generated}", f"-I{source}"]

    objects = [str(folder / f"{path.stem}.o") for path in files]
    for made, path in zip(objects, files, strict=True):
        run([*compiler, *_LEAN, *_QUICK, *options, "-c", "-o", made, str(path)])
    program = folder / name
    run([*compiler, *_LEAN, "-o", str(program), *objects])
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / LICENSE, kept / LICENSE)
    partial = Path(shutil.copy(program, kept / f"{name}.partial"))
    partial.replace(kept / name)


def _source(folder: Path) -> Path:
    archive = default_cache() / "sources" / f"glslang-{_SHA256[:12]}.tar.gz"
    if not archive.is_file():
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(fetched(_URL, _SHA256))
    run(["tar", "-xzf", str(archive), "-C", str(folder)])
    return folder / f"glslang-{VERSION}"
