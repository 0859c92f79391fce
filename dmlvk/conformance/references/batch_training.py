"""What batch normalization must give while a network learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.reduction import spacing
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]

_STEP = 2.0**-24  # The largest error of a step in FLOAT32, as a part of its result


def _extended(inputs: Mapping[str, Array], *names: str) -> list[Array]:
    return [inputs[name].astype(np.longdouble) for name in names]


def _bounded(true: Array, error: Array, dtype: np.dtype[Any]) -> Bounded:
    """Within an error, and rounded once to FLOAT32, or then once more to FLOAT16."""
    wide = true.astype(np.float64)
    half = dtype == np.float16
    return Bounded(wide, np.nan_to_num(error.astype(np.float64)) + (0.5 + 2.0**-11 * half) * spacing(wide, dtype))


def _axes(parameters: dml.TensorDesc) -> tuple[int, ...]:
    return tuple(axis for axis, size in enumerate(parameters.sizes) if size == 1)


@reference("BATCH_NORMALIZATION_TRAINING")
def batch_normalization_training(
    desc: dml.BatchNormalizationTraining, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """The formula in extended precision."""
    dtype = np.dtype(inputs["InputTensor"].dtype)
    x, scale, bias = _extended(inputs, "InputTensor", "ScaleTensor", "BiasTensor")
    axes = _axes(desc.scale_tensor)
    with np.errstate(all="ignore"):
        mean = x.mean(axis=axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        factor = scale / np.sqrt(variance + np.longdouble(np.float32(desc.epsilon)))
        product = (x - mean) * factor
        result = product + bias
        magnitude = np.abs(x).mean(axis=axes, keepdims=True)
        error = 8 * _STEP * np.abs(product) + 2.0**-40 * magnitude * np.abs(factor)
        if "FusedAddTensor" in inputs:
            error = error + 8 * _STEP * np.abs(result)
            result = result + inputs["FusedAddTensor"].astype(np.longdouble)
        activated = _activated(desc, _bounded(result, error, dtype))
        return {
            "OutputTensor": activated,
            "OutputMeanTensor": _bounded(mean, 2.0**-40 * magnitude + 2.0**-102, dtype),
            "OutputVarianceTensor": _bounded(variance, 2.0**-40 * (variance + magnitude * magnitude * 2.0**-40), dtype),
        }


def _activated(desc: dml.BatchNormalizationTraining, results: Bounded) -> Bounded:
    """Behind an activation that does not enlarge errors."""
    if desc.activation is None:
        return results
    if desc.activation.operator_name == "ACTIVATION_RELU":
        return Bounded(np.maximum(results.values, 0), results.bound)
    assert desc.activation.operator_name == "ACTIVATION_LEAKY_RELU"
    slope = float(np.float32({field.name: value for field, value in desc.activation.attributes}["Alpha"]))
    values = np.where(results.values < 0, slope * results.values, results.values)
    return Bounded(values, results.bound + 2.0**-11 * np.abs(values))


@reference("BATCH_NORMALIZATION_TRAINING_GRAD")
def batch_normalization_training_grad(
    desc: dml.BatchNormalizationTrainingGrad, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """The formula in extended precision."""
    dtype = np.dtype(inputs["InputTensor"].dtype)
    x, gradient, given, variance, scale = _extended(
        inputs, "InputTensor", "InputGradientTensor", "MeanTensor", "VarianceTensor", "ScaleTensor"
    )
    axes = _axes(desc.mean_tensor)

    def mean(numbers: Array) -> Array:
        return np.asarray(numbers.mean(axis=axes, keepdims=True))

    with np.errstate(all="ignore"):
        shifted = variance + np.longdouble(np.float32(desc.epsilon))
        factor = scale / np.sqrt(shifted)
        distance = x - mean(x)
        product = gradient * distance
        slope = mean(product) / shifted
        result = factor * (gradient - mean(gradient) - distance * slope)
        total = gradient.sum(axis=axes, keepdims=True)
        of_scale = (gradient * (x - given)).sum(axis=axes, keepdims=True) / np.sqrt(shifted)
        # What rounded steps, and sums in two words, may be off by.
        off = 2.0**-40 * mean(np.abs(x))
        of_products = 4 * _STEP * mean(np.abs(product)) + off * mean(np.abs(gradient))
        error = 8 * _STEP * (np.abs(gradient) + mean(np.abs(gradient)) + np.abs(distance * slope))
        error = np.abs(factor) * (error + off * np.abs(slope) + np.abs(distance) * of_products / shifted)
        count = x.size // given.size
        between = np.abs(mean(x) - given) * np.abs(total)
        of_scale_error = (count * of_products + 8 * _STEP * (between + np.abs(total) * off)) / np.sqrt(shifted)
        of_scale_error = of_scale_error + 8 * _STEP * np.abs(of_scale)
        return {
            "OutputGradientTensor": _bounded(result, error, dtype),
            "OutputScaleGradientTensor": _bounded(of_scale, of_scale_error, dtype),
            "OutputBiasGradientTensor": _bounded(total, 2.0**-40 * count * mean(np.abs(gradient)), dtype),
        }
