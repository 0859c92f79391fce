"""What :mod:`scripts.measure_new_sizes` runs with ever new sizes and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml

Made = tuple[dml.OperatorDesc, dict[str, npt.NDArray[Any]]]
Task = Callable[[int], Made]


def _tensor(*sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(dml.FLOAT32, sizes)


def _values(*sizes: int) -> npt.NDArray[np.float32]:
    return np.full(sizes, 0.5, np.float32)


def _add(number: int) -> Made:
    t = _tensor(3, 1000 + number)
    x = _values(3, 1000 + number)
    return dml.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t), {"ATensor": x, "BTensor": x}


def _add_broadcast(number: int) -> Made:
    sizes = (5 + number, 7, 30)
    t = _tensor(*sizes)
    row = dml.TensorDesc(dml.FLOAT32, sizes, strides=(0, 30, 1))
    return dml.ElementWiseAdd(a_tensor=t, b_tensor=row, output_tensor=t), {
        "ATensor": _values(*sizes),
        "BTensor": _values(*sizes),
    }


def _add_element(number: int) -> Made:
    t, element = _tensor(1000 + number), dml.TensorDesc(dml.FLOAT32, (1000 + number,), strides=(0,))
    desc = dml.ElementWiseAdd(a_tensor=t, b_tensor=element, output_tensor=t)
    return desc, {"ATensor": _values(1000 + number), "BTensor": _values(1000 + number)}


def _sign(number: int) -> Made:
    t = _tensor(1000 + number)
    return dml.ElementWiseSign(input_tensor=t, output_tensor=t), {"InputTensor": _values(1000 + number)}


def _sign_strided(number: int) -> Made:
    sizes = (4, 20 + number)
    t = dml.TensorDesc(dml.FLOAT32, sizes, strides=(1, 4))
    return dml.ElementWiseSign(input_tensor=t, output_tensor=_tensor(*sizes)), {"InputTensor": _values(*sizes)}


def _elu(number: int) -> Made:
    t = _tensor(1000)
    return dml.ActivationElu(input_tensor=t, output_tensor=t, alpha=1 + number / 64), {"InputTensor": _values(1000)}


def _elu_of_part(number: int) -> Made:
    sizes = (5 + number, 30)
    t = dml.TensorDesc(dml.FLOAT32, sizes, strides=(50, 1))
    return dml.ActivationElu(input_tensor=t, output_tensor=t, alpha=1.5), {"InputTensor": _values(*sizes)}


def _tan_of_part(number: int) -> Made:
    sizes = (5 + number, 30)
    t = dml.TensorDesc(dml.FLOAT32, sizes, strides=(50, 1))
    return dml.ElementWiseTan(input_tensor=t, output_tensor=t), {"InputTensor": _values(*sizes)}


def _scaled_tanh(number: int) -> Made:
    t = _tensor(1000)
    return (
        dml.ActivationScaledTanh(input_tensor=t, output_tensor=t, alpha=1 + number / 64, beta=0.5),
        {"InputTensor": _values(1000)},
    )


def _softplus(number: int) -> Made:
    t = _tensor(1000)
    return (
        dml.ActivationSoftplus(input_tensor=t, output_tensor=t, steepness=1 + number / 64),
        {"InputTensor": _values(1000)},
    )


def _clip(number: int) -> Made:
    t = _tensor(1000)
    return (
        dml.ElementWiseClip(input_tensor=t, output_tensor=t, min=-1 - number / 8, max=1 + number / 8),
        {"InputTensor": _values(1000)},
    )


def _constant_pow(number: int) -> Made:
    t = _tensor(1000)
    return (
        dml.ElementWiseConstantPow(input_tensor=t, output_tensor=t, exponent=1.25 + number / 64),
        {"InputTensor": _values(1000)},
    )


def _identity_scaled(number: int) -> Made:
    t = _tensor(1000)
    scale = dml.ScaleBias(1 + number / 64, 0.25)
    return dml.ElementWiseIdentity(input_tensor=t, output_tensor=t, scale_bias=scale), {"InputTensor": _values(1000)}


def _gemm(number: int) -> Made:
    rows = 3 + number
    a, b, y = _tensor(1, 1, rows, 64), _tensor(1, 1, 64, 48), _tensor(1, 1, rows, 48)
    return _product(a, b, y, 1.0, None)


def _product(
    a: dml.TensorDesc, b: dml.TensorDesc, y: dml.TensorDesc, alpha: float, fused: dml.FusedActivation | None
) -> Made:
    desc = dml.operator_desc(
        "GEMM",
        ATensor=a,
        BTensor=b,
        OutputTensor=y,
        TransA="NONE",
        TransB="NONE",
        Alpha=alpha,
        Beta=0.0,
        FusedActivation=fused,
    )
    return desc, {"ATensor": _values(*a.sizes), "BTensor": _values(*b.sizes)}


def _gemm_relu(number: int) -> Made:
    rows = 3 + number
    a, b, y = _tensor(1, 1, rows, 64), _tensor(1, 1, 64, 48), _tensor(1, 1, rows, 48)
    fused = dml.fused_activation("ACTIVATION_LEAKY_RELU", Alpha=0.01 + number / 1024)
    return _product(a, b, y, 1.0, fused)


def _gemm_alpha(number: int) -> Made:
    a, b, y = _tensor(1, 1, 8, 64), _tensor(1, 1, 64, 48), _tensor(1, 1, 8, 48)
    return _product(a, b, y, 1 + number / 64, None)


def _convolution(number: int) -> Made:
    x, w, y = _tensor(1 + number, 3, 12, 12), _tensor(8, 3, 3, 3), _tensor(1 + number, 8, 10, 10)
    desc = dml.Convolution(
        input_tensor=x,
        filter_tensor=w,
        output_tensor=y,
        mode=dml.ConvolutionMode.CROSS_CORRELATION,
        direction=dml.ConvolutionDirection.FORWARD,
        dimension_count=2,
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        output_padding=(0, 0),
        group_count=1,
        fused_activation=None,
    )
    return desc, {"InputTensor": _values(*x.sizes), "FilterTensor": _values(*w.sizes)}


def _reduce(number: int) -> Made:
    x, y = _tensor(2 + number, 8, 64), _tensor(2 + number, 8, 1)
    desc = dml.Reduce(function=dml.ReduceFunction.SUM, input_tensor=x, output_tensor=y, axis_count=1, axes=(2,))
    return desc, {"InputTensor": _values(*x.sizes)}


def _reduce_length(number: int) -> Made:
    x, y = _tensor(4, 100 + number), _tensor(4, 1)
    desc = dml.Reduce(function=dml.ReduceFunction.SUM, input_tensor=x, output_tensor=y, axis_count=1, axes=(1,))
    return desc, {"InputTensor": _values(*x.sizes)}


def _reduce_max(number: int) -> Made:
    x, y = _tensor(2 + number, 8, 64), _tensor(2 + number, 8, 1)
    desc = dml.Reduce(function=dml.ReduceFunction.MAX, input_tensor=x, output_tensor=y, axis_count=1, axes=(2,))
    return desc, {"InputTensor": _values(*x.sizes)}


def _softmax(number: int) -> Made:
    t = _tensor(1, 1, 2 + number, 100)
    return dml.ActivationSoftmax(input_tensor=t, output_tensor=t), {"InputTensor": _values(*t.sizes)}


def _max_pooling(number: int) -> Made:
    x, y = _tensor(1 + number, 3, 12, 12), _tensor(1 + number, 3, 6, 6)
    desc = dml.MaxPooling(
        input_tensor=x,
        output_tensor=y,
        dimension_count=2,
        strides=(2, 2),
        window_size=(2, 2),
        start_padding=(0, 0),
        end_padding=(0, 0),
    )
    return desc, {"InputTensor": _values(*x.sizes)}


def _average_pooling(number: int) -> Made:
    x, y = _tensor(1 + number, 3, 12, 12), _tensor(1 + number, 3, 6, 6)
    desc = dml.AveragePooling(
        input_tensor=x,
        output_tensor=y,
        dimension_count=2,
        strides=(2, 2),
        window_size=(2, 2),
        start_padding=(0, 0),
        end_padding=(0, 0),
        include_padding=False,
    )
    return desc, {"InputTensor": _values(*x.sizes)}


def _normalization(number: int) -> Made:
    t, scale = _tensor(2 + number, 3, 50), dml.TensorDesc(dml.FLOAT32, (2 + number, 3, 50), strides=(0, 50, 1))
    desc = dml.MeanVarianceNormalization1(
        input_tensor=t,
        scale_tensor=scale,
        bias_tensor=scale,
        output_tensor=t,
        axis_count=1,
        axes=(2,),
        normalize_variance=True,
        epsilon=1e-5,
        fused_activation=None,
    )
    x = _values(*t.sizes)
    return desc, {"InputTensor": x, "ScaleTensor": x, "BiasTensor": x}


def _slice(number: int) -> Made:
    x, y = _tensor(30 + number, 40), _tensor(20, 40)
    desc = dml.Slice1(
        input_tensor=x,
        output_tensor=y,
        dimension_count=2,
        input_window_offsets=(number % 10, 0),
        input_window_sizes=(20, 40),
        input_window_strides=(1, 1),
    )
    return desc, {"InputTensor": _values(*x.sizes)}


def _join(number: int) -> Made:
    x, y = _tensor(2 + number, 40), _tensor(4 + 2 * number, 40)
    desc = dml.Join(input_count=2, input_tensors=[x, x], output_tensor=y, axis=0)
    return desc, {"InputTensors[0]": _values(*x.sizes), "InputTensors[1]": _values(*x.sizes)}


def _gather(number: int) -> Made:
    x, i, y = _tensor(50, 16), dml.TensorDesc(dml.UINT32, (1, 2 + number)), _tensor(2 + number, 16)
    desc = dml.Gather(input_tensor=x, indices_tensor=i, output_tensor=y, axis=0, index_dimensions=1)
    return desc, {"InputTensor": _values(*x.sizes), "IndicesTensor": np.ones(i.sizes, np.uint32)}


def _cast(number: int) -> Made:
    x = _tensor(1000 + number)
    return dml.Cast(input_tensor=x, output_tensor=dml.TensorDesc(dml.INT32, x.sizes)), {
        "InputTensor": _values(*x.sizes)
    }


def _top_k(number: int) -> Made:
    x, y = _tensor(2 + number, 100), _tensor(2 + number, 5)
    desc = dml.TopK(
        input_tensor=x,
        output_value_tensor=y,
        output_index_tensor=dml.TensorDesc(dml.UINT32, y.sizes),
        axis=1,
        k=5,
    )
    return desc, {"InputTensor": _values(*x.sizes)}


def _resample(number: int) -> Made:
    x, y = _tensor(1, 1 + number, 12, 12), _tensor(1, 1 + number, 24, 24)
    desc = dml.Resample(
        input_tensor=x,
        output_tensor=y,
        interpolation_mode=dml.InterpolationMode.LINEAR,
        scale_count=4,
        scales=(1, 1, 2, 2),
    )
    return desc, {"InputTensor": _values(*x.sizes)}


def _padding(number: int) -> Made:
    x, y = _tensor(2 + number, 10, 10), _tensor(2 + number, 12, 12)
    desc = dml.Padding(
        input_tensor=x,
        output_tensor=y,
        padding_mode=dml.PaddingMode.CONSTANT,
        padding_value=0.0,
        dimension_count=3,
        start_padding=(0, 1, 1),
        end_padding=(0, 1, 1),
    )
    return desc, {"InputTensor": _values(*x.sizes)}


TASKS: dict[str, Task] = {
    "ADD, new size": _add,
    "ADD, a row broadcast, new size": _add_broadcast,
    "ADD, an element broadcast, new size": _add_element,
    "SIGN, new size": _sign,
    "SIGN, transposed, new size": _sign_strided,
    "CAST to INT32, new size": _cast,
    "ELU of a part, new number of rows": _elu_of_part,
    "TAN of a part, new number of rows": _tan_of_part,
    "ELU, new Alpha": _elu,
    "SCALED_TANH, new Alpha": _scaled_tanh,
    "SOFTPLUS, new Steepness": _softplus,
    "CLIP, new Min and Max": _clip,
    "CONSTANT_POW, new Exponent": _constant_pow,
    "IDENTITY, new Scale": _identity_scaled,
    "GEMM, new number of rows": _gemm,
    "GEMM, new Alpha": _gemm_alpha,
    "GEMM with LEAKY_RELU, new rows and Alpha": _gemm_relu,
    "CONVOLUTION, new batch": _convolution,
    "REDUCE SUM, new batch": _reduce,
    "REDUCE SUM, new length of rows": _reduce_length,
    "REDUCE MAX, new batch": _reduce_max,
    "SOFTMAX, new batch": _softmax,
    "MAX_POOLING, new batch": _max_pooling,
    "AVERAGE_POOLING, new batch": _average_pooling,
    "MEAN_VARIANCE_NORMALIZATION1, new batch": _normalization,
    "SLICE1, new size and offset": _slice,
    "JOIN, new sizes": _join,
    "GATHER, new number of indices": _gather,
    "TOP_K, new batch": _top_k,
    "RESAMPLE, new batch": _resample,
    "PADDING, new batch": _padding,
}
