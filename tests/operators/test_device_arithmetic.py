"""ALLOW_DEVICE_ARITHMETIC: products within the stated error, by kernels of their own, for those only who ask for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
import dmlvk.functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, Expected, fault
from dmlvk.conformance.references.device_arithmetic import OPERATORS, is_rounded_by_device, outputs_within_error
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.samples.products import KINDS, convolution_desc, values
from dmlvk.datatypes import DataType
from dmlvk.kernels import library
from dmlvk.kernels.products import matrix
from dmlvk.kernels.products.matrix_choice import Choice, Work
from dmlvk.kernels.products.matrix_tiles import (
    MEDIUM,
    ON_PROCESSORS,
    ONE_SEGMENT,
    PARALLEL,
    PLANES,
    ROWS_ACROSS,
    SEGMENT,
    SEQUENTIAL,
    SINGLE,
    TILES,
    WINDOWS,
    MatrixTile,
)
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import OperatorDesc
from dmlvk.spirv import opcodes
from scripts.shader_tools.spirv import Module
from tests.operators.test_products import gemm_desc, on_llvmpipe
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC
_SMALLEST = SINGLE[-1]
_QUICK_TILES = (MEDIUM, _SMALLEST, ROWS_ACROSS[0], TILES[-1])
"""One of each kind of kernel."""


@pytest.fixture(autouse=True)
def _own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    all_compute_as_gpus(monkeypatch, as_gpus=False)


def only(monkeypatch: pytest.MonkeyPatch, tile: MatrixTile, come: int) -> None:
    """Every product is computed with a tile, and with its segments coming together in a way."""

    def chosen(work: Work, target: Target) -> Choice:
        return Choice(tile, ONE_SEGMENT if work.terms <= SEGMENT else come, tile.segments_at_once(target))

    monkeypatch.setattr(matrix, "choose", chosen)


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
            tile,
            (SEQUENTIAL, PARALLEL)[i % 2],
            id=tile.name,
            marks=[] if tile in _QUICK_TILES else pytest.mark.sweep,
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
