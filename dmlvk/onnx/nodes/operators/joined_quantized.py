"""Joined nodes of integers: what stands between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.operators.convolution import channel_bias, convolved
from dmlvk.onnx.nodes.operators.matrix import matmul, product
from dmlvk.onnx.nodes.translation import Node, translates
from dmlvk.onnx.nodes.values import DATA_TYPES, Array, NotOnDevice, Tensor
from dmlvk.operators import RoundingMode

_BYTES = (TensorProto.INT8, TensorProto.UINT8)
_BIAS, _FIRST, _SECOND, _RESULT = 2, 3, 5, 7
"""Where the bias and the parameters of both factors and of the result stand among the inputs."""

_BY = ("ELEMENT_WISE_DEQUANTIZE_LINEAR", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_CLIP1", "ELEMENT_WISE_ROUND", "CAST")


def _parameter(node: Node, index: int) -> Array:
    """A scale or a zero point, which joining has seen to be known."""
    found = node.known(index)
    assert found is not None
    return found.reshape(-1)


def _integers(node: Node, index: int, parameters: int) -> Tensor:
    """Integers less their zero point, as FLOAT32.

    Products of two bytes and sums of them are whole numbers; below 2^24 FLOAT32 has them all, and no order of a sum
    rounds anything.
    """
    node.check_element(index, *_BYTES)
    tensor, zero = node.tensor(index), _parameter(node, parameters + 1)
    if not zero.any():
        return node.cast(tensor, TensorProto.FLOAT)
    if (zero != zero[0]).any():
        raise NotOnDevice("zero points of single channels")
    return node.apply(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        input_tensor=tensor,
        scale_tensor=node.scalar(1.0, TensorProto.FLOAT),
        zero_point_tensor=node.scalar(int(zero[0]), tensor.element),
    )


def _finish(node: Node, sums: Tensor, axis: int) -> None:
    """Sums of integers as the result's integers, or as numbers where nothing rounds them.

    As ONNX Runtime has it: factors of FLOAT32, bounds before the rounding, and the zero point behind it.

    Args:
        axis: along which the second factor's scales lie, counted from the end.
    """
    factor: Array = _parameter(node, _FIRST) * _parameter(node, _SECOND)
    is_rounded = node.has(_RESULT)
    if is_rounded:
        factor = factor / _parameter(node, _RESULT)
    scale = node.assembly.constant(factor, TensorProto.FLOAT)
    scale = scale.viewed((factor.size, *[1] * (-axis - 1)) if factor.size > 1 else ())
    scaled = sums * scale
    if not is_rounded:
        node.set(scaled)
        return
    zero = _parameter(node, _RESULT + 1)
    element = next(kind for kind in _BYTES if DATA_TYPES[kind].numpy_dtype == zero.dtype)
    low, high = (float(bound) - float(zero[0]) for bound in (np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max))
    kind = sums.data_type
    bounded = node.apply("ELEMENT_WISE_CLIP1", input_tensor=scaled, min_max_data_type=kind, min=low, max=high)
    whole = node.apply("ELEMENT_WISE_ROUND", input_tensor=bounded, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)
    if zero[0]:
        moved = node.scalar(float(zero[0]), TensorProto.FLOAT).viewed(())
        whole = whole + moved
    node.set(node.cast(whole, element))


@translates("Conv", by=["CONVOLUTION", *_BY], domain=JOINED, batch=batches.each_picture)
def convolution(node: Node) -> None:
    tensor, weights = _integers(node, 0, _FIRST), _integers(node, 1, _SECOND)
    bias = channel_bias(node, _BIAS, weights.shape[0])
    sums = convolved(node, tensor, weights, None if bias is None else node.cast(bias, TensorProto.FLOAT))
    _finish(node, sums, 1 - sums.rank)


@translates("MatMul", by=["GEMM", *_BY], domain=JOINED, batch=batches.product)
def matrix_product(node: Node) -> None:
    _finish(node, matmul(node, _integers(node, 0, _FIRST), _integers(node, 1, _SECOND)), -1)


@translates("Gemm", by=["GEMM", *_BY], domain=JOINED, batch=batches.product)
def gemm(node: Node) -> None:
    """Of integers, with a bias of integers."""
    a, b = _integers(node, 0, _FIRST), _integers(node, 1, _SECOND)
    transposed = bool(node.integer("transA")), bool(node.integer("transB"))
    if a.rank != 2 or b.rank != 2:
        raise NotOnDevice(f"matrices; got {a.rank} and {b.rank} dimensions")
    c, beta = None, 0.0
    if node.has(_BIAS):
        shape = a.shape[1 if transposed[0] else 0], b.shape[0 if transposed[1] else 1]
        c, beta = node.cast(node.tensor(_BIAS), TensorProto.FLOAT).broadcast(shape), 1.0
    _finish(node, product(node, a, b, c=c, transposed=transposed, beta=beta), -1)
