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

_LONGEST, _SHORTEST = 8, 4
"""Tokens at a text's end that are looked for in what stands before: of fewer, too many guesses are wrong."""

_LOOKED_AT = 8192  # Tokens of a text, from its end on, that are looked through


class PromptLookup:
    """Guesses that what came behind the same few tokens before comes again.

    After A. Saxena, "Prompt lookup decoding", 2023: the longest end that stands elsewhere, where it stands last.
    """

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        """Tokens that may follow."""
        text = np.array(tokens[-_LOOKED_AT:], np.int64)
        for length in range(min(_LONGEST, len(text) - 1), _SHORTEST - 1, -1):
            windows = np.lib.stride_tricks.sliding_window_view(text[:-1], length)
            places = np.flatnonzero((windows == text[-length:]).all(axis=1))
            if len(places):
                start = int(places[-1]) + length
                return [int(token) for token in text[start : start + most]]
        return []


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
