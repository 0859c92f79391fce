"""Caches of a window: GroupQueryAttention with ``sliding_window_cache``, whose caches keep the most recent keys only.

Lengths are known when it is planned, so each length has a plan of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.assembly import New
from dmlvk.onnx.operators.movement import padded, sliced
from dmlvk.onnx.translation import Node
from dmlvk.onnx.values import NotOnDevice, Tensor

_POSITIONS = "position_tensor"
_BY_SEQUENCE = ("query_tensor", "key_tensor", "value_tensor", _POSITIONS)
"""Members with a line for each sequence."""


@dataclasses.dataclass(frozen=True)
class _Window:
    """What a sequence's cache holds before a step and after it.

    Attributes:
        total: tokens with those of the step.
        own: tokens of the step, without what fills the line up.
        resident: keys of the past that are there.
        kept: keys that are there afterwards.
    """

    total: int
    own: int
    resident: int
    kept: int

    @classmethod
    def of(cls, total: int, tokens: int, capacity: int, window: int) -> _Window:
        """Of a sequence with so many tokens, by ONNX Runtime's rule: rows are given up several at once."""
        own = min(tokens, total)
        return cls(total, own, _resident(total - own, capacity, window), _resident(total, capacity, window))


def _resident(total: int, capacity: int, window: int) -> int:
    if total <= capacity:
        return total
    together = capacity - window + 1
    return total - together * -(-(total - capacity) // together)


def attend_in_window(
    node: Node, members: Mapping[str, Any], pasts: tuple[Tensor, Tensor], ends: Sequence[int], sizes: tuple[int, int]
) -> list[Tensor]:
    """The result, and the present caches.

    Args:
        node: the node.
        members: of CACHED_ATTENTION, without lengths and caches.
        pasts: the caches of keys and of values: batch, heads, capacity, size.
        ends: the last token's place in each sequence.
        sizes: the elements of a token's result, and the places that angles are there for; 0: it turns nothing.

    Raises:
        NotOnDevice: when lengths, window and caches contradict one another.
    """
    batch, heads, capacity, size = pasts[0].shape
    tokens, window = members["query_tensor"].shape[1], members["window"]
    width, places = sizes
    if not 0 < window <= capacity:
        raise NotOnDevice(f"a cache of {capacity} rows for a window of {window}")
    if len(ends) != batch or min(ends) < 0 or (places and max(ends) >= places):
        raise NotOnDevice(f"sequences that end at {list(ends)}: {batch} of them, and angles for {places} places")
    found = [
        _attended(node, members, pasts, number, _Window.of(end + 1, tokens, capacity, window), width)
        for number, end in enumerate(ends)
    ]
    shapes = [(batch, tokens, width), *[(batch, heads, capacity, size)] * 2]
    return [_joined(node, [made[place] for made in found], shape) for place, shape in enumerate(shapes)]


def _attended(
    node: Node, members: Mapping[str, Any], pasts: tuple[Tensor, Tensor], number: int, window: _Window, width: int
) -> list[Tensor]:
    """What a sequence gives: attention over the keys that are there, of which the last ones stay."""
    _, heads, capacity, size = pasts[0].shape
    own = {name: _line(node, members[name], number) for name in _BY_SEQUENCE if name in members}
    tokens = own["query_tensor"].shape[1]
    rows = window.resident + tokens
    first = window.total - window.own
    if "cosine_tensor" in members and _POSITIONS not in own:
        own[_POSITIONS] = node.assembly.constant(np.arange(first, first + tokens)[None], TensorProto.INT64)
    if "bias_tensor" in members:
        own["bias_tensor"] = _bias(node, members["bias_tensor"], number, first - window.resident, rows)
    if window.resident:
        for name, past in zip(("past_key_tensor", "past_value_tensor"), pasts, strict=True):
            own[name] = _rows(node, _line(node, past, number), 0, window.resident)
    present = New(pasts[0].element, (1, heads, rows, size))
    made, *presents = node.apply_all(
        "CACHED_ATTENTION",
        **{**members, **own},
        ends_tensor=_number(node, window.resident + window.own - 1),
        total_tensor=_number(node, rows),
        keeps_past=False,
        output_tensor=New(own["query_tensor"].element, (1, tokens, width)),
        present_key_tensor=present,
        present_value_tensor=present,
    )
    begin = window.resident + window.own - window.kept
    kept = [_rows(node, tensor, begin, window.kept) for tensor in presents]
    missing = [0, 0, capacity - window.kept, 0]
    return [made, *(padded(node, tensor, [0] * 4, missing) if any(missing) else tensor for tensor in kept)]


def _number(node: Node, value: int) -> Tensor:
    return node.assembly.constant(np.array([value], np.int32), TensorProto.INT32)


def _line(node: Node, tensor: Tensor, number: int) -> Tensor:
    """What belongs to a sequence."""
    if tensor.shape[0] == 1:
        return tensor
    rest = list(tensor.shape[1:])
    return sliced(node, tensor, [number, *[0] * len(rest)], [1, *rest], [1] * tensor.rank)


def _rows(node: Node, tensor: Tensor, begin: int, count: int) -> Tensor:
    """Consecutive rows of a cache."""
    if count == tensor.shape[2]:
        return tensor
    batch, heads, _, size = tensor.shape
    return sliced(node, tensor, [0, 0, begin, 0], [batch, heads, count, size], [1] * 4)


def _bias(node: Node, bias: Tensor, number: int, begin: int, count: int) -> Tensor:
    """What is added to the scores of the keys that are there; those of the whole sequence are numbered."""
    line = _line(node, bias, number)
    missing = max(0, begin + count - line.shape[3])
    columns = count - missing
    _, heads, queries, _ = line.shape
    chosen = sliced(node, line, [0, 0, 0, begin], [1, heads, queries, columns], [1] * 4)
    return padded(node, chosen, [0] * 4, [0, 0, 0, missing]) if missing else chosen


def _joined(node: Node, tensors: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Sequences together."""
    if len(tensors) == 1:
        return tensors[0]
    output = New(tensors[0].element, shape)
    return node.apply("JOIN", input_count=len(tensors), input_tensors=list(tensors), output_tensor=output, axis=0)


__all__ = ["attend_in_window"]
