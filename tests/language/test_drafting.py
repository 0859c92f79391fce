"""Drafts: whatever is guessed, a text has the tokens that it has without guesses."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.language import LanguageModel, Sampling
from dmlvk.language.batch import Drafter, Wishes
from dmlvk.language.drafting import ModelDrafter, PromptLookup
from tests.effort import IS_QUICK
from tests.language.small_llama import write_folder

ROOM = 96


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small llama's."""
    return write_folder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LanguageModel]:
    """One model for all texts."""
    with LanguageModel(folder, max_length=ROOM, sequences=2, drafts=True) as opened:
        yield opened


class Guesses:
    """Guesses that are right as often as is wanted.

    Args:
        answer: the whole text.
        choose: where guesses go wrong.
        share: of right ones.
    """

    def __init__(self, answer: Sequence[int], choose: random.Random, share: float) -> None:
        self._answer, self._choose, self._share = answer, choose, share

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        """The answer with faults."""
        right = self._answer[len(tokens) : len(tokens) + most]
        return [token if self._choose.random() < self._share else 5 for token in right]


def continued(
    model: LanguageModel, tokens: Sequence[int], sampling: Sampling, most: int, drafter: Drafter | None
) -> tuple[list[int], int]:
    """The tokens behind a prompt, and the steps that they took."""
    batch = model.batch()
    text, steps = batch.add(tokens, sampling, Wishes(drafter=drafter)), 0
    while text.generated < most and text.room:
        steps += bool(batch.step())
    batch.remove(text)
    return text.tokens[: len(tokens) + most], steps


SAMPLINGS = [
    Sampling(),
    Sampling(0.9, 20, 0.95, seed=2**50 + 3),
    Sampling(1.1, 0, 0.9, 1.6, seed=9),
    Sampling(repetition_penalty=2.5),
]


@pytest.mark.parametrize("sampling", SAMPLINGS[:: 2 if IS_QUICK else 1], ids=repr)
def test_tokens_are_the_same_whatever_is_guessed(model: LanguageModel, sampling: Sampling) -> None:
    choose = random.Random(3)
    tokens = [70, 71, 72, 73, 74] * 4 + [choose.randrange(3, 250)]
    plain, _ = continued(model, tokens, sampling, 40, None)
    assert continued(model, tokens, sampling, 40, PromptLookup())[0] == plain
    for share in (0.0, 0.7, 1.0):
        drafted, steps = continued(model, tokens, sampling, 40, Guesses(plain, choose, share))
        assert drafted == plain
        assert steps <= (40 if share < 1 else 8)
    to_the_end, _ = continued(model, tokens, sampling, ROOM, None)
    assert len(to_the_end) == ROOM + 1
    assert continued(model, tokens, sampling, ROOM, Guesses(to_the_end, choose, 0.8))[0] == to_the_end


def test_a_smaller_model_of_the_same_tokens_guesses(model: LanguageModel, folder: Path) -> None:
    plain, _ = continued(model, [80, 81], Sampling(), 24, None)
    with LanguageModel(folder, max_length=ROOM) as smaller:
        drafted, steps = continued(model, [80, 81], Sampling(), 24, ModelDrafter(smaller, model))
    assert drafted == plain and steps < 8


def test_a_text_in_company_waits_with_its_drafts(model: LanguageModel) -> None:
    tokens = [70, 71, 72] * 5
    plain, _ = continued(model, tokens, Sampling(), 20, None)
    batch = model.batch()
    first, second = (batch.add(tokens, Sampling(), Wishes(drafter=PromptLookup())) for _ in range(2))
    while second.generated < 4:
        batch.step()
    batch.remove(second)
    while first.generated < 20:
        batch.step()
    assert first.tokens[: len(plain)] == plain
    assert second.tokens == plain[: len(second.tokens)]


def test_prompt_lookup_gives_what_came_last_behind_the_longest_end() -> None:
    lookup = PromptLookup()
    assert lookup.draft([1, 2, 3, 9, 8, 7, 1, 2, 3], 4) == [9, 8, 7, 1]
    assert lookup.draft([5, 1, 2, 7, 1, 2, 6, 1, 2], 2) == [6, 1]
    assert lookup.draft([5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], 2) == [7, 6]
    for nothing in ([], [1], [1, 1], [1, 2, 3, 4]):
        assert lookup.draft(nothing, 4) == []


def test_drafts_that_cannot_be_are_refused(folder: Path, model: LanguageModel, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    file = tmp_path / "copy" / "model.onnx"
    file.write_bytes(file.read_bytes().replace(b"logit_positions", b"other_positions"))
    with pytest.raises(dml.UnsupportedError, match=r"no initializer logit_positions.*drafts need more"):
        LanguageModel(tmp_path / "copy", drafts=True)
    with pytest.raises(dml.InvalidArgumentError, match="9999 is none of the vocabulary"):
        continued(model, [70], Sampling(), 9, Guesses([0, 9999, 9999, 9999], random.Random(0), 1.0))
