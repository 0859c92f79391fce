"""The true values of logarithms and powers, from float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]


def logarithm(desc: dml.ElementWiseLog, x: Array) -> Float64Array:
    """NumPy's logarithm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        true: Float64Array = np.log(arithmetic_values(prescaled(x, desc.scale_bias)))
    return true
