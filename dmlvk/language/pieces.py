"""Text of tokens as they come, as soon as its characters are whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # What tokens are decoded to that hold the first bytes of a character only

_MOST_WAITING = 16  # Tokens of a character: it has at most four bytes. What is still none then never becomes one


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


def pieces(model: LanguageModel, tokens: Iterable[int]) -> Iterator[str]:
    made = Pieces(model)
    for token in tokens:
        piece = made.push(token)
        if piece:
            yield piece
    rest = made.rest()
    if rest:
        yield rest
