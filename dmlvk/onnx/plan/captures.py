"""Runs of a model that come again: captured as one submission each, and found by what a caller gives.

A small graph takes a device less time than Python takes to see that it is the same graph again. So what a run consists
of is kept by the names, types and shapes of its inputs; a capture in the sense of CUDA's and Vulkan's: recorded once,
replayed with other contents.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlvk.arrays.tensor_bytes import copied, copy_elements
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array
from dmlvk.onnx.plan.execution import DeviceValue, Resident, writable
from dmlvk.onnx.plan.made_rounds import MadeRound
from dmlvk.onnx.plan.segments import Segment
from dmlvk.onnx.plan.states import State
from dmlvk.running.replay import Replay
from dmlvk.support.recent import Repetitions

if TYPE_CHECKING:
    from dmlvk.onnx.plan.engine import DeviceModel

_MOST = 64  # Captures of a model that are kept; those not used for longest go first

_TEXT = frozenset({str})

Signature: TypeAlias = tuple[object, ...]


def signature_of(names: object, given: object, kept: Sequence[str] = ()) -> Signature | None:
    """What tells runs apart by what a caller gives; ``None`` where it is more than names, arrays and device's values.

    Args:
        names: of the outputs; ``None``: all.
        given: the inputs.
        kept: the outputs that are to lie on the device.
    """
    if type(given) is not dict or not (names is None or type(names) in (list, tuple)):
        return None
    asked: Sequence[object] = names or ()  # type: ignore[assignment]  # checked above
    if not _TEXT.issuperset(map(type, asked)):
        return None
    signature: list[object] = [None if names is None else tuple(asked), tuple(kept)]
    for name, value in given.items():
        if type(value) is np.ndarray:
            signature.append((name, value.dtype, value.shape))
        elif type(value) is DeviceValue:
            signature.append((name, value.element, value.shape))
        else:
            return None
    return tuple(signature)


def only_segment(rounds: Sequence[MadeRound], *, checks_ranges: bool = False) -> Segment | None:
    """The graph that a run was; ``None`` where it was more, or contents decide what is computed, or are looked at.

    Args:
        checks_ranges: whether who asks looks at numbers itself, by the ranges of a plan for these sizes.
    """
    if len(rounds) != 1:
        return None
    plan = rounds[0].plan
    if plan.rest or plan.host or plan.contents or rounds[0].numbers or plan.fetched:
        return None
    if plan.assembly.ranges and not (checks_ranges and not rounds[0].is_open):
        return None
    return rounds[0].segment


class _Capture:
    """A run that was one graph, which it does not keep: whose plans go are the model's rounds."""

    def __init__(self, program: DeviceModel) -> None:
        self._made, self._placements = weakref.ref(program.last[0]), program.placements
        self._empty_inputs = program.last[0].empty_inputs  # of a graph with open sizes, arrays of the inputs' shapes

    def can_run(self, in_a_row: bool) -> bool:
        """Whether its graph is still there, and nothing better can be made of runs in a row."""
        return self._made() is not None

    def note_in(self, program: DeviceModel) -> None:
        """Notes what the run was, for who asks about the last one."""
        made = self._made()
        assert made is not None  # else it cannot run
        program.last, program.placements = [made], self._placements
        made.empty_inputs = self._empty_inputs


class HostCapture(_Capture):
    """A run between arrays of the host.

    Args:
        replay: what the device does.
        inputs: where the host writes each input.
        outputs: where it reads each output, in order; or the output itself, where it is the same in each run.
    """

    def __init__(
        self, program: DeviceModel, replay: Replay, inputs: Sequence[tuple[str, Array]], outputs: Sequence[Array]
    ) -> None:
        super().__init__(program)
        self._replay, self._inputs, self._outputs = replay, inputs, outputs

    def can_run(self, in_a_row: bool) -> bool:
        return super().can_run(in_a_row) and self._replay.is_there

    def run(self, given: Mapping[str, Any], targets: Mapping[str, DeviceValue]) -> list[Any]:
        """Runs on other contents; the outputs are new arrays."""
        results: list[Array] = []

        def fill() -> None:
            for name, target in self._inputs:
                copy_elements(target, given[name])
            self._replay.fill_fixed()

        def take() -> None:
            results.extend(map(copied, self._outputs))

        self._replay.run_between(fill, take)
        return results


class DeviceCapture(_Capture):
    """A run of which some values lie on the device, each time others.

    Args:
        outputs: in order the name of each; or the output itself, where it is the same in each run.
        kept: those that lie on the device.
        is_of_host: whether no value does.
    """

    def __init__(
        self,
        program: DeviceModel,
        segment: Segment,
        outputs: Sequence[Array | str],
        kept: Collection[str],
        is_of_host: bool,
    ) -> None:
        super().__init__(program)
        self._is_of_host = is_of_host
        self._sizes, self._outputs, self._kept = segment.last_sizes, outputs, kept

    def can_run(self, in_a_row: bool) -> bool:
        return not (in_a_row and self._is_of_host) and self._made() is not None

    def run(self, given: Mapping[str, Any], targets: Mapping[str, DeviceValue]) -> list[Any]:
        """Runs on other values; the outputs on the device are new ones, or the targets, and the others new arrays."""
        where = writable(targets, given)
        made = self._made()
        assert made is not None and made.segment is not None  # else it cannot run
        found, _ = made.segment.run(self._sizes, given.__getitem__, self._kept, targets=where)
        results: list[Any] = []
        for output in self._outputs:
            if not isinstance(output, str):
                results.append(output.copy())
            else:
                results.append(found[output] if output in self._kept else found[output].array())
        return results


Capture: TypeAlias = HostCapture | DeviceCapture


def captures() -> Repetitions[Signature, Capture]:
    return Repetitions(_MOST, lambda capture, in_a_row: capture.can_run(in_a_row))


def captured(
    program: DeviceModel,
    names: Sequence[str],
    given: Mapping[str, Any],
    arrays: Mapping[str, Any],
    state: State,
    kept: Collection[str],
    in_a_row: bool,
) -> Capture | None:
    """The run that was just done, captured; ``None`` where it was more than one graph between these values.

    What the host gives and takes goes with one submission where such runs come in a row, which takes a recording more.

    Args:
        given: the inputs.
        arrays: the same as the model takes them.
        state: the values that there are after it.
        kept: the outputs that are to lie on the device.
        in_a_row: whether the run before was such a run, too.
    """
    segment = only_segment(program.last)
    if segment is None or program.decoding is not None or not segment.uploads:
        return None
    read = [arrays.get(name) for name in segment.uploads]
    outputs = [found for name in names if (found := _source(segment, state, name)) is not None]
    if len(outputs) != len(names):
        return None
    is_of_host = all(map(_is_plain, read)) and not kept
    if is_of_host and in_a_row:
        return _host_capture(program, segment, arrays, outputs)
    on_host = [name for name in segment.uploads if not isinstance(arrays.get(name), DeviceValue)]
    if not all(_is_plain(arrays.get(name)) and arrays[name].dtype == given[name].dtype for name in on_host):
        return None
    return DeviceCapture(program, segment, outputs, kept, is_of_host)


def _source(segment: Segment, state: State, name: str) -> Array | str | None:
    """The name of an output that the graph gives; or the output itself, where it is the same in each run."""
    known, value = state.known.get(name), state.values.get(name)
    if isinstance(known, np.ndarray) and known.dtype.kind not in "OUS":
        return known
    if isinstance(value, DeviceValue):
        return name if segment.gives(name) else None
    if not isinstance(value, Resident) or not _is_same(segment.lying.get(name), value):
        return None
    return name if value.tensor.data_type.size_in_bits >= 8 else None


def _host_capture(
    program: DeviceModel, segment: Segment, arrays: Mapping[str, Any], sources: Sequence[Array | str]
) -> HostCapture:
    there, replay = segment.lying, segment.replay({source for source in sources if isinstance(source, str)})
    inputs = [
        (name, _elements(replay.inputs[name], arrays[name].dtype, arrays[name].shape)) for name in segment.uploads
    ]
    outputs = [
        source
        if not isinstance(source, str)
        else _elements(replay.outputs[source], NUMPY_TYPES[there[source].tensor.element], there[source].tensor.shape)
        for source in sources
    ]
    return HostCapture(program, replay, inputs, outputs)


def _is_plain(array: Any) -> bool:
    """Whether it is an array of the host whose elements lie on the device as they do there."""
    return isinstance(array, np.ndarray) and array.dtype in NUMPY_TYPES.values() and array.dtype.kind != "V"


def _is_same(a: Resident | None, b: Resident) -> bool:
    return a is not None and a.buffer is b.buffer


def _elements(host_bytes: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return host_bytes[:size].view(dtype).reshape(shape)
