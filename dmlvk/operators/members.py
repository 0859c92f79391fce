"""The members of operator descriptions: their kinds and types, how they are declared, how values are checked."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from dmlvk.datatypes import DataType, checked_data_type
from dmlvk.errors import InvalidArgumentError
from dmlvk.operators.levels import FeatureLevel
from dmlvk.support.integers import checked_integer
from dmlvk.tensors import TensorDesc

_UINT32_MAX = 2**32 - 1
_FLOAT_MAX = float(np.finfo(np.float32).max)

FieldKind = Literal["input", "output", "attribute"]
Enumeration: TypeAlias = type[enum.IntEnum]
PythonClass: TypeAlias = type


class RoundingMode(enum.IntEnum):
    """DML_ROUNDING_MODE: how ELEMENT_WISE_ROUND chooses an integer."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


class AxisDirection(enum.IntEnum):
    """DML_AXIS_DIRECTION: from which end of an axis elements are gone through."""

    INCREASING = 0
    DECREASING = 1


class ReduceFunction(enum.IntEnum):
    """DML_REDUCE_FUNCTION: what REDUCE makes of a row."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class IsInfinityMode(enum.IntEnum):
    """DML_IS_INFINITY_MODE: which infinities ELEMENT_WISE_IS_INFINITY finds."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class QuantizationType(enum.IntEnum):
    """DML_QUANTIZATION_TYPE: which tensors tell how QUANTIZE and DEQUANTIZE quantize."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


@dataclasses.dataclass(frozen=True)
class ScaleBias:
    """DML_SCALE_BIAS: every input element x becomes x * scale + bias before the operator's function is applied."""

    scale: float
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float32_value(self.scale, "ScaleBias.Scale"))
        object.__setattr__(self, "bias", float32_value(self.bias, "ScaleBias.Bias"))


@dataclasses.dataclass(frozen=True)
class Size2D:
    """DML_SIZE_2D: a width and a height."""

    width: int
    height: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", checked_integer(self.width, "Size2D.Width", 0, _UINT32_MAX))
        object.__setattr__(self, "height", checked_integer(self.height, "Size2D.Height", 0, _UINT32_MAX))


@dataclasses.dataclass(frozen=True)
class Minimum:
    """The least value of a FLOAT member, up to the feature level that lifts this."""

    value: float  # the least value; NaN is refused too
    lifted_at: FeatureLevel  # from this level on any value is accepted


@dataclasses.dataclass(frozen=True)
class Field:
    """One member of an operator description."""

    name: str  # DirectML's name, ``InputTensor``
    attribute: str  # the Python name, ``input_tensor``
    kind: FieldKind  # ``"input"``, ``"output"`` or ``"attribute"``
    # ``"tensor"``, ``"tensors"`` (an array of them), ``"float"``, ``"float_array"``, ``"bool"``, ``"int32"``,
    # ``"int32_array"``, ``"uint32"``, ``"uint32_array"``, ``"size_2d"``, ``"scale_bias"``, ``"enum"``,
    # ``"data_type"``, ``"scalar_union"``, ``"operator_desc"`` or ``"operator_descs"`` (an array of them)
    type: str
    optional: bool  # whether ``None`` is a value
    meaning: str  # one sentence
    # for a ``float`` or ``scalar_union``, the tensor member in whose data type the value is used
    converted_to: str | None = None
    typed_by: str | None = None  # for a ``scalar_union``, the ``data_type`` member that says which of its views counts
    equals: str | None = None  # for a ``data_type``, the tensor member whose data type it must be
    enumeration: Enumeration | None = None  # for an ``enum``, its Python class
    # for an ``enum``, values that need a higher feature level than the operator, with that level
    since: tuple[tuple[enum.IntEnum, FeatureLevel], ...] = ()
    minimum: Minimum | None = None  # for a ``float``, what it must not be below
    counted_by: str | None = None  # for an array, the ``uint32`` member that states its length
    axes_of: str | None = None  # for a ``uint32_array``, the tensor member whose axes it names
    instance_of: PythonClass | None = None  # for an ``operator_desc`` or an array of them, its Python class
    fusable: tuple[str, ...] = ()  # likewise, the names of the operators that it may be
    # for an ``operator_desc``, the feature levels from which some of these may be fused
    fusable_from: tuple[tuple[str, FeatureLevel], ...] = ()
    wraps: bool = False  # for a ``scalar_union``, whether it may be below 0 for unsigned types too
    # for an ``uint32`` or ``int32``, its least and greatest value; ``None``: those of the type
    range: tuple[int, int] | None = None
    array: str | None = None  # for a tensor of an array (:meth:`element`), the array's Python name

    @property
    def member(self) -> str:
        """The Python name of the member that it is, or is a tensor of."""
        return self.array or self.attribute

    def element(self, number: int) -> Field:
        """A tensor of an array of tensors: ``InputTensors[1]``."""
        while len(self._elements) <= number:
            index = len(self._elements)
            made = dataclasses.replace(
                self,
                name=f"{self.name}[{index}]",
                attribute=f"{self.attribute}[{index}]",
                type="tensor",
                array=self.attribute,
            )
            self._elements.append(made)
        return self._elements[number]

    @functools.cached_property
    def _elements(self) -> list[Field]:
        """The tensors of the array that were asked for; as many as the longest array that was described has."""
        return []


def tensor_input(meaning: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declares a tensor member that is read; ``default=None`` makes it optional."""
    return member("input", "tensor", meaning, default)


def tensor_output(meaning: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declares a tensor member that is written; ``default=None`` makes it optional."""
    return member("output", "tensor", meaning, default)


def tensor_array_input(meaning: str, *, counted_by: str) -> Any:
    """Declares an array of tensors that are read, whose length another member states."""
    return member("input", "tensors", meaning, counted_by=counted_by)


def tensor_array_output(meaning: str, *, counted_by: str) -> Any:
    """Declares an array of tensors that are written, whose length another member states."""
    return member("output", "tensors", meaning, counted_by=counted_by)


def boolean_attribute(meaning: str) -> Any:
    """Declares a BOOL member (or a UINT that means one)."""
    return member("attribute", "bool", meaning)


def float_array_attribute(meaning: str, *, counted_by: str = "dimension_count") -> Any:
    """Declares an array of FLOAT whose length another member states."""
    return member("attribute", "float_array", meaning, counted_by=counted_by)


def unsigned_attribute(
    meaning: str, *, range: tuple[int, int] | None = None, default: Any = dataclasses.MISSING
) -> Any:
    """Declares a UINT member, such as an axis; ``range`` is its least and greatest value."""
    return member("attribute", "uint32", meaning, default, range=range)


def unsigned_array_attribute(meaning: str, *, counted_by: str = "dimension_count") -> Any:
    """Declares an array of UINT whose length another member states."""
    return member("attribute", "uint32_array", meaning, counted_by=counted_by)


def integer_attribute(meaning: str, *, range: tuple[int, int] | None = None) -> Any:
    """Declares an INT member; ``range`` is its least and greatest value."""
    return member("attribute", "int32", meaning, range=range)


def integer_array_attribute(meaning: str, *, counted_by: str = "dimension_count") -> Any:
    """Declares an array of INT whose length another member states."""
    return member("attribute", "int32_array", meaning, counted_by=counted_by)


def size_attribute(meaning: str) -> Any:
    """Declares a DML_SIZE_2D member: a :class:`Size2D`, or width and height."""
    return member("attribute", "size_2d", meaning)


def float_attribute(meaning: str, *, converted_to: str | None = None, minimum: Minimum | None = None) -> Any:
    """Declares a FLOAT member.

    Args:
        converted_to: the tensor member whose data type its value is converted to; without one it stays a FLOAT32.
        minimum: what it must not be below.
    """
    return member("attribute", "float", meaning, converted_to=converted_to, minimum=minimum)


def scale_bias_attribute(
    meaning: str = "x becomes x * scale + bias first; None leaves x as it is", *, default: Any = dataclasses.MISSING
) -> Any:
    """Declares a DML_SCALE_BIAS member; ``default=None`` makes it optional."""
    return member("attribute", "scale_bias", meaning, default)


def enum_attribute(meaning: str, enumeration: Enumeration, *, since: Mapping[Any, str] | None = None) -> Any:
    """Declares a member that is one of an enumeration's; ``since`` has those that need a higher feature level."""
    levels = tuple((value, FeatureLevel.from_name(level)) for value, level in (since or {}).items())
    return member("attribute", "enum", meaning, enumeration=enumeration, since=levels)


def data_type_attribute(meaning: str, *, equals: str) -> Any:
    """Declares a DML_TENSOR_DATA_TYPE member that must be the data type of the tensor member ``equals``."""
    return member("attribute", "data_type", meaning, equals=equals)


def scalar_union_attribute(meaning: str, *, typed_by: str, converted_to: str, wraps: bool = False) -> Any:
    """Declares a DML_SCALAR_UNION member, a number of the type that the member ``typed_by`` states.

    With ``wraps`` it may be below 0 for unsigned types too, where it stands for the number with the same bits.
    """
    return member("attribute", "scalar_union", meaning, typed_by=typed_by, converted_to=converted_to, wraps=wraps)


def count_attribute(meaning: str) -> Any:
    """Declares a UINT member that states the length of an array."""
    return member("attribute", "uint32", meaning)


def axes_attribute(meaning: str, *, counted_by: str, axes_of: str) -> Any:
    """Declares an array of UINT that names axes of a tensor member, and whose length another member states."""
    return member("attribute", "uint32_array", meaning, counted_by=counted_by, axes_of=axes_of)


def member(kind: FieldKind, member_type: str, meaning: str, default: Any = dataclasses.MISSING, **more: Any) -> Any:
    """Declares any member; ``more`` are further attributes of its :class:`Field`."""
    # Type checkers take a member for optional when they see ``default=`` in the class body.
    metadata = {"kind": kind, "type": member_type, "meaning": meaning, "optional": default is None, **more}
    return dataclasses.field(metadata=metadata, default=default)


def directml_name(attribute: str) -> str:
    """DirectML's name of a member: ``a_tensor`` is ``ATensor``, and ``roi_tensor`` ``ROITensor``."""
    return "".join("ROI" if part == "roi" else part.capitalize() for part in attribute.split("_"))


def directml_prefix(enumeration: Enumeration) -> str:
    """What DirectML's names of an enumeration's members begin with: ``DML_ROUNDING_MODE_``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enumeration.__name__)
    return f"DML_{words.upper()}_"


def named_value(field: Field, value: object, where: str) -> object:
    """A member's value, where it is DirectML's name or number of one of an enumeration, or names a data type.

    Others are left as they are.

    Raises:
        InvalidArgumentError: when there is no such name or number.
    """
    if field.enumeration is not None and isinstance(value, int) and not isinstance(value, (bool, enum.Enum)):
        try:
            return field.enumeration(value)
        except ValueError:
            known = ", ".join(f"{member.value} ({member.name})" for member in field.enumeration)
            raise InvalidArgumentError(f"{where} must be one of {known}; got {value!r}") from None
    if not isinstance(value, str) or (field.enumeration is None and field.type != "data_type"):
        return value
    if field.enumeration is None:
        try:
            return DataType.from_name(value)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{where}: {error}") from error
    members = field.enumeration.__members__
    name = value.removeprefix(directml_prefix(field.enumeration))
    if name not in members:
        raise InvalidArgumentError(f"{where} must be one of {', '.join(members)}; got {value!r}")
    return members[name]


def accepts_data_type(field: Field, data_type: DataType) -> bool:
    """Whether an optional attribute may be given for tensors of a data type.

    DirectML does not support ScaleBias for 64-bit types (microsoft/DirectML, pull request 275).
    """
    return field.type != "scale_bias" or data_type.size_in_bits < 64


def bits_of(value: object) -> object:
    """``value``, with floating-point numbers as their bits: 0.0 differs from -0.0, and NaN does not from itself."""
    if isinstance(value, ScaleBias):
        return bits_of(value.scale), bits_of(value.bias)
    if isinstance(value, tuple):
        return tuple(bits_of(item) for item in value)
    return struct.pack("<d", value) if isinstance(value, float) else value


def checked_member(operator_name: str, field: Field, value: object, siblings: dict[str, Any]) -> object:
    """A member's value, as the description keeps it.

    Args:
        siblings: the members before it, by their Python names.

    Raises:
        InvalidArgumentError: when the value has the wrong type or does not fit its DirectML type.
    """
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
    if field.type == "data_type":
        return checked_data_type(value, where)
    if field.type == "operator_descs":
        assert field.instance_of is not None  # what its items are
        items = _items(value, where, f"dmlvk.{field.instance_of.__name__}")
        alone = dataclasses.replace(field, type="operator_desc")
        return tuple(
            checked_member(operator_name, dataclasses.replace(alone, name=f"{field.name}[{i}]"), item, siblings)
            for i, item in enumerate(items)
        )
    if field.instance_of is not None:
        if not isinstance(value, field.instance_of):
            alternative = " or None" if field.optional else ""
            raise InvalidArgumentError(
                f"{where} must be a dmlvk.{field.instance_of.__name__}{alternative}; got {value!r}"
            )
        return value
    if field.type in ("uint32", "int32"):
        lowest, highest = field.range or _INTEGER_RANGES[field.type]
        return checked_integer(value, where, lowest, highest)
    if field.type in _ARRAY_CHECKS:
        return _ARRAY_CHECKS[field.type](value, where)
    if field.type == "bool":
        return checked_boolean(value, where)
    if field.enumeration is not None:
        value = named_value(field, value, where)
        if not isinstance(value, field.enumeration):
            raise InvalidArgumentError(f"{where} must be a dmlvk.{field.enumeration.__name__}; got {value!r}")
        return value
    if field.typed_by is not None:
        return scalar_value(value, siblings[field.typed_by], where, wraps=field.wraps)
    return float32_value(value, where)


def checked_boolean(value: object, where: str) -> bool:
    """``value`` as a bool: one of Python's or NumPy's, 0 or 1.

    Raises:
        InvalidArgumentError: when it is something else.
    """
    if not isinstance(value, (bool, np.bool_)) and (not isinstance(value, int) or value not in (0, 1)):
        raise InvalidArgumentError(f"{where} must be True or False; got {value!r}")
    return bool(value)


def _items(value: object, where: str, what: str) -> Sequence[Any]:
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if not is_list and not (isinstance(value, np.ndarray) and value.ndim > 0):
        raise InvalidArgumentError(f"{where} must be a sequence of {what}; got {value!r}")
    return value  # type: ignore[return-value]  # an array is gone through as a sequence is


def _unsigned_integers(value: object, where: str) -> tuple[int, ...]:
    items = enumerate(_items(value, where, "integers"))
    return tuple(checked_integer(item, f"{where}[{i}]", 0, _UINT32_MAX) for i, item in items)


def _integers(value: object, where: str) -> tuple[int, ...]:
    items = enumerate(_items(value, where, "integers"))
    return tuple(checked_integer(item, f"{where}[{i}]", -(2**31), 2**31 - 1) for i, item in items)


def _floats(value: object, where: str) -> tuple[float, ...]:
    return tuple(float32_value(item, f"{where}[{i}]") for i, item in enumerate(_items(value, where, "numbers")))


def _tensors(value: object, where: str) -> tuple[TensorDesc, ...]:
    items = tuple(_items(value, where, "TensorDescs"))
    for i, item in enumerate(items):
        if not isinstance(item, TensorDesc):
            raise InvalidArgumentError(f"{where}[{i}] must be a TensorDesc; got {item!r}")
    return items


def _size(value: object, where: str) -> Size2D:
    if isinstance(value, Size2D):
        return value
    items = tuple(_items(value, where, "two integers, width and height"))
    if len(items) != 2:
        raise InvalidArgumentError(f"{where} must be a Size2D, or width and height; got {value!r}")
    return Size2D(*(checked_integer(item, f"{where}[{i}]", 0, _UINT32_MAX) for i, item in enumerate(items)))


_INTEGER_RANGES = {"uint32": (0, _UINT32_MAX), "int32": (-(2**31), 2**31 - 1)}

_ARRAY_CHECKS: dict[str, Callable[[object, str], object]] = {
    "uint32_array": _unsigned_integers,
    "int32_array": _integers,
    "float_array": _floats,
    "tensors": _tensors,
    "size_2d": _size,
}


def scalar_value(value: object, data_type: DataType, where: str, *, wraps: bool = False) -> int | float:
    """A number as the view of a DML_SCALAR_UNION for a data type: an int for integer types, else a float.

    Raises:
        InvalidArgumentError: when it is no number of that type, or beyond its range.
    """
    if data_type is DataType.FLOAT64:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise InvalidArgumentError(f"{where} must be a number; got {value!r}")
        return float(value)
    if data_type.is_float:
        return float32_value(value, where)
    if data_type.size_in_bits < 8:
        raise InvalidArgumentError(f"{where} cannot be a {data_type.name}")
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidArgumentError(f"{where} must be an integer, as {data_type.name} is; got {value!r}")
    limits = np.iinfo(data_type.numpy_dtype)
    if wraps and limits.min == 0 and -(limits.max // 2) - 1 <= int(value) < 0:
        return int(value)
    if not limits.min <= int(value) <= limits.max:
        raise InvalidArgumentError(
            f"{where} must be from {limits.min} to {limits.max}, as {data_type.name} is; got {value}"
        )
    return int(value)


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
    if -_FLOAT_MAX <= number <= _FLOAT_MAX:  # what attributes are, but for contrived ones
        return float(np.float32(number))
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if math.isinf(rounded) and not (isinstance(value, (float, np.floating)) and math.isinf(value)):
        raise InvalidArgumentError(f"{where} must fit into FLOAT (at most {_FLOAT_MAX:.8g}); got {value!r}")
    return rounded
