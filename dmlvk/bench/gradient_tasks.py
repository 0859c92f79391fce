"""Gradients that are timed, beside what PyTorch's own backward functions take for the same work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.task import InTorch, Task
from dmlvk.datatypes import DataType
from dmlvk.operators import OperatorDesc, operator_desc
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.tensors import TensorDesc

_CHANNELS, _SIDE = 64, 112


def _images(data_type: DataType, size: int) -> tuple[int, int, int, int]:
    """Sizes of a batch of images, as those of pools have them."""
    return max(1, size // data_type.size_in_bytes // (_CHANNELS * _SIDE * _SIDE)), _CHANNELS, _SIDE, _SIDE


def _task(words: str, desc: OperatorDesc, in_torch: InTorch) -> Task:
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
    work = sum(tensor.data_type.bytes_of(tensor.element_count) for tensor in tensors)
    return Task(f"{desc.operator_name} {words}", desc, tensors[0].data_type, work, "B/s", in_torch)


def _pool_members(window: int, stride: int, pad: int) -> dict[str, Any]:
    return {
        "DimensionCount": 2, "Strides": (stride,) * 2, "WindowSize": (window,) * 2, "StartPadding": (pad,) * 2,
        "EndPadding": (pad,) * 2,
    }  # fmt: skip


@bench_tasks("AVERAGE_POOLING_GRAD")
def averages(data_type: DataType, size: int) -> Iterator[Task]:
    """Of windows of 2 x 2 side by side."""
    n, c, h, w = _images(data_type, size)
    means, elements = TensorDesc(data_type, (n, c, h // 2, w // 2)), TensorDesc(data_type, (n, c, h, w))
    desc = operator_desc(
        "AVERAGE_POOLING_GRAD", InputGradientTensor=means, OutputGradientTensor=elements, IncludePadding=False,
        **_pool_members(2, 2, 0),
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        like = inputs[0].new_empty(elements.sizes)
        return torch.ops.aten.avg_pool2d_backward(inputs[0], like, [2, 2], [2, 2], [0, 0], False, False, None)

    yield _task(f"2x2, stride 2, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("MAX_POOLING_GRAD")
def maxima(data_type: DataType, size: int) -> Iterator[Task]:
    """Of windows of 3 x 3 in steps of 2; the maxima are found first, by PyTorch, too."""
    n, c, h, w = _images(data_type, size)
    of_maxima, elements = TensorDesc(data_type, (n, c, h // 2, w // 2)), TensorDesc(data_type, (n, c, h, w))
    desc = operator_desc(
        "MAX_POOLING_GRAD", InputTensor=elements, InputGradientTensor=of_maxima, OutputGradientTensor=elements,
        Dilations=(1, 1), **_pool_members(3, 2, 1),
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x, gradients = inputs
        windows = ([3, 3], [2, 2], [1, 1], [1, 1], False)
        _, indices = torch.ops.aten.max_pool2d_with_indices(x, *windows)
        return torch.ops.aten.max_pool2d_with_indices_backward(gradients, x, *windows, indices)

    yield _task(f"3x3, stride 2, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("LOCAL_RESPONSE_NORMALIZATION_GRAD")
def local_responses(data_type: DataType, size: int) -> Iterator[Task]:
    """Across five channels; PyTorch computes the normalized values first, and the sums of squares are made of these."""
    n, c, h, w = _images(data_type, size)
    tensor = TensorDesc(data_type, (n, c, h, w))
    desc = operator_desc(
        "LOCAL_RESPONSE_NORMALIZATION_GRAD", InputTensor=tensor, InputGradientTensor=tensor,
        OutputGradientTensor=tensor, CrossChannel=True, LocalSize=5, Alpha=1e-4, Beta=0.75, Bias=1.0,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x = inputs[0].detach().requires_grad_()
        normalized = torch.nn.functional.local_response_norm(x, 5, 1e-4, 0.75, 1.0)
        return torch.autograd.grad(normalized, x, inputs[1])[0]

    yield _task(f"of 5 channels, {n}x{c}x{h}x{w}", desc, in_torch)


def _resampled(
    name: str, mode: InterpolationMode, data_type: DataType, size: int, call: str, flags: Sequence[Any]
) -> Task:
    """By 2 along height and width."""
    n, c, h, w = _images(data_type, size // 4)
    values, resampled = TensorDesc(data_type, (n, c, h, w)), TensorDesc(data_type, (n, c, 2 * h, 2 * w))
    offset = 0.5 if name == "RESAMPLE_GRAD" else 0.0
    more = {} if name == "RESAMPLE_GRAD" else {"RoundingDirection": AxisDirection.DECREASING}
    desc = operator_desc(
        name, InputGradientTensor=resampled, OutputGradientTensor=values,
        InterpolationMode=mode, DimensionCount=4, Scales=(1.0, 1.0, 2.0, 2.0),
        InputPixelOffsets=(offset,) * 4, OutputPixelOffsets=(-offset,) * 4, **more,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        backward = getattr(torch.ops.aten, call)
        return backward(inputs[0], [2 * h, 2 * w], [n, c, h, w], *flags, 2.0, 2.0)

    return _task(f"by 2, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("RESAMPLE_GRAD")
def linear(data_type: DataType, size: int) -> Iterator[Task]:
    """Bilinear, between the middles of pixels."""
    yield _resampled(
        "RESAMPLE_GRAD", InterpolationMode.LINEAR, data_type, size, "upsample_bilinear2d_backward", [False]
    )


@bench_tasks("RESAMPLE_GRAD1")
def nearest(data_type: DataType, size: int) -> Iterator[Task]:
    """Nearest elements as PyTorch has them: rounded down, between corners of pixels."""
    yield _resampled(
        "RESAMPLE_GRAD1", InterpolationMode.NEAREST_NEIGHBOR, data_type, size, "upsample_nearest2d_backward", []
    )
