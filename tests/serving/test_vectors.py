"""/v1/embeddings: the vectors of the model, whoever else asks."""

from __future__ import annotations

import base64
import concurrent.futures
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlvk.language import EmbeddingModel, LanguageModel
from dmlvk.serving.vectors import Vectors
from tests.language.small_llama import byte_tokens, write_tensors
from tests.serving.small_server import RunningServer, running

PLACE, HIDDEN, INNER, POSITIONS = "/v1/embeddings", 32, 48, 40


def write_encoder(folder: Path) -> None:
    """A bert of one layer with random weights, and a tokenizer of single bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    random, tokens, tensors = np.random.default_rng(0), byte_tokens(), dict[str, Any]()
    own, line = "encoder.layer.0", (HIDDEN, HIDDEN)
    shapes = {
        f"embeddings.{name}_embeddings": (rows, HIDDEN)
        for name, rows in (("word", len(tokens)), ("position", POSITIONS), ("token_type", 2))
    }
    shapes |= {f"{own}.attention.self.{name}": line for name in ("query", "key", "value")}
    shapes |= {
        f"{own}.attention.output.dense": line,
        f"{own}.intermediate.dense": (INNER, HIDDEN),
        f"{own}.output.dense": (HIDDEN, INNER),
    }
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = random.standard_normal(shape).astype(np.float32) / 4
        if name.startswith(own):
            tensors[f"{name}.bias"] = random.standard_normal(shape[0]).astype(np.float32)
    for name in ("embeddings", f"{own}.attention.output", f"{own}.output"):
        tensors[f"{name}.LayerNorm.weight"] = np.ones(HIDDEN, np.float32)
        tensors[f"{name}.LayerNorm.bias"] = np.zeros(HIDDEN, np.float32)
    write_tensors(folder / "model.safetensors", tensors)
    config = {
        **{"model_type": "bert", "architectures": ["BertModel"], "hidden_size": HIDDEN, "num_hidden_layers": 1},
        **{"num_attention_heads": 2, "intermediate_size": INNER, "max_position_embeddings": POSITIONS},
        **{"vocab_size": len(tokens), "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, EmbeddingModel]]:
    """A server with both kinds of models, and the one that makes vectors."""
    encoder = tmp_path_factory.mktemp("bert")
    write_encoder(encoder)
    with (
        LanguageModel(folder, max_length=64) as model,
        EmbeddingModel(encoder, model.device) as vectors,
        running(model, vectors=Vectors(vectors, "bert")) as server,
    ):
        yield server, vectors


def test_vectors_are_the_models_whoever_else_asks(served: tuple[RunningServer, EmbeddingModel]) -> None:
    server, model = served
    texts = ["one", "another text", "\u00fcber", "one"]
    expected = [model.encode(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        answers = clients.map(
            lambda n: server.ask(PLACE, {"input": texts[: n + 1], "encoding_format": "base64"}), range(4)
        )
        for status, answer in answers:
            assert status == 200
            for place, entry in enumerate(json.loads(answer)["data"]):
                assert base64.b64decode(entry["embedding"]) == expected[place].astype("<f4").tobytes()
    found = json.loads(server.ask(PLACE, {"input": "one"})[1])
    assert np.array_equal(np.array(found["data"][0]["embedding"], np.float32), expected[0])
    assert found["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
    vector = client.embeddings.create(model="bert", input="one").data[0].embedding
    assert np.array_equal(np.array(vector, np.float32), expected[0])


def test_hostile_requests_for_vectors_are_one_error_each(served: tuple[RunningServer, EmbeddingModel]) -> None:
    server, _ = served
    for body, status, message in (
        ({}, 400, "input must be a text"),
        ({"input": [1, 2]}, 400, "tokens are not read"),
        ({"input": ["a", ""]}, 400, "input[1]"),
        ({"input": "x" * 41}, 400, "more than 40 tokens"),
        ({"input": "\ud800"}, 400, "input[0]"),
        ({"input": "a", "dimensions": 8}, 400, "dimensions must be 32"),
        ({"input": "a", "model": "small"}, 404, "there is no model 'small' for embeddings"),
        ({"input": "a", "odd": 1}, 400, "odd is no field"),
    ):
        found = server.error(PLACE, body)
        assert found[0] == status and message in found[1], found
