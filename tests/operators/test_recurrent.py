"""RNN, LSTM and GRU: what a sequence does not depend on, states that are handed on, activations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
from dmlvk.operators import check_operator
from tests.targets import all_compute_as_gpus

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


@pytest.fixture(autouse=True)
def _own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """SwiftShader compiles a GPU's products for ten seconds."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)


def run(bench: Workbench, desc: dml.OperatorDesc, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs."""
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


@pytest.mark.t_way(1)
@pytest.mark.combinations
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
