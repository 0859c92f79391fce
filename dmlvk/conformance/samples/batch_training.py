"""Samples of batch normalization while a network learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.normalization import GRADIENT_INPUTS

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
        inputs = {"input_tensor": x, "scale_tensor": scale, "bias_tensor": bias}
        if has_added:
            inputs["fused_add_tensor"] = random.normal(0, 3, sizes).astype(dtype)
        members = {"epsilon": 1e-3, "fused_activation": fused}
        yield sample(name, "BATCH_NORMALIZATION_TRAINING", types, inputs, **members)


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
        inputs = dict(zip(GRADIENT_INPUTS, (x, gradient, mean, variance, scale), strict=True))
        yield sample(name, "BATCH_NORMALIZATION_TRAINING_GRAD", types, inputs, epsilon=1e-3)
