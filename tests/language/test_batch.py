"""Texts that are continued together: whatever company they have, each gets the tokens and bits that it gets alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references.random import philox_4x32_10
from dmlvk.language import LanguageModel, Sampling
from dmlvk.language.batch import Batch, BatchText, Likelihood, Wishes
from dmlvk.language.sampling import random_points
from tests.effort import IS_QUICK
from tests.language.small_llama import write_folder

SEQUENCES, ROOM = 9, 96

Answer = tuple[list[int], list[Likelihood | None], str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageModel]:
    """One model for all texts."""
    folder = write_folder(tmp_path_factory.mktemp("llama"))
    with LanguageModel(folder, max_length=ROOM, sequences=SEQUENCES) as opened:
        yield opened


class OddTokens:
    """Allows tokens whose number, with that of the one before, is odd."""

    def __init__(self, vocabulary: int) -> None:
        self._numbers, self._last = np.arange(vocabulary), 0

    def allowed(self) -> npt.NDArray[np.uint8]:
        """By parity."""
        return ((self._numbers + self._last) % 2).astype(np.uint8)

    def accept(self, token: int) -> None:
        """The last one."""
        assert (token + self._last) % 2
        self._last = token


class Request:
    """A text, and how much of it is wanted."""

    def __init__(self, choose: random.Random, vocabulary: int) -> None:
        begin = [[], [70, 71, 72] * 8][choose.randrange(2)]
        self.tokens = begin + [choose.randrange(3, 250) for _ in range(choose.randint(1, 40))]
        self.sampling = choose.choice(
            [
                Sampling(),
                Sampling(0.9, 20, 0.95, seed=choose.randrange(2**64)),
                Sampling(1.2, 0, 0.9, seed=choose.randrange(2**40)),
                Sampling(1.5, 200, 1.0, 1.5, seed=3),
                Sampling(repetition_penalty=3.0),
            ]
        )
        self.most = choose.choice([1, 2, 5, 9, 14])
        self._kind, self._vocabulary = choose.choice(["plain"] * 5 + ["odd", "likely", "hashed", "forced"]), vocabulary

    def wishes(self) -> Wishes:
        """Of a text that is begun now."""
        if self._kind == "odd":
            return Wishes(constraint=OddTokens(self._vocabulary))
        forced = [80, 81, 82] if self._kind == "forced" else []
        return Wishes(3 if self._kind == "likely" else None, None, forced, self._kind == "hashed")


def answers(batch: Batch, requests: Sequence[Request], choose: random.Random, most: int) -> list[Answer]:
    """What each request gets, of which up to so many are under way at once, and some begin while others run."""
    left, under_way = list(enumerate(requests)), dict[BatchText, int]()
    found: dict[int, list[Likelihood | None]] = {}
    made: dict[int, Answer] = {}
    while left or under_way:
        while left and len(under_way) < most and (not under_way or choose.random() < 0.4):
            number, request = left.pop(0)
            under_way[batch.add(request.tokens, request.sampling, request.wishes())] = number
            found[number] = []
        for text, _, likelihood in batch.step():
            number = under_way[text]
            found[number].append(likelihood)
            if text.generated == requests[number].most:
                del under_way[text]
                batch.remove(text)
                made[number] = text.tokens[text.prompt_length :], found[number], text.hash.hexdigest()
    return [made[number] for number in range(len(requests))]


@pytest.mark.parametrize("seed", range(1 if IS_QUICK else 2))
def test_texts_in_random_company_are_what_they_are_alone(model: LanguageModel, seed: int) -> None:
    choose = random.Random(seed)
    requests = [Request(choose, model.folder.vocabulary) for _ in range(10 if IS_QUICK else 32)]
    alone = answers(model.batch(), requests, choose, 1)
    order = choose.sample(range(len(requests)), len(requests))
    together = answers(model.batch(), [requests[number] for number in order], choose, SEQUENCES)
    assert together == [alone[number] for number in order]


def test_a_batch_chooses_the_tokens_of_a_single_stream(model: LanguageModel) -> None:
    choose = random.Random(5)
    requests = [request for request in (Request(choose, 260) for _ in range(30)) if not request.wishes().needs_host]
    together = answers(model.batch(), requests, choose, SEQUENCES)
    for request, (tokens, *_) in zip(requests, together, strict=True):
        stream = list(model.generate(request.tokens, request.sampling, most=request.most))
        assert stream == tokens[: len(stream)]
        assert len(stream) == len(tokens) or tokens[len(stream)] in model.folder.end_tokens


def test_what_stands_in_a_place_is_not_run_again(model: LanguageModel) -> None:
    batch, choose = model.batch(), random.Random(3)
    tokens = [choose.randrange(3, 250) for _ in range(70)]
    alone = model.sequence().logits([*tokens, 200, 201]).numpy().tobytes()
    first = batch.add([*tokens, 99], Sampling())
    while not first.generated:
        batch.step()
    others = [batch.add([*tokens, 200, 201], Sampling(), Wishes(hashes=True)) for _ in range(2)]
    assert [other.reused for other in others] == [70, 70], "of a place that is in use"
    assert first.slot not in [other.slot for other in others]
    while not all(other.generated for other in others):
        batch.step()
    assert {other.hash.digest() for other in others} == {hashlib.sha256(alone).digest()}
    for text in (first, *others):
        batch.remove(text)
    again = batch.add([*tokens, 200, 5], Sampling())
    assert again.reused == 71, "of a place that is free"


def test_a_text_that_is_too_long_or_has_no_place_is_refused_and_changes_nothing(model: LanguageModel) -> None:
    batch = model.batch()
    texts = [batch.add([70 + place], Sampling()) for place in range(SEQUENCES)]
    with pytest.raises(dml.InvalidArgumentError, match="all of its 9 places are taken"):
        batch.add([70], Sampling())
    batch.remove(texts[0])
    for wrong, message in ([70] * (ROOM + 1), "room for 96"), ([], "no tokens"), ([9999], "9999 is none"):
        with pytest.raises(dml.InvalidArgumentError, match=message):
            batch.add(wrong, Sampling())
    assert batch.free == 1
    assert {id(text) for text, *_ in batch.step()} == {id(text) for text in texts[1:]}


def test_random_numbers_are_those_of_philox_by_seed_and_place() -> None:
    seeds, chosen = [0, 1, 2**32 - 1, 2**64 - 1, 0x123456789ABCDEF], [0, 5, 255, 2**20, 7]
    found = random_points(seeds, chosen, 6)
    for row, (seed, first) in enumerate(zip(seeds, chosen, strict=True)):
        expected = [(philox_4x32_10(first + step, seed)[0] >> 8) / 2**24 for step in range(6)]
        assert found[row].tolist() == expected


def test_likelihoods_are_logarithms_of_a_softmax(model: LanguageModel) -> None:
    batch, tokens = model.batch(), [70, 80, 90]
    text = batch.add(tokens, Sampling(), Wishes(likeliest=5))
    ((_, _, likelihood),) = batch.step()
    batch.remove(text)
    logits = model.sequence().logits(tokens).numpy()[0].astype(np.float64)
    expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    order = np.argsort(-expected, kind="stable")[:5]
    assert likelihood is not None and [token for token, _ in likelihood.likeliest] == order.tolist()
    assert np.allclose([value for _, value in likelihood.likeliest], expected[order], atol=1e-5)
    assert likelihood.logarithm == likelihood.likeliest[0][1]
