"""RNN, LSTM and GRU: each sequence alone, in float64, with an error bound that goes from step to step.

A number is a value and how far from it results may be. Sums, products and activations say how the errors of what they
are made of go into theirs (first and second order, by the operands' largest magnitudes), and add what rounding adds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

Recurrent: TypeAlias = dml.Rnn | dml.Lstm | dml.Gru

_STEP = 2.0**-24  # What rounding to float32 may add to a number, as a part of it

_TINY = 2.0**-125  # What a denormal that counts as zero may add

_SEGMENT = 1024
_TRIED = np.linspace(-1, 1, 17)  # Where in its argument's interval an activation is tried


@dataclasses.dataclass(frozen=True)
class _Number:
    """Values, and how far from them results may be."""

    value: Floats
    error: Floats

    def rounded(self, half: bool) -> _Number:
        """Rounded to float32, and then to FLOAT16 where that is asked for."""
        size = np.abs(self.value) + self.error
        lost = size * (_STEP + 2.0**-11) + 2.0**-25 if half else size * _STEP + _TINY
        return _Number(self.value, self.error + lost)

    def __add__(self, other: _Number) -> _Number:
        return _Number(self.value + other.value, self.error + other.error).rounded(False)

    def __mul__(self, other: _Number) -> _Number:
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error + self.error * other.error
        return _Number(self.value * other.value, error).rounded(False)


def _exact(values: Array | float) -> _Number:
    number = np.asarray(values, np.float64)
    return _Number(number, np.zeros_like(number))


def _product(weights: Floats, vector: _Number) -> _Number:
    """The promise of GEMM, and what the vector's own errors make of it."""
    magnitudes = np.abs(weights) @ (np.abs(vector.value) + vector.error)
    segments = -(-weights.shape[1] // _SEGMENT)
    rounding = (min(_SEGMENT, weights.shape[1]) + segments + 2) * (_STEP * magnitudes + _TINY)
    return _Number(weights @ vector.value, np.abs(weights) @ vector.error + rounding)


def _softplus(x: Floats, steepness: float) -> Floats:
    result: Floats = np.logaddexp(0, steepness * x) / steepness
    return result


def _gelu(x: Floats) -> Floats:
    halves = np.array([math.erfc(-item / math.sqrt(2)) / 2 for item in x.ravel()], np.float64)
    result: Floats = x * halves.reshape(x.shape)
    return result


_FUNCTIONS: dict[str, Callable[..., Floats]] = {
    "SIGMOID": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
    "TANH": np.tanh,
    "RELU": lambda x: np.maximum(x, 0),
    "IDENTITY": lambda x: x,
    "CELU": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "ELU": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "GELU": _gelu,
    "HARD_SIGMOID": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "LEAKY_RELU": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "LINEAR": lambda x, alpha, beta: alpha * x + beta,
    "PARAMETRIC_SOFTPLUS": lambda x, alpha, beta: alpha * _softplus(x * beta, 1.0),
    "SCALED_ELU": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "SCALED_TANH": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "SHRINK": lambda x, bias, threshold: np.where(x < -threshold, x + bias, np.where(x > threshold, x - bias, 0)),
    "SOFTPLUS": _softplus,
    "SOFTSIGN": lambda x: x / (1 + np.abs(x)),
    "THRESHOLDED_RELU": lambda x, alpha: np.where(x > alpha, x, 0),
}


@dataclasses.dataclass(frozen=True)
class _Layer:
    """What a direction of an operator is made of."""

    half: bool
    clip: float | None
    is_linear_before_reset: bool
    is_coupled: bool
    weights: Floats
    recurrence: Floats
    biases: Floats
    peepholes: Floats
    activations: tuple[dml.FusedActivation, ...]
    units: int

    def of_gate(self, matrix: Floats, gate: int) -> Floats:
        return matrix[gate * self.units : (gate + 1) * self.units]

    def input_bias(self, gate: int) -> _Number:
        return _exact(self.of_gate(self.biases, gate))

    def state_bias(self, gate: int) -> _Number:
        return _exact(self.of_gate(self.biases, gate + len(self.biases) // self.units // 2))

    def products(self, gate: int, x: _Number, state: _Number) -> _Number:
        """The argument of a gate but for peepholes."""
        of_input = _product(self.of_gate(self.weights, gate), x)
        of_state = _product(self.of_gate(self.recurrence, gate), state)
        return of_input + of_state + (self.input_bias(gate) + self.state_bias(gate))

    def activated(self, number: int, x: _Number) -> _Number:
        """An activation, tried within its argument's interval."""
        x = x.rounded(True) if self.half else x
        if self.clip is not None:
            bound = float(np.float16(self.clip)) if self.half else self.clip
            x = _Number(np.clip(x.value, -bound, bound), x.error)
        fused = self.activations[number]
        function = _FUNCTIONS[fused.operator_name.removeprefix("ACTIVATION_")]
        attributes = [float(value) for _, value in fused.attributes]
        if self.half:
            attributes = [
                float(np.float16(value)) if field.converted_to else value
                for (field, _), value in zip(fused.attributes, attributes, strict=True)
            ]
        value = function(x.value, *attributes)
        around = np.stack([function(x.value + part * x.error, *attributes) for part in _TRIED])
        # Between the places that are tried a smooth function does not get much farther.
        error = np.abs(around - value).max(axis=0) * 1.05
        # An activation is within two units in the last place of float32, and FLOAT16 ones are rounded from that.
        result = _Number(value, error + (np.abs(value) + error) * 2.0**-21 + _TINY)
        return result.rounded(True) if self.half else result


def _rnn_step(layer: _Layer, x: _Number, state: _Number, cell: _Number) -> tuple[_Number, _Number]:
    return layer.activated(0, layer.products(0, x, state)), cell


def _gru_step(layer: _Layer, x: _Number, state: _Number, cell: _Number) -> tuple[_Number, _Number]:
    update = layer.activated(0, layer.products(0, x, state))
    reset = layer.activated(0, layer.products(1, x, state))
    of_input = _product(layer.of_gate(layer.weights, 2), x)
    recurrence = layer.of_gate(layer.recurrence, 2)
    if layer.is_linear_before_reset:
        argument = of_input + reset * (_product(recurrence, state) + layer.state_bias(2)) + layer.input_bias(2)
    else:
        of_state = _product(recurrence, (reset * state).rounded(layer.half))
        argument = of_input + of_state + (layer.input_bias(2) + layer.state_bias(2))
    fresh = layer.activated(1, argument)
    rest = (_exact(1.0) + _Number(-update.value, update.error)) * fresh
    return (rest + update * state).rounded(layer.half), cell


def _lstm_step(layer: _Layer, x: _Number, state: _Number, cell: _Number) -> tuple[_Number, _Number]:
    peepholes = [_exact(layer.of_gate(layer.peepholes, number)) for number in range(3)]
    entry = layer.activated(0, layer.products(0, x, state) + peepholes[0] * cell)
    if layer.is_coupled:
        forget = _exact(1.0) + _Number(-entry.value, entry.error)
    else:
        forget = layer.activated(0, layer.products(2, x, state) + peepholes[2] * cell)
    fresh = layer.activated(1, layer.products(3, x, state))
    cell = (forget * cell + entry * fresh).rounded(layer.half)
    output = layer.activated(0, layer.products(1, x, state) + peepholes[1] * cell)
    return (output * layer.activated(2, cell)).rounded(layer.half), cell


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _layer(desc: Recurrent, inputs: Mapping[str, Array], direction: int, directions: int) -> _Layer:
    rows, units = desc.recurrence_tensor.sizes[2:]
    each = len(desc.activation_descs) // directions

    def given(name: str, absent: Floats) -> Floats:
        return inputs[name][0, 0, direction].astype(np.float64) if name in inputs else absent

    return _Layer(
        half=desc.output_type is dml.FLOAT16,
        clip=desc.clip_threshold if isinstance(desc, dml.Lstm) and desc.use_clip_threshold else None,
        is_linear_before_reset=isinstance(desc, dml.Gru) and desc.linear_before_reset,
        is_coupled=isinstance(desc, dml.Lstm) and desc.couple_input_forget,
        weights=inputs["WeightTensor"][0, direction].astype(np.float64),
        recurrence=inputs["RecurrenceTensor"][0, direction].astype(np.float64),
        biases=given("BiasTensor", np.zeros(2 * rows)),
        peepholes=given("PeepholeTensor", np.zeros(3 * units)),
        activations=tuple(desc.activation_descs[direction * each : (direction + 1) * each]),
        units=units,
    )


def _recurrent(desc: Recurrent, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    directions = desc.weight_tensor.sizes[1]
    _, steps, batch, _ = desc.input_tensor.sizes
    units = desc.recurrence_tensor.sizes[3]
    sequence = np.zeros((2, steps, directions, batch, units))
    single = np.zeros((2, 1, directions, batch, units))
    cells = np.zeros((2, 1, directions, batch, units))
    source = inputs["InputTensor"].astype(np.float64)
    initial = np.zeros((1, directions, batch, units))
    for direction in range(directions):
        layer = _layer(desc, inputs, direction, directions)
        backward = direction == 1 or desc.direction is dml.RecurrentNetworkDirection.BACKWARD
        for number in range(batch):
            length = steps
            if "SequenceLengthsTensor" in inputs:
                length = min(steps, int(inputs["SequenceLengthsTensor"][0, 0, 0, number]))
            state = _exact(inputs.get("HiddenInitTensor", initial)[0, direction, number])
            cell = _exact(inputs.get("CellMemInitTensor", initial)[0, direction, number])
            for time in reversed(range(length)) if backward else range(length):
                state, cell = _STEPS[desc.operator_name](layer, _exact(source[0, time, number]), state, cell)
                sequence[:, time, direction, number] = state.value, state.error
            single[:, 0, direction, number] = state.value, state.error
            cells[:, 0, direction, number] = cell.value, cell.error
    made = {"OutputSequenceTensor": sequence, "OutputSingleTensor": single, "OutputCellSingleTensor": cells}
    given = {field.name for field, tensor in desc.outputs if tensor is not None}
    return {name: Bounded(values, bound) for name, (values, bound) in made.items() if name in given}


@reference("RNN")
def rnn(desc: dml.Rnn, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The states of one gate."""
    return _recurrent(desc, inputs)


@reference("GRU")
def gru(desc: dml.Gru, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The states of gated units."""
    return _recurrent(desc, inputs)


@reference("LSTM")
def lstm(desc: dml.Lstm, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The states of units with cells."""
    return _recurrent(desc, inputs)
