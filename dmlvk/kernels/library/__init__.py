"""The compiled shaders: packed in an installed package, compiled when they are first needed in a source checkout."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels.library import glsl

if TYPE_CHECKING:
    from dmlvk.kernels.library.checkout import Checkout
    from dmlvk.kernels.library.pack import PackedLibrary

DIRECTORY = Path(__file__).parents[1] / "spirv"
"""Where compiled shaders are: packed files by ``scripts/compile_shaders.py --pack``, and what a checkout compiled."""

_HINT = "install dmlvk again"
_KEPT = 1024


@functools.cache
def _library() -> Checkout | PackedLibrary:
    shaders = glsl.source_directory()
    if shaders is not None and shaders.parent != Path(__file__).parents[2]:  # beside the package, not in it
        from dmlvk.kernels.library.checkout import Checkout

        return Checkout(shaders, DIRECTORY)
    from dmlvk.kernels.library.pack import PackedLibrary

    return PackedLibrary(DIRECTORY)


_library()  # now: a checkout notes which files this process has loaded


@functools.lru_cache(maxsize=_KEPT)
def load(variant_name: str) -> bytes:
    """The SPIR-V of a variant.

    Raises:
        ShaderLibraryError: it is missing or damaged; or, in a source checkout, cannot be compiled.
    """
    with _readable(variant_name):
        return _library().read(variant_name)


def key(variant_name: str) -> str | None:
    """What the bytes of a variant's SPIR-V follow from; ``None`` where there is no such variant.

    Raises:
        ShaderLibraryError: the library is damaged.
    """
    with _readable(variant_name):
        return _library().key(variant_name)


@contextmanager
def _readable(variant_name: str) -> Iterator[None]:
    from dmlvk.kernels.library.pack import PackError

    try:
        yield
    except PackError as error:
        raise ShaderLibraryError(f"the shader library has no {variant_name} ({error}): {_HINT}") from error
