"""How a device deals out the elements of cooperative matrices to invocations, found by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlvk.kernels.program import KernelStep, Region
from dmlvk.kernels.trials import matrix_quads_step
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.recording import run_once

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine

_SIDE = 16


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
    with Buffer(engine, 2 * expected.size * 4) as target:

        def made(reads: list[Region], writes: list[Region]) -> list[KernelStep]:
            return [matrix_quads_step(*writes)]

        run_once(engine, made, (), target)
        found = target.download(np.float32, (2, _SIDE, _SIDE))
    return bool(np.array_equal(found, np.stack([expected, expected])))
