"""What ``dmlvk_startup.pth`` does, for processes that start from a checkout, where no such file is installed.

``python -m dmlvk.onnxruntime`` puts this folder on their PYTHONPATH. Another ``sitecustomize`` runs as well.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

importlib.import_module("_dmlvk_startup").install()  # it lies beside this

_own = os.path.dirname(os.path.abspath(__file__))
_others = [entry for entry in sys.path if os.path.abspath(entry) != _own]
_spec = importlib.machinery.PathFinder.find_spec(__name__, _others)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
