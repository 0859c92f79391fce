"""Where the sources and the library are, and what a shader variant is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from dmlvk.kernels.library.checkout import COMPILED
from dmlvk.kernels.library.compiler import Variant
from dmlvk.kernels.library.store import Store

ROOT: Final = Path(__file__).resolve().parents[2]
SHADERS: Final = ROOT / "shaders"
LIBRARY: Final = ROOT / "dmlvk" / "kernels" / "spirv"

_NAME = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class VariantError(ValueError):
    """The list of variants contradicts itself; the message has one line for each fault."""


def project_variants() -> Sequence[Variant]:
    from dmlvk.kernels.catalog import all_variants

    return all_variants()


def compiled_store(library: Path) -> Store:
    return Store(library / COMPILED)


def checked_variants(variants: Iterable[Variant]) -> list[Variant]:
    """Return variants sorted by name.

    Raises:
        VariantError: a name is taken twice or would make no good file name, or a definition is made twice or is not
            named like a macro.
    """
    ordered = sorted(variants, key=lambda variant: variant.name)
    faults = []
    for index, variant in enumerate(ordered):
        if not _NAME.fullmatch(variant.name):
            faults.append(f"{variant.name!r}: a variant's name is made of a-z, 0-9 and _ in parts joined by dots")
        if index and ordered[index - 1].name == variant.name:
            faults.append(f"{variant.name}: two variants have this name")
        names = [name for name, _ in variant.defines]
        faults += [f"{variant.name}: {name!r} cannot be defined" for name in names if not _IDENTIFIER.fullmatch(name)]
        twice = sorted({name for name in names if names.count(name) > 1})
        faults += [f"{variant.name}: {name} is defined twice" for name in twice]
    if faults:
        raise VariantError("\n".join(faults))
    return ordered
