"""A token of onnxruntime-genai, beside dmlvk's own decoding."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime_genai as genai

import dmlvk
import dmlvk.onnxruntime
import dmlvk.onnxruntime.genai
from dmlvk.bench.decoder import DecoderBench
from dmlvk.bench.decoder_models import SIZES, DecoderSize, write_decoder

_WARM_UP = 8
"""Tokens that are not counted."""

_TURNS = 3
"""In which both take turns."""

_HEATED = 0.6
"""Seconds of a device's work before the other one is measured."""


def config_of(size: DecoderSize, capacity: int) -> dict[str, Any]:
    """A ``genai_config.json`` for a decoder of these sizes."""
    decoder = {
        "session_options": {"provider_options": [{"webgpu": {}}]},
        "filename": "model.onnx",
        "head_size": size.head,
        "hidden_size": size.hidden,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.key_heads,
    }
    model = {
        "type": "llama",
        "context_length": capacity,
        "vocab_size": size.vocabulary,
        "bos_token_id": 0,
        "eos_token_id": [size.vocabulary - 1],
        "pad_token_id": 0,
        "decoder": decoder,
    }
    return {"model": model, "search": {"do_sample": False, "max_length": capacity, "past_present_share_buffer": True}}


def seconds_of_genai(model: Any, prompt: Sequence[int], count: int) -> list[float]:
    """What tokens take by onnxruntime-genai, one by one."""
    generator = genai.Generator(model, genai.GeneratorParams(model))
    generator.append_tokens(list(prompt))
    taken = []
    for _ in range(count + _WARM_UP):
        start = time.perf_counter()
        generator.generate_next_token()
        generator.get_next_tokens()
        taken.append(time.perf_counter() - start)
    return taken[_WARM_UP:]


@click.command()
@click.option("--size", "-s", "name", type=click.Choice(list(SIZES)), default="135M", show_default=True)
@click.option("--tokens", "-n", type=click.IntRange(1), default=32, show_default=True, help="For medians.")
@click.option("--length", "-l", type=click.IntRange(1), default=64, show_default=True, help="Tokens of the prompt.")
def command(name: str, tokens: int, length: int) -> None:
    """Time a token of onnxruntime-genai on dmlvk, beside dmlvk's own decoding, which ``dmlvk chat`` uses.

    A llama of random weights; both generate the likeliest tokens behind a prompt, in turns. DMLVK_DEVICE says on which
    device.
    """
    size, capacity = SIZES[name], length + 2 * (tokens + _WARM_UP) + 8
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_decoder(folder / "model.onnx", size, capacity)
        (folder / "genai_config.json").write_text(json.dumps(config_of(size, capacity)), encoding="utf-8")
        prompt = np.random.default_rng(3).integers(0, size.vocabulary - 1, length).tolist()
        model = genai.Model(str(folder))
        seconds_of_genai(model, prompt, 1)  # plans
        with dmlvk.Device() as device:
            bench = DecoderBench(device, folder / "model.onnx", size, capacity)
            inside, alone, sent = [], [], 0
            for _ in range(_TURNS):
                until = time.perf_counter() + _HEATED
                while True:  # a device that has idled has a low clock
                    alone.append(bench.tokens(length, tokens).seconds)
                    if time.perf_counter() >= until:
                        break
                before = dmlvk.onnxruntime.traffic().to_device
                inside += seconds_of_genai(model, prompt, tokens)
                sent += dmlvk.onnxruntime.traffic().to_device - before
            bench.close()
            token, own = float(np.median(inside)), float(np.min(alone))
            print(f"{device.info.name}: {name}, onnxruntime-genai {token * 1e3:.2f} ms a token")
    steps = _TURNS * (tokens + _WARM_UP)
    print(f"dmlvk's own decoding {own * 1e3:.2f} ms: {own / token:.2f} of its speed")
    print(f"bytes to the device for a token {sent // steps}")
