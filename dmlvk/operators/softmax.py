"""The ACTIVATION operators whose results depend on whole rows of a tensor."""

from __future__ import annotations

from dmlvk.operators.words import *

_SHARES = Accuracy("accurate", 0.9, "for rows of any length; largest found by search: 0.80 ULP")
_LOGARITHMS = Accuracy("accurate", 0.9, "for rows of any length; largest found by search: 0.62 ULP")

_PEAK = (
    "A number is above NaN; of a row of NaN the first one counts as the largest. Both zeros are equal, and denormals "
    "are the numbers they are."
)
_SPECIAL_ROWS = (
    "A row with NaN or +infinity in it is NaN throughout, and so is a row of nothing but -infinity: the quotient is "
    "infinity / infinity or 0 / 0."
)
_ORDER = (
    "The order of the sum follows from the length of the row alone: as many partial sums in two words as it takes for "
    "16 elements each, rounded up to a power of two, at most 256, take turns at groups of four elements, and are then "
    "added up in chains. FLOAT32 denormals count as zero."
)
_LOGARITHM_OF_NOTHING = (
    "-infinity gives -infinity; e^x neither overflows nor underflows on the way. An element that is alone in "
    "its row, or whose others are all -infinity, gives +0."
)
_SHARE_OF_NOTHING = "-infinity gives +0; e^x neither overflows nor underflows on the way."
_AXES = (
    "A row is what lies along all Axes together, the last axis fastest, in whichever order Axes names them. At least "
    "one axis must be named, and none twice."
)

_ALONG_AXES: dict[str, Any] = {"support": (Support("5_1", (1, 8), FLOATS),), "most_effective_dimensions": None}
_TABLES = (Support("1_0", (4, 4), FLOATS), Support("2_0", (4, 5), FLOATS), Support("3_0", (1, 8), FLOATS))


class ActivationHardmax(OperatorDesc):
    """Marks the largest element of each row (DML_ACTIVATION_HARDMAX_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values; its rows lie along the last dimension")
    output_tensor: TensorDesc = tensor_output("1 at each row's first largest element, 0 elsewhere")
    declaration: ClassVar = Declaration(
        "rows",
        "1 at the first of the row's largest elements, 0 elsewhere",
        decisions=(_PEAK,),
        most_effective_dimensions=2,
        support=_TABLES,
    )


class ActivationHardmax1(AlongAxes):
    """Marks the largest element of each row, along any axes (DML_ACTIVATION_HARDMAX1_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("1 at each row's first largest element, 0 elsewhere")
    declaration: ClassVar = ActivationHardmax.declaration.version(
        decisions=(_PEAK, _AXES), computed_as="ACTIVATION_HARDMAX", **_ALONG_AXES
    )


class ActivationLogSoftmax(OperatorDesc):
    """The logarithms of each row's SOFTMAX (DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values; its rows lie along the last dimension")
    output_tensor: TensorDesc = tensor_output("the logarithms")
    declaration: ClassVar = Declaration(
        "rows",
        "ln(e^x / sum of e^x over the row)",
        decisions=(_SPECIAL_ROWS, _LOGARITHM_OF_NOTHING, _ORDER),
        most_effective_dimensions=2,
        accuracy=_LOGARITHMS,
        support=_TABLES,
    )


class ActivationLogSoftmax1(AlongAxes):
    """The logarithms of each row's SOFTMAX, along any axes (DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC)."""

    declaration: ClassVar = ActivationLogSoftmax.declaration.version(
        decisions=(_SPECIAL_ROWS, _LOGARITHM_OF_NOTHING, _ORDER, _AXES),
        computed_as="ACTIVATION_LOG_SOFTMAX",
        **_ALONG_AXES,
    )


class ActivationSoftmax(OperatorDesc):
    """Each row as shares of its sum, by exponentials (DML_ACTIVATION_SOFTMAX_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values; its rows lie along the last dimension")
    output_tensor: TensorDesc = tensor_output("values between 0 and 1 whose sum over a row is 1")
    declaration: ClassVar = Declaration(
        "rows",
        "e^x / sum of e^x over the row",
        decisions=(_SPECIAL_ROWS, _SHARE_OF_NOTHING, _ORDER),
        most_effective_dimensions=2,
        accuracy=_SHARES,
        support=_TABLES,
    )


class ActivationSoftmax1(AlongAxes):
    """Each row as shares of its sum, by exponentials, along any axes (DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("values between 0 and 1 whose sum over a row is 1")
    declaration: ClassVar = ActivationSoftmax.declaration.version(
        decisions=(_SPECIAL_ROWS, _SHARE_OF_NOTHING, _ORDER, _AXES), computed_as="ACTIVATION_SOFTMAX", **_ALONG_AXES
    )
