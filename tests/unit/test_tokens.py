"""Descriptions pickle, and have tokens: equal for equal ones, in every process, and different for all others."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import dmlvk as dml
from dmlvk.conformance.cases import typical_attributes, value_cases
from dmlvk.conformance.samples import sample_cases
from dmlvk.support.tokens import token_of
from tests.device.processes import PREAMBLE


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
