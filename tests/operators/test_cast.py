"""CAST in rows of whole vectors; samples try the rest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import expected_outputs
from dmlvk.conformance.samples.cast import telling_values
from dmlvk.conformance.sampling import run_sample, sample_fault
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators.cast import Cast
from dmlvk.tensors import TensorDesc

_ONE_OF_EACH_WIDTH = (dml.INT8, dml.FLOAT16, dml.FLOAT32, dml.FLOAT64, dml.UINT64)


@pytest.mark.combinations
@pytest.mark.parametrize(
    ("source", "result"),
    [pair for pair in itertools.product(_ONE_OF_EACH_WIDTH, repeat=2) if pair[0] is not pair[1]],
    ids=lambda data_type: data_type.name,
)
def test_rows_of_vectors(benches: list[Workbench], source: dml.DataType, result: dml.DataType) -> None:
    values = {"InputTensor": telling_values(source, np.random.default_rng(3)).reshape(24, 32)}
    desc = Cast(input_tensor=TensorDesc(source, (24, 32), (48, 1)), output_tensor=TensorDesc(result, (24, 32), (64, 1)))
    assert lower(desc, GPU).steps[0].kernel.variant.endswith(".rows")
    for bench in benches:
        outcome = run_sample(bench, desc, values)
        assert sample_fault(bench.device.info.name, outcome, expected_outputs(desc, values)) is None
