"""A model's own functions: how many nodes it has once their bodies are in place, and what calls leave to defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from dmlvk.onnx.model.node_attributes import subgraphs

Key = tuple[str, str, str]  # What a function is called: domain, name, and which of those there are


def count_nodes(graph: onnx.GraphProto, functions: Mapping[Key, onnx.FunctionProto]) -> int:
    """Nodes of a graph and of the graphs inside it once its functions' bodies are in place; levels may double them.

    Raises:
        ValueError: when a function calls itself.
    """
    counted: dict[Key, int] = {}
    for key in _callees_first(functions):
        counted[key] = _count(functions[key].node, counted)
    return _count(graph.node, counted)


def state_defaults(model: onnx.ModelProto) -> None:
    """Adds to calls the attributes that they leave to defaults, of which the onnx package's inliner knows nothing."""
    defaults = {key_of(function): function.attribute_proto for function in model.functions if function.attribute_proto}
    pending: list[Any] = [model.graph.node, *(function.node for function in model.functions)] if defaults else []
    while pending:
        for node in pending.pop():
            given = {attribute.name for attribute in node.attribute}
            node.attribute.extend(each for each in defaults.get(key_of(node), ()) if each.name not in given)
            pending += [graph.node for graph in subgraphs(node)]


def _count(nodes: Any, counted: Mapping[Key, int]) -> int:
    total = 0
    pending = [nodes]
    while pending:
        for node in pending.pop():
            total += counted.get(key_of(node), 1)
            pending += [graph.node for graph in subgraphs(node)]
    return total


def key_of(proto: Any) -> Key:
    """What a node calls a function by, and what a function is called: domain, name, and which of those there are."""
    name = proto.op_type if isinstance(proto, onnx.NodeProto) else proto.name
    return ("" if proto.domain == "ai.onnx" else proto.domain, name, getattr(proto, "overload", ""))


def _callees_first(functions: Mapping[Key, onnx.FunctionProto]) -> list[Key]:
    calls: dict[Key, set[Key]] = {}
    for key, function in functions.items():
        pending, found = [function.node], set()
        while pending:
            for node in pending.pop():
                if key_of(node) in functions:
                    found.add(key_of(node))
                pending += [graph.node for graph in subgraphs(node)]
        calls[key] = found
    order: list[Key] = []
    state: dict[Key, bool] = {}
    for first in functions:
        stack = [(first, iter(sorted(calls[first])))] if first not in state else []
        state.setdefault(first, False)
        while stack:
            key, rest = stack[-1]
            callee = next(rest, None)
            if callee is None:
                stack.pop()
                state[key] = True
                order.append(key)
            elif callee not in state:
                state[callee] = False
                stack.append((callee, iter(sorted(calls[callee]))))
            elif not state[callee]:
                raise ValueError(f"the function {callee[1]!r} calls itself")
    return order
