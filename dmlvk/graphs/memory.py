"""The memory plan: where intermediate tensors lie in the temporary resource, by when each of them is needed.

An *item* is a range of bytes with a lifetime in steps. Items whose lifetimes overlap must not share bytes. Finding the
smallest arrangement is the NP-hard problem «dynamic storage allocation»; placing the items one after another at the
lowest place that is free during their lifetime comes close to the lower bound when the large ones go first
(Y. Pisarchyk and J. Lee, «Efficient Memory Management for Deep Neural Net Inference», 2020). A few orders are tried
and, where none comes close, improved: the item that ended highest is placed earlier in the next attempt.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import heapq
from collections.abc import Sequence
from random import Random
from typing import TypeVar

import numpy as np
import numpy.typing as npt

SMALL_ALIGNMENT = 16  # Alignment of every item, in bytes: what kernels need

LARGE_ALIGNMENT = 256  # Alignment of large items: whole cache lines of every device

_LARGE = 16 * 1024
_GOOD_ENOUGH = 1.01
_ATTEMPTS = 200
_MOST_PLACEMENTS = 2**15
"""Items that all attempts together place: of a thousand items most plans are as good as they get after 30 attempts."""

_WORSE = 1.02
_MOST_ITEMS_TO_IMPROVE = 1000
_MOST_ITEMS_TO_COMPARE = 4096  # Beyond it each item is no longer compared with all others

_NO_END = 2**62
_FEW = 100  # above it arrays are faster than a loop


@dataclasses.dataclass(frozen=True)
class Item:
    """Bytes that are needed for a while."""

    size: int  # how many
    first: int  # the step that writes them
    last: int  # the last step that reads them

    @functools.cached_property
    def alignment(self) -> int:
        """What its offset must be a multiple of."""
        return LARGE_ALIGNMENT if self.size >= _LARGE else SMALL_ALIGNMENT

    @functools.cached_property
    def padded_size(self) -> int:
        """Its size, rounded up so that items lie side by side without waste between them."""
        return -(-self.size // self.alignment) * self.alignment

    def overlaps(self, other: Item) -> bool:
        """Whether both are needed at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    offsets: tuple[int, ...]  # of each item, in bytes
    planned_bytes: int  # what the plan needs in all
    naive_bytes: int  # what the items would need side by side
    lower_bound_bytes: int  # the largest sum of sizes that are needed at one step; no plan can need less


def plan_memory(items: Sequence[Item]) -> MemoryPlan:
    bound = lower_bound(items)
    numbers = range(len(items))
    if len(items) > _MOST_ITEMS_TO_COMPARE:
        offsets, end = _placed_as_they_come(items)
        return MemoryPlan(tuple(offsets), end, sum(item.size for item in items), bound)
    orders = [
        sorted(numbers, key=lambda i: (-items[i].padded_size, items[i].first)),
        sorted(numbers, key=lambda i: (-items[i].padded_size * (items[i].last - items[i].first + 1), items[i].first)),
        sorted(numbers, key=lambda i: (items[i].first, -items[i].padded_size)),
    ]
    best = min((_placed(items, order) for order in orders), key=_end)
    if len(items) <= _MOST_ITEMS_TO_IMPROVE:
        best = _improved(items, orders[0], best)
    return MemoryPlan(tuple(best[0]), best[1], sum(item.size for item in items), bound)


@dataclasses.dataclass(frozen=True)
class PagedPlan:
    """Where every item lies, in several buffers."""

    pages: tuple[int, ...]  # in which buffer each item is
    offsets: tuple[int, ...]  # of each item there, in bytes
    page_bytes: tuple[int, ...]  # the size of each buffer


def plan_pages(items: Sequence[Item], most_bytes: int) -> PagedPlan:
    """Finds a place for every item in buffers of at most so many bytes, the large ones first.

    An item goes to the first buffer with a place that is free during its lifetime; one that is larger than a buffer may
    be has one of its own, which the device refuses.
    """
    pages, offsets = [0] * len(items), [0] * len(items)
    placed: list[list[tuple[int, int, Item]]] = []  # of each buffer begin, end and item, by their begin
    for number in sorted(range(len(items)), key=lambda i: (-items[i].padded_size, items[i].first)):
        item = items[number]
        found = [_lowest(item, there) for there in placed]
        fitting = [page for page, offset in enumerate(found) if offset + item.padded_size <= most_bytes]
        if not fitting:
            placed.append([])
        page, offset = (fitting[0], found[fitting[0]]) if fitting else (len(placed) - 1, 0)
        bisect.insort(placed[page], (offset, offset + item.padded_size, item), key=lambda entry: entry[0])
        pages[number], offsets[number] = page, offset
    sizes = tuple(max(end for _, end, _ in there) for there in placed)
    return PagedPlan(tuple(pages), tuple(offsets), sizes)


def lower_bound(items: Sequence[Item]) -> int:
    """The largest sum of sizes that are needed at one step."""
    return _most_at_once(items, [item.size for item in items])


def _most_at_once(items: Sequence[Item], sizes: Sequence[int]) -> int:
    changes: dict[int, int] = {}
    for item, size in zip(items, sizes, strict=True):
        changes[item.first] = changes.get(item.first, 0) + size
        changes[item.last + 1] = changes.get(item.last + 1, 0) - size
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return most


_Placement = tuple[list[int], int]  # Offsets, and the end of the highest item


def _end(placement: _Placement) -> int:
    return placement[1]


def _placed(items: Sequence[Item], order: Sequence[int]) -> _Placement:
    """Each item of the order at the lowest place that is free during its whole lifetime."""
    return _placed_one_by_one(items, order) if len(items) <= _FEW else _placed_by_arrays(items, order)


def _placed_one_by_one(items: Sequence[Item], order: Sequence[int]) -> _Placement:
    offsets = [0] * len(items)
    placed: list[tuple[int, int, Item]] = []  # begin, end and item, by their begin
    for number in order:
        item = items[number]
        offsets[number] = offset = _lowest(item, placed)
        bisect.insort(placed, (offset, offset + item.padded_size, item), key=lambda there: there[0])
    return offsets, max((end for _, end, _ in placed), default=0)


def _lowest(item: Item, placed: Sequence[tuple[int, int, Item]]) -> int:
    """The lowest place that is free during an item's whole lifetime."""
    offset = 0
    for begin, end, other in placed:
        if not other.overlaps(item):
            continue
        if offset + item.padded_size <= begin:
            break
        offset = max(offset, _aligned(end, item.alignment))
    return offset


def _placed_by_arrays(items: Sequence[Item], order: Sequence[int]) -> _Placement:
    """The same for many items, each of which is compared with all before it."""
    offsets = [0] * len(items)
    placed = np.empty((4, len(items) + 1), np.int64)  # columns of begin, end, first and last step, by their begin
    for count, number in enumerate(order):
        item = items[number]
        begins, ends, firsts, lasts = placed[:, :count]
        meeting = np.flatnonzero((firsts <= item.last) & (lasts >= item.first))
        free_from = np.zeros(meeting.size + 1, np.int64)  # behind all that begin before each of them
        np.maximum.accumulate(_aligned(ends[meeting], item.alignment), out=free_from[1:])
        fitting = free_from[:-1] + item.padded_size <= begins[meeting]
        offset = int(free_from[np.argmax(fitting) if fitting.any() else -1])
        offsets[number] = offset
        index = int(np.searchsorted(begins, offset, side="right"))
        placed[:, index + 1 : count + 1] = placed[:, index:count].copy()
        placed[:, index] = offset, offset + item.padded_size, item.first, item.last
    return offsets, int(placed[1, : len(order)].max(initial=0))


def _placed_as_they_come(items: Sequence[Item]) -> _Placement:
    """Each item, by its first step, at the lowest place that is free then; time grows with the number of items alone.

    What is free is kept as gaps between the items that live, as an allocator does it (Knuth, The Art of Computer
    Programming 1, 2.5, first fit).
    """
    offsets = [0] * len(items)
    ending: list[tuple[int, int, int]] = []  # a heap of last step, begin and end
    begins: list[int] = [0]  # of the gaps, rising; the last one has no end
    ends: list[int] = [_NO_END]
    highest = 0
    for number in sorted(range(len(items)), key=lambda i: (items[i].first, -items[i].padded_size)):
        item = items[number]
        while ending and ending[0][0] < item.first:
            _, begin, end = heapq.heappop(ending)
            index = bisect.bisect_left(begins, begin)
            begins.insert(index, begin)
            ends.insert(index, end)
            if index + 1 < len(begins) and ends[index] == begins[index + 1]:
                del begins[index + 1], ends[index]
            if index and ends[index - 1] == begins[index]:
                del begins[index], ends[index - 1]
        index = next(
            number
            for number, (gap, gap_end) in enumerate(zip(begins, ends, strict=True))
            if _aligned(gap, item.alignment) + item.padded_size <= gap_end
        )
        gap, gap_end = begins[index], ends[index]
        begin = _aligned(gap, item.alignment)
        end = begin + item.padded_size
        begins[index : index + 1] = [edge for edge, other in ((gap, begin), (end, gap_end)) if edge < other]
        ends[index : index + 1] = [other for edge, other in ((gap, begin), (end, gap_end)) if edge < other]
        heapq.heappush(ending, (item.last, begin, end))
        offsets[number], highest = begin, max(highest, end)
    return offsets, highest


_Offsets = TypeVar("_Offsets", int, npt.NDArray[np.int64])


def _aligned(offset: _Offsets, alignment: int) -> _Offsets:
    return -(-offset // alignment) * alignment


def _improved(items: Sequence[Item], first_order: Sequence[int], best: _Placement) -> _Placement:
    """Repeats the placement in other orders: what stuck out goes to the front, or to a random place nearer to it.

    The random numbers are the same in every process, so that a graph always gets the same plan.
    """
    good_enough = _GOOD_ENOUGH * _most_at_once(items, [item.padded_size for item in items])
    if best[1] <= good_enough:
        return best
    order, end_of_order = list(first_order), _placed(items, first_order)
    random = Random(len(items))
    for attempt in range(min(_ATTEMPTS, _MOST_PLACEMENTS // len(items))):
        if best[1] <= good_enough:
            break
        offsets, end = end_of_order
        above = [i for i in order if offsets[i] + items[i].padded_size == end]
        candidate = [i for i in order if i not in above]
        index = 0 if attempt % 4 == 0 else random.randrange(max(1, order.index(above[0])))
        candidate[index:index] = above
        placement = _placed(items, candidate)
        best = min(best, placement, key=_end)
        if placement[1] <= end * _WORSE or attempt % 4 == 0:  # a little worse may be the way to better ones
            order, end_of_order = candidate, placement
    return best
