"""What operators must give that move parameters along their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references import arithmetic
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values

Array = npt.NDArray[Any]


def _correction(beta: float, step: int) -> Array:
    """1 - beta^step with fifty decimal digits, rounded once."""
    with localcontext() as context:
        context.prec = 50
        kept = Decimal(float(np.float32(beta)))
        return np.array([float(1 - kept**step if step else 0)], np.float32)


def _step(number: Array) -> int:
    value = number.reshape(-1)[0]
    if number.dtype.kind == "u":
        return int(value)
    return 0 if np.isnan(value) or value < 0 else int(min(float(value), 2.0**32 - 1))


@reference("ADAM_OPTIMIZER")
def adam_optimizer(desc: dml.AdamOptimizer, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The steps as the element-wise operators take them, in FLOAT32."""
    names = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
    parameters, first, second, gradient = (inputs[name].astype(np.float32) for name in names)
    dtype = inputs["GradientTensor"].dtype

    def add(a: Array, b: Array) -> Array:
        return arithmetic.add(desc, *np.broadcast_arrays(a, b))

    def multiply(a: Array, b: Array) -> Array:
        return arithmetic.multiply(desc, *np.broadcast_arrays(a, b))

    def divide(a: Array, b: Array) -> Array:
        return arithmetic.divide(desc, *np.broadcast_arrays(a, b))

    def root(a: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return arithmetic.rounded_as(a, np.sqrt(arithmetic_values(a)))

    one = np.ones(1, np.float32)
    beta_1, beta_2, rate, epsilon = (
        np.array([number], np.float32) for number in (desc.beta1, desc.beta2, desc.learning_rate, desc.epsilon)
    )
    first = add(multiply(beta_1, first), multiply(one - beta_1, gradient))
    second = add(multiply(beta_2, second), multiply(multiply(one - beta_2, gradient), gradient))
    step = _step(inputs["TrainingStepTensor"])
    rate = multiply(rate, divide(root(_correction(desc.beta2, step)), _correction(desc.beta1, step)))
    moved = divide(multiply(rate, first), add(root(second), epsilon))
    parameters = arithmetic.subtract(desc, *np.broadcast_arrays(parameters, moved))
    with np.errstate(over="ignore"):
        return {
            "OutputParametersTensor": parameters.astype(dtype),
            "OutputFirstMomentTensor": first.astype(dtype),
            "OutputSecondMomentTensor": second.astype(dtype),
        }
