"""Whether a device's own conversion of FLOAT16 to FLOAT32 keeps denormals, found by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlvk.buffers import Buffer
from dmlvk.datatypes import DataType
from dmlvk.operators import ElementWiseMultiply
from dmlvk.recording import run_once
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine

_PATTERNS = 2**16
_SIZE_IN_BYTES = 2 * _PATTERNS
_ONE, _INFINITY, _CANONICAL_NAN = 0x3C00, 0x7C00, 0x7E00


def unpacks_denormals(engine: Engine) -> bool:
    """Multiplies every FLOAT16 by 1: each must come back, and NaN as the canonical one.

    Args:
        engine: a device, whose shaders take its own conversion while this runs.

    Raises:
        OutOfMemoryError: when the device has no memory for it.
        DeviceRemovedError: when the device is lost or closed.
    """
    patterns = np.arange(_PATTERNS, dtype=np.uint16)
    ones = np.full(_PATTERNS, _ONE, np.uint16)
    tensor = TensorDesc(DataType.FLOAT16, (_PATTERNS,))
    desc = ElementWiseMultiply(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    with Buffer(engine, _SIZE_IN_BYTES) as a, Buffer(engine, _SIZE_IN_BYTES) as b, Buffer(engine, _SIZE_IN_BYTES) as c:
        a.upload(patterns)
        b.upload(ones)
        run_once(engine, desc, (a, b), c)
        products = c.download(np.uint16, (_PATTERNS,))
    is_nan = (patterns & 0x7FFF) > _INFINITY
    return bool(np.array_equal(products, np.where(is_nan, np.uint16(_CANONICAL_NAN), patterns)))
