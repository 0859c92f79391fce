"""REDUCE over whole arrays: blocks on the device, their results in Dask's trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
from dask import config

import dmlvk as dml
from dmlvk.dask import reduce
from dmlvk.objects import portable


@pytest.fixture(autouse=True)
def shared_device(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    process = portable._ProcessState()
    process.devices[dml.FeatureLevel.LEVEL_6_4] = any_device
    monkeypatch.setattr(portable, "_process", process)
    with config.set(scheduler="threads", num_workers=2):
        yield


def blocks(values: npt.NDArray[Any], chunks: Any) -> da.Array:
    made: da.Array = da.from_array(values, chunks=chunks)
    return made


def assert_same_bits(made: da.Array, expected: npt.NDArray[Any]) -> None:
    result = made.compute()
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert result.tobytes() == expected.tobytes()


def test_reductions_are_trees_of_dask() -> None:
    whole = np.random.default_rng(3).integers(1, 9, (14, 20)).astype(np.float32)
    array = blocks(whole, (7, 10))
    wide = whole.astype(np.float64)
    for name, expected in {"MAX": wide.max(), "L1": wide.sum()}.items():
        assert reduce(name, array).compute() == expected
    close = {
        "AVERAGE": wide.mean(),
        "L2": np.sqrt(np.square(wide).sum()),
        "LOG_SUM": np.log(wide.sum()),
        "LOG_SUM_EXP": np.log(np.exp(wide).sum()),
    }
    for name, number in close.items():
        np.testing.assert_allclose(reduce(name, array).compute(), number, rtol=3e-7)


def test_axes_of_reductions() -> None:
    whole = np.random.default_rng(3).integers(1, 9, (28, 20)).astype(np.float32)
    array = blocks(whole, (7, 10))
    for axis in (None, 0, (-1, 0)):
        assert_same_bits(reduce("SUM", array, axis, split_every=2), np.asarray(whole.sum(axis)))
    kept = reduce(dml.ReduceFunction.SUM, array, 0, keepdims=True)
    assert kept.chunks == ((1,), (10, 10))
    assert_same_bits(kept, whole.sum(0, keepdims=True))
    assert reduce("MIN", array, 1).name == reduce("MIN", array, 1).name != reduce("MIN", array, 0).name


def test_reductions_of_other_types_and_what_reduce_does_not_have() -> None:
    halves = np.full((300, 300), 3, np.float16)
    assert reduce("AVERAGE", blocks(halves, 100)).compute() == 3  # whose sum no FLOAT16 holds
    assert reduce("L2", blocks(halves, 100)).compute() == np.float16(900)
    assert reduce("MULTIPLY", blocks(np.full((3, 5), 2, np.int32), 2)).compute() == 2**15
    for name, array, message in (
        ("ARGMAX", blocks(np.ones((4, 4), np.float32), 2), "function must be one of"),
        ("MEDIAN", blocks(np.ones((4, 4), np.float32), 2), "function must be one of"),
        ("AVERAGE", blocks(np.ones(4, np.int32), 2), "REDUCE: .*DataType"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            reduce(name, array)
    with pytest.raises(dml.InvalidArgumentError, match=r"axis\[0\] must be from -2 to 1; got 2"):
        reduce("SUM", blocks(np.ones((4, 4), np.float32), 2), 2)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"axis": "x"}, r"axis\[0\] must be an integer"),
        ({"axis": {0: 1}, "split_every": 1}, "split_every"),
        ({"axis": 2}, r"axis\[0\]"),
        ({"split_every": "x"}, "split_every"),
        ({"split_every": 2**40}, "split_every"),
        ({"array": np.ones(3)}, "array of Dask's; got ndarray"),
        ({"array": da.from_array(np.ma.ones((2, 2)))}, "masked"),
        ({"array": da.ones((0, 3), dtype=np.float32)}, "axis 0 must have elements"),
    ],
)
def test_what_is_no_reduction_is_one_error(how: dict[str, Any], message: str) -> None:
    given = {"array": da.ones((2, 2), dtype=np.float32), **how}
    with pytest.raises(dml.InvalidArgumentError, match=f"reduce: .*{message}"):
        reduce("SUM", **given)
