"""What operators are timed with whose tensors have sizes of their own: tasks as programs have them."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dmlvk import bench
from dmlvk.bench.registry import MAKERS, bench_tasks
from dmlvk.bench.task import InTorch, Task, described, images, moving, pool_members
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, DequantizeBlocks, fused_activation, operator_desc
from dmlvk.tensors import TensorDesc

ROW = 8192  # Elements of a row, where rows are reduced or chosen from


def tasks(operator_name: str, data_type: DataType, size_in_bytes: int) -> list[Task]:
    """The tasks of an operator; none where it has none, or not for this data type.

    Args:
        operator_name: ``"GEMM"``.
        size_in_bytes: of the largest tensor, roughly: of a square matrix, for products.
    """
    make = MAKERS.get(operator_name)
    if make is None or operator_name not in OPERATORS:
        return []
    return [task for task in make(data_type, size_in_bytes) if _is_supported(task)]


def _is_supported(task: Task) -> bool:
    types = OPERATORS[task.desc.operator_name].declaration.support[-1].data_types
    tensors = [(field, tensor) for field, tensor in (*task.desc.inputs, *task.desc.outputs) if tensor is not None]
    return all(tensor.data_type in types[field.member] for field, tensor in tensors)


def _product(m: int, k: int, n: int, data_type: DataType, batch: int = 1, series: str = "") -> Task:
    sizes = {"ATensor": (1, batch, m, k), "BTensor": (1, batch, k, n)}
    desc = described("GEMM", data_type, sizes, TransA="NONE", TransB="NONE", Alpha=1.0, Beta=0.0)
    words = f"{batch} x ({m} x {k} x {n})" if batch > 1 else f"{m} x {k} x {n}"
    point: dict[str, Any] = {"series": series, "extent": k}
    if min(m, n) <= 32 < max(m, n) and batch == 1:  # as fast as the matrix can be read
        return moving(words, desc, lambda torch, inputs: torch.matmul(*inputs), **point)
    work = 2 * batch * m * k * n
    return Task(f"GEMM {words}", desc, data_type, work, "OP/s", lambda torch, inputs: torch.matmul(*inputs), **point)


_LARGEST_MATRIX = 2**30
"""Bytes of what a few rows are multiplied with: otherwise 16 times those of a square product's matrix."""


@bench_tasks("GEMM")
def _products(data_type: DataType, size: int) -> Iterator[Task]:
    side = max(16, math.isqrt(size // data_type.size_in_bytes) // 16 * 16)
    yield _product(side, side, side, data_type, series="GEMM n x n x n")
    large = min(4 * side, math.isqrt(_LARGEST_MATRIX // data_type.size_in_bytes))
    for rows in (1, 8, 32):
        yield _product(rows, large, large, data_type, series=f"GEMM {rows} x n x n")
    yield _product(128, 64, 128, data_type, 96)
    yield _product(128, 768, 768, data_type)


_PACKED = ((2048, 2048), (8192, 2048), (2048, 8192), (14336, 4096), (128256, 2048))
"""Columns and terms of products that language models of 1 and 8 billion weights are made of."""


@bench_tasks("DEQUANTIZE")
def _dequantized(data_type: DataType, size: int) -> Iterator[Task]:
    """By itself; and before GEMM, whose kernels read packed weights (4 bits in blocks of 32) of up to so many bytes."""
    yield from _blocks("DEQUANTIZE", data_type, size)
    for columns, terms in _PACKED:
        if columns * terms // 2 > size:
            continue
        weights = DequantizeBlocks(
            packed_tensor=TensorDesc(DataType.UINT8, (columns, terms // 2)),
            scale_tensor=TensorDesc(data_type, (columns, terms // 32)),
            output_tensor=TensorDesc(data_type, (columns, terms)),
            bits=4,
            block_size=32,
        )
        work = sum(tensor.size_in_bytes for _, tensor in weights.inputs if tensor is not None)
        for rows in (1, 2, 4, 8, 16, 512):
            tensors = {"ATensor": TensorDesc(data_type, (rows, terms)), "BTensor": weights.output_tensor}
            desc = described("GEMM", data_type, tensors, TransA="NONE", TransB="TRANSPOSE", Alpha=1.0, Beta=0.0)
            name = f"GEMM {rows} x {terms} by {columns} columns of 4 bits"
            if rows > 16:
                yield Task(name, desc, data_type, 2 * rows * columns * terms, "OP/s", weights=weights, deviation=0.05)
            else:
                yield Task(name, desc, data_type, work, "B/s", weights=weights, deviation=0.05)


_CONVOLUTIONS = (
    (64, 56, 3, 1, 64, 1), (256, 56, 1, 1, 64, 1), (128, 28, 3, 1, 128, 1), (256, 14, 3, 1, 256, 1),
    (512, 7, 3, 1, 512, 1), (3, 224, 7, 2, 64, 1), (128, 56, 3, 1, 128, 128),
)  # fmt: skip
"""Of ResNet-50, and a depthwise one: channels, side of the image, of the window, stride, output channels, groups."""


@bench_tasks("CONVOLUTION")
def _convolutions(data_type: DataType, size: int) -> Iterator[Task]:
    for batch in (32, 1) if size >= 2**24 else (1,):
        for shape in _CONVOLUTIONS:
            yield _convolution(batch, *shape, data_type)


def _convolution(
    batch: int, channels: int, side: int, window: int, stride: int, filters: int, groups: int, data_type: DataType
) -> Task:
    pad = window // 2
    out = (side + 2 * pad - window) // stride + 1
    sizes = (batch, channels, side, side)
    desc = described(
        "CONVOLUTION", data_type, {"InputTensor": sizes, "FilterTensor": (filters, channels // groups, window, window)},
        Mode="CROSS_CORRELATION", Direction="FORWARD", Strides=(stride, stride), Dilations=(1, 1),
        StartPadding=(pad, pad), EndPadding=(pad, pad), OutputPadding=(0, 0), GroupCount=groups,
    )  # fmt: skip
    kind = "depthwise " if groups > 1 else ""
    name = f"{kind}{window}x{window}, {batch}x{channels}x{side}x{side} -> {filters}"

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        return torch.nn.functional.conv2d(*inputs, stride=stride, padding=pad, groups=groups)

    if groups > 1:
        return moving(name, desc, in_torch)
    work = 2 * batch * filters * out * out * channels * window * window
    return Task(f"CONVOLUTION {name}", desc, data_type, work, "OP/s", in_torch)


@bench_tasks("AVERAGE_POOLING", "AVERAGE_POOLING", 2, 2, 0)
@bench_tasks("MAX_POOLING", "MAX_POOLING", 3, 2, 1)
def _pools(operator_name: str, window: int, stride: int, pad: int, data_type: DataType, size: int) -> Iterator[Task]:
    n, c, h, w = images(data_type, size)
    members = pool_members(window, stride, pad)
    names = {field.name for field in OPERATORS[operator_name].fields}
    if "Dilations" in names:
        members["Dilations"] = (1, 1)
    if "IncludePadding" in names:
        members["IncludePadding"] = False
    desc = described(operator_name, data_type, {"InputTensor": (n, c, h, w)}, **members)
    call = "max_pool2d" if operator_name.startswith("MAX") else "avg_pool2d"

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        return getattr(torch.nn.functional, call)(inputs[0], window, stride, pad)

    yield moving(f"{window}x{window}, stride {stride}, {n}x{c}x{h}x{w}", desc, in_torch)


def _matrix(data_type: DataType, size: int) -> tuple[int, int]:
    return max(1, size // data_type.size_in_bytes // ROW), ROW


@bench_tasks("REDUCE")
def _reductions(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    source = (1, 1, rows, columns)
    for function, call in (("SUM", "sum"), ("MAX", "amax")):
        for words, axes in (("of rows", (3,)), ("of columns", (2,)), ("of all", (2, 3))):
            desc = described("REDUCE", data_type, {"InputTensor": source}, Function=function, Axes=axes)
            yield moving(f"{function} {words}, {rows} x {columns}", desc, _reduced_in_torch(call, axes))


def _reduced_in_torch(call: str, axes: tuple[int, ...]) -> InTorch:
    return lambda torch, inputs: getattr(torch, call)(inputs[0], dim=axes, keepdim=True)


@bench_tasks("ARGMAX")
def _argmax(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    members = {"OutputTensor": TensorDesc(DataType.UINT32, (1, 1, rows, 1)), "AxisDirection": "INCREASING"}
    desc = described("ARGMAX", data_type, {"InputTensor": (1, 1, rows, columns)}, Axes=(3,), **members)
    yield moving(f"of rows, {rows} x {columns}", desc, lambda torch, inputs: torch.argmax(inputs[0], -1, True))


@bench_tasks("JOIN")
def _join(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size // 4)
    parts = [TensorDesc(data_type, (rows, columns))] * 4
    for axis, words in enumerate(("", ", side by side")):
        desc = described("JOIN", data_type, {}, InputTensors=parts, Axis=axis)
        yield moving(f"4 of {rows} x {columns}{words}", desc, _joined_in_torch(axis))


def _joined_in_torch(axis: int) -> InTorch:
    return lambda torch, inputs: torch.cat(list(inputs), axis)


@bench_tasks("SPLIT")
def _split(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    part, whole = TensorDesc(data_type, (rows, columns // 4)), TensorDesc(data_type, (rows, columns))
    desc = operator_desc("SPLIT", InputTensor=whole, OutputCount=4, OutputTensors=[part] * 4, Axis=1)
    yield moving(f"{rows} x {columns} into 4", desc, None)


@bench_tasks("SLICE1")
def _slices(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    for words, offset, length, stride in (("whole rows", 1, rows - 2, (1, 1)), ("every second", 0, rows, (1, 2))):
        window = (length, columns)
        members = {"InputWindowOffsets": (offset, 0), "InputWindowSizes": window, "InputWindowStrides": stride}
        desc = described("SLICE1", data_type, {"InputTensor": (rows, columns)}, **members)
        work = 2 * length * (columns // stride[1]) * data_type.size_in_bytes * (3 if stride[1] == 2 else 2) // 2
        yield moving(f"{words} of {rows} x {columns}", desc, _sliced(offset, length, stride[1]), work=work)


def _sliced(offset: int, length: int, step: int) -> InTorch:
    return lambda torch, inputs: inputs[0][offset : offset + length, ::step].clone()


@bench_tasks("PADDING")
def _padding(data_type: DataType, size: int) -> Iterator[Task]:
    n, c, h, w = images(data_type, size)
    members = {"StartPadding": (0, 0, 1, 1), "EndPadding": (0, 0, 1, 1), "PaddingMode": "CONSTANT", "PaddingValue": 0.0}
    desc = described("PADDING", data_type, {"InputTensor": (n, c, h, w)}, **members)
    yield moving(f"by 1, {n}x{c}x{h}x{w}", desc, lambda torch, inputs: torch.nn.functional.pad(inputs[0], (1, 1, 1, 1)))


@bench_tasks("TILE")
def _tile(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size // 4)
    desc = described("TILE", data_type, {"InputTensor": (rows, columns)}, Repeats=(2, 2))
    yield moving(f"2 x 2, {rows} x {columns}", desc, lambda torch, inputs: torch.tile(inputs[0], (2, 2)))


@bench_tasks("CAST")
def _cast(data_type: DataType, size: int) -> Iterator[Task]:
    count = size // data_type.size_in_bytes
    wanted = DataType.FLOAT16 if data_type is DataType.FLOAT32 else DataType.FLOAT32
    desc = operator_desc("CAST", InputTensor=TensorDesc(data_type, (count,)), OutputTensor=TensorDesc(wanted, (count,)))
    name = wanted.name.lower()
    yield moving(f"to {name}, {count}", desc, lambda torch, inputs: inputs[0].to(getattr(torch, name)))


@bench_tasks("QUANTIZE", "QUANTIZE")
def _blocks(operator_name: str, data_type: DataType, size: int) -> Iterator[Task]:
    """A scale and a zero point for every 32 elements of a row, as weights of few bits have them."""
    rows, columns = _matrix(data_type, size)
    numbers, scale = TensorDesc(data_type, (rows, columns)), TensorDesc(data_type, (rows, columns // 32))
    for integer in (DataType.UINT4, DataType.INT8):
        integers, zero = TensorDesc(integer, numbers.sizes), TensorDesc(integer, scale.sizes)
        source, result = (numbers, integers) if operator_name == "QUANTIZE" else (integers, numbers)
        desc = operator_desc(
            operator_name, InputTensor=source, OutputTensor=result, QuantizationType="SCALE_ZERO_POINT",
            QuantizationTensorCount=2, QuantizationTensors=[scale, zero],
        )  # fmt: skip
        name = f"{operator_name} {integer.name.lower()} in blocks of 32, {rows} x {columns}"
        yield dataclasses.replace(moving("", desc), name=name, data_type=data_type)


@bench_tasks("GATHER")
def _gathers(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    tensors = {
        "InputTensor": TensorDesc(data_type, (rows, columns)),
        "IndicesTensor": TensorDesc(DataType.UINT32, (1, rows)),
    }
    desc = described("GATHER", data_type, tensors, OutputTensor=(rows, columns), Axis=0, IndexDimensions=1)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        return torch.index_select(inputs[0], 0, inputs[1].reshape(-1).to(torch.int64))

    yield moving(f"of rows, {rows} x {columns}", desc, in_torch, indices={"IndicesTensor": rows})


@bench_tasks("GATHER_ELEMENTS", "GATHER_ELEMENTS")
@bench_tasks("SCATTER", "SCATTER")
def _elements(operator_name: str, data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    sizes = (rows, columns)
    tensors: dict[str, Any] = {"InputTensor": sizes, "IndicesTensor": TensorDesc(DataType.INT64, sizes)}
    if operator_name == "SCATTER":
        tensors["UpdatesTensor"] = sizes
    desc = described(operator_name, data_type, tensors, Axis=1)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        if operator_name == "SCATTER":
            return torch.scatter(inputs[0], 1, inputs[1], inputs[2])
        return torch.gather(inputs[0], 1, inputs[1])

    yield moving(
        f"{rows} x {columns}", desc, in_torch, indices={"IndicesTensor": columns}, permuted=operator_name == "SCATTER"
    )


@bench_tasks("DEPTH_TO_SPACE")
def _depth_to_space(data_type: DataType, size: int) -> Iterator[Task]:
    n, c, h, w = images(data_type, size)
    desc = described("DEPTH_TO_SPACE", data_type, {"InputTensor": (n, c, h, w)}, BlockSize=2)
    yield moving(f"2, {n}x{c}x{h}x{w}", desc, None)


@bench_tasks("CUMULATIVE_SUMMATION")
def _cumulative(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    sizes, members = (1, 1, rows, columns), {"AxisDirection": "INCREASING", "HasExclusiveSum": False}
    for words, axis in (("rows", 3), ("columns", 2)):
        desc = described("CUMULATIVE_SUMMATION", data_type, {"InputTensor": sizes}, Axis=axis, **members)
        yield moving(f"of {words}, {rows} x {columns}", desc, _cumsum(axis))


def _cumsum(axis: int) -> InTorch:
    return lambda torch, inputs: torch.cumsum(inputs[0], axis)


@bench_tasks("TOP_K")
def _top_k(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    index = TensorDesc(DataType.UINT32, (1, 1, rows, 10))
    desc = described("TOP_K", data_type, {"InputTensor": (1, 1, rows, columns)}, OutputIndexTensor=index, Axis=3, K=10)
    yield moving(f"10 of {columns}, {rows} rows", desc, lambda torch, inputs: torch.topk(inputs[0], 10, -1).values)


@bench_tasks("MEAN_VARIANCE_NORMALIZATION1")
def _normalizations(data_type: DataType, size: int) -> Iterator[Task]:
    rows, columns = _matrix(data_type, size)
    tensor = TensorDesc(data_type, (1, 1, rows, columns))
    row = TensorDesc(data_type, tensor.sizes, (0, 0, 0, 1))
    tensors = {"InputTensor": tensor, "ScaleTensor": row, "BiasTensor": row}
    members = {"NormalizeVariance": True, "Epsilon": 1e-5}
    desc = described("MEAN_VARIANCE_NORMALIZATION1", data_type, tensors, Axes=(3,), **members)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        row = inputs[1].reshape(-1, columns)[0], inputs[2].reshape(-1, columns)[0]
        return torch.nn.functional.layer_norm(inputs[0], (columns,), *row, 1e-5)

    work = 2 * tensor.element_count * data_type.size_in_bytes
    yield moving(f"of rows, {rows} x {columns}", desc, in_torch, work=work)
    n, c, h, w = images(data_type, size)
    tensor, channel = TensorDesc(data_type, (n, c, h, w)), TensorDesc(data_type, (n, c, h, w), (0, 1, 0, 0))
    tensors = {"InputTensor": tensor, "ScaleTensor": channel, "BiasTensor": channel}
    desc = described("MEAN_VARIANCE_NORMALIZATION1", data_type, tensors, Axes=(2, 3), **members)

    def instances_in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        factors = (inputs[1][0, :, 0, 0].contiguous(), inputs[2][0, :, 0, 0].contiguous())
        return torch.nn.functional.instance_norm(inputs[0], weight=factors[0], bias=factors[1], eps=1e-5)

    work = 2 * tensor.element_count * data_type.size_in_bytes
    yield moving(f"of images, {n}x{c}x{h}x{w}", desc, instances_in_torch, work=work)


@bench_tasks("BATCH_NORMALIZATION")
def _batch_normalization(data_type: DataType, size: int) -> Iterator[Task]:
    n, c, h, w = images(data_type, size)
    of_channels = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    sizes = {"InputTensor": (n, c, h, w), **dict.fromkeys(of_channels, (1, c, 1, 1))}
    desc = described("BATCH_NORMALIZATION", data_type, sizes, Spatial=True, Epsilon=10.0)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        mean, variance, scale, bias = (values.reshape(-1) for values in inputs[1:])
        return torch.nn.functional.batch_norm(inputs[0], mean, variance, scale, bias, eps=10.0)

    yield moving(f"{n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("LOCAL_RESPONSE_NORMALIZATION")
def _local_responses(data_type: DataType, size: int) -> Iterator[Task]:
    """Across five channels."""
    n, c, h, w = images(data_type, size)
    members = {"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1.0}
    desc = described("LOCAL_RESPONSE_NORMALIZATION", data_type, {"InputTensor": (n, c, h, w)}, **members)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        return torch.nn.functional.local_response_norm(inputs[0], 5, 1e-4, 0.75, 1.0)

    yield moving(f"of 5 channels, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("RESAMPLE1")
def _resample(data_type: DataType, size: int) -> Iterator[Task]:
    n, c, h, w = images(data_type, size // 4)
    desc = described(
        "RESAMPLE1", data_type, {"InputTensor": (n, c, h, w)}, OutputTensor=(n, c, 2 * h, 2 * w),
        InterpolationMode="LINEAR", Scales=(1.0, 1.0, 2.0, 2.0), InputPixelOffsets=(0.5,) * 4,
        OutputPixelOffsets=(-0.5,) * 4,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        return torch.nn.functional.interpolate(inputs[0], scale_factor=2, mode="bilinear")

    yield moving(f"bilinear by 2, {n}x{c}x{h}x{w}", desc, in_torch)


_GATES_IN_TORCH = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}
"""Which of DirectML's gates PyTorch's are: DirectML has z r h, and i o f c; PyTorch r z n, and i f g o."""


@bench_tasks("GRU", "GRU", 3)
@bench_tasks("LSTM", "LSTM", 4)
@bench_tasks("RNN", "RNN", 1)
def _recurrent(name: str, gates: int, data_type: DataType, size: int) -> Iterator[Task]:
    """A layer of 512 units: 32 sequences of up to 128 steps."""
    units, batch = 512, 32
    steps = max(1, min(128, size // (batch * units * data_type.size_in_bytes)))
    functions = {"RNN": ("TANH",), "GRU": ("SIGMOID", "TANH"), "LSTM": ("SIGMOID", "TANH", "TANH")}[name]
    weights = TensorDesc(data_type, (1, 1, gates * units, units))
    own: Mapping[str, Mapping[str, Any]] = {
        "RNN": {},
        "GRU": {"LinearBeforeReset": True},
        "LSTM": {"ClipThreshold": 0.0, "UseClipThreshold": False, "CoupleInputForget": False},
    }
    desc = operator_desc(
        name, InputTensor=TensorDesc(data_type, (1, steps, batch, units)), WeightTensor=weights,
        RecurrenceTensor=weights, OutputSequenceTensor=TensorDesc(data_type, (steps, 1, batch, units)),
        ActivationDescCount=len(functions),
        ActivationDescs=[fused_activation(f"ACTIVATION_{function}") for function in functions],
        Direction="FORWARD", **own[name],
    )  # fmt: skip

    layers: dict[int, Any] = {}

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        source, weight, recurrence = inputs
        if weight.data_ptr() not in layers:
            layers.clear()
            layer = getattr(torch.nn, name)(units, units, bias=False, device=source.device, dtype=source.dtype)
            with torch.no_grad():
                for own_weight, parameter in ((weight, layer.weight_ih_l0), (recurrence, layer.weight_hh_l0)):
                    parameter.copy_(own_weight[0, 0].reshape(gates, -1)[_GATES_IN_TORCH[name]].reshape_as(parameter))
            layer.flatten_parameters()
            layers[weight.data_ptr()] = layer
        with torch.no_grad():
            return layers[weight.data_ptr()](source[0])[0]

    work = 2 * 2 * steps * batch * units * gates * units
    yield Task(f"{name} {units}, {steps} steps of {batch}", desc, data_type, work, "OP/s", in_torch, deviation=0.05)


@bench_tasks("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION", 16)
@bench_tasks("MULTIHEAD_ATTENTION1", "MULTIHEAD_ATTENTION1", 4)
def _attention(name: str, key_heads: int, data_type: DataType, size: int) -> Iterator[Task]:
    """Eight sequences of 1024, 16 heads of 64; of fewer where less memory is asked for."""
    batch, heads, head = 8, 16, 64
    length = max(16, min(1024, size // (batch * heads * head * data_type.size_in_bytes)))
    queries, keys = (TensorDesc(data_type, (batch, length, count * head)) for count in (heads, key_heads))
    counts = {"QueryHeadCount": heads, "KeyValueHeadCount": key_heads} if name.endswith("1") else {"HeadCount": heads}
    desc = operator_desc(
        name, QueryTensor=queries, KeyTensor=keys, ValueTensor=keys, OutputTensor=queries, Scale=head**-0.5,
        MaskFilterValue=-10000.0, MaskType="NONE", **counts,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        parts = [each.unflatten(2, (-1, head)).transpose(1, 2) for each in inputs]
        parts[1:] = [each.repeat_interleave(heads // key_heads, 1) for each in parts[1:]]
        return torch.nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)

    of_keys = "" if key_heads == heads else f" of {key_heads}"
    words = f"{name} {batch} x {heads}{of_keys} heads x {length} x {head}"
    yield Task(words, desc, data_type, 4 * batch * heads * length * length * head, "OP/s", in_torch)


for _module in pkgutil.iter_modules(bench.__path__):  # some have tasks of their own families
    if _module.name.endswith("_tasks"):
        importlib.import_module(f"{bench.__name__}.{_module.name}")

OPERATORS_WITH_TASKS = tuple(sorted(MAKERS))  # The operators that have tasks
