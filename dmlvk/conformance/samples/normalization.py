"""Samples of operators that shift and scale elements by a mean and a variance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sample, sampler

Array = npt.NDArray[Any]


def special_values(dtype: np.dtype[Any]) -> Array:
    """Zeros, denormals, the ends of the range, infinities and NaN of a float type."""
    info = np.finfo(dtype)
    tiny, least, largest = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    positive = [0.0, least, tiny / 2, tiny, 3 * tiny, 1.0, 1.5, 60000.0, largest, np.inf]
    return np.array([*positive, *(-value for value in positive), np.nan], dtype)


@sampler("BATCH_NORMALIZATION")
def batch_normalization(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters for each channel, for all elements, for each; special values; activations."""
    data_type = types["input_tensor"]
    dtype = data_type.numpy_dtype

    def normalized(name: str, arrays: Sequence[Array], epsilon: float = 1e-5, fused: Any = None) -> Sample:
        names = ("input_tensor", "mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
        inputs = dict(zip(names, arrays, strict=True))
        members = {"spatial": True, "epsilon": epsilon, "fused_activation": fused}
        return sample(name, "BATCH_NORMALIZATION", types, inputs, **members)

    def numbers(*sizes: int) -> Array:
        return random.normal(0, 2, sizes).astype(dtype)

    def operands(*sizes: Sequence[int]) -> list[Array]:
        arrays = [numbers(*each) for each in sizes]
        arrays[2] = np.abs(arrays[2])
        return arrays

    channel = (1, 5, 1, 1)
    by_channel = operands((2, 5, 6, 8), channel, channel, channel, channel)
    yield normalized("by channel", by_channel)
    relu = dml.FusedActivation(dml.ActivationRelu)
    yield normalized("by channel, relu", by_channel, fused=relu)
    yield normalized("by channel, sigmoid", by_channel, fused=dml.FusedActivation(dml.ActivationSigmoid))
    yield normalized("by anything", operands((2, 3, 5, 7), (2, 1, 1, 7), (1, 3, 1, 1), (2, 3, 5, 7), (1, 1, 5, 1)))
    special = special_values(dtype)
    count = len(special)
    every = special.reshape(1, 1, 1, count)
    mean, bias = (random.permutation(special).reshape(1, count, 1, 1) for _ in range(2))
    values = np.broadcast_to(every, (1, count, 3, count)).copy()
    yield normalized("special values", [values, mean, every, every[..., ::-1].copy(), bias], 0.0)
    ones = np.ones(channel, dtype)
    yield normalized("special inputs", [values[:, :5], 0 * ones, ones, ones, 0 * ones], 0.0)


def _mean_variance_sample(
    operator: str, name: str, types: Types, arrays: Sequence[Array | None], **attributes: Any
) -> Sample:
    names = ("input_tensor", "scale_tensor", "bias_tensor")
    given = {member: array for member, array in zip(names, arrays, strict=True) if array is not None}
    return sample(name, operator, types, given, **attributes)


@sampler("MEAN_VARIANCE_NORMALIZATION")
def mean_variance_normalization(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Each image and each batch, with and without what is optional."""
    dtype = types["input_tensor"].numpy_dtype
    x = random.normal(3, 2, (2, 3, 5, 7)).astype(dtype)
    scale, bias = (random.normal(0, 1, sizes).astype(dtype) for sizes in ((1, 3, 1, 1), (1, 1, 1, 7)))
    relu = dml.FusedActivation(dml.ActivationRelu)
    for name, arrays, cross, variance, fused in (
        ("images", (x, scale, bias), False, True, None),
        ("batches, relu", (x, None, bias), True, True, relu),
        ("means only", (x, scale, None), False, False, None),
    ):
        attributes = {"cross_channel": cross, "normalize_variance": variance, "fused_activation": fused}
        yield _mean_variance_sample("MEAN_VARIANCE_NORMALIZATION", name, types, arrays, epsilon=1e-5, **attributes)


@sampler("MEAN_VARIANCE_NORMALIZATION1")
def mean_variance_normalization_1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows of large means and small deviations, equal numbers, columns."""
    dtype = types["input_tensor"].numpy_dtype
    x = random.normal(0, 1, (6, 2, 5, 9)).astype(dtype)
    x[1] = x[1] * dtype.type(0.25) + dtype.type(1000)
    x[2] = 7
    x[3] = x[3] * dtype.type(0.0078125)
    scale, bias = (random.normal(0, 1, (1, 1, 5, 9)).astype(dtype) for _ in range(2))
    for name, axes in (("rows", (2, 3)), ("columns", (0, 2))):
        attributes = {"axes": axes, "normalize_variance": True, "epsilon": 1e-5}
        yield _mean_variance_sample("MEAN_VARIANCE_NORMALIZATION1", name, types, (x, scale, bias), **attributes)


@sampler("MEAN_VARIANCE_NORMALIZATION2")
def mean_variance_normalization_2(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    dtype = types["input_tensor"].numpy_dtype
    x = random.normal(2, 1, (4, 35)).astype(dtype)
    scale = random.normal(0, 1, (1, 35)).astype(dtype)
    for mean, variance in ((True, True), (False, True), (True, False), (False, False)):
        attributes = {"axes": (1,), "use_mean": mean, "use_variance": variance, "epsilon": 1e-6}
        name = f"mean {mean}, variance {variance}"
        yield _mean_variance_sample("MEAN_VARIANCE_NORMALIZATION2", name, types, (x, scale, None), **attributes)


@sampler("LP_NORMALIZATION")
def lp_normalization(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Both norms, of rows and columns, with rows of zeros, of small and large numbers."""
    data_type = types["input_tensor"]
    x = random.normal(0, 1, (3, 4, 5, 7)).astype(data_type.numpy_dtype)
    x[0, 1] = 0
    x[1, 2] *= 100
    x[2] *= data_type.numpy_dtype.type(0.01)
    for norm, axis in ((1, 3), (2, 1)):
        members = {"axis": axis, "epsilon": 1e-5, "p": norm}
        yield sample(f"P {norm}, axis {axis}", "LP_NORMALIZATION", types, {"input_tensor": x}, **members)


GRADIENT_INPUTS = ("input_tensor", "input_gradient_tensor", "mean_tensor", "variance_tensor", "scale_tensor")


def gradient_desc(
    kind: type[dml.BatchNormalizationGrad] | type[dml.BatchNormalizationTrainingGrad],
    large: dml.TensorDesc,
    small: dml.TensorDesc,
    epsilon: float,
) -> dml.BatchNormalizationGrad | dml.BatchNormalizationTrainingGrad:
    """The gradient of a batch normalization of ``large`` values, whose parameters are ``small``."""
    return kind(
        input_tensor=large,
        input_gradient_tensor=large,
        mean_tensor=small,
        variance_tensor=small,
        scale_tensor=small,
        output_gradient_tensor=large,
        output_scale_gradient_tensor=small,
        output_bias_gradient_tensor=small,
        epsilon=epsilon,
    )


@sampler("BATCH_NORMALIZATION_GRAD")
def batch_normalization_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters for each channel, for all elements, for each, for lines; infinities and NaN."""
    data_type = types["input_tensor"]
    dtype = data_type.numpy_dtype
    for name, sizes, parameters in (
        ("by channel", (2, 5, 6, 8), (1, 5, 1, 1)),
        ("one for all", (300, 7), (1, 1)),
        ("one for each", (3, 4), (3, 4)),
        ("by lines", (2, 3, 2, 3, 2), (2, 1, 2, 1, 2)),
        ("not finite", (2, 5, 6, 8), (1, 5, 1, 1)),
        ("one for each, not ordinary", (3, 4), (3, 4)),
    ):
        x, gradient = (random.normal(0, 2, sizes).astype(dtype) for _ in range(2))
        mean, variance, scale = (random.normal(0, 2, parameters).astype(dtype) for _ in range(3))
        if name == "not finite":
            gradient[0, 0, 0, 0], gradient[1, 2, 3, 4], x[0, 1, 2, 3], x[0, 4, 0, 0] = np.inf, np.nan, -np.inf, -0.0
        if name == "one for each, not ordinary":
            least = np.finfo(dtype).smallest_subnormal
            gradient[0], gradient[1, :2], x[2, :2] = (3 * least, -least, -0.0, np.inf), np.nan, (5 * least, np.inf)
        arrays = (x, gradient, mean, np.abs(variance), scale)
        inputs = dict(zip(GRADIENT_INPUTS, arrays, strict=True))
        yield sample(name, "BATCH_NORMALIZATION_GRAD", types, inputs, epsilon=1e-5)
