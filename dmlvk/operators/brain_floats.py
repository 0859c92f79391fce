"""Numbers of bfloat16, which are held in FLOAT32. dmlvk's own: DirectML has no such type."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.bases import OneInput, elementwise
from dmlvk.operators.declaration import Support
from dmlvk.operators.members import tensor_output
from dmlvk.operators.type_groups import EXACT
from dmlvk.tensors import TensorDesc


class ElementWiseRoundBfloat16(OneInput, is_listed=False):
    """Rounds to the 8 significant bits of bfloat16 (dmlvk's own operator)."""

    output_tensor: TensorDesc = tensor_output("the nearest numbers that bfloat16 has, ties to even, as FLOAT32")
    declaration: ClassVar = elementwise(
        "x rounded to the nearest number of bfloat16, ties to even",
        "NaN gives the canonical quiet NaN. What lies beyond the largest number by half a step or more is infinite.",
        "Denormals are the numbers they are.",
        accuracy=EXACT,
        support=(Support("1_0", (1, 8), (DataType.FLOAT32,)),),
    )
