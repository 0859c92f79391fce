"""Samples of RNN, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]

_FORWARD = dml.RecurrentNetworkDirection.FORWARD
_BACKWARD = dml.RecurrentNetworkDirection.BACKWARD
_BOTH = dml.RecurrentNetworkDirection.BIDIRECTIONAL

ACTIVATIONS = {
    "SIGMOID": dml.FusedActivation(dml.ActivationSigmoid),
    "TANH": dml.FusedActivation(dml.ActivationTanh),
    "RELU": dml.FusedActivation(dml.ActivationRelu),
    "IDENTITY": dml.FusedActivation(dml.ActivationIdentity),
    "CELU": dml.FusedActivation(dml.ActivationCelu, alpha=0.75),
    "ELU": dml.FusedActivation(dml.ActivationElu, alpha=1.0),
    "GELU": dml.FusedActivation(dml.ActivationGelu),
    "HARD_SIGMOID": dml.FusedActivation(dml.ActivationHardSigmoid, alpha=0.25, beta=0.5),
    "LEAKY_RELU": dml.FusedActivation(dml.ActivationLeakyRelu, alpha=0.125),
    "LINEAR": dml.FusedActivation(dml.ActivationLinear, alpha=0.5, beta=0.25),
    "PARAMETRIC_SOFTPLUS": dml.FusedActivation(dml.ActivationParametricSoftplus, alpha=0.5, beta=1.5),
    "SCALED_ELU": dml.FusedActivation(dml.ActivationScaledElu, alpha=1.5, gamma=0.5),
    "SCALED_TANH": dml.FusedActivation(dml.ActivationScaledTanh, alpha=1.25, beta=0.75),
    "SHRINK": dml.FusedActivation(dml.ActivationShrink, bias=0.0, threshold=0.0),
    "SOFTPLUS": dml.FusedActivation(dml.ActivationSoftplus, steepness=2.0),
    "SOFTSIGN": dml.FusedActivation(dml.ActivationSoftsign),
    "THRESHOLDED_RELU": dml.FusedActivation(dml.ActivationThresholdedRelu, alpha=0.0),
}
"""Every activation, with attributes that keep states small and functions without leaps."""

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = {"RNN": ("TANH",), "GRU": ("SIGMOID", "TANH"), "LSTM": ("SIGMOID", "TANH", "TANH")}

# steps, sequences, inputs, units, direction; and what else there is
_SAMPLES: dict[str, tuple[int, int, int, int, dml.RecurrentNetworkDirection, dict[str, Any]]] = {
    "one number": (1, 1, 1, 1, _FORWARD, {"bias": False}),
    "forward": (4, 3, 5, 6, _FORWARD, {"initial": True}),
    "backward, odd units": (3, 2, 4, 5, _BACKWARD, {"only": "output_sequence_tensor"}),
    "both ways, lengths": (5, 4, 3, 7, _BOTH, {"lengths": (3, 0, 5, 9), "initial": True}),
    "backward, lengths": (4, 3, 6, 8, _BACKWARD, {"lengths": (4, 1, 2), "only": "output_single_tensor"}),
    "several segments": (2, 2, 1100, 3, _FORWARD, {}),
    "many units": (2, 3, 8, 1030, _FORWARD, {"bias": False}),
}

_OF_OPERATOR: dict[str, dict[str, dict[str, Any]]] = {
    "RNN": {},
    "GRU": {"linear before reset": {"linear_before_reset": True}},
    "LSTM": {
        "peepholes": {"peepholes": True},
        "coupled gates": {"couple_input_forget": True, "peepholes": True},
        "clipped": {"use_clip_threshold": True, "clip_threshold": 0.3},
    },
}
"""By operator: members that are tried on a small network of both directions."""


def recurrent_desc(
    name: str,
    data_type: DataType,
    sizes: tuple[int, int, int, int],
    direction: dml.RecurrentNetworkDirection = _FORWARD,
    activations: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """A description whose tensors have the sizes that follow.

    Args:
        name: ``"RNN"``, ``"GRU"`` or ``"LSTM"``.
        data_type: of all tensors but the lengths.
        sizes: steps, sequences, inputs and units.
        activations: their names, for all directions; without them the usual ones.
        more: ``bias``, ``initial``, ``peepholes`` (whether there are such tensors), ``lengths``, ``only`` (the output
            that is asked for; else all), and members of the operator.
    """
    steps, batch, inputs, units = sizes
    directions = 2 if direction is _BOTH else 1
    rows = _GATES[name] * units
    chosen = {"bias": True, "initial": False, "peepholes": False, "lengths": None, "only": None, **more}

    def tensor(*sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(data_type, sizes)

    state = tensor(1, directions, batch, units)
    descs = [ACTIVATIONS[item] for item in activations or _USUAL[name] * directions]
    outputs = {"output_sequence_tensor": tensor(steps, directions, batch, units), "output_single_tensor": state}
    members: dict[str, Any] = {
        "input_tensor": tensor(1, steps, batch, inputs),
        "weight_tensor": tensor(1, directions, rows, inputs),
        "recurrence_tensor": tensor(1, directions, rows, units),
        "bias_tensor": tensor(1, 1, directions, 2 * rows) if chosen.pop("bias") else None,
        "activation_desc_count": len(descs),
        "activation_descs": descs,
        "direction": direction,
    }
    has_initial, has_peepholes = chosen.pop("initial"), chosen.pop("peepholes")
    members["hidden_init_tensor"] = state if has_initial else None
    if chosen.pop("lengths") is not None:
        members["sequence_lengths_tensor"] = dml.TensorDesc(dml.UINT32, (1, 1, 1, batch))
    if name == "LSTM":
        outputs["output_cell_single_tensor"] = state
        members["cell_mem_init_tensor"] = state if has_initial else None
        members["peephole_tensor"] = tensor(1, 1, directions, 3 * units) if has_peepholes else None
        members |= {"clip_threshold": 0.0, "use_clip_threshold": False, "couple_input_forget": False}
    if name == "GRU":
        members["linear_before_reset"] = False
    only = chosen.pop("only")
    members |= {member: output for member, output in outputs.items() if only in (None, member)}
    return getattr(dml, name.capitalize())(**{**members, **chosen})


def recurrent_inputs(desc: dml.OperatorDesc, random: np.random.Generator, lengths: Any = None) -> dict[str, Array]:
    """Numbers for a description: weights so small that states and their errors do not grow."""
    made: dict[str, Array] = {}
    for field, tensor in desc.inputs:
        if tensor is None:
            continue
        if tensor.data_type is dml.UINT32:
            made[field.name] = np.array(lengths, np.uint32).reshape(tensor.sizes)
            continue
        fan = tensor.sizes[-1] if field.attribute in ("weight_tensor", "recurrence_tensor") else 2
        made[field.name] = random.normal(0, 1 / np.sqrt(fan), tensor.sizes).astype(tensor.data_type.numpy_dtype)
    return made


def _samples(name: str, types: Types, random: np.random.Generator) -> Iterator[Sample]:
    data_type = types["input_tensor"]
    for title, (steps, batch, inputs, units, direction, more) in _SAMPLES.items():
        desc = recurrent_desc(name, data_type, (steps, batch, inputs, units), direction, **more)
        yield Sample(title, desc, recurrent_inputs(desc, random, more.get("lengths")))
    for title, more in _OF_OPERATOR[name].items():
        desc = recurrent_desc(name, data_type, (3, 2, 4, 5), _BOTH, initial=True, **more)
        yield Sample(title, desc, recurrent_inputs(desc, random))
    names = list(ACTIVATIONS)
    each = len(_USUAL[name])
    for first in range(0, len(names), 2 * each):
        chosen = tuple((names * 2)[first : first + 2 * each])
        desc = recurrent_desc(name, data_type, (2, 2, 3, 4), _BOTH, chosen)
        yield Sample(f"activations {', '.join(item.lower() for item in chosen)}", desc, recurrent_inputs(desc, random))


@sampler("RNN")
def rnn(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Directions, lengths, sizes, optional tensors and activations."""
    yield from _samples("RNN", types, random)


@sampler("GRU")
def gru(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same, and both ways of resetting."""
    yield from _samples("GRU", types, random)


@sampler("LSTM")
def lstm(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same, peepholes, coupled gates and thresholds."""
    yield from _samples("LSTM", types, random)
