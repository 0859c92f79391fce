"""Normalization of a sum of two tensors. dmlvk's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import float_attribute, tensor_input, tensor_output
from dmlvk.operators.shapes import Draft, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc


def _sizes(desc: ResidualNormalization | Draft) -> Mapping[str, Sequence[int]]:
    rows, length = desc.input_tensor.sizes
    if length % 2:
        refuse(desc, "input_tensor.sizes", f"must end with an even size; got {length}")
    if desc.skip_tensor is not None:
        repeated = desc.skip_tensor.sizes[0]
        if rows % repeated:
            refuse(desc, "skip_tensor.sizes", f"must begin with a divisor of {rows}; got {repeated}")
        check_sizes(desc, "skip_tensor", (repeated, length))
    check_sizes(desc, "scale_tensor", (length,))
    if desc.bias_tensor is not None:
        check_sizes(desc, "bias_tensor", (length,))
    return {"output_tensor": (rows, length), "sum_tensor": (rows, length)}


class ResidualNormalization(OperatorDesc, is_listed=False):
    """A sum divided by the root of its mean square over each row (dmlvk's own operator)."""

    input_tensor: TensorDesc = tensor_input("rows, elements")
    skip_tensor: TensorDesc | None = tensor_input("what is added: as many rows, or fewer that repeat", default=None)
    scale_tensor: TensorDesc = tensor_input("what results are multiplied by, for each element of a row")
    bias_tensor: TensorDesc | None = tensor_input("what is added to the sum, likewise", default=None)
    output_tensor: TensorDesc = tensor_output("rows, elements")
    sum_tensor: TensorDesc | None = tensor_output("the sum", default=None)
    epsilon: float = float_attribute("what is added to the mean square")
    declaration: ClassVar = Declaration(
        "composed",
        "x = Input + Skip + Bias, x / sqrt(mean(x^2) + Epsilon) * Scale",
        shapes=_sizes,
        accuracy=Accuracy("accurate", 3.0),
        support=(Support("1_0", (2, 2), FLOATS, dimensions_of={"scale_tensor": (1, 1), "bias_tensor": (1, 1)}),),
    )
