"""Products with packed weights have one definition in all graphs, on processors' kernels and GPUs'.

It holds in graphs that are not fused too; tests/operators/test_packed_rows.py, test_packed_matrices.py and
test_packed_chunks.py compare it with NumPy.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels.products import block_products
from dmlvk.kernels.products.block_weights import weights_of_blocks
from dmlvk.operators.block_weights import DequantizeBlocks
from tests.packed import Product, by_rows, dequantized, of_blocks, of_rows_and_blocks
from tests.targets import computes_as_gpu, variants_of

Array = npt.NDArray[Any]
SIZES = ((1, 40, 2048 + 96), (3, 33, 1152), (17, 40, 512), (40, 72, 320))
"""Rows, columns and terms: of few rows and of many, of several segments, and of no whole number of tiles."""

TYPES = tuple(itertools.product((dml.FLOAT16, dml.FLOAT32), (dml.UINT4, dml.INT4, dml.UINT8, dml.INT8), (False, True)))
"""Of numbers and integers, and whether there are zero points."""

ON_GPUS = pytest.param("a GPU's", marks=pytest.mark.every_driver)  # One driver skips what computes as GPUs do

EACH_KIND = pytest.mark.parametrize("kernels", ["its own", ON_GPUS])


def check(device: dml.Device, weights: Product, inputs: dict[str, Array], *, relu: bool = False) -> list[str]:
    """Whether the fused graph gives the bits of its operators one by one; returns its kernels."""
    graphs = [weights.graph(device, fuse=fuse, relu=relu) for fuse in (True, False)]
    fused, single = (device.run(graph, inputs)["y"] for graph in graphs)
    assert fused.tobytes() == single.tobytes(), (weights, variants_of(graphs[0]), np.argwhere(fused != single)[:4])
    return variants_of(graphs[0])


def _as(monkeypatch: pytest.MonkeyPatch, device: dml.Device, kernels: str) -> None:
    if kernels == "a GPU's":
        computes_as_gpu(monkeypatch, device, registers=256)


@EACH_KIND
@pytest.mark.parametrize("number", range(len(TYPES)))
def test_packed_weights_give_the_bits_of_numbers(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, number: int, kernels: str
) -> None:
    """All types of integers and numbers, with zero points and without, in blocks; of each one of the sizes."""
    _as(monkeypatch, device, kernels)
    size, types, block = SIZES[(number + number // 4) % 4], TYPES[number], (16, 32, 64)[number % 3]
    rows, columns, terms = size
    weights = Product(rows, terms // block * block, columns, types[1], block, types[0], types[2], has_addend=True)
    used = check(device, weights, weights.inputs(number), relu=number % 2 == 1)
    assert any(name.startswith(f"blocks.{types[0].name.lower()}.{types[1].size_in_bits}.") for name in used), used


@pytest.mark.parametrize("rows", [1, 5])
def test_weights_across_columns_are_packed_too(device: dml.Device, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """As DequantizeLinear of K x N has them; some columns after the others, as of large weights."""
    monkeypatch.setattr(block_products, "_PART_BYTES", 0)
    monkeypatch.setattr(block_products, "_WHOLE_BYTES", 0)
    weights = Product(rows, 96, 144, has_zeros=True, has_addend=True, is_transposed=False)
    assert check(device, weights, weights.inputs(1))[0] == "blocks.float16.4.numbers"


@EACH_KIND
def test_rare_scales_and_operands_give_the_same_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    """Denormals, infinities and NaN among scales and the first matrix, sums that vanish, products that are denormal."""
    _as(monkeypatch, device, kernels)
    for number, tiny in ((dml.FLOAT32, 1e-39), (dml.FLOAT16, 6e-8)):
        weights = Product(2, 1056, 24, dml.INT4, number=number, has_zeros=True, has_addend=True)
        for unusual in (0.0, tiny, 1e-20, np.inf, np.nan, -np.inf):
            inputs = weights.inputs(3)
            with np.errstate(all="ignore"):
                inputs["w.s"][3, 5] = inputs["w.s"][11, 0] = inputs["x"][1, 40] = number.numpy_dtype.type(unusual)
                inputs["x"][0] *= number.numpy_dtype.type(1e-22)
            check(device, weights, inputs)


def test_blocks_of_models_are_packed_weights_of_graphs(device: dml.Device) -> None:
    """DMLVK_DEQUANTIZE_BLOCKS, whose output's sizes nothing else decides."""
    random = np.random.default_rng(6)
    inputs: dict[str, Array] = {
        "x": random.standard_normal((2, 64)).astype(np.float32),
        "w": random.integers(0, 256, (5, 32), np.uint8),
        "w.s": random.standard_normal((5, 2)).astype(np.float32),
    }
    results = []
    for fuse in (True, False):
        model = of_rows_and_blocks(device, inputs, (5, 64), fuse=fuse, bits=4, block_size=32)
        results.append(device.run(model, inputs)["y"])
    integers = np.stack([inputs["w"] & 15, inputs["w"] >> 4], 2).reshape(5, 64).astype(float) - 8
    expected = inputs["x"].astype(float) @ (integers * np.repeat(inputs["w.s"], 32, 1)).T
    assert results[0].tobytes() == results[1].tobytes()
    assert np.allclose(results[0], expected, atol=1e-3)


@pytest.mark.parametrize("is_shown", [True, False])
def test_weights_that_are_an_output_too_are_made(device: dml.Device, is_shown: bool) -> None:
    """What a graph shows, or two operators read, is computed by DEQUANTIZE."""
    graph = dml.Graph(device)
    numbers = dequantized(graph, "w", (dml.FLOAT32, dml.INT4), (8, 32), (8, 1), has_zero=False)
    x = graph.input("x", dml.FLOAT32, (1, 32))
    model = graph.compile(y=by_rows(x, numbers), other=numbers if is_shown else by_rows(-x, numbers))
    inputs = {"w": np.arange(256, dtype=np.int8).reshape(8, 32) % 16 - 8, "w.s": np.ones((8, 1), np.float32)}
    results = device.run(model, {**inputs, "x": np.ones((1, 32), np.float32)})
    assert results["other"].tolist() == (inputs["w"] if is_shown else -inputs["w"].sum(axis=1)[None]).tolist()
    assert results["y"].tolist() == [inputs["w"].sum(axis=1).tolist()]
    assert not any(name.startswith("blocks.") for name in variants_of(model))


@dataclasses.dataclass(frozen=True)
class OwnBlocks:
    """Weights of DMLVK_DEQUANTIZE_BLOCKS whose scales are apart from the numbers' type, or multiplied by factors."""

    bits: int  # of an integer
    block: int  # terms that share a scale, or a factor
    factors: type[np.generic] | None = None  # INT8, or UINT8 of two each; ``None``: there are none
    zero: int = 0  # what stands for zero
    large: int = 1  # blocks that share a scale
    table: int | None = None  # what integers stand for
    has_exponents: bool = False  # whether scales are bytes
    has_minima: bool = False  # whether behind each scale, and each factor, lies that of a minimum
    has_float_zeros: bool = False  # whether blocks have numbers that stand for zero

    def inputs(self, columns: int, terms: int) -> dict[str, Array]:
        random = np.random.default_rng(terms + self.bits)
        each = 2 if self.has_minima else 1
        blocks, pairs = each * (terms // self.block), 2 if self.factors is np.uint8 else 1
        made: dict[str, Array] = {
            "w": random.integers(0, 256, (columns, terms * self.bits // 8), np.uint8),
            "w.s": (random.standard_normal((columns, blocks // self.large)) / 64).astype(np.float16),
        }
        if self.has_float_zeros:
            made["w.z"] = (random.standard_normal((columns, blocks)) * 4 + 8).astype(np.float32)
        if self.has_exponents:
            made["w.s"] = random.integers(100, 150, made["w.s"].shape, np.uint8)
        if self.factors is not None:
            made["w.f"] = random.integers(0, 256, (columns, blocks // pairs), np.uint8).view(self.factors)
        return made

    def integers(self, inputs: dict[str, Array]) -> Array:
        """Integers less what stands for zero, FLOAT32 [columns, terms]."""
        low, first = {3: 2, 5: 4, 6: 4}.get(self.bits, self.bits), 0
        terms = inputs["w"].shape[1] * 8 // self.bits
        integers = np.zeros((len(inputs["w"]), terms), np.int64)
        for bits, place in ((low, 0), (self.bits - low, low)):  # the planes, of which there may be one
            if bits:
                plane = inputs["w"][:, first : first + terms * bits // 8, None]
                shifts, first = np.arange(0, 8, bits, dtype=np.uint8), terms * bits // 8
                integers |= (plane >> shifts & (2**bits - 1)).reshape(len(plane), -1).astype(np.int64) << place
        if self.table is not None:
            integers = np.array(_TABLES[self.table])[integers]
        zeros = inputs["w.z"].repeat(self.block, 1) if self.has_float_zeros else np.float32(self.zero)
        made: Array = integers.astype(np.float32) - zeros.astype(np.float32)
        return made

    def scales(self, inputs: dict[str, Array]) -> tuple[Array, Array]:
        """Those of blocks, and minima or zeros: FLOAT32 [columns, blocks]."""
        each = 2 if self.has_minima else 1
        scales = np.exp2(inputs["w.s"] - 128.0) if self.has_exponents else inputs["w.s"]
        scales = scales.astype(np.float32).reshape(len(scales), -1, each).repeat(self.large, 1)
        if self.factors is np.int8:
            scales = scales * inputs["w.f"].astype(np.float32).reshape(scales.shape)
        elif self.factors is np.uint8:
            scales = scales * np.stack([inputs["w.f"] & 15, inputs["w.f"] >> 4], -1).reshape(scales.shape)
        return scales[..., 0], scales[..., 1] if self.has_minima else np.zeros_like(scales[..., 0])

    def numbers(self, inputs: dict[str, Array], dtype: Any) -> Array:
        """What they stand for, rounded to FLOAT32 and to the type."""
        scales, minima = (each.repeat(self.block, 1) for each in self.scales(inputs))
        made: Array = (self.integers(inputs) * scales - minima).astype(dtype)
        return made

    def graph(self, device: dml.Device, inputs: dict[str, Array], number: dml.DataType, *, fuse: bool) -> Any:
        graph = dml.Graph(device)
        x = graph.input("x", number, inputs["x"].shape)
        meaning = {"zero_point": self.zero} if self.table is None else {"table": self.table}
        meaning = {} if self.has_float_zeros else meaning
        members = {"bits": self.bits, "block_size": self.block, "has_minima": self.has_minima, **meaning}
        numbers = of_blocks(graph, inputs, "w", (len(inputs["w"]), x.sizes[1]), number, **members)
        y = by_rows(x, numbers)
        return graph.compile(y=y, fuse=True) if fuse else graph.compile(y=y, numbers=numbers, fuse=False)


OWN_BLOCKS = (
    OwnBlocks(4, 32, np.int8, 0, 8),
    OwnBlocks(2, 16, np.uint8, 0, 16),
    OwnBlocks(8, 16, np.int8, 32, 16),
    OwnBlocks(8, 8),
    OwnBlocks(4, 32, None, 8),
    OwnBlocks(4, 16, np.uint8, 3, 2),
    OwnBlocks(6, 16, np.int8, 32, 16),
    OwnBlocks(5, 32, np.int8, 0, 8),
    OwnBlocks(5, 32, None, 16),
    OwnBlocks(3, 16, np.int8, 4, 16),
    OwnBlocks(4, 32, table=1, has_exponents=True),
    OwnBlocks(4, 32, table=2),
    OwnBlocks(4, 32, np.int8, 0, 8, table=2),
)
"""As GGUF's types have them: Q4_K, Q2_K, Q6_K by bytes, minima, Q4_0, Q6_K, Q5_K, Q5_0, Q3_K, MXFP4, IQ4_NL, IQ4_XS;
and what none has."""

_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12)
_TABLES = {
    1: (*_E2M1, *(-number for number in _E2M1)),
    2: (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
}


@EACH_KIND
@pytest.mark.parametrize("number", [dml.FLOAT32, dml.FLOAT16], ids=str)
@pytest.mark.parametrize("kind", range(len(OWN_BLOCKS)))
def test_numbers_have_the_bits_of_their_scales_times_factors(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: int, number: dml.DataType, kernels: str
) -> None:
    _as(monkeypatch, device, kernels)
    weights = OWN_BLOCKS[kind]
    if number is dml.FLOAT16:
        weights = dataclasses.replace(weights, has_exponents=False)
    for rows, columns, terms in ((1, 24, 2048), (3, 9, 1280)):
        inputs = weights.inputs(columns, terms)
        inputs["x"] = np.random.default_rng(rows).standard_normal((rows, terms)).astype(number.numpy_dtype)
        fused, single = (weights.graph(device, inputs, number, fuse=fuse) for fuse in (True, False))
        expected = device.run(single, inputs)
        assert expected["numbers"].tobytes() == weights.numbers(inputs, number.numpy_dtype).tobytes()
        found, other = (results["y"].astype(float) for results in (device.run(fused, inputs), expected))
        assert np.abs(found - other).max() < 0.01 * np.abs(other).max()
        assert not any("numbers" in name for name in variants_of(fused))


def test_scales_may_be_halves_of_numbers_whose_zeros_are_floats(device: dml.Device) -> None:
    graph = dml.Graph(device)
    inputs: dict[str, Array] = {
        "w": np.full((2, 16), 0x77, np.uint8),
        "w.s": np.array([[0.5], [2.0]], np.float16),
        "w.z": np.array([[0.25], [7.0]], np.float32),
    }
    numbers = of_blocks(graph, inputs, "w", (2, 32), dml.FLOAT32, bits=4, block_size=32)
    made = device.run(graph.compile(numbers=numbers), inputs)["numbers"]
    assert made.tolist() == [[3.375] * 32, [0.0] * 32]


def test_more_weights_than_kernels_can_count_are_refused() -> None:
    columns, terms = 2**17, 3 * 2**13
    desc = DequantizeBlocks(
        packed_tensor=dml.TensorDesc(dml.UINT8, (columns, terms * 6 // 8)),
        scale_tensor=dml.TensorDesc(dml.FLOAT16, (columns, terms // 32)),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (columns, terms)),
        bits=6,
        block_size=32,
    )
    with pytest.raises(dml.DeviceLimitError, match="131072 x 36864 integers of 4 bits; kernels count up to 4294967295"):
        weights_of_blocks(desc)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_tensor": (4, 3)}, "ScaleTensor.Sizes must be 4 x a part of 8 blocks; got [4, 3]"),
        ({"factor_tensor": (4, 4)}, "FactorTensor.Sizes"),
        ({"factor_type": dml.UINT32}, "FactorTensor.DataType must be UINT8 or INT8; got UINT32"),
        ({"output_sizes": (1, 4, 256)}, "OutputTensor.DimensionCount must be 2; got 3"),
        ({"output_sizes": None}, "nothing tells the sizes of OutputTensor"),
        ({"zero_point": 16}, "ZeroPoint must be an integer of 4 bits; got 16"),
        ({"bits": 5}, "PackedTensor.Sizes"),
        ({"table": 3}, "Table must be 1 or 2; got 3"),
        ({"table": 1, "zero_point": 8}, "Table must be absent beside what stands for zero, and integers of 4 bits"),
        ({"zero_point_tensor": (4, 4)}, "ZeroPointTensor must be absent beside FactorTensor or ZeroPoint"),
        ({"group_index_tensor": (1, 256)}, "GroupIndexTensor must be absent beside FactorTensor"),
    ],
)
def test_factors_that_do_not_fit_are_refused(device: dml.Device, changes: dict[str, Any], message: str) -> None:
    sizes = {"packed_tensor": (4, 128), "scale_tensor": (4, 1), "factor_tensor": (4, 8)} | changes
    factor, made = sizes.pop("factor_type", dml.INT8), sizes.pop("output_sizes", (4, 256))
    types = {"scale_tensor": dml.FLOAT16, "factor_tensor": factor, "group_index_tensor": dml.UINT32}
    attributes = {"bits": 4} | {name: sizes.pop(name) for name in ("bits", "zero_point", "table") if name in sizes}
    graph = dml.Graph(device)
    tensors = {name: graph.input(name, types.get(name, dml.UINT8), each) for name, each in sizes.items()}
    with pytest.raises(dml.InvalidArgumentError, match=re.escape(message)):
        graph.apply("DMLVK_DEQUANTIZE_BLOCKS", tensors, {"block_size": 32, **attributes}, output_sizes=made)


@EACH_KIND
@pytest.mark.parametrize("follows", [False, True], ids=["beside one another", "one behind the other"])
def test_products_of_the_same_rows_share_their_parts(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kernels: str, follows: bool
) -> None:
    """Unless one is added to the next."""
    _as(monkeypatch, device, kernels)
    rows, columns, terms, random = 12, 24, 96, np.random.default_rng(0)
    graph, inputs, made = dml.Graph(device), dict[str, Array](), dict[str, Any]()
    x = graph.input("x", dml.FLOAT16, (rows, terms))
    inputs["x"] = random.standard_normal((rows, terms)).astype(np.float16)
    for number in range(3):
        inputs[f"w{number}"] = random.integers(0, 256, (columns, terms // 2), np.uint8)
        inputs[f"w{number}.s"] = random.standard_normal((columns, terms // 32)).astype(np.float16)
        numbers = of_blocks(graph, inputs, f"w{number}", (columns, terms), dml.FLOAT16, bits=4, block_size=32)
        made[f"y{number}"] = by_rows(x, numbers, made["y0"] if follows and number == 1 else None)
    fused, single = (graph.compile(**made, fuse=fuse) for fuse in (True, False))
    found, expected = (device.run(compiled, inputs) for compiled in (fused, single))
    assert {name: y.tobytes() for name, y in found.items()} == {name: y.tobytes() for name, y in expected.items()}
    if kernels == "its own":
        assert sum(name.endswith(".parts") for name in variants_of(fused)) == (2 if follows else 1)
