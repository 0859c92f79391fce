"""The ELEMENT_WISE operators that compute values. How they do it is in ``dmlvk.kernels`` and ``shaders/``."""

from __future__ import annotations

from dmlvk.operators.words import *

_SUPPORT_TO_64 = (
    Support("1_0", (4, 4), FLOATS),
    Support("2_1", (4, 4), TYPES_TO_32),
    Support("3_0", (1, 8), TYPES_TO_32),
    Support("5_0", (1, 8), TYPES_TO_64),
)


class ElementWiseAbs(Scaled):
    """The absolute value of each element (DML_ELEMENT_WISE_ABS_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "|x|",
        "Integers wrap: the most negative one stays as it is.",
        "The sign bit of a float alone changes: denormals and NaN payloads stay as they are.",
        SCALE_BIAS_DECISION,
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), SIGNED_TO_32),
            Support("3_0", (1, 8), SIGNED_TO_32),
            Support("4_1", (1, 8), SIGNED_TO_64),
        ),
    )


class ElementWiseCeil(Scaled):
    """The smallest integer that is not less (DML_ELEMENT_WISE_CEIL_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("integers")
    declaration: ClassVar = elementwise(
        "ceil(x)",
        "NaN gives the canonical quiet NaN; infinities and both zeros stay as they are.",
        "Denormals are the numbers they are: a positive one gives 1. What lies between -1 and 0 gives -0.",
        SCALE_BIAS_DECISION,
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(Support("1_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseClip(Scaled):
    """Keeps elements inside a closed interval (DML_ELEMENT_WISE_CLIP_OPERATOR_DESC)."""

    min: float = float_attribute("lower bound", converted_to="output_tensor")
    max: float = float_attribute("upper bound", converted_to="output_tensor")
    declaration: ClassVar = elementwise(
        "max(Min, min(x, Max))",
        "With Min > Max the result is Min.",
        "Min and Max are converted to the tensor's data type once: to FLOAT16 rounded to nearest even; to an "
        "integer type truncated toward zero and saturated, NaN to 0.",
        "Of a number and NaN the number is the result, so NaN gives Max (or Min, when that is greater). +0 is "
        "above -0.",
        SCALE_BIAS_DECISION,
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=_SUPPORT_TO_64,
    )


class ElementWiseClip1(Scaled):
    """Keeps elements inside a closed interval with typed bounds (DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC)."""

    min_max_data_type: DataType = data_type_attribute("data type of the bounds", equals="output_tensor")
    min: float = scalar_union_attribute("lower bound", typed_by="min_max_data_type", converted_to="output_tensor")
    max: float = scalar_union_attribute("upper bound", typed_by="min_max_data_type", converted_to="output_tensor")
    declaration: ClassVar = elementwise(
        "max(Min, min(x, Max))",
        "With Min > Max the result is Min.",
        "Of a number and NaN the number is the result, so NaN gives Max (or Min, when that is greater). +0 is "
        "above -0.",
        "For FLOAT16 the bounds are given as FLOAT and rounded to nearest even.",
        SCALE_BIAS_DECISION,
        computed_as="ELEMENT_WISE_CLIP",
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(Support("5_0", (1, 8), TYPES_TO_64),),
    )


class ElementWiseClipGrad(OperatorDesc):
    """Passes the gradient where CLIP passes the value (DML_ELEMENT_WISE_CLIP_GRAD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values x that went into CLIP")
    input_gradient_tensor: TensorDesc = tensor_input("the gradient of its output")
    output_gradient_tensor: TensorDesc = tensor_output("the gradient of its input")
    min: float = float_attribute("lower bound", converted_to="output_gradient_tensor")
    max: float = float_attribute("upper bound", converted_to="output_gradient_tensor")
    declaration: ClassVar = elementwise(
        "0 if x <= Min or x >= Max, else the gradient",
        "A comparison with NaN is false, so NaN passes the gradient. The gradient is moved as it is.",
        "Min and Max are converted to the tensor's data type once: to FLOAT16 rounded to nearest even; to an "
        "integer type truncated toward zero and saturated, NaN to 0.",
        support=(Support("3_1", (1, 8), TYPES_TO_32), Support("5_0", (1, 8), TYPES_TO_64)),
    )


class ElementWiseClipGrad1(OperatorDesc):
    """Passes the gradient where CLIP1 passes the value (DML_ELEMENT_WISE_CLIP_GRAD1_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values x that went into CLIP1")
    input_gradient_tensor: TensorDesc = tensor_input("the gradient of its output")
    output_gradient_tensor: TensorDesc = tensor_output("the gradient of its input")
    min_max_data_type: DataType = data_type_attribute("data type of the bounds", equals="output_gradient_tensor")
    min: float = scalar_union_attribute(
        "lower bound", typed_by="min_max_data_type", converted_to="output_gradient_tensor"
    )
    max: float = scalar_union_attribute(
        "upper bound", typed_by="min_max_data_type", converted_to="output_gradient_tensor"
    )
    declaration: ClassVar = elementwise(
        "0 if x <= Min or x >= Max, else the gradient",
        "A comparison with NaN is false, so NaN passes the gradient. The gradient is moved as it is.",
        "For FLOAT16 the bounds are given as FLOAT and rounded to nearest even.",
        computed_as="ELEMENT_WISE_CLIP_GRAD",
        support=(Support("5_0", (1, 8), TYPES_TO_64),),
    )


class ElementWiseFloor(Scaled):
    """The largest integer that is not greater (DML_ELEMENT_WISE_FLOOR_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("integers")
    declaration: ClassVar = elementwise(
        "floor(x)",
        "NaN gives the canonical quiet NaN; infinities and both zeros stay as they are.",
        "Denormals are the numbers they are: a negative one gives -1.",
        SCALE_BIAS_DECISION,
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(Support("1_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseIdentity(Scaled):
    """Copies a tensor, or changes its layout through strides (DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "x",
        SCALE_BIAS_DECISION,
        moves=("input_tensor", "output_tensor"),
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(
            Support("1_0", (4, 5), FLOATS),
            Support("2_1", (4, 5), TYPES_TO_32),
            Support("3_0", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )


class ElementWiseIf(OperatorDesc):
    """Selects elements of two tensors (DML_ELEMENT_WISE_IF_OPERATOR_DESC).

    Values are moved, never computed: NaN payloads, denormals and the sign of zero stay as they are.
    """

    condition_tensor: TensorDesc = tensor_input("UINT8; any non-zero value selects ATensor, zero selects BTensor")
    a_tensor: TensorDesc = tensor_input("values taken where the condition is not zero")
    b_tensor: TensorDesc = tensor_input("values taken where the condition is zero")
    output_tensor: TensorDesc = tensor_output("the selected values")
    declaration: ClassVar = elementwise(
        "a if condition != 0 else b",
        in_place=(),
        same_data_type=(("a_tensor", "b_tensor", "output_tensor"),),
        moves=("a_tensor", "b_tensor", "output_tensor"),
        support=(
            Support("2_0", (4, 4), (DataType.FLOAT16,), condition_tensor=(DataType.UINT8,)),
            Support("3_0", (1, 8), TYPES_TO_32, condition_tensor=(DataType.UINT8,)),
            Support("5_0", (1, 8), ALL_TYPES, condition_tensor=(DataType.UINT8,)),
        ),
    )


class ElementWiseMax(TwoInputs):
    """The larger of two elements (DML_ELEMENT_WISE_MAX_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "max(a, b)",
        "Of a number and NaN the number is the result; two NaN give the canonical quiet NaN. +0 is above -0.",
        in_place=BOTH,
        support=_SUPPORT_TO_64,
    )


class ElementWiseMin(TwoInputs):
    """The smaller of two elements (DML_ELEMENT_WISE_MIN_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "min(a, b)",
        "Of a number and NaN the number is the result; two NaN give the canonical quiet NaN. -0 is below +0.",
        in_place=BOTH,
        support=_SUPPORT_TO_64,
    )


class ElementWiseNegate(OneInput):
    """Each element with the other sign (DML_ELEMENT_WISE_NEGATE_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "-x",
        "Integers wrap: the most negative one stays as it is.",
        "The sign bit of a float alone changes: denormals and NaN payloads stay as they are.",
        support=(Support("5_0", (1, 8), SIGNED_TO_64),),
    )


class ElementWiseRound(OneInput):
    """Rounds to an integer (DML_ELEMENT_WISE_ROUND_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("integers")
    rounding_mode: RoundingMode = enum_attribute(
        "how to round; TOWARD_INFINITY only moves halves outward, it is no ceiling", RoundingMode
    )
    declaration: ClassVar = elementwise(
        "x rounded to nearest with halves to even, or toward zero, or to nearest with halves away from zero",
        "NaN gives the canonical quiet NaN; infinities and both zeros stay as they are.",
        "A result of zero keeps the sign of x.",
        support=(Support("2_1", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseSign(OneInput):
    """The sign of each element (DML_ELEMENT_WISE_SIGN_OPERATOR_DESC).

    Denormals are the numbers they are: their sign is -1 or 1.
    """

    output_tensor: TensorDesc = tensor_output("their signs, in the input's data type")
    declaration: ClassVar = elementwise(
        "-1 if x < 0; 1 if x > 0; 0 otherwise",
        "NaN and both zeros give +0: they are the formula's «otherwise».",
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("3_0", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), TYPES_TO_64),
        ),
    )


class ElementWiseThreshold(Scaled):
    """Replaces values below a bound by the bound (DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the bounded values, in the input's data type")
    min: float = float_attribute("the bound", converted_to="output_tensor")
    declaration: ClassVar = elementwise(
        "max(x, Min), x being x * Scale + Bias when ScaleBias is given",
        "Min is converted to the tensor's data type once: to FLOAT16 rounded to nearest even; to an integer type "
        "truncated toward zero and saturated, NaN to 0.",
        "Of a number and NaN the number is the result; two NaN give the canonical quiet NaN. +0 is above -0.",
        SCALE_BIAS_DECISION,
        accuracy=EXACT_AFTER_SCALE_BIAS,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("3_0", (1, 8), TYPES_TO_32),
        ),
    )
