"""Models of Hugging Face's transformers, at tiny configurations: one graph each, right, and planned once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has both in a check of their own
transformers = pytest.importorskip("transformers")

import dmlvk.torch  # noqa: E402 - needs PyTorch, and registers the backend
from dmlvk.cli import cli  # noqa: E402
from dmlvk.graphs.plan import Plan  # noqa: E402
from tests.counted_calls import calls_of  # noqa: E402

LIMIT = 1e-4  # Of the largest element, as far as results may differ from PyTorch's on the CPU

Made = tuple[Any, dict[str, Any]]

TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
PICTURES = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def tokens() -> Any:
    return torch.randint(1, 64, (2, 9))


def bert() -> Made:
    model = transformers.BertModel(transformers.BertConfig(**TEXT))
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return model, {"input_ids": tokens(), "attention_mask": mask}


def gpt2() -> Made:
    config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return transformers.GPT2LMHeadModel(config), {"input_ids": tokens()}


def vit() -> Made:
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**PICTURES))
    return model, {"pixel_values": torch.randn(2, 3, 16, 16)}


def clip() -> Made:
    config = transformers.CLIPConfig(text_config={**TEXT, "eos_token_id": 63}, vision_config=PICTURES)
    given = {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 16, 16)}
    return transformers.CLIPModel(config), given


def t5_encoder() -> Made:
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return transformers.T5EncoderModel(config), {"input_ids": tokens()}


def whisper_encoder() -> Made:
    config = transformers.WhisperConfig(
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
    )
    return transformers.WhisperModel(config).encoder, {"input_features": torch.randn(2, 8, 40)}


def resnet() -> Made:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2])
    return transformers.ResNetForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def segformer() -> Made:
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16
    )
    return transformers.SegformerForSemanticSegmentation(config), {"pixel_values": torch.randn(1, 3, 64, 64)}


MODELS = [bert, gpt2, vit, clip, t5_encoder, whisper_encoder, resnet, segformer]


def difference(got: Any, wanted: Any) -> float:
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    return float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_is_one_graph_right_and_planned_once(
    make: Callable[[], Made], any_device: dml.Device, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = calls_of(monkeypatch, Plan, "__init__")
    model, given = make()
    model.eval()
    run = torch.compile(model, backend="dmlvk", fullgraph=True, options={"device": any_device})
    others = {name: value.flip(0) for name, value in given.items()}
    with torch.no_grad(), caplog.at_level(logging.WARNING, "dmlvk"):
        for number, inputs in enumerate((given, others)):
            wanted = model(**inputs)  # first: transformers 5 installs hooks under a lock then, which breaks graphs
            found = run(**inputs)
            assert len(planned) == 1, f"graphs on the device after call {number}"
            for name, value in wanted.items():
                if isinstance(value, torch.Tensor):
                    assert difference(found[name], value) < LIMIT, name
    assert "the CPU computes" not in caplog.text


@pytest.mark.parametrize(
    "work, precision", [("chain", "float16"), pytest.param("gpt-training", "amp", marks=pytest.mark.sweep)]
)
def test_programs_are_timed_beside_the_cpu_and_have_its_results(
    device: dml.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], on: str, work: str, precision: str
) -> None:
    path, options = tmp_path / "times.json", ("--tiny", "--repeats", "1", "--precision", precision)
    arguments = ["bench", "torch-device", work, *options, "-d", str(device.info.index), "--json", str(path)]
    cli.main(arguments, standalone_mode=False)
    (found,) = json.loads(path.read_text())["results"]
    ours, theirs = found[on], found["cpu"]
    assert ours["results"] == pytest.approx(np.array(theirs["results"]), rel=1e-3)
    assert ours["seconds"] >= ours["host"] > 0 < ours["memory"]
    assert "the CPU computed: nothing" in capsys.readouterr().out
