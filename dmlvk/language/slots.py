"""Caches on the device, and texts that take turns in them: each text keeps its own tokens, so that none sees another.

A slot says which tokens stand in its caches. A text whose tokens do not stand there any more, since another one ran in
between, is computed again from where they part: its bits do not depend on who else used the model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

from dmlvk.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.language.chain import StepChain
    from dmlvk.language.folder import ModelFolder
    from dmlvk.language.sampling import Sampler
    from dmlvk.language.sequence_caches import SequenceCaches

CHUNKS = (512, 128, 32, 8)
"""Tokens of a prompt that are run at once: few sizes, so that prompts of any length need few plans. The bits of a text
do not depend on how it is divided."""

Result = TypeVar("Result")


class Slot:
    """The place of one text at a time in caches.

    Attributes:
        tokens: those that stand in the caches, from their beginning on.
        holder: whose tokens these are; ``None`` where that is not certain, after an error or an interrupt.
        max_length: tokens that there is room for.

    Args:
        place: which of them it is.
    """

    def __init__(self, caches: SequenceCaches, place: int) -> None:
        self.caches, self.place = caches, place
        self.folder, self.max_length = caches.folder, caches.max_length
        self.tokens: list[int] = []
        self.holder: object = None

    def exclusively(self, work: Callable[[], Result]) -> Result:
        """Does work while no other thread uses the caches, as :meth:`SequenceCaches.exclusively`."""

        def guarded() -> Result:
            try:
                return work()
            except BaseException:  # an interrupt, too: what was half done is found out from the tokens
                self.holder = None
                raise

        return self.caches.exclusively(guarded)

    def stand(self, holder: object, tokens: Sequence[int]) -> None:
        """Sees to it that exactly these tokens stand in the caches; what stands there already is not run again."""
        while not self.advance(holder, tokens):
            pass

    def advance(self, holder: object, tokens: Sequence[int]) -> bool:
        """Runs one chunk of what is missing of these tokens; says whether exactly these stand in the caches now."""
        self.holder = None
        same = common_length(self.tokens, tokens)
        if not self.caches.stands(self.place, same):
            self.tokens, same = [], 0
            self.caches.clear(self.place)
        del self.tokens[same:]
        left = list(tokens[same:])
        if left:
            size = self._chunk(len(left))
            self._run_chunk(left[:size], size)
        self.caches.check_open()
        if len(self.tokens) < len(tokens):
            return False
        self.holder = holder
        return True

    def copy(self, source: Slot, count: int) -> None:
        """Takes over the first tokens of another place of the same caches."""
        self.holder = None
        self.tokens = []
        self.caches.copy(source.place, self.place)
        self.tokens = source.tokens[:count]

    def leave(self, holder: object) -> None:
        """What stands in the caches is not what a holder takes for its own any more."""
        if self.holder is holder:
            self.holder = None

    def run(self, tokens: Sequence[int]) -> Array:
        """Runs tokens behind those in the caches; the logits behind the last one, [1, vocabulary]."""
        if len(tokens) > 1:
            self.stand(self.holder, [*self.tokens, *tokens[:-1]])
        last = self.caches.logits(self.place, tokens[-1:], [len(self.tokens)])
        self.tokens.append(tokens[-1])
        return last

    def _chunk(self, count: int) -> int:
        """Tokens of the next run where so many are left: some of a nearly full chunk, or of the least, do not count.

        What these leave in the caches behind the others is written over; states would keep it.
        """
        room = 0 if self.caches.has_states else self.max_length - len(self.tokens)
        for size in CHUNKS:
            is_nearly_full = 4 * count >= 3 * size or size == CHUNKS[-1]
            if size <= count or (is_nearly_full and size <= room):
                return size
        return count

    def _run_chunk(self, tokens: list[int], size: int) -> None:
        """Runs tokens whose logits nobody wants, with as many others behind them as are missing of a chunk."""
        filled = [*tokens, *[0] * (size - len(tokens))]
        self.caches.run(self.place, [filled], [len(self.tokens)], [])
        self.tokens += tokens

    def chain(self, sampler: Sampler, token: int, count: int) -> StepChain | None:
        """Steps that follow one another on the device: :meth:`SequenceCaches.chain`."""
        return self.caches.chain(self.place, [[token]], [len(self.tokens)], sampler, count)

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
