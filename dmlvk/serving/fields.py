"""The body of a request: JSON of which every field is known, and of the kind that it must be."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dmlvk.serving.errors import invalid

_SHOWN = 100  # Characters of a wrong value that are shown


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        ApiError: it is none.
    """
    found = loaded(body, "the body")
    if not isinstance(found, dict):
        raise invalid(f"the body must be a JSON object; got {type(found).__name__}")
    return found


def loaded(text: bytes | str, what: str, param: str | None = None) -> Any:
    """What a JSON text says.

    Args:
        what: it is, for messages.
        param: the field.

    Raises:
        ApiError: it is none.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{what} is no JSON: {' '.join(str(error).split())[:200]}", param) from error


class Fields:
    """Fields of a JSON object, taken one by one; a field that is null counts as absent.

    Args:
        where: its name in front of its fields'.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._where, self._taken = where, set[str]()

    def name(self, field: str) -> str:
        """What a field is called in messages."""
        return f"{self._where}.{field}" if self._where else field

    def value(self, name: str) -> Any:
        """A field of any kind; ``None``: it is absent."""
        self._taken.add(name)
        return self._values.get(name)

    def ignore(self, names: Collection[str]) -> None:
        """Fields that change nothing here."""
        self._taken.update(names)

    def check(self) -> None:
        """Looks whether there is a field that nobody took.

        Raises:
            ApiError: there is.
        """
        unknown = sorted(set(self._values) - self._taken)
        if unknown:
            raise invalid(f"{self.name(unknown[0])[:_SHOWN]} is no field of this request", unknown[0][:_SHOWN])

    def fault(self, name: str, rule: str) -> Exception:
        """An error about a field."""
        return invalid(f"{self.name(name)} must be {rule}; got {shown(self._values.get(name))}", self.name(name))

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, name: str, default: int | None, least: int, most: int) -> int | None:
        """An integer."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(name, f"an integer from {least} to {most}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, "true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fault(name, "a text")
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """One of some texts; the first where it is absent."""
        value = self.text(name, choices[0])
        if value not in choices:
            raise self.fault(name, f"one of {', '.join(choices)}")
        return value

    def texts(self, name: str, most: int, longest: int) -> tuple[str, ...]:
        """A text, or a list of some."""
        value = self.value(name)
        listed = [] if value is None else [value] if isinstance(value, str) else value
        if (
            not isinstance(listed, list)
            or len(listed) > most
            or not all(isinstance(each, str) and 0 < len(each) <= longest for each in listed)
        ):
            raise self.fault(name, f"a text of 1 to {longest} characters, or a list of at most {most}")
        return tuple(listed)

    def listed(self, name: str, most: int) -> list[Any]:
        """A list."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise self.fault(name, f"a list of at most {most}")
        return value

    def inside(self, name: str) -> Fields | None:
        """An object in the object; ``None``: it is absent."""
        value = self.value(name)
        return None if value is None else self.of(value, name)

    def of(self, value: Any, name: str) -> Fields:
        """An object that a field has, or an element of it."""
        if not isinstance(value, dict):
            raise invalid(f"{self.name(name)} must be an object; got {shown(value)}", self.name(name))
        return Fields(value, self.name(name))


def shown(value: Any) -> str:
    """A value for a message, cut short."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
