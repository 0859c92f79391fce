"""How a device deals out the elements of cooperative matrices to invocations, found by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.kernels.trials import MATRIX_QUADS, NARROW_MATRICES, matrix_quads_step
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.objects.recording import run_on_arrays

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine

_SIDE, _NARROW = 16, 8


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
    return bool(np.array_equal(_matrices(engine, MATRIX_QUADS, 2, _SIDE), np.stack([expected, expected])))


def sums_of_matrices_are_exact(engine: Engine) -> bool:
    """Whether left operands lie so, right ones and sums of 16 x 8, too, and sums are exact up to 24 bits.

    They are those of products of FLOAT16, denormal ones too.

    Args:
        engine: one that multiplies narrow ones, too (``Target.has_narrow_halves``).

    Raises:
        OutOfMemoryError, DeviceRemovedError: as of :func:`matrices_lie_in_quads`.
    """
    row, column = np.indices((_SIDE, _NARROW))
    of_sums = (row % 8 * 4 + column // 2) * 4 + row // 8 * 2 + column % 2
    of_right = (column * 4 + row % 8 // 2) * 4 + row // 8 * 2 + row % 2
    sums, right, largest = _matrices(engine, NARROW_MATRICES, 3, _NARROW)
    lie_so = np.array_equal(sums, of_sums) and np.array_equal(right, of_right)
    return lie_so and bool((largest == np.float32(_SUM)).all()) and matrices_lie_in_quads(engine)


def _matrices(engine: Engine, variant: ShaderVariant, count: int, columns: int) -> npt.NDArray[np.float32]:
    shape = (count, _SIDE, columns)
    return run_on_arrays(engine, lambda _, writes: [matrix_quads_step(variant, *writes)], (), np.float32, shape)
