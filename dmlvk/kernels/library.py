"""The compiled shaders that ship with the package, checked against their manifest when they are loaded."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

from dmlvk.errors import ShaderLibraryError

DIRECTORY = Path(__file__).parent / "spirv"
"""Where ``scripts/compile_shaders.py`` puts the compiled variants and ``manifest.json``."""

_HINT = "compile the shaders with scripts/compile_shaders.py, or install dmlvk again"


@functools.cache
def _checksums() -> dict[str, str]:
    try:
        manifest = json.loads((DIRECTORY / "manifest.json").read_text(encoding="utf-8"))
        return {name: entry["sha256"] for name, entry in manifest["variants"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShaderLibraryError(f"the shader library has no readable manifest ({error}): {_HINT}") from error


@functools.cache
def load(variant_name: str) -> bytes:
    """The SPIR-V of a variant.

    Args:
        variant_name: as made by :func:`dmlvk.kernels.variants.variant_name`.

    Raises:
        ShaderLibraryError: when it is missing or not the one that the manifest names.
    """
    try:
        spirv = (DIRECTORY / f"{variant_name}.spv").read_bytes()
    except OSError as error:
        raise ShaderLibraryError(f"the shader library lacks {variant_name} ({error}): {_HINT}") from error
    if _checksums().get(variant_name) != hashlib.sha256(spirv).hexdigest():
        raise ShaderLibraryError(f"the shader {variant_name} does not match its manifest: {_HINT}")
    return spirv
