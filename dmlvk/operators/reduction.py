"""Operators that make one element of each row."""

from __future__ import annotations

from dmlvk.operators.words import *

_INDICES = (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)

SUM_DECISION = (
    "FLOAT sums are made in two words of FLOAT32, in an order that follows from the row's length alone: never from the "
    "device, nor from the number of rows. The row is cut into chunks of 16384 elements. In a chunk, groups of four "
    "neighbours take turns at 1, 4, 16, 64 or 256 partial sums, as many as it takes for 16 elements each; a partial "
    "sum adds its groups four at a time, and neighbouring partial sums are added four at a time until one is left. "
    "The chunks' sums are added likewise."
)
SPECIAL_SUMS_DECISION = (
    "Nothing overflows or underflows on the way: only a result beyond the largest number is infinite. A sum that comes "
    "to zero is +0. NaN among the elements gives NaN, and so do infinities of both signs."
)
_EXTREMES = (
    "MAX, MIN, ARGMAX, ARGMIN: a number wins over NaN, as in ELEMENT_WISE_MAX and MIN; a row of NaN gives NaN, and the "
    "index of its first element (its last one where AxisDirection is DECREASING). -0 is below +0. Denormals are the "
    "numbers they are."
)
_AXES = (
    "A row is what lies along all Axes together, the last axis fastest, in whichever order Axes names them; indices "
    "count its elements from 0. At least one axis must be named, and none twice."
)


def reduced_sizes(desc: Argmax | Argmin | Reduce | Draft) -> Mapping[str, Sequence[int]]:
    """The rule of operators whose output has size 1 along the axes that are reduced."""
    sizes = desc.input_tensor.sizes
    return {"output_tensor": tuple(1 if axis in desc.axes else size for axis, size in enumerate(sizes))}


class _IndexOfExtreme(AlongAxes):
    output_tensor: TensorDesc = tensor_output("indices into the rows; of size 1 along Axes")
    axis_direction: AxisDirection = enum_attribute(
        "of equal elements, whether the first (INCREASING) or the last is meant", AxisDirection
    )


_INDEX_SUPPORT = (
    Support("3_0", (1, 8), TYPES_TO_32, output_tensor=_INDICES),
    Support("4_1", (1, 8), TYPES_TO_64, output_tensor=_INDICES),
)


class Argmax(_IndexOfExtreme):
    """Where the largest element of each row lies (DML_ARGMAX_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "reduction",
        "the index of the row's largest element",
        decisions=(_EXTREMES, _AXES),
        shapes=reduced_sizes,
        same_data_type=(),
        support=_INDEX_SUPPORT,
    )


class Argmin(_IndexOfExtreme):
    """Where the smallest element of each row lies (DML_ARGMIN_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "reduction",
        "the index of the row's smallest element",
        decisions=(_EXTREMES, _AXES),
        shapes=reduced_sizes,
        same_data_type=(),
        support=_INDEX_SUPPORT,
    )


def _choices(
    extremes: tuple[DataType, ...],
    sums: tuple[DataType, ...],
    magnitudes: tuple[DataType, ...],
    searched: tuple[DataType, ...],
    indices: tuple[DataType, ...],
) -> tuple[str, Mapping[ReduceFunction, TypeChoice]]:
    def same(data_types: tuple[DataType, ...]) -> TypeChoice:
        return TypeChoice({"input_tensor": data_types, "output_tensor": data_types}, are_same=True)

    chosen = {function: same(extremes) for function in (ReduceFunction.MAX, ReduceFunction.MIN)}
    chosen |= {function: same(sums) for function in (ReduceFunction.SUM, ReduceFunction.MULTIPLY)}
    chosen |= {function: same(magnitudes) for function in (ReduceFunction.L1, ReduceFunction.SUM_SQUARE)}
    means = (ReduceFunction.AVERAGE, ReduceFunction.L2, ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP)
    chosen |= {function: same(FLOATS) for function in means}
    indexed = TypeChoice({"input_tensor": searched, "output_tensor": indices}, are_same=False)
    chosen |= dict.fromkeys((ReduceFunction.ARGMAX, ReduceFunction.ARGMIN), indexed)
    return "function", chosen


class Reduce(OperatorDesc):
    """One of twelve functions of each row (DML_REDUCE_OPERATOR_DESC)."""

    function: ReduceFunction = enum_attribute("what is made of a row", ReduceFunction)
    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the rows' results; of size 1 along Axes")
    axis_count: int = count_attribute("number of Axes")
    axes: Sequence[int] = axes_attribute(
        "the axes along which a row lies", counted_by="axis_count", axes_of="input_tensor"
    )
    declaration: ClassVar = Declaration(
        "reduction",
        "SUM, AVERAGE sum / n, MULTIPLY, MIN, MAX, L1 sum |x|, L2 sqrt(sum x^2), SUM_SQUARE sum x^2, LOG_SUM "
        "ln(sum x), LOG_SUM_EXP ln(sum e^x), ARGMIN, ARGMAX the first index of the extreme",
        decisions=(
            SUM_DECISION,
            SPECIAL_SUMS_DECISION,
            "SUM, L1, SUM_SQUARE, AVERAGE and L2 of FLOAT types are within 0.5 ULP + 2^-40 of the sum of the terms' "
            "magnitudes (divided as the sum is, for AVERAGE). FLOAT16 sums are exact and rounded once where no partial "
            "sum reaches 2^24; their terms are FLOAT32, and results are rounded to FLOAT32 on the way.",
            "MULTIPLY of FLOAT types keeps significands in two words and exponents apart: the result is within 0.5 ULP "
            "+ n * 2^-45 of it. A product with 0 and without infinities is a zero of the product's sign.",
            "LOG_SUM is within 0.6 ULP of the logarithm of a sum that is itself within 2^-40 of the sum of magnitudes; "
            "NaN below zero, -infinity at zero. LOG_SUM_EXP is the largest element plus the logarithm of the sum of "
            "e^(x - largest), in two words: within 0.6 ULP + 2^-27. A row of -infinity gives -infinity.",
            "Integers wrap: SUM, L1, SUM_SQUARE and MULTIPLY are exact modulo 2^32 or 2^64; the magnitude of the least "
            "integer is itself.",
            _EXTREMES,
            _AXES,
            DENORMALS_DECISION,
        ),
        shapes=reduced_sizes,
        same_data_type=(),
        accuracy=Accuracy("accurate", 0.6, "of sums beside 2^-40 of the sum of magnitudes; integers, MAX, MIN exact"),
        support=(
            Support(
                "1_0",
                (4, 4),
                FLOATS,
                output_tensor=(*FLOATS, DataType.UINT32),
                choices=_choices(FLOATS, FLOATS, FLOATS, FLOATS, (DataType.UINT32,)),
            ),
            Support(
                "2_1",
                (4, 4),
                TYPES_TO_32,
                output_tensor=FLOATS_AND_WORDS,
                choices=_choices(FLOATS_AND_WORDS, FLOATS_AND_WORDS, FLOATS, TYPES_TO_32, (DataType.UINT32,)),
            ),
            Support(
                "3_0",
                (1, 8),
                TYPES_TO_32,
                output_tensor=TYPES_TO_64,
                choices=_choices(TYPES_TO_32, FLOATS_AND_WORDS, FLOATS, TYPES_TO_32, _INDICES),
            ),
            Support(
                "4_1",
                (1, 8),
                TYPES_TO_64,
                choices=_choices(TYPES_TO_32, FLOATS_AND_WORDS, FLOATS, TYPES_TO_64, _INDICES),
            ),
            Support(
                "5_0",
                (1, 8),
                TYPES_TO_64,
                choices=_choices(TYPES_TO_64, FLOATS_WORDS_AND_PAIRS, FLOATS_WORDS_AND_PAIRS, TYPES_TO_64, _INDICES),
            ),
        ),
    )
