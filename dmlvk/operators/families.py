"""The families of operators that are neither element-wise nor activations; each module lists its names in ``__all__``.

A new family takes two lines here, and its classes are part of the package.
"""

from dmlvk.operators.attention import MultiheadAttention, MultiheadAttention1, MultiheadAttentionMaskType
from dmlvk.operators.batch_gradient import BatchNormalizationGrad
from dmlvk.operators.batch_training import BatchNormalizationTraining, BatchNormalizationTrainingGrad
from dmlvk.operators.block_quantization import Dequantize, QuantizationType, Quantize
from dmlvk.operators.cast import Cast
from dmlvk.operators.convolution import Convolution, ConvolutionDirection, ConvolutionMode
from dmlvk.operators.filling import (
    DiagonalMatrix,
    DiagonalMatrix1,
    FillValueConstant,
    FillValueSequence,
    Fold,
    SliceGrad,
    Unfold,
    ValueScale2d,
)
from dmlvk.operators.indexed import (
    Gather,
    GatherElements,
    GatherNd,
    GatherNd1,
    OneHot,
    ReverseSubsequences,
    Scatter,
    ScatterNd,
)
from dmlvk.operators.integer_products import ConvolutionInteger, MatrixMultiplyInteger
from dmlvk.operators.local_response import LocalResponseNormalization, LocalResponseNormalizationGrad
from dmlvk.operators.matrix import Gemm, MatrixTransform
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.movement import Join, Slice, Slice1, Split
from dmlvk.operators.nonzero import NonzeroCoordinates
from dmlvk.operators.normalization import (
    BatchNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    MeanVarianceNormalization2,
)
from dmlvk.operators.optimizer import AdamOptimizer
from dmlvk.operators.pooling import (
    AveragePooling,
    AveragePooling1,
    AveragePoolingGrad,
    LpPooling,
    LpPooling1,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    MaxPoolingGrad,
    MaxUnpooling,
)
from dmlvk.operators.quantized_pooling import QuantizedLinearAveragePooling
from dmlvk.operators.quantized_products import (
    DynamicQuantizeLinear,
    MatrixMultiplyIntegerToFloat,
    QuantizedLinearConvolution,
    QuantizedLinearMatrixMultiply,
)
from dmlvk.operators.random import RandomGenerator, RandomGeneratorType
from dmlvk.operators.rearrangement import (
    DepthSpaceOrder,
    DepthToSpace,
    DepthToSpace1,
    Padding,
    Padding1,
    PaddingMode,
    SpaceToDepth,
    SpaceToDepth1,
    Tile,
)
from dmlvk.operators.recurrent import Gru, Lstm, RecurrentNetworkDirection, Rnn
from dmlvk.operators.reduction import Argmax, Argmin, Reduce, ReduceFunction
from dmlvk.operators.region_alignment import RoiAlign, RoiAlign1
from dmlvk.operators.region_gradient import RoiAlignGrad
from dmlvk.operators.regions import RoiPooling
from dmlvk.operators.resampling import (
    InterpolationMode,
    Resample,
    Resample1,
    Resample2,
    Resample3,
    ResampleGrad,
    ResampleGrad1,
    Upsample2d,
)
from dmlvk.operators.scan import CumulativeProduct, CumulativeSummation
from dmlvk.operators.sorting import TopK, TopK1

__all__ = [
    "AdamOptimizer",
    "Argmax",
    "Argmin",
    "AveragePooling",
    "AveragePooling1",
    "AveragePoolingGrad",
    "AxisDirection",
    "BatchNormalization",
    "BatchNormalizationGrad",
    "BatchNormalizationTraining",
    "BatchNormalizationTrainingGrad",
    "Cast",
    "Convolution",
    "ConvolutionDirection",
    "ConvolutionInteger",
    "ConvolutionMode",
    "CumulativeProduct",
    "CumulativeSummation",
    "DepthSpaceOrder",
    "DepthToSpace",
    "DepthToSpace1",
    "Dequantize",
    "DiagonalMatrix",
    "DiagonalMatrix1",
    "DynamicQuantizeLinear",
    "FillValueConstant",
    "FillValueSequence",
    "Fold",
    "Gather",
    "GatherElements",
    "GatherNd",
    "GatherNd1",
    "Gemm",
    "Gru",
    "InterpolationMode",
    "Join",
    "LocalResponseNormalization",
    "LocalResponseNormalizationGrad",
    "LpNormalization",
    "LpPooling",
    "LpPooling1",
    "Lstm",
    "MatrixMultiplyInteger",
    "MatrixMultiplyIntegerToFloat",
    "MatrixTransform",
    "MaxPooling",
    "MaxPooling1",
    "MaxPooling2",
    "MaxPoolingGrad",
    "MaxUnpooling",
    "MeanVarianceNormalization",
    "MeanVarianceNormalization1",
    "MeanVarianceNormalization2",
    "MultiheadAttention",
    "MultiheadAttention1",
    "MultiheadAttentionMaskType",
    "NonzeroCoordinates",
    "OneHot",
    "Padding",
    "Padding1",
    "PaddingMode",
    "QuantizationType",
    "Quantize",
    "QuantizedLinearAveragePooling",
    "QuantizedLinearConvolution",
    "QuantizedLinearMatrixMultiply",
    "RandomGenerator",
    "RandomGeneratorType",
    "RecurrentNetworkDirection",
    "Reduce",
    "ReduceFunction",
    "Resample",
    "Resample1",
    "Resample2",
    "Resample3",
    "ResampleGrad",
    "ResampleGrad1",
    "ReverseSubsequences",
    "Rnn",
    "RoiAlign",
    "RoiAlign1",
    "RoiAlignGrad",
    "RoiPooling",
    "Scatter",
    "ScatterNd",
    "Slice",
    "Slice1",
    "SliceGrad",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "Tile",
    "TopK",
    "TopK1",
    "Unfold",
    "Upsample2d",
    "ValueScale2d",
]
