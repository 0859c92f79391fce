"""Buffers: what goes in comes out, and everything else is refused with names and numbers, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlvk as dml
from tests.binding.support import NOT_INTEGERS, Binding, buffer_with, compiled, execute, floats, kind_of, sign

CONTENTS = np.arange(100, dtype=np.uint8)


@pytest.fixture
def buffer(any_device: dml.Device) -> Iterator[dml.Buffer]:
    """Of 100 bytes, counting up from 0; unchanged at the end unless the test says so."""
    with buffer_with(any_device, CONTENTS) as created:
        yield created
        if not created.is_closed:
            assert np.array_equal(created.download(), CONTENTS), "a refused call changed the buffer"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 4096, 2**20 + 1])
def test_new_buffer_has_its_size_and_is_zero(device: dml.Device, size: int) -> None:
    with device.create_buffer(size) as buffer:
        assert buffer.size_in_bytes == size
        contents = buffer.download()
        assert contents.shape == (size,) and contents.dtype == np.uint8 and not contents.any()


@pytest.mark.parametrize("size", [np.int64(64), np.uint8(64)], ids=kind_of)
def test_sizes_may_be_numpy_integers(any_device: dml.Device, size: Any) -> None:
    with any_device.create_buffer(size) as buffer:
        assert buffer.size_in_bytes == 64 and type(buffer.size_in_bytes) is int


@pytest.mark.parametrize("wrong", NOT_INTEGERS, ids=kind_of)
def test_size_is_an_integer(any_device: dml.Device, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: size_in_bytes must be an integer; got "):
        any_device.create_buffer(wrong)


@pytest.mark.parametrize("size", [0, -1, -(2**70)])
def test_size_is_positive(any_device: dml.Device, size: int) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: size_in_bytes must be at least 1; got "):
        any_device.create_buffer(size)


ARRAYS: dict[str, Any] = {
    "float32": np.linspace(-1, 1, 6, dtype=np.float32),
    "float16": np.array([1, -0.0, np.inf, np.nan], np.float16),
    "float64, two dimensions": np.arange(6.0).reshape(2, 3),
    "a transposed view": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "every second element": np.arange(20, dtype=np.int16)[::2],
    "reversed": np.arange(5, dtype=np.int64)[::-1],
    "big-endian": np.arange(4, dtype=">u4"),
    "bool": np.array([True, False, True]),
    "complex": np.array([1 + 2j], np.complex64),
    "one number": np.float32(3.5),
    "no dimension": np.array(7, np.uint16),
    "no elements": np.zeros((0, 4), np.float32),
    "a record": np.array([(1, 2.5)], np.dtype([("a", "i2"), ("b", "f4")])),
    "bytearray": bytearray(b"\1\0\0"),
    "memoryview": memoryview(b"\1\2\0"),
    "read-only": np.broadcast_to(np.float32(2), (3, 2)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_uploaded_bytes_come_back_as_they_are(device: dml.Device, name: str) -> None:
    """Every array that NumPy can describe is written in C order, without conversion."""
    array = np.asarray(ARRAYS[name])
    with device.create_buffer(100) as buffer:
        buffer.upload(ARRAYS[name], 10)
        found = buffer.download(array.dtype, array.shape, 10)
        assert found.tobytes() == array.tobytes() and found.shape == array.shape and found.dtype == array.dtype
        rest = buffer.download()
        assert not rest[:10].any() and not rest[10 + array.nbytes :].any()


@pytest.mark.parametrize("numbers", [[1.0, 2.0], (1, 2), [[1], [2]], [], 1.0, 3, True, 1j])
def test_numbers_without_a_data_type_are_not_uploaded(buffer: dml.Buffer, numbers: Any) -> None:
    """NumPy would make eight bytes of each, where four are meant as a rule."""
    with pytest.raises(dml.InvalidArgumentError, match=r"have no data type to be written as: give an array"):
        buffer.upload(numbers)


def test_masked_elements_are_not_uploaded(buffer: dml.Buffer) -> None:
    values: Any = np.ma.masked_array(np.ones(3, np.float32), [False, True, False])  # type: ignore[no-untyped-call]
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer.upload: the array has masked elements"):
        buffer.upload(values)


def test_a_buffer_is_no_array(buffer: dml.Buffer) -> None:
    """NumPy would make an array of one object."""
    for make in (np.asarray, np.array, lambda x: np.add(x, 1)):
        with pytest.raises(dml.InvalidArgumentError, match=r"is no array: .* download\(dtype\)"):
            make(buffer)


@pytest.mark.parametrize("data", [b"", b"\0", b"abc\0\0", bytes(100)])
def test_bytes_are_uploaded_whole(any_device: dml.Device, data: bytes) -> None:
    """NumPy alone would drop the zeros at their end, and make one byte of none."""
    with buffer_with(any_device, np.full(100, 255, np.uint8)) as buffer:
        buffer.upload(data)
        assert buffer.download().tobytes() == data + b"\xff" * (100 - len(data))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, r"an array of dtype object has no bytes to upload"),
        ("text", r"an array of dtype <U4 has no bytes to upload"),
        (["a", "bc"], r"an array of dtype <U2 has no bytes to upload"),
        ([[1], [2, 3]], r"not an array: "),
        ([None, 1], r"an array of dtype object has no bytes to upload"),
        (np.array([1, "a"], object), r"an array of dtype object has no bytes to upload"),
        ([2**100], r"an array of dtype object has no bytes to upload"),
        ({"a": 1}, r"an array of dtype object has no bytes to upload"),
        (object(), r"an array of dtype object has no bytes to upload"),
        (np.zeros(3, "V0"), r"an array of dtype .* has no bytes to upload"),
        (np.zeros(2, [("a", "O")]), r"an array of dtype .* has no bytes to upload"),
    ],
    ids=["None", "text", "texts", "ragged", "None in a list", "objects", "huge", "mapping", "object", "void", "record"],
)
def test_upload_refuses_what_has_no_bytes(buffer: dml.Buffer, wrong: Any, message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^Buffer.upload: {message}"):
        buffer.upload(wrong)


@pytest.mark.parametrize(
    ("count", "offset", "first", "end"),
    [(101, 0, 0, 101), (1, 100, 100, 101), (50, 51, 51, 101), (0, 101, 101, 101), (1, 2**63, 2**63, 2**63 + 1)],
)
def test_upload_stays_inside_the_buffer(buffer: dml.Buffer, count: int, offset: int, first: int, end: int) -> None:
    message = rf"^Buffer\.upload: bytes {first} to {end} lie beyond the buffer's 100 bytes$"
    with pytest.raises(dml.InvalidArgumentError, match=message):
        buffer.upload(np.ones(count, np.uint8), offset)


@pytest.mark.parametrize("wrong", NOT_INTEGERS, ids=kind_of)
def test_offsets_are_integers(buffer: dml.Buffer, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.upload: offset must be an integer; got "):
        buffer.upload(np.ones(1, np.uint8), wrong)
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.download: offset must be an integer; got "):
        buffer.download(offset=wrong)


@pytest.mark.parametrize("offset", [-1, -100, -(2**70)])
def test_offsets_are_not_negative(buffer: dml.Buffer, offset: int) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.upload: offset must be at least 0; got "):
        buffer.upload(np.ones(1, np.uint8), offset)
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.download: offset must be at least 0; got "):
        buffer.download(np.uint8, 1, offset)


@pytest.mark.parametrize(
    "wrong",
    [None, "garbage", "(", 5, {}, [], object, "O", "U4", "V0", [("a", "O")], "(2,3)f4", "f4,,"],
    ids=str,
)
def test_download_refuses_what_is_no_data_type_of_bytes(buffer: dml.Buffer, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.download: (unknown )?.*dtype"):
        buffer.download(wrong)


@pytest.mark.parametrize("wrong", ["8", 8.0, True, np.True_, np.float32(8), [None], ["2"], [2.0], [True], {1.5}, int])
def test_shape_is_made_of_integers(buffer: dml.Buffer, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.download: shape must be an integer; got "):
        buffer.download(np.uint8, wrong)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (-1, r"shape must be at least 0; got -1$"),
        ((2, -3), r"shape must be at least 0; got -3$"),
        (101, r"bytes 0 to 101 lie beyond the buffer's 100 bytes$"),
        ((2, 51), r"bytes 0 to 102 lie beyond the buffer's 100 bytes$"),
        (2**63, rf"bytes 0 to {2**63} lie beyond the buffer's 100 bytes$"),
        ((2**63, 2**63), rf"bytes 0 to {2**126} lie beyond the buffer's 100 bytes$"),
        (2**64, r"shape must be from 0 to .*; got a number of 65 bits$"),
        ((0, 2**63), r"no array has the shape \[0, 9223372036854775808\]: "),
        ((1,) * 70, r"no array has the shape \[1, 1, "),
    ],
)
def test_download_stays_inside_the_buffer(buffer: dml.Buffer, shape: Any, message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=rf"^Buffer\.download: {message}"):
        buffer.download(np.uint8, shape)


def test_download_gives_a_copy_of_any_part(buffer: dml.Buffer) -> None:
    buffer.download()[:] = 0
    buffer.download(np.uint32)[:] = 0
    assert buffer.download(np.uint8, 3, 97).tolist() == [97, 98, 99]
    assert buffer.download(np.uint8, 0, 100).tolist() == []
    assert buffer.download(np.uint16, (2, 2), 1).tolist() == [[0x0201, 0x0403], [0x0605, 0x0807]]
    assert buffer.download(">u2", [2], 1).tolist() == [0x0102, 0x0304]
    assert buffer.download(np.float64, offset=50).size == 6  # whole elements only
    assert buffer.download(np.uint8, ()).shape == ()
    numpys: Any = np.array([2, 1]), np.int8(4)
    assert buffer.download("S3", numpys[0]).shape == (2, 1)
    assert buffer.download(np.uint8, numpys[1]).flags.writeable


@given(
    writes=st.lists(
        st.tuples(st.integers(0, 60), st.binary(max_size=40)).filter(lambda write: write[0] + len(write[1]) <= 61),
        max_size=12,
    ),
    reads=st.lists(st.tuples(st.integers(0, 61), st.integers(0, 61)), max_size=4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_uploads_and_downloads(
    device: dml.Device, writes: list[tuple[int, bytes]], reads: list[tuple[int, int]]
) -> None:
    """A buffer of an odd number of bytes behaves as a bytearray does."""
    model = bytearray(61)
    with device.create_buffer(61) as buffer:
        for offset, data in writes:
            buffer.upload(data, offset)
            model[offset : offset + len(data)] = data
            for start, end in reads:
                if start <= end:
                    assert buffer.download(np.uint8, end - start, start).tobytes() == model[start:end]
        assert buffer.download().tobytes() == model


def test_closed_buffer_refuses_everything_but_closing(any_device: dml.Device) -> None:
    buffer = any_device.create_buffer(16)
    was_closed = buffer.is_closed
    buffer.close()
    buffer.close()
    assert (was_closed, buffer.is_closed) == (False, True) and buffer.size_in_bytes == 16
    for call in (lambda: buffer.upload(b"1"), buffer.download, lambda: buffer.allocation):
        with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: was closed$"):
            call()
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.upload: bytes 0 to 17 lie beyond"):
        buffer.upload(bytes(17))
    assert "16 bytes" in repr(buffer)


def test_buffer_of_a_closed_device_reports_the_removal(any_device: dml.Device) -> None:
    """Rule 101."""
    device = dml.Device(any_device.info.index)
    buffer = device.create_buffer(16)
    device.close()
    assert buffer.is_closed
    for call in (lambda: buffer.upload(b"1"), buffer.download, lambda: device.create_buffer(16)):
        with pytest.raises(dml.DeviceRemovedError, match=re.escape(f"{any_device.info.name}: the device was closed")):
            call()
    buffer.close()
    with buffer:
        pass


def test_block_closes_the_buffer_whatever_happens(any_device: dml.Device) -> None:
    with pytest.raises(ZeroDivisionError), any_device.create_buffer(16) as buffer:
        raise ZeroDivisionError
    assert buffer.is_closed


def test_closing_one_buffer_leaves_the_others(device: dml.Device) -> None:
    """Also when they were bound together: their pipelines go, and are made again for what is left."""
    values = np.linspace(-1, 1, 8, dtype=np.float32)
    operator = compiled(device, sign(floats(8)))
    with buffer_with(device, values) as source, device.create_buffer(32) as kept:
        for _ in range(3):
            with device.create_buffer(32) as temporary:
                execute(operator, [Binding(source)], [Binding(temporary)])
                execute(operator, [Binding(temporary)], [Binding(kept)])
            assert np.array_equal(kept.download(np.float32), np.sign(values))
            assert np.array_equal(source.download(np.float32), values)
