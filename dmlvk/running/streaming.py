"""Runs work on large arrays chunk by chunk: one is on its way to the device, one is computed, one is on its way back.

So the device, the link to it and the host's processors work at the same time, in memory for a few chunks that is used
again and again: a run of whole arrays has to have memory for them on both sides, which takes longer than the run.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from dmlvk.arrays import result_memory
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.running.chunks import Chunk, Tiling, compiled_chunk, tiling_of
from dmlvk.running.host_runs import Arrays, RunCache
from dmlvk.runtime.kompute import Engine
from dmlvk.support.recent import Recent
from dmlvk.support.shared_work import Helpers
from dmlvk.support.weak_keys import WeakKeys

MOST_AT_ONCE = 6  # Chunks that are under way at a time, each in a thread of its own; whoever wants them waits

_KEPT_PLANS = 4
"""Plans that stay when their operators are gone, with memory for chunks (``RunCache`` bounds it): for the next one that
computes the same. Who maps a function over arrays makes a graph of it each time, and the memory takes a tenth of a
second."""

_helpers = Helpers("dmlvk-piece")


class _ChunkPlan:
    """How compiled operators that compute the same are run.

    Args:
        tiling: how their tensors are cut; ``None``: not at all.
    """

    def __init__(self, tiling: Tiling | None) -> None:
        self.tiling = tiling
        self._made: dict[int, CompiledOperator] = {}
        self._lock = threading.RLock()  # a signal's handler may run the same in the midst of it

    def chunk(self, compiled: CompiledOperator, tiling: Tiling, length: int) -> CompiledOperator:
        """What computes a chunk of so many elements along the axis that is cut."""
        made = self._made.get(length)
        if made is None:
            with self._lock:
                made = self._made.get(length)
                if made is None:
                    made = self._made[length] = compiled_chunk(compiled, tiling, length)
        return made


class ChunkRuns:
    """Runs compiled operators, those on large arrays in chunks where that changes no bit."""

    def __init__(self, engine: Engine, runs: RunCache) -> None:
        self._engine = engine
        self._runs = runs
        self._plans: WeakKeys[CompiledOperator, _ChunkPlan] = WeakKeys()
        self._kept: Recent[str, _ChunkPlan] = Recent(_KEPT_PLANS)
        self._lock = threading.RLock()  # likewise

    def clear(self) -> None:
        self._plans.clear()
        self._kept.clear()

    def execute(self, compiled: CompiledOperator, arrays: Arrays) -> Arrays:
        plan = self._plans.get(compiled)
        if plan is None:
            plan = self._plan_of(compiled)
            self._plans.keep(compiled, plan)
        tiling = plan.tiling
        # In the middle of a call nothing may wait for other threads.
        if tiling is None or not tiling.takes(arrays) or self._engine.afterwards.in_call():
            return self._runs.execute(compiled, arrays)
        chunks = list(tiling.chunks())
        made = {
            length: plan.chunk(compiled, tiling, length) for length in {chunk.end - chunk.first for chunk in chunks}
        }
        results = {
            point.name: result_memory.empty(tuple(point.tensor.sizes), point.tensor.data_type.numpy_dtype)
            for point in compiled.outputs
            if point.tensor is not None
        }
        parts = [
            functools.partial(self._run, made[chunk.end - chunk.first], tiling, chunk, arrays, results)
            for chunk in chunks
        ]
        _helpers.share(parts, min(MOST_AT_ONCE, (os.cpu_count() or 1) + 1), only_waits=True)
        return results

    def _plan_of(self, compiled: CompiledOperator) -> _ChunkPlan:
        tiling = tiling_of(compiled)
        if tiling is None:
            return _ChunkPlan(None)
        token = compiled.origin.token
        with self._lock:
            return self._kept.of(token, lambda: _ChunkPlan(tiling))

    def _run(
        self,
        compiled: CompiledOperator,
        tiling: Tiling,
        chunk: Chunk,
        arrays: Mapping[str, npt.NDArray[Any]],
        results: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        self._runs.execute(
            compiled,
            {name: tiling.part(name, array, chunk) for name, array in arrays.items()},
            {name: tiling.part(name, result, chunk) for name, result in results.items()},
            most_at_once=MOST_AT_ONCE,
        )
