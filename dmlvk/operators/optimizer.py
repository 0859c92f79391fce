"""What moves the parameters of a network along their gradients."""

from __future__ import annotations

from dmlvk.operators.words import *

_INPUTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
_OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
_STEP_TYPES = (DataType.UINT32, *FLOATS)


def _adam_shapes(desc: AdamOptimizer | Draft) -> Mapping[str, Sequence[int]]:
    step = tuple(desc.training_step_tensor.sizes)
    if any(size != 1 for size in step):
        refuse(desc, "training_step_tensor.sizes", f"must all be 1, as there is one step; got {list(step)}")
    for member in ("beta1", "beta2"):
        beta = getattr(desc, member)
        if not 0 <= beta <= 1:
            refuse(desc, member, f"must be from 0 to 1; got {beta:g}")
    return dict.fromkeys(_OUTPUTS, desc.input_parameters_tensor.sizes)


class AdamOptimizer(OperatorDesc):
    """One step of the optimizer Adam (DML_ADAM_OPTIMIZER_OPERATOR_DESC)."""

    input_parameters_tensor: TensorDesc = tensor_input("what is learned")
    input_first_moment_tensor: TensorDesc = tensor_input("the moving mean of gradients; 0 before the first step")
    input_second_moment_tensor: TensorDesc = tensor_input("the moving mean of their squares; likewise")
    gradient_tensor: TensorDesc = tensor_input("the gradient of what is to become small")
    training_step_tensor: TensorDesc = tensor_input("a single number: which step this is, from 1 on; not incremented")
    output_parameters_tensor: TensorDesc = tensor_output("the parameters behind the step")
    output_first_moment_tensor: TensorDesc = tensor_output("the first moment behind the step")
    output_second_moment_tensor: TensorDesc = tensor_output("the second moment behind the step")
    learning_rate: float = float_attribute("how far a step goes")
    beta1: float = float_attribute("what of the first moment is kept, from 0 to 1; usually 0.9")
    beta2: float = float_attribute("what of the second moment is kept, from 0 to 1; usually 0.999")
    epsilon: float = float_attribute("added to what is divided by; usually 1e-8")
    declaration: ClassVar = Declaration(
        "composed",
        "M' = Beta1 * M + (1 - Beta1) * G, V' = Beta2 * V + (1 - Beta2) * G * G, X' = X - LearningRate * a "
        "* M' / (sqrt(V') + Epsilon), with a = sqrt(1 - Beta2^T) / (1 - Beta1^T)",
        shapes=_adam_shapes,
        decisions=(
            "The steps, each rounded to nearest even in FLOAT32, whatever the tensors' type: M' = Beta1 * M + "
            "(1 - Beta1) * G; V' = Beta2 * V + ((1 - Beta2) * G) * G; X' = X - (r * M') / (sqrt(V') + Epsilon), with "
            "r = LearningRate * (sqrt(c2) / c1). FLOAT16 results are rounded once more; X' is made of M' and V' before "
            "they are.",
            "The corrections c1 = 1 - Beta1^T and c2 = 1 - Beta2^T are computed with 127 binary places and rounded "
            "once to FLOAT32. A step T of 0 gives 0 / 0: parameters that are NaN. The first step is 1.",
            "TrainingStepTensor may be UINT32, as the page's text says, or FLOAT32 or FLOAT16, as its table says, "
            "whatever the other tensors are; floats are truncated toward zero, NaN and what is below 0 to 0. It has "
            "any number of dimensions that the level permits. Dimension counts other than 4 are accepted from 4_0 on, "
            "as the history of feature levels says.",
            "Beta1 and Beta2 must be from 0 to 1.",
            "In place, an output may share its range with any input but TrainingStepTensor; no two outputs share one.",
            DENORMALS_DECISION,
        ),
        same_sizes=((*_INPUTS, *_OUTPUTS),),
        same_data_type=((*_INPUTS, *_OUTPUTS),),
        in_place=_INPUTS,
        accuracy=Accuracy("correctly rounded", 0.5, "each step, in FLOAT32; FLOAT16 results once more"),
        support=(
            Support("3_0", (4, 4), FLOATS, training_step_tensor=_STEP_TYPES),
            Support("4_0", (1, 8), FLOATS, training_step_tensor=_STEP_TYPES),
        ),
    )
