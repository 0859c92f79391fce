"""Activations, and those of them that other operators take in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.operators.elementwise import with_equal_zeros, with_nan
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import OPERATORS, FusedActivation

ACTIVATIONS: dict[str, tuple[str, dict[str, tuple[str, float] | float]]] = {
    "Celu": ("CELU", {"alpha": ("alpha", 1.0)}),
    "Elu": ("ELU", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": ("HARD_SIGMOID", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "LeakyRelu": ("LEAKY_RELU", {"alpha": ("alpha", 0.01)}),
    "ParametricSoftplus": ("PARAMETRIC_SOFTPLUS", {"alpha": ("alpha", 1.0), "beta": ("beta", 1.0)}),
    "Relu": ("RELU", {}),
    "ScaledTanh": ("SCALED_TANH", {"alpha": ("alpha", 1.0), "beta": ("beta", 1.0)}),
    "Selu": (
        "SCALED_ELU",
        {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)},
    ),
    "Sigmoid": ("SIGMOID", {}),
    "Softplus": ("SOFTPLUS", {"steepness": 1.0}),
    "Softsign": ("SOFTSIGN", {}),
    "Shrink": ("SHRINK", {"bias": ("bias", 0.0), "threshold": ("lambd", 0.5)}),
    "ThresholdedRelu": ("THRESHOLDED_RELU", {"alpha": ("alpha", 1.0)}),
}
"""DirectML's name, and its members: with ONNX's attributes and their defaults, or always the same."""

_FUSED = ("Relu", "Sigmoid", "Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "ThresholdedRelu", "Softplus")
"""Those that may become part of the operator before them."""


def fused_activation_of(proto: onnx.NodeProto) -> FusedActivation | None:
    """A node as an activation that the operator before it computes, where it is one."""
    if proto.domain or proto.op_type not in _FUSED:
        return None
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    name, values = _members(proto.op_type, lambda attribute, default: float(given.get(attribute, default)))
    return FusedActivation(OPERATORS[name], **values)


def _members(op_type: str, attribute: Callable[[str, float], float]) -> tuple[str, dict[str, Any]]:
    name, members = ACTIVATIONS[op_type]
    return f"ACTIVATION_{name}", {
        member: attribute(*source) if isinstance(source, tuple) else source for member, source in members.items()
    }


def activated(op_type: str, node: Node, tensor: Tensor, attribute: Callable[[str, float], float]) -> Tensor:
    """A tensor behind one of the activations of the table.

    Args:
        attribute: what one of ONNX's attributes is, by its name and its default.
    """
    operator, members = _members(op_type, attribute)
    made = node.apply(operator, input_tensor=tensor, **members)
    return with_nan(node, made, tensor) if op_type == "Relu" else made


def _activation(node: Node) -> None:
    node.set(activated(node.op_type, node, node.tensor(0), node.real))


for _op_type, (_operator, _) in ACTIVATIONS.items():
    translates(_op_type, by=[f"ACTIVATION_{_operator}"], batch=batches.elementwise)(_activation)


@translates("Mish", by=["ACTIVATION_SOFTPLUS", "ELEMENT_WISE_TANH", "ELEMENT_WISE_MULTIPLY"], batch=batches.elementwise)
def mish(node: Node) -> None:
    """X * tanh(softplus(x))."""
    tensor = node.tensor(0)
    ramp = node.apply("ACTIVATION_SOFTPLUS", input_tensor=tensor, steepness=1.0)
    node.set(tensor * node.apply("ELEMENT_WISE_TANH", input_tensor=ramp))


@translates("HardSwish", by=["ACTIVATION_HARD_SWISH"], batch=batches.elementwise)
def hard_swish(node: Node) -> None:
    """X * max(0, min(1, x / 6 + 1 / 2))."""
    node.set(node.apply("ACTIVATION_HARD_SWISH", input_tensor=node.tensor(0), alpha=1 / 6, beta=0.5))


@translates("Swish", by=["ACTIVATION_SWISH"], batch=batches.elementwise)
@translates("QuickGelu", by=["ACTIVATION_SWISH"], domain=MICROSOFT)
def swish(node: Node) -> None:
    """X * sigmoid(alpha * x)."""
    default = 1.702 if node.op_type == "QuickGelu" else 1.0
    alpha = node.real("alpha", default)
    node.set(node.apply("ACTIVATION_SWISH", input_tensor=node.tensor(0), sigmoid_input_scale=alpha))


@translates("Gelu", by=["ACTIVATION_GELU"], batch=batches.elementwise)
@translates("Gelu", by=["ACTIVATION_GELU"], domain=MICROSOFT)
def gelu(node: Node) -> None:
    """By the error function, or by its approximation with tanh."""
    node.check_element(0, *FLOATS)
    if node.text("approximate", "none") == "tanh":
        node.set(gelu_by_tanh(node, node.tensor(0)))
    else:
        node.set(node.apply("ACTIVATION_GELU", input_tensor=node.tensor(0)))


@translates("FastGelu", by=["ELEMENT_WISE_TANH"], domain=MICROSOFT)
def fast_gelu(node: Node) -> None:
    """The approximation with tanh, of the sum with a bias."""
    node.check_element(0, *FLOATS)
    tensor = node.tensor(0)
    if node.has(1):
        tensor = tensor + node.tensor(1)
    node.set(gelu_by_tanh(node, tensor))


@translates("BiasGelu", by=["ELEMENT_WISE_ADD", "ACTIVATION_GELU"], domain=MICROSOFT)
def bias_gelu(node: Node) -> None:
    node.set(node.apply("ACTIVATION_GELU", input_tensor=node.tensor(0) + node.tensor(1)))


def gelu_by_tanh(node: Node, x: Tensor) -> Tensor:
    """X / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) in FLOAT32, as the sum with 1 may cancel."""
    element, x = x.element, node.cast(x, TensorProto.FLOAT)

    inner = x + x * x * x * 0.044715
    bent = node.apply("ELEMENT_WISE_TANH", input_tensor=inner * 0.7978845608028654)
    return node.cast(x * 0.5 * (bent + 1.0), element)


@translates("PRelu", by=["ACTIVATION_PARAMETERIZED_RELU"], batch=batches.elementwise)
def parametric_relu(node: Node) -> None:
    """The slope broadcasts to the input."""
    tensor, slope = node.tensor(0), node.tensor(1)
    node.set(
        node.apply("ACTIVATION_PARAMETERIZED_RELU", input_tensor=tensor, slope_tensor=slope.broadcast(tensor.shape))
    )


def _along_axes(operator: str, node: Node) -> None:
    tensor = node.tensor(0)
    if tensor.rank == 0:
        raise NotOnDevice("a scalar has no axis")
    if operator == "ACTIVATION_HARDMAX1":
        tensor = with_equal_zeros(node, tensor)
    if node.version >= 13:
        axes = [node.axis(node.integer("axis", -1), tensor.rank)]
        node.set(node.apply(operator, input_tensor=tensor, axes=axes))
        return
    first = node.integer("axis", 1)
    first = first if first == tensor.rank else node.axis(first, tensor.rank)
    axes = list(range(first, tensor.rank))
    if not axes:  # all that is left are rows of one element
        tensor, axes = tensor.with_axis(tensor.rank), [tensor.rank]
    made = node.apply(operator, input_tensor=tensor, axes=axes)
    node.set(made.viewed(node.shape(0)))


for _op_type, _operator in {"Softmax": "SOFTMAX1", "LogSoftmax": "LOG_SOFTMAX1", "Hardmax": "HARDMAX1"}.items():
    _name = f"ACTIVATION_{_operator}"
    _made = functools.partial(_along_axes, _name)
    translates(_op_type, by=[_name], batch=batches.along_an_axis(-1))(_made)
