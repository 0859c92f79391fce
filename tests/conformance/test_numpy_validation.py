"""NumPy's own validation sets for its functions, run through dmlvk on every device.

NumPy ships lists of float32 inputs with results that were computed in higher precision, and the distance in units in
the last place that each of its own functions must keep. dmlvk must keep it too: for every row of every function that is
an operator. Only denormals are another matter: as inputs and as results they are zeros by the numeric contract.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.operators import OPERATORS

Float32Array = npt.NDArray[np.float32]

OPERATOR_OF = {
    "arccos": "ELEMENT_WISE_ACOS",
    "arccosh": "ELEMENT_WISE_ACOSH",
    "arcsin": "ELEMENT_WISE_ASIN",
    "arcsinh": "ELEMENT_WISE_ASINH",
    "arctan": "ELEMENT_WISE_ATAN",
    "arctanh": "ELEMENT_WISE_ATANH",
    "cos": "ELEMENT_WISE_COS",
    "cosh": "ELEMENT_WISE_COSH",
    "exp": "ELEMENT_WISE_EXP",
    "log": "ELEMENT_WISE_LOG",
    "sin": "ELEMENT_WISE_SIN",
    "sinh": "ELEMENT_WISE_SINH",
    "tan": "ELEMENT_WISE_TAN",
    "tanh": "ELEMENT_WISE_TANH",
}
NO_OPERATORS = {"cbrt", "exp2", "expm1", "log10", "log1p", "log2"}

SMALLEST_NORMAL = np.float32(2.0**-126)


def data_directory() -> Path:
    """Where the installed NumPy keeps its validation sets: below ``_core`` from version 2 on."""
    base = Path(np.__file__).parent
    found = [base / core / "tests" / "data" for core in ("_core", "core")]
    return next(path for path in found if list(path.glob("umath-validation-set-*.csv")))


def rows_of(name: str) -> tuple[Float32Array, Float32Array, int]:
    """The float32 rows of a set: inputs, results, and the largest distance that NumPy's own test allows."""
    lines = (data_directory() / f"umath-validation-set-{name}.csv").read_text(encoding="utf-8").splitlines()
    rows = [row for row in csv.reader(lines) if row and row[0].strip() == "np.float32"]
    bits = np.array([[int(row[1], 16), int(row[2], 16)] for row in rows], np.uint32)
    return bits[:, 0].copy().view(np.float32), bits[:, 1].copy().view(np.float32), max(int(row[3]) for row in rows)


def is_denormal(values: Float32Array) -> npt.NDArray[np.bool_]:
    denormal: npt.NDArray[np.bool_] = (np.abs(values) < SMALLEST_NORMAL) & (values != 0)
    return denormal


def line_number(values: Float32Array) -> npt.NDArray[np.int64]:
    """Counts along the number line; both zeros are 0."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def at_zero(name: str, zero: float) -> float:
    """The function's value at a zero, from Python's mathematics."""
    if name == "log":
        return -math.inf
    if name == "arccosh":
        return math.nan
    function: Any = getattr(math, name.replace("arc", "a"))
    return float(function(zero))


def test_every_set_is_known() -> None:
    names = {path.stem.rpartition("-")[2] for path in data_directory().glob("umath-validation-set-*.csv")}
    assert len(names) >= 18
    assert names <= OPERATOR_OF.keys() | NO_OPERATORS


@pytest.mark.parametrize("name", [name for name, operator in OPERATOR_OF.items() if operator in OPERATORS])
def test_rows(name: str, device: dml.Device) -> None:
    inputs, wanted, allowed = rows_of(name)
    assert inputs.size > 100
    tensor = dml.TensorDesc(dml.FLOAT32, inputs.shape)
    desc = dml.operator_desc(OPERATOR_OF[name], InputTensor=tensor, OutputTensor=tensor)
    got = device.run(desc, {"InputTensor": inputs})["OutputTensor"]
    denormal = is_denormal(inputs)
    values_at_zero = [at_zero(name, zero) for zero in np.copysign(0.0, inputs[denormal].astype(np.float64)).tolist()]
    wanted = wanted.copy()
    wanted[denormal] = np.array(values_at_zero, np.float32)
    distances = np.abs(line_number(got) - line_number(wanted))
    right = np.where(np.isnan(wanted), np.isnan(got), ~np.isnan(got) & (distances <= allowed))
    right |= is_denormal(wanted) & (got == 0) & (np.signbit(got) == np.signbit(wanted))
    assert not is_denormal(got).any()
    wrong = np.flatnonzero(~right)
    texts = [f"{inputs[i]!r}: got {got[i]!r}, expected {wanted[i]!r}" for i in wrong[:5]]
    assert wrong.size == 0, f"{wrong.size} of {inputs.size} rows: {texts}"
