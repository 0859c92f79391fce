"""Every module that declares lowerings and shader variants is imported here, and so all of them are known."""

from __future__ import annotations

import importlib
import pkgutil

from dmlvk.kernels import composed, elementwise, movement, products, rows, trials, windows
from dmlvk.kernels.library.named import VARIANTS
from dmlvk.kernels.variants import ShaderVariant

for _room in (composed, elementwise, movement, products, rows, windows):
    for _module in pkgutil.iter_modules(_room.__path__):
        importlib.import_module(f"{_room.__name__}.{_module.name}")


def all_variants() -> list[ShaderVariant]:
    """Every variant that the package has, sorted by name."""
    found = {variant.name: variant for variants in VARIANTS for variant in variants()}
    return [found[name] for name in sorted(found)]


__all__ = ["all_variants", "trials"]
