"""What all descriptions have in common: members, names, data types, tokens that are equal in every process."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import typical_attributes, value_cases
from dmlvk.conformance.samples import sample_cases
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.operators import OPERATORS, operators_named
from dmlvk.support.tokens import token_of
from tests.device.processes import PREAMBLE

TENSOR = dml.TensorDesc(dml.FLOAT32, (2, 3))

OTHER = dml.TensorDesc(dml.FLOAT16, (2, 3))


def clip() -> dml.ElementWiseClip:
    return dml.ElementWiseClip(input_tensor=TENSOR, output_tensor=TENSOR, min=-1.5, max=2)


def test_members_cannot_be_changed() -> None:
    desc = clip()
    with pytest.raises(dataclasses.FrozenInstanceError, match="'min'"):
        setattr(desc, "min", 0.0)  # noqa: B010  # a plain assignment is refused by type checkers
    with pytest.raises(dataclasses.FrozenInstanceError, match="'min'"):
        del desc.min
    with pytest.raises(dataclasses.FrozenInstanceError, match="'minimum'"):
        setattr(desc, "minimum", 0.0)  # noqa: B010
    assert desc == clip()
    assert desc.min == -1.5


def test_the_signature_has_the_members_by_name() -> None:
    """As ``help`` and editors show it."""
    parameters = inspect.signature(dml.ElementWiseClip).parameters
    assert list(parameters) == ["input_tensor", "output_tensor", "scale_bias", "min", "max"]
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert [name for name, p in parameters.items() if p.default is not p.empty] == ["scale_bias"]
    assert parameters["scale_bias"].default is None
    assert parameters["min"].annotation == "float"


def test_the_text_names_class_and_members() -> None:
    desc = dml.ElementWiseRound(input_tensor=TENSOR, output_tensor=TENSOR, rounding_mode=dml.RoundingMode(1))
    text = repr(desc)
    assert text.startswith("ElementWiseRound(input_tensor=TensorDesc(data_type=<DataType.FLOAT32")
    assert text.endswith(", rounding_mode=<RoundingMode.TOWARD_ZERO: 1>)")


def test_copies_are_equal_and_differ_where_they_are_told_to() -> None:
    desc = clip()
    for same in (copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), dataclasses.replace(desc)):
        assert same == desc
        assert hash(same) == hash(desc)
    changed = dataclasses.replace(desc, min=0, input_tensor=OTHER)
    assert (changed.min, changed.max, changed.input_tensor) == (0.0, 2.0, OTHER)
    assert changed != desc


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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ELEMENT_WISE_SIGN", ["ELEMENT_WISE_SIGN"]),
        ("dml_operator_element_wise_sign", ["ELEMENT_WISE_SIGN"]),
        ("Sign", ["ELEMENT_WISE_SIGN"]),
        ("hardmax", ["ACTIVATION_HARDMAX"]),
        ("hardmax*", ["ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"]),
        ("tanh", ["ELEMENT_WISE_TANH"]),
        ("activation_tanh", ["ACTIVATION_TANH"]),
        ("?anh", ["ACTIVATION_TANH", "ELEMENT_WISE_TANH"]),
        ("bit_[no]*", ["ELEMENT_WISE_BIT_NOT", "ELEMENT_WISE_BIT_OR"]),
        ("", []),
        ("sig", []),
        ("sign ", []),
    ],
)
def test_names_and_globs_with_or_without_prefixes(text: str, names: list[str]) -> None:
    assert sorted(operators_named(text)) == names


def test_every_operator_is_named_by_itself_and_all_by_a_star() -> None:
    for name in OPERATORS:
        assert operators_named(name) == [name]
    assert operators_named("*") == list(OPERATORS)


def test_an_unknown_name_names_the_nearest_one() -> None:
    with pytest.raises(dml.UnsupportedError, match="did you mean ELEMENT_WISE_THRESHOLD"):
        dml.operator_desc("ELEMENT_WISE_TRESHOLD")
    with pytest.raises(dml.UnsupportedError, match=r"did you mean ELEMENT_WISE_SIGN\?$"):
        dml.operator_desc("sign")
    with pytest.raises(dml.UnsupportedError, match="no such operator; 'dmlvk operators' lists those that there are"):
        dml.operator_desc("NOTHING_LIKE_IT")


def test_descriptions_take_enumerations_by_directmls_names_and_numbers() -> None:
    x, y = dml.TensorDesc(dml.FLOAT32, (4, 8)), dml.TensorDesc(dml.FLOAT32, (4, 1))

    def reduce(function: Any) -> dml.Reduce:
        return dml.Reduce(function=function, input_tensor=x, output_tensor=y, axis_count=1, axes=(1,))

    expected = reduce(dml.ReduceFunction.SUM)
    number = int(dml.ReduceFunction.SUM)
    for function in ("SUM", "DML_REDUCE_FUNCTION_SUM", number):
        assert reduce(function) == expected and reduce(function).function is dml.ReduceFunction.SUM
    for function, message in (
        ("SUMM", "Function must be one of .*SUM.*; got 'SUMM'"),
        (99, "Function must be one of .*; got 99"),
        (True, "Function must be a dmlvk.ReduceFunction; got True"),
        (dml.RoundingMode(number % 2), "Function must be a dmlvk.ReduceFunction; got"),
    ):
        with pytest.raises(dml.InvalidArgumentError, match=message):
            reduce(function)


def descriptions() -> Iterator[dml.OperatorDesc]:
    """Some of every operator, with the attributes that it has."""
    for kind, cases in itertools.groupby(value_cases(), lambda case: case.desc_class):
        case = next(cases)
        tensors = {member: dml.TensorDesc(data_type, (2, 3)) for member, data_type in case.data_types}
        missing = {f.attribute: None for f in kind.fields if f.optional and f.attribute not in tensors}
        for attributes in typical_attributes(kind, case.tensors("input")[0][1])[:3]:
            yield kind(**{**missing, **tensors, **attributes})
    for _, irregular in itertools.groupby(sample_cases(), lambda case: case.desc_class):
        for sample in itertools.islice(next(irregular).samples(), 3):
            yield sample.desc


def test_every_operators_descriptions_pickle_and_have_tokens_of_their_own() -> None:
    found = list(descriptions())
    assert {desc.operator_name for desc in found} >= {"GEMM", "JOIN", "LSTM", "ELEMENT_WISE_CLIP", "ACTIVATION_CELU"}
    for desc in found:
        arrived = pickle.loads(pickle.dumps(desc))
        assert arrived == desc and type(arrived) is type(desc)
        assert arrived.__dask_tokenize__() == desc.__dask_tokenize__()
    assert len({desc.__dask_tokenize__() for desc in found}) == len(set(found))


def test_tokens_tell_bits_apart_and_are_the_same_in_every_process() -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (2, 3))
    values: list[Any] = [0.0, -0.0, 0, False, None, "0", b"0", (0,), (0, 0), ((0,), 0), float("nan"), dml.FLOAT32, 1]
    values += [
        np.array([0], np.float32),
        np.array([[0]], np.float32),
        np.array([0], np.int32),
        {"a": 0},
        {"b": 0},
        tensor,
        [tensor],
    ]
    assert len({token_of(value) for value in values}) == len(values)
    assert token_of([1, 2]) == token_of((1, 2))
    program = """
from dmlvk.support.tokens import token_of
celu = dml.FusedActivation(dml.ActivationCelu, alpha=0.1)
print(token_of([dml.ElementWiseAdd1(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor, fused_activation=celu)]))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", PREAMBLE + program, "0"]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    t = dml.TensorDesc(dml.FLOAT32, (64,))
    celu = dml.FusedActivation(dml.ActivationCelu, alpha=0.1)
    add = dml.ElementWiseAdd1(a_tensor=t, b_tensor=t, output_tensor=t, fused_activation=celu)
    assert printed == f"{token_of([add])}\n"
