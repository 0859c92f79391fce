"""Attention over caches that gives out its scores, or whose beams take keys from each other, is as ONNX Runtime's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.effort import some
from tests.onnx import models
from tests.onnx.test_attention import Array, Arrays

_OUTPUTS = ["y", "present_key", "present_value", "scores"]
_SIZE = 16


def _model(
    op_type: str, order: list[str], feed: Arrays, outputs: list[str], open_axes: dict[str, Any], **attributes: Any
) -> onnx.ModelProto:
    """One node; ``open_axes`` has the shapes of inputs that have other sizes in other runs."""
    node = helper.make_node(op_type, models.in_order(order, feed), outputs, domain="com.microsoft", **attributes)
    inputs = {
        name: (helper.np_dtype_to_tensor_dtype(values.dtype), open_axes.get(name, values.shape))
        for name, values in feed.items()
    }
    return models.model([node], inputs, dict.fromkeys(outputs, helper.np_dtype_to_tensor_dtype(feed["q"].dtype)))


def _expected(model: onnx.ModelProto, feed: Arrays) -> list[Array]:
    session = models.onnx_runtime(model)
    return [np.asarray(values) for values in session.run(None, feed)]


def _check(found: list[Array], expected: list[Array], tolerance: float = 3e-4) -> None:
    for name, a, b in zip(_OUTPUTS, found, expected, strict=False):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("mode", [1, 2])
def test_scores_of_a_growing_text_have_one_plan_and_the_bits_of_any_capacity(device: dml.Device, mode: int) -> None:
    numbers = np.random.default_rng(3)
    tokens = {name: numbers.standard_normal((1, 9, 2 * _SIZE)).astype(np.float32) for name in "qkv"}
    cache = (1, 2, 0, _SIZE)
    first: Arrays = {**{name: values[:, :4] for name, values in tokens.items()}}
    first |= {name: np.zeros(cache, np.float32) for name in ("past_key", "past_value")}
    first |= {"ends": np.array([3], np.int32), "total": np.array([4], np.int32)}
    axes = {
        **dict.fromkeys("qkv", (1, "t", 2 * _SIZE)),
        **dict.fromkeys(("past_key", "past_value"), (1, 2, "p", _SIZE)),
    }
    order = ["q", "k", "v", "past_key", "past_value", "ends", "total"]
    heads = {"num_heads": 2, "kv_num_heads": 2, "qk_output": mode}
    model = _model("GroupQueryAttention", order, first, _OUTPUTS, axes, **heads)
    made = ort.InferenceSession(model, device=device, strict=True)
    feed, total = first, 4
    while total <= 9:
        found = made.run(None, feed)
        _check(found, _expected(model, feed))
        assert found[3].shape == (1, 2, feed["q"].shape[1], total)
        room = dict(feed)
        for name in ("past_key", "past_value"):
            room[name] = np.concatenate([feed[name], np.full((1, 2, 300, _SIZE), 7, np.float32)], axis=2)
        alone = _model("GroupQueryAttention", order, room, _OUTPUTS, {}, **heads)
        own = ort.InferenceSession(alone, device=device).run(None, room)
        assert own[3].tobytes() == found[3].tobytes(), total
        feed = {name: values[:, total : total + 1] for name, values in tokens.items()}
        feed |= {"past_key": found[1], "past_value": found[2]}
        feed |= {"ends": np.array([total], np.int32), "total": np.array([total + 1], np.int32)}
        total += 1
    assert made._program.plan_count == 2  # of four tokens, and of one


def _of_beams(seed: int, op_type: str, *, shows: bool) -> tuple[onnx.ModelProto, Arrays]:
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    groups, beams, heads = choose.randint(1, 2), choose.randint(1, 4), choose.randint(1, 3)
    room = choose.choice((6, 40, 600))
    past, batch = choose.randint(1, room - 1), groups * beams

    def normal(*shape: int) -> Array:
        return numbers.standard_normal(shape).astype(np.float32)

    feed: Arrays = {name: normal(batch, 1, heads * _SIZE) for name in "qkv"}
    feed |= {name: normal(batch, heads, room, _SIZE) for name in ("past_key", "past_value")}
    feed["past"] = np.array([past], np.int32)
    if choose.random() < 0.7:
        feed["beams"] = numbers.integers(0, beams, (groups, beams, room)).astype(np.int32)
    if choose.random() < 0.4:
        feed["mask"] = numbers.integers(0, 2, (batch, past + 1)).astype(np.int32)
    if choose.random() < 0.4:
        feed["added"] = normal(1, choose.choice((1, heads)), 1, past + 1)
    if choose.random() < 0.4:
        feed["bias"] = normal(3 * heads * _SIZE)
    attributes: dict[str, Any] = {"num_heads": heads}
    names: tuple[str, ...]
    if op_type == "MultiHeadAttention":
        names = ("q", "k", "v", "bias", "mask", "added", "past_key", "past_value", "past", "beams")
    else:
        names = ("q", "k", "v", "mask", "added", "past_key", "past_value", "past", "width", "beams", "bias")
        attributes |= {"past_present_share_buffer": 1, "output_qk": int(shows)}
        if "beams" in feed:
            feed["width"] = np.array([beams], np.int32)
    order = [name if name in feed else "" for name in names]
    return _model(op_type, order, feed, _OUTPUTS[: 3 + shows], {}, **attributes), feed


@pytest.mark.parametrize("op_type", ["DecoderMaskedMultiHeadAttention", "MultiHeadAttention"])
@pytest.mark.parametrize("seed", some(range(12), 3))
def test_beams_and_scores_behind_a_past(any_device: dml.Device, op_type: str, seed: int) -> None:
    for shows in (False, True):
        model, feed = _of_beams(seed, op_type, shows=shows)
        session = ort.InferenceSession(model, device=any_device, strict=True)
        for past in {1, int(feed["past"][0])}:
            given = {**feed, "past": np.array([past], np.int32)}
            if past != int(feed["past"][0]) and feed.keys() & {"mask", "added"}:
                continue  # they have a column for each key
            found, expected = session.run(None, given), _expected(model, given)
            for index in (1, 2):  # rows behind the new one may be anything
                found[index], expected[index] = found[index][:, :, : past + 1], expected[index][:, :, : past + 1]
            _check(found, expected)
        assert session._program.plan_count == 1


def test_a_beam_that_is_none_is_refused_and_on_the_device_reads_nothing_outside(device: dml.Device) -> None:
    feed = _of_beams(0, "MultiHeadAttention", shows=False)[1]
    feed = {name: feed[name] for name in ("q", "k", "v", "past_key", "past_value", "past")}
    batch, heads, room, _ = feed["past_key"].shape
    feed["beams"] = np.zeros((1, batch, room), np.int32)
    order = ["q", "k", "v", "", "", "", "past_key", "past_value", "past", "beams"]
    model = _model("MultiHeadAttention", order, feed, _OUTPUTS[:3], {}, num_heads=heads)
    session, past = ort.InferenceSession(model, device=device), int(feed["past"][0])
    feed["beams"][..., past:] = 2**30  # places that there are no keys for yet
    expected = session.run(None, feed)[0]
    feed["beams"][0, 0, past - 1] = batch
    with pytest.raises(dml.InvalidArgumentError, match=f"'beams' names the beam {batch}; there are {batch}"):
        session.run(None, feed)
    feed["beams"][..., :past] = 2**30
    given = {name: ort.OrtValue.ortvalue_from_numpy(values, "dml") for name, values in feed.items()}
    assert np.isfinite(session.run_with_ort_values(["y"], given)[0].numpy()).all()
    feed["beams"][..., :past] = 0
    assert session.run(None, feed)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", [5, 3])
def test_beams_have_the_bits_of_caches_that_were_put_in_order(any_device: dml.Device, seed: int) -> None:
    op_type = "DecoderMaskedMultiHeadAttention"
    model, feed = _of_beams(seed, op_type, shows=True)
    found = ort.InferenceSession(model, device=any_device, strict=True).run(None, feed)
    past, beams = int(feed["past"][0]), feed["beams"].reshape(len(feed["q"]), -1)
    group = np.arange(len(beams)) // feed["beams"].shape[1] * feed["beams"].shape[1]
    other = {name: values for name, values in feed.items() if name not in ("beams", "width")}
    for name in ("past_key", "past_value"):
        other[name] = feed[name].copy()
        for sequence, first in enumerate(group):
            for place in range(past):
                other[name][sequence, :, place] = feed[name][first + beams[sequence, place], :, place]
    names = ("q", "k", "v", "mask", "added", "past_key", "past_value", "past", "", "", "bias")
    order = [name if name in other else "" for name in names]
    heads = feed["past_key"].shape[1]
    options = {"num_heads": heads, "past_present_share_buffer": 1, "output_qk": 1}
    alone = _model(op_type, order, other, _OUTPUTS, {}, **options)
    wanted = ort.InferenceSession(alone, device=any_device, strict=True).run(None, other)
    assert found[0].tobytes() == wanted[0].tobytes()
    assert found[3].tobytes() == wanted[3].tobytes()
