"""What runs of a part of a graph have in common is found out once: a run that is like an earlier one is one submission.

A small graph takes a device less time than Python takes to see that it is the same graph again. So what a run consists
of is kept by what ONNX Runtime tells of its inputs: their types and shapes, and of a decoder's caches where they lie.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import DmlError
from dmlvk.onnx.nodes.ranges import Range
from dmlvk.onnx.nodes.values import DATA_TYPES, NUMPY_TYPES
from dmlvk.onnx.plan.captures import only_segment
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.segments import Segment
from dmlvk.onnxruntime.ahead import Ahead
from dmlvk.onnxruntime.kept_rows import KeptRows
from dmlvk.onnxruntime.memory import Content, size_of
from dmlvk.running.replay import Replay
from dmlvk.support.recent import Repetitions

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.onnx.decoding.caches import Cache, Lengths
    from dmlvk.onnx.decoding.decoder_runs import DecoderRun, Decoding
    from dmlvk.onnx.plan.engine import DeviceModel

ADDRESS, ELEMENT, MEMORY, RANK, SIZES = range(5)
"""Columns of a table of inputs: address, element type, whether it is on the device, how many dimensions; these."""

Table = npt.NDArray[np.int64]  # What provider.c tells of a run's inputs, a row for each

_MOST = 8  # Runs of a part that are kept


@dataclasses.dataclass(frozen=True, eq=False)
class HostInput:
    """An input that the host writes: its row, its name, and its bytes."""

    row: int
    name: str
    size: int
    checked: np.dtype[Any] | None  # the type of its numbers, where they are looked at


@dataclasses.dataclass(frozen=True, eq=False)
class DecoderCaches:
    """A decoder's caches, as long as they lie where they do."""

    decoding: Decoding  # the decoder
    run: DecoderRun  # the run that appended to them last
    lengths: Sequence[tuple[Lengths, Sequence[Cache]]]  # what is to be checked of it
    contents: Sequence[Content]  # what lies at their places
    rows: npt.NDArray[np.intp]  # of the table, those of the caches
    indices: npt.NDArray[np.intp]  # the numbers of their outputs
    others: Sequence[tuple[int, str]]  # rows and names of the other inputs

    @property
    def are_there(self) -> bool:
        """Whether nobody has written or freed them otherwise."""
        return all(content.is_there for content in self.contents)


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat:
    replay: Replay  # what runs
    given: Sequence[HostInput]  # the inputs that the host writes; of a decoder none: they are counted
    read: Mapping[str, tuple[int, int]]  # the outputs that it reads, with their numbers and bytes
    # the outputs that the device keeps, with their numbers and where it has them; no caches
    lent: Mapping[str, tuple[int, Resident]]
    shapes: tuple[tuple[int, ...], ...]  # of all outputs, in order
    caches: DecoderCaches | None = None  # of a decoder
    # runs the steps of one that gives the logits of one token; ``None``: the run is no such step
    ahead: Ahead | None = None
    ranges: tuple[Range, ...] = ()  # from where to where numbers among its inputs may go

    def is_there(self) -> bool:
        """Whether its memory is, and nobody has written the caches otherwise."""
        return self.replay.is_there and (self.caches is None or self.caches.are_there)


class Repeats:
    """The runs of a part that were noted. Bounded; those not used for longest go first.

    Args:
        inputs: for each input its name; ``None`` for one that is not needed.
    """

    def __init__(self, program: DeviceModel, inputs: Sequence[str | None], outputs: Sequence[str]) -> None:
        self._program = program
        self._inputs, self._outputs = list(inputs), list(outputs)
        decoding = program.decoding
        pasts = set() if decoding is None else set(decoding.cache_outputs.values())
        self._caches = np.array([row for row, name in enumerate(inputs) if name in pasts], np.intp)
        first, last = (self._caches[0], self._caches[-1]) if self._caches.size else (0, -1)
        self._block = slice(first, last + 1) if last - first + 1 == self._caches.size else None
        self._kept: Repetitions[bytes, Repeat] = Repetitions(_MOST, lambda repeat, _: repeat.is_there())

    def clear(self) -> None:
        self._kept.clear()

    def _key(self, table: Table) -> bytes:
        if not self._caches.size:
            return table[:, ELEMENT:].tobytes()
        return table[self._caches if self._block is None else self._block].tobytes()

    def of(self, table: Table, read: Set[str]) -> Repeat | None:
        """The run that one with such inputs repeats.

        Args:
            read: the outputs that the host reads.
        """
        repeat = self._kept.find(self._key(table))
        return repeat if repeat is not None and repeat.read.keys() == read else None

    def note(
        self, table: Table, arrays: Mapping[str, Any], contents: Mapping[str, Content], read: Collection[str]
    ) -> None:
        """Notes the run that was just done, where the same comes a second time and can be repeated.

        Args:
            contents: of a decoder, what lies at its caches' places.
            read: the outputs that the host reads.
        """
        key, kept = self._key(table), frozenset(read)
        known = self._kept.find(key)
        if known is not None and known.caches is None and known.read.keys() == kept:
            return  # its inputs lie on the device

        def made(in_a_row: bool) -> Repeat | None:
            return self._made(table, arrays, contents, kept) if kept and in_a_row else None

        self._kept.note(key, made, self._shapes(arrays))

    def _shapes(self, arrays: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
        """Of a decoder, the shapes of all that is more than counted: how many tokens, say."""
        decoding = self._program.decoding
        if decoding is None:
            return ()
        return tuple(
            getattr(value, "shape", ()) for name, value in arrays.items() if name not in decoding.counted_inputs
        )

    def _made(
        self, table: Table, arrays: Mapping[str, Any], contents: Mapping[str, Content], read: frozenset[str]
    ) -> Repeat | None:
        segment = only_segment(self._program.last, checks_ranges=True)
        if segment is None:
            return None
        tensors = segment.lying
        if self._caches.size:
            if self._program.last[0].is_open:
                return None
            return self._made_for_decoder(segment, tensors, arrays, contents, read)
        if not all(name in tensors for name in self._outputs) or not _are_whole_bytes(tensors.values()):
            return None
        ranges = self._program.last[0].plan.assembly.ranges.values()
        looked_at = self._program.index_checks.inputs | {of.name for of in ranges}
        given = []
        for row, name in enumerate(self._inputs):
            if name in segment.uploads:
                element, shape = int(table[row, ELEMENT]), table[row, SIZES : SIZES + int(table[row, RANK])]
                if DATA_TYPES[element].size_in_bits < 8:
                    return None
                dtype = NUMPY_TYPES[element]
                checked = dtype if name in looked_at else None
                given.append(HostInput(row, name, int(np.prod(shape)) * dtype.itemsize, checked))
        if len(given) != len(segment.uploads):
            return None
        shapes = {name: tensors[name].tensor.shape for name in self._outputs}
        return self._repeat(segment.replay(read), given, read, tensors, shapes, None)

    def _repeat(
        self,
        replay: Replay,
        given: Sequence[HostInput],
        read: frozenset[str],
        tensors: Mapping[str, Resident],
        shapes: Mapping[str, tuple[int, ...]],
        caches: DecoderCaches | None,
    ) -> Repeat:
        there = [(index, name, tensors[name]) for index, name in enumerate(self._outputs) if name in tensors]
        of_host = {
            name: (index, size_of(of.tensor.element, of.tensor.shape)) for index, name, of in there if name in read
        }
        lent = {name: (index, of) for index, name, of in there if name not in read}
        ranges = tuple(self._program.last[0].plan.assembly.ranges.values())
        of_outputs = tuple(shapes[name] for name in self._outputs)
        return Repeat(replay, given, of_host, lent, of_outputs, caches, ranges=ranges)

    def _ahead(
        self, repeat: Repeat, tensors: Mapping[str, Resident], caches: DecoderCaches, memory: Mapping[str, TensorMemory]
    ) -> Ahead | None:
        """What begins a decoder's next step; ``None`` where the run gives more than the logits of one token."""
        name, *more = repeat.read
        tensor = tensors[name].tensor
        is_one = math.prod(tensor.shape) == tensor.shape[-1] and NUMPY_TYPES[tensor.element].kind == "f"
        if more or repeat.lent or not is_one:
            return None
        pasts = {str(self._inputs[row]) for row in caches.rows}
        arrays = {name: array for name, array in caches.run.arrays.items() if name not in pasts}
        checks = self._program.index_checks

        def row_of(given: Mapping[str, npt.NDArray[Any]]) -> int | None:
            try:
                checks.check(given)
            except DmlError:  # fewer embeddings than logits
                return None
            return caches.decoding.row_of_step(given, caches.lengths)

        rows = KeptRows(self._program.device, list(memory.values()))
        return Ahead(repeat.replay, arrays, name, NUMPY_TYPES[tensor.element], row_of, rows, caches.contents)

    def _made_for_decoder(
        self,
        segment: Segment,
        tensors: Mapping[str, Resident],
        arrays: Mapping[str, Any],
        contents: Mapping[str, Content],
        read: frozenset[str],
    ) -> Repeat | None:
        decoding, made = self._program.decoding, self._program.last[0]
        run = None if decoding is None else decoding.taken(arrays)
        if decoding is None or run is None or not _are_whole_bytes(tensors.values()):
            return None
        if any(of.scores for of in made.plan.assembly.lengths):
            return None  # what shows them has other sizes in every run
        memory: dict[str, TensorMemory] = {}
        shapes = {name: there.tensor.shape for name, there in tensors.items()}
        for cache in run.caches:
            name, there = cache.pair.present, contents.get(cache.pair.present)
            if cache.is_growing or there is None or not isinstance(cache.given, DeviceValue) or there.value is None:
                return None
            if there.value.on_device.storage is not cache.given.on_device.storage:
                return None
            memory[name] = cache.given.on_device
            batch, heads, _, size = cache.shape
            shapes[name] = (batch, heads, cache.shown, size)
        if not all(name in shapes for name in self._outputs) or not run.arrays.keys() >= set(segment.uploads):
            return None
        presents = {past: self._outputs.index(present) for present, past in decoding.cache_outputs.items()}
        caches = DecoderCaches(
            decoding,
            run,
            decoding.lengths_in(run, made.plan.assembly.lengths),
            list(contents.values()),
            self._caches,
            np.array([presents[str(self._inputs[row])] for row in self._caches], np.intp),
            [(row, name) for row, name in enumerate(self._inputs) if name is not None and name not in presents],
        )
        repeat = self._repeat(segment.replay(read, memory), (), read, tensors, shapes, caches)
        return dataclasses.replace(repeat, ahead=self._ahead(repeat, tensors, caches, memory))


def _are_whole_bytes(tensors: Collection[Resident]) -> bool:
    return all(there.tensor.data_type.size_in_bits >= 8 for there in tensors)
