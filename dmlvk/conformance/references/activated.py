"""What a fused activation must make of an operator's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import fused_operator

Array = npt.NDArray[Any]


def activated(desc: dml.OperatorDesc, results: Array) -> Expected:
    """What the activation's own reference makes of a tensor of such results; without one, the results."""
    # The table of all references is made of modules that use this one.
    from dmlvk.conformance.references import expected_output, has_true_values

    alone = fused_operator(desc, results)
    if alone is None:
        return results
    expected = expected_output(alone, [results])
    if not has_true_values(alone):
        return expected
    half = results.dtype == np.float16
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = np.abs(expected.astype(results.dtype)).astype(np.float64)
    smallest = 2.0**-24 if half else 2.0**-126
    spacing = np.maximum(np.where(np.isfinite(nearest), nearest, 0.0) * 2.0 ** (-10 if half else -23), smallest)
    return Bounded(expected, alone.accuracy.maximum_ulp * spacing + (0.5 * spacing if half else 0.0))
