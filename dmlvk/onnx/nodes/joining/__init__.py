"""Recognizes operators that exporters write out as several nodes, and joins these into the operator.

LayerNorm as ReduceMean, Sub, Pow, ReduceMean, Sqrt and Div overflows in FLOAT16 where the operator does not; attention
writes scores that nobody needs. ONNX Runtime's optimizer joins the same forms. A joined node keeps the nodes that it
stands for: where the device cannot compute it, they are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.joining.activation import gelu, swish
from dmlvk.onnx.nodes.joining.attention import attention
from dmlvk.onnx.nodes.joining.groups import instance_normalization
from dmlvk.onnx.nodes.joining.normalization import normalization
from dmlvk.onnx.nodes.joining.pattern import Joined, Nodes
from dmlvk.onnx.nodes.joining.quantized import quantized

_Pattern = Callable[[Nodes, Step], Joined | None]

_PATTERNS: tuple[_Pattern, ...] = (normalization, instance_normalization, attention, gelu, swish)
"""Each looks whether a node ends, or is the middle of, such a form."""


def joined(steps: Sequence[Step], constants: Mapping[str, Any], shown: Collection[str]) -> tuple[Step, ...]:
    """The nodes with joined ones in the place of those that they stand for.

    Args:
        steps: the nodes, each behind those that it reads from.
        shown: the names of values that must be there: the model's outputs.
    """
    return _joined(steps, constants, shown, _PATTERNS)


def joined_integers(steps: Sequence[Step], constants: Mapping[str, Any], shown: Collection[str]) -> tuple[Step, ...]:
    """As :func:`joined`, of nodes between DequantizeLinear and QuantizeLinear.

    For nodes whose constants are not folded yet: integers that stand for a weight are known there as integers.
    """
    return _joined(steps, constants, shown, (quantized,))


def _joined(
    steps: Sequence[Step], constants: Mapping[str, Any], shown: Collection[str], patterns: Sequence[_Pattern]
) -> tuple[Step, ...]:
    nodes = Nodes(steps, constants, shown)
    found: dict[int, Joined] = {}
    taken: set[int] = set()
    for step in steps:
        if step.index in taken or step.domain:
            continue
        for pattern in patterns:
            made = pattern(nodes, step)
            if made is not None and not any(member.index in taken for member in made.body):
                taken.update(member.index for member in made.body)
                found[made.index] = made
                break
    return tuple(found.get(step.index, step) for step in steps if step.index in found or step.index not in taken)


__all__ = ["Joined", "joined", "joined_integers"]
