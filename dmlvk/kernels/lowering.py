"""Which module computes which pattern; of other operators, modules declare it themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from dmlvk.kernels import (
    catalog,  # noqa: F401  # a checkout compiles what it names
    composed,
    products,
    rows,
    windows,
)
from dmlvk.kernels import elementwise as elementwise_room
from dmlvk.kernels import (
    movement as movement_room,
)
from dmlvk.kernels.composed import recurrent
from dmlvk.kernels.elementwise import elementwise, fills
from dmlvk.kernels.movement import indexed, movement
from dmlvk.kernels.program import of_kernel
from dmlvk.kernels.registry import LOWERINGS, Lowering, lower
from dmlvk.kernels.rows import along_axes, normalization
from dmlvk.kernels.windows import regions, resample, window
from dmlvk.operators.declaration import Pattern

_BY_PATTERN: Mapping[Pattern, Lowering] = {
    "elementwise": lambda desc, target: of_kernel(desc, elementwise.lower(desc, target)),
    "rows": lambda desc, target: of_kernel(desc, along_axes.lower(desc, target)),
    "normalization": normalization.lower,
    "indexed": indexed.lower,
    "recurrent": recurrent.lower,
    "copies": movement.lower,
    "window": window.lower,
    "resample": resample.lower,
    "regions": regions.lower,
    "fill": fills.lower,
}
"""By pattern. Each module of a pattern knows its shaders' variants, too: :mod:`dmlvk.kernels.catalog`."""

LOWERINGS.update(_BY_PATTERN)

for _room in (composed, elementwise_room, movement_room, products, rows, windows):  # each declares lowerings of its own
    for _module in pkgutil.iter_modules(_room.__path__):
        importlib.import_module(f"{_room.__name__}.{_module.name}")

__all__ = ["LOWERINGS", "Lowering", "lower"]
