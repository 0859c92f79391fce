"""Results that are views, of one another or of arguments: they share memory, as those of eager PyTorch do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta
from torch.fx import GraphModule, Node

from dmlvk.torch.host_nodes import put_on_host


def views_among(metadata: ViewAndMutationMeta) -> frozenset[int]:
    """Places of the results of which AOTAutograd makes views of another tensor's memory.

    Where sizes are open it takes shape, strides and offset from the result, so that this must lie as in eager PyTorch.
    """
    no_views = (OutputType.non_alias, OutputType.unsafe_view_alias)
    first = metadata.num_mutated_inp_runtime_indices
    return frozenset(
        first + number for number, info in enumerate(metadata.output_info) if info.output_type not in no_views
    )


def share_memory_of_results(module: GraphModule, views: Collection[int], *, all_results: bool) -> None:
    """Has results that are views made of the tensor whose memory they have, on the host, where a view costs nothing.

    The device gives each of its results memory of its own. So it gives only the tensor that the others are views of,
    and the nodes that make these of it are repeated for the host; what the device itself reads stays as it is.

    Args:
        module: a graph of ATen's operators, which is changed.
        views: places of results that are views, be it of one another, of arguments, or of neither.
        all_results: whether any others that are views of one another are made so, too.
    """
    output = next(iter(reversed(module.graph.nodes)))
    results = list(output.args[0])
    made: dict[Node, Node] = {}
    with module.graph.inserting_before(output):
        for number in views:
            for storage in _storages(results[number]) if isinstance(results[number], Node) else ():
                _repeat(results[number], storage, made)
        for storage, sharing in _related(module, results).items() if all_results else ():
            for result in sharing:
                _repeat(result, storage, made)
    if not made:
        return
    output.args = ([made.get(each, each) for each in results],)
    for node in reversed(made):
        if not node.users:
            module.graph.erase_node(node)
    module.recompile()


def _related(module: GraphModule, results: list[Any]) -> dict[int, list[Node]]:
    """Results by the memory that they share; what shares an argument's memory is AOTAutograd's."""
    places: dict[int, list[Node]] = {}
    for result in results:
        for storage in _storages(result) if isinstance(result, Node) else ():
            places.setdefault(storage, []).append(result)
    of_arguments = {storage for node in module.graph.nodes if node.op == "placeholder" for storage in _storages(node)}
    return {
        storage: sharing for storage, sharing in places.items() if len(set(sharing)) > 1 and storage not in of_arguments
    }


def _storages(node: Node) -> list[int]:
    value = node.meta.get("val")
    listed = value if isinstance(value, (tuple, list)) else [value]
    strided = [item for item in listed if isinstance(item, torch.Tensor) and item.layout is torch.strided]
    return [item.untyped_storage()._cdata for item in strided]


def _repeat(node: Node, storage: int, made: dict[Node, Node]) -> Node:
    """A node once more, with what it is a view of likewise; the one whose memory it is stays itself."""
    source = next((each for each in node.all_input_nodes if storage in _storages(each)), None)
    if source is None:
        return node
    if node not in made:
        sources = {source: _repeat(source, storage, made)}
        made[node] = node.graph.node_copy(node, lambda each: sources.get(each, each))
        put_on_host(made[node])
    return made[node]
