"""Runs a compiled operator or graph on arrays, with buffers of its own: what ``Device.run`` does."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays import (
    checked_array,
    copied,
    copy_elements,
    elements_of,
    has_views,
    lay_out,
    logical_view,
    may_overlap,
)
from dmlvk.buffers import Buffer
from dmlvk.compilation import CompiledOperator, CompiledSingleOperator
from dmlvk.conversion import Casting
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.program import Place, Region
from dmlvk.recording import HazardTracker, KernelTime, scheduled
from dmlvk.runtime.kompute import Allocation, Engine, Recording
from dmlvk.tensors import TensorDesc
from dmlvk.weak_keys import WeakKeys

KEPT_RUN_BYTES = 64 * 2**20
"""Buffers of up to this size are kept between two runs of a compiled operator."""

KEPT_RUN_BYTES_IN_ALL = 256 * 2**20
"""Buffers of up to this size are kept by all compiled operators together; those not used for longest go first."""

Arrays = dict[str, npt.NDArray[Any]]


def checked_inputs(compiled: CompiledOperator, inputs: Mapping[str, Any], casting: Casting | None = None) -> Arrays:
    """An array for each input that the compiled operator has, OWNED_BY_DML or not.

    Raises:
        InvalidArgumentError: when one is missing, unknown, or does not fit its tensor.
    """
    return {
        member: checked_array(value, tensor, f"{compiled.name}: {member}", casting)
        for member, tensor, value in wanted_inputs(compiled, inputs)
    }


def wanted_inputs(compiled: CompiledOperator, inputs: Mapping[str, Any]) -> list[tuple[str, TensorDesc, Any]]:
    """The inputs that the compiled operator has: DirectML's name, tensor, and what was given.

    Raises:
        InvalidArgumentError: when the given ones have other names.
    """
    if not isinstance(inputs, Mapping):
        raise InvalidArgumentError(f"{compiled.name}: run takes the inputs as a mapping by member name; got {inputs!r}")
    wanted = {
        point.name: tensor
        for point, tensor in zip(compiled.inputs, compiled.input_tensors, strict=True)
        if tensor is not None
    }
    if any(member not in wanted for member in inputs):
        inputs = _by_directml_names(compiled, inputs, wanted)
    for member in wanted:
        if member not in inputs:
            raise InvalidArgumentError(f"{compiled.name}: {member}: an array is missing")
    return [(member, tensor, inputs[member]) for member, tensor in wanted.items()]


def _by_directml_names(
    compiled: CompiledOperator, inputs: Mapping[str, Any], wanted: Mapping[str, TensorDesc]
) -> dict[str, Any]:
    """The inputs of an operator that are given by Python names, ``input_tensor`` for ``InputTensor``, or by either."""
    fields = [field for field, _ in compiled.desc.inputs] if isinstance(compiled, CompiledSingleOperator) else []
    names = {field.attribute: field.name for field in fields if field.name in wanted}
    renamed: dict[str, Any] = {}
    for member, value in inputs.items():
        name = names.get(member, member) if isinstance(member, str) else member
        if name not in wanted:
            raise InvalidArgumentError(
                f"{compiled.name}: has no input {member!r} to give an array for; it has {list(wanted)}"
            )
        if name in renamed:
            raise InvalidArgumentError(f"{compiled.name}: {name} is given twice, by both of its names")
        renamed[name] = value
    return renamed


class Run:
    """A compiled operator with buffers of its own and everything recorded.

    It knows what it needs of the compiled operator, but does not keep it alive. An operator's persistent resource is
    written from the host here, as the initializer would write it.

    Args:
        engine: the device.
        compiled: what is run.
        timestamps: whether to note what each kernel takes.
    """

    def __init__(self, engine: Engine, compiled: CompiledOperator, *, timestamps: bool = False) -> None:
        self._engine = engine
        self._name = compiled.name
        self._inputs = [
            (point.name, tensor, compiled.owned.get(number, Region(Place.INPUT, number, 0, tensor.size_in_bytes)))
            for number, (point, tensor) in enumerate(zip(compiled.inputs, compiled.input_tensors, strict=True))
            if tensor is not None
        ]
        self._outputs = [
            (point.name, point.tensor, Region(Place.OUTPUT, number, 0, point.size_in_bytes))
            for number, point in enumerate(compiled.outputs)
            if point.tensor is not None
        ]
        self._constants: Buffer | None = compiled.constants
        self._labels = [step.label for step in compiled.steps]
        self._allocations: dict[tuple[Place, int], Allocation] = {}
        # Frees the memory when the compiled operator goes, and with it this object.
        self._release = weakref.finalize(self, _release_all, engine, self._allocations)
        try:
            self.recording = self._record(compiled, timestamps)
            self._input_views = [self._view(*member) for member in self._inputs]
            self._output_views = [self._view(*member) for member in self._outputs]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees the buffers."""
        self._input_views, self._output_views = [], []
        self._release()

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(allocation.size_in_bytes for allocation in self._allocations.values())

    def _record(self, compiled: CompiledOperator, timestamps: bool) -> Recording:
        sizes = {(Place.INPUT, number): point.size_in_bytes for number, point in enumerate(compiled.inputs)}
        sizes |= {(Place.OUTPUT, number): point.size_in_bytes for number, point in enumerate(compiled.outputs)}
        sizes[Place.TEMPORARY, 0] = compiled.temporary_resource_size
        sizes[Place.PERSISTENT, 0] = compiled.persistent_resource_size
        for key, size in sizes.items():
            if size:
                self._allocations[key] = self._engine.allocate((size + 3) & ~3, zeroed=False)
        uploaded = [self._allocations[region.place, region.index] for _, _, region in self._inputs]
        written = [self._allocations[region.place, region.index] for _, _, region in self._outputs]
        steps = scheduled(compiled.steps, self._locate, HazardTracker())
        return self._engine.record(
            [step.launch(self._engine) for step in steps],
            upload=list(dict.fromkeys(uploaded)),
            download=written,
            timestamps=timestamps,
        )

    def _locate(self, region: Region) -> tuple[Buffer | Allocation, int]:
        if region.place is Place.CONSTANTS:
            assert self._constants is not None  # what has steps that read them has them
            return self._constants, 0
        return self._allocations[region.place, region.index], 0

    def _view(self, member: str, tensor: TensorDesc, region: Region) -> _View:
        host_bytes = self._allocations[region.place, region.index].host_bytes[region.offset :]
        elements = logical_view(host_bytes, tensor) if has_views(tensor) else None
        return _View(member, tensor, host_bytes, elements, may_overlap(tensor))

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the last run; only where timestamps were asked for."""
        spans = self._engine.dispatch_spans(self.recording)
        return [KernelTime(label, *span) for label, span in zip(self._labels, spans, strict=True)]

    def execute(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Lays out the inputs, runs, and copies the outputs out."""
        self._engine.check_open()  # else the views lead nowhere
        for view in self._input_views:
            if view.overlaps or view.elements is None:
                lay_out(arrays[view.member], view.tensor, view.host_bytes, f"{self._name}: {view.member}")
            else:
                copy_elements(view.elements, arrays[view.member])
        if self._constants is None:
            self._engine.run_whole(self.recording)
        else:
            self._engine.run(self.recording)
        return {view.member: view.copied() for view in self._output_views}


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """A tensor of a :class:`Run` in the host's memory."""

    member: str
    tensor: TensorDesc
    host_bytes: npt.NDArray[np.uint8]
    elements: npt.NDArray[Any] | None  # none of a 4-bit type
    overlaps: bool

    def copied(self) -> npt.NDArray[Any]:
        """The elements, in C order."""
        return elements_of(self.host_bytes, self.tensor) if self.elements is None else copied(self.elements)


def _release_all(engine: Engine, allocations: Mapping[tuple[Place, int], Allocation]) -> None:
    for allocation in allocations.values():
        engine.release_later(allocation)


class RunCache:
    """The runs that are kept from one call to the next; large ones live for one call only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._runs: WeakKeys[CompiledOperator, Run] = WeakKeys()
        self._last: Callable[[], Run | None] = lambda: None

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[CompiledOperator]:
        return iter([compiled for compiled, _ in self._runs.items()])

    def clear(self) -> None:
        """Forgets all of them."""
        self._runs.clear()

    def execute(self, compiled: CompiledOperator, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Runs a compiled operator, with kept buffers where there are some."""
        run = self._runs.get(compiled)
        if run is None:
            return self._execute_first(compiled, arrays)
        if run is not self._last():  # the order in which they were used says which goes first
            self._runs.keep(compiled, run)
            self._last = weakref.ref(run)
        return run.execute(arrays)

    def _execute_first(self, compiled: CompiledOperator, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        run = Run(self._engine, compiled)
        if run.size_in_bytes > KEPT_RUN_BYTES:
            with contextlib.closing(run):
                return run.execute(arrays)
        self._runs.keep(compiled, run)
        self._last = weakref.ref(run)
        self._drop_old_ones()
        return run.execute(arrays)

    def _drop_old_ones(self) -> None:
        runs = self._runs.items()
        size = sum(run.size_in_bytes for _, run in runs)
        for compiled, run in runs[:-1]:
            if size <= KEPT_RUN_BYTES_IN_ALL:
                break
            self._runs.drop(compiled)
            run.close()
            size -= run.size_in_bytes
