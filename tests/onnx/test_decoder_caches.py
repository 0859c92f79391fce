"""Caches of decoders: appended to where they lie, one plan for all lengths; scores, and beams that share keys."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.kernels.composed import cached_attention
from dmlvk.kernels.target import Target
from dmlvk.onnx.decoding.caches import CachePair, Caches
from dmlvk.onnx.model.loading import load
from dmlvk.onnx.plan.segments import Segment
from tests.counted_calls import calls_of
from tests.onnx import decoder, models
from tests.onnx.attention_forms import Form, whole_form
from tests.onnx.bound_caches import CACHES, PRESENTS, bound

Array = npt.NDArray[Any]

_NAMES = ["y", *PRESENTS]


def numbers(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def session(device: dml.Device) -> ort.InferenceSession:
    return ort.InferenceSession(decoder.with_mask(), device=device, strict=True)


def mask(batch: int, length: int) -> Array:
    return np.ones((batch, length), np.int64)


def empty(batch: int) -> dict[str, Any]:
    shape = (batch, decoder.KEY_HEADS, 0, decoder.SIZE)
    return {name: np.zeros(shape, np.float32) for name in CACHES}


def on_host(feed: dict[str, Array]) -> dict[str, ort.OrtValue]:
    return {name: ort.OrtValue.ortvalue_from_numpy(values) for name, values in feed.items()}


def grown(made: ort.InferenceSession, x: Array, parts: list[int], *, on_device: bool) -> Array:
    """What a growing cache gives, prompts of these lengths one after the other."""
    state, found, total = empty(len(x)), [], 0
    for count in parts:
        feed = {"x": x[:, total : total + count], "attention_mask": mask(len(x), total + count), **state}
        total += count
        if on_device:
            given = {
                name: ort.OrtValue.ortvalue_from_numpy(v, "dml") if isinstance(v, np.ndarray) else v
                for name, v in feed.items()
            }
            y, *caches = made.run_with_ort_values(_NAMES, given)
            found.append(y.numpy())
        else:
            y, *caches = made.run(_NAMES, feed)
            found.append(y)
        shape: Any = caches[0].shape
        assert tuple(shape() if on_device else shape) == (len(x), decoder.KEY_HEADS, total, decoder.SIZE)
        state = dict(zip(CACHES, caches, strict=True))
    return np.concatenate(found, axis=1)


def shared(made: ort.InferenceSession, x: Array, parts: list[int], capacity: int) -> tuple[Array, list[Array]]:
    """The same with caches of a fixed capacity that are inputs and outputs at once."""
    shape = (len(x), decoder.KEY_HEADS, capacity, decoder.SIZE)
    caches = {name: ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "dml") for name in CACHES}
    found, total = [], 0
    for count in parts:
        feed = {"x": x[:, total : total + count], "attention_mask": mask(len(x), total + count)}
        total += count
        binding = bound(made, feed, caches, are_shared=True)
        binding.run()
        found.append(binding.get_outputs()[0].numpy())
    return np.concatenate(found, axis=1), [value.numpy() for value in caches.values()]


def test_every_way_to_hold_a_cache_gives_the_same_bits(device: dml.Device) -> None:
    made, x = session(device), numbers(1, 1, 14, decoder.HIDDEN)
    expected = grown(made, x, [14], on_device=False)
    steps = [6] + [1] * 8
    assert grown(made, x, steps, on_device=False).tobytes() == expected.tobytes()
    assert grown(made, x, [3, 4, 7], on_device=True).tobytes() == expected.tobytes()
    for capacity in (14, 19, 300):
        assert shared(made, x, steps, capacity)[0].tobytes() == expected.tobytes()
    others = np.concatenate([numbers(2, 2, 14, decoder.HIDDEN), x])
    assert grown(made, others, steps, on_device=True)[2:].tobytes() == expected.tobytes()


def test_a_decoder_is_as_onnx_runtime_s(any_device: dml.Device) -> None:
    x = numbers(3, 2, 9, decoder.HIDDEN)
    other = models.onnx_runtime(decoder.with_mask())
    expected, *_ = other.run(_NAMES, {"x": x, "attention_mask": mask(2, 9), **empty(2)})
    np.testing.assert_allclose(shared(session(any_device), x, [5, 1, 1, 1, 1], 16)[0], expected, rtol=0, atol=2e-5)


def test_a_block_of_onnx_s_own_operators(device: dml.Device) -> None:
    model, state = decoder.of_onnx(), dict.fromkeys(CACHES, numbers(2, 2, decoder.KEY_HEADS, 4, decoder.SIZE))
    sessions = ort.InferenceSession(model, device=device, strict=True), models.onnx_runtime(model)
    for tokens in (3, 1):
        angles = np.random.default_rng(tokens).uniform(-3, 3, (2, tokens, decoder.SIZE // 2)).astype(np.float32)
        feed = {"x": numbers(tokens, 2, tokens, decoder.HIDDEN), "cos": np.cos(angles), "sin": np.sin(angles), **state}
        found, expected = (each.run(None, feed) for each in sessions)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        state = dict(zip(CACHES, found[1:], strict=True))
    assert state["past_key"].shape[2] == 8


@pytest.mark.parametrize("is_shared", [False, True], ids=["growing", "shared"])
def test_nothing_is_planned_after_the_second_length(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    made, x = session(any_device), numbers(4, 1, 20, decoder.HIDDEN)

    def run(parts: list[int]) -> None:
        if is_shared:
            shared(made, x, parts, 32)
        else:
            grown(made, x, parts, on_device=True)

    run([5, 1])
    planned, before = len(plans), len(recorded)
    assert planned == 2  # of the prompt, and of a token
    run([5] + [1] * 15)
    assert len(plans) == planned
    assert len(recorded) - before <= 4  # for the memory of the second call's caches and results, which take turns


def test_a_branch_by_the_length_is_a_plan_for_all_lengths_that_take_it(any_device: dml.Device) -> None:
    model, x, parts = decoder.with_branches(9), numbers(5, 1, 20, decoder.HIDDEN), [5] + [1] * 15
    other = models.onnx_runtime(model)
    expected = grown(other, x, parts, on_device=False)
    with ort.InferenceSession(model, device=any_device) as made:
        np.testing.assert_allclose(grown(made, x, parts, on_device=True), expected, rtol=0, atol=2e-5)
        assert made._program.plan_count == 3  # of the prompt, and of tokens before and behind the limit
        np.testing.assert_allclose(shared(made, x, parts, 32)[0], expected, rtol=0, atol=2e-5)


def test_a_cache_has_no_more_room_than_a_buffer(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = any_device.info.limits
    row = decoder.KEY_HEADS * decoder.SIZE * 4
    monkeypatch.setattr(type(limits), "largest_buffer", property(lambda _: 20 * row))
    pair = CachePair("past", "present", "node", "ends", "total")
    given = np.zeros((1, decoder.KEY_HEADS, 7, decoder.SIZE), np.float32)
    caches, info = Caches(any_device), load(decoder.with_mask()).inputs[1]
    rooms = [cache.shape[2] for total in (8, 20, 30) if (cache := caches.taken(pair, info, given, total)) is not None]
    assert rooms == [20, 20, 30]


def test_a_past_that_is_used_twice_is_not_written_over(any_device: dml.Device) -> None:
    made, x = session(any_device), numbers(5, 1, 8, decoder.HIDDEN)
    _, *caches = made.run_with_ort_values(_NAMES, on_host({"x": x[:, :6], "attention_mask": mask(1, 6), **empty(1)}))
    before = [value.numpy() for value in caches]
    state = dict(zip(CACHES, caches, strict=True))

    def following(token: int) -> list[Array]:
        given = on_host({"x": x[:, token : token + 1], "attention_mask": mask(1, 7)})
        return [value.numpy() for value in made.run_with_ort_values(_NAMES, {**given, **state})]

    first, second, again = following(6), following(7), following(6)
    assert [values.tobytes() for values in again] == [values.tobytes() for values in first]
    assert second[0].tobytes() != first[0].tobytes()
    assert [value.numpy().tobytes() for value in caches] == [values.tobytes() for values in before]


_WRONG = {
    "a mask that is longer than past and tokens": (mask(1, 9), "before its 1 new ones"),
    "a mask without tokens": (np.zeros((1, 7), np.int64), "0 tokens"),
    "a mask of other sequences": (mask(2, 7), "each of 1 sequences; got 2"),
}


@pytest.mark.parametrize("name", list(_WRONG))
def test_lengths_that_contradict_are_refused_and_caches_stay(any_device: dml.Device, name: str) -> None:
    made, x = session(any_device), numbers(6, 1, 8, decoder.HIDDEN)
    _, key, value = made.run(_NAMES, {"x": x[:, :6], "attention_mask": mask(1, 6), **empty(1)})
    caches = [ort.OrtValue.ortvalue_from_numpy(v, "dml") for v in (key, value)]
    given, words = _WRONG[name]
    with pytest.raises(dml.DmlError, match=words):
        made.run(_NAMES, {"x": x[:, 6:7], "attention_mask": given, "past_key": caches[0], "past_value": caches[1]})
    assert [found.numpy().tobytes() for found in caches] == [key.tobytes(), value.tobytes()]


@pytest.mark.parametrize("token", [7, -8])
def test_a_token_that_the_vocabulary_has_not_is_refused(any_device: dml.Device, token: int) -> None:
    table = numbers(1, 7, 4)
    nodes = models.parsed("y = Gather (table, ids)")
    model = models.model(nodes, {"ids": np.array([[0]])}, ["y"], {"table": table})
    made = ort.InferenceSession(model, device=any_device)
    assert np.array_equal(made.run(None, {"ids": np.array([[-7]])})[0], table[:1][None])
    with pytest.raises(dml.InvalidArgumentError, match=f"'ids' has the index {token}, beyond the 7"):
        made.run(None, {"ids": np.array([[token]])})


def test_a_length_without_angles_is_refused(any_device: dml.Device) -> None:
    made, x = session(any_device), numbers(6, 1, decoder.LONGEST + 1, decoder.HIDDEN)
    with pytest.raises(dml.DmlError, match=f"{decoder.LONGEST + 1} tokens; .* have {decoder.LONGEST} places"):
        made.run(_NAMES, {"x": x, "attention_mask": mask(1, decoder.LONGEST + 1), **empty(1)})


def test_a_shared_cache_that_is_full_is_refused_and_stays(any_device: dml.Device) -> None:
    made, x = session(any_device), numbers(7, 1, 8, decoder.HIDDEN)
    _, expected = shared(made, x, [6], 6)
    caches = [ort.OrtValue.ortvalue_from_numpy(values, "dml") for values in expected]
    feed = {"x": x[:, 6:7], "attention_mask": mask(1, 7)}
    binding = bound(made, feed, dict(zip(CACHES, caches, strict=True)), are_shared=True)
    with pytest.raises(dml.DmlError, match=r"'present_key' will have the shape \[1, 2, 7, 16\]; .* of \[1, 2, 6, 16\]"):
        binding.run()
    assert [value.numpy().tobytes() for value in caches] == [values.tobytes() for values in expected]


def _attended(device: dml.Device, feed: dict[str, Array], **attributes: Any) -> list[Array]:
    names = ["q", "k", "v", *CACHES, "ends", "total", *(name for name in ("cos", "sin") if name in feed)]
    node = helper.make_node("GroupQueryAttention", names, _NAMES, domain="com.microsoft", **attributes)
    return ort.InferenceSession(models.model([node], feed, _NAMES), device=device).run(None, feed)


@pytest.mark.parametrize(
    ("data_type", "tokens", "size", "bits"),
    [
        (np.float32, 3, 96, "56d19ca2d5b07c32"),
        (np.float16, 3, 96, "e0e4daba878aa487"),
        (np.float16, 2, 64, "b8241785a7dce837"),
        (np.float32, 35, 96, "24de8e7e33f4a4c7"),
        (np.float16, 35, 96, "ed85d0cf94bcd917"),
        (np.float32, 35, 56, "da68995dedd430e5"),
        (np.float16, 50, 40, "4c8d4d15199f89c5"),
        (np.float32, 3, 512, "2c2ec34fbf834229"),
        (np.float16, 5, 320, "c2475861a60fe14f"),
        (np.float16, 35, 512, "71ff04c12dd05a4f"),
        (np.float16, 27, 64, "5470a105e01d5336"),
    ],
)
def test_attention_has_its_bits_however_it_is_computed(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, data_type: type[np.generic], tokens: int, size: int, bits: str
) -> None:
    """A GPU spreads the keys of few tokens over its cores, each query by itself, and holds tiles of many."""
    random, heads, past = np.random.default_rng(8), 2, 700

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(data_type)

    feed = {
        "q": normal(1, tokens, 2 * heads * size),
        "k": normal(1, tokens, heads * size),
        "v": normal(1, tokens, heads * size),
        "past_key": normal(1, heads, past, size),
        "past_value": normal(1, heads, past, size),
        "ends": np.array([past + tokens - 1], np.int32),
        "total": np.array(past + tokens, np.int32),
    }
    attributes = {"num_heads": 2 * heads, "kv_num_heads": heads, "local_window_size": 600}
    expected = _attended(device, feed, **attributes)
    for registers in (64, 128, 256):  # several rows of queries read keys together, by what an invocation has
        target = dataclasses.replace(Target.of(device.info), is_cpu=False, registers=registers)
        monkeypatch.setattr(device, "target_for", lambda flags, chosen=target: chosen)
        found = _attended(device, feed, **attributes)
        assert [values.tobytes() for values in found] == [values.tobytes() for values in expected]
    assert hashlib.sha256(expected[0].tobytes()).hexdigest()[:16] == bits  # of every device
    monkeypatch.undo()
    room = ((0, 0), (0, 0), (0, 9000), (0, 0))  # 38 segments, most of which nobody sees
    found = _attended(device, {**feed, **{name: np.pad(feed[name], room) for name in CACHES}}, **attributes)
    assert found[0].tobytes() == expected[0].tobytes()


@pytest.mark.parametrize(
    ("heads", "size", "past", "ends", "attributes"),
    [
        ((6, 2), 64, 8500, (8449, 3), {"do_rotary": 1}),  # 34 segments, and one
        ((5, 1), 128, 700, (0, 699), {"do_rotary": 1, "rotary_interleaved": 1}),  # the first key, and the last one
        ((2, 2), 64, 600, (600, 256), {"softcap": 20.0, "local_window_size": 300}),  # no room, and a segment's first
    ],
)
@pytest.mark.parametrize("groups_at_once", [0, 100, 10**6])
def test_a_step_has_its_bits_however_many_queries_read_keys_together(
    device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    heads: tuple[int, int],
    size: int,
    past: int,
    ends: tuple[int, ...],
    attributes: dict[str, Any],
    groups_at_once: int,
) -> None:
    """And whether a kernel of its own appends the token; the caches have the same bits, too."""
    random = np.random.default_rng(9)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float16)

    feed = {
        "q": normal(2, 1, heads[0] * size),
        "k": normal(2, 1, heads[1] * size),
        "v": normal(2, 1, heads[1] * size),
        "past_key": normal(2, heads[1], past, size),
        "past_value": normal(2, heads[1], past, size),
        "ends": np.array(ends, np.int32),
        "total": np.array(max(ends) + 1, np.int32),
    }
    if "do_rotary" in attributes:
        feed["cos"], feed["sin"] = normal(past, size // 4), normal(past, size // 4)
    attributes = {"num_heads": heads[0], "kv_num_heads": heads[1], **attributes}
    expected = _attended(device, feed, **attributes)
    target = dataclasses.replace(Target.of(device.info), is_cpu=False, registers=256)
    monkeypatch.setattr(cached_attention, "_GROUPS_AT_ONCE", groups_at_once)
    for buffers in (11, target.buffers):
        of_buffers = dataclasses.replace(target, buffers=buffers)
        monkeypatch.setattr(device, "target_for", lambda flags, chosen=of_buffers: chosen)
        found = _attended(device, feed, **attributes)
        assert [values.tobytes() for values in found] == [values.tobytes() for values in expected]


@pytest.mark.parametrize("more", [{}, {"do_rotary": 1, "local_window_size": 5}])
@pytest.mark.parametrize(("size", "data_type"), [(16, np.float32), (64, np.float16)])
def test_a_node_without_keys_sees_those_that_another_has_appended(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    data_type: type[np.generic],
    more: dict[str, Any],
) -> None:
    """With the bits of one that appends them itself; caches stay where they are."""
    past: dict[str, Array] = {name: np.zeros((2, 2, 300, size), data_type) for name in CACHES}
    tables = {name: numbers(7, 300, size // 2).astype(data_type) for name in ("cos", "sin")} if more else {}
    nodes = [
        helper.make_node(
            "GroupQueryAttention",
            [query, *keys, *pasts, "ends", "total", *tables],
            outputs,
            domain="com.microsoft",
            num_heads=4,
            kv_num_heads=2,
            **more,
        )
        for query, keys, pasts, outputs in (
            ("q", ("k", "v"), CACHES, ["first", *PRESENTS]),
            ("q2", ("none", "none"), PRESENTS, ["y"]),
        )
    ]
    none = np.zeros((1, 0, 2 * size), data_type)
    as_gpu = dataclasses.replace(Target.of(any_device.info), is_cpu=False, registers=128)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(values, "dml") for name, values in past.items()}
    before = 0
    for tokens, target in ((20, Target.of(any_device.info)), (1, as_gpu), (20, as_gpu), (1, as_gpu)):
        monkeypatch.setattr(any_device, "target_for", lambda flags, chosen=target: chosen)
        feed: dict[str, Array] = {
            name: numbers(place + before, 2, tokens, width * size).astype(data_type)
            for place, (name, width) in enumerate({"q": 4, "q2": 4, "k": 2, "v": 2}.items())
        }
        before += tokens
        feed |= {"ends": np.full(2, before - 1, np.int32), "total": np.array([before], np.int32), **tables}
        element = helper.np_dtype_to_tensor_dtype(np.dtype(data_type))
        model = models.model(nodes, feed | past, dict.fromkeys(_NAMES, element), {"none": none})
        made = ort.InferenceSession(model, device=any_device, strict=True)
        y, *presents = made.run(_NAMES, feed | past)
        alone = _attended(any_device, {**feed, **past, "q": feed["q2"]}, num_heads=4, kv_num_heads=2, **more)
        assert [each.tobytes() for each in (y, *presents)] == [each.tobytes() for each in alone]
        binding = bound(made, feed, caches, are_shared=True)
        binding.run()
        assert binding.get_outputs()[0].numpy().tobytes() == y.tobytes()
        past = dict(zip(CACHES, presents, strict=True))
    assert [caches[name].numpy().tobytes() for name in CACHES] == [values.tobytes() for values in past.values()]


@pytest.mark.parametrize("operator", ["DecoderMaskedMultiHeadAttention", "MultiHeadAttention"])
def test_a_past_of_any_length_has_one_plan(any_device: dml.Device, operator: str) -> None:
    forms = [whole_form(operator, seed) for seed in range(24)]
    for form in [each for each in forms if "past_length" in each.feed and not each.feed.keys() & {"mask", "bias"}]:
        session, model = ort.InferenceSession(form.model(is_open=False), device=any_device), form.model(is_open=False)
        past = int(form.feed["past_length"][0])
        for length in {1, past}:
            form.feed["past_length"] = np.array([length], np.int32)
            wanted = models.by_onnx_runtime(model, form.feed)
            assert form.difference(session.run(None, form.feed), wanted) == "", form.label
        assert session._program.plan_count == 1


def test_a_beam_that_is_none_is_refused_and_on_the_device_reads_nothing_outside(device: dml.Device) -> None:
    batch, heads, room, past = 3, 2, 40, 17
    feed = {name: numbers(1, batch, 1, heads * 16) for name in ("query", "key", "value")}
    feed |= {name: numbers(2, batch, heads, room, 16) for name in CACHES}
    feed |= {"past_length": np.array([past], np.int32), "beams": np.zeros((1, batch, room), np.int32)}
    form = Form("MultiHeadAttention", {"num_heads": heads}, feed, presents=True)
    session = ort.InferenceSession(form.model(is_open=False), device=device)
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
