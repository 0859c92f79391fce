"""LOCAL_RESPONSE_NORMALIZATION: elements divided by what the squares around them make; and its gradient."""

from __future__ import annotations

import math

from dmlvk.operators.words import *


def _check_numbers(desc: LocalResponseNormalization | LocalResponseNormalizationGrad | Draft) -> None:
    if desc.local_size < 1:
        refuse(desc, "local_size", f"must be at least 1; got {desc.local_size}")
    for member in ("alpha", "beta", "bias"):
        if not math.isfinite(getattr(desc, member)):
            refuse(desc, member, f"must be a finite number; got {getattr(desc, member)!r}")


def _sizes(desc: LocalResponseNormalization | Draft) -> Mapping[str, Sequence[int]]:
    _check_numbers(desc)
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


def _gradient_sizes(desc: LocalResponseNormalizationGrad | Draft) -> Mapping[str, Sequence[int]]:
    _check_numbers(desc)
    return {"output_gradient_tensor": tuple(desc.input_tensor.sizes)}


_NEIGHBOURS = (
    "Across channels only channels are gone through; otherwise LocalSize by LocalSize elements of height and width, "
    "and Alpha is divided by LocalSize all the same. Of an even LocalSize one element more lies behind than before. "
    "What lies outside the tensor adds nothing."
)
_ACROSS = "whether neighbours are those in other channels, else in height and width"
_LOCAL_SIZE = "how many neighbours there are along an axis, the element itself among them"


class LocalResponseNormalization(OperatorDesc):
    """Divides by a power of the squares around each element (DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W}")
    output_tensor: TensorDesc = tensor_output("the normalized values")
    cross_channel: bool = boolean_attribute(_ACROSS)
    local_size: int = unsigned_attribute(_LOCAL_SIZE)
    alpha: float = float_attribute("the factor of the sum of squares")
    beta: float = float_attribute("the exponent")
    bias: float = float_attribute("what is added to the sum")
    declaration: ClassVar = Declaration(
        "window",
        "x / (Bias + Alpha / LocalSize * sum of squares around x)^Beta",
        decisions=(
            _NEIGHBOURS,
            "Alpha / LocalSize, the sum of squares (in two words), its product, the sum with Bias, the power and the "
            "quotient are rounded to FLOAT32 one by one. FLOAT32 denormals count as zero. Alpha, Beta and Bias must be "
            "finite.",
            "Across up to 5 channels with a Beta of 0.25, 0.5 or 0.75, Bias from 2^-30 to 2^30 and Alpha / "
            "LocalSize from 0 to 2^20 * Bias, but not denormal, squares and their sums are rounded to FLOAT32 "
            "instead, ((a + b) + (c + d)) + e with 0 for what there is not, and only the quotient by the power is"
            " rounded, not the power. What these steps are too narrow for (elements below 2^-40, bases from 2^60 "
            "on) goes the way of all else.",
        ),
        shapes=_sizes,
        same_sizes=(("input_tensor", "output_tensor"),),
        accuracy=Accuracy("accurate", 3.0, "and 4 ULP times |Beta|, where Alpha and Bias are not negative"),
        support=(Support("1_0", (4, 4), FLOATS),),
    )


class LocalResponseNormalizationGrad(OperatorDesc):
    """Gradients of the normalized elements (DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values that were normalized, {N, C, H, W}")
    input_gradient_tensor: TensorDesc = tensor_input("gradients of the normalized values")
    output_gradient_tensor: TensorDesc = tensor_output("gradients of the values")
    cross_channel: bool = boolean_attribute(_ACROSS)
    local_size: int = unsigned_attribute(_LOCAL_SIZE)
    alpha: float = float_attribute("the factor of the sum of squares")
    beta: float = float_attribute("the exponent")
    bias: float = float_attribute("what is added to the sum")
    declaration: ClassVar = Declaration(
        "window",
        "g / D^Beta - 2 * Alpha / LocalSize * Beta * x * (sum of g * x / D^(Beta + 1) over all elements around "
        "which x lies), D = Bias + Alpha / LocalSize * sum of squares around an element",
        decisions=(
            "The page has no formula: it is the derivative of LOCAL_RESPONSE_NORMALIZATION, with the neighbours that "
            "that one has here. The page calls LocalSize a width and a height where CrossChannel is set, and a number "
            "of elements where it is not: taken for exchanged.",
            "D is made as there, its sum in two words with any attributes. Steps are in FLOAT32, each rounded to "
            "nearest even: a = g / D^Beta, f = 2 * (Alpha / LocalSize) * Beta, t = a * (f * (x / D)), the sum of "
            "t in two words, a - x * sum. FLOAT16 results are rounded once more. FLOAT32 denormals count as zero."
            " Alpha, Beta and Bias must be finite.",
        ),
        shapes=_gradient_sizes,
        same_sizes=(("input_tensor", "input_gradient_tensor", "output_gradient_tensor"),),
        accuracy=Accuracy(
            "accurate",
            0.5,
            "and (12 + 3 * |Beta|) * 2^-24 of |a| + |x| * (sum of |t|), where Alpha and Bias are not negative and no "
            "step is denormal",
        ),
        support=(Support("3_1", (4, 4), FLOATS),),
    )
