"""Puts dmlvk in the place of ``onnxruntime``, for programs that are not to be changed."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dmlvk.support.processes import reach_processes

_PACKAGE = "onnxruntime"
_OURS = "dmlvk.onnx"
_CAPI = (
    "_pybind_state",
    "build_and_package_info",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
)


class _StandIn(types.ModuleType):
    """A module of ``onnxruntime`` whose names are those of one of dmlvk's.

    Its other modules (``onnxruntime.quantization`` and so on) are those of ONNX Runtime's package, where it is
    installed.
    """

    def __init__(self, name: str, module: types.ModuleType, folders: list[str]) -> None:
        super().__init__(module.__name__, module.__doc__)  # its own name says who stands there
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=module.__file__, is_package=True)
        self.__spec__.submodule_search_locations = folders
        self.__path__ = folders
        self.__package__ = name
        self.__file__ = module.__file__
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *vars(self)})


class _Distribution(importlib.metadata.Distribution):
    """What ``importlib.metadata`` says of ``onnxruntime`` where its package is not installed."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = sys.modules[_OURS].__version__
        return f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: {version}\nSummary: dmlvk in its place\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent / path


class _Finder(importlib.metadata.DistributionFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """No modules."""

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[importlib.metadata.Distribution]:
        if context is not None and context.name == _PACKAGE:
            yield _Distribution()


def install(*, processes: bool = True) -> None:
    """From now on ``import onnxruntime`` gives ``dmlvk.onnx``, and so do the modules below ``onnxruntime.capi``.

    To be called before the program's own imports: what has ONNX Runtime already keeps it. Where its package is
    installed, its tools (``onnxruntime.quantization``, ``onnxruntime.transformers``) are still there, and use dmlvk's
    sessions. Calling it again changes nothing.

    Args:
        processes: whether Python processes that this one starts from now on (by multiprocessing or as commands) do the
            same, by the environment variable ``DMLVK_AS_ONNXRUNTIME``.
    """
    if processes:
        os.environ["DMLVK_AS_ONNXRUNTIME"] = "1"
        reach_processes()
    if isinstance(sys.modules.get(_PACKAGE), _StandIn):
        return
    found = importlib.machinery.PathFinder.find_spec(_PACKAGE)
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]:
        del sys.modules[name]
    ours = importlib.import_module(_OURS)
    package = _StandIn(_PACKAGE, ours, folders)
    capi = _StandIn(f"{_PACKAGE}.capi", ours.capi, [])
    backend = importlib.import_module(f"{_OURS}.backend")
    modules: dict[str, types.ModuleType] = {_PACKAGE: package, f"{_PACKAGE}.capi": capi, f"{_PACKAGE}.backend": backend}
    # ONNX Runtime has its backend's two classes in modules of their own.
    modules |= dict.fromkeys((f"{_PACKAGE}.backend.backend", f"{_PACKAGE}.backend.backend_rep"), backend)
    modules |= {f"{_PACKAGE}.capi.{name}": getattr(ours.capi, name) for name in _CAPI}
    vars(package).update(capi=capi, backend=backend)
    sys.modules.update(modules)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
