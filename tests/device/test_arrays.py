"""Arrays that stay on the device: what they hold, how they are run on, and when their memory comes back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
import dmlvk.array_api as xp
from dmlvk import functions as F

RNG = np.random.default_rng(3)
X = RNG.integers(-9, 9, (3, 4, 5)).astype(np.float32)
TYPES = ["float64", "float32", "float16", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]


def sign(shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> dml.OperatorDesc:
    read, written = dml.TensorDesc(dml.FLOAT32, shape, strides), dml.TensorDesc(dml.FLOAT32, shape)
    return dml.ElementWiseSign(input_tensor=read, output_tensor=written)


def add(shape: tuple[int, ...]) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, shape)
    return dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)


def same(got: Any, expected: npt.NDArray[Any]) -> None:
    values = np.asarray(got)
    assert values.dtype == expected.dtype and values.shape == expected.shape
    assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_every_data_type_goes_there_and_back(device: dml.Device, name: str) -> None:
    values = RNG.integers(0, 100, (3, 7)).astype(name)
    array = device.array(values.T)
    assert array.dtype == values.dtype and array.data_type.name == name.upper() and array.shape == (7, 3)
    assert (array.ndim, array.size, array.nbytes, len(array)) == (2, 21, values.nbytes, 7)
    same(array, values.T)
    same(array.T[1:, ::2], values[1:, ::2])  # views, and copies on the device, of every size of element
    same(array[::-2, 1:], values.T[::-2, 1:])
    same(device.array(array[2:]), values.T[2:])


def test_what_else_becomes_an_array(any_device: dml.Device) -> None:
    same(any_device.array(True), np.array(True))
    same(any_device.array([0, 1], np.bool_), np.array([False, True]))
    same(any_device.array(2.5), np.array(2.5))
    same(any_device.array([]), np.array([]))
    same(any_device.array(np.zeros((2, 0), np.int8)).T, np.zeros((0, 2), np.int8))
    same(any_device.array([1.5, 2]), np.array([1.5, 2]))
    same(any_device.array(X.astype(">f4")), X)
    same(np.asarray(any_device.array(X), np.float64), X.astype(np.float64))
    same(np.add(any_device.array(X), 1), X + 1)
    assert [row.shape for row in any_device.array(X)] == [(4, 5)] * 3


@pytest.mark.parametrize("wrong", ["text", None, np.zeros((1,) * 9), np.zeros((1,) * 8 + (0,)), [1j], [None], object()])
def test_what_no_tensor_is_like_is_refused(any_device: dml.Device, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^(Device\.array|TensorDesc): "):
        any_device.array(wrong)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2, -1), "f4"), (-1, "f4"), ("2", "f4"), (2.5, "f4"), (2, "U3"), (2, None), (2, dml.DataType.UNKNOWN)],
)
def test_empty_refuses_the_same(any_device: dml.Device, shape: Any, dtype: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^(Device\.empty|TensorDesc): "):
        any_device.empty(shape, dtype)
    assert any_device.empty(3).shape == (3,)
    assert any_device.empty((2, 3), dml.INT8).dtype == np.int8
    assert [any_device.empty(shape, bool).shape for shape in ((), (2, 0))] == [(), (2, 0)]
    assert any_device.empty((), bool).dtype == any_device.empty((0,), np.bool_).dtype == np.bool_


def test_truth_and_uncopied_arrays_are_refused(any_device: dml.Device) -> None:
    array = any_device.array(X)
    with pytest.raises(dml.InvalidArgumentError, match="has no truth value"):
        bool(array)
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)


INDICES: list[Any] = [
    0, -1, np.s_[1:], np.s_[::2], np.s_[::-1], np.s_[:, 1:3], np.s_[..., -1], np.s_[1, :, ::-2], np.s_[:, None, 2],
    np.s_[0, 0, 0], np.s_[1:2, 3, 1::3], np.s_[2, 1, 2:], ...,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts_are_inputs(device: dml.Device, index: Any) -> None:
    """Wherever a view begins: bindings begin at multiples of 16 bytes."""
    array = device.array(X)
    for whole, own in ((array, X), (array.T, X.T), (array.reshape(2, 30)[:, 3:], X.reshape(2, 30)[:, 3:])):
        if own.ndim < 3 and isinstance(index, tuple):
            continue
        part, expected = whole[index], np.atleast_1d(own[index])
        same(part, np.array(own[index], order="C"))
        same(device.run(sign(expected.shape), {"InputTensor": part})["OutputTensor"], np.sign(expected, order="C"))
        same(part.reshape(-1), expected.reshape(-1))


def test_slices_and_reshapes_are_views(device: dml.Device) -> None:
    array = device.array(X)
    for view in (array[1:, ::2], array.T, array.reshape(-1, 10), array.transpose(2, 0, 1).reshape(5, -1)):
        assert view.storage is array.storage
    assert array.T.reshape(-1).storage is not array.storage
    calls: list[tuple[Callable[[], dml.Array], str]] = [
        (lambda: array.reshape(7), r"^reshape: \[3, 4, 5\] has 60 elements; got \[7\]"),
        (lambda: array.transpose(0, 0, 1), "^permute_dims: axes must name each of 3 axes once"),
        (lambda: array[3], "^index 3 is outside of axis 0, which has 3 elements"),
        (lambda: array[0.5], "^an index is made of integers"),
    ]
    for call, message in calls:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            call()
    assert np.array_equal(array[[0, 2]].numpy(), X[[0, 2]])


def test_eight_axes_that_begin_anywhere(device: dml.Device) -> None:
    values = np.arange(3**8, dtype=np.float32).reshape((3,) * 8)
    part = device.array(values)[1:, ..., 1:]
    expected = values[1:, ..., 1:]
    same(device.run(sign(expected.shape), {"InputTensor": part})["OutputTensor"], np.sign(expected))
    same(part[..., ::-1], np.ascontiguousarray(expected[..., ::-1]))


def test_outputs_stay_and_are_inputs(device: dml.Device) -> None:
    desc = add(X.shape)
    total = device.array(X)
    for _ in range(5):
        total = device.run(desc, {"ATensor": total, "BTensor": X}, keep=True)["OutputTensor"]
        assert isinstance(total, dml.Array)
    total.wait()
    same(total, X * 6)
    mixed = device.run(desc, {"ATensor": X, "BTensor": total})["OutputTensor"]
    assert isinstance(mixed, np.ndarray)
    same(mixed, X * 7)


def test_earlier_arrays_are_not_overwritten(device: dml.Device) -> None:
    desc = add(X.shape)
    one = device.array(np.ones_like(X))
    made = [device.array(X)]
    for _ in range(20):
        made.append(device.run(desc, {"ATensor": made[-1], "BTensor": one}, keep=True)["OutputTensor"])
        if len(made) % 3 == 0:
            del made[0]
    for number, array in enumerate(made):
        same(array, X + (21 - len(made)) + number)


def test_layouts_that_a_tensor_wants(device: dml.Device) -> None:
    """Strides of the description: the array is laid out so, where it is not."""
    desc = sign((3, 4, 5), (1, 15, 3))
    for array, values in ((device.array(X), X), (device.array(X.transpose(1, 2, 0)).transpose(2, 0, 1), X)):
        same(device.run(desc, {"InputTensor": array})["OutputTensor"], np.sign(values))
    repeated = sign((3, 4, 5), (5, 0, 1))
    row = device.array(X[:, :1])
    same(device.run(repeated, {"InputTensor": row})["OutputTensor"], np.sign(np.repeat(X[:, :1], 4, 1)))
    same(
        device.run(repeated, {"InputTensor": device.array(np.repeat(X[:, :1], 4, 1))})["OutputTensor"],
        np.sign(np.repeat(X[:, :1], 4, 1)),
    )
    with pytest.raises(dml.InvalidArgumentError, match="different values"):
        device.run(repeated, {"InputTensor": device.array(X)})


def test_graphs_with_constants_temporaries_and_owned_weights(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (3, 4))
    w = graph.input("w", dml.FLOAT32, (4, 5), owned_by_dml=True)
    made = F.softmax1(F.matmul(F.tanh(x) + np.arange(4, dtype=np.float32), w), axes=[1])
    model = graph.compile(y=made, z=F.sum(made, axis=0))
    a, b = X[0, :3, :4], X[1, :, :5]
    expected = device.run(model, {"x": a, "w": b})
    ways: tuple[dict[str, Any], ...] = (
        {"x": device.array(a), "w": b},
        {"x": a, "w": device.array(b)},
        {"x": a, "w": b},
    )
    for given in ways:
        kept = device.run(model, given, keep=True)
        for name, values in expected.items():
            same(kept[name], values)


def test_several_outputs(device: dml.Device) -> None:
    graph = dml.Graph(device)
    values, indices = F.top_k(graph.input("x", dml.FLOAT32, (3, 20)), axis=1, k=4)
    model = graph.compile(values=values, indices=indices)
    kept = device.run(model, {"x": device.array(X).reshape(3, 20)}, keep=True)
    expected = device.run(model, {"x": X.reshape(3, 20)})
    assert list(kept) == list(expected)
    for name in expected:
        same(kept[name], expected[name])


def test_buffers_are_inputs(device: dml.Device) -> None:
    with device.create_buffer(X.nbytes + 64) as buffer:
        buffer.upload(X, 64)
        got = device.run(sign(X.shape), {"InputTensor": dml.BufferBinding(buffer, 64)})["OutputTensor"]
        same(got, np.sign(X))
        buffer.upload(X)
        same(device.run(sign(X.shape), {"InputTensor": buffer}, keep=True)["OutputTensor"], np.sign(X))
        for wrong, message in (
            (dml.BufferBinding(buffer, 8), "begin at a multiple of 16 bytes"),
            (dml.BufferBinding(buffer, 16, X.nbytes + 64), "and end there"),
            (dml.BufferBinding(buffer, 0, X.nbytes - 4), "needs 240 bytes; got 236"),
        ):
            with pytest.raises(dml.InvalidArgumentError, match=rf"^ELEMENT_WISE_SIGN: InputTensor: .*{message}"):
                device.run(sign(X.shape), {"InputTensor": wrong})
    with pytest.raises(dml.InvalidArgumentError, match="InputTensor: the buffer was closed"):
        device.run(sign(X.shape), {"InputTensor": buffer})


def test_mistakes_are_named(any_device: dml.Device) -> None:
    desc, array = add(X.shape), any_device.array(X)
    mistakes: tuple[tuple[Any, str], ...] = (
        ({"ATensor": array}, "BTensor: an array is missing"),
        ({"ATensor": array, "BTensor": array, "C": array}, "has no input 'C'"),
        ({"ATensor": array, "BTensor": array[1:]}, r"shape must be \[3, 4, 5\]; got \[2, 4, 5\]"),
        ({"ATensor": array, "BTensor": array[0]}, r"shape must be \[3, 4, 5\]; got \[4, 5\]"),
        ({"ATensor": any_device.array(X.astype("i4")), "BTensor": X}, "data type must be FLOAT32; got INT32"),
        ({"ATensor": array, "BTensor": X.astype("f8") + 0.1}, r"dtype must be float32; got float64, whose value "),
        ([array, array], "as a mapping by member name"),
    )
    for given, message in mistakes:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            any_device.run(desc, given, keep=True)
    with dml.Device(any_device.info.index) as other, pytest.raises(dml.InvalidArgumentError, match="another device"):
        other.run(desc, {"ATensor": array, "BTensor": X})


def test_closed_arrays_and_devices_say_so(device: dml.Device) -> None:
    with dml.Device(device.info.index) as opened:
        array = opened.array(X)
        view, kept = array[1:], opened.array(X)
        array.close()
        array.close()
        assert array.is_closed and view.is_closed and not kept.is_closed
        for use in (
            array.numpy,
            view.numpy,
            lambda: opened.run(sign(X.shape), {"InputTensor": array}),
            lambda: array[::-1],
        ):
            with pytest.raises(dml.InvalidArgumentError, match="was closed"):
                use()
    assert bool(kept.is_closed), repr(kept)
    for use in (kept.numpy, lambda: np.asarray(kept), lambda: opened.array(X), lambda: opened.empty(3), kept[1:].numpy):
        with pytest.raises(dml.DeviceRemovedError, match="closed"):
            use()
    kept.close()


def test_memory_comes_back_with_the_last_view(fresh: dml.Device) -> None:
    array = fresh.array(X)
    view = array[0]
    storage = weakref.ref(array.storage)
    del array
    gc.collect()
    assert storage() is not None and fresh.arrays.pool.size_in_bytes == 0
    same(view, X[0])
    del view
    gc.collect()
    assert storage() is None and fresh.arrays.pool.size_in_bytes == 256


def test_what_is_kept_is_bounded_and_used_again(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, before = fresh.arrays.pool, len(fresh.engine._allocations)
    monkeypatch.setattr(pool, "_most", 7000)
    for size in (4096, 4032, 2048, 8192):
        fresh.empty(size, np.uint8)
        gc.collect()
        assert pool.size_in_bytes <= 7000
    assert pool.size_in_bytes == 4032 + 2048 and len(fresh.engine._allocations) == before + 2
    again = fresh.empty(2048, np.uint8)
    assert len(fresh.engine._allocations) == before + 2 and pool.size_in_bytes == 4032
    pool.clear()
    assert len(fresh.engine._allocations) == before + 1
    again.close()
    assert len(fresh.engine._allocations) == before and pool.size_in_bytes == 0


def test_a_thousand_runs_leave_nothing_behind(fresh: dml.Device) -> None:
    desc, total = add(X.shape), fresh.array(X)
    counts = set()
    for number in range(300):
        total = fresh.run(desc, {"ATensor": total, "BTensor": X}, keep=True)["OutputTensor"]
        if number > 20:
            counts.add(len(fresh.engine._allocations))
    assert max(counts) <= 10 and len(fresh.engine._recordings) <= 70
    same(total, X * 301)


def test_recordings_of_all_operators_are_bounded_together(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used last stay, and what is used again and again is recorded once."""
    kept, record = fresh.arrays._recordings, mock.Mock(wraps=fresh.engine.record)
    monkeypatch.setattr(kept, "_most", 60 * 3)  # 2 and 1 for each of 1 kernel
    monkeypatch.setattr(fresh.engine, "record", record)
    operators = [fresh.compile_operator(dml.Operator(fresh, sign(X.shape))) for _ in range(2)]
    arrays, out = [fresh.array(X) for _ in range(80)], {"OutputTensor": fresh.array(X)}
    for array in arrays:
        fresh.run(operators[0], {"InputTensor": arrays[0]}, out=out)
        fresh.run(operators[0], {"InputTensor": array}, out=out)
        assert len(kept) <= 60
    fresh.run(operators[0], {"InputTensor": arrays[-20]}, out=out)
    assert record.call_count == 80
    fresh.run(operators[0], {"InputTensor": arrays[1]}, out=out)
    assert record.call_count == 81
    del operators[0]
    gc.collect()
    assert not len(kept), "an operator's recordings go with it"
    for array in arrays:
        fresh.run(operators[0], {"InputTensor": array}, out=out)
    assert 32 < len(kept) <= 60


def test_what_is_kept_makes_room(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.array(X)
    gc.collect()
    allocate = fresh.engine.allocate

    def full(size: int, **options: Any) -> Any:
        if fresh.arrays.pool.size_in_bytes:
            raise dml.OutOfMemoryError("full")
        return allocate(size, **options)

    monkeypatch.setattr(fresh.engine, "allocate", full)
    same(fresh.array(X[0]), X[0])
    gc.collect()
    assert fresh.arrays.pool.size_in_bytes
    fresh.create_buffer(64)
    assert fresh.arrays.pool.size_in_bytes == 0


def test_threads_share_arrays(device: dml.Device) -> None:
    desc, shared = add(X.shape), device.array(X)

    def work(number: int) -> None:
        own = shared
        for _ in range(15):
            own = device.run(desc, {"ATensor": own, "BTensor": shared}, keep=True)["OutputTensor"]
            own = own[::-1][::-1] if number % 2 else own
        same(own, X * 16)

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work, number) for number in range(6)]:
            future.result(120)


def test_array_of_one_element_is_a_number(device: dml.Device) -> None:
    whole, half = device.array(np.full((1, 1), 7, np.int32)), device.array(np.full(1, 0.5, np.float16))
    assert (whole.item(), int(whole), float(whole)) == (7, 7, 7.0)
    assert (half.item(), int(half), float(half)) == (0.5, 0, 0.5)
    assert type(whole.item()) is int and type(half.item()) is float


def test_several_elements_are_no_number(device: dml.Device) -> None:
    array = device.array(np.zeros((2, 3), np.float32))
    for converted in (array.item, lambda: int(array), lambda: float(array)):
        with pytest.raises(dml.InvalidArgumentError, match=r"is no number: it has 6 elements; numpy\(\) gives them$"):
            converted()


def test_other_libraries_take_arrays_by_dlpack(any_device: dml.Device) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = any_device.array(whole)[1:, ::2]
    np.testing.assert_array_equal(np.from_dlpack(array), whole[1:, ::2])
    assert array.__dlpack_device__() == (1, 0)
    for arguments, message in (
        ({"copy": False}, "get a copy"),
        ({"dl_device": (2, 0)}, "can be copied to main memory"),
    ):
        with pytest.raises(BufferError, match=message):
            array.__dlpack__(**arguments)
    with pytest.raises(BufferError, match="has no elements of UINT4"):
        any_device.empty((8,), dml.UINT4).__dlpack__()


class _Described:
    """Says that it is a larger array than there can be."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (2**60,), "typestr": "<f4", "data": None, "version": 3}


def test_what_is_no_array_that_fits_is_refused(device: dml.Device) -> None:
    too_large: tuple[Any, ...] = (_Described(), range(2**62))
    for given in too_large:
        for upload in (device.array, xp.asarray):
            with pytest.raises(dml.DmlError, match="array"):
                upload(given)
    for given in (3, [1.0], None):
        with pytest.raises(dml.InvalidArgumentError, match="from_dlpack: takes arrays with __dlpack__; got"):
            xp.from_dlpack(given)
