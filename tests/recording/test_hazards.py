"""Which dispatches wait for those before them (rule 76): for bytes that one of two writes, and for nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.objects.recording import Access, HazardTracker
from tests.binding.support import Binding, compiled, floats, greater_than, sign, table_for

BUFFERS: Any = {name: object() for name in "ABCDE"}


class Dispatch(NamedTuple):
    """What a dispatch reads and writes, as ``"A"`` (all of it) or ``"A0:64"``."""

    reads: str
    writes: str


def accesses(text: str) -> list[Access]:
    """``"A B16:32"`` as ranges."""
    found = []
    for word in text.split():
        start, _, end = word[1:].partition(":")
        found.append(Access(BUFFERS[word[0]], int(start or 0), int(end or 256)))
    return found


def depends(dispatches: Sequence[Dispatch]) -> list[bool]:
    tracker = HazardTracker()
    return [tracker.depends(accesses(dispatch.reads), accesses(dispatch.writes)) for dispatch in dispatches]


# Each chain: dispatches as "what they read > what they write", with a star before those that must wait.
CHAINS = {
    "a single dispatch": "A > B",
    "read after write": "A > B, *B > C",
    "write after read": "A > B, *C > A",
    "write after write": "A > B, *C > B",
    "in place, then read": "A > A, *A > B",
    "in place twice": "A > A, *A > A, *A > A",
    "read, then in place": "A > B, *A > A",
    "independent": "A > B, C > D",
    "shared inputs only": "A > B, A > C, A > D, A > E",
    "many inputs, one of them written before": "A > B, *A C B > D",
    "halves of a buffer, read and written": "A0:128 > A128:256, A0:128 > B",
    "disjoint outputs of one buffer": "A > C0:128, B > C128:256",
    "neighbours touch but share no byte": "A > B0:64, B64:128 > C, D > B128:192",
    "one byte is shared": "A > B0:65, *B64:128 > C",
    "a range inside another": "A > B, *B32:48 > C",
    "a range around another": "A > B32:48, *B > C",
    "the other half does not matter": "A > B0:128, B128:256 > C, *B0:128 > D",
    "a chain": "A > B, *B > C, *C > D, *D > E",
    "a dependency settles all that came before it": "A > B, C > D, *B > E, D > A0:16",
    "settled reads too": "A > B, C > D, *B > E, D > C",
    "but not what waits itself": "A > B, *B > C, *C > D",
    "two at once": "A > B, C > D, *B D > E, *E > A",
    "three ways": "A > B, *B > C, A > D, *C > A, D > B, *E > D",
    "ping-pong": "A > B, *B > A, *A > B, *B > A",
    "fan out, then in": "A > B, *B > C, B > D, *C D > E",
    "reads pile up until a write": "A > B, A > C, A > D, *E > A",
    "a settled reader does not hold up a writer": "A > B, *B > C, D > A",
    "a reader after the dependency does": "A > B, *B A > C, *D > A",
}


def parsed(text: str) -> tuple[list[Dispatch], list[bool]]:
    """A chain's dispatches and which of them wait."""
    steps = [step.strip() for step in text.split(",")]
    dispatches = [Dispatch(*(side.strip() for side in step.lstrip("*").split(">"))) for step in steps]
    return dispatches, [step.startswith("*") for step in steps]


@pytest.mark.parametrize("name", CHAINS)
def test_dispatches_wait_where_the_chain_says_so(name: str) -> None:
    """Rule 76; anchors' traps 1 and 2: write after read counts as much as read after write."""
    dispatches, expected = parsed(CHAINS[name])
    assert depends(dispatches) == expected


words = st.tuples(st.sampled_from("ABC"), st.integers(0, 7), st.integers(1, 8)).map(
    lambda word: f"{word[0]}{word[1]}:{word[1] + word[2]}"
)
dispatch_lists = st.lists(
    st.builds(Dispatch, st.lists(words, min_size=1, max_size=3).map(" ".join), words), min_size=1, max_size=12
)


def conflicting_pairs(dispatches: Sequence[Dispatch]) -> list[tuple[int, int]]:
    """The pairs of dispatches that share a byte which one of them writes, by the sets of their bytes."""

    def touched(text: str) -> set[tuple[int, int]]:
        return {(id(access.memory), byte) for access in accesses(text) for byte in range(access.start, access.end)}

    reads = [touched(dispatch.reads) for dispatch in dispatches]
    writes = [touched(dispatch.writes) for dispatch in dispatches]
    return [
        (i, j)
        for i, j in itertools.combinations(range(len(dispatches)), 2)
        if writes[i] & (reads[j] | writes[j]) or reads[i] & writes[j]
    ]


def orders_all(waits: Sequence[bool], pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether each pair has a dependency between its two: one that orders everything before it."""
    return all(any(waits[i + 1 : j + 1]) for i, j in pairs)


@given(dispatch_lists)
@settings(max_examples=300)
def test_dependencies_order_every_conflicting_pair_and_none_is_idle(dispatches: list[Dispatch]) -> None:
    """Checked against sets of bytes: every pair is ordered, and without any one dependency some pair is not."""
    waits = depends(dispatches)
    pairs = conflicting_pairs(dispatches)
    assert orders_all(waits, pairs)
    for index in (index for index, waiting in enumerate(waits) if waiting):
        assert not orders_all([*waits[:index], False, *waits[index + 1 :]], pairs)


@given(dispatch_lists.map(lambda dispatches: dispatches[:8]))
@settings(max_examples=150)
def test_there_are_as_few_dependencies_as_there_can_be(dispatches: list[Dispatch]) -> None:
    """Checked against all possible choices."""
    pairs = conflicting_pairs(dispatches)
    choices = itertools.product((False, True), repeat=len(dispatches))
    fewest = min(sum(choice) for choice in choices if orders_all(choice, pairs))
    assert sum(depends(dispatches)) == fewest


def recorded(device: dml.Device, *steps: tuple[dml.CompiledOperator, list[Binding], Binding]) -> list[bool]:
    recorder = device.create_command_recorder()
    for operator, inputs, output in steps:
        recorder.record_dispatch(operator, table_for(operator, inputs, [output]))
    return [dispatch.depends for dispatch in recorder.dispatches]


def test_recorder_takes_ranges_from_the_bindings(any_device: dml.Device) -> None:
    """The recorder and the tracker agree on what a dispatch reads and writes."""
    operator, comparison = compiled(any_device, sign(floats(16))), compiled(any_device, greater_than(16))
    with any_device.create_buffer(256) as first, any_device.create_buffer(256) as second:
        quarters = [Binding(first, 64 * i, 64) for i in range(4)]
        assert recorded(any_device, (operator, quarters[:1], quarters[1]), (operator, quarters[2:3], quarters[3])) == [
            False,
            False,
        ]
        assert recorded(any_device, (operator, quarters[:1], quarters[1]), (operator, quarters[1:2], quarters[3])) == [
            False,
            True,
        ]
        assert recorded(
            any_device,
            (comparison, [quarters[0], quarters[0]], Binding(second, 0, 64)),
            (comparison, [quarters[0], quarters[1]], Binding(second, 64, 64)),
            (comparison, [quarters[2], Binding(second, 64, 64)], quarters[0]),
        ) == [False, False, True]


def test_recorder_counts_the_declared_size_not_the_bound_one(any_device: dml.Device) -> None:
    """Rule 16: an output may be written anywhere inside TotalTensorSizeInBytes, and nowhere beyond."""
    short = compiled(any_device, sign(floats(16)))
    long = compiled(any_device, sign(floats(16), floats(16, total_tensor_size_in_bytes=80)))
    with any_device.create_buffer(256) as first, any_device.create_buffer(256) as second:
        for operator, waits in ((short, False), (long, True)):
            write_all = (operator, [Binding(first)], Binding(second))  # bound to the end, written to 64 or 80
            read_behind = (short, [Binding(second, 64)], Binding(first, 128))
            assert recorded(any_device, write_all, read_behind) == [False, waits]


def test_a_wide_read_after_a_narrow_write_waits(any_device: dml.Device) -> None:
    """Strided inputs reach further than their element count."""
    spread = compiled(any_device, sign(floats(4, strides=(10,)), floats(4)))
    narrow = compiled(any_device, sign(floats(4)))
    with any_device.create_buffer(256) as first, any_device.create_buffer(256) as second:
        read_all = (spread, [Binding(first, 0, 128)], Binding(second, 0, 16))
        for offset, waits in ((112, True), (128, False)):
            write = (narrow, [Binding(second, 64)], Binding(first, offset, 16))
            assert recorded(any_device, write, read_all) == [False, waits]


@pytest.mark.parametrize(("call", "waits"), [("reset", [False]), ("execute", [False, True])])
def test_reset_forgets_hazards_and_executing_does_not(any_device: dml.Device, call: str, waits: list[bool]) -> None:
    """What was recorded runs again with what follows, so it still counts."""
    operator = compiled(any_device, sign(floats(16)))
    with any_device.create_buffer(64) as first, any_device.create_buffer(64) as second:
        recorder = any_device.create_command_recorder()
        recorder.record_dispatch(operator, table_for(operator, [Binding(first)], [Binding(second)]))
        getattr(recorder, call)()
        assert len(recorder.dispatches) == len(waits) - 1
        recorder.record_dispatch(operator, table_for(operator, [Binding(second)], [Binding(first)]))
        assert [dispatch.depends for dispatch in recorder.dispatches] == waits


def test_independent_steps_do_not_wait_for_their_siblings() -> None:
    """The parts of a JOIN write different words of one range; what comes before and behind them waits as ever."""
    tracker = HazardTracker()
    assert not tracker.depends(accesses("A"), accesses("C"))
    assert not tracker.depends(accesses("B"), accesses("C"), is_independent=True)
    assert not tracker.depends(accesses("D"), accesses("C"), is_independent=True)
    assert tracker.depends(accesses("C"), accesses("E"))
    assert tracker.depends(accesses("A"), accesses("C"), is_independent=True), "what it writes is being read"


def test_an_independent_step_waits_for_what_it_reads() -> None:
    tracker = HazardTracker()
    assert not tracker.depends(accesses("A"), accesses("C"))
    assert tracker.depends(accesses("C"), accesses("B"), is_independent=True)


def test_independence_reaches_back_to_its_own_group_only() -> None:
    tracker = HazardTracker()
    assert not tracker.depends(accesses("A"), accesses("C"))
    assert not tracker.depends(accesses("B"), accesses("D"))
    assert tracker.depends(accesses("E"), accesses("C"), is_independent=True), "D's step stands between the two"


def test_the_first_part_of_a_join_waits_for_who_wrote_its_output_before(any_device: dml.Device) -> None:
    """Parts are independent of one another, not of a dispatch that stands before all of them."""
    joined = dml.Join(input_count=2, input_tensors=[floats(16), floats(16)], output_tensor=floats(32), axis=0)
    before, join = compiled(any_device, sign(floats(32))), compiled(any_device, joined)
    with any_device.create_buffer(256) as inputs, any_device.create_buffer(128) as output:
        first = (before, [Binding(inputs, 0, 128)], Binding(output))
        second = (join, [Binding(inputs, 128, 64), Binding(inputs, 192, 64)], Binding(output))
        assert recorded(any_device, first, second) == [False, True]
        assert recorded(any_device, second, first) == [False, True]
        assert recorded(any_device, second, second) == [False, True]
