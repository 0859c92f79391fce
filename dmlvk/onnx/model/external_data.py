"""Contents of tensors that lie in files: in the model's own, or in others of its folder, and nowhere else."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no annotations
from onnx import TensorProto, helper

from dmlvk.onnx.model.large_tensors import LEAST_BYTES, STORED_AS_IN_MEMORY, without_large_tensors
from dmlvk.onnx.nodes.values import Array
from dmlvk.support.files import open_regular, read_bytes
from dmlvk.support.mapped_files import MappedFile, MemoryContents

_MAY_MAP = sys.byteorder == "little"
_MAY_MAP_MODELS = _MAY_MAP and os.name != "nt"
"""Windows lets nobody write to a mapped file, or delete it; programs do both with a model's."""


class ExternalData:
    """Reads tensors of one model. Large ones stay in their file, as ONNX Runtime leaves weights that lie outside the
    model's file: they are not copied into memory before the device has them.

    Args:
        model: the model's file, in whose folder files may lie; ``None``: nowhere. Where it is a link, as in caches of
            downloads, so may they in the folder that it leads to.
    """

    def __init__(self, model: Path | None) -> None:
        self._folder = None if model is None else model.parent
        self._model = model
        self._own: MappedFile | MemoryContents | None = None
        self._mapped: dict[Path, MappedFile] = {}

    def model_at(self, path: Path) -> bytes:
        """The contents of the model's own file, where large tensors may be external data of that file.

        Raises:
            OSError, ValueError: when it cannot be read.
        """
        if not _MAY_MAP_MODELS or not path.is_file() or path.stat().st_size < LEAST_BYTES:
            return read_bytes(path)
        file = MappedFile.opened(path)
        try:
            contents = without_large_tensors(file)
        except (ValueError, DecodeError):  # whoever parses it says what is wrong
            return file[:]
        file.release()
        self._own = file
        return contents

    def model_in(self, contents: bytes) -> bytes:
        """A model that is given as bytes, where large tensors may be external data of these: they are not copied."""
        if not _MAY_MAP or len(contents) < LEAST_BYTES:
            return contents
        in_memory = MemoryContents(contents)
        try:
            rewritten = without_large_tensors(in_memory)
        except (ValueError, DecodeError):  # whoever parses it says what is wrong
            return contents
        self._own = in_memory
        return rewritten

    def read(self, tensor: TensorProto, *, may_be_mapped: bool) -> Array | None:
        """Takes a tensor's contents from its file.

        Args:
            tensor: what is read; it is external no more afterwards.
            may_be_mapped: whether they may stay in the file.

        Returns:
            A view of the file; ``None`` where the tensor was given its contents.

        Raises:
            OSError, ValueError: saying which rule the tensor breaks, or what is wrong with the file.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self._own is not None and location == self._own.path.name:
            path = self._own.path
        else:
            path = self._path_of(location)
        try:
            width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            size = math.prod(tensor.dims) * width
            if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4):
                size = -(-math.prod(tensor.dims) // 2)
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", size))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"its external data is not described: {error}") from error
        mapped = self._contents(tensor, path, location, (offset, length, size), may_be_mapped=may_be_mapped)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
        return mapped

    def _contents(
        self, tensor: TensorProto, path: Path, location: str, extent: tuple[int, int, int], *, may_be_mapped: bool
    ) -> Array | None:
        """A view of a file's bytes, or ``None`` where they were copied into the tensor."""
        offset, length, _ = extent
        own = self._own if self._own is not None and path == self._own.path else None
        stays = _MAY_MAP and may_be_mapped and length >= LEAST_BYTES and tensor.data_type in STORED_AS_IN_MEMORY
        kind, shape = helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
        if own is not None:
            _check_extent(location, extent, own.length)
            if stays:
                return own.array(kind, offset, shape)
            tensor.raw_data = own[offset : offset + length]
            return None
        with open_regular(path) as file:
            _check_extent(location, extent, os.fstat(file.fileno()).st_size)
            if stays:
                mapped = self._mapped.get(path) or self._mapped.setdefault(path, MappedFile.opened(path))
                return mapped.array(kind, offset, shape)
            file.seek(offset)
            tensor.raw_data = file.read(length)
        return None

    def _path_of(self, location: str) -> Path:
        if self._folder is None or self._model is None:
            raise ValueError(f"its data lies in another file {location!r}; give the model as a path")
        try:
            folder = self._folder.resolve()
            path = (folder / location).resolve() if location and "\0" not in location else folder
            is_inside = folder in path.parents or (_stays(location) and self._model.resolve().parent == path.parent)
            is_there = location and not os.path.isabs(location) and is_inside and path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # names that are too long, links that lead in circles
            raise ValueError(f"its data must lie in a file of the model's folder: {error}") from error
        if not is_there:
            is_missing = location and not os.path.isabs(location) and is_inside and not path.exists()
            what = f"there is no file {path}" if is_missing else f"got {location!r}"
            raise ValueError(f"its data must lie in a file inside the model's folder; {what}")
        return path


def _stays(location: str) -> bool:
    """Whether a relative path leads to nothing outside by its own words."""
    return ".." not in Path(location).parts


def _check_extent(location: str, extent: tuple[int, int, int], there: int) -> None:
    offset, length, size = extent
    if length != size or offset < 0 or offset + length > there:
        raise ValueError(
            f"{size} bytes are needed; {length} from byte {offset} on of {location!r} with {there} bytes are no such"
        )
