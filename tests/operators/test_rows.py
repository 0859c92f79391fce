"""Operators along axes: a row's results follow from its elements and their number alone, wherever the row lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, axes_attributes, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import Judge, Workbench, describe
from dmlvk.kernels import kernel as kernel_module
from dmlvk.kernels.rows import along_axes
from dmlvk.kernels.target import CPU, GPU
from dmlvk.operators import OPERATORS, OperatorDesc
from tests.effort import TAKES_TURNS
from tests.operators.geometries import Geometry, packed
from tests.operators.test_geometry import check_geometry
from tests.targets import all_compute_as_gpus, kernel_of

Array = npt.NDArray[Any]

CASES = [case for case in value_cases() if (case.desc_class.declaration.pattern == "rows")]
NAMING_AXES = [case for case in CASES if axes_attributes(case.desc_class, (0,))]
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# The operators that name no axes are computed by the same kernels.
EACH_NAMING_AXES = pytest.mark.parametrize("case", NAMING_AXES, ids=lambda case: case.name)

LENGTHS = (1, 3, 16, 17, 130, 257, 1024, 3001, 4097)


def test_there_are_cases_of_every_operator_along_axes() -> None:
    names = {name for name, operator in OPERATORS.items() if (operator.declaration.pattern == "rows")}
    assert len(names) == 6
    assert {case.desc_class.operator_name for case in CASES} == names
    assert {case.desc_class.operator_name for case in NAMING_AXES} == {name for name in names if name.endswith("1")}


@EACH_NAMING_AXES
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_many_lengths_lie_anywhere(case: ValueCase, length: int, benches: list[Workbench]) -> None:
    """Every geometry with every length and operator; half of them with FLOAT32, the others with FLOAT16.

    Where tests take turns half of that: every geometry with every operator and every second length.
    """
    rows = 5 if length > 500 else 37
    sizes = (rows, length)
    turned = (1, rows)
    listed = (
        Geometry("packed", sizes, (length, 1), ((length, 1),), offsets=(0,)),
        Geometry("output turned", sizes, turned, ((length, 1),)),
        Geometry("input turned", sizes, (length, 1), (turned,)),
        Geometry("odd gaps", sizes, (length + 1 + length % 2, 1), ((length + 3, 1),)),
        Geometry("gaps between elements", sizes, (3 * length + 1, 3), ((2 * length, 2),), offsets=(48, 16)),
        Geometry("one row for all", sizes, (length, 1), ((0, 1),)),
        Geometry("one element for each row", sizes, (length, 1), ((1, 0),)),
    )
    step = 4 if TAKES_TURNS else 2
    for geometry in listed[(NAMING_AXES.index(case) + LENGTHS.index(length)) % step :: step]:
        check_geometry(benches, case, geometry)


def _results(bench: Workbench, desc: OperatorDesc, x: Array) -> Array:
    return bench.device.run(desc, {"InputTensor": x})["OutputTensor"]


@EACH_NAMING_AXES
@pytest.mark.parametrize("factors", [(2, 3), (4, 5), (16, 16), (7, 37), (32, 32), (41, 61)])
def test_the_same_row_gives_the_same_bits_everywhere(
    case: ValueCase, factors: tuple[int, int], benches: list[Workbench]
) -> None:
    """Alone, among others, along one axis or two, turned in memory: the order of the sum is that of the elements.

    Alone on every device, then on one after the other: the devices change places from case to case.
    """
    height, width = factors
    length = height * width
    random = np.random.default_rng(length)
    data_type = case.data_types[0][1]
    row = random.normal(0, 4, length).astype(data_type.numpy_dtype)
    others = random.normal(0, 4, (6, length)).astype(data_type.numpy_dtype)
    others[2] = row
    shapes: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, Array, Any]] = [
        ((length,), (0,), None, row, np.s_[:]),
        ((6, length), (1,), None, others, np.s_[2]),
        ((6, length), (1,), (1, 6), others, np.s_[2]),
        ((length, 6), (0,), None, others.T, np.s_[:, 2]),
        ((height, width), (0, 1), None, row, np.s_[:]),
        ((height, width), (1, 0), (1, height), row, np.s_[:]),
        ((6, height, width), (2, 1), None, others, np.s_[2]),
        ((height, 6, width), (0, 2), None, others.reshape(6, height, width).transpose(1, 0, 2), np.s_[:, 2]),
        ((height, 6, 1, width), (3, 0), (1, height * width + 1, 5, height),
         others.reshape(6, height, width).transpose(1, 0, 2), np.s_[:, 2]),
    ]  # fmt: skip
    found = set()
    for number, (sizes, axes, strides, values, chosen) in enumerate(shapes):
        own = strides or packed(sizes)
        desc = describe(case, sizes, [own, packed(sizes)], axes_attributes(case.desc_class, axes))
        turn = (number + width + NAMING_AXES.index(case)) % len(benches)
        for bench in benches if number == 0 else [benches[turn]]:
            result = np.ascontiguousarray(_results(bench, desc, np.ascontiguousarray(values).reshape(sizes))[chosen])
            found.add(as_bits(result).tobytes())
    assert len(found) == 1


@EACH_NAMING_AXES
@pytest.mark.parametrize("length", [7, 17, 100, 130, 1000, 1025, 4096])
def test_processors_and_gpus_compute_the_same_bits(
    case: ValueCase, length: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invocation for every row, as on processors, and one for every lane of a row, as on GPUs; with ties and NaN."""
    random = np.random.default_rng(length)
    x = random.normal(0, random.choice([0.1, 3, 60], (40, 1)), (40, length))
    x = np.where(random.random(x.shape) < 0.1, x.max(axis=1, keepdims=True), x)
    x[1::7] += random.choice([-500, 0, 500, 20000], (6, 1))
    x[3::9] = np.where(random.random(x[3::9].shape) < 0.3, -np.inf, x[3::9])
    x[5::16, -1] = 40 + x[5::16].max(axis=1)
    x[6, 0], x[7, -1], x[8] = np.nan, np.inf, -np.inf
    x = x.astype(case.data_types[0][1].numpy_dtype)
    desc = describe(case, x.shape, [(length, 1)] * 2, axes_attributes(case.desc_class, (1,)))
    found = set()
    for rows in (1, 1000):
        monkeypatch.setattr(along_axes, "ROWS_FOR_PROCESSORS", rows)
        assert kernel_of(desc, CPU).variant.endswith("alone" if rows == 1 else "in_registers")
        found |= {as_bits(_results(bench, desc, x)).tobytes() for bench in benches}
    assert len(found) == 1


@EACH_NAMING_AXES
def test_rows_that_begin_anywhere_in_a_vector_go_through_shared_memory_on_gpus(
    case: ValueCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLOAT16 of odd lengths, of which the last work group has fewer rows; with the bits that processors make."""
    for length in (7, 77, 1001):
        x = np.random.default_rng(length).normal(0, 4, (45, length)).astype(np.float16)
        tensor = dml.TensorDesc(dml.FLOAT16, x.shape)
        members: dict[str, Any] = {"input_tensor": tensor, "output_tensor": tensor}
        desc = case.desc_class(**members, **axes_attributes(case.desc_class, (1,)))
        kernel = kernel_of(desc, GPU)
        assert isinstance(kernel, kernel_module.ElementwiseKernel)
        assert kernel.geometry[-1] == kernel.work_group_size // kernel.geometry[0] * length
        own = [_results(bench, desc, x) for bench in benches]
        with monkeypatch.context() as patched:
            all_compute_as_gpus(patched)
            as_gpus = [_results(bench, desc, x) for bench in benches]
        assert len({as_bits(result).tobytes() for result in (*own, *as_gpus)}) == 1


@EACH_NAMING_AXES
@pytest.mark.parametrize("rows_for_processors", [16, 10_000])
def test_shares_that_are_barely_normal(
    case: ValueCase, rows_for_processors: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A term's second word is far smaller than the first; were it denormal, one device would flush it, another not."""
    monkeypatch.setattr(along_axes, "ROWS_FOR_PROCESSORS", rows_for_processors)
    x = np.random.default_rng(3).choice([-1, 1], (500, 16)) * 2.0 ** -np.linspace(20, 28, 16)
    x[:, 5] = np.linspace(86.6, 87.33, len(x))
    x = x.astype(case.data_types[0][1].numpy_dtype)
    desc = describe(case, x.shape, [(16, 1)] * 2, axes_attributes(case.desc_class, (1,)))
    judge = Judge(desc, [x])
    results = [_results(bench, desc, x) for bench in benches]
    for bench, result in zip(benches, results, strict=True):
        fault = judge.fault(bench.device.info.name, result)
        assert fault is None, fault
    assert len({as_bits(result).tobytes() for result in results}) == 1


@pytest.mark.sweep
@EACH_NAMING_AXES
@pytest.mark.parametrize("rows_for_processors", [16, 10_000])
def test_work_groups_in_several_rows(
    case: ValueCase, rows_for_processors: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups beyond what one dimension can count lie in rows: here with rows of 5 instead of 65,535."""
    # A device tries its conversions of FLOAT16 when they are first used, with kernels that need more than these rows.
    check_geometry(benches, case, Geometry("one row", (1, 3), (3, 1), ((3, 1),)))
    monkeypatch.setattr(kernel_module, "WORK_GROUPS_PER_ROW", 5)
    monkeypatch.setattr(along_axes, "ROWS_FOR_PROCESSORS", rows_for_processors)
    # Lengths whose work groups hold 128, 64, 2 rows and 1; where an invocation takes a whole row, 256.
    for length, rows in ((3, 1281), (3, 2 * 1280), (30, 64 * 11 + 1), (700, 2 * 5 + 1), (1500, 13), (700, 2 * 25)):
        check_geometry(benches, case, Geometry("many rows", (rows, length), (length, 1), ((length, 1),)))
    beyond = describe(case, (51, 700), [(700, 1)] * 2, axes_attributes(case.desc_class, (1,)))
    with pytest.raises(dml.DeviceLimitError, match=f"^{beyond.operator_name}: the tensor takes "):
        kernel_of(beyond)


@EACH_CASE
def test_execution_in_place_is_refused(case: ValueCase, benches: list[Workbench]) -> None:
    """The pages do not permit it."""
    desc = describe(case, (3, 8), [(8, 1)] * 2, axes_attributes(case.desc_class, (1,)))
    device = benches[0].device
    compiled = device.compile_operator(device.create_operator(desc))
    with device.create_buffer(96) as buffer:
        table = device.create_binding_table(compiled)
        table.bind_inputs([dml.BufferBinding(buffer)])
        with pytest.raises(dml.InvalidArgumentError, match="this operator cannot execute in place"):
            table.bind_outputs([dml.BufferBinding(buffer)])


@EACH_NAMING_AXES
def test_rows_of_more_than_a_million_elements(case: ValueCase, benches: list[Workbench]) -> None:
    """One row, whose peak is among the last elements: sums of a million terms keep the promise."""
    length = 2**20 + 5
    data_type = case.data_types[0][1]
    row = np.random.default_rng(7).normal(0, 2, (1, length)).astype(data_type.numpy_dtype)
    row[0, -3] = 11
    desc = describe(case, row.shape, [(length, 1)] * 2, axes_attributes(case.desc_class, (1,)))
    judge = Judge(desc, [row])
    results = [_results(bench, desc, row) for bench in benches]
    for bench, result in zip(benches, results, strict=True):
        fault = judge.fault(bench.device.info.name, result)
        assert fault is None, fault
    assert len({as_bits(result).tobytes() for result in results}) == 1
