"""What is tried of a device when a shader asks for it, by the ``constant_id`` by which the shader is told.

What the choice of kernels depends on has a number that no shader has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dmlvk.spirv.specialization import (
    MATRICES_LIE_IN_QUADS,
    MULTIPLIES_HALVES,
    PACKS_TO_NEAREST_EVEN,
    SUMS_OF_MATRICES_ARE_EXACT,
    UNPACKS_DENORMALS,
)
from dmlvk.trials.half_trial import multiplies_halves, packs_to_nearest_even, unpacks_denormals
from dmlvk.trials.matrix_trial import matrices_lie_in_quads, sums_of_matrices_are_exact

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine

TRIALS: Mapping[int, Callable[[Engine], bool]] = {
    UNPACKS_DENORMALS: unpacks_denormals,
    PACKS_TO_NEAREST_EVEN: packs_to_nearest_even,
    MULTIPLIES_HALVES: multiplies_halves,
    MATRICES_LIE_IN_QUADS: matrices_lie_in_quads,
    SUMS_OF_MATRICES_ARE_EXACT: sums_of_matrices_are_exact,
}
