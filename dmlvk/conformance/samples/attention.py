"""Samples of attention: every source of queries, keys and values, every mask, biases, past and present."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler

_TYPES = dml.MultiheadAttentionMaskType

# sources; batch, heads, queries, own keys, head size, value size; bias; past keys; presents; relative; mask; filter
_CASES: dict[str, tuple[Any, ...]] = {
    "apart": ("q,k,v", (2, 3, 5, 7, 4, 6), False, 0, False, 0, _TYPES.NONE, -1e4),
    "apart, odd sizes, bias": ("q,k,v", (2, 3, 9, 5, 3, 5), True, 0, True, 0, _TYPES.KEY_SEQUENCE_LENGTH, -1e4),
    "queries and keys stacked": ("qk,v", (1, 2, 6, 6, 8, 3), True, 0, False, 2, _TYPES.BOOLEAN, -1e4),
    "keys and values stacked": ("q,kv", (2, 2, 3, 6, 5, 5), False, 4, True, 1, _TYPES.BOOLEAN, -3.0),
    "all stacked": ("qkv", (2, 2, 11, 11, 4, 4), True, 3, True, 2, _TYPES.KEY_SEQUENCE_END_START, -1e4),
    "packed lengths": ("qkv", (3, 1, 4, 4, 8, 8), False, 0, False, 0, _TYPES.KEY_QUERY_SEQUENCE_LENGTH_START_END, -1e4),
    "hidden rows": ("q,k,v", (2, 1, 3, 4, 4, 4), False, 0, False, 0, _TYPES.BOOLEAN, -np.inf),
    "one query": ("q,k,v", (1, 2, 1, 1, 1, 1), False, 9, False, 0, _TYPES.NONE, 0.0),
}


@sampler("MULTIHEAD_ATTENTION")
def multihead_attention(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Small ones of every kind."""
    data_type = types["output_tensor"]
    for name, (sources, numbers, bias, past, present, relative, kind, filtered) in _CASES.items():
        batch, heads, queries, own, size, value_size = numbers
        keys = past + own
        shapes: dict[str, tuple[int, ...]] = {}
        for source in sources.split(","):
            length = queries if "q" in source else own
            if len(source) == 1:
                member = {"q": "query_tensor", "k": "key_tensor", "v": "value_tensor"}[source]
                shapes[member] = (batch, length, heads * (value_size if source == "v" else size))
            else:
                stacked = {"qk": "query_key", "kv": "key_value", "qkv": "query_key_value"}[source]
                shapes[f"stacked_{stacked}_tensor"] = (batch, length, heads, len(source), size)
        if bias:
            shapes["bias_tensor"] = (heads * (2 * size + value_size),)
        if relative:
            shapes["relative_position_bias_tensor"] = (1 if relative == 1 else batch, heads, queries, keys)
        if past:
            shapes["past_key_tensor"] = (batch, heads, past, size)
            shapes["past_value_tensor"] = (batch, heads, past, value_size)
        inputs: dict[str, npt.NDArray[Any]] = {
            _name(member): random.normal(0, 1, sizes).astype(data_type.numpy_dtype) for member, sizes in shapes.items()
        }
        tensors = {member: dml.TensorDesc(data_type, sizes) for member, sizes in shapes.items()}
        if kind is not _TYPES.NONE:
            mask = _mask(kind, batch, queries, keys, random)
            tensors["mask_tensor"] = dml.TensorDesc(dml.INT32, mask.shape)
            inputs["MaskTensor"] = mask
        if present:
            tensors["output_present_key_tensor"] = dml.TensorDesc(data_type, (batch, heads, keys, size))
            tensors["output_present_value_tensor"] = dml.TensorDesc(data_type, (batch, heads, keys, value_size))
        desc = dml.MultiheadAttention(
            **tensors,
            output_tensor=dml.TensorDesc(data_type, (batch, queries, heads * value_size)),
            scale=size**-0.5,
            mask_filter_value=filtered,
            head_count=heads,
            mask_type=kind,
        )
        yield Sample(name, desc, inputs)


def _name(member: str) -> str:
    return "".join(word.capitalize() for word in member.split("_"))


def _mask(kind: Any, batch: int, queries: int, keys: int, random: np.random.Generator) -> npt.NDArray[np.int32]:
    if kind is _TYPES.BOOLEAN:
        mask = random.integers(0, 2, (batch, 1, queries, keys))
        mask[0, 0, 0] = 0  # a row that sees nothing
    elif kind is _TYPES.KEY_SEQUENCE_LENGTH:
        mask = random.integers(0, keys + 1, (1, batch))
    elif kind is _TYPES.KEY_SEQUENCE_END_START:
        starts = random.integers(0, keys, (1, batch))
        mask = np.concatenate([starts + random.integers(1, keys, (1, batch)), starts])
    else:
        lengths = random.integers(1, keys + 1, batch)
        ends = np.cumsum(lengths)
        mask = np.concatenate([lengths, ends - lengths, ends[-1:], ends - lengths, ends[-1:]])
    return mask.astype(np.int32)
