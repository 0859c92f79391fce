"""Products of exact integers, and arithmetic that a device may choose."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
import dmlvk.functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references import exact_products as reference
from dmlvk.conformance.references.bounded import Bounded, Expected, fault
from dmlvk.conformance.references.device_arithmetic import OPERATORS, is_rounded_by_device, outputs_within_error
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.samples.products import KINDS, convolution_desc, values
from dmlvk.datatypes import DataType
from dmlvk.kernels import library
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import exact_products
from dmlvk.kernels.products.matrix_tile import PARALLEL, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import MEDIUM, ON_PROCESSORS, PLANES, ROWS_ACROSS, SINGLE, TILES, WINDOWS
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import OperatorDesc
from dmlvk.spirv import opcodes
from scripts.shader_tools.spirv import Module
from tests.cooperative_modules import imitate_matrices
from tests.operators.test_products import gemm_desc, only
from tests.targets import on_llvmpipe, variants

Array = npt.NDArray[Any]

ABLE = dataclasses.replace(
    GPU,
    has_cooperative_bytes=True,
    device_arithmetic=True,
    shared_memory=49152,
    work_group_size=1024,
    buffers=8,
    buffer_size=2**32 - 1,
)

_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC


@pytest.fixture
def device(benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device that has such matrices, or what imitates them, and multiplies all that it may by them."""
    imitate_matrices(monkeypatch, {variant.name: variant for variant in (exact_products.TILES, exact_products.OTHERS)})
    monkeypatch.setattr(dml.Device, "target", property(lambda _: ABLE))
    for least in ("_FEWEST_TERMS", "_FEWEST_GROUPS", "_LEAST_SIDE"):
        monkeypatch.setattr(exact_products, least, 1)
    return on_llvmpipe(benches)[0].device


def _run(device: dml.Device, desc: dml.Gemm, inputs: dict[str, Array]) -> Array:
    compiled = device.compile_operator(device.create_operator(desc), _ALLOWED)
    variants = [step.kernel.variant for step in compiled.steps]
    assert {exact_products.OPERAND.name, exact_products.TILES.name, exact_products.REST.name} <= set(variants)
    result: Array = device.run(compiled, inputs)["OutputTensor"]
    assert fault("GEMM", result, outputs_within_error(desc, inputs)["OutputTensor"]) is None
    return result


def test_results_have_the_bits_of_their_definition(device: dml.Device) -> None:
    """Of a tile whose rows are certified by six products, by nine, and not at all, with columns at its edge."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((40, 1030)), random.standard_normal((1030, 140))
    a[1, 7::256] *= 1000
    a[5:8, 7] *= 1000
    a[8] *= random.random(1030) < 0.01
    a[9] = np.sign(a[9]) * np.where(random.random(1030) < 0.5, 1, 1 - 2.0**-24)  # the largest integers
    a[10], a[11] = 0, np.arange(1030) == 300  # whose integers are exact: nine products are certified
    a[12] = np.sign(a[12]) * np.where(random.random(1030) < 0.5, 2.0**40, 2.0**-126)
    a, b = a.astype(np.float32), b.astype(np.float32)
    result = _run(device, gemm_desc(dml.FLOAT32, 40, 1030, 140), {"ATensor": a, "BTensor": b})
    expected, certified = reference.product(a, b.T)
    counts = {int(n): int((certified == n).sum()) for n in (0, 6, 9)}
    assert min(counts.values()) > 0 and counts[0] <= 256, counts
    assert np.array_equal(result[certified > 0], expected[certified > 0]) and (certified[11] == 9).mean() > 0.9


@pytest.mark.sweep
def test_layouts_and_what_follows_sums(device: dml.Device) -> None:
    """Both operands transposed, one of them the same for two batches, C, Alpha, Beta and RELU; what is not finite, and
    a tile that is computed as a whole."""
    random = np.random.default_rng(2)
    rows, terms, columns = 36, 1028, 132
    sizes = {"ATensor": (2, 1, terms, rows), "BTensor": (2, 1, columns, terms), "CTensor": (2, 1, rows, columns)}
    inputs = {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    inputs["BTensor"][1] = inputs["BTensor"][0]
    inputs["ATensor"][0, 0, 3, 1], inputs["ATensor"][0, 0, 1027, 2] = np.nan, -np.inf
    inputs["ATensor"][1, 0, 5::7] *= np.float32(1e30)
    tensors = {name: dml.TensorDesc(dml.FLOAT32, size) for name, size in sizes.items()}
    desc = dml.Gemm(
        a_tensor=tensors["ATensor"],
        b_tensor=dml.TensorDesc(dml.FLOAT32, sizes["BTensor"], (0, 0, terms, 1)),
        c_tensor=tensors["CTensor"],
        output_tensor=tensors["CTensor"],
        trans_a=dml.MatrixTransform.TRANSPOSE,
        trans_b=dml.MatrixTransform.TRANSPOSE,
        alpha=0.75,
        beta=-2.0,
        fused_activation=dml.fused_activation("ACTIVATION_RELU"),
    )
    _run(device, desc, inputs)


def _errors(a: Array, b: Array) -> tuple[Array, Array]:
    """Of results how large their errors are beside what is stated, and by how many products each is certified."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    results, certified = reference.product(a, b)
    terms = a.shape[1]
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble).T
    magnitudes = np.abs(a).astype(float) @ np.abs(b).astype(float).T
    stated = (min(terms, 1024) + -(-terms // 1024) + 2) * 2.0**-24 * magnitudes
    with np.errstate(invalid="ignore"):
        return np.abs(results - exact) / stated, certified


def _hard(kind: str, random: np.random.Generator) -> tuple[Array, Array]:
    a, b, terms = random.standard_normal((12, 1100)), random.standard_normal((16, 1100)), np.arange(1100)
    if kind == "graded":
        scale = np.exp2(random.integers(-60, 61, 1100))
        return a * scale, b / scale
    if kind == "huge in each block":
        return np.where(terms % 256 == 9, 1e6, 1) * a, b
    if kind == "huge meets zeros":
        return np.where(terms % 256 == 9, 1e6, 1) * a, np.where(terms % 256 == 9, 0, b)
    if kind == "cancelling":
        return np.repeat(a[:, ::2], 2, 1), np.repeat(b[:, ::2], 2, 1) * np.tile([1, -1], 550)
    if kind == "Hilbert":
        return 1 / (np.arange(12)[:, None] + terms + 1), 1 / (np.arange(16)[:, None] + terms + 1)
    if kind == "Vandermonde":
        return np.linspace(-1, 1, 12)[:, None] ** terms, np.linspace(-1, 1, 16)[:, None] ** terms
    if kind == "largest bytes left out":  # each -128, so that what six products leave out adds up
        a, b = (np.where(random.random(side.shape) < 0.2, 1, -32896 * 2.0**-22) for side in (a, b))
        return a, b
    if kind == "outlying channels":
        return a * np.where(random.random(1100) < 0.01, 1000, 1), b
    if kind == "features in units of their own":
        scale = np.exp(random.uniform(-14, 14, 1100))
        return np.abs(a) * scale, b / scale
    return a, b


@pytest.mark.parametrize(
    ("kind", "products"),
    [
        ("normal", {6}),
        ("cancelling", {6}),
        ("Hilbert", {6, 9}),
        ("Vandermonde", {0, 6, 9}),
        ("largest bytes left out", {6}),
        ("outlying channels", {0, 9}),
        ("huge in each block", {0}),
        ("huge meets zeros", {0}),
        ("graded", {0}),
        ("features in units of their own", {0}),
    ],
)
def test_what_is_certified_is_within_the_stated_error(kind: str, products: set[int]) -> None:
    """Of matrices that are made to break it, with results of nine products that do."""
    with np.errstate(under="ignore", over="ignore"):
        errors, certified = _errors(*_hard(kind, np.random.default_rng(3)))
    assert set(certified.flat) == products
    assert errors[certified > 0].max(initial=0) < 0.25
    if kind in ("huge meets zeros", "graded", "features in units of their own"):
        assert errors.max() > 1


def test_a_result_does_not_depend_on_what_lies_beside_it() -> None:
    random = np.random.default_rng(4)
    a, b = random.standard_cauchy((9, 1500)).astype(np.float32), random.standard_normal((7, 1500)).astype(np.float32)
    results, certified = reference.product(a, b)
    assert len(np.unique(certified)) > 1
    for row in range(9):
        alone = reference.product(a[row : row + 1], b[3:4])
        assert (alone[0][0, 0], alone[1][0, 0]) == (results[row, 3], certified[row, 3])


def test_they_are_for_large_products_of_devices_that_have_such_matrices() -> None:
    def chosen(target: Target, rows: int, terms: int, columns: int, data_type: dml.DataType = dml.FLOAT32) -> bool:
        desc = gemm_desc(data_type, rows, terms, columns)
        return exact_products.TILES.name in [step.kernel.variant for step in lower(desc, target).steps]

    for shape in ((4096, 4096, 4096), (4095, 4093, 4091), (512, 4096, 14336), (1024, 16384, 1024), (8192, 8192, 8192)):
        assert chosen(ABLE, *shape), shape
    few_terms, many_terms, few_rows, few_tiles = (
        (4096, 1024, 4096),
        (512, 2**16 + 1, 8192),
        (256, 4096, 14336),
        (900, 4096, 900),
    )
    for shape in (few_terms, many_terms, few_rows, few_tiles, (16384, 16384, 16384)):
        assert not chosen(ABLE, *shape), shape
    assert not chosen(ABLE, 4096, 4096, 4096, dml.FLOAT16)
    for lacks in (
        {"device_arithmetic": False},
        {"has_cooperative_bytes": False},
        {"shared_memory": 49151},
        {"buffers": 4},
        {"buffer_size": 2**26},
    ):
        assert not chosen(dataclasses.replace(ABLE, **lacks), 4096, 4096, 4096)


_SMALLEST = SINGLE[-1]

_QUICK_TILES = (MEDIUM, _SMALLEST, ROWS_ACROSS[0], TILES[-1])
"""One of each kind of kernel."""


pytestmark = pytest.mark.usefixtures("own_kernels")


def allowed(bench: Workbench, desc: OperatorDesc, inputs: dict[str, Array]) -> Array:
    """A product with the flag, of kernels that are there for it."""
    device = bench.device
    compiled = device.compile_operator(device.create_operator(desc), _ALLOWED)
    assert any(step.kernel.variant.endswith(".device") for step in compiled.steps)
    return device.run(compiled, inputs)["OutputTensor"]


def product(kind: str, rows: int, terms: int, columns: int) -> tuple[dml.Gemm, dict[str, Array]]:
    """A product with C, Alpha and Beta, and operands of a kind."""
    random = np.random.default_rng(21)
    more = {"alpha": 0.75, "beta": -2.0, "c_tensor": dml.TensorDesc(dml.FLOAT32, (rows, columns))}
    desc = gemm_desc(dml.FLOAT32, rows, terms, columns, **more)
    sizes = {"ATensor": (rows, terms), "BTensor": (terms, columns), "CTensor": (rows, columns)}
    return desc, {name: values(kind, size, dml.FLOAT32, random) for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("tile", "come"),
    [
        pytest.param(
            tile, (SEQUENTIAL, PARALLEL)[i % 2], id=tile.name, marks=[] if tile in _QUICK_TILES else pytest.mark.sweep
        )
        for i, tile in enumerate(tile for tile in TILES if "gemm" in tile.families)
    ],
)
def test_every_tile_keeps_the_stated_error(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tile: MatrixTile, come: int
) -> None:
    """With denormal products, and with infinities and NaN in one operand; the last tile is padded."""
    only(monkeypatch, tile, come)
    desc, inputs = product("normal", tile.rows + 3, 1045, tile.columns + 5)
    a, b = inputs["ATensor"], inputs["BTensor"]
    random = np.random.default_rng(22)
    a[3], b[:, 5] = (values("tiny", (1045,), dml.FLOAT32, random) for _ in range(2))
    a[1, 1040], a[2, 3], b[1044, 8] = np.inf, np.nan, -np.inf
    expected = outputs_within_error(desc, inputs)["OutputTensor"]
    for bench in benches if tile is TILES[-1] else on_llvmpipe(benches):
        got = allowed(bench, desc, inputs)
        assert fault(tile.name, got, expected) is None
        if tile in (_SMALLEST, TILES[-1]):
            assert allowed(bench, desc, inputs).tobytes() == got.tobytes()  # on one device always the same


@pytest.mark.parametrize(
    "kind", [kind if kind in ("huge", "tiny") else pytest.param(kind, marks=pytest.mark.sweep) for kind in KINDS]
)
def test_every_kind_of_data_keeps_the_stated_error(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    only(monkeypatch, _SMALLEST, SEQUENTIAL)
    desc, inputs = product(kind, 5, 2100, 6)
    expected = outputs_within_error(desc, inputs)["OutputTensor"]
    assert fault(kind, allowed(on_llvmpipe(benches)[0], desc, inputs), expected) is None


@pytest.mark.parametrize(
    "tile", [_SMALLEST, WINDOWS, *PLANES, ON_PROCESSORS[-1], TILES[-1]], ids=lambda tile: tile.name
)
def test_what_pads_a_convolution_meets_no_infinity(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tile: MatrixTile
) -> None:
    """Beside padding an infinite weight counts for nothing, and in the middle NaN and infinities are what they are."""
    only(monkeypatch, tile, PARALLEL)
    random = np.random.default_rng(23)
    options = {"start": (1, 1), "end": (1, 1), "strides": (2, 1)}
    desc = convolution_desc(dml.FLOAT32, (2, 3, 7, 9), (4, 3, 3, 3), **options)
    inputs = {
        "InputTensor": values("normal", (2, 3, 7, 9), dml.FLOAT32, random),
        "FilterTensor": values("special", (4, 3, 3, 3), dml.FLOAT32, random),
        "BiasTensor": values("normal", (1, 4, 1, 1), dml.FLOAT32, random),
    }
    inputs["FilterTensor"][1] = values("normal", (3, 3, 3), dml.FLOAT32, random)
    inputs["FilterTensor"][1, 0, 0, 0] = np.inf  # outside of the image for the results of the first row
    expected = outputs_within_error(desc, inputs)["OutputTensor"]
    assert isinstance(expected, Bounded)
    assert np.isfinite(expected.values[:, 1, 0]).all() and np.isinf(expected.values[:, 1, 1:, 1:]).all()
    for bench in on_llvmpipe(benches):
        assert fault(tile.name, allowed(bench, desc, inputs), expected) is None


def test_only_operators_with_float32_products_have_other_kernels() -> None:
    """The list of them is what the plan makes of every operator: first samples of each combination of data types."""
    found = set()
    for case in sample_cases():
        types = dict(case.data_types)
        desc = next(iter(case.samples())).desc
        for target in (GPU, CPU):
            same = variants(desc, target) == variants(desc, dataclasses.replace(target, device_arithmetic=True))
            assert same or is_rounded_by_device(desc.operator_name, types), case.name
            if not same:
                found.add(desc.operator_name)
    assert found == set(OPERATORS)


def test_the_kernels_fuse_and_no_others_do() -> None:
    fma = opcodes.functions("Fma")

    def calls(variant: str) -> list[bool]:
        """Of each fma() whether it must be rounded once or twice as it is written."""
        module = Module(library.load(variant))
        made = [call for call in module.named("OpExtInst") if call.arguments[1] in fma]
        return [module.has_decoration(call.result, opcodes.NO_CONTRACTION) for call in made]

    for tile in (_SMALLEST, TILES[-1]):
        for family in tile.families:
            target = dataclasses.replace(GPU, device_arithmetic=True)
            assert calls(tile.variant(family, dml.FLOAT32, target).name) == [False]
            assert calls(tile.variant(family, dml.FLOAT32, GPU).name) == []
            assert tile.variant(family, dml.FLOAT16, target) == tile.variant(family, dml.FLOAT16, GPU)


def test_the_reference_is_as_wide_as_the_stated_error_and_no_wider() -> None:
    """Against Python's fractions, by a product whose bound follows by hand."""
    desc = gemm_desc(dml.FLOAT32, 1, 1025, 1)
    inputs = {"ATensor": np.full((1, 1025), 3, np.float32), "BTensor": np.full((1025, 1), -5, np.float32)}
    expected: Expected = outputs_within_error(desc, inputs)["OutputTensor"]
    assert isinstance(expected, Bounded)
    assert expected.values.item() == -15375
    stated = (1024 + 2 + 2) * 2.0**-24 * 15375
    assert stated < expected.bound.item() < stated + 2.0**-24 * 15376 + 1e-4  # and Alpha's rounding
    assert fault("", np.array([[-15375]], np.float32), expected) is None
    assert fault("", np.array([[-15377]], np.float32), expected) is not None


def test_devices_graphs_and_flags_choose_it(device: dml.Device) -> None:
    desc, inputs = product("normal", 4, 30, 5)
    operator = device.create_operator(desc)

    def rounds(compiled: Any) -> bool:
        return any(step.kernel.variant.endswith(".device") for step in compiled.steps)

    assert not rounds(device.compile_operator(operator)) and rounds(device.compile_operator(operator, _ALLOWED))
    with dml.Device(device.info.index, arithmetic="device") as own:
        compiled = own.compile_operator(own.create_operator(desc))
        assert rounds(compiled) and compiled.flags == _ALLOWED
        expected = outputs_within_error(desc, inputs)["OutputTensor"]
        assert fault("run", own.run(desc, inputs)["OutputTensor"], expected) is None
    builder = dml.Graph(device)
    a, b = builder.input("A", dml.FLOAT32, (4, 30)), builder.input("B", dml.FLOAT32, (30, 5))
    graph = builder.compile(F.gemm(a, b), flags=_ALLOWED)
    assert rounds(graph)


@pytest.mark.parametrize("said", ["fast", "Device", "1", "portable device"])
def test_unknown_words_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    with pytest.raises(
        dml.InvalidArgumentError, match=rf"^Device: arithmetic must be 'portable' or 'device'; got '{said}'$"
    ):
        dml.Device(arithmetic=said)  # type: ignore[arg-type]
    monkeypatch.setenv("DMLVK_ARITHMETIC", said)
    with pytest.raises(
        dml.InvalidArgumentError, match=rf"^DMLVK_ARITHMETIC must be 'portable' or 'device'; got '{said}'$"
    ):
        dml.Device()


@pytest.mark.parametrize(("said", "expected"), [("device", "device"), (" device ", "device"), ("", "portable")])
def test_the_environment_says_what_devices_do(
    monkeypatch: pytest.MonkeyPatch, device: dml.Device, said: str, expected: str
) -> None:
    monkeypatch.setenv("DMLVK_ARITHMETIC", said)
    with dml.Device(device.info.index) as opened:
        assert opened.arithmetic == expected
    with dml.Device(device.info.index, arithmetic="portable") as opened:
        assert opened.arithmetic == "portable"


def test_data_types_decide_whether_bits_are_the_devices() -> None:
    assert is_rounded_by_device("GEMM", {"output_tensor": DataType.FLOAT32})
    assert not is_rounded_by_device("GEMM", {"output_tensor": DataType.FLOAT16})
    assert not is_rounded_by_device("REDUCE", {"output_tensor": DataType.FLOAT32})
