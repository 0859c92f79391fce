"""The ``resources`` of a model file: named buffers and the values that they begin with.

Everything is checked when the file is read, sizes included; large values are made or read only when a buffer for them
exists, so that a count with too many zeros ends in a message and not in an exhausted machine.
"""

from __future__ import annotations

import contextvars
import dataclasses
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.models import images
from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.values import (
    UINT32_MAX,
    Members,
    array,
    data_type,
    integer,
    integers,
    string,
    typed_array,
    typed_value,
)
from dmlvk.support.files import check_regular, read_bytes

FILES_BELOW: contextvars.ContextVar[Path | None] = contextvars.ContextVar("FILES_BELOW", default=None)
"""The folder in which files must lie, resolved, while a model file is loaded; ``None``: anywhere."""

MAXIMUM_BUFFER_BYTES = 2**32 - 4  # Largest buffer that a resource may ask for; a device's own limit may be lower

_SIZE_ALIGNMENT = 4


class Values(Protocol):
    """Values that fill a part of a buffer."""

    @property
    def size_in_bytes(self) -> int:
        """How many bytes :meth:`read` returns."""

    def read(self) -> npt.NDArray[Any]:
        """The values, as a flat array.

        Raises:
            InvalidArgumentError: when a file cannot be read (any more).
        """


@dataclasses.dataclass(frozen=True)
class ArrayValues:
    array: npt.NDArray[Any]

    @property
    def size_in_bytes(self) -> int:
        return self.array.nbytes

    def read(self) -> npt.NDArray[Any]:
        return self.array


@dataclasses.dataclass(frozen=True)
class MixedValues(ArrayValues):
    """A list of values with a type each, packed without gaps; the array holds their bytes."""


@dataclasses.dataclass(frozen=True)
class ConstantValues:
    value: np.generic
    count: int

    @property
    def size_in_bytes(self) -> int:
        return self.value.nbytes * self.count

    def read(self) -> npt.NDArray[Any]:
        return np.full(self.count, self.value, self.value.dtype)


@dataclasses.dataclass(frozen=True)
class SequenceValues:
    """``start``, ``start + delta``, …: each value is the one before plus ``delta`` in the element type.

    Integers wrap around; floats are rounded at every step, so that long sequences drift as they do in DxDispatch.
    """

    start: np.generic
    delta: np.generic
    count: int

    @property
    def size_in_bytes(self) -> int:
        return self.start.nbytes * self.count

    def read(self) -> npt.NDArray[Any]:
        values = np.full(self.count, self.delta, self.start.dtype)
        values[0] = self.start
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.accumulate(values, dtype=values.dtype, out=values)
        return values


@dataclasses.dataclass(frozen=True)
class NpyValues:
    """The array of a .npy file, in row-major order and this machine's byte order."""

    path: Path
    element_type: DataType
    sizes: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, element_type: DataType) -> NpyValues:
        """Reads the header of a .npy file.

        Args:
            element_type: the type that the elements must have, or UNKNOWN for any.

        Raises:
            InvalidArgumentError: when it cannot be read, or holds elements of another type.
        """
        stored = _map_npy(path)
        try:
            stored_type = DataType.from_name(stored.dtype.newbyteorder("=").name.upper())
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"{str(path)!r} holds elements of type {str(stored.dtype)!r}, which no tensor has"
            ) from None
        if element_type not in (DataType.UNKNOWN, stored_type):
            raise InvalidArgumentError(f"{str(path)!r} holds {stored_type.name}; {element_type.name} is wanted")
        return cls(path, stored_type, tuple(int(size) for size in stored.shape))

    @property
    def size_in_bytes(self) -> int:
        return int(np.prod(self.sizes, dtype=object)) * self.element_type.size_in_bytes

    def read(self) -> npt.NDArray[Any]:
        stored = _map_npy(self.path)
        if stored.shape != self.sizes or stored.dtype.newbyteorder("=") != self.element_type.numpy_dtype:
            raise InvalidArgumentError(f"{str(self.path)!r} has changed since it was first read")
        return np.array(stored, self.element_type.numpy_dtype, order="C").reshape(-1)


def _map_npy(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, not yet read into memory.

    Raises:
        InvalidArgumentError: when the file is no .npy file, is cut off, or holds Python objects.
    """
    try:
        check_regular(path)
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # the header is parsed as Python: a damaged one fails in many ways
        words = " ".join(str(error).split()) or type(error).__name__
        raise InvalidArgumentError(f"{str(path)!r} cannot be read as a .npy file: {words}") from error
    if not isinstance(stored, np.ndarray):
        raise InvalidArgumentError(f"{str(path)!r} is an archive of arrays, not a .npy file")
    return stored


@dataclasses.dataclass(frozen=True)
class PictureValues:
    """A picture in the order N, C, H, W."""

    path: Path
    shape: images.PictureShape
    element_type: DataType

    @property
    def size_in_bytes(self) -> int:
        return self.shape.element_count * self.element_type.size_in_bytes

    def read(self) -> npt.NDArray[Any]:
        return images.read_picture(self.path, self.shape, self.element_type)


@dataclasses.dataclass(frozen=True)
class RawValues:
    path: Path
    size_in_bytes: int

    @classmethod
    def open(cls, path: Path) -> RawValues:
        """Asks for the size of a file.

        Raises:
            InvalidArgumentError: when it cannot be read.
        """
        try:
            check_regular(path)
            return cls(path, path.stat().st_size)
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or error
            raise InvalidArgumentError(f"{str(path)!r} cannot be read: {words}") from error

    def read(self) -> npt.NDArray[Any]:
        try:
            data = read_bytes(self.path)
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or error
            raise InvalidArgumentError(f"{str(self.path)!r} cannot be read: {words}") from error
        if len(data) != self.size_in_bytes:
            raise InvalidArgumentError(f"{str(self.path)!r} has changed since it was first read")
        return np.frombuffer(data, np.uint8)


@dataclasses.dataclass(frozen=True)
class DeferredValues:
    """Values that an ONNX model will give, with its memory."""

    @property
    def size_in_bytes(self) -> int:
        return 0

    def read(self) -> npt.NDArray[Any]:
        return np.empty(0, np.uint8)


@dataclasses.dataclass(frozen=True)
class Resource:
    name: str  # its key in the file
    node: JsonNode  # where it stands
    values: Values  # what it begins with; bytes around them begin as zero
    values_offset: int  # byte offset of the values
    size_in_bytes: int  # size of the buffer
    element_types: tuple[DataType, ...]  # the type of all elements (one entry), or of each element of a mixed list
    sizes: tuple[int, ...] | None  # dimensions of the values where they are known (pictures, .npy files)
    is_size_given: bool  # whether the file states ``sizeInBytes``; otherwise the size is that of the values, rounded up

    @property
    def element_type(self) -> DataType | None:
        """The type of all elements; ``None`` for a mixed list."""
        return self.element_types[0] if not self.is_mixed else None

    @property
    def is_mixed(self) -> bool:
        """Whether it was given as a list of typed values (HLSL constants)."""
        return isinstance(self.values, MixedValues)

    @property
    def is_deferred(self) -> bool:
        """Whether an ONNX model is yet to give its size and contents."""
        return isinstance(self.values, DeferredValues)

    @property
    def deferred_type(self) -> DataType:
        """The type that a model may give; UNKNOWN: any."""
        return self.element_types[0]

    @property
    def element_count(self) -> int:
        """How many elements the initial values have: what ``print`` and ``expect`` look at."""
        if self.is_deferred:
            return 0
        if self.is_mixed:
            return len(self.element_types)
        return self.values.size_in_bytes // self.element_types[0].size_in_bytes

    @property
    def stored_element_count(self) -> int:
        """How many elements the whole buffer has, without the bytes that only round its size up."""
        size = self.size_in_bytes if self.is_size_given else self.values_offset + self.values.size_in_bytes
        return size // self.element_types[0].size_in_bytes

    @property
    def buffer_size_in_bytes(self) -> int:
        """The size of the buffer to make: a multiple of 4 also where the file states another size."""
        return -(-self.size_in_bytes // _SIZE_ALIGNMENT) * _SIZE_ALIGNMENT

    def split(self, contents: bytes) -> list[np.generic]:
        """The elements of a mixed list, each in its own type."""
        elements: list[np.generic] = []
        offset = self.values_offset
        for element_type in self.element_types:
            elements.append(np.frombuffer(contents, element_type.numpy_dtype, 1, offset)[0])
            offset += element_type.size_in_bytes
        return elements


def parse_resource(name: str, node: JsonNode, directory: Path) -> Resource:
    """Reads one entry of ``resources``.

    Args:
        directory: where the model file lies; ``sourcePath`` is looked up there, then in the current directory.

    Raises:
        ModelFileError: when it breaks a rule of the format, or a file cannot be read.
    """
    what = f"the resource {shortened(name)}"
    members = Members(node, what)
    type_node = members.optional("initialValuesDataType")
    element_type = DataType.UNKNOWN if type_node is None else data_type(type_node, "initialValuesDataType")
    initial = members.required("initialValues")
    if initial.value == "deferred":
        members.finish()
        return Resource(name, node, DeferredValues(), 0, 0, (element_type,), None, False)
    picture = PictureOptions.parse(members)
    values, element_types = parse_values(initial, element_type, directory, "initialValues", picture)
    if picture.first_node is not None and not isinstance(values, PictureValues):
        raise picture.first_node.error(f"{what}: resampleSize and resampleMode are for pictures only")
    if values.size_in_bytes == 0:
        raise initial.error(f"{what}: initialValues must not be empty")
    size_node = members.optional("sizeInBytes")
    offset_node = members.optional("initialValuesOffsetInBytes")
    members.finish()

    offset = 0 if offset_node is None else integer(offset_node, "initialValuesOffsetInBytes", 0, MAXIMUM_BUFFER_BYTES)
    filled = values.size_in_bytes + offset
    if size_node is None:
        size = -(-filled // _SIZE_ALIGNMENT) * _SIZE_ALIGNMENT
    else:
        size = integer(size_node, "sizeInBytes", 0, MAXIMUM_BUFFER_BYTES)
        if filled > size:
            raise size_node.error(
                f"{what}: sizeInBytes is {size}, too small for {values.size_in_bytes} bytes of initial values "
                f"at byte {offset}"
            )
    if size > MAXIMUM_BUFFER_BYTES:
        raise initial.error(f"{what}: needs {size} bytes; a buffer has at most {MAXIMUM_BUFFER_BYTES}")
    sizes = values.sizes if isinstance(values, NpyValues) else None
    if isinstance(values, PictureValues):
        sizes = values.shape.sizes
    return Resource(name, node, values, offset, size, element_types, sizes, size_node is not None)


@dataclasses.dataclass(frozen=True)
class PictureOptions:
    """``resampleSize`` and ``resampleMode``; the picture's own size where the first is absent."""

    size_node: JsonNode | None = None
    mode_node: JsonNode | None = None

    @classmethod
    def parse(cls, members: Members) -> PictureOptions:
        options = cls(members.optional("resampleSize"), members.optional("resampleMode"))
        if options.mode_node is not None and string(options.mode_node, "resampleMode") != "scale":
            raise options.mode_node.error(f'resampleMode must be "scale"; got {options.mode_node.kind}')
        return options

    @property
    def first_node(self) -> JsonNode | None:
        return self.size_node or self.mode_node

    def shape(self, path: Path) -> images.PictureShape:
        if self.size_node is None:
            return images.picture_shape(path)
        sizes = integers(self.size_node, "resampleSize", 0, UINT32_MAX)
        with self.size_node.located("resampleSize: "):
            images.picture_shape(path)  # the file must be a picture all the same
            return images.PictureShape.from_sizes(sizes)


def parse_values(
    node: JsonNode, element_type: DataType, directory: Path, what: str, picture: PictureOptions | None = None
) -> tuple[Values, tuple[DataType, ...]]:
    """Reads an initializer: an array, a constant, a sequence or a file.

    Args:
        element_type: the type that the file states; UNKNOWN where it states none.
        directory: where the model file lies.
        what: the member's name, for messages.
        picture: how to resample a picture; ``None`` where pictures are not welcome.

    Returns:
        The values, and their type (one entry) or their types (a mixed list).

    Raises:
        ModelFileError: when it breaks a rule of the format, or a file cannot be read.
    """
    if isinstance(node.value, str):
        raise node.error(f"{what} must be an array or an object; got {node.kind}")
    if isinstance(node.value, list):
        if element_type is DataType.UNKNOWN:
            return _mixed_values(node, what)
        return ArrayValues(typed_array(node.value, element_type, what)), (element_type,)
    members = Members(node, what)
    forms = [name for name in ("value", "valueStart", "sourcePath") if name in members]
    if len(forms) != 1:
        listed = " and ".join(f"'{name}'" for name in forms) or "none of them"
        raise node.error(f"{what} needs exactly one of 'value', 'valueStart' and 'sourcePath'; it has {listed}")
    if forms[0] == "sourcePath":
        path_node = members.required("sourcePath")
        members.finish()
        return _file_values(path_node, element_type, directory, picture)
    if element_type is DataType.UNKNOWN:
        raise node.error(f"{what}: the data type of the values must be given (initialValuesDataType)")
    return _generated_values(members, element_type, what), (element_type,)


def _generated_values(members: Members, element_type: DataType, what: str) -> Values:
    count_node = members.required("valueCount")
    count = integer(count_node, f"{what}.valueCount", 1, UINT32_MAX)
    size = count * element_type.size_in_bytes
    if size > MAXIMUM_BUFFER_BYTES:
        raise count_node.error(
            f"{what}.valueCount: {count} elements of {element_type.name} take {size} bytes; "
            f"a buffer has at most {MAXIMUM_BUFFER_BYTES}"
        )
    if "value" in members:
        value = typed_value(members.required("value"), element_type, f"{what}.value")
        members.finish()
        return ConstantValues(value, count)
    start = typed_value(members.required("valueStart"), element_type, f"{what}.valueStart")
    delta = typed_value(members.required("valueDelta"), element_type, f"{what}.valueDelta")
    members.finish()
    return SequenceValues(start, delta, count)


def _mixed_values(node: JsonNode, what: str) -> tuple[Values, tuple[DataType, ...]]:
    types: list[DataType] = []
    parts: list[bytes] = []
    for i, item in enumerate(array(node, what)):
        where = f"{what}[{i}]"
        if not isinstance(item.value, dict):
            raise item.error(
                f"{where}: without initialValuesDataType every element is an object {{type, value}}; got {item.kind}"
            )
        members = Members(item, where)
        name_node = members.optional("name")
        if name_node is not None:
            string(name_node, f"{where}.name")
        type_node = members.required("type")
        element_type = data_type(type_node, f"{where}.type")
        if element_type in (DataType.UNKNOWN, DataType.FLOAT16):
            raise type_node.error(f"{where}.type: {element_type.name} is not possible in a list of typed values")
        value = typed_value(members.required("value"), element_type, f"{where}.value")
        members.finish()
        types.append(element_type)
        parts.append(value.tobytes())
    return MixedValues(np.frombuffer(b"".join(parts), np.uint8)), tuple(types)


def _file_values(
    node: JsonNode, element_type: DataType, directory: Path, picture: PictureOptions | None
) -> tuple[Values, tuple[DataType, ...]]:
    path = source_path(node, directory)
    with node.located("sourcePath: "):
        if path.suffix.lower() == ".npy":
            stored = NpyValues.open(path, element_type)
            return stored, (stored.element_type,)
        if picture is not None and images.is_picture(path):
            if element_type not in images.DATA_TYPES:
                accepted = ", ".join(accepted.name for accepted in images.DATA_TYPES)
                raise InvalidArgumentError(
                    f"a picture is read into {accepted} (initialValuesDataType); got {element_type.name}"
                )
            return PictureValues(path, picture.shape(path), element_type), (element_type,)
        if element_type is DataType.UNKNOWN:
            raise InvalidArgumentError("the data type of a raw file must be given (initialValuesDataType)")
        return RawValues.open(path), (element_type,)


def check_below_root(node: JsonNode, path: Path) -> None:
    """Refuses a file outside of the folder that ``load_model`` was given, before anything is asked of it."""
    root = FILES_BELOW.get()
    if root is not None and not path.resolve().is_relative_to(root):
        raise node.error(f"{shortened(os.fspath(path))} lies outside of {shortened(os.fspath(root))}")


def source_path(node: JsonNode, directory: Path) -> Path:
    """The file that ``sourcePath`` names: beside the model file, else in the current directory.

    Raises:
        ModelFileError: when there is no such file, or it cannot be read.
    """
    name = string(node, "sourcePath")
    if not name or "\0" in name:
        raise node.error(f"sourcePath must name a file; got {shortened(name)}")
    try:
        for path in (directory / name, Path(name)):
            check_below_root(node, path)
            if path.is_file():
                if not os.access(path, os.R_OK):
                    raise node.error(f"sourcePath: {shortened(name)} may not be read")
                return path
            if path.exists():
                raise node.error(f"sourcePath: {shortened(name)} is not a regular file")
    except OSError as error:  # for instance a name that is too long
        raise node.error(f"sourcePath: {shortened(name)} cannot be read: {error.strerror}") from error
    raise node.error(
        f"sourcePath: there is no file {shortened(name)}, neither beside the model file nor in the current directory"
    )
