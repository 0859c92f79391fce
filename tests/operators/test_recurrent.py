"""RNN, LSTM and GRU: what a sequence does not depend on, states handed on, launches, kernels with own products."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, expected_outputs
from dmlvk.conformance.samples.recurrent import ACTIVATIONS, recurrent_desc, recurrent_inputs
from dmlvk.conformance.sampling import run_sample
from dmlvk.datatypes import DataType
from dmlvk.kernels.composed import recurrent
from dmlvk.kernels.composed.recurrent_steps import FEW, LARGE, SMALL_BLOCK, USUAL, WIDE_BLOCK, StepBlock, StepTile
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import check_operator
from tests.targets import variants

Array = npt.NDArray[Any]

_STATES: tuple[str, ...] = ("HiddenInitTensor", "CellMemInitTensor")

_BOTH = dml.RecurrentNetworkDirection.BIDIRECTIONAL

_OPTIONS: dict[str, dict[str, Any]] = {
    "RNN": {},
    "GRU": {},
    "LSTM": {"peepholes": True, "use_clip_threshold": True, "clip_threshold": 2.0},
}

EACH_OPERATOR = pytest.mark.parametrize("name", list(_OPTIONS))

EACH_TYPE = pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])


pytestmark = pytest.mark.usefixtures("own_kernels")


def run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    check_operator(desc, dml.FeatureLevel.from_name("6_4"))
    outcome = run_sample(bench, desc, inputs)
    assert outcome.damage is None
    return outcome.outputs


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


@EACH_TYPE
@EACH_OPERATOR
def test_a_sequence_does_not_depend_on_the_others(benches: list[Workbench], name: str, data_type: DataType) -> None:
    lengths = (4, 6, 1, 5, 6)
    options = {**_OPTIONS[name], "initial": True, "lengths": lengths}
    whole = recurrent_desc(name, data_type, (6, 5, 7, 9), _BOTH, **options)
    inputs = recurrent_inputs(whole, np.random.default_rng(1), lengths)
    inputs["InputTensor"][0, :, 1] = np.nan  # of no concern to all others
    inputs["InputTensor"][0, 4:, 0] = np.inf  # behind the sequence's end
    alone = recurrent_desc(name, data_type, (6, 1, 7, 9), _BOTH, **options)
    for bench in benches:
        together = run(bench, whole, inputs)
        assert np.isnan(together["OutputSequenceTensor"][:, :, 1]).any()
        for number in (0, 2, 3, 4):
            own = dict(inputs)
            for key in ("InputTensor", *_STATES):
                if key in own:
                    own[key] = own[key][:, :, number : number + 1]
            own["SequenceLengthsTensor"] = inputs["SequenceLengthsTensor"][..., number : number + 1]
            for key, values in run(bench, alone, own).items():
                assert bits(values) == bits(together[key][:, :, number : number + 1]), (bench.device.info.name, key)
            behind = together["OutputSequenceTensor"][lengths[number] :, :, number]
            assert not behind.any()
            assert not np.signbit(behind).any()


@EACH_TYPE
@EACH_OPERATOR
def test_a_sequence_may_be_cut_in_two(benches: list[Workbench], name: str, data_type: DataType) -> None:
    options = {**_OPTIONS[name], "initial": True}
    whole = recurrent_desc(name, data_type, (7, 2, 5, 3), **options)
    inputs = recurrent_inputs(whole, np.random.default_rng(2))
    for bench in benches:
        expected = run(bench, whole, inputs)
        states: dict[str, Array] = {key: inputs[key] for key in _STATES if key in inputs}
        parts = []
        for first, last in ((0, 3), (3, 7)):
            part = recurrent_desc(name, data_type, (last - first, 2, 5, 3), **options)
            made = run(bench, part, {**inputs, **states, "InputTensor": inputs["InputTensor"][:, first:last]})
            parts.append(made["OutputSequenceTensor"])
            states["HiddenInitTensor"] = made["OutputSingleTensor"]
            if name == "LSTM":
                states["CellMemInitTensor"] = made["OutputCellSingleTensor"]
        assert bits(np.concatenate(parts)) == bits(expected["OutputSequenceTensor"]), bench.device.info.name
        assert bits(states["HiddenInitTensor"]) == bits(expected["OutputSingleTensor"])


@EACH_TYPE
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations_give_what_their_operators_give(
    benches: list[Workbench], activation: str, data_type: DataType
) -> None:
    units = 96
    numbers = np.random.default_rng(3).normal(0, 4, units).astype(data_type.numpy_dtype)
    numbers[:5] = 0, 1, np.inf, -np.inf, np.nan
    desc = recurrent_desc("RNN", data_type, (1, 1, 1, units), activations=(activation,), only="output_single_tensor")
    inputs = {field.name: np.zeros(tensor.sizes, data_type.numpy_dtype) for field, tensor in desc.inputs if tensor}
    inputs["BiasTensor"][..., :units] = numbers
    tensor = dml.TensorDesc(data_type, (units,))
    fused = ACTIVATIONS[activation]
    members = {field.attribute: value for field, value in fused.attributes}
    own = fused.activation(**members, **dict.fromkeys(("input_tensor", "output_tensor"), tensor))
    for bench in benches:
        got = run(bench, desc, inputs)["OutputSingleTensor"].ravel()
        expected = run(bench, own, {"InputTensor": numbers})["OutputTensor"]
        assert bits(got) == bits(expected), bench.device.info.name


@EACH_OPERATOR
def test_products_of_few_steps_at_a_time_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lengths = (20, 3, 18)
    desc = recurrent_desc(name, dml.FLOAT16, (20, 3, 5, 4), _BOTH, initial=True, lengths=lengths, **_OPTIONS[name])
    inputs = recurrent_inputs(desc, np.random.default_rng(4), lengths)
    turned = dataclasses.replace(
        desc, input_tensor=dataclasses.replace(desc.input_tensor, strides=(300, 5, 100, 1))
    )  # batch before steps
    expected = [run(bench, desc, inputs) for bench in benches]
    for most in (1, 3, 8, 17):
        step = 2 * 3 * desc.weight_tensor.sizes[2] * 4
        monkeypatch.setattr(recurrent, "_MOST_PROJECTIONS", step * most)
        for bench, results in zip(benches, expected, strict=True):
            for form in (desc, turned):
                made = run(bench, form, inputs)
                assert {key: bits(values) for key, values in made.items()} == {
                    key: bits(values) for key, values in results.items()
                }


def test_the_threshold_bounds_arguments_and_not_cells(benches: list[Workbench]) -> None:
    desc = recurrent_desc("LSTM", dml.FLOAT32, (5, 1, 1, 1), use_clip_threshold=True, clip_threshold=0.5)
    inputs = {field.name: np.zeros(tensor.sizes, np.float32) for field, tensor in desc.inputs if tensor}
    inputs["BiasTensor"][..., :4] = 100
    gate, fresh = 1 / (1 + np.exp(-0.5)), np.tanh(0.5)
    cell = 0.0
    for _ in range(5):
        cell = gate * cell + gate * fresh
    assert cell > 0.5
    for bench in benches:
        made = run(bench, desc, inputs)
        np.testing.assert_allclose(made["OutputCellSingleTensor"], cell, rtol=1e-6)
        np.testing.assert_allclose(made["OutputSingleTensor"], gate * np.tanh(0.5), rtol=1e-6)
        with_nan = run(bench, desc, {**inputs, "InputTensor": np.full((1, 5, 1, 1), np.nan, np.float32)})
        assert np.isnan(with_nan["OutputCellSingleTensor"]).all()


@EACH_OPERATOR
def test_the_bound_of_the_reference_stays_small(name: str) -> None:
    """A bound that lets everything pass would show nothing."""
    for data_type, largest in ((dml.FLOAT32, 1e-4), (dml.FLOAT16, 0.1)):
        desc = recurrent_desc(name, data_type, (4, 2, 16, 16), _BOTH)
        for expected in expected_outputs(desc, recurrent_inputs(desc, np.random.default_rng(5))).values():
            assert isinstance(expected, Bounded)
            assert expected.bound.max() < largest
            assert np.abs(expected.values).max() > 0.2


def test_one_call_of_a_graph() -> None:
    with dml.Device() as device:
        graph = dml.Graph(device)
        random = np.random.default_rng(6)
        desc = recurrent_desc("GRU", dml.FLOAT32, (3, 2, 4, 5))
        inputs = recurrent_inputs(desc, random)
        given = {name: graph.input(name, dml.FLOAT32, value.shape) for name, value in inputs.items()}
        made = graph.apply_all(
            "GRU",
            {
                "input_tensor": given["InputTensor"],
                "weight_tensor": given["WeightTensor"],
                "recurrence_tensor": given["RecurrenceTensor"],
                "bias_tensor": given["BiasTensor"],
            },
            {
                "activation_descs": [ACTIVATIONS["SIGMOID"], ACTIVATIONS["TANH"]],
                "direction": dml.RecurrentNetworkDirection.FORWARD,
                "linear_before_reset": False,
            },
            optional_outputs=["output_single_tensor"],
        )
        model = graph.compile(last=made["output_single_tensor"])
        got = device.run(model, inputs)["last"]
        expected = expected_outputs(desc, inputs)["OutputSingleTensor"]
        assert isinstance(expected, Bounded)
        assert (np.abs(got - expected.values) <= expected.bound).all()


_FORWARD = dml.RecurrentNetworkDirection.FORWARD

_BACKWARD = dml.RecurrentNetworkDirection.BACKWARD

_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("RNN", {}),
    "GRU": ("GRU", {}),
    "linear GRU": ("GRU", {"linear_before_reset": True}),
    "LSTM": ("LSTM", {"peepholes": True, "use_clip_threshold": True, "clip_threshold": 0.5}),
}

EACH_NETWORK = pytest.mark.parametrize("network", list(_NETWORKS))

_TYPES = (dml.FLOAT32, dml.FLOAT16)

_TILES = (FEW, USUAL, LARGE, SMALL_BLOCK, WIDE_BLOCK)

STEP_EACH_TYPE = pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])

TILES = pytest.mark.parametrize("tile", [FEW, USUAL, LARGE], ids=lambda tile: tile.name)

EACH_TILE = pytest.mark.parametrize("tile", _TILES, ids=lambda tile: tile.name)

Tile = StepTile | StepBlock

SameBits = Callable[[Tile, dml.OperatorDesc, Mapping[str, Array]], None]

# steps, sequences, inputs, units, direction, lengths
_SHAPES: dict[str, tuple[int, int, int, int, dml.RecurrentNetworkDirection, tuple[int, ...] | None]] = {
    "one number": (1, 1, 1, 1, _FORWARD, None),
    "one unit, both ways": (3, 2, 1, 1, _BOTH, (0, 2)),
    "three units, backward": (4, 1, 3, 3, _BACKWARD, (3,)),
    "an even number of steps": (4, 3, 2, 6, _BOTH, (4, 1, 2)),
    "an odd number of steps": (5, 3, 2, 6, _BOTH, (5, 1, 2)),
    "more sequences than a tile": (3, 33, 3, 7, _BOTH, (0, 3, 1, 2) * 8 + (2,)),
    "vectors, several tiles": (2, 18, 4, 72, _FORWARD, None),
}


def _shapes_in_turn() -> list[Any]:
    """Every shape with every network and type, and a tile for each of these: all tiles meet all networks and types."""
    found = []
    for number, shape in enumerate(_SHAPES):
        for network_number, network in enumerate(_NETWORKS):
            for type_number, data_type in enumerate(_TYPES):
                tile = _TILES[(number + 2 * network_number + type_number) % len(_TILES)]
                name = f"{shape}-{network}-{tile.name}-{data_type.name.lower()}"
                found.append(pytest.param(shape, network, tile, data_type, id=name))
    return found


def step_run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> dict[str, bytes]:
    outcome = run_sample(bench, desc, inputs)
    assert outcome.damage is None
    return {key: np.ascontiguousarray(values).tobytes() for key, values in outcome.outputs.items()}


def step_variants(desc: dml.OperatorDesc, target: Target = CPU) -> list[str]:
    return [name for name in variants(desc, target) if name.startswith("recurrent.")]


@pytest.fixture
def same_bits(benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> SameBits:
    """Steps that are computed with a tile give the bits of those behind products of GEMM."""

    def assert_same_bits(tile: Tile, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> None:
        for bench in benches:
            if isinstance(tile, StepBlock) and bench.device.target.is_naive:
                continue  # which is never given them: it may compile one for minutes
            found = {}
            for chosen in (None, tile):
                monkeypatch.setattr(recurrent, "step_tile", lambda *_, chosen=chosen: chosen)
                named = [tile.name in name.split(".") for name in step_variants(desc)]
                assert all(named) if chosen else not any(named)
                found[chosen] = step_run(bench, desc, inputs)
            assert found[tile] == found[None], bench.device.info.name

    return assert_same_bits


@pytest.mark.parametrize(("shape", "network", "tile", "data_type"), _shapes_in_turn())
def test_own_products_give_the_bits_of_gemm(
    same_bits: SameBits,
    shape: str,
    network: str,
    tile: Tile,
    data_type: DataType,
) -> None:
    name, options = _NETWORKS[network]
    steps, batch, of_input, units, direction, lengths = _SHAPES[shape]
    sizes = (steps, batch, of_input, units)
    desc = recurrent_desc(name, data_type, sizes, direction, initial=True, lengths=lengths, **options)
    inputs = recurrent_inputs(desc, np.random.default_rng(1), lengths)
    same_bits(tile, desc, inputs)


@STEP_EACH_TYPE
@TILES
@pytest.mark.parametrize(
    ("network", "units"),
    [("RNN", 1025), ("RNN", 1028), ("RNN", 2051), ("GRU", 1025), ("linear GRU", 1028), ("LSTM", 1025)],
)
def test_products_of_several_segments(
    same_bits: SameBits,
    units: int,
    network: str,
    tile: Tile,
    data_type: DataType,
) -> None:
    name, options = _NETWORKS[network]
    desc = recurrent_desc(name, data_type, (2, 2, 2, units), initial=True, **options)
    inputs = recurrent_inputs(desc, np.random.default_rng(2))
    same_bits(tile, desc, inputs)


@STEP_EACH_TYPE
@EACH_NETWORK
@pytest.mark.parametrize(
    ("tile", "units"),
    [(FEW, 7), (FEW, 8), (USUAL, 8), (LARGE, 7), (SMALL_BLOCK, 8), (WIDE_BLOCK, 7), (WIDE_BLOCK, 8)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_weights_in_columns_and_optional_tensors(
    same_bits: SameBits,
    units: int,
    network: str,
    tile: Tile,
    data_type: DataType,
) -> None:
    name, options = _NETWORKS[network]
    for only in ("output_single_tensor", "output_sequence_tensor"):
        more = {**options, "peepholes": False, "bias": False, "only": only}
        desc = recurrent_desc(name, data_type, (3, 5, 4, units), _BOTH, **more)
        rows = desc.recurrence_tensor.sizes[2]
        strides = (2 * rows * units, rows * units, 1, rows)
        recurrence = dataclasses.replace(desc.recurrence_tensor, strides=strides)
        desc = dataclasses.replace(desc, recurrence_tensor=recurrence)
        same_bits(tile, desc, recurrent_inputs(desc, np.random.default_rng(3)))


@STEP_EACH_TYPE
@EACH_TILE
@EACH_NETWORK
def test_tiny_and_endless_numbers(same_bits: SameBits, network: str, tile: Tile, data_type: DataType) -> None:
    """Sums that need care: products that are denormal, and terms that are not finite beside a tile's padding."""
    name, options = _NETWORKS[network]
    desc = recurrent_desc(name, data_type, (2, 6, 3, 9), initial=True, **options)
    inputs = recurrent_inputs(desc, np.random.default_rng(4))
    tiny = float(np.finfo(data_type.numpy_dtype).smallest_normal)
    inputs["RecurrenceTensor"][..., ::3] *= data_type.numpy_dtype.type(tiny)
    inputs["RecurrenceTensor"][..., 1::3] *= data_type.numpy_dtype.type(np.sqrt(tiny))
    inputs["HiddenInitTensor"][..., 1::3] *= data_type.numpy_dtype.type(np.sqrt(tiny))
    same_bits(tile, desc, inputs)
    inputs["HiddenInitTensor"][:, :, 1, 8] = np.inf
    inputs["HiddenInitTensor"][:, :, 4, 0] = np.nan
    same_bits(tile, desc, inputs)


@pytest.mark.parametrize("tile", [USUAL, WIDE_BLOCK], ids=lambda tile: tile.name)
def test_every_sum_of_a_whole_segment_may_need_care(same_bits: SameBits, tile: Tile) -> None:
    """llvmpipe ends loops after so many turns: the most that an invocation makes must be fewer."""
    desc = recurrent_desc("RNN", dml.FLOAT32, (1, 17, 1, 1024), initial=True)
    inputs = recurrent_inputs(desc, np.random.default_rng(6))
    for key in ("RecurrenceTensor", "HiddenInitTensor"):
        inputs[key] *= np.float32(2.0**-62)
    inputs["InputTensor"][:] = 0
    inputs["BiasTensor"][:] = 0
    same_bits(tile, desc, inputs)


@STEP_EACH_TYPE
@pytest.mark.parametrize("tile", [USUAL, SMALL_BLOCK, WIDE_BLOCK], ids=lambda tile: tile.name)
@EACH_NETWORK
def test_directions_with_activations_of_their_own(
    same_bits: SameBits, network: str, tile: Tile, data_type: DataType
) -> None:
    name, options = _NETWORKS[network]
    each = {"RNN": 1, "GRU": 2, "LSTM": 3}[name]
    activations = ("SIGMOID", "SOFTSIGN", "LINEAR")[:each] + ("HARD_SIGMOID", "ELU", "TANH")[:each]
    desc = recurrent_desc(name, data_type, (3, 4, 3, 5), _BOTH, activations, initial=True, **options)
    same_bits(tile, desc, recurrent_inputs(desc, np.random.default_rng(5)))


@pytest.mark.parametrize(("network", "launches"), [("RNN", 1), ("linear GRU", 1), ("LSTM", 1), ("GRU", 2)])
def test_a_step_takes_one_launch_whose_kernels_are_shared(network: str, launches: int) -> None:
    """GRU takes two: its last gate multiplies what the others have made of all units."""
    name, options = _NETWORKS[network]

    def steps(count: int, batch: int, target: Target, units: int = 512) -> int:
        desc = recurrent_desc(name, dml.FLOAT32, (count, batch, 512, units), **options)
        program = lower(desc, target)
        assert len({(step.kernel.variant, step.kernel.specialization([0] * 5)) for step in program.steps}) < 10
        return len(program.steps)

    def of_a_step(batch: int, target: Target, units: int = 512) -> float:
        return (steps(16, batch, target, units) - steps(8, batch, target, units)) / 8

    for batch in (1, 4, 5, 16, 32, 64, 128):
        assert of_a_step(batch, GPU) == launches, batch
    assert of_a_step(1000, GPU) == 2 * launches  # GEMM's large tiles are worth a launch
    for batch in (1, 4, 5, 1000):
        assert of_a_step(batch, CPU) == launches, batch
    assert of_a_step(32, CPU, 1025) == 3 * launches  # GEMM there computes two segments in a launch each


@EACH_NETWORK
def test_tiles_follow_from_the_shape(network: str) -> None:
    name, options = _NETWORKS[network]

    def tiles(batch: int, units: int, activations: tuple[str, ...] = ()) -> set[str]:
        desc = recurrent_desc(name, dml.FLOAT32, (2, batch, 8, units), activations=activations, **options)
        return {variant.split(".", 4)[-1] for variant in step_variants(desc, GPU)}

    assert tiles(4, 512) == {"few"}
    assert tiles(5, 512) == {"16x32"}
    assert tiles(32, 256) == {"16x32"}
    assert tiles(32, 8192) == {"32x32"}
    unusual = {"RNN": 1, "GRU": 2, "LSTM": 3}[name] * ("SOFTSIGN",)
    assert tiles(4, 512, unusual) == tiles(32, 8192, unusual) == {"16x32"}

    def blocks(batch: int, target: Target) -> set[str]:
        desc = recurrent_desc(name, dml.FLOAT16, (2, batch, 8, 64), **options)
        return {variant.split(".")[-1] for variant in step_variants(desc, target)}

    assert blocks(4, CPU) == {"small"}
    assert blocks(5, CPU) == {"wide"}
    assert blocks(5, dataclasses.replace(CPU, is_naive=True)) == {"usual"}  # behind products of GEMM


def test_permitted_device_arithmetic_leaves_steps_as_they_are() -> None:
    """Activations stand in the same kernel, and their bits are nobody's to choose."""
    desc = recurrent_desc("LSTM", dml.FLOAT32, (2, 16, 8, 64))
    assert step_variants(desc, dataclasses.replace(GPU, device_arithmetic=True)) == step_variants(desc, GPU)
