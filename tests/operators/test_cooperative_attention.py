"""Attention by matrices that subgroups hold together: who gets it, the modules, and what it gives.

No processor here has such matrices: the kernels run with a file in the place of the include that names them, so that
all but these instructions is what a device runs that has them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, expected_outputs, fault
from dmlvk.conformance.samples.products import values
from dmlvk.kernels.composed.matrix_attention import TILES, AttentionTile
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import Target
from dmlvk.kernels.trials import MATRIX_QUADS, NARROW_MATRICES
from dmlvk.spirv.specialization import MATRICES_LIE_IN_QUADS
from tests.cooperative_modules import ABLE, device_with_matrices, imitate_matrices
from tests.targets import on_llvmpipe

Array = npt.NDArray[Any]

ATTENTION = {made.name: made for tile in TILES for made in (tile.variant, tile.cached_variant)}
VARIANTS = {**ATTENTION, **{trial.name: trial for trial in (MATRIX_QUADS, NARROW_MATRICES)}}
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC
_MASKS = dml.MultiheadAttentionMaskType


@dataclasses.dataclass(frozen=True)
class Case:
    """What attention is of; a mask of these sizes, and a bias for each pair where there is one."""

    queries: int
    keys: int
    size: int
    batch: int = 2
    heads: int = 2
    key_heads: int = 2
    value_size: int | None = None
    mask: tuple[int, ...] | None = None
    mask_type: _MASKS = _MASKS.NONE
    has_bias: bool = False

    @property
    def desc(self) -> dml.MultiheadAttention1:
        of_values = self.value_size or self.size
        return dml.MultiheadAttention1(
            query_tensor=self._tensor(self.queries, self.heads * self.size),
            key_tensor=self._tensor(self.keys, self.key_heads * self.size),
            value_tensor=self._tensor(self.keys, self.key_heads * of_values),
            mask_tensor=None if self.mask is None else dml.TensorDesc(dml.INT32, self.mask),
            relative_position_bias_tensor=(
                dml.TensorDesc(dml.FLOAT16, (self.batch, self.heads, self.queries, self.keys))
                if self.has_bias
                else None
            ),
            output_tensor=self._tensor(self.queries, self.heads * of_values),
            scale=self.size**-0.5,
            mask_filter_value=-1e4,
            query_head_count=self.heads,
            key_value_head_count=self.key_heads,
            mask_type=self.mask_type,
        )

    def _tensor(self, length: int, elements: int) -> dml.TensorDesc:
        return dml.TensorDesc(dml.FLOAT16, (self.batch, length, elements))


def _variants(case: Case, target: Target = ABLE) -> list[str]:
    return [step.kernel.variant for step in lower(case.desc, target).steps]


def test_the_choice() -> None:
    """One launch; small tiles where large ones do not keep a device busy; nothing without the permission."""
    for case, name in (
        (Case(1024, 1024, 64, batch=8, heads=16, key_heads=16), "128x64x64"),
        (Case(197, 197, 64, batch=1, heads=12, key_heads=12), "32x32x64"),
        (Case(4096, 77, 40, batch=2, heads=8, key_heads=8), "128x128x48"),
        (Case(1024, 1024, 72, batch=8, heads=16, key_heads=2), "64x64x80"),
        (Case(1024, 1024, 128, batch=8, heads=16, key_heads=2), "128x32x128"),
        (Case(1024, 1024, 64, batch=8, heads=16, key_heads=16, value_size=160), "64x32x160"),
    ):
        assert _variants(case) == [f"attention.float16.cooperative.{name}"], case
    plain = Case(1024, 1024, 64)
    for lacking in (
        {"device_arithmetic": False},
        {"has_cooperative_halves": False},
        {"buffers": 5},
        {"shared_memory": 8192},
    ):
        assert not set(_variants(plain, dataclasses.replace(ABLE, **lacking))) & set(ATTENTION), lacking
    for case in (Case(15, 64, 64), Case(64, 15, 64), Case(64, 64, 168), Case(64, 64, 60)):
        assert not set(_variants(case)) & set(ATTENTION), case


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Devices have such matrices, or what imitates them, and divide all queries by one tile.

    What it gives takes the tile, and gives names of modules: of those that are loaded from then on.
    """
    modules = imitate_matrices(monkeypatch, VARIANTS)

    def tile(chosen: AttentionTile) -> list[str]:
        able = dataclasses.replace(ABLE, shared_memory=32768, buffers=6, subgroup_size=chosen.subgroup_size)
        monkeypatch.setattr(dml.Device, "target", property(lambda _: able))
        monkeypatch.setattr("dmlvk.kernels.composed.matrix_attention.TILES", (chosen,))
        return modules

    return tile


def _inputs(case: Case, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    inputs = {
        field.name: values("normal", tuple(tensor.sizes), dml.FLOAT16, random)
        for field, tensor in case.desc.inputs
        if tensor is not None and tensor.data_type is dml.FLOAT16
    }
    if case.mask is not None:
        most = 2 if case.mask_type is _MASKS.BOOLEAN else case.keys + 1
        inputs["MaskTensor"] = random.integers(0, most, case.mask).astype(np.int32)
    return inputs


def _formula(case: Case, inputs: dict[str, Array]) -> Array:
    """In float64. The stated error of masked scores is one of their size, which no fault of a mask goes beyond."""

    def heads(name: str, count: int) -> Array:
        wide = inputs[name].astype(np.float64)
        each: Array = wide.reshape(case.batch, wide.shape[1], count, -1).swapaxes(1, 2)
        return each.repeat(case.heads // count, axis=1)

    query, key, value = (
        heads(name, case.heads if name == "QueryTensor" else case.key_heads)
        for name in ("QueryTensor", "KeyTensor", "ValueTensor")
    )
    scores = query @ key.swapaxes(2, 3) * case.size**-0.5 + inputs.get("RelativePositionBiasTensor", 0.0)
    if case.mask_type is _MASKS.BOOLEAN:
        scores = np.where(inputs["MaskTensor"] == 0, scores - 1e4, scores)
    elif case.mask is not None:
        lengths = inputs["MaskTensor"].reshape(case.batch, 1, 1, 1)
        scores = np.where(np.arange(case.keys) >= lengths, scores - 1e4, scores)
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    results = shares / shares.sum(axis=3, keepdims=True) @ value
    made: Array = results.swapaxes(1, 2).reshape(case.batch, case.queries, -1)
    return made


def _check(device: dml.Device, case: Case, inputs: dict[str, Array]) -> None:
    compiled = device.compile_operator(device.create_operator(case.desc), _ALLOWED)
    assert any(step.kernel.variant in ATTENTION for step in compiled.steps)
    expected = expected_outputs(case.desc, inputs)["OutputTensor"]
    assert isinstance(expected, Bounded)
    result = device.run(compiled, inputs)["OutputTensor"]
    assert fault("MULTIHEAD_ATTENTION1", result, expected) is None
    np.testing.assert_allclose(result, _formula(case, inputs), rtol=4e-3, atol=2e-3)


LARGE, SMALL = TILES[:2]
WIDE = next(tile for tile in TILES if tile.subgroup_size == 64)
CASES = {
    "keys that no block divides": Case(40, 71, 32),
    "few elements of values": Case(130, 32, 24, value_size=16),
    "heads in groups": Case(33, 65, 32, heads=4, key_heads=2),
    "a mask of pairs": Case(24, 33, 16, mask=(2, 1, 24, 33), mask_type=_MASKS.BOOLEAN),
    "a mask of keys": Case(24, 40, 16, mask=(1, 2), mask_type=_MASKS.KEY_SEQUENCE_LENGTH),
    "a bias": Case(24, 33, 16, has_bias=True),
    "a bias and a mask": Case(17, 64, 16, mask=(2, 1, 1, 64), mask_type=_MASKS.BOOLEAN, has_bias=True),
}


BOTH_WAYS = pytest.mark.parametrize("way", ["in registers", "in memory"])


def test_how_elements_lie_is_found_by_trying(benches: list[Workbench], only: Any) -> None:
    """The imitation deals them out in quads."""
    only(SMALL)
    with device_with_matrices(benches, in_registers=True) as device:
        assert device.engine.shaders.does(MATRICES_LIE_IN_QUADS)


@BOTH_WAYS
@pytest.mark.parametrize("tile", [LARGE, SMALL, WIDE], ids=["large", "small", "wide"])
@pytest.mark.parametrize("name", CASES)
def test_results(benches: list[Workbench], only: Any, name: str, tile: AttentionTile, way: str) -> None:
    """As in float64, within the stated error."""
    only(tile)
    case = CASES[name]
    inputs = _inputs(case, 41)
    if name == "keys that no block divides":
        inputs["KeyTensor"] = (np.abs(inputs["KeyTensor"]) * -4).astype(np.float16)  # zeros would be the largest
        inputs["QueryTensor"] = np.abs(inputs["QueryTensor"])
    with device_with_matrices(benches, in_registers=way == "in registers") as device:
        _check(device, case, inputs)


@pytest.mark.parametrize(
    ("tile", "way"),
    [
        (TILES[3], "in registers"),
        (TILES[3], "in memory"),
        (TILES[5], "in memory"),
        pytest.param(TILES[7], "in registers", marks=pytest.mark.sweep),
        pytest.param(TILES[9], "in memory", marks=pytest.mark.sweep),
    ],
    ids=str,
)
def test_larger_heads(benches: list[Workbench], only: Any, tile: AttentionTile, way: str) -> None:
    only(tile)
    case = Case(40, 50, 16 * tile.head_tiles - 8, batch=1)
    with device_with_matrices(benches, in_registers=way == "in registers") as device:
        _check(device, case, _inputs(case, 42))


@BOTH_WAYS
@pytest.mark.parametrize("tile", [LARGE, SMALL], ids=["large", "small"])
def test_peaks_that_grow_late_and_scores_that_are_not_finite(
    benches: list[Workbench], only: Any, tile: AttentionTile, way: str
) -> None:
    """A key that outweighs all before it; NaN and infinity reach the rows that see them, and no others."""
    only(tile)
    case = Case(32, 96, 16, batch=1, heads=1, key_heads=1)
    inputs = _inputs(case, 43)
    inputs["KeyTensor"][0, 90] *= 60
    inputs["QueryTensor"][0, 3, 0] = np.nan
    inputs["ValueTensor"][0, 90, 5] = np.inf
    with device_with_matrices(benches, in_registers=way == "in registers") as device:
        compiled = device.compile_operator(device.create_operator(case.desc), _ALLOWED)
        result = device.run(compiled, inputs)["OutputTensor"][0]
    wide = {name: array[0].astype(np.float64) for name, array in inputs.items()}
    with np.errstate(invalid="ignore"):
        scores = wide["QueryTensor"] @ wide["KeyTensor"].T / 4
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        expected = shares @ wide["ValueTensor"]
    rows = np.arange(32) != 3
    columns = np.arange(16) != 5
    assert np.isnan(result[3]).all()
    assert not np.isfinite(result[:, 5]).any()
    np.testing.assert_allclose(result[rows][:, columns], expected[rows][:, columns], rtol=4e-3, atol=2e-3)


def test_one_plan_serves_lengths_that_a_model_leaves_open(benches: list[Workbench], only: Any) -> None:
    """Of sizes that follow a run: results are those of each length, whether tiles are whole or not."""
    modules = only(SMALL)
    names = {name: ["batch", "length" if name == "query" else "keys", 32] for name in ("query", "key", "value")}
    node = helper.make_node("MultiHeadAttention", list(names), ["result"], domain="com.microsoft", num_heads=2)
    graph = helper.make_graph(
        [node],
        "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT16, sizes) for name, sizes in names.items()],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT16, ["batch", "length", 32])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    random = np.random.default_rng(44)
    index = on_llvmpipe(benches)[0].device.info.index
    with dml.Device(index, arithmetic="device") as device, ort.InferenceSession(model, device=device) as session:
        for batch, length, keys in ((1, 24, 32), (2, 40, 33), (1, 33, 71), (2, 64, 64), (1, 100, 17)):
            feed = {
                name: values("normal", (batch, length if name == "query" else keys, 32), dml.FLOAT16, random)
                for name in names
            }
            (result,) = session.run(None, feed)
            query, key, value = (
                array.astype(np.float64).reshape(batch, -1, 2, 16).swapaxes(1, 2) for array in feed.values()
            )
            scores = query @ key.swapaxes(2, 3) / 4
            shares = np.exp(scores - scores.max(axis=3, keepdims=True))
            expected = (shares / shares.sum(axis=3, keepdims=True) @ value).swapaxes(1, 2).reshape(result.shape)
            np.testing.assert_allclose(result, expected, rtol=4e-3, atol=2e-3, err_msg=f"{batch}, {length}, {keys}")
    assert SMALL.variant.name in modules, "another kernel computed it"


@pytest.mark.parametrize(("window", "past"), [(-1, 0), (-1, 37), (20, 37)], ids=str)
@BOTH_WAYS
def test_prompts_over_caches_are_onnx_runtime_s(
    benches: list[Workbench], only: Any, monkeypatch: pytest.MonkeyPatch, way: str, window: int, past: int
) -> None:
    """Each query sees the keys up to its own, of a window so many; behind a past too."""
    modules, tokens, heads, key_heads, size, capacity = only(SMALL), 41, 4, 2, 32, 100
    able = dataclasses.replace(ABLE, shared_memory=32768)
    monkeypatch.setattr(dml.Device, "target", property(lambda self: able))
    widths = {"q": heads * size, "k": key_heads * size, "v": key_heads * size}
    caches = ("past_key", "past_value")
    kinds: dict[str, tuple[int, list[int]]] = {
        **{name: (TensorProto.FLOAT16, [1, tokens, width]) for name, width in widths.items()},
        **dict.fromkeys(caches, (TensorProto.FLOAT16, [1, key_heads, capacity, size])),
        "ends": (TensorProto.INT32, [1]),
        "total": (TensorProto.INT32, [1]),
    }
    node = helper.make_node(
        "GroupQueryAttention",
        list(kinds),
        ["y", "key", "value"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=key_heads,
        local_window_size=window,
    )
    graph = helper.make_graph(
        [node],
        "attention",
        [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in node.output],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    random = np.random.default_rng(45)
    feed = {name: values("normal", tuple(kind[1]), dml.FLOAT16, random) for name, kind in kinds.items() if kind[1][1:]}
    feed |= {"ends": np.array([past + tokens - 1], np.int32), "total": np.array([past + tokens], np.int32)}
    (expected, *_) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    with device_with_matrices(benches, in_registers=way == "in registers") as device:
        other = dml.Device(device.info.index, arithmetic="device")
        other.engine.shaders.trials = device.engine.shaders.trials
        with other, ort.InferenceSession(model, device=other, strict=True) as session:
            (result, *_) = session.run(None, feed)
    np.testing.assert_allclose(result, expected, rtol=4e-3, atol=2e-3)
    assert SMALL.cached_variant.name in modules, "another kernel computed it"
