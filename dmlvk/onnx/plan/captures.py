"""Runs of a model that come again: captured as one submission each, and found by what a caller gives.

A small graph takes a device less time than Python takes to see that it is the same graph again. So what a run consists
of is kept by the names, types and shapes of its inputs; a capture in the sense of CUDA's and Vulkan's: recorded once,
replayed with other contents.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlvk.arrays.tensor_bytes import copied, copy_elements
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.made_rounds import MadeRound
from dmlvk.onnx.plan.round_plans import Placement
from dmlvk.onnx.plan.segments import Segment
from dmlvk.onnx.plan.states import State
from dmlvk.running.replay import Replay
from dmlvk.support.recent import Repetitions
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.onnx.plan.engine import DeviceModel
    from dmlvk.runtime.kompute import Recording

_MOST = 8  # Captures of a model that are kept; those not used for longest go first

Signature: TypeAlias = tuple[object, ...]


def signature_of(names: object, feed: object) -> Signature | None:
    """What tells runs apart by what a caller gives; ``None`` where it is more than names and arrays of the host.

    Args:
        names: of the outputs; ``None``: all.
    """
    if type(feed) is not dict or not (names is None or type(names) in (list, tuple)):
        return None
    asked: Sequence[object] = names or ()  # type: ignore[assignment]  # checked above
    if any(type(name) is not str for name in asked):
        return None
    signature: list[object] = [None if names is None else tuple(asked)]
    for name, array in feed.items():
        if type(array) is not np.ndarray:
            return None
        signature.append((name, array.dtype, array.shape))
    return tuple(signature)


def only_segment(rounds: Sequence[MadeRound], *, checks_ranges: bool = False) -> Segment | None:
    """The graph that a run was; ``None`` where it was more, or contents decide what is computed, or are looked at.

    Args:
        checks_ranges: whether who asks looks at numbers itself, by the ranges of a plan for these sizes.
    """
    if len(rounds) != 1:
        return None
    plan = rounds[0].plan
    if plan.rest or plan.host or plan.contents or plan.fetched:
        return None
    if plan.assembly.ranges and not (checks_ranges and not rounds[0].is_open):
        return None
    return rounds[0].segment


@dataclasses.dataclass(frozen=True, eq=False)
class Capture:
    replay: Replay  # what the device does
    rounds: Sequence[MadeRound]  # what the run was, for who asks about the last run
    placements: dict[int, Placement]  # likewise
    inputs: Sequence[tuple[str, Array]]  # where the host writes each input
    # where it reads each output, in order; or the output itself, where it is the same in each run
    outputs: Sequence[Array]
    empty_inputs: dict[str, Array]  # of a graph with open sizes, arrays of the inputs' shapes

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """Runs on other contents; the outputs are new arrays."""
        results: list[Array] = []

        def fill() -> None:
            for name, target in self.inputs:
                copy_elements(target, feed[name])
            self.replay.fill_fixed()

        def take() -> None:
            results.extend(map(copied, self.outputs))

        self.replay.run_between(fill, take)
        return results

    def note_in(self, program: DeviceModel) -> None:
        program.last, program.placements = list(self.rounds), self.placements
        self.rounds[0].empty_inputs = self.empty_inputs


@dataclasses.dataclass(frozen=True, eq=False)
class BoundCapture:
    """A run between values that all lie on the device, which can be submitted again."""

    names: tuple[str, ...]  # of the inputs, and then of the outputs
    arrays: tuple[weakref.ref[TensorMemory], ...]  # what they are, which the capture does not keep
    recording: Recording  # what is submitted
    rounds: Sequence[MadeRound]  # as for :class:`Capture`
    placements: dict[int, Placement]  # likewise

    def is_for(self, names: tuple[str, ...], values: Sequence[DeviceValue]) -> bool:
        """Whether a run between these values is the same, and everything is still there."""
        segment = self.rounds[0].segment
        if names != self.names or segment is None or not segment.is_there:
            return False
        for value, array in zip(values, self.arrays, strict=True):
            if value.on_device is not array() or value.on_device.is_closed:
                return False
        return True

    def submit(self, program: DeviceModel, outputs: Iterable[DeviceValue]) -> None:
        """Runs; waits for nothing. What is still to be computed from what outputs hold is computed before."""
        for value in outputs:
            value.on_device.storage.settle()
        program.device.engine.submit(self.recording)
        program.last, program.placements = list(self.rounds), self.placements


def bound_capture(
    program: DeviceModel, inputs: Mapping[str, DeviceValue], outputs: Mapping[str, DeviceValue]
) -> BoundCapture | None:
    """The run that was just done between these values; ``None`` where it was more than one graph between them."""
    segment = only_segment(program.last)
    if segment is None or segment.recording is None or program.decoding is not None or not segment.are_given(inputs):
        return None
    arrays = [value.on_device for value in (*inputs.values(), *outputs.values())]
    if not all(array.fits(TensorDesc(array.data_type, array.shape)) for array in arrays):  # it was copied
        return None
    if not all(segment.recording.uses(value.on_device.storage.allocation) for value in outputs.values()):
        return None
    return BoundCapture(
        (*inputs, *outputs), tuple(map(weakref.ref, arrays)), segment.recording, list(program.last), program.placements
    )


def captures() -> Repetitions[Signature, Capture]:
    return Repetitions(_MOST, lambda capture: capture.replay.is_there)


def captured(program: DeviceModel, names: Sequence[str], arrays: Mapping[str, Any], state: State) -> Capture | None:
    """The run that was just done, captured; ``None`` where it was more than one graph between arrays of the host.

    Args:
        state: the values that there are after it.
    """
    segment = only_segment(program.last)
    if segment is None or program.decoding is not None:
        return None
    there = segment.lying
    if not segment.uploads or any(not _is_plain(arrays.get(name)) for name in segment.uploads):
        return None
    sources: list[Array | str] = []
    for name in names:
        known, value = state.known.get(name), state.values.get(name)
        if isinstance(known, np.ndarray) and known.dtype.kind not in "OUS":
            sources.append(known)
        elif (
            isinstance(value, Resident)
            and _is_same(there.get(name), value)
            and value.tensor.data_type.size_in_bits >= 8
        ):
            sources.append(name)
        else:
            return None
    read = {source for source in sources if isinstance(source, str)}
    replay = segment.replay(read)
    inputs = [
        (name, _elements(replay.inputs[name], arrays[name].dtype, arrays[name].shape)) for name in segment.uploads
    ]
    outputs = [
        source
        if not isinstance(source, str)
        else _elements(replay.outputs[source], NUMPY_TYPES[there[source].tensor.element], there[source].tensor.shape)
        for source in sources
    ]
    return Capture(replay, list(program.last), program.placements, inputs, outputs, program.last[0].empty_inputs)


def _is_plain(array: Any) -> bool:
    """Whether it is an array of the host whose elements lie on the device as they do there."""
    return isinstance(array, np.ndarray) and array.dtype in NUMPY_TYPES.values() and array.dtype.kind != "V"


def _is_same(a: Resident | None, b: Resident) -> bool:
    return a is not None and a.buffer is b.buffer


def _elements(host_bytes: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return host_bytes[:size].view(dtype).reshape(shape)
