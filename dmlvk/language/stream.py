"""Tokens behind a prompt, one after the other, whoever else uses the model in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dmlvk.language.choice_memory import MOST_STEPS
from dmlvk.language.sampling import Choices, Sampler, Sampling

if TYPE_CHECKING:
    from dmlvk.language.chain import StepChain
    from dmlvk.language.slots import Slot

_FEWEST_CHAINED = 3  # Tokens for which steps are recorded one behind the other


class TokenStream(Iterator[int]):
    """An iterator over the tokens behind a prompt, until one that ends the text, or until there is no more room.

    The next token is computed while the one before is looked at, and takes its input from it on the device. An error or
    an interrupt ends nothing: who asks again gets the token that was not given.

    Attributes:
        generated: tokens that were given, the one that ends the text not among them.
    """

    def __init__(
        self,
        slot: Slot,  # where it runs, in turn with others
        choices: Choices,  # how tokens are chosen on its device
        tokens: Sequence[int],
        sampling: Sampling,
        most: int | None,  # how many tokens at most; ``None``: as many as there is room for
    ) -> None:
        self._slot, self._choices, self._sampling = slot, choices, sampling
        self._text, self._prompt_length = slot.checked(tokens), len(tokens)
        room = slot.max_length - self._prompt_length + 1
        self._most = room if most is None else min(most, room)
        self._has_ended = False
        self._sampler: Sampler | None = None
        self._chain: StepChain | None = None
        self._tries_chain, self._left = True, 0

    @property
    def generated(self) -> int:
        return len(self._text) - self._prompt_length

    @property
    def length(self) -> int:
        """Tokens of the text so far: the prompt's, and those that were given."""
        return len(self._text)

    def close(self) -> None:
        """Ends the text: no more tokens are given."""
        self._has_ended = True

    def __next__(self) -> int:
        before: int | None = None

        def choose() -> int | None:
            nonlocal before
            before = len(self._text)
            if self._has_ended or self.generated >= self._most:
                return None
            token = self._token()
            if token in self._slot.folder.end_tokens:
                self._has_ended = True
                return None
            self._text.append(token)
            return token

        try:
            token = self._slot.exclusively(choose)
            if token is None:
                raise StopIteration
            return token
        except BaseException:
            if before is not None and len(self._text) > before:  # an interrupt when all was done: nobody got the token
                del self._text[before:]
                self._slot.leave(self)
            raise

    def _token(self) -> int:
        """The one behind the text. Where this text ran last, all of it but its last token stands in the caches."""
        slot, text = self._slot, self._text
        slot.caches.check_open()
        if slot.holder is self and self.generated:
            if self._chain is not None and self._chain.is_lost:
                self._chain = None
            chain = self._chain or self._begun(self._most - self.generated)
            if chain is not None:
                return self._chained(chain)
        else:
            self._chain, self._tries_chain = None, True
            slot.stand(self, text[:-1])
            if self._sampler is None:
                self._sampler = Sampler(self._choices, [self._sampling])
            self._sampler.resume([text], [self.generated])
        assert self._sampler is not None  # made by the first call
        token = int(self._sampler.choice(slot.run(text[-1:]))["token"].item())
        self._sampler.note([token])
        return token

    def _begun(self, left: int) -> StepChain | None:
        """Steps on the device from the last token on; ``None`` where they are too few, or cannot be."""
        if self._tries_chain and self._sampler is not None:
            self._sampler.resume([self._text], [self.generated])  # which stands where an earlier chain began
        if self._tries_chain and left >= _FEWEST_CHAINED and self._sampler is not None:
            self._left = min(left, MOST_STEPS)
            self._chain = self._slot.chain(self._sampler, self._text[-1], self._left)
        self._tries_chain = self._chain is not None
        return self._chain

    def _chained(self, chain: StepChain) -> int:
        """The next token, while the step behind it is submitted already."""
        while chain.pending < min(self._left, 2):
            chain.submit()
        (token,) = chain.tokens()
        self._left -= 1
        if not self._left:
            self._chain = None  # the next ones have other random numbers
        self._slot.tokens.append(self._text[-1])
        return token
