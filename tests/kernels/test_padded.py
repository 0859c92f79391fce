"""PADDING with a constant on GPUs: 16 bytes of the output at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators.rearrangement import Padding, PaddingMode
from tests.targets import all_compute_as_gpus, every_device

_TYPES = (dml.UINT8, dml.FLOAT16, dml.FLOAT32)


@pytest.fixture(scope="module")
def devices() -> Iterator[list[dml.Device]]:
    """Every device."""
    with every_device() as devices:
        yield devices


@pytest.mark.parametrize("data_type", _TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("sizes", "starts", "ends"),
    [
        ((2, 3, 30, 29), (0, 0, 1, 1), (0, 0, 1, 2)),
        ((1, 2, 5, 15), (1, 0, 2, 0), (0, 2, 0, 2)),
        ((3, 51), (1, 2), (0, 3)),
        ((1001,), (3,), (2,)),
        ((6, 33), (0, 31), (0, 0)),
        ((3, 3, 3, 3, 21), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
        ((1, 3), (0, 13), (0, 1)),
    ],
)
def test_padding(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    data_type: dml.DataType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixteen bytes of the output lie in one row or in two, or behind the last one."""
    all_compute_as_gpus(monkeypatch)
    given = np.random.default_rng(1).integers(0, 100, sizes).astype(data_type.numpy_dtype)
    expected = np.pad(given, list(zip(starts, ends, strict=True)), constant_values=7)
    desc = Padding(
        input_tensor=dml.TensorDesc(data_type, sizes),
        output_tensor=dml.TensorDesc(data_type, expected.shape),
        padding_mode=PaddingMode.CONSTANT,
        padding_value=7.0,
        dimension_count=len(sizes),
        start_padding=starts,
        end_padding=ends,
    )
    (step,) = lower(desc, GPU).steps
    assert step.kernel.variant == f"padded.{data_type.size_in_bits}bits.vectors"
    for device in devices:
        (result,) = device.run(desc, {"InputTensor": given}).values()
        assert np.array_equal(result, expected)
