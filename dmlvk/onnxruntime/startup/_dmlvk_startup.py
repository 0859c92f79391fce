"""Lets programs that import onnxruntime use dmlvk, where the environment variable ``DMLVK_ONNXRUNTIME`` asks for it.

Python runs this when it starts: the wheel puts it beside the packages, with ``dmlvk_startup.pth``. Nothing of dmlvk's
is imported before a program imports ``onnxruntime`` or ``onnxruntime_genai``, so that others start as fast as ever.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

VARIABLE = "DMLVK_ONNXRUNTIME"

_HOOKS = {"onnxruntime": "take_sessions", "onnxruntime_genai": "take_models"}
"""Functions of ``dmlvk.onnxruntime.unchanged``, by the package after whose import they are called."""


class _AfterImport:
    """Finds those packages as Python does, and lets dmlvk know when they have been imported."""

    def __init__(self) -> None:
        self._sought: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As a finder of ``sys.meta_path``."""
        if name not in _HOOKS or name in self._sought:
            return None
        self._sought.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._sought.discard(name)
        loader: Any = spec.loader if spec is not None else None
        if loader is None:
            return spec
        executed = loader.exec_module

        def execute(module: ModuleType) -> None:
            executed(module)
            _call(name)

        loader.exec_module = execute
        return spec


def _call(name: str) -> None:
    try:
        getattr(importlib.import_module("dmlvk.onnxruntime.unchanged"), _HOOKS[name])()
    except Exception as error:  # noqa: BLE001 - the program runs by other providers, as ONNX Runtime has it
        print(f"{VARIABLE}: {name} runs without dmlvk: {' '.join(str(error).split())}", file=sys.stderr)


def install() -> None:
    """Does it, where the variable is set to something but 0."""
    if os.environ.get(VARIABLE, "0") in ("", "0") or any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _AfterImport())  # find_spec is all that Python asks for
    for name in _HOOKS:
        if name in sys.modules:
            _call(name)
