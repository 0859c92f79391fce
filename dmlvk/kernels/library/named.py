"""Which variants there are: whoever plans kernels names them, so that the library need not know of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlvk.kernels.library.compiler import Variant

VARIANTS: list[Callable[[], Iterable[Variant]]] = []
"""What names variants: :mod:`dmlvk.kernels.catalog` enters all of the package's."""
