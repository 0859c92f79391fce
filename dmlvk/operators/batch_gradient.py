"""The gradient of a batch normalization whose mean and variance are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import float_attribute, tensor_input, tensor_output
from dmlvk.operators.normalization import check_broadcast
from dmlvk.operators.shapes import Draft
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.operators.batch_training import BatchNormalizationTrainingGrad

__all__ = ["BatchNormalizationGrad"]


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
        same_sizes=(
            ("input_tensor", "input_gradient_tensor", "output_gradient_tensor"),
            (
                "mean_tensor",
                "variance_tensor",
                "scale_tensor",
                "output_scale_gradient_tensor",
                "output_bias_gradient_tensor",
            ),
        ),
        accuracy=Accuracy("correctly rounded", 0.5, "each step, in FLOAT32, and sums as REDUCE's; FLOAT16 once more"),
        support=(Support("3_1", (1, 8), FLOATS),),
    )
