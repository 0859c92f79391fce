"""Quantization, and operators of quantized tensors."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.operators.convolution import filtered, per_channel, window_of
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.translation import MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import DATA_TYPES, NotOnDevice, Tensor, element_name
from dmlvk.onnx.nodes.window_counts import window_counts
from dmlvk.operators import QuantizationType, ReduceFunction, RoundingMode
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT


def _blocks(node: Node, tensor: Tensor) -> Tensor:
    """The tensor with the axis of its blocks as two, of which the second goes through a block; as it is without blocks.

    Raises:
        NotOnDevice: when the last block is not whole, or there are too many axes.
    """
    block = node.integer("block_size")
    if not block:
        return tensor
    axis = node.axis(node.integer("axis", 1), tensor.rank)
    if block < 1 or tensor.shape[axis] % block:
        raise NotOnDevice(f"blocks of {block} along an axis of {tensor.shape[axis]}")
    if tensor.rank == MAXIMUM_DIMENSION_COUNT:
        raise NotOnDevice(f"blocks in a tensor of {tensor.rank} dimensions")
    shape, strides = list(tensor.shape), list(tensor.strides)
    shape[axis : axis + 1] = [tensor.shape[axis] // block, block]
    strides[axis : axis + 1] = [tensor.strides[axis] * block, tensor.strides[axis]]
    return tensor.viewed(shape, strides)


def _parameter(node: Node, index: int, tensor: Tensor) -> Tensor:
    """A scale or a zero point of each element: one for all, for each slice along an axis, or for each block of one."""
    parameter = _unrepeated(node, index, tensor)
    if node.integer("block_size"):
        axis = node.axis(node.integer("axis", 1), tensor.rank)
        return parameter.with_axis(axis + 1).broadcast(_blocks(node, tensor).shape)
    return (parameter if tensor.rank else parameter.viewed(())).broadcast(tensor.shape)


def _is_small(element: int) -> bool:
    """Whether two elements of a type share a byte: the element-wise operators do not have such types."""
    return element in DATA_TYPES and DATA_TYPES[element].size_in_bits < 8


def _by_blocks(node: Node, operator: str, source: Tensor, element: int) -> Tensor:
    """By QUANTIZE or DEQUANTIZE, whose scales and zero points count for blocks by their sizes alone."""
    tensors = [_unrepeated(node, number, source) for number in (1, 2) if node.has(number)]
    return node.apply(
        operator,
        element,
        input_tensor=source,
        quantization_type=QuantizationType.SCALE if len(tensors) == 1 else QuantizationType.SCALE_ZERO_POINT,
        quantization_tensors=tensors,
    )


def _unrepeated(node: Node, index: int, tensor: Tensor) -> Tensor:
    """A scale or a zero point of as many dimensions as the tensor has.

    Raises:
        NotOnDevice: when it does not fit, or the last block is not whole.
    """
    parameter = node.tensor(index)
    block = node.integer("block_size")
    if not block and (parameter.rank == 0 or parameter.shape == (1,)):
        return parameter.viewed((1,) * max(tensor.rank, 1))
    axis = node.axis(node.integer("axis", 1), tensor.rank)
    if block:
        if block < 1 or tensor.shape[axis] % block:
            raise NotOnDevice(f"blocks of {block} along an axis of {tensor.shape[axis]}")
        wanted = (*tensor.shape[:axis], tensor.shape[axis] // block, *tensor.shape[axis + 1 :])
        if parameter.shape != wanted:
            raise NotOnDevice(f"{list(parameter.shape)} is not one for each block, {list(wanted)}")
        return parameter
    if parameter.shape != (tensor.shape[axis],):
        raise NotOnDevice(f"{list(parameter.shape)} does not fit axis {axis} of {list(tensor.shape)}")
    return parameter.viewed(tuple(size if number == axis else 1 for number, size in enumerate(tensor.shape)))


_QUANTIZED_BY = ("ELEMENT_WISE_DIVIDE", "ELEMENT_WISE_ROUND", "CAST", "ELEMENT_WISE_QUANTIZE_LINEAR", "QUANTIZE")


@translates("QuantizeLinear", by=_QUANTIZED_BY)
@translates("QuantizeLinear", by=_QUANTIZED_BY, domain=MICROSOFT)
def quantize(node: Node) -> None:
    """To integers of 8 or 4 bits."""
    tensor = node.tensor(0)
    element = node.element(2) if node.has(2) else node.integer("output_dtype") or TensorProto.UINT8
    if element not in DATA_TYPES:
        raise NotOnDevice(f"the device has no {element_name(element)}")
    blocks = _blocks(node, tensor)
    scale = _parameter(node, 1, tensor)
    if _is_small(element):
        node.set(_by_blocks(node, "QUANTIZE", tensor, element))
        return
    if node.has(2):
        zero = _parameter(node, 2, tensor)
    else:
        zero = node.scalar(0, element)
    if blocks.element == scale.element == TensorProto.FLOAT:
        node.set(by_quotient(node, blocks, scale, zero, element).viewed(tensor.shape))
        return
    members = {"input_tensor": blocks, "scale_tensor": scale, "zero_point_tensor": zero}
    node.set(node.apply("ELEMENT_WISE_QUANTIZE_LINEAR", element, **members).viewed(tensor.shape))


@translates("DequantizeLinear", by=["ELEMENT_WISE_DEQUANTIZE_LINEAR", "DEQUANTIZE"])
@translates("DequantizeLinear", by=["ELEMENT_WISE_DEQUANTIZE_LINEAR", "DEQUANTIZE"], domain=MICROSOFT)
def dequantize(node: Node) -> None:
    """From integers of 4 to 32 bits."""
    tensor = node.tensor(0)
    has_bytes = tensor.element in (TensorProto.INT8, TensorProto.UINT8) and node.integer("block_size")
    if _is_small(tensor.element) or has_bytes:
        node.set(_by_blocks(node, "DEQUANTIZE", tensor, node.tensor(1).element))
        return
    blocks = _blocks(node, tensor)
    scale = _parameter(node, 1, tensor)
    zero = _parameter(node, 2, tensor) if node.has(2) else None
    members = {"input_tensor": blocks, "scale_tensor": scale, "zero_point_tensor": zero}
    node.set(node.apply("ELEMENT_WISE_DEQUANTIZE_LINEAR", scale.element, **members).viewed(tensor.shape))


def by_quotient(node: Node, tensor: Tensor, scale: Tensor, zero: Tensor, element: int) -> Tensor:
    """FLOAT32 numbers as integers: the quotient is rounded to FLOAT32 and then to an integer, as ONNX has it.

    ELEMENT_WISE_QUANTIZE_LINEAR rounds the exact quotient once. The two differ where a quotient lies next to a half: of
    pictures from -1 to 1, whose scale is 2 / 255, that is every one.
    """
    whole = node.apply(
        "ELEMENT_WISE_ROUND", input_tensor=tensor / scale, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN
    )
    moved = whole + node.cast(zero, TensorProto.FLOAT)
    return _bounded(node, moved, element)


def rounded_to(node: Node, tensor: Tensor, element: int) -> Tensor:
    """FLOAT32 numbers as the nearest integers that a type has."""
    mode = RoundingMode.HALVES_TO_NEAREST_EVEN
    return _bounded(node, node.apply("ELEMENT_WISE_ROUND", input_tensor=tensor, rounding_mode=mode), element)


def _bounded(node: Node, tensor: Tensor, element: int) -> Tensor:
    """Whole numbers as integers, those beyond the type's bounds as these."""
    numbers = np.iinfo(DATA_TYPES[element].numpy_dtype)
    return node.cast(_clipped(node, tensor, int(numbers.min), int(numbers.max)), element)


def _clipped(node: Node, tensor: Tensor, low: int, high: int) -> Tensor:
    kind = tensor.data_type
    return node.apply(
        "ELEMENT_WISE_CLIP1", input_tensor=tensor, min_max_data_type=kind, min=float(low), max=float(high)
    )


def dynamically(node: Node, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """FLOAT32 numbers as UINT8, with scale and zero point of one element each: those of the smallest and the largest.

    By ONNX's rules and ONNX Runtime's: 0 is always within, and where all is 0 the scale is 1.
    """
    axes = list(range(tensor.rank))
    zero, one = (node.scalar(number, TensorProto.FLOAT).viewed(()) for number in (0.0, 1.0))
    low = node.apply("ELEMENT_WISE_MIN", a_tensor=reduced(node, ReduceFunction.MIN, tensor, axes), b_tensor=zero)
    high = node.apply("ELEMENT_WISE_MAX", a_tensor=reduced(node, ReduceFunction.MAX, tensor, axes), b_tensor=zero)
    range_of = high - low
    steps = node.scalar(255.0, TensorProto.FLOAT).viewed(())
    is_nothing = range_of.equals(zero)
    scale = is_nothing.where(one, range_of / steps)
    quotient = zero - low / scale
    mode = RoundingMode.HALVES_TO_NEAREST_EVEN
    point = node.apply("ELEMENT_WISE_ROUND", input_tensor=_clipped(node, quotient, 0, 255), rounding_mode=mode)
    zero_point = node.cast(point, TensorProto.UINT8)
    return by_quotient(node, tensor, scale, zero_point, TensorProto.UINT8), scale, zero_point


@translates(
    "DynamicQuantizeLinear",
    by=["REDUCE", "ELEMENT_WISE_DIVIDE", "ELEMENT_WISE_ROUND", "CAST"],
    empty=emptiness.quantized,
)
def dynamic_quantize(node: Node) -> None:
    """Scale and zero point follow from the smallest and the largest element."""
    tensor = node.tensor(0)
    values, scale, zero = dynamically(node, tensor if tensor.rank else tensor.viewed((1,)))
    node.set(values.viewed(tensor.shape))
    node.set(scale.viewed(()), 1)
    node.set(zero.viewed(()), 2)


def matrices(node: Node, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Two factors with the same leading dimensions, and the shape of their product."""
    if a.rank < 2 or b.rank < 2 or max(a.rank, b.rank) > 4:
        raise NotOnDevice("matrices of 2 to 4 dimensions")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (
        a.broadcast((*batch, *a.shape[-2:])),
        b.broadcast((*batch, *b.shape[-2:])),
        (*batch, a.shape[-2], b.shape[-1]),
    )


def of_matrix(node: Node, index: int, rank: int, *, rows: bool) -> Tensor | None:
    """A scale or zero point of a matrix: one for all, or one for each row or column."""
    if not node.has(index):
        return None
    tensor = node.tensor(index)
    count = math.prod(tensor.shape)
    if tensor.rank > 1 and count != max(tensor.shape):
        raise NotOnDevice(f"scales and zero points of the shape {list(tensor.shape)}")
    return tensor.viewed((*[1] * (rank - 2), count, 1) if rows else (*[1] * (rank - 1), count))


def _scale_of_matrix(node: Node, index: int, rank: int, *, rows: bool) -> Tensor:
    scale = of_matrix(node, index, rank, rows=rows)
    assert scale is not None  # an input that every such node has
    return node.cast(scale, TensorProto.FLOAT)


@translates("MatMulInteger", by=["MATRIX_MULTIPLY_INTEGER"])
def integer_matrix_product(node: Node) -> None:
    """8-bit integers; sums in 32 bits."""
    a, b, shape = matrices(node, node.tensor(0), node.tensor(1))
    node.set(
        node.apply(
            "MATRIX_MULTIPLY_INTEGER",
            a_tensor=a,
            a_zero_point_tensor=of_matrix(node, 2, len(shape), rows=True),
            b_tensor=b,
            b_zero_point_tensor=of_matrix(node, 3, len(shape), rows=False),
        )
    )


@translates("QLinearMatMul", by=["QUANTIZED_LINEAR_MATRIX_MULTIPLY"])
def quantized_matrix_product(node: Node) -> None:
    a, b, shape = matrices(node, node.tensor(0), node.tensor(3))
    rank = len(shape)
    node.set(
        node.apply(
            "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
            node.element(7),
            a_tensor=a,
            a_scale_tensor=_scale_of_matrix(node, 1, rank, rows=True),
            a_zero_point_tensor=of_matrix(node, 2, rank, rows=True),
            b_tensor=b,
            b_scale_tensor=_scale_of_matrix(node, 4, rank, rows=False),
            b_zero_point_tensor=of_matrix(node, 5, rank, rows=False),
            output_scale_tensor=_scale_of_matrix(node, 6, rank, rows=True),
            output_zero_point_tensor=of_matrix(node, 7, rank, rows=True),
        )
    )


@translates("QLinearConv", by=["QUANTIZED_LINEAR_CONVOLUTION"])
def quantized_convolution(node: Node) -> None:
    tensor, weights = node.tensor(0), node.tensor(3)
    window = window_of(
        node, tensor.shape[2:], weights.shape[2:], output=window_counts(node, tensor.shape[2:], weights.shape[2:])
    )
    members = {"input_scale": 1, "input_zero_point": 2, "filter_scale": 4, "filter_zero_point": 5, "bias": 8}
    members |= {"output_scale": 6, "output_zero_point": 7}
    parameters = {
        f"{member}_tensor": per_channel(node.tensor(index), max(tensor.rank, 4)) if node.has(index) else None
        for member, index in members.items()
    }
    element = node.element(7)
    node.set(filtered(node, "QUANTIZED_LINEAR_CONVOLUTION", tensor, weights, window, element, **parameters))
