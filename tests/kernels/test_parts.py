"""JOIN and SPLIT on GPUs: up to four tensors in one launch, where all are made of whole vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators.movement import Join, Split
from tests.targets import all_compute_as_gpus, every_device

_MANY = dataclasses.replace(GPU, buffers=8)


@pytest.fixture(scope="module")
def devices() -> Iterator[list[dml.Device]]:
    """Every device."""
    with every_device() as devices:
        yield devices


def _both(data_type: dml.DataType, sizes: Sequence[tuple[int, ...]], axis: int) -> tuple[Any, Any]:
    """JOIN of tensors, and SPLIT into them."""
    total = sum(size[axis] for size in sizes)
    whole = dml.TensorDesc(data_type, (*sizes[0][:axis], total, *sizes[0][axis + 1 :]))
    tensors, count = [dml.TensorDesc(data_type, size) for size in sizes], len(sizes)
    join = Join(input_count=count, input_tensors=tensors, output_tensor=whole, axis=axis)
    return join, Split(input_tensor=whole, output_count=count, output_tensors=tensors, axis=axis)


def _variants(desc: dml.OperatorDesc, target: Target) -> list[str]:
    return [step.kernel.variant for step in lower(desc, target).steps]


@pytest.mark.parametrize(
    ("data_type", "sizes", "axis", "joined"),
    [
        (dml.FLOAT32, [(16, 1024)] * 4, 0, ["parts.join4"]),
        (dml.FLOAT32, [(64, 256)] * 4, 1, ["parts.join4"]),
        (dml.FLOAT32, [(128, 4), (128, 1024), (128, 512)], 1, ["parts.join3"]),
        (dml.FLOAT16, [(7, 64, 64)] * 7, 1, ["parts.join4", "parts.join3"]),
        (dml.UINT8, [(3, 4, 8192)] * 5, 1, ["parts.join4", "element_wise_identity.uint64.rows"]),
        (dml.INT64, [(7, 3, 50), (7, 500, 50)], 1, ["parts.join2"]),
        # Not made of whole vectors, or not behind one another.
        (dml.FLOAT32, [(7, 301, 50), (7, 501, 50)], 1, ["copy.bits64.large"] * 2),
        (dml.FLOAT32, [(3, 501, 50), (3, 500, 50)], 1, ["copy.bits64.large"] * 2),
    ],
)
def test_all_parts_have_one_launch(
    devices: list[dml.Device],
    data_type: dml.DataType,
    sizes: list[tuple[int, ...]],
    axis: int,
    joined: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_compute_as_gpus(monkeypatch)
    join, split = _both(data_type, sizes, axis)
    assert _variants(join, _MANY) == joined
    assert _variants(split, _MANY) == [name.replace("parts.join", "parts.split") for name in joined]
    random = np.random.default_rng(1)
    given = [random.integers(0, 128, size).astype(data_type.numpy_dtype) for size in sizes]
    whole = np.concatenate(given, axis)
    for device in devices:
        named = {f"input_tensors[{number}]": part for number, part in enumerate(given)}
        (result,) = device.run(join, named).values()
        assert np.array_equal(result, whole)
        for result, part in zip(device.run(split, {"InputTensor": whole}).values(), given, strict=True):
            assert np.array_equal(result, part)


def test_devices_of_few_buffers_have_fewer_parts_in_a_launch() -> None:
    join, _ = _both(dml.FLOAT32, [(64, 256)] * 8, 1)
    assert GPU.buffers == 4
    assert _variants(join, GPU) == ["parts.join3", "parts.join3", "parts.join2"]
    assert _variants(join, dataclasses.replace(GPU, buffers=2)) == ["copy.bits128.small"] * 8


def test_processors_and_small_tensors_have_a_launch_for_each_part() -> None:
    small, _ = _both(dml.FLOAT32, [(4, 256)] * 4, 1)
    large, _ = _both(dml.FLOAT32, [(64, 256)] * 4, 1)
    assert _variants(small, _MANY) == ["copy.bits128.small"] * 4
    assert _variants(large, CPU) == ["copy.bits128.small"] * 4


def test_gaps_between_parts_stay_as_they_are(devices: list[dml.Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the whole lie apart."""
    all_compute_as_gpus(monkeypatch)
    part = dml.TensorDesc(dml.FLOAT32, (64, 256))
    whole = dml.TensorDesc(dml.FLOAT32, (64, 512), (528, 1))
    join = Join(input_count=2, input_tensors=[part, part], output_tensor=whole, axis=1)
    assert _variants(join, _MANY) == ["parts.join2"]
    given = np.arange(2 * 64 * 256, dtype=np.float32).reshape(2, 64, 256)
    for device in devices:
        (result,) = device.run(join, {"input_tensors[0]": given[0], "input_tensors[1]": given[1]}).values()
        assert np.array_equal(result, np.concatenate(list(given), 1))
