"""The operators between numbers and integers of 8 or 4 bits whose scales count for blocks: QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from dmlvk.operators.words import *

_INTEGERS = (DataType.INT32, DataType.INT16, DataType.INT8, DataType.UINT32, DataType.UINT16, DataType.UINT8)
_BYTES = (DataType.INT8, DataType.UINT8)
_WITH_ZERO_POINT: dict[str, Any] = {"required": ("zero_point_tensor",)}
_OF_FLOAT32: dict[str, Any] = {"scale_tensor": (DataType.FLOAT32,), "output_tensor": (DataType.FLOAT32,)}
_SCALES: dict[str, Any] = dict.fromkeys(
    ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), (DataType.FLOAT32,)
)
_OF_FLOATS: dict[str, Any] = {"scale_tensor": FLOATS, "output_tensor": FLOATS}


def _to(results: tuple[DataType, ...], *floats: DataType) -> dict[str, Any]:
    """The types of results, and of values where these may be INT32, too."""
    values = {"input_tensor": (*floats, DataType.INT32)} if floats else {}
    return {**values, "zero_point_tensor": results, "output_tensor": results}


QUOTIENT_DECISIONS = (
    "Rounded to the nearest integer, halves to even, by the exact quotient; then the zero point is added, and the sum "
    "saturates. Nothing is rounded before.",
    "What is divided by a scale of zero is infinite with the sign that IEEE 754 gives it, and saturates; so does an "
    "infinite value. A quotient that is NaN (of NaN, 0 / 0 or infinity / infinity) counts as 0: the result is the zero "
    "point. A negative scale is a number like any other.",
    "FLOAT32 denormals count as zero. An absent zero point counts as 0.",
)


class ElementWiseDequantizeLinear(OperatorDesc):
    """The numbers that integers stand for (DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("quantized values")
    scale_tensor: TensorDesc = tensor_input("scale of each element")
    zero_point_tensor: TensorDesc | None = tensor_input(
        "what stands for zero; may be None from feature level 6_2 on", default=None
    )
    output_tensor: TensorDesc = tensor_output("the numbers")
    declaration: ClassVar = elementwise(
        "(x - ZeroPoint) * Scale",
        "The difference of the integers is exact (it never wraps), and so is the product; it is rounded once, to "
        "nearest even.",
        "FLOAT32 denormals count as zero in Scale and among the results. A scale of zero gives zero. The sign of "
        "a zero is that of Scale, the difference of equal integers being +0. 0 times infinity is NaN.",
        "An absent zero point counts as 0.",
        in_place=(),
        same_data_type=(("input_tensor", "zero_point_tensor"), ("scale_tensor", "output_tensor")),
        signs=("input_tensor",),
        computes_with_denormals=True,
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(
            Support("1_0", (4, 4), (DataType.UINT8,), **_OF_FLOAT32, **_WITH_ZERO_POINT),
            Support("2_1", (4, 4), _INTEGERS, **_OF_FLOAT32, **_WITH_ZERO_POINT),
            Support("3_0", (1, 8), _INTEGERS, **_OF_FLOAT32, **_WITH_ZERO_POINT),
            Support("6_0", (1, 8), _INTEGERS, **_OF_FLOATS, **_WITH_ZERO_POINT),
            Support("6_2", (1, 8), _INTEGERS, **_OF_FLOATS),
        ),
    )


class ElementWiseQuantizeLinear(OperatorDesc):
    """The integers that stand for numbers (DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the numbers")
    scale_tensor: TensorDesc = tensor_input("scale of each element")
    zero_point_tensor: TensorDesc | None = tensor_input(
        "what stands for zero; may be None from feature level 6_2 on", default=None
    )
    output_tensor: TensorDesc = tensor_output("quantized values")
    declaration: ClassVar = Declaration(
        "elementwise",
        "round(x / Scale) + ZeroPoint, within the output's data type",
        decisions=QUOTIENT_DECISIONS,
        same_data_type=(("zero_point_tensor", "output_tensor"),),
        signs=("output_tensor",),
        data_type_rules=(DataTypeRule("scale_tensor", "input_tensor", {DataType.INT32: DataType.FLOAT32}),),
        support=(
            Support("1_0", (4, 4), (DataType.FLOAT32,), **_WITH_ZERO_POINT, **_to((DataType.UINT8,))),
            Support("2_1", (4, 4), (DataType.FLOAT32,), **_WITH_ZERO_POINT, **_to(_BYTES, DataType.FLOAT32)),
            Support("3_0", (1, 8), (DataType.FLOAT32,), **_WITH_ZERO_POINT, **_to(_BYTES, DataType.FLOAT32)),
            Support("6_0", (1, 8), FLOATS, **_WITH_ZERO_POINT, **_to(_BYTES, *FLOATS)),
            Support("6_2", (1, 8), FLOATS, **_to(_BYTES, *FLOATS)),
        ),
    )


class ElementWiseQuantizedLinearAdd(OperatorDesc):
    """The sum of what integers stand for, as integers (DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand, quantized")
    a_scale_tensor: TensorDesc = tensor_input("its scale")
    a_zero_point_tensor: TensorDesc | None = tensor_input("its zero point; None for 0", default=None)
    b_tensor: TensorDesc = tensor_input("right operand, quantized")
    b_scale_tensor: TensorDesc = tensor_input("its scale")
    b_zero_point_tensor: TensorDesc | None = tensor_input("its zero point; None for 0", default=None)
    output_scale_tensor: TensorDesc = tensor_input("scale of the results")
    output_zero_point_tensor: TensorDesc | None = tensor_input("zero point of the results; None for 0", default=None)
    output_tensor: TensorDesc = tensor_output("the sums, quantized")
    declaration: ClassVar = elementwise(
        "round(((a - AZeroPoint) * AScale + (b - BZeroPoint) * BScale) / OutputScale) + OutputZeroPoint, "
        "within the output's data type",
        "The sum of the two products is exact too: a single rounding in all.",
        *QUOTIENT_DECISIONS,
        "A sum of infinities of both signs, and 0 times infinity, are NaN.",
        "A scale or zero point may have Sizes of ones, and then counts for all elements, or the Sizes of the "
        "output, with strides of any kind.",
        in_place=(),
        same_data_type=(
            ("a_tensor", "a_zero_point_tensor"),
            ("b_tensor", "b_zero_point_tensor"),
            ("output_zero_point_tensor", "output_tensor"),
        ),
        signs=("a_tensor", "b_tensor", "output_tensor"),
        one_element=tuple(f"{of}_{what}_tensor" for of in ("a", "b", "output") for what in ("scale", "zero_point")),
        support=(Support("4_0", (1, 8), _BYTES, **_SCALES),),
    )


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
