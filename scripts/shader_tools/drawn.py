"""Stages of whole networks, drawn without a device: what GPUs are given for them and for no operator alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dmlvk import functions as F
from dmlvk.bench.network_graphs import GraphOperations
from dmlvk.bench.networks import NETWORKS
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.errors import DeviceLimitError
from dmlvk.graphs.channels_last import with_channels_last
from dmlvk.graphs.description import GraphDesc
from dmlvk.graphs.network import NetworkValue, network
from dmlvk.graphs.stages import fused_stages
from dmlvk.kernels.program import KernelStep
from dmlvk.kernels.target import Target
from dmlvk.objects.compilation import Operator
from dmlvk.operators import FeatureLevel, OperatorDesc, check_operator
from dmlvk.operators.cached_attention import CachedAttention
from dmlvk.operators.matrix import MatrixTransform
from dmlvk.operators.normalization import ResidualNormalization
from dmlvk.tensors import TensorDesc

_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_BATCHES = (1, 32)
_ROWS = (1, 2, 4, 8, 32, 512)
_HIDDEN, _BLOCK = 2048, 32
_WEIGHTS = {2: ((2048, 8192),), 4: ((2048, 8192), (4096, 14336)), 8: ((2048, 8192),)}
"""Of decoders' projections, state and inner state, by bits."""

_GGUF = {4: (32, 0, True), 6: (16, 32, False)}
"""Of Q4_K and Q6_K, by their bits: terms that share a factor, what stands for zero, and whether there are minima."""

_GGUF_BLOCK = 256  # Terms that share a scale

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

    def input(self, *sizes: int, data_type: DataType | None = None) -> Any:
        self._inputs += 1
        return self.graph.input(f"input{self._inputs}", data_type or self._data_type, sizes)

    def packed(self, bits: int, columns: int, terms: int, *, as_gguf: bool) -> Any:
        """Weights of few bits, as numbers."""
        first = self._inputs
        tensors = {"packed_tensor": self.input(columns, terms * bits // 8, data_type=DataType.UINT8)}
        members: dict[str, Any] = {"bits": bits, "block_size": _BLOCK}
        if as_gguf:
            block, zero, has_minima = _GGUF[bits]
            each = 2 if has_minima else 1
            tensors["scale_tensor"] = self.input(columns, each * terms // _GGUF_BLOCK, data_type=DataType.FLOAT16)
            tensors["factor_tensor"] = self.input(columns, each * terms // block, data_type=DataType.INT8)
            members |= {"block_size": block, "zero_point": zero, "has_minima": has_minima}
        else:
            tensors["scale_tensor"] = self.input(columns, terms // _BLOCK)
        self.lasting += range(first, self._inputs)
        kind, sizes = self._data_type, (columns, terms)
        return self.graph.apply("DMLVK_DEQUANTIZE_BLOCKS", tensors, members, output_data_type=kind, output_sizes=sizes)

    def product(self, left: Any, weights: Any) -> Any:
        """Rows times columns of weights."""
        return F.gemm(left, weights, trans_b=MatrixTransform.TRANSPOSE, beta=0.0)


def _steps(desc: GraphDesc, lasting: Iterable[int], target: Target) -> Iterator[KernelStep]:
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
    for bits, rows in product(_GGUF, _ROWS):
        for step in _packed_products(DataType.FLOAT32, bits, (rows, 4096, 14336), target, as_gguf=True):
            yield step, f"{rows} x 4096 by weights of GGUF of {bits} bits"


def _packed_products(
    data_type: DataType, bits: int, sizes: tuple[int, int, int], target: Target, *, as_gguf: bool = False
) -> Iterator[KernelStep]:
    """A decoder's way from its state through gate, up and down projection: weights as MatMulNBits or GGUF has them."""
    rows, hidden, inner = sizes
    drawing = _Drawing(data_type)
    matrices = (inner, hidden), (inner, hidden), (hidden, inner)
    gate, up, down = (drawing.packed(bits, *matrix, as_gguf=as_gguf) for matrix in matrices)
    state = drawing.input(rows, hidden)
    gated, widened = (drawing.product(state, weights) for weights in (gate, up))
    made = drawing.product(F.swish(gated, sigmoid_input_scale=1.0) * widened, down)
    desc, _ = drawing.graph.described({"y": made})
    return _steps(desc, drawing.lasting, target)


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
