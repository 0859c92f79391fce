"""Lets programs that import onnxruntime use dmlvk, where an environment variable asks for it.

``DMLVK_ONNXRUNTIME`` gives ONNX Runtime's own sessions dmlvk's provider; ``DMLVK_AS_ONNXRUNTIME``, which comes first,
puts ``dmlvk.onnx`` in the place of ``onnxruntime``.

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
IN_PLACE = "DMLVK_AS_ONNXRUNTIME"

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


class _InPlace:
    """Finds ``dmlvk.onnx`` where ``onnxruntime`` is sought for the first time; it is its own loader."""

    def __init__(self) -> None:
        self._is_done = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As a finder of ``sys.meta_path``."""
        if name != "onnxruntime" or self._is_done:
            return None
        self._is_done = True
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As a loader: a module as Python makes it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """As a loader: another module takes the name, which Python then gives to whoever imports it."""
        importlib.import_module("dmlvk.onnx").install()


def _call(name: str) -> None:
    try:
        getattr(importlib.import_module("dmlvk.onnxruntime.unchanged"), _HOOKS[name])()
    except Exception as error:  # noqa: BLE001 - the program runs by other providers, as ONNX Runtime has it
        print(f"{VARIABLE}: {name} runs without dmlvk: {' '.join(str(error).split())}", file=sys.stderr)


def install() -> None:
    """Does it, where a variable is set to something but 0."""
    if any(isinstance(finder, (_AfterImport, _InPlace)) for finder in sys.meta_path):
        return
    if os.environ.get(IN_PLACE, "0") not in ("", "0"):
        if "onnxruntime" not in sys.modules:
            sys.meta_path.insert(0, _InPlace())
        return
    if os.environ.get(VARIABLE, "0") in ("", "0"):
        return
    sys.meta_path.insert(0, _AfterImport())  # find_spec is all that Python asks for
    for name in _HOOKS:
        if name in sys.modules:
            _call(name)
