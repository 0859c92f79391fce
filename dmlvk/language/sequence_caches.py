"""The caches and states of several sequences, side by side in the same memory, and a decoder's runs on some of them.

A run on one sequence, or on some that lie side by side, reads and writes their part of the memory where it lies. What a
sequence gets does not depend on the others: kernels compute each row of a batch as they compute it alone.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dmlvk import functions as F
from dmlvk.errors import DeviceRemovedError, InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.graphs.builder import Graph
from dmlvk.language.chain import ChainPart, StepChain, choice_part, counters, step_part
from dmlvk.language.decoder_graph import POSITIONS
from dmlvk.support.recent import Recent

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.graphs.plan import Plan
    from dmlvk.language.folder import ModelFolder
    from dmlvk.language.sampling import Sampler
    from dmlvk.onnx import InferenceSession, OrtValue
    from dmlvk.onnx.decoding.standing import StandingStep

_MOST_PARTS = 512  # Recorded steps of 64 sequences, of each, of two, four and so on, and drafted; and kinds of choices

_AXES_OF_TOKENS = 2  # Sequences and tokens

_UNKNOWN = -1  # What states have seen while they are changed, and after an error

Result = TypeVar("Result")


class SequenceCaches:
    """Caches of keys and values, and states that each token changes.

    A state has no places of single tokens: what stands there is told by how many it has seen, and it begins anew where
    a text does not go on from these.

    Attributes:
        folder: what the decoder is.
        max_length: tokens that there is room for in each sequence.
        has_states: whether there are states.
        takes_drafts: whether a run gives the logits behind several of its tokens.
    """

    def __init__(
        self,
        session: InferenceSession,
        folder: ModelFolder,
        # by the names of their inputs and outputs, [sequences, heads, tokens, size]; of states [sequences, …]
        arrays: Mapping[tuple[str, str], Array],
        max_length: int,
        states: Collection[tuple[str, str]] = (),  # the names of those that are states
    ) -> None:
        self._states = {names: array for names, array in arrays.items() if names in states}
        self._seen = [0] * next((array.shape[0] for array in self._states.values()), 0)
        self._moves: dict[int, CompiledGraph] = {}
        self.has_states = bool(self._states)
        self._session, self.folder, self._arrays, self.max_length = session, folder, arrays, max_length
        shapes = [item.shape for item in session.get_inputs() if item.name == folder.names.position_ids]
        self._has_positions = bool(shapes)
        # of places in pictures some models have several for each token, which in a text are the same
        grids = [shape[0] for shape in shapes if shape and len(shape) > _AXES_OF_TOKENS]
        self._grids = [size for size in grids if isinstance(size, int)]
        self.takes_drafts = any(item.name == POSITIONS for item in session.get_inputs())
        self._parts: dict[tuple[int, int], dict[tuple[str, str], OrtValue]] = {}
        self._steps: dict[tuple[int, int, int], StandingStep] = {}
        self._growing: dict[Plan, list[str]] = {}  # what grows from step to step, where there was more than one
        self._parts_of_chains: Recent[object, ChainPart] = Recent(_MOST_PARTS)
        self._copy: CompiledGraph | None = None
        self._lock, self._thread = threading.Lock(), 0
        self._is_closed = False

    def close(self) -> None:
        """Lets the caches go, when nobody runs."""

        def close() -> None:
            self._is_closed, self._arrays, self._parts, self._steps, self._states = True, {}, {}, {}, {}
            self._parts_of_chains.clear()
            self._growing.clear()

        self.exclusively(close)

    def check_open(self) -> None:
        """Looks whether the caches are there.

        Raises:
            DeviceRemovedError: they were closed.
        """
        if self._is_closed:
            raise DeviceRemovedError(f"{self.folder.path}: the model was closed")

    def exclusively(self, work: Callable[[], Result]) -> Result:
        """Does work while no other thread uses the caches.

        Raises:
            InvalidArgumentError: the same thread is at work here already, and was interrupted by a signal's handler.
        """
        thread = threading.get_ident()
        if self._thread == thread and self._lock.locked():
            raise InvalidArgumentError(
                f"{self.folder.path}: a signal's handler asks the model for something in the middle of its work"
            )
        with self._lock:
            self._thread = thread
            try:
                return work()
            finally:
                self._thread = 0

    def run(
        self, first: int, tokens: Sequence[Sequence[int]], pasts: Sequence[int], wanted: Sequence[str], kept: int = 1
    ) -> list[OrtValue]:
        """Runs tokens of sequences that lie side by side.

        Args:
            tokens: of each, as many of one as of another.
            pasts: how many tokens stand before, of each.
            kept: the last tokens behind which logits are wanted.

        Returns:
            The outputs that are wanted.
        """
        self.check_open()
        binding = self._session.io_binding()
        for name, value in self._feed(tokens, pasts, kept).items():
            binding.bind_cpu_input(name, value)
        for name in wanted:
            binding.bind_output(name, "dml")
        presents = list(wanted)
        for (past, present), cache in self._part(first, len(tokens)).items():
            binding.bind_ortvalue_input(past, cache)
            if (past, present) in self._states:  # which is read where it would be written
                binding.bind_output(present, "dml")
            else:
                binding.bind_ortvalue_output(present, cache)
            presents.append(present)
        places = range(first, first + len(tokens)) if self.has_states else range(0)
        goes_on = [self._seen[place] == past for place, past in zip(places, pasts, strict=False)]
        for place in places:
            self._seen[place] = _UNKNOWN
        binding.run()
        found = dict(zip(presents, binding.get_outputs(), strict=True))
        if self.has_states:
            self._move([found[present].array() for _, present in self._states], first, len(tokens))
        for place, before, is_next in zip(places, pasts, goes_on, strict=False):
            self._seen[place] = before + len(tokens[0]) if is_next else _UNKNOWN
        return [found[name] for name in wanted]

    def logits(self, first: int, tokens: Sequence[int], pasts: Sequence[int]) -> Array:
        """Runs a token of each of some sequences; the logits behind it, [sequences, vocabulary]."""
        return self._logits(
            self.run(first, [[token] for token in tokens], pasts, [self.folder.names.logits]), len(tokens), 1
        )

    def drafted_logits(self, place: int, tokens: Sequence[int], past: int) -> Array:
        """Runs tokens of one sequence; the logits behind each of them, [tokens, vocabulary]."""
        found = self.run(place, [tokens], [past], [self.folder.names.logits], len(tokens))
        return self._logits(found, 1, len(tokens))

    def _logits(self, outputs: Sequence[OrtValue], rows: int, count: int) -> Array:
        logits: Array | None = outputs[0].array()
        if logits is None:
            raise UnsupportedError(f"{self.folder.model}: its logits are computed on the host")
        shape = (rows, count, self.folder.vocabulary)
        if logits.shape != shape:
            raise ModelFileError(f"{self.folder.model}: its logits are {list(logits.shape)}, not {list(shape)}")
        return logits.reshape(-1, shape[2])

    def stands(self, place: int, length: int) -> bool:
        """Whether the states of a sequence, if there are any, have seen so many tokens."""
        return not self.has_states or self._seen[place] == length

    def clear(self, place: int) -> None:
        """Lets the states of a sequence begin anew."""
        self.check_open()
        self._seen[place] = _UNKNOWN
        self._move(
            [np.zeros((1, *each.shape[1:]), each.data_type.numpy_dtype) for each in self._states.values()], place, 1
        )
        self._seen[place] = 0

    def _move(self, new: Sequence[Any], first: int, count: int) -> None:
        """Writes states of sequences that lie side by side."""
        if any(each is None for each in new):
            raise UnsupportedError(f"{self.folder.model}: its states are computed on the host")
        arrays = {f"cache_{number}": array for number, array in enumerate(self._states.values())}
        if count not in self._moves:
            self._moves[count] = self._copies(arrays, count)
        out = {f"{name}_copied": array[first : first + count] for name, array in arrays.items()}
        self._session.device.run(self._moves[count], dict(zip(arrays, new, strict=True)), out=out)

    def _copies(self, arrays: Mapping[str, Array], count: int) -> CompiledGraph:
        """What copies so many sequences of each to an output of its name with ``_copied`` behind it."""
        graph = Graph(self._session.device)
        inputs = {name: graph.input(name, array.data_type, (count, *array.shape[1:])) for name, array in arrays.items()}
        outputs: dict[str, Any] = {f"{name}_copied": F.identity(point) for name, point in inputs.items()}
        return graph.compile(**outputs)

    def copy(self, source: int, target: int) -> None:
        """Copies all of a sequence's keys and values, and its states, to another one's place."""
        self.check_open()
        names = {f"cache_{number}": array for number, array in enumerate(self._arrays.values())}
        if self._copy is None:
            self._copy = self._copies(names, 1)
        feed = {name: array[source : source + 1] for name, array in names.items()}
        out = {f"{name}_copied": array[target : target + 1] for name, array in names.items()}
        if self.has_states:
            self._seen[target] = _UNKNOWN
        self._session.device.run(self._copy, feed, out=out)
        if self.has_states:
            self._seen[target] = self._seen[source]

    def chain(
        self, first: int, tokens: Sequence[Sequence[int]], pasts: Sequence[int], sampler: Sampler, count: int
    ) -> StepChain | None:
        """Steps that follow one another on the device; ``None`` where a step depends on more.

        Args:
            tokens: with which each begins: one; or several of one sequence for a single step, each of which has its
                own row in the sampler.
            pasts: how many tokens stand before, of each.
        """
        self.check_open()
        if self.has_states:  # steps that are under way when a text ends would leave its states behind its tokens
            return None
        kept = len(tokens[0])
        feeds = [
            self._feed(tokens, [past + more for past in pasts], kept) for more in (0, min(1, count - 1), count - 1)
        ]
        now = self._standing(first, len(tokens), kept, feeds[0])
        then, at_last = (None if now is None else now.again(feed) for feed in feeds[1:])
        if now is None or then is None or at_last is None:
            return None  # from some length on another branch may be taken
        names = self.folder.names
        growing = self._growing.get(now.plan, []) if count == 1 else counters(now.given, then, names.input_ids)
        if growing is None:
            return None
        if count > 1:
            self._growing[now.plan] = growing
        choices, device = sampler.choices, self._session.device
        chooser = choices.chooser(sampler.kind, {name: now.given[name] for name in growing})
        step = self._parts_of_chains.of(
            (now.plan, first, *growing), lambda: step_part(device, choices.memory, now, names.input_ids, chooser)
        )
        choice = self._parts_of_chains.of(
            (now.plan, chooser.graph), lambda: choice_part(device, choices.memory, now, names.logits, chooser)
        )
        every = [token for own in tokens for token in own]
        return StepChain(choices, now, names.input_ids, chooser, (step, choice), every, sampler.values)

    def _standing(self, first: int, rows: int, kept: int, feed: Mapping[str, Any]) -> StandingStep | None:
        """A step as it lies on the device; what is the same for all lengths is found out once."""
        step = self._steps.get((first, rows, kept))
        if step is not None and not any(buffer.is_closed for buffer in step.buffers):
            given = step.again(feed)
            if given is not None:
                return dataclasses.replace(step, given={name: given[name] for name in step.given})
        part = self._part(first, rows)
        of_caches = {past: cache for (past, _), cache in part.items()}
        step = self._session.standing_step({**feed, **of_caches}, {name: cache for (_, name), cache in part.items()})
        if step is not None:
            self._steps[first, rows, kept] = step
        return step

    def _part(self, first: int, count: int) -> dict[tuple[str, str], OrtValue]:
        """The caches of sequences that lie side by side."""
        from dmlvk.onnx import OrtValue

        if (first, count) not in self._parts:
            self._parts[first, count] = {
                names: OrtValue.ortvalue_from_array(array[first : first + count])
                for names, array in self._arrays.items()
            }
        return self._parts[first, count]

    def _feed(self, tokens: Sequence[Sequence[int]], pasts: Sequence[int], kept: int = 1) -> dict[str, Any]:
        """The inputs of tokens behind so many others, but for the caches."""
        names, count = self.folder.names, len(tokens[0])
        before = np.array(pasts, np.int64)[:, None]
        feed: dict[str, Any] = {
            names.input_ids: np.array(tokens, np.int64),
            names.attention_mask: (np.arange(max(pasts) + count) < before + count).astype(np.int64),
        }
        if self.takes_drafts:
            feed[POSITIONS] = np.arange(-kept, 0, dtype=np.int64)
        if self._has_positions:
            positions = before + np.arange(count, dtype=np.int64)
            feed[names.position_ids] = np.broadcast_to(positions, (*self._grids, *positions.shape))
        return feed
