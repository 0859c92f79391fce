"""Caches of attention that contradict the rest are refused by a named rule, and nothing is changed by it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.attention_forms import NAMES, Feed, Form
from tests.onnx.contradicting_caches import DOORS, OnnxRuntime, fault_of, outcome_of

_HEADS, _KEY_HEADS, _SIZE, _ROWS = 4, 2, 16, 6


@pytest.fixture(scope="module")
def runtime() -> Iterator[OnnxRuntime]:
    with contextlib.closing(OnnxRuntime()) as found:
        yield found


@pytest.mark.parametrize("first", range(0, 60, 6))
@pytest.mark.parametrize("door", DOORS)
def test_random_forms_are_refused_or_computed_as_by_onnx_runtime(
    any_device: dml.Device, runtime: OnnxRuntime, door: str, first: int
) -> None:
    """``python -m tests.attack --only contradicting_caches`` runs any number of them."""
    found = [fault_of(7, number, any_device, runtime, (door,)) for number in range(first, first + 6)]
    assert [each for each in found if each[0] == "fault"] == []


def _form(*, presents: bool = True, **changed: Any) -> Form:
    """A step of a decoder of two sequences, of which some inputs are others."""
    numbers = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return numbers.standard_normal(shape).astype(np.float32)

    feed: Feed = {
        "query": normal(2, 1, _HEADS * _SIZE),
        "key": normal(2, 1, _KEY_HEADS * _SIZE),
        "value": normal(2, 1, _KEY_HEADS * _SIZE),
        "past_key": normal(2, _KEY_HEADS, _ROWS, _SIZE),
        "past_value": normal(2, _KEY_HEADS, _ROWS, _SIZE),
        "seqlens_k": np.array([_ROWS, 3], np.int32),
        "total": np.array([_ROWS + 1], np.int32),
        "cos": normal(9, _SIZE // 2),
        "sin": normal(9, _SIZE // 2),
        "position_ids": np.array([[_ROWS], [3]], np.int64),
    }
    for name, value in changed.items():
        feed[name] = np.asarray(value, feed[name].dtype)
    attributes = {"num_heads": _HEADS, "kv_num_heads": _KEY_HEADS, "do_rotary": 1}
    return Form("GroupQueryAttention", attributes, feed, presents)


def _of_sizes(operator: str, batch: int, tokens: int, own: int, rows: int, **more: Any) -> Form:
    """A step over caches of so many rows; -1: none."""
    numbers, width = np.random.default_rng(2), _HEADS * _SIZE
    shapes: dict[str, tuple[int, ...]] = {"query": (batch, tokens, width)}
    shapes |= {"key": (batch, own, width), "value": (batch, own, width)}
    if rows >= 0:
        shapes |= {f"past_{role}": (batch, _HEADS, rows, _SIZE) for role in ("key", "value")}
    feed: Feed = {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    names = {"ai.onnx.Attention": ("q_num_heads", "kv_num_heads"), "GroupQueryAttention": ("num_heads", "kv_num_heads")}
    attributes = dict.fromkeys(names.get(operator, ("num_heads",)), _HEADS)
    if operator.startswith("Decoder"):
        attributes["past_present_share_buffer"] = 1
    counts = {"seqlens_k": np.full(batch, 3, np.int32), "total": np.array([4], np.int32)}
    counted = counts if operator == "GroupQueryAttention" else {}
    feed |= {**counted, **{name: value for name, value in more.items() if isinstance(value, np.ndarray)}}
    attributes |= {name: value for name, value in more.items() if isinstance(value, int)}
    return Form(operator, attributes, feed, rows >= 0, 23)


@pytest.mark.parametrize("door", ["fixed", "open", "bound"])
def test_empty_and_oddly_shaped_inputs_are_refused_or_computed_as_by_onnx_runtime(
    any_device: dml.Device, runtime: OnnxRuntime, door: str
) -> None:
    """Of a GroupQueryAttention of no sequences ONNX Runtime's process dies, which dmlvk must not ask for it."""
    empty = ((0, 1, 1), (1, 0, 1), (1, 1, 0))
    of_sizes: list[tuple[str, tuple[tuple[int, int, int], ...], int]] = [
        ("GroupQueryAttention", ((0, 1, 1), (1, 0, 0)), 5),
        ("ai.onnx.Attention", empty, 2),
        ("ai.onnx.Attention", empty, -1),
        ("MultiHeadAttention", ((0, 1, 1), (1, 0, 0)), 5),
    ]
    forms = [
        (_of_sizes(operator, 1, 1, 1, rows), _of_sizes(operator, *sizes, rows))
        for operator, every, rows in of_sizes
        for sizes in every
    ]
    right = _of_sizes("GroupQueryAttention", 1, 1, 1, 5)
    forms.append((right, _of_sizes("GroupQueryAttention", 1, 1, 1, 5, seqlens_k=np.array(3, np.int32))))
    for operator in ("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"):
        told = [
            _of_sizes(operator, 1, 1, 1, 5, past_length=np.full(shape, 3, np.int32)) for shape in ((1,), (), (1, 1))
        ]
        forms += [(told[0], form) for form in told]
    of_beams = functools.partial(
        _of_sizes, "DecoderMaskedMultiHeadAttention", 1, 1, 1, 5, **{"past_length": np.array([3], np.int32)}
    )
    for more in ({}, {"beams": np.zeros((1, 1, 5), np.int32)}):
        told = [of_beams(width=np.array(width, np.int32), **more) for width in ([1], [2], [])]
        forms += [(told[0], form) for form in told]
    found = [outcome_of(right, form, door, any_device, runtime) for right, form in forms]
    assert [each for each in found if each[0] == "fault"] == []
    assert sum(outcome == "same" for outcome, _ in found) == 8


def test_caches_of_another_node_have_all_rows_that_are_read_and_none_is_added(device: dml.Device) -> None:
    form = _of_sizes("GroupQueryAttention", 1, 1, 0, 5)
    names, none = (
        models.in_order(NAMES[form.operator], form.feed),
        {name: form.feed.pop(name) for name in ("key", "value")},
    )

    def opened(*outputs: str) -> ort.InferenceSession:
        node = helper.make_node(form.operator, names, outputs, domain="com.microsoft", **form.attributes)
        return ort.InferenceSession(models.model([node], form.feed, outputs, none), device=device, strict=True)

    with pytest.raises(dml.UnsupportedError, match="caches of another node go with no outputs but results"):
        opened("y", "present_key", "present_value")
    with opened("y") as session:
        before = session.run(None, form.feed)[0]
        with pytest.raises(dml.InvalidArgumentError, match="must be at most the 5 rows of the caches; got 6"):
            session.run(None, {**form.feed, "total": np.array([6], np.int32), "seqlens_k": np.array([5], np.int32)})
        np.testing.assert_array_equal(session.run(None, form.feed)[0], before)


@pytest.mark.parametrize("tokens", [2, 4, 9])
def test_a_causal_mask_of_open_sizes_hides_what_follows(
    constants_device: dml.Device, runtime: OnnxRuntime, tokens: int
) -> None:
    """It is computed once for its sizes, whose numbers came to the driver's constants as floats."""
    form = _of_sizes("ai.onnx.Attention", 1, tokens, tokens, -1, is_causal=1)
    assert outcome_of(form, form, "open", constants_device, runtime) == ("same", "")


_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another width": (
        {"past_key": np.zeros((2, 2, 6, 8))},
        r"past_key.* must have the shape \[2, 2, any, 16\]; got \[2, 2, any, 8\]",
    ),
    "wider values": ({"past_value": np.zeros((2, 2, 6, 32))}, r"past_value.* must have the shape \[2, 2, \d+, 16\]"),
    "other heads": (
        {k: np.zeros((2, 4, 6, 16)) for k in ("past_key", "past_value")},
        r"past_key.* \[2, 2, any, 16\]; got \[2, 4, any, 16\]",
    ),
    "a total beyond": ({"total": [99]}, r"total.* 99"),
    "a total of 2**31 - 1": ({"total": [2**31 - 1]}, r"total.* 2147483647"),
    "a total of nothing": ({"total": [-3]}, r"-3"),
    "an end beyond": ({"seqlens_k": [99, 3]}, r"seqlens_k.*(100|99)"),
    "a negative end": ({"seqlens_k": [-5, 3]}, r"seqlens_k.*-[45]"),
    "a place beyond": ({"position_ids": [[9], [0]]}, r"position_ids.* must be from 0 to 8; got 9"),
    "a place before": ({"position_ids": [[0], [-1]]}, r"position_ids.* must be from 0 to 8; got -1"),
}


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("presents", [True, False])
@pytest.mark.parametrize("name", list(_WRONG))
def test_a_contradiction_is_named_and_the_session_goes_on(
    any_device: dml.Device, name: str, presents: bool, is_open: bool
) -> None:
    changed, words = _WRONG[name]
    right, wrong = _form(presents=presents), _form(presents=presents, **changed)
    has_other_sizes = any(wrong.feed[each].shape != right.feed[each].shape for each in right.feed)
    form = wrong if has_other_sizes and not is_open else right
    with pytest.raises(dml.InvalidArgumentError, match=words):
        ort.InferenceSession(form.model(is_open=is_open), device=any_device).run(None, wrong.feed)
    session = ort.InferenceSession(right.model(is_open=is_open), device=any_device)
    before = session.run(None, right.feed)
    if is_open or not has_other_sizes:
        with pytest.raises(dml.InvalidArgumentError, match="GroupQueryAttention"):
            session.run(None, wrong.feed)
    for one, other in zip(before, session.run(None, right.feed), strict=True):
        np.testing.assert_array_equal(one, other)
    session.close()


def test_a_run_that_is_refused_leaves_bound_caches_as_they_were(any_device: dml.Device) -> None:
    form = _form()
    shared = {name: np.concatenate([form.feed[name]] * 2, axis=2) for name in ("past_key", "past_value")}
    session = ort.InferenceSession(form.model(is_open=True), device=any_device)
    values = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in shared.items()}
    binding = session.io_binding()
    for name, array in form.feed.items():
        if name not in values:
            binding.bind_cpu_input(name, array)
    binding.bind_output("y")
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(name.replace("past", "present"), value)
    for name, numbers in (("seqlens_k", [12, 3]), ("total", [14]), ("position_ids", [[9], [0]])):
        binding.bind_cpu_input(name, np.asarray(numbers, form.feed[name].dtype))
        with pytest.raises(dml.InvalidArgumentError):
            binding.run()
        binding.bind_cpu_input(name, form.feed[name])
        for cache, value in values.items():
            np.testing.assert_array_equal(value.numpy(), shared[cache])
    binding.run()
    assert not np.array_equal(values["past_key"].numpy(), shared["past_key"])
    session.close()
