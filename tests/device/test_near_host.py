"""Small runs whose inputs and outputs lie in the host's memory: the same bits as through copies, of every kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.cases import batches, value_cases
from dmlvk.conformance.execution import prepare
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import laid_out
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.running import host_runs
from dmlvk.runtime.kompute import Engine

Arrays = Mapping[str, npt.NDArray[Any]]

_MOST = host_runs.MOST_BYTES_NEAR_HOST
_NAMES = list(OPERATORS)[::12]


@pytest.fixture(scope="module")
def opened_apart(device: dml.Device) -> Iterator[dml.Device]:
    """Opened for these tests alone: memory with copies in the host's, which they give back, would be in other runs."""
    with dml.Device(device.info.index) as opened:
        yield opened


@pytest.fixture
def apart(opened_apart: dml.Device, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device whose memory is taken for another one than the host's."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda _: True))
    return opened_apart


def _staged(run: host_runs.HostRun) -> set[bool]:
    """Whether inputs and outputs are copied."""
    return {allocation.has_staging for (kind, _), allocation in run._allocations.items() if kind.name.endswith("PUT")}


def _results(device: dml.Device, compiled: CompiledOperator, inputs: Arrays) -> list[dict[str, bytes]]:
    """Of two runs behind one another, where the operands lie now."""
    run = host_runs.HostRun(device.engine, compiled)
    arrays = host_runs.checked_inputs(compiled, inputs)
    try:
        assert _staged(run) == {host_runs.MOST_BYTES_NEAR_HOST < 0}
        made = [run.execute(arrays) for _ in range(2)]
    finally:
        run.close()
    return [{name: array.tobytes() for name, array in each.items()} for each in made]


def _check_both_ways(
    device: dml.Device, compiled: CompiledOperator, inputs: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, again = _results(device, compiled, inputs)
    monkeypatch.setattr(host_runs, "MOST_BYTES_NEAR_HOST", -1)
    copied, copied_again = _results(device, compiled, inputs)
    monkeypatch.setattr(host_runs, "MOST_BYTES_NEAR_HOST", _MOST)
    assert near == again == copied == copied_again


def _descriptions(name: str) -> Iterator[tuple[OperatorDesc, Arrays]]:
    """An operator's first case that is small enough, packed and with gaps between the output's elements."""
    case = next((each for each in value_cases() if each.desc_class.operator_name == name), None)
    if case is not None:
        batch = next(iter(batches(case, 200, 1)))
        if batch.sizes is None:
            batch = dataclasses.replace(batch, inputs=tuple(values[-200:] for values in batch.inputs))
        for layout in ("contiguous", "apart"):
            prepared = prepare(case, batch, layout)
            fields = [field.name for field, tensor in prepared.desc.inputs if tensor is not None]
            yield prepared.desc, dict(zip(fields, prepared.inputs, strict=True))
        return
    for sampled in sample_cases():
        if sampled.desc_class.operator_name == name:
            for sample in sampled.samples():
                descriptions = [laid_out(sample.desc, layout) for layout in ("packed", "apart")]
                if max(map(_size, descriptions)) <= _MOST:
                    yield from ((desc, sample.inputs) for desc in descriptions)
                    return
    pytest.fail(f"{name} has no small case")


def _size(desc: OperatorDesc) -> int:
    return sum(tensor.size_in_bytes for _, tensor in desc.inputs + desc.outputs if tensor is not None)


@pytest.mark.parametrize("name", _NAMES)
def test_operators_have_the_same_bits_near_the_host(
    apart: dml.Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Packed and strided."""
    for desc, inputs in _descriptions(name):
        compiled = apart.compile_operator(apart.create_operator(desc))
        _check_both_ways(apart, compiled, inputs, monkeypatch)


def test_a_graph_has_the_same_bits_near_the_host(apart: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an input that is also an output's operand twice, strides, weights of its own, and steps in place."""
    graph = dml.Graph(apart)
    x = graph.input("x", dml.FLOAT32, (12, 20), (23, 1))
    weights = graph.constant(np.random.default_rng(1).standard_normal((20, 20)).astype(np.float32))
    y = F.gemm(x, weights)
    soft = F.activation_softmax(y + x)
    sums = F.reduce(soft, dml.ReduceFunction.SUM, axes=(1,), output_data_type=dml.FLOAT32)
    compiled = graph.compile(y=y, z=F.tanh(soft * x) - soft, sums=sums)
    inputs = {"x": np.random.default_rng(2).standard_normal((12, 20)).astype(np.float32)}
    _check_both_ways(apart, compiled, inputs, monkeypatch)


@pytest.mark.parametrize(("elements", "is_near"), [(2048, True), (2049, False)])
def test_what_is_larger_together_is_copied(apart: dml.Device, elements: int, is_near: bool) -> None:
    """Inputs and outputs of 16 KiB lie near the host; runs whose kernels are timed do not."""
    tensor = dml.TensorDesc(dml.FLOAT32, (elements,))
    desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
    compiled = apart.compile_operator(apart.create_operator(desc))
    for timestamps, staged in ((False, not is_near), (True, True)):
        run = host_runs.HostRun(apart.engine, compiled, timestamps=timestamps)
        assert _staged(run) == {staged}
        run.close()
