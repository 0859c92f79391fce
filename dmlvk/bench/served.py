"""Times what a server's texts take: many at once, prompts that wait for one another, and files that are written again.

The model is a decoder with random weights. So tokens are forced, and guesses are held against these.
"""

from __future__ import annotations

import json
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmlvk.bench.decoder_models import DecoderSize
from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.language.batch import Drafter, Wishes
from dmlvk.language.drafting import PromptLookup
from dmlvk.language.generation import LanguageModel
from dmlvk.language.sampling import Sampling
from dmlvk.language.tokenizer import tokenizer_class

_WARM_UP = 4  # Steps that do not count

_EDITS, _PLAIN = 6, 128  # Files that are written again, and tokens of each that are so without guesses

_VOCABULARY, _TRAINED_ON = 32_768, 300
"""Tokens of the tokenizer, and files of Python's own library that it is made of."""


class Guessed(NamedTuple):
    """What writing files again took."""

    files: int  # how many
    tokens: int  # of the files as they were afterwards
    plain_seconds: float  # of a token, one by one
    guessed_seconds: float  # of a token, where what stood before guesses what comes
    steps: int  # in which they came then


class _NoGuesses:
    def draft(self, _tokens: Sequence[int], _most: int) -> Sequence[int]:
        return ()


class ServedBench:
    """A decoder of :func:`dmlvk.bench.decoder_models.write_decoder` as a server has it.

    Args:
        file: of the model; what else a language model's folder has is written beside it.
        capacity: tokens that each text has room for.
        sequences: texts that are continued together, at most.
    """

    def __init__(self, device: Device, file: Path, size: DecoderSize, capacity: int, sequences: int) -> None:
        self._vocabulary = size.vocabulary
        _write_folder(file, size, capacity)
        self._model = LanguageModel(file.parent, device, max_length=capacity, sequences=sequences, drafts=True)
        self._batch, self._random = self._model.batch(), np.random.default_rng(3)

    def close(self) -> None:
        """Frees what lies on the device."""
        self._model.close()

    def warm_up(self) -> float:
        """Seconds that a server takes for it before it listens."""
        start = time.perf_counter()
        self._batch.warm_up()
        return time.perf_counter() - start

    def _prompts(self, count: int, length: int) -> list[list[int]]:
        return [self._random.integers(0, self._vocabulary, length).tolist() for _ in range(count)]

    def steps(self, count: int, length: int, tokens: int) -> float:
        """The median of what a token of each of so many texts takes, behind prompts of a length; in seconds."""
        texts = [self._batch.add(prompt, Sampling()) for prompt in self._prompts(count, length)]
        while not all(text.generated for text in texts):
            self._batch.step()
        ends = []
        for _ in range(tokens + _WARM_UP + 1):
            self._batch.step()
            ends.append(time.perf_counter())
        for text in texts:
            self._batch.remove(text)
        return float(np.median(np.diff(ends)[_WARM_UP:]))

    def queued(self, count: int, length: int) -> float:
        """Seconds until the last of so many prompts, which came together, has its first token."""
        start = time.perf_counter()
        texts = [self._batch.add(prompt, Sampling()) for prompt in self._prompts(count, length)]
        while not all(text.generated for text in texts):
            self._batch.step()
        taken = time.perf_counter() - start
        for text in texts:
            self._batch.remove(text)
        return taken

    def guessed(self, folders: tuple[Path, Path]) -> Guessed:
        """What it takes to write files of the second folder again behind what they are in the first one."""
        edits = self._edits(*folders)
        plain = [self._written(old, new[:_PLAIN], _NoGuesses()) for old, new in edits]
        guessed = [self._written(*edit, PromptLookup()) for edit in edits]
        plain_each, guessed_each = (
            sum(seconds for seconds, _, _ in each) / sum(count for _, count, _ in each) for each in (plain, guessed)
        )
        tokens, steps = sum(len(new) for _, new in edits), sum(steps for _, _, steps in guessed)
        return Guessed(len(edits), tokens, plain_each, guessed_each, steps)

    def _edits(self, before: Path, after: Path) -> list[tuple[list[int], list[int]]]:
        """Tokens of files that differ, before and after; some of those that there is room for."""
        found = []
        for file in sorted(before.rglob("*.py")):
            other = after / file.relative_to(before)
            if other.is_file() and other.read_bytes() != file.read_bytes():
                old, new = (
                    self._model.encode(each.read_text(encoding="utf-8", errors="replace")) for each in (file, other)
                )
                if old and new and len(old) + len(new) <= self._model.max_length:
                    found.append((old, new))
        if not found:
            raise InvalidArgumentError(
                f"{before} and {after}: no two of their Python files differ, and are short enough"
            )
        return found[:: max(1, len(found) // _EDITS)][:_EDITS]

    def _written(self, old: list[int], new: list[int], drafter: Drafter) -> tuple[float, int, int]:
        """Seconds from a text's first token to its last one, how many came then, and in how many steps."""
        text = self._batch.add(old, Sampling(), Wishes(forced=new, drafter=drafter))
        while not text.generated:
            self._batch.step()
        start, steps = time.perf_counter(), 0
        while text.generated < len(new):
            steps += bool(self._batch.step())
        taken = time.perf_counter() - start
        self._batch.remove(text)
        return taken, max(1, len(new) - 1), steps


def _write_folder(file: Path, size: DecoderSize, capacity: int) -> None:
    """What onnxruntime-genai's builder writes beside a model, and a tokenizer."""
    pairs = {
        f"{time_}_{part}_names": f"{name}.%d.{part}"
        for time_, name in (("past", "past_key_values"), ("present", "present"))
        for part in ("key", "value")
    }
    decoder = {
        "filename": file.name,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.key_heads,
        "head_size": size.head,
        "inputs": pairs,
        "outputs": pairs,
    }
    model = {"decoder": decoder, "vocab_size": size.vocabulary, "context_length": capacity}
    (file.parent / "genai_config.json").write_text(json.dumps({"model": model}))
    tokenizer = file.parent / "tokenizer.json"
    if not tokenizer.is_file():
        _tokenizer(min(_VOCABULARY, size.vocabulary)).save(str(tokenizer))


def _tokenizer(vocabulary: int) -> Any:
    """A tokenizer of byte pairs, from Python's own library: of code, and of none that is written again here."""
    tokenizer = tokenizer_class()  # which says how to install what is missing
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:_TRAINED_ON]
    made.train([str(file) for file in files], trainer)
    return made
