"""MULTIHEAD_ATTENTION1: groups of heads, lengths of the past, and how much memory attention takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.composed import attention
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators import check_operator
from tests.operators.test_attention import describe as describe_plain
from tests.operators.test_attention import numbers
from tests.operators.test_attention import run as outputs_of

pytestmark = pytest.mark.usefixtures("own_kernels")

Array = npt.NDArray[Any]

_MASKS = dml.MultiheadAttentionMaskType
_LEVEL = dml.FeatureLevel.from_name("6_3")
_BATCH, _HEADS, _KEY_HEADS, _QUERIES, _OWN, _SIZE = 3, 6, 2, 5, 4, 8


def grouped_inputs(past: int = 0, data_type: Any = np.float32) -> dict[str, Array]:
    """Queries, keys and values, and past ones where some are asked for."""
    width = _KEY_HEADS * _SIZE
    made = {
        "query_tensor": numbers(1, _BATCH, _QUERIES, _HEADS * _SIZE, data_type=data_type),
        "key_tensor": numbers(2, _BATCH, _OWN, width, data_type=data_type),
        "value_tensor": numbers(3, _BATCH, _OWN, width, data_type=data_type),
    }
    if past:
        made["past_key_tensor"] = numbers(4, _BATCH, _KEY_HEADS, past, _SIZE, data_type=data_type)
        made["past_value_tensor"] = numbers(5, _BATCH, _KEY_HEADS, past, _SIZE, data_type=data_type)
    return made


def describe(inputs: Mapping[str, Array], **members: Any) -> dml.MultiheadAttention1:
    tensors = {name: dml.TensorDesc(dml.DataType(values.dtype), values.shape) for name, values in inputs.items()}
    heads = {"query_head_count": _HEADS, "key_value_head_count": _KEY_HEADS}
    options: dict[str, Any] = {"scale": 0.5, "mask_filter_value": -1e4, "mask_type": _MASKS.NONE, **heads, **members}
    return dml.MultiheadAttention1(**{"output_tensor": tensors["query_tensor"], **tensors, **options})


def run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> Array:
    return outputs_of(bench, desc, inputs)["OutputTensor"]


def plain(inputs: Mapping[str, Array]) -> tuple[dml.MultiheadAttention, dict[str, Array]]:
    """MULTIHEAD_ATTENTION with keys and values that are repeated for every head of their group."""
    group = _HEADS // _KEY_HEADS
    repeated = dict(inputs)
    for role in ("key", "value"):
        own = inputs[f"{role}_tensor"].reshape(_BATCH, _OWN, _KEY_HEADS, _SIZE)
        repeated[f"{role}_tensor"] = np.repeat(own, group, axis=2).reshape(_BATCH, _OWN, -1)
        if f"past_{role}_tensor" in inputs:
            repeated[f"past_{role}_tensor"] = np.repeat(inputs[f"past_{role}_tensor"], group, axis=1)
    return describe_plain(repeated, repeated["query_tensor"].shape, _HEADS), repeated


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
@pytest.mark.parametrize("past", [0, 3])
def test_heads_of_a_group_share_keys_and_values(benches: list[Workbench], past: int, data_type: Any) -> None:
    inputs = grouped_inputs(past, data_type)
    desc, repeated = plain(inputs)
    found = set()
    for bench in benches:
        found |= {run(bench, describe(inputs), inputs).tobytes(), run(bench, desc, repeated).tobytes()}
    assert len(found) == 1


def test_lengths_of_the_past_mask_what_lies_behind(benches: list[Workbench]) -> None:
    past = 4
    inputs = grouped_inputs(past)
    lengths = np.array([0, 2, past], np.float32)
    desc, repeated = plain(inputs)
    positions = np.arange(past + _OWN)
    seen = (positions < lengths[:, None]) | (positions >= past)
    repeated["mask_tensor"] = seen.reshape(_BATCH, 1, 1, -1).astype(np.int32)
    mask = dml.TensorDesc(dml.INT32, repeated["mask_tensor"].shape)
    masked = dataclasses.replace(desc, mask_type=_MASKS.BOOLEAN, mask_tensor=mask)
    inputs["past_sequence_lengths_tensor"] = lengths
    for bench in benches:
        expected = run(bench, masked, repeated)
        assert run(bench, describe(inputs), inputs).tobytes() == expected.tobytes()
        for sequence, length in enumerate(lengths.astype(int)):  # the same as without what is masked
            shorter = {name: values[sequence : sequence + 1] for name, values in inputs.items()}
            del shorter["past_sequence_lengths_tensor"]
            for role in ("key", "value"):
                shorter[f"past_{role}_tensor"] = shorter[f"past_{role}_tensor"][:, :, :length]
                if length == 0:
                    del shorter[f"past_{role}_tensor"]
            np.testing.assert_allclose(run(bench, describe(shorter), shorter)[0], expected[sequence], rtol=0, atol=1e-6)


@pytest.mark.parametrize("key_heads", [1, 2, 6])
def test_blocks_of_batch_heads_and_rows_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, key_heads: int
) -> None:
    batch, queries, keys, size = 10, 9, 6, 4
    inputs = {
        "query_tensor": numbers(1, batch, queries, 6 * size),
        "key_tensor": numbers(2, batch, keys, key_heads * size),
        "value_tensor": numbers(3, batch, keys, key_heads * size),
        "relative_position_bias_tensor": numbers(4, batch, 6, queries, keys),
        "mask_tensor": np.random.default_rng(5).integers(0, 2, (batch, 6, queries, keys)).astype(np.int32),
    }
    desc = describe(inputs, key_value_head_count=key_heads, mask_type=_MASKS.BOOLEAN)
    whole = [run(bench, desc, inputs).tobytes() for bench in benches]
    steps = set()
    for scores in (1, 7 * queries, 7 * 6 * queries):
        monkeypatch.setattr(attention, "_MOST_SCORES", scores * keys * 4)
        steps.add(len(lower(desc, GPU).steps))
        for bench, expected in zip(benches, whole, strict=True):
            assert run(bench, desc, inputs).tobytes() == expected, bench.device.info.name
    assert len(set(whole)) == 1
    assert len(steps) > 1


def _scratch_bytes(batch: int, heads: int, length: int, data_type: dml.DataType, size: int = 64) -> int:
    sizes = (batch, length, heads * size)
    tensor = dml.TensorDesc(data_type, sizes)
    desc = dml.MultiheadAttention1(
        query_tensor=tensor,
        key_tensor=tensor,
        value_tensor=tensor,
        mask_tensor=dml.TensorDesc(dml.INT32, (1, 1, length, length)),
        output_tensor=tensor,
        scale=0.125,
        mask_filter_value=-1e4,
        query_head_count=heads,
        key_value_head_count=heads,
        mask_type=_MASKS.BOOLEAN,
    )
    check_operator(desc, _LEVEL)
    return lower(desc, GPU).scratch_bytes


@pytest.mark.sweep
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16])
def test_memory_is_linear_in_the_length(monkeypatch: pytest.MonkeyPatch, data_type: dml.DataType) -> None:
    # Two blocks of scores, one of what is added to them, and one that says in a byte each which keys are hidden.
    blocks = 4
    assert attention._MOST_SCORES == 2**26
    assert _scratch_bytes(8, 16, 1024, data_type) <= blocks * 2**26
    assert _scratch_bytes(64, 32, 1024, data_type) <= blocks * 2**26
    most = 2**16
    monkeypatch.setattr(attention, "_MOST_SCORES", most)
    for length in (64, 512):
        assert _scratch_bytes(8, 4, length, data_type, 64) <= blocks * max(most, length * 4) + 1024
        # Rows that begin at odd places make blocks of 512 rows.
        assert _scratch_bytes(16, 16, length, data_type, 63) <= blocks * max(most, 512 * length * 4) + 1024
