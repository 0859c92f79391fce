"""Arrays in files that are larger than memory: read and written block by block."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute
from dask.diagnostics.progress import ProgressBar

from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import check_regular

_THREADS = 3  # One waits for a file to be read, one for the device, one for a file to be written


def from_npy(path: str | os.PathLike[str], chunks: Any = "auto") -> da.Array:
    """A .npy file as an array of Dask's, of which every block is read where and when it is computed.

    A file that is written or replaced afterwards is refused when a block of it is read.

    Args:
        path: the file, under which all workers find it.
        chunks: sizes of the blocks, as ``dask.array.from_array`` takes them.

    Raises:
        InvalidArgumentError: when it is no such file.
    """
    try:
        source = _NpySource(os.path.abspath(path))
    except Exception as error:  # the header is parsed as Python: a damaged one fails in many ways
        words = " ".join(str(error).split()) or type(error).__name__
        shown = path if isinstance(path, (str, os.PathLike)) else repr(path)
        raise InvalidArgumentError(f"from_npy: {shown}: {words}") from error
    made: da.Array = da.from_array(source, chunks=chunks, meta=np.empty((0,) * source.ndim, source.dtype))
    return made


def store(
    arrays: da.Array | Sequence[da.Array],  # one, or several that are computed together
    # a path for each, by whose ending the format is chosen. What is there is overwritten
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    progress: bool = False,  # whether to show a bar
    threads: int = _THREADS,  # how many, where there is no client
) -> None:
    """Computes arrays and writes them to .npy files or .zarr folders, a block when it is there.

    Without a client of ``distributed`` threads of this process share its device: while one waits for it, others read
    and write, and as many blocks are in memory as there are threads.

    Raises:
        InvalidArgumentError: when paths and arrays do not fit together, an ending means nothing, or a file
            cannot be written.
    """
    several = [arrays] if isinstance(arrays, da.Array) else list(arrays)
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not several or len(several) != len(listed):
        raise InvalidArgumentError(f"store: needs a path for each array; got {len(listed)} for {len(several)}")
    tasks = []
    for array, path in zip(several, listed, strict=True):
        try:
            tasks.append(_stored(array, Path(path)))
        except OSError as error:
            raise InvalidArgumentError(f"store: {path}: {error}") from error
    client = _client()
    if client is not None:
        futures = client.compute(tasks)
        if progress:
            from distributed.diagnostics.progressbar import progress as shown

            shown(futures, notebook=False)
            print()
        client.gather(futures)
    elif progress:
        with ProgressBar():
            compute(*tasks, scheduler="threads", num_workers=threads)
    else:
        compute(*tasks, scheduler="threads", num_workers=threads)


def _stored(array: da.Array, path: Path) -> Any:
    if path.suffix == ".npy":
        created = np.lib.format.open_memmap(path, "w+", np.dtype(array.dtype), array.shape)  # full of holes
        del created
        writable: Any = _NpyTarget(os.path.abspath(path))
        return da.store(array, writable, lock=False, compute=False)
    if path.suffix == ".zarr":
        return da.to_zarr(array, os.fspath(path), overwrite=True, compute=False)
    raise InvalidArgumentError(f"store: {path}: the ending must be .npy or .zarr")


def _client() -> Any:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


class _NpySource:
    """A .npy file to read blocks from; every one opens it anew, so that none travels and nothing stays mapped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._version = _version(path)
        opened = _mapped(path)
        self.shape, self.dtype, self.ndim = opened.shape, opened.dtype, opened.ndim

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        # Read here, by a thread that has nothing else to do, and not when the device waits for it.
        try:
            block = np.array(_mapped(self._path)[index])
            is_same = _version(self._path) == self._version
        except MemoryError:
            raise
        except Exception as error:  # another file in its place, which may be damaged
            raise InvalidArgumentError(f"from_npy: {self._path}: cannot be read any more: {error}") from error
        if not is_same:
            raise InvalidArgumentError(f"from_npy: {self._path}: has changed since it was opened")
        return block

    def __dask_tokenize__(self) -> object:
        return "dmlvk.dask.from_npy", self._path, self._version


def _version(path: str) -> tuple[int, int]:
    """Differs from what it was when another file has come into the place of one, or it was written."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _mapped(path: str) -> np.ndarray[Any, Any]:
    check_regular(path)
    opened = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(opened, np.ndarray):
        raise ValueError("is an archive of arrays, not a .npy file")
    return opened


class _NpyTarget:
    """A .npy file that is there, to write blocks to."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __setitem__(self, index: Any, block: np.ndarray[Any, Any]) -> None:
        np.load(self._path, mmap_mode="r+", allow_pickle=False)[index] = block

    def __dask_tokenize__(self) -> object:
        return "dmlvk.dask.store", self._path
