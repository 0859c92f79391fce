"""Made by scripts/make_docs.py from the operators' declarations; changes belong there."""

from collections.abc import Sequence
from typing import overload

from dmlvk.datatypes import DataTypeLike
from dmlvk.graphs.builder import Graph, Operand
from dmlvk.graphs.expression import Expression
from dmlvk.operators import FusedActivation, ScaleBias, Size2D
from dmlvk.operators.attention import MultiheadAttentionMaskType
from dmlvk.operators.convolution import ConvolutionDirection, ConvolutionMode
from dmlvk.operators.matrix import MatrixTransform
from dmlvk.operators.members import AxisDirection, IsInfinityMode, QuantizationType, ReduceFunction, RoundingMode
from dmlvk.operators.random import RandomGeneratorType
from dmlvk.operators.rearrangement import DepthSpaceOrder, PaddingMode
from dmlvk.operators.recurrent import RecurrentNetworkDirection
from dmlvk.operators.resampling import InterpolationMode

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hard_sigmoid",
    "activation_hard_swish",
    "activation_hardmax",
    "activation_hardmax1",
    "activation_identity",
    "activation_leaky_relu",
    "activation_linear",
    "activation_log_softmax",
    "activation_log_softmax1",
    "activation_parameterized_relu",
    "activation_parametric_softplus",
    "activation_relu",
    "activation_relu_grad",
    "activation_scaled_elu",
    "activation_scaled_tanh",
    "activation_shrink",
    "activation_sigmoid",
    "activation_softmax",
    "activation_softmax1",
    "activation_softplus",
    "activation_softsign",
    "activation_swish",
    "activation_tanh",
    "activation_thresholded_relu",
    "adam_optimizer",
    "add",
    "add1",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan_yx",
    "atanh",
    "average_pooling",
    "average_pooling1",
    "average_pooling_grad",
    "batch_normalization",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "bit_and",
    "bit_count",
    "bit_not",
    "bit_or",
    "bit_shift_left",
    "bit_shift_right",
    "bit_xor",
    "bitwise_and",
    "bitwise_count",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "cast",
    "ceil",
    "celu",
    "clip",
    "clip1",
    "clip_grad",
    "clip_grad1",
    "concatenate",
    "constant_pow",
    "convolution",
    "convolution_integer",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "cumulative_product",
    "cumulative_summation",
    "depth_to_space",
    "depth_to_space1",
    "dequantize",
    "dequantize_linear",
    "diagonal_matrix",
    "diagonal_matrix1",
    "difference_square",
    "divide",
    "dynamic_quantize_linear",
    "elu",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "fill_value_constant",
    "fill_value_sequence",
    "floor",
    "fmod",
    "fold",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_nd1",
    "gelu",
    "gemm",
    "greater",
    "greater_equal",
    "gru",
    "hard_sigmoid",
    "hard_swish",
    "hardmax",
    "hardmax1",
    "identity",
    "if_",
    "invert",
    "is_infinity",
    "is_nan",
    "isinf",
    "isnan",
    "join",
    "leaky_relu",
    "left_shift",
    "less",
    "less_equal",
    "linear",
    "local_response_normalization",
    "local_response_normalization_grad",
    "log",
    "log_softmax",
    "log_softmax1",
    "logical_and",
    "logical_equals",
    "logical_greater_than",
    "logical_greater_than_or_equal",
    "logical_less_than",
    "logical_less_than_or_equal",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lp_normalization",
    "lp_pooling",
    "lp_pooling1",
    "lstm",
    "matmul",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "max",
    "max_pooling",
    "max_pooling1",
    "max_pooling2",
    "max_pooling_grad",
    "max_unpooling",
    "maximum",
    "mean",
    "mean_variance_normalization",
    "mean_variance_normalization1",
    "mean_variance_normalization2",
    "min",
    "minimum",
    "modulus_floor",
    "modulus_truncate",
    "multihead_attention",
    "multihead_attention1",
    "multiply",
    "negate",
    "negative",
    "nonzero_coordinates",
    "not_equal",
    "one_hot",
    "padding",
    "padding1",
    "parameterized_relu",
    "parametric_softplus",
    "pow",
    "power",
    "prod",
    "quantize",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "random_generator",
    "recip",
    "reciprocal",
    "reduce",
    "relu",
    "relu_grad",
    "remainder",
    "resample",
    "resample1",
    "resample2",
    "resample3",
    "resample_grad",
    "resample_grad1",
    "reshape",
    "reverse_subsequences",
    "right_shift",
    "rint",
    "rnn",
    "roi_align",
    "roi_align1",
    "roi_align_grad",
    "roi_pooling",
    "round",
    "scaled_elu",
    "scaled_tanh",
    "scatter",
    "scatter_nd",
    "shrink",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice1",
    "slice_grad",
    "softmax",
    "softmax1",
    "softplus",
    "softsign",
    "space_to_depth",
    "space_to_depth1",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "swish",
    "tan",
    "tanh",
    "threshold",
    "thresholded_relu",
    "tile",
    "top_k",
    "top_k1",
    "transpose",
    "unfold",
    "upsample_2d",
    "value_scale_2d",
    "where",
]

def abs(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ABS: |x|

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def acos(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ACOS: arccos(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def acosh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ACOSH: acosh(x) = ln(x + sqrt(x * x - 1))

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def activation_celu(
    input: Operand,
    alpha: float = 1.0,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_CELU: max(0, x) + min(0, Alpha * (e^(x / Alpha) - 1))

    Args:
        input: the values
        alpha: where the exponential side levels off, and how fast
    """

def activation_elu(
    input: Operand,
    alpha: float = 1.0,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_ELU: x if x >= 0, else Alpha * (e^x - 1)

    Args:
        input: the values
        alpha: what the exponential side levels off at, with the other sign
    """

def activation_gelu(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_GELU: x / 2 * (1 + erf(x / sqrt(2)))

    Args:
        input: the values
    """

def activation_hard_sigmoid(
    input: Operand,
    alpha: float = 0.2,
    beta: float = 0.5,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_HARD_SIGMOID: max(0, min(Alpha * x + Beta, 1))

    Args:
        input: the values
        alpha: slope of the line, typically 0.2
        beta: height of the line at 0, typically 0.5
    """

def activation_hard_swish(
    input: Operand,
    alpha: float,
    beta: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_HARD_SWISH: x * max(0, min(Alpha * x + Beta, 1))

    Args:
        input: the values
        alpha: slope of the line, typically 1/6
        beta: height of the line at 0, typically 0.5
    """

def activation_hardmax(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_HARDMAX: 1 at the first of the row's largest elements, 0 elsewhere

    Args:
        input: the values; its rows lie along the last dimension
    """

def activation_hardmax1(
    input: Operand,
    axes: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_HARDMAX1: 1 at the first of the row's largest elements, 0 elsewhere

    Args:
        input: the values
        axes: the axes along which a row lies
    """

def activation_identity(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_IDENTITY: x

    Args:
        input: the values
    """

def activation_leaky_relu(
    input: Operand,
    alpha: float = 0.01,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_LEAKY_RELU: x if x >= 0, else Alpha * x

    Args:
        input: the values
        alpha: slope below zero, typically 0.01
    """

def activation_linear(
    input: Operand,
    alpha: float,
    beta: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_LINEAR: Alpha * x + Beta

    Args:
        input: the values
        alpha: slope of the line
        beta: height of the line at 0
    """

def activation_log_softmax(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_LOG_SOFTMAX: ln(e^x / sum of e^x over the row)

    Args:
        input: the values; its rows lie along the last dimension
    """

def activation_log_softmax1(
    input: Operand,
    axes: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_LOG_SOFTMAX1: ln(e^x / sum of e^x over the row)

    Args:
        input: the values
        axes: the axes along which a row lies
    """

def activation_parameterized_relu(
    input: Operand,
    slope: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_PARAMETERIZED_RELU: x if x >= 0, else slope * x

    Args:
        input: the values
        slope: the slope below zero for each of them
    """

def activation_parametric_softplus(
    input: Operand,
    alpha: float,
    beta: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_PARAMETRIC_SOFTPLUS: Alpha * ln(1 + exp(Beta * x))

    Args:
        input: the values
        alpha: factor of the ramp
        beta: factor of the values
    """

def activation_relu(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_RELU: max(0, x)

    Args:
        input: the values
    """

def activation_relu_grad(
    input: Operand,
    input_gradient: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_RELU_GRAD: the gradient if x > 0, else 0

    Args:
        input: the values x that went into RELU
        input_gradient: the gradient of its output
    """

def activation_scaled_elu(
    input: Operand,
    alpha: float = 1.6732631921768188,
    gamma: float = 1.0507010221481323,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SCALED_ELU: Gamma * x if x > 0, else Gamma * (Alpha * e^x - Alpha)

    Args:
        input: the values
        alpha: what the exponential side levels off at, with the other sign
        gamma: factor of both sides
    """

def activation_scaled_tanh(
    input: Operand,
    alpha: float = 1.0,
    beta: float = 0.5,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SCALED_TANH: Alpha * tanh(Beta * x)

    Args:
        input: the values
        alpha: outer factor
        beta: inner factor
    """

def activation_shrink(
    input: Operand,
    bias: float = 0.0,
    threshold: float = 0.5,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SHRINK: x - Bias if x > Threshold; x + Bias if x < -Threshold; 0 otherwise

    Args:
        input: the values
        bias: by how much values are moved, typically 0
        threshold: from where on, typically 0.5
    """

def activation_sigmoid(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SIGMOID: 1 / (1 + e^-x)

    Args:
        input: the values
    """

def activation_softmax(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SOFTMAX: e^x / sum of e^x over the row

    Args:
        input: the values; its rows lie along the last dimension
    """

def activation_softmax1(
    input: Operand,
    axes: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SOFTMAX1: e^x / sum of e^x over the row

    Args:
        input: the values
        axes: the axes along which a row lies
    """

def activation_softplus(
    input: Operand,
    steepness: float = 1.0,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SOFTPLUS: ln(1 + exp(Steepness * x)) / Steepness

    Args:
        input: the values
        steepness: how fast the slope changes from 0 to 1
    """

def activation_softsign(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SOFTSIGN: x / (1 + |x|)

    Args:
        input: the values
    """

def activation_swish(
    input: Operand,
    sigmoid_input_scale: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_SWISH: x * sigmoid(SigmoidInputScale * x), sigmoid(t) being 1 / (1 + e^-t)

    Args:
        input: the values
        sigmoid_input_scale: factor inside the logistic function
    """

def activation_tanh(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_TANH: tanh(x)

    Args:
        input: the values
    """

def activation_thresholded_relu(
    input: Operand,
    alpha: float = 1.0,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ACTIVATION_THRESHOLDED_RELU: x if x > Alpha, else 0

    Args:
        input: the values
        alpha: the bound
    """

def adam_optimizer(
    input_parameters: Operand,
    input_first_moment: Operand,
    input_second_moment: Operand,
    gradient: Operand,
    training_step: Operand,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """ADAM_OPTIMIZER: M' = Beta1 * M + (1 - Beta1) * G, V' = Beta2 * V + (1 - Beta2) * G * G, X' = X - LearningRate *
        a * M' / (sqrt(V') + Epsilon), with a = sqrt(1 - Beta2^T) / (1 - Beta1^T)

    Args:
        input_parameters: what is learned
        input_first_moment: the moving mean of gradients; 0 before the first step
        input_second_moment: the moving mean of their squares; likewise
        gradient: the gradient of what is to become small
        training_step: a single number: which step this is, from 1 on; not incremented
        learning_rate: how far a step goes
        beta1: what of the first moment is kept, from 0 to 1; usually 0.9
        beta2: what of the second moment is kept, from 0 to 1; usually 0.999
        epsilon: added to what is divided by; usually 1e-8
    """

def add(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ADD: a + b

    Args:
        a: left operand
        b: right operand
    """

def add1(
    a: Operand,
    b: Operand,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ADD1: FusedActivation(a + b)

    Args:
        a: left operand
        b: right operand
        fused_activation: the activation to apply to the sums
    """

@overload
def argmax(
    input: Operand,
    axes: Sequence[int],
    axis_direction: AxisDirection,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ARGMAX: the index of the row's largest element

    Args:
        input: the values
        axes: the axes along which a row lies
        axis_direction: of equal elements, whether the first (INCREASING) or the last is meant
    """

@overload
def argmax(a: Expression, *, axis: int | None = None, keepdims: bool = False) -> Expression:
    """Where the first largest element lies along an axis, or in the whole tensor (ARGMAX), as UINT32."""

@overload
def argmin(
    input: Operand,
    axes: Sequence[int],
    axis_direction: AxisDirection,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ARGMIN: the index of the row's smallest element

    Args:
        input: the values
        axes: the axes along which a row lies
        axis_direction: of equal elements, whether the first (INCREASING) or the last is meant
    """

@overload
def argmin(a: Expression, *, axis: int | None = None, keepdims: bool = False) -> Expression:
    """Where the first smallest element lies along an axis, or in the whole tensor (ARGMIN), as UINT32."""

def asin(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ASIN: arcsin(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def asinh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ASINH: asinh(x) = ln(x + sqrt(x * x + 1))

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def atan(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ATAN: arctan(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def atan_yx(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ATAN_YX: arctan(y / x), in the quadrant of the point (x, y); y is of ATensor, x of BTensor

    Args:
        a: the points' y
        b: the points' x
    """

def atanh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ATANH: atanh(x) = ln((1 + x) / (1 - x)) / 2

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def average_pooling(
    input: Operand,
    window_size: Sequence[int],
    include_padding: bool,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """AVERAGE_POOLING: sum of each window / number of its elements

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        include_padding: whether padding counts, as zeros
    """

def average_pooling1(
    input: Operand,
    window_size: Sequence[int],
    include_padding: bool,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """AVERAGE_POOLING1: sum of each window / number of its elements

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        dilations: how far apart the elements of a window are, for each spatial axis; 1: side by side
        include_padding: whether padding counts, as zeros
    """

def average_pooling_grad(
    input_gradient: Operand,
    strides: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    include_padding: bool,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """AVERAGE_POOLING_GRAD: sum of InputGradient / number of its elements over the windows that an element lies in

    Args:
        input_gradient: gradients of the means
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        include_padding: whether padding counted in the means
    """

def batch_normalization(
    input: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    bias: Operand,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """BATCH_NORMALIZATION: FusedActivation(Scale * (x - Mean) / sqrt(Variance + Epsilon) + Bias)

    Args:
        input: the values
        mean: what is subtracted; of size 1 along axes where it is the same
        variance: the squares of what is divided by; likewise
        scale: what is multiplied by; likewise
        bias: what is added; likewise
        spatial: has no effect; deprecated since feature level 4_0
        epsilon: added to the variance
        fused_activation: the activation to apply to the results
    """

def batch_normalization_grad(
    input: Operand,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    epsilon: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """BATCH_NORMALIZATION_GRAD: OutputGradient = g * Scale / sqrt(Variance + Epsilon), OutputScaleGradient = sum of g
        * (x - Mean) / sqrt(Variance + Epsilon), OutputBiasGradient = sum of g

    Args:
        input: the values that were normalized
        input_gradient: the gradient of the results
        mean: what was subtracted; of size 1 along axes where it is the same
        variance: the squares of what was divided by; likewise
        scale: what was multiplied by; likewise
        epsilon: added to the variance
    """

def batch_normalization_training(
    input: Operand,
    scale: Operand,
    bias: Operand,
    epsilon: float,
    fused_add: Operand | None = None,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """BATCH_NORMALIZATION_TRAINING: FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias + FusedAdd),
        OutputMean = mean, OutputVariance = variance

    Args:
        input: the values
        scale: what is multiplied by; of size 1 along axes over which the mean is taken
        bias: what is added; likewise
        fused_add: what is added then, to each element its own
        epsilon: added to the variance
        fused_activation: the activation to apply to the results
    """

def batch_normalization_training_grad(
    input: Operand,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    epsilon: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """BATCH_NORMALIZATION_TRAINING_GRAD: OutputGradient = Scale / sqrt(Variance + Epsilon) * (g - mean(g) - (x -
        mean(x)) * mean(g * (x - mean(x))) / (Variance + Epsilon)), OutputScaleGradient = sum of g * (x - Mean) /
        sqrt(Variance + Epsilon), OutputBiasGradient = sum of g

    Args:
        input: the values that were normalized
        input_gradient: the gradient of the results
        mean: the means; of size 1 along axes over which they were taken
        variance: the variances; likewise
        scale: what was multiplied by; likewise
        epsilon: added to the variance
    """

def bit_and(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_AND: a & b

    Args:
        a: left operand
        b: right operand
    """

def bit_count(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_COUNT: number of bits of x that are 1

    Args:
        input: the values
    """

def bit_not(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_NOT: ~x

    Args:
        input: the values
    """

def bit_or(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_OR: a | b

    Args:
        a: left operand
        b: right operand
    """

def bit_shift_left(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_SHIFT_LEFT: a << b, zeros coming in

    Args:
        a: the bits
        b: by how many places
    """

def bit_shift_right(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_SHIFT_RIGHT: a >> b, zeros coming in

    Args:
        a: the bits
        b: by how many places
    """

def bit_xor(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_BIT_XOR: a ^ b

    Args:
        a: left operand
        b: right operand
    """

def broadcast_to(a: Expression, shape: Sequence[int]) -> Expression:
    """The elements repeated along axes of size 1, and along new leading ones: a view, nothing is copied."""

def cast(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """CAST: x, as the output's data type

    Args:
        input: the elements
    """

def ceil(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CEIL: ceil(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def clip(
    input: Operand,
    min: float,
    max: float,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CLIP: max(Min, min(x, Max))

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
        min: lower bound
        max: upper bound
    """

def clip1(
    input: Operand,
    min: float,
    max: float,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CLIP1: max(Min, min(x, Max))

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
        min: lower bound
        max: upper bound
    """

def clip_grad(
    input: Operand,
    input_gradient: Operand,
    min: float,
    max: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CLIP_GRAD: 0 if x <= Min or x >= Max, else the gradient

    Args:
        input: the values x that went into CLIP
        input_gradient: the gradient of its output
        min: lower bound
        max: upper bound
    """

def clip_grad1(
    input: Operand,
    input_gradient: Operand,
    min: float,
    max: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CLIP_GRAD1: 0 if x <= Min or x >= Max, else the gradient

    Args:
        input: the values x that went into CLIP1
        input_gradient: the gradient of its output
        min: lower bound
        max: upper bound
    """

def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Expression:
    """Tensors behind one another along an axis that they have (JOIN).

    Args:
        arrays: of equal sizes along all other axes.
        axis: counted from the end when below 0.

    Raises:
        InvalidArgumentError: when shapes or data types differ, or there is no such axis.
    """

def constant_pow(
    input: Operand,
    exponent: float,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_CONSTANT_POW: pow(x, Exponent)

    Args:
        input: the bases
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
        exponent: the power that all are raised to
    """

def convolution(
    input: Operand,
    filter: Operand,
    bias: Operand | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group_count: int = 1,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """CONVOLUTION: FusedActivation(convolution of Input with Filter + Bias)

    Args:
        input: batch, channels, and 1 to 3 spatial dimensions
        filter: forward: output channels, input channels of a group, and the window; backward: input channels,
            output channels of a group, and the window
        bias: a number for each output channel, which is added
        mode: whether the filter is turned over
        direction: forward, or transposed
        strides: how far windows lie from one another
        dilations: how far a window's elements lie from one another
        start_padding: places before the first one: of the input, or backward taken away from the result
        end_padding: places behind the last one, likewise
        output_padding: further places at the end of the result
        group_count: groups of channels that have nothing to do with one another
        fused_activation: the activation that is applied to the results
    """

def convolution_integer(
    input: Operand,
    filter: Operand,
    input_zero_point: Operand | None = None,
    filter_zero_point: Operand | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int = 1,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """CONVOLUTION_INTEGER: cross-correlation of Input - InputZeroPoint with Filter - FilterZeroPoint

    Args:
        input: batch, channels, and 1 or 2 spatial dimensions
        input_zero_point: what is subtracted from the input: one number
        filter: output channels, input channels of a group, and the window
        filter_zero_point: what is subtracted from the filter: one number, or one for each output channel
        strides: how far windows lie from one another
        dilations: how far a window's elements lie from one another
        start_padding: places before the input's first one
        end_padding: places behind the input's last one
        group_count: groups of channels that have nothing to do with one another
    """

def cos(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_COS: cos(x)

    Args:
        input: the angles
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def cosh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_COSH: cosh(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def cumprod(a: Expression, axis: int | None = None) -> Expression:
    """The running product along an axis (CUMULATIVE_PRODUCT): arguments as for ``cumsum``."""

def cumsum(a: Expression, axis: int | None = None) -> Expression:
    """The running sum along an axis (CUMULATIVE_SUMMATION).

    Args:
        a: what is added up; integers of 8 and 16 bits in 32 bits.
        axis: counted from the end when below 0; ``None``: all elements in a row.

    Raises:
        InvalidArgumentError: when there is no such axis.
    """

def cumulative_product(
    input: Operand,
    axis: int,
    axis_direction: AxisDirection,
    has_exclusive_product: bool,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """CUMULATIVE_PRODUCT: the product of the row's elements up to each one, or of those before it

    Args:
        input: the values
        axis: the axis along which values are multiplied
        axis_direction: whether products begin at the first element (INCREASING) or at the last
        has_exclusive_product: whether an element is left out of its own product, so that the first is 1
    """

def cumulative_summation(
    input: Operand,
    axis: int,
    axis_direction: AxisDirection,
    has_exclusive_sum: bool,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """CUMULATIVE_SUMMATION: the sum of the row's elements up to each one, or of those before it

    Args:
        input: the values
        axis: the axis along which values are added
        axis_direction: whether sums begin at the first element (INCREASING) or at the last
        has_exclusive_sum: whether an element is left out of its own sum, so that the first is 0
    """

def depth_to_space(
    input: Operand,
    block_size: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """DEPTH_TO_SPACE: Output[n, c, h * B + i, w * B + j] = Input[n, (i * B + j) * C + c, h, w]; B is BlockSize, C the
        channels of the output

    Args:
        input: batch, channels, height, width
        block_size: height and width of a block, in pixels
    """

def depth_to_space1(
    input: Operand,
    block_size: int,
    order: DepthSpaceOrder,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """DEPTH_TO_SPACE1: as DEPTH_TO_SPACE; with COLUMN_ROW_DEPTH from channel (c * B + i) * B + j

    Args:
        input: batch, channels, height, width
        block_size: height and width of a block, in pixels
        order: how blocks lie among the channels
    """

def dequantize(
    input: Operand,
    quantizations: Sequence[Operand],
    quantization_type: QuantizationType,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """DEQUANTIZE: (x - ZeroPoint) * Scale

    Args:
        input: quantized values
        quantizations: the scale of each block, and what stands for zero in it
        quantization_type: which tensors QuantizationTensors has
    """

def dequantize_linear(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR: (x - ZeroPoint) * Scale

    Args:
        input: quantized values
        scale: scale of each element
        zero_point: what stands for zero; may be None from feature level 6_2 on
    """

def diagonal_matrix(
    offset: int,
    value: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    graph: Graph | None = None,
) -> Expression:
    """DIAGONAL_MATRIX: Value where x - y = Offset, else 0

    Args:

        offset: which diagonal: column less row
        value: what is on it
        graph: where it belongs when no operand is an expression
    """

def diagonal_matrix1(
    value: float,
    diagonal_fill_begin: int,
    diagonal_fill_end: int,
    input: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    graph: Graph | None = None,
) -> Expression:
    """DIAGONAL_MATRIX1: Value where DiagonalFillBegin <= x - y < DiagonalFillEnd, else Input or 0; with
        DiagonalFillBegin > DiagonalFillEnd: where not DiagonalFillEnd <= x - y < DiagonalFillBegin

    Args:
        input: what is elsewhere; None for 0
        value: what is on the band
        diagonal_fill_begin: the band's first diagonal: column less row
        diagonal_fill_end: the diagonal behind its last one; below the first: all others are filled
        graph: where it belongs when no operand is an expression
    """

def difference_square(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_DIFFERENCE_SQUARE: (a - b) * (a - b)

    Args:
        a: left operand
        b: right operand
    """

def divide(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_DIVIDE: a / b; of integers truncated toward zero

    Args:
        a: what is divided
        b: by what it is divided
    """

def dynamic_quantize_linear(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """DYNAMIC_QUANTIZE_LINEAR: OutputScale = (largest - smallest) / 255, OutputZeroPoint = Min - smallest /
        OutputScale, Output = round(Input / OutputScale) + OutputZeroPoint, within the output's data type; Min is
        its least value

    Args:
        input: the numbers
    """

def erf(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ERF: erf(x), 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def exp(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_EXP: e^x

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def expand_dims(a: Expression, axis: int) -> Expression:
    """A new axis of size 1, which stands at ``axis`` in the result: a view, nothing is copied."""

def fill_value_constant(
    value: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    graph: Graph | None = None,
) -> Expression:
    """FILL_VALUE_CONSTANT: Value

    Args:

        value: the value
        graph: where it belongs when no operand is an expression
    """

def fill_value_sequence(
    value_start: float,
    value_delta: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    graph: Graph | None = None,
) -> Expression:
    """FILL_VALUE_SEQUENCE: ValueStart + i * ValueDelta; i is an element's number in row-major order

    Args:

        value_start: the first number
        value_delta: how far apart neighbours are; may be below 0 for unsigned types too
        graph: where it belongs when no operand is an expression
    """

def floor(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_FLOOR: floor(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def fold(
    input: Operand,
    window_sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """FOLD: Output[n, c, x] = sum of Input[n, (c, w), p] over x = p * Strides + w * Dilations - StartPadding

    Args:
        input: batch, channels and places in the window, positions of the window
        window_sizes: places of the window
        strides: how far the window moves
        dilations: how far its places lie apart
        start_padding: places before the output
        end_padding: places behind the output
    """

def gather(
    input: Operand,
    indices: Operand,
    axis: int,
    index_dimensions: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """GATHER: output[before…, i…, after…] = input[before…, indices[i…], after…]

    Args:
        input: what is taken from
        indices: which slices; negative ones count from the end
        axis: the axis along which the indices choose
        index_dimensions: how many of the last dimensions of IndicesTensor count
    """

def gather_elements(
    input: Operand,
    indices: Operand,
    axis: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """GATHER_ELEMENTS: output[c] = input[c with indices[c] in the place of c[Axis]]

    Args:
        input: what is taken from
        indices: an index for each element of the output; negative ones count from the end
        axis: the axis along which the indices choose
    """

def gather_nd(
    input: Operand,
    indices: Operand,
    input_dimension_count: int,
    indices_dimension_count: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """GATHER_ND: output[i…, rest…] = input[indices[i…, :], rest…]

    Args:
        input: what is taken from
        indices: tuples of indices along the last axis; negative ones count from the end
        input_dimension_count: how many of the last dimensions of InputTensor count
        indices_dimension_count: how many of the last dimensions of IndicesTensor count
    """

def gather_nd1(
    input: Operand,
    indices: Operand,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """GATHER_ND1: output[batch…, i…, rest…] = input[batch…, indices[batch…, i…, :], rest…]

    Args:
        input: what is taken from
        indices: tuples of indices along the last axis; negative ones count from the end
        input_dimension_count: how many of the last dimensions of InputTensor count
        indices_dimension_count: how many of the last dimensions of IndicesTensor count
        batch_dimension_count: how many of the first of these dimensions both have in common
    """

def gemm(
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """GEMM: FusedActivation(Alpha * A * B + Beta * C)

    Args:
        a: the left matrices: M x K, or K x M where TransA says so
        b: the right matrices: K x N, or N x K where TransB says so
        c: what is added, times Beta: M x N
        trans_a: whether A is transposed
        trans_b: whether B is transposed
        alpha: what the product is multiplied by
        beta: what C is multiplied by; of no effect without CTensor
        fused_activation: the activation that is applied to the results
    """

def gru(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection,
    linear_before_reset: bool,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_sequence: bool = False,
    with_single: bool = False,
) -> tuple[Expression, ...]:
    """GRU: z = f(X[t] Wz^T + H[t - 1] Rz^T + Wbz + Rbz); r likewise; h = g(X[t] Wh^T + (r * H[t - 1]) Rh^T + Wbh +
        Rbh), or with LinearBeforeReset g(X[t] Wh^T + r * (H[t - 1] Rh^T + Rbh) + Wbh); H[t] = (1 - z) * h + z * H[t
        - 1]

    Args:
        input: the sequences: 1, steps, batch, inputs
        weight: what the input is multiplied by, of the gates z, r, h: 1, directions, 3 * units, inputs
        recurrence: what the state is multiplied by, likewise: 1, directions, 3 * units, units
        bias: what is added for the input, then for the state: 1, 1, directions, 6 * units
        hidden_init: the states before the first step: 1, directions, batch, units
        sequence_lengths: the length of each sequence, {1, 1, 1, batch}; without them all have as many steps as the
            input
        activation_descs: f and g, for each direction
        direction: from which end sequences are gone through, or from both
        linear_before_reset: whether r is a factor of the product, and not of the state in it
    """

def identity(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_IDENTITY: x

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def if_(
    condition: Operand,
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_IF: a if condition != 0 else b

    Args:
        condition: UINT8; any non-zero value selects ATensor, zero selects BTensor
        a: values taken where the condition is not zero
        b: values taken where the condition is zero
    """

def is_infinity(
    input: Operand,
    infinity_mode: IsInfinityMode = IsInfinityMode.EITHER,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_IS_INFINITY: 1 if x is infinite and of the sign that InfinityMode asks for, else 0

    Args:
        input: the values
        infinity_mode: which infinities count
    """

def is_nan(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_IS_NAN: 1 if x is NaN, else 0

    Args:
        input: the values
    """

def join(
    inputs: Sequence[Operand],
    axis: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """JOIN: the inputs one behind the other along Axis

    Args:
        inputs: the parts, in order
        axis: the axis along which they lie behind one another
    """

def local_response_normalization(
    input: Operand,
    cross_channel: bool,
    local_size: int,
    alpha: float,
    beta: float,
    bias: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION: x / (Bias + Alpha / LocalSize * sum of squares around x)^Beta

    Args:
        input: the values, {N, C, H, W}
        cross_channel: whether neighbours are those in other channels, else in height and width
        local_size: how many neighbours there are along an axis, the element itself among them
        alpha: the factor of the sum of squares
        beta: the exponent
        bias: what is added to the sum
    """

def local_response_normalization_grad(
    input: Operand,
    input_gradient: Operand,
    cross_channel: bool,
    local_size: int,
    alpha: float,
    beta: float,
    bias: float,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION_GRAD: g / D^Beta - 2 * Alpha / LocalSize * Beta * x * (sum of g * x / D^(Beta + 1)
        over all elements around which x lies), D = Bias + Alpha / LocalSize * sum of squares around an element

    Args:
        input: the values that were normalized, {N, C, H, W}
        input_gradient: gradients of the normalized values
        cross_channel: whether neighbours are those in other channels, else in height and width
        local_size: how many neighbours there are along an axis, the element itself among them
        alpha: the factor of the sum of squares
        beta: the exponent
        bias: what is added to the sum
    """

def log(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOG: ln(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def logical_and(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_AND: 1 if a and b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_equals(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_EQUALS: 1 if a == b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_greater_than(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN: 1 if a > b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_greater_than_or_equal(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: 1 if a >= b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_less_than(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_LESS_THAN: 1 if a < b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_less_than_or_equal(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: 1 if a <= b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_not(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_NOT: 1 if x == 0, else 0

    Args:
        input: the values
    """

def logical_or(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_OR: 1 if a or b, else 0

    Args:
        a: left operand
        b: right operand
    """

def logical_xor(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_LOGICAL_XOR: 1 if (a != 0) != (b != 0), else 0

    Args:
        a: left operand
        b: right operand
    """

def lp_normalization(
    input: Operand,
    axis: int,
    epsilon: float,
    p: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """LP_NORMALIZATION: x / max(norm, Epsilon), the norm being sum |x| (P 1) or sqrt(sum x^2) (P 2) of x's row along
        Axis

    Args:
        input: the values
        axis: the axis along which a row lies
        epsilon: what the divisor is at least
        p: which norm: 1, sum of magnitudes, or 2, root of the sum of squares
    """

def lp_pooling(
    input: Operand,
    window_size: Sequence[int],
    p: int,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """LP_POOLING: (sum of |x|^P over each window)^(1 / P)

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        p: the power, at least 1
    """

def lp_pooling1(
    input: Operand,
    window_size: Sequence[int],
    p: int,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """LP_POOLING1: (sum of |x|^P over each window)^(1 / P)

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        dilations: how far apart the elements of a window are, for each spatial axis; 1: side by side
        p: the power, at least 1
    """

def lstm(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection,
    clip_threshold: float,
    use_clip_threshold: bool,
    couple_input_forget: bool,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    cell_mem_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    peephole: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_sequence: bool = False,
    with_single: bool = False,
    with_cell_single: bool = False,
) -> tuple[Expression, ...]:
    """LSTM: i = f(X[t] Wi^T + H[t - 1] Ri^T + Wbi + Rbi + Pi * C[t - 1]); F likewise, or 1 - i; c = g(X[t] Wc^T + H[t
        - 1] Rc^T + Wbc + Rbc); C[t] = F * C[t - 1] + i * c; o = f(X[t] Wo^T + H[t - 1] Ro^T + Wbo + Rbo + Po *
        C[t]); H[t] = o * h(C[t])

    Args:
        input: the sequences: 1, steps, batch, inputs
        weight: what the input is multiplied by, of the gates i, o, f, c: 1, directions, 4 * units, inputs
        recurrence: what the state is multiplied by, likewise: 1, directions, 4 * units, units
        bias: what is added for the input, then for the state: 1, 1, directions, 8 * units
        hidden_init: the states before the first step: 1, directions, batch, units
        cell_mem_init: the cells before the first step: 1, directions, batch, units
        sequence_lengths: the length of each sequence, {1, 1, 1, batch}; without them all have as many steps as the
            input
        peephole: what cells are multiplied by in the gates i, o, f: 1, 1, directions, 3 * units
        activation_descs: f, g and h, for each direction
        direction: from which end sequences are gone through, or from both
        clip_threshold: how large an activation's argument may be
        use_clip_threshold: whether ClipThreshold counts
        couple_input_forget: whether the forget gate is 1 - i
    """

def matmul(a: Operand, b: Operand) -> Expression:
    """The product of matrices in the last two axes; the others broadcast (GEMM).

    Args:
        a: (…, M, K), or (K,).
        b: (…, K, N), or (K,).

    Returns:
        (…, M, N), without the axis of an operand that has only one.

    Raises:
        InvalidArgumentError: when the shapes do not fit, or the operands are no FLOAT32 or FLOAT16.
    """

def matrix_multiply_integer(
    a: Operand,
    b: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MATRIX_MULTIPLY_INTEGER: (A - AZeroPoint) * (B - BZeroPoint)

    Args:
        a: the left matrices, M x K
        a_zero_point: what is subtracted from A: one number, or one for each row
        b: the right matrices, K x N
        b_zero_point: what is subtracted from B: one number, or one for each column
    """

def matrix_multiply_integer_to_float(
    a: Operand,
    a_scale: Operand,
    b: Operand,
    b_scale: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    bias: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT: ((A - AZeroPoint) x (B - BZeroPoint)) * AScale * BScale + Bias

    Args:
        a: the left matrices, M x K, quantized
        a_scale: their scale: one number, or one for each row
        a_zero_point: their zero point, as many; None for 0
        b: the right matrices, K x N, quantized
        b_scale: their scale: one number, or one for each column
        b_zero_point: their zero point: one number, or one for each column; None for 0
        bias: what is added, M x N; None for nothing
    """

@overload
def max(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MAX: max(a, b)

    Args:
        a: left operand
        b: right operand
    """

@overload
def max(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The largest element along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""

def max_pooling(
    input: Operand,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MAX_POOLING: the largest element of each window

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
    """

def max_pooling1(
    input: Operand,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_indices: bool = False,
) -> tuple[Expression, ...]:
    """MAX_POOLING1: the largest element of each window, and its index in the input

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
    """

def max_pooling2(
    input: Operand,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_indices: bool = False,
) -> tuple[Expression, ...]:
    """MAX_POOLING2: the largest element of each window, and its index in the input

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        dilations: how far apart the elements of a window are, for each spatial axis; 1: side by side
    """

def max_pooling_grad(
    input: Operand,
    input_gradient: Operand,
    strides: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    dilations: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MAX_POOLING_GRAD: sum of InputGradient over the windows whose largest element an element is; 0 where there is
        none

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        input_gradient: gradients of the maxima
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        dilations: how far apart the elements of a window are, for each spatial axis; 1: side by side
    """

def max_unpooling(
    input: Operand,
    indices: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MAX_UNPOOLING: output = 0; then output[indices[i]] = input[i] for all i

    Args:
        input: the values, {N, C, H, W}
        indices: where each value is put, counted through the whole output
    """

@overload
def mean(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MEAN: (a + b) / 2

    Args:
        a: left operand
        b: right operand
    """

@overload
def mean(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The mean along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""

def mean_variance_normalization(
    input: Operand,
    cross_channel: bool,
    normalize_variance: bool,
    epsilon: float,
    scale: Operand | None = None,
    bias: Operand | None = None,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION: FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias)

    Args:
        input: the values: batches, channels, height, width
        scale: what is multiplied by; of size 1 along axes where it is the same
        bias: what is added; likewise
        cross_channel: whether all channels of a batch have one mean and variance
        normalize_variance: whether to divide by the square root of the variance
        epsilon: added to the variance
        fused_activation: the activation to apply to the results
    """

def mean_variance_normalization1(
    input: Operand,
    axes: Sequence[int],
    normalize_variance: bool,
    epsilon: float,
    scale: Operand | None = None,
    bias: Operand | None = None,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1: FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias)

    Args:
        input: the values
        scale: what is multiplied by; of size 1 along axes where it is the same
        bias: what is added; likewise
        axes: the axes over which mean and variance are taken
        normalize_variance: whether to divide by the square root of the variance
        epsilon: added to the variance
        fused_activation: the activation to apply to the results
    """

def mean_variance_normalization2(
    input: Operand,
    axes: Sequence[int],
    use_mean: bool,
    use_variance: bool,
    epsilon: float,
    scale: Operand | None = None,
    bias: Operand | None = None,
    fused_activation: FusedActivation | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION2: FusedActivation(Scale * (x - mean) / sqrt(variance + Epsilon) + Bias)

    Args:
        input: the values
        scale: what is multiplied by; of size 1 along axes where it is the same
        bias: what is added; likewise
        axes: the axes over which mean and variance are taken
        use_mean: whether to subtract the mean; else it counts as 0
        use_variance: whether to divide by the square root of the variance
        epsilon: added to the variance
        fused_activation: the activation to apply to the results
    """

@overload
def min(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MIN: min(a, b)

    Args:
        a: left operand
        b: right operand
    """

@overload
def min(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The smallest element along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""

def modulus_floor(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MODULUS_FLOOR: a - b * floor(a / b)

    Args:
        a: what is divided
        b: by what it is divided
    """

def modulus_truncate(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MODULUS_TRUNCATE: a - b * trunc(a / b)

    Args:
        a: what is divided
        b: by what it is divided
    """

def multihead_attention(
    scale: float,
    mask_filter_value: float,
    head_count: int,
    mask_type: MultiheadAttentionMaskType,
    query: Operand | None = None,
    key: Operand | None = None,
    value: Operand | None = None,
    stacked_query_key: Operand | None = None,
    stacked_key_value: Operand | None = None,
    stacked_query_key_value: Operand | None = None,
    bias: Operand | None = None,
    mask: Operand | None = None,
    relative_position_bias: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_present_key: bool = False,
    with_present_value: bool = False,
    graph: Graph | None = None,
) -> tuple[Expression, ...]:
    """MULTIHEAD_ATTENTION: Softmax(Scale * (Q + B) * (K + B)^T + RelativePositionBias + mask) * (V + B), of each head

    Args:
        query: the queries: batch, queries, heads * head size
        key: the keys: batch, keys, heads * head size
        value: the values: batch, keys, heads * value size
        stacked_query_key: queries and keys: batch, length, heads, 2, head size
        stacked_key_value: keys and values: batch, keys, heads, 2, head size
        stacked_query_key_value: queries, keys and values: batch, length, heads, 3, head size
        bias: what is added to queries, keys and values, one behind another: heads * (head size + head size + value
            size)
        mask: which keys queries see, as MaskType says
        relative_position_bias: what is added to scores: batch or 1, heads, queries, past and own keys
        past_key: keys before KeyTensor's: batch, heads, past, head size
        past_value: values before ValueTensor's: batch, heads, past, value size
        scale: what scores are multiplied by; usually 1 / sqrt(head size)
        mask_filter_value: what is added to scores of masked keys; usually -10000
        head_count: how many heads there are
        mask_type: what MaskTensor says
        graph: where it belongs when no operand is an expression
    """

def multihead_attention1(
    scale: float,
    mask_filter_value: float,
    query_head_count: int,
    key_value_head_count: int,
    mask_type: MultiheadAttentionMaskType,
    query: Operand | None = None,
    key: Operand | None = None,
    value: Operand | None = None,
    stacked_query_key: Operand | None = None,
    stacked_key_value: Operand | None = None,
    stacked_query_key_value: Operand | None = None,
    bias: Operand | None = None,
    mask: Operand | None = None,
    relative_position_bias: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    past_sequence_lengths: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_present_key: bool = False,
    with_present_value: bool = False,
    graph: Graph | None = None,
) -> tuple[Expression, ...]:
    """MULTIHEAD_ATTENTION1: Softmax(Scale * (Q + B) * (K + B)^T + RelativePositionBias + mask) * (V + B), of each head

    Args:
        query: the queries: batch, queries, query heads * head size
        key: the keys: batch, keys, key/value heads * head size
        value: the values: batch, keys, key/value heads * value size
        stacked_query_key: queries and keys: batch, length, heads, 2, head size
        stacked_key_value: keys and values: batch, keys, key/value heads, 2, head size
        stacked_query_key_value: queries, keys and values: batch, length, heads, 3, head size
        bias: what is added to queries, keys and values, one behind another: query heads * head size, then key/value
            heads * (head size + value size)
        mask: which keys queries see, as MaskType says
        relative_position_bias: what is added to scores: batch or 1, query heads, queries, past and own keys
        past_key: keys before KeyTensor's: batch, key/value heads, past, head size
        past_value: values before ValueTensor's: batch, key/value heads, past, value size
        past_sequence_lengths: how many of the past keys count, from the first one on: batch
        scale: what scores are multiplied by; usually 1 / sqrt(head size)
        mask_filter_value: what is added to scores of masked keys; usually -10000
        query_head_count: how many heads queries have: a multiple of KeyValueHeadCount
        key_value_head_count: how many heads keys and values have
        mask_type: what MaskTensor says
        graph: where it belongs when no operand is an expression
    """

def multiply(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MULTIPLY: a * b

    Args:
        a: left operand
        b: right operand
    """

def negate(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_NEGATE: -x

    Args:
        input: the values
    """

def nonzero_coordinates(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """NONZERO_COORDINATES: the coordinates of all elements that are not 0, in row-major order, and how many there are

    Args:
        input: the values
    """

def not_equal(a: Operand, b: Operand) -> Expression:
    """1 where the elements differ, else 0, as UINT8; NaN differs from everything."""

def one_hot(
    indices: Operand,
    values: Operand,
    axis: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ONE_HOT: output[c] = OnValue if c[Axis] = indices[c with 0 in the place of c[Axis]], else OffValue

    Args:
        indices: the marked place of each sequence; negative ones count from the end
        values: OffValue, then OnValue
        axis: the axis along which the output's sequences lie
    """

def padding(
    input: Operand,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """PADDING: Input in the middle; around it PaddingValue, or the nearest or mirrored elements

    Args:
        input: what is in the middle
        padding_mode: what is put around it
        padding_value: what CONSTANT puts there
        start_padding: how many elements are put before it, along each dimension
        end_padding: how many elements are put behind it, along each dimension
    """

def padding1(
    input: Operand,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """PADDING1: Input in the middle; around it PaddingValue, or the nearest or mirrored elements

    Args:
        input: what is in the middle
        padding_mode: what is put around it
        padding_value: what CONSTANT puts there
        start_padding: how many elements are put before it, along each dimension
        end_padding: how many elements are put behind it, along each dimension
    """

def pow(
    input: Operand,
    exponent: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_POW: pow(x, e)

    Args:
        input: the bases
        exponent: the powers that they are raised to
        scale_bias: the base x becomes x * scale + bias first; None leaves it as it is
    """

def prod(a: Expression, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The product along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""

def quantize(
    input: Operand,
    quantizations: Sequence[Operand],
    quantization_type: QuantizationType,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """QUANTIZE: round(x / Scale) + ZeroPoint, within the output's data type

    Args:
        input: the numbers
        quantizations: the scale of each block, and what stands for zero in it
        quantization_type: which tensors QuantizationTensors has
    """

def quantize_linear(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_QUANTIZE_LINEAR: round(x / Scale) + ZeroPoint, within the output's data type

    Args:
        input: the numbers
        scale: scale of each element
        zero_point: what stands for zero; may be None from feature level 6_2 on
    """

def quantized_linear_add(
    a: Operand,
    a_scale: Operand,
    b: Operand,
    b_scale: Operand,
    output_scale: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    output_zero_point: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD: round(((a - AZeroPoint) * AScale + (b - BZeroPoint) * BScale) / OutputScale)
        + OutputZeroPoint, within the output's data type

    Args:
        a: left operand, quantized
        a_scale: its scale
        a_zero_point: its zero point; None for 0
        b: right operand, quantized
        b_scale: its scale
        b_zero_point: its zero point; None for 0
        output_scale: scale of the results
        output_zero_point: zero point of the results; None for 0
    """

def quantized_linear_average_pooling(
    input: Operand,
    input_scale: Operand,
    output_scale: Operand,
    window_size: Sequence[int],
    include_padding: bool,
    input_zero_point: Operand | None = None,
    output_zero_point: Operand | None = None,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """QUANTIZED_LINEAR_AVERAGE_POOLING: round((mean of each window of Input - InputZeroPoint) * InputScale /
        OutputScale) + OutputZeroPoint, within the output's data type

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}, quantized
        input_scale: their scale: one number, or one for each channel
        input_zero_point: their zero point: one number, or one for each channel; None for 0
        output_scale: scale of the means: one number, or one for each channel
        output_zero_point: zero point of the means: one number, or one for each channel; None for 0
        strides: how far apart windows are, for each spatial axis
        window_size: elements of a window along each spatial axis
        start_padding: elements of padding before the input along each spatial axis
        end_padding: elements of padding behind the input along each spatial axis
        dilations: how far apart the elements of a window are, for each spatial axis; 1: side by side
        include_padding: whether padding counts, as the zero point
    """

def quantized_linear_convolution(
    input: Operand,
    input_scale: Operand,
    filter: Operand,
    filter_scale: Operand,
    output_scale: Operand,
    group_count: int,
    input_zero_point: Operand | None = None,
    filter_zero_point: Operand | None = None,
    bias: Operand | None = None,
    output_zero_point: Operand | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """QUANTIZED_LINEAR_CONVOLUTION: round((cross-correlation of Input - InputZeroPoint with Filter - FilterZeroPoint,
        and Bias) * InputScale * FilterScale / OutputScale) + OutputZeroPoint, within the output's data type

    Args:
        input: batch, channels, and 1 or 2 spatial dimensions, quantized
        input_scale: its scale: one number
        input_zero_point: its zero point; None for 0
        filter: output channels, input channels of a group, and the window, quantized
        filter_scale: its scale: one number, or one for each output channel
        filter_zero_point: its zero point, as many; None for 0
        bias: what is added to the integer sums of each output channel; None for nothing
        output_scale: scale of the results: one number
        output_zero_point: zero point of the results; None for 0
        strides: how far windows lie from one another
        dilations: how far a window's elements lie from one another
        start_padding: places before the input's first one
        end_padding: places behind the input's last one
        group_count: groups of channels that have nothing to do with one another
    """

def quantized_linear_matrix_multiply(
    a: Operand,
    a_scale: Operand,
    b: Operand,
    b_scale: Operand,
    output_scale: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    output_zero_point: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY: round(((A - AZeroPoint) x (B - BZeroPoint)) * AScale * BScale / OutputScale) +
        OutputZeroPoint, within the output's data type

    Args:
        a: the left matrices, M x K, quantized
        a_scale: their scale: one number, or one for each row
        a_zero_point: their zero point, as many; None for 0
        b: the right matrices, K x N, quantized
        b_scale: their scale: one number, or one for each column
        b_zero_point: their zero point: one number, or one for each column; None for 0
        output_scale: scale of the results: one number, or one for each row
        output_zero_point: zero point of the results: one number, or one for each row; None for 0
    """

def random_generator(
    input_state: Operand,
    type: RandomGeneratorType = RandomGeneratorType.PHILOX_4X32_10,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_state: bool = False,
) -> tuple[Expression, ...]:
    """RANDOM_GENERATOR: output[4g … 4g + 3] = philox_4x32_10(counter + g, key)

    Args:
        input_state: the counter in four elements, then the key (the seed) in two
        type: the generator
    """

def recip(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_RECIP: 1 / x

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def reduce(
    input: Operand,
    function: ReduceFunction,
    axes: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """REDUCE: SUM, AVERAGE sum / n, MULTIPLY, MIN, MAX, L1 sum |x|, L2 sqrt(sum x^2), SUM_SQUARE sum x^2, LOG_SUM
        ln(sum x), LOG_SUM_EXP ln(sum e^x), ARGMIN, ARGMAX the first index of the extreme

    Args:
        input: the values
        function: what is made of a row
        axes: the axes along which a row lies
    """

def resample(
    input: Operand,
    interpolation_mode: InterpolationMode,
    scales: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE: the input at (output + 0.5) / Scale - 0.5

    Args:
        input: the values
        interpolation_mode: what becomes of a place between elements
        scales: by what each axis is stretched
    """

def resample1(
    input: Operand,
    interpolation_mode: InterpolationMode,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float],
    output_pixel_offsets: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE1: the input at (output - OutputPixelOffset) / Scale - InputPixelOffset

    Args:
        input: the values
        interpolation_mode: what becomes of a place between elements
        scales: by what each axis is stretched
        input_pixel_offsets: added to places in the input, for each axis; 0.5: elements lie in the middle of their
            pixels
        output_pixel_offsets: added to places in the output, for each axis; -0.5 with 0.5 of the input
    """

def resample2(
    input: Operand,
    interpolation_mode: InterpolationMode,
    rounding_direction: AxisDirection,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float],
    output_pixel_offsets: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE2: the input at (output - OutputPixelOffset) / Scale - InputPixelOffset

    Args:
        input: the values
        interpolation_mode: what becomes of a place between elements
        rounding_direction: which way NEAREST_NEIGHBOR rounds
        scales: by what each axis is stretched
        input_pixel_offsets: added to places in the input, for each axis; 0.5: elements lie in the middle of their
            pixels
        output_pixel_offsets: added to places in the output, for each axis; -0.5 with 0.5 of the input
    """

def resample3(
    input: Operand,
    interpolation_mode: InterpolationMode,
    rounding_direction: AxisDirection,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float],
    output_pixel_offsets: Sequence[float],
    antialiased: bool,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE3: the input at (output - OutputPixelOffset) / Scale - InputPixelOffset

    Args:
        input: the values
        interpolation_mode: what becomes of a place between elements
        rounding_direction: which way NEAREST_NEIGHBOR rounds
        scales: by what each axis is stretched
        input_pixel_offsets: added to places in the input, for each axis; 0.5: elements lie in the middle of their
            pixels
        output_pixel_offsets: added to places in the output, for each axis; -0.5 with 0.5 of the input
        antialiased: whether more elements count where LINEAR shrinks an axis to less than half
    """

def resample_grad(
    input_gradient: Operand,
    interpolation_mode: InterpolationMode,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float],
    output_pixel_offsets: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE_GRAD: sum of InputGradient * weight over the elements of RESAMPLE1's output that an element has a part
        in

    Args:
        input_gradient: gradients of the resampled values
        interpolation_mode: what becomes of a place between elements
        scales: by what each axis is stretched
        input_pixel_offsets: added to places in the input, for each axis; 0.5: elements lie in the middle of their
            pixels
        output_pixel_offsets: added to places in the output, for each axis; -0.5 with 0.5 of the input
    """

def resample_grad1(
    input_gradient: Operand,
    interpolation_mode: InterpolationMode,
    rounding_direction: AxisDirection,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float],
    output_pixel_offsets: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """RESAMPLE_GRAD1: sum of InputGradient * weight over the elements of RESAMPLE2's output that an element has a part
        in

    Args:
        input_gradient: gradients of the resampled values
        interpolation_mode: what becomes of a place between elements
        rounding_direction: which way NEAREST_NEIGHBOR rounds
        scales: by what each axis is stretched
        input_pixel_offsets: added to places in the input, for each axis; 0.5: elements lie in the middle of their
            pixels
        output_pixel_offsets: added to places in the output, for each axis; -0.5 with 0.5 of the input
    """

def reshape(a: Expression, shape: int | Sequence[int]) -> Expression:
    """The same elements in another shape, as a view: see :meth:`dmlvk.Expression.reshape`."""

def reverse_subsequences(
    input: Operand,
    sequence_lengths: Operand,
    axis: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """REVERSE_SUBSEQUENCES: output[…, i, …] = input[…, length - 1 - i, …] where i < length, else input[…, i, …]

    Args:
        input: the sequences
        sequence_lengths: how many elements of each sequence are reversed
        axis: the axis along which the sequences lie
    """

def rnn(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_sequence: bool = False,
    with_single: bool = False,
) -> tuple[Expression, ...]:
    """RNN: H[t] = f(X[t] W^T + H[t - 1] R^T + Wb + Rb)

    Args:
        input: the sequences: 1, steps, batch, inputs
        weight: what the input is multiplied by: 1, directions, units, inputs
        recurrence: what the state is multiplied by: 1, directions, units, units
        bias: what is added for the input, then for the state: 1, 1, directions, 2 * units
        hidden_init: the states before the first step: 1, directions, batch, units
        sequence_lengths: the length of each sequence, {1, 1, 1, batch}; without them all have as many steps as the
            input
        activation_descs: f, for each direction
        direction: from which end sequences are gone through, or from both
    """

def roi_align(
    input: Operand,
    roi: Operand,
    batch_indices: Operand,
    reduction_function: ReduceFunction,
    interpolation_mode: InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    out_of_bounds_input_value: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ROI_ALIGN: the average or the largest of Input[BatchIndices[r], c] at (k + 0.5) * step + start - 0.5, k from
        output * samples on

    Args:
        input: the images, {N, C, H, W}
        roi: the regions, {R, 4}, perhaps with leading ones: rows of x1, y1, x2, y2
        batch_indices: the number of each region's image, {R}, perhaps with leading ones
        reduction_function: what becomes of the samples of an output: AVERAGE or MAX
        interpolation_mode: what becomes of a place between elements
        spatial_scale_x: by what x1 and x2 are multiplied
        spatial_scale_y: by what y1 and y2 are multiplied
        out_of_bounds_input_value: what a sample outside of the input is
        minimum_samples_per_output: the fewest samples of an output along each axis
        maximum_samples_per_output: the most samples of an output along each axis
    """

def roi_align1(
    input: Operand,
    roi: Operand,
    batch_indices: Operand,
    reduction_function: ReduceFunction,
    interpolation_mode: InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    out_of_bounds_input_value: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ROI_ALIGN1: the average or the largest of Input[BatchIndices[r], c] at (k - OutputPixelOffset) * step + start -
        InputPixelOffset, k from output * samples on

    Args:
        input: the images, {N, C, H, W}
        roi: the regions, {R, 4}, perhaps with leading ones: rows of x1, y1, x2, y2
        batch_indices: the number of each region's image, {R}, perhaps with leading ones
        reduction_function: what becomes of the samples of an output: AVERAGE or MAX
        interpolation_mode: what becomes of a place between elements
        spatial_scale_x: by what x1 and x2 are multiplied
        spatial_scale_y: by what y1 and y2 are multiplied
        input_pixel_offset: where an element's middle lies behind its corner: 0.5, or 0
        output_pixel_offset: the same of the output, with a minus: -0.5, or 0
        out_of_bounds_input_value: what a sample outside of the input is
        minimum_samples_per_output: the fewest samples of an output along each axis
        maximum_samples_per_output: the most samples of an output along each axis
        align_regions_to_corners: whether samples reach to the corners of the region
    """

def roi_align_grad(
    input_gradient: Operand,
    roi: Operand,
    batch_indices: Operand,
    reduction_function: ReduceFunction,
    interpolation_mode: InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool,
    input: Operand | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
    with_gradient: bool = False,
    with_roi_gradient: bool = False,
) -> tuple[Expression, ...]:
    """ROI_ALIGN_GRAD: OutputGradient: sum of InputGradient * weight over the outputs that an element has a weight in;
        OutputROIGradient: sum of InputGradient * change of the output with x1, y1, x2, y2

    Args:
        input: the images, {N, C, H, W}
        input_gradient: gradients of the resized regions, {R, C, height, width}
        roi: the regions, {R, 4}, perhaps with leading ones: rows of x1, y1, x2, y2
        batch_indices: the number of each region's image, {R}, perhaps with leading ones
        reduction_function: what becomes of the samples of an output: AVERAGE or MAX
        interpolation_mode: what becomes of a place between elements
        spatial_scale_x: by what x1 and x2 are multiplied
        spatial_scale_y: by what y1 and y2 are multiplied
        input_pixel_offset: where an element's middle lies behind its corner: 0.5, or 0
        output_pixel_offset: the same of the output, with a minus: -0.5, or 0
        minimum_samples_per_output: the fewest samples of an output along each axis
        maximum_samples_per_output: the most samples of an output along each axis
        align_regions_to_corners: whether samples reach to the corners of the region
    """

def roi_pooling(
    input: Operand,
    roi: Operand,
    spatial_scale: float,
    pooled_size: Size2D,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ROI_POOLING: max(Input[BatchID, c, start ... end - 1]), start = floor(i * n / PooledSize) + first, end = ceil((i
        + 1) * n / PooledSize) + first, n = last - first + 1

    Args:
        input: the images, {N, C, H, W}
        roi: the regions, {1, 1, R, 5}: rows of BatchID, x1, y1, x2, y2, all inclusive
        spatial_scale: by what coordinates are multiplied
        pooled_size: bins of each region
    """

def round(
    input: Operand,
    rounding_mode: RoundingMode = RoundingMode.HALVES_TO_NEAREST_EVEN,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_ROUND: x rounded to nearest with halves to even, or toward zero, or to nearest with halves away
        from zero

    Args:
        input: the values
        rounding_mode: how to round; TOWARD_INFINITY only moves halves outward, it is no ceiling
    """

def scatter(
    input: Operand,
    indices: Operand,
    updates: Operand,
    axis: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SCATTER: output = input; then output[c with indices[c] in the place of c[Axis]] = updates[c] for all c

    Args:
        input: what stays where nothing is put
        indices: where each update is put; negative ones count from the end
        updates: what is put
        axis: the axis along which the indices choose
    """

def scatter_nd(
    input: Operand,
    indices: Operand,
    updates: Operand,
    input_dimension_count: int,
    indices_dimension_count: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SCATTER_ND: output = input; then output[indices[i…, :], rest…] = updates[i…, rest…] for all i

    Args:
        input: what stays where nothing is put
        indices: tuples of indices along the last axis; negative ones count from the end
        updates: a block for each tuple
        input_dimension_count: how many of the last dimensions of InputTensor count
        indices_dimension_count: how many of the last dimensions of IndicesTensor count
    """

def sign(
    input: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_SIGN: -1 if x < 0; 1 if x > 0; 0 otherwise

    Args:
        input: the values
    """

def sin(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_SIN: sin(x)

    Args:
        input: the angles
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def sinh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_SINH: sinh(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def slice(
    input: Operand,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SLICE: Output[c] = Input[Offsets + c * Strides]

    Args:
        input: what is cut
        offsets: where the part begins, along each dimension
        sizes: how many elements of it there are, along each dimension
        strides: how far apart they lie, along each dimension; at least 1
    """

def slice1(
    input: Operand,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SLICE1: Output[c] = Input[start + c * InputWindowStrides]; start is the window's first element, or its last one
        along dimensions whose stride is below 0

    Args:
        input: what is cut
        input_window_offsets: where the window begins, along each dimension
        input_window_sizes: how long the window is, along each dimension
        input_window_strides: how far apart its elements lie, along each dimension; below 0: from the window's end
            backwards
    """

def slice_grad(
    input_gradient: Operand,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SLICE_GRAD: Output[start + c * InputWindowStrides] = Input[c], start as for SLICE1; 0 elsewhere

    Args:
        input_gradient: gradients of the elements of a window
        input_window_offsets: where the window begins, along each dimension
        input_window_sizes: how long the window is, along each dimension
        input_window_strides: how far apart its elements lie, along each dimension; below 0: from the window's end
            backwards
    """

def space_to_depth(
    input: Operand,
    block_size: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SPACE_TO_DEPTH: Output[n, (i * B + j) * C + c, h, w] = Input[n, c, h * B + i, w * B + j]; B is BlockSize, C the
        channels of the input

    Args:
        input: batch, channels, height, width
        block_size: height and width of a block, in pixels
    """

def space_to_depth1(
    input: Operand,
    block_size: int,
    order: DepthSpaceOrder,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """SPACE_TO_DEPTH1: as SPACE_TO_DEPTH; with COLUMN_ROW_DEPTH into channel (c * B + i) * B + j

    Args:
        input: batch, channels, height, width
        block_size: height and width of a block, in pixels
        order: how blocks lie among the channels
    """

def split(
    input: Operand,
    axis: int,
    output_count: int | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """SPLIT: the parts of the input that lie behind one another along Axis

    Args:
        input: what is cut
        output_count: number of OutputTensors
        axis: the axis along which they lie behind one another
    """

def sqrt(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_SQRT: sqrt(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def squeeze(a: Expression, axis: int | Sequence[int] | None = None) -> Expression:
    """Without axes of size 1, ``None``: without all of them: a view, nothing is copied.

    Raises:
        InvalidArgumentError: when there is no such axis, or it is of another size.
    """

def stack(arrays: Sequence[Operand], axis: int = 0) -> Expression:
    """Tensors of one shape behind one another along a new axis (JOIN).

    Args:
        arrays: of equal sizes.
        axis: where the new axis stands in the result; counted from the end when below 0.

    Raises:
        InvalidArgumentError: when shapes or data types differ, or there is no such axis.
    """

def subtract(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_SUBTRACT: a - b

    Args:
        a: what is subtracted from
        b: what is subtracted
    """

def sum(a: Expression, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The sum along one axis, several, or all of them (REDUCE).

    Args:
        a: what is added up; integers of 8 and 16 bits in 32 bits.
        axis: the axis or axes, counted from the end when below 0; ``None``: all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        InvalidArgumentError: when there is no such axis.
    """

def tan(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_TAN: tan(x)

    Args:
        input: the angles
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def tanh(
    input: Operand,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_TANH: tanh(x)

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
    """

def threshold(
    input: Operand,
    min: float,
    scale_bias: ScaleBias | None = None,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_THRESHOLD: max(x, Min), x being x * Scale + Bias when ScaleBias is given

    Args:
        input: the values
        scale_bias: x becomes x * scale + bias first; None leaves x as it is
        min: the bound
    """

def tile(
    input: Operand,
    repeats: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """TILE: Output[c] = Input[c modulo Input.Sizes]

    Args:
        input: what is repeated
        repeats: how often it lies along each dimension
    """

def top_k(
    input: Operand,
    axis: int,
    k: int,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """TOP_K: the K largest elements of each row, in descending order, and their places

    Args:
        input: the values
        axis: the axis along which the rows lie
        k: how many elements of each row are wanted
    """

def top_k1(
    input: Operand,
    axis: int,
    k: int,
    axis_direction: AxisDirection,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> tuple[Expression, ...]:
    """TOP_K1: the K largest or smallest elements of each row, in order, and their places

    Args:
        input: the values
        axis: the axis along which the rows lie
        k: how many elements of each row are wanted
        axis_direction: DECREASING: the largest, in descending order; INCREASING: the smallest, in ascending order
    """

def transpose(a: Expression, axes: Sequence[int] | None = None) -> Expression:
    """The axes in another order, ``None``: in the opposite one: a view, nothing is copied."""

def unfold(
    input: Operand,
    window_sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """UNFOLD: Output[n, (c, w), p] = Input[n, c, p * Strides + w * Dilations - StartPadding], 0 in the padding

    Args:
        input: batch, channels, and 1 to 6 spatial dimensions
        window_sizes: places of the window
        strides: how far the window moves
        dilations: how far its places lie apart
        start_padding: zeros before the input
        end_padding: zeros behind the input
    """

def upsample_2d(
    input: Operand,
    scale_size: Size2D,
    interpolation_mode: InterpolationMode,
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """UPSAMPLE_2D: the input at (output + 0.5) / ScaleSize - 0.5, along height and width

    Args:
        input: the values, {N, C, H, W} or {N, C, D, H, W}
        scale_size: by what height and width are multiplied
        interpolation_mode: what becomes of a place between elements
    """

def value_scale_2d(
    input: Operand,
    scale: float,
    bias: Sequence[float],
    *,
    output_data_type: DataTypeLike | None = None,
    output_sizes: Sequence[int] | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """VALUE_SCALE_2D: Scale * x + Bias[c]

    Args:
        input: batch, 1 or 3 channels, height, width
        scale: factor of every element
        bias: what is added, by channel
    """

absolute = abs

arccos = acos

arccosh = acosh

arcsin = asin

arcsinh = asinh

arctan = atan

arctan2 = atan_yx

arctanh = atanh

bitwise_and = bit_and

bitwise_count = bit_count

bitwise_not = bit_not

bitwise_or = bit_or

bitwise_xor = bit_xor

celu = activation_celu

elu = activation_elu

equal = logical_equals

fmod = modulus_truncate

gelu = activation_gelu

greater = logical_greater_than

greater_equal = logical_greater_than_or_equal

hard_sigmoid = activation_hard_sigmoid

hard_swish = activation_hard_swish

hardmax = activation_hardmax

hardmax1 = activation_hardmax1

invert = bit_not

isinf = is_infinity

isnan = is_nan

leaky_relu = activation_leaky_relu

left_shift = bit_shift_left

less = logical_less_than

less_equal = logical_less_than_or_equal

linear = activation_linear

log_softmax = activation_log_softmax

log_softmax1 = activation_log_softmax1

def maximum(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MAX: max(a, b)

    Args:
        a: left operand
        b: right operand
    """

def minimum(
    a: Operand,
    b: Operand,
    *,
    output_data_type: DataTypeLike | None = None,
    output_strides: Sequence[int] | None = None,
    name: str = "",
) -> Expression:
    """ELEMENT_WISE_MIN: min(a, b)

    Args:
        a: left operand
        b: right operand
    """

negative = negate

parameterized_relu = activation_parameterized_relu

parametric_softplus = activation_parametric_softplus

power = pow

reciprocal = recip

relu = activation_relu

relu_grad = activation_relu_grad

remainder = modulus_floor

right_shift = bit_shift_right

rint = round

scaled_elu = activation_scaled_elu

scaled_tanh = activation_scaled_tanh

shrink = activation_shrink

sigmoid = activation_sigmoid

softmax = activation_softmax

softmax1 = activation_softmax1

softplus = activation_softplus

softsign = activation_softsign

swish = activation_swish

thresholded_relu = activation_thresholded_relu

where = if_

def function_name(operator: str) -> str:
    """What an operator's function is called."""
