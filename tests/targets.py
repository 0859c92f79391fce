"""All devices, and such that are taken for others when kernels are chosen: what GPUs run is tested on processors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import expected_outputs
from dmlvk.conformance.sampling import run_sample, sample_fault
from dmlvk.kernels.kernel import ElementwiseKernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU, Target
from dmlvk.operators import OperatorDesc
from tests.effort import OfTurn

Array = npt.NDArray[Any]


@contextmanager
def every_device() -> Iterator[list[dml.Device]]:
    """All devices, open; of these the list has those that the running test is run on (tests/effort.py)."""
    with ExitStack() as stack:
        devices = [stack.enter_context(dml.Device(info.index)) for info in dml.list_devices() if info.usable]
        yield stack.enter_context(closing(OfTurn(devices)))


@contextmanager
def every_bench() -> Iterator[list[Workbench]]:
    """A workbench on each of them: what costs time to prepare is prepared once."""
    with ExitStack() as stack:
        devices = [stack.enter_context(dml.Device(info.index)) for info in dml.list_devices() if info.usable]
        benches = [stack.enter_context(closing(Workbench(device))) for device in devices]
        yield stack.enter_context(closing(OfTurn(benches)))


def all_compute_as_gpus(monkeypatch: pytest.MonkeyPatch, *, as_gpus: bool = True, registers: int | None = None) -> None:
    """Every device is given the kernels of GPUs, or each its own again.

    Args:
        registers: those that an invocation of such a GPU has; ``None`` for as many as follow from the device's own
            subgroups, which on processors are small.
    """

    def taken_for_gpu(self: dml.Device) -> Target:
        own = Target.of(self.info)
        return dataclasses.replace(own, is_cpu=False, registers=registers or own.registers)

    def as_it_is(self: dml.Device) -> Target:
        return Target.of(self.info)

    monkeypatch.setattr(dml.Device, "target", property(taken_for_gpu if as_gpus else as_it_is))


def computes_as_gpu(monkeypatch: pytest.MonkeyPatch, device: dml.Device, registers: int | None = None) -> None:
    """The same, but for SwiftShader, which skips the test."""
    if Target.of(device.info).is_naive:
        pytest.skip("SwiftShader compiles a GPU's products for ten seconds")
    all_compute_as_gpus(monkeypatch, registers=registers)


def on_llvmpipe(benches: Sequence[Workbench]) -> list[Workbench]:
    """Those that compile a GPU's kernels in no more than a second: not SwiftShader, which takes ten and gigabytes."""
    every = benches.every if isinstance(benches, OfTurn) else benches  # not those of the turn
    return [bench for bench in every if not Target.of(bench.device.info).is_naive] or list(benches)


def check_bits(
    benches: Iterable[Workbench], desc: OperatorDesc, inputs: Mapping[str, Array], packed: OperatorDesc | None = None
) -> None:
    """Whether an operator gives what its definition says; ``packed``: the same where tensors lie plainly."""
    expected = expected_outputs(packed or desc, inputs)
    for bench in benches:
        assert sample_fault(bench.device.info.name, run_sample(bench, desc, inputs), expected) is None


MOST_PLANS_OF_GPUS = 8
"""For all sizes of a node: GPUs load vectors where sizes are multiples of four, and have kernels for short lines."""


def most_plans(device: dml.Device, on_processors: int) -> int:
    """How many plans a node with open sizes may have, however many sizes it meets."""
    return on_processors if device.target.is_cpu else max(on_processors, MOST_PLANS_OF_GPUS)


def variants(desc: dml.OperatorDesc, target: Target = GPU) -> list[str]:
    return [step.kernel.variant for step in lower(desc, target).steps]


def variants_of(graph: dml.CompiledGraph) -> list[str]:
    return [step.kernel.variant for stage in graph.stages for step in stage.program.steps]


def kernel_of(desc: dml.OperatorDesc, target: Target = GPU) -> ElementwiseKernel:
    (step,) = lower(desc, target).steps
    assert isinstance(step.kernel, ElementwiseKernel)
    return step.kernel
