"""ADAM_OPTIMIZER: what samples do not try."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.runtime import shader_forms

Array = npt.NDArray[Any]

INPUTS = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
OUTPUTS = ("OutputParametersTensor", "OutputFirstMomentTensor", "OutputSecondMomentTensor")


def _adam(
    tensor: dml.TensorDesc,
    step: dml.TensorDesc | None = None,
    *,
    outputs: Sequence[dml.TensorDesc] = (),
    learning_rate: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> dml.AdamOptimizer:
    first, second, third = outputs or [tensor] * 3
    return dml.AdamOptimizer(
        input_parameters_tensor=tensor,
        input_first_moment_tensor=tensor,
        input_second_moment_tensor=tensor,
        gradient_tensor=tensor,
        training_step_tensor=step or dml.TensorDesc(dml.UINT32, (1,) * tensor.dimension_count),
        output_parameters_tensor=first,
        output_first_moment_tensor=second,
        output_second_moment_tensor=third,
        learning_rate=learning_rate,
        beta1=betas[0],
        beta2=betas[1],
        epsilon=epsilon,
    )


def _inputs(arrays: Sequence[Array], step: Array | int) -> dict[str, Array]:
    number = np.full((1,) * arrays[0].ndim, step, np.uint32) if isinstance(step, int) else step
    return {**dict(zip(INPUTS, arrays, strict=True)), "TrainingStepTensor": number}


def test_fifty_steps_are_those_of_the_paper(any_device: dml.Device) -> None:
    """D. P. Kingma and J. Ba, algorithm 1, in float64, of a bowl with one steep and one shallow side."""
    steepness, target = np.array([100.0, 1.0, 0.01]), np.array([1.0, -2.0, 3.0])
    x = m = v = np.zeros(3)
    arrays = [np.zeros(3, np.float32)] * 3
    desc = _adam(dml.TensorDesc(dml.FLOAT32, (3,)), learning_rate=0.1)
    for step in range(1, 51):
        gradient = 2 * steepness * (x - target)
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        corrected = m / (1 - 0.9**step), v / (1 - 0.999**step)
        x = x - 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
        own = (2 * steepness * (arrays[0] - target)).astype(np.float32)
        got = any_device.run(desc, _inputs([*arrays, own], step))
        arrays = [got[name] for name in OUTPUTS]
        assert arrays[0] == pytest.approx(x, rel=1e-4, abs=1e-4)
    assert arrays[0] == pytest.approx(target, abs=0.7)


@pytest.mark.parametrize(
    ("number", "steps"),
    [
        *((np.uint32(n), n) for n in (1, 2, 7, 1000, 123456, 2**32 - 1)),
        *((np.float32(n), k) for n, k in ((1, 1), (2.99, 2), (2.0**40, 2**32 - 1), (math.inf, 2**32 - 1))),
        (np.float16(65504), 65504),
    ],
)
def test_the_rate_of_a_step(any_device: dml.Device, number: Any, steps: int) -> None:
    """X' is -LearningRate * a, rounded, where M' / (sqrt(V') + Epsilon) is 1."""
    step = np.reshape(number, (1,))
    given = [np.zeros(1, np.float32), np.full(1, 4 / 3, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32)]
    for betas in ((0.75, 0.875), (0.75, 1 - 2.0**-24), (0.75, 0.0)):
        desc = _adam(
            dml.TensorDesc(dml.FLOAT32, (1,)), dml.TensorDesc(dml.DataType(step.dtype), (1,)),
            learning_rate=1.0, betas=betas, epsilon=1.0,
        )  # fmt: skip
        (got,) = any_device.run(desc, _inputs(given, step))["OutputParametersTensor"]
        with localcontext() as context:
            context.prec = 60
            rests = [1 - Decimal(beta) ** steps for beta in betas]
            expected = -(rests[1].sqrt() / rests[0])
        assert abs(Decimal(float(got)) / expected - 1) < 5 * Decimal(2) ** -24


@pytest.mark.parametrize("number", [np.uint32(0), np.float32(0.5), np.float32(-1), np.float32(math.nan)])
def test_no_step_gives_parameters_that_are_none(any_device: dml.Device, number: Any) -> None:
    step = np.reshape(number, (1,))
    desc = _adam(dml.TensorDesc(dml.FLOAT32, (1,)), dml.TensorDesc(dml.DataType(step.dtype), (1,)))
    got = any_device.run(desc, _inputs([np.ones(1, np.float32)] * 4, step))
    assert np.isnan(got["OutputParametersTensor"]).all()
    assert np.isfinite(got["OutputFirstMomentTensor"]).all()


def _wide(random: np.random.Generator, count: int) -> list[Array]:
    """Numbers of all sizes, ordinary ones among zeros, denormals, infinities and NaN."""
    arrays = []
    for spread in (3, 40, 60, 30):
        numbers = random.normal(0, 1, count) * np.exp2(random.integers(-spread, spread // 2, count))
        numbers[random.random(count) < 0.1] = 0
        unusual = random.random(count) < 0.02
        numbers[unusual] = random.choice(
            [1e-40, -1e-40, 1.2e-38, 3e38, math.inf, -math.inf, math.nan, -0.0], unusual.sum()
        )
        arrays.append(numbers.astype(np.float32))
    arrays[2] = np.where(random.random(count) < 0.98, np.abs(arrays[2]), arrays[2])
    return arrays


def test_the_quick_way_of_gpus_gives_the_bits_of_the_ordinary_one(
    constants_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    desc = _adam(dml.TensorDesc(dml.FLOAT32, (20003,)))
    inputs = _inputs(_wide(np.random.default_rng(3), 20003), 17)
    ordinary = constants_device.run(desc, inputs)
    assert len(np.unique(ordinary["OutputParametersTensor"])) > 10000
    monkeypatch.setattr(shader_forms, "on_processor", lambda spirv: spirv)  # and so a pipeline for a GPU
    with dml.Device(constants_device.info.index) as taken_for_gpu:
        quick = taken_for_gpu.run(desc, inputs)
    for name in OUTPUTS:
        assert np.array_equal(quick[name].view(np.uint32), ordinary[name].view(np.uint32)), name


def _run_in_place(
    device: dml.Device, desc: dml.AdamOptimizer, inputs: Mapping[str, Array], shared: Sequence[str]
) -> list[Array]:
    compiled = device.compile_operator(device.create_operator(desc))
    buffers = {name: device.create_buffer(max(16, array.nbytes)) for name, array in inputs.items()}
    for name, array in inputs.items():
        buffers[name].upload(array)
    bindings = {name: dml.BufferBinding(buffer, 0, inputs[name].nbytes) for name, buffer in buffers.items()}
    table = device.create_binding_table(compiled)
    table.bind_inputs([bindings[name] for name in (*INPUTS, "TrainingStepTensor")])
    table.bind_outputs([bindings[name] for name in shared])
    size = compiled.binding_properties.temporary_resource_size
    with device.create_buffer(size) as scratch:
        table.bind_temporary_resource(dml.BufferBinding(scratch, 0, size))
        recorder = device.create_command_recorder()
        recorder.record_dispatch(compiled, table)
        recorder.execute()
        found = [np.frombuffer(buffers[name].download(), np.float32)[: inputs[name].size].copy() for name in shared]
        recorder.reset()
    for buffer in buffers.values():
        buffer.close()
    return found


def test_outputs_may_lie_where_any_inputs_are(device: dml.Device) -> None:
    random = np.random.default_rng(4)
    arrays = [np.abs(random.normal(0, 1, 133)).astype(np.float32) for _ in INPUTS]
    desc, inputs = _adam(dml.TensorDesc(dml.FLOAT32, (133,))), _inputs(arrays, 3)
    expected = device.run(desc, inputs)
    for shared in itertools.islice(itertools.permutations(INPUTS, 3), 0, None, 11):
        for name, got in zip(OUTPUTS, _run_in_place(device, desc, inputs, shared), strict=True):
            assert np.array_equal(got, expected[name]), (shared, name)


def test_tensors_may_lie_in_different_orders(any_device: dml.Device) -> None:
    random = np.random.default_rng(6)
    arrays = [np.abs(random.normal(0, 1, (5, 7))).astype(np.float32) for _ in INPUTS]
    packed, turned = dml.TensorDesc(dml.FLOAT32, (5, 7)), dml.TensorDesc(dml.FLOAT32, (5, 7), strides=(1, 5))
    apart, row = (dml.TensorDesc(dml.FLOAT32, (5, 7), strides=strides) for strides in ((16, 2), (0, 1)))
    arrays[3][:] = arrays[3][0]
    inputs = _inputs(arrays, 3)
    expected = any_device.run(_adam(packed), inputs)
    desc = dataclasses.replace(
        _adam(packed, outputs=(turned, packed, apart)), input_first_moment_tensor=turned, gradient_tensor=row
    )
    got = any_device.run(desc, inputs)
    for name in OUTPUTS:
        assert np.array_equal(got[name], expected[name]), name
