"""Shaders in the form that suits Kompute, the driver, and what the device was found to do."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from dmlvk.errors import OutOfMemoryError
from dmlvk.runtime.work import Launch
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.flattening import flattened
from dmlvk.spirv.modules import uses_constant, with_constant, with_float_controls
from dmlvk.spirv.specialization import NAIVE_DRIVERS, on_processor, specialized

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine


class ShaderForms:
    """Those for one device. The engine's lock is held by whoever calls.

    Attributes:
        has_barriers, trials: the same.
    """

    def __init__(
        self,
        engine: Engine,  # the device, on which trials run
        has_barriers: bool,  # whether memory barriers stand between dispatches
        # for the ``constant_id`` of each Boolean that says what a device does: finds out whether it does so
        trials: Mapping[int, Callable[[Engine], bool]],
        float_controls: Collection[str] = (),  # what modules demand of FLOAT32 arithmetic, by Vulkan's names
    ) -> None:
        self.trials = dict(trials)
        self._info = engine.info
        self._engine = weakref.ref(engine)  # which frees itself when nobody else refers to it
        self.has_barriers = has_barriers
        self._float_controls = tuple(float_controls)
        self._found: dict[int, bool] = {}  # by the trials

    @property
    def are_compiled_slowly(self) -> bool:
        """Whether compiling a shader for other constants takes longer than most launches do."""
        return self._info.kind == "CPU" and self._info.driver not in NAIVE_DRIVERS

    def of(self, launch: Launch) -> tuple[bytes, tuple[int, ...]]:
        """The module, and the specialization constants that it has."""
        spirv = without_coherence(launch.spirv) if self.has_barriers else launch.spirv
        if self._float_controls:
            spirv = with_float_controls(spirv, self._float_controls)
        if self._info.driver in NAIVE_DRIVERS:
            return flattened(specialized(spirv, launch.specialization)), ()
        if self._info.kind == "CPU":
            spirv = on_processor(spirv)
        for constant_id in self.trials:
            if uses_constant(spirv, constant_id) and self.does(constant_id):
                spirv = with_constant(spirv, constant_id, 1)
        return spirv, launch.specialization

    def does(self, constant_id: int) -> bool:
        """Whether the device does what a constant says; tried when it is asked for the first time."""
        if constant_id not in self._found:
            engine = self._engine()
            assert engine is not None  # whoever asks is in the middle of a call
            self._found[constant_id] = True  # for the trial's own shader
            try:
                self._found[constant_id] = self.trials[constant_id](engine)
            except OutOfMemoryError:
                del self._found[constant_id]  # not known yet; the bits are the same without it
                return False
            except BaseException:
                del self._found[constant_id]
                raise
        return self._found[constant_id]
