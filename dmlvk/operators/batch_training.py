"""Batch normalization while a network learns: mean and variance are those of the batch itself."""

from __future__ import annotations

from dmlvk.operators.normalization import FUSED_DECISION, check_broadcast
from dmlvk.operators.words import *


def gradient_shapes(
    desc: BatchNormalizationGrad | BatchNormalizationTrainingGrad | Draft,
) -> Mapping[str, Sequence[int]]:
    """Parameters broadcast; gradients have the sizes of what they are gradients of."""
    for member in ("mean_tensor", "variance_tensor", "scale_tensor"):
        check_broadcast(desc, member)
    parameters = desc.mean_tensor.sizes
    return {
        "output_gradient_tensor": desc.input_tensor.sizes,
        "output_scale_gradient_tensor": parameters,
        "output_bias_gradient_tensor": parameters,
    }


_GRADIENT_SIZES = (
    ("input_tensor", "input_gradient_tensor", "output_gradient_tensor"),
    ("mean_tensor", "variance_tensor", "scale_tensor", "output_scale_gradient_tensor", "output_bias_gradient_tensor"),
)


class BatchNormalizationGradients(OperatorDesc):
    """Values and gradients of a batch normalization."""

    input_tensor: TensorDesc = tensor_input("the values that were normalized")
    input_gradient_tensor: TensorDesc = tensor_input("the gradient of the results")
    mean_tensor: TensorDesc = tensor_input("what was subtracted; of size 1 along axes where it is the same")
    variance_tensor: TensorDesc = tensor_input("the squares of what was divided by; likewise")
    scale_tensor: TensorDesc = tensor_input("what was multiplied by; likewise")
    output_gradient_tensor: TensorDesc = tensor_output("the gradient of the values")
    output_scale_gradient_tensor: TensorDesc = tensor_output("the gradient of Scale")
    output_bias_gradient_tensor: TensorDesc = tensor_output("the gradient of what was added")
    epsilon: float = float_attribute("added to the variance")


class BatchNormalizationGrad(BatchNormalizationGradients):
    """Gradients with a constant mean and variance (DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "normalization",
        "OutputGradient = g * Scale / sqrt(Variance + Epsilon), OutputScaleGradient = sum of g * (x - Mean) / "
        "sqrt(Variance + Epsilon), OutputBiasGradient = sum of g",
        shapes=gradient_shapes,
        decisions=(
            "Steps are in FLOAT32, whatever the tensors' type, each rounded to nearest even: r = sqrt(Variance + "
            "Epsilon), g * (Scale / r), d = x - Mean, p = g * d, (sum of p) / r. FLOAT16 results are rounded "
            "once more. Sums run over the axes along which Mean has size 1, and are made like REDUCE's.",
            DENORMALS_DECISION,
        ),
        same_sizes=_GRADIENT_SIZES,
        accuracy=Accuracy("correctly rounded", 0.5, "each step, in FLOAT32, and sums as REDUCE's; FLOAT16 once more"),
        support=(Support("3_1", (1, 8), FLOATS),),
    )


_SUMS_DECISION = (
    "Sums run over the axes along which ScaleTensor has size 1, and are made like REDUCE's. The mean is kept in two "
    "words; below 2^-102 it counts as 0."
)


def _training_shapes(desc: BatchNormalizationTraining | Draft) -> Mapping[str, Sequence[int]]:
    check_broadcast(desc, "scale_tensor")
    parameters = desc.scale_tensor.sizes
    return {
        "output_tensor": desc.input_tensor.sizes,
        "output_mean_tensor": parameters,
        "output_variance_tensor": parameters,
    }


class BatchNormalizationTraining(OperatorDesc):
    """Shifts and scales by the batch's own mean and variance (DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    scale_tensor: TensorDesc = tensor_input("what is multiplied by; of size 1 along axes over which the mean is taken")
    bias_tensor: TensorDesc = tensor_input("what is added; likewise")
    fused_add_tensor: TensorDesc | None = tensor_input("what is added then, to each element its own", default=None)
    output_tensor: TensorDesc = tensor_output("the results")
    output_mean_tensor: TensorDesc = tensor_output("the means")
    output_variance_tensor: TensorDesc = tensor_output("the variances")
    epsilon: float = float_attribute("added to the variance")
    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the results")
    declaration: ClassVar = Declaration(
        "normalization",
        "FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias + FusedAdd), OutputMean = mean, "
        "OutputVariance = variance",
        shapes=_training_shapes,
        decisions=(
            "The variance is the population's: the mean of the squared differences from the mean. Equal numbers have "
            "variance 0, and large means cost no accuracy.",
            _SUMS_DECISION,
            "The steps, each rounded to nearest even in FLOAT32, whatever the tensors' type: r = sqrt(variance + "
            "Epsilon), f = Scale / r, d = x - mean, p = d * f, s = p + Bias, s + FusedAdd; the last is left out "
            "without its operand. Of FLOAT16 tensors the results are rounded once more; mean and variance go into the "
            "steps before they are.",
            FUSED_DECISION,
            DENORMALS_DECISION,
        ),
        same_sizes=(
            ("input_tensor", "fused_add_tensor", "output_tensor"),
            ("scale_tensor", "bias_tensor", "output_mean_tensor", "output_variance_tensor"),
        ),
        accuracy=Accuracy(
            "accurate", 0.5, "beside 4 ULP of the product and of its sum with Bias, and 2^-40 of the mean magnitude"
        ),
        support=(Support("4_1", (1, 8), FLOATS),),
    )


class BatchNormalizationTrainingGrad(BatchNormalizationGradients):
    """Gradients with the batch's own mean and variance (DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC)."""

    mean_tensor: TensorDesc = tensor_input("the means; of size 1 along axes over which they were taken")
    variance_tensor: TensorDesc = tensor_input("the variances; likewise")
    declaration: ClassVar = Declaration(
        "normalization",
        "OutputGradient = Scale / sqrt(Variance + Epsilon) * (g - mean(g) - (x - mean(x)) * "
        "mean(g * (x - mean(x))) / (Variance + Epsilon)), OutputScaleGradient = sum of g * (x - Mean) / "
        "sqrt(Variance + Epsilon), OutputBiasGradient = sum of g",
        shapes=gradient_shapes,
        decisions=(
            "The centred input, which the page states by itself, is the input less its mean. That is the mean of the "
            "values as they are, made anew in two words, since MeanTensor is rounded; MeanTensor is what "
            "OutputScaleGradient is made with.",
            _SUMS_DECISION.replace("ScaleTensor", "MeanTensor"),
            "The steps, each rounded to nearest even in FLOAT32, whatever the tensors' type: v = Variance + Epsilon, "
            "r = sqrt(v), f = Scale / r, d = x - mean, p = g * d, s = sum of p, b = sum of g, h = b / n, "
            "k = (s / n) / v, OutputGradient = ((g - h) - d * k) * f, OutputScaleGradient = "
            "(s + (mean - Mean) * b) / r (s / r where s is not finite), OutputBiasGradient = b. FLOAT16 results are "
            "rounded once more.",
            DENORMALS_DECISION,
        ),
        same_sizes=_GRADIENT_SIZES,
        accuracy=Accuracy(
            "accurate", 0.5, "beside 4 ULP of each number that is added, and 2^-40 of the mean magnitudes"
        ),
        support=(Support("4_1", (1, 8), FLOATS),),
    )
