"""Several texts at once, drafts and vectors: the tokens and the bits of each text alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references.random import philox_4x32_10
from dmlvk.language import EmbeddingModel, LanguageModel, Reranker, Sampling
from dmlvk.language.batch import Batch, BatchText, Drafter, Likelihood, Wishes
from dmlvk.language.drafting import ModelDrafter, PromptLookup
from dmlvk.language.sampling import random_points
from dmlvk.language.sequence_caches import SequenceCaches
from dmlvk.runtime.engine_memory import EngineMemory
from tests.effort import IS_QUICK
from tests.language.small_llama import byte_tokens, write_folder
from tests.language.small_models import CASES as DECODERS
from tests.language.small_models import initialize
from tests.native_objects import native_objects

SEQUENCES, ROOM = 9, 96

Answer = tuple[list[int], list[Likelihood | None], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LanguageModel]:
    with LanguageModel(folder, max_length=ROOM, sequences=SEQUENCES) as opened:
        yield opened


class OddTokens:
    """Allows tokens whose number, with that of the one before, is odd."""

    def __init__(self, vocabulary: int) -> None:
        self._numbers, self._last = np.arange(vocabulary), 0

    def allowed(self) -> npt.NDArray[np.uint8]:
        return ((self._numbers + self._last) % 2).astype(np.uint8)

    def accept(self, token: int) -> None:
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

    @property
    def is_plain(self) -> bool:
        """Whether its tokens are those of a stream."""
        return self._kind not in ("odd", "forced")

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


def test_warming_up_changes_no_bits(model: LanguageModel) -> None:
    choose = random.Random(6)
    requests = [Request(choose, model.folder.vocabulary) for _ in range(4)]
    batch, alone = model.batch(), answers(model.batch(), requests, choose, 1)
    batch.warm_up()
    assert not batch.texts and answers(batch, requests, choose, SEQUENCES) == alone


def test_texts_that_come_behind_the_warm_up_find_everything_recorded(folder: Path) -> None:
    choose = random.Random(7)
    with LanguageModel(folder, max_length=ROOM, sequences=4, drafts=True) as opened:
        batch = opened.batch()
        batch.warm_up()
        with native_objects() as counts:
            texts = [batch.add([choose.randrange(3, 250) for _ in range(90)], Sampling()) for _ in range(4)]
            while not all(text.generated for text in texts):
                batch.step()
        assert not counts


_KINDS: list[tuple[Sampling, Callable[[], Wishes]]] = [
    (Sampling(), Wishes),
    (Sampling(0.9, seed=4), lambda: Wishes(likeliest=3, hashes=True)),
    (Sampling(1.1, 0, 0.9, 1.3, seed=5), Wishes),
    (Sampling(0.8, 5), lambda: Wishes(constraint=OddTokens(260))),
    (Sampling(), lambda: Wishes(forced=[80, 81])),
]


def ask_together(batch: Batch, kinds: Sequence[int], choose: random.Random) -> None:
    """Texts of these kinds, until each has some tokens."""
    texts = [
        batch.add([choose.randrange(3, 250) for _ in range(choose.randint(1, 60))], sampling, wishes())
        for sampling, wishes in (_KINDS[kind] for kind in kinds)
    ]
    most = choose.randint(4, 12)
    while batch.texts:
        batch.step()
        for text in [text for text in batch.texts if text.generated >= most]:
            batch.remove(text)
    assert all(text.generated >= most for text in texts)


def test_texts_make_nothing_new_on_the_device_once_their_like_were_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a server's memory stays flat, which a driver's need not where objects come and go."""
    monkeypatch.setattr(EngineMemory, "_needs_staging", True)  # as on a discrete GPU, where copies are recorded, too
    choose, numbers = random.Random(8), range(len(_KINDS))
    with dml.Device() as device, LanguageModel(folder, device, max_length=ROOM, sequences=2) as opened:
        batch = opened.batch()
        for _ in range(2):  # in either place, and behind the graphs' own constants
            for together in [*zip(numbers), *itertools.combinations_with_replacement(numbers, 2)]:
                ask_together(batch, together, choose)
        with native_objects() as counts:
            for _ in range(20 if IS_QUICK else 60):
                ask_together(batch, choose.choices(numbers, k=choose.randint(1, 2)), choose)
        assert not counts


def test_a_batch_chooses_the_tokens_of_a_single_stream(model: LanguageModel) -> None:
    choose = random.Random(5)
    requests = [request for request in (Request(choose, 260) for _ in range(30)) if request.is_plain]
    together = answers(model.batch(), requests, choose, SEQUENCES)
    for request, (tokens, *_) in zip(requests, together, strict=True):
        stream = list(model.generate(request.tokens, request.sampling, most=request.most))
        assert stream == tokens[: len(stream)]
        assert len(stream) == len(tokens) or tokens[len(stream)] in model.folder.end_tokens


def test_a_stream_and_a_batch_in_other_places_take_turns(model: LanguageModel) -> None:
    sampling = Sampling(0.9, seed=9)
    alone = [list(model.generate(tokens, sampling, most=16)) for tokens in ([50, 51], [90, 91, 92])]
    batch = model.batch()
    batch.remove(batch.add([5], Sampling()))  # so that the stream's place is not the next one
    stream = model.generate([50, 51], sampling, most=16)
    streamed, text = list(itertools.islice(stream, 4)), batch.add([90, 91, 92], sampling)
    assert text.slot is not None and text.slot.place
    for token in stream:
        streamed.append(token)
        batch.step()
    batch.remove(text)
    assert streamed == alone[0]
    assert text.generated > 8 and text.tokens[3:][: len(alone[1])] == alone[1][: text.generated]


def fingerprints(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """Of rows' bits, by NumPy."""
    bits = logits.view(np.uint32)[:, None] + np.arange(logits.shape[1], dtype=np.uint32) * np.uint32(0x9E3779B1)
    mixed = bits ^ (np.arange(1, 5, dtype=np.uint32)[:, None] * np.uint32(0x7FEB352D))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> shift)) * np.uint32(factor)
    return np.asarray(mixed.sum(axis=2), np.uint32)


def test_what_stands_in_a_place_is_not_run_again(model: LanguageModel) -> None:
    batch, choose = model.batch(), random.Random(3)
    tokens = [choose.randrange(3, 250) for _ in range(70)]
    alone = model.sequence().logits([*tokens, 200, 201]).numpy()
    first = batch.add([*tokens, 99], Sampling())
    while not first.generated:
        batch.step()
    others = [batch.add([*tokens, 200, 201], Sampling(), Wishes(hashes=True)) for _ in range(2)]
    assert [other.reused for other in others] == [70, 70], "of a place that is in use"
    assert first.slot not in [other.slot for other in others]
    while not all(other.generated for other in others):
        batch.step()
    assert {other.hash.digest() for other in others} == {hashlib.sha256(fingerprints(alone).tobytes()).digest()}
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


DRAFT_ROOM = 96


@pytest.fixture(scope="module")
def draft_model(folder: Path) -> Iterator[LanguageModel]:
    with LanguageModel(folder, max_length=DRAFT_ROOM, sequences=2, drafts=True) as opened:
        yield opened


class Guesses:
    """Guesses that are right as often as is wanted.

    Args:
        choose: where guesses go wrong.
    """

    def __init__(self, answer: Sequence[int], choose: random.Random, share: float) -> None:
        self._answer, self._choose, self._share = answer, choose, share

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        right = self._answer[len(tokens) : len(tokens) + most]
        return [token if self._choose.random() < self._share else 5 for token in right]


class RareGuesses(Guesses):
    """The same, but not at each length of a text."""

    def draft(self, tokens: Sequence[int], most: int) -> Sequence[int]:
        return () if len(tokens) % 3 else super().draft(tokens, most)


def continued(
    draft_model: LanguageModel, tokens: Sequence[int], sampling: Sampling, most: int, drafter: Drafter | None
) -> tuple[list[int], int]:
    """The tokens behind a prompt, and the steps that they took."""
    batch = draft_model.batch()
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
def test_tokens_are_the_same_whatever_is_guessed(draft_model: LanguageModel, sampling: Sampling) -> None:
    choose = random.Random(3)
    tokens = [70, 71, 72, 73, 74] * 4 + [choose.randrange(3, 250)]
    plain, _ = continued(draft_model, tokens, sampling, 40, None)
    assert continued(draft_model, tokens, sampling, 40, PromptLookup())[0] == plain
    for share in (0.0, 0.7, 1.0):
        drafted, steps = continued(draft_model, tokens, sampling, 40, Guesses(plain, choose, share))
        assert drafted == plain
        assert steps <= (40 if share < 1 else 5)  # of more tokens each time
    to_the_end, _ = continued(draft_model, tokens, sampling, DRAFT_ROOM, None)
    assert len(to_the_end) == DRAFT_ROOM + 1
    assert continued(draft_model, tokens, sampling, DRAFT_ROOM, Guesses(to_the_end, choose, 0.8))[0] == to_the_end


@pytest.mark.parametrize("sampling", SAMPLINGS[1:3], ids=repr)
def test_steps_that_cannot_be_recorded_go_on_behind_guesses(
    draft_model: LanguageModel, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = continued(draft_model, [70, 71], sampling, 40, None)
    monkeypatch.setattr(SequenceCaches, "chain", lambda *_: None)
    rare = RareGuesses(plain, random.Random(3), 0.7)
    assert continued(draft_model, [70, 71], sampling, 40, rare)[0] == plain


def test_forced_tokens_run_together_and_are_told_as_one_by_one(draft_model: LanguageModel) -> None:
    wishes = Wishes(2, None, [80, 81, 82, 90] * 6, hashes=True)

    def told(company: int) -> tuple[object, int]:
        """Tokens, likelihoods and hash of a text, and the steps that they took; it is not drafted in company."""
        batch, found, steps = draft_model.batch(), list[Likelihood | None](), 0
        others = [batch.add([75], Sampling()) for _ in range(company)]
        text = batch.add([70, 71], Sampling(), wishes)
        while text.generated < 30:
            found += [likelihood for own, _, likelihood in batch.step() if own is text]
            steps += 1
        for each in (text, *others):
            batch.remove(each)
        return (text.tokens, found, text.hash.digest()), steps

    (alone, few), (together, many) = told(0), told(1)
    assert alone == together and few < many / 2


def test_a_smaller_model_of_the_same_tokens_guesses(draft_model: LanguageModel, folder: Path) -> None:
    plain, _ = continued(draft_model, [80, 81], Sampling(), 24, None)
    with LanguageModel(folder, max_length=DRAFT_ROOM) as smaller:
        drafted, steps = continued(draft_model, [80, 81], Sampling(), 24, ModelDrafter(smaller, draft_model))
    assert drafted == plain and steps < 8


def test_a_text_in_company_waits_with_its_drafts(draft_model: LanguageModel) -> None:
    tokens = [70, 71, 72] * 5
    plain, _ = continued(draft_model, tokens, Sampling(), 20, None)
    batch = draft_model.batch()
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
    end = [1, 2, 3, 4]
    assert lookup.draft([*end, 9, 8, 7, *end], 4) == [9, 8, 7, 1]
    assert lookup.draft([*end, 7, *end, 6, *end], 2) == [6, 1]
    assert lookup.draft([5, *end, 7, 6, *end, 8, 5, *end], 2) == [7, 6]
    for nothing in ([], [1], [1, 1], end, [*end[1:], 9, *end[1:]]):
        assert lookup.draft(nothing, 4) == []


def test_drafts_that_cannot_be_are_refused(folder: Path, draft_model: LanguageModel, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    file = tmp_path / "copy" / "model.onnx"
    file.write_bytes(file.read_bytes().replace(b"logit_positions", b"other_positions"))
    with pytest.raises(dml.UnsupportedError, match=r"no initializer logit_positions.*drafts need more"):
        LanguageModel(tmp_path / "copy", drafts=True)
    with pytest.raises(dml.InvalidArgumentError, match="9999 is none of the vocabulary"):
        continued(draft_model, [70], Sampling(), 9, Guesses([0, 9999, 9999, 9999], random.Random(0), 1.0))


TEXTS = ["ab cd", "What is the capital of France?", "x", "", "ab cd", "é and a longer text of more words than others"]

_ENCODER = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1}

_ENCODER |= {"num_attention_heads": 4, "max_position_embeddings": 64}

_DECODER = _ENCODER | {"num_key_value_heads": 2, "head_dim": 32}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", _ENCODER),
    "roberta": ("Roberta", _ENCODER | {"pad_token_id": 2}),
    "e5": ("XLMRoberta", _ENCODER | {"pad_token_id": 2}),
    "gemma": (
        "Gemma3Text",
        {
            **_DECODER,
            **{"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
            **{"sliding_window": 12, "use_bidirectional_attention": True},
        },
    ),
    "qwen3": ("Qwen3", _DECODER),
    **{
        name: (kind, _DECODER | {"num_hidden_layers": 2} | own)
        for name, (kind, own) in DECODERS.items()
        if name.startswith("gemma4")
    },
}


def write_tokenizer(folder: Path) -> None:
    """Single bytes between two tokens; a second text has the type 1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    tokens = byte_tokens()
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    first, last = (tokens[0], 0), (tokens[1], 1)
    tokenizer.post_processor = processors.BertProcessing(last, first)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(folder: Path, name: str, suffix: str = "Model", **more: Any) -> Any:
    """A folder of transformers with a small random model; the model."""
    import transformers

    kind, fields = CASES[name]
    config = getattr(transformers, f"{kind}Config")(**fields | more)
    model: Any = getattr(transformers, f"{kind}{suffix}")._from_config(config, attn_implementation="eager")
    initialize(model, name)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return getattr(transformers, f"{kind}{suffix}").from_pretrained(folder, attn_implementation="eager").eval()


def write_modules(folder: Path, pooling: str, width: int) -> tuple[Any, Any]:
    """What sentence-transformers has beside a model: pooling, a layer, the length 1; the layer's weights and bias."""
    save_file = pytest.importorskip("safetensors.numpy").save_file
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")]
    modules = [
        {"idx": n, "path": path, "type": f"sentence_transformers.models.{kind}"} for n, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    for path, _ in kinds[1:3]:
        (folder / path).mkdir()
    config: dict[str, Any] = {"word_embedding_dimension": width, f"pooling_mode_{pooling}": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    config = {
        "in_features": width,
        "out_features": 24,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
    random_ = np.random.default_rng(0)
    weights, bias = random_.standard_normal((24, width), np.float32), random_.standard_normal(24, np.float32)
    save_file({"linear.weight": weights, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")
    prompts = {"prompts": {"query": "ask: ", "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return weights, bias


def states_of(reference: Any, model: EmbeddingModel, text: str) -> Any:
    """What transformers gives for a text's tokens."""
    import torch

    with torch.no_grad():
        return reference(torch.tensor([model.tokenizer.encode(text).ids])).last_hidden_state[0].numpy()


POOLINGS = [
    *(("bert", "mean_tokens"), ("roberta", "mean_tokens"), ("e5", "cls_token")),
    *(("gemma", "mean_tokens"), ("qwen3", "lasttoken")),
    *(("gemma4", "lasttoken"), ("gemma4_moe", "lasttoken")),
]


@pytest.mark.parametrize(("name", "pooling"), POOLINGS)
def test_vectors_are_those_of_transformers_alone_and_among_others(
    tmp_path: Path, device: dml.Device, name: str, pooling: str
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_model(tmp_path, name)
    with EmbeddingModel(tmp_path, device) as model:
        assert model.dimensions == 64
        found = model.encode(TEXTS)
        for text, vector in zip(TEXTS, found, strict=True):
            assert model.encode(text).tobytes() == vector.tobytes()
            states = states_of(reference, model, text)
            expected = states[-1] / np.linalg.norm(states[-1]) if pooling == "lasttoken" else states.mean(0)
            np.testing.assert_allclose(vector, expected, atol=1e-4)
    weights, bias = write_modules(tmp_path, pooling, 64)
    with EmbeddingModel(tmp_path, device) as model:
        for text, vector in zip(TEXTS, model.encode(TEXTS, prompt_name="query"), strict=True):
            states = states_of(reference, model, f"ask: {text}")
            pooled = {"mean_tokens": states.mean(0), "cls_token": states[0], "lasttoken": states[-1]}[pooling]
            expected = weights @ pooled + bias
            np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)
        with pytest.raises(dml.InvalidArgumentError, match="has no prompt 'answer'; it has query, document"):
            model.encode("a", prompt_name="answer")
        with pytest.raises(dml.InvalidArgumentError, match="must be a str"):
            model.encode(["a", None])


@pytest.mark.parametrize(("name", "labels"), [("bert", 1), ("roberta", 1), ("e5", 3)])
def test_scores_of_pairs_are_those_of_transformers(tmp_path: Path, device: dml.Device, name: str, labels: int) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_model(tmp_path, name, "ForSequenceClassification", num_labels=labels)
    with Reranker(tmp_path, device) as model:
        found = model.score("ab?", TEXTS)
        assert found.shape == ((len(TEXTS),) if labels == 1 else (len(TEXTS), labels))
        for text, score in zip(TEXTS, found, strict=True):
            pair = model.tokenizer.encode("ab?", text)
            with torch.no_grad():
                expected = reference(torch.tensor([pair.ids]), token_type_ids=torch.tensor([pair.type_ids])).logits[0]
            np.testing.assert_allclose(score, expected.numpy().squeeze(), atol=1e-4)
    with pytest.raises(dml.UnsupportedError, match="classifier"):
        EmbeddingModel(tmp_path)


def test_what_makes_no_vectors_or_no_next_token_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_model(tmp_path, "bert")
    with pytest.raises(dml.UnsupportedError, match="gives vectors, and no next token"):
        LanguageModel(tmp_path)
    with pytest.raises(dml.UnsupportedError, match="has no classifier"):
        Reranker(tmp_path)
    write_modules(tmp_path, "max_tokens", 64)
    with pytest.raises(dml.UnsupportedError, match=r"pools by \['max'\]; one of mean, cls, lasttoken"):
        EmbeddingModel(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "a.Transformer"}, {"type": "a.LSTM"}]))
    with pytest.raises(dml.UnsupportedError, match="a module is 'LSTM'"):
        EmbeddingModel(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "a.Dense", "path": "../x"}]))
    with pytest.raises(dml.ModelFileError, match=r"the path '../x' is none inside of the folder"):
        EmbeddingModel(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(dml.ModelFileError, match=r"has no tokenizer\.json"):
        EmbeddingModel(tmp_path)
