"""Data types: DirectML's numbers and names, their widths, their NumPy counterparts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError

# DirectML's enumeration DML_TENSOR_DATA_TYPE: number, bits, NumPy's name.
FACTS = {
    "UNKNOWN": (0, 0, None),
    "FLOAT32": (1, 32, "float32"),
    "FLOAT16": (2, 16, "float16"),
    "UINT32": (3, 32, "uint32"),
    "UINT16": (4, 16, "uint16"),
    "UINT8": (5, 8, "uint8"),
    "INT32": (6, 32, "int32"),
    "INT16": (7, 16, "int16"),
    "INT8": (8, 8, "int8"),
    "FLOAT64": (9, 64, "float64"),
    "UINT64": (10, 64, "uint64"),
    "INT64": (11, 64, "int64"),
    "UINT4": (12, 4, "uint8"),
    "INT4": (13, 4, "int8"),
}


def test_all_of_directmls_data_types_are_known() -> None:
    assert {member.name: member.value for member in DataType} == {
        name: number for name, (number, _, _) in FACTS.items()
    }


@pytest.mark.parametrize("name", FACTS)
def test_a_data_types_facts(name: str) -> None:
    number, bits, numpy_name = FACTS[name]
    data_type = DataType.from_name(name)
    assert data_type is DataType(number) is DataType.from_name(f"DML_TENSOR_DATA_TYPE_{name}")
    assert data_type.size_in_bits == bits
    assert data_type.is_float is name.startswith("FLOAT")
    if numpy_name is not None:
        assert data_type.numpy_dtype == np.dtype(numpy_name)
        assert data_type.numpy_dtype.itemsize == max(bits, 8) // 8
        assert data_type.numpy_dtype.isnative
        assert getattr(dml, name) is data_type
    if bits >= 8:
        assert data_type.size_in_bytes == bits // 8


def test_unknown_has_no_numpy_type() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^DataType UNKNOWN: NumPy has no such data type$"):
        _ = DataType.UNKNOWN.numpy_dtype


@pytest.mark.parametrize(("name", "least", "greatest"), [("UINT4", 0, 15), ("INT4", -8, 7), ("INT16", -32768, 32767)])
def test_least_and_greatest_integers(name: str, least: int, greatest: int) -> None:
    assert DataType.from_name(name).integer_limits == (least, greatest)


def test_bytes_of_several_elements() -> None:
    assert [dml.INT4.bytes_of(count) for count in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert [dml.FLOAT16.bytes_of(count) for count in (1, 3)] == [2, 6]


@pytest.mark.parametrize("name", ["UNKNOWN", "UINT4", "INT4"])
def test_types_without_whole_bytes_have_no_size_in_bytes(name: str) -> None:
    data_type = DataType.from_name(name)
    with pytest.raises(InvalidArgumentError, match=rf"^DataType {name}: an element has no size in whole bytes$"):
        _ = data_type.size_in_bytes


@pytest.mark.parametrize(
    "name", ["", "float32", "FLOAT", "FLOAT32 ", "DML_FLOAT32", "BFLOAT16", "DML_TENSOR_DATA_TYPE_"]
)
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"^unknown data type '{name}'; known are UNKNOWN, FLOAT32, .*INT4$"
    ):
        DataType.from_name(name)


@pytest.mark.parametrize("name", [name for name, (_, bits, _) in FACTS.items() if bits >= 8])
def test_a_data_type_is_made_from_numpys(name: str) -> None:
    numpy_name = FACTS[name][2]
    for given in (numpy_name, np.dtype(numpy_name), getattr(np, str(numpy_name)), name, f"DML_TENSOR_DATA_TYPE_{name}"):
        assert DataType(given) is dml.DataType[name]
    assert DataType(np.dtype(numpy_name).newbyteorder(">")) is dml.DataType[name]
    assert DataType(np.bool_) is DataType(bool) is DataType.UINT8


@pytest.mark.parametrize(
    "other", ["float", "unknown", "uint4", "FLOAT", "<f4", np.complex64, np.dtype("U3"), None, object, dict, 14]
)
def test_other_data_types_have_no_counterpart(other: Any) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(other))} is no data type of tensors; "):
        DataType(other)


def test_an_array_is_no_data_type() -> None:
    for other in (np.zeros(2, [("a", "f4")]), np.zeros(3), [1]):
        with pytest.raises(dml.InvalidArgumentError, match="TensorDesc: DataType: "):
            dml.TensorDesc(other, (2,))
