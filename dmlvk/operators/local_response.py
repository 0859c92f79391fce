"""LOCAL_RESPONSE_NORMALIZATION: elements divided by what the squares around them make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import boolean_attribute, float_attribute, tensor_input, tensor_output, unsigned_attribute
from dmlvk.operators.shapes import refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc


def _sizes(desc: Any) -> Mapping[str, Sequence[int]]:
    if desc.local_size < 1:
        refuse(desc, "local_size", f"must be at least 1; got {desc.local_size}")
    for member in ("alpha", "beta", "bias"):
        if not math.isfinite(getattr(desc, member)):
            refuse(desc, member, f"must be a finite number; got {getattr(desc, member)!r}")
    return {"output_tensor": tuple(desc.input_tensor.sizes)}


class LocalResponseNormalization(OperatorDesc):
    """Divides by a power of the squares around each element (DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W}")
    output_tensor: TensorDesc = tensor_output("the normalized values")
    cross_channel: bool = boolean_attribute("whether neighbours are those in other channels, else in height and width")
    local_size: int = unsigned_attribute("how many neighbours there are along an axis, the element itself among them")
    alpha: float = float_attribute("the factor of the sum of squares")
    beta: float = float_attribute("the exponent")
    bias: float = float_attribute("what is added to the sum")

    declaration: ClassVar = Declaration(
        name="LOCAL_RESPONSE_NORMALIZATION",
        pattern="window",
        formula="x / (Bias + Alpha / LocalSize * sum of squares around x)^Beta",
        decisions=(
            "Across channels only channels are gone through; otherwise LocalSize by LocalSize elements of height and "
            "width, and Alpha is divided by LocalSize all the same. Of an even LocalSize one element more lies behind "
            "than before. What lies outside the tensor adds nothing.",
            "Alpha / LocalSize, the sum of squares (in two words), its product, the sum with Bias, the power and the "
            "quotient are rounded to FLOAT32 one by one. FLOAT32 denormals count as zero. Alpha, Beta and Bias must be "
            "finite.",
        ),
        shapes=_sizes,
        same_sizes=(("input_tensor", "output_tensor"),),
        accuracy=Accuracy("accurate", 3.0, "and 4 ULP times |Beta|, where Alpha and Bias are not negative"),
        support=(Support("1_0", (4, 4), FLOATS),),
    )
