"""The operators between numbers and integers of 8 or 4 bits whose scales count for blocks: QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import (
    QuantizationType,
    enum_attribute,
    tensor_array_input,
    tensor_input,
    tensor_output,
    unsigned_attribute,
)
from dmlvk.operators.quantization import QUOTIENT_DECISIONS
from dmlvk.operators.shapes import Draft, check_dimension_count, refuse
from dmlvk.operators.type_groups import EXACT, FLOATS
from dmlvk.tensors import TensorDesc

__all__ = ["Dequantize", "QuantizationType", "Quantize"]

QUANTIZED = (DataType.INT8, DataType.INT4, DataType.UINT8, DataType.UINT4)

_BLOCK_DECISIONS = (
    "QuantizationTensors are the scale and, for SCALE_ZERO_POINT, the zero point behind it. QuantizationType NONE, "
    "which would leave no tensor, is refused.",
    "Along each axis the size of a scale or zero point divides the input's: it is n divided by the length of a block, "
    "and each of its elements counts for the elements of a block, neighbours. One element counts for the whole axis. "
    "The two may have blocks of different lengths.",
    "The scale has the data type of the numbers, the zero point that of the integers.",
)

_WORDS = {QuantizationType.SCALE: "the scale", QuantizationType.SCALE_ZERO_POINT: "the scale and the zero point"}


def _block_sizes(desc: Dequantize | Quantize | Draft) -> Mapping[str, Sequence[int]]:
    """Checks the scale and the zero point.

    Raises:
        InvalidArgumentError: when there are more or fewer tensors, or sizes that do not divide the input's.
    """
    tensors, kind = desc.quantization_tensors, desc.quantization_type
    if kind is QuantizationType.NONE:
        refuse(desc, "quantization_type", "must be SCALE or SCALE_ZERO_POINT; got NONE")
    wanted = 1 if kind is QuantizationType.SCALE else 2
    if len(tensors) != wanted:
        refuse(desc, "quantization_tensors", f"must be {wanted}, {_WORDS[kind]}, for {kind.name}; got {len(tensors)}")
    sizes = tuple(desc.input_tensor.sizes)
    for number, tensor in enumerate(tensors):
        member = f"quantization_tensors[{number}]"
        check_dimension_count(desc, member, len(sizes), "as InputTensor has")
        for axis, (size, blocks) in enumerate(zip(sizes, tensor.sizes, strict=True)):
            if size % blocks:
                refuse(
                    desc,
                    f"{member}.sizes",
                    f"must divide InputTensor.Sizes {list(sizes)} evenly; got {list(tensor.sizes)}, and axis "
                    f"{axis} has no {blocks} blocks of one length",
                )
    return {"output_tensor": sizes}


class _Blocks(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("the numbers")
    quantization_type: QuantizationType = enum_attribute("which tensors QuantizationTensors has", QuantizationType)
    quantization_tensor_count: int = unsigned_attribute("the length of QuantizationTensors")
    quantization_tensors: Sequence[TensorDesc] = tensor_array_input(
        "the scale of each block, and what stands for zero in it", counted_by="quantization_tensor_count"
    )
    output_tensor: TensorDesc = tensor_output("quantized values")


class Quantize(_Blocks):
    """The integers that stand for numbers, by a scale for each block (DML_QUANTIZE_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "quantization",
        "round(x / Scale) + ZeroPoint, within the output's data type",
        shapes=_block_sizes,
        decisions=(*_BLOCK_DECISIONS, *QUOTIENT_DECISIONS),
        same_data_type=(("input_tensor", "quantization_tensors[0]"), ("quantization_tensors[1]", "output_tensor")),
        accuracy=EXACT,
        support=(
            Support(
                "6_3", (1, 8), FLOATS, elements={"quantization_tensors": (FLOATS, QUANTIZED)}, output_tensor=QUANTIZED
            ),
        ),
    )


class Dequantize(_Blocks):
    """The numbers that integers stand for, by a scale for each block (DML_DEQUANTIZE_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("quantized values")
    output_tensor: TensorDesc = tensor_output("the numbers")
    declaration: ClassVar = Declaration(
        "quantization",
        "(x - ZeroPoint) * Scale",
        shapes=_block_sizes,
        decisions=(
            *_BLOCK_DECISIONS,
            "The difference of the integers is exact (it never wraps), and so is the product; it is rounded once, to "
            "nearest even.",
            "FLOAT32 denormals count as zero in Scale and among the results. A scale of zero gives zero. The sign of "
            "a zero is that of Scale, the difference of equal integers being +0. 0 times infinity is NaN.",
            "An absent zero point counts as 0.",
        ),
        same_data_type=(("input_tensor", "quantization_tensors[1]"), ("quantization_tensors[0]", "output_tensor")),
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(
            Support(
                "6_3", (1, 8), QUANTIZED, elements={"quantization_tensors": (FLOATS, QUANTIZED)}, output_tensor=FLOATS
            ),
        ),
    )
