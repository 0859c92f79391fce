"""Text of tokens as they come, as soon as its characters are whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # What tokens are decoded to that hold the first bytes of a character only

_MOST_WAITING = 16  # Tokens of a character: it has at most four bytes. What is still none then never becomes one

_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]

_BYTES = {chr(byte): byte for byte in _PLAIN} | {
    chr(256 + place): byte for place, byte in enumerate(sorted({*range(256)}.difference(_PLAIN)))
}
"""Bytes by the characters that stand for them in tokens of tokenizers that merge bytes, as GPT-2's does."""


class Pieces:
    """What each token adds to a text."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._waiting: list[int] = []
        self._shown = ""

    def push(self, token: int) -> str:
        """What is whole now and was not before; empty in the middle of a character."""
        self._waiting.append(token)
        text = self._model.decode(self._waiting)
        if text.endswith(_UNFINISHED) and len(self._waiting) < _MOST_WAITING:
            return ""
        piece = text[len(self._shown) :]
        # A token's text can depend on the one before it (a blank, say), but not on those before that.
        self._waiting = [token]
        self._shown = self._model.decode(self._waiting)
        return piece

    def rest(self) -> str:
        """What never became whole."""
        return self._model.decode(self._waiting)[len(self._shown) :]


class Words:
    """An answer's text as its tokens come, up to the first of some texts before which it ends.

    What may be the beginning of such a text is kept back.
    """

    def __init__(self, model: LanguageModel, stops: Sequence[str]) -> None:
        self._pieces, self._stops, self._kept = Pieces(model), stops, ""

    def push(self, token: int) -> tuple[str, bool]:
        """What is certain to be of the answer, and whether it ends there."""
        return self._certain(self._pieces.push(token))

    def rest(self) -> tuple[str, bool]:
        """What was kept back, behind the last token; and whether a text before which it ends was among it."""
        text, is_stopped = self._certain(self._pieces.rest())
        return (text, True) if is_stopped else (text + self._kept, False)

    def _certain(self, text: str) -> tuple[str, bool]:
        self._kept += text
        places = [place for stop in self._stops if (place := self._kept.find(stop)) >= 0]
        if places:
            return self._kept[: min(places)], True
        longest = max(map(len, self._stops), default=1) - 1
        held = next(
            (
                length
                for length in range(min(longest, len(self._kept)), 0, -1)
                if any(stop.startswith(self._kept[-length:]) for stop in self._stops)
            ),
            0,
        )
        given = self._kept[: len(self._kept) - held]
        self._kept = self._kept[len(given) :]
        return given, False


def token_bytes(model: LanguageModel, token: int) -> bytes:
    """A token's part of a text, which may be less than a character."""
    tokenizer = model.tokenizer
    first = tokenizer.decode([token], skip_special_tokens=False)
    # behind another token: at the beginning of a text some lose a blank
    text: str = tokenizer.decode([token, token], skip_special_tokens=False)[len(first) :]
    if _UNFINISHED in first + text:
        name = tokenizer.id_to_token(token) or ""
        if found := re.fullmatch("<0x([0-9A-F]{2})>", name):
            return bytes.fromhex(found[1])
        if all(character in _BYTES for character in name):
            return bytes(_BYTES[character] for character in name)
    return text.encode()


def pieces(model: LanguageModel, tokens: Iterable[int]) -> Iterator[str]:
    made = Pieces(model)
    for token in tokens:
        piece = made.push(token)
        if piece:
            yield piece
    rest = made.rest()
    if rest:
        yield rest
