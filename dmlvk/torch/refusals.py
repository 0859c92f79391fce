"""Types that PyTorch refuses when it computes, and not when it tells shapes: its CPU is asked with single elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node, traceback
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dmlvk.torch.modes import without_gradients

_CHECKED = {
    "argmax", "argmin", "isin", "rsub", "index_add", "index_copy", "index_put", "put", "masked_scatter", "huber_loss",
    "dist", "mm", "mv", "bmm", "dot", "vdot", "addmm", "addmv", "addbmm", "baddbmm", "linear", "matmul", "einsum",
    "convolution", "layer_norm", "group_norm", "native_layer_norm", "native_group_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "linalg_cross", "cross",
    "binary_cross_entropy", "grid_sampler_2d", "_cdist_forward", "_euclidean_dist",
}  # fmt: skip
"""Operators that are asked for, beside those that compute each element alone."""

_SIZED = {"layer_norm", "group_norm", "native_layer_norm", "native_group_norm", "convolution"}
"""Operators with integers that are sizes or numbers of parts, which single elements have not."""

_MOST_ANSWERS = 4096  # Those not used for longest go first


@functools.cache
def _is_checked(operator: Any) -> bool:
    """Whether single elements tell of what types an operator computes nothing."""
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
    if not _is_checked(operator):
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


def _single(kind: Any, value: Any, fill: int, *, is_sized: bool) -> Any:
    if isinstance(kind, torch.dtype):
        return torch.full((1,) * value, fill, dtype=kind, device="cpu")
    return min(value, 1) if is_sized and kind is int else value


@functools.lru_cache(_MOST_ANSWERS)
def _refuses(operator: Any, kinds: tuple[Any, ...], places: TreeSpec) -> bool:
    fill = 1 if torch.Tag.pointwise in operator.tags else 0  # a divisor, or a place
    with _disable_current_modes(), torch._C._DisableAutocast(), without_gradients():
        is_sized = operator._schema.name.removeprefix("aten::") in _SIZED
        single = [_single(kind, value, fill, is_sized=is_sized) for kind, value in kinds]
        args, kwargs = tree_unflatten(single, places)
        try:
            operator(*args, **kwargs)
        except (RuntimeError, IndexError, TypeError) as error:
            return "not implemented for" not in str(error)  # else what the CPU lacks
    return False


def refused_node(module: GraphModule) -> Node | None:
    """The first node whose types PyTorch refuses, so that the graph ends in an error of its; ``None``: there is none.

    What a decomposition computes of other types is its own matter.
    """
    calls = (node for node in module.graph.nodes if node.op == "call_function" and _is_of(node.meta, node.target))
    return next((node for node in calls if is_refused(node.target, node.args, node.kwargs)), None)


def _is_of(meta: Mapping[str, Any], operator: Any) -> bool:
    """Whether a program called an operator itself; a copied graph has copies of operators."""
    return str(meta.get("original_aten") or operator) == str(operator)


def unless_refused(decompositions: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Has operators that a program calls left as they are where PyTorch refuses the types."""

    def kept(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def decomposed(*args: Any, **kwargs: Any) -> Any:
            is_own = _is_of(traceback.get_current_meta(), operator)
            return NotImplemented if is_own and is_refused(operator, args, kwargs) else function(*args, **kwargs)

        return decomposed

    return {
        operator: kept(operator, function) if _is_checked(operator) else function
        for operator, function in decompositions.items()
    }
