"""Lets the Python processes that this one starts run what dmlvk has for their start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STARTUP = Path(__file__).resolve().parents[1] / "onnxruntime" / "startup"
"""The folder of ``_dmlvk_startup``: environment variables tell it what to do."""


def reach_processes() -> None:
    """From a checkout, puts that folder on the PYTHONPATH of processes to come; a wheel has a file for it.

    Twice changes nothing.
    """
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    installed = any(Path(place, "dmlvk_startup.pth").is_file() for place in sys.path)
    if not installed and os.fspath(STARTUP) not in given:
        os.environ["PYTHONPATH"] = os.pathsep.join([os.fspath(STARTUP), os.fspath(STARTUP.parents[2]), *given])


__all__ = ["STARTUP", "reach_processes"]
