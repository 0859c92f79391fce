"""Arrays in files, read and written block by block: what is in memory at a time does not grow with the file."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.dask import from_npy, map_blocks, store
from dmlvk.dask.files import _NpySource, _NpyTarget
from dmlvk.objects import portable

VALUES = np.arange(60 * 40, dtype=np.float32).reshape(60, 40)


@pytest.fixture(autouse=True)
def shared_device(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    process = portable._ProcessState()
    process.devices[dml.FeatureLevel.LEVEL_6_4] = any_device
    monkeypatch.setattr(portable, "_process", process)
    yield


def saved(folder: Path, values: npt.NDArray[Any] = VALUES) -> Path:
    path = folder / "values.npy"
    np.save(path, values)
    return path


@pytest.mark.parametrize("values", [VALUES, np.asfortranarray(VALUES), VALUES.astype(">f4")], ids=["c", "f", "swapped"])
def test_from_file_to_file(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    array = from_npy(saved(tmp_path, values), (25, 40))
    assert array.chunks == ((25, 25, 10), (40,))
    made = map_blocks(lambda x: {"more": x + 1, "less": x[:, ::2] - 1}, array.astype(np.float32))
    store([made["more"], made["less"]], [tmp_path / "more.npy", tmp_path / "less.zarr"])
    more = np.load(tmp_path / "more.npy", mmap_mode="r")
    assert more.dtype == np.float32 and more.flags.c_contiguous
    np.testing.assert_array_equal(more, VALUES + 1)
    less = da.from_zarr(tmp_path / "less.zarr")
    np.testing.assert_array_equal(less.compute(), VALUES[:, ::2] - 1)
    store(map_blocks(lambda x: -x, less), tmp_path / "more.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "more.npy"), 1 - VALUES[:, ::2])


def test_as_many_blocks_are_in_memory_as_there_are_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the reading of a block to the writing of its result."""
    lock, there, most, read, write = threading.Lock(), 0, 0, _NpySource.__getitem__, _NpyTarget.__setitem__

    def reading(source: _NpySource, index: Any) -> Any:
        nonlocal there, most
        with lock:
            there += 1
            most = max(most, there)
        return read(source, index)

    def writing(target: _NpyTarget, index: Any, block: Any) -> None:
        nonlocal there
        write(target, index, block)
        with lock:
            there -= 1

    monkeypatch.setattr(_NpySource, "__getitem__", reading)
    monkeypatch.setattr(_NpyTarget, "__setitem__", writing)
    array = from_npy(saved(tmp_path), (1, 40))
    for threads in (1, 3):
        most = 0
        store(map_blocks(lambda x: x * 2, array), tmp_path / "doubled.npy", threads=threads)
        assert there == 0 and 1 <= most <= threads
    np.testing.assert_array_equal(np.load(tmp_path / "doubled.npy"), VALUES * 2)


def test_a_bar_shows_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = from_npy(saved(tmp_path), 20)
    store(array, tmp_path / "copy.npy", progress=True)
    assert "100% Completed" in capsys.readouterr().out
    store(array, tmp_path / "copy.npy")
    assert capsys.readouterr().out == ""


def test_only_the_path_travels_and_a_changed_file_is_another_array(tmp_path: Path) -> None:
    path = saved(tmp_path)
    array = from_npy(path, 20)
    assert len(pickle.dumps(dict(array.dask))) < 4096 < VALUES.nbytes
    assert from_npy(path, 20).name == array.name
    os.utime(path, ns=(1, 1))
    assert from_npy(path, 20).name != array.name
    with pytest.raises(dml.InvalidArgumentError, match="has changed since it was opened"):
        array.compute(scheduler="sync")


def test_pipes_and_cut_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "cut.npy").write_bytes(b"")
    for name in ("pipe.npy", "cut.npy"):
        with pytest.raises(dml.InvalidArgumentError, match=f"^from_npy: .*{name}: "):
            from_npy(tmp_path / name)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("text")
    for name in ("missing.npy", "text.npy"):
        with pytest.raises(dml.InvalidArgumentError, match=f"^from_npy: .*{name}: "):
            from_npy(tmp_path / name)
    with pytest.raises(dml.InvalidArgumentError, match=r"^from_npy: None: "):
        from_npy(None)  # type: ignore[arg-type]
    array = da.ones(3)
    with pytest.raises(dml.InvalidArgumentError, match=r"the ending must be \.npy or \.zarr"):
        store(array, tmp_path / "values.txt")
    with pytest.raises(dml.InvalidArgumentError, match=r"^store: .*nowhere/values\.npy: .*No such file"):
        store(array, tmp_path / "nowhere/values.npy")
    with pytest.raises(dml.InvalidArgumentError, match="a path for each array; got 1 for 2"):
        store([array, array], tmp_path / "values.npy")
