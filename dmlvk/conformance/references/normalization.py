"""What operators must give that shift and scale elements by a mean and a variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references import arithmetic
from dmlvk.conformance.references.activated import activated
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.reduction import spacing
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values

Array = npt.NDArray[Any]


@reference("BATCH_NORMALIZATION")
def batch_normalization(desc: dml.BatchNormalization, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The steps as the element-wise operators take them, in FLOAT32."""
    names = ("InputTensor", "MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    x, mean, variance, scale, bias = (inputs[name].astype(np.float32) for name in names)
    shifted = arithmetic.add(desc, variance, np.full_like(variance, desc.epsilon))
    with np.errstate(invalid="ignore"):
        root = arithmetic.rounded_as(shifted, np.sqrt(arithmetic_values(shifted)))
    factor = arithmetic.divide(desc, *np.broadcast_arrays(scale, root))
    difference = arithmetic.subtract(desc, *np.broadcast_arrays(x, mean))
    product = arithmetic.multiply(desc, *np.broadcast_arrays(difference, factor))
    total = arithmetic.add(desc, *np.broadcast_arrays(product, bias))
    dtype = inputs["InputTensor"].dtype
    with np.errstate(over="ignore"):
        return {"OutputTensor": activated(desc, total.astype(dtype))}


def _normalization_axes(
    desc: dml.MeanVarianceNormalization | dml.MeanVarianceNormalization1 | dml.MeanVarianceNormalization2,
) -> tuple[int, ...]:
    if isinstance(desc, dml.MeanVarianceNormalization):
        return (1, 2, 3) if desc.cross_channel else (2, 3)
    return tuple(desc.axes)


@reference("MEAN_VARIANCE_NORMALIZATION2", "MEAN_VARIANCE_NORMALIZATION1", "MEAN_VARIANCE_NORMALIZATION")
def mean_variance_normalization(
    desc: dml.MeanVarianceNormalization | dml.MeanVarianceNormalization1 | dml.MeanVarianceNormalization2,
    inputs: Mapping[str, Array],
) -> Mapping[str, Expected]:
    """The formula in extended precision."""
    x = inputs["InputTensor"].astype(np.longdouble)
    has_mean = getattr(desc, "use_mean", True)
    has_variance = desc.use_variance if hasattr(desc, "use_variance") else desc.normalize_variance
    along = _normalization_axes(desc)
    with np.errstate(all="ignore"):
        mean = x.mean(axis=along, keepdims=True) if has_mean else np.zeros_like(x)
        factor = np.ones_like(x)
        if has_variance:
            variance = ((x - mean) ** 2).mean(axis=along, keepdims=True)
            factor = 1 / np.sqrt(variance + np.longdouble(desc.epsilon)) * factor
        if "ScaleTensor" in inputs:
            factor = factor * inputs["ScaleTensor"]
        product = (x - mean) * factor
        result = product + inputs["BiasTensor"] if "BiasTensor" in inputs else product
        magnitude = np.abs(x).mean(axis=along, keepdims=True) if has_mean else 0
        error = 4 * 2.0**-23 * np.abs(product) + 2.0**-40 * magnitude * np.abs(factor)
    dtype = inputs["InputTensor"].dtype
    true = result.astype(np.float64)
    half = dtype == np.float16
    bound = error.astype(np.float64) + (0.5 + 2.0**-11 * half) * spacing(true, np.dtype(dtype))
    if desc.activation is None:
        return {"OutputTensor": Bounded(true, bound)}
    assert desc.activation.operator_name == "ACTIVATION_RELU"  # which does not enlarge errors
    return {"OutputTensor": Bounded(np.maximum(true, 0), bound)}


@reference("LP_NORMALIZATION")
def lp_normalization(desc: dml.LpNormalization, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The quotient in extended precision."""
    x = inputs["InputTensor"].astype(np.longdouble)
    powers = np.abs(x) if desc.p == 1 else x * x
    norm = powers.sum(axis=desc.axis, keepdims=True)
    norm = np.maximum(norm if desc.p == 1 else np.sqrt(norm), np.longdouble(desc.epsilon))
    with np.errstate(invalid="ignore"):
        true = (x / norm).astype(np.float64)
    dtype = np.dtype(inputs["InputTensor"].dtype)
    return {"OutputTensor": Bounded(true, (0.6 if dtype == np.float16 else 1.5) * spacing(true, dtype))}


@reference("BATCH_NORMALIZATION_GRAD")
def batch_normalization_grad(desc: dml.BatchNormalizationGrad, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The steps of elements in FLOAT32, and their sums in float64."""
    names = ("InputTensor", "InputGradientTensor", "MeanTensor", "VarianceTensor", "ScaleTensor")
    x, gradient, mean, variance, scale = (inputs[name].astype(np.float32) for name in names)
    dtype = np.dtype(inputs["InputTensor"].dtype)
    shifted = arithmetic.add(desc, variance, np.full_like(variance, desc.epsilon))
    with np.errstate(invalid="ignore"):
        root = arithmetic.rounded_as(shifted, np.sqrt(arithmetic_values(shifted)))
    factor = arithmetic.divide(desc, scale, root)
    result = arithmetic.multiply(desc, *np.broadcast_arrays(gradient, factor))
    terms = arithmetic.multiply(desc, gradient, arithmetic.subtract(desc, *np.broadcast_arrays(x, mean)))
    axes = tuple(axis for axis, size in enumerate(desc.mean_tensor.sizes) if size == 1)

    def total(numbers: Array, divisor: Array) -> Bounded:
        wide = numbers.astype(np.float64)
        with np.errstate(all="ignore"):
            wide = np.where(np.abs(wide) < 2.0**-126, 0.0, wide)
            true = wide.sum(axis=axes, keepdims=True) / divisor
            magnitudes = np.abs(wide).sum(axis=axes, keepdims=True) / divisor
        # The sum and the quotient are rounded to FLOAT32 each, and FLOAT16 results once more.
        bound = 2 * spacing(true, np.dtype(np.float32)) + 2.0**-40 * np.nan_to_num(magnitudes, posinf=0.0)
        return Bounded(true, bound + (0.5 * spacing(true, dtype) if dtype == np.float16 else 0.0))

    with np.errstate(over="ignore"):
        return {
            "OutputGradientTensor": result.astype(dtype),
            "OutputScaleGradientTensor": total(terms, root.astype(np.float64)),
            "OutputBiasGradientTensor": total(gradient, np.ones(root.shape)),
        }
