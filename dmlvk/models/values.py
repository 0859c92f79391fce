"""Typed reading of JSON nodes: members, integers, floats, enumerations, and arrays of one data type."""

from __future__ import annotations

import difflib
import enum
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.errors import ModelFileError
from dmlvk.models.json_source import JsonNode, shortened

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1

_FLOAT_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

EnumType = TypeVar("EnumType", bound=enum.IntEnum)
FlagType = TypeVar("FlagType", bound=enum.IntFlag)


class Members:
    """Reads the members of one JSON object by name, and refuses those that nobody asked for.

    Misspelt optional members are the commonest mistake in such files, and would otherwise change a result in silence.
    Keys that begin with ``$`` (as ``$schema``) belong to editors and are left alone.

    Args:
        what: what the object is, in words, for messages: ``"the resource 'A'"``.

    Raises:
        ModelFileError: when the node is no object.
    """

    def __init__(self, node: JsonNode, what: str) -> None:
        if not isinstance(node.value, dict):
            raise node.error(f"{what} must be an object; got {node.kind}")
        self.node = node
        self.what = what
        self.values = node.value
        self._asked: list[str] = []

    def __contains__(self, name: str) -> bool:
        """Whether there is such a member; a name that was tested for counts as known."""
        self._asked.append(name)
        return name in self.values

    def optional(self, name: str) -> JsonNode | None:
        """The member's value, or ``None`` where it is absent."""
        self._asked.append(name)
        return self.values.get(name)

    def required(self, name: str) -> JsonNode:
        """The member's value.

        Raises:
            ModelFileError: when it is absent.
        """
        value = self.optional(name)
        if value is None:
            raise self.node.error(f"{self.what} needs the member '{name}'{self._similar_key(name)}")
        return value

    def finish(self) -> None:
        """Refuses every member that was not asked for."""
        for key in self.values:
            if key not in self._asked and not key.startswith("$"):
                raise self.node.key_error(
                    key, f"{self.what} has no member {shortened(key)}{suggestion(key, self._asked)}"
                )

    def _similar_key(self, name: str) -> str:
        """Names a key of the object that was probably meant to be ``name``."""
        unknown = [key for key in self.values if key not in self._asked]
        close = difflib.get_close_matches(name.lower(), [key.lower() for key in unknown], 1, 0.75)
        return next((f" (it has {key!r})" for key in unknown if close and key.lower() == close[0]), "")


def suggestion(name: str, known: Iterable[str], limit: int = 12) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them where they are few."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, 1, 0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return ""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"; known are {', '.join(names[:limit])}{more}"


def string(node: JsonNode, what: str) -> str:
    """The node as a string.

    Raises:
        ModelFileError: when it is none.
    """
    if not isinstance(node.value, str):
        raise node.error(f"{what} must be a string; got {node.kind}")
    return node.value


def boolean(node: JsonNode, what: str) -> bool:
    """The node as true or false.

    Raises:
        ModelFileError: when it is neither.
    """
    if not isinstance(node.value, bool):
        raise node.error(f"{what} must be true or false; got {node.kind}")
    return node.value


def integer(node: JsonNode, what: str, lowest: int = 0, highest: int = UINT32_MAX) -> int:
    """The node as an integer in [lowest, highest]; ``1.0`` is none, as in DxDispatch.

    Raises:
        ModelFileError: when it is no integer or outside the range.
    """
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise node.error(f"{what} must be an integer; got {node.kind}")
    if not lowest <= node.value <= highest:
        raise node.error(f"{what} must be from {lowest} to {highest}; got {_brief(node.value)}")
    return node.value


def array(node: JsonNode, what: str) -> list[JsonNode]:
    """The node's elements.

    Raises:
        ModelFileError: when it is no array.
    """
    if not isinstance(node.value, list):
        raise node.error(f"{what} must be an array; got {node.kind}")
    return node.value


def integers(node: JsonNode, what: str, lowest: int = 0, highest: int = UINT32_MAX) -> tuple[int, ...]:
    """The node as an array of integers in [lowest, highest].

    Raises:
        ModelFileError: at the first element that is none.
    """
    return tuple(integer(item, f"{what}[{i}]", lowest, highest) for i, item in enumerate(array(node, what)))


def real(node: JsonNode, what: str) -> float:
    """The node as a number: a JSON number, or one of the strings "nan", "inf" and "-inf" in any case.

    Raises:
        ModelFileError: when it is neither.
    """
    value = node.value
    if isinstance(value, str) and value.lower() in _FLOAT_NAMES:
        return _FLOAT_NAMES[value.lower()]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise node.error(f'{what} must be a number, "nan", "inf" or "-inf"; got {node.kind}')
    try:
        return float(value)
    except OverflowError:
        raise node.error(f"{what} is too large: {_brief(value)}") from None


def reals(node: JsonNode, what: str) -> tuple[float, ...]:
    """The node as an array of numbers: see :func:`real`.

    Raises:
        ModelFileError: at the first element that is none.
    """
    return tuple(real(item, f"{what}[{i}]") for i, item in enumerate(array(node, what)))


def _brief(value: int | float) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text)} digits)"


def enumeration(node: JsonNode, what: str, members: type[EnumType], prefix: str) -> EnumType:
    """The node as a member of a DirectML enumeration: its name, with or without ``prefix``, or its number.

    Raises:
        ModelFileError: when there is no member of that name (they are case-sensitive) or number.
    """
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        numbers = {int(member.value): member for member in members}
        number = integer(node, what, min(numbers), max(numbers))
        if number not in numbers:
            raise node.error(f"{what}: must be one of {', '.join(map(str, numbers))}; got {number}")
        return numbers[number]
    name = string(node, what)
    member = members.__members__.get(name.removeprefix(prefix))
    if member is None:
        raise node.error(f"{what}: unknown {shortened(name)}{suggestion(name, members.__members__)}")
    return member


def flags(node: JsonNode, what: str, members: type[FlagType], prefix: str) -> FlagType:
    """The node, a name or an array of names, as the union of a DirectML flag enumeration's members.

    Raises:
        ModelFileError: when a name is unknown.
    """
    combined = members(0)
    for item in node.value if isinstance(node.value, list) else [node]:
        name = string(item, what)
        member = members.__members__.get(name.removeprefix(prefix))
        if member is None:
            raise item.error(f"{what}: unknown {shortened(name)}{suggestion(name, members.__members__)}")
        combined |= member
    return combined


def data_type(node: JsonNode, what: str, *, in_whole_bytes: bool = True) -> DataType:
    """The node as a data type, or UNKNOWN.

    Args:
        in_whole_bytes: whether the 4-bit types are refused, of which two elements share a byte.

    Raises:
        ModelFileError: when the name is unknown, or is one of the 4-bit types where they are refused.
    """
    member = enumeration(node, what, DataType, "DML_TENSOR_DATA_TYPE_")
    if in_whole_bytes and 0 < member.size_in_bits < 8:
        raise node.error(
            f"{what}: values of {member.name} are not read here; use UINT8 with two values in a byte, the first one in "
            "its low half"
        )
    return member


def typed_value(node: JsonNode, element_type: DataType, what: str) -> np.generic:
    """The node as one element of ``element_type``.

    Floats are rounded to nearest even; integers must be JSON integers in range.

    Raises:
        ModelFileError: when it is of the wrong kind or does not fit.
    """
    dtype = element_type.numpy_dtype
    value: np.generic
    if not element_type.is_float:
        limits = np.iinfo(dtype)
        value = dtype.type(integer(node, f"{what} ({element_type.name})", int(limits.min), int(limits.max)))
        return value
    number = real(node, what)
    with np.errstate(over="ignore"):
        value = dtype.type(number)
    if math.isfinite(number) and not math.isfinite(value.item()):
        raise node.error(
            f"{what}: {node.value!r} does not fit into {element_type.name} (largest {np.finfo(dtype).max}); "
            'write "inf" for infinity'
        )
    return value


def typed_array(nodes: Sequence[JsonNode], element_type: DataType, what: str) -> npt.NDArray[Any]:
    """The nodes as a one-dimensional array of ``element_type``; see :func:`typed_value`.

    Raises:
        ModelFileError: at the first element that is of the wrong kind or does not fit.
    """
    if element_type.is_float:
        numbers = np.array([real(node, f"{what}[{i}]") for i, node in enumerate(nodes)], np.float64)
        with np.errstate(over="ignore"):
            values = numbers.astype(element_type.numpy_dtype)
        too_large = np.flatnonzero(np.isfinite(numbers) & ~np.isfinite(values))
        if too_large.size:
            index = int(too_large[0])
            typed_value(nodes[index], element_type, f"{what}[{index}]")
        return values
    return np.array(
        [typed_value(node, element_type, f"{what}[{i}]") for i, node in enumerate(nodes)], element_type.numpy_dtype
    )


def refuse_later(node: JsonNode, what: str) -> ModelFileError:
    """The error for a part of the format that this version does not run."""
    return node.error(f"{what} is not supported by this version of dmlvk")
