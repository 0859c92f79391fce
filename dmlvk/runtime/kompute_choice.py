"""Which Kompute there is, found out without loading it: dmlvk's own library in C, or the package ``kp``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from dmlvk.errors import UnsupportedError


def find_library() -> Path:
    """Where dmlvk's own Kompute is; where there is none, where it would be."""
    names = {"win32": "dmlvk_kompute.dll", "darwin": "libdmlvk_kompute.dylib"}
    name = names.get(sys.platform, "libdmlvk_kompute.so")
    beside = Path(__file__).with_name("native") / name
    installed = None if beside.is_file() else importlib.util.find_spec("dmlvk_kompute")
    folders = installed.submodule_search_locations or [] if installed else []
    return next((Path(folder, name) for folder in folders if Path(folder, name).is_file()), beside)


LIBRARY = find_library()
"""Of dmlvk's own Kompute: in this package, or where the wheel that ``scripts/build_kompute.py`` prints has put it."""


def is_bundled() -> bool:
    """Whether Kompute is this package's own; found out without loading it."""
    chosen = os.environ.get("DMLVK_KOMPUTE", "")
    if chosen not in ("", "kp"):
        raise UnsupportedError(f"DMLVK_KOMPUTE={chosen}: it may be kp, or not be set")
    return not chosen and (LIBRARY.is_file() or importlib.util.find_spec("kp") is None)
