"""Coefficients on a device: there once, whatever reads them, and in nobody's way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.kernels.library import coefficients
from tests.graphs.support import fused

TENSOR = dml.TensorDesc(dml.FLOAT32, (64,))
GELU = dml.ActivationGelu(input_tensor=TENSOR, output_tensor=TENSOR)
TAN = dml.ElementWiseTan(input_tensor=TENSOR, output_tensor=TENSOR)
EXP = dml.ElementWiseExp(input_tensor=TENSOR, output_tensor=TENSOR)


def recorded(device: dml.Device, desc: dml.OperatorDesc) -> dml.CommandRecorder:
    """An operator with buffers of its own, recorded."""
    compiled = device.compile_operator(device.create_operator(desc))
    table = device.create_binding_table(compiled)
    buffers = [device.create_buffer(TENSOR.size_in_bytes) for _ in range(2)]
    table.bind_inputs([dml.BufferBinding(buffers[0], 0, TENSOR.size_in_bytes)])
    table.bind_outputs([dml.BufferBinding(buffers[1], 0, TENSOR.size_in_bytes)])
    recorder = device.create_command_recorder()
    recorder.record_dispatch(compiled, table)
    return recorder


def test_kernels_that_read_coefficients_share_them(device: dml.Device) -> None:
    recorders = [recorded(device, desc) for desc in (GELU, TAN, EXP)]
    operands = [recorder.dispatches[0].steps[0].launch(device.engine).allocations for recorder in recorders]
    assert [len(each) for each in operands] == [3, 3, 2]
    assert operands[0][2] is operands[1][2] is device.engine.shared(coefficients.contents())


def test_submissions_that_share_coefficients_do_not_wait_for_each_other(device: dml.Device) -> None:
    recorders = [recorded(device, desc) for desc in (GELU, TAN)]  # which keep their buffers
    launches = [recorder.dispatches[0].steps[0].launch(device.engine) for recorder in recorders]
    recordings = [device.engine.record([launch]) for launch in launches]
    shared = device.engine.shared(coefficients.contents())
    for launch, recording in zip(launches, recordings, strict=True):
        assert recording.bound == frozenset(launch.allocations) - {shared}
    assert not recordings[0].bound & recordings[1].bound


def test_a_fused_kernel_reads_them_behind_all_of_its_outputs(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (1027,))
    half = x * 0.5
    outputs = {
        "half": half,
        "gelu": F.activation_gelu(half),
        "sum": F.acosh(abs(F.tan(half)) + 1) + F.activation_softplus(half),
    }
    values = {"x": np.random.default_rng(5).normal(0, 4, 1027).astype(np.float32)}
    (stage,) = fused(device, graph, outputs, values).stages
    assert len(stage.writes) == 3


def test_a_package_without_them_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(coefficients, "_FILE", tmp_path / "none.bin")
    coefficients.contents.cache_clear()
    try:
        with pytest.raises(dml.ShaderLibraryError, match="coefficients cannot be read"):
            coefficients.contents()
    finally:
        monkeypatch.undo()
        coefficients.contents.cache_clear()
    assert len(coefficients.contents()) % 16 == 0


def test_closing_the_device_frees_them() -> None:
    with dml.Device() as device:
        x = np.linspace(-3, 3, 64, dtype=np.float32)
        assert device.run(GELU, {"InputTensor": x})["OutputTensor"].shape == (64,)
        engine = device.engine
    with pytest.raises(dml.DeviceRemovedError):
        engine.shared(coefficients.contents())
