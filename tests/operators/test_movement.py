"""Long paddings, and operators that move elements in a graph; worked examples and samples try the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators.rearrangement import Padding, PaddingMode
from dmlvk.tensors import TensorDesc


@pytest.mark.parametrize("mode", [PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP, PaddingMode.EDGE])
def test_long_paddings_take_few_steps(benches: list[Workbench], mode: PaddingMode) -> None:
    """A period is doubled, not repeated."""
    names = {PaddingMode.REFLECTION: "reflect", PaddingMode.SYMMETRIC: "symmetric", PaddingMode.WRAP: "wrap"}
    values = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    desc = Padding(
        input_tensor=TensorDesc(dml.FLOAT32, values.shape),
        output_tensor=TensorDesc(dml.FLOAT32, (1, 1, 3, 200)),
        padding_mode=mode,
        padding_value=0.0,
        dimension_count=4,
        start_padding=(0, 0, 1, 50),
        end_padding=(0, 0, 0, 147),
    )
    widths = [(0, 0), (0, 0), (1, 0), (50, 147)]
    numpy_mode: Any = names.get(mode, "edge")
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": values})["OutputTensor"]
        assert np.array_equal(got, np.pad(values, widths, numpy_mode))
    assert len(lower(desc, GPU).steps) < 20


def test_in_a_graph(benches: list[Workbench]) -> None:
    values = np.arange(24, dtype=np.float16).reshape(4, 6)
    for bench in benches:
        graph = dml.Graph(bench.device)
        x = graph.input("x", dml.FLOAT16, (4, 6))
        left, right = F.split(x, output_count=2, axis=1)
        turned = F.slice1(right, input_window_offsets=(0, 0), input_window_sizes=(4, 3), input_window_strides=(-1, 1))
        model = graph.compile(y=F.join([left, F.negate(turned)], axis=1))
        got = bench.device.run(model, {"x": values})["y"]
        assert np.array_equal(got, np.concatenate([values[:, :3], -values[::-1, 3:]], axis=1))
