"""Products by matrices that subgroups hold together: what is chosen for whom, without a device that computes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.conformance.samples.products import convolution_desc
from dmlvk.graphs.channels_last import channels_last
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import channel_copies, matrix, padded_products
from dmlvk.kernels.products.convolution import ConvolutionEpilogue, lower_with_epilogue
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.products.matrix_tile import MatrixTile
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc
from tests.operators.test_cooperative_floats import (
    ABLE,
    ALONE,
    FLAT,
    LARGE,
    LARGE_OF_PARTS,
    LOW,
    LOWEST,
    SHORT,
    SMALL,
    SMALL_OF_PARTS,
    SMALLEST,
    VARIANTS,
    WINDOWS,
)
from tests.operators.test_products import gemm_desc

_TRANSPOSE = dml.MatrixTransform.TRANSPOSE
_BACKWARD = dml.ConvolutionDirection.BACKWARD


@pytest.fixture(autouse=True)
def _without_copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels compute of operands as they lie; copies are looked at where a test says so."""
    if "copies" not in request.node.name:
        monkeypatch.setattr(channel_copies, "_gains", lambda *_: False)
        monkeypatch.setattr(padded_products, "_LEAST_WORK", 2**62)


def _copied(desc: OperatorDesc, **others: Any) -> list[str]:
    target = dataclasses.replace(ABLE, **{"buffer_size": 2**31, **others})
    labels = [step.label.split(": ")[-1] for step in lower(desc, target).steps]
    return [label.split()[0] for label in labels if "in whole vectors" in label or "in eights" in label]


def test_copies_of_matrices_are_made_where_they_are_worth_it() -> None:
    assert _copied(gemm_desc(dml.FLOAT16, 4095, 4095, 4095)) == ["a_tensor", "b_tensor"]
    assert _copied(gemm_desc(dml.FLOAT16, 512, 768, 50257)) == ["b_tensor"]
    assert not _copied(gemm_desc(dml.FLOAT16, 4096, 4096, 4096))
    assert not _copied(gemm_desc(dml.FLOAT16, 8, 4095, 4095))  # which waits for memory
    assert not _copied(gemm_desc(dml.FLOAT16, 4095, 4095, 4095), device_arithmetic=False)
    assert not _copied(gemm_desc(dml.FLOAT16, 4095, 4095, 4095), buffer_size=2**26)  # which copies have no room in


def test_copies_of_channels_are_made_where_they_are_worth_it() -> None:
    both = ["input_tensor", "filter_tensor"]
    of_few = convolution_desc(dml.FLOAT16, (1, 128, 512, 512), (3, 128, 3, 3), bias=False)
    assert _copied(of_few) == both
    turned = {"direction": _BACKWARD, "strides": (2, 2), "start": (1, 1), "end": (1, 1)}
    assert _copied(convolution_desc(dml.FLOAT16, (8, 256, 64, 64), (256, 128, 4, 4), bias=False, **turned)) == both
    depthwise = convolution_desc(dml.FLOAT16, (32, 128, 56, 56), (128, 1, 3, 3), groups=128, bias=False)
    small = convolution_desc(dml.FLOAT16, (1, 128, 7, 7), (3, 128, 1, 1), bias=False)
    for desc in (depthwise, small):
        assert not _copied(desc)
    assert not _copied(of_few, device_arithmetic=False)
    assert not _copied(of_few, buffer_size=2**26)


def _chosen(desc: OperatorDesc, target: Target = ABLE) -> list[str]:
    return [step.kernel.variant for step in lower(desc, target).steps]


def _name(tile: MatrixTile, family: str = "gemm") -> str:
    return tile.variant(family, tile.types[0], ABLE).name


def test_the_choice() -> None:
    """The larger tile where it keeps a device busy, or where memory suffices; nothing without the permission."""
    for shape, names in (
        ((4096, 4096, 4096), [_name(LARGE)]),
        ((4096, 768, 768), [_name(FLAT)]),  # 258 tiles: two for almost every core
        ((4096, 768, 3072), [_name(LARGE)]),  # 768 tiles: three turns of two for each core
        ((512, 4096, 4096), [_name(ALONE)]),  # 128 tiles: almost as many as cores
        ((1024, 3072, 768), [_name(SMALL)]),  # 192 tiles
        ((784, 768, 192), [_name(LOW)]),  # 39 of these
        ((17, 64, 4096), [_name(LOWEST)]),
        ((196, 1536, 384), [_name(LOWEST)]),
        ((256, 16384, 256), [_name(LOWEST), "gemm.float16.sums"]),  # side by side
        ((64, 3072, 256), [_name(SHORT), "gemm.float16.sums"]),  # 16 of the smallest tiles
    ):
        assert _chosen(gemm_desc(dml.FLOAT16, *shape)) == names
    product = matrix.gemm_product(gemm_desc(dml.FLOAT16, 512, 4096, 4096), with_eights=True)
    tiles = [choose(dataclasses.replace(product, beside=beside).work(), ABLE).tile for beside in (1, 2)]
    assert tiles == [ALONE, LARGE]  # 256 together: two for almost every core
    for sizes, filters, tile in (
        ((32, 128, 28, 28), (128, 128, 3, 3), WINDOWS[0]),
        ((32, 256, 14, 14), (256, 256, 3, 3), WINDOWS[1]),
        ((32, 512, 7, 7), (512, 512, 3, 3), WINDOWS[2]),
        ((32, 64, 56, 56), (64, 64, 3, 3), WINDOWS[2]),
    ):
        padded = convolution_desc(dml.FLOAT16, sizes, filters, start=(1, 1), end=(1, 1))
        assert _name(tile, "convolution") in _chosen(padded)
    large = gemm_desc(dml.FLOAT16, 4096, 4096, 4096)
    flat = gemm_desc(dml.FLOAT16, 512, 4096, 4096)
    limits: list[tuple[dml.Gemm, MatrixTile, dict[str, Any]]] = [
        (large, LARGE, {"shared_memory": LARGE.shared_memory - 1}),
        (flat, ALONE, {"work_group_size": ALONE.invocations - 1}),
    ]
    for desc, tile, limit in limits:
        assert _chosen(desc, dataclasses.replace(ABLE, **limit)) != [_name(tile)]
    for data_type, tile in ((dml.FLOAT32, LARGE_OF_PARTS), (dml.FLOAT16, LARGE)):
        assert _chosen(gemm_desc(data_type, 4096, 4096, 4096)) == [_name(tile)]
    for lacking in ({"device_arithmetic": False}, {"has_cooperative_halves": False}, {"shared_memory": 1}):
        assert not set(_chosen(large, dataclasses.replace(ABLE, **lacking))) & set(VARIANTS)
    for shape, names in (((512, 512, 512), [_name(SMALL_OF_PARTS)]), ((256, 256, 2048), [_name(SMALL_OF_PARTS)])):
        assert _chosen(gemm_desc(dml.FLOAT32, *shape)) == names, shape
    for shape in ((256, 256, 256), (63, 4096, 4096)):  # too few tiles, and too few rows
        assert not set(_chosen(gemm_desc(dml.FLOAT32, *shape))) & set(VARIANTS), shape
    of_parts = gemm_desc(dml.FLOAT32, 4096, 4096, 4096)
    for lacking in ({"device_arithmetic": False}, {"has_cooperative_brain_floats": False}, {"shared_memory": 1}):
        assert not set(_chosen(of_parts, dataclasses.replace(ABLE, **lacking))) & set(VARIANTS)
    for few in ((16, 512, 512), (512, 15, 512), (512, 512, 15)):
        assert not set(_chosen(gemm_desc(dml.FLOAT16, *few))) & set(VARIANTS)
    depthwise = convolution_desc(dml.FLOAT16, (32, 128, 56, 56), (128, 1, 3, 3), groups=128)
    assert not set(_chosen(depthwise)) & set(VARIANTS)


def test_small_depthwise_windows_are_shared() -> None:
    """Where a device may have its own order of sums, and channels lie last."""
    ordered = dataclasses.replace(ABLE, device_arithmetic=False)
    for side, width, name, name_in_order in (
        (14, 7, "depthwise.1.by8", "depthwise.1"),
        (14, 3, "depthwise.1.by4", "depthwise.1"),
        (112, 7, "depthwise.4", "depthwise.4"),
    ):
        packed = convolution_desc(dml.FLOAT16, (1, 384, side, side), (384, 1, width, width), groups=384)
        desc = dataclasses.replace(
            packed, input_tensor=channels_last(packed.input_tensor), output_tensor=channels_last(packed.output_tensor)
        )
        assert _chosen(desc)[-1].endswith(name)
        assert _chosen(desc, ordered)[-1].endswith(name_in_order)


def _constants(desc: OperatorDesc) -> Mapping[str, int]:
    (kernel,) = (step.kernel for step in lower(desc, ABLE).steps if step.kernel.variant in VARIANTS)
    assert isinstance(kernel, PlainKernel)
    return kernel.constants


def test_operands_are_loaded_by_eights_where_eights_lie_behind_one_another() -> None:
    of_operands = ("LEFT_ALONG_TERMS", "LEFT_HAS_VECTORS", "RIGHT_ALONG_TERMS", "RIGHT_HAS_VECTORS")
    names = (*of_operands, "OUTPUT_HAS_PAIRS", "OUTPUT_HAS_FOURS")
    products: list[tuple[dict[str, Any], tuple[int, int, int], tuple[int, ...]]] = [
        ({}, (512, 512, 512), (1, 1, 0, 1, 1, 1)),
        ({"trans_a": _TRANSPOSE, "trans_b": _TRANSPOSE}, (512, 512, 512), (0, 1, 1, 1, 1, 1)),
        ({"trans_b": _TRANSPOSE}, (512, 520, 515), (1, 1, 1, 1, 0, 0)),
    ]
    for options, shape, expected in products:
        constants = _constants(gemm_desc(dml.FLOAT16, *shape, **options))
        assert tuple(constants[name] for name in names) == expected
    for data_type in SMALLEST:
        for shape in ((512, 516, 512), (512, 512, 516)):
            assert not set(_chosen(gemm_desc(data_type, *shape))) & set(VARIANTS)
    for sizes, window, options, across in (
        ((32, 64, 56, 56), (64, 64, 1, 1), {}, 1),
        ((32, 64, 7, 7), (64, 64, 1, 1), {}, 0),
        ((32, 64, 56, 56), (64, 64, 3, 3), {"start": (1, 1), "end": (1, 1)}, 0),
        ((32, 64, 56, 56), (64, 64, 1, 1), {"strides": (2, 2)}, 0),
        ((32, 64, 56, 56), (64, 64, 1, 1), {"start": (0, 8)}, 0),
    ):
        assert _constants(convolution_desc(dml.FLOAT16, sizes, window, **options))["RIGHT_HAS_VECTORS"] == across


def test_what_is_whole_is_loaded_without_tests() -> None:
    """Of both operands; channels of a place; whether sums are results, and steps are whole."""
    names = ("LEFT_IS_WHOLE", "RIGHT_IS_WHOLE", "CHANNELS_OF_POSITION", "RESULTS_ARE_SUMS", "STEPS_ARE_WHOLE")
    bias = {"start": (1, 1), "end": (1, 1), "bias": True}
    plain = {**bias, "bias": False}
    for desc, expected in (
        (gemm_desc(dml.FLOAT16, 2048, 512, 2048), (1, 1, 1, 1, 1)),
        (gemm_desc(dml.FLOAT16, 2056, 512, 2060, trans_b=_TRANSPOSE), (1, 1, 1, 1, 1)),
        (gemm_desc(dml.FLOAT16, 2056, 512, 2058, trans_b=_TRANSPOSE), (1, 0, 1, 1, 1)),
        (gemm_desc(dml.FLOAT32, 2056, 512, 2048), (1, 1, 1, 1, 1)),
        (gemm_desc(dml.FLOAT16, 2048, 520, 2048), (1, 1, 1, 1, 0)),
        (gemm_desc(dml.FLOAT16, 2048, 512, 24), (1, 0, 1, 1, 1)),
        (gemm_desc(dml.FLOAT16, 2048, 512, 2048, alpha=0.5), (1, 1, 1, 0, 1)),
        (convolution_desc(dml.FLOAT16, (32, 128, 28, 28), (128, 128, 3, 3), **plain), (1, 0, 128, 1, 1)),
        (convolution_desc(dml.FLOAT16, (32, 128, 28, 28), (128, 64, 3, 3), groups=2, **bias), (1, 0, 64, 0, 1)),
        (convolution_desc(dml.FLOAT16, (32, 12, 28, 28), (128, 12, 3, 3), **plain), (0, 0, 1, 1, 0)),
    ):
        assert tuple(_constants(desc)[name] for name in names) == expected


def test_distances_of_lines_are_compiled_in_where_nothing_is_tested() -> None:
    for desc, expected in (
        (gemm_desc(dml.FLOAT16, 2048, 512, 4096), (512, 4096)),
        (gemm_desc(dml.FLOAT16, 2048, 512, 4096, trans_a=_TRANSPOSE, trans_b=_TRANSPOSE), (2048, 512)),
        (gemm_desc(dml.FLOAT16, 2048, 520, 4096), (0, 0)),
        (gemm_desc(dml.FLOAT16, 2048, 512, 24), (0, 0)),
        (convolution_desc(dml.FLOAT16, (32, 12, 28, 28), (128, 12, 3, 3), bias=False), (0, 0)),
    ):
        constants = _constants(desc)
        assert (constants["LEFT_LINE"], constants["RIGHT_LINE"]) == expected


def test_filters_are_copied_with_channels_behind_one_another() -> None:
    """Where channels are eights and windows have more places than one; of the backward direction without groups."""
    for sizes, window, options, launches in (
        ((32, 128, 28, 28), (128, 128, 3, 3), {}, 2),
        ((32, 128, 28, 28), (128, 128, 1, 1), {}, 1),
        ((32, 124, 28, 28), (128, 124, 3, 3), {}, 1),
        ((32, 128, 28, 28), (128, 128, 3, 3), {"direction": _BACKWARD}, 2),
        ((32, 128, 28, 28), (128, 64, 3, 3), {"direction": _BACKWARD, "groups": 2}, 1),
        ((32, 128, 28, 28), (128, 64, 3, 3), {"groups": 2}, 2),
    ):
        desc = convolution_desc(dml.FLOAT16, sizes, window, bias=False, **options)
        for target, expected in ((ABLE, launches), (dataclasses.replace(ABLE, device_arithmetic=False), 1)):
            labels = [step.label for step in lower(desc, target).steps]
            assert sum("places before channels" in label for label in labels) == expected - 1, labels


@pytest.mark.parametrize(
    "epilogue", [ConvolutionEpilogue(True, True, True), ConvolutionEpilogue(False, False, True)], ids=str
)
def test_convolutions_with_an_epilogue_are_computed_as_without_it(epilogue: ConvolutionEpilogue) -> None:
    """ResNet-50 was slower with both."""
    desc = convolution_desc(dml.FLOAT16, (32, 128, 28, 28), (128, 128, 3, 3), bias=False)
    assert isinstance(desc, dml.Convolution)
    assert any("cooperative" in step.kernel.variant for step in lower(desc, ABLE).steps)
    without = ABLE.without_matrices_of_floats()
    variants, expected = (
        [step.kernel.variant for step in lower_with_epilogue(desc, epilogue, target).steps]
        for target in (ABLE, without)
    )
    assert variants == expected


@pytest.mark.parametrize(
    ("filters", "options", "are_copied"),
    [
        ((768, 3, 16, 16), {"strides": (16, 16)}, True),
        ((768, 3, 16, 16), {"strides": (16, 8)}, False),  # windows overlap
        ((768, 3, 16, 16), {"strides": (16, 16), "start": (0, 16)}, False),
        ((768, 3, 14, 14), {"strides": (14, 14)}, False),  # 588 terms: not loaded by eights
        ((768, 3, 18, 16), {"strides": (18, 16)}, True),
        ((768, 3, 32, 40), {"strides": (32, 40)}, False),  # 35 places: not stored by fours
    ],
)
def test_which_patches_are_copied(filters: tuple[int, ...], options: Any, are_copied: bool) -> None:
    desc = convolution_desc(dml.FLOAT16, (32, 3, 224, 224), filters, **options)
    assert any(name.startswith("gemm.") for name in _chosen(desc)) == are_copied


@pytest.mark.parametrize(
    ("strides", "is_product"),
    [
        ((640 * 1024, 1, 640 * 32, 640), True),  # channels behind one another
        ((768 * 1024, 1, 768 * 32, 768), True),  # and others beside them
        ((640 * 2048, 1, 640 * 64, 640), False),  # places behind each line
        ((640 * 1024, 1024, 32, 1), False),
    ],
)
def test_places_with_channels_behind_one_another_are_multiplied_where_they_are(
    strides: tuple[int, ...], is_product: bool
) -> None:
    """A convolution of one place; the product is the only launch."""
    desc = convolution_desc(dml.FLOAT16, (32, 640, 32, 32), (640, 640, 1, 1))
    tensor = dml.TensorDesc(dml.FLOAT16, desc.input_tensor.sizes, strides)
    names = _chosen(dataclasses.replace(desc, input_tensor=tensor))
    assert (len(names) == 1 and names[0].startswith("gemm.")) == is_product
