"""From a checked description to its program, with every module at hand that makes some."""

from __future__ import annotations

from dmlvk.kernels import catalog  # noqa: F401  # its modules declare whose programs they make
from dmlvk.kernels.registry import Lowering, lower

__all__ = ["Lowering", "lower"]
