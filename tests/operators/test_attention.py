"""MULTIHEAD_ATTENTION: its formula, what a batch element does not depend on; blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.sampling import run_sample
from dmlvk.kernels.composed import attention
from dmlvk.operators import check_operator

Array = npt.NDArray[Any]

_MASKS = dml.MultiheadAttentionMaskType
_BATCH, _HEADS, _LENGTH, _SIZE = 2, 3, 5, 4
_HIDDEN = _HEADS * _SIZE


pytestmark = pytest.mark.usefixtures("own_kernels")


def describe(inputs: Mapping[str, Array], output: Sequence[int], heads: int = _HEADS, **members: Any) -> Any:
    tensors: dict[str, Any] = {
        name: dml.TensorDesc(dml.DataType(values.dtype), values.shape) for name, values in inputs.items()
    }
    floats = dml.DataType(next(iter(inputs.values())).dtype)
    presents: dict[str, Any] = {
        name: dml.TensorDesc(floats, members.pop(name)) for name in list(members) if "present" in name
    }
    options: dict[str, Any] = {"scale": 0.5, "mask_filter_value": -1e4, "mask_type": _MASKS.NONE, **members}
    return dml.MultiheadAttention(
        **tensors, output_tensor=dml.TensorDesc(floats, tuple(output)), head_count=heads, **presents, **options
    )


def run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    check_operator(desc, dml.FeatureLevel.from_name("6_4"))
    named = {"".join(word.capitalize() for word in name.split("_")): values for name, values in inputs.items()}
    outcome = run_sample(bench, desc, named)
    assert outcome.damage is None
    return outcome.outputs


def numbers(seed: int, *sizes: int, data_type: Any = np.float32) -> Array:
    return np.random.default_rng(seed).normal(0, 1, sizes).astype(data_type)


def separate(keys: int = _LENGTH, data_type: Any = np.float32) -> dict[str, Array]:
    lengths = {"query_tensor": _LENGTH, "key_tensor": keys, "value_tensor": keys}
    return {
        name: numbers(seed, _BATCH, length, _HIDDEN, data_type=data_type)
        for seed, (name, length) in enumerate(lengths.items())
    }


def attend(q: Array, k: Array, v: Array, added: Array | float = 0.0) -> Array:
    """One element and head after another: rows of queries, keys and values of shape batch, length, heads, size."""
    batch, length, heads, _ = q.shape
    added = np.broadcast_to(np.asarray(added, np.float64), (batch, heads, length, k.shape[1]))
    result = np.zeros((batch, length, heads, v.shape[3]))
    for element in range(batch):
        for head in range(heads):
            for row in range(length):
                scores = 0.5 * (k[element, :, head].astype(np.float64) @ q[element, row, head].astype(np.float64))
                scores = scores + added[element, head, row]
                powers = np.exp(scores - scores.max())
                result[element, row, head] = powers / powers.sum() @ v[element, :, head].astype(np.float64)
    return result.reshape(batch, length, -1)


def headed(values: Array) -> Array:
    return values.reshape(*values.shape[:2], _HEADS, -1)


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def close(actual: Array, expected: Array) -> None:
    half = actual.dtype == np.float16
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=0, atol=2e-2 if half else 1e-5)


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_every_source_gives_the_formula(benches: list[Workbench], data_type: Any) -> None:
    given = separate(data_type=data_type)
    q, k, v = (headed(values) for values in given.values())
    stacks: list[dict[str, Array]] = [
        given,
        {"value_tensor": given["value_tensor"], "stacked_query_key_tensor": np.stack([q, k], axis=3)},
        {"query_tensor": given["query_tensor"], "stacked_key_value_tensor": np.stack([k, v], axis=3)},
        {"stacked_query_key_value_tensor": np.stack([q, k, v], axis=3)},
    ]
    expected = attend(q, k, v)
    for bench in benches:
        found = {bits(run(bench, describe(each, expected.shape), each)["OutputTensor"]) for each in stacks}
        assert len(found) == 1
        close(np.frombuffer(found.pop(), data_type).reshape(expected.shape), expected)


def test_bias_past_and_present(benches: list[Workbench]) -> None:
    inputs = separate()
    inputs["bias_tensor"] = numbers(4, 3 * _HIDDEN)
    inputs["past_key_tensor"], inputs["past_value_tensor"] = (
        numbers(seed, _BATCH, _HEADS, 3, _SIZE) for seed in (5, 6)
    )
    q, k, v = (
        headed(inputs[f"{role}_tensor"] + inputs["bias_tensor"][index * _HIDDEN : (index + 1) * _HIDDEN])
        for index, role in enumerate(("query", "key", "value"))
    )
    k, v = (
        np.concatenate([inputs[f"past_{role}_tensor"].swapaxes(1, 2), own], axis=1)
        for role, own in (("key", k), ("value", v))
    )
    expected = attend(q, k, v)
    present = (_BATCH, _HEADS, 3 + _LENGTH, _SIZE)
    desc = describe(inputs, expected.shape, output_present_key_tensor=present, output_present_value_tensor=present)
    for bench in benches:
        made = run(bench, desc, inputs)
        close(made["OutputTensor"], expected)
        assert bits(made["OutputPresentKeyTensor"]) == bits(k.swapaxes(1, 2))
        assert bits(made["OutputPresentValueTensor"]) == bits(v.swapaxes(1, 2))


_BOOLEANS = np.random.default_rng(7).integers(0, 2, (_BATCH, _HEADS, _LENGTH, 6)).astype(np.int32)
_BOOLEANS[..., 0] = 1  # every query sees a key
_POSITIONS = np.arange(6)
_SEEN: dict[_MASKS, tuple[Array, Array]] = {
    _MASKS.BOOLEAN: (_BOOLEANS, _BOOLEANS == 1),
    _MASKS.KEY_SEQUENCE_LENGTH: (
        np.array([[2, 6]], np.int32),
        np.stack([_POSITIONS < 2, _POSITIONS < 6]).reshape(2, 1, 1, 6),
    ),
    _MASKS.KEY_SEQUENCE_END_START: (
        np.array([[4, 6], [1, 3]], np.int32),
        np.stack([(_POSITIONS >= 1) & (_POSITIONS < 4), _POSITIONS >= 3]).reshape(2, 1, 1, 6),
    ),
    _MASKS.KEY_QUERY_SEQUENCE_LENGTH_START_END: (
        np.array([5, 1, 0, 5, 10, 0, 5, 6], np.int32),
        np.stack([_POSITIONS < 5, _POSITIONS < 1]).reshape(2, 1, 1, 6),
    ),
}


@pytest.mark.parametrize("kind", list(_SEEN), ids=lambda kind: kind.name)
def test_masks_add_the_filter_value(benches: list[Workbench], kind: _MASKS) -> None:
    mask, seen = _SEEN[kind]
    inputs = separate(6)
    position = numbers(8, 1, _HEADS, _LENGTH, 6)
    inputs.update(mask_tensor=mask, relative_position_bias_tensor=position)
    for filtered in (-1e4, -1.5):
        q, k, v = (headed(inputs[f"{role}_tensor"]) for role in ("query", "key", "value"))
        expected = attend(q, k, v, position + np.where(seen, 0.0, filtered))
        desc = describe(inputs, expected.shape, mask_type=kind, mask_filter_value=filtered)
        for bench in benches:
            close(run(bench, desc, inputs)["OutputTensor"], expected)


def test_a_batch_element_does_not_depend_on_the_others(benches: list[Workbench]) -> None:
    inputs = {**separate(6), "mask_tensor": np.array([[6, 4]], np.int32)}
    output = (_BATCH, _LENGTH, _HIDDEN)
    alone = {name: values[1:] for name, values in inputs.items()} | {"mask_tensor": np.array([[4]], np.int32)}
    desc = describe(inputs, output, mask_type=_MASKS.KEY_SEQUENCE_LENGTH)
    for bench in benches:
        own = describe(alone, (1, *output[1:]), mask_type=_MASKS.KEY_SEQUENCE_LENGTH)
        expected = bits(run(bench, own, alone)["OutputTensor"])
        for damage in (None, np.nan, np.inf, -np.inf):
            given = {name: values.copy() for name, values in inputs.items()}
            if damage is not None:
                for role in ("query", "key", "value"):
                    given[f"{role}_tensor"][0] = damage
            made = run(bench, desc, given)["OutputTensor"]
            assert bits(made[1:]) == expected, bench.device.info.name
            assert np.isnan(made[0]).all() == (damage is not None)


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_blocks_of_rows_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, data_type: Any
) -> None:
    queries, keys = 21, 1100  # more keys than a segment of a sum has
    inputs = {
        "query_tensor": numbers(1, 1, queries, 6, data_type=data_type),
        "key_tensor": numbers(2, 1, keys, 6, data_type=data_type),
        "value_tensor": numbers(3, 1, keys, 6, data_type=data_type),
        "relative_position_bias_tensor": numbers(4, 1, 2, queries, keys, data_type=data_type),
        "mask_tensor": np.random.default_rng(5).integers(0, 2, (1, 1, queries, keys)).astype(np.int32),
    }
    desc = describe(inputs, (1, queries, 6), heads=2, mask_type=_MASKS.BOOLEAN)
    q, k, v = (inputs[f"{role}_tensor"].reshape(1, -1, 2, 3) for role in ("query", "key", "value"))
    hidden = np.where(inputs["mask_tensor"], 0.0, -1e4)
    expected = attend(q, k, v, inputs["relative_position_bias_tensor"].astype(np.float64) + hidden)
    whole = [run(bench, desc, inputs)["OutputTensor"] for bench in benches]
    row = 2 * keys * np.dtype(data_type).itemsize
    for most in (1, 16 * row):
        monkeypatch.setattr(attention, "_MOST_SCORES", most)
        for bench, result in zip(benches, whole, strict=True):
            close(result, expected)
            assert bits(run(bench, desc, inputs)["OutputTensor"]) == bits(result), bench.device.info.name
    assert len({bits(result) for result in whole}) == 1


def test_masks_have_directmls_numbers() -> None:
    names = ("NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN")
    assert {kind.name: int(kind) for kind in _MASKS} == {name: number for number, name in enumerate(names)}
