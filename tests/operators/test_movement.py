"""PADDING's modes, and operators that move elements in a graph; worked examples and samples try the rest."""

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


def _floats(*sizes: int) -> TensorDesc:
    return TensorDesc(dml.FLOAT32, sizes)


def _padding(**changes: Any) -> Padding:
    members: dict[str, Any] = {
        "input_tensor": _floats(1, 1, 2, 3),
        "output_tensor": _floats(1, 1, 3, 5),
        "padding_mode": PaddingMode.EDGE,
        "padding_value": 0.0,
        "dimension_count": 4,
        "start_padding": (0, 0, 1, 1),
        "end_padding": (0, 0, 0, 1),
    }
    return Padding(**{**members, **changes})


def test_modes_need_their_feature_levels(benches: list[Workbench]) -> None:
    index = benches[0].device.info.index
    message = r"PADDING: PaddingMode cannot be SYMMETRIC at feature level 2_1; it needs 3_0"
    level = dml.FeatureLevel.LEVEL_2_1
    with dml.Device(index, feature_level=level) as device, pytest.raises(dml.UnsupportedError, match=message):
        device.create_operator(_padding(padding_mode=PaddingMode.SYMMETRIC))


@pytest.mark.parametrize("mode", [PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP, PaddingMode.EDGE])
def test_long_paddings_take_few_steps(benches: list[Workbench], mode: PaddingMode) -> None:
    """A period is doubled, not repeated."""
    names = {PaddingMode.REFLECTION: "reflect", PaddingMode.SYMMETRIC: "symmetric", PaddingMode.WRAP: "wrap"}
    values = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    desc = _padding(
        padding_mode=mode,
        start_padding=(0, 0, 1, 50),
        end_padding=(0, 0, 0, 147),
        output_tensor=_floats(1, 1, 3, 200),
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
