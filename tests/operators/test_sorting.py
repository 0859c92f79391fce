"""Operators that put rows in order: what is special, and every kind of plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.sampling import check_sample
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import sorting
from dmlvk.kernels.target import CPU, GPU
from tests.targets import all_compute_as_gpus

F32, U32 = dml.DataType.FLOAT32, dml.DataType.UINT32
INCREASING, DECREASING = dml.AxisDirection.INCREASING, dml.AxisDirection.DECREASING


def _desc(
    sizes: tuple[int, ...],
    axis: int,
    count: int,
    direction: dml.AxisDirection | None = None,
    data_type: dml.DataType = F32,
) -> dml.TopK | dml.TopK1:
    results = (*sizes[:axis], count, *sizes[axis + 1 :])
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type, sizes),
        "output_value_tensor": dml.TensorDesc(data_type, results),
        "output_index_tensor": dml.TensorDesc(U32, results),
        "axis": axis,
        "k": count,
    }
    return dml.TopK(**members) if direction is None else dml.TopK1(**members, axis_direction=direction)


def test_nan_comes_last_in_both_directions_and_equal_elements_by_rising_index(benches: list[Workbench]) -> None:
    x = np.array([np.nan, 0.0, np.inf, -0.0, -np.nan, -np.inf, 1e-45, -0.0], np.float32)
    for direction, indices in (
        (DECREASING, [2, 6, 1, 3, 7, 5, 0, 4]),
        (INCREASING, [5, 1, 3, 7, 6, 2, 0, 4]),
    ):
        for bench in benches:
            outputs = bench.device.run(_desc((8,), 0, 8, direction), {"InputTensor": x})
            np.testing.assert_array_equal(outputs["OutputIndexTensor"], indices)
            assert outputs["OutputValueTensor"].tobytes() == x[indices].tobytes()


@pytest.mark.parametrize("as_gpus", [False, True])
@pytest.mark.parametrize(
    ("length", "count"), [(64, 64), (65, 1), (300, 32), (300, 33), (1500, 1500), (9001, 5), (20000, 32)]
)
def test_every_plan_gives_what_python_sorts(
    length: int, count: int, as_gpus: bool, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows on both sides of every limit; also rows whose largest elements all fall to one invocation."""
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    random = np.random.default_rng(length)
    x = random.integers(-50, 50, (2, length)).astype(np.float32)
    x[1, ::256] += 1000
    check_sample(benches, Sample("rows", _desc(x.shape, 1, count), {"InputTensor": x}))


@pytest.mark.parametrize("length", [8192, 8500])
@pytest.mark.parametrize(("data_type", "registers"), [(F32, 256), (dml.DataType.INT64, 256), (dml.DataType.INT64, 64)])
def test_elements_that_fall_to_few_invocations_are_selected_though_they_are_too_many_to_collect(
    length: int, data_type: dml.DataType, registers: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than half of a work group's families of 64 lanes have all large elements, of which there are 3,968."""
    all_compute_as_gpus(monkeypatch, registers=registers)
    monkeypatch.setattr("dmlvk.kernels.rows.sorting.WORK_GROUPS_WANTED", 1)
    x = np.random.default_rng(1).integers(-500, 500, (2, length)).astype(data_type.numpy_dtype)
    x[:, np.arange(length) % 64 < 31] += 1000
    count = sorting.most_selected(data_type.size_in_bits)
    desc = _desc(x.shape, 1, count, None, data_type)
    check_sample(benches, Sample("families", desc, {"InputTensor": x}))


def test_few_elements_of_long_rows_are_selected_by_work_groups_on_gpus_only() -> None:
    for data_type, most in ((F32, 32), (dml.DataType.INT64, 16)):
        desc = _desc((4096, 8192), 1, most, None, data_type)
        assert [step.kernel.variant.split(".")[0] for step in lower(desc, GPU).steps] == ["selected_rows"]
        longer = _desc((4096, 8193), 1, most, None, data_type)
        names = [step.kernel.variant.split(".")[0] for step in lower(longer, GPU).steps]
        assert names == ["selected_tiles", "merged_lists", "ordered_results"]
        assert lower(desc, CPU).steps[0].kernel.variant.startswith("ranked_tiles.")
        more = _desc((4096, 8192), 1, most + 1, None, data_type)
        assert lower(more, GPU).steps[0].kernel.variant.startswith("ranked_tiles.")
