"""Which function is an operator's reference: each says so itself, by :func:`reference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy.typing as npt

from dmlvk.operators import OperatorDesc, operator_desc
from dmlvk.tensors import TensorDesc

REFERENCES: dict[str, Callable[..., Any]] = {}
"""By DirectML's name of the operator; modules of this folder fill it in.

Those of regular operators are called with the description and its input arrays in the order of the members, and return
the output. All others are called with the description and its inputs by DirectML's names, and return every output by
its name: an array whose every bit is settled, or :class:`~dmlvk.conformance.references.bounded.Bounded`.
"""


def fused_operator(desc: OperatorDesc, results: npt.NDArray[Any]) -> OperatorDesc | None:
    """The activation that an operator has fused, alone on a tensor of such results; ``None``: it has none."""
    fused = desc.activation
    if fused is None:
        return None
    tensor = TensorDesc(desc.output_type, results.shape)
    attributes = {field.name: value for field, value in fused.attributes}
    return operator_desc(fused.operator_name, InputTensor=tensor, OutputTensor=tensor, **attributes)


_Reference = TypeVar("_Reference", bound=Callable[..., Any])


def reference(*operator_names: str) -> Callable[[_Reference], _Reference]:
    """Declares a function to be the reference of some operators.

    Args:
        operator_names: DirectML's, ``"ELEMENT_WISE_SIGN"``.

    Raises:
        ValueError: one of them has a reference already.
    """

    def declared(function: _Reference) -> _Reference:
        for name in operator_names:
            if name in REFERENCES:
                raise ValueError(f"{name}: reference: {REFERENCES[name].__module__} has one already")
            REFERENCES[name] = function
        return function

    return declared
