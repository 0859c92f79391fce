"""Every operator writes its output's elements, wherever they lie, and nothing else; and never its inputs."""

from __future__ import annotations

import dataclasses
import math
import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.conformance import patterns
from dmlvk.conformance.cases import SWEPT, ValueCase, axes_attributes, sweep_sets, value_cases
from dmlvk.conformance.execution import Bytes, Judge, TensorPlacement, Workbench, describe, element_view
from dmlvk.kernels import access_orders
from dmlvk.kernels import kernel as kernel_module
from dmlvk.kernels.elementwise import elementwise
from dmlvk.kernels.kernel import WORK_GROUP_SIZE
from dmlvk.kernels.layout import fold
from dmlvk.kernels.target import CPU, GPU
from dmlvk.kernels.variants import lanes, operand_types, tile_size
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc, check_operator
from dmlvk.runtime import shader_forms
from tests.effort import IS_QUICK, TAKES_TURNS
from tests.operators.geometries import FIXED, REPEATED, TRANSPOSED, Geometry, geometries, overlaps
from tests.targets import all_compute_as_gpus, kernel_of

EXAMPLES = 20 if IS_QUICK else 120
"""Random geometries for an operator that stands for many; the others share its access orders: a twentieth."""

SHARE = 3 if IS_QUICK else 1
"""Of the geometries that operators take in turn because they share an access order, each takes so many times fewer."""

_TAIL = 64  # guard bytes behind each tensor


def _one_case_for_each_width() -> list[ValueCase]:
    """For each combination of element widths and of inputs that may be in place one operator and its data types.

    Operators with the same widths share the access order, which is what geometries are about: inputs of equal widths
    are walked over in the same way, and from three inputs on their number makes no difference to any of them.
    """
    chosen: dict[tuple[object, ...], ValueCase] = {}
    for case in value_cases():
        inputs = [data_type.size_in_bits for _, data_type in case.tensors("input")]
        widths = (*sorted(set(inputs)), min(len(inputs), 3), case.tensors("output")[0][1].size_in_bits)
        are_in_place = tuple(
            field.attribute in case.desc_class.declaration.in_place for field, _ in case.tensors("input")
        )
        key = (widths, are_in_place, (case.desc_class.declaration.pattern == "rows"))
        if key not in chosen or _preference(case) > _preference(chosen[key]):
            chosen[key] = case
    return list(chosen.values())


def _preference(case: ValueCase) -> tuple[bool, int]:
    """Not POW of integers by floats, which takes drivers a second to compile, anew for every geometry."""
    types = [data_type for _, data_type in case.data_types]
    is_slow = case.desc_class.operator_name == "ELEMENT_WISE_POW" and len({t.is_float for t in types}) == 2
    return not is_slow, sum(t in (dml.INT8, dml.FLOAT16, dml.FLOAT32, dml.INT64) for t in types)


def _in_place_possible(desc_class: type[OperatorDesc]) -> bool:
    return bool(desc_class.declaration.in_place)


def _fitting(desc_class: type[OperatorDesc], geometry: Geometry) -> Geometry:
    """The last dimensions of a geometry, as many as an operator takes."""
    most = desc_class.declaration.most_effective_dimensions
    if most is None:
        return geometry
    return dataclasses.replace(
        geometry,
        sizes=geometry.sizes[-most:],
        output=geometry.output[-most:],
        inputs=tuple(strides[-most:] for strides in geometry.inputs),
    )


def _attributes(desc_class: type[OperatorDesc], data_type: dml.DataType, seed: int, dimensions: int) -> dict[str, Any]:
    """Mostly without optional attributes: they change the values, not the places. Axes: any, in any order."""
    if desc_class.declaration.pattern == "rows":
        random = np.random.default_rng(seed)
        axes = random.permutation(dimensions)[: random.integers(1, dimensions + 1)]
        return axes_attributes(desc_class, axes.tolist())
    sets = sweep_sets(desc_class, data_type, optional=seed % 64 == 0) or sweep_sets(
        desc_class, data_type, optional=False
    )
    return sets[seed % len(sets)]


def _fill(contents: Bytes, offset: int, data_type: dml.DataType, random: np.random.Generator) -> None:
    """Random bytes everywhere; from the offset on, half of the elements are special values of the type (and zeros)."""
    contents[:] = random.integers(0, 256, contents.size, dtype=np.uint8)
    size = data_type.size_in_bytes
    whole = (contents.size - offset) // size
    elements = contents[offset : offset + whole * size].view(patterns.bits_dtype(data_type))
    special = patterns.special_patterns(data_type)
    replaced = random.integers(0, 4, whole)
    elements[replaced == 0] = random.choice(special, int((replaced == 0).sum()))
    elements[replaced == 1] = 0


def check_geometry(benches: Sequence[Workbench], case: ValueCase, geometry: Geometry) -> None:
    """Runs an operator on every device with tensors that lie as the geometry says, and compares all buffers whole."""
    geometry = _fitting(case.desc_class, geometry)
    label = f"{case.name}, {geometry}"
    seed = zlib.crc32(label.encode())
    random = np.random.default_rng(seed)
    inputs = case.tensors("input")
    strides = [*(geometry.input_strides(i) for i in range(len(inputs))), geometry.output]
    attributes = _attributes(case.desc_class, case.data_types[0][1], seed, len(geometry.sizes))
    desc = describe(case, geometry.sizes, strides, attributes)
    tensors = [tensor for _, tensor in desc.inputs + desc.outputs if tensor is not None]
    offsets = [*(geometry.offset(i + 1) for i in range(len(inputs))), geometry.offset(0)]
    placements = [
        TensorPlacement(i, offset, t.size_in_bytes) for i, (offset, t) in enumerate(zip(offsets, tensors, strict=True))
    ]
    if geometry.in_place:
        allowed = case.desc_class.declaration.in_place_inputs
        placements[-1] = placements[[field.attribute for field, _ in inputs].index(allowed[0])]
    contents: list[Bytes] = []
    for placement, tensor in zip(placements, tensors, strict=True):
        if placement.buffer == len(contents):
            buffer = np.empty(placement.offset + tensor.size_in_bytes + _TAIL, np.uint8)
            _fill(buffer, placement.offset, tensor.data_type, random)
            contents.append(buffer)
    views = [
        element_view(contents[placement.buffer][placement.offset :], tensor.data_type, geometry.sizes, tensor_strides)
        for placement, tensor, tensor_strides in zip(placements, tensors, strides, strict=True)
    ]
    logical = [np.ascontiguousarray(view).copy() for view in views[:-1]]
    expected = [buffer.copy() for buffer in contents]
    output, output_type = placements[-1], tensors[-1].data_type
    target = element_view(expected[output.buffer][output.offset :], output_type, geometry.sizes, geometry.output)
    judge = Judge(desc, logical)
    for bench in benches:
        where = f"{bench.device.info.name}: {desc.operator_name}, {label}, {desc}"
        after = bench.run(desc, contents, placements)
        got = element_view(after[output.buffer][output.offset :], output_type, geometry.sizes, geometry.output)
        fault = judge.fault(where, np.ascontiguousarray(got))
        assert fault is None, fault
        target[...] = judge.expected
        for number, (bytes_after, bytes_expected) in enumerate(zip(after, expected, strict=True)):
            wrong = np.flatnonzero(bytes_after != bytes_expected)
            if wrong.size:
                what = "outside the output's elements" if number == output.buffer else "of an input"
                raise AssertionError(
                    f"{where}: {wrong.size} bytes {what} changed; the first is byte {wrong[0]} of buffer {number} "
                    f"(tensor from {placements[number].offset}): was {bytes_expected[wrong[0]]:#04x}, "
                    f"is {bytes_after[wrong[0]]:#04x}"
                )


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(_one_case_for_each_width())), ids=lambda value: getattr(value, "name", "")
)
def test_listed_geometries(number: int, case: ValueCase, benches: list[Workbench]) -> None:
    """All of them for the operators that stand for many; each of them for an eighth of the others, in turn.

    Each geometry is a pipeline that a driver makes, which takes long for long functions. An access order's way through
    memory is the same text for every function; ``dmlvk conformance`` takes every access order with every one of them.
    """
    step = SHARE * (1 if case.desc_class.operator_name in SWEPT else 8)
    for geometry in FIXED[number % step :: step]:
        if not geometry.in_place or _in_place_possible(case.desc_class):
            check_geometry(benches, case, geometry)


@pytest.mark.parametrize(
    ("number", "case"),
    [
        (number, case)
        for number, case in enumerate(_one_case_for_each_width())
        if case.desc_class.declaration.pattern != "rows"
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_results_that_repeat_along_an_axis(
    number: int, case: ValueCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored several times by one invocation, as soon as that leaves enough of them: here always.

    As with the listed geometries, operators that share an access order with one that is tested whole take some of them
    in turn.
    """
    monkeypatch.setattr(access_orders, "_FEWEST_INVOCATIONS", 1)
    step = 1 if case.desc_class.operator_name in SWEPT else 4
    for geometry in REPEATED[number % step :: step]:
        check_geometry(benches, case, geometry)


@pytest.mark.parametrize("name", ["sign-int8", "sign-float16", "add-float32", "sign-int64", "if-uint8-int16"])
def test_transpositions_on_processors(name: str, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    """They take another access order there than on GPUs."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    case = next(case for case in value_cases() if case.name == name)
    access_orders_taken = set()
    for geometry in TRANSPOSED:
        strides = [*(geometry.input_strides(i) for i in range(len(case.data_types) - 1)), geometry.output]
        desc = describe(case, geometry.sizes, strides, {})
        on_gpus, on_processors = (kernel_of(desc, target).variant.rpartition(".")[2] for target in (GPU, CPU))
        access_orders_taken.add((on_gpus, on_processors))
        check_geometry(benches, case, geometry)
    assert ("tiled", "strided") in access_orders_taken
    assert not any(on_processors == "tiled" for _, on_processors in access_orders_taken)


@pytest.mark.parametrize("desc_class", REGULAR_OPERATORS.values(), ids=list(REGULAR_OPERATORS))
def test_any_geometry(desc_class: type[OperatorDesc], benches: list[Workbench]) -> None:
    cases = [case for case in value_cases() if case.desc_class is desc_class]

    @settings(max_examples=EXAMPLES if desc_class.operator_name in SWEPT else EXAMPLES // 20)
    @given(st.sampled_from(cases), geometries(may_be_in_place=_in_place_possible(desc_class)))
    def check(case: ValueCase, geometry: Geometry) -> None:
        check_geometry(benches, case, geometry)

    check()


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(_one_case_for_each_width())), ids=lambda value: getattr(value, "name", "")
)
def test_work_groups_in_several_rows(
    number: int, case: ValueCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups beyond what one dimension can count lie in rows: here with rows of 5 instead of 65,535.

    As with the listed geometries, operators that share an access order with one that is tested whole take some of them
    in turn; where tests take turns, one each.
    """
    if case.desc_class.declaration.pattern == "rows":
        return  # tests/operators/test_rows.py has these
    # A device tries its conversions of FLOAT16 when they are first used, with kernels that need more than these rows.
    check_geometry(benches, case, Geometry("one work group", (7,), (1,), ((1,),)))
    monkeypatch.setattr(kernel_module, "WORK_GROUPS_PER_ROW", 5)
    group = lanes("contiguous", operand_types(case.desc_class, dict(case.data_types))) * WORK_GROUP_SIZE
    name = "rows of 5 work groups"
    lengths = (5 * group, 5 * group + 1, 6 * group, 11 * group - 7, 25 * group)
    listed = [Geometry(name, (length,), (1,), ((1,),)) for length in lengths]
    listed += [Geometry(name, (rows, 2), (4, 1), ((1, rows),)) for rows in (2051, 6400)]
    step = 1 if case.desc_class.operator_name in SWEPT else len(listed) if TAKES_TURNS else 3
    for geometry in listed[number % step :: step]:
        check_geometry(benches, case, geometry)
    beyond = describe(
        case,
        (6401, 2),
        [(1, 6401)] * (len(case.data_types) - 1) + [(4, 1)],
        _attributes(case.desc_class, case.data_types[0][1], 1, 2),
    )
    with pytest.raises(dml.DeviceLimitError, match=f"^{beyond.operator_name}: the tensor takes 6401 invocations; "):
        kernel_of(beyond)


TWO_VECTORS = [
    *("sign-int8", "exp-float32", "add-float16", "if-uint8-int16", "add-int64", "logical_greater_than-float32-uint8")
]
"""Cases that stand for all widths, inputs by one, two and three."""


@pytest.mark.parametrize("name", TWO_VECTORS)
def test_two_vectors_of_an_invocation(name: str, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    """As on GPUs, for tensors that are large there: whole work groups, parts of one, and rows of work groups."""
    monkeypatch.setattr(access_orders, "_FEWEST_WITH_TWO_VECTORS", 0)
    monkeypatch.setattr(elementwise, "_takes_a_while", lambda desc, variant: True)
    case = next(case for case in value_cases() if case.name == name)
    types = operand_types(case.desc_class, dict(case.data_types))
    group = lanes("contiguous", types) * WORK_GROUP_SIZE
    for length in (lanes("contiguous", types), group + 1, 2 * group, 3 * group - 7, 4 * group):
        check_geometry(benches, case, Geometry("two groups an invocation", (length,), (1,), ((1,),)))
    row = lanes("rows", types) * 3
    for rows in (1, 170, 171, 341, 400):  # of 3 vectors; 512 vectors are a work group's
        sizes = (rows, row)
        check_geometry(benches, case, Geometry("two vectors an invocation", sizes, (row, 1), ((0, 1), (row, 1))))
    monkeypatch.setattr(kernel_module, "WORK_GROUPS_PER_ROW", 5)
    for length in (11 * group - 7, 22 * group):
        check_geometry(benches, case, Geometry("rows of 5 work groups", (length,), (1,), ((1,),)))


@pytest.mark.parametrize("transposed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_tiles_of_those_inputs_that_are_transposed(transposed: tuple[int, ...], benches: list[Workbench]) -> None:
    """Of IF with 64-bit elements all but one at once: more do not fit into shared memory. Whole tiles, and parts."""
    case = next(case for case in value_cases() if case.name == "if-uint8-int64")
    for rows, columns in ((64, 96), (70, 81), (17, 9)):
        straight, turned = (columns, 1), (1, rows + -rows % 4)
        inputs = tuple(turned if number in transposed else straight for number in range(3))
        kernel = kernel_of(describe(case, (rows, columns), [*inputs, straight], {}))
        assert kernel.variant.endswith(".tiled")
        check_geometry(benches, case, Geometry("tiles of some inputs", (rows, columns), straight, inputs))


@pytest.mark.parametrize("name", ["sign-int8", "add-uint8", "exp-float32", "is_nan-float32-uint8", "sign-int32"])
def test_two_tiles_of_a_work_group(name: str, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    """As on GPUs, for tensors that are large there: whole tiles, parts of them, and work groups that have one only."""
    monkeypatch.setattr(access_orders, "_FEWEST_WITH_TWO_TILES", 0)
    case = next(case for case in value_cases() if case.name == name)
    side = tile_size(operand_types(case.desc_class, dict(case.data_types)))
    tiles_along = set()
    for number, (lines, row) in enumerate(((2, 1), (4, 2), (3, 1), (1, 2), (3, 3), (1, 1))):
        for missing in (0, 4, 5)[number % SHARE :: SHARE]:
            sizes = (lines * side - missing, row * side - missing)
            transposed = (1, sizes[0] + -sizes[0] % 4)
            geometry = Geometry("two tiles", sizes, (row * side + 4, 1), (transposed, (row * side, 1)))
            strides = [*(geometry.input_strides(i) for i in range(len(case.data_types) - 1)), geometry.output]
            kernel = kernel_of(describe(case, sizes, strides, {}))
            own = 2 + 8 * (1 + len(strides))  # what the access order has for itself begins there
            tiles_along.add((kernel.variant.rpartition(".")[2], *kernel.geometry[own + 1 : own + 3]))
            check_geometry(benches, case, geometry)
    assert tiles_along == {("tiled", 1, 1), ("tiled", 1, 2), ("tiled", 2, 1)}


@pytest.mark.every_driver
@pytest.mark.parametrize(
    "name", ["activation_softplus-float32", "activation_gelu-float16", "constant_pow-float32", "threshold-int32"]
)
def test_long_operations_written_out_for_every_lane(
    name: str, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on GPUs, in every access order: on processors they stand in loops, because SwiftShader takes long to compile
    them."""
    monkeypatch.setattr(shader_forms, "on_processor", lambda spirv: spirv)
    chosen = [bench for bench in benches if "llvmpipe" in bench.device.info.name]
    if not chosen:
        pytest.skip("llvmpipe alone compiles them quickly")
    case = next(case for case in value_cases() if case.name == name)
    for geometry in (
        Geometry("contiguous", (1021,), (1,), ((1,),)),
        Geometry("rows", (9, 64), (64, 1), ((0, 1),)),
        Geometry("tiled", (67, 36), (36, 1), ((1, 68),)),
        Geometry("strided", (37, 9), (20, 2), ((11, 1),)),
    ):
        check_geometry(chosen, case, geometry)


@pytest.mark.sweep
def test_more_than_65535_work_groups_strided(benches: list[Workbench]) -> None:
    rows = 65535 * 256 + 300
    case = next(case for case in value_cases() if case.name == "sign-int8")
    check_geometry(benches, case, Geometry("many rows of two", (rows, 2), (2, 1), ((1, rows),)))


@pytest.mark.sweep
def test_more_than_65535_work_groups_packed(benches: list[Workbench]) -> None:
    """16 bytes for each invocation make 256 MiB: in place, where the device has buffers of that size."""
    size = 65535 * 256 * 16 + 4096 * 16 + 5
    tensor = dml.TensorDesc(dml.INT8, (size,))
    desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
    tile = np.random.default_rng(6).integers(-2, 3, 65521).astype(np.int8)
    before = np.resize(tile, tensor.size_in_bytes)
    ran = 0
    for bench in benches:
        if bench.device.info.limits.max_storage_buffer_range < tensor.size_in_bytes:
            with pytest.raises(dml.DeviceLimitError, match=f"{tensor.size_in_bytes}"):
                bench.device.create_buffer(tensor.size_in_bytes)
            continue
        after = bench.run(desc, [before.view(np.uint8)], [TensorPlacement(0), TensorPlacement(0)])[0].view(np.int8)
        wrong = np.flatnonzero(after[:size] != np.resize(np.sign(tile), size))
        assert wrong.size == 0, f"{bench.device.info.name}: element {wrong[0]} of {size} is {after[wrong[0]]}"
        assert (after[size:] == before[size:]).all(), f"{bench.device.info.name}: bytes behind the tensor changed"
        bench.close()
        ran += 1
    assert ran, "no device has a buffer of 256 MiB"


_OVERLAPPING: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    *(((2,), (0,)), ((3, 4), (0, 1)), ((3, 4), (1, 1)), ((2, 3), (2, 1)), ((3, 3), (4, 2)), ((4, 5, 6), (1, 4, 18))),
)
"""Sizes and strides."""


@pytest.mark.parametrize("desc_class", REGULAR_OPERATORS.values(), ids=list(REGULAR_OPERATORS))
def test_outputs_that_overlap_themselves_are_refused(desc_class: type[OperatorDesc]) -> None:
    case = next(case for case in value_cases() if case.desc_class is desc_class)
    for sizes, strides in _OVERLAPPING:
        assert overlaps(sizes, strides), "the test's own claim"
        all_strides = [tuple(range(1, len(sizes) + 1))] * (len(case.data_types) - 1) + [strides]
        if desc_class.declaration.most_effective_dimensions == 2 and len(sizes) > 2:
            continue  # refused for their number of dimensions
        desc = describe(case, sizes, all_strides, _attributes(desc_class, case.data_types[0][1], 1, len(sizes)))
        message = (
            f"{desc.operator_name}: {desc.outputs[0][0].name}.Strides must give every element of an output a place of "
            "its own; "
            f"got Sizes {list(sizes)} with Strides {list(strides)}"
        )
        with pytest.raises(dml.InvalidArgumentError, match=f"^{re.escape(message)}$"):
            check_operator(desc, dml.FeatureLevel.LEVEL_6_4)


def test_the_listed_geometries_are_what_they_claim() -> None:
    assert len(set(FIXED)) == len(FIXED)
    assert {len(geometry.sizes) for geometry in FIXED} == set(range(1, 9))
    folded = [fold(g.sizes, [g.output if g.in_place else g.inputs[0], g.output]) for g in FIXED]
    assert {len(layout.sizes) for layout in folded} >= {0, 1, 2, 3, 8}, "kernels see dimensions folded"
    for geometry in FIXED:
        assert not overlaps(geometry.sizes, geometry.output), geometry
        assert math.prod(geometry.sizes) < 2**13, geometry
