"""Vectors and scores of texts, beside transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.language import EmbeddingModel, LanguageModel, Reranker
from tests.language.small_llama import byte_tokens
from tests.language.small_models import initialize

TEXTS = ["ab cd", "What is the capital of France?", "x", "", "ab cd", "é and a longer text of more words than others"]
_ENCODER = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1}
_ENCODER |= {"num_attention_heads": 4, "max_position_embeddings": 64}
_DECODER = _ENCODER | {"num_key_value_heads": 2, "head_dim": 32}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", _ENCODER),
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


POOLINGS = [("bert", "mean_tokens"), ("e5", "cls_token"), ("gemma", "mean_tokens"), ("qwen3", "lasttoken")]


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
            expected = states[-1] / np.linalg.norm(states[-1]) if name == "qwen3" else states.mean(0)
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


@pytest.mark.parametrize(("name", "labels"), [("bert", 1), ("e5", 3)])
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
