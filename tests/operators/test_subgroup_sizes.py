"""Cooperative matrices of subgroups that have not 32 invocations, or of another size than 16 x 16.

Those of 64 are chosen for AMD's GPUs; Intel's matrices are 8 x 8 and 8 x 16, of 8 to 32 invocations, for which nothing
is chosen yet. All are tried by llvmpipe, with a file in the place of the include that names the instructions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import expected_outputs, fault
from dmlvk.conformance.references.device_arithmetic import outputs_within_error
from dmlvk.conformance.samples.products import convolution_desc, values
from dmlvk.graphs import channels_last as layouts
from dmlvk.kernels.composed import matrix_attention
from dmlvk.kernels.composed.matrix_attention import AttentionTile
from dmlvk.kernels.products import matrix
from dmlvk.kernels.products.matrix_choice import Choice
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import COOPERATIVE, OF_CHANNELS
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import OperatorDesc
from tests.cooperative_modules import imitate_matrices
from tests.operators.test_cooperative_attention import CASES
from tests.operators.test_cooperative_floats import ABLE
from tests.operators.test_products import on_llvmpipe

_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC
_WIDE = 64
_SHAPES = {
    "64 of 16 x 16": (_WIDE, 16, 16),
    "32 of 8 x 16": (32, 8, 16),
    "16 of 8 x 16": (16, 8, 16),
    "8 of 8 x 8": (8, 8, 8),
}
"""Invocations of a subgroup; rows and columns of its sums."""

EACH_SHAPE = pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
_FIRST, *_OTHERS = _SHAPES
FIRST_SHAPE = pytest.mark.parametrize(
    "shape", [_SHAPES[_FIRST], *(pytest.param(_SHAPES[name], marks=pytest.mark.sweep) for name in _OTHERS)], ids=_SHAPES
)


def _defines(shape: tuple[int, int, int]) -> dict[str, str]:
    names = ("SUBGROUP_INVOCATIONS", "MATRIX_ROWS", "MATRIX_COLUMNS")
    return {name: str(value) for name, value in zip(names, shape, strict=True)}


def _tile(like: MatrixTile, shape: tuple[int, int, int]) -> MatrixTile:
    """The smallest tile of 64 invocations; for others one of 64 x 32, by subgroups that have 16 x 32 each."""
    if shape == (_WIDE, 16, 16):
        return like
    sizes = {"TILE_ROWS": 64, "TILE_COLUMNS": 32, "STEP_TERMS": 32, "RESULT_ROWS": 16, "RESULT_COLUMNS": 32}
    if like.is_of_channels:  # rows are those of the right matrices there
        sizes |= {"RESULT_ROWS": 32, "RESULT_COLUMNS": 16}
    rows, columns, invocations = sizes["TILE_ROWS"], sizes["TILE_COLUMNS"], 4 * shape[0]
    defines = dict(like.defines) | {name: str(value) for name, value in sizes.items()} | _defines(shape)
    defines["INVOCATIONS"] = str(invocations)
    return dataclasses.replace(
        like, name=f"{like.name}.{shape}", rows=rows, columns=columns, invocations=invocations, step=32,
        defines=tuple(defines.items()),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _SmallAttentionTile(AttentionTile):
    shape: tuple[int, int, int] = (_WIDE, 16, 16)

    @property
    def rows(self) -> int:
        return self.shape[1] * self.subgroups

    def _variant(self, kind: str, more: Any) -> ShaderVariant:
        made = super()._variant(kind, more)
        defines = tuple((dict(made.defines) | _defines(self.shape)).items())
        return dataclasses.replace(made, name=f"{made.name}.{self.shape}", defines=defines)


def _smallest(tiles: tuple[MatrixTile, ...], family: str) -> MatrixTile:
    return [tile for tile in tiles if tile.subgroup_size == _WIDE and family in tile.families][-1]


GEMM = _smallest(COOPERATIVE, "gemm")
WINDOWS = _smallest(COOPERATIVE, "convolution")
CHANNELS = _smallest(OF_CHANNELS, "convolution")
Chosen = Callable[[MatrixTile | AttentionTile], list[str]]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """Devices have such matrices, or what imitates them, and compute in one tile.

    What it gives takes the tile, and gives names of modules: of those that are loaded from then on.
    """
    variants: dict[str, ShaderVariant] = {}
    names = imitate_matrices(monkeypatch, variants)

    def only(tile: MatrixTile | AttentionTile) -> list[str]:
        if isinstance(tile, AttentionTile):
            monkeypatch.setattr(matrix_attention, "TILES", (tile,))
            variant = tile.variant
        else:
            monkeypatch.setattr(
                matrix,
                "choose",
                lambda work, _: Choice(tile, ONE_SEGMENT if work.terms <= tile.segment else SEQUENTIAL),
            )
            variant = tile.variant(tile.families[0], dml.FLOAT16, ABLE)
        variants[variant.name] = variant
        able = dataclasses.replace(ABLE, shared_memory=32768, subgroup_size=tile.subgroup_size)
        monkeypatch.setattr(dml.Device, "target", property(lambda _: able))
        return names

    return only


def _check(benches: list[Workbench], names: list[str], desc: OperatorDesc, inputs: dict[str, Any]) -> None:
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:  # it loads what has the same name anew
        compiled = device.compile_operator(device.create_operator(desc), _ALLOWED)
        assert any(step.kernel.variant in names for step in compiled.steps)
        made = device.run(compiled, inputs)["OutputTensor"]
    is_attention = isinstance(desc, dml.MultiheadAttention1)
    expected = (expected_outputs if is_attention else outputs_within_error)(desc, inputs)["OutputTensor"]
    assert fault(desc.operator_name, made, expected) is None


@EACH_SHAPE
@pytest.mark.parametrize(
    ("rows", "terms", "columns", "trans_b"),
    [(72, 136, 80, False), pytest.param(67, 88, 75, True, marks=pytest.mark.sweep)],
    ids=["by fours", "one by one"],
)
def test_products(
    benches: list[Workbench],
    chosen: Chosen,
    shape: tuple[int, int, int],
    rows: int,
    terms: int,
    columns: int,
    trans_b: bool,
) -> None:
    """With C, Alpha, Beta and RELU; edges that no tile divides."""
    names = chosen(_tile(GEMM, shape))
    of_b = (columns, terms) if trans_b else (terms, columns)
    sizes = {"ATensor": (2, 1, rows, terms), "BTensor": (2, 1, *of_b), "CTensor": (2, 1, rows, columns)}
    desc = dml.Gemm(
        a_tensor=dml.TensorDesc(dml.FLOAT16, sizes["ATensor"]),
        b_tensor=dml.TensorDesc(dml.FLOAT16, sizes["BTensor"]),
        c_tensor=dml.TensorDesc(dml.FLOAT16, sizes["CTensor"]),
        output_tensor=dml.TensorDesc(dml.FLOAT16, sizes["CTensor"]),
        trans_a=dml.MatrixTransform.NONE,
        trans_b=dml.MatrixTransform.TRANSPOSE if trans_b else dml.MatrixTransform.NONE,
        alpha=0.75,
        beta=-2.0,
        fused_activation=dml.fused_activation("ACTIVATION_RELU"),
    )
    random = np.random.default_rng(61)
    _check(benches, names, desc, {name: values("normal", size, dml.FLOAT16, random) for name, size in sizes.items()})


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@FIRST_SHAPE
def test_convolutions(benches: list[Workbench], chosen: Chosen, shape: tuple[int, int, int], last: bool) -> None:
    """Padding, which an infinite weight does not meet, a bias, and edges that no tile divides."""
    names = chosen(_tile(CHANNELS if last else WINDOWS, shape))
    sizes, window = (2, 32, 9, 11), (72, 32, 3, 3)
    desc = convolution_desc(dml.FLOAT16, sizes, window, start=(1, 1), end=(1, 1), bias=True)
    if last:
        source, output = (layouts.channels_last(tensor) for tensor in (desc.input_tensor, desc.output_tensor))
        desc = dataclasses.replace(desc, input_tensor=source, output_tensor=output)
    random = np.random.default_rng(62)
    given = {"InputTensor": sizes, "FilterTensor": window, "BiasTensor": (1, 72, 1, 1)}
    inputs = {name: values("normal", size, dml.FLOAT16, random) for name, size in given.items()}
    inputs["FilterTensor"][1, 0, 0, 0] = np.inf
    _check(benches, names, desc, inputs)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        *((_SHAPES[_FIRST], name) for name in ("keys that no block divides", "a bias and a mask")),
        *(pytest.param(_SHAPES[name], "a bias", marks=pytest.mark.sweep) for name in _OTHERS),
    ],
    ids=str,
)
def test_attention(benches: list[Workbench], chosen: Chosen, shape: tuple[int, int, int], name: str) -> None:
    own = next(tile for tile in matrix_attention.TILES if tile.subgroup_size == _WIDE)
    names = chosen(own if shape[0] == _WIDE else _SmallAttentionTile(2, 2, 32, shape[0], shape))
    case, random = CASES[name], np.random.default_rng(63)
    inputs = {
        field.name: values("normal", tuple(tensor.sizes), dml.FLOAT16, random)
        for field, tensor in case.desc.inputs
        if tensor is not None and tensor.data_type is dml.FLOAT16
    }
    if case.mask is not None:
        inputs["MaskTensor"] = random.integers(0, 2, case.mask).astype(np.int32)
    _check(benches, names, case.desc, inputs)
