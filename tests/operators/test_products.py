"""GEMM and CONVOLUTION: the error, the same bits for every tile, batch and place, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples.products import KINDS, convolution_desc, values
from dmlvk.conformance.sampling import run_sample
from dmlvk.datatypes import DataType
from dmlvk.graphs.channels_last import channels_last
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import matrix, matrix_choice
from dmlvk.kernels.products.convolution import convolution_product
from dmlvk.kernels.products.matrix_choice import Choice, Work
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, PARALLEL, SEGMENT, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import (
    DEPTHWISE,
    DEPTHWISE_LINES,
    EIGHT_ROWS,
    LARGE_FUSED,
    LINES,
    MEDIUM,
    ON_PROCESSORS,
    ON_PROCESSORS_IN_SUBGROUPS,
    ON_PROCESSORS_OF_A_SHAPE,
    PLANES,
    ROW_ON_PROCESSORS_OF_A_SHAPE,
    ROWS_ACROSS,
    SHARED_ROW,
    SHARED_ROWS,
    SINGLE,
    TILES,
    WINDOWS,
)
from dmlvk.kernels.target import GPU, Target
from dmlvk.operators import check_operator, families
from dmlvk.operators.fusion import FUSABLE_ACTIVATIONS
from tests.targets import all_compute_as_gpus, check_bits, on_llvmpipe

Array = npt.NDArray[Any]
_N, _T = dml.MatrixTransform.NONE, dml.MatrixTransform.TRANSPOSE
_PAIRS = ((dml.FLOAT32, dml.FLOAT16), (dml.FLOAT16, dml.FLOAT32))
_SHARED = [tile for tile in TILES if tile.shared_memory]
_SMALLEST = SINGLE[-1]
_OF_EACH_PATTERN = [MEDIUM, _SMALLEST, *ROWS_ACROSS, EIGHT_ROWS, SHARED_ROW[0], SHARED_ROWS[1]]


pytestmark = pytest.mark.usefixtures("own_kernels")


def gemm_desc(data_type: DataType, rows: int, terms: int, columns: int, **more: Any) -> dml.Gemm:
    """A GEMM without C, of one product."""
    members: dict[str, Any] = {"trans_a": _N, "trans_b": _N, "alpha": 1.0, "beta": 0.0, **more}
    a = (rows, terms) if members["trans_a"] is _N else (terms, rows)
    b = (terms, columns) if members["trans_b"] is _N else (columns, terms)
    return dml.Gemm(
        a_tensor=dml.TensorDesc(data_type, a),
        b_tensor=dml.TensorDesc(data_type, b),
        output_tensor=dml.TensorDesc(data_type, (rows, columns)),
        **members,
    )


def product(bench: Workbench, a: Array, b: Array) -> Array:
    data_type = dml.FLOAT16 if a.dtype == np.float16 else dml.FLOAT32
    desc = gemm_desc(data_type, a.shape[0], a.shape[1], b.shape[1])
    return run_sample(bench, desc, {"ATensor": a, "BTensor": b}).outputs["OutputTensor"]


def convolution_inputs(desc: dml.Convolution, random: np.random.Generator) -> dict[str, Array]:
    """Normal numbers, and one infinite weight at an edge of a filter."""
    described = {"InputTensor": desc.input_tensor, "FilterTensor": desc.filter_tensor, "BiasTensor": desc.bias_tensor}
    inputs = {
        name: values("normal", tuple(tensor.sizes), tensor.data_type, random)
        for name, tensor in described.items()
        if tensor is not None
    }
    inputs["FilterTensor"][(1,) + (0,) * (inputs["FilterTensor"].ndim - 1)] = np.inf
    return inputs


def only(monkeypatch: pytest.MonkeyPatch, tile: MatrixTile, come: int) -> None:
    """Every product is computed with a tile, and with its segments coming together in a way."""

    def chosen(work: Work, target: Target) -> Choice:
        return Choice(tile, ONE_SEGMENT if work.terms <= SEGMENT else come, tile.segments_at_once(target))

    monkeypatch.setattr(matrix, "choose", chosen)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("special", "huge")])
def test_errors_are_within_the_bound(benches: list[Workbench], kind: str, data_type: DataType) -> None:
    random = np.random.default_rng(7)
    a, b = values(kind, (5, 2100), data_type, random), values(kind, (2100, 6), data_type, random)
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    true, magnitudes = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
    bound = (SEGMENT + 3 + 2) * 2.0**-24 * magnitudes + 2100 * 2.0**-126
    if data_type is dml.FLOAT16:
        bound = bound + np.spacing(np.abs(true).astype(np.float16)).astype(np.float64) / 2 * (1 + 2**-10)
    for bench in benches:
        got = product(bench, a, b).astype(np.longdouble)
        assert np.all(np.isfinite(got))
        assert np.all(np.abs(got - true) <= bound), bench.device.info.name


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
def test_a_row_does_not_depend_on_the_batch_that_it_is_in(benches: list[Workbench], data_type: DataType) -> None:
    random = np.random.default_rng(8)
    a = values("tiny", (1000, 1300), data_type, random)
    a[::3] = values("normal", a[::3].shape, data_type, random)
    b = values("normal", (1300, 3), data_type, random)
    for bench in benches:
        whole = product(bench, a, b)
        for count in (1, 7, 64):
            assert product(bench, a[100 : 100 + count], b).tobytes() == whole[100 : 100 + count].tobytes()


@pytest.mark.parametrize(
    ("tile", "come", "data_type"),
    [
        pytest.param(tile, come, data_type, id=f"{tile.name}-{('in turn', 'side by side')[come - 1]}-{data_type.name}")
        for i, tile in enumerate(tile for tile in TILES if "gemm" in tile.families)
        for come, data_type in zip((SEQUENTIAL, PARALLEL), _PAIRS[i % 2], strict=True)
    ],
)
def test_every_tile_gives_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tile: MatrixTile, come: int, data_type: DataType
) -> None:
    """With ordinary and denormal products, infinities and NaN in one operand, and a last tile that is padded."""
    only(monkeypatch, tile, come)
    random = np.random.default_rng(9)
    rows, terms, columns = tile.rows + 7, 1045, tile.columns + 13
    a, b = values("normal", (rows, terms), data_type, random), values("normal", (terms, columns), data_type, random)
    a[3], b[:, 5] = values("tiny", (terms,), data_type, random), values("tiny", (terms,), data_type, random)
    a[1, 1040], a[2, 3], b[1044, 8] = np.inf, np.nan, -np.inf
    more = {"alpha": 0.75, "beta": -2.0, "c_tensor": dml.TensorDesc(data_type, (rows, columns), (0, 1))}
    desc = gemm_desc(data_type, rows, terms, columns, **more)
    c = np.broadcast_to(values("normal", (1, columns), data_type, random), (rows, columns))
    inputs = {"ATensor": a, "BTensor": b, "CTensor": c}
    check_bits(on_llvmpipe(benches) if tile in (*_SHARED, *ON_PROCESSORS_IN_SUBGROUPS) else benches, desc, inputs)


@pytest.mark.parametrize("tile", _OF_EACH_PATTERN, ids=lambda tile: tile.name)
@pytest.mark.parametrize("sizes", [(36, 20, 44), (3, 1028, 20), (9, 1031, 37)], ids=["fours", "segments", "odd"])
@pytest.mark.parametrize("trans_a", [_N, _T], ids=lambda trans: trans.name)
@pytest.mark.parametrize("trans_b", [_N, _T], ids=lambda trans: trans.name)
def test_tiles_load_operands_along_either_axis(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    trans_a: dml.MatrixTransform,
    trans_b: dml.MatrixTransform,
    sizes: tuple[int, int, int],
    tile: MatrixTile,
) -> None:
    """With what is not finite in the last column: in all of them, every sum of many terms would be NaN."""
    only(monkeypatch, tile, PARALLEL)
    random = np.random.default_rng(10)
    for data_type in (dml.FLOAT32, dml.FLOAT16):
        desc = gemm_desc(data_type, *sizes, trans_a=trans_a, trans_b=trans_b)
        a = values("normal", desc.a_tensor.sizes, data_type, random)
        b = values("normal", desc.b_tensor.sizes, data_type, random)
        (b if trans_b is _N else b.T)[:, -1] = values("special", sizes[1:2], data_type, random)
        inputs = {"ATensor": a, "BTensor": b}
        check_bits(on_llvmpipe(benches), desc, inputs)


@pytest.mark.parametrize("sizes", [(70, 1072, 140), (9, 2053, 37)], ids=["fours", "odd"])
@pytest.mark.parametrize("transforms", [(_N, _T), (_T, _N)])
def test_two_tiles_that_take_turns_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, transforms: Any, sizes: tuple[int, int, int]
) -> None:
    """Where terms fill all tiles, so that the last one is loaded twice, and where not; along either axis."""
    only(monkeypatch, LARGE_FUSED, SEQUENTIAL)
    random = np.random.default_rng(14)
    desc = gemm_desc(dml.FLOAT16, *sizes, trans_a=transforms[0], trans_b=transforms[1])
    a = values("normal", desc.a_tensor.sizes, dml.FLOAT16, random)
    b = values("normal", desc.b_tensor.sizes, dml.FLOAT16, random)
    rows = a if transforms[0] is _N else a.T
    rows[1, 3], rows[2, [5, 1050]], rows[3, 1060] = np.inf, (np.inf, -np.inf), np.nan
    inputs = {"ATensor": a, "BTensor": b}
    check_bits(on_llvmpipe(benches), desc, inputs)


_CONVOLUTIONS: dict[str, tuple[Sequence[int], Sequence[int], dict[str, Any]]] = {
    "padded": ((2, 5, 9, 7), (6, 5, 3, 3), {"start": (1, 1), "end": (1, 1), "strides": (2, 1)}),
    "of fours": ((2, 4, 5, 16), (4, 1, 3, 3), {"start": (1, 1), "end": (1, 1), "groups": 4}),
    "of one place": ((3, 8, 2, 6), (10, 4, 1, 1), {"groups": 2}),
    "of one place, in segments": ((2, 1030, 2, 4), (5, 1030, 1, 1), {}),
    "depthwise": ((2, 4, 6, 11), (8, 1, 2, 3), {"start": (1, 0), "end": (0, 2), "strides": (1, 2), "groups": 4}),
    "transposed": (
        (1, 4, 5, 4),
        (4, 3, 3, 2),
        {"direction": dml.ConvolutionDirection.BACKWARD, "strides": (2, 3), "start": (1, 0)},
    ),
    "several segments": ((1, 120, 5, 5), (6, 120, 3, 3), {"start": (1, 1), "end": (1, 1)}),
    "in lines": ((2, 5, 4, 15), (9, 5, 2, 3), {"start": (1, 2), "end": (0, 1)}),
    "dilated": ((1, 4, 9, 8), (6, 2, 2, 3), {"dilations": (3, 2), "start": (2, 0), "end": (0, 3), "groups": 2}),
    "turned": ((3, 2, 5, 3), (5, 2, 2, 3), {"mode": dml.ConvolutionMode.CONVOLUTION, "end": (1, 2)}),
    "backward": (
        (2, 4, 4, 3),
        (4, 3, 2, 3),
        {"direction": dml.ConvolutionDirection.BACKWARD, "start": (1, 1), "dilations": (1, 2)},
    ),
}


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("tile", "name"),
    [
        *((tile, name) for tile in (MEDIUM, _SMALLEST) for name in _CONVOLUTIONS),
        *(
            (tile, "padded")
            for tile in _SHARED
            if "convolution" in tile.families and tile not in (MEDIUM, _SMALLEST, *DEPTHWISE_LINES)
        ),
        *((WINDOWS, name) for name in _CONVOLUTIONS if "segments" not in name),
        *((tile, name) for tile in PLANES for name in ("padded", "depthwise", "of fours")),
        *((tile, name) for tile in LINES for name in ("of fours", "several segments", "in lines")),
        *((tile, name) for tile in ON_PROCESSORS_IN_SUBGROUPS for name in ("padded", "several segments")),
        *((ON_PROCESSORS[-1], name) for name in _CONVOLUTIONS if name != "transposed"),
        *(
            (tile, name)
            for tile in (ON_PROCESSORS_OF_A_SHAPE[-1], ROW_ON_PROCESSORS_OF_A_SHAPE)
            for name in _CONVOLUTIONS
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_convolutions_in_tiles(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tile: MatrixTile, name: str, data_type: DataType
) -> None:
    only(monkeypatch, tile, SEQUENTIAL if tile is _SHARED[0] else PARALLEL)
    random = np.random.default_rng(11)
    sizes, window, options = _CONVOLUTIONS[name]
    desc = convolution_desc(data_type, sizes, window, **options)
    has_many_terms = "segments" in name  # which would all add up to NaN
    kind = "normal" if has_many_terms or (tile.shared_memory and tile not in (MEDIUM, _SMALLEST)) else "special"
    inputs = {
        "InputTensor": values(kind, sizes, data_type, random),
        "FilterTensor": values(kind, window, data_type, random),
        "BiasTensor": values("normal", (1, desc.output_tensor.sizes[1], 1, 1), data_type, random),
    }
    check_bits(on_llvmpipe(benches), desc, inputs)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("is_wide", [True, False], ids=["four columns", "one column"])
@pytest.mark.parametrize(
    ("sizes", "window", "options"),
    [
        ((2, 16, 9, 13), (16, 1, 3, 2), {"start": (1, 1), "end": (0, 1), "strides": (2, 1)}),
        ((1, 8, 5, 9), (8, 1, 7, 7), {"start": (3, 3), "end": (3, 3), "bias": False}),
        ((1, 8, 2, 9), (8, 1, 1, 3), {"start": (1, 0), "bias": False}),
    ],
    ids=["strides", "7x7", "a row"],
)
def test_depthwise_convolutions_load_channels_that_lie_last_together(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    window: tuple[int, ...],
    options: dict[str, Any],
    data_type: DataType,
    is_wide: bool,
) -> None:
    """Edges that no block divides, and what is not finite, denormal or zero."""
    all_compute_as_gpus(monkeypatch, registers=255)
    packed = convolution_desc(data_type, sizes, window, groups=sizes[1], **options)
    desc = dataclasses.replace(
        packed, input_tensor=channels_last(packed.input_tensor), output_tensor=channels_last(packed.output_tensor)
    )
    fewest = 0 if is_wide else 2**31
    tiles = tuple(dataclasses.replace(tile, fewest_groups=fewest) for tile in DEPTHWISE[data_type])
    monkeypatch.setattr(matrix_choice, "DEPTHWISE", {data_type: tiles})
    assert lower(desc, GPU).steps[-1].kernel.variant.endswith(".depthwise.4" if is_wide else ".depthwise.1")
    random = np.random.default_rng(3)
    inputs = {
        "InputTensor": values("special", sizes, data_type, random),
        "FilterTensor": values("special", window, data_type, random),
    }
    inputs["FilterTensor"][1] = -2  # which padding makes -0 of, but no sum is that
    if packed.bias_tensor is not None:
        inputs["BiasTensor"] = values("normal", packed.bias_tensor.sizes, data_type, random)
    check_bits(on_llvmpipe(benches), desc, inputs, packed)


@pytest.mark.parametrize("tile", DEPTHWISE_LINES, ids=lambda tile: tile.name)
@pytest.mark.parametrize("window", [(3, 2), (7, 7), (1, 3)], ids=["3x2", "7x7", "a row"])
def test_invocations_share_the_lines_of_a_depthwise_window(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], tile: MatrixTile
) -> None:
    """Sums that are exact have the same bits in any order; what is not finite is not, either."""
    all_compute_as_gpus(monkeypatch, registers=255)
    monkeypatch.setattr(matrix_choice, "DEPTHWISE", {dml.FLOAT16: (tile, tile)})
    sizes, windows = (3, 24, 9, 5), (24, 1, *window)
    packed = convolution_desc(dml.FLOAT16, sizes, windows, groups=24, start=(3, 1), end=(2, 2))
    desc = dataclasses.replace(
        packed, input_tensor=channels_last(packed.input_tensor), output_tensor=channels_last(packed.output_tensor)
    )
    assert lower(desc, GPU).steps[-1].kernel.variant.endswith(tile.name)
    random = np.random.default_rng(3)
    inputs = {
        "InputTensor": random.integers(-8, 9, sizes).astype(np.float16),
        "FilterTensor": random.integers(-8, 9, windows).astype(np.float16),
        "BiasTensor": random.integers(-8, 9, (1, 24, 1, 1)).astype(np.float16),
    }
    inputs["InputTensor"][1, 7] = np.inf
    inputs["FilterTensor"][9, 0, 0, 1] = np.nan
    check_bits(on_llvmpipe(benches), desc, inputs, packed)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("direction", dml.ConvolutionDirection, ids=lambda direction: direction.name)
def test_convolutions_of_one_place_are_products_of_matrices(
    benches: list[Workbench], direction: dml.ConvolutionDirection, data_type: DataType
) -> None:
    """In the same order of sums; the last row has what is not finite."""
    is_forward = direction is dml.ConvolutionDirection.FORWARD
    sizes, window = (3, 1030, 1, 1), (12, 1030, 1, 1) if is_forward else (1030, 12, 1, 1)
    desc = convolution_desc(data_type, sizes, window, direction=direction)
    assert lower(desc, GPU).steps[0].kernel.variant.startswith("gemm.")
    random = np.random.default_rng(4)
    inputs = {
        "InputTensor": values("normal", sizes, data_type, random),
        "FilterTensor": values("normal", window, data_type, random),
        "BiasTensor": values("normal", (1, 12, 1, 1), data_type, random),
    }
    inputs["InputTensor"][2] = values("special", sizes[1:], data_type, random)
    check_bits(benches, desc, inputs)


def test_gpu_kernels_run_on_drivers_without_optional_features(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, _SMALLEST, PARALLEL)
    random = np.random.default_rng(12)
    a, b = random.normal(size=(34, 1030)).astype(np.float16), random.normal(size=(1030, 3)).astype(np.float16)
    assert len({product(bench, a, b).tobytes() for bench in benches}) == 1


ACTIVATIONS = (*FUSABLE_ACTIVATIONS, "ELEMENT_WISE_CLIP", "ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "ELEMENT_WISE_CLIP": {"Min": -0.5, "Max": 0.75},
    "ACTIVATION_SOFTMAX1": {"AxisCount": 1, "Axes": (0,)},
}


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_fused_activation_gives_what_its_own_operator_gives(
    benches: list[Workbench], name: str, data_type: DataType
) -> None:
    random = np.random.default_rng(13)
    fields = [field for field in dml.operators.OPERATORS[name].fields if field.type == "float"]
    attributes = _ATTRIBUTES.get(name) or {field.name: 0.5 + i for i, field in enumerate(fields)}
    fused = dml.fused_activation(name, **attributes)
    desc = gemm_desc(data_type, 6, 5, 8, fused_activation=fused)
    inputs = {
        "ATensor": values("normal", (6, 5), data_type, random),
        "BTensor": values("normal", (5, 8), data_type, random),
    }
    tensor = desc.output_tensor
    alone = dml.operator_desc(name, InputTensor=tensor, OutputTensor=tensor, **attributes)
    for bench in benches:
        plain = run_sample(bench, gemm_desc(data_type, 6, 5, 8), inputs).outputs["OutputTensor"]
        expected = run_sample(bench, alone, {"InputTensor": plain}).outputs["OutputTensor"]
        assert run_sample(bench, desc, inputs).outputs["OutputTensor"].tobytes() == expected.tobytes()


def test_convolutions_agree_with_onnx(benches: list[Workbench]) -> None:
    helper = pytest.importorskip("onnx.helper")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    random = np.random.default_rng(14)
    for operator, direction in (("Conv", "FORWARD"), ("ConvTranspose", "BACKWARD")):
        groups = 2 if operator == "Conv" else 1  # onnx's own transposed convolution knows no groups
        options = {"strides": (2, 1), "dilations": (1, 2), "start": (1, 2), "end": (0, 1), "groups": groups}
        window = (6, 2, 3, 2) if operator == "Conv" else (4, 6, 3, 2)
        desc = convolution_desc(
            dml.FLOAT32, (2, 4, 8, 9), window, direction=dml.ConvolutionDirection[direction], **options
        )
        x, w = random.normal(size=(2, 4, 8, 9)), random.normal(size=window)
        bias = random.normal(size=6)
        node = helper.make_node(
            operator, ["x", "w", "b"], ["y"], strides=[2, 1], dilations=[1, 2], pads=[1, 2, 0, 1], group=groups
        )
        (expected,) = evaluator(node).run(None, {"x": x, "w": w, "b": bias})
        inputs = {"InputTensor": x, "FilterTensor": w, "BiasTensor": bias.reshape(1, 6, 1, 1)}
        for bench in benches:
            got = run_sample(bench, desc, {k: v.astype(np.float32) for k, v in inputs.items()}).outputs["OutputTensor"]
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def _refusal(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    with pytest.raises(dml.DmlError) as caught:
        check_operator(desc, dml.FeatureLevel.from_name(level))
    return str(caught.value)


def test_what_is_wrong_with_a_product_is_said_by_name() -> None:
    good = gemm_desc(dml.FLOAT32, 4, 5, 6)
    tensor = dml.TensorDesc

    def changed(**members: Any) -> dml.OperatorDesc:
        return dataclasses.replace(good, **members)

    assert "BTensor.Sizes must have 5" in _refusal(changed(b_tensor=tensor(dml.FLOAT32, (4, 6))))
    assert "OutputTensor.Sizes must be [4, 6]" in _refusal(changed(output_tensor=tensor(dml.FLOAT32, (4, 7))))
    assert "CTensor.Sizes must be [4, 6]" in _refusal(changed(c_tensor=tensor(dml.FLOAT32, (1, 6))))
    assert "BTensor.DimensionCount must be 2" in _refusal(changed(b_tensor=tensor(dml.FLOAT32, (1, 5, 6))))
    assert "ATensor.DataType" in _refusal(changed(a_tensor=tensor(dml.FLOAT16, (4, 5))))
    assert "from 2 to 4" in _refusal(changed(a_tensor=tensor(dml.FLOAT32, (5,))))
    assert "needs feature level 4_0" in _refusal(good, "1_0")
    softmax = changed(fused_activation=dml.fused_activation("ACTIVATION_SOFTMAX"))
    assert "ACTIVATION_SOFTMAX at feature level 6_0; it needs feature level 6_1" in _refusal(softmax, "6_0")
    assert "cannot be ELEMENT_WISE_ABS" in _refusal(changed(fused_activation=dml.fused_activation("ELEMENT_WISE_ABS")))


def test_what_is_wrong_with_a_convolution_is_said_by_name() -> None:
    good = convolution_desc(dml.FLOAT32, (1, 4, 6, 6), (8, 2, 3, 3), groups=2)

    def changed(**members: Any) -> dml.OperatorDesc:
        return dataclasses.replace(good, **members)

    assert "FilterTensor.Sizes[1] must be 4" in _refusal(changed(group_count=1))
    assert "GroupCount must divide InputTensor's 4 channels; got 3" in _refusal(changed(group_count=3))
    assert "GroupCount must divide" in _refusal(changed(group_count=0))
    assert "Strides must be at least 1" in _refusal(changed(strides=(0, 1)))
    assert "DimensionCount" in _refusal(changed(strides=(1,)))
    assert "OutputTensor.Sizes must be [1, 8, 2, 4]" in _refusal(changed(strides=(2, 1)))
    assert "must reach over at most 6 places" in _refusal(changed(dilations=(3, 1)))
    bias = dml.TensorDesc(dml.FLOAT32, (1, 4, 1, 1))
    assert "BiasTensor.Sizes must be [1, 8, 1, 1]" in _refusal(changed(bias_tensor=bias))
    backward = changed(direction=dml.ConvolutionDirection.BACKWARD)
    assert "FilterTensor.Sizes[0] must be 4, the input's channels; got 8" in _refusal(backward)
    assert "needs feature level 4_0" in _refusal(convolution_desc(dml.FLOAT32, (1, 1, 3), (1, 1, 3)), "3_1")
    line = convolution_desc(dml.FLOAT32, (1, 1, 3), (1, 1, 3), direction=dml.ConvolutionDirection.BACKWARD)
    padded = dataclasses.replace(line, start_padding=(3,), end_padding=(2,))
    assert "StartPadding and EndPadding must be less than 5 together" in _refusal(padded)


def test_tiles_keep_the_limits_of_a_device() -> None:
    for shared_memory in (16384, 32768, 49152):
        target = Target(shared_memory=shared_memory)
        for rows, columns in ((1, 1), (4096, 4096), (64, 100000), (1, 16384), (32, 16384), (100000, 1)):
            for family, terms in (("gemm", 5000), ("convolution", 5000), ("convolution", 9)):
                chosen = matrix_choice.choose(Work(family, rows, columns, terms, 1), target)
                assert chosen.tile.shared_memory <= shared_memory
                assert chosen.tile.invocations <= target.work_group_size


def test_windows_that_overlap_in_planes() -> None:
    """Forward ones without dilations, of small steps and few weights; blocks do not go from image to image."""
    for name, is_one in (
        ("padded", True),
        ("depthwise", True),
        ("dilated", False),
        ("turned", False),
        ("backward", False),
    ):
        sizes, window, options = _CONVOLUTIONS[name]
        desc = convolution_desc(dml.FLOAT32, sizes, window, **options)
        assert (convolution_product(desc, desc.filter_tensor).plane is not None) == is_one, name
    for window, options in (((4, 4, 1, 1), {}), ((4, 4, 5, 10), {}), ((4, 4, 3, 3), {"strides": (1, 3)})):
        desc = convolution_desc(dml.FLOAT32, (1, 4, 20, 20), window, **options)
        assert convolution_product(desc, desc.filter_tensor).plane is None
    height, width = PLANES[0].block or (0, 0)
    images = 3 * PLANES[0].invocations
    assert PLANES[0].grid(2, images * (height + 1) * (2 * width), (height + 1, 2 * width)) == (2, 3 * 2 * 2)


def test_tiles_suit_the_work_on_gpus() -> None:
    def chosen(*work: Any) -> tuple[str, int]:
        choice = matrix_choice.choose(Work(*work), Target(shared_memory=49152))
        return choice.tile.name, choice.segments_come

    assert chosen("gemm", 4096, 4096, 4096, 1) == ("64x128", SEQUENTIAL)
    assert chosen("gemm", 4096, 4096, 768, 1) == ("64x128", ONE_SEGMENT)
    assert chosen("gemm", 1024, 64, 1024, 32) == ("64x32", ONE_SEGMENT)
    assert chosen("gemm", 1024, 1024, 64, 16) == ("64x128", ONE_SEGMENT)
    assert chosen("gemm", 128, 768, 768, 1) == ("16x32", ONE_SEGMENT)
    assert chosen("gemm", 32, 16384, 16384, 1) == ("32x64", PARALLEL)
    assert chosen("convolution", 1, 56 * 56, 9, 128) == ("windows", ONE_SEGMENT)
    assert chosen("convolution", 1, 56 * 56, 9, 128, True, True, True, (56, 56)) == ("planes_of_fours", ONE_SEGMENT)
    assert chosen("convolution", 1, 14 * 14, 9, 128, True, True, True, (14, 14)) == ("planes", ONE_SEGMENT)
    assert chosen("convolution", 1, 56 * 56, 9, 128, False) != ("windows", ONE_SEGMENT)
    assert chosen("convolution", 3, 2 * 145 * 145, 384, 1) == ("4x64", ONE_SEGMENT)  # alone it would wait for each term
    assert chosen("convolution", 3, 512 * 512, 1152, 1) == ("4x64", SEQUENTIAL)
    assert chosen("convolution", 8, 32 * 56 * 56, 72, 32) == ("8x64", ONE_SEGMENT)
    assert chosen("convolution", 64, 32 * 56 * 56, 576, 1) == ("64x128", ONE_SEGMENT)
    assert chosen("convolution", 128, 32 * 28 * 28, 1152, 1) == ("128x64", PARALLEL)
    assert chosen("convolution", 256, 32 * 14 * 14, 2304, 1) == ("64x32", PARALLEL)
    assert chosen("convolution", 128, 32 * 28 * 28, 512, 1) == ("128x64", ONE_SEGMENT)  # 392 work groups, 396 at once
    assert chosen("convolution", 2048, 32 * 7 * 7, 512, 1) == ("64x32", ONE_SEGMENT)  # 400 would wait for the last four
    assert chosen("convolution", 512, 49, 4608, 1) == ("16x32", PARALLEL)


@pytest.mark.parametrize(
    ("rows", "size", "along_terms", "for_float32", "for_float16"),
    [
        *((1, 16384, False, "row_of_fours", "row_of_many_fours"), (1, 16384, True, "shared.1x32", "shared.1x32")),
        *((1, 4096, False, "shared.1x32", "shared.1x32"), (1, 2048, False, "shared.1x16", "shared.1x16")),
        (2, 16384, False, "eight_rows_of_fours", "four_rows_of_fours"),
        *((2, 4096, True, "shared.2x16", "shared.2x16"), (2, 1024, False, "shared.2x8", "shared.2x8")),
        *((4, 4096, False, "4x32", "4x32"), (4, 3072, False, "shared.2x16", "shared.2x16")),
        *((4, 2048, True, "shared.2x16", "shared.2x16"), (4, 1536, False, "shared.2x8", "shared.2x8")),
        *((8, 2048, False, "16x32", "16x32"), (8, 3072, True, "16x32x4", "16x32x4")),
        *((2, 8192, False, "shared.2x16", "shared.2x16"), (4, 8192, False, "eight_rows", "four_rows_of_fours")),
        *((4, 4096, True, "4x32", "4x32"), (4, 16384, True, "eight_rows", "four_rows")),
        (8, 16384, False, "eight_rows_of_fours", "eight_rows_of_many_fours"),
        *((8, 8192, False, "eight_rows", "four_rows_of_fours"), (8, 16384, True, "eight_rows", "eight_rows")),
        *((8, 4096, True, "8x32", "8x32"), (8, 1024, False, "shared.2x8", "shared.2x8")),
        (12, 16384, False, "eight_rows_of_fours", "four_rows_of_fours"),
        (12, 8192, False, "four_rows_of_fours", "four_rows_of_fours"),
        (16, 16384, False, "eight_rows_of_fours", "eight_rows_of_many_fours"),
        (16, 16384, True, "16x32x4", "16x32x4"),
        *((16, 4096, True, "16x32x4", "16x32x4"), (16, 1024, False, "16x32", "16x32")),
    ],
)
def test_tiles_suit_few_rows_on_gpus(
    rows: int, size: int, along_terms: bool, for_float32: str, for_float16: str
) -> None:
    for data_type, name in ((dml.FLOAT32, for_float32), (dml.FLOAT16, for_float16)):
        work = Work("gemm", rows, size, size, 1, right_along_terms=along_terms, data_type=data_type)
        assert matrix_choice.choose(work, Target(shared_memory=49152)).tile.name == name


def test_products_with_fused_additions_have_tiles_of_their_own() -> None:
    target, work = Target(shared_memory=49152), Work("gemm", 4096, 4096, 4096, 1)
    for_device = dataclasses.replace(target, device_arithmetic=True)
    half = dataclasses.replace(work, data_type=dml.FLOAT16)
    chosen = [matrix_choice.choose(*pair).tile.name for pair in ((work, target), (work, for_device), (half, target))]
    assert chosen == ["64x128", "64x128.8x8", "64x128.8x8"]


def test_names_are_exported() -> None:
    assert {"Gemm", "Convolution", "MatrixTransform"} <= set(vars(families))


def test_products_of_integers_are_exact(any_device: dml.Device) -> None:
    tensor = dml.TensorDesc
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.full((3, 2), -128, np.int8)
    desc = dml.MatrixMultiplyInteger(
        a_tensor=tensor(dml.UINT8, (2, 3)), b_tensor=tensor(dml.INT8, (3, 2)), output_tensor=tensor(dml.INT32, (2, 2))
    )
    got = any_device.run(desc, {"ATensor": a, "BTensor": b})["OutputTensor"]
    assert got.tolist() == (a.astype(int) @ b.astype(int)).tolist()


@pytest.mark.parametrize("come", [SEQUENTIAL, PARALLEL], ids=["in turn", "side by side"])
def test_sums_of_many_terms(benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, come: int) -> None:
    """More than llvmpipe lets an invocation go through loops, also where every segment is computed with care."""
    only(monkeypatch, ON_PROCESSORS[1], come)
    random = np.random.default_rng(15)
    a, b = values("tiny", (2, 70000), dml.FLOAT32, random), values("normal", (70000, 3), dml.FLOAT32, random)
    desc = gemm_desc(dml.FLOAT32, 2, 70000, 3)
    inputs = {"ATensor": a, "BTensor": b}
    check_bits(benches, desc, inputs)
