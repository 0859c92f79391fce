"""What the recorder is told of each step is true: what it reads, what it writes, and of which steps it is independent.

CPU drivers run dispatches one after the other, so nothing but this shows a dependency that is missing because a step
was described wrongly; the recorder's own decisions are tested in ``test_hazards.py`` and ``test_synchronization.py``.

``DMLVK_TEST_ACCESSES=3`` tries three samples of each combination of data types instead of one of each operator, and
each step with the last of its work groups first as well.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.conformance.samples import Sample, SampleCase, sample_cases
from dmlvk.conformance.sampling import LAYOUTS, laid_out, stored_input
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import BindingKind, KernelStep, Program, Region
from dmlvk.kernels.target import Target
from tests.binding.support import floats, sign
from tests.graphs.random_graphs import Builder
from tests.graphs.test_random import QUICK, value_bytes
from tests.recording.true_accesses import Bytes, Contents, ProbedSteps

SAMPLES = int(os.environ.get("DMLVK_TEST_ACCESSES", "0"))
MOST_STEPS = 100 if SAMPLES else 24

_FILLS = 0x33, 0xCC


def _cases() -> list[SampleCase]:
    """Every operator that is not regular, with the data types that are tried."""
    cases = sample_cases()
    return cases if SAMPLES else list({case.desc_class: case for case in reversed(cases)}.values())[::-1]


CASES = _cases()


def _contents(desc: dml.OperatorDesc, sample: Sample) -> Contents:
    given = [(field, tensor) for field, tensor in desc.inputs if tensor is not None]
    return {
        (BindingKind.INPUT, number): stored_input(tensor, sample.inputs[field.name])
        for number, (field, tensor) in enumerate(given)
    }


def _programs(case: SampleCase, device: dml.Device) -> Iterator[tuple[str, Program, Contents]]:
    """Samples of a case in one layout each, by the kernels of a GPU and, where these are others, of a processor."""
    for number, sample in enumerate(itertools.islice(case.samples(), max(SAMPLES, 1))):
        layout = LAYOUTS[(CASES.index(case) + number) % len(LAYOUTS)]
        desc = laid_out(sample.desc, layout)
        of_gpu, of_cpu = (
            lower(desc, dataclasses.replace(Target.of(device.info), is_cpu=is_cpu)) for is_cpu in (False, True)
        )
        where = f"{case.name}, {sample.name}, {layout}"
        yield f"{where}, for a GPU", of_gpu, _contents(desc, sample)
        if of_cpu != of_gpu:
            yield f"{where}, for a processor", of_cpu, _contents(desc, sample)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_steps_are_what_the_recorder_is_told(case: SampleCase, any_device: dml.Device) -> None:
    for where, program, contents in _programs(case, any_device):
        if len(program.steps) <= MOST_STEPS:
            _check(any_device, program.steps, contents, where)


def _check(device: dml.Device, steps: Sequence[KernelStep], contents: Contents, where: str) -> None:
    """Outputs follow neither from what memory held before, nor from an order that nothing keeps."""
    with closing(ProbedSteps(device, steps, contents, _FILLS[0])) as probed:
        assert list(probed.faults(mirrors=SAMPLES > 0)) == [], where
        made = probed.outputs()
    with closing(ProbedSteps(device, steps, contents, _FILLS[1])) as turned:
        turned.run_turned_around()
        for first, second in zip(made, turned.outputs(), strict=True):
            unwritten = (first == _FILLS[0]) & (second == _FILLS[1])
            assert (unwritten | (first == second)).all(), where


@given(seed=st.integers(0, 2**32), count=st.integers(4, 12), is_fused=st.booleans())
@settings(max_examples=max(4, 100 * SAMPLES))
def test_steps_of_graphs_are_what_the_recorder_is_told(
    seed: int, count: int, is_fused: bool, any_device: dml.Device
) -> None:
    """With temporary memory that values share, whether operators became one kernel or not."""
    graph = Builder(any_device, Random(seed), QUICK).graph(count)
    compiled = any_device.compile_graph(graph.desc, fuse=is_fused)
    contents: dict[tuple[BindingKind, int], Bytes] = {
        (BindingKind.INPUT, number): value_bytes(graph.inputs[f"Input{number}"], tensor)
        for number, tensor in enumerate(compiled.network.inputs)
        if tensor is not None
    }
    for page, constants in enumerate(compiled.constants):
        contents[BindingKind.CONSTANTS, page] = constants.download(np.uint8)
    _check(any_device, compiled.steps, contents, f"seed {seed}, {count} nodes, fused: {is_fused}")


@pytest.fixture
def step(any_device: dml.Device) -> KernelStep:
    """64 bytes of FLOAT16 numbers."""
    tensor = dml.TensorDesc(dml.FLOAT16, (32,))
    (made,) = lower(sign(tensor), any_device.target).steps
    return made


def _faults(device: dml.Device, *steps: KernelStep) -> list[str]:
    contents = {(BindingKind.INPUT, 0): np.arange(64, dtype=np.uint8)}
    with closing(ProbedSteps(device, steps, contents)) as probed:
        return list(probed.faults())


def test_a_step_that_says_the_truth_has_no_faults(any_device: dml.Device, step: KernelStep) -> None:
    assert _faults(any_device, step, step) == []


def test_what_a_step_writes_beyond_its_words_is_found(any_device: dml.Device, step: KernelStep) -> None:
    less = dataclasses.replace(step, writes=(step.writes[0].part(0, 48),))
    assert _faults(any_device, less) == [
        "ELEMENT_WISE_SIGN: writes 4 words of output 0 from 12 to 15, which it does not say"
    ]


def test_what_a_step_reads_beyond_its_words_is_found(any_device: dml.Device, step: KernelStep) -> None:
    less = dataclasses.replace(step, reads=(step.reads[0].part(0, 48),))
    assert _faults(any_device, less) == [
        "ELEMENT_WISE_SIGN: 4 words of output 0 from 12 to 15 follow from bytes that are not its own, or from an order"
    ]


def test_independence_that_is_none_is_found(any_device: dml.Device, step: KernelStep) -> None:
    (fault,) = _faults(any_device, step, dataclasses.replace(step, is_independent=True))
    assert "writes 16 words of output 0 from 0 to 15, as ELEMENT_WISE_SIGN does" in fault


def test_an_order_that_nothing_keeps_shows_in_the_results(any_device: dml.Device) -> None:
    """Two steps write the same words, and the second one is said to be independent."""
    written = [lower(sign(floats(16)), any_device.target).steps[0] for _ in range(2)]
    negated = dataclasses.replace(written[1], reads=(dataclasses.replace(written[1].reads[0], index=1),))
    contents = {(BindingKind.INPUT, n): np.full(16, 1 - 2 * n, np.float32).view(np.uint8) for n in range(2)}
    found = []
    for is_independent in (False, True):
        steps = [written[0], dataclasses.replace(negated, is_independent=is_independent)]
        with closing(ProbedSteps(any_device, steps, contents)) as probed:
            assert probed.run_turned_around() == 2 * is_independent
            found.append(probed.outputs()[0].view(np.float32)[0])
    assert found == [-1, 1]


def test_work_groups_that_read_what_others_write_are_found(any_device: dml.Device) -> None:
    """Each of them overwrites the first elements of the next one."""
    desc = dml.ElementWiseNegate(input_tensor=floats(2**15), output_tensor=floats(2**15))
    (step,) = lower(desc, any_device.target).steps
    moved = dataclasses.replace(step.reads[0], offset=16)
    contents = {(BindingKind.INPUT, 0): np.arange(2**15 + 4, dtype=np.float32).view(np.uint8)}

    def is_found(written: Region) -> bool:
        with closing(ProbedSteps(any_device, [dataclasses.replace(step, writes=(written,))], contents)) as probed:
            return bool(list(probed.faults(mirrors=True)))

    assert any(is_found(moved) for _ in range(20))  # on a busy processor its work groups may happen to be in order
    assert not is_found(step.writes[0])
