"""The ACTIVATION operators."""

from __future__ import annotations

from dmlvk.operators.words import *

_RELU_SUPPORT = (
    Support("1_0", (4, 4), FLOATS),
    Support("2_0", (4, 5), FLOATS),
    Support("3_0", (1, 8), FLOATS),
    Support("5_1", (1, 8), SIGNED_TO_32),
)


class ActivationCelu(OneInput):
    """The continuously differentiable exponential linear unit (DML_ACTIVATION_CELU_OPERATOR_DESC)."""

    alpha: float = float_attribute("where the exponential side levels off, and how fast")
    declaration: ClassVar = elementwise(
        "max(0, x) + min(0, Alpha * (e^(x / Alpha) - 1))",
        "From zero on the result is x, -0 included; with a NaN among x and Alpha it is NaN.",
        "A negative Alpha is taken as it is: below zero the result is Alpha * (e^(x / Alpha) - 1), which grows "
        "without bound.",
        "A zero Alpha of either sign gives -0 below zero, the limit for Alpha falling to 0; an infinite Alpha gives x.",
        "x / Alpha and the product are not rounded on the way and do not overflow there.",
        "Alpha is a FLOAT32 value in FLOAT16 operators too; a denormal counts as zero.",
        accuracy=Accuracy(
            "accurate",
            0.95,
            "for any Alpha; largest found by search with others than 1: 0.72 ULP; "
            "measured: 0.91 ULP with 1, 0.55 ULP with another",
        ),
        support=(Support("3_0", (1, 8), FLOATS),),
    )


_SUPPORT = (Support("1_0", (4, 4), FLOATS), Support("2_0", (4, 5), FLOATS), Support("3_0", (1, 8), FLOATS))


class ActivationElu(OneInput):
    """The exponential linear unit (DML_ACTIVATION_ELU_OPERATOR_DESC)."""

    alpha: float = float_attribute("what the exponential side levels off at, with the other sign")
    declaration: ClassVar = elementwise(
        "x if x >= 0, else Alpha * (e^x - 1)",
        "-0 is not below zero and stays as it is; a NaN gives NaN, a NaN Alpha where x is below zero.",
        "An infinite Alpha gives an infinity below zero, a zero one a zero.",
        "Alpha is a FLOAT32 value in FLOAT16 operators too; a denormal counts as zero.",
        accuracy=Accuracy("accurate", 0.95, "for any Alpha; largest found by search: 0.94 ULP; measured: 0.91 ULP"),
        support=_SUPPORT,
    )


class ActivationGelu(OneInput):
    """The Gaussian error linear unit (DML_ACTIVATION_GELU_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "x / 2 * (1 + erf(x / sqrt(2)))",
        "This is the function itself, not its approximation by tanh, with full relative accuracy below zero too.",
        "-infinity gives -0, the limit, and infinity gives infinity; -0 gives -0.",
        in_place=(),
        accuracy=Accuracy("accurate", 0.7),
        support=(Support("5_1", (1, 8), FLOATS),),
    )


class ActivationHardSigmoid(OneInput):
    """A straight line between 0 and 1 (DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("numbers from 0 to 1")
    alpha: float = float_attribute("slope of the line, typically 0.2")
    beta: float = float_attribute("height of the line at 0, typically 0.5")
    declaration: ClassVar = elementwise(
        "max(0, min(Alpha * x + Beta, 1))",
        "Alpha * x + Beta is rounded once. A result of zero is +0; NaN gives the canonical quiet NaN.",
        FLOAT_ATTRIBUTES_DECISION,
        accuracy=CORRECTLY_ROUNDED,
        support=_SUPPORT,
    )


class ActivationHardSwish(OneInput):
    """Each element times its HARD_SIGMOID (DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the values, each times a number from 0 to 1")
    alpha: float = float_attribute("slope of the line, typically 1/6")
    beta: float = float_attribute("height of the line at 0, typically 0.5")
    declaration: ClassVar = elementwise(
        "x * max(0, min(Alpha * x + Beta, 1))",
        "The second factor is not rounded to the data type before it is multiplied.",
        "An infinite x times zero is NaN, as the formula has it; a zero has the sign of x.",
        FLOAT_ATTRIBUTES_DECISION,
        accuracy=Accuracy("accurate", 0.51),
        support=(Support("6_2", (1, 8), FLOATS),),
    )


class ActivationIdentity(OneInput):
    """Copies a tensor (DML_ACTIVATION_IDENTITY_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise("x", moves=("input_tensor", "output_tensor"), support=_SUPPORT)


class ActivationLeakyRelu(OneInput):
    """Lowers the slope below zero (DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC)."""

    alpha: float = float_attribute("slope below zero, typically 0.01")
    declaration: ClassVar = elementwise(
        "x if x >= 0, else Alpha * x",
        "-0 stays as it is, being equal to 0; NaN gives the canonical quiet NaN.",
        FLOAT_ATTRIBUTES_DECISION,
        accuracy=CORRECTLY_ROUNDED,
        support=_SUPPORT,
    )


class ActivationLinear(OneInput):
    """A straight line (DML_ACTIVATION_LINEAR_OPERATOR_DESC)."""

    alpha: float = float_attribute("slope of the line")
    beta: float = float_attribute("height of the line at 0")
    declaration: ClassVar = elementwise(
        "Alpha * x + Beta",
        "The sum of the exact product and Beta is rounded once.",
        FLOAT_ATTRIBUTES_DECISION,
        accuracy=CORRECTLY_ROUNDED,
        support=_SUPPORT,
    )


class ActivationParameterizedRelu(OperatorDesc):
    """Changes the slope below zero, for each element (DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    slope_tensor: TensorDesc = tensor_input("the slope below zero for each of them")
    output_tensor: TensorDesc = tensor_output("the values, those below zero times their slope")
    declaration: ClassVar = elementwise(
        "x if x >= 0, else slope * x",
        "-0 stays as it is, being equal to 0. A NaN as slope counts only where x is below zero.",
        "Integers wrap: what does not fit into the data type is dropped from above.",
        accuracy=CORRECTLY_ROUNDED,
        support=_RELU_SUPPORT,
    )


class ActivationParametricSoftplus(OneInput):
    """A smooth ramp with two factors (DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC)."""

    alpha: float = float_attribute("factor of the ramp")
    beta: float = float_attribute("factor of the values")
    declaration: ClassVar = elementwise(
        "Alpha * ln(1 + exp(Beta * x))",
        "Alpha and Beta are FLOAT32 values in FLOAT16 operators too; denormals among them count as zeros.",
        "No product overflows or is rounded on the way: ln(1 + exp(Beta * x)) of finite numbers is above zero and "
        "finite.",
        "Infinite and zero attributes and values are taken as IEEE 754 evaluates the formula: 0 * infinity is NaN; "
        "so are an infinite Alpha where Beta * x is -infinity, and Alpha = 0 where it is infinity.",
        computes_with_denormals=True,
        accuracy=Accuracy(
            "accurate", 0.95, "for any Alpha and Beta; largest found by search: 0.78 ULP; measured: 0.61 ULP"
        ),
        support=_SUPPORT,
    )


class ActivationRelu(OneInput):
    """Replaces what is below zero by zero (DML_ACTIVATION_RELU_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "max(0, x)",
        "NaN and -0 give +0: of a number and NaN the number is the result, and +0 is above -0.",
        support=_RELU_SUPPORT,
    )


class ActivationReluGrad(OperatorDesc):
    """Passes the gradient where RELU passes the value (DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values x that went into RELU")
    input_gradient_tensor: TensorDesc = tensor_input("the gradient of its output")
    output_gradient_tensor: TensorDesc = tensor_output("the gradient of its input")
    declaration: ClassVar = elementwise(
        "the gradient if x > 0, else 0",
        "A comparison with NaN is false, so NaN gives 0. The gradient is moved as it is.",
        in_place=(),
        support=(Support("3_0", (1, 8), FLOATS), Support("4_0", (1, 8), FLOATS), Support("5_1", (1, 8), SIGNED_TO_32)),
    )


class ActivationScaledElu(OneInput):
    """The exponential linear unit times a factor (DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC)."""

    alpha: float = float_attribute("what the exponential side levels off at, with the other sign")
    gamma: float = float_attribute("factor of both sides")
    declaration: ClassVar = elementwise(
        "Gamma * x if x > 0, else Gamma * (Alpha * e^x - Alpha)",
        "Below zero it is computed as Gamma * Alpha * (e^x - 1), without a rounding or an overflow on the way; "
        "an infinite Alpha gives an infinity.",
        "Zeros give Gamma * x: zeros whose sign is the product's.",
        "As in IEEE 754 zero times infinity is NaN; a NaN gives NaN, a NaN Alpha where x is below zero.",
        "Alpha and Gamma are FLOAT32 values in FLOAT16 operators too; denormals among them count as zero.",
        accuracy=Accuracy(
            "accurate", 0.95, "for any Alpha and Gamma; largest found by search: 0.93 ULP; measured: 0.91 ULP"
        ),
        support=_SUPPORT,
    )


class ActivationScaledTanh(OneInput):
    """The hyperbolic tangent with an inner and an outer factor (DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC)."""

    alpha: float = float_attribute("outer factor")
    beta: float = float_attribute("inner factor")
    declaration: ClassVar = elementwise(
        "Alpha * tanh(Beta * x)",
        "Beta * x and the product with Alpha are not rounded on the way and do not overflow or vanish there.",
        "As in IEEE 754 zero times infinity is NaN, in both products; a NaN gives NaN.",
        "Alpha and Beta are FLOAT32 values in FLOAT16 operators too; denormals among them count as zero.",
        accuracy=Accuracy("accurate", 0.95, "for any Alpha and Beta; largest found by search: 0.89 ULP"),
        support=_SUPPORT,
    )


class ActivationShrink(OneInput):
    """Moves what is far from zero towards it, and the rest to it (DML_ACTIVATION_SHRINK_OPERATOR_DESC)."""

    bias: float = float_attribute("by how much values are moved, typically 0")
    threshold: float = float_attribute("from where on, typically 0.5")
    declaration: ClassVar = elementwise(
        "x - Bias if x > Threshold; x + Bias if x < -Threshold; 0 otherwise",
        "NaN gives the canonical quiet NaN. A comparison with a Threshold of NaN is false, so that gives 0.",
        "Integers are compared with Threshold and moved by Bias as exact numbers; the result is truncated toward "
        "zero and saturated, and is 0 when Bias is NaN.",
        FLOAT_ATTRIBUTES_DECISION,
        accuracy=CORRECTLY_ROUNDED,
        support=(Support("2_0", (4, 5), FLOATS), Support("3_0", (1, 8), FLOATS), Support("5_1", (1, 8), TYPES_TO_32)),
    )


class ActivationSigmoid(OneInput):
    """The logistic function of each element (DML_ACTIVATION_SIGMOID_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("values between 0 and 1")
    declaration: ClassVar = elementwise(
        "1 / (1 + e^-x)",
        "-infinity gives +0, infinity gives 1; NaN gives NaN.",
        accuracy=Accuracy("accurate", 0.8),
        support=_SUPPORT,
    )


class ActivationSoftplus(OneInput):
    """A smooth ramp (DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC)."""

    steepness: float = float_attribute(
        "how fast the slope changes from 0 to 1", minimum=Minimum(1.0, FeatureLevel.LEVEL_6_4)
    )
    declaration: ClassVar = elementwise(
        "ln(1 + exp(Steepness * x)) / Steepness",
        "Steepness is at least 1 below feature level 6_4, which takes any FLOAT32 value. It is one in FLOAT16 "
        "operators too; a denormal counts as zero.",
        "No product overflows or is rounded on the way: ln(1 + exp(Steepness * x)) of finite numbers is above zero "
        "and finite. Below zero Steepness turns the ramp around: the results are below zero.",
        "Infinite and zero Steepness and values are taken as IEEE 754 evaluates the formula: 0 gives an infinity "
        "of its sign, and NaN for infinite x; infinity gives +0 for x < 0 and NaN for others.",
        computes_with_denormals=True,
        accuracy=Accuracy("accurate", 0.95, "for any Steepness; largest found by search: 0.76 ULP; measured: 0.64 ULP"),
        support=_SUPPORT,
    )


class ActivationSoftsign(OneInput):
    """Bends the line so that it stays between -1 and 1 (DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("numbers from -1 to 1")
    declaration: ClassVar = elementwise(
        "x / (1 + |x|)",
        "Infinities give 1 and -1; a zero keeps its sign.",
        accuracy=Accuracy("accurate", 0.501),
        support=_SUPPORT,
    )


class ActivationSwish(OneInput):
    """Each element times the logistic function of its multiple (DML_ACTIVATION_SWISH_OPERATOR_DESC)."""

    sigmoid_input_scale: float = float_attribute("factor inside the logistic function")
    declaration: ClassVar = elementwise(
        "x * sigmoid(SigmoidInputScale * x), sigmoid(t) being 1 / (1 + e^-t)",
        "SigmoidInputScale * x and the product are not rounded on the way and do not overflow there.",
        "An infinite x whose sigmoid is 0 gives a zero of its sign, so that -infinity gives -0 (the formula's "
        "infinity times 0 is NaN): the limit.",
        "SigmoidInputScale * x is NaN where it is zero times infinity, as in IEEE 754; a NaN gives NaN.",
        "SigmoidInputScale is a FLOAT32 value in FLOAT16 operators too; a denormal counts as zero.",
        accuracy=Accuracy("accurate", 0.95, "for any SigmoidInputScale; largest found by search: 0.76 ULP"),
        support=(Support("6_2", (1, 8), FLOATS),),
    )


class ActivationTanh(OneInput):
    """The hyperbolic tangent of each element (DML_ACTIVATION_TANH_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "tanh(x)",
        "Infinities give 1 with their sign (the quotient on DirectML's page would be NaN), zeros stay as they "
        "are; NaN gives NaN.",
        accuracy=Accuracy("accurate", 0.75, "measured: 0.73 ULP"),
        support=_SUPPORT,
    )


class ActivationThresholdedRelu(OneInput):
    """Keeps what is above a bound (DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC)."""

    alpha: float = float_attribute("the bound", converted_to="output_tensor")
    declaration: ClassVar = elementwise(
        "x if x > Alpha, else 0",
        "A comparison with NaN is false, so NaN gives +0.",
        "Alpha is converted to the tensor's data type once, rounded to nearest even.",
        support=_SUPPORT,
    )
