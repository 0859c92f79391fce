"""What each operator's result must be.

References follow the declarations' formulas and decisions, but not the shaders' ways: numbers are decoded into float64,
which holds every float32 and float16 exactly, or into int64, and compared and computed as numbers there.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import facets
from dmlvk.conformance.references.registry import REFERENCES

Array = npt.NDArray[Any]


def has_true_values(desc: dml.OperatorDesc) -> bool:
    """Whether the reference gives true values: of floats of class «accurate», whose last bit no definition settles."""
    return desc.accuracy.promise == "accurate" and desc.output_type.is_float


def expected_output(desc: dml.OperatorDesc, inputs: list[Array]) -> Array:
    """What the operator must give for logical input arrays, in the order of its input members that are given.

    The output itself; or, where :func:`has_true_values`, the true values in float64.

    Raises:
        FacetError: when the operator has no reference, or it fails, or gives another type.
    """
    name, compute = desc.operator_name, REFERENCES.get(desc.operator_name)
    if compute is None:
        raise facets.missing(name, "reference", "dmlvk/conformance/references")
    given = compute
    output: Array = facets.result_of(name, "reference", lambda: given(desc, *inputs))
    wanted = desc.output_type.numpy_dtype
    if not has_true_values(desc) and output.dtype != wanted:
        raise facets.fault(name, "reference", f"gives {output.dtype}; the output is {np.dtype(wanted)}")
    return output


for _module in pkgutil.iter_modules(__path__):  # each declares references of its own
    importlib.import_module(f"{__name__}.{_module.name}")
