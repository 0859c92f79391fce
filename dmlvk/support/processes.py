"""Other processes: whether one runs, and what those of Python that this one starts run at their start."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

STARTUP = Path(__file__).resolve().parents[1] / "onnxruntime" / "startup"
"""The folder of ``_dmlvk_startup``: environment variables tell it what to do."""


def reach_processes() -> None:
    """From a checkout, puts that folder on the PYTHONPATH of processes to come; a wheel has a file for it.

    Twice changes nothing.
    """
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    installed = any(Path(entry, "dmlvk_startup.pth").is_file() for entry in sys.path)
    if not installed and os.fspath(STARTUP) not in given:
        os.environ["PYTHONPATH"] = os.pathsep.join([os.fspath(STARTUP), os.fspath(STARTUP.parents[2]), *given])


def startup_module() -> ModuleType:
    """``_dmlvk_startup``: a wheel puts it beside the packages, a checkout has it in its folder alone."""
    is_beside = importlib.util.find_spec("_dmlvk_startup") is not None
    return importlib.import_module("_dmlvk_startup" if is_beside else "dmlvk.onnxruntime.startup._dmlvk_startup")


def is_running(process: int) -> bool:
    """Whether there is a process of this number, as far as can be told: on Windows asking would end it."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True
