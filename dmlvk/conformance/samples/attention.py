"""Samples of attention: every source of queries, keys and values, every mask, biases, past and present."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler

_TYPES = dml.MultiheadAttentionMaskType


@dataclasses.dataclass(frozen=True)
class _AttentionCase:
    sources: str  # of queries, keys and values: ``"q,k,v"``, or letters together that are stacked
    sizes: tuple[int, int, int, int, int, int]  # batch, heads of queries, queries, own keys, head size, value size
    kind: dml.MultiheadAttentionMaskType = _TYPES.NONE  # of the mask
    filtered: float = -1e4  # MaskFilterValue
    bias: bool = False  # whether there is one
    past: int = 0  # how many past keys there are
    present: bool = False  # whether present keys and values are asked for
    relative: int = 0  # what batch the relative position bias has: 0 for none, 1, or 2 for the queries'
    key_heads: int = 0  # heads of keys; 0: as many as of queries
    lengths: tuple[float, ...] = ()  # lengths of the past of each element of the batch


_CASES: Mapping[str, _AttentionCase] = {
    "apart, odd sizes": _AttentionCase(
        "q,k,v", (2, 3, 9, 5, 3, 5), _TYPES.KEY_SEQUENCE_LENGTH, bias=True, present=True
    ),
    "queries and keys stacked": _AttentionCase(
        "qk,v", (1, 2, 6, 6, 8, 3), _TYPES.BOOLEAN, -np.inf, bias=True, relative=2
    ),
    "keys and values stacked": _AttentionCase(
        "q,kv", (2, 2, 3, 6, 5, 5), _TYPES.KEY_SEQUENCE_END_START, -3.0, past=4, present=True, relative=1
    ),
    "all stacked": _AttentionCase("qkv", (3, 1, 4, 4, 8, 8), _TYPES.KEY_QUERY_SEQUENCE_LENGTH_START_END, bias=True),
    "one query": _AttentionCase("q,k,v", (1, 2, 1, 1, 1, 1), filtered=0.0, past=9),
}

_GROUPED: Mapping[str, _AttentionCase] = {
    "groups, odd sizes": _AttentionCase(
        "q,k,v", (2, 6, 3, 5, 3, 5), _TYPES.KEY_SEQUENCE_LENGTH, bias=True, past=3, key_heads=2, lengths=(1, 3)
    ),
    "one head of keys": _AttentionCase(
        "q,kv",
        (2, 3, 4, 2, 4, 4),
        _TYPES.BOOLEAN,
        -3.0,
        past=4,
        present=True,
        relative=2,
        key_heads=1,
        lengths=(-1, 2.5),
    ),
    "groups, one query": _AttentionCase("q,k,v", (3, 4, 1, 1, 8, 8), past=6, key_heads=2, lengths=(0, 9, 4)),
    "all stacked": _AttentionCase("qkv", (2, 2, 5, 5, 4, 4), _TYPES.KEY_SEQUENCE_END_START, bias=True, relative=1),
}


@sampler("MULTIHEAD_ATTENTION")
def multihead_attention(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    for name, case in _CASES.items():
        desc, inputs = _described(dml.MultiheadAttention, case, types["output_tensor"], random)
        yield Sample(name, desc, inputs)


@sampler("MULTIHEAD_ATTENTION1")
def multihead_attention1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Heads of queries that share keys, and lengths of the past."""
    for name, case in _GROUPED.items():
        desc, inputs = _described(dml.MultiheadAttention1, case, types["output_tensor"], random)
        yield Sample(name, desc, inputs)


def _shapes(case: _AttentionCase) -> dict[str, tuple[int, ...]]:
    """The sizes of the floating-point inputs."""
    batch, heads, queries, own, size, value_size = case.sizes
    key_heads, keys = case.key_heads or heads, case.past + own
    shapes: dict[str, tuple[int, ...]] = {}
    for source in case.sources.split(","):
        length, count = (queries, heads) if "q" in source else (own, key_heads)
        if len(source) == 1:
            member = {"q": "query_tensor", "k": "key_tensor", "v": "value_tensor"}[source]
            shapes[member] = (batch, length, count * (value_size if source == "v" else size))
        else:
            stacked = {"qk": "query_key", "kv": "key_value", "qkv": "query_key_value"}[source]
            shapes[f"stacked_{stacked}_tensor"] = (batch, length, count, len(source), size)
    if case.bias:
        shapes["bias_tensor"] = (heads * size + key_heads * (size + value_size),)
    if case.relative:
        shapes["relative_position_bias_tensor"] = (1 if case.relative == 1 else batch, heads, queries, keys)
    if case.past:
        shapes["past_key_tensor"] = (batch, key_heads, case.past, size)
        shapes["past_value_tensor"] = (batch, key_heads, case.past, value_size)
    return shapes


def _described(
    kind: Any, case: _AttentionCase, data_type: dml.DataType, random: np.random.Generator
) -> tuple[Any, Any]:
    """The description, and its inputs by DirectML's names."""
    batch, heads, queries, own, size, value_size = case.sizes
    key_heads, keys = case.key_heads or heads, case.past + own
    inputs: dict[str, npt.NDArray[Any]] = {
        member: random.normal(0, 1, sizes).astype(data_type.numpy_dtype) for member, sizes in _shapes(case).items()
    }
    if case.lengths:
        inputs["past_sequence_lengths_tensor"] = np.array(case.lengths, data_type.numpy_dtype)
    if case.kind is not _TYPES.NONE:
        inputs["mask_tensor"] = _mask(case.kind, batch, queries, keys, random)
    tensors = {
        member: dml.TensorDesc(dml.INT32 if member == "mask_tensor" else data_type, values.shape)
        for member, values in inputs.items()
    }
    if case.present:
        tensors["output_present_key_tensor"] = dml.TensorDesc(data_type, (batch, key_heads, keys, size))
        tensors["output_present_value_tensor"] = dml.TensorDesc(data_type, (batch, key_heads, keys, value_size))
    counts = {"head_count": heads}
    if kind is dml.MultiheadAttention1:
        counts = {"query_head_count": heads, "key_value_head_count": key_heads}
    desc = kind(
        **tensors,
        output_tensor=dml.TensorDesc(data_type, (batch, queries, heads * value_size)),
        scale=size**-0.5,
        mask_filter_value=case.filtered,
        mask_type=case.kind,
        **counts,
    )
    return desc, {_name(member): values for member, values in inputs.items()}


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
