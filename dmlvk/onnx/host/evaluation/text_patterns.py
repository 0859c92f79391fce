"""Whether a text matches a regular expression, in time that grows with their lengths alone.

Python's own engine takes exponential time for some (``(a+)+$``). Here all ways to match are followed at once, a
character at a time (Thompson, Regular expression search algorithm, Communications of the ACM 11, 1968), as RE2 does it,
whose expressions ONNX's are: they have no references to groups and look neither ahead nor back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlvk.onnx.host.evaluation.call import Array, Call, computes

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:  # the same under other names
    import sre_constants as constants
    import sre_parse as parser

_MOST_STATES = 20_000
"""Of an expression whose repetitions are written out; RE2 bounds its memory likewise."""

_Test = Callable[[str], bool]


class TextPattern:
    """A regular expression that whole texts are compared with.

    Args:
        expression: as RE2 and Python's ``re`` both understand it.

    Raises:
        ValueError: when it is none, or needs what cannot be followed a character at a time.
    """

    def __init__(self, expression: str) -> None:
        try:
            parsed: Any = parser.parse(expression)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"is no regular expression: {error}") from error
        self._tests: list[_Test | None] = []  # of a state: which character leads on; None: none is needed
        self._next: list[list[int]] = []
        self._conditions: list[str | None] = []  # of a state without a test: where in the text it may be passed
        self._flags = parsed.state.flags
        self._end = self._state(None)
        try:
            self._begin = self._sequence(list(parsed), self._end, self._flags)
        except RecursionError as error:
            raise ValueError("is nested too deeply") from error

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        states = self._closure({self._begin}, text, 0)
        for position, character in enumerate(text):
            found: set[int] = set()
            for state in states:
                test = self._tests[state]
                if test is not None and test(character):
                    found.update(self._next[state])
            if not found:
                return False
            states = self._closure(found, text, position + 1)
        return self._end in states

    def _closure(self, states: set[int], text: str, position: int) -> set[int]:
        """All states that are reached without another character."""
        found, pending = set(states), list(states)
        while pending:
            state = pending.pop()
            if self._tests[state] is not None or not _holds(self._conditions[state], text, position):
                continue
            for other in self._next[state]:
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return found

    def _state(self, test: _Test | None, *following: int, condition: str | None = None) -> int:
        if len(self._tests) >= _MOST_STATES:
            raise ValueError(f"needs more than {_MOST_STATES} states")
        self._tests.append(test)
        self._next.append(list(following))
        self._conditions.append(condition)
        return len(self._tests) - 1

    def _sequence(self, items: Sequence[tuple[Any, Any]], following: int, flags: int) -> int:
        for kind, argument in reversed(items):
            following = self._item(str(kind), argument, following, flags)
        return following

    def _item(self, kind: str, argument: Any, following: int, flags: int) -> int:
        if kind == "SUBPATTERN":
            _, added, removed, inner = argument
            return self._sequence(list(inner), following, (flags | added) & ~removed)
        if kind == "ATOMIC_GROUP" or kind.startswith("POSSESSIVE"):
            raise ValueError("has what RE2 lacks: an atomic group")
        if kind == "BRANCH":
            return self._state(None, *(self._sequence(list(branch), following, flags) for branch in argument[1]))
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = argument
            return self._repeated(least, most, inner, following, flags)
        if kind == "AT":
            return self._state(None, following, condition=_condition(str(argument), flags))
        test = _test(kind, argument, flags)
        return self._state(test, following)

    def _repeated(self, least: int, most: Any, inner: Any, following: int, flags: int) -> int:
        items = list(inner)
        if most is constants.MAXREPEAT or most == constants.MAXREPEAT:
            loop = self._state(None, following)
            self._next[loop].append(self._sequence(items, loop, flags))
            following = loop
        else:
            end = following
            for _ in range(most - least):
                following = self._state(None, self._sequence(items, following, flags), end)
        for _ in range(least):
            following = self._sequence(items, following, flags)
        return following


def _holds(condition: str | None, text: str, position: int) -> bool:
    if condition is None:
        return True
    if condition == "begin":
        return position == 0
    if condition == "end":
        return position == len(text)
    if condition == "line begin":
        return position == 0 or text[position - 1] == "\n"
    if condition == "line end":
        return position == len(text) or text[position] == "\n"
    before = position > 0 and _is_word(text[position - 1])
    after = position < len(text) and _is_word(text[position])
    return (before != after) == (condition == "word edge")


def _condition(name: str, flags: int) -> str:
    is_multiline = bool(flags & re.MULTILINE)
    conditions = {
        "AT_BEGINNING": "line begin" if is_multiline else "begin",
        "AT_BEGINNING_STRING": "begin",
        "AT_END": "line end" if is_multiline else "end",
        "AT_END_STRING": "end",
        "AT_BOUNDARY": "word edge",
        "AT_NON_BOUNDARY": "no word edge",
    }
    return conditions[name]


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


_CATEGORIES: dict[str, _Test] = {
    "CATEGORY_DIGIT": lambda c: "0" <= c <= "9",
    "CATEGORY_SPACE": lambda c: c in " \t\n\r\f\v",
    "CATEGORY_WORD": _is_word,
}
"""RE2's: of ASCII alone."""


def _category(name: str) -> _Test:
    if name.startswith("CATEGORY_NOT_"):
        inner = _CATEGORIES[f"CATEGORY_{name.removeprefix('CATEGORY_NOT_')}"]
        return lambda c: not inner(c)
    return _CATEGORIES[name]


def _test(kind: str, argument: Any, flags: int) -> _Test:
    if kind == "ANY":
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    if kind in ("LITERAL", "NOT_LITERAL"):
        wanted = chr(argument)
        same: _Test = (lambda c: c.lower() == wanted.lower()) if flags & re.IGNORECASE else (lambda c: c == wanted)
        return same if kind == "LITERAL" else (lambda c: not same(c))
    if kind == "IN":
        return _class(argument, flags)
    raise ValueError(f"has what cannot be followed a character at a time: {kind.lower()}")


def _class(items: Sequence[tuple[Any, Any]], flags: int) -> _Test:
    tests: list[_Test] = []
    is_negated = False
    for kind, argument in items:
        name = str(kind)
        if name == "NEGATE":
            is_negated = True
        elif name == "RANGE":
            tests.append(_range(*argument))
        elif name == "CATEGORY":
            tests.append(_category(str(argument)))
        else:
            tests.append(_range(argument, argument))
    if flags & re.IGNORECASE:
        return lambda c: any(test(c.lower()) or test(c.upper()) for test in tests) != is_negated
    return lambda c: any(test(c) for test in tests) != is_negated


def _range(low: int, high: int) -> _Test:
    return lambda c: low <= ord(c) <= high


@computes("RegexFullMatch")
def full_matches(call: Call) -> Array:
    """Whether each text matches as a whole."""
    texts = call.array(0)
    given = {attribute.name: attribute.s for attribute in call.proto.attribute}
    try:
        pattern = TextPattern(given.get("pattern", b"").decode())
    except ValueError as error:  # UnicodeDecodeError is one
        raise ValueError(f"its pattern {error}") from error
    found = [pattern.matches(text if isinstance(text, str) else str(text)) for text in texts.reshape(-1)]
    return np.array(found, np.bool_).reshape(texts.shape)
