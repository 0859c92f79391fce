"""How tensors are laid out for kernels: layouts, rows of whole vectors, numbers of work groups, volumes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, sweep_sets, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels import access_orders
from dmlvk.kernels import kernel as kernel_module
from dmlvk.kernels.kernel import WORK_GROUP_SIZE
from dmlvk.kernels.layout import FoldedLayout, fold
from dmlvk.kernels.movement import copies
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.kernels.variants import WORK_GROUP_SIZE_WITH_TWO_VECTORS, operand_types, tile_size
from dmlvk.operators import OperatorDesc
from dmlvk.operators.movement import Join, Split
from dmlvk.operators.rearrangement import DepthSpaceOrder, DepthToSpace1, Padding, PaddingMode, SpaceToDepth1
from tests.operators.geometries import packed
from tests.targets import all_compute_as_gpus, every_device, kernel_of, variants

Offsets = npt.NDArray[np.int64]

NOT_TILED = 2**32 - 1


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> Offsets:
    """Where each element lies, in the order of the coordinates, the last axis fastest."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(size) * stride).reshape(-1)
    return offsets


def _visits(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Offsets:
    """A row for each element: its offset in every operand; ordered by the last operand's, the output's."""
    rows: Offsets = np.stack([_offsets(sizes, operand) for operand in strides], axis=1)
    return rows[np.argsort(rows[:, -1], kind="stable")]


def _random_geometry(random: np.random.Generator, operands: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """Sizes, and strides of the inputs and then of an output without overlaps."""
    choices = [1, 1, 2, 3, 4, 5, 8, 9] if random.random() < 0.6 else [1, 16, 20, 32, 33, 48]
    sizes = [int(size) for size in random.choice(choices, random.integers(1, 9))]
    while math.prod(sizes) > 3000:
        sizes = [max(1, size // 2) for size in sizes]
    order = random.permutation(len(sizes)) if random.random() < 0.5 else np.arange(len(sizes))
    output = [0] * len(sizes)
    extent = 1
    for axis in reversed(order):  # nested, sometimes with gaps
        output[axis] = extent + (int(random.integers(1, 6)) if random.random() < 0.2 else 0)
        extent += (sizes[axis] - 1) * output[axis]
    inputs = []
    for _ in range(operands - 1):
        kind = random.random()
        strides = packed(sizes) if kind < 0.3 else packed(sizes, random.permutation(len(sizes)).tolist())
        if kind < 0.2:
            strides = tuple(output)
        elif kind > 0.8:
            strides = tuple(int(stride) for stride in random.integers(0, 12, len(sizes)))
        elif kind > 0.5:
            strides = tuple(0 if random.random() < 0.4 else stride for stride in strides)
        inputs.append(strides)
    return sizes, [*inputs, tuple(output)]


@pytest.mark.parametrize("operands", [1, 2, 3, 4])
def test_folding_keeps_every_element_in_its_place(operands: int) -> None:
    random = np.random.default_rng(operands)
    for _ in range(1500):
        sizes, strides = _random_geometry(random, operands)
        folded = fold(sizes, strides)
        got = _visits(folded.sizes, folded.strides)
        assert np.array_equal(got, _visits(sizes, strides)), f"sizes {sizes}, strides {strides}: folded to {folded}"


def test_folding_leaves_nothing_to_fold() -> None:
    """Innermost first, without axes of size 1, and no two neighbours that could be one axis."""
    random = np.random.default_rng(9)
    for _ in range(1500):
        sizes, strides = _random_geometry(random, 3)
        folded = fold(sizes, strides)
        assert all(size > 1 for size in folded.sizes), folded
        assert list(folded.strides[-1]) == sorted(folded.strides[-1]), folded
        for axis in range(len(folded.sizes) - 1):
            assert any(s[axis + 1] != s[axis] * folded.sizes[axis] for s in folded.strides), folded


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((2, 3, 4), [(12, 4, 1), (12, 4, 1)], FoldedLayout((24,), ((1,), (1,)))),
        ((1, 1), [(7, 9), (0, 3)], FoldedLayout((), ((), ()))),
        ((2, 3, 4, 5), [(60, 1, 15, 3), (60, 1, 15, 3)], FoldedLayout((120,), ((1,), (1,)))),
        ((2, 3, 4), [(0, 0, 0), (12, 4, 1)], FoldedLayout((24,), ((0,), (1,)))),
        ((2, 3, 4), [(0, 4, 1), (12, 4, 1)], FoldedLayout((12, 2), ((1, 0), (1, 12)))),
        ((5, 7), [(1, 5), (7, 1)], FoldedLayout((7, 5), ((5, 1), (1, 7)))),
        ((5, 7), [(7, 1), (9, 1)], FoldedLayout((7, 5), ((1, 7), (1, 9)))),
        ((4, 1, 6), [(12, 99, 2), (6, 50, 1)], FoldedLayout((24,), ((2,), (1,)))),
        ((2, 3), [(3, 1), (3, 2)], FoldedLayout((3, 2), ((1, 3), (2, 3)))),
    ],
)
def test_known_foldings(sizes: tuple[int, ...], strides: list[tuple[int, ...]], expected: FoldedLayout) -> None:
    assert fold(sizes, strides) == expected


def test_only_runs_of_neighbours_are_contiguous() -> None:
    assert fold((3, 4), [(4, 1), (4, 1)]).is_contiguous
    assert fold((1,), [(0,), (5,)]).is_contiguous
    assert not fold((3, 4), [(0, 0), (4, 1)]).is_contiguous
    assert not fold((3, 4), [(8, 2), (4, 1)]).is_contiguous
    assert not fold((3, 4), [(8, 2), (8, 2)]).is_contiguous


@pytest.mark.parametrize(
    ("name", "transposed", "tiled"),
    [
        ("if-uint8-int64", (0,), (0,)),
        ("if-uint8-int64", (1,), (1,)),
        ("if-uint8-int64", (2,), (2,)),
        ("if-uint8-int64", (0, 1), (0, 1)),
        ("if-uint8-int64", (0, 2), (0, 2)),
        ("if-uint8-int64", (1, 2), (1, 2)),  # exactly as much shared memory as there is
        ("if-uint8-int64", (0, 1, 2), (1, 2)),  # all would be one KiB too many
        ("if-uint8-int32", (0, 1, 2), (0, 1, 2)),
        ("add-int64", (0, 1), (0, 1)),
    ],
)
def test_only_transposed_inputs_have_tiles(name: str, transposed: tuple[int, ...], tiled: tuple[int, ...]) -> None:
    case = next(case for case in value_cases() if case.name == name)
    strides = [(1, 512) if number in transposed else (512, 1) for number in range(len(case.data_types))]
    kernel = kernel_of(describe(case, (512, 512), strides, {}))
    assert kernel.variant.endswith(".tiled")
    first_words = _tile_constants(kernel.geometry, len(strides))[4:]
    assert tuple(number for number, first in enumerate(first_words) if first != NOT_TILED) == tiled


@pytest.mark.sweep
def test_tiles_fit_into_shared_memory() -> None:
    """Those of every shader, whichever of its inputs are transposed: one behind the other, and nothing else."""
    seen = set()
    for case in value_cases():
        types = operand_types(case.desc_class, dict(case.data_types))
        if types in seen or (case.desc_class.declaration.pattern == "rows"):
            continue
        seen.add(types)
        for transposed in itertools.product((False, True), repeat=len(types) - 1):
            strides = [(1, 4096) if is_transposed else (4096, 1) for is_transposed in (*transposed, False)]
            plan = access_orders.plan(fold((4096, 4096), strides), types, GPU, lambda access_order: False)
            assert (plan.access_order == "tiled") == any(transposed)
            if plan.access_order != "tiled":
                continue
            _, tiles_along_0, tiles_along_1, words, *first_words = _tile_constants(plan.geometry, len(types))
            assert words <= 4096
            begin = 0
            for is_transposed, first, data_type in zip(transposed, first_words, types[:-1], strict=True):
                if first != NOT_TILED:
                    assert is_transposed and first == begin
                    tile = tile_size(types) ** 2 * data_type.size_in_bits // 32
                    begin += tiles_along_0 * tiles_along_1 * tile
            assert begin == words


def _tile_constants(geometry: Sequence[int], operands: int) -> Sequence[int]:
    """What the tiled access order has for itself behind the sizes and strides."""
    return geometry[2 + 8 * (1 + operands) :]


def _case(name: str) -> ValueCase:
    return next(case for case in value_cases() if case.name == name)


def _desc(case: ValueCase, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> OperatorDesc:
    return describe(case, sizes, strides, sweep_sets(case.desc_class, case.data_types[0][1], optional=False)[0])


@pytest.mark.parametrize("stride", [0, 3], ids=["beside one element", "every third element"])
@pytest.mark.parametrize("name", ["add-float32", "max-int64"])
def test_a_kernel_serves_every_number_of_elements_in_a_row(name: str, stride: int) -> None:
    """How many there are along the only axis is often a batch's size: it is not compiled in."""
    case = _case(name)
    kernels = [kernel_of(_desc(case, (size,), [(1,), (stride,), (1,)])) for size in range(2, 1000)]
    assert len({(kernel.variant, kernel.specialization([0, 0, 0])) for kernel in kernels}) <= 2 * 9 + 1


def test_push_constants_hold_work_items_base_words_and_attributes() -> None:
    case = _case("if-uint8-float64")
    kernel = kernel_of(_desc(case, (10,), [(1,)] * 4))
    assert kernel.push_constants([16, 32, 48, 4096]) == (10, 4, 8, 12, 1024)
    tensor = dml.TensorDesc(dml.INT16, (10,))
    desc = dml.ElementWiseThreshold(
        input_tensor=tensor, output_tensor=tensor, scale_bias=dml.ScaleBias(0.5, -1.0), min=-2.5
    )
    assert kernel_of(desc).push_constants([0, 64]) == (10, 0, 16, 0x3F000000, 0xBF800000, 0xFFFFFFFE)


def test_only_offsets_that_are_there_are_added() -> None:
    kernel = kernel_of(_desc(_case("sign-float32"), (10,), [(1,)] * 2))
    assert kernel.specialization([0, 0])[1] == 0
    assert kernel.specialization([16, 0])[1] == 1
    assert kernel.specialization([0, 16])[1] == 1


@pytest.mark.parametrize("size", [WORK_GROUP_SIZE, WORK_GROUP_SIZE_WITH_TWO_VECTORS])
@pytest.mark.parametrize(
    "invocations",
    [1, 127, 128, 255, 256, 257, 65535 * 256 - 1, 65535 * 256, 65535 * 256 + 1, 2**30, 2**32 - 2**24, 2**32 - 2**16],
)
def test_work_groups_cover_the_work_within_vulkans_limits(invocations: int, size: int) -> None:
    columns, rows, layers = kernel_module.launch_size("X", invocations, size)
    assert 1 <= columns <= 65535
    assert 1 <= rows <= 65535
    assert layers == 1
    launched = columns * rows * size
    assert invocations <= launched <= 2**32, "an invocation's index must fit into 32 bits"
    assert launched - invocations < size * rows, "whole rows of work groups with nothing to do"


@pytest.mark.parametrize("invocations", [2**32 - 2**16 + 1, 2**32, 2**40])
def test_more_work_than_can_be_launched_is_refused(invocations: int) -> None:
    message = f"^X: the tensor takes {invocations} invocations; at most {2**32 - 2**16} can be launched$"
    with pytest.raises(DeviceLimitError, match=message):
        kernel_module.launch_size("X", invocations)


_MANY = dataclasses.replace(GPU, buffers=8)

_OF_TYPES = pytest.mark.parametrize("data_type", (dml.UINT8, dml.FLOAT16, dml.FLOAT32), ids=lambda t: t.name)


@pytest.fixture(scope="module")
def opened() -> Iterator[list[dml.Device]]:
    with every_device() as devices:
        yield devices


@pytest.fixture
def devices(opened: list[dml.Device], monkeypatch: pytest.MonkeyPatch) -> list[dml.Device]:
    all_compute_as_gpus(monkeypatch)
    return opened


def _drawn(data_type: dml.DataType, *sizes: Sequence[int]) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.integers(0, 128, each).astype(data_type.numpy_dtype) for each in sizes]


def _check(devices: list[dml.Device], desc: Any, given: Mapping[str, Any], expected: Sequence[Any]) -> None:
    for device in devices:
        for result, known in zip(device.run(desc, given).values(), expected, strict=True):
            assert np.array_equal(result, known)


@pytest.mark.parametrize("data_type", (dml.UINT8, dml.FLOAT16), ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((67, 71), (1, 0)),
        ((2, 5, 33, 31), (0, 2, 3, 1)),  # few lines, and then few along them
        ((2, 33, 31, 5), (0, 3, 1, 2)),
        ((3, 65, 2, 67), (2, 3, 0, 1)),
        ((299, 19), (1, 0)),
        ((17, 300), (1, 0)),
    ],
)
def test_narrow_elements_are_transposed_in_tiles_wherever_lines_begin(
    devices: list[dml.Device],
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    data_type: dml.DataType,
) -> None:
    """Words that two lines or two tiles share keep the elements of both."""
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 1)
    (given,) = _drawn(data_type, sizes)
    expected = given.transpose(order)
    steps = dml.TensorDesc(data_type, sizes).element_strides
    desc = dml.ElementWiseIdentity(
        input_tensor=dml.TensorDesc(data_type, expected.shape, tuple(steps[axis] for axis in order)),
        output_tensor=dml.TensorDesc(data_type, expected.shape),
    )
    assert variants(desc, GPU) == [f"turned.bits{data_type.size_in_bits}"]
    back = dataclasses.replace(desc, input_tensor=desc.output_tensor, output_tensor=desc.input_tensor)
    for each in (desc, back):  # arrays are as tensors are seen, whatever their strides
        _check(devices, each, {"InputTensor": expected}, [expected])


@_OF_TYPES
@pytest.mark.parametrize(
    ("sizes", "starts", "ends"),
    [
        *(((2, 3, 30, 29), (0, 0, 1, 1), (0, 0, 1, 2)), ((1, 2, 5, 15), (1, 0, 2, 0), (0, 2, 0, 2))),
        *(((3, 51), (1, 2), (0, 3)), ((1001,), (3,), (2,)), ((6, 33), (0, 31), (0, 0))),
        *(((3, 3, 3, 3, 21), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1)), ((1, 3), (0, 13), (0, 1))),
    ],
)
def test_padding(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    data_type: dml.DataType,
) -> None:
    """Sixteen bytes of the output lie in one row or in two, or behind the last one."""
    (given,) = _drawn(data_type, sizes)
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
    assert variants(desc, GPU) == [f"padded.{data_type.size_in_bits}bits.vectors"]
    _check(devices, desc, {"InputTensor": given}, [expected])


def _both(data_type: dml.DataType, sizes: Sequence[tuple[int, ...]], axis: int) -> tuple[Any, Any]:
    """JOIN of tensors, and SPLIT into them."""
    total = sum(size[axis] for size in sizes)
    whole = dml.TensorDesc(data_type, (*sizes[0][:axis], total, *sizes[0][axis + 1 :]))
    tensors, count = [dml.TensorDesc(data_type, size) for size in sizes], len(sizes)
    join = Join(input_count=count, input_tensors=tensors, output_tensor=whole, axis=axis)
    return join, Split(input_tensor=whole, output_count=count, output_tensors=tensors, axis=axis)


def _check_join(devices: list[dml.Device], join: Any, given: Sequence[Any]) -> None:
    named = {f"input_tensors[{number}]": part for number, part in enumerate(given)}
    _check(devices, join, named, [np.concatenate(given, join.axis)])


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
def test_up_to_four_parts_have_one_launch(
    devices: list[dml.Device], data_type: dml.DataType, sizes: list[tuple[int, ...]], axis: int, joined: list[str]
) -> None:
    join, split = _both(data_type, sizes, axis)
    assert variants(join, _MANY) == joined
    assert variants(split, _MANY) == [name.replace("parts.join", "parts.split") for name in joined]
    given = _drawn(data_type, *sizes)
    _check_join(devices, join, given)
    _check(devices, split, {"InputTensor": np.concatenate(given, axis)}, given)


@pytest.mark.parametrize(
    ("size", "count", "target", "joined"),
    [
        ((64, 256), 8, GPU, ["parts.join3", "parts.join3", "parts.join2"]),
        ((64, 256), 8, dataclasses.replace(GPU, buffers=2), ["copy.bits128.small"] * 8),
        ((64, 256), 4, CPU, ["copy.bits128.small"] * 4),
        ((4, 256), 4, _MANY, ["copy.bits128.small"] * 4),
    ],
)
def test_few_buffers_processors_and_small_tensors_have_fewer_parts_in_a_launch(
    size: tuple[int, ...], count: int, target: Target, joined: list[str]
) -> None:
    assert variants(_both(dml.FLOAT32, [size] * count, 1)[0], target) == joined


def test_gaps_between_parts_stay_as_they_are(devices: list[dml.Device]) -> None:
    """Rows of the whole lie apart."""
    part = dml.TensorDesc(dml.FLOAT32, (64, 256))
    whole = dml.TensorDesc(dml.FLOAT32, (64, 512), (528, 1))
    join = Join(input_count=2, input_tensors=[part, part], output_tensor=whole, axis=1)
    assert variants(join, _MANY) == ["parts.join2"]
    _check_join(devices, join, list(np.arange(2 * 64 * 256, dtype=np.float32).reshape(2, 64, 256)))


@pytest.mark.parametrize("order", list(DepthSpaceOrder), ids=lambda order: order.name.lower())
@_OF_TYPES
@pytest.mark.parametrize(
    ("sizes", "block", "is_interleaved"),
    [
        *(((2, 8, 5, 32), 2, True), ((1, 32, 3, 16), 4, True), ((3, 4, 1, 48), 2, True), ((1, 4, 2, 16), 2, True)),
        *(((1, 18, 3, 16), 3, False), ((1, 8, 3, 18), 2, False)),
    ],
)
def test_elements_of_two_or_four_lines_alternate_in_one(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    block: int,
    is_interleaved: bool,
    data_type: dml.DataType,
    order: DepthSpaceOrder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    (deep,) = _drawn(data_type, sizes)
    n, c, h, w = sizes
    channels = c // block**2
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        pixels = deep.reshape(n, block, block, channels, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        pixels = deep.reshape(n, channels, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    flat = np.ascontiguousarray(pixels.reshape(n, channels, h * block, w * block))
    tensors = dml.TensorDesc(data_type, deep.shape), dml.TensorDesc(data_type, flat.shape)
    to_space = DepthToSpace1(input_tensor=tensors[0], output_tensor=tensors[1], block_size=block, order=order)
    to_depth = SpaceToDepth1(input_tensor=tensors[1], output_tensor=tensors[0], block_size=block, order=order)
    for desc, given, expected, word in ((to_space, deep, flat, "together"), (to_depth, flat, deep, "apart")):
        name = f"interleaved.bits{data_type.size_in_bits}.{word}{block}"
        assert (variants(desc, GPU) == [name]) is is_interleaved
        _check(devices, desc, {"InputTensor": given}, [expected])
