"""Means of windows of quantized tensors, as fractions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.quantized_products import nearest_quotient
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]


@reference("QUANTIZED_LINEAR_AVERAGE_POOLING")
def quantized_average_pooling(
    desc: dml.QuantizedLinearAveragePooling, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Each window's elements are picked out of the input one by one."""
    source = inputs["InputTensor"].astype(np.int64)
    channels = source.shape[1]
    given = {name: np.broadcast_to(inputs[name].reshape(-1), channels) for name in inputs if name != "InputTensor"}
    limits = np.iinfo(desc.output_tensor.data_type.numpy_dtype)
    sizes = tuple(desc.output_tensor.sizes)
    output = np.empty(sizes, desc.output_tensor.data_type.numpy_dtype)
    for index in np.ndindex(*sizes):
        batch, channel, *window = index
        along = []
        for axis, number in enumerate(window):
            first = number * desc.strides[axis] - desc.start_padding[axis]
            taps = (first + tap * desc.dilations[axis] for tap in range(desc.window_size[axis]))
            along.append([tap for tap in taps if 0 <= tap < source.shape[axis + 2]])
        elements = [int(source[batch, channel][tap]) for tap in itertools.product(*along)]
        zero = int(given["InputZeroPointTensor"][channel]) if "InputZeroPointTensor" in given else 0
        count = int(np.prod(desc.window_size)) if desc.include_padding else max(len(elements), 1)
        quotient = nearest_quotient(
            sum(element - zero for element in elements),
            [given["InputScaleTensor"][channel]],
            given["OutputScaleTensor"][channel],
            count,
        )
        if "OutputZeroPointTensor" in given:
            quotient += int(given["OutputZeroPointTensor"][channel])
        output[index] = min(max(quotient, int(limits.min)), int(limits.max))
    return {"OutputTensor": output}
