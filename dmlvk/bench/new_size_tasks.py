"""What ``dmlvk bench new-sizes`` runs with ever new sizes and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml

Made = tuple[dml.OperatorDesc, dict[str, npt.NDArray[Any]]]
Task = Callable[[int], Made]

_WINDOW = {"DimensionCount": 2, "StartPadding": (0, 0), "EndPadding": (0, 0)}
_TWO = {**_WINDOW, "Strides": (2, 2), "WindowSize": (2, 2)}


def _tensor(
    *sizes: int, data_type: dml.DataType = dml.FLOAT32, strides: tuple[int, ...] | None = None
) -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes, strides)


def _made(name: str, given: dict[str, Any] | None = None, /, **members: Any) -> Made:
    """An operator, and an array for each input: as given, or all of 1/2, or ones of integers."""
    desc = dml.operator_desc(name, **members)
    inputs: dict[str, npt.NDArray[Any]] = {}
    for field, tensor in desc.inputs:
        if tensor is not None:
            value = (given or {}).get(field.name, 0.5 if tensor.data_type.is_float else 1)
            inputs[field.name] = np.broadcast_to(np.array(value, tensor.data_type.numpy_dtype), tensor.sizes)
    return desc, inputs


def _indices(*sizes: int) -> dml.TensorDesc:
    return _tensor(*sizes, data_type=dml.UINT32)


def _alone(name: str, x: dml.TensorDesc, /, **members: Any) -> Made:
    """An operator of one tensor, with a packed output of its sizes."""
    return _made(name, InputTensor=x, OutputTensor=_tensor(*x.sizes), **members)


def _of_part(name: str, number: int, **members: Any) -> Made:
    t = _tensor(5 + number, 30, strides=(50, 1))
    return _made(name, InputTensor=t, OutputTensor=t, **members)


def _add(b_strides: tuple[int, ...] | None, *sizes: int) -> Made:
    t = _tensor(*sizes)
    return _made("ELEMENT_WISE_ADD", ATensor=t, BTensor=_tensor(*sizes, strides=b_strides), OutputTensor=t)


def _gemm(rows: int, alpha: float = 1.0, fused: dml.FusedActivation | None = None) -> Made:
    tensors = {"ATensor": _tensor(1, 1, rows, 64), "BTensor": _tensor(1, 1, 64, 48)}
    more = {"TransA": "NONE", "TransB": "NONE", "Alpha": alpha, "Beta": 0.0, "FusedActivation": fused}
    return _made("GEMM", OutputTensor=_tensor(1, 1, rows, 48), **tensors, **more)


def _convolution(number: int) -> Made:
    tensors = {"InputTensor": _tensor(1 + number, 3, 12, 12), "FilterTensor": _tensor(8, 3, 3, 3)}
    ways = {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD", "OutputPadding": (0, 0), "GroupCount": 1}
    steps = {"Strides": (1, 1), "Dilations": (1, 1)}
    return _made("CONVOLUTION", OutputTensor=_tensor(1 + number, 8, 10, 10), **tensors, **ways, **steps, **_WINDOW)


def _reduce(function: str, *sizes: int) -> Made:
    y, axis = _tensor(*sizes[:-1], 1), len(sizes) - 1
    return _made("REDUCE", Function=function, InputTensor=_tensor(*sizes), OutputTensor=y, AxisCount=1, Axes=(axis,))


def _pooling(name: str, number: int, **members: Any) -> Made:
    return _made(
        name, InputTensor=_tensor(1 + number, 3, 12, 12), OutputTensor=_tensor(1 + number, 3, 6, 6), **_TWO, **members
    )


def _normalization(number: int) -> Made:
    sizes = (2 + number, 3, 50)
    row = _tensor(*sizes, strides=(0, 50, 1))
    more = {"AxisCount": 1, "Axes": (2,), "NormalizeVariance": True, "Epsilon": 1e-5}
    return _alone("MEAN_VARIANCE_NORMALIZATION1", _tensor(*sizes), ScaleTensor=row, BiasTensor=row, **more)


def _slice(number: int) -> Made:
    window = {"InputWindowOffsets": (number % 10, 0), "InputWindowSizes": (20, 40), "InputWindowStrides": (1, 1)}
    return _made(
        "SLICE1", InputTensor=_tensor(30 + number, 40), OutputTensor=_tensor(20, 40), DimensionCount=2, **window
    )


def _join(number: int) -> Made:
    x, y = _tensor(2 + number, 40), _tensor(4 + 2 * number, 40)
    return _made("JOIN", InputCount=2, InputTensors=[x, x], OutputTensor=y, Axis=0)


def _gather(number: int) -> Made:
    x, i, y = _tensor(50, 16), _indices(1, 2 + number), _tensor(2 + number, 16)
    return _made("GATHER", InputTensor=x, IndicesTensor=i, OutputTensor=y, Axis=0, IndexDimensions=1)


def _top_k(number: int) -> Made:
    x, y, i = _tensor(2 + number, 100), _tensor(2 + number, 5), _indices(2 + number, 5)
    return _made("TOP_K", InputTensor=x, OutputValueTensor=y, OutputIndexTensor=i, Axis=1, K=5)


def _resample(number: int) -> Made:
    x, y = _tensor(1, 1 + number, 12, 12), _tensor(1, 1 + number, 24, 24)
    return _made(
        "RESAMPLE", InputTensor=x, OutputTensor=y, InterpolationMode="LINEAR", ScaleCount=4, Scales=(1, 1, 2, 2)
    )


def _padding(number: int) -> Made:
    x, y = _tensor(2 + number, 10, 10), _tensor(2 + number, 12, 12)
    pads = {"DimensionCount": 3, "StartPadding": (0, 1, 1), "EndPadding": (0, 1, 1)}
    return _made("PADDING", InputTensor=x, OutputTensor=y, PaddingMode="CONSTANT", PaddingValue=0.0, **pads)


def _fold(number: int) -> Made:
    x, y = _tensor(1, 8, (5 + number) * 9), _tensor(1, 2, 6 + number, 10)
    return _made("FOLD", InputTensor=x, OutputTensor=y, WindowSizes=(2, 2), Strides=(1, 1), Dilations=(1, 1), **_WINDOW)


def _unfold(number: int) -> Made:
    x, y = _tensor(1, 2, 6 + number, 10), _tensor(1, 8, (5 + number) * 9)
    window = {"WindowSizes": (2, 2), "Strides": (1, 1), "Dilations": (1, 1)}
    return _made("UNFOLD", InputTensor=x, OutputTensor=y, **window, **_WINDOW)


def _max_unpooling(number: int) -> Made:
    x, y = _tensor(1, 2, 3 + number, 4), _tensor(1, 2, 6 + 2 * number, 8)
    numbers = np.arange(2 * (3 + number) * 4).reshape(1, 2, 3 + number, 4)
    return _made(
        "MAX_UNPOOLING", {"IndicesTensor": numbers}, InputTensor=x, IndicesTensor=_indices(*x.sizes), OutputTensor=y
    )


def _lp_pooling(number: int) -> Made:
    x, y = _tensor(1, 2, 8 + 2 * number, 8), _tensor(1, 2, 4 + number, 4)
    return _made("LP_POOLING", InputTensor=x, OutputTensor=y, P=2, **_TWO)


def _max_pooling_width(number: int) -> Made:
    x, y = _tensor(1, 2, 8, 8 + 2 * number), _tensor(1, 2, 4, 4 + number)
    return _made("MAX_POOLING", InputTensor=x, OutputTensor=y, **_TWO)


def _max_pooling_window(number: int) -> Made:
    x, y = _tensor(1, 2, 40, 40), _tensor(1, 2, 39 - number, 40)
    window = {"Strides": (1, 1), "WindowSize": (2 + number, 1)}
    return _made("MAX_POOLING", InputTensor=x, OutputTensor=y, **window, **_WINDOW)


def _max_pooling_of_volumes(number: int) -> Made:
    x, y = _tensor(1, 2, 4 + 2 * number, 6, 6), _tensor(1, 2, 2 + number, 3, 3)
    three = {"DimensionCount": 3, "Strides": (2,) * 3, "WindowSize": (2,) * 3, "Dilations": (1,) * 3}
    pads = {"StartPadding": (0,) * 3, "EndPadding": (0,) * 3}
    return _made("MAX_POOLING2", InputTensor=x, OutputTensor=y, **three, **pads)


def _average_pooling_gradient(number: int) -> Made:
    x, y = _tensor(1, 2, 4 + number, 4), _tensor(1, 2, 8 + 2 * number, 8)
    return _made("AVERAGE_POOLING_GRAD", InputGradientTensor=x, OutputGradientTensor=y, IncludePadding=False, **_TWO)


def _one_hot(number: int) -> Made:
    sizes = (1, 1, 5 + number, 1)
    y = _tensor(1, 1, 5 + number, 7)
    return _made("ONE_HOT", IndicesTensor=_indices(*sizes), ValuesTensor=_tensor(1, 1, 1, 2), OutputTensor=y, Axis=3)


def _scatter(number: int) -> Made:
    x, i = _tensor(6 + number, 9), _indices(2 + number, 9)
    return _made("SCATTER", InputTensor=x, IndicesTensor=i, UpdatesTensor=_tensor(*i.sizes), OutputTensor=x, Axis=0)


def _scatter_indices(number: int) -> Made:
    x, i, u = _tensor(6 + number, 9), _indices(2 + number, 1), _tensor(2 + number, 9)
    counts = {"InputDimensionCount": 2, "IndicesDimensionCount": 2}
    rows = np.arange(2 + number).reshape(-1, 1)
    return _made(
        "SCATTER_ND", {"IndicesTensor": rows}, InputTensor=x, IndicesTensor=i, UpdatesTensor=u, OutputTensor=x, **counts
    )


def _gather_indices(number: int) -> Made:
    x, i, y = _tensor(6, 9), _indices(2 + number, 1), _tensor(2 + number, 9)
    counts = {"InputDimensionCount": 2, "IndicesDimensionCount": 2}
    return _made("GATHER_ND", InputTensor=x, IndicesTensor=i, OutputTensor=y, **counts)


def _gather_elements(number: int) -> Made:
    i = _indices(2 + number, 9)
    return _made("GATHER_ELEMENTS", InputTensor=_tensor(6, 9), IndicesTensor=i, OutputTensor=_tensor(*i.sizes), Axis=0)


def _gather_columns(number: int) -> Made:
    x, i, y = _tensor(50 + number, 16), _indices(1, 3), _tensor(50 + number, 3)
    return _made("GATHER", InputTensor=x, IndicesTensor=i, OutputTensor=y, Axis=1, IndexDimensions=1)


def _nonzero(number: int) -> Made:
    x = _tensor(5 + number, 9)
    coordinates = _indices(9 * (5 + number), 2)
    return _made(
        "NONZERO_COORDINATES", InputTensor=x, OutputCountTensor=_indices(1), OutputCoordinatesTensor=coordinates
    )


def _diagonal(number: int) -> Made:
    y = _tensor(5 + number, 7)
    more = {"DiagonalFillBegin": 0, "DiagonalFillEnd": 2}
    return _made("DIAGONAL_MATRIX1", OutputTensor=y, ValueDataType="FLOAT32", Value=1.0, **more)


def _resample_height(number: int) -> Made:
    x, y = _tensor(1, 1, 6 + number, 12), _tensor(1, 1, 12 + 2 * number, 24)
    return _made(
        "RESAMPLE", InputTensor=x, OutputTensor=y, InterpolationMode="LINEAR", ScaleCount=4, Scales=(1, 1, 2, 2)
    )


def _resample_scale(number: int) -> Made:
    x, y = _tensor(1, 1, 6, 12), _tensor(1, 1, 7 + number, 12)
    scales = (1, 1, (7 + number) / 6, 1)
    return _made("RESAMPLE", InputTensor=x, OutputTensor=y, InterpolationMode="LINEAR", ScaleCount=4, Scales=scales)


def _resample_gradient(number: int) -> Made:
    x, y = _tensor(1, 1, 12 + 2 * number, 24), _tensor(1, 1, 6 + number, 12)
    offsets = {"InputPixelOffsets": (0.5,) * 4, "OutputPixelOffsets": (-0.5,) * 4}
    scales = {"DimensionCount": 4, "Scales": (1, 1, 2, 2)}
    return _made(
        "RESAMPLE_GRAD", InputGradientTensor=x, OutputGradientTensor=y, InterpolationMode="LINEAR", **scales, **offsets
    )


def _upsample(number: int) -> Made:
    x, y = _tensor(1, 1, 6 + number, 12), _tensor(1, 1, 12 + 2 * number, 24)
    scale = dml.Size2D(2, 2)
    return _made("UPSAMPLE_2D", InputTensor=x, OutputTensor=y, ScaleSize=scale, InterpolationMode="NEAREST_NEIGHBOR")


def _reverse(number: int) -> Made:
    x = _tensor(1, 1, 5 + number, 9)
    lengths = _indices(1, 1, 5 + number, 1)
    return _made("REVERSE_SUBSEQUENCES", InputTensor=x, SequenceLengthsTensor=lengths, OutputTensor=x, Axis=3)


def _roi_pooling(number: int) -> Made:
    regions = {"ROITensor": [[0, 1, 1, 5, 5]] * 3}
    x, y = _tensor(1, 2, 12, 12), _tensor(3, 2, 2, 2)
    scale = {"SpatialScale": 0.5 + number / 64, "PooledSize": dml.Size2D(2, 2)}
    return _made("ROI_POOLING", regions, InputTensor=x, ROITensor=_tensor(1, 1, 3, 5), OutputTensor=y, **scale)


def _roi_align(number: int) -> Made:
    count = 2 + number
    x, r, y = _tensor(1, 2, 12, 12), _tensor(1, 1, count, 4), _tensor(count, 2, 2, 2)
    return _made(
        "ROI_ALIGN",
        {"ROITensor": [1, 1, 5, 5], "BatchIndicesTensor": 0},
        InputTensor=x,
        ROITensor=r,
        BatchIndicesTensor=_indices(1, 1, 1, count),
        OutputTensor=y,
        ReductionFunction="AVERAGE",
        InterpolationMode="LINEAR",
        SpatialScaleX=1.0,
        SpatialScaleY=1.0,
        OutOfBoundsInputValue=0.0,
        MinimumSamplesPerOutput=2,
        MaximumSamplesPerOutput=2,
    )


def _cumulative(number: int) -> Made:
    x = _tensor(3, 50 + number)
    return _made(
        "CUMULATIVE_SUMMATION", InputTensor=x, OutputTensor=x, Axis=1, AxisDirection="INCREASING", HasExclusiveSum=False
    )


def _batch_normalization(number: int) -> Made:
    x, one = _tensor(1 + number, 3, 8, 8), _tensor(1, 3, 1, 1)
    four = dict.fromkeys(("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor"), one)
    return _made("BATCH_NORMALIZATION", InputTensor=x, OutputTensor=x, Spatial=True, Epsilon=1e-5, **four)


def _local_response(number: int) -> Made:
    x = _tensor(1, 6, 5 + number, 8)
    of = {"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1.0}
    return _made("LOCAL_RESPONSE_NORMALIZATION", InputTensor=x, OutputTensor=x, **of)


def _argmax(number: int) -> Made:
    x, y = _tensor(3, 50 + number), _indices(3, 1)
    return _made("ARGMAX", InputTensor=x, OutputTensor=y, AxisCount=1, Axes=(1,), AxisDirection="INCREASING")


def _depth_to_space(number: int) -> Made:
    x, y = _tensor(1, 8, 3 + number, 4), _tensor(1, 2, 6 + 2 * number, 8)
    return _made("DEPTH_TO_SPACE", InputTensor=x, OutputTensor=y, BlockSize=2)


def _split(number: int) -> Made:
    x, y = _tensor(4 + 2 * number, 9), _tensor(2 + number, 9)
    return _made("SPLIT", InputTensor=x, OutputCount=2, OutputTensors=[y, y], Axis=0)


def _tile(number: int) -> Made:
    x, y = _tensor(3 + number, 5), _tensor(6 + 2 * number, 5)
    return _made("TILE", InputTensor=x, OutputTensor=y, RepeatsCount=2, Repeats=(2, 1))


def _fill_sequence(number: int) -> Made:
    y = _tensor(100 + number)
    return _made(
        "FILL_VALUE_SEQUENCE", OutputTensor=y, ValueDataType="FLOAT32", ValueStart=0.0, ValueDelta=1.0 + number
    )


def _adam(number: int) -> Made:
    x = _tensor(1, 1, 1, 100 + number)
    tensors = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
    outputs = ("OutputParametersTensor", "OutputFirstMomentTensor", "OutputSecondMomentTensor")
    rates = {"LearningRate": 1e-3 * (1 + number), "Beta1": 0.9, "Beta2": 0.999, "Epsilon": 1e-8}
    return _made(
        "ADAM_OPTIMIZER", TrainingStepTensor=_indices(1, 1, 1, 1), **dict.fromkeys((*tensors, *outputs), x), **rates
    )


def _integer_product(number: int) -> Made:
    a, b = _tensor(1, 1, 3 + number, 32, data_type=dml.INT8), _tensor(1, 1, 32, 16, data_type=dml.INT8)
    y = _tensor(1, 1, 3 + number, 16, data_type=dml.INT32)
    return _made("MATRIX_MULTIPLY_INTEGER", ATensor=a, BTensor=b, OutputTensor=y)


def _integer_convolution(number: int) -> Made:
    x, w = _tensor(1 + number, 3, 8, 8, data_type=dml.INT8), _tensor(4, 3, 3, 3, data_type=dml.INT8)
    y = _tensor(1 + number, 4, 6, 6, data_type=dml.INT32)
    window = {"Strides": (1, 1), "Dilations": (1, 1), "GroupCount": 1}
    return _made("CONVOLUTION_INTEGER", InputTensor=x, FilterTensor=w, OutputTensor=y, **window, **_WINDOW)


def _quantize(number: int) -> Made:
    x = _tensor(5 + number, 9)
    y = _tensor(5 + number, 9, data_type=dml.INT8)
    scale = dml.TensorDesc(dml.FLOAT32, x.sizes, strides=(0, 0))
    return _made("ELEMENT_WISE_QUANTIZE_LINEAR", InputTensor=x, ScaleTensor=scale, ZeroPointTensor=None, OutputTensor=y)


def _dynamic_quantize(number: int) -> Made:
    x, y = _tensor(5 + number, 9), _tensor(5 + number, 9, data_type=dml.UINT8)
    point = _tensor(1, 1, data_type=dml.UINT8)
    return _made(
        "DYNAMIC_QUANTIZE_LINEAR",
        InputTensor=x,
        OutputTensor=y,
        OutputScaleTensor=_tensor(1, 1),
        OutputZeroPointTensor=point,
    )


def _dequantize_blocks(number: int) -> Made:
    x, y = _tensor(3 + number, 64, data_type=dml.INT8), _tensor(3 + number, 64)
    of = {"QuantizationType": "SCALE", "QuantizationTensorCount": 1}
    return _made("DEQUANTIZE", InputTensor=x, QuantizationTensors=[_tensor(3 + number, 2)], OutputTensor=y, **of)


def _rnn(number: int) -> Made:
    steps, hidden = 2 + number, 8
    x, y = _tensor(1, steps, 2, 6), _tensor(steps, 1, 2, hidden)
    tanh = dml.fused_activation("ACTIVATION_TANH")
    weights = {"WeightTensor": _tensor(1, 1, hidden, 6), "RecurrenceTensor": _tensor(1, 1, hidden, hidden)}
    ways = {"ActivationDescCount": 1, "ActivationDescs": [tanh], "Direction": "FORWARD"}
    return _made("RNN", InputTensor=x, OutputSequenceTensor=y, **weights, **ways)


def _attention(number: int) -> Made:
    x = _tensor(1, 1, 5 + number, 16)
    three = dict.fromkeys(("QueryTensor", "KeyTensor", "ValueTensor"), x)
    of = {"Scale": 0.5, "MaskFilterValue": -1e4, "HeadCount": 2, "MaskType": "NONE"}
    return _made("MULTIHEAD_ATTENTION", OutputTensor=x, **three, **of)


TASKS: dict[str, Task] = {
    "ADD, new size": lambda n: _add(None, 3, 1000 + n),
    "ADD, a row broadcast, new size": lambda n: _add((0, 30, 1), 5 + n, 7, 30),
    "ADD, an element broadcast, new size": lambda n: _add((0,), 1000 + n),
    "SIGN, new size": lambda n: _alone("ELEMENT_WISE_SIGN", _tensor(1000 + n)),
    "SIGN, transposed, new size": lambda n: _alone("ELEMENT_WISE_SIGN", _tensor(4, 20 + n, strides=(1, 4))),
    "CAST to INT32, new size": lambda n: _made(
        "CAST", InputTensor=_tensor(1000 + n), OutputTensor=_tensor(1000 + n, data_type=dml.INT32)
    ),
    "ELU of a part, new number of rows": lambda n: _of_part("ACTIVATION_ELU", n, Alpha=1.5),
    "TAN of a part, new number of rows": lambda n: _of_part("ELEMENT_WISE_TAN", n),
    "ELU, new Alpha": lambda n: _alone("ACTIVATION_ELU", _tensor(1000), Alpha=1 + n / 64),
    "SCALED_TANH, new Alpha": lambda n: _alone("ACTIVATION_SCALED_TANH", _tensor(1000), Alpha=1 + n / 64, Beta=0.5),
    "SOFTPLUS, new Steepness": lambda n: _alone("ACTIVATION_SOFTPLUS", _tensor(1000), Steepness=1 + n / 64),
    "CLIP, new Min and Max": lambda n: _alone("ELEMENT_WISE_CLIP", _tensor(1000), Min=-1 - n / 8, Max=1 + n / 8),
    "CONSTANT_POW, new Exponent": lambda n: _alone("ELEMENT_WISE_CONSTANT_POW", _tensor(1000), Exponent=1.25 + n / 64),
    "IDENTITY, new Scale": lambda n: _alone(
        "ELEMENT_WISE_IDENTITY", _tensor(1000), ScaleBias=dml.ScaleBias(1 + n / 64, 0.25)
    ),
    "GEMM, new number of rows": lambda n: _gemm(3 + n),
    "GEMM, new Alpha": lambda n: _gemm(8, 1 + n / 64),
    "GEMM with LEAKY_RELU, new rows and Alpha": lambda n: _gemm(
        3 + n, fused=dml.fused_activation("ACTIVATION_LEAKY_RELU", Alpha=0.01 + n / 1024)
    ),
    "CONVOLUTION, new batch": _convolution,
    "REDUCE SUM, new batch": lambda n: _reduce("SUM", 2 + n, 8, 64),
    "REDUCE SUM, new length of rows": lambda n: _reduce("SUM", 4, 100 + n),
    "REDUCE MAX, new batch": lambda n: _reduce("MAX", 2 + n, 8, 64),
    "SOFTMAX, new batch": lambda n: _alone("ACTIVATION_SOFTMAX", _tensor(1, 1, 2 + n, 100)),
    "MAX_POOLING, new batch": lambda n: _pooling("MAX_POOLING", n),
    "AVERAGE_POOLING, new batch": lambda n: _pooling("AVERAGE_POOLING", n, IncludePadding=False),
    "MEAN_VARIANCE_NORMALIZATION1, new batch": _normalization,
    "SLICE1, new size and offset": _slice,
    "JOIN, new sizes": _join,
    "GATHER, new number of indices": _gather,
    "TOP_K, new batch": _top_k,
    "RESAMPLE, new batch": _resample,
    "PADDING, new batch": _padding,
    "FOLD, new height": _fold,
    "UNFOLD, new height": _unfold,
    "MAX_UNPOOLING, new height": _max_unpooling,
    "LP_POOLING, new height": _lp_pooling,
    "MAX_POOLING, new width": _max_pooling_width,
    "MAX_POOLING, new window": _max_pooling_window,
    "MAX_POOLING2 of volumes, new depth": _max_pooling_of_volumes,
    "AVERAGE_POOLING_GRAD, new height": _average_pooling_gradient,
    "ONE_HOT, new number of rows": _one_hot,
    "SCATTER, new number of rows": _scatter,
    "SCATTER_ND, new number of rows": _scatter_indices,
    "GATHER_ND, new number of indices": _gather_indices,
    "GATHER_ELEMENTS, new number of rows": _gather_elements,
    "GATHER of columns, new height": _gather_columns,
    "NONZERO_COORDINATES, new height": _nonzero,
    "DIAGONAL_MATRIX1, new height": _diagonal,
    "RESAMPLE, new height": _resample_height,
    "RESAMPLE, new scale": _resample_scale,
    "RESAMPLE_GRAD, new height": _resample_gradient,
    "UPSAMPLE_2D, new height": _upsample,
    "REVERSE_SUBSEQUENCES, new number of rows": _reverse,
    "ROI_POOLING, new SpatialScale": _roi_pooling,
    "ROI_ALIGN, new number of regions": _roi_align,
    "CUMULATIVE_SUMMATION, new length": _cumulative,
    "BATCH_NORMALIZATION, new batch": _batch_normalization,
    "LOCAL_RESPONSE_NORMALIZATION, new height": _local_response,
    "ARGMAX, new length": _argmax,
    "DEPTH_TO_SPACE, new height": _depth_to_space,
    "SPLIT, new sizes": _split,
    "TILE, new height": _tile,
    "FILL_VALUE_SEQUENCE, new size and ValueDelta": _fill_sequence,
    "ADAM_OPTIMIZER, new size and LearningRate": _adam,
    "MATRIX_MULTIPLY_INTEGER, new number of rows": _integer_product,
    "CONVOLUTION_INTEGER, new batch": _integer_convolution,
    "ELEMENT_WISE_QUANTIZE_LINEAR, new height": _quantize,
    "DYNAMIC_QUANTIZE_LINEAR, new height": _dynamic_quantize,
    "DEQUANTIZE in blocks, new height": _dequantize_blocks,
    "RNN, new number of steps": _rnn,
    "MULTIHEAD_ATTENTION, new length": _attention,
}
