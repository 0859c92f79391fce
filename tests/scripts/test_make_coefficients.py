"""The coefficients: what the script makes, where the shaders look for them, and what one row says."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dmlvk.kernels.library import coefficients
from scripts import make_coefficients

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sweep
def test_the_file_is_what_the_script_makes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_coefficients.contents()
    assert made == make_coefficients.TARGET.read_bytes()
    spoiled = bytearray(made)
    spoiled[-1] ^= 1
    other = tmp_path / "coefficients.bin"
    other.write_bytes(spoiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_coefficients, "TARGET", other)
        patch.setattr(make_coefficients, "contents", lambda: made)
        assert make_coefficients.main(["--check"]) == 1
        assert "coefficients.bin is not what" in capsys.readouterr().err
        assert make_coefficients.main([]) == 0
        assert make_coefficients.main(["--check"]) == 0


#: Of each function: the rows of its intervals, as the shaders' comments count them.
ROWS = {
    "GELU": 21 * 128 + 64 + 1,
    "ACOSH": 21 * 128,
    "ATANH": 6 * 128,
    "ATANH_BELOW_ONE": 23 * 128,
    "SOFTPLUS": 20 * 128,
    "TAN": 7 * 256,
    "COTANGENT": 7 * 256,
    "TANH": 10 * 128 + 16,
    "COMPLEMENT": 16 * 128,
    "ASINH": 20 * 128,
    "ATAN": 20 * 128,
}
PAIRS = {"LOGARITHM_TERM": 130 * 32 + 44}

#: Those whose rows are a point, the value there, a line and a square, in Python's own words.
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "ACOSH": lambda z: math.acosh(1 + z),
    "ATANH": math.atanh,
    "ATANH_BELOW_ONE": lambda gap: math.atanh(1 - gap),
    "SOFTPLUS": lambda t: math.log1p(math.exp(-t)),
    "TAN": math.tan,
    "COTANGENT": lambda x: 1 / math.tan(x),
    "TANH": math.tanh,
    "COMPLEMENT": lambda x: -math.expm1(-x),
    "ASINH": math.asinh,
    "ATAN": math.atan,
}


def test_shaders_look_for_rows_where_the_file_has_them() -> None:
    text = (ROOT / "shaders" / "include" / "coefficients.glsl").read_text(encoding="utf-8")
    begins = {name: int(row) for name, row in re.findall(r"#define (\w+)_ROWS (\d+)u", text)}
    assert begins == {name: begin_of(name) for name in make_coefficients.ROWS}
    begins_of_pairs = {name: int(pair) for name, pair in re.findall(r"#define (\w+)_PAIRS (\d+)u", text)}
    assert begins_of_pairs == {"LOGARITHM_TERM": 2 * sum(ROWS.values())}
    assert PAIRS.keys() == make_coefficients.PAIRS.keys()
    assert len(coefficients.contents()) == 16 * sum(ROWS.values()) + 8 * sum(PAIRS.values())


def begin_of(name: str) -> int:
    """The first row of a function."""
    names = list(ROWS)
    return sum(ROWS[other] for other in names[: names.index(name)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_is_nearly_the_function_around_its_point(name: str) -> None:
    begin = begin_of(name)
    content = coefficients.contents()[16 * begin : 16 * (begin + ROWS[name])]
    rows = list(struct.iter_unpack("<4f", content))
    points = [row[0] for row in rows]
    assert points == sorted(points)
    for before, (point, value, line, square), after in zip(points, rows[1:], points[2:], strict=False):
        for x in ((before + point) / 2, point, (point + after) / 2):
            true = FUNCTIONS[name](x)
            found = value + (x - point) * (line + (x - point) * square)
            assert abs(found - true) < 0.1 * np.spacing(np.float32(true)), f"{name} at {x}"


def test_pairs_of_powers_are_those_of_e_and_then_zeros() -> None:
    text = (ROOT / "shaders" / "include" / "log_softmax.glsl").read_text(encoding="utf-8")
    (polynomial,) = re.findall(r"rest = r \+ \(r \* r\) \* \(([\d.]+) \+ r \* ([\d.]+)\);", text)
    square, cube = map(float, polynomial)
    pairs = list(struct.iter_unpack("<2f", coefficients.contents()[16 * sum(ROWS.values()) :]))
    assert pairs[4164:] == [(0.0, 0.0)] * 40
    for number, (head, beyond) in enumerate(pairs[:4164]):
        mantissa = math.frexp(head)[0] * 2**9
        assert mantissa == int(mantissa)
        for r in (-(2.0**-6), -0.01, 0.0, 2.0**-6):
            true = math.exp(r - number / 32) * 2.0**90
            rest = r - beyond
            found = head * (1 + rest + rest * rest * (square + rest * cube))
            assert abs(found - true) < 0.02 * 2.0**-24 * true, f"{number} / 32 and {r}"
