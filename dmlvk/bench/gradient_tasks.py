"""Gradients that are timed, beside what PyTorch's own backward functions take for the same work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.task import Task, described, images, moving, pool_members
from dmlvk.datatypes import DataType
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.resampling import InterpolationMode


@bench_tasks("AVERAGE_POOLING_GRAD")
def averages(data_type: DataType, size: int) -> Iterator[Task]:
    """Of windows of 2 x 2 side by side."""
    n, c, h, w = images(data_type, size)
    means, members = {"InputGradientTensor": (n, c, h // 2, w // 2)}, pool_members(2, 2, 0)
    desc = described(
        "AVERAGE_POOLING_GRAD", data_type, means, OutputGradientTensor=(n, c, h, w), IncludePadding=False, **members
    )

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        like = inputs[0].new_empty((n, c, h, w))
        return torch.ops.aten.avg_pool2d_backward(inputs[0], like, [2, 2], [2, 2], [0, 0], False, False, None)

    yield moving(f"2x2, stride 2, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("MAX_POOLING_GRAD")
def maxima(data_type: DataType, size: int) -> Iterator[Task]:
    """Of windows of 3 x 3 in steps of 2; the maxima are found first, by PyTorch, too."""
    n, c, h, w = images(data_type, size)
    sizes, members = {"InputTensor": (n, c, h, w), "InputGradientTensor": (n, c, h // 2, w // 2)}, pool_members(3, 2, 1)
    desc = described("MAX_POOLING_GRAD", data_type, sizes, Dilations=(1, 1), **members)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x, gradients = inputs
        windows = ([3, 3], [2, 2], [1, 1], [1, 1], False)
        _, indices = torch.ops.aten.max_pool2d_with_indices(x, *windows)
        return torch.ops.aten.max_pool2d_with_indices_backward(gradients, x, *windows, indices)

    yield moving(f"3x3, stride 2, {n}x{c}x{h}x{w}", desc, in_torch)


@bench_tasks("LOCAL_RESPONSE_NORMALIZATION_GRAD")
def local_responses(data_type: DataType, size: int) -> Iterator[Task]:
    """Across five channels; PyTorch computes the normalized values first, and the sums of squares are made of these."""
    n, c, h, w = images(data_type, size)
    sizes = dict.fromkeys(("InputTensor", "InputGradientTensor"), (n, c, h, w))
    members = {"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1.0}
    desc = described("LOCAL_RESPONSE_NORMALIZATION_GRAD", data_type, sizes, **members)

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x = inputs[0].detach().requires_grad_()
        normalized = torch.nn.functional.local_response_norm(x, 5, 1e-4, 0.75, 1.0)
        return torch.autograd.grad(normalized, x, inputs[1])[0]

    yield moving(f"of 5 channels, {n}x{c}x{h}x{w}", desc, in_torch)


def _resampled(
    name: str, mode: InterpolationMode, data_type: DataType, size: int, call: str, flags: Sequence[Any]
) -> Task:
    """By 2 along height and width."""
    n, c, h, w = images(data_type, size // 4)
    offset = 0.5 if name == "RESAMPLE_GRAD" else 0.0
    more = {} if name == "RESAMPLE_GRAD" else {"RoundingDirection": AxisDirection.DECREASING}
    desc = described(
        name, data_type, {"InputGradientTensor": (n, c, 2 * h, 2 * w)}, OutputGradientTensor=(n, c, h, w),
        InterpolationMode=mode, Scales=(1.0, 1.0, 2.0, 2.0), InputPixelOffsets=(offset,) * 4,
        OutputPixelOffsets=(-offset,) * 4, **more,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        backward = getattr(torch.ops.aten, call)
        return backward(inputs[0], [2 * h, 2 * w], [n, c, h, w], *flags, 2.0, 2.0)

    return moving(f"by 2, {n}x{c}x{h}x{w}", desc, in_torch)


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
