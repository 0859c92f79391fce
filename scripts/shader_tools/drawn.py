"""Stages of whole networks, drawn without a device: what GPUs are given for them and for no operator alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dmlvk.bench.network_graphs import GraphOperations
from dmlvk.bench.networks import NETWORKS
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.errors import DeviceLimitError
from dmlvk.graphs.channels_last import with_channels_last
from dmlvk.graphs.description import (
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from dmlvk.graphs.network import NetworkValue, network
from dmlvk.graphs.stages import fused_stages
from dmlvk.kernels.program import KernelStep
from dmlvk.kernels.target import Target
from dmlvk.objects.compilation import Operator
from dmlvk.operators import (
    ActivationSwish,
    DequantizeBlocks,
    ElementWiseMultiply,
    FeatureLevel,
    Gemm,
    OperatorDesc,
    check_operator,
)
from dmlvk.operators.cached_attention import CachedAttention
from dmlvk.operators.matrix import MatrixTransform
from dmlvk.operators.residual_normalization import ResidualNormalization
from dmlvk.tensors import TensorDesc

_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_BATCHES = (1, 32)
_ROWS = (1, 2, 4, 8, 32, 512)
_HIDDEN, _BLOCK = 2048, 32
_WEIGHTS = {2: ((2048, 8192),), 4: ((2048, 8192), (4096, 14336)), 8: ((2048, 8192),)}
"""Of decoders' projections, state and inner state, by bits."""

_HEADS, _KEY_HEADS, _CAPACITY = 32, 8, 4096


class _NoDevice:
    """What a graph needs of a device: operators are checked."""

    feature_level = FeatureLevel.LEVEL_6_4

    def create_operator(self, desc: OperatorDesc) -> Operator:
        check_operator(desc, self.feature_level)
        return Operator(None, desc)


class _Drawing(GraphOperations):
    """A graph whose weights are inputs that last: they have sizes, and no numbers."""

    def __init__(self, data_type: DataType) -> None:
        super().__init__(cast(Device, _NoDevice()), data_type)
        self.lasting: list[int] = []
        self._inputs = 0

    def weights(self, *sizes: int, terms: int) -> Any:
        return self.constant(np.broadcast_to(np.float32(0), sizes))

    def constant(self, values: npt.NDArray[np.float32]) -> Any:
        self.lasting.append(self._inputs)
        return self.input(*values.shape)

    def input(self, *sizes: int) -> Any:
        self._inputs += 1
        return self.graph.input(f"input{self._inputs}", self._data_type, sizes)


def _steps(desc: GraphDesc, lasting: Iterable[int], target: Target) -> Iterator[KernelStep]:
    """Of a graph, some of whose inputs last."""
    planned = with_channels_last(network(desc, cast(Device, _NoDevice())), target)
    try:
        made = fused_stages(planned, target, {NetworkValue("input", number) for number in lasting})
    except DeviceLimitError:
        return  # more buffers in a kernel than Vulkan guarantees
    for stage in made.stages:
        yield from stage.program.steps


def network_steps(target: Target) -> Iterator[tuple[KernelStep, str]]:
    """What networks launch on a device, and which: those that are timed, with a layer of each kind."""
    for name, each in NETWORKS.items():
        few = {"depths": tuple(1 for _ in each.sizes.get("depths", ())), "layers": 1}
        sizes = {**each.sizes, **{member: value for member, value in few.items() if member in each.sizes}}
        for data_type in _FLOATS:
            for batch in _BATCHES:
                drawing = _Drawing(data_type)
                made = each.draw(drawing, batch, **sizes)
                desc, _ = drawing.graph.described({"y": made})
                for step in _steps(desc, drawing.lasting, target):
                    yield step, f"{name} of {data_type.name}, {batch} at once"
    for data_type in _FLOATS:
        for bits, widths in _WEIGHTS.items():
            for rows, (hidden, inner) in product(_ROWS, widths):
                for step in _packed_products(data_type, bits, (rows, hidden, inner), target):
                    yield step, f"{rows} x {hidden} by weights of {bits} bits, {data_type.name}"


def _packed_products(
    data_type: DataType, bits: int, sizes: tuple[int, int, int], target: Target
) -> Iterator[KernelStep]:
    """A decoder's way from its state through gate, up and down projection: weights of few bits, as MatMulNBits has."""
    rows, *widths = sizes
    state, inner = (TensorDesc(data_type, (rows, columns)) for columns in widths)
    across, down = widths[::-1], widths
    gated = {"output_tensor": inner}
    descriptions = [
        *(_numbers(data_type, bits, *matrix) for matrix in (across, across, down)),
        _product(state, inner),
        _product(state, inner),
        ActivationSwish(input_tensor=inner, sigmoid_input_scale=1.0, **gated),
        ElementWiseMultiply(a_tensor=inner, b_tensor=inner, **gated),
        _product(inner, state),
    ]
    nodes = [OperatorGraphNode(_NoDevice().create_operator(desc)) for desc in descriptions]
    given = [(2 * node + member, node, member) for node in range(3) for member in range(2)]
    between = ((0, 3, 1), (1, 4, 1), (3, 5, 0), (5, 6, 0), (4, 6, 1), (6, 7, 0), (2, 7, 1))
    desc = GraphDesc(
        input_count=7,
        output_count=1,
        nodes=nodes,
        input_edges=[InputGraphEdge(*each) for each in (*given, (6, 3, 0), (6, 4, 0))],
        output_edges=[OutputGraphEdge(7, 0, 0)],
        intermediate_edges=[IntermediateGraphEdge(source, 0, node, member) for source, node, member in between],
    )
    return _steps(desc, range(6), target)


def _numbers(data_type: DataType, bits: int, columns: int, terms: int) -> OperatorDesc:
    return DequantizeBlocks(
        packed_tensor=TensorDesc(DataType.UINT8, (columns, terms * bits // 8)),
        scale_tensor=TensorDesc(data_type, (columns, terms // _BLOCK)),
        output_tensor=TensorDesc(data_type, (columns, terms)),
        bits=bits,
        block_size=_BLOCK,
    )


def _product(left: TensorDesc, result: TensorDesc) -> OperatorDesc:
    weights = TensorDesc(left.data_type, (result.sizes[1], left.sizes[1]))
    return Gemm(
        a_tensor=left,
        b_tensor=weights,
        output_tensor=result,
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=0.0,
        fused_activation=None,
    )


def decoder_descriptions() -> Iterator[tuple[OperatorDesc, str]]:
    """Operators of dmlvk's own that decoders have: attention over caches, and sums that are normalized."""
    for data_type in _FLOATS:
        for cache in (data_type, DataType.INT8, DataType.UINT8):
            for head in (64, 128):
                for tokens in (1, 8, 512):
                    yield (
                        _attention(data_type, cache, head, tokens),
                        f"attention of {tokens} tokens over {cache.name} caches, heads of {head}, {data_type.name}",
                    )
        for hidden in (_HIDDEN, 2 * _HIDDEN):
            for rows in (1, 512):
                yield _normalization(data_type, rows, hidden), f"a sum of {rows} rows normalized, {data_type.name}"


def _attention(data_type: DataType, cache: DataType, head: int, tokens: int) -> OperatorDesc:
    line = head // 2 if cache is DataType.UINT8 else head
    heads = _HEADS + 2 * _KEY_HEADS
    number, present = (1,), TensorDesc(cache, (1, _KEY_HEADS, _CAPACITY, line))
    tensors = {
        "query_tensor": TensorDesc(data_type, (1, tokens, heads * head)),
        "ends_tensor": TensorDesc(DataType.INT32, number),
        "total_tensor": TensorDesc(DataType.INT32, number),
        "cosine_tensor": TensorDesc(data_type, (_CAPACITY, head // 2)),
        "sine_tensor": TensorDesc(data_type, (_CAPACITY, head // 2)),
        "position_tensor": TensorDesc(DataType.INT64, (1, tokens)),
        "output_tensor": TensorDesc(data_type, (1, tokens, _HEADS * head)),
        "present_key_tensor": present,
        "present_value_tensor": present,
    }
    if cache is not data_type:
        scale = TensorDesc(DataType.FLOAT32, number)
        tensors |= {"key_scale_tensor": scale, "value_scale_tensor": scale}
    return CachedAttention(
        **tensors, query_head_count=_HEADS, key_value_head_count=_KEY_HEADS, scale=head**-0.5,
        softcap=0.0, window=0, is_causal=True, is_interleaved=False, has_empty_sink=False, counts_past=False,
        keeps_past=True, keeps_window=False, shows_shares=False, beam_width=0,
    )  # fmt: skip


def _normalization(data_type: DataType, rows: int, hidden: int) -> OperatorDesc:
    each = TensorDesc(data_type, (rows, hidden))
    tensors = dict.fromkeys(("input_tensor", "skip_tensor", "output_tensor", "sum_tensor"), each)
    return ResidualNormalization(**tensors, scale_tensor=TensorDesc(data_type, (hidden,)), epsilon=1e-5)


__all__ = ["decoder_descriptions", "network_steps"]
