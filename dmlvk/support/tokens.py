"""Short texts that are equal for what computes the same, in every process: the names that Dask gives to results."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def token_of(value: Any) -> str:
    """A digest of a description, or of what descriptions are made of.

    Floating-point numbers count by their bits, arrays by data type, shape and bytes.
    """
    digest = hashlib.sha256()
    for part in _parts(value):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes | memoryview]:
    """The value as bytes from which it could be told, each part with its kind and length before it."""
    if isinstance(value, enum.Enum):
        yield _part("enum", f"{type(value).__name__} {value.value!r}".encode())
    elif value is None or isinstance(value, (bool, int, str)):
        yield _part(type(value).__name__, repr(value).encode())
    elif isinstance(value, float):
        yield _part("float", struct.pack("<d", value))
    elif isinstance(value, bytes):
        yield _part("bytes", value)
    elif isinstance(value, (np.ndarray, np.generic)):
        yield from _parts_of_array(np.asarray(value))
    elif isinstance(value, type):
        yield _part("class", value.__qualname__.encode())
    elif isinstance(value, Mapping):
        yield _part("mapping", str(len(value)).encode())
        for key in sorted(value):
            yield from _parts(key)
            yield from _parts(value[key])
    elif isinstance(value, (tuple, list)):
        yield _part("sequence", str(len(value)).encode())
        for item in value:
            yield from _parts(item)
    elif hasattr(value, "__dask_tokenize__"):
        yield _part(type(value).__name__, repr(value.__dask_tokenize__()).encode())
    else:
        yield from _parts_of_fields(value)


def _parts_of_fields(value: Any) -> Iterator[bytes | memoryview]:
    """Those of a dataclass's instance; of anything else there is a TypeError."""
    members = dataclasses.fields(value)
    yield _part("fields of", f"{type(value).__qualname__} {len(members)}".encode())
    for member in members:
        yield _part("field", member.name.encode())
        yield from _parts(getattr(value, member.name))


def _parts_of_array(array: np.ndarray[Any, Any]) -> Iterator[bytes | memoryview]:
    if array.dtype.hasobject:
        items = [item if isinstance(item, (str, bytes)) else repr(item) for item in array.flat]
        yield from _parts(["array of objects", array.shape, items])
        return
    yield _part("array", f"{array.dtype!r} {array.shape}".encode())
    yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""


def _part(kind: str, contents: bytes) -> bytes:
    return f"{kind} {len(contents)} ".encode() + contents
