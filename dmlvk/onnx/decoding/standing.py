"""A decoder's step as it lies on the device: what runs, and where, for those who record it for many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dmlvk.kernels.program import BindingKind
from dmlvk.onnx.nodes.values import Array

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.objects.binding import BufferBinding


@dataclasses.dataclass(frozen=True)
class StandingStep:
    """A run whose caches lie where they will be in the next one.

    Attributes:
        compiled: what runs.
        locations: what lies where; the caches, and memory of the plan's own.
        inputs: the numbers of the inputs that the host writes before each run, by name.
        outputs: the numbers of the outputs, by name.
        given: what the host writes before this run.
    """

    compiled: CompiledGraph
    locations: Mapping[tuple[BindingKind, int], TensorMemory | BufferBinding]
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    given: Mapping[str, Array]


__all__ = ["StandingStep"]
