"""Leaves large weights in a model's file: what is parsed is the file without them, and says where they lie.

Protocol Buffers would copy them. A file is a message of nested fields, each with its number and its length
(https://protobuf.dev/programming-guides/encoding), so weights are found without parsing what is between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no annotations
from onnx import TensorProto, helper

from dmlvk.support.mapped_files import MappedFile, MemoryContents

LEAST_BYTES = 2**16  # Bytes of a tensor from which on it stays in its file

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of fields; the number and kind of a field are in its first integer."""

_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BYTES = 10

_GRAPH_OF_MODEL = 7
_NODE_OF_GRAPH, _INITIALIZER_OF_GRAPH = 1, 5
_ATTRIBUTE_OF_NODE, _TENSOR_OF_ATTRIBUTE = 5, 5
_RAW_DATA = 9

_CHILDREN = {
    "model": {_GRAPH_OF_MODEL: "graph"},
    "graph": {_NODE_OF_GRAPH: "node", _INITIALIZER_OF_GRAPH: "tensor"},
    "node": {_ATTRIBUTE_OF_NODE: "attribute"},
    "attribute": {_TENSOR_OF_ATTRIBUTE: "tensor"},
}
"""The messages in which weights lie, by the number of the field."""

_LEFT = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8))
"""Element types of weights that the device reads. All others are for the host, which may need them in every run."""

_BITS = (8, 16, 32, 64)
STORED_AS_IN_MEMORY = frozenset(
    (
        *(TensorProto.DataType.Value(f"{kind}{bits}") for kind in ("INT", "UINT") for bits in _BITS),
        *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL),
    )
)
"""Element types that NumPy has itself, whose elements lie in files as little-endian machines have them in memory."""


class _MessageField(NamedTuple):
    """A field of a message: where it begins, where its contents do, and where it ends."""

    number: int
    kind: int
    begin: int
    contents: int
    end: int


def without_large_tensors(file: MappedFile | MemoryContents) -> bytes:
    """A model's file in which large initializers and constants are external data of the same file.

    Raises:
        ValueError: when it is no message.
    """
    rewritten = _without(file, 0, file.length, "model")
    return file[:] if rewritten is None else b"".join(rewritten)


def _without(file: MappedFile | MemoryContents, begin: int, end: int, kind: str) -> list[bytes] | None:
    """The parts of a message without large tensors; ``None``: it has none."""
    if kind == "tensor":
        return _tensor(file, begin, end)
    children = _CHILDREN[kind]
    parts: list[bytes] = []
    copied = begin
    for field in _fields(file, begin, end):
        child = children.get(field.number) if field.kind == _BYTES else None
        if child is None or field.end - field.contents < LEAST_BYTES:
            continue
        inside = _without(file, field.contents, field.end, child)
        if inside is None:
            continue
        tag = field.number << 3 | _BYTES
        parts += [file[copied : field.begin], bytes([tag]), _varint(sum(map(len, inside))), *inside]
        copied = field.end
    return [*parts, file[copied:end]] if parts else None


def _tensor(file: MappedFile | MemoryContents, begin: int, end: int) -> list[bytes] | None:
    """A tensor that refers to its contents; ``None`` where these are small, or not of its type's and shape's size."""
    fields = list(_fields(file, begin, end))
    contents = [field for field in fields if field.number == _RAW_DATA and field.kind == _BYTES]
    if len(contents) != 1 or contents[0].end - contents[0].contents < LEAST_BYTES:
        return None
    raw = contents[0]
    tensor = TensorProto()
    try:
        tensor.ParseFromString(file[begin : raw.begin] + file[raw.end : end])
    except DecodeError:
        return None
    if tensor.data_type not in _LEFT or tensor.data_location == TensorProto.EXTERNAL:
        return None
    length, sizes = raw.end - raw.contents, list(tensor.dims)
    width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    if min(sizes, default=0) < 0 or math.prod(sizes) * width != length:
        return None
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file.path.name), ("offset", str(raw.contents)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return [tensor.SerializeToString()]


def _fields(file: MappedFile | MemoryContents, begin: int, end: int) -> Iterator[_MessageField]:
    position = begin
    while position < end:
        tag, contents = _read_varint(file, position, end)
        kind = tag & 7
        if kind == _VARINT:
            _, after = _read_varint(file, contents, end)
        elif kind == _BYTES:
            length, contents = _read_varint(file, contents, end)
            after = contents + length
        elif kind in _WIDTHS:
            after = contents + _WIDTHS[kind]
        else:
            raise ValueError(f"a field of kind {kind} at byte {position}")
        if after > end:
            raise ValueError(f"a field at byte {position} ends behind its message")
        yield _MessageField(tag >> 3, kind, position, contents, after)
        position = after


def _read_varint(file: MappedFile | MemoryContents, position: int, end: int) -> tuple[int, int]:
    """An integer, seven bits to a byte, and where it ends."""
    value = 0
    for index, byte in enumerate(file[position : min(end, position + _MOST_VARINT_BYTES)]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise ValueError(f"an integer at byte {position} does not end")


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
