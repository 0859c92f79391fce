"""The references around the exponential function give known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references import expected_output

Array = npt.NDArray[Any]

_E = 2.718281828459045


def _tensor(x: Array) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType.from_name(x.dtype.name.upper()), x.shape)


def _true(name: str, values: list[float], dtype: type[np.floating[Any]] = np.float32, **attributes: Any) -> list[float]:
    x = np.array(values, dtype)
    tensor = _tensor(x)
    desc = dml.operator_desc(name, InputTensor=tensor, OutputTensor=tensor, **attributes)
    result: list[float] = expected_output(desc, [x]).tolist()
    return result


def _is(got: float, expected: float) -> bool:
    """Equal to within 2**-48, zeros with their signs."""
    if math.isnan(expected) or expected == 0 or math.isinf(expected):
        return math.isnan(got) if math.isnan(expected) else got == expected and str(got) == str(expected)
    return math.isclose(got, expected, rel_tol=2.0**-48)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 1.0), (-0.0, 1.0), (1e-40, 1.0), (1.0, _E), (-1.0, 1 / _E), (0.5, 1.6487212707001282),
        (10.0, 22026.465794806718), (-87.0, 1.6458114310822737e-38), (1000.0, math.inf), (-1000.0, 0.0),
        (math.inf, math.inf), (-math.inf, 0.0), (math.nan, math.nan),
    ],
)  # fmt: skip
def test_exponential(x: float, expected: float) -> None:
    assert _is(_true("ELEMENT_WISE_EXP", [x])[0], expected)


def test_exponential_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(_true("ELEMENT_WISE_EXP", [4.0], ScaleBias=half)[0], _E)
    # 1 + 2**-24 is 1 in float32 and 2**-24 itself a denormal of float16, which counts.
    assert _is(_true("ELEMENT_WISE_EXP", [2.0**-24], ScaleBias=dml.ScaleBias(1.0, 1.0))[0], _E)
    assert _is(_true("ELEMENT_WISE_EXP", [2.0**-24], np.float16)[0], 1 + 2.0**-24 + 2.0**-49)
