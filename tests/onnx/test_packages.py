"""Programs around packages that ship small models find the same by ONNX Runtime and by dmlvk."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from scripts.package_tools.programs import PROGRAMS
from scripts.try_packages import tried

_MODULES = {"swift-f0": "swift_f0", "magika": "magika"}


@pytest.mark.parametrize("name", ["swift-f0", pytest.param("magika", marks=pytest.mark.sweep)])
def test_a_program_finds_the_same_unchanged(name: str) -> None:
    if importlib.util.find_spec(_MODULES[name]) is None:
        pytest.skip(f"{name} is not installed: pip install {name}")
    outcome = tried(Path(sys.executable), PROGRAMS[name])
    assert outcome.models
    assert outcome.problems == []
