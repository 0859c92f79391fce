#!/usr/bin/env python3
"""Measure what a token takes in onnxruntime-genai on dmlvk, beside dmlvk's own decoding, which ``dmlvk chat`` uses.

    python scripts/measure_genai.py [--size 135M] [--tokens 32] [--length 64]

A llama with random weights (those of ``dmlvk bench decoder``) is written to a folder; both generate the likeliest
tokens behind a prompt, in turns. The median of a token, beside the least of dmlvk's own medians, which are repeated
until the device is awake; which device it is ``DMLVK_DEVICE`` says.

Exit status: 0 measured, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="135M")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--length", type=int, default=64, help="tokens of the prompt")
    options = parser.parse_args(arguments)
    size, capacity = SIZES[options.size], options.length + 2 * (options.tokens + _WARM_UP) + 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_decoder(folder / "model.onnx", size, capacity)
        (folder / "genai_config.json").write_text(json.dumps(config_of(size, capacity)), encoding="utf-8")
        prompt = np.random.default_rng(3).integers(0, size.vocabulary - 1, options.length).tolist()
        model = genai.Model(str(folder))
        seconds_of_genai(model, prompt, 1)  # plans
        with dmlvk.Device() as device:
            bench = DecoderBench(device, folder / "model.onnx", size, capacity)
            inside, alone, sent = [], [], 0
            for _ in range(_TURNS):
                until = time.perf_counter() + _HEATED
                while True:  # a device that has idled has a low clock
                    alone.append(bench.tokens(options.length, options.tokens).seconds)
                    if time.perf_counter() >= until:
                        break
                before = dmlvk.onnxruntime.traffic().to_device
                inside += seconds_of_genai(model, prompt, options.tokens)
                sent += dmlvk.onnxruntime.traffic().to_device - before
            bench.close()
            token, own = float(np.median(inside)), float(np.min(alone))
            print(f"{device.info.name}: {options.size}, onnxruntime-genai {token * 1e3:.2f} ms a token")
    steps = _TURNS * (options.tokens + _WARM_UP)
    print(f"dmlvk's own decoding {own * 1e3:.2f} ms: {own / token:.2f} of its speed")
    print(f"bytes to the device for a token {sent // steps}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
