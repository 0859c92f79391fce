"""Whatever numbers a kernel takes from memory as indices, lengths or places: it stays inside of its tensors.

Each tensor lies between guard bytes. With other guards no output may have other bits (nothing beyond is read), and the
guards and the inputs stay as they were (nothing beyond is written).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.conformance.samples import Sample, sample_cases
from dmlvk.conformance.sampling import stored_input
from dmlvk.operators.cached_attention import CachedAttention
from tests.targets import all_compute_as_gpus

Array = npt.NDArray[Any]

_GUARD = 1024
_FILLS = (0x00, 0x7C)

_INDEXED = (
    *("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1", "SCATTER", "SCATTER_ND", "ONE_HOT"),
    *("REVERSE_SUBSEQUENCES", "MAX_UNPOOLING", "ROI_ALIGN", "ROI_ALIGN1", "ROI_POOLING", "ROI_ALIGN_GRAD"),
    *("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1", "GRU", "LSTM", "RNN"),
)
"""Operators that take such numbers from tensors."""

_EXTREMES = (-(2**63), -(2**31), -(2**31) + 1, -99, -1, 0, 1, 2, 7, 255, 256, 2**20, 2**31 - 1, 2**31, 2**32, 2**63 - 1)


def _strange(array: Array, random: np.random.Generator) -> Array:
    """Numbers that are no places of any tensor, and some that are; of floats, too, where they are regions."""
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        fitting = [number for number in _EXTREMES if info.min <= number <= info.max]
        chosen = [fitting[int(place)] for place in random.integers(0, len(fitting), array.size)]
        return np.array(chosen, array.dtype).reshape(array.shape)
    floats = np.array([np.nan, np.inf, -np.inf, -7, 0, 1, 3, 99, 6e4], array.dtype)
    chosen_floats: Array = floats[random.integers(0, len(floats), array.shape)]
    return chosen_floats


def _is_strange(member: str, array: Array) -> bool:
    is_region = member.startswith("ROI") or member.startswith("Roi")
    return is_region or (array.dtype.kind in "iu" and array.dtype.itemsize >= 4)


def _check(bench: Workbench, desc: dml.OperatorDesc, inputs: dict[str, Array]) -> None:
    """Runs an operator between guards of each kind."""
    runs = []
    for fill in _FILLS:
        contents: list[npt.NDArray[np.uint8]] = []
        placements: list[TensorPlacement] = []
        for field, tensor in (*desc.inputs, *desc.outputs):
            if tensor is None:
                continue
            buffer = np.full(2 * _GUARD + -(-tensor.size_in_bytes // 4) * 4, fill, np.uint8)
            stored = stored_input(tensor, inputs[field.name]) if field.name in inputs else 0
            buffer[_GUARD : _GUARD + tensor.size_in_bytes] = stored
            contents.append(buffer)
            placements.append(TensorPlacement(len(placements), _GUARD, tensor.size_in_bytes))
        before = [buffer.copy() for buffer in contents]
        after = bench.run(desc, contents, placements)
        count = sum(tensor is not None for _, tensor in desc.inputs)
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            whole = slice(None) if number < count else slice(0, _GUARD)
            np.testing.assert_array_equal(one[whole], other[whole], err_msg=f"{desc}: tensor {number} was written")
            np.testing.assert_array_equal(one[-_GUARD:], other[-_GUARD:], err_msg=f"{desc}: behind tensor {number}")
        runs.append([buffer[_GUARD:-_GUARD] for buffer in after[count:]])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=f"{desc}: something beyond its tensors was read")


def _samples(operator: str) -> list[Sample]:
    """One of each data types of 32 bits, and some more."""
    found: list[Sample] = []
    for case in sample_cases():
        if case.desc_class.operator_name == operator:
            strange = [s for s in case.samples() if any(_is_strange(k, a) for k, a in s.inputs.items())]
            found += strange[:1]
    return found[:: -(-len(found) // 4)]


@pytest.mark.parametrize("operator", _INDEXED)
def test_no_index_leads_beyond_a_tensor(benches: list[Workbench], operator: str) -> None:
    random, samples = np.random.default_rng(4), _samples(operator)
    for number, sample in enumerate(samples):
        inputs = {k: _strange(a, random) if _is_strange(k, a) else a for k, a in sample.inputs.items()}
        _check(benches[number % len(benches)], sample.desc, inputs)


def _tensor(data_type: dml.DataType, *sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes)


@dataclasses.dataclass(frozen=True)
class _Caches:
    """Sizes of an attention over caches."""

    tokens: int
    capacity: int
    size: int
    members: dict[str, Any]
    past: int = 0

    def desc(self, data_type: dml.DataType, batch: int = 2, heads: int = 4, key_heads: int = 2) -> CachedAttention:
        """The operator."""
        of = dict(self.members)
        if of.get("counts_past") and "beams_tensor" in of:
            heads = key_heads
        given: dict[str, Any] = {
            "query_tensor": _tensor(data_type, batch, self.tokens, heads * self.size),
            "key_tensor": _tensor(data_type, batch, self.tokens, key_heads * self.size),
            "value_tensor": _tensor(data_type, batch, self.tokens, key_heads * self.size),
            "ends_tensor": _tensor(dml.DataType.INT32, 1 if of.get("counts_past") else batch),
            "total_tensor": _tensor(dml.DataType.INT32, 1),
            "output_tensor": _tensor(data_type, batch, self.tokens, heads * self.size),
        }
        for role in ("key", "value"):
            given[f"present_{role}_tensor"] = _tensor(data_type, batch, key_heads, self.capacity, self.size)
            if self.past:
                given[f"past_{role}_tensor"] = _tensor(data_type, batch, key_heads, self.past, self.size)
        wanted: dict[str, tuple[dml.DataType, tuple[int, ...]]] = {
            "bias_tensor": (data_type, (1, heads, self.tokens, self.capacity - 1)),
            "scores_tensor": (data_type, (batch, heads, self.tokens, self.capacity)),
            "cosine_tensor": (data_type, (5, self.size // 2)),
            "sine_tensor": (data_type, (5, self.size // 2)),
            "position_tensor": (dml.DataType.INT64, (batch, self.tokens)),
            "beams_tensor": (dml.DataType.INT32, (batch, self.capacity)),
            "query_lengths_tensor": (dml.DataType.INT32, (batch,)),
        }
        given |= {name: _tensor(kind, *sizes) for name, (kind, sizes) in wanted.items() if of.pop(name, False)}
        given |= {"query_head_count": heads, "key_value_head_count": key_heads, "scale": 0.25, "softcap": 0.0}
        given |= dict.fromkeys(("is_interleaved", "has_empty_sink", "keeps_past", "shows_shares"), False)
        given |= dict.fromkeys(("is_causal", "counts_past", "keeps_window"), False) | {"window": 0, "beam_width": 0}
        return CachedAttention(**given | of)


_ANGLES = {"cosine_tensor": True, "sine_tensor": True}
_KINDS = {
    "a step": _Caches(1, 300, 64, {"is_causal": True, "keeps_past": False}),
    "a step with angles": _Caches(1, 300, 64, {"is_causal": True, **_ANGLES, "position_tensor": True}),
    "a few tokens": _Caches(3, 40, 16, {"is_causal": True, "bias_tensor": True, **_ANGLES}, past=37),
    "many tokens": _Caches(20, 300, 64, {"is_causal": True, **_ANGLES}),
    "a past of one number": _Caches(2, 30, 16, {"is_causal": True, "counts_past": True, "bias_tensor": True}, past=30),
    "beams": _Caches(1, 30, 16, {"counts_past": True, "beams_tensor": True, "beam_width": 2}, past=30),
    "scores": _Caches(2, 30, 16, {"is_causal": True, "scores_tensor": True, "shows_shares": True}),
    "a window": _Caches(2, 30, 16, {"is_causal": True, "keeps_window": True, "window": 8}, past=30),
    "lengths of queries": _Caches(3, 30, 16, {"is_causal": True, "query_lengths_tensor": True, **_ANGLES}, past=20),
}


@pytest.mark.parametrize("as_gpus", [False, True])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_no_length_leads_beyond_a_cache(
    benches: list[Workbench], kind: str, as_gpus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    random = np.random.default_rng(7)
    for number, data_type in enumerate((dml.DataType.FLOAT16, dml.DataType.FLOAT32)):
        desc = _KINDS[kind].desc(data_type)
        for _ in range(2):
            inputs = {
                field.name: random.standard_normal(tensor.sizes).astype(tensor.data_type.numpy_dtype)
                for field, tensor in desc.inputs
                if tensor is not None
            }
            inputs = {k: _strange(a, random) if a.dtype.kind == "i" else a for k, a in inputs.items()}
            _check(benches[number % len(benches)], desc, inputs)
