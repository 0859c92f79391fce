"""ONNX Runtime's operators that are one of ONNX's with an activation, other places of axes, or other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.nodes.operators.activation import ACTIVATIONS, activated
from dmlvk.onnx.nodes.operators.convolution import channel_bias, channels_first, channels_last, convolved, transposed
from dmlvk.onnx.nodes.operators.elementwise import with_nan
from dmlvk.onnx.nodes.operators.matrix import factors, matmul, product
from dmlvk.onnx.nodes.operators.pooling import pool_window, pooled, pooled_sizes
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_LOWEST: Mapping[int, float] = {TensorProto.FLOAT: -3.4028234663852886e38, TensorProto.FLOAT16: -65504.0}


def _activated(node: Node, tensor: Tensor, numbers: Sequence[float] | Mapping[str, float]) -> Tensor:
    """A tensor behind the activation that the node names.

    Args:
        tensor: what it is applied to.
        numbers: its attributes, in order or by name; those that are absent have ONNX's defaults.
    """
    name = node.text("activation")
    if not name:
        return tensor
    if name in ("Softmax", "LogSoftmax", "Hardmax"):
        operator = {"Softmax": "SOFTMAX1", "LogSoftmax": "LOG_SOFTMAX1", "Hardmax": "HARDMAX1"}[name]
        axes = [node.axis(node.integer("activation_axis", -1), tensor.rank)]
        return node.apply(f"ACTIVATION_{operator}", input_tensor=tensor, axes=axes)
    attribute = _by_name(numbers)
    if name == "Clip":
        lowest = _LOWEST.get(tensor.element, 0.0)
        low, high = attribute("min", lowest), attribute("max", -lowest)
        kind = tensor.data_type
        made = node.apply("ELEMENT_WISE_CLIP1", input_tensor=tensor, min_max_data_type=kind, min=low, max=high)
        return with_nan(node, made, tensor)
    if name == "Tanh":
        return node.apply("ELEMENT_WISE_TANH", input_tensor=tensor)
    if name not in ACTIVATIONS:
        raise NotOnDevice(f"there is no activation {name!r}")
    return activated(name, node, tensor, attribute)


def _by_name(numbers: Sequence[float] | Mapping[str, float]) -> Callable[[str, float], float]:
    """What an attribute is, by its name and its default; of numbers in order each is the next one."""
    if isinstance(numbers, Mapping):
        return lambda name, default: numbers.get(name, default)
    ordered = iter(numbers)
    return lambda _, default: float(next(ordered, default))


def _named_numbers(node: Node) -> dict[str, float]:
    """The activation's attributes of products."""
    names = ("alpha", "beta", "gamma")
    return {name: node.real(f"activation_{name}") for name in names if node.is_given(f"activation_{name}")}


@translates("FusedConv", by=["CONVOLUTION"], domain=MICROSOFT)
def fused_convolution(node: Node) -> None:
    """A convolution, what is added to it, and an activation."""
    weights = node.tensor(1)
    made = convolved(node, node.tensor(0), weights, channel_bias(node, 2, weights.shape[0]))
    if node.has(3):
        made = made + node.tensor(3)
    node.set(_activated(node, made, node.reals("activation_params")))


@translates("NhwcConv", by=["CONVOLUTION"], domain=MICROSOFT)
@translates("NhwcFusedConv", by=["CONVOLUTION"], domain=MICROSOFT)
def convolution_ofchannels_last(node: Node) -> None:
    """Channels come last in the input and the output, as in none of the weights."""
    tensor, weights = channels_first(node.tensor(0)), node.tensor(1)
    made = channels_last(convolved(node, tensor, weights, channel_bias(node, 2, weights.shape[0])))
    if node.has(3):
        made = made + node.tensor(3)
    node.set(_activated(node, made, node.reals("activation_params")))


@translates("ConvTransposeWithDynamicPads", by=["CONVOLUTION"], domain=MICROSOFT)
def transposed_convolution_with_pads(node: Node) -> None:
    """The padding is an input, which is known."""
    transposed(node, node.integers(2) if node.has(2) else None, bias=3)


@translates("NhwcMaxPool", by=["MAX_POOLING2"], domain=MICROSOFT)
def max_pool_ofchannels_last(node: Node) -> None:
    """Channels come last in the input and the output."""
    tensor = channels_first(node.tensor(0))
    output = (*tensor.shape[:2], *pooled_sizes(node, tensor.shape[2:]))
    window = pool_window(node, tensor, output)
    node.set(channels_last(pooled(node, "MAX_POOLING2", tensor, window, output_indices_tensor=None)))


@translates("FusedGemm", by=["GEMM"], domain=MICROSOFT)
def fused_gemm(node: Node) -> None:
    """Alpha A B + beta C, where C broadcasts, and an activation."""
    node.check_element(0, *FLOATS)
    a, b = node.tensor(0), node.tensor(1)
    transforms = (bool(node.integer("transA")), bool(node.integer("transB")))
    if a.rank != 2 or b.rank != 2:
        raise NotOnDevice(f"two matrices; got {list(a.shape)} and {list(b.shape)}")
    shape = (a.shape[1 if transforms[0] else 0], b.shape[0 if transforms[1] else 1])
    c = node.tensor(2).broadcast(shape) if node.has(2) else None
    numbers: dict[str, Any] = {"alpha": node.real("alpha", 1.0), "beta": node.real("beta", 1.0) if node.has(2) else 0.0}
    node.set(_activated(node, product(node, a, b, c=c, transposed=transforms, **numbers), _named_numbers(node)))


@translates("FusedMatMulActivation", by=["GEMM"], domain=MICROSOFT)
def fused_product(node: Node) -> None:
    node.check_element(0, *FLOATS)
    a, b = factors(node)
    node.set(_activated(node, matmul(node, a, b, alpha=node.real("alpha", 1.0)), _named_numbers(node)))
