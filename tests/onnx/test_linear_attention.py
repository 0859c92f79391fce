"""Linear attention and short convolutions, whose past is a state: in pieces as in one, on every kind of device."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
from dmlvk.kernels.composed import linear_attention as kernels
from dmlvk.kernels.target import GPU
from tests.onnx import models

RULES = {"linear": (), "gated": ("decay",), "delta": ("beta",), "gated_delta": ("decay", "beta")}
NAMES = ("query", "key", "value", "past", "decay", "beta")
BATCH, SIZE, VALUES = 2, 12, 40


def model_of(
    operator: str, inputs: dict[str, Any], names: tuple[str, ...], states: list[Any], domain: str, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node with two outputs, whose number of tokens is open."""
    kinds: dict[str, Any] = {}
    for name, array in inputs.items():
        shape: list[Any] = list(array.shape)
        if array.ndim == 3 and name not in ("past", "w"):
            shape[2 if operator == "CausalConvWithState" else 1] = "tokens"
        kinds[name] = (helper.np_dtype_to_tensor_dtype(array.dtype), shape)
    given, (element, _) = [name if name in inputs else "" for name in names], next(iter(kinds.values()))
    node = helper.make_node(operator, given, ["y", "present"], domain=domain, **attributes)
    return models.model([node], kinds, {"y": (element, [None] * 3), "present": (element, states)}, opset=27)


def attention_inputs(rule: str, heads: tuple[int, int, int], tokens: int, *, per_key: bool = False) -> dict[str, Any]:
    """Queries, keys, values and so on, by heads of queries, keys and values."""
    random_ = np.random.default_rng(tokens)
    queries, keys, values = heads
    sizes = {"query": queries * SIZE, "key": keys * SIZE, "value": values * VALUES}
    made = {name: random_.standard_normal((BATCH, tokens, size)).astype(np.float32) for name, size in sizes.items()}
    made["key"] /= SIZE**0.5
    made["past"] = random_.standard_normal((BATCH, values, SIZE, VALUES)).astype(np.float32)
    if "decay" in RULES[rule]:
        made["decay"] = -random_.random((BATCH, tokens, values * (SIZE if per_key else 1))).astype(np.float32)
    if "beta" in RULES[rule]:
        made["beta"] = random_.random((BATCH, tokens, 1 if per_key else values)).astype(np.float32)
    return made


def expected_of(inputs: dict[str, Any], heads: tuple[int, int, int], scale: float) -> tuple[Any, Any]:
    """The recurrence in FLOAT64."""
    own = {name: array.astype(np.float64) for name, array in inputs.items()}
    tokens, (queries, keys, values) = own["query"].shape[1], heads
    key = own["key"].reshape(BATCH, tokens, keys, SIZE).repeat(values // keys, 2)
    query = own["query"].reshape(BATCH, tokens, queries, SIZE).repeat(max(1, values // queries), 2)
    value, state = own["value"].reshape(BATCH, tokens, values, VALUES), own["past"]
    rows = []
    for token in range(tokens):
        if "decay" in own:
            state = state * np.exp(own["decay"][:, token].reshape(BATCH, values, -1, 1))
        more = value[:, token]
        if "beta" in own:
            more = own["beta"][:, token, :, None] * (more - np.einsum("bhdm,bhd->bhm", state, key[:, token]))
        state = state + key[:, token, :, :, None] * more[:, :, None]
        seen = state.repeat(query.shape[2] // values, 1)
        rows.append(scale * np.einsum("bhdm,bhd->bhm", seen, query[:, token]))
    return np.stack(rows, 1).reshape(BATCH, tokens, -1), state


def run_attention(device: dml.Device, inputs: dict[str, Any], heads: tuple[int, int, int], **more: Any) -> list[Any]:
    """Outputs and states; on the device, or an error is raised."""
    domain = more.pop("domain", "com.microsoft")
    attributes = {"q_num_heads": heads[0], "kv_num_heads": heads[2]} | more
    states = [BATCH, heads[2], SIZE, VALUES]
    return models.by_device(device, model_of("LinearAttention", inputs, NAMES, states, domain, **attributes), inputs)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("heads", "per_key"), [((4, 2, 2), False), ((2, 2, 4), True), ((2, 2, 2), True)], ids=["many", "few", "same"]
)
def test_states_are_those_of_the_recurrence(
    device: dml.Device, rule: str, heads: tuple[int, int, int], per_key: bool
) -> None:
    inputs = attention_inputs(rule, heads, 5, per_key=per_key)
    found = run_attention(device, inputs, heads, update_rule=rule)
    for mine, wanted in zip(found, expected_of(inputs, heads, SIZE**-0.5), strict=True):
        np.testing.assert_allclose(mine, wanted, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_results_are_those_of_others(device: dml.Device, domain: str) -> None:
    heads = (4, 2, 2)
    inputs = attention_inputs("gated_delta", heads, 3)
    found = run_attention(device, inputs, heads, domain=domain, scale=0.5)
    model = model_of(
        "LinearAttention", inputs, NAMES, [BATCH, 2, SIZE, VALUES], domain, q_num_heads=4, kv_num_heads=2, scale=0.5
    )
    reference = models.onnx_runtime(model) if domain else ReferenceEvaluator(model)
    expected = reference.run(None, inputs)
    for mine, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, wanted, atol=2e-6 * np.abs(wanted).max())


def test_pieces_have_the_bits_of_the_whole(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = (2, 2, 4)
    inputs = attention_inputs("gated_delta", heads, 7)
    inputs["value"][0, 3] *= np.float32(1e-38)
    inputs["past"][0] *= np.float32(1e-30)
    whole = run_attention(device, inputs, heads)
    past, rows = inputs["past"], []
    for first, last in ((0, 1), (1, 5), (5, 7)):
        piece = {name: array[:, first:last] for name, array in inputs.items() if name != "past"} | {"past": past}
        made, past = run_attention(device, {name: piece[name] for name in inputs}, heads)
        rows.append(made)
    assert np.concatenate(rows, 1).tobytes() == whole[0].tobytes()
    assert past.tobytes() == whole[1].tobytes()
    monkeypatch.setattr(kernels, "MAX_LOOP_ITERATIONS", 200)  # a few tokens of a launch
    for mine, wanted in zip(run_attention(device, inputs, heads), whole, strict=True):
        assert mine.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("most", [4, 0], ids=["registers", "memory"])
def test_kernels_of_gpus_give_the_same_bits(device: dml.Device, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    heads = (4, 2, 2)
    inputs = attention_inputs("gated_delta", heads, 3, per_key=True)
    inputs["past"][0] *= np.float32(1e-38)
    inputs["past"][1, 0, 0, :3] = np.inf, np.nan, -0.0
    own = run_attention(device, inputs, heads)
    target = dataclasses.replace(GPU, buffers=16)
    monkeypatch.setattr(dml.Device, "target", property(lambda _: target))
    monkeypatch.setattr(kernels, "_ELEMENTS", (most,) if most else ())
    for mine, wanted in zip(run_attention(device, inputs, heads), own, strict=True):
        assert mine.tobytes() == wanted.tobytes()


def test_float16_is_rounded_behind_the_last_token(device: dml.Device) -> None:
    heads = (2, 2, 2)
    wide = attention_inputs("gated_delta", heads, 4)
    inputs = {name: array.astype(np.float16) for name, array in wide.items()}
    found = run_attention(device, inputs, heads)
    rounded = run_attention(device, {name: array.astype(np.float32) for name, array in inputs.items()}, heads)
    for mine, wanted in zip(found, rounded, strict=True):
        assert mine.tobytes() == wanted.astype(np.float16).tobytes()


def test_a_rule_without_what_it_needs_is_refused(device: dml.Device) -> None:
    inputs = attention_inputs("gated", (2, 2, 2), 1)
    with pytest.raises(dml.DmlError, match="update_rule"):
        run_attention(device, inputs, (2, 2, 2), update_rule="gated_delta")


def test_a_rule_does_not_read_what_it_does_not_use(device: dml.Device) -> None:
    inputs = attention_inputs("gated_delta", (2, 2, 2), 3)
    own = {name: array for name, array in inputs.items() if name not in ("decay", "beta")}
    given, without = (run_attention(device, each, (2, 2, 2), update_rule="linear") for each in (inputs, own))
    assert [each.tobytes() for each in given] == [each.tobytes() for each in without]


@pytest.mark.parametrize(
    ("member", "sizes", "strides", "message"),
    [
        ("past_state_tensor", (1, 1, 8, 8), (128, 128, 16, 1), "PastStateTensor.*packed"),
        ("decay_tensor", (1, 3, 8), (8, 0, 1), "DecayTensor.*packed"),
        ("key_tensor", (1, 1, 3, 8), None, "KeyTensor.*batch, tokens, elements"),
    ],
)
def test_tensors_that_the_kernel_would_read_otherwise_are_refused(
    device: dml.Device, member: str, sizes: Any, strides: Any, message: str
) -> None:
    names = {"query_tensor": (1, 3, 8), "key_tensor": (1, 3, 8), "value_tensor": (1, 3, 8), member: sizes}
    graph = dml.Graph(device)
    tensors = {
        name: graph.input(name, dml.FLOAT32, shape, strides=strides if name == member else None)
        for name, shape in names.items()
    }
    attributes = {"query_head_count": 1, "key_head_count": 1, "value_head_count": 1, "scale": 1.0}
    with pytest.raises(dml.InvalidArgumentError, match=message):
        graph.apply_all("DMLVK_LINEAR_ATTENTION", tensors, attributes)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("given", [(), ("bias",), ("bias", "past")], ids=len)
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_convolutions_are_those_of_others(
    device: dml.Device, domain: str, given: tuple[str, ...], activation: str
) -> None:
    random_ = np.random.default_rng(len(given))
    shapes = {"x": (2, 6, 5), "w": (6, 1, 4), "bias": (6,), "past": (2, 6, 3)}
    inputs = {
        name: random_.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
        if name in ("x", "w", *given)
    }
    model = model_of("CausalConvWithState", inputs, tuple(shapes), [2, 6, 3], domain, activation=activation)
    found = models.by_device(device, model, inputs)
    lines = np.concatenate([inputs.get("past", np.zeros((2, 6, 3), np.float32)), inputs["x"]], 2)
    taps = inputs["w"][:, 0]
    expected = np.stack([(lines[:, :, place : place + 4] * taps).sum(2) for place in range(5)], 2)
    expected += inputs.get("bias", np.zeros(6, np.float32))[:, None]
    if activation == "silu":
        expected = expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(found[0], expected, atol=2e-6)
    assert found[1].tobytes() == np.ascontiguousarray(lines[:, :, 5:]).tobytes()
