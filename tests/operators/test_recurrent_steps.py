"""Steps of RNN, LSTM and GRU: how many launches they take, and that kernels with own products change no bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples.recurrent import recurrent_desc, recurrent_inputs
from dmlvk.conformance.sampling import run_sample
from dmlvk.datatypes import DataType
from dmlvk.kernels.composed import recurrent
from dmlvk.kernels.composed.recurrent_steps import FEW, LARGE, SMALL_BLOCK, USUAL, WIDE_BLOCK, StepBlock, StepTile
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import CPU, GPU, Target
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]

_FORWARD = dml.RecurrentNetworkDirection.FORWARD
_BACKWARD = dml.RecurrentNetworkDirection.BACKWARD
_BOTH = dml.RecurrentNetworkDirection.BIDIRECTIONAL
_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("RNN", {}),
    "GRU": ("GRU", {}),
    "linear GRU": ("GRU", {"linear_before_reset": True}),
    "LSTM": ("LSTM", {"peepholes": True, "use_clip_threshold": True, "clip_threshold": 0.5}),
}
EACH_NETWORK = pytest.mark.parametrize("network", list(_NETWORKS))
_TYPES = (dml.FLOAT32, dml.FLOAT16)
_TILES = (FEW, USUAL, LARGE, SMALL_BLOCK, WIDE_BLOCK)
EACH_TYPE = pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
TILES = pytest.mark.parametrize("tile", [FEW, USUAL, LARGE], ids=lambda tile: tile.name)
EACH_TILE = pytest.mark.parametrize("tile", _TILES, ids=lambda tile: tile.name)

Tile = StepTile | StepBlock

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


@pytest.fixture(autouse=True)
def _own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not of a step itself is computed by each device's own kernels: SwiftShader would compile others long."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)


@pytest.fixture
def with_tile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tile | None], None]:
    """Steps are computed with a tile, or behind products of GEMM."""

    def choose(tile: Tile | None) -> None:
        monkeypatch.setattr(recurrent, "step_tile", lambda *_: tile)

    return choose


def run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> dict[str, bytes]:
    """The bits of all outputs."""
    outcome = run_sample(bench, desc, inputs)
    assert outcome.damage is None
    return {key: np.ascontiguousarray(values).tobytes() for key, values in outcome.outputs.items()}


def step_variants(desc: dml.OperatorDesc, target: Target = CPU) -> list[str]:
    """The kernels that compute states."""
    return [name for name in variants(desc, target) if name.startswith("recurrent.")]


def assert_same_bits(
    benches: list[Workbench],
    with_tile: Callable[[Tile | None], None],
    tile: Tile,
    desc: dml.OperatorDesc,
    inputs: Mapping[str, Array],
) -> None:
    for bench in benches:
        if isinstance(tile, StepBlock) and bench.device.target.is_naive:
            continue  # which is never given them: it may compile one for minutes
        with_tile(None)
        assert not any(tile.name in name.split(".") for name in step_variants(desc))
        expected = run(bench, desc, inputs)
        with_tile(tile)
        assert all(tile.name in name.split(".") for name in step_variants(desc))
        assert run(bench, desc, inputs) == expected, bench.device.info.name


@pytest.mark.combinations
@pytest.mark.t_way(2)
@pytest.mark.parametrize(("shape", "network", "tile", "data_type"), _shapes_in_turn())
def test_own_products_give_the_bits_of_gemm(
    benches: list[Workbench],
    with_tile: Callable[[Tile | None], None],
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
    assert_same_bits(benches, with_tile, tile, desc, inputs)


@pytest.mark.combinations
@pytest.mark.t_way(1)
@EACH_TYPE
@TILES
@pytest.mark.parametrize(
    ("network", "units"),
    [("RNN", 1025), ("RNN", 1028), ("RNN", 2051), ("GRU", 1025), ("linear GRU", 1028), ("LSTM", 1025)],
)
def test_products_of_several_segments(
    benches: list[Workbench],
    with_tile: Callable[[Tile | None], None],
    units: int,
    network: str,
    tile: Tile,
    data_type: DataType,
) -> None:
    name, options = _NETWORKS[network]
    desc = recurrent_desc(name, data_type, (2, 2, 2, units), initial=True, **options)
    inputs = recurrent_inputs(desc, np.random.default_rng(2))
    assert_same_bits(benches, with_tile, tile, desc, inputs)


@pytest.mark.combinations
@pytest.mark.t_way(1)
@EACH_TYPE
@EACH_NETWORK
@pytest.mark.parametrize(
    ("tile", "units"),
    [(FEW, 7), (FEW, 8), (USUAL, 8), (LARGE, 7), (SMALL_BLOCK, 8), (WIDE_BLOCK, 7), (WIDE_BLOCK, 8)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_weights_in_columns_and_optional_tensors(
    benches: list[Workbench],
    with_tile: Callable[[Tile | None], None],
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
        assert_same_bits(benches, with_tile, tile, desc, recurrent_inputs(desc, np.random.default_rng(3)))


@pytest.mark.t_way(2)
@EACH_TYPE
@EACH_TILE
@EACH_NETWORK
def test_tiny_and_endless_numbers(
    benches: list[Workbench],
    with_tile: Callable[[Tile | None], None],
    network: str,
    tile: Tile,
    data_type: DataType,
) -> None:
    """Sums that need care: products that are denormal, and terms that are not finite beside a tile's padding."""
    name, options = _NETWORKS[network]
    desc = recurrent_desc(name, data_type, (2, 6, 3, 9), initial=True, **options)
    inputs = recurrent_inputs(desc, np.random.default_rng(4))
    tiny = float(np.finfo(data_type.numpy_dtype).smallest_normal)
    inputs["RecurrenceTensor"][..., ::3] *= data_type.numpy_dtype.type(tiny)
    inputs["RecurrenceTensor"][..., 1::3] *= data_type.numpy_dtype.type(np.sqrt(tiny))
    inputs["HiddenInitTensor"][..., 1::3] *= data_type.numpy_dtype.type(np.sqrt(tiny))
    assert_same_bits(benches, with_tile, tile, desc, inputs)
    inputs["HiddenInitTensor"][:, :, 1, 8] = np.inf
    inputs["HiddenInitTensor"][:, :, 4, 0] = np.nan
    assert_same_bits(benches, with_tile, tile, desc, inputs)


@pytest.mark.parametrize("tile", [USUAL, WIDE_BLOCK], ids=lambda tile: tile.name)
def test_every_sum_of_a_whole_segment_may_need_care(
    benches: list[Workbench], with_tile: Callable[[Tile | None], None], tile: Tile
) -> None:
    """llvmpipe ends loops after so many turns: the most that an invocation makes must be fewer."""
    desc = recurrent_desc("RNN", dml.FLOAT32, (1, 17, 1, 1024), initial=True)
    inputs = recurrent_inputs(desc, np.random.default_rng(6))
    for key in ("RecurrenceTensor", "HiddenInitTensor"):
        inputs[key] *= np.float32(2.0**-62)
    inputs["InputTensor"][:] = 0
    inputs["BiasTensor"][:] = 0
    assert_same_bits(benches, with_tile, tile, desc, inputs)


@pytest.mark.combinations
@pytest.mark.t_way(1)
@EACH_TYPE
@pytest.mark.parametrize("tile", [USUAL, SMALL_BLOCK, WIDE_BLOCK], ids=lambda tile: tile.name)
@EACH_NETWORK
def test_directions_with_activations_of_their_own(
    benches: list[Workbench], with_tile: Callable[[Tile | None], None], network: str, tile: Tile, data_type: DataType
) -> None:
    name, options = _NETWORKS[network]
    each = {"RNN": 1, "GRU": 2, "LSTM": 3}[name]
    activations = ("SIGMOID", "SOFTSIGN", "LINEAR")[:each] + ("HARD_SIGMOID", "ELU", "TANH")[:each]
    desc = recurrent_desc(name, data_type, (3, 4, 3, 5), _BOTH, activations, initial=True, **options)
    assert_same_bits(benches, with_tile, tile, desc, recurrent_inputs(desc, np.random.default_rng(5)))


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
