"""The memory plan: nothing overlaps that is needed at one time, and little is wasted."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlvk.graphs import memory
from dmlvk.graphs.memory import Item, MemoryPlan, PagedPlan, lower_bound, plan_memory, plan_pages

items = st.lists(
    st.builds(
        lambda size, first, length: Item(size, first, first + length),
        st.one_of(st.integers(1, 64), st.integers(1, 2**31)),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=40,
)


def check(plan: MemoryPlan, needed: list[Item]) -> None:
    for number, item in enumerate(needed):
        assert plan.offsets[number] % 16 == 0
        assert plan.offsets[number] + item.size <= plan.planned_bytes
        for other in range(number):
            if item.first <= needed[other].last and needed[other].first <= item.last:
                below = plan.offsets[number] + item.size <= plan.offsets[other]
                assert below or plan.offsets[other] + needed[other].size <= plan.offsets[number]


@given(items)
@settings(max_examples=300, deadline=None)
def test_items_never_overlap_while_they_are_needed(needed: list[Item]) -> None:
    plan = plan_memory(needed)
    check(plan, needed)
    assert plan.naive_bytes == sum(item.size for item in needed)
    assert plan.lower_bound_bytes <= plan.planned_bytes
    assert plan.lower_bound_bytes == max(
        (sum(i.size for i in needed if i.first <= step <= i.last) for step in range(50)), default=0
    )


@given(items, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_many_items_are_placed_as_few_are(needed: list[Item], random: Random) -> None:
    order = list(range(len(needed)))
    random.shuffle(order)
    assert memory._placed_by_arrays(needed, order) == memory._placed_one_by_one(needed, order)


@given(items)
@settings(max_examples=200, deadline=None)
def test_very_many_items_are_placed_in_the_order_in_which_they_come_as_few_are(needed: list[Item]) -> None:
    in_order = sorted(range(len(needed)), key=lambda i: (needed[i].first, -needed[i].padded_size))
    assert memory._placed_as_they_come(needed) == memory._placed_one_by_one(needed, in_order)


@given(items, st.integers(64, 2**31))
@settings(max_examples=200, deadline=None)
def test_items_in_several_buffers_never_overlap_and_no_buffer_is_too_large(needed: list[Item], most: int) -> None:
    plan = plan_pages(needed, most)
    for page, size in enumerate(plan.page_bytes):
        there = [number for number, own in enumerate(plan.pages) if own == page]
        assert there
        chosen = [needed[number] for number in there]
        check(MemoryPlan(tuple(plan.offsets[number] for number in there), size, 0, 0), chosen)
        assert size <= most or len({item.padded_size for item in chosen if item.padded_size > most}) >= 1


def test_nothing_needs_nothing() -> None:
    assert plan_pages([], 1000) == PagedPlan((), (), ())
    assert plan_memory([]) == MemoryPlan((), 0, 0, 0)


@pytest.mark.parametrize("size", [24, 40_000])
def test_a_thousand_small_tensors_are_placed_in_a_few_attempts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain of them no plan can be better than the first, which is larger than the sizes before alignment."""
    placed, attempts = memory._placed, 0

    def counted(needed: list[Item], order: list[int]) -> memory._Placement:
        nonlocal attempts
        attempts += 1
        return placed(needed, order)

    monkeypatch.setattr(memory, "_placed", counted)
    plan = plan_memory([Item(size, n, n + 2) for n in range(1000)])
    assert plan.planned_bytes < 1.4 * plan.lower_bound_bytes
    assert attempts <= 3


def test_plan_is_the_same_every_time() -> None:
    random = Random(3)
    needed = [Item(random.randrange(1, 2**20), n, n + random.randrange(9)) for n in range(60)]
    assert plan_memory(needed) == plan_memory(needed)


def random_network(random: Random, nodes: int) -> list[Item]:
    """Lifetimes as in a graph: every value is read by one to three of the nodes that follow, mostly soon."""
    sizes = [4 * random.choice((1, 16, 256, 1024, 4096)) * random.randrange(1, 200) for _ in range(8)]
    return [
        Item(random.choice(sizes), n, min(nodes, n + max(1, int(random.expovariate(1 / 4))) + random.randrange(3)))
        for n in range(nodes)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_plans_of_100_nodes_are_within_a_tenth_of_the_lower_bound(seed: int) -> None:
    needed = random_network(Random(seed), 100)
    plan = plan_memory(needed)
    check(plan, needed)
    assert plan.planned_bytes <= 1.1 * lower_bound(needed)
    assert plan.planned_bytes <= plan.naive_bytes
