"""A decoder's step as it lies on the device: what runs, and where, for those who record it for many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    """A run whose caches lie where they will be in the next one."""

    plan: Plan  # what runs
    # its launches, where some places lie elsewhere than in this run
    launches: Callable[[Mapping[PlaceNumber, Lies]], list[Launch]]
    # what lies where: the caches, and memory of the plan's own
    locations: Mapping[PlaceNumber, TensorMemory | BufferBinding]
    inputs: Mapping[str, int]  # the numbers of the inputs that the host writes before each run, by name
    outputs: Mapping[str, int]  # the numbers of the outputs, by name
    given: Mapping[str, Array]  # what the host writes before this run
    buffers: Sequence[Buffer]  # all of the plan's memory, with weights
    # what the host writes before another run on the same memory, by its inputs that are no caches; None: another plan
    again: Callable[[Mapping[str, Any]], Mapping[str, Array] | None]
