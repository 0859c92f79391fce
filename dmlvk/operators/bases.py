"""Members that operators of several families have, in DirectML's order; a class states anew what it words otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from dmlvk.operators.declaration import EXACT, Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import (
    ScaleBias,
    axes_attribute,
    count_attribute,
    scale_bias_attribute,
    tensor_input,
    tensor_output,
)
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS, SCALE_BIAS_DECISION
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


class OneGradient(OperatorDesc):
    """The gradient of an operator's output, and that of its input."""

    input_gradient_tensor: TensorDesc = tensor_input("gradients of the results")
    output_gradient_tensor: TensorDesc = tensor_output("gradients of the values")


class TwoInputs(OperatorDesc):
    """Two operands and an output."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("the results")


BOTH = ("a_tensor", "b_tensor")


def elementwise(
    formula: str,
    *decisions: str,
    support: tuple[Support, ...],
    accuracy: Accuracy = EXACT,
    computes_with_denormals: bool = False,
    in_place: tuple[str, ...] = ("input_tensor",),
    same_data_type: tuple[tuple[str, ...], ...] | None = None,
    one_element: tuple[str, ...] = (),
    moves: tuple[str, ...] = (),
    signs: tuple[str, ...] = (),
    computed_as: str | None = None,
) -> Declaration:
    """What DirectML's page states of an element-wise operator; arguments as in :class:`Declaration`.

    Args:
        decisions: what was decided where the page is silent, but for denormals.
        computes_with_denormals: whether ``decisions`` say what becomes of denormals; else they count as zeros where
            results are rounded.
        in_place: inputs that may share their buffer range with the output: the one that there is.
        same_data_type: groups of members of one data type; ``None``: all of them.
        one_element: inputs that may hold a single element.
        moves: members whose values are never interpreted.
        signs: members of whose integers the shader is told the sign.
    """
    if accuracy.promise != "exact" and not computes_with_denormals:
        decisions = (*decisions, DENORMALS_DECISION)
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
        signs=signs,
        computed_as=computed_as,
    )


def accurate(
    formula: str,
    *decisions: str,
    ulp: float,
    remark: str = "",
    since: str = "1_0",
    computes_with_denormals: bool = False,
) -> Declaration:
    """What DirectML's page states of a function of floats whose input is scaled before.

    Args:
        decisions: what was decided where the page is silent, but for denormals and the ScaleBias.
        ulp: the largest error that is promised.
        remark: as of :class:`Accuracy`.
        since: the first feature level that has it.
        computes_with_denormals: as of :func:`elementwise`.
    """
    return elementwise(
        formula,
        *decisions,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", ulp, remark),
        support=(Support(since, (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
        computes_with_denormals=computes_with_denormals,
    )
