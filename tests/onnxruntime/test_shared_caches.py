"""A decoder's caches that others use, too, while it has begun a step that nobody has asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlvk.onnxruntime
from dmlvk.running.replay import Replay
from tests.counted_calls import calls_of
from tests.language.small_llama import KEY_HEADS, LAYERS, write_folder
from tests.onnxruntime.models import alone, session_of

ROWS, SIZE = 48, 16


class Text:
    """Tokens, and caches of the device that whichever session appends to."""

    def __init__(self) -> None:
        empty = np.zeros((1, KEY_HEADS, ROWS, SIZE), np.float32)
        self.tokens: list[int] = []
        self.caches = {
            f"{layer}.{part}": onnxruntime.OrtValue.ortvalue_from_numpy(empty, "gpu", 0, dmlvk.onnxruntime.VENDOR_ID)
            for layer in range(LAYERS)
            for part in ("key", "value")
        }

    def append(self, session: onnxruntime.InferenceSession, *tokens: int) -> Any:
        self.tokens += tokens
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([tokens], np.int64))
        binding.bind_cpu_input("attention_mask", np.ones((1, len(self.tokens)), np.int64))
        for name, cache in self.caches.items():
            binding.bind_ortvalue_input(f"past_key_values.{name}", cache)
            binding.bind_ortvalue_output(f"present.{name}", cache)
        binding.bind_output("logits", "cpu")
        session.run_with_iobinding(binding)
        return binding.get_outputs()[-1].numpy()

    def append_likeliest(self, session: onnxruntime.InferenceSession, count: int, logits: Any) -> Any:
        """So many times the token that is the likeliest one."""
        for _ in range(count):
            logits = self.append(session, int(logits.argmax()))
        return logits


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_folder(tmp_path_factory.mktemp("shared caches")) / "model.onnx")


def logits_of(session: onnxruntime.InferenceSession, tokens: list[int]) -> Any:
    """By ONNX Runtime's CPU, all tokens at once."""
    given: dict[str, Any] = {"input_ids": np.array([tokens], np.int64)}
    given["attention_mask"] = np.ones((1, len(tokens)), np.int64)
    for each in session.get_inputs()[2:]:
        given[each.name] = np.zeros((1, KEY_HEADS, 0, SIZE), np.float32)
    return session.run(["logits"], given)[0]


def test_what_nobody_asked_for_is_not_seen_and_does_not_overwrite_what_others_append(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = calls_of(monkeypatch, Replay, "start")
    first, second, host = session_of(model), session_of(model), alone(model)
    text = Text()
    for other in (90, 17):  # the second time both sessions repeat runs of theirs
        logits = text.append_likeliest(first, 6, text.append(first, 7, 200, 31))
        assert begun
        for cache in text.caches.values():
            there = cache.numpy()
            assert there[:, :, : len(text.tokens)].any(axis=(1, 3)).all()
            assert not there[:, :, len(text.tokens) :].any()
        logits = text.append_likeliest(first, 5, logits)
        for _ in range(3):
            logits = text.append(second, other)
        np.testing.assert_allclose(logits, logits_of(host, text.tokens), rtol=0, atol=1e-4)
        logits = text.append(first, 55)
        np.testing.assert_allclose(logits, logits_of(host, text.tokens), rtol=0, atol=1e-4)
