"""The ACTIVATION operators."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.members import Minimum, float_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import EXACT, FLOATS, SIGNED_TO_32
from dmlvk.tensors import TensorDesc


class ActivationIdentity(OperatorDesc):
    """Copies a tensor (DML_ACTIVATION_IDENTITY_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the same values")

    declaration: ClassVar = Declaration(
        name="ACTIVATION_IDENTITY",
        formula="x",
        in_place=("input_tensor",),
        moves=("input_tensor", "output_tensor"),
        accuracy=EXACT,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_0", (4, 5), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ActivationParametricSoftplus(OperatorDesc):
    """A smooth ramp with two factors (DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the ramp's values")
    alpha: float = float_attribute("factor of the ramp")
    beta: float = float_attribute("factor of the values")

    declaration: ClassVar = Declaration(
        name="ACTIVATION_PARAMETRIC_SOFTPLUS",
        formula="Alpha * ln(1 + exp(Beta * x))",
        decisions=(
            "Alpha and Beta are FLOAT32 values in FLOAT16 operators too; denormals among them count as zeros.",
            "No product overflows or is rounded on the way: ln(1 + exp(Beta * x)) of finite numbers is above zero and "
            "finite.",
            "Infinite and zero attributes and values are taken as IEEE 754 evaluates the formula: 0 * infinity is NaN; "
            "so are an infinite Alpha where Beta * x is -infinity, and Alpha = 0 where it is infinity.",
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.75, "for any Alpha and Beta"),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_0", (4, 5), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ActivationRelu(OperatorDesc):
    """Replaces what is below zero by zero (DML_ACTIVATION_RELU_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the values that are not below zero")

    declaration: ClassVar = Declaration(
        name="ACTIVATION_RELU",
        formula="max(0, x)",
        decisions=("NaN and -0 give +0: of a number and NaN the number is the result, and +0 is above -0.",),
        in_place=("input_tensor",),
        accuracy=EXACT,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_0", (4, 5), FLOATS),
            Support("3_0", (1, 8), FLOATS),
            Support("5_1", (1, 8), SIGNED_TO_32),
        ),
    )


class ActivationReluGrad(OperatorDesc):
    """Passes the gradient where RELU passes the value (DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values x that went into RELU")
    input_gradient_tensor: TensorDesc = tensor_input("the gradient of its output")
    output_gradient_tensor: TensorDesc = tensor_output("the gradient of its input")

    declaration: ClassVar = Declaration(
        name="ACTIVATION_RELU_GRAD",
        formula="the gradient if x > 0, else 0",
        decisions=("A comparison with NaN is false, so NaN gives 0. The gradient is moved as it is.",),
        accuracy=EXACT,
        support=(
            Support("3_0", (1, 8), FLOATS),
            Support("4_0", (1, 8), FLOATS),
            Support("5_1", (1, 8), SIGNED_TO_32),
        ),
    )


class ActivationSoftplus(OperatorDesc):
    """A smooth ramp (DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the ramp's values")
    steepness: float = float_attribute(
        "how fast the slope changes from 0 to 1", minimum=Minimum(1.0, FeatureLevel.LEVEL_6_4)
    )

    declaration: ClassVar = Declaration(
        name="ACTIVATION_SOFTPLUS",
        formula="ln(1 + exp(Steepness * x)) / Steepness",
        decisions=(
            "Steepness is at least 1 below feature level 6_4, which takes any FLOAT32 value. It is one in FLOAT16 "
            "operators too; a denormal counts as zero.",
            "No product overflows or is rounded on the way: ln(1 + exp(Steepness * x)) of finite numbers is above zero "
            "and finite. Below zero Steepness turns the ramp around: the results are below zero.",
            "Infinite and zero Steepness and values are taken as IEEE 754 evaluates the formula: 0 gives an infinity "
            "of its sign, and NaN for infinite x; infinity gives +0 for x < 0 and NaN for others.",
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.75, "for any Steepness"),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_0", (4, 5), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ActivationThresholdedRelu(OperatorDesc):
    """Keeps what is above a bound (DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the values above the bound, else zero")
    alpha: float = float_attribute("the bound", converted_to="output_tensor")

    declaration: ClassVar = Declaration(
        name="ACTIVATION_THRESHOLDED_RELU",
        formula="x if x > Alpha, else 0",
        decisions=(
            "A comparison with NaN is false, so NaN gives +0.",
            "Alpha is converted to the tensor's data type once, rounded to nearest even.",
        ),
        in_place=("input_tensor",),
        accuracy=EXACT,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_0", (4, 5), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )
