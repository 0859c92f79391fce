"""Operators whose results are each made of the elements before: CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT."""

from __future__ import annotations

from dmlvk.operators.reduction import SPECIAL_SUMS_DECISION
from dmlvk.operators.words import *

_ORDER = (
    "The order of operations follows from an element's number along Axis (in the direction of the scan) alone, so a "
    "prefix of a row has the results of the whole row. 16 neighbours are a run, 16 runs a block, 16 blocks a chunk, "
    "and so on. A run is gone through in order; of 16 neighbours of a higher kind each is joined with the one 1, 2, 4 "
    "and 8 places before it, in turn; what comes before an element is joined from the largest kind down to its own run."
)
_INTEGERS = "Integers wrap: results are exact modulo 2^32 or 2^64."


def _sizes(desc: CumulativeProduct | CumulativeSummation | Draft) -> Mapping[str, Sizes]:
    check_axis(desc, "axis", "input_tensor")
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


class CumulativeSummation(OneInput):
    """Running sums along an axis (DML_CUMULATIVE_SUMMATION_OPERATOR_DESC)."""

    axis: int = unsigned_attribute("the axis along which values are added")
    axis_direction: AxisDirection = enum_attribute(
        "whether sums begin at the first element (INCREASING) or at the last", AxisDirection
    )
    has_exclusive_sum: bool = boolean_attribute("whether an element is left out of its own sum, so that the first is 0")
    declaration: ClassVar = Declaration(
        "scan",
        "the sum of the row's elements up to each one, or of those before it",
        decisions=(
            "FLOAT sums are made in two words of FLOAT32, and each is rounded once: within 0.5 ULP + 2^-39 of the sum "
            "of the magnitudes that it is of. FLOAT16 results are rounded to FLOAT32 on the way.",
            _ORDER,
            SPECIAL_SUMS_DECISION,
            _INTEGERS,
            DENORMALS_DECISION,
        ),
        shapes=_sizes,
        same_sizes=(("input_tensor", "output_tensor"),),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.5, "beside 2^-39 of the sum of magnitudes; integers exact"),
        support=(
            Support("2_1", (4, 4), FLOATS_AND_WORDS),
            Support("4_0", (1, 8), FLOATS_AND_WORDS),
            Support("5_0", (1, 8), FLOATS_WORDS_AND_PAIRS),
        ),
    )


class CumulativeProduct(OneInput):
    """Running products along an axis (DML_CUMULATIVE_PRODUCT_OPERATOR_DESC)."""

    axis: int = unsigned_attribute("the axis along which values are multiplied")
    axis_direction: AxisDirection = enum_attribute(
        "whether products begin at the first element (INCREASING) or at the last", AxisDirection
    )
    has_exclusive_product: bool = boolean_attribute(
        "whether an element is left out of its own product, so that the first is 1"
    )
    declaration: ClassVar = Declaration(
        "scan",
        "the product of the row's elements up to each one, or of those before it",
        decisions=(
            "FLOAT products keep significands in two words and exponents apart: nothing overflows or underflows on the "
            "way, and a product of n factors is within 0.5 ULP + n * 2^-45 of it. A product with 0 and without "
            "infinities is a zero of the product's sign; with both, or with NaN, it is NaN.",
            _ORDER,
            _INTEGERS,
            DENORMALS_DECISION,
        ),
        shapes=_sizes,
        same_sizes=(("input_tensor", "output_tensor"),),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.5, "beside n * 2^-45 of the result; integers exact"),
        support=(
            Support("3_1", (4, 4), FLOATS_AND_WORDS),
            Support("4_0", (1, 8), FLOATS_AND_WORDS),
            Support("5_0", (1, 8), FLOATS_WORDS_AND_PAIRS),
        ),
    )
