"""Operators that move elements by indices: updates of one place, whole lines, and units that memory allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]
F32, U32, I32 = dml.DataType.FLOAT32, dml.DataType.UINT32, dml.DataType.INT32


def _tensor(data_type: dml.DataType, values: Any) -> tuple[dml.TensorDesc, Array]:
    array = np.array(values, data_type.numpy_dtype)
    return dml.TensorDesc(data_type, array.shape), array


def _results(benches: list[Workbench], desc: dml.OperatorDesc, **inputs: Array) -> Array:
    """The first output; the same on every device."""
    outputs = [next(iter(bench.device.run(desc, inputs).values())) for bench in benches]
    for output in outputs[1:]:
        assert output.tobytes() == outputs[0].tobytes()
    return outputs[0]


@pytest.mark.parametrize("data_type", [F32, dml.DataType.UINT8, dml.DataType.FLOAT16, dml.DataType.UINT64])
def test_of_many_updates_of_few_places_the_last_ones_win(data_type: dml.DataType, benches: list[Workbench]) -> None:
    random = np.random.default_rng(1)
    indices = random.integers(0, 7, 50_000).astype(np.uint32)
    updates = random.integers(0, 100, 50_000).astype(data_type.numpy_dtype)
    source, x = _tensor(data_type, np.arange(100, 110))
    chosen, changes = dml.TensorDesc(U32, indices.shape), dml.TensorDesc(data_type, updates.shape)
    desc = dml.Scatter(input_tensor=source, indices_tensor=chosen, updates_tensor=changes, output_tensor=source, axis=0)
    expected = x.copy()
    expected[indices] = updates  # NumPy keeps the last one, too
    got = _results(benches, desc, InputTensor=x, IndicesTensor=indices, UpdatesTensor=updates)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("length", [512, 1300])
@pytest.mark.parametrize("index_type", [U32, I32, dml.DataType.INT64, dml.DataType.UINT64])
def test_whole_lines_have_the_last_updates(
    index_type: dml.DataType, length: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups that make a line each, as on GPUs: indices that repeat, count from the end, or lie outside."""
    all_compute_as_gpus(monkeypatch)
    random = np.random.default_rng(length)
    lines, count = (5, 4), length - 8
    least = -length - 20 if index_type in (I32, dml.DataType.INT64) else 0
    x, y = (random.integers(0, 2**32, (*lines, size), np.uint32) for size in (length, count))
    indices = random.integers(least, length + 20, y.shape).astype(index_type.numpy_dtype)
    tensors = {
        "input_tensor": _tensor(U32, x)[0],
        "updates_tensor": _tensor(U32, y)[0],
        "output_tensor": _tensor(U32, x)[0],
    }
    desc = dml.Scatter(indices_tensor=_tensor(index_type, indices)[0], axis=2, **tensors)
    assert len(lower(desc, GPU).steps) == 1
    expected = x.copy()
    for line in np.ndindex(lines):
        for row, update in zip(indices[line].tolist(), y[line], strict=True):
            if -length <= row < length:
                expected[line][row] = update
    np.testing.assert_array_equal(
        _results(benches, desc, InputTensor=x, IndicesTensor=indices, UpdatesTensor=y), expected
    )


@pytest.mark.parametrize("index_type", [U32, dml.DataType.INT64])
def test_elements_are_gathered_from_whole_lines(
    index_type: dml.DataType, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups that hold a line each, as on GPUs; indices may count from the end."""
    all_compute_as_gpus(monkeypatch)
    random = np.random.default_rng(7)
    x = random.integers(0, 2**32, (2, 64, 1300), np.uint32)
    least = -1300 if index_type is dml.DataType.INT64 else 0
    indices = random.integers(least, 1300, (2, 64, 900)).astype(index_type.numpy_dtype)
    output = dml.TensorDesc(U32, indices.shape)
    source, chosen = _tensor(U32, x)[0], _tensor(index_type, indices)[0]
    desc = dml.GatherElements(input_tensor=source, indices_tensor=chosen, output_tensor=output, axis=2)
    (step,) = lower(desc, GPU).steps
    assert step.kernel.variant == "gather_lines"
    rows = np.where(indices < 0, indices.astype(np.int64) + 1300, indices).astype(np.int64)
    got = _results(benches, desc, InputTensor=x, IndicesTensor=indices)
    np.testing.assert_array_equal(got, np.take_along_axis(x, rows, 2))


def test_rows_are_moved_in_units_as_wide_as_memory_allows() -> None:
    """16 bytes where rows and all strides are multiples of that; else 8, 4, 2; 1 where single bytes are chosen."""

    for data_type, row, gap, wanted in (
        (dml.DataType.FLOAT32, 8, 0, "gather.128bits"),
        (dml.DataType.FLOAT32, 8, 2, "gather.64bits"),
        (dml.DataType.FLOAT32, 7, 0, "gather.32bits"),
        (dml.DataType.FLOAT64, 4, 0, "gather.128bits"),
        (dml.DataType.FLOAT64, 1, 0, "gather.64bits"),
        (dml.DataType.UINT8, 32, 0, "gather.128bits"),
        (dml.DataType.UINT8, 12, 0, "gather.32bits"),
        (dml.DataType.UINT8, 6, 0, "gather.16bits"),
        (dml.DataType.UINT8, 5, 0, "gather.8bits"),
    ):
        desc = dml.Gather(
            input_tensor=dml.TensorDesc(data_type, (10, row), (row + gap, 1)),
            indices_tensor=dml.TensorDesc(U32, (1, 20)),
            output_tensor=dml.TensorDesc(data_type, (20, row)),
            axis=0,
            index_dimensions=1,
        )
        assert variants(desc) == [wanted]
