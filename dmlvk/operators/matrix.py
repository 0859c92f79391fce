"""Products of matrices."""

from __future__ import annotations

import enum

from dmlvk.operators.words import *


class MatrixTransform(enum.IntEnum):
    """DML_MATRIX_TRANSFORM: whether GEMM takes a matrix with its last two dimensions exchanged."""

    NONE = 0
    TRANSPOSE = 1


SUMS_OF_PRODUCTS = Accuracy(
    "accurate",
    float("inf"),
    "an error of at most (1024 + s + 2) 2^-24 times the sum of the products' magnitudes, in float32, where s is the "
    "number of segments of 1024 terms; of FLOAT16 rounded once more",
)

ORDER_OF_SUMS = (
    "The order of a sum follows from the number of its terms alone: they are cut into segments of 1024, each is added "
    "up in rising order from +0, and then the segments' sums in rising order. So results do not depend on the device, "
    "on the batch, or on other rows and columns.",
    "FLOAT32: each product is rounded, then each sum; denormal operands and products count as zero, and a sum that is "
    "denormal as +0. FLOAT16: products are exact, sums are those of float32, and the result is rounded once.",
    "With ALLOW_DEVICE_ARITHMETIC, dmlvk's own flag, FLOAT32 products may be added without being rounded before, and "
    "products and sums that are denormal may be what they are: within the same error, but other devices may give other "
    "bits. FLOAT16 products, exact as ever, may be added up by cooperative matrices, up to 16384 in a row in an order "
    "of the device's: of n products an error of at most (min(n, 16384) + s + 2) 2^-24 times the sum of their "
    "magnitudes, rounded once more. FLOAT32 operands of GEMM may be multiplied as three parts each, or as integers of "
    "blocks, by such matrices too: within the error of FLOAT32, but for 2^-126 times the magnitude of each operand, "
    "which may count what the other one has below 2^-126 as zero.",
    "FLOAT16 rows by what a graph unpacks of integers of 2, 4 or 8 bits, whose zeros are integers, are one product by "
    "exact integers: weights are not rounded to FLOAT16 before, 16 or 32 neighbours give an exact sum, and these "
    "are added in segments of 1024 terms, within the same error of the numbers that weights stand for.",
    "A NaN among the results is the canonical quiet one. Zero times infinity is NaN; what pads a tensor is never "
    "multiplied.",
)

FUSED = (
    "A fused activation gives what the activation's own operator gives for the result that would be stored without it."
)

FUSABLE_BESIDE_PRODUCTS = (*FUSABLE_ACTIVATIONS, "ELEMENT_WISE_CLIP")
"""What products and convolutions may be followed by."""

FUSABLE_FROM = {"ELEMENT_WISE_CLIP": "6_0", "ACTIVATION_SOFTMAX": "6_1", "ACTIVATION_SOFTMAX1": "6_1"}
"""The feature levels from which some of them may be fused."""


def _gemm_sizes(desc: Gemm | Draft) -> Mapping[str, Sequence[int]]:
    a, b, c = desc.a_tensor, desc.b_tensor, desc.c_tensor
    check_dimension_count(desc, "b_tensor", a.dimension_count, "as ATensor has")
    leading = tuple(a.sizes[:-2])
    rows, terms = a.sizes[-2:] if desc.trans_a is MatrixTransform.NONE else reversed(a.sizes[-2:])
    own_terms, columns = b.sizes[-2:] if desc.trans_b is MatrixTransform.NONE else reversed(b.sizes[-2:])
    if tuple(b.sizes[:-2]) != leading:
        refuse(desc, "b_tensor.sizes", f"must begin as ATensor's, with {list(leading)}; got {list(b.sizes)}")
    if own_terms != terms:
        refuse(
            desc,
            "b_tensor.sizes",
            f"must have {terms} in the dimension that is summed over, as ATensor {list(a.sizes)} with TransA "
            f"{desc.trans_a.name} has; got {list(b.sizes)} with TransB {desc.trans_b.name}",
        )
    sizes = (*leading, rows, columns)
    if c is not None:
        check_dimension_count(desc, "c_tensor", a.dimension_count, "as ATensor has")
        check_sizes(desc, "c_tensor", sizes, "as OutputTensor; fewer elements broadcast by stride 0, not by size 1")
    return {"output_tensor": sizes}


class Gemm(OperatorDesc):
    """The product of two matrices, or of each pair in a batch (DML_GEMM_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the left matrices: M x K, or K x M where TransA says so")
    b_tensor: TensorDesc = tensor_input("the right matrices: K x N, or N x K where TransB says so")
    c_tensor: TensorDesc | None = tensor_input("what is added, times Beta: M x N", default=None)
    output_tensor: TensorDesc = tensor_output("M x N")
    trans_a: MatrixTransform = enum_attribute("whether A is transposed", MatrixTransform)
    trans_b: MatrixTransform = enum_attribute("whether B is transposed", MatrixTransform)
    alpha: float = float_attribute("what the product is multiplied by")
    beta: float = float_attribute("what C is multiplied by; of no effect without CTensor")
    fused_activation: FusedActivation | None = fused_activation_attribute(
        "the activation that is applied to the results",
        fusable=(*FUSABLE_BESIDE_PRODUCTS, "ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"),
        fusable_from=FUSABLE_FROM,
    )
    declaration: ClassVar = Declaration(
        "matrix",
        "FusedActivation(Alpha * A * B + Beta * C)",
        shapes=_gemm_sizes,
        decisions=(
            *ORDER_OF_SUMS,
            "After the sum come Alpha, then Beta * C, then their sum, each step rounded once in float32; FLOAT16 "
            "results are rounded from that.",
            FUSED,
        ),
        accuracy=SUMS_OF_PRODUCTS,
        support=(Support("1_0", (4, 4), FLOATS), Support("4_0", (2, 4), FLOATS)),
    )
