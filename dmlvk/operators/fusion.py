"""Fused activations: what an operator such as ELEMENT_WISE_ADD1 applies to its results before it stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.members import Field, bits_of, checked_member, member
from dmlvk.support.tokens import token_of

if TYPE_CHECKING:
    from dmlvk.operators.declaration import OperatorDesc

FUSABLE_ACTIVATIONS = (
    "ACTIVATION_CELU", "ACTIVATION_ELU", "ACTIVATION_GELU", "ACTIVATION_HARD_SIGMOID", "ACTIVATION_IDENTITY",
    "ACTIVATION_LEAKY_RELU", "ACTIVATION_LINEAR", "ACTIVATION_PARAMETRIC_SOFTPLUS", "ACTIVATION_RELU",
    "ACTIVATION_SCALED_ELU", "ACTIVATION_SCALED_TANH", "ACTIVATION_SHRINK", "ACTIVATION_SIGMOID",
    "ACTIVATION_SOFTPLUS", "ACTIVATION_SOFTSIGN", "ACTIVATION_TANH", "ACTIVATION_THRESHOLDED_RELU",
)  # fmt: skip
"""The activations that every operator with a FusedActivation member takes."""


class FusedActivation:
    """An activation without tensors: DirectML's DML_OPERATOR_DESC whose InputTensor and OutputTensor are null.

    For example ``FusedActivation(ActivationElu, alpha=1.0)``. Immutable; equal where activation and attributes are,
    floating-point numbers by their bits.

    Args:
        attributes: all of its members but the tensors, by their Python names. (The tensors may be named as ``None``.)

    Raises:
        InvalidArgumentError: when the class is no operator, a tensor is given, or an attribute is missing, unknown or
            of the wrong type.
    """

    __slots__ = ("_attributes", "_identity", "activation")

    activation: type[OperatorDesc]
    _attributes: dict[str, Any]
    _identity: tuple[object, ...]

    def __init__(self, activation: type[OperatorDesc], /, **attributes: object) -> None:
        if not isinstance(activation, type) or not hasattr(activation, "operator_name"):
            raise InvalidArgumentError(f"FusedActivation: must be an operator's class; got {activation!r}")
        name = activation.operator_name
        unknown = set(attributes) - {field.attribute for field in activation.fields}
        if unknown:
            raise InvalidArgumentError(f"FusedActivation {name}: has no member {min(unknown)}")
        values: dict[str, Any] = {}
        for field in activation.fields:
            value = attributes.get(field.attribute)
            if field.type == "tensor":
                if value is not None:
                    raise InvalidArgumentError(
                        f"FusedActivation {name}: {field.name} must be null: a fused activation has no tensors; "
                        f"got {value!r}"
                    )
                continue
            if field.attribute not in attributes and not field.optional:
                raise InvalidArgumentError(f"FusedActivation {name}: member {field.name} is required")
            values[field.attribute] = checked_member(f"FusedActivation {name}", field, value, values)
        object.__setattr__(self, "activation", activation)
        object.__setattr__(self, "_attributes", values)
        object.__setattr__(self, "_identity", (activation, *(bits_of(value) for value in values.values())))

    @property
    def operator_name(self) -> str:
        """The activation's name, ``"ACTIVATION_ELU"``."""
        return self.activation.operator_name

    @property
    def attributes(self) -> tuple[tuple[Field, Any], ...]:
        """The members, with their values, in DirectML's order."""
        fields = {field.attribute: field for field in self.activation.fields}
        return tuple((fields[name], value) for name, value in self._attributes.items())

    def value_of(self, attribute: str) -> Any:
        """The value of an attribute, by its Python name."""
        return self._attributes[attribute]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a FusedActivation cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FusedActivation) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.activation, self._attributes)

    def __dask_tokenize__(self) -> str:
        return token_of([self.operator_name, self._attributes])

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self._attributes.items())
        return f"FusedActivation({self.activation.__name__}{given})"


def _remade(activation: type[OperatorDesc], attributes: dict[str, Any]) -> FusedActivation:
    return FusedActivation(activation, **attributes)


def fused_activation_attribute(
    meaning: str, *, fusable: tuple[str, ...] = FUSABLE_ACTIVATIONS, fusable_from: Mapping[str, str] | None = None
) -> Any:
    """Declares an optional DML_OPERATOR_DESC member, an activation without tensors.

    Args:
        fusable: the names of the operators that it may be.
        fusable_from: the feature levels from which some of them may be fused, though they are older: ``"6_0"``.
    """
    older = {name: level for name, level in (fusable_from or {}).items() if name in fusable}
    levels = tuple((name, FeatureLevel.from_name(level)) for name, level in older.items())
    return member(
        "attribute", "operator_desc", meaning, None, instance_of=FusedActivation, fusable=fusable, fusable_from=levels
    )


def activations_attribute(meaning: str, *, counted_by: str) -> Any:
    """Declares an array of DML_OPERATOR_DESC, activations without tensors, whose length another member states."""
    return member(
        "attribute",
        "operator_descs",
        meaning,
        counted_by=counted_by,
        instance_of=FusedActivation,
        fusable=FUSABLE_ACTIVATIONS,
    )
