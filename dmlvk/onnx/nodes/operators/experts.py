"""Mixtures of experts: each token is multiplied by the matrices of few experts, and no others are read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.activation import gelu_by_tanh
from dmlvk.onnx.nodes.operators.matrix import largest_operand
from dmlvk.onnx.nodes.operators.quantized import meaning
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.operators.rotary import split
from dmlvk.onnx.nodes.translation import DMLVK, FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction

_PLAIN = {"bits": 0, "block_size": 0}


@translates(
    "MatMulExperts",
    by=["GEMM"],
    domain=DMLVK,
    note="dmlvk's own; weights are numbers, or packed as those of dmlvk's MatMulNBits",
)
def product_with_experts(node: Node) -> None:
    """Rows [..., K], one for each number of experts [...] or fewer that broadcast, times these experts' [N, K]."""
    scale = node.tensor(3) if node.has(3) else None
    zero = node.tensor(4) if node.has(4) else None
    factor = node.tensor(5) if node.has(5) else None
    weights = node.tensor(1)
    columns, bits, block = node.integer("N"), node.integer("bits"), node.integer("block_size")
    if weights.rank < 2 or columns < 1:
        raise NotOnDevice(f"matrices of {columns} columns in {list(weights.shape)}")
    packing = {"bits": bits, "block_size": block, **meaning(node)}
    rows, experts = node.tensor(0), node.tensor(2)
    node.set(expert_products(node, rows, weights, experts, columns, packing, scale, zero, factor))


def expert_products(
    node: Node,  # the node
    a: Tensor,  # [..., terms], whose leading axes broadcast to those of ``experts``
    weights: Tensor,  # all matrices, [experts, columns, terms], or bytes of packed integers; or with fewer axes
    experts: Tensor,  # numbers of matrices
    columns: int,  # of a matrix
    packing: Mapping[str, int] = _PLAIN,  # attributes of DMLVK_EXPERT_PRODUCTS
    scale: Tensor | None = None,  # of packed integers, one for each block of a column
    zero: Tensor | None = None,  # likewise what stands for zero
    factor: Tensor | None = None,  # likewise what scales are multiplied by, which are fewer then
) -> Tensor:
    """Rows by the matrices that they choose.

    Returns:
        [..., columns].
    """
    if a.element not in FLOATS or a.rank != experts.rank + 1:
        raise NotOnDevice(f"rows {list(a.shape)} for experts {list(experts.shape)}")
    terms, count = a.shape[-1], math.prod(experts.shape)
    chosen = _unsigned(node, experts)
    if math.prod(a.shape[:-1]) == 1 and a.is_packed:  # one row for all, which stays where it is
        rows = a.viewed((count, terms), (0, 1))
    else:
        rows = node.packed(a.broadcast((*experts.shape, terms))).viewed((count, terms))

    def lines(tensor: Tensor | None) -> Tensor | None:
        """A line for each column of each matrix, whatever axes there are."""
        if tensor is None:
            return None
        total = math.prod((weights if scale is None else scale).shape[:-1])
        size = math.prod(tensor.shape)
        if size % total:
            raise NotOnDevice(f"{list(tensor.shape)} beside {total} columns of all experts")
        return node.packed(tensor).viewed((total, size // total))

    for tensor in (weights, scale, zero, factor):
        if tensor is not None and tensor.source.size_in_bytes > largest_operand(node):
            raise NotOnDevice(f"experts of {tensor.source.size_in_bytes} bytes in one tensor")
    made = node.apply(
        "DMLVK_EXPERT_PRODUCTS",
        a_tensor=rows,
        weight_tensor=lines(weights),
        scale_tensor=lines(scale),
        zero_point_tensor=lines(zero),
        factor_tensor=lines(factor),
        expert_tensor=node.packed(chosen).viewed((1, count)),
        output_tensor=New(a.element, (count, columns)),
        **packing,
    )
    return made.viewed((*experts.shape, columns))


def _unsigned(node: Node, experts: Tensor) -> Tensor:
    """Numbers of experts; those below 0 become large ones, as which there is none."""
    if experts.element == TensorProto.INT32:
        packed = node.packed(experts)
        return packed.viewed(packed.shape, element=TensorProto.UINT32)
    return node.cast(experts, TensorProto.UINT32)


@dataclasses.dataclass(frozen=True)
class _Layer:
    """One of the matrices of all experts that MoE and QMoE have."""

    # numbers of the inputs: of the matrices, and of packed ones' scales and zero points; of the bias
    weights: tuple[int, int, int, int]
    bits: int  # of a packed integer; 0: they are numbers

    def product(self, node: Node, rows: Tensor, experts: Tensor) -> Tensor:
        """Rows [tokens, 1 or chosen, terms] by the experts [tokens, chosen], and the bias of each."""
        place, scale, zero, bias = self.weights
        weights = node.tensor(place)
        if weights.rank != 3:
            raise NotOnDevice(f"experts of {list(weights.shape)}")
        columns, terms = weights.shape[1], rows.shape[-1]
        block = 0
        if self.bits:
            count = node.shape(scale)[2] if len(node.shape(scale)) == 3 else 1
            block = node.integer("block_size") or terms
            if terms % block or count != terms // block or weights.shape[2] != terms * self.bits // _BYTE:
                raise NotOnDevice(f"scales {list(node.shape(scale))} of {terms} terms in blocks of {block}")
        scales = node.tensor(scale) if self.bits else None
        if scales is not None and scales.element != rows.element:
            raise NotOnDevice("scales of another type than the first input")
        zeros = node.tensor(zero) if self.bits and node.has(zero) else None
        if zeros is not None and zeros.element == TensorProto.UINT8 and columns * zeros.shape[-1] % _WORD:
            raise NotOnDevice(f"zero points {list(zeros.shape)}, of which an expert's are no whole words")
        made = expert_products(
            node, rows, weights, experts, columns, {"bits": self.bits, "block_size": block}, scales, zeros
        )
        if not node.has(bias):
            return made
        table, flat = node.tensor(bias), node.packed(experts).viewed((1, math.prod(experts.shape)))
        found = node.apply("GATHER", input_tensor=table, indices_tensor=flat, axis=0, index_dimensions=1)
        return made + found.viewed(made.shape)


_MOE = (_Layer((2, -1, -1, 3), 0), _Layer((4, -1, -1, 5), 0), _Layer((6, -1, -1, 7), 0))
_QMOE_PLACES = ((2, 3, 11, 4), (5, 6, 12, 7), (8, 9, 13, 10))
_SHARES = 14
_BYTE, _WORD = 8, 4


@translates("MoE", by=["TOP_K1"], domain=MICROSOFT, note="only chosen experts' weights are read")
def mixture(node: Node) -> None:
    """Few of many gated layers for each token, by the largest of what a router gives."""
    _mixture(node, _MOE)


@translates(
    "QMoE",
    by=["TOP_K1"],
    domain=MICROSOFT,
    note="integers of 2, 4 and 8 bits in blocks; only chosen experts' weights are read",
)
def mixture_of_integers(node: Node) -> None:
    if node.text("quant_type", "int") != "int" or node.integer("weights_prepacked", 0) > 0:
        raise NotOnDevice(f"quant_type {node.text('quant_type', 'int')!r}, or weights in an order of a device's own")
    bits = node.integer("expert_weight_bits", 4)
    own = [node.integer(f"fc{number}_expert_weight_bits", bits) for number in (1, 2, 3)]
    if any(each not in (2, 4, 8) for each in own) or any(
        node.has(index) for index in range(_SHARES + 1, node.input_count)
    ):
        raise NotOnDevice(f"weights of {own} bits, or scales beside those of blocks")
    _mixture(node, tuple(_Layer(places, each) for places, each in zip(_QMOE_PLACES, own, strict=True)))


def _mixture(node: Node, layers: tuple[_Layer, ...]) -> None:
    node.check_element(0, *FLOATS)
    given, scores = node.tensor(0), node.tensor(1)
    if node.integer("use_sparse_mixer") or node.integer("swiglu_limit_after_activation"):
        raise NotOnDevice("use_sparse_mixer and swiglu_limit_after_activation are not there yet")
    terms, tokens = given.shape[-1], math.prod(given.shape[:-1])
    if scores.rank != 2 or scores.shape[0] != tokens:
        raise NotOnDevice(f"a router's {list(scores.shape)} for {tokens} tokens")
    shares, experts = _chosen(node, node.cast(scores, TensorProto.FLOAT))
    rows = node.packed(given).viewed((tokens, 1, terms))
    inner = _activated(node, layers, rows, experts)
    made = node.cast(layers[1].product(node, inner, experts), TensorProto.FLOAT)
    weighted = made * shares.with_axis(2)
    total = reduced(node, ReduceFunction.SUM, weighted, [1])
    node.set(node.cast(total.viewed(given.shape), given.element))


def _chosen(node: Node, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Shares and numbers of the experts of each token, both [tokens, chosen]."""
    tokens, count = scores.shape
    k = node.integer("k", 1)
    if not 1 <= k <= count:
        raise NotOnDevice(f"{k} of {count} experts")
    best, numbers = node.apply_all(
        "TOP_K1",
        input_tensor=scores,
        output_value_tensor=New(scores.element, (tokens, k)),
        output_index_tensor=New(TensorProto.UINT32, (tokens, k)),
        axis=1,
        k=k,
        axis_direction=1,
    )
    is_packed = node.op_type == "QMoE"
    normalizes = bool(node.integer("normalize_routing_weights"))
    if is_packed and node.has(_SHARES):
        weights = node.cast(node.tensor(_SHARES), TensorProto.FLOAT)
        best = node.apply("GATHER_ELEMENTS", input_tensor=weights, indices_tensor=numbers, axis=1)
        if normalizes:
            best = best / reduced(node, ReduceFunction.SUM, best, [1])
        return best, numbers
    if normalizes or is_packed:  # as ONNX Runtime's CPU package has it
        return node.apply("ACTIVATION_SOFTMAX1", input_tensor=best, axes=[1]), numbers
    shares = node.apply("ACTIVATION_SOFTMAX1", input_tensor=scores, axes=[1])
    return node.apply("GATHER_ELEMENTS", input_tensor=shares, indices_tensor=numbers, axis=1), numbers


def _activated(node: Node, layers: tuple[_Layer, ...], rows: Tensor, experts: Tensor) -> Tensor:
    """What is inside of the chosen experts, behind their function."""
    kind, fusion = node.text("activation_type", "relu"), node.integer("swiglu_fusion")
    made = layers[0].product(node, rows, experts)
    has_third = node.has(layers[2].weights[0])
    if kind == "swiglu":
        if fusion:
            halves = made.shape[-1] // 2
            if fusion == 1:
                wide = node.packed(made).viewed((*made.shape[:-1], halves, 2))
                gate, up = (part.viewed((*made.shape[:-1], halves)) for part in split(node, wide, [1, 1]))
            else:
                gate, up = split(node, made, [halves, halves])
        elif has_third:
            gate, up = made, layers[2].product(node, rows, experts)
        else:
            raise NotOnDevice("swiglu_fusion 0 without fc3")
        return _swiglu(node, gate, up)
    if kind not in _FUNCTIONS or fusion:
        raise NotOnDevice(f"activation_type {kind!r}, swiglu_fusion {fusion}")
    made = _FUNCTIONS[kind](node, made)
    return made * layers[2].product(node, rows, experts) if has_third else made


_FUNCTIONS: dict[str, Callable[[Node, Tensor], Tensor]] = {
    "relu": lambda node, tensor: node.apply("ACTIVATION_RELU", input_tensor=tensor),
    "gelu": gelu_by_tanh,
    "silu": lambda node, tensor: node.apply("ACTIVATION_SWISH", input_tensor=tensor, sigmoid_input_scale=1.0),
    "identity": lambda node, tensor: tensor,
}


def _within(node: Node, tensor: Tensor, low: float, high: float) -> Tensor:
    return node.apply("ELEMENT_WISE_CLIP1", input_tensor=tensor, min_max_data_type=tensor.data_type, min=low, max=high)


def _swiglu(node: Node, gate: Tensor, up: Tensor) -> Tensor:
    """``gate * sigmoid(alpha * gate) * (up + beta)``, both sides within a limit, if there is one."""
    limit = node.real("swiglu_limit", 0.0) if node.is_given("swiglu_limit") else 0.0
    if limit:
        gate, up = _within(node, gate, float("-inf"), limit), _within(node, up, -limit, limit)
    gate = node.apply("ACTIVATION_SWISH", input_tensor=gate, sigmoid_input_scale=node.real("activation_alpha", 1.0))
    beta = node.real("activation_beta", 0.0)
    if beta:
        up = up + beta
    return gate * up
