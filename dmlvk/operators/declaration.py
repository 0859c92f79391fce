"""The machinery that turns one declaration into an operator's description class.

A family module (``elementwise.py``) holds a class for each operator: its members in DirectML's order as dataclass
fields, and a :class:`Declaration` with everything else that DirectML's page states. The description class, its checks,
its shader variants, its row in ``dmlvk operators`` and its test cases all follow from these.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.operators.levels import FeatureLevel
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:  # type checkers carry typing_extensions' declarations with them; nothing is imported when running
    from typing_extensions import dataclass_transform
elif sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:  # Python 3.10: only type checkers need the real one

    def dataclass_transform(**_: object) -> Any:
        """Stand-in for ``typing.dataclass_transform``."""
        return lambda decorated: decorated


FieldKind = Literal["input", "output", "attribute"]

OPERATORS: dict[str, type[OperatorDesc]] = {}
"""Every operator that dmlvk has, by DirectML's name without ``DML_`` and ``_OPERATOR_DESC``."""


@dataclasses.dataclass(frozen=True)
class ScaleBias:
    """DML_SCALE_BIAS: every input element x becomes x * scale + bias before the operator's function is applied."""

    scale: float
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float32_value(self.scale, "ScaleBias.Scale"))
        object.__setattr__(self, "bias", float32_value(self.bias, "ScaleBias.Bias"))


@dataclasses.dataclass(frozen=True)
class Field:
    """One member of an operator description.

    Attributes:
        name: DirectML's name, ``InputTensor``.
        attribute: the Python name, ``input_tensor``.
        kind: ``"input"``, ``"output"`` or ``"attribute"``.
        type: ``"tensor"``, ``"float"`` or ``"scale_bias"``.
        optional: whether ``None`` is a value.
        meaning: one sentence.
        converted_to: for a FLOAT attribute, the tensor member whose data type it is converted to before it is used.
    """

    name: str
    attribute: str
    kind: FieldKind
    type: str
    optional: bool
    meaning: str
    converted_to: str | None = None


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """What is promised of an operator's results.

    Attributes:
        promise: ``"exact"``, ``"correctly rounded"`` or ``"accurate"``.
        maximum_ulp: largest error in units in the last place of the result's data type.
        remark: what else a user should know, or an empty string.
    """

    promise: Literal["exact", "correctly rounded", "accurate"]
    maximum_ulp: float
    remark: str = ""


class Support:
    """What an operator accepts from one feature level on, up to the next table of the same operator.

    Args:
        level: ``"4_1"``.
        dimensions: fewest and most dimensions of every tensor.
        data_types: for each tensor member, by its Python name, the data types it may have.
    """

    def __init__(self, level: str, dimensions: tuple[int, int], **data_types: tuple[DataType, ...]) -> None:
        self.level = FeatureLevel.from_name(level)
        self.dimensions = dimensions
        self.data_types: Mapping[str, tuple[DataType, ...]] = data_types


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What DirectML's page states of an operator, beside its members.

    Attributes:
        name: ``"ELEMENT_WISE_SIGN"``.
        formula: the function, in words or symbols.
        decisions: what this project decided where the page is silent, one sentence each.
        support: the tables, by rising feature level.
        same_sizes: groups of tensor members that must agree in DimensionCount and Sizes.
        same_data_type: groups of tensor members that must agree in DataType.
        in_place: input members that may share their buffer range with the output.
        accuracy: the promise.
        moves: tensor members whose values are moved but never interpreted: only the width of their type matters.
    """

    name: str
    formula: str
    support: tuple[Support, ...]
    accuracy: Accuracy
    same_sizes: tuple[tuple[str, ...], ...] = ()
    same_data_type: tuple[tuple[str, ...], ...] = ()
    in_place: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()

    def support_at(self, level: FeatureLevel) -> Support:
        """The table that holds at ``level``.

        Raises:
            UnsupportedError: when the operator came with a higher level.
        """
        tables = [table for table in self.support if table.level <= level]
        if not tables:
            raise UnsupportedError(
                f"{self.name}: needs feature level {self.support[0].level.label}; "
                f"this device was opened at {level.label}"
            )
        return tables[-1]


def input_tensor(meaning: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declares a tensor member that is read; ``default=None`` makes it optional."""
    return _member("input", "tensor", meaning, default)


def output_tensor(meaning: str) -> Any:
    """Declares a tensor member that is written."""
    return _member("output", "tensor", meaning)


def float_attribute(meaning: str, *, converted_to: str | None = None) -> Any:
    """Declares a FLOAT member; ``converted_to`` names the tensor member whose data type its value is converted to."""
    return _member("attribute", "float", meaning, converted_to=converted_to)


def scale_bias_attribute(meaning: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declares a DML_SCALE_BIAS member; ``default=None`` makes it optional."""
    return _member("attribute", "scale_bias", meaning, default)


def _member(kind: FieldKind, member_type: str, meaning: str, default: Any = dataclasses.MISSING, **more: Any) -> Any:
    # Type checkers take a member for optional when they see ``default=`` in the class body.
    metadata = {"kind": kind, "type": member_type, "meaning": meaning, "optional": default is None, **more}
    return dataclasses.field(metadata=metadata, default=default)


def directml_name(attribute: str) -> str:
    """DirectML's name of a member: ``a_tensor`` is ``ATensor``."""
    return "".join(part.capitalize() for part in attribute.split("_"))


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(input_tensor, output_tensor, float_attribute, scale_bias_attribute),
)
class OperatorDesc:
    """The base of all operator descriptions (DML_..._OPERATOR_DESC): immutable, keyword arguments only, hashable.

    Two descriptions are equal when they describe the same operator: floating-point members count by their bits, so that
    0.0 differs from -0.0, and NaN does not differ from itself.

    Members are checked for their Python type here; DirectML's rules are checked by ``Device.create_operator``.

    Raises:
        InvalidArgumentError: when a member has the wrong type or a number does not fit its DirectML type.
    """

    declaration: ClassVar[Declaration]
    operator_name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
        cls.operator_name = cls.declaration.name
        cls.fields = tuple(
            Field(name=directml_name(member.name), attribute=member.name, **member.metadata)
            for member in dataclasses.fields(cls)  # type: ignore[arg-type]  # made a dataclass two lines above
        )
        OPERATORS[cls.operator_name] = cls

    def __post_init__(self) -> None:
        for field in self.fields:
            value = getattr(self, field.attribute)
            object.__setattr__(self, field.attribute, _checked_member(self.operator_name, field, value))

    @functools.cached_property
    def _identity(self) -> tuple[object, ...]:
        return (type(self), *(_bits(getattr(self, field.attribute)) for field in self.fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperatorDesc) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def inputs(self) -> tuple[tuple[Field, TensorDesc | None], ...]:
        """The input members in DirectML's order; an absent optional tensor is ``None``."""
        return tuple(self._tensors("input"))

    @property
    def outputs(self) -> tuple[tuple[Field, TensorDesc | None], ...]:
        """The output members in DirectML's order; an absent optional tensor is ``None``."""
        return tuple(self._tensors("output"))

    @property
    def attributes(self) -> tuple[tuple[Field, Any], ...]:
        """The members that are not tensors, with their values."""
        return tuple((field, getattr(self, field.attribute)) for field in self.fields if field.kind == "attribute")

    def _tensors(self, kind: FieldKind) -> Iterator[tuple[Field, TensorDesc | None]]:
        for field in self.fields:
            if field.kind == kind:
                yield field, getattr(self, field.attribute)


def _bits(value: object) -> object:
    """``value``, with floating-point numbers as their bits."""
    if isinstance(value, ScaleBias):
        return _bits(value.scale), _bits(value.bias)
    return struct.pack("<d", value) if isinstance(value, float) else value


def _checked_member(operator_name: str, field: Field, value: object) -> object:
    if value is None and field.optional:
        return None
    where = f"{operator_name}: {field.name}"
    if field.type == "tensor":
        if not isinstance(value, TensorDesc):
            raise InvalidArgumentError(f"{where} must be a TensorDesc; got {value!r}")
        return value
    if field.type == "scale_bias":
        if not isinstance(value, ScaleBias):
            raise InvalidArgumentError(f"{where} must be a ScaleBias or None; got {value!r}")
        return value
    return float32_value(value, where)


def float32_value(value: object, where: str) -> float:
    """``value`` rounded to the FLOAT that DirectML's structure holds.

    Raises:
        InvalidArgumentError: when it is no real number, or a finite one beyond FLOAT's range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidArgumentError(f"{where} must be a number; got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if math.isinf(rounded) and not (isinstance(value, (float, np.floating)) and math.isinf(value)):
        raise InvalidArgumentError(
            f"{where} must fit into FLOAT (at most {np.finfo(np.float32).max:.8g}); got {value!r}"
        )
    return rounded


def operator_desc(name: str, **members: object) -> OperatorDesc:
    """Makes a description by DirectML's own names.

    For example ``operator_desc("ELEMENT_WISE_SIGN", InputTensor=t, OutputTensor=t)``.

    Args:
        name: the operator, with or without ``DML_OPERATOR_``, or as ``DML_ELEMENT_WISE_SIGN_OPERATOR_DESC``.
        members: DirectML's member names; optional ones may be left out.

    Raises:
        UnsupportedError: when dmlvk has no operator of that name.
        InvalidArgumentError: when a member is unknown, missing or of the wrong type.
    """
    short = name.removeprefix("DML_OPERATOR_").removeprefix("DML_").removesuffix("_OPERATOR_DESC")
    desc_class = OPERATORS.get(short)
    if desc_class is None:
        raise UnsupportedError(f"{short}: dmlvk has no such operator; it has {', '.join(sorted(OPERATORS))}")
    by_name = {field.name: field for field in desc_class.fields}
    unknown = [member for member in members if member not in by_name]
    if unknown:
        raise InvalidArgumentError(f"{short}: has no member {unknown[0]}; its members are {', '.join(by_name)}")
    missing = [field.name for field in desc_class.fields if not field.optional and members.get(field.name) is None]
    if missing:
        raise InvalidArgumentError(f"{short}: member {missing[0]} is required")
    return desc_class(**{by_name[member].attribute: value for member, value in members.items()})
