"""What a network does while it learns, timed beside what PyTorch takes for the same work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.task import Array, Task, images, moving
from dmlvk.datatypes import DataType
from dmlvk.operators import operator_desc
from dmlvk.tensors import TensorDesc


@bench_tasks("ADAM_OPTIMIZER")
def adam(data_type: DataType, size: int) -> Iterator[Task]:
    """One step of many parameters; PyTorch's fused kernel works in place."""
    count = max(1, size // data_type.size_in_bytes)
    tensor = TensorDesc(data_type, (count,))
    names = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
    outputs = ("OutputParametersTensor", "OutputFirstMomentTensor", "OutputSecondMomentTensor")
    desc = operator_desc(
        "ADAM_OPTIMIZER", **dict.fromkeys((*names, *outputs), tensor),
        TrainingStepTensor=TensorDesc(DataType.UINT32, (1,)), LearningRate=1e-3, Beta1=0.9, Beta2=0.999, Epsilon=1e-8,
    )  # fmt: skip

    def others(random: np.random.Generator) -> Mapping[str, Array]:
        squares = np.square(random.standard_normal(tensor.sizes, np.float32)).astype(data_type.numpy_dtype)
        return {"InputSecondMomentTensor": squares, "TrainingStepTensor": np.array([1000], np.uint32)}

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        parameters, first, second, gradient, step = inputs
        torch._fused_adam_(
            [parameters], [gradient], [first], [second], [], [step.to(torch.float32)[0]], lr=1e-3, beta1=0.9,
            beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        return parameters

    yield moving(f"of {count}", desc, in_torch, others=others)


def _batch(data_type: DataType, size: int) -> tuple[TensorDesc, TensorDesc, str]:
    """A batch of images, what has a number for each channel, and the former in words."""
    sizes = images(data_type, size)
    return TensorDesc(data_type, sizes), TensorDesc(data_type, (1, sizes[1], 1, 1)), "x".join(map(str, sizes))


@bench_tasks("BATCH_NORMALIZATION_TRAINING")
def batch_normalization(data_type: DataType, size: int) -> Iterator[Task]:
    """By the batch's own mean and variance."""
    batch, channel, words = _batch(data_type, size)
    desc = operator_desc(
        "BATCH_NORMALIZATION_TRAINING", InputTensor=batch, ScaleTensor=channel, BiasTensor=channel,
        OutputTensor=batch, OutputMeanTensor=channel, OutputVarianceTensor=channel, Epsilon=1e-5,
    )  # fmt: skip

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x, scale, bias = inputs
        return torch.nn.functional.batch_norm(x, None, None, scale.reshape(-1), bias.reshape(-1), True, 0.1, 1e-5)

    yield moving(words, desc, in_torch)


@bench_tasks("BATCH_NORMALIZATION_TRAINING_GRAD")
def batch_gradients(data_type: DataType, size: int) -> Iterator[Task]:
    """Of a batch of mean 0 and variance 1."""
    batch, channel, words = _batch(data_type, size)
    desc = operator_desc(
        "BATCH_NORMALIZATION_TRAINING_GRAD", InputTensor=batch, InputGradientTensor=batch, MeanTensor=channel,
        VarianceTensor=channel, ScaleTensor=channel, OutputGradientTensor=batch, OutputScaleGradientTensor=channel,
        OutputBiasGradientTensor=channel, Epsilon=1e-5,
    )  # fmt: skip

    def others(random: np.random.Generator) -> Mapping[str, Array]:
        dtype = data_type.numpy_dtype
        return {"MeanTensor": np.zeros(channel.sizes, dtype), "VarianceTensor": np.ones(channel.sizes, dtype)}

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        x, gradient, mean, variance, scale = inputs
        mean, inverse, scale = mean.reshape(-1), (variance.reshape(-1) + 1e-5).rsqrt(), scale.reshape(-1)
        return torch.ops.aten.native_batch_norm_backward(
            gradient, x, scale.float(), None, None, mean.float(), inverse.float(), True, 1e-5, [True, True, True]
        )[0]

    yield moving(words, desc, in_torch, others=others)
