"""Types that PyTorch refuses when it computes, and not when it tells shapes: its CPU is asked with single elements."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dmlvk.torch.host_nodes import put_on_host

_CHECKED = frozenset(("argmax", "argmin", "isin", "rsub"))
"""Operators that are asked for, beside those that compute each element alone."""

_MOST_ANSWERS = 4096  # Those not used for longest go first


@functools.cache
def is_checked(operator: Any) -> bool:
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace != "aten" or operator._schema.is_mutable:
        return False
    is_alone = torch.Tag.pointwise in operator.tags or operator._schema.name.removeprefix("aten::") in _CHECKED
    return is_alone and torch.Tag.nondeterministic_seeded not in operator.tags


def is_refused(operator: Any, args: Any, kwargs: Any) -> bool:
    """Whether PyTorch computes nothing of such types, on any device.

    Args:
        args: positional ones, with tensors or nodes of them.
        kwargs: named ones.
    """
    if not is_checked(operator):
        return False
    leaves, places = tree_flatten((args, kwargs))
    kinds = tuple(map(_kind, leaves))
    types = {kind for kind, _ in kinds if isinstance(kind, torch.dtype)}
    if len(types) == 1 and next(iter(types)).is_floating_point and all(kind is not bool for kind, _ in kinds):
        return False  # as most are
    return _refuses(operator, kinds, places)


def _kind(item: Any) -> tuple[Any, Any]:
    """What matters of an argument: of a tensor its type and how many axes it has."""
    value = item.meta.get("val") if isinstance(item, Node) else item
    if isinstance(value, torch.Tensor):
        return value.dtype, value.dim()
    if isinstance(value, (float, torch.SymFloat)):
        return float, 1.0
    return (int, 1) if isinstance(value, torch.SymInt) else (type(value), value)


@functools.lru_cache(_MOST_ANSWERS)
def _refuses(operator: Any, kinds: tuple[Any, ...], places: TreeSpec) -> bool:
    with _disable_current_modes(), torch._C._DisableAutocast(), torch.no_grad():
        single = [
            torch.ones((1,) * value, dtype=kind, device="cpu") if isinstance(kind, torch.dtype) else value
            for kind, value in kinds
        ]
        args, kwargs = tree_unflatten(single, places)
        try:
            operator(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            return "not implemented for" not in str(error)  # else what the CPU lacks
    return False


def leave_refusals(module: GraphModule) -> None:
    """Leaves nodes of types that PyTorch refuses to it: it says so when they are computed.

    Args:
        module: a graph of ATen's operators, which is changed.
    """
    for node in module.graph.nodes:
        if node.op == "call_function" and is_refused(node.target, node.args, node.kwargs):
            put_on_host(node)
