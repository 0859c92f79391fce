"""Copies between any two views move every element to its place, and touch nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import check_sample
from dmlvk.kernels.kernel import ElementwiseKernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.movement import copies
from dmlvk.kernels.movement.copies import FoldedCopy, fold_copy
from dmlvk.kernels.target import GPU
from dmlvk.kernels.views import View
from dmlvk.operators import check_operator
from dmlvk.operators.movement import Join, Slice1
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]


def _positions(sizes: Sequence[int], strides: Sequence[int], first: int) -> Array:
    """Where the elements of a view lie, in row-major order of its coordinates."""
    grid = np.indices(tuple(sizes)).reshape(len(sizes), -1)
    positions: Array = first + (grid * np.array(strides, np.int64)[:, None]).sum(axis=0)
    return positions


def test_packed_copies_become_one_row_of_wide_elements() -> None:
    folded = fold_copy(View.packed((4, 6, 8)), View.packed((4, 6, 8)), 8)
    assert folded == FoldedCopy(128, (12,), (1,), (1,), 0, 0)


def _check_slice(benches: list[Workbench], desc: dml.Slice1) -> None:
    """A SLICE1 of random bytes gives what NumPy's indices give, and leaves the bytes between its elements."""
    data_type = desc.input_tensor.data_type
    random = np.random.default_rng(1)
    dtype = np.dtype(f"u{data_type.size_in_bytes}")
    for bench in benches:
        check_operator(desc, bench.device.feature_level)
        contents = random.integers(0, 256, desc.input_tensor.size_in_bytes, np.uint8)
        before = np.full(desc.output_tensor.size_in_bytes, 0xCD, np.uint8)
        _, after = bench.run(desc, [contents, before], [TensorPlacement(0), TensorPlacement(1)])
        windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
        starts = [o + (s - 1 if step < 0 else 0) for o, s, step in windows]
        steps = [a * b for a, b in zip(desc.input_window_strides, desc.input_tensor.element_strides, strict=True)]
        first = sum(a * b for a, b in zip(starts, desc.input_tensor.element_strides, strict=True))
        expected = before.copy()
        positions = _positions(desc.output_tensor.sizes, desc.output_tensor.element_strides, 0)
        source = contents[: contents.size // dtype.itemsize * dtype.itemsize].view(dtype)
        target = expected[: expected.size // dtype.itemsize * dtype.itemsize].view(dtype)
        target[positions] = source[_positions(desc.output_tensor.sizes, steps, first)]
        assert np.array_equal(after, expected), f"{bench.device.info.name}: {desc}"


def _random_slice(seed: int, data_type: dml.DataType) -> Any:
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 5))
    taken = [int(size) for size in random.choice([1, 2, 3, 4, 7, 8, 16, 33], rank)]
    strides = [int(step) for step in random.choice([1, 1, 1, -1, 2, -3], rank)]
    windows = [1 + (size - 1) * abs(step) for size, step in zip(taken, strides, strict=True)]
    offsets = [int(offset) for offset in random.choice([0, 0, 1, 4, 5], rank)]
    whole = [offset + window + int(random.integers(0, 3)) for offset, window in zip(offsets, windows, strict=True)]

    def tensor(sizes: list[int]) -> dml.TensorDesc:
        steps = [0] * rank
        step = int(random.choice([1, 1, 1, 2]))
        order = random.permutation(rank) if random.random() < 0.4 else range(rank - 1, -1, -1)
        for axis in order:
            steps[axis] = step
            step = step * sizes[axis] + int(random.choice([0, 0, 1, 8]))
        return dml.TensorDesc(data_type, sizes, steps)

    return Slice1(
        input_tensor=tensor(whole),
        output_tensor=tensor(taken),
        dimension_count=rank,
        input_window_offsets=offsets,
        input_window_sizes=windows,
        input_window_strides=strides,
    )


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("data_type", [dml.UINT8, dml.FLOAT16, dml.FLOAT32, dml.INT64], ids=lambda t: t.name)
def test_windows_of_any_layout(
    benches: list[Workbench], data_type: dml.DataType, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both by parameters and by constants, as tensors of any size are."""
    all_compute_as_gpus(monkeypatch)
    if size == "large":
        monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    for seed in range(40 if size == "small" else 10):
        _check_slice(benches, _random_slice(seed, data_type))


@pytest.mark.parametrize("data_type", [dml.UINT8, dml.FLOAT16, dml.FLOAT32, dml.INT64], ids=lambda t: t.name)
def test_transpositions_go_through_tiles(
    benches: list[Workbench], data_type: dml.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch)
    desc = Slice1(
        input_tensor=dml.TensorDesc(data_type, (2, 160, 132), (160 * 132, 1, 160)),
        output_tensor=dml.TensorDesc(data_type, (1, 144, 128)),
        dimension_count=3,
        input_window_offsets=(1, 16, 4),
        input_window_sizes=(1, 144, 128),
        input_window_strides=(1, 1, 1),
    )
    _check_slice(benches, desc)
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    (step,) = lower(desc, GPU).steps
    assert isinstance(step.kernel, ElementwiseKernel)
    assert step.kernel.variant.endswith(".tiled")
    _check_slice(benches, desc)


def _join(data_type: dml.DataType, parts: Sequence[tuple[int, ...]], axis: int) -> Any:
    total = sum(part[axis] for part in parts)
    sizes = (*parts[0][:axis], total, *parts[0][axis + 1 :])
    return Join(
        input_count=len(parts),
        input_tensors=[dml.TensorDesc(data_type, part) for part in parts],
        output_tensor=dml.TensorDesc(data_type, sizes),
        axis=axis,
    )


@pytest.mark.parametrize(
    ("data_type", "length", "is_independent"),
    [
        (dml.FLOAT32, 3, True),
        (dml.UINT8, 4, True),
        (dml.UINT8, 3, False),
        (dml.FLOAT16, 2, True),
        (dml.FLOAT16, 3, False),
    ],
)
def test_parts_wait_for_each_other_only_where_they_share_words(
    data_type: dml.DataType, length: int, is_independent: bool
) -> None:
    steps = lower(_join(data_type, [(5, length)] * 3, 1), GPU).steps
    assert [step.is_independent for step in steps] == [False, is_independent, is_independent]


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
def test_every_element_has_one_invocation(bits: int) -> None:
    """Of large tensors: enough lanes for every axis, however long."""
    for sizes in ((70000,), (3, 5, 70001), (2, 3, 4, 5, 6000), (1025, 1000), (64, 64, 64, 3)):
        folded = FoldedCopy(
            bits, sizes, tuple(math.prod(sizes[:i]) for i in range(len(sizes))), (7,) * len(sizes), 0, 0
        )
        kernel: Any = copies.kernel_of(folded, GPU, "SLICE1")
        axis, interleave = kernel.constants["LANE_AXIS"], kernel.constants["INTERLEAVE"]
        counted = [kernel.constants[f"SIZE_{number}"] for number in range(len(sizes))]
        along = -(-counted[axis] // (4 * interleave)) * interleave
        assert kernel.parameters[0] == math.prod(counted) // counted[axis] * along
        assert along * 4 < 2 * counted[axis]


@pytest.mark.parametrize(
    ("columns", "variant"),
    [(512, "element_wise_identity.uint64.rows"), (514, "copy.bits64.large"), (515, "copy.bits32.large")],
)
def test_rows_of_whole_vectors_move_as_such_on_gpus(
    benches: list[Workbench], columns: int, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch)
    given = np.arange(64 * columns, dtype=np.float32).reshape(64, columns)
    tile = dml.Tile(
        input_tensor=dml.TensorDesc(dml.FLOAT32, given.shape),
        output_tensor=dml.TensorDesc(dml.FLOAT32, (128, 3 * columns)),
        repeats_count=2,
        repeats=(2, 3),
    )
    assert variants(tile) == [variant]
    for bench in benches:
        (result,) = bench.device.run(tile, {"InputTensor": given}).values()
        assert np.array_equal(result, np.tile(given, (2, 3)))


@pytest.mark.parametrize("as_gpus", [False, True], ids=["own", "gpu"])
@pytest.mark.parametrize("name", ["FILL_VALUE_CONSTANT", "PADDING", "TILE", "DEPTH_TO_SPACE", "SLICE_GRAD", "UNFOLD"])
@pytest.mark.parametrize("data_type", [dml.INT8, dml.FLOAT16, dml.FLOAT32], ids=lambda t: t.name)
def test_samples_as_large_tensors_are(
    benches: list[Workbench], name: str, data_type: dml.DataType, as_gpus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fills and copies of all shapes by constants instead of parameters, and in vectors and tiles on GPUs."""
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    cases = [case for case in sample_cases() if case.desc_class.operator_name == name]
    case = next(case for case in cases if {given for _, given in case.data_types} == {data_type})
    for sample in itertools.islice(case.samples(), 2):
        check_sample(benches, sample)
