"""Samples of batch normalization while a network learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.conformance.samples.normalization import gradient_desc

Array = npt.NDArray[Any]


@sampler("BATCH_NORMALIZATION_TRAINING")
def batch_normalization_training(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """By channel, for all elements, by lines; large means, equal numbers, infinities and NaN; activations."""
    data_type = types["input_tensor"]
    dtype = data_type.numpy_dtype
    leaky = dml.FusedActivation(dml.ActivationLeakyRelu, alpha=0.5)
    for name, sizes, parameters, has_added, fused in (
        ("by channel", (2, 5, 6, 8), (1, 5, 1, 1), False, None),
        ("one for all, added, relu", (300, 7), (1, 1), True, dml.FusedActivation(dml.ActivationRelu)),
        ("by lines, leaky relu", (2, 3, 2, 3, 2), (2, 1, 2, 1, 2), False, leaky),
    ):
        x = random.normal(0, 2, sizes).astype(dtype)
        scale, bias = (random.normal(0, 1, parameters).astype(dtype) for _ in range(2))
        if name == "by channel":
            x[:, 1] = x[:, 1] * dtype.type(0.125) + dtype.type(1000)
            x[:, 2] = dtype.type(1.1)
            x[0, 3, 0, 0], x[1, 4, 2, 3] = np.inf, np.nan
        large, small = dml.TensorDesc(data_type, sizes), dml.TensorDesc(data_type, parameters)
        desc = dml.BatchNormalizationTraining(
            input_tensor=large,
            scale_tensor=small,
            bias_tensor=small,
            fused_add_tensor=large if has_added else None,
            output_tensor=large,
            output_mean_tensor=small,
            output_variance_tensor=small,
            epsilon=1e-3,
            fused_activation=fused,
        )
        inputs = {"InputTensor": x, "ScaleTensor": scale, "BiasTensor": bias}
        if has_added:
            inputs["FusedAddTensor"] = random.normal(0, 3, sizes).astype(dtype)
        yield Sample(name, desc, inputs)


@sampler("BATCH_NORMALIZATION_TRAINING_GRAD")
def batch_normalization_training_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """By channel, for all elements, by lines; large means, equal numbers, gradients that are infinite or NaN."""
    data_type = types["input_tensor"]
    dtype = data_type.numpy_dtype
    for name, sizes, parameters in (
        ("by channel", (2, 5, 6, 8), (1, 5, 1, 1)),
        ("one for all", (300, 7), (1, 1)),
        ("by lines", (2, 3, 2, 3, 2), (2, 1, 2, 1, 2)),
    ):
        x, gradient = (random.normal(0, 2, sizes).astype(dtype) for _ in range(2))
        scale = random.normal(0, 1, parameters).astype(dtype)
        axes = tuple(axis for axis, size in enumerate(parameters) if size == 1)
        if name == "by channel":
            x[:, 1] = x[:, 1] * dtype.type(0.125) + dtype.type(1000)
            x[:, 2] = dtype.type(1.1)
            gradient[0, 3, 0, 0], gradient[1, 4, 2, 3] = np.inf, np.nan
        mean, variance = (
            np.asarray(made(x.astype(np.float64), axis=axes, keepdims=True)).astype(dtype) for made in (np.mean, np.var)
        )
        large, small = dml.TensorDesc(data_type, sizes), dml.TensorDesc(data_type, parameters)
        desc = gradient_desc(dml.BatchNormalizationTrainingGrad, large, small, 1e-3)
        names = ("InputTensor", "InputGradientTensor", "MeanTensor", "VarianceTensor", "ScaleTensor")
        yield Sample(name, desc, dict(zip(names, (x, gradient, mean, variance, scale), strict=True)))
