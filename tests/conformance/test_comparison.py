"""What a comparison finds, counts and says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance.comparison import compare_bits, compare_values, difference, fault_text


def singles(values: list[Any]) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def halves(values: list[Any]) -> npt.NDArray[np.float16]:
    return np.array(values, np.float16)


def test_equal_bits() -> None:
    values = singles([1.0, math.nan, -0.0])
    found = compare_bits(values, values.copy())
    assert (found.count, found.broken, found.misrounded, found.largest_error) == (3, 0, 0, 0.0)
    assert (found.worst, found.elements) == (None, ())
    assert difference("here", values, values.copy(), [values]) is None


def test_floats_that_differ_count_the_numbers_between() -> None:
    got = singles([1.0, 2.0, -(2.0**-149), np.nextafter(np.float32(4), np.float32(5))])
    expected = singles([1.0, np.nextafter(np.float32(2), np.float32(0)), 2.0**-149, 4.0])
    found = compare_bits(got, expected)
    assert (found.broken, found.largest_error, found.worst, found.elements) == (3, 2.0, 2, (1, 2, 3))


@pytest.mark.parametrize(("got", "expected"), [(0.0, -0.0), (math.nan, 1.0), (1.0, math.nan)])
def test_what_is_wrong_altogether_is_infinitely_far(got: float, expected: float) -> None:
    assert compare_bits(halves([got]), halves([expected])).largest_error == math.inf


def test_a_nan_of_other_bits_is_wrong() -> None:
    got, expected = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00001, 0x7FC00000))
    assert compare_bits(got, expected).largest_error == math.inf


def test_integers_differ_by_ones() -> None:
    found = compare_bits(np.array([3, 2**64 - 1, 5], np.uint64), np.array([3, 0, 9], np.uint64))
    assert (found.broken, found.largest_error, found.worst) == (2, 2.0**64, 1)
    assert compare_bits(np.array([-128], np.int8), np.array([127], np.int8)).largest_error == 255


def test_shapes_and_types_must_agree() -> None:
    with pytest.raises(ValueError, match=r"got float32 \(2,\), expected float32 \(3,\)"):
        compare_bits(np.zeros(2, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="got uint8"):
        compare_bits(np.zeros(2, np.uint8), np.zeros(2, np.int8))


def test_values_are_counted_by_their_distance() -> None:
    step = 2.0**-23
    true = np.array([1.0, 1 + 0.4 * step, 1 + 0.7 * step, 1 + 3.25 * step])
    found = compare_values(np.ones(4, np.float32), true, 0.8)
    assert (found.count, found.broken, found.misrounded, found.elements) == (4, 1, 2, (3,))
    assert found.largest_error == pytest.approx(3.25)
    assert found.worst == 3
    within = compare_values(np.ones(3, np.float32), true[:3], 0.8)
    assert (within.broken, within.misrounded, within.worst) == (0, 1, 2)
    exact = compare_values(np.ones(1, np.float32), np.ones(1), 0.6)
    assert (exact.worst, exact.largest_error) == (None, 0.0)


def test_texts_name_inputs_and_results() -> None:
    got, expected = singles([[1.0], [2.0]]), singles([[1.0], [-2.0]])
    inputs: list[npt.NDArray[Any]] = [np.array([[5], [-1]], np.int8), singles([[0.5], [math.inf]])]
    assert difference("x", got, expected, inputs) == (
        "x: 1 of 2 elements differ\n"
        "  at [1, 0]: inputs 0xff (-1), 0x7f800000 (inf), got 0x40000000 (2.0), expected 0xc0000000 (-2.0)"
    )
    true = np.array([[1.0], [3.0]])
    text = fault_text("y", compare_values(got, true, 0.6), got, true, inputs)
    assert text == (
        "y: 1 of 2 elements are more than 0.6 ULP off; the worst is 4194304.0000 ULP off\n"
        "  at [1, 0]: inputs 0xff (-1), 0x7f800000 (inf), got 0x40000000 (2.0), true value 3.0"
    )
    right = np.array([[1.0], [2.0]])
    assert fault_text("y", compare_values(got, right, 0.6), got, right, inputs) is None
