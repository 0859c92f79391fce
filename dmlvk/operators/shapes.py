"""What the sizes of an operator's tensors have to do with one another.

A rule of an operator is a function that is given its description, or what is known of one whose outputs are still to
be made: an object with the same members by their Python names. It checks the sizes of inputs and the attributes that
have to do with them, and says which sizes outputs must have. :mod:`dmlvk.operators.checks` holds descriptions against
it; ``Graph.apply`` makes outputs by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

from dmlvk.errors import InvalidArgumentError
from dmlvk.operators.members import directml_name
from dmlvk.tensors import TensorDesc

Sizes: TypeAlias = tuple[int, ...]

ShapeRule: TypeAlias = Callable[[Any], Mapping[str, Sequence[int]]]
"""Gives the sizes that outputs must have, by their Python names (``"output_tensors[1]"`` in an array).

An output whose sizes the rest does not decide is left out; a rule may then read them from the description, where they
are given (else the member is ``None``).

Raises:
    InvalidArgumentError: naming operator, member, rule and numbers.
"""


class Described(Protocol):
    """A description, or a :class:`Draft` of one, for rules that find its members by their names."""

    @property
    def operator_name(self) -> str:
        """``"GATHER"``."""


class WithInput(Described, Protocol):
    """A description of an operator with one input that the others are held against."""

    @property
    def input_tensor(self) -> TensorDesc:
        """InputTensor."""


class WithCount(Described, Protocol):
    """A description of an operator whose arrays have as many entries as a number says."""

    @property
    def dimension_count(self) -> int:
        """DimensionCount."""


class WithWindows(WithInput, WithCount, Protocol):
    """A description of an operator that goes over its input in windows."""


class Draft:
    """A description whose outputs are still to be made: its members by their Python names.

    Args:
        operator_name: ``"GATHER"``.
        members: what is known; others are ``None``.
    """

    def __init__(self, operator_name: str, members: Mapping[str, Any]) -> None:
        self.operator_name = operator_name
        self._members = dict(members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._members.get(name)


def refuse(desc: Described, member: str, rule: str) -> NoReturn:
    """Raises an error about a member.

    Args:
        desc: the description, or a draft of one.
        member: its Python name, perhaps with an index or a property behind: ``"axis"``, ``"input_tensor.sizes"``.
        rule: what must hold and what was given: ``"must be below 3; got 5"``.
    """
    raise InvalidArgumentError(f"{desc.operator_name}: {member_text(member)} {rule}")


def member_text(member: str) -> str:
    """DirectML's words for a member: ``"input_tensors[1].sizes"`` is ``InputTensors[1].Sizes``."""
    parts = []
    for part in member.split("."):
        name, bracket, index = part.partition("[")
        parts.append(directml_name(name) + bracket + index)
    return ".".join(parts)


def check_sizes(desc: Described, member: str, wanted: Sequence[int], why: str = "") -> None:
    """Checks that a tensor has these sizes.

    Raises:
        InvalidArgumentError: when it has others.
    """
    tensor = tensor_of(desc, member)
    if tuple(tensor.sizes) != tuple(wanted):
        reason = f" ({why})" if why else ""
        refuse(desc, f"{member}.sizes", f"must be {list(wanted)}{reason}; got {list(tensor.sizes)}")


def check_dimension_count(desc: Described, member: str, wanted: int, why: str = "") -> None:
    """Checks that a tensor has so many dimensions.

    Raises:
        InvalidArgumentError: when it has more or fewer.
    """
    tensor = tensor_of(desc, member)
    if tensor.dimension_count != wanted:
        reason = f" ({why})" if why else ""
        refuse(desc, f"{member}.dimension_count", f"must be {wanted}{reason}; got {tensor.dimension_count}")


def check_axis(desc: Described, member: str, tensor_member: str) -> int:
    """An attribute that names an axis of a tensor.

    Raises:
        InvalidArgumentError: when the tensor has no such axis.
    """
    axis, count = int(getattr(desc, member)), tensor_of(desc, tensor_member).dimension_count
    if not 0 <= axis < count:
        refuse(desc, member, f"must be below {member_text(tensor_member)}.DimensionCount {count}; got {axis}")
    return axis


def check_length(desc: Described, member: str, wanted: int, why: str = "") -> tuple[Any, ...]:
    """An attribute that is an array of so many numbers.

    Raises:
        InvalidArgumentError: when it has more or fewer.
    """
    values = tuple(getattr(desc, member))
    if len(values) != wanted:
        reason = f" ({why})" if why else ""
        refuse(desc, member, f"must have {wanted} entries{reason}; got {list(values)}")
    return values


def tensor_of(desc: Described, member: str) -> Any:
    """A tensor of a description by its Python name, also one of an array: ``"input_tensors[1]"``."""
    name, bracket, index = member.partition("[")
    value = getattr(desc, name)
    return value[int(index[:-1])] if bracket else value
