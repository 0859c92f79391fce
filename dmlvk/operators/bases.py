"""Members that operators of several families have, in DirectML's order; a class states anew what it words otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import (
    ScaleBias,
    axes_attribute,
    count_attribute,
    scale_bias_attribute,
    tensor_input,
    tensor_output,
)
from dmlvk.tensors import TensorDesc


class OneInput(OperatorDesc):
    """An input and an output."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the results")


class Scaled(OneInput):
    """An input that is scaled and shifted before."""

    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)


class AlongAxes(OneInput):
    """An input whose rows lie along axes."""

    axis_count: int = count_attribute("number of Axes")
    axes: Sequence[int] = axes_attribute(
        "the axes along which a row lies", counted_by="axis_count", axes_of="input_tensor"
    )


class TwoInputs(OperatorDesc):
    """Two operands and an output."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("the results")


BOTH = ("a_tensor", "b_tensor")


def elementwise(
    formula: str,
    *decisions: str,
    accuracy: Accuracy,
    support: tuple[Support, ...],
    in_place: tuple[str, ...] = ("input_tensor",),
    same_data_type: tuple[tuple[str, ...], ...] | None = None,
    one_element: tuple[str, ...] = (),
    moves: tuple[str, ...] = (),
    computed_as: str | None = None,
) -> Declaration:
    """What DirectML's page states of an element-wise operator; arguments as in :class:`Declaration`.

    Args:
        formula: the function.
        decisions: what was decided where the page is silent.
        accuracy: the promise.
        support: the tables.
        in_place: inputs that may share their buffer range with the output: the one that there is.
        same_data_type: groups of members of one data type; ``None``: all of them.
        one_element: inputs that may hold a single element.
        moves: members whose values are never interpreted.
        computed_as: the operator whose shaders compute it.
    """
    return Declaration(
        "elementwise",
        formula,
        decisions=decisions,
        accuracy=accuracy,
        support=support,
        in_place=in_place,
        same_data_type=same_data_type,
        one_element=one_element,
        moves=moves,
        computed_as=computed_as,
    )
