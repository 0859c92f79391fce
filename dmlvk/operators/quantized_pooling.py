"""Averages of windows of quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Declaration, OperatorDesc, Support
from dmlvk.operators.members import boolean_attribute, tensor_input, tensor_output, unsigned_array_attribute
from dmlvk.operators.pooling import SpatialWindows, pooled_sizes
from dmlvk.operators.quantization import QUOTIENT_DECISIONS
from dmlvk.operators.quantized_products import INFINITE_SCALE, check_parameter
from dmlvk.operators.shapes import Draft
from dmlvk.operators.type_groups import EXACT
from dmlvk.tensors import TensorDesc

__all__ = ["QuantizedLinearAveragePooling"]

_PARAMETERS = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")


def _sizes(desc: QuantizedLinearAveragePooling | Draft) -> Mapping[str, Sequence[int]]:
    sizes = pooled_sizes(desc)
    source = desc.input_tensor
    for member in _PARAMETERS:
        check_parameter(desc, member, 1 - source.dimension_count, source.sizes[1], "one for each channel")
    return sizes


class _Quantized(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W} or {N, C, D, H, W}, quantized")
    input_scale_tensor: TensorDesc = tensor_input("their scale: one number, or one for each channel")
    input_zero_point_tensor: TensorDesc | None = tensor_input(
        "their zero point: one number, or one for each channel; None for 0", default=None
    )
    output_scale_tensor: TensorDesc = tensor_input("scale of the means: one number, or one for each channel")
    output_zero_point_tensor: TensorDesc | None = tensor_input(
        "zero point of the means: one number, or one for each channel; None for 0", default=None
    )
    output_tensor: TensorDesc = tensor_output("the means, quantized")


class QuantizedLinearAveragePooling(SpatialWindows, _Quantized):
    """The mean of each window of a quantized tensor, quantized (DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC)."""

    dilations: Sequence[int] = unsigned_array_attribute(
        "how far apart the elements of a window are, for each spatial axis; 1: side by side"
    )
    include_padding: bool = boolean_attribute("whether padding counts, as the zero point")
    declaration: ClassVar = Declaration(
        "window",
        (
            "round((mean of each window of Input - InputZeroPoint) * InputScale / OutputScale) + OutputZeroPoint, "
            "within the output's data type"
        ),
        shapes=_sizes,
        same_data_type=(("input_tensor", "input_zero_point_tensor"), ("output_zero_point_tensor", "output_tensor")),
        decisions=(
            "The integer sum of a window is exact, and so are its product with InputScale and the quotient of that by "
            "OutputScale times the number of elements: a single rounding in all.",
            *QUOTIENT_DECISIONS,
            INFINITE_SCALE,
            "Padding is the number 0: it adds nothing to the sum. A window of nothing but padding gives the output's "
            "zero point, also where padding is not counted.",
            "Output sizes count dilated windows: (WindowSize - 1) * Dilation + 1 elements along an axis.",
        ),
        accuracy=EXACT,
        support=(
            Support(
                "6_2",
                (4, 5),
                (DataType.INT8, DataType.UINT8),
                dimensions_of=dict.fromkeys(_PARAMETERS, (1, 5)),
                input_scale_tensor=(DataType.FLOAT32,),
                output_scale_tensor=(DataType.FLOAT32,),
            ),
        ),
    )
