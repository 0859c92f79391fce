"""Products by matrices that subgroups hold together: what is chosen for whom, the modules, and their results.

No processor here has such matrices: the kernels run with the file beside this one in the place of the include that
names them, so that all but these instructions is what a device runs that has them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, fault
from dmlvk.conformance.references.device_arithmetic import is_rounded_by_device, outputs_within_error
from dmlvk.conformance.samples.products import convolution_desc, values
from dmlvk.graphs.channels_last import channels_last
from dmlvk.kernels import library
from dmlvk.kernels.products import matrix, padded_products, patches, product_epilogue
from dmlvk.kernels.products.matrix_choice import Choice, Work
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, PARALLEL, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import COOPERATIVE, OF_CHANNELS, matrix_variants
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc
from dmlvk.runtime.vulkan import CooperativeMatrix, list_devices
from dmlvk.spirv.cooperative_types import CHANNELS_SOURCE, FLOATS_SOURCE
from dmlvk.spirv.modules import module_instructions, module_words
from tests import cooperative_modules
from tests.cooperative_modules import imitate_matrices
from tests.operators.test_products import convolution_inputs, gemm_desc
from tests.targets import on_llvmpipe

Array = npt.NDArray[Any]

VARIANTS = {each.name: each for each in matrix_variants() if each.source in (FLOATS_SOURCE, CHANNELS_SOURCE)}
LARGE, ALONE, FLAT, SMALL, LOW, LOWEST, SHORT, *WINDOWS = [
    tile for tile in COOPERATIVE if dml.FLOAT16 in tile.types and tile.subgroup_size == 32
]
LARGE_OF_PARTS, SMALL_OF_PARTS = [tile for tile in COOPERATIVE if dml.FLOAT32 in tile.types]
_OF_AMD = [tile for tile in (*COOPERATIVE, *OF_CHANNELS) if tile.subgroup_size == 64]
WIDE, WIDE_WINDOWS, WIDE_CHANNELS = _OF_AMD[1], _OF_AMD[3], _OF_AMD[-1]
SMALLEST = {dml.FLOAT16: SMALL, dml.FLOAT32: SMALL_OF_PARTS}
BOTH_TYPES = pytest.mark.parametrize("data_type", SMALLEST, ids=lambda data_type: data_type.name)
ABLE = dataclasses.replace(cooperative_modules.ABLE, has_cooperative_brain_floats=True, buffers=8)
HALVES = CooperativeMatrix(16, 16, 16, "FLOAT16", "FLOAT16", "FLOAT32")
PARTS = dataclasses.replace(HALVES, left_type="BFLOAT16", right_type="BFLOAT16")
FEATURES = {"cooperativeMatrix", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope"}
FEATURES_OF_HALVES = {"shaderFloat16", *FEATURES}
FEATURES_OF_PARTS = {"shaderBFloat16Type", "shaderBFloat16CooperativeMatrix", *FEATURES}
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC
_TRANSPOSE, _NONE = dml.MatrixTransform.TRANSPOSE, dml.MatrixTransform.NONE
_BACKWARD = dml.ConvolutionDirection.BACKWARD

_OP_CAPABILITY, _OP_TYPE_FLOAT, _OP_TYPE_MATRIX, _OP_MULTIPLY = 17, 22, 4456, 4459


@pytest.mark.parametrize("name", VARIANTS)
def test_modules_add_numbers_of_16_bits_up_in_float32(name: str) -> None:
    types: dict[int, tuple[int, ...]] = {}
    matrices, capabilities, products = [], set(), 0
    for _, opcode, operands in module_instructions(module_words(library.load(name))):
        if opcode == _OP_CAPABILITY:
            capabilities.add(operands[0])
        elif opcode == _OP_TYPE_FLOAT:
            types[operands[0]] = tuple(operands[1:])
        elif opcode == _OP_TYPE_MATRIX:
            matrices.append(types[operands[1]])
        products += opcode == _OP_MULTIPLY
    is_of_parts = ".float32." in name
    operand = (16, 0) if is_of_parts else (16,)  # of 16 bits, and with the encoding BFloat16KHR
    assert sorted(matrices) == [operand, operand, (32,)]
    assert products > 0
    assert {5345, 6022} <= capabilities  # VulkanMemoryModel, CooperativeMatrixKHR
    # BFloat16TypeKHR, BFloat16CooperativeMatrixKHR; Float16
    assert capabilities & {9, 5116, 5118} == ({5116, 5118} if is_of_parts else {9})


@pytest.mark.parametrize(
    ("data_type", "kind", "features"),
    [(dml.FLOAT16, HALVES, FEATURES_OF_HALVES), (dml.FLOAT32, PARTS, FEATURES_OF_PARTS)],
    ids=["FLOAT16", "FLOAT32"],
)
def test_they_are_for_devices_that_have_all_of_it(
    data_type: dml.DataType, kind: CooperativeMatrix, features: set[str]
) -> None:
    info = list_devices()[0]

    def able(kind: CooperativeMatrix, features: set[str], subgroup: int = 32) -> bool:
        limits = dataclasses.replace(info.limits, subgroup_size=subgroup)
        described = dataclasses.replace(info, limits=limits, cooperative_matrices=(kind,))
        target = Target.of(described, features)
        other = dml.FLOAT32 if data_type is dml.FLOAT16 else dml.FLOAT16
        assert not target.multiplies_matrices_of(other)
        return target.multiplies_matrices_of(data_type)

    assert able(kind, features)
    assert able(kind, features, 64) == (data_type is dml.FLOAT16)
    assert not able(kind, features, 16)
    for feature in features:
        assert not able(kind, features - {feature})
    for other in ({"columns": 8}, {"terms": 8}, {"sum_type": "FLOAT16"}, {"left_type": "INT8"}):
        assert not able(dataclasses.replace(kind, **other), features)


@pytest.fixture
def imitated(monkeypatch: pytest.MonkeyPatch) -> Callable[[MatrixTile, int], None]:
    imitate_matrices(monkeypatch, VARIANTS)

    def only(tile: MatrixTile, come: int) -> None:
        able = dataclasses.replace(ABLE, shared_memory=32768, subgroup_size=tile.subgroup_size)

        def chosen(work: Work, target: Target) -> Choice:
            return Choice(tile, ONE_SEGMENT if work.terms <= tile.segment else come)

        for module in (matrix, padded_products, patches, product_epilogue):
            monkeypatch.setattr(module, "choose", chosen)
        monkeypatch.setattr(dml.Device, "target", property(lambda _: able))

    return only


def _check(bench: Workbench, desc: OperatorDesc, inputs: dict[str, Array]) -> Bounded:
    device = bench.device
    compiled = device.compile_operator(device.create_operator(desc), _ALLOWED)
    assert any(step.kernel.variant in VARIANTS for step in compiled.steps)
    expected = outputs_within_error(desc, inputs)["OutputTensor"]
    assert fault(desc.operator_name, device.run(compiled, inputs)["OutputTensor"], expected) is None
    assert isinstance(expected, Bounded)
    return expected


_LAYOUTS = (
    (_NONE, _NONE, (72, 136, 80)),
    (_TRANSPOSE, _TRANSPOSE, (72, 128, 80)),
    (_TRANSPOSE, _NONE, (72, 101, 88)),
    (_NONE, _TRANSPOSE, (67, 88, 75)),
    (_NONE, _NONE, (72, 192, 80)),  # three whole steps, which are loaded without a branch
)


@pytest.mark.parametrize(
    ("tile", "layout"),
    [
        pytest.param(
            tile,
            layout,
            id=f"{tile.name}-{number}",
            marks=[] if (tile, number) in ((SMALL, 0), (SMALL, 4), (WIDE, 0)) else pytest.mark.sweep,
        )
        for number, layout in enumerate(_LAYOUTS)
        for tile in ((*SMALLEST.values(), WIDE) if number < 1 else SMALLEST.values() if number < 2 else (SMALL, WIDE))
    ],
)
def test_products_in_all_layouts(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None], layout: Any, tile: MatrixTile
) -> None:
    """Edges that no tile divides, two leading dimensions, C, Alpha, Beta and RELU; FLOAT32 with each operand both ways.

    The larger tile needs more shared memory than llvmpipe has.
    """
    trans_a, trans_b, (rows, terms, columns) = layout
    imitated(tile, SEQUENTIAL)
    (data_type,) = tile.types
    random = np.random.default_rng(31)
    sizes = {
        "ATensor": (2, 1, *((rows, terms) if trans_a is _NONE else (terms, rows))),
        "BTensor": (2, 1, *((terms, columns) if trans_b is _NONE else (columns, terms))),
        "CTensor": (2, 1, rows, columns),
    }
    desc = dml.Gemm(
        a_tensor=dml.TensorDesc(data_type, sizes["ATensor"]),
        b_tensor=dml.TensorDesc(data_type, sizes["BTensor"]),
        c_tensor=dml.TensorDesc(data_type, sizes["CTensor"]),
        output_tensor=dml.TensorDesc(data_type, sizes["CTensor"]),
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=0.75,
        beta=-2.0,
        fused_activation=dml.fused_activation("ACTIVATION_RELU"),
    )
    inputs = {name: values("normal", size, data_type, random) for name, size in sizes.items()}
    _check(on_llvmpipe(benches)[0], desc, inputs)


@pytest.mark.parametrize("layout", [(_NONE, _NONE), (_NONE, _TRANSPOSE), (_TRANSPOSE, _NONE)])
def test_sizes_that_fill_no_vectors_are_multiplied_as_copies_that_do(
    benches: list[Workbench],
    imitated: Callable[[MatrixTile, int], None],
    monkeypatch: pytest.MonkeyPatch,
    layout: tuple[dml.MatrixTransform, dml.MatrixTransform],
) -> None:
    """Odd sizes, B once for both batches, C a number for each column, RELU, and an infinite operand."""
    imitated(SMALL, SEQUENTIAL)
    monkeypatch.setattr(padded_products, "_LEAST_WORK", 0)
    monkeypatch.setattr(padded_products, "_WORTH_A_BYTE", {dml.FLOAT16: (0, 0)})
    rows, terms, columns = 35, 75, 41
    a, b = (rows, terms) if layout[0] is _NONE else (terms, rows), (terms, columns)
    if layout[1] is _TRANSPOSE:
        b = (columns, terms)
    desc = dml.Gemm(
        a_tensor=dml.TensorDesc(dml.FLOAT16, (2, 1, *a)),
        b_tensor=dml.TensorDesc(dml.FLOAT16, (2, 1, *b), (0, 0, b[1], 1)),
        c_tensor=dml.TensorDesc(dml.FLOAT16, (2, 1, rows, columns), (0, 0, 0, 1)),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (2, 1, rows, columns)),
        trans_a=layout[0],
        trans_b=layout[1],
        alpha=0.75,
        beta=-2.0,
        fused_activation=dml.fused_activation("ACTIVATION_RELU"),
    )
    random = np.random.default_rng(37)
    inputs = {
        "ATensor": values("normal", (2, 1, *a), dml.FLOAT16, random),
        "BTensor": np.repeat(values("normal", (1, 1, *b), dml.FLOAT16, random), 2, 0),
        "CTensor": np.tile(values("normal", (1, 1, 1, columns), dml.FLOAT16, random), (2, 1, rows, 1)),
    }
    inputs["ATensor"][1, 0, 3, 5] = np.inf
    assert np.isinf(_check(on_llvmpipe(benches)[0], desc, inputs).values).any()


@pytest.mark.parametrize(
    ("words", "terms"),
    [
        ("bias", 72),
        ("bias scale residual relu", 72),
        pytest.param("residual", 2100, marks=pytest.mark.sweep),  # finished where segments are added
    ],
)
def test_what_a_graph_has_behind_a_product_is_computed_with_it(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None], words: str, terms: int
) -> None:
    """In one kernel, with the bits of the operators one by one, whatever is infinite or NaN."""
    imitated(SHORT, PARALLEL)
    device = on_llvmpipe(benches)[0].device
    random = np.random.default_rng(35)
    sizes = {"x": (2, 11, terms), "w": (terms, 40), "bias": (1, 1, 40), "scale": (1, 1, 40), "residual": (2, 11, 40)}
    given = {name: values("normal", size, dml.FLOAT16, random) for name, size in sizes.items()}
    given["x"][0, 3, 5], given["bias"][0, 0, 6] = np.inf, np.nan
    wanted = {name: given[name] for name in sizes if name in ("x", "w", *words.split())}

    def compiled(**options: Any) -> dml.CompiledGraph:
        graph = dml.Graph(device)
        e = {name: graph.input(name, dml.FLOAT16, array.shape) for name, array in wanted.items()}
        y = (e["x"].reshape((22, terms)) @ e["w"]).reshape((2, 11, 40))
        for word in words.split():
            y = F.activation_relu(y) if word == "relu" else e[word] * y if word == "scale" else e[word] + y
        return graph.compile(y=y, flags=_ALLOWED, **options)

    whole, one_by_one = compiled(), compiled(fuse=False)
    assert [step.kernel.variant.endswith(".epilogue") for step in whole.steps] in ([True], [False, True])
    assert len(whole.steps) < len(one_by_one.steps)
    made, expected = (device.run(graph, wanted)["y"] for graph in (whole, one_by_one))
    assert np.isfinite(made).any() and not np.isfinite(made).all()
    assert made.tobytes() == expected.tobytes()


def test_gelu_behind_a_product_is_within_its_stated_error(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None]
) -> None:
    """Of numbers of all magnitudes and both signs, which a matrix of ones and zeros leaves as they are."""
    imitated(LOWEST, SEQUENTIAL)
    device = on_llvmpipe(benches)[0].device
    every = np.arange(0, 2**16, 11, np.uint16).view(np.float16)
    numbers = every[np.isfinite(every)][: len(every) // 17 * 16].reshape(-1, 16)
    numbers[0, :2], numbers[1, 2] = (0.0, -0.0), -np.inf
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT16, numbers.shape)
    made = F.activation_gelu(x @ graph.input("w", dml.FLOAT16, (16, 16)))
    compiled = graph.compile(y=made, flags=_ALLOWED)
    assert len(compiled.steps) == 1
    results = device.run(compiled, {"x": numbers, "w": np.eye(16, dtype=np.float16)})["y"]
    assert np.isnan(np.delete(results[1], 2)).all()  # infinity times zero
    assert results[1, 2].tobytes() == np.float16(-0.0).tobytes()
    assert not np.delete(results, 1, 0)[0, :2].any()
    for number, result in zip(np.delete(numbers, 1, 0).flat, np.delete(results, 1, 0).flat, strict=True):
        exact = float(number) / 2 * math.erfc(-float(number) / math.sqrt(2))
        ulp = 2.0 ** (max(math.frexp(exact)[1] - 1, -14) - 10)
        assert abs(float(result) - exact) <= 0.52 * ulp, number


@pytest.mark.parametrize(
    ("tile", "come"),
    [
        (SHORT, SEQUENTIAL),
        (SHORT, PARALLEL),
        (SMALL_OF_PARTS, SEQUENTIAL),
        pytest.param(SMALL_OF_PARTS, PARALLEL, marks=pytest.mark.sweep),
    ],
    ids=["float16", "float16 in parts", "float32", "float32 in parts"],
)
def test_segments_denormals_and_what_is_not_finite(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None], tile: MatrixTile, come: int
) -> None:
    imitated(tile, come)
    random = np.random.default_rng(32)
    rows, terms, columns = 20, 2 * tile.segment + 16, 24
    (data_type,) = tile.types
    desc = gemm_desc(data_type, rows, terms, columns)
    inputs = {
        "ATensor": values("normal", (rows, terms), data_type, random),
        "BTensor": values("normal", (terms, columns), data_type, random),
    }
    tiny = 2.0**-24 if data_type is dml.FLOAT16 else 2.0**-125
    inputs["ATensor"][3] = (tiny * random.integers(-3, 4, terms)).astype(data_type.numpy_dtype)
    inputs["ATensor"][1, tile.segment + 16], inputs["ATensor"][2, 3], inputs["BTensor"][terms - 1, 8] = (
        np.inf,
        np.nan,
        -np.inf,
    )
    expected = _check(on_llvmpipe(benches)[0], desc, inputs)
    assert (expected.values[3, :8] != 0).any() and np.isnan(expected.values[2]).all()


def test_sums_overflow_where_their_order_says(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None]
) -> None:
    """Sums of sixteen terms at once would not: the first two of a row are beyond what FLOAT32 has, all are not."""
    imitated(SMALL_OF_PARTS, SEQUENTIAL)
    rows, terms, columns = 18, SMALL_OF_PARTS.segment + 16, 24
    inputs = {"ATensor": np.ones((rows, terms), np.float32), "BTensor": np.ones((terms, columns), np.float32)}
    inputs["ATensor"][4, :4] = 3e38, 3e38, -3e38, -3e38
    inputs["ATensor"][5, :4] = 3e38, -3e38, 3e38, -3e38
    inputs["ATensor"][6, [0, -1]] = 3e38, -3e38
    inputs["ATensor"][7, [0, -1]] = 3e38, 3e38
    expected = _check(on_llvmpipe(benches)[0], gemm_desc(dml.FLOAT32, rows, terms, columns), inputs)
    assert np.isposinf(expected.values[[4, 7]]).all() and np.isfinite(expected.values[[5, 6]]).all()


@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling", "huge", "tiny"])
def test_parts_lose_next_to_nothing(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None], kind: str
) -> None:
    """Each term by itself: as matrices of ones and zeros pick it. Sizes are those of a pipeline that is there."""
    imitated(SMALL_OF_PARTS, SEQUENTIAL)
    random = np.random.default_rng(34)
    rows, terms, columns = 60, SMALL_OF_PARTS.segment + 16, 24
    given = values(kind, (rows, columns), dml.FLOAT32, random)
    inputs = {
        "ATensor": np.pad(given, ((0, 0), (0, terms - columns))),
        "BTensor": np.eye(terms, columns, dtype=np.float32),
    }
    device = on_llvmpipe(benches)[0].device
    compiled = device.compile_operator(device.create_operator(gemm_desc(dml.FLOAT32, rows, terms, columns)), _ALLOWED)
    assert any(step.kernel.variant in VARIANTS for step in compiled.steps)
    made = device.run(compiled, inputs)["OutputTensor"]
    is_normal = np.abs(given) >= 2.0**-102
    assert np.array_equal(made[is_normal], given[is_normal])
    assert np.abs(made.astype(np.float64) - given)[~is_normal].max(initial=0) <= 2.0**-126


_WINDOWS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 32, 9, 11), (72, 32, 3, 3), {"start": (1, 1), "end": (1, 1), "bias": True}),
    ((2, 3, 21, 19), (20, 3, 7, 7), {"start": (3, 3), "end": (3, 3), "strides": (2, 2), "bias": True}),
    ((3, 40, 8, 10), (50, 40, 1, 1), {"bias": True}),
    ((2, 32, 8, 9), (32, 16, 3, 3), {"groups": 2, "end": (1, 2), "dilations": (2, 1), "bias": False}),
    ((2, 20, 6, 5), (20, 24, 3, 3), {"direction": _BACKWARD, "strides": (2, 2), "bias": False}),
    ((2, 8, 5, 4, 6), (24, 8, 3, 2, 3), {"bias": False}),
)


@pytest.mark.parametrize(
    ("tile", "window"),
    [
        pytest.param(
            tile,
            window,
            id=f"{number}-{tile.name}",
            marks=[] if number == 0 and tile in (WINDOWS[-1], WIDE_WINDOWS, WIDE_CHANNELS) else pytest.mark.sweep,
        )
        for number, window in enumerate(_WINDOWS)
        for tile in ((*WINDOWS, WIDE_WINDOWS, WIDE_CHANNELS) if number == 0 else WINDOWS[-1:])
    ],
)
def test_convolutions(
    benches: list[Workbench], imitated: Callable[[MatrixTile, int], None], tile: MatrixTile, window: Any
) -> None:
    """Padding, which an infinite weight does not meet, strides, dilations, groups, the backward direction, a volume."""
    imitated(tile, SEQUENTIAL)
    sizes, filters, options = window
    random = np.random.default_rng(33)
    desc = convolution_desc(dml.FLOAT16, sizes, filters, **options)
    if tile.is_of_channels:
        source, output = map(channels_last, (desc.input_tensor, desc.output_tensor))
        desc = dataclasses.replace(desc, input_tensor=source, output_tensor=output)
    inputs = convolution_inputs(desc, random)
    expected = _check(on_llvmpipe(benches)[0], desc, inputs)
    assert np.isinf(expected.values).any()


@pytest.mark.parametrize(
    ("sizes", "filters"),
    [
        ((2, 3, 33, 40), (20, 3, 8, 10)),
        ((2, 3, 9, 16, 8), (24, 3, 4, 4, 4)),
        ((2, 8, 8, 8), (20, 8, 2, 2)),
        ((2, 24, 6, 6), (20, 24, 1, 1)),  # whose channels lie behind one another
    ],
)
def test_patches_are_multiplied_as_a_matrix(
    benches: list[Workbench],
    imitated: Callable[[MatrixTile, int], None],
    sizes: tuple[int, ...],
    filters: tuple[int, ...],
) -> None:
    """With a bias and RELU, an infinite weight, and elements behind the last whole window."""
    imitated(LOW, SEQUENTIAL)
    random = np.random.default_rng(36)
    relu = dml.fused_activation("ACTIVATION_RELU")
    desc = convolution_desc(dml.FLOAT16, sizes, filters, strides=filters[2:], bias=True, fused=relu)
    if filters[2:] == (1, 1):
        last = (sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1])
        desc = dataclasses.replace(desc, input_tensor=dml.TensorDesc(dml.FLOAT16, sizes, last))
    inputs = {
        "InputTensor": values("normal", sizes, dml.FLOAT16, random),
        "FilterTensor": values("normal", filters, dml.FLOAT16, random),
        "BiasTensor": values("normal", (1, filters[0], *(1 for _ in sizes[2:])), dml.FLOAT16, random),
    }
    inputs["FilterTensor"][(1,) + (0,) * (len(filters) - 1)] = np.inf
    assert np.isinf(_check(on_llvmpipe(benches)[0], desc, inputs).values).any()


def test_the_reference_is_as_wide_as_the_stated_error_of_halves() -> None:
    """1025 products of 3 and -5: what 16384 terms in a row allow, rounded to 11 bits at last."""
    desc = gemm_desc(dml.FLOAT16, 1, 1025, 1)
    inputs = {"ATensor": np.full((1, 1025), 3, np.float16), "BTensor": np.full((1025, 1), -5, np.float16)}
    expected = outputs_within_error(desc, inputs)["OutputTensor"]
    assert isinstance(expected, Bounded)
    sums = (1025 + 2 + 2) * 2.0**-24 * 15375
    assert sums + 2.0**-11 * 15375 < expected.bound.item() < sums + 2.0**-11 * 15378 + 0.01


def test_bits_of_halves_are_the_devices_where_it_has_such_matrices() -> None:
    half = {"output_tensor": dml.FLOAT16}
    assert is_rounded_by_device("GEMM", half, of_halves=True)
    assert not is_rounded_by_device("GEMM", half)
    assert not is_rounded_by_device("LSTM", half, of_halves=True)
    assert is_rounded_by_device("LSTM", {"output_tensor": dml.FLOAT32}, of_halves=True)
