"""A decoder's step as it lies on the device: what runs, and where, for those who record it for many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlvk.graphs.launching import Lies, PlaceNumber
from dmlvk.onnx.nodes.values import Array

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.graphs.plan import Plan
    from dmlvk.objects.binding import BufferBinding
    from dmlvk.objects.buffers import Buffer
    from dmlvk.runtime.kompute import Launch


@dataclasses.dataclass(frozen=True)
class StandingStep:
    """A run whose caches lie where they will be in the next one.

    Attributes:
        plan: what runs.
        launches: its launches, where some places lie elsewhere than in this run.
        locations: what lies where: the caches, and memory of the plan's own.
        inputs: the numbers of the inputs that the host writes before each run, by name.
        outputs: the numbers of the outputs, by name.
        given: what the host writes before this run.
        buffers: all of the plan's memory, with weights.
    """

    plan: Plan
    launches: Callable[[Mapping[PlaceNumber, Lies]], list[Launch]]
    locations: Mapping[PlaceNumber, TensorMemory | BufferBinding]
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    given: Mapping[str, Array]
    buffers: Sequence[Buffer]
