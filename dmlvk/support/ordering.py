"""Nodes in an order in which they can be computed."""

from __future__ import annotations

import graphlib
import heapq
from collections.abc import Iterable, Mapping


def in_order(reads: Mapping[int, Iterable[int]]) -> list[int]:
    """The numbers of nodes, smaller ones first, but each behind those that it reads from.

    Raises:
        graphlib.CycleError: some wait for each other; its second argument has them as a chain that ends where it began.
    """
    sorter = graphlib.TopologicalSorter(reads)
    sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return order
