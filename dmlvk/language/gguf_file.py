"""GGUF files: fields and tensors, read so that no file, however damaged, makes this run long or fill memory.

The layout is that of ggml's docs/gguf.md. Every count and length is compared with what is left of the file before
anything is made of it.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.gguf_blocks import BLOCKS
from dmlvk.support.mapped_files import MappedFile

_NUMBERS: Mapping[int, str] = dict(zip((0, 1, 2, 3, 4, 5, 6, 10, 11, 12), "BbHhIifQqd", strict=True))
_BOOL, _TEXT, _ARRAY = 7, 8, 9

TYPES: Mapping[int, str] = {
    **dict(enumerate(("F32", "F16", "Q4_0", "Q4_1"))),
    **dict(enumerate(("Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"), 6)),
    **dict(enumerate(("IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"), 16)),
    **dict(enumerate(("I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16"), 24)),
    **{34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"},
}
"""ggml's names of the types of tensors, by their numbers."""

_MOST_DIMENSIONS = 4
_LONGEST_NAME = 2**16


@dataclasses.dataclass(frozen=True)
class GgufTensor:
    """Where a tensor lies."""

    name: str  # its name
    kind: str  # ggml's name of its type
    sizes: tuple[int, ...]  # the one that changes fastest first
    offset: int  # bytes before it, from where all tensors begin


class GgufFile:
    """A file, which is mapped as long as an array of it is there.

    Attributes:
        path: for messages.
        fields: by name: numbers, bools, texts, lists of texts, and NumPy arrays of numbers.
        tensors: by name.

    Raises:
        ModelFileError: it cannot be read, is damaged, or is no such file.
        UnsupportedError: of another version, or with arrays of arrays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._contents = MappedFile.opened(path)
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path}: cannot be read: {error}") from error
        self._place, self._size = 0, self._contents.length
        self._read_header()

    @classmethod
    def of_fields(cls, path: Path, fields: dict[str, Any]) -> GgufFile:
        """What another file says in fields of GGUF's names, without tensors."""
        made = cls.__new__(cls)
        made.path, made.fields, made.tensors = path, fields, {}
        return made

    def contents(self, tensor: GgufTensor) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor, [rows, bytes of a row].

        Raises:
            ModelFileError: they are not all there, its rows are no whole blocks, or somebody has written to the file.
            UnsupportedError: its type is none of those that are read.
        """
        if tensor.kind not in BLOCKS:
            raise UnsupportedError(
                f"{self.path}: {tensor.name} is of the type {tensor.kind}; {', '.join(BLOCKS)} are read"
            )
        elements, width = BLOCKS[tensor.kind]
        columns, rows = tensor.sizes[0], math.prod(tensor.sizes[1:])
        size, start = columns // elements * width * rows, self._data + tensor.offset
        if columns % elements or not size:
            raise self._fault(
                f"{tensor.name} has rows of {columns} elements, of which a block of {tensor.kind} has {elements}"
            )
        if start + size > self._size:
            raise self._fault(f"{tensor.name} ends at byte {start + size} of {self._size}")
        return self._contents.array(np.uint8, start, (rows, size // rows))

    def _read_header(self) -> None:
        if self._left < 24 or self._take(4) != b"GGUF":
            raise ModelFileError(f"{self.path}: is no GGUF file: it does not begin with GGUF and three numbers")
        version = self._number("I")
        if version not in (2, 3):
            raise UnsupportedError(
                f"{self.path}: is a GGUF file of version {version}, or of big numbers first; 2 and 3 are read"
            )
        tensors, fields = self._number("Q"), self._number("Q")
        self.fields: dict[str, Any] = {}
        for _ in range(fields):
            name = self._text()
            if name in self.fields:
                raise self._fault(f"the field {name!r:.100} stands twice")
            self.fields[name] = self._value(self._number("I"), name)
        self.tensors: dict[str, GgufTensor] = {}
        for _ in range(tensors):
            tensor = self._tensor()
            if tensor.name in self.tensors:
                raise self._fault(f"the tensor {tensor.name!r:.100} stands twice")
            self.tensors[tensor.name] = tensor
        alignment = self.fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or isinstance(alignment, bool) or not 0 < alignment <= 2**20 or alignment % 8:
            raise self._fault(f"general.alignment must be a multiple of 8; got {alignment!r:.100}")
        self._data = -(-self._place // alignment) * alignment

    def _tensor(self) -> GgufTensor:
        name, count = self._text(), self._number("I")
        if not 1 <= count <= _MOST_DIMENSIONS:
            raise self._fault(f"{name!r:.100} has {count} dimensions")
        sizes = tuple(self._number("Q") for _ in range(count))
        number, offset = self._number("I"), self._number("Q")
        return GgufTensor(name, TYPES.get(number, f"number {number}"), sizes, offset)

    def _value(self, kind: int, name: str) -> Any:
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == _BOOL:
            return bool(self._number("B"))
        if kind == _TEXT:
            return self._text(self._left)
        if kind != _ARRAY:
            raise self._fault(f"{name!r:.100} is of the type {kind}, which there is not")
        inner, count = self._number("I"), self._number("Q")
        least = 8 if inner == _TEXT else struct.calcsize(f"<{_NUMBERS.get(inner, 'B')}")
        if count * least > self._left:
            raise self._fault(f"{name!r:.100} has {count} elements, but {self._left} bytes are left")
        if inner == _TEXT:
            return self._texts(count)
        if inner == _BOOL or inner in _NUMBERS:
            return np.frombuffer(self._take(count * least), f"<{_NUMBERS.get(inner, 'B')}")
        raise UnsupportedError(
            f"{self.path}: {name!r:.100} is an array of the type {inner}; of numbers and texts they are read"
        )

    def _text(self, most: int = _LONGEST_NAME) -> str:
        length = self._number("Q")
        if length > most:
            raise self._fault(f"a text of {length} bytes")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._fault(f"a text that is no UTF-8: {error}") from error

    def _texts(self, count: int) -> list[str]:
        """Texts, one behind the other: vocabularies have hundreds of thousands."""
        contents, length_of, size, place = self._contents, struct.Struct("<Q").unpack_from, self._size, self._place
        texts = []
        try:
            for _ in range(count):
                (length,) = length_of(contents, place)
                place += 8 + length
                if place > size:
                    raise self._fault(f"a text of {length} bytes")
                texts.append(contents[place - length : place].decode())
        except UnicodeDecodeError as error:
            raise self._fault(f"a text that is no UTF-8: {error}") from error
        except struct.error as error:
            raise self._fault(f"8 bytes are wanted where {size - place} are left") from error
        self._place = place
        return texts

    @property
    def _left(self) -> int:
        """Bytes of the file that were not read yet."""
        return self._size - self._place

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))
        return value

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise self._fault(f"{count} bytes are wanted where {self._left} are left")
        self._place += count
        return self._contents[self._place - count : self._place]

    def _fault(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: is a damaged GGUF file: {what}")
