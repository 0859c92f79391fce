"""Texts that are continued together: a token of each at a step, each the one that it gets alone.

Texts come and go between steps. A text takes a place in the caches; what stands there of an earlier one with the same
beginning is not run again, and what another place has of it is copied. Steps are recorded on the device as for one
text; where a text wants to know or to say something between two of them, they are run one by one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.language.sampling import MOST_TOP, Sampler, Sampling
from dmlvk.language.slots import Slot, checked_tokens, common_length

if TYPE_CHECKING:
    from dmlvk.language.chain import StepChain
    from dmlvk.language.sampling import Choices

MOST_SEQUENCES = 64

_ROWS = (1, 2, 4, 8, 16, 32, 64)  # Sequences of a step: few numbers, so that few plans are needed

_PROMPT_TOKENS = 512  # Tokens of prompts that are run between two steps

_MOST_CHAINED = 64  # Steps for which idle places have room behind what stands there

_DRAFTED = (4, 8, 16, 32)
"""Tokens of a step that has guesses: the last one of the text, and what may follow."""

_FIRST_DRAFTED = 8  # Twice as many where all guesses of the step before were right, as in code that is copied

_WARM_UP_SECONDS = 20.0

_FEWEST_COPIED = 64  # Tokens that a text must have in common with what stands in another place to be worth a copy


class Constraint(Protocol):
    """What says which tokens may come next in a text."""

    def allowed(self) -> npt.NDArray[np.uint8]:
        """For each token of the vocabulary, whether it may come next: 1 or 0; at least one may."""

    def accept(self, token: int) -> None:
        """A token that was chosen."""


class Drafter(Protocol):
    """What guesses how a text goes on. Guesses change nothing but the time that its tokens take."""

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        """Tokens that may follow, at most so many; none where nothing is known."""


@dataclasses.dataclass(frozen=True)
class Likelihood:
    """How likely a token was, by the model alone: without temperature, penalty and constraint."""

    logarithm: float  # of its probability
    likeliest: tuple[tuple[int, float], ...]  # tokens with the logarithms of their probabilities, the likeliest first


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What a text wants besides its tokens.

    Attributes:
        likeliest: how many of the likeliest tokens are told with each token, up to 20; ``None``: no likelihoods are.
        constraint: which tokens may come; ``None``: any.
        forced: tokens that come first, whatever is chosen; of a model that was opened with ``drafts``, several at a
            step, unless something guesses.
        hashes: whether a hash over the bits of all logits is kept.
        drafter: what guesses how it goes on, while it is alone; of a model that was opened with ``drafts``.
    """

    likeliest: int | None = None
    constraint: Constraint | None = None
    forced: Sequence[int] = ()
    hashes: bool = False
    drafter: Drafter | None = None


class Step(NamedTuple):
    """A token that came.

    Attributes:
        text: in which.
        token: the token.
        likelihood: of the token, where it is wanted.
    """

    text: BatchText
    token: int
    likelihood: Likelihood | None = None


class BatchText:
    """A text in a batch.

    Attributes:
        tokens: all of its tokens so far.
        prompt_length: how many of them it began with.
        reused: tokens of the prompt that stood in the caches already.
        sampling: how tokens are chosen.
        wishes: what it wants besides.
        slot: its place; ``None`` when it has left the batch.
        source: the place whose beginning is copied to its own, before its prompt is run.
        chosen: the token that was chosen last, which may have given way to a forced one.
        drafted: tokens of its next step that has guesses, at most.
        hash: over fingerprints of the bits of all logits from which tokens were chosen.
    """

    def __init__(self, tokens: list[int], sampling: Sampling, wishes: Wishes, slot: Slot) -> None:
        self.tokens, self.prompt_length, self.reused = tokens, len(tokens), 0
        self.sampling, self.wishes = sampling, wishes
        self.slot: Slot | None = slot
        self.source: Slot | None = None
        self.hash = hashlib.sha256()
        self.chosen, self.drafted = 0, _FIRST_DRAFTED

    @property
    def generated(self) -> int:
        """Tokens behind the prompt."""
        return len(self.tokens) - self.prompt_length

    @property
    def room(self) -> int:
        """Tokens that may still come."""
        return 0 if self.slot is None else self.slot.max_length + 1 - len(self.tokens)


class Batch:
    """Texts that are continued together.

    Args:
        slots: the places, side by side from the first one on.
    """

    def __init__(self, slots: Sequence[Slot], choices: Choices) -> None:
        self._slots, self._choices, self._caches = slots, choices, slots[0].caches
        self._texts: list[BatchText] = []
        self._chain: StepChain | None = None
        self._left = 0
        self._uses: dict[Slot, int] = {}
        self._ticks = itertools.count(1)
        self._chained: list[BatchText | None] = []
        self._sampler: tuple[list[BatchText | None], Sampler] | None = None

    @property
    def texts(self) -> Sequence[BatchText]:
        """Those that are under way."""
        return self._texts

    @property
    def free(self) -> int:
        """Texts that there is a place for."""
        return len(self._slots) - len(self._texts)

    def add(self, tokens: Sequence[int], sampling: Sampling, wishes: Wishes | None = None) -> BatchText:
        """A text that takes part in the following steps; nothing is run yet.

        Raises:
            InvalidArgumentError: there are no tokens, no room for them, or no place; or one is not in the vocabulary.
        """
        checked = self._slots[0].checked(tokens)
        taken = [text.slot for text in self._texts if text.slot is not None]
        free = [slot for slot in self._slots if slot not in taken]
        if not free:
            raise InvalidArgumentError(f"Batch.add: all of its {len(self._slots)} places are taken")
        same = {slot: common_length(slot.tokens, checked[:-1]) for slot in self._slots}

        def price(slot: Slot) -> tuple[int, int, int, int]:
            """Few sequences of a step, much in common, and what nobody has used for long."""
            return self._range([*taken, slot])[1], -same[slot], self._uses.get(slot, 0), slot.place

        slot = min(free, key=price)
        text = BatchText(checked, sampling, wishes or Wishes(), slot)
        text.source = max(self._slots, key=lambda other: same[other])
        if same[text.source] < same[slot] + _FEWEST_COPIED:
            text.source = slot
        text.reused = same[text.source]
        self._uses[slot] = next(self._ticks)
        self._texts.append(text)
        return text

    def remove(self, text: BatchText) -> None:
        """Ends a text; what stands in its place is for the next ones with the same beginning."""
        if text.slot is not None:
            self._texts.remove(text)
            self._uses[text.slot] = next(self._ticks)
            text.slot = None

    def warm_up(self) -> None:
        """Runs steps of all sizes that guesses make, a prompt in each place, and steps of as many texts.

        What is planned and recorded then need not be when texts come. It changes none of their bits. Nothing more is
        begun behind 20 seconds.
        """
        if not self.free:
            return
        end = time.monotonic() + _WARM_UP_SECONDS
        # the first text goes on until the last one's prompt stands
        length = max(1, min(_PROMPT_TOKENS, self._slots[0].max_length - self.free))
        sampling = self._slots[0].folder.sampling
        drafted = min(sum(_DRAFTED), length) if self._caches.takes_drafts else 0
        forced = [0] * drafted  # which come in steps as guesses do, each twice as large as the one before
        self._run([self.add([0], sampling, Wishes(forced=forced))], max(drafted, 1), end)
        prompts = ([place % self._choices.vocabulary] * length for place in range(self.free))
        self._run([self.add(prompt, sampling) for prompt in prompts], 1, end)

    def _run(self, texts: Sequence[BatchText], count: int, end: float) -> None:
        """Continues texts by so many tokens, unless it takes too long, and removes them."""
        while any(text.generated < count for text in texts) and time.monotonic() < end:
            self.step()
        for text in texts:
            self.remove(text)

    def step(self) -> list[Step]:
        """Runs some of the prompts that are left, and a token of each text whose prompt stands in the caches.

        Returns:
            The tokens that came, one of each text, or several of a text that was drafted. None of them is looked at
            here: who finds an end among them, or no more :attr:`BatchText.room`, removes the text.

        Raises:
            DmlError: the device cannot do it; texts are as before, and the step may be tried again.
        """
        try:
            return self._caches.exclusively(self._step)
        except BaseException:
            self._chain, self._sampler = None, None
            for text in self._texts:
                if text.slot is not None:
                    text.slot.holder = None
            raise

    def _step(self) -> list[Step]:
        self._caches.check_open()
        waiting = [text for text in self._texts if not self._stands(text)]
        drafted = [] if waiting else self._drafted()
        if self._chain is not None and self._chain.is_lost:
            self._chain = None
        if self._chain is not None:
            wanted = self._range([text.slot for text in self._texts if text.slot is not None])
            is_known = all(text in self._chained for text in self._texts)
            is_masked = any(text.wishes.constraint is not None for text in self._texts)
            fits = is_known and wanted[1] == len(self._chained) and is_masked == self._chain.is_masked
            if self._left and not waiting and not drafted and fits:
                return self._steps_on_device(self._chain)
            if self._chain.pending:
                return self._read(self._chain)
            self._chain = None
            waiting = [text for text in self._texts if not self._stands(text)]
        if drafted:
            return self._drafted_step(self._texts[0], drafted)
        budget = _PROMPT_TOKENS
        for text in waiting:
            budget = self._run_prompt(text, budget)
        ready = [text for text in self._texts if self._stands(text)]
        if not ready:
            return []
        chain = self._begun(ready)
        return self._single_step(ready) if chain is None else self._steps_on_device(chain)

    @staticmethod
    def _stands(text: BatchText) -> bool:
        """Whether all of a text but its last token stands in the caches."""
        return text.slot is not None and text.slot.holder is text

    def _range(self, slots: Sequence[Slot]) -> tuple[int, int]:
        places = [slot.place for slot in slots]
        for rows in _ROWS:
            first = min(places, default=0) // rows * rows
            if max(places, default=0) < first + rows:
                break
        return first, min(rows, len(self._slots) - first)

    def _run_prompt(self, text: BatchText, budget: int) -> int:
        """Runs tokens of a prompt; how many may be run before the next step then."""
        slot = text.slot
        assert slot is not None  # it takes part
        wanted = text.tokens[:-1]
        if text.source is not slot and text.source is not None:
            same = common_length(text.source.tokens, wanted)
            if same > common_length(slot.tokens, wanted):
                slot.copy(text.source, same)
        text.source = None
        while budget > 0:
            before = common_length(slot.tokens, wanted)
            is_done = slot.advance(text, wanted)
            budget -= len(slot.tokens) - before
            if is_done:
                break
        return budget

    def _rows(self, ready: Sequence[BatchText], steps: int) -> tuple[int, list[BatchText | None], list[int], list[int]]:
        """The first place, the texts by their places, the token that each runs, and how many stand before.

        Idle places run a token that does not count behind what stands there, and lose what would be written over.
        """
        first, count = self._range([text.slot for text in ready if text.slot is not None])
        slots = self._slots[first : first + count]
        by_slot = {text.slot: text for text in ready}
        rows = [by_slot.get(slot) for slot in slots]
        for slot, row in zip(slots, rows, strict=True):
            if row is None:
                slot.holder = None
                del slot.tokens[max(0, slot.max_length - steps) :]
        pasts = [len(slot.tokens) for slot in slots]
        return first, rows, [0 if row is None else row.tokens[-1] for row in rows], pasts

    def _sampler_of(self, rows: Sequence[BatchText | None]) -> Sampler:
        wishes = [Wishes() if row is None else row.wishes for row in rows]
        sampler = Sampler(
            self._choices,
            [Sampling() if row is None else row.sampling for row in rows],
            [each.forced for each in wishes],
            is_masked=any(each.constraint is not None for each in wishes),
            tells=any(each.likeliest is not None or each.hashes for each in wishes),
        )
        sampler.resume(
            [() if row is None else row.tokens for row in rows], [0 if row is None else row.generated for row in rows]
        )
        return sampler

    def _begun(self, ready: list[BatchText]) -> StepChain | None:
        """Steps on the device for these texts; ``None`` where there cannot be."""
        if self._caches.has_states:
            return None
        self._left = min(_MOST_CHAINED, *(text.room for text in ready))
        first, rows, tokens, pasts = self._rows(ready, self._left)
        self._chain = self._caches.chain(
            first, [[token] for token in tokens], pasts, self._sampler_of(rows), self._left
        )
        if self._chain is not None:
            self._chained, self._sampler = rows, None
        return self._chain

    def _steps_on_device(self, chain: StepChain) -> list[Step]:
        """The next tokens, while the step behind theirs is submitted already, unless the host has a say in it."""
        while chain.pending < min(self._left, 1 if chain.is_masked else 2):
            chain.submit(self._allowed(self._chained) if chain.is_masked else None)
        return self._read(chain)

    def _read(self, chain: StepChain) -> list[Step]:
        found = chain.choice()
        self._left -= 1
        return self._taken(self._chained, found)

    def _taken(self, rows: Sequence[BatchText | None], found: Mapping[str, npt.NDArray[Any]]) -> list[Step]:
        """Adds what :meth:`Sampler.choice` gave to the texts that are still there."""
        steps = []
        for row, text in enumerate(rows):
            if text is None or text.slot is None:
                continue
            token, wishes = int(found["token"][row, 0]), text.wishes
            text.chosen = int(found.get("chosen", found["token"])[row, 0])
            if wishes.hashes:
                text.hash.update(found["prints"][row].tobytes())
            if wishes.constraint is not None:
                wishes.constraint.accept(token)
            text.slot.tokens.append(text.tokens[-1])
            text.tokens.append(token)
            steps.append(Step(text, token, _likelihood(found, row, wishes.likeliest)))
        return steps

    def _single_step(self, ready: list[BatchText]) -> list[Step]:
        """A step in which the host says what may be chosen, or one that cannot be recorded."""
        first, rows, tokens, pasts = self._rows(ready, 1)
        logits = self._caches.logits(first, tokens, pasts)
        if self._sampler is None or self._sampler[0] != rows:
            self._sampler = rows, self._sampler_of(rows)
        sampler = self._sampler[1]
        found = sampler.choice(logits, self._allowed(rows) if sampler.kind.is_masked else None)
        sampler.note(found["token"][:, 0].tolist())
        return self._taken(rows, found)

    def _drafted(self) -> Sequence[int]:
        """What may follow in the only text that there is; where nothing guesses, what must."""
        text = self._texts[0] if len(self._texts) == 1 and self._caches.takes_drafts else None
        if text is None or text.wishes.constraint is not None or text.room < _DRAFTED[0]:
            return ()
        most = min(text.drafted, text.room) - 1
        if text.wishes.drafter is None:
            return text.wishes.forced[text.generated : text.generated + most]
        return text.wishes.drafter.draft(text.tokens, most)

    def _drafted_step(self, text: BatchText, drafted: Sequence[int]) -> list[Step]:
        """Runs a text's last token and what may follow; what is chosen as it was guessed counts, and what comes next.

        The logits behind each are those that it has alone, if all before it were guessed well. So the tokens are those
        that steps one by one choose (Y. Leviathan, M. Kalman and Y. Matias, "Fast inference from transformers via
        speculative decoding", ICML 2023, where choices are repeated exactly).
        """
        slot = text.slot
        assert slot is not None  # it takes part
        sizes = [size for size in _DRAFTED if size <= text.room]  # few, so that few plans are needed
        count = next((size for size in sizes if size > len(drafted)), sizes[-1])
        guesses = [*checked_tokens(slot.folder, drafted), *[0] * count][: count - 1]
        sampler = self._sampler_of([text] * count)
        seen = text.tokens if sampler.penalizes else []  # which nobody else looks at
        texts = [[*seen, *guesses[:place]] for place in range(count)]
        sampler.resume(texts, [text.generated + place for place in range(count)])
        tokens, past, self._sampler = [text.tokens[-1], *guesses], len(slot.tokens), None
        chain = self._caches.chain(slot.place, [tokens], [past], sampler, 1)
        if chain is not None:
            chain.submit()
            found = chain.choice()
        else:
            logits = self._caches.drafted_logits(slot.place, tokens, past)
            found = sampler.choice(logits)
        chosen = found["token"][:, 0]
        right = next((place for place, guess in enumerate(guesses) if guess != chosen[place]), len(guesses))
        text.drafted = min(2 * count, _DRAFTED[-1]) if right >= len(drafted) else _FIRST_DRAFTED
        return self._taken([text] * (right + 1), found)

    def _allowed(self, rows: Sequence[BatchText | None]) -> npt.NDArray[np.uint8]:
        made = np.ones((len(rows), self._choices.vocabulary), np.uint8)
        for row, text in zip(made, rows, strict=True):
            if text is not None and text.slot is not None and text.wishes.constraint is not None:
                row[:] = text.wishes.constraint.allowed()
        return made


def _likelihood(found: Mapping[str, npt.NDArray[Any]], row: int, count: int | None) -> Likelihood | None:
    """How likely the token of a row is, with so many of the likeliest ones; ``None``: nobody wants to know."""
    if count is None:
        return None
    tops = zip(found["places"][row, :count].tolist(), found["values"][row, :count].tolist(), strict=True)
    return Likelihood(float(found["own"][row, 0]), tuple(tops))


__all__ = ["MOST_SEQUENCES", "MOST_TOP", "Batch", "BatchText", "Constraint", "Drafter", "Likelihood", "Step", "Wishes"]
