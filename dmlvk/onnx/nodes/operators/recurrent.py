"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.recurrent_steps import clipped_network, quantized_lstm
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import OPERATORS, FusedActivation, RecurrentNetworkDirection

_DIRECTIONS = {
    "forward": RecurrentNetworkDirection.FORWARD,
    "reverse": RecurrentNetworkDirection.BACKWARD,
    "bidirectional": RecurrentNetworkDirection.BIDIRECTIONAL,
}

_WAYS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Of each direction whether the last step comes first."""

_ACTIVATIONS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "affine": ("LINEAR", (("alpha", 1.0), ("beta", 0.0))),
    "elu": ("ELU", (("alpha", 1.0),)),
    "hardsigmoid": ("HARD_SIGMOID", (("alpha", 0.2), ("beta", 0.5))),
    "leakyrelu": ("LEAKY_RELU", (("alpha", 0.01),)),
    "relu": ("RELU", ()),
    "scaledtanh": ("SCALED_TANH", (("alpha", 1.0), ("beta", 1.0))),
    "sigmoid": ("SIGMOID", ()),
    "softplus": ("SOFTPLUS", ()),
    "softsign": ("SOFTSIGN", ()),
    "tanh": ("TANH", ()),
    "thresholdedrelu": ("THRESHOLDED_RELU", (("alpha", 1.0),)),
}
"""By ONNX's name in small letters: DirectML's, and the members that activation_alpha and activation_beta give."""

_USUAL = {
    "RNN": ("tanh",),
    "GRU": ("sigmoid", "tanh"),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), ("sigmoid", "tanh", "tanh")),
}


def _activations(node: Node, directions: int) -> list[FusedActivation]:
    """As ONNX has them: each takes the next of activation_alpha and activation_beta where it has such an attribute."""
    usual = _USUAL[node.op_type]
    named = [name.lower() for name in node.texts("activations")] or list(usual * directions)
    is_default = not any(attribute.name == "activations" for attribute in node.proto.attribute)
    if is_default:  # ONNX lists them for both directions
        named = list(usual * directions)
    if len(named) != len(usual) * directions:
        raise NotOnDevice(f"{len(named)} activations for {directions} directions of {len(usual)} each")
    numbers = {name: iter(node.reals(f"activation_{name}")) for name in ("alpha", "beta")}
    return [_activation(name, numbers) for name in named]


def _activation(name: str, numbers: dict[str, Iterator[float]]) -> FusedActivation:
    if name not in _ACTIVATIONS:
        raise NotOnDevice(f"there is no activation {name!r}")
    directml, members = _ACTIVATIONS[name]
    values = {member: float(next(numbers[member], default)) for member, default in members}
    if name == "softplus":
        values["steepness"] = 1.0
    return FusedActivation(OPERATORS[f"ACTIVATION_{directml}"], **values)


def recurrent(node: Node) -> None:
    """All steps in one operator; layout 1 is the same with batch and steps exchanged."""
    node.check_element(0, *FLOATS)
    name = node.op_type
    is_batch_first = bool(node.integer("layout"))
    direction = node.text("direction", "forward").lower()
    if direction not in _DIRECTIONS:
        raise NotOnDevice(f"there is no direction {direction!r}")
    source, recurrence = node.tensor(0), node.tensor(2)
    if source.rank != 3 or recurrence.rank != 3:
        raise NotOnDevice(f"X and R must have three dimensions; got {source.rank} and {recurrence.rank}")
    source = source.transposed([1, 0, 2]) if is_batch_first else source
    directions, _, units = recurrence.shape
    if directions != len(_WAYS[direction]):
        raise NotOnDevice(f"{directions} directions of {direction!r}")
    if node.integer("hidden_size", units) != units:
        raise NotOnDevice(f"hidden_size is {node.integer('hidden_size')}; R has {units} units")
    if node.real("clip"):
        ways = _WAYS[direction]
        clipped_network(node, _activations(node, directions), source, ways, is_batch_first=is_batch_first)
        return
    steps, batch, _ = source.shape
    state = (1, directions, batch, units)
    members: dict[str, Any] = {
        "input_tensor": source.with_axis(0),
        "weight_tensor": node.tensor(1).with_axis(0),
        "recurrence_tensor": recurrence.with_axis(0),
        "bias_tensor": _rows(node, 3),
        "sequence_lengths_tensor": _lengths(node),
        "hidden_init_tensor": _state(node, 5, is_batch_first),
        "activation_descs": _activations(node, directions),
        "direction": _DIRECTIONS[direction],
    }
    members["activation_desc_count"] = len(members["activation_descs"])
    _add_own_members(node, name, is_batch_first, members)
    outputs = {"output_sequence_tensor": (steps, directions, batch, units), "output_single_tensor": state}
    if name == "LSTM":
        outputs["output_cell_single_tensor"] = state
    wanted = [index for index in range(len(outputs)) if node.wants(index)] or [1]
    for index, (member, sizes) in enumerate(outputs.items()):
        members[member] = New(source.element, sizes) if index in wanted else None
    for index, made in zip(wanted, node.apply_all(name, **members), strict=True):
        node.set(_output(made, index, is_batch_first), index)


for _name in ("RNN", "GRU", "LSTM"):
    translates(
        _name,
        by=[_name],
        since=7,
        note="with clip: step by step, at most 256 steps of all directions together",
        empty=emptiness.without_steps,
    )(recurrent)


def _add_own_members(node: Node, name: str, is_batch_first: bool, members: dict[str, Any]) -> None:
    if name == "GRU":
        members["linear_before_reset"] = bool(node.integer("linear_before_reset"))
    if name == "LSTM":
        members |= {
            "cell_mem_init_tensor": _state(node, 6, is_batch_first),
            "peephole_tensor": _rows(node, 7),
            "clip_threshold": 0.0,
            "use_clip_threshold": False,
            "couple_input_forget": bool(node.integer("input_forget")),
        }


@translates(
    "DynamicQuantizeLSTM",
    by=["REDUCE", "ELEMENT_WISE_DIVIDE", "ELEMENT_WISE_ROUND", "CAST", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"],
    domain=MICROSOFT,
    note="step by step, at most 256 steps of all directions together",
)
def quantized_recurrent(node: Node) -> None:
    """An LSTM of integer weights, whose inputs and states become integers, too."""
    node.check_element(0, TensorProto.FLOAT)
    direction = node.text("direction", "forward").lower()
    if direction not in _WAYS or node.tensor(0).rank != 3 or node.tensor(2).rank != 3:
        raise NotOnDevice(f"a direction {direction!r}, or X and R that do not have three dimensions")
    ways = _WAYS[direction]
    quantized_lstm(node, _activations(node, len(ways)), ways)


def _rows(node: Node, index: int) -> Tensor | None:
    """Biases or peepholes, one row for each direction."""
    return node.tensor(index).with_axis(0).with_axis(0) if node.has(index) else None


def _lengths(node: Node) -> Tensor | None:
    if not node.has(4):
        return None
    return node.cast(node.tensor(4), TensorProto.UINT32).with_axis(0).with_axis(0).with_axis(0)


def _state(node: Node, index: int, is_batch_first: bool) -> Tensor | None:
    """An initial state: directions, batch and units, or batch first."""
    if not node.has(index):
        return None
    tensor = node.tensor(index)
    return (tensor.transposed([1, 0, 2]) if is_batch_first else tensor).with_axis(0)


def _output(made: Tensor, index: int, is_batch_first: bool) -> Tensor:
    if index == 0:
        return made.transposed([2, 0, 1, 3]) if is_batch_first else made
    last = made.without_axes([0])
    return last.transposed([1, 0, 2]) if is_batch_first else last
