"""Which variants there are: whoever plans kernels names them, so that the library need not know of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dmlvk.kernels.variants import ShaderVariant

VARIANTS: list[Callable[[], Iterable[ShaderVariant]]] = []
"""What names variants: :func:`shader_variants` declares it, :mod:`dmlvk.kernels.catalog` imports all that do."""

_Variants = TypeVar("_Variants", bound="Callable[[], Iterable[ShaderVariant]]")


def shader_variants(function: _Variants) -> _Variants:
    """Declares a function to be what names some of the package's shader variants."""
    VARIANTS.append(function)
    return function
