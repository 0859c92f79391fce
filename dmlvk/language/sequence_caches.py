"""The caches of several sequences, side by side in the same memory, and a decoder's runs on some of them.

A run on one sequence, or on some that lie side by side, reads and writes their part of the memory where it lies. What a
sequence gets does not depend on the others: kernels compute each row of a batch as they compute it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dmlvk import functions as F
from dmlvk.errors import DeviceRemovedError, InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.graphs.builder import Graph
from dmlvk.language.chain import StepChain, counters

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.language.folder import ModelFolder
    from dmlvk.language.sampling import Sampler
    from dmlvk.onnx import InferenceSession, OrtValue

_MOST_CHAINS = 8
"""Of recorded steps that are kept, by sequences and kinds of choices."""

Result = TypeVar("Result")


class SequenceCaches:
    """Caches of keys and values.

    Attributes:
        folder: what the decoder is.
        max_length: tokens that there is room for in each sequence.

    Args:
        session: of the decoder.
        folder: as above.
        arrays: by the names of their inputs and outputs, [sequences, heads, tokens, size].
        max_length: as above.
    """

    def __init__(
        self,
        session: InferenceSession,
        folder: ModelFolder,
        arrays: Mapping[tuple[str, str], Array],
        max_length: int,
    ) -> None:
        self._session, self.folder, self._arrays, self.max_length = session, folder, arrays, max_length
        self._has_positions = any(item.name == folder.names.position_ids for item in session.get_inputs())
        self._parts: dict[tuple[int, int], dict[tuple[str, str], OrtValue]] = {}
        self._chains: dict[Any, StepChain] = {}
        self._copy: CompiledGraph | None = None
        self._lock, self._thread = threading.Lock(), 0
        self._is_closed = False

    def close(self) -> None:
        """Lets the caches go, when nobody runs."""

        def close() -> None:
            self._is_closed, self._arrays, self._parts, self._chains = True, {}, {}, {}

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
        self, first: int, tokens: Sequence[Sequence[int]], pasts: Sequence[int], wanted: Sequence[str]
    ) -> list[OrtValue]:
        """Runs tokens of sequences that lie side by side.

        Args:
            first: the first of them.
            tokens: of each, as many of one as of another.
            pasts: how many tokens stand before, of each.
            wanted: outputs.

        Returns:
            The outputs that are wanted.
        """
        self.check_open()
        binding = self._session.io_binding()
        for name, value in self._feed(tokens, pasts).items():
            binding.bind_cpu_input(name, value)
        for name in wanted:
            binding.bind_output(name, "dml")
        for (past, present), cache in self._part(first, len(tokens)).items():
            binding.bind_ortvalue_input(past, cache)
            binding.bind_ortvalue_output(present, cache)
        binding.run()
        return list(binding.get_outputs()[: len(wanted)])

    def logits(self, first: int, tokens: Sequence[int], pasts: Sequence[int]) -> Array:
        """Runs a token of each of some sequences; the logits behind it, [sequences, vocabulary]."""
        (found,) = self.run(first, [[token] for token in tokens], pasts, [self.folder.names.logits])
        logits: Array | None = found.array()
        if logits is None:
            raise UnsupportedError(f"{self.folder.model}: its logits are computed on the host")
        shape = (len(tokens), 1, self.folder.vocabulary)
        if logits.shape != shape:
            raise ModelFileError(f"{self.folder.model}: its logits are {list(logits.shape)}, not {list(shape)}")
        return logits[:, -1, :]

    def copy(self, source: int, target: int) -> None:
        """Copies all of a sequence's keys and values to another one's place."""
        self.check_open()
        names = {f"cache_{number}": array for number, array in enumerate(self._arrays.values())}
        if self._copy is None:
            graph = Graph(self._session.device)
            inputs = {name: graph.input(name, array.data_type, (1, *array.shape[1:])) for name, array in names.items()}
            outputs: dict[str, Any] = {f"{name}_copied": F.identity(point) for name, point in inputs.items()}
            self._copy = graph.compile(**outputs)
        feed = {name: array[source : source + 1] for name, array in names.items()}
        out = {f"{name}_copied": array[target : target + 1] for name, array in names.items()}
        self._session.device.run(self._copy, feed, out=out)

    def chain(
        self, first: int, tokens: Sequence[int], pasts: Sequence[int], sampler: Sampler, count: int
    ) -> StepChain | None:
        """Steps that follow one another on the device; ``None`` where a step depends on more.

        Args:
            first: the first of the sequences.
            tokens: with which each begins.
            pasts: how many tokens stand before, of each.
            sampler: chooses tokens.
            count: steps at most.
        """
        self.check_open()
        part = self._part(first, len(tokens))
        of_caches = {past: cache for (past, _), cache in part.items()}
        caches = {present: cache for (_, present), cache in part.items()}
        new = [[token] for token in tokens]
        feeds = [self._feed(new, [past + more for past in pasts]) for more in (0, 1, count - 1)]
        now, then, at_last = (self._session.standing_step({**feed, **of_caches}, caches) for feed in feeds)
        if now is None or then is None or at_last is None or at_last.plan is not now.plan:
            return None  # from some length on another branch may be taken
        names = self.folder.names
        growing = counters(now, then, names.input_ids)
        if growing is None:
            return None
        key = now.plan, first, sampler.kind
        chain = self._chains.pop(key, None)
        if chain is None:
            chooser = sampler.choices.chooser(sampler.kind, {name: now.given[name] for name in growing})
            chain = StepChain(self._session.device, now, names.input_ids, names.logits, chooser)
        self._chains[key] = chain
        if len(self._chains) > _MOST_CHAINS:
            del self._chains[next(iter(self._chains))]
        chain.start(now, tokens, sampler.values)
        return chain

    def _part(self, first: int, count: int) -> dict[tuple[str, str], OrtValue]:
        """The caches of sequences that lie side by side."""
        from dmlvk.onnx import OrtValue

        if (first, count) not in self._parts:
            self._parts[first, count] = {
                names: OrtValue.ortvalue_from_array(array[first : first + count])
                for names, array in self._arrays.items()
            }
        return self._parts[first, count]

    def _feed(self, tokens: Sequence[Sequence[int]], pasts: Sequence[int]) -> dict[str, Any]:
        """The inputs of tokens behind so many others, but for the caches."""
        names, count = self.folder.names, len(tokens[0])
        before = np.array(pasts, np.int64)[:, None]
        feed: dict[str, Any] = {
            names.input_ids: np.array(tokens, np.int64),
            names.attention_mask: (np.arange(max(pasts) + count) < before + count).astype(np.int64),
        }
        if self._has_positions:
            feed[names.position_ids] = before + np.arange(count, dtype=np.int64)
        return feed


__all__ = ["SequenceCaches"]
