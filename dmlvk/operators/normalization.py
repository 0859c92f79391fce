"""Operators that shift and scale a tensor's elements by a mean and a variance."""

from __future__ import annotations

from dmlvk.operators.words import *

FUSED_DECISION = (
    "A fused activation is applied to results that were rounded to the tensors' data type: the bits are those of the "
    "operator without it, followed by the activation. It needs the feature level that the activation itself needs."
)


def check_broadcast(desc: WithInput | Draft, member: str) -> None:
    """Checks that a tensor has the input's number of dimensions, each of the input's size or of size 1.

    Raises:
        InvalidArgumentError: when it has others.
    """
    tensor, source = tensor_of(desc, member), desc.input_tensor
    if tensor is None:
        return
    check_dimension_count(desc, member, source.dimension_count, "as InputTensor has")
    for axis, (own, size) in enumerate(zip(tensor.sizes, source.sizes, strict=True)):
        if own not in (1, size):
            refuse(desc, f"{member}.sizes[{axis}]", f"must be 1 or InputTensor's {size}; got {own}")


def _batch_shapes(desc: BatchNormalization | Draft) -> Mapping[str, Sequence[int]]:
    for member in ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor"):
        check_broadcast(desc, member)
    return {"output_tensor": desc.input_tensor.sizes}


class BatchNormalization(OperatorDesc):
    """Shifts and scales by a given mean and variance (DML_BATCH_NORMALIZATION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    mean_tensor: TensorDesc = tensor_input("what is subtracted; of size 1 along axes where it is the same")
    variance_tensor: TensorDesc = tensor_input("the squares of what is divided by; likewise")
    scale_tensor: TensorDesc = tensor_input("what is multiplied by; likewise")
    bias_tensor: TensorDesc = tensor_input("what is added; likewise")
    output_tensor: TensorDesc = tensor_output("the results")
    spatial: bool = boolean_attribute("has no effect; deprecated since feature level 4_0")
    epsilon: float = float_attribute("added to the variance")
    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the results")
    declaration: ClassVar = Declaration(
        "normalization",
        "FusedActivation(Scale * (x - Mean) / sqrt(Variance + Epsilon) + Bias)",
        shapes=_batch_shapes,
        decisions=(
            "The steps, each rounded to nearest even in FLOAT32, whatever the tensors' type: v = Variance + Epsilon, "
            "r = sqrt(v), f = Scale / r, d = x - Mean, p = d * f, p + Bias. Of FLOAT16 tensors the last result is "
            "rounded once more. Zeros, infinities and negative variances go through these steps as through the "
            "element-wise operators.",
            "Spatial has no effect at any feature level: sizes alone say what is broadcast.",
            FUSED_DECISION,
            DENORMALS_DECISION,
        ),
        same_sizes=(("input_tensor", "output_tensor"),),
        accuracy=Accuracy("correctly rounded", 0.5, "each of the six steps, in FLOAT32; FLOAT16 results once more"),
        support=(Support("1_0", (4, 4), FLOATS), Support("3_1", (1, 8), FLOATS)),
    )


_MEAN_DECISIONS = (
    "The mean is kept in two words, made like REDUCE's sums, and the variance is the mean of the squared differences "
    "from it: large means cost no accuracy, and equal numbers have variance 0. It is the population's. Differences, "
    "their squares and the sums of four neighbours' squares are rounded to FLOAT32; these sums are added up in two "
    "words, in REDUCE's order.",
    "The steps, each rounded to nearest even in FLOAT32, whatever the tensors' type: v = variance + Epsilon, "
    "r = sqrt(v), f = 1 / r, d = x - mean, p = d * f, s = p * Scale, s + Bias; steps without their operand "
    "are left out. Of FLOAT16 tensors the last result is rounded once more.",
    "Scale and Bias may each be absent, and each be of size 1 along any axis, at every feature level.",
    FUSED_DECISION,
    DENORMALS_DECISION,
)
_MEAN_ACCURACY = Accuracy(
    "accurate", 0.5, "beside 4 ULP of the product before Bias, and 2^-40 of the mean magnitude times its factor"
)


def _mean_shapes(desc: WithInput | Draft) -> Mapping[str, Sequence[int]]:
    for member in ("scale_tensor", "bias_tensor"):
        check_broadcast(desc, member)
    return {"output_tensor": desc.input_tensor.sizes}


class _Normalization(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("the values")
    scale_tensor: TensorDesc | None = tensor_input(
        "what is multiplied by; of size 1 along axes where it is the same", default=None
    )
    bias_tensor: TensorDesc | None = tensor_input("what is added; likewise", default=None)
    output_tensor: TensorDesc = tensor_output("the results")


class MeanVarianceNormalization(_Normalization):
    """Shifts and scales by the mean and variance of each image (DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values: batches, channels, height, width")
    cross_channel: bool = boolean_attribute("whether all channels of a batch have one mean and variance")
    normalize_variance: bool = boolean_attribute("whether to divide by the square root of the variance")
    epsilon: float = float_attribute("added to the variance")
    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the results")
    declaration: ClassVar = Declaration(
        "normalization",
        "FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias)",
        shapes=_mean_shapes,
        decisions=_MEAN_DECISIONS,
        same_sizes=(("input_tensor", "output_tensor"),),
        accuracy=_MEAN_ACCURACY,
        support=(Support("1_0", (4, 4), FLOATS),),
    )


class _NormalizationAlongAxes(_Normalization):
    axis_count: int = count_attribute("number of Axes")
    axes: Sequence[int] = axes_attribute(
        "the axes over which mean and variance are taken", counted_by="axis_count", axes_of="input_tensor"
    )


class MeanVarianceNormalization1(_NormalizationAlongAxes):
    """The same along any axes (DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC)."""

    normalize_variance: bool = boolean_attribute("whether to divide by the square root of the variance")
    epsilon: float = float_attribute("added to the variance")
    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the results")
    declaration: ClassVar = MeanVarianceNormalization.declaration.version(
        support=(Support("2_1", (4, 4), FLOATS), Support("3_1", (1, 8), FLOATS))
    )


class MeanVarianceNormalization2(_NormalizationAlongAxes):
    """The same with or without the mean (DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC)."""

    use_mean: bool = boolean_attribute("whether to subtract the mean; else it counts as 0")
    use_variance: bool = boolean_attribute("whether to divide by the square root of the variance")
    epsilon: float = float_attribute("added to the variance")
    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the results")
    declaration: ClassVar = MeanVarianceNormalization1.declaration.version(
        decisions=(
            "Where UseMean is FALSE the mean counts as 0 throughout: the variance is then the mean of the squares.",
            *_MEAN_DECISIONS,
        ),
        support=(Support("6_3", (1, 8), FLOATS),),
    )


def _norm_shapes(desc: LpNormalization | Draft) -> Mapping[str, Sequence[int]]:
    check_axis(desc, "axis", "input_tensor")
    return {"output_tensor": desc.input_tensor.sizes}


class LpNormalization(OneInput):
    """Divides each row by its norm (DML_LP_NORMALIZATION_OPERATOR_DESC)."""

    axis: int = unsigned_attribute("the axis along which a row lies")
    epsilon: float = float_attribute("what the divisor is at least")
    p: int = unsigned_attribute("which norm: 1, sum of magnitudes, or 2, root of the sum of squares", range=(1, 2))
    declaration: ClassVar = Declaration(
        "normalization",
        "x / max(norm, Epsilon), the norm being sum |x| (P 1) or sqrt(sum x^2) (P 2) of x's row along Axis",
        shapes=_norm_shapes,
        decisions=(
            "The divisor is the larger one of norm and Epsilon.",
            "The norm is that of REDUCE, rounded to FLOAT32; then the quotient is. Of FLOAT16 tensors the quotient is "
            "rounded once more. A row with NaN in it is NaN throughout.",
            DENORMALS_DECISION,
        ),
        same_sizes=(("input_tensor", "output_tensor"),),
        accuracy=Accuracy("accurate", 1.5, "FLOAT16: 0.6 ULP"),
        support=(Support("1_0", (4, 4), FLOATS), Support("3_1", (1, 8), FLOATS)),
    )


def _sizes(desc: ResidualNormalization | Draft) -> Mapping[str, Sequence[int]]:
    rows, length = desc.input_tensor.sizes
    if length % 2:
        refuse(desc, "input_tensor.sizes", f"must end with an even size; got {length}")
    if desc.skip_tensor is not None:
        repeated = desc.skip_tensor.sizes[0]
        if rows % repeated:
            refuse(desc, "skip_tensor.sizes", f"must begin with a divisor of {rows}; got {repeated}")
        check_sizes(desc, "skip_tensor", (repeated, length))
    check_sizes(desc, "scale_tensor", (length,))
    if desc.bias_tensor is not None:
        check_sizes(desc, "bias_tensor", (length,))
    return {"output_tensor": (rows, length), "sum_tensor": (rows, length)}


class ResidualNormalization(OperatorDesc, is_listed=False):
    """A sum divided by the root of its mean square over each row (dmlvk's own operator)."""

    input_tensor: TensorDesc = tensor_input("rows, elements")
    skip_tensor: TensorDesc | None = tensor_input("what is added: as many rows, or fewer that repeat", default=None)
    scale_tensor: TensorDesc = tensor_input("what results are multiplied by, for each element of a row")
    bias_tensor: TensorDesc | None = tensor_input("what is added to the sum, likewise", default=None)
    output_tensor: TensorDesc = tensor_output("rows, elements")
    sum_tensor: TensorDesc | None = tensor_output("the sum", default=None)
    epsilon: float = float_attribute("what is added to the mean square")
    declaration: ClassVar = Declaration(
        "composed",
        "x = Input + Skip + Bias, x / sqrt(mean(x^2) + Epsilon) * Scale",
        shapes=_sizes,
        accuracy=Accuracy("accurate", 3.0),
        support=(Support("1_0", (2, 2), FLOATS, dimensions_of={"scale_tensor": (1, 1), "bias_tensor": (1, 1)}),),
    )
