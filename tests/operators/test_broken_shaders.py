"""The numeric tests can fail: a shader with one character changed is caught on every device."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import Workbench, check_batch
from tests.operators.broken import break_shader
from tests.operators.geometries import Geometry
from tests.operators.test_geometry import check_geometry


def _case(name: str) -> ValueCase:
    return next(case for case in value_cases() if case.name == name)


@pytest.mark.parametrize(
    ("file", "text", "broken", "case_name", "layout", "message"),
    [
        # SIGN of numbers: the last bit of 1.
        ("elementwise/sign.comp", "0x3f800000u", "0x3f800001u", "sign-float32", "contiguous", "got 0x3f800001"),
        # SIGN takes the signalling NaN of the smallest payload for a number: a single pattern of each sign.
        ("elementwise/sign.comp", "< 0x7c00u", "< 0x7c01u", "sign-float16", "contiguous", "2 of 65536 elements differ"),
        # IF: a condition of 1 only.
        ("elementwise/if.comp", "!= 0u", "== 1u", "if-uint8-int16", "strided", "elements differ"),
        # GREATER_THAN as greater or equal.
        (
            "include/comparison.glsl",
            "int(a) > int(b)",
            "int(a) >= int(b)",
            "logical_greater_than-int32-uint8",
            "apart",
            "ele",
        ),
        # THRESHOLD takes infinity for NaN.
        ("include/comparison.glsl", "> 0x7c00;", "> 0x7bff;", "threshold-float16", "contiguous", "expected 0x7c00"),
        # x * Scale + Bias of integers forgets that bits were shifted out; of floats, that the last sum was not exact.
        ("include/wide.glsl", "uint(!exact)", "0u", "threshold-int32", "contiguous", "scale_bias ScaleBias"),
        (
            "include/rounding_to_odd.glsl",
            "| inexact",
            "| 0u",
            "threshold-float32",
            "contiguous",
            "scale_bias ScaleBias",
        ),
        # A product that is 2^-126 only after rounding is zero.
        (
            "include/arithmetic.glsl",
            "is_smallest ?",
            "false ?",
            "multiply-float32",
            "contiguous",
            "expected 0x00800000",
        ),
        # What the words of a quotient leave undecided is not decided; the remainder of a root is not looked at.
        (
            "include/division.glsl",
            "quotient + uint(int(",
            "quotient; uint(int(",
            "divide-float32",
            "contiguous",
            "elem",
        ),
        ("include/division.glsl", "int(remainder > int(root))", "0", "sqrt-float32", "contiguous", "elements differ"),
        # LOG: the last digits of a coefficient.
        (
            "include/logarithm.glsl",
            "0.49999994",
            "0.49999694",
            "log-float32",
            "contiguous",
            "more than 0.9 ULP off",
        ),
        # POW of integers: roots that are integers come out one too small.
        ("include/integer_power.glsl", "0x200u", "0x0u", "pow-uint32-float32", "contiguous", "elements differ"),
    ],
)
def test_wrong_values_are_caught(
    file: str,
    text: str,
    broken: str,
    case_name: str,
    layout: str,
    message: str,
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    break_shader(monkeypatch, tmp_path, file, text, broken)
    case = _case(case_name)
    for bench in benches:
        with pytest.raises(AssertionError, match=message) as caught:
            for batch in batches(case, total=2**18):
                check_batch([bench], case, layout, batch)
        assert str(caught.value).startswith(f"{bench.device.info.name}: ELEMENT_WISE_"), caught.value


def test_bytes_outside_the_output_are_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole words are stored where only some of their bytes belong to the row."""
    break_shader(
        monkeypatch, tmp_path, "patterns/elementwise/elementwise_axes.glsl", "mask == 0xffffffffu", "mask != 0u"
    )
    for bench in benches:
        with pytest.raises(AssertionError, match=r"bytes outside the output's elements changed|elements differ"):
            check_geometry([bench], _case("sign-int8"), Geometry("rows of 7", (6, 7), (9, 1), ((7, 1),)))


def test_an_unbroken_copy_is_not_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way in which the tests above compile shaders is not what they catch."""
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "SIGN", "SIGN")
    for batch in batches(_case("sign-float32"), total=2**16):
        check_batch(benches, _case("sign-float32"), "contiguous", batch)
