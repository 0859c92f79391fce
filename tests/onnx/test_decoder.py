"""A transformer's decoder block, token after token, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import decoder, models

pytest.importorskip("onnxruntime")

Arrays = dict[str, npt.NDArray[Any]]

_BATCH, _PROMPT, _TOKENS = 2, 5, 3


def numbers(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def generate(session: Any, feeds: list[Arrays], first: Arrays) -> list[list[npt.NDArray[Any]]]:
    """Runs one step after another; each is given the cache that the last one made."""
    state, found = first, []
    for feed in feeds:
        found.append(session.run(None, {**feed, **state}))
        state = {"past_key": found[-1][1], "past_value": found[-1][2]}
    return found


def sessions(model: onnx.ModelProto, device: dml.Device) -> tuple[Any, Any]:
    """One of dmlvk, on the device alone, and one of ONNX Runtime."""
    return ort.InferenceSession(model, device=device, strict=True), models.onnx_runtime(model)


def compare(model: onnx.ModelProto, device: dml.Device, feeds: list[Arrays], first: Arrays) -> list[Any]:
    own, other = sessions(model, device)
    made = generate(own, feeds, first)
    for step, expected in zip(made, generate(other, feeds, first), strict=True):
        for got, wanted in zip(step, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    return made


def test_a_block_with_group_query_attention(device: dml.Device) -> None:
    whole = numbers(1, _BATCH, _PROMPT + _TOKENS, decoder.HIDDEN)
    empty = np.zeros((_BATCH, decoder.KEY_HEADS, 0, decoder.SIZE), np.float32)
    feeds = []
    for begin, end in [(0, _PROMPT), *((at, at + 1) for at in range(_PROMPT, _PROMPT + _TOKENS))]:
        ends = np.full(_BATCH, end - 1, np.int32)
        feeds.append({"x": whole[:, begin:end], "ends": ends, "total": np.array(end, np.int32)})
    made = compare(decoder.with_cache(), device, feeds, {"past_key": empty, "past_value": empty})
    assert [step[1].shape[2] for step in made] == [5, 6, 7, 8]
    at_once = {"x": whole, "ends": feeds[-1]["ends"], "total": feeds[-1]["total"]}
    ((expected, *_),) = compare(decoder.with_cache(), device, [at_once], {"past_key": empty, "past_value": empty})
    np.testing.assert_allclose(np.concatenate([step[0] for step in made], axis=1), expected, rtol=0, atol=1e-5)


def test_a_block_of_onnx_s_own_operators(device: dml.Device) -> None:
    past = {
        name: numbers(seed, _BATCH, decoder.KEY_HEADS, 4, decoder.SIZE)
        for seed, name in ((2, "past_key"), (3, "past_value"))
    }
    feeds = []
    for begin, end in ((4, 7), (7, 8)):
        angles = np.random.default_rng(begin).uniform(-3, 3, (_BATCH, end - begin, decoder.SIZE // 2))
        x = numbers(begin, _BATCH, end - begin, decoder.HIDDEN)
        feeds.append({"x": x, "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)})
    made = compare(decoder.of_onnx(), device, feeds, past)
    assert [step[1].shape[2] for step in made] == [7, 8]
