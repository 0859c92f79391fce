"""RANDOM_GENERATOR gives the known answers of Philox 4x32-10, and a state that goes on where it ended."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.random import philox_4x32_10

U32 = dml.DataType.UINT32

KNOWN_ANSWERS = (
    ((0, 0, 0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""State and numbers: the file ``kat_vectors`` of Random123, by the authors of Philox."""


def _desc(count: int, *, has_next: bool = True, state_sizes: tuple[int, ...] = (1, 6)) -> dml.RandomGenerator:
    state = dml.TensorDesc(U32, state_sizes)
    return dml.RandomGenerator(
        input_state_tensor=state,
        output_tensor=dml.TensorDesc(U32, (1, count)),
        output_state_tensor=state if has_next else None,
        type=dml.RandomGeneratorType.PHILOX_4X32_10,
    )


@pytest.mark.parametrize(("state", "numbers"), KNOWN_ANSWERS)
def test_known_answers(state: tuple[int, ...], numbers: tuple[int, ...], benches: list[Workbench]) -> None:
    counter, key = sum(word << (32 * n) for n, word in enumerate(state[:4])), state[4] + (state[5] << 32)
    assert tuple(philox_4x32_10(counter, key)) == numbers
    for bench in benches:
        outputs = bench.device.run(_desc(4), {"InputStateTensor": np.array([state], np.uint32)})
        assert tuple(outputs["OutputTensor"][0].tolist()) == numbers


def test_a_state_goes_on_where_the_numbers_ended(benches: list[Workbench]) -> None:
    """Eight numbers, then twelve, are the first twenty."""
    state = np.array([[0xFFFFFFFE, 0xFFFFFFFF, 3, 4, 5, 6]], np.uint32)
    for bench in benches:
        whole = bench.device.run(_desc(20, has_next=False), {"InputStateTensor": state})["OutputTensor"]
        first = bench.device.run(_desc(8), {"InputStateTensor": state})
        rest = bench.device.run(_desc(12), {"InputStateTensor": first["OutputStateTensor"]})
        np.testing.assert_array_equal(np.hstack([first["OutputTensor"], rest["OutputTensor"]]), whole)
        assert first["OutputStateTensor"].tolist() == [[0, 0, 4, 4, 5, 6]]


def test_a_graph_makes_numbers_and_the_next_state(benches: list[Workbench]) -> None:
    """The generator need not be named; numbers have the sizes that are asked for."""
    graph = dml.Graph(benches[0].device)
    state = graph.input("state", U32, (1, 6))
    numbers, following = F.random_generator(state, output_sizes=(2, 3), with_state=True)
    assert (numbers.sizes, following.sizes) == ((2, 3), (1, 6))
