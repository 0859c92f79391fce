"""The kernel's interface of a GPU that is not there: Mesa's drm-shim, with which its Vulkan driver for Intel compiles.

The driver asks the kernel for a card when it is loaded. Mesa's source has a library that answers in its place and does
nothing (``src/intel/tools/intel_noop_drm_shim.c``); distributions do not ship it. It is built from the source that
Debian has, without the rest of Mesa, and loaded before all other libraries (LD_PRELOAD).
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.targets import CrossBuildError
from scripts.cross.tools import fetched, run

VERSION = "25.0.7"  # Debian 13's Mesa; older drivers understand the answers of its libraries, too

PLATFORMS = ("skl", "icl", "tgl", "adl", "dg2", "mtl")
"""Some of Intel's GPUs by Mesa's names: of Skylake, Ice Lake, Tiger Lake, Alder Lake, Arc, Meteor Lake."""

_URL = f"http://deb.debian.org/debian/pool/main/m/mesa/mesa_{VERSION}.orig.tar.xz"
_SHA256 = "592272df3cf01e85e7db300c449df5061092574d099da275d19e97ef0510f8a6"
_STAND_INS = Path(__file__).parents[1] / "native" / "drm_shim_stand_ins.c"

_COMMON = (
    "src/drm-shim/device.c", "src/drm-shim/drm_shim.c", "src/util/u_call_once.c",
    *(f"src/util/{name}.c" for name in ("anon_file", "hash_table", "ralloc", "set", "simple_mtx", "vma")),
)  # fmt: skip
_INTEL = (
    "src/intel/tools/intel_noop_drm_shim.c",
    *(f"src/intel/dev/{name}.c" for name in ("intel_device_info", "intel_hwconfig", "intel_kmd", "intel_wa")),
    *(f"src/intel/dev/{kernel}/intel_device_info.c" for kernel in ("i915", "xe")),
    *(f"src/intel/common/{name}.c" for name in ("intel_engine", "intel_gem", "xe/intel_device_query")),
    *(f"src/intel/common/{kernel}/intel_{name}.c" for kernel in ("i915", "xe") for name in ("engine", "gem")),
)  # fmt: skip
_FOLDERS = ("include", "src/c11", "src/compiler", "src/drm-shim", "src/intel", "src/util", "src/virtio")
_INCLUDES = ("include", "src", "src/util", "src/intel", "src/intel/dev", "src/intel/common")
_OPTIONS = (
    "-shared", "-fPIC", "-O1", "-w", "-std=gnu11", "-D_GNU_SOURCE", "-D_LARGEFILE64_SOURCE", "-DHAVE_PTHREAD",
    "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_SECURE_GETENV", "-DHAVE_MEMFD_CREATE", "-DHAVE_ENDIAN_H", "-DHAVE_FLOCK",
    "-DHAVE_PROGRAM_INVOCATION_NAME",
)  # fmt: skip
"""As Mesa's build sets them on Linux with glibc."""

_GENERATED = (
    ("gen_wa_helpers.py", "mesa_defs.json", "intel_wa.h", "intel_wa.c"),
    ("intel_device_info_gen_h.py", "intel_device_info_gen.h"),
)
"""Scripts of ``src/intel/dev`` with their arguments there."""


def library() -> Path:
    """The library for Intel's driver; built once, and kept in the user's cache by what it is made from.

    Raises:
        CrossBuildError: something that it needs is not here, or it does not compile.
    """
    recipe = hashlib.sha256(Path(__file__).read_bytes() + _STAND_INS.read_bytes()).hexdigest()[:12]
    made = default_cache() / "drm-shim" / f"intel-{VERSION}-{recipe}.so"
    if not made.is_file():
        _check_tools()
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dmlvk-drm-shim-") as folder:
            partial = Path(shutil.copy(_built(Path(folder)), made.with_suffix(".partial")))
        partial.replace(made)
    return made


def compiled_program(source: Path) -> Path:
    """A program of C that loads its libraries itself, and asks for no other headers than Vulkan's.

    Raises:
        CrossBuildError: there is no compiler, or it refuses the source.
    """
    if shutil.which("gcc") is None:
        raise CrossBuildError(f"{source.name} cannot be built: apt install gcc")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    made = default_cache() / "drm-shim" / f"{source.stem}-{digest}"
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_suffix(".partial")
        run(["gcc", "-O1", "-Wall", "-o", str(partial), str(source), "-idirafter", "/usr/include", "-ldl"])
        partial.replace(made)
    return made


def _check_tools() -> None:
    missing = [] if shutil.which("gcc") else ["gcc"]
    missing += [] if Path("/usr/include/xf86drm.h").is_file() else ["libdrm-dev"]
    if missing:
        raise CrossBuildError(f"Mesa's drm-shim cannot be built: apt install {' '.join(missing)}")


def _unpacked(folder: Path) -> Path:
    archive = folder / "mesa.tar.xz"
    archive.write_bytes(fetched(_URL, _SHA256))
    mesa = folder / f"mesa-{VERSION}"
    names = (f"mesa-{VERSION}/{name}" for name in _FOLDERS)
    run(["tar", "-xJf", str(archive), "-C", str(folder), *names])
    return mesa


def _generate(where: Path, packages: Path) -> None:
    """Has the scripts in Intel's folder write what their library includes."""
    run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), "mako"])
    python = ["env", f"PYTHONPATH={packages}", sys.executable]
    for script, *names in _GENERATED:
        run([*python, str(where / script), *(str(where / name) for name in names)])


def _built(folder: Path) -> Path:
    mesa = _unpacked(folder)
    (mesa / "src" / "git_sha1.h").write_text('#define MESA_GIT_SHA1 ""\n', encoding="ascii")
    _generate(mesa / "src" / "intel" / "dev", folder / "packages")
    made = folder / "shim.so"
    includes = [f"-I{mesa / name}" for name in _INCLUDES]
    includes += ["-idirafter", "/usr/include", "-idirafter", "/usr/include/libdrm"]
    sources = [str(_STAND_INS), *(str(mesa / name) for name in (*_COMMON, *_INTEL))]
    run(["gcc", *_OPTIONS, *includes, "-o", str(made), *sources, "-ldl", "-lpthread"])
    return made
