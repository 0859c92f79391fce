"""Every rule for a tensor description: what is accepted, and what is refused with which words."""

from __future__ import annotations

import dataclasses
import decimal
import fractions
import itertools
import math
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.tensors import TensorDesc, TensorFlags, elements_overlap, packed_strides, reshaped_strides

# --- what a description says ------------------------------------------------------------------------------------------


def test_a_packed_tensor() -> None:
    tensor = TensorDesc(dml.FLOAT32, (2, 3, 4))
    assert tensor.sizes == (2, 3, 4)
    assert tensor.strides is None
    assert tensor.element_strides == (12, 4, 1)
    assert tensor.dimension_count == 3
    assert tensor.element_count == tensor.span_in_elements == 24
    assert tensor.total_tensor_size_in_bytes == tensor.size_in_bytes == tensor.minimum_size_in_bytes == 96
    assert tensor.guaranteed_base_offset_alignment == 0
    assert tensor.binding_alignment == 16
    assert tensor.flags is TensorFlags.NONE
    assert tensor.is_packed


def test_a_strided_tensor() -> None:
    tensor = TensorDesc(dml.INT16, [2, 3], [10, 2], 4096, 256, TensorFlags.OWNED_BY_DML)
    assert (tensor.sizes, tensor.strides, tensor.element_strides) == ((2, 3), (10, 2), (10, 2))
    assert tensor.element_count == 6
    assert tensor.span_in_elements == 15
    assert tensor.minimum_size_in_bytes == 32
    assert tensor.size_in_bytes == 4096
    assert tensor.binding_alignment == 256
    assert tensor.flags is TensorFlags.OWNED_BY_DML
    assert not tensor.is_packed


def test_a_description_is_a_value() -> None:
    numbers: Any = (np.int64(4), np.uint8(1))
    first, second = TensorDesc(dml.INT8, [4, 1]), TensorDesc(dml.INT8, numbers)
    assert first == second
    assert hash(first) == hash(second)
    assert {first: 1}[second] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.sizes = (5,)  # type: ignore[misc]  # frozen


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        *(((2, 3), None, True), ((2, 3), (3, 1), True), ((1, 3), (77, 1), True), ((2, 3), (4, 1), False)),
        *(((2, 3), (1, 2), False), ((2, 3), (0, 1), False)),
    ],
)
def test_packed_or_not(sizes: tuple[int, ...], strides: tuple[int, ...] | None, expected: bool) -> None:
    assert TensorDesc(dml.FLOAT32, sizes, strides).is_packed is expected


# --- DataType ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", [member for member in DataType if member is not DataType.UNKNOWN])
def test_every_known_data_type_can_be_described(data_type: DataType) -> None:
    assert TensorDesc(data_type, (3, 5)).data_type is data_type


@pytest.mark.parametrize("value", ["FLOAT32", "DML_TENSOR_DATA_TYPE_FLOAT32", "float32", 1, np.float32, np.dtype("f4")])
def test_a_data_type_may_be_named(value: Any) -> None:
    assert TensorDesc(value, (2, 3)) == TensorDesc(dml.FLOAT32, (2, 3))
    assert TensorDesc(value, (2, 3)).data_type is dml.FLOAT32


# --- Sizes and Strides ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 9))
def test_1_to_8_dimensions(count: int) -> None:
    assert TensorDesc(dml.UINT8, (2,) * count, (0,) * count).dimension_count == count


@pytest.mark.parametrize("number", [2, np.int8(2), np.uint64(2), np.int64(2), np.intp(2)], ids=repr)
def test_numpys_integers_become_pythons(number: Any) -> None:
    tensor = TensorDesc(dml.UINT8, (number, 1), (number, number), type(number)(12), number)
    members = (*tensor.sizes, *tensor.element_strides, tensor.size_in_bytes, tensor.guaranteed_base_offset_alignment)
    assert members == (2, 1, 2, 2, 12, 2)
    assert {type(member) for member in members} == {int}


class _Index:
    def __index__(self) -> int:
        return 3


class _Sequence:
    def __iter__(self) -> Iterator[int]:
        return iter((4, 5))


def test_anything_that_counts_as_an_integer_or_a_sequence_is_welcome() -> None:
    assert TensorDesc(dml.FLOAT32, (_Index(),)).sizes == (3,)  # type: ignore[arg-type]  # duck types
    assert TensorDesc(dml.FLOAT32, _Sequence()).sizes == (4, 5)  # type: ignore[arg-type]  # duck types
    assert TensorDesc(dml.FLOAT32, np.array([4, 5])).sizes == (4, 5)  # type: ignore[arg-type]  # duck types
    assert TensorDesc(dml.FLOAT32, range(2, 4)).sizes == (2, 3)
    assert TensorDesc(dml.FLOAT32, (size for size in (6, 7))).sizes == (6, 7)  # type: ignore[arg-type]  # duck types


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ((2**32 - 1,), None),
        ((65535, 65537), None),  # 2**32 - 1
        ((2**32 - 1,), (0,)),
        ((2,), (2**32 - 2,)),
        ((1,), (2**32 - 1,)),
        ((1, 2**32 - 1), (2**32 - 1, 1)),
    ],
)
def test_the_largest_tensors(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    tensor = TensorDesc(dml.UINT8, sizes, strides)
    assert max(tensor.element_count, tensor.span_in_elements) <= 2**32 - 1


# --- TotalTensorSizeInBytes -------------------------------------------------------------------------------------------


def _last_byte_by_enumeration(data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The byte behind the last one that any element touches, from a list of all elements' bits."""
    bits = data_type.size_in_bits
    last = 0
    for coordinate in itertools.product(*map(range, sizes)):
        first_bit = sum(i * stride for i, stride in zip(coordinate, strides, strict=True)) * bits
        last = max(last, *(bit // 8 + 1 for bit in range(first_bit, first_bit + bits)))
    return last


@pytest.mark.parametrize("data_type", [member for member in DataType if member is not DataType.UNKNOWN])
def test_the_implied_size_covers_the_elements_in_whole_words(data_type: DataType) -> None:
    random = np.random.default_rng(data_type)
    for _ in range(60):
        count = int(random.integers(1, 5))
        sizes = tuple(int(size) for size in random.integers(1, 5, count))
        strides = None if random.random() < 0.3 else tuple(int(stride) for stride in random.integers(0, 9, count))
        tensor = TensorDesc(data_type, sizes, strides)
        last = _last_byte_by_enumeration(data_type, sizes, tensor.element_strides)
        assert tensor.minimum_size_in_bytes % 4 == 0, tensor
        assert last <= tensor.minimum_size_in_bytes < last + 4, tensor
        assert tensor.size_in_bytes == tensor.minimum_size_in_bytes, tensor


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "expected"),
    [
        (dml.UINT8, (1,), None, 4),
        (dml.UINT8, (5,), None, 8),
        (dml.FLOAT16, (3,), None, 8),
        (dml.FLOAT32, (1, 2, 3, 4), None, 96),
        (dml.FLOAT32, (1, 2, 3, 4), (0, 0, 0, 1), 16),
        (dml.FLOAT64, (2, 2), (5, 3), 72),
        (DataType.UINT4, (5,), None, 4),
        (DataType.UINT4, (9,), None, 8),
        (dml.UINT8, (2**32 - 1,), None, 2**32),
        (dml.INT64, (2**32 - 1,), None, 8 * (2**32 - 1)),
    ],
)
def test_known_implied_sizes(
    data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, expected: int
) -> None:
    assert TensorDesc(data_type, sizes, strides).minimum_size_in_bytes == expected


@pytest.mark.parametrize("total", [24, 25, 28, 2**40, 2**64 - 1])
def test_a_larger_total_is_accepted(total: int) -> None:
    assert TensorDesc(dml.FLOAT32, (2, 3), total_tensor_size_in_bytes=total).size_in_bytes == total


# --- GuaranteedBaseOffsetAlignment ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_type", "accepted"),
    [(dml.UINT8, (1, 2, 4, 16)), (dml.FLOAT16, (2, 4, 16)), (dml.FLOAT32, (4, 32)), (dml.INT64, (8, 16, 2**31))],
)
def test_alignments_from_the_element_size_on(data_type: DataType, accepted: tuple[int, ...]) -> None:
    for alignment in (0, *accepted):
        tensor = TensorDesc(data_type, (4,), guaranteed_base_offset_alignment=alignment)
        assert tensor.guaranteed_base_offset_alignment == alignment
        assert tensor.binding_alignment == max(16, alignment), "every tensor is bound at a multiple of 16 bytes"


# --- Flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "expected"), [(0, TensorFlags.NONE), (1, TensorFlags.OWNED_BY_DML)])
def test_flags_may_be_numbers(flags: int, expected: TensorFlags) -> None:
    assert TensorDesc(dml.FLOAT32, (1,), flags=flags).flags is expected  # type: ignore[arg-type]  # plain numbers


# --- what is refused --------------------------------------------------------------------------------------------------

Refusals = Iterator[tuple[str, str, dict[str, Any]]]
NO_INTEGERS: tuple[Any, ...] = (
    *(True, False, np.True_, 2.0, 2.5, np.float64(2), math.nan, math.inf, None, "2", b"2", 1j, [2], (2,)),
    *(np.array([2]), np.array(2), decimal.Decimal(2), fractions.Fraction(2), object, np.datetime64(1, "s")),
)
BITS_32 = "to 4294967295; got"


def _of_data_types() -> Refusals:
    yield "unknown is no data type", "DataType UNKNOWN is never valid", {"data_type": DataType.UNKNOWN}
    for value in ("FLOAT", 99, 1.5, np.complex64, None, [1]):
        yield "no data type", f"DataType: {value!r} is no data type of tensors; ", {"data_type": value}


def _of_sizes_and_strides() -> Refusals:
    for count in (0, 9, 100):
        yield "1 to 8 dimensions", f"DimensionCount must be from 1 to 8; got {count}", {"sizes": (1,) * count}
    for member, least in (("Sizes", 1), ("Strides", 0)):
        name = member.lower()
        for item in NO_INTEGERS:
            yield "only integers", f"{member}[1] must be an integer; got {item!r}", {name: (2, item)}
        for value in (5, 5.0, object(), math.nan, np.array(5), len):
            yield "no sequence", f"{member} must be a sequence of integers; got {value!r}", {name: value}
        message = f"{member}[0] must be from {least} {BITS_32} a number of 33220 bits"
        yield "huge numbers make short messages", message, {name: (10**10_000, 1)}
    yield "sizes are needed", "Sizes must be a sequence of integers; got None", {"sizes": None}
    yield "no text", "Sizes[0] must be an integer; got '2'", {"sizes": "23"}
    for size in (0, -1, -(2**63)):
        yield "no empty tensors", f"Sizes[1] must be from 1 {BITS_32} {size}", {"sizes": (2, size)}
    for size in (2**32, 2**63, 2**64 - 1):
        yield "a size has 32 bits", f"Sizes[0] must be from 1 {BITS_32} {size}", {"sizes": (size,)}
    for stride in (-1, -(2**31), 2**32, 2**64 - 1):
        yield "a stride has 32 bits", f"Strides[0] must be from 0 {BITS_32} {stride}", {"strides": (stride, 1)}
    for strides in ((), (1,), (3, 1, 1), (1,) * 9):
        message = f"Strides must have as many entries as Sizes [2, 3]; got {list(strides)}"
        yield "as many strides as sizes", message, {"strides": strides}


def _of_elements() -> Refusals:
    for sizes, strides, made in (
        ((65536, 65536), None, 2**32),
        ((65536, 65536), (0, 0), 2**32),  # elements that are not there count too
        ((2,), (2**32 - 1,), 2**32),
        ((3,), (2**31,), 2**32 + 1),
        ((2**32 - 1,) * 8, (0,) * 8, (2**32 - 1) ** 8),
    ):
        listed = list(packed_strides(sizes) if strides is None else strides)
        message = (
            f"a tensor may hold at most 4294967295 elements; Sizes {list(sizes)} with Strides {listed} make {made}"
        )
        yield "at most 2**32 - 1 elements", message, {"data_type": dml.UINT8, "sizes": sizes, "strides": strides}


def _of_totals() -> Refusals:
    member = "TotalTensorSizeInBytes"
    for total in (0, 1, 23):
        message = f"{member} must be at least 24 for Sizes [2, 3], Strides [3, 1] and FLOAT32; got {total}"
        yield "a smaller total", message, {"total_tensor_size_in_bytes": total}
    message = f"{member} must be at least 8 for Sizes [3], Strides [1] and FLOAT16; got 6"
    halves = {"data_type": dml.FLOAT16, "sizes": (3,), "total_tensor_size_in_bytes": 6}
    yield "three FLOAT16 are six bytes; DirectML asks for eight", message, halves
    for value in (24.0, "24", True, object):
        message = f"{member} must be an integer; got {value!r}"
        yield "the total is an integer", message, {"total_tensor_size_in_bytes": value}
    yield "no sign", f"{member} must be at least 0; got -1", {"total_tensor_size_in_bytes": -1}
    message = f"{member} must be from 0 to 18446744073709551615; got a number of 65 bits"
    yield "64 bits", message, {"total_tensor_size_in_bytes": 2**64}


def _of_alignments_and_flags() -> Refusals:
    member, name = "GuaranteedBaseOffsetAlignment", "guaranteed_base_offset_alignment"
    for data_type, alignment, size in (
        *((dml.FLOAT16, 1, 2), (dml.FLOAT32, 2, 4), (dml.INT64, 4, 8), (dml.UINT8, 3, 1), (dml.FLOAT32, 12, 4)),
        *((dml.FLOAT32, 2**32 - 1, 4), (dml.FLOAT32, 48, 4)),
    ):
        rule = f"0 or a power of two that is at least the element size ({size} bytes for {data_type.name})"
        message = f"{member} must be {rule}; got {alignment}"
        yield "powers of two from the element's size on", message, {"data_type": data_type, name: alignment}
    for alignment in (-16, 2**32, 2**64 - 1):
        yield "an alignment has 32 bits", f"{member} must be from 0 {BITS_32} {alignment}", {name: alignment}
    for value in (16.0, None, "16", True):
        yield "an alignment is an integer", f"{member} must be an integer; got {value!r}", {name: value}
    for flags in (2, 3, -1, 2**32, None, "NONE", 0.0, True):
        yield "no flags", f"Flags must be NONE or OWNED_BY_DML; got {flags!r}", {"flags": flags}


REFUSED = [
    pytest.param(message, members, id=f"{name} {number}")
    for of in (_of_data_types, _of_sizes_and_strides, _of_elements, _of_totals, _of_alignments_and_flags)
    for number, (name, message, members) in enumerate(of())
]


@pytest.mark.parametrize(("message", "members"), REFUSED)
def test_what_is_no_description_is_refused_in_these_words(message: str, members: dict[str, Any]) -> None:
    whole = {"data_type": dml.FLOAT32, "sizes": (2, 3), **members}
    end = ".*" if message.endswith("; ") else ""
    with pytest.raises(InvalidArgumentError, match=f"^TensorDesc: {re.escape(message)}{end}$"):
        TensorDesc(**whole)


# --- strides and overlaps ---------------------------------------------------------------------------------------------


def test_packed_strides() -> None:
    assert packed_strides((2, 3, 4)) == (12, 4, 1)
    assert packed_strides((7,)) == (1,)
    assert packed_strides((5, 1, 1)) == (1, 1, 1)


def _overlap_by_enumeration(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    seen = set()
    for coordinate in itertools.product(*map(range, sizes)):
        offset = sum(i * stride for i, stride in zip(coordinate, strides, strict=True))
        if offset in seen:
            return True
        seen.add(offset)
    return False


def test_overlaps_are_found_as_by_enumeration() -> None:
    random = np.random.default_rng(11)
    found = {True: 0, False: 0}
    for _ in range(6000):
        count = int(random.integers(1, 6))
        sizes = tuple(int(size) for size in random.integers(1, 6, count))
        strides = tuple(int(stride) for stride in random.integers(0, random.choice((4, 20, 200)), count))
        expected = _overlap_by_enumeration(sizes, strides)
        assert elements_overlap(sizes, strides) is expected, f"sizes {sizes}, strides {strides}"
        found[expected] += 1
    assert min(found.values()) > 1000, found


def test_overlaps_of_large_tensors_are_decided_at_once() -> None:
    assert not elements_overlap((2**16, 2**15), (2**15, 1))
    assert not elements_overlap((2**15, 2**16), (1, 2**15))
    assert not elements_overlap((2, 2**30), (1, 2))  # woven together
    assert elements_overlap((2**16, 2**15), (2**15 - 1, 1))
    assert elements_overlap((2**31, 1), (0, 0))
    assert elements_overlap((10**6, 10**6), (1, 1))
    assert not elements_overlap((1,) * 8, (0,) * 8)
    assert not elements_overlap((4,) * 8, packed_strides((4,) * 8))


def test_strides_too_contrived_to_decide_are_refused() -> None:
    """Many axes of about equal strides make knapsack problems, which have no quick answer."""
    message = f"TensorDesc: cannot tell whether elements overlap for Sizes {list(CONTRIVED[0])} and Strides "
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(message)}"):
        elements_overlap(*CONTRIVED)


CONTRIVED = (5, 6, 7, 4, 2, 4, 5, 6), (138404, 104525, 95933, 127000, 324905, 120962, 126974, 77946)


def test_endless_sizes_are_refused() -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^TensorDesc: DimensionCount must be from 1 to 8; got 9$"):
        dml.TensorDesc(dml.FLOAT32, itertools.repeat(2))  # type: ignore[arg-type]  # no sequence


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_reshaped_strides_are_numpys(sizes: list[int], random: Random) -> None:
    """NumPy makes a view exactly where strides can say it."""
    whole = np.zeros([size + 1 for size in sizes], np.int8)
    taken = whole[tuple(slice(0, size) if random.random() < 0.3 else slice(0, size + 1) for size in sizes)]
    array = taken.transpose(random.sample(range(len(sizes)), len(sizes)))
    factors = [f for size in array.shape for f in {4: (2, 2)}.get(size, (size,))]
    wanted: list[int] = []
    for factor in factors:
        if wanted and random.random() < 0.4:
            wanted[-1] *= factor
        else:
            wanted += [factor] if random.random() < 0.8 else [factor, 1]
    strides = reshaped_strides(array.shape, array.strides, wanted)
    made = array.reshape(wanted)
    assert (strides is not None) == np.shares_memory(made, whole)
    if strides is not None:
        seen = [(size, stride) for size, stride in zip(wanted, strides, strict=True) if size > 1]
        assert seen == [(size, stride) for size, stride in zip(made.shape, made.strides, strict=True) if size > 1]
