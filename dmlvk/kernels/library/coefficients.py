"""The coefficients that some kernels read, and which kernels do.

They are the same for all devices; shaders/include/coefficients.glsl says where a function finds its rows, and
scripts/make_coefficients.py where their numbers come from.
"""

from __future__ import annotations

import functools
import sys
from array import array
from pathlib import Path

from dmlvk.errors import ShaderLibraryError
from dmlvk.spirv.modules import binding_count

_FILE = Path(__file__).parent / "coefficients.bin"


@functools.cache
def contents() -> bytes:
    """All rows, as a device of this machine reads them.

    Raises:
        ShaderLibraryError: when the package lacks them.
    """
    try:
        words = array("I", _FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise ShaderLibraryError(f"the coefficients cannot be read ({error}): install dmlvk again") from error
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


@functools.lru_cache(maxsize=1024)
def are_read_by(spirv: bytes, operands: int) -> bool:
    """Whether a kernel of that many operands reads coefficients: then it has one binding more, the last one."""
    return binding_count(spirv) > operands
