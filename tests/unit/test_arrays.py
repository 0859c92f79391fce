"""Arrays of any NumPy layout reach a tensor's bytes element by element, and what does not fit is refused."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import checked_array, lay_out, logical_view, with_long_integers
from dmlvk.errors import InvalidArgumentError
from dmlvk.tensors import TensorDesc, elements_overlap

Array = npt.NDArray[Any]

WHERE = "SOME_OPERATOR: InputTensor"


def _laid_out(array: npt.ArrayLike, tensor: TensorDesc) -> Array:
    """The tensor's buffer, as elements; bytes that nothing was written to are 0xEE."""
    buffer = np.full(tensor.size_in_bytes, 0xEE, np.uint8)
    lay_out(checked_array(array, tensor, WHERE), tensor, buffer, WHERE)
    whole = buffer.size // tensor.data_type.size_in_bytes * tensor.data_type.size_in_bytes
    return buffer[:whole].view(tensor.data_type.numpy_dtype)


def _refused(array: Any, tensor: TensorDesc, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{WHERE}: {message}$"):
        _laid_out(array, tensor)


def _matrix() -> Array:
    return np.arange(12, dtype=np.int32).reshape(3, 4)


LAYOUTS = {
    "C order": _matrix(),
    "Fortran order": np.asfortranarray(_matrix()),
    "transposed": np.ascontiguousarray(_matrix().T).T,
    "negative strides": np.ascontiguousarray(_matrix()[::-1, ::-1])[::-1, ::-1],
    "every second element": np.repeat(_matrix(), 2, axis=1)[:, ::2],
    "other byte order": _matrix().astype(_matrix().dtype.newbyteorder("S")),
    "little-endian": _matrix().astype("<i4"),
    "big-endian": _matrix().astype(">i4"),
    "not writable": np.frombuffer(_matrix().tobytes(), np.int32).reshape(3, 4),
    "not aligned": np.frombuffer(b"x" + _matrix().tobytes(), np.uint8)[1:].view(np.int32).reshape(3, 4),
    "masked array": np.ma.masked_array(_matrix()),  # type: ignore[no-untyped-call]  # NumPy's
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("strides", [None, (5, 1), (1, 3), (8, 2)])
def test_any_array_layout(name: str, strides: tuple[int, int] | None) -> None:
    tensor = TensorDesc(dml.INT32, (3, 4), strides)
    got = _laid_out(LAYOUTS[name], tensor)
    untouched = np.ones(got.size, np.bool_)
    for i in range(3):
        for j in range(4):
            offset = i * tensor.element_strides[0] + j * tensor.element_strides[1]
            assert got[offset] == 4 * i + j, f"[{i}, {j}]"
            untouched[offset] = False
    assert (got[untouched] == np.int32(-0x11111112)).all(), "bytes between the elements changed"


def test_the_layouts_are_what_they_claim() -> None:
    assert sys.byteorder == "little"
    assert all(np.array_equal(array, _matrix()) for array in LAYOUTS.values())
    assert min(LAYOUTS["negative strides"].strides) < 0
    assert not LAYOUTS["other byte order"].dtype.isnative
    assert not LAYOUTS["not aligned"].flags.aligned
    assert not LAYOUTS["not writable"].flags.writeable
    assert LAYOUTS["Fortran order"].flags.f_contiguous


def test_byte_order_changes_keep_every_bit() -> None:
    """Signalling NaN too: nothing may take the bytes for a number on the way."""
    bits = np.array([0x7F800001, 0xFFBFFFFF, 0x00000001, 0x80000000], np.uint32)
    array = bits.byteswap().view(np.dtype(np.float32).newbyteorder("S"))
    got = _laid_out(array, TensorDesc(dml.FLOAT32, (4,)))
    assert got.view(np.uint32).tolist() == bits.tolist()


@pytest.mark.parametrize("data_type", [t for t in dml.DataType if t.size_in_bits >= 8], ids=lambda t: t.name)
def test_every_data_type(data_type: dml.DataType) -> None:
    random = np.random.default_rng(data_type)
    array = (
        random.integers(0, 256, 6 * data_type.size_in_bytes, dtype=np.uint8).view(data_type.numpy_dtype).reshape(2, 3)
    )
    tensor = TensorDesc(data_type, (2, 3), (4, 1))
    buffer = np.zeros(tensor.size_in_bytes, np.uint8)
    lay_out(checked_array(array, tensor, WHERE), tensor, buffer, WHERE)
    assert logical_view(buffer, tensor).tobytes() == array.tobytes()


def test_lists_and_other_things_that_numpy_takes_for_arrays() -> None:
    assert _laid_out([[1.5, 2.5]], TensorDesc(dml.FLOAT64, (1, 2))).tolist() == [1.5, 2.5]
    assert _laid_out(range(3), TensorDesc(dml.INT64, (3,))).tolist() == [0, 1, 2]
    assert _laid_out(np.array([0, 255], np.uint8), TensorDesc(dml.FLOAT32, (2,))).tolist() == [0, 255]
    assert _laid_out([-128.0, 127.0, 0.0, 1.0], TensorDesc(dml.INT8, (4,))).tolist() == [-128, 127, 0, 1]
    view: Any = memoryview(b"\x01\x02\x03\x04")
    assert _laid_out(view, TensorDesc(dml.UINT8, (4,))).tolist() == [1, 2, 3, 4]


def test_booleans_are_uint8() -> None:
    mask = np.array([[True, False], [False, True]])
    tensor = TensorDesc(dml.UINT8, (2, 2))
    assert _laid_out(mask, tensor).tolist() == [1, 0, 0, 1]
    assert _laid_out(mask.T[::-1], tensor).tolist() == [0, 1, 1, 0]
    assert _laid_out([[True, True], [False, False]], tensor).tolist() == [1, 1, 0, 0]
    assert _laid_out(mask, TensorDesc(dml.INT8, (2, 2))).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.full(2, 0.1), r"float64, whose value 0\.1 at \[0\] float32 does not have: .*"),
        (np.full(2, 2**31 - 1, np.int32), r"int32, whose value 2147483647 at \[0\] .*"),
        (np.zeros(2, np.complex64), "complex64"),
        (np.array([1, None]), "object"),
        (np.array(["a", "b"]), "<U1"),
        (np.zeros(2, [("x", np.float32)]), r"\[\('x', '<f4'\)\]"),
        (np.zeros(2, "M8[s]"), r"datetime64\[s\]"),
        ([1, 2**24 + 1], r"int64, whose value 16777217 at \[1\] .*"),
        (None, "object"),
        ({}, "object"),
    ],
)
def test_other_data_types_are_refused(array: Any, dtype: str) -> None:
    _refused(array, TensorDesc(dml.FLOAT32, (2,)), f"the array's dtype must be float32; got {dtype}")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 2), (0,), (2, 0)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    message = rf"the array's shape must be \[2\]; got {re.escape(str(list(shape)))}"
    _refused(np.zeros(shape, np.float32), TensorDesc(dml.FLOAT32, (2,)), message)


def test_a_scalar_is_no_array_of_one() -> None:
    _refused(np.float32(1), TensorDesc(dml.FLOAT32, (1,)), r"the array's shape must be \[1\]; got \[\]")
    _refused(np.array(1, np.float32), TensorDesc(dml.FLOAT32, (1, 1)), r"the array's shape must be \[1, 1\]; got \[\]")


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{WHERE}: "):
        _laid_out([[1.0], [1.0, 2.0]], TensorDesc(dml.FLOAT64, (2, 2)))


# --- inputs that share elements ---------------------------------------------------------------------------------------


def test_broadcast_axes_may_have_length_1() -> None:
    tensor = TensorDesc(dml.INT16, (3, 4), (0, 1))
    row = np.array([[5, 6, 7, 8]], np.int16)
    assert _laid_out(row, tensor).tolist() == [5, 6, 7, 8]
    assert _laid_out(np.repeat(row, 3, axis=0), tensor).tolist() == [5, 6, 7, 8]
    column = TensorDesc(dml.INT16, (3, 4), (2, 0))
    assert _laid_out(np.array([[1], [2], [3]], np.int16), column)[::2].tolist() == [1, 2, 3]
    one = TensorDesc(dml.INT16, (3, 4), (0, 0))
    assert _laid_out(np.full((1, 1), 9, np.int16), one)[0] == 9
    assert _laid_out(np.full((3, 1), 9, np.int16), one)[0] == 9


def test_axes_of_length_1_do_not_broadcast_by_themselves() -> None:
    _refused(
        np.zeros((1, 4), np.int16), TensorDesc(dml.INT16, (3, 4)), r"the array's shape must be \[3, 4\]; got \[1, 4\]"
    )
    broadcast = TensorDesc(dml.INT16, (3, 4), (0, 1))
    _refused(np.zeros((3, 1), np.int16), broadcast, r"the array's shape must be \[3, 4\]; got \[3, 1\]")
    _refused(np.zeros((2, 4), np.int16), broadcast, r"the array's shape must be \[3, 4\]; got \[2, 4\]")


def test_different_values_for_one_element_are_refused() -> None:
    array = np.zeros((3, 4), np.float32)
    array[2, 1] = 1
    message = r"the array has different values where Strides \[0, 1\] read one element"
    _refused(array, TensorDesc(dml.FLOAT32, (3, 4), (0, 1)), message)


def test_values_are_compared_by_their_bits() -> None:
    tensor = TensorDesc(dml.FLOAT32, (2,), (0,))
    same_nan = np.array([0x7FC00001, 0x7FC00001], np.uint32).view(np.float32)
    assert _laid_out(same_nan, tensor).view(np.uint32)[0] == 0x7FC00001
    message = r"the array has different values where Strides \[0\] read one element"
    _refused(np.array([0x7FC00001, 0x7FC00002], np.uint32).view(np.float32), tensor, message)
    _refused(np.array([0.0, -0.0], np.float32), tensor, message)


def test_a_sliding_window_needs_agreeing_values() -> None:
    """Element [i, j] lies at i + j: an input may overlap itself in any way."""
    tensor = TensorDesc(dml.INT32, (3, 3), (1, 1))
    series = np.array([10, 11, 12, 13, 14], np.int32)
    window = np.lib.stride_tricks.sliding_window_view(series, 3)
    assert _laid_out(window, tensor).tolist() == series.tolist()
    assert _laid_out(window.copy(order="F"), tensor).tolist() == series.tolist()
    broken = window.copy()
    broken[1, 2] += 1
    _refused(broken, tensor, r"the array has different values where Strides \[1, 1\] read one element")


def test_overlapping_inputs_of_any_kind() -> None:
    """Against a buffer that was filled first: its logical array must be laid out to the same bytes."""
    random = np.random.default_rng(3)
    overlapping = 0
    for _ in range(1500):
        count = int(random.integers(1, 5))
        sizes = tuple(int(size) for size in random.integers(1, 6, count))
        strides = tuple(int(stride) for stride in random.integers(0, 8, count))
        tensor = TensorDesc(dml.UINT8, sizes, strides)
        buffer = random.integers(0, 256, tensor.size_in_bytes, dtype=np.uint8)
        array = logical_view(buffer, tensor).copy()
        got = _laid_out(array, tensor)
        touched = np.zeros(buffer.size, np.bool_)
        logical_view(touched.view(np.uint8), tensor)[...] = 1
        assert np.array_equal(got, np.where(touched, buffer, 0xEE)), tensor
        if elements_overlap(sizes, strides):
            overlapping += 1
            changed = array.copy()
            offset = tuple(int(random.integers(0, size)) for size in sizes)
            changed[offset] ^= 1
            owners = np.bincount((np.indices(sizes).reshape(count, -1).T @ strides).reshape(-1))
            if owners[np.dot(offset, strides)] > 1:
                with pytest.raises(InvalidArgumentError, match="has different values where Strides"):
                    _laid_out(changed, tensor)
    assert overlapping > 500


def test_inputs_whose_overlap_is_hard_to_tell_are_laid_out() -> None:
    sizes, strides = (5, 6, 7, 4, 2, 4, 5, 6), (138404, 104525, 95933, 127000, 324905, 120962, 126974, 77946)
    with pytest.raises(InvalidArgumentError, match="cannot tell"):
        elements_overlap(sizes, strides)
    tensor = TensorDesc(dml.UINT8, sizes, strides)
    source = np.random.default_rng(4).integers(0, 256, tensor.size_in_bytes, dtype=np.uint8)
    buffer = np.zeros(tensor.size_in_bytes, np.uint8)
    lay_out(checked_array(logical_view(source, tensor).copy(), tensor, WHERE), tensor, buffer, WHERE)
    assert np.array_equal(logical_view(buffer, tensor), logical_view(source, tensor))


def test_a_larger_buffer_is_left_alone_behind_the_tensor() -> None:
    tensor = TensorDesc(dml.UINT8, (3,), total_tensor_size_in_bytes=64)
    buffer = np.full(64, 0xEE, np.uint8)
    lay_out(checked_array(np.array([1, 2, 3], np.uint8), tensor, WHERE), tensor, buffer, WHERE)
    assert buffer.tolist() == [1, 2, 3] + [0xEE] * 61


@pytest.mark.parametrize("given", [[1, 2], 7, (1, 2), [[1], [2]], range(3)])
def test_integers_of_python_have_64_bits_where_numpy_takes_32(given: Any) -> None:
    as_on_windows = np.zeros(2, np.int32)
    assert with_long_integers(as_on_windows, given).dtype == np.int64


@pytest.mark.parametrize("given", [np.zeros(2, np.int32), np.int32(1), [np.int32(1), 2], [np.zeros(2, np.int32)]])
def test_what_has_a_data_type_keeps_it_where_numpy_takes_32_bits_for_integers(given: Any) -> None:
    assert with_long_integers(np.zeros(2, np.int32), given).dtype == np.int32
