"""ONNX Runtime's operators around embeddings and diffusion: rows of tables, groups of channels, gated halves."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.movement import gathered_of_parts, is_beyond_a_buffer
from dmlvk.onnx.nodes.operators.normalization import layer_normalized, normalized
from dmlvk.onnx.nodes.operators.quantized import has_minima, meaning
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.operators.rotary import split
from dmlvk.onnx.nodes.translation import DMLVK, FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import DATA_TYPES, NUMPY_TYPES, NotOnDevice, Tensor, element_name
from dmlvk.operators import QuantizationType
from dmlvk.operators.members import ReduceFunction

_EVEN_ROWS = -2  # Where an axis would stand among the parts of constants

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


def rows(node: Node, table: Tensor, indices: Tensor) -> Tensor:
    """The rows of a matrix that numbers name: the numbers' shape, and the columns."""
    if table.rank != 2 or indices.element not in _INTEGERS:
        raise NotOnDevice(f"rows of {list(table.shape)} by {element_name(indices.element)}")
    if is_beyond_a_buffer(node, table):
        return gathered_of_parts(node, table, indices).viewed((*indices.shape, table.shape[1]))
    flat = node.packed(indices).viewed((1, math.prod(indices.shape)))
    made = node.apply("GATHER", input_tensor=table, indices_tensor=flat, axis=0, index_dimensions=1)
    return made.viewed((*indices.shape, table.shape[1]))


@translates(
    "EmbedLayerNormalization", by=["GATHER", "ELEMENT_WISE_ADD", "MEAN_VARIANCE_NORMALIZATION1"], domain=MICROSOFT
)
def embedded(node: Node) -> None:
    """The sum of a word's, a place's and a segment's row, normalized; and how many words a mask leaves."""
    words = node.tensor(0)
    if words.rank != 2:
        raise NotOnDevice(f"sequences of words; got {list(words.shape)}")
    batch, length = words.shape
    total = rows(node, node.tensor(2), words)
    positions = node.tensor(3)
    if node.has(8):
        numbers = node.tensor(8)
        found = rows(node, positions, numbers)
    else:
        if positions.rank != 2 or positions.shape[0] < length:
            raise NotOnDevice(f"{length} words with places of {list(positions.shape)}")
        found = positions.viewed((length, positions.shape[1]), positions.strides)
    total = total + found
    if node.has(4) and node.has(1):
        total = total + rows(node, node.tensor(4), node.tensor(1))
    epsilon = node.real("epsilon", 1e-12)
    node.set(layer_normalized(node, total, total.rank - 1, node.tensor(5), node.tensor(6), epsilon))
    if node.wants(1):
        node.set(_counted(node, batch, length), 1)
    if node.wants(2):
        node.set(total, 2)


def _counted(node: Node, batch: int, length: int) -> Tensor:
    """How many words of each sequence the mask leaves; 0 without one."""
    if not node.has(7):
        return node.assembly.constant(np.zeros(batch, np.int32), TensorProto.INT32)
    mask = node.cast(node.tensor(7), TensorProto.INT32)
    if mask.shape != (batch, length):
        raise NotOnDevice(f"a mask of {list(mask.shape)} for {batch} sequences of {length} words")
    ones = node.cast(mask.equals(1), TensorProto.INT32)
    return reduced(node, ReduceFunction.SUM, ones, [1]).viewed((batch,))


@translates("GroupNorm", by=["MEAN_VARIANCE_NORMALIZATION1"], domain=MICROSOFT)
@translates("SkipGroupNorm", by=["ELEMENT_WISE_ADD", "MEAN_VARIANCE_NORMALIZATION1"], domain=MICROSOFT)
def group_norm(node: Node) -> None:
    """Over groups of channels, which come last unless the node says otherwise, in FLOAT32; and x * sigmoid(x)."""
    node.check_element(0, *FLOATS)
    given = node.tensor(0)
    is_last = bool(node.integer("channels_last", 1))
    if given.rank < 3:
        raise NotOnDevice(f"channels and spatial axes; got {list(given.shape)}")
    tensor = node.cast(given, TensorProto.FLOAT)
    if node.op_type == "SkipGroupNorm":
        tensor = _with_skip(node, tensor, is_last=is_last)
        if node.wants(1):
            node.set(node.cast(tensor, given.element), 1)
    channels, groups = tensor.shape[-1 if is_last else 1], node.integer("groups")
    if groups < 1 or channels % groups:
        raise NotOnDevice(f"{groups} groups of {channels} channels")
    size = channels // groups
    spatial = math.prod(tensor.shape) // (tensor.shape[0] * channels)
    shape = (tensor.shape[0], spatial, groups, size) if is_last else (tensor.shape[0], groups, size, spatial)
    parameters = (1, 1, groups, size) if is_last else (1, groups, size, 1)

    def of_channels(index: int) -> Tensor:
        numbers = node.cast(node.tensor(index), TensorProto.FLOAT)
        if numbers.shape != (channels,):
            raise NotOnDevice(f"{list(numbers.shape)} does not fit {channels} channels")
        return numbers.viewed(parameters).broadcast(shape)

    made = normalized(
        node,
        node.reshaped(tensor, shape),
        [1, 3] if is_last else [2, 3],
        scale=of_channels(1),
        bias=of_channels(2),
        epsilon=node.real("epsilon", 1e-5),
    )
    if node.integer("activation"):
        made = node.apply("ACTIVATION_SWISH", input_tensor=made, sigmoid_input_scale=1.0)
    node.set(node.cast(made.viewed(tensor.shape), given.element))


def _with_skip(node: Node, tensor: Tensor, *, is_last: bool) -> Tensor:
    """The sum of input, what is skipped, and a bias for each channel."""

    def along_channels(index: int) -> Tensor:
        part = node.cast(node.tensor(index), TensorProto.FLOAT)
        if part.shape == tensor.shape:
            return part
        channels = tensor.shape[-1 if is_last else 1]
        batch = tensor.shape[0] if math.prod(part.shape) == tensor.shape[0] * channels and part.rank > 1 else 1
        inner = [1] * (tensor.rank - 2)
        return node.reshaped(part, (batch, *inner, channels) if is_last else (batch, channels, *inner))

    total = tensor + along_channels(3)
    return total + along_channels(4) if node.has(4) else total


@translates("BiasSplitGelu", by=["ELEMENT_WISE_ADD", "ACTIVATION_GELU", "ELEMENT_WISE_MULTIPLY"], domain=MICROSOFT)
def gated_gelu(node: Node) -> None:
    """One half of the sum with a bias, times the other one behind Gelu."""
    total = node.tensor(0) + node.tensor(1)
    if total.rank == 0 or total.shape[-1] % 2:
        raise NotOnDevice(f"two halves of {list(total.shape)}")
    left, right = split(node, total, [total.shape[-1] // 2] * 2)
    node.set(left * node.apply("ACTIVATION_GELU", input_tensor=right))


@translates(
    "GatherBlockQuantized",
    by=["GATHER"],
    domain=MICROSOFT,
    note="of 4 and 8 bits; rows of matrices whose last axis has the blocks: only those that are named become numbers",
    rows_along="gather_axis",
)
def gathered_blocks(node: Node) -> None:
    """Rows of small integers, with a scale for each block: gathered first, and then made numbers."""
    data, indices, scales = node.tensor(0), node.tensor(1), node.tensor(2)
    bits, block = node.integer("bits", 4), node.integer("block_size", 128)
    element = data.element
    is_packed_bytes = element == TensorProto.UINT8
    bits = bits if is_packed_bytes else DATA_TYPES[element].size_in_bits
    if bits not in (4, 8) or (not is_packed_bytes and bits != 4) or data.rank != 2 or scales.rank != 2:
        raise NotOnDevice(f"{bits} bits in {element_name(element)} of {list(data.shape)}")
    columns = data.shape[1] * (8 // bits) if is_packed_bytes else data.shape[1]
    axes = (node.axis(node.integer("gather_axis"), 2), node.axis(node.integer("quantize_axis", 1), 2))
    blocks = scales.shape[1]
    if (
        axes != (0, 1)
        or block < 1
        or columns != blocks * block
        or columns * bits % 8
        or scales.shape[0] != data.shape[0]
    ):
        raise NotOnDevice(f"blocks of {block} along axis {axes[1]}, gathered along {axes[0]}, of {list(data.shape)}")
    count = math.prod(indices.shape)
    small = TensorProto.UINT8 if bits == 8 else TensorProto.UINT4 if is_packed_bytes else element
    found = _bytes_of_rows(node, data, indices, columns * bits // 8).viewed((count, blocks, block), element=small)
    scale = rows(node, scales, indices).viewed((count, blocks, 1)).broadcast((count, blocks, block))
    zero = _zero_points(node, indices, small, (count, blocks, block), is_unsigned=is_packed_bytes)
    node.set(_numbers(node, found, scale, zero).viewed((*indices.shape, columns)))


@translates(
    "GatherNBits",
    by=["GATHER"],
    domain=DMLVK,
    note="dmlvk's own; rows of matrices that are packed as those of dmlvk's MatMulNBits become numbers",
    rows_along="gather_axis",
)
def gathered_numbers(node: Node) -> None:
    """Rows of packed integers [rows, ...], with scales and perhaps factors, as FLOAT."""
    data, indices, terms = node.tensor(0), node.tensor(1), node.integer("K")
    count = math.prod(indices.shape)

    def found(tensor: Tensor) -> Tensor:
        width = math.prod(tensor.shape) // data.shape[0]
        return rows(node, tensor.viewed((data.shape[0], width)), indices).viewed((count, width))

    made = node.apply(
        "DMLVK_DEQUANTIZE_BLOCKS",
        packed_tensor=found(data),
        scale_tensor=found(node.tensor(2)),
        factor_tensor=found(node.tensor(3)) if node.has(3) else None,
        output_tensor=New(TensorProto.FLOAT, (count, terms)),
        bits=node.integer("bits"),
        block_size=node.integer("block_size"),
        has_minima=has_minima(node),
        **meaning(node),
    )
    node.set(made.viewed((*indices.shape, terms)))


def _bytes_of_rows(node: Node, data: Tensor, indices: Tensor, width: int) -> Tensor:
    return rows(node, data.viewed((data.shape[0], width), element=TensorProto.UINT8), indices)


def _zero_points(
    node: Node, indices: Tensor, element: int, shape: tuple[int, int, int], *, is_unsigned: bool
) -> Tensor | None:
    """Those of the rows, for every element; without any the middle of the numbers of packed bytes, and else 0."""
    bits = DATA_TYPES[element].size_in_bits
    if not node.has(3):
        if not is_unsigned:
            return None
        middle = np.full((1,), 1 << (bits - 1), np.uint8).astype(NUMPY_TYPES[element])
        return node.assembly.constant(middle, element).viewed((), element=element).broadcast(shape)
    given = node.tensor(3)
    per_byte = 8 // bits
    if given.rank == 2 and not is_unsigned and given.shape[1] % per_byte:  # rows begin in the middle of bytes
        array = node.array(3)
        given = node.assembly.converted(array, (_EVEN_ROWS, 0, 0), lambda: np.pad(array, ((0, 0), (0, 1))), element)
    width = given.shape[1] if is_unsigned else given.shape[1] // per_byte
    if given.rank != 2 or width * per_byte < shape[1]:
        raise NotOnDevice(f"zero points of {list(given.shape)} for {shape[1]} blocks of a row")
    found = _bytes_of_rows(node, given, indices, width)
    return found.viewed(shape, (width * per_byte, 1, 0), element)


def _numbers(node: Node, tensor: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """What small integers stand for."""
    if tensor.element == TensorProto.UINT8:
        members = {"input_tensor": tensor, "scale_tensor": scale, "zero_point_tensor": zero}
        return node.apply("ELEMENT_WISE_DEQUANTIZE_LINEAR", scale.element, **members)
    tensors = [scale] if zero is None else [scale, zero]
    return node.apply(
        "DEQUANTIZE",
        scale.element,
        input_tensor=tensor,
        quantization_type=QuantizationType.SCALE if zero is None else QuantizationType.SCALE_ZERO_POINT,
        quantization_tensors=tensors,
    )
