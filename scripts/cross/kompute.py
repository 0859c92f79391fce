"""Kompute's wheels for other systems: the source that ``build_kompute.py`` has, compiled without CMake."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.build_kompute import (
    KOMPUTE_VERSION,
    LOCAL_VERSION,
    change_source,
    default_cache,
    fetch_source,
    make_build_environment,
    patches,
)
from scripts.cross import windows_python
from scripts.cross.targets import CrossBuildError, Platform
from scripts.cross.tools import run
from scripts.cross.wheel import write_wheel

VERSION = f"{KOMPUTE_VERSION}+{LOCAL_VERSION}"

_OPTIONS = (
    "-std=c++17", "-O2", "-DNDEBUG", "-w", "-fvisibility=hidden", "-DFMT_HEADER_ONLY",
    "-DKOMPUTE_DISABLE_VK_DEBUG_LAYERS=1", "-DKOMPUTE_OPT_DISABLE_VULKAN_VERSION_CHECK",
    "-DKOMPUTE_OPT_LOG_LEVEL_DISABLED=1", "-DKOMPUTE_LOG_LEVEL_TRACE=0", "-DKOMPUTE_LOG_LEVEL_DEBUG=1",
    "-DKOMPUTE_LOG_LEVEL_INFO=2", "-DKOMPUTE_LOG_LEVEL_WARN=3", "-DKOMPUTE_LOG_LEVEL_ERROR=4",
    "-DKOMPUTE_LOG_LEVEL_CRITICAL=5", "-DKOMPUTE_LOG_LEVEL_OFF=6",
    "-DKOMPUTE_OPT_ACTIVE_LOG_LEVEL=KOMPUTE_LOG_LEVEL_OFF",
)  # fmt: skip
"""As Kompute's CMakeLists.txt has them with the options of ``build_kompute.py``."""

_FOR_PYTHON = "-DKOMPUTE_BUILD_PYTHON=1"
"""For the module alone: it lets Kompute's headers bring Python's, of one version, which nothing else in them uses."""

_SYSTEM_HEADERS = ("vulkan", "vk_video", "fmt")
"""Folders of /usr/include that are the same on all systems; the others there are this system's own."""


def build(target: Platform, pythons: Mapping[int, Path], output: Path, *, jobs: int = 1) -> list[Path]:
    """Wheels of Kompute for a system, one for each CPython; kept in the user's cache by what they are made from.

    Args:
        target: the system.
        pythons: folders with the headers of CPython 3.N, by N.
        output: the folder of wheels.
        jobs: compilers at a time.

    Raises:
        CrossBuildError: something is missing, or does not compile.
    """
    kept = default_cache() / "wheels" / f"kp-{VERSION}-{target.name}-{_recipe(target)}"
    names = {minor: f"kp-{VERSION}-cp3{minor}-cp3{minor}-{target.tag}.whl" for minor in pythons}
    wanted = {minor: folder for minor, folder in pythons.items() if not (kept / names[minor]).is_file()}
    if wanted:
        target.check_compiler()
        with tempfile.TemporaryDirectory(prefix="dmlvk-cross-") as folder:
            _Build(target, Path(folder), kept, jobs).run(wanted)
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob(f"kp-*-{target.tag}.whl"):
        old.unlink()
    return [Path(shutil.copy(kept / name, output)) for name in names.values()]


def _recipe(target: Platform) -> str:
    scripts = Path(__file__).parents[1]
    names = ("cross/kompute.py", "cross/windows_python.py")
    files = [*patches(unchanged=False), *(scripts / name for name in names)]
    parts = [repr(target).encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


class _Build:
    def __init__(self, target: Platform, folder: Path, kept: Path, jobs: int) -> None:
        self._target, self._folder, self._kept, self._jobs = target, folder, kept, jobs

    def run(self, pythons: Mapping[int, Path]) -> None:
        """Compiles what does not depend on Python once, and the rest for each."""
        builder = make_build_environment(self._folder / "env")
        source = fetch_source(builder, self._folder)
        change_source(source, self._jobs, unchanged=False)
        query = "import pybind11; print(pybind11.get_include())"
        include = subprocess.run([builder, "-c", query], capture_output=True, text=True, check=True).stdout.strip()
        includes = [source / "src" / "include", self._shader(source), self._system_headers()]
        headers = {minor: self._headers(minor, folder) for minor, folder in pythons.items()}
        main = source / "python" / "src" / "main.cpp"
        with ThreadPoolExecutor(self._jobs) as compilers:
            common = compilers.submit(self._compiled, self._together(source), "common", includes)
            modules = {
                minor: compilers.submit(self._compiled, main, f"3{minor}", [*includes, Path(include), own], _FOR_PYTHON)
                for minor, own in headers.items()
            }
            for minor, module in modules.items():
                self._write(minor, self._linked(minor, [common.result(), module.result()]), source)

    def _together(self, source: Path) -> Path:
        """What does not depend on Python as one file: Vulkan's headers, most of the work, are read once."""
        files = [*sorted((source / "src").glob("*.cpp")), source / "src" / "logger" / "Logger.cpp"]
        made = self._folder / "kompute.cpp"
        made.write_text("".join(f'#include "{file}"\n' for file in files), encoding="utf-8")
        return made

    def _shader(self, source: Path) -> Path:
        made = self._folder / "shader"
        made.mkdir()
        shutil.copy(source / "src/shaders/glsl/ShaderOpMult.hpp.in", made / "ShaderOpMult.hpp")
        shutil.copy(source / "src/shaders/glsl/ShaderLogisticRegression.hpp.in", made / "ShaderLogisticRegression.hpp")
        return made

    def _system_headers(self) -> Path:
        made = self._folder / "system"
        made.mkdir()
        for name in _SYSTEM_HEADERS:
            if not Path("/usr/include", name).is_dir():
                raise CrossBuildError(f"/usr/include/{name} is not here (apt install libvulkan-dev libfmt-dev)")
            (made / name).symlink_to(Path("/usr/include", name))
        return made

    def _headers(self, minor: int, folder: Path) -> Path:
        """Python's headers, with the target's pyconfig.h: the quoted include finds the one that lies beside."""
        made = self._folder / f"python3{minor}"
        shutil.copytree(folder, made)
        if self._target.system == "win32":
            (made / "pyconfig.h").write_text(windows_python.CONFIGURATION, encoding="ascii")
        return made

    def _compiled(self, file: Path, kind: str, includes: Sequence[Path], *options: str) -> Path:
        made = self._folder / f"{file.stem}-{kind}.o"
        words = [*self._target.compiler, *_OPTIONS, *options, *self._target.flags, *(f"-I{path}" for path in includes)]
        run([*words, "-c", "-o", str(made), str(file)])
        return made

    def _linked(self, minor: int, objects: Sequence[Path]) -> Path:
        made = self._folder / f"kp{self._target.suffix.format(minor=minor)}"
        libraries: list[str] = []
        if self._target.system == "win32":
            libraries.append(str(windows_python.python_import_library(minor, default_cache(), self._folder)))
            libraries.append(str(self._vulkan_import_library(objects)))
        elif self._target.system == "linux":
            libraries.append(str(self._vulkan_stand_in(objects)))
        run([*self._target.compiler, *self._target.link, "-o", str(made), *map(str, objects), *libraries])
        return made

    def _vulkan_names(self, objects: Sequence[Path], nm: str) -> list[str]:
        symbols = subprocess.run([nm, "-u", *map(str, objects)], capture_output=True, text=True, check=True).stdout
        return sorted({line.split()[-1] for line in symbols.splitlines() if line.split()[-1:][0:1] and "vk" in line})

    def _vulkan_import_library(self, objects: Sequence[Path]) -> Path:
        names = [name for name in self._vulkan_names(objects, "x86_64-w64-mingw32-nm") if name.startswith("vk")]
        return windows_python.import_library("vulkan-1.dll", "\n".join(names) + "\n", self._folder)

    def _vulkan_stand_in(self, objects: Sequence[Path]) -> Path:
        """A library with the loader's name and the functions that are called, to be linked against."""
        names = [name for name in self._vulkan_names(objects, "nm") if name.startswith("vk")]
        text = self._folder / "vulkan.cpp"
        text.write_text("".join(f'extern "C" void {name}() {{}}\n' for name in names), encoding="ascii")
        made = self._folder / "libvulkan.so.1"
        flags = ("-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libvulkan.so.1")
        run([*self._target.compiler, *flags, "-o", str(made), str(text)])
        return made

    def _write(self, minor: int, library: Path, source: Path) -> None:
        own = f"kp-{VERSION}.dist-info"
        metadata = (source / "PKG-INFO").read_text(encoding="utf-8")
        metadata = metadata.replace(f"\nVersion: {KOMPUTE_VERSION}\n", f"\nVersion: {VERSION}\n", 1)
        metadata = metadata.replace("\nRequires-Dist: numpy<2.0.0\n", "\nRequires-Dist: numpy>=1.23\n", 1)
        if VERSION not in metadata or "numpy<" in metadata:
            raise CrossBuildError("Kompute's PKG-INFO is not what it was")
        files = {
            library.name: library.read_bytes(),
            f"{own}/METADATA": metadata.encode(),
            f"{own}/licenses/LICENSE": (source / "LICENSE").read_bytes(),
            f"{own}/top_level.txt": b"kp\n",
        }
        write_wheel(self._kept, "kp", VERSION, f"cp3{minor}-cp3{minor}-{self._target.tag}", files)
