"""Nodes that the host computes between parts on the device, since it costs nothing: views, and numbers in FLOAT64."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from dmlvk.torch.lowering import LOWERINGS, name_of
from dmlvk.torch.sizes import is_computed, terms_of
from dmlvk.torch.types import NAME

_MARK = "dmlvk_is_on_host"

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def put_on_host(node: Node) -> None:
    node.meta[_MARK] = True
    if node.target is torch.ops.prims.convert_element_type.default:  # which PyTorch computes in Python
        operand, dtype = node.args
        node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (operand,), {"dtype": dtype}


def is_on_host(node: Node) -> bool:
    return _MARK in node.meta


def put_numbers_on_host(module: GraphModule) -> None:
    """Puts zero-dimensional values that follow from sizes and numbers alone on the host, where FLOAT64 takes part.

    So are sizes that follow from others by what :class:`dmlvk.torch.sizes.Sizes` does not know, such as roundings.

    TorchDynamo makes such tensors of Python's floating-point numbers that follow from open sizes or from arguments.
    PyTorch computes them, so that they have the bits that they have without the device; parts take them as arguments.
    Beside tensors of another floating-point type PyTorch rounds zero-dimensional FLOAT64 to that, so that the device
    gets it as FLOAT32.

    Args:
        module: a graph of ATen's operators, which is changed.
    """
    _put_doubles_on_host(module)
    numbers: set[Node] = set()
    for node in module.graph.nodes:
        if _is_number(node, numbers):
            numbers.add(node)
    for node in reversed(module.graph.nodes):
        if node.op != "call_function" or node not in numbers or not numbers.issuperset(node.all_input_nodes):
            continue
        if _needs_host(node) or any(map(is_on_host, node.users)):
            put_on_host(node)
    _round_operands(module)


def _put_doubles_on_host(module: GraphModule) -> None:
    """Moves zero-dimensional FLOAT64 that PyTorch has on the device, which lacks it, to the CPU.

    TorchDynamo makes it of the items of tensors.
    """
    for node in list(module.graph.nodes):
        value = node.meta.get("val")
        plain = node.op == "call_function" and isinstance(value, torch.Tensor) and not value.dim()
        if not plain or value.device.type != NAME or not any(map(_is_double, [node, *node.all_input_nodes])):
            continue
        with module.graph.inserting_before(node):
            for operand in node.all_input_nodes:
                if _is_on(operand, NAME):
                    node.replace_input_with(operand, _moved(operand, torch.device("cpu")))
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cpu")}
        node.meta["val"] = value.to("cpu")
        put_on_host(node)
        if value.dtype is not torch.float64:
            users = list(node.users)
            with module.graph.inserting_after(node):
                back = _moved(node, value.device)
            for user in users:
                user.replace_input_with(node, back)


def _is_on(node: Node, device: str) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == device


def _moved(node: Node, device: torch.device) -> Node:
    """A tensor on another device, which the host copies."""
    copy: Any = torch.ops.aten._to_copy.default
    made = node.graph.call_function(copy, (node,), {"device": device})
    made.meta["val"] = node.meta["val"].to(device)
    put_on_host(made)
    return made


def _is_number(node: Node, numbers: set[Node]) -> bool:
    """Whether a node is a size, a number, or a tensor of one that follows from such ones."""
    value = node.meta.get("val")
    if node.op == "get_attr" or isinstance(value, _SYMBOLIC):
        return True
    if not isinstance(value, torch.Tensor) or value.dim() or value.device.type != "cpu":
        return False
    if node.op == "placeholder":
        return value.dtype is torch.float64
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    return torch.Tag.nondeterministic_seeded not in node.target.tags and numbers.issuperset(node.all_input_nodes)


def _needs_host(node: Node) -> bool:
    """Whether FLOAT64 takes part in a number, or it is a size that follows from others by no function of sizes."""
    value = node.meta["val"]
    if isinstance(value, torch.SymInt):
        return not is_computed(terms_of(value))
    return isinstance(value, torch.Tensor) and any(map(_is_double, [node, *node.all_input_nodes]))


def _is_double(node: Node) -> bool:
    """Whether it is one zero-dimensional tensor of FLOAT64."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dim() and value.dtype is torch.float64


def _round_operands(module: GraphModule) -> None:
    """Has the host round zero-dimensional FLOAT64 to FLOAT32 where the device computes with it."""
    rounded: dict[Node, Node] = {}
    for node in list(module.graph.nodes):
        if is_on_host(node) or not _rounds(node):
            continue
        for operand in filter(_is_double, node.all_input_nodes):
            if operand not in rounded:
                with module.graph.inserting_after(operand):
                    convert: Any = torch.ops.aten._to_copy.default
                    made = module.graph.call_function(convert, (operand,), {"dtype": torch.float32})
                rounded[operand] = made
                made.meta["val"] = operand.meta["val"].to(torch.float32)
                put_on_host(made)
            node.replace_input_with(operand, rounded[operand])
    module.recompile()


def _rounds(node: Node) -> bool:
    """Whether the device may compute a node, which rounds zero-dimensional FLOAT64 to the type of its tensors."""
    result = node.meta.get("val")
    if name_of(node) not in LOWERINGS or not isinstance(result, torch.Tensor) or result.dtype is torch.float64:
        return False
    operands = [operand.meta.get("val") for operand in node.all_input_nodes]
    return any(isinstance(item, torch.Tensor) and item.dim() and item.dtype in _FLOATS for item in operands)
