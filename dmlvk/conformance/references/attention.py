"""What attention of several heads must give: in float64, with the errors of its steps carried along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]
_TYPES = dml.MultiheadAttentionMaskType


def _parts(desc: dml.MultiheadAttention | dml.MultiheadAttention1, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Queries, keys and values as batch, heads, length, size."""
    queries, keys = _head_counts(desc)
    found = {}
    for role, name, heads in (("q", "QueryTensor", queries), ("k", "KeyTensor", keys), ("v", "ValueTensor", keys)):
        if name in inputs:
            given = inputs[name]
            batch, length, hidden = given.shape[-3:]
            found[role] = given.reshape(batch, length, heads, hidden // heads).swapaxes(1, 2)
    for roles, middle in (("qk", "QueryKey"), ("kv", "KeyValue"), ("qkv", "QueryKeyValue")):
        name = f"Stacked{middle}Tensor"
        if name in inputs:
            for index, role in enumerate(roles):
                found[role] = inputs[name][:, :, :, index].swapaxes(1, 2)
    return {role: part.astype(np.float64) for role, part in found.items()}


def _head_counts(desc: dml.MultiheadAttention | dml.MultiheadAttention1) -> tuple[int, int]:
    if isinstance(desc, dml.MultiheadAttention1):
        return desc.query_head_count, desc.key_value_head_count
    return desc.head_count, desc.head_count


def _past_hidden(lengths: Array, past: int, keys: int) -> Array:
    hidden = np.zeros((lengths.size, 1, 1, keys), np.bool_)
    for row, length in enumerate(lengths.ravel()):
        for key in range(past):
            hidden[row, 0, 0, key] = key >= length
    return hidden


def _hidden(desc: dml.MultiheadAttention | dml.MultiheadAttention1, mask: Array, batch: int, keys: int) -> Array:
    """Which keys each query does not see."""
    if desc.mask_type is _TYPES.BOOLEAN:
        return np.asarray(mask.reshape(mask.shape[-4:]) == 0)
    hidden = np.zeros((batch, 1, 1, keys), np.bool_)
    numbers = [int(number) for number in mask.ravel()]
    for row in range(batch):
        start = numbers[batch + row] if desc.mask_type is _TYPES.KEY_SEQUENCE_END_START else 0
        for key in range(keys):
            hidden[row, 0, 0, key] = not start <= key < numbers[row]
    return hidden


def _operands(
    desc: dml.MultiheadAttention | dml.MultiheadAttention1, inputs: Mapping[str, Array], unit: float, tiny: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Queries, and past and own keys and values, with the errors of the bias's sums."""
    parts = _parts(desc, inputs)
    errors = {role: np.zeros_like(part) for role, part in parts.items()}
    if "BiasTensor" in inputs:
        rest = inputs["BiasTensor"].astype(np.float64).ravel()
        for role in "qkv":
            heads, size = parts[role].shape[1], parts[role].shape[3]
            bias, rest = rest[: heads * size], rest[heads * size :]
            parts[role] = parts[role] + bias.reshape(1, heads, 1, size)
            errors[role] = unit * np.abs(parts[role]) + tiny
    for role, name in (("k", "PastKeyTensor"), ("v", "PastValueTensor")):
        if name in inputs:
            past = inputs[name].astype(np.float64)
            past = past.reshape(past.shape[-4:])
            parts[role] = np.concatenate([past, parts[role]], axis=2)
            errors[role] = np.concatenate([np.zeros_like(past), errors[role]], axis=2)
    return parts, errors


def _all_hidden(
    desc: dml.MultiheadAttention1 | dml.MultiheadAttention, inputs: Mapping[str, Array], batch: int, keys: int
) -> Array:
    """Which keys no query sees: by the mask, and behind the past's lengths."""
    hidden: Array = np.zeros((1, 1, 1, 1), np.bool_)
    if "MaskTensor" in inputs:
        hidden = _hidden(desc, inputs["MaskTensor"], batch, keys)
    if "PastSequenceLengthsTensor" in inputs:
        lengths = inputs["PastSequenceLengthsTensor"]
        hidden = hidden | _past_hidden(lengths, inputs["PastKeyTensor"].shape[-2], keys)
    return hidden


@reference("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")
def multihead_attention(
    desc: dml.MultiheadAttention1 | dml.MultiheadAttention, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Head after head in float64; what each step may add to the error is added to its bound, and passed on."""
    half = desc.output_tensor.data_type is dml.FLOAT16
    unit, tiny = (2.0**-10, 2.0**-24) if half else (2.0**-23, 2.0**-125)
    parts, errors = _operands(desc, inputs, unit, tiny)
    presents = {role: (parts[role], errors[role]) for role in "kv"}
    group = parts["q"].shape[1] // parts["k"].shape[1]
    for role in "kv":
        parts[role], errors[role] = (np.repeat(values, group, axis=1) for values in (parts[role], errors[role]))
    q, k, v = (parts[role] for role in "qkv")
    dq, dk, dv = (errors[role] for role in "qkv")
    scores = desc.scale * (q @ k.swapaxes(2, 3))
    wide_q, wide_k = np.abs(q) + dq, (np.abs(k) + dk).swapaxes(2, 3)
    error = dq @ wide_k + wide_q @ dk.swapaxes(2, 3) + _sums(q.shape[3]) * (wide_q @ wide_k) + tiny
    error = abs(desc.scale) * error + 2.0**-23 * np.abs(scores)
    if "RelativePositionBiasTensor" in inputs:
        more = inputs["RelativePositionBiasTensor"].astype(np.float64)
        scores = scores + more.reshape(more.shape[-4:])
    error = error + unit * np.abs(scores) + tiny
    hidden = _all_hidden(desc, inputs, q.shape[0], k.shape[2])
    if hidden.any():
        filtered = float(np.asarray(desc.mask_filter_value, desc.output_tensor.data_type.numpy_dtype))
        scores = scores + np.where(hidden, filtered, 0.0)
        error = error + np.where(np.isfinite(scores), unit * np.abs(scores) + tiny, 0.0)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        shares = powers / powers.sum(axis=3, keepdims=True)
    # A share is a quotient of powers: each is wrong by e to the largest error of the row's scores at most.
    furthest = np.where(np.isfinite(scores), error, 0.0).max(axis=3, keepdims=True)
    d_shares = shares * np.expm1(2 * furthest) + 1.8 * unit * shares + tiny
    d_shares = np.where(np.isneginf(scores), 0.0, d_shares)
    results = shares @ v
    wide = (shares + d_shares) @ (np.abs(v) + dv)
    bound = d_shares @ (np.abs(v) + dv) + shares @ dv + _sums(k.shape[2]) * wide + unit * np.abs(results) + tiny
    batch, _, queries, _ = q.shape
    sizes = tuple(desc.output_tensor.sizes)
    made: dict[str, Expected] = {
        "OutputTensor": Bounded(
            results.swapaxes(1, 2).reshape(batch, queries, -1).reshape(sizes),
            bound.swapaxes(1, 2).reshape(batch, queries, -1).reshape(sizes),
        )
    }
    for role, name, tensor in (
        ("k", "OutputPresentKeyTensor", desc.output_present_key_tensor),
        ("v", "OutputPresentValueTensor", desc.output_present_value_tensor),
    ):
        if tensor is not None:
            values, limits = presents[role]
            made[name] = Bounded(values.reshape(tensor.sizes), limits.reshape(tensor.sizes))
    return made


def _sums(terms: int) -> float:
    """The relative error of a sum of so many products in float32, of the sum of their magnitudes."""
    return (min(terms, 1024) + -(-terms // 1024) + 2) * 2.0**-24
