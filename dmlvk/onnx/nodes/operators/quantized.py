"""ONNX Runtime's own operators of quantized tensors."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection
from typing import Any

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.operators.convolution import channels_first, channels_last, narrowed, per_channel, widened
from dmlvk.onnx.nodes.operators.matrix import largest_operand, product
from dmlvk.onnx.nodes.operators.pooling import pool_window, pooled_sizes, whole
from dmlvk.onnx.nodes.operators.quantization import by_quotient, dynamically, matrices, of_matrix, rounded_to
from dmlvk.onnx.nodes.translation import DMLVK, FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import RoundingMode, ScaleBias
from dmlvk.operators.block_weights import LOW_BITS, row_bytes

_DEQUANTIZE, _QUANTIZE = "ELEMENT_WISE_DEQUANTIZE_LINEAR", "ELEMENT_WISE_QUANTIZE_LINEAR"
_SIGN_OF_BYTE = 0x80
_ONE_AXIS = 13  # The opset from which on Softmax works along one axis


def _number(node: Node, index: int) -> Tensor | None:
    """A scale or a zero point that is one for all; ``None`` for an absent one."""
    if not node.has(index):
        return None
    tensor = node.tensor(index)
    if math.prod(tensor.shape) != 1:
        raise NotOnDevice("scales and zero points of single channels")
    return tensor.viewed(())


def _numbers_of(node: Node, index: int) -> Tensor:
    """What the integers stand for of which an input, its scale and its zero point follow one another."""
    tensor, scale, zero = node.tensor(index), _number(node, index + 1), _number(node, index + 2)
    if scale is None:
        raise NotOnDevice("a scale is absent")
    return node.apply(_DEQUANTIZE, scale.element, input_tensor=tensor, scale_tensor=scale, zero_point_tensor=zero)


def _quantized(node: Node, tensor: Tensor, index: int, element: int) -> Tensor:
    """Numbers as integers by a scale and the zero point behind it."""
    scale, zero = _number(node, index), _number(node, index + 1)
    if scale is None:
        raise NotOnDevice("a scale is absent")
    if tensor.element == scale.element == TensorProto.FLOAT:
        return by_quotient(node, tensor, scale, node.scalar(0, element) if zero is None else zero, element)
    return node.apply(_QUANTIZE, element, input_tensor=tensor, scale_tensor=scale, zero_point_tensor=zero)


_SUM_BY = (
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "CAST", "ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_MULTIPLY",
    "ELEMENT_WISE_ADD", "ELEMENT_WISE_ROUND",
)  # fmt: skip


@translates("QLinearAdd", by=_SUM_BY, domain=MICROSOFT)
@translates("Add", by=_SUM_BY, domain=JOINED, batch=batches.elementwise)
def quantized_sum(node: Node) -> None:
    """Each scale and zero point is one for all; where they are not known, the sum is exact and rounded once."""
    scales = [node.known(index) for index in (1, 4, 6)]
    zeros = [node.known(index) if node.has(index) else np.zeros(1, np.int64) for index in (2, 5, 7)]
    parameters = [each.reshape(-1) for each in (*scales, *zeros) if each is not None]
    if len(parameters) == 6 and all(each.size == 1 for each in parameters) and parameters[0].dtype == np.float32:
        _sum_as_onnx_runtime(node, *(each[0] for each in parameters))
        return
    a, b = node.tensor(0), node.tensor(3)
    ones = (1,) * max(a.rank, b.rank, 1)

    def number(index: int) -> Tensor | None:
        tensor = _number(node, index)
        return None if tensor is None else tensor.viewed(ones)

    node.set(
        node.apply(
            "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
            a_tensor=a,
            a_scale_tensor=number(1),
            a_zero_point_tensor=number(2),
            b_tensor=b,
            b_scale_tensor=number(4),
            b_zero_point_tensor=number(5),
            output_scale_tensor=number(6),
            output_zero_point_tensor=number(7),
        )
    )


def _sum_as_onnx_runtime(node: Node, *parameters: Any) -> None:
    """Two products that each are added with one rounding (a processor's fma), as on x86-64 with AVX2.

    The addend of an IDENTITY's ScaleBias is rounded once. Where the addend is a tensor, the product of 8 bits and a
    factor in two parts is exact, and so is the error of its sum (Knuth, The Art of Computer Programming 2, 4.2.2).
    """
    moved = _OF_MOVED if node.integer("moved") else 0
    a_scale, b_scale, scale, *zeros = parameters
    a_zero, b_zero, zero = (np.float64(int(each) + moved) for each in zeros)
    a_factor, b_factor = np.float32(a_scale) / np.float32(scale), np.float32(b_scale) / np.float32(scale)
    of_zeros = np.float32(np.float64(a_factor) * a_zero + np.float64(np.float32(b_factor * np.float32(b_zero))))
    high = (a_factor.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)
    scale_bias = ScaleBias(float(b_factor), float(np.float32(zero) - of_zeros))
    b = node.apply("ELEMENT_WISE_IDENTITY", input_tensor=_moved(node, 3, moved), scale_bias=scale_bias)
    a = _moved(node, 0, moved)

    product, rest = (a * float(factor) for factor in (high, a_factor - high))
    total = product + b
    of_b = total - product
    error = b - of_b + (product - (total - of_b))
    _set_moved(node, total + (error + rest), moved)


_OF_MOVED = 128  # What ONNX Runtime adds to INT8 integers to make them UINT8


def _moved(node: Node, index: int, moved: int) -> Tensor:
    """Integers, with a number added, as FLOAT32."""
    whole = node.cast(node.tensor(index), TensorProto.FLOAT)
    return whole + moved if moved else whole


def _set_moved(node: Node, tensor: Tensor, moved: int) -> None:
    """Rounds numbers to the integers of the result, less a number."""
    mode = RoundingMode.HALVES_TO_NEAREST_EVEN
    whole = node.apply("ELEMENT_WISE_ROUND", input_tensor=tensor, rounding_mode=mode)
    if moved:
        whole = whole - moved
    node.set(rounded_to(node, whole, node.element(0)))


_PRODUCT_BY = ("CAST", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ROUND", "ELEMENT_WISE_CLIP1")


@translates("QLinearMul", by=_PRODUCT_BY, domain=MICROSOFT)
@translates("Mul", by=_PRODUCT_BY, domain=JOINED, batch=batches.elementwise)
def quantized_product(node: Node) -> None:
    """As ONNX Runtime rounds it: whole products, one factor for all scales, the zero point before the rounding."""
    a, b = (_whole_numbers(node, index) for index in (0, 3))
    scales = [_number(node, index) for index in (1, 4, 6)]
    if any(scale is None or scale.element != TensorProto.FLOAT for scale in scales):
        raise NotOnDevice("scales of FLOAT are needed")
    first, second, last = (scale for scale in scales if scale is not None)
    made = a * b * (first * second / last)
    zero, moved = _number(node, 7), _OF_MOVED if node.integer("moved") else 0
    if zero is not None:
        added = node.cast(zero, TensorProto.FLOAT)
        if moved:
            added = added + moved
        made = made + added
    _set_moved(node, made, moved)


def _whole_numbers(node: Node, index: int) -> Tensor:
    """Integers less the zero point that follows behind their scale, as FLOAT32."""
    tensor, zero = node.cast(node.tensor(index), TensorProto.FLOAT), _number(node, index + 2)
    return tensor if zero is None else tensor - node.cast(zero, TensorProto.FLOAT)


def _bent(node: Node, operator: str, **attributes: Any) -> None:
    """A function of the numbers that the integers stand for."""
    plain = _numbers_of(node, 0)
    node.set(_quantized(node, node.apply(operator, input_tensor=plain, **attributes), 3, node.element(0)))


@translates("QLinearSigmoid", by=[_DEQUANTIZE, "ACTIVATION_SIGMOID", _QUANTIZE], domain=MICROSOFT)
def quantized_sigmoid(node: Node) -> None:
    """Of the numbers that the integers stand for."""
    _bent(node, "ACTIVATION_SIGMOID")


@translates("QLinearLeakyRelu", by=[_DEQUANTIZE, "ACTIVATION_LEAKY_RELU", _QUANTIZE], domain=MICROSOFT)
def quantized_leaky_relu(node: Node) -> None:
    """Of the numbers that the integers stand for."""
    _bent(node, "ACTIVATION_LEAKY_RELU", alpha=node.real("alpha", 0.01))


_ROUNDED_BY = ("ELEMENT_WISE_ROUND", "ELEMENT_WISE_CLIP1", "CAST")
_SOFTMAX_BY = (_DEQUANTIZE, "ACTIVATION_SOFTMAX1", "ELEMENT_WISE_FLOOR", "ELEMENT_WISE_MULTIPLY", *_ROUNDED_BY)


@translates("QLinearSoftmax", by=_SOFTMAX_BY, domain=MICROSOFT)
@translates("Softmax", by=_SOFTMAX_BY, domain=JOINED, batch=batches.along_an_axis(-1))
def quantized_softmax(node: Node) -> None:
    """Along one axis; before opset 13 along all axes from that one on.

    As ONNX Runtime rounds it: shares are multiplied by a whole number, the reciprocal of the result's scale rounded
    down, and the zero point is added behind the rounding.
    """
    plain, scale, zero = _numbers_of(node, 0), _number(node, 3), _number(node, 4)
    if scale is None or scale.element != TensorProto.FLOAT:
        raise NotOnDevice("a scale of FLOAT is needed")
    is_one_axis = node.integer("opset", _ONE_AXIS) >= _ONE_AXIS
    axis = node.axis(node.integer("axis", -1), plain.rank)
    axes = [axis] if is_one_axis else list(range(axis, plain.rank))
    shares = node.apply("ACTIVATION_SOFTMAX1", input_tensor=plain, axes=axes)
    steps = node.apply("ELEMENT_WISE_FLOOR", input_tensor=1.0 / scale)
    mode = RoundingMode.HALVES_TO_NEAREST_EVEN
    whole = node.apply("ELEMENT_WISE_ROUND", input_tensor=shares * steps, rounding_mode=mode)
    if zero is not None:
        whole = whole + node.cast(zero, TensorProto.FLOAT)
    node.set(rounded_to(node, whole, node.element(0)))


@translates("QLinearConcat", by=[_DEQUANTIZE, _QUANTIZE, "JOIN"], domain=MICROSOFT)
def quantized_concat(node: Node) -> None:
    """Each part is brought to the output's scale, and then joined."""
    indices = range(2, node.input_count, 3)
    element = node.element(indices[0])
    parts = [_quantized(node, _numbers_of(node, index), 0, element) for index in indices]
    axis = node.axis(node.integer("axis"), parts[0].rank)
    node.set(node.apply("JOIN", input_tensors=parts, axis=axis))


@translates("QLinearWhere", by=[_DEQUANTIZE, _QUANTIZE, "ELEMENT_WISE_IF"], domain=MICROSOFT)
def quantized_selection(node: Node) -> None:
    """Both operands are brought to the output's scale first."""
    condition, element = node.tensor(0), node.element(1)
    a, b = (_quantized(node, _numbers_of(node, index), 7, element) for index in (1, 4))
    node.set(condition.where(a, b))


def _channels_first(node: Node, tensor: Tensor) -> Tensor:
    return channels_first(tensor) if node.integer("channels_last") else tensor


def _with_channels_as_given(node: Node, tensor: Tensor) -> Tensor:
    return channels_last(tensor) if node.integer("channels_last") else tensor


def _pool_parameters(node: Node, rank: int) -> dict[str, Tensor | None]:
    """Scales and zero points of a pool."""
    members = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
    return {
        member: per_channel(node.tensor(index), rank) if node.has(index) else None
        for index, member in enumerate(members, start=1)
    }


@translates("QLinearAveragePool", by=["QUANTIZED_LINEAR_AVERAGE_POOLING"], domain=MICROSOFT)
def quantized_average_pool(node: Node) -> None:
    """Means are rounded once; channels may come last."""
    tensor = _channels_first(node, node.tensor(0))
    lengths = pooled_sizes(node, tensor.shape[2:])
    window = pool_window(node, tensor, (*tensor.shape[:2], *lengths))
    if node.integer("count_include_pad") and node.integer("ceil_mode"):
        raise NotOnDevice("padding that counts, together with ceil_mode")
    seen = widened(tensor)
    made = node.apply(
        "QUANTIZED_LINEAR_AVERAGE_POOLING",
        input_tensor=seen,
        **_pool_parameters(node, seen.rank),
        **window.members,
        window_size=list(window.size),
        include_padding=bool(node.integer("count_include_pad")),
    )
    node.set(_with_channels_as_given(node, narrowed(made, tensor.rank)))


@translates("QLinearGlobalAveragePool", by=["QUANTIZED_LINEAR_AVERAGE_POOLING"], domain=MICROSOFT)
def quantized_global_average_pool(node: Node) -> None:
    """Over all spatial axes, rounded once; channels may come last."""
    tensor = _channels_first(node, node.tensor(0))
    made = whole(node, tensor, "QUANTIZED_LINEAR_AVERAGE_POOLING", **_pool_parameters(node, 4), include_padding=False)
    node.set(_with_channels_as_given(node, made))


def _other_sign(tensor: Tensor) -> Tensor:
    """Bytes with 128 less, or more: those of UINT8 as INT8, and the other way round."""
    element = TensorProto.INT8 if tensor.element == TensorProto.UINT8 else TensorProto.UINT8
    made = tensor.viewed(tensor.shape, tensor.strides, TensorProto.UINT8) ^ _SIGN_OF_BYTE
    return made.viewed(made.shape, element=element)


_Factor = tuple[Tensor, Tensor | None, Tensor | None]  # A matrix of integers with its scale and its zero point


def integer_product(node: Node, a: _Factor, b: _Factor, bias: int | None) -> Tensor:
    """The product of two quantized matrices, as numbers.

    Where one matrix is INT8 and the other UINT8, the first one is brought to the other's type.

    Args:
        bias: which input is added; ``None``: none.
    """
    if a[1] is None or b[1] is None:
        raise NotOnDevice("a scale is absent")
    left, zero = a[0], a[2]
    if left.element != b[0].element:
        if zero is None:
            zero = node.scalar(0, left.element).viewed((1,) * max(left.rank, b[0].rank))
        left, zero = _other_sign(left), _other_sign(zero)
    first, second, shape = matrices(node, left, b[0])
    return node.apply(
        "MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
        a[1].element,
        a_tensor=first,
        a_scale_tensor=a[1],
        a_zero_point_tensor=zero,
        b_tensor=second,
        b_scale_tensor=b[1],
        b_zero_point_tensor=b[2],
        bias_tensor=node.tensor(bias).broadcast(shape) if bias is not None and node.has(bias) else None,
    )


@translates("MatMulIntegerToFloat", by=["MATRIX_MULTIPLY_INTEGER_TO_FLOAT"], domain=MICROSOFT)
def integer_product_to_float(node: Node) -> None:
    """Each with a scale for all, or for each of its rows or columns."""
    a, b = node.tensor(0), node.tensor(1)
    rank = max(a.rank, b.rank)
    left = (a, of_matrix(node, 2, rank, rows=True), of_matrix(node, 4, rank, rows=True))
    right = (b, of_matrix(node, 3, rank, rows=False), of_matrix(node, 5, rank, rows=False))
    node.set(integer_product(node, left, right, bias=6))


@translates(
    "DynamicQuantizeMatMul",
    by=["REDUCE", "ELEMENT_WISE_DIVIDE", "ELEMENT_WISE_ROUND", "CAST", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"],
    domain=MICROSOFT,
)
def dynamic_quantized_product(node: Node) -> None:
    """The first matrix is quantized as its elements ask for."""
    a, b = node.tensor(0), node.tensor(1)
    rank = max(a.rank, b.rank)
    values, scale, zero = dynamically(node, a)
    left = (values, scale.viewed((1,) * rank), zero.viewed((1,) * rank))
    right = (b, of_matrix(node, 2, rank, rows=False), of_matrix(node, 3, rank, rows=False))
    node.set(integer_product(node, left, right, bias=4))


@translates(
    "QGemm",
    by=["QUANTIZED_LINEAR_CONVOLUTION"],
    domain=MICROSOFT,
    note="quantized results; alpha 1; a bias for each column",
)
def quantized_gemm(node: Node) -> None:
    """A window of one element over as many places as the first matrix has rows: a convolution has a bias."""
    a, b = node.tensor(0), node.tensor(3)
    if a.rank != 2 or b.rank != 2 or node.real("alpha", 1.0) != 1.0 or not node.has(7) or not node.has(8):
        raise NotOnDevice("matrices, alpha 1 and quantized results")
    terms_by_rows = a if node.integer("transA") else a.transposed([1, 0])
    columns_by_terms = b if node.integer("transB") else b.transposed([1, 0])
    (terms, rows), columns = terms_by_rows.shape, columns_by_terms.shape[0]
    if node.has(6) and math.prod(node.shape(6)) != columns:
        raise NotOnDevice(f"a bias of {list(node.shape(6))} for {columns} columns")

    def parameter(index: int) -> Tensor | None:
        return per_channel(node.tensor(index), 4) if node.has(index) else None

    one, (term_step, row_step) = [1, 1], terms_by_rows.strides
    made = node.apply(
        "QUANTIZED_LINEAR_CONVOLUTION",
        node.element(8),
        input_tensor=terms_by_rows.viewed((1, terms, 1, rows), (0, term_step, 0, row_step)),
        input_scale_tensor=parameter(1),
        input_zero_point_tensor=parameter(2),
        filter_tensor=columns_by_terms.viewed((columns, terms, 1, 1), (*columns_by_terms.strides, 0, 0)),
        filter_scale_tensor=parameter(4),
        filter_zero_point_tensor=parameter(5),
        bias_tensor=parameter(6),
        output_scale_tensor=parameter(7),
        output_zero_point_tensor=parameter(8),
        strides=one,
        dilations=one,
        start_padding=[0, 0],
        end_padding=[0, 0],
        group_count=1,
    )
    node.set(made.viewed((columns, rows)).transposed([1, 0]))


_FACTORS = 6  # The input of dmlvk's own MatMulNBits by which scales are multiplied


def meaning(node: Node) -> dict[str, int]:
    """What integers of packed weights stand for that have no zero points, in dmlvk's own nodes."""
    return {name: node.integer(name) for name in ("zero_point", "table") if node.is_given(name)}


def has_minima(node: Node) -> bool:
    """Whether scales and factors of dmlvk's own nodes are pairs, the second ones those of the blocks' minima."""
    return bool(node.integer("minima", 0))


@dataclasses.dataclass(frozen=True)
class _NodeBlocks:
    """What MatMulNBits says of its weights."""

    columns: int  # of the product
    terms: int  # of each sum
    bits: int  # of an integer
    size: int  # terms of a block

    @property
    def count(self) -> int:
        return -(-self.terms // self.size)

    @property
    def column_bytes(self) -> int:
        """Bytes of a column's integers, the last block filled up."""
        return row_bytes(self.count * self.size, self.bits)

    @property
    def zero_bytes(self) -> int:
        """Bytes of a column's zero points, where these are packed."""
        return row_bytes(self.count, self.bits)

    @classmethod
    def of(cls, node: Node, kinds: Collection[int]) -> _NodeBlocks:
        """Of a node.

        Args:
            kinds: how many bits integers may have.

        Raises:
            NotOnDevice: when the device cannot have such blocks.
        """
        made = cls(node.integer("N"), node.integer("K"), node.integer("bits", 4), node.integer("block_size", 32))
        least = 8 if made.bits == 8 else 16
        if made.bits not in kinds or made.size < least or made.size % least or min(made.columns, made.terms) < 1:
            raise NotOnDevice(f"{made.columns} columns of {made.terms} with {made.bits} bits in blocks of {made.size}")
        return made

    def parameters(self, node: Node, number: int) -> dict[str, Tensor]:
        """The weights, as members of DMLVK_DEQUANTIZE_BLOCKS: a line for each column.

        Args:
            number: the element type of the numbers.

        Raises:
            NotOnDevice: when their shapes or types do not fit.
        """
        packed, scale = node.tensor(1), node.tensor(2)
        lines = {"packed_tensor": self._lines(packed, self.column_bytes, "integers", TensorProto.UINT8)}
        each = 2 if has_minima(node) else 1
        count = math.prod(scale.shape) // self.columns if node.has(_FACTORS) else each * self.count
        lines["scale_tensor"] = self._lines(scale, count, "scales", scale.element)
        if scale.element not in (number, TensorProto.FLOAT16) and not node.is_given("table"):
            raise NotOnDevice("scales of another type than the first matrix")
        if node.has(3):
            zero = node.tensor(3)
            if zero.element in FLOATS:
                zero = node.cast(zero, number)
            length = self.zero_bytes if zero.element == TensorProto.UINT8 else self.count
            lines["zero_point_tensor"] = self._lines(zero, length, "zero points", zero.element)
            if zero.element not in (TensorProto.UINT8, number):
                raise NotOnDevice("zero points of another type than the first matrix")
        if node.has(_FACTORS):
            factors = node.tensor(_FACTORS)
            length = row_bytes(each * self.count, 8 if factors.element == TensorProto.INT8 else 4)
            lines["factor_tensor"] = self._lines(factors, length, "factors", factors.element)
        return lines

    def _lines(self, tensor: Tensor, length: int, words: str, element: int) -> Tensor:
        if tensor.element != element or math.prod(tensor.shape) != self.columns * length or not tensor.is_packed:
            raise NotOnDevice(f"{list(tensor.shape)} are not the {words} of {self.columns} columns, {length} of each")
        return tensor.viewed((self.columns, length))

    def groups(self, node: Node) -> Tensor | None:
        """The block of each term, which must be known: a kernel does not look for it elsewhere."""
        if not node.has(4):
            return None
        groups = node.array(4)
        if groups.dtype != np.int32 or groups.size != self.terms:
            raise NotOnDevice(f"{list(groups.shape)} of {groups.dtype} are not the groups of {self.terms} terms")
        if groups.min() < 0 or groups.max() >= self.count:
            raise NotOnDevice(f"groups from {groups.min()} to {groups.max()}, of {self.count}")
        return node.tensor(4).viewed((1, self.terms))


@translates(
    "MatMulNBits",
    by=["GEMM"],
    domain=DMLVK,
    note="as com.microsoft's, of 2 to 6 and 8 bits; scales may be FLOAT16 beside FLOAT, or fewer, times factors",
)
def product_with_own_blocks(node: Node) -> None:
    """The same with what GGUF's types have besides."""
    _product_with_blocks(node, LOW_BITS)


@translates(
    "MatMulNBits",
    by=["GEMM"],
    domain=MICROSOFT,
    note="2, 4 and 8 bits in blocks of 16 and more; the weights stay packed",
)
def product_with_blocks(node: Node) -> None:
    """The second matrix lies in blocks of small integers, each with its scale, and is read as it is."""
    _product_with_blocks(node, (2, 4, 8))


def _product_with_blocks(node: Node, kinds: Collection[int]) -> None:
    a, blocks = node.tensor(0), _NodeBlocks.of(node, kinds)
    if a.element not in FLOATS or a.shape[-1:] != (blocks.terms,):
        raise NotOnDevice(f"{list(a.shape)} for sums of {blocks.terms} terms")
    weights, groups = blocks.parameters(node, a.element), blocks.groups(node)
    rows = node.packed(a).viewed((math.prod(a.shape[:-1]), blocks.terms))
    bias = node.tensor(5).viewed((1, blocks.columns)) if node.has(5) else None
    largest = max(tensor.source.size_in_bytes for tensor in weights.values())
    parts = -(-largest // largest_operand(node))
    if parts > 1 and any(tensor.source.array is None for tensor in weights.values()):
        raise NotOnDevice(f"weights of {largest} bytes, which are no constants")
    bounds = [blocks.columns * number // parts for number in range(parts + 1)]
    made = []
    for start, stop in itertools.pairwise(bounds):
        part, addend = weights, bias
        if parts > 1:
            part = {name: node.assembly.part(tensor, 0, start, stop) for name, tensor in weights.items()}
            addend = None if bias is None else node.assembly.part(bias, 1, start, stop)
        numbers = node.apply(
            "DMLVK_DEQUANTIZE_BLOCKS",
            **part,
            group_index_tensor=groups,
            output_tensor=New(a.element, (stop - start, blocks.terms)),
            bits=blocks.bits,
            block_size=blocks.size,
            has_minima=has_minima(node),
            **meaning(node),
        )
        addend = None if addend is None else addend.broadcast((rows.shape[0], stop - start))
        made.append(
            product(node, rows, numbers, c=addend, transposed=(False, True), beta=0.0 if addend is None else 1.0)
        )
    whole = made[0]
    if parts > 1:
        whole = node.apply("JOIN", input_tensors=made, axis=1)
    node.set(whole.viewed((*a.shape[:-1], blocks.columns)))
