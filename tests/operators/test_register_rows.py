"""Rows that a GPU's work group holds are normalized to the bits of the steps one by one, whatever is in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import register_rows
from dmlvk.kernels.target import CPU, GPU
from dmlvk.operators import fused_activation
from tests.operators.test_products import on_llvmpipe

_LENGTHS = (12, 196, 1028, 12544, 16384)
_RELU = fused_activation("ACTIVATION_RELU")


def _rows(length: int) -> npt.NDArray[np.float32]:
    """Rows of numbers that each take another way: ordinary ones, and such as are zero, tiny, huge, equal or none."""
    random = np.random.default_rng(length)
    usual = random.standard_normal((12, length)).astype(np.float32)
    some = random.random((12, length)) < 4 / length
    rows = usual.copy()
    rows[1] = np.maximum(usual[1], 0)
    rows[2] = np.float32(1.1)
    rows[3][some[3]] *= np.float32(1e-38)
    rows[4][some[4]] *= np.float32(1e38)
    rows[5][some[5]] = np.inf
    rows[6][some[6]] = np.nan
    rows[7] = usual[7] * np.float32(1e-20) + np.float32(3e-13)
    rows[8] = usual[8] * np.float32(1e-35)
    rows[9] = usual[9] * np.float32(1e30)
    rows[10] = np.where(some[10], 1e20, -0.0)
    rows[11] = np.round(usual[11] * 3)
    return rows


def _desc(length: int, data_type: dml.DataType, scale: str, bias: str, *, relu: bool) -> dml.MeanVarianceNormalization1:
    """``scale`` and ``bias``: ``"along"`` the row, ``"one"`` number for each row, or ``"none"``."""
    sizes = (3, 4, 1, length)
    strides = {"along": (0, 0, 0, 1), "one": (0, 1, 0, 0)}
    tensor = dml.TensorDesc(data_type, sizes)
    return dml.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=dml.TensorDesc(data_type, sizes, strides[scale]) if scale in strides else None,
        bias_tensor=dml.TensorDesc(data_type, sizes, strides[bias]) if bias in strides else None,
        output_tensor=tensor,
        axis_count=2,
        axes=(2, 3),
        normalize_variance=True,
        epsilon=1e-5,
        fused_activation=_RELU if relu else None,
    )


def _operand(shape: str, length: int, seed: int) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(seed)
    values = random.standard_normal((3, 4, 1, length)).astype(np.float32)
    values[..., random.random(length) < 2 / length] = np.float32(0)
    values[..., random.random(length) < 1 / length] = np.float32(1e-39)
    values[..., random.random(length) < 1 / length] = np.float32(1e36)
    return np.broadcast_to(values[:1, :1, :, :] if shape == "along" else values[:1, :, :, :1], values.shape)


@pytest.mark.sweep
@pytest.mark.combinations
@pytest.mark.t_way(2)
@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    ("data_type", "scale", "bias", "relu"),
    [
        (dml.DataType.FLOAT32, "along", "along", False),
        (dml.DataType.FLOAT32, "one", "along", True),
        (dml.DataType.FLOAT32, "none", "one", False),
        (dml.DataType.FLOAT32, "none", "none", False),
        (dml.DataType.FLOAT16, "along", "none", False),
        (dml.DataType.FLOAT16, "one", "one", True),
    ],
)
def test_same_bits_as_step_by_step(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    data_type: dml.DataType,
    scale: str,
    bias: str,
    relu: bool,
) -> None:
    desc = _desc(length, data_type, scale, bias, relu=relu)
    with np.errstate(over="ignore"):
        inputs = {
            "InputTensor": _rows(length).reshape(3, 4, 1, length).astype(data_type.numpy_dtype),
            "ScaleTensor": _operand(scale, length, 1).astype(data_type.numpy_dtype),
            "BiasTensor": _operand(bias, length, 2).astype(data_type.numpy_dtype),
        }
    present = {field.name: inputs[field.name] for field, tensor in desc.inputs if tensor is not None}
    # Short rows share a work group, in which one that is rare takes the others along.
    usual = np.random.default_rng(3).standard_normal((3, 4, 1, length)).astype(data_type.numpy_dtype)
    variants = [present] if length > _LENGTHS[1] else [present, present | {"InputTensor": usual}]
    assert len(lower(desc, GPU).steps) == 1
    few = length == _LENGTHS[1] and data_type is dml.DataType.FLOAT32  # SwiftShader takes seconds for each kernel
    for bench in benches if few else on_llvmpipe(benches):
        device = bench.device
        compiled = device.compile_operator(device.create_operator(desc))
        found = [device.run(compiled, each)["OutputTensor"].tobytes() for each in variants]
        with monkeypatch.context() as patch:
            patch.setattr(register_rows, "kernel", lambda *args, **kwargs: None)
            assert len(lower(desc, GPU).steps) > 1
            in_steps = device.compile_operator(device.create_operator(desc))
        expected = [device.run(in_steps, each)["OutputTensor"].tobytes() for each in variants]
        assert found == expected, bench.device.info.name


def test_other_rows_go_step_by_step() -> None:
    desc = _desc(64, dml.DataType.FLOAT32, "none", "none", relu=False)
    long = dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 1, 16388))
    odd = dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 1, 63))
    apart = dml.TensorDesc(dml.DataType.FLOAT32, (3, 4, 1, 64), (64, 192, 768, 3))
    for tensor in (long, odd, apart):
        assert len(lower(dataclasses.replace(desc, input_tensor=tensor, output_tensor=tensor), GPU).steps) > 1
    assert len(lower(desc, CPU).steps) > 1
