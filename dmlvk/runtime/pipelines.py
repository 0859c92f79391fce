"""Compiled shaders, and what they are bound to.

Kompute has one object for both, the Algorithm. The changed package (``scripts/kompute/``) makes one that
shares another's pipeline, so that a shader is compiled once for all buffers, launch sizes and parameters; with the
unchanged package it is compiled for each. The changed one also compiles the shaders of a recording side by side.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.runtime.work import Allocation, Launch

MOST_BOUND = 512  # Algorithms that are kept for the next recording

MOST_COMPILED = 256  # Pipelines that are kept for the next algorithm

_CREATIONS_BETWEEN_CLEANINGS = 256

MOST_TOGETHER = 64
"""Pipelines that are compiled in one call, which nothing interrupts: a fraction of a second for a GPU's driver."""

ShaderOf = Callable[[Launch], tuple[bytes, tuple[int, ...]]]

Binder = Callable[[Sequence[int], Sequence[Allocation]], Any]
"""Makes Kompute's algorithm of one pipeline for a number of work groups, bound to memory."""


class Pipelines:
    """Those of one device. The engine's lock is held by whoever calls.

    Args:
        side_by_side: whether the driver compiles when a pipeline is made, so that several threads are of use.
    """

    def __init__(self, manager: Any, side_by_side: bool = False) -> None:
        self._manager = manager
        self._is_sharing = hasattr(manager, "algorithm_like")
        self._most_together = MOST_TOGETHER if side_by_side and hasattr(manager, "algorithms") else 1
        self._bound: collections.OrderedDict[tuple[Any, ...], Any] = collections.OrderedDict()
        self._compiled: collections.OrderedDict[tuple[Any, ...], Any] = collections.OrderedDict()
        self._created = 0
        self.compilations = 0  # how often a shader was compiled

    def __len__(self) -> int:
        return len(self._bound)

    def objects(self) -> list[Any]:
        """Kompute's objects, those that were not used for longest first."""
        return [*self._compiled.values(), *self._bound.values()]

    def of(self, launch: Launch, push: npt.NDArray[np.uint32], shader: ShaderOf, ahead: Iterable[Launch] = ()) -> Any:
        """The algorithm for a launch.

        Args:
            launch: which bindings, and how much work.
            push: its push constants, of which only the number counts.
            shader: asked for the module in the form that suits the driver, and its specialization constants.
            ahead: the launches after it: where its shader has to be compiled, theirs are compiled beside it.
        """
        key = (launch.spirv, launch.specialization, len(push), launch.work_groups, launch.allocations)
        algorithm = self._bound.get(key)
        if algorithm is None:
            algorithm = self._bound[key] = self._bind(launch, push, shader, ahead)
            if len(self._bound) > MOST_BOUND:
                # Recordings that use it keep it alive; it is destroyed with the last of them.
                self._bound.popitem(last=False)
        self._bound.move_to_end(key)
        return algorithm

    def binder(
        self, launch: Launch, push: npt.NDArray[np.uint32], shader: ShaderOf, ahead: Iterable[Launch] = ()
    ) -> Binder:
        """What makes algorithms for launches like this one, none of which are kept here."""
        if not self._is_sharing:
            return lambda groups, allocations: self.of(
                dataclasses.replace(launch, work_groups=_three(groups), allocations=tuple(allocations)), push, shader
            )
        compiled = self._pipeline(launch, push, shader, ahead)

        def bound(groups: Sequence[int], allocations: Sequence[Allocation]) -> Any:
            self._note_creation()
            return self._manager.algorithm_like(compiled, [each.tensor for each in allocations], groups)

        return bound

    def _bind(self, launch: Launch, push: npt.NDArray[np.uint32], shader: ShaderOf, ahead: Iterable[Launch]) -> Any:
        if not self._is_sharing:
            return self._compile(launch, push, shader)
        return self.binder(launch, push, shader, ahead)(launch.work_groups, launch.allocations)

    def _note_creation(self) -> None:
        self._created += 1
        if self._created % _CREATIONS_BETWEEN_CLEANINGS == 0:
            self._manager.clear()  # it notes whatever it has made, also what is gone

    def _pipeline(self, launch: Launch, push: npt.NDArray[np.uint32], shader: ShaderOf, ahead: Iterable[Launch]) -> Any:
        """An algorithm whose pipeline others share."""
        key = _pipeline_of(launch)
        if key not in self._compiled:
            missing = {key: launch}
            for other in ahead if self._most_together > 1 else ():
                if _pipeline_of(other) not in self._compiled:
                    missing.setdefault(_pipeline_of(other), other)
                    if len(missing) == self._most_together:
                        break
            # Bound to these tensors like any other, but never used: they may outlive them.
            if len(missing) == 1:
                self._compiled[key] = self._compile(launch, push, shader)
            else:
                made = self._compile_together(list(missing.values()), shader)
                self._compiled.update(reversed(list(zip(missing, made, strict=True))))  # the first is let go of last
            while len(self._compiled) > MOST_COMPILED:
                self._compiled.popitem(last=False)  # the pipeline goes with the last algorithm that shares it
        self._compiled.move_to_end(key)
        return self._compiled[key]

    def _compile(self, launch: Launch, push: npt.NDArray[np.uint32], shader: ShaderOf) -> Any:
        self.compilations += 1
        spirv, specialization = shader(launch)
        return self._manager.algorithm(
            [allocation.tensor for allocation in launch.allocations],
            spirv,
            launch.work_groups,
            np.array(specialization, np.uint32),
            push,
        )

    def _compile_together(self, launches: Sequence[Launch], shader: ShaderOf) -> list[Any]:
        """As :meth:`_compile`, several by all cores: other threads of this process run meanwhile."""
        self.compilations += len(launches)
        forms = [shader(launch) for launch in launches]
        made: list[Any] = self._manager.algorithms(
            [[allocation.tensor for allocation in launch.allocations] for launch in launches],
            [spirv for spirv, _ in forms],
            [launch.work_groups for launch in launches],
            [specialization for _, specialization in forms],
            [launch.push_constants for launch in launches],
        )
        return made

    def let_go(self, allocation: Allocation) -> None:
        """Destroys what binds an allocation."""
        for key in tuple(self._bound):
            if allocation in key[-1]:
                self._bound.pop(key).destroy()

    def destroy(self) -> None:
        for kept in (self._bound, self._compiled):
            while kept:
                kept.popitem()[1].destroy()

    def forget(self) -> None:
        """Lets go of everything without touching it."""
        self._bound.clear()
        self._compiled.clear()


def _three(groups: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = groups
    return x, y, z


def _pipeline_of(launch: Launch) -> tuple[Any, ...]:
    """What launches have in common that can share a pipeline."""
    return launch.spirv, launch.specialization, len(launch.push_constants), len(launch.allocations)
