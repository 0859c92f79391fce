"""Guesses how a text goes on: by what stood before in it, or by a smaller model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dmlvk.errors import InvalidArgumentError
from dmlvk.language.sampling import Sampling

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel

_LONGEST, _SHORTEST = 64, 4
"""Tokens at a text's end that are looked for in what stands before: of fewer, too many guesses are wrong."""

_LOOKED_AT = 8192  # Tokens of a text, from its end on, that are looked through


class PromptLookup:
    """Guesses that what came behind the same few tokens before comes again.

    After A. Saxena, "Prompt lookup decoding", 2023: the longest end that stands elsewhere, where it stands last.
    """

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        """Tokens that may follow."""
        text = np.array(tokens[-_LOOKED_AT:], np.int64)
        ends = np.flatnonzero(text[:-1] == text[-1:]) + 1  # behind what is the same as the text's last token
        length = 1  # of what is the same in front of the ends
        while length < _LONGEST:
            longer = ends[ends > length]
            longer = longer[text[longer - length - 1] == text[-length - 1]] if len(longer) else longer
            if not len(longer):
                break
            ends, length = longer, length + 1
        if length < _SHORTEST:
            return []
        return [int(token) for token in text[ends[-1] : ends[-1] + most]]


class ModelDrafter:
    """Guesses what a smaller model says.

    Args:
        model: the smaller one, which nobody else may use meanwhile.
        larger: the model whose texts are guessed.

    Raises:
        InvalidArgumentError: the models have other tokens.
    """

    def __init__(self, model: LanguageModel, larger: LanguageModel) -> None:
        if model.tokenizer.get_vocab() != larger.tokenizer.get_vocab():
            raise InvalidArgumentError(
                f"{model.folder.path}: has other tokens than {larger.folder.path}, and cannot guess what it says"
            )
        self._model, self._vocabulary = model, larger.folder.vocabulary

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        """Tokens that may follow."""
        if len(tokens) + most > self._model.max_length or max(tokens) >= self._model.folder.vocabulary:
            return []
        guesses = self._model.generate(tokens, Sampling(), most=most)
        return list(itertools.takewhile(lambda token: token < self._vocabulary, guesses))
