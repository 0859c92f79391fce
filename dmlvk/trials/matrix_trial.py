"""How a device deals out the elements of cooperative matrices to invocations, found by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.kernels.trials import matrix_quads_step
from dmlvk.objects.recording import run_on_arrays

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine

_SIDE = 16


_SUM = 255 * (31 * 2047 + 1) / 2**24
"""What ``shaders/patterns/products/matrix_quads.glsl`` adds up: an integer of 24 bits."""


def matrices_lie_in_quads(engine: Engine) -> bool:
    """Whether sums and left operands of 16 x 16 lie as ``shaders/include/cooperative_quads.glsl`` says.

    Args:
        engine: a device that multiplies matrices of FLOAT16 (``Target.has_cooperative_halves``).

    Raises:
        OutOfMemoryError: when the device has no memory for it.
        DeviceRemovedError: when the device is lost or closed.
    """
    row, column = np.indices((_SIDE, _SIDE))
    invocation = row % 8 * 4 + column % 8 // 2
    expected = invocation * 8 + row // 8 * 4 + column // 8 * 2 + column % 2
    return bool(np.array_equal(_matrices(engine)[:2], np.stack([expected, expected])))


def sums_of_matrices_are_exact(engine: Engine) -> bool:
    """Whether matrices lie so, and sums of products of FLOAT16, denormal ones too, are exact up to 24 bits.

    Args:
        engine: as of :func:`matrices_lie_in_quads`.

    Raises:
        OutOfMemoryError, DeviceRemovedError: likewise.
    """
    return matrices_lie_in_quads(engine) and bool((_matrices(engine)[2] == np.float32(_SUM)).all())


def _matrices(engine: Engine) -> npt.NDArray[np.float32]:
    return run_on_arrays(engine, lambda _, writes: [matrix_quads_step(*writes)], (), np.float32, (3, _SIDE, _SIDE))
