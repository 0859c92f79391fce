"""Reads JSON text and remembers where every value stands, so that an error can say ``file:line:column``.

The dialect is what DxDispatch reads: JSON with ``//`` and ``/* */`` comments and trailing commas; whatever follows the
first value is ignored. Numbers are JSON's own (NaN and infinities are written as strings). Unlike the tool, which takes
the first of two equal keys, a repeated key is refused: one of the two would be lost in silence.

The parser keeps its own stack and limits the depth, so that no input can exhaust Python's.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

from dmlvk.errors import DmlError, ModelFileError

MAXIMUM_DEPTH = 100  # Levels of nested arrays and objects that are read; model files need fewer than ten

MAXIMUM_FILE_BYTES = 64 * 2**20  # Largest model file that is read; larger amounts of data belong into .npy files

_MAXIMUM_NUMBER_LENGTH = 1000

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[^\s,\]}\[{\":/]+")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder()


class SourceText:
    """The text of one file, and the places in it.

    Args:
        label: what the file is called in messages.
    """

    def __init__(self, label: str, text: str) -> None:
        self.label = label
        self.text = text
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at ``offset``, both counted from 1."""
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def error(self, offset: int, message: str) -> ModelFileError:
        """The error to raise for what stands at ``offset``."""
        line, column = self.position(offset)
        return ModelFileError(f"{self.label}:{line}:{column}: {message}")


@dataclasses.dataclass(slots=True)
class JsonNode:
    source: SourceText  # the text that it stands in
    offset: int  # index of its first character
    # ``None``, a bool, int, float or str, a list of nodes, or a dict from keys to nodes
    value: bool | int | float | str | list[JsonNode] | dict[str, JsonNode] | None
    key_offsets: dict[str, int] | None = None  # for an object, where each key stands

    @property
    def kind(self) -> str:
        """What it is, in words: ``"an array"``."""
        if self.value is None:
            return "null"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, (int, float)):
            return f"the number {self.value!r}"
        if isinstance(self.value, str):
            return f"the string {shortened(self.value)}"
        return "an array" if isinstance(self.value, list) else "an object"

    @property
    def location(self) -> str:
        """``file:line:column`` of the value."""
        line, column = self.source.position(self.offset)
        return f"{self.source.label}:{line}:{column}"

    def error(self, message: str) -> ModelFileError:
        return self.source.error(self.offset, message)

    def key_error(self, key: str, message: str) -> ModelFileError:
        """The error to raise for the key ``key`` of this object."""
        offset = self.offset if self.key_offsets is None else self.key_offsets.get(key, self.offset)
        return self.source.error(offset, message)

    @contextlib.contextmanager
    def located(self, what: str = "") -> Iterator[None]:
        """Gives every :class:`DmlError` raised inside this value's place, and ``what`` as the start of its message."""
        try:
            yield
        except ModelFileError:
            raise
        except DmlError as error:
            raise self.error(f"{what}{error}") from error


def shortened(text: str, length: int = 60) -> str:
    """``text`` in quotes, cut where it is long."""
    return repr(text) if len(text) <= length else f"{text[:length]!r}…"


def read_json_file(path: Path) -> JsonNode:
    """Reads the first JSON value of a file.

    Raises:
        ModelFileError: when the file cannot be read, is not UTF-8, is too large, or breaks a rule of the dialect.
    """
    label = str(path)

    def failed(message: str) -> ModelFileError:
        return ModelFileError(f"{label}:1:1: {message}")

    try:
        if not path.is_file():
            reason = "it is not a regular file" if path.exists() else "there is no such file"
            raise failed(f"cannot read the model file: {reason}")
        if path.stat().st_size > MAXIMUM_FILE_BYTES:
            raise failed(
                f"the model file has {path.stat().st_size} bytes; at most {MAXIMUM_FILE_BYTES} are read "
                "(keep large values in .npy files)"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise failed(f"cannot read the model file: {_reason(error)}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        raise SourceText(label, before).error(len(before), "the model file is not UTF-8 text") from error
    return parse_json(text, label)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def parse_json(text: str, label: str) -> JsonNode:
    """Reads the first JSON value of ``text``; ``label`` is what errors call the file.

    Raises:
        ModelFileError: when the text breaks a rule of the dialect.
    """
    return _Parser(SourceText(label, text)).parse()


class _Parser:
    """One pass over a text. Open arrays and objects are kept on a stack of nodes."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._text = source.text
        self._offset = 0
        self._stack: list[JsonNode] = []

    def parse(self) -> JsonNode:
        self._skip_space()
        node = self._open_value()
        while self._stack:
            container = self._stack[-1]
            child = self._next_child(container)
            if child is None:
                self._stack.pop()
        return node

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._offset)
        assert match is not None  # the pattern also matches nothing
        self._offset = match.end()
        if self._text.startswith("/*", self._offset):
            raise self._source.error(self._offset, "this comment has no end")

    def _next_child(self, container: JsonNode) -> JsonNode | None:
        """Reads the next element or member of the innermost open container; ``None`` at its end."""
        is_array = isinstance(container.value, list)
        closing, name = ("]", "array") if is_array else ("}", "object")
        self._skip_space()
        if container.value:
            if self._peek() == ",":
                self._offset += 1
                self._skip_space()
            elif self._peek() != closing:
                raise self._unexpected(f"expected ',' or '{closing}'", container, name)
        if self._peek() == closing:
            self._offset += 1
            return None
        if isinstance(container.value, list):
            child = self._open_value()
            container.value.append(child)
            return child
        return self._member(container)

    def _member(self, container: JsonNode) -> JsonNode:
        if self._peek() != '"':
            raise self._unexpected("expected a key in double quotes or '}'", container, "object")
        key_offset = self._offset
        key = self._string()
        assert isinstance(container.value, dict) and container.key_offsets is not None
        if key in container.key_offsets:
            line, _ = self._source.position(container.key_offsets[key])
            raise self._source.error(key_offset, f"the key {shortened(key)} is already in line {line} of this object")
        self._skip_space()
        if self._peek() != ":":
            raise self._unexpected(f"expected ':' after the key {shortened(key)}", container, "object")
        self._offset += 1
        self._skip_space()
        child = self._open_value()
        container.key_offsets[key] = key_offset
        container.value[key] = child
        return child

    def _peek(self) -> str:
        return self._text[self._offset : self._offset + 1]

    def _unexpected(self, expected: str, container: JsonNode | None = None, name: str = "") -> ModelFileError:
        found = self._peek()
        if found:
            word = _WORD.match(self._text, self._offset)
            return self._source.error(self._offset, f"{expected}, found {shortened(word[0] if word else found, 20)}")
        opened = f" (the {name} began in line {self._source.position(container.offset)[0]})" if container else ""
        return self._source.error(self._offset, f"{expected}, found the end of the file{opened}")

    def _open_value(self) -> JsonNode:
        """Reads a scalar, or opens an array or object and puts it on the stack."""
        offset = self._offset
        first = self._peek()
        if first in ("[", "{") and first:
            if len(self._stack) == MAXIMUM_DEPTH:
                raise self._source.error(offset, f"arrays and objects are nested more than {MAXIMUM_DEPTH} deep")
            self._offset += 1
            node = JsonNode(self._source, offset, [] if first == "[" else {}, None if first == "[" else {})
            self._stack.append(node)
            return node
        if first == '"':
            return JsonNode(self._source, offset, self._string())
        match = _NUMBER.match(self._text, offset)
        word = _WORD.match(self._text, offset)
        if match is not None and word is not None and match.end() == word.end():
            return JsonNode(self._source, offset, self._number(match))
        if word is not None and word[0] in _LITERALS:
            self._offset = word.end()
            return JsonNode(self._source, offset, _LITERALS[word[0]])
        if word is not None and word[0].lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise self._source.error(
                offset, f'{shortened(word[0])} is not JSON; write "nan", "inf" or "-inf" in quotes'
            )
        raise self._unexpected("expected a value")

    def _number(self, match: re.Match[str]) -> int | float:
        if len(match[0]) > _MAXIMUM_NUMBER_LENGTH:
            raise self._source.error(self._offset, f"this number has {len(match[0])} characters")
        is_integer = match[1] is None and match[2] is None
        value = int(match[0]) if is_integer else float(match[0])
        if isinstance(value, float) and math.isinf(value):
            raise self._source.error(self._offset, f'{shortened(match[0])} is too large; write "inf" for infinity')
        self._offset = match.end()
        return value

    def _string(self) -> str:
        start = self._offset
        try:
            text, self._offset = _DECODER.raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            what = error.msg.removesuffix(" at").removesuffix(" starting")
            raise self._source.error(error.pos, f"this is no string of JSON: {what}") from error
        if _HALF_PAIR.search(text):
            raise self._source.error(start, "half of a surrogate pair stands alone in this string")
        return str(text)
