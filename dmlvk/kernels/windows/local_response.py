"""LOCAL_RESPONSE_NORMALIZATION of few channels without a general power: patterns/windows/quick_response.glsl."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.local_response import LocalResponseNormalization, LocalResponseNormalizationGrad

_NAME = "local_response_channels"

_MOST_TAPS = 5  # Channels around an element: what quick_base adds up in the shaders

_QUARTERS = {0.25: 1, 0.5: 2, 0.75: 3}  # The exponents, and how many quarters they are

_LEAST_BIAS, _MOST_BIAS = 2.0**-30, 2.0**30
_MOST_FACTOR = 2.0**20  # Of Bias

_LANES = 4
_CHANNELS_OF_RUN = 8  # Channels that an invocation goes through: CHANNELS_OF_RUN in the shader


def variants() -> Iterator[ShaderVariant]:
    for data_type in (DataType.FLOAT32, DataType.FLOAT16):
        name, bits = data_type.name.lower(), str(data_type.size_in_bits)
        defines = {"INPUT": name, "OUTPUT": name, "INPUT_BITS": bits, "OUTPUT_BITS": bits}
        yield ShaderVariant(f"{_NAME}.{name}", f"patterns/windows/{_NAME}.comp", tuple(sorted(defines.items())))


def factor_of(desc: LocalResponseNormalization | LocalResponseNormalizationGrad) -> np.float32:
    """What the sum of squares is multiplied by."""
    return np.float32(np.float32(desc.alpha) / np.float32(desc.local_size))


def response_numbers(desc: LocalResponseNormalization | LocalResponseNormalizationGrad) -> tuple[int, int, int]:
    """The words of Beta, of the sum's factor and of Bias."""
    return float32_bits(desc.beta), float32_bits(float(factor_of(desc))), float32_bits(desc.bias)


def quarters_of(desc: LocalResponseNormalization) -> int:
    """Four times Beta, where the quick way has the operator, which its attributes alone decide; else 0."""
    factor, bias = float(factor_of(desc)), float(np.float32(desc.bias))
    is_normal = factor == 0.0 or factor >= float(np.finfo(np.float32).smallest_normal)
    is_quick = desc.cross_channel and desc.local_size <= _MOST_TAPS and _LEAST_BIAS <= bias <= _MOST_BIAS
    if not is_quick or not is_normal or not 0.0 <= factor <= _MOST_FACTOR * bias:
        return 0
    return _QUARTERS.get(float(np.float32(desc.beta)), 0)


def kernel_of_channels(desc: LocalResponseNormalization, before: int, taps: int) -> PlainKernel | None:
    """The kernel for packed tensors, if the quick way has the operator and planes are whole vectors.

    Args:
        before: channels of a window before the element's own.
    """
    quarters = quarters_of(desc)
    batch, channels, height, width = desc.input_tensor.sizes
    plane = height * width
    packed = (channels * plane, plane, width, 1)
    tensors = (desc.input_tensor, desc.output_tensor)
    is_packed = all(
        size == 1 or stride == expected
        for tensor in tensors
        for size, stride, expected in zip(tensor.sizes, tensor.element_strides, packed, strict=True)
    )
    if not quarters or plane % _LANES or not is_packed:
        return None
    items = batch * math.ceil(channels / _CHANNELS_OF_RUN) * (plane // _LANES)
    groups = launch_size(desc.operator_name, items)
    return PlainKernel(
        variant=f"{_NAME}.{desc.input_tensor.data_type.name.lower()}",
        work_groups=groups,
        constants={
            "QUARTERS": quarters,
            "TAPS": taps,
            "BEFORE": before,
            "CHANNELS": channels,
            "PLANE_FOURS": plane // _LANES,
        },
        parameters=(items, *response_numbers(desc)),
    )
