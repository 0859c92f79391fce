"""Products of 8-bit integers in tiles of packed operands, which GPUs have, on the devices that are there."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.datatypes import DataType
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import packed_products
from dmlvk.kernels.products.packed_products import TILES, PackedTile
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import OperatorDesc


def _only(monkeypatch: pytest.MonkeyPatch, tile: PackedTile, *, has_dot_product: bool) -> None:
    """Every product is computed with a tile, whatever its size."""

    def target(self: dml.Device) -> Target:
        own = Target.of(self.info, self.engine.enabled_features)
        has = own.has_integer_dot_product and has_dot_product
        return dataclasses.replace(own, is_cpu=False, has_integer_dot_product=has)

    monkeypatch.setattr(dml.Device, "target", property(target))
    monkeypatch.setattr(packed_products, "tile_for", lambda product, target: tile)


def _random(data_type: DataType, sizes: tuple[int, ...]) -> npt.NDArray[Any]:
    random = np.random.default_rng(sum(sizes))
    if data_type is dml.INT8:
        return random.integers(-128, 128, sizes, np.int8)
    return random.integers(0, 256, sizes, np.uint8)


def _matrix_desc(types: tuple[DataType, DataType], shape: tuple[int, int, int], zeros: bool) -> OperatorDesc:
    rows, terms, columns = shape
    zero_points = {
        "a_zero_point_tensor": dml.TensorDesc(types[0], (1, 1, rows, 1)),
        "b_zero_point_tensor": dml.TensorDesc(types[1], (1, 1, 1, columns)),
    }
    return dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(types[0], (1, 2, rows, terms)),
        b_tensor=dml.TensorDesc(types[1], (1, 2, terms, columns)),
        output_tensor=dml.TensorDesc(dml.INT32, (1, 2, rows, columns)),
        **(zero_points if zeros else {}),
    )


_SMALL = TILES[-1]
_SIGNS = [(dml.INT8, dml.INT8), (dml.UINT8, dml.INT8), (dml.INT8, dml.UINT8), (dml.UINT8, dml.UINT8)]


@pytest.mark.every_driver
@pytest.mark.parametrize(
    ("tile", "has_dot_product", "left", "right"),
    [
        *((_SMALL, True, left, right) for left, right in _SIGNS),
        (_SMALL, False, dml.UINT8, dml.INT8),
        *((tile, True, dml.INT8, dml.UINT8) for tile in TILES[:-1]),
    ],
    ids=lambda value: f"{value.rows}x{value.columns}" if isinstance(value, PackedTile) else str(value),
)
def test_products_are_exact(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    tile: PackedTile,
    has_dot_product: bool,
    left: DataType,
    right: DataType,
) -> None:
    """Of two batches, with tiles and vectors that are not full, without and with zero points."""
    _only(monkeypatch, tile, has_dot_product=has_dot_product)
    rows, terms, columns = tile.rows + 3, 69, tile.columns + 5
    a, b = _random(left, (1, 2, rows, terms)), _random(right, (1, 2, terms, columns))
    x, y = _random(left, (1, 1, rows, 1)), _random(right, (1, 1, 1, columns))
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    for zeros, expected in ((False, wide_a @ wide_b), (True, (wide_a - x) @ (wide_b - y))):
        desc = _matrix_desc((left, right), (rows, terms, columns), zeros)
        inputs = {"ATensor": a, "BTensor": b} | ({"AZeroPointTensor": x, "BZeroPointTensor": y} if zeros else {})
        for bench in benches if tile is _SMALL else benches[:1]:
            np.testing.assert_array_equal(bench.device.run(desc, inputs)["OutputTensor"], expected)


def test_sums_wrap_around(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 2^32, in sums and in what zero points take from them."""
    _only(monkeypatch, _SMALL, has_dot_product=True)
    terms = 2**17
    a, b = np.full((1, terms), 255, np.uint8), np.full((terms, 1), 255, np.uint8)
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.UINT8, a.shape),
        b_tensor=dml.TensorDesc(dml.UINT8, b.shape),
        output_tensor=dml.TensorDesc(dml.INT32, (1, 1)),
    )
    (got,) = any_device.run(desc, {"ATensor": a, "BTensor": b})["OutputTensor"].ravel()
    assert int(got) % 2**32 == 255 * 255 * terms % 2**32 != 255 * 255 * terms


@pytest.mark.parametrize(
    ("b_strides", "output_strides"), [((1, 80), None), ((100, 2), (3, 300))], ids=["turned", "far apart"]
)
def test_any_strides(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    b_strides: tuple[int, int],
    output_strides: tuple[int, int] | None,
) -> None:
    _only(monkeypatch, _SMALL, has_dot_product=True)
    rows, terms, columns = 70, 80, 48
    a, b = _random(dml.INT8, (rows, terms)), _random(dml.INT8, (terms, columns))
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.INT8, (rows, terms)),
        b_tensor=dml.TensorDesc(dml.INT8, (terms, columns), b_strides),
        output_tensor=dml.TensorDesc(dml.INT32, (rows, columns), output_strides),
    )
    got = any_device.run(desc, {"ATensor": a, "BTensor": b})["OutputTensor"]
    np.testing.assert_array_equal(got, a.astype(np.int64) @ b)


def test_convolutions_are_exact(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two groups, with strides, dilations and padding, which adds nothing whatever the zero points are."""
    _only(monkeypatch, _SMALL, has_dot_product=True)
    source, window = _random(dml.UINT8, (2, 6, 9, 8)), _random(dml.INT8, (10, 3, 3, 2))
    x, y = np.full((1, 1, 1, 1), 77, np.uint8), _random(dml.INT8, (1, 10, 1, 1))
    desc = dml.ConvolutionInteger(
        input_tensor=dml.TensorDesc(dml.UINT8, source.shape),
        input_zero_point_tensor=dml.TensorDesc(dml.UINT8, x.shape),
        filter_tensor=dml.TensorDesc(dml.INT8, window.shape),
        filter_zero_point_tensor=dml.TensorDesc(dml.INT8, y.shape),
        output_tensor=dml.TensorDesc(dml.INT32, (2, 10, 5, 9)),
        dimension_count=2,
        strides=(2, 1),
        dilations=(1, 2),
        start_padding=(1, 2),
        end_padding=(1, 1),
        group_count=2,
    )
    padded = np.pad(source.astype(np.int64) - 77, ((0, 0), (0, 0), (1, 1), (2, 1)))
    weights = window.astype(np.int64) - y.reshape(10, 1, 1, 1)
    expected = np.zeros((2, 10, 5, 9), np.int64)
    for channel in range(10):
        group = channel // 5 * 3
        for index in np.ndindex(5, 9):
            top, left = 2 * index[0], index[1]
            seen = padded[:, group : group + 3, top : top + 3, left : left + 3 : 2]
            expected[:, channel, index[0], index[1]] = (seen * weights[channel]).sum((1, 2, 3))
    inputs = {"InputTensor": source, "InputZeroPointTensor": x, "FilterTensor": window, "FilterZeroPointTensor": y}
    np.testing.assert_array_equal(any_device.run(desc, inputs)["OutputTensor"], expected)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("strides", "packs"),
    [
        (((8192, 4096, 64, 1), (8192, 4096, 1, 64)), 0),
        (((4096, 8192, 64, 1), (8192, 4096, 1, 64)), 1),  # batches in the other order
        (((8192, 4096, 64, 1), (0, 4096, 1, 64)), 1),  # the same for both outer batches
        (((8192, 4096, 64, 1), (8192, 4096, 64, 1)), 1),  # by rows
        (((8320, 4160, 65, 1), (8192, 4096, 1, 64)), 1),  # with gaps
        (((8192, 4096, 64, 1), (10240, 5120, 1, 80)), 1),
    ],
    ids=str,
)
def test_what_lies_as_tiles_read_it_is_not_packed(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    strides: tuple[tuple[int, ...], tuple[int, ...]],
    packs: int,
    zeros: bool,
) -> None:
    """Signed, lines behind one another, and as many of them and of their terms as fill all tiles."""
    _only(monkeypatch, _SMALL, has_dot_product=True)
    sizes = (2, 2, 64, 64)
    a, b = _random(dml.INT8, sizes), _random(dml.INT8, (*sizes[:3], 1)) + np.arange(64, dtype=np.int8)
    b = np.broadcast_to(b[:1], sizes) if strides[1][0] == 0 else b
    points = {"a_zero_point_tensor": (1, 1, 64, 1), "b_zero_point_tensor": (1, 1, 1, 64)} if zeros else {}
    x, y = _random(dml.INT8, (1, 1, 64, 1)), _random(dml.INT8, (1, 1, 1, 64))
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.INT8, sizes, strides[0]),
        b_tensor=dml.TensorDesc(dml.INT8, sizes, strides[1]),
        output_tensor=dml.TensorDesc(dml.INT32, sizes),
        **{member: dml.TensorDesc(dml.INT8, shape) for member, shape in points.items()},
    )
    inputs = {"ATensor": a, "BTensor": b} | ({"AZeroPointTensor": x, "BZeroPointTensor": y} if zeros else {})
    expected = (a.astype(np.int64) - (x if zeros else 0)) @ (b.astype(np.int64) - (y if zeros else 0))
    np.testing.assert_array_equal(any_device.run(desc, inputs)["OutputTensor"], expected)
    variants = [step.kernel.variant for step in lower(desc, any_device.target).steps]
    assert sum("packed_operand" in variant for variant in variants) == packs


@pytest.mark.parametrize(
    ("sizes", "strides", "packs"),
    [
        ((32, 64, 1, 1), None, 1),
        ((32, 2, 4, 4), None, 1),
        ((32, 2, 4, 4), (32, 1024, 4, 1), 2),  # rows and terms as far apart as packed, but not channels
        ((32, 16, 2, 2), (64, 1, 32, 16), 2),  # channels last
    ],
    ids=str,
)
def test_a_filter_that_lies_as_tiles_read_it_is_not_packed(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None,
    packs: int,
) -> None:
    _only(monkeypatch, _SMALL, has_dot_product=True)
    source, window = _random(dml.INT8, (2, sizes[1], 8, 9)), _random(dml.INT8, sizes)
    high, wide = 8 - sizes[2] + 1, 9 - sizes[3] + 1
    desc = dml.ConvolutionInteger(
        input_tensor=dml.TensorDesc(dml.INT8, source.shape),
        filter_tensor=dml.TensorDesc(dml.INT8, sizes, strides),
        output_tensor=dml.TensorDesc(dml.INT32, (2, 32, high, wide)),
        dimension_count=2,
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        group_count=1,
    )
    got = any_device.run(desc, {"InputTensor": source, "FilterTensor": window})["OutputTensor"]
    expected = np.zeros((2, 32, high, wide), np.int64)
    for i, j in np.ndindex(*sizes[2:]):
        seen = source[:, :, i : i + high, j : j + wide].astype(np.int64)
        expected += np.einsum("oc,nchw->nohw", window[:, :, i, j].astype(np.int64), seen)
    np.testing.assert_array_equal(got, expected)
    variants = [step.kernel.variant for step in lower(desc, any_device.target).steps]
    assert sum("packed_operand" in variant for variant in variants) == packs


def _variants(target: Target, shape: tuple[int, int, int]) -> list[str]:
    desc = _matrix_desc((dml.INT8, dml.INT8), shape, zeros=False)
    return [step.kernel.variant for step in lower(desc, target).steps]


def test_the_choice() -> None:
    """Tiles for GPUs and large products; of the tiles one that keeps a device busy, and its instructions."""
    packed = ["gemm_integer.packed_operand"]  # the right operand, which does not lie along the terms
    for shape, tile in (((4096, 256, 2048), "128x64"), ((1024, 256, 1024), "64x64"), ((512, 256, 256), "32x32")):
        assert _variants(GPU, shape) == [*packed, f"gemm_integer.packed.{tile}.plain"]
        with_dot = dataclasses.replace(GPU, has_integer_dot_product=True)
        assert _variants(with_dot, shape) == [*packed, f"gemm_integer.packed.{tile}.dot"]
    for target, shape in ((CPU, (4096, 256, 2048)), (GPU, (2048, 2048, 8)), (GPU, (64, 64, 64))):
        assert _variants(target, shape) == ["gemm_integer.int8_int8"]
    tiny = dataclasses.replace(GPU, buffer_size=2**16)  # into which no packed operand goes
    assert _variants(tiny, (4096, 256, 2048)) == ["gemm_integer.int8_int8"]


def test_integer_dot_products_are_for_devices_that_were_opened_with_them(any_device: dml.Device) -> None:
    """Kompute as it is on PyPI enables nothing, whatever the device has."""
    assert not Target.of(any_device.info).has_integer_dot_product
    assert Target.of(any_device.info, {"shaderIntegerDotProduct"}).has_integer_dot_product
    assert any_device.engine.enabled_features <= set(any_device.info.features)
