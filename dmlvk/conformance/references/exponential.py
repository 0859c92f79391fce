"""True values of the operators around the exponential function, in float64.

NumPy's functions of float64 stand for the true values: they are within a few units of float64's last place, 2**-51,
while results are judged in units of float32's, 2**-23.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]


def exponential(desc: dml.ElementWiseExp, x: Array) -> Float64Array:
    """NumPy's exp; infinite beyond float64, which is far beyond float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        true: Float64Array = np.exp(arithmetic_values(prescaled(x, desc.scale_bias)))
    return true
