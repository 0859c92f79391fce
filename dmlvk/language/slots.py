"""Caches on the device, and texts that take turns in them: each text keeps its own tokens, so that none sees another.

A slot says which tokens stand in its caches. A text whose tokens do not stand there any more, since another one ran in
between, is computed again from where they part: its bits do not depend on who else used the model.
"""

from __future__ import annotations

import dataclasses
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np

from dmlvk.errors import DeviceRemovedError, InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.language.chain import StepChain, counters

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.language.folder import ModelFolder
    from dmlvk.language.sampling import Sampler
    from dmlvk.onnx import InferenceSession, OrtValue

CHUNKS = (512, 128, 32, 8)
"""Tokens of a prompt that are run at once: few sizes, so that prompts of any length need few plans. The bits of a text
do not depend on how it is divided."""

Result = TypeVar("Result")


class Slot:
    """The caches of one text at a time.

    Attributes:
        tokens: those that stand in the caches, from their beginning on.
        holder: whose tokens these are; ``None`` where that is not certain, after an error or an interrupt.
        max_length: tokens that there is room for.

    Args:
        session: of the decoder.
        folder: what it is.
        caches: by the names of their inputs and outputs.
        max_length: as above.
    """

    def __init__(
        self,
        session: InferenceSession,
        folder: ModelFolder,
        caches: Mapping[tuple[str, str], OrtValue],
        max_length: int,
    ) -> None:
        self._session, self.folder, self._caches, self.max_length = session, folder, caches, max_length
        self._has_positions = any(item.name == folder.names.position_ids for item in session.get_inputs())
        self.tokens: list[int] = []
        self.holder: object = None
        self._chain: tuple[object, StepChain] | None = None
        self._lock, self._thread = threading.Lock(), 0
        self._is_closed = False

    def close(self) -> None:
        """Lets the caches go, when nobody runs."""

        def close() -> None:
            self._is_closed, self.holder, self._chain, self._caches, self.tokens = True, None, None, {}, []

        self.exclusively(close)

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
            except BaseException:  # an interrupt, too: what was half done is found out from the tokens
                self.holder = None
                raise
            finally:
                self._thread = 0

    def stand(self, holder: object, tokens: Sequence[int]) -> None:
        """Sees to it that exactly these tokens stand in the caches; what stands there already is not run again."""
        if self._is_closed:
            raise DeviceRemovedError(f"{self.folder.path}: the model was closed")
        self.holder = None
        same = common_length(self.tokens, tokens)
        del self.tokens[same:]
        left = list(tokens[same:])
        while left:
            count = next((size for size in CHUNKS if size <= len(left)), len(left))
            self._run_chunk(left[:count])
            del left[:count]
        self.holder = holder

    def leave(self, holder: object) -> None:
        """What stands in the caches is not what a holder takes for its own any more."""
        if self.holder is holder:
            self.holder = None

    def run(self, tokens: Sequence[int]) -> Array:
        """Runs tokens behind those in the caches; the logits behind the last one, [1, vocabulary]."""
        if len(tokens) > 1:
            self.stand(self.holder, [*self.tokens, *tokens[:-1]])
        (found,) = self._run(tokens[-1:], [self.folder.names.logits])
        logits: Array | None = found.array()
        if logits is None:
            raise UnsupportedError(f"{self.folder.model}: its logits are computed on the host")
        shape = (1, 1, self.folder.vocabulary)
        if len(logits.shape) != len(shape) or logits.shape[0] != 1 or logits.shape[2] != shape[2]:
            raise ModelFileError(f"{self.folder.model}: its logits are {list(logits.shape)}, not {list(shape)}")
        last = logits[:, -1, :]
        self.tokens.append(tokens[-1])
        return last

    def _run_chunk(self, tokens: list[int]) -> None:
        """Runs tokens whose logits nobody wants; fewer than the least chunk together with some that do not count.

        What these leave in the caches behind the others is written over.
        """
        filled = [*tokens, *[0] * (CHUNKS[-1] - len(tokens))]
        if len(self.tokens) + len(filled) > self.max_length:
            filled = tokens
        self._run(filled, [])
        self.tokens += tokens

    def _run(self, tokens: Sequence[int], wanted: Sequence[str]) -> list[OrtValue]:
        """Runs one chunk of tokens; the outputs that are wanted."""
        binding = self._session.io_binding()
        for name, value in self._feed(tokens, len(self.tokens)).items():
            binding.bind_cpu_input(name, value)
        for name in wanted:
            binding.bind_output(name, "dml")
        for (past, present), cache in self._caches.items():
            binding.bind_ortvalue_input(past, cache)
            binding.bind_ortvalue_output(present, cache)
        binding.run()
        return list(binding.get_outputs()[: len(wanted)])

    def _feed(self, tokens: Sequence[int], past: int) -> dict[str, Any]:
        """The inputs of tokens behind so many others, but for the caches."""
        names, total = self.folder.names, past + len(tokens)
        feed: dict[str, Any] = {
            names.input_ids: np.array([tokens], np.int64),
            names.attention_mask: np.ones((1, total), np.int64),
        }
        if self._has_positions:
            feed[names.position_ids] = np.arange(past, total, dtype=np.int64)[None]
        return feed

    def chain(self, sampler: Sampler, token: int, count: int) -> StepChain | None:
        """Steps that follow one another on the device, begun with a token; ``None`` where a step depends on more.

        Args:
            sampler: chooses tokens.
            token: the first one.
            count: steps at most.
        """
        past = len(self.tokens)
        feeds = [self._feed([token], length) for length in (past, past + 1, past + count - 1)]
        of_caches = {past: cache for (past, _), cache in self._caches.items()}
        caches = {present: cache for (_, present), cache in self._caches.items()}
        now, then, at_last = (self._session.standing_step({**feed, **of_caches}, caches) for feed in feeds)
        if now is None or then is None or at_last is None or at_last.plan is not now.plan:
            return None  # from some length on another branch may be taken
        names = self.folder.names
        growing = counters(now, then, names.input_ids)
        if growing is None:
            return None
        key = now.plan, dataclasses.replace(sampler.sampling, seed=0)
        if self._chain is None or self._chain[0] != key:
            chooser = sampler.chooser({name: now.given[name] for name in growing})
            chain = StepChain(self._session.device, now, names.input_ids, names.logits, chooser)
            self._chain = key, chain
        chain = self._chain[1]
        chain.start(now, token, sampler.state)
        return chain

    def checked(self, tokens: Sequence[int], before: int = 0) -> list[int]:
        """Tokens behind so many others.

        Raises:
            InvalidArgumentError: there are none, there is no room for them, or one is not in the vocabulary.
        """
        checked = checked_tokens(self.folder, tokens)
        if not checked:
            raise InvalidArgumentError(f"{self.folder.path}: a text of no tokens has no next one")
        if before + len(checked) > self.max_length:
            raise InvalidArgumentError(
                f"{self.folder.path}: {before + len(checked)} tokens, but there is room for {self.max_length}"
            )
        return checked


class TokenSequence:
    """A text that is run part by part; other texts of the model neither see nor change it.

    Args:
        slot: where it runs, in turn with others.
    """

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._tokens: list[int] = []

    @property
    def length(self) -> int:
        """Its tokens."""
        return len(self._tokens)

    def logits(self, tokens: Sequence[int]) -> Array:
        """Runs tokens behind those of this text; where it raises, the next call goes on behind the same ones.

        Returns:
            The logits behind the last one, on the device: [1, vocabulary].

        Raises:
            InvalidArgumentError: there are none, there is no room for them, or one is not in the vocabulary.
            DmlError: the device cannot do it.
        """
        before = self._tokens

        def run() -> Array:
            checked = self._slot.checked(tokens, len(before))
            if self._slot.holder is not self:
                self._slot.stand(self, before)
            logits = self._slot.run(checked)
            self._tokens = [*before, *checked]
            return logits

        try:
            return self._slot.exclusively(run)
        except BaseException:  # also behind the last line above
            self._forget(before)
            raise

    def keep(self, tokens: Sequence[int]) -> int:
        """Forgets all but what this text has in common with these tokens from the first one on.

        Returns:
            How many that are: at most all but the last one, which then can be run again for its logits.
        """
        checked = checked_tokens(self._slot.folder, tokens)
        same = min(common_length(self._tokens, checked), max(len(checked) - 1, 0))
        self._forget(self._tokens[:same])
        return same

    def _forget(self, left: list[int]) -> None:
        """The next call finds out what of the caches it can use."""
        self._tokens = left
        self._slot.leave(self)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens that two texts begin with."""
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    return next(place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)


def checked_tokens(folder: ModelFolder, tokens: Sequence[SupportsIndex]) -> list[int]:
    """Tokens as plain integers.

    Raises:
        InvalidArgumentError: they are none, or one is not in the vocabulary.
    """
    try:
        checked = [operator.index(token) for token in tokens]
    except TypeError as error:
        raise InvalidArgumentError(f"{folder.path}: tokens must be integers in a sequence; {error}") from error
    strange = next((token for token in checked if not 0 <= token < folder.vocabulary), None)
    if strange is not None:
        raise InvalidArgumentError(
            f"{folder.path}: the token {strange} is none of the vocabulary's {folder.vocabulary}"
        )
    return checked


__all__ = ["Slot", "TokenSequence", "checked_tokens", "common_length"]
