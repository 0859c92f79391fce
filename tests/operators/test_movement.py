"""JOIN, SPLIT and SLICE: DirectML's worked examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.operators.movement import Join, Slice, Slice1, Split


def _floats(sizes: Sequence[int]) -> dml.TensorDesc:
    return dml.TensorDesc(dml.FLOAT32, sizes)


def _gives(benches: list[Workbench], desc: dml.OperatorDesc, inputs: Mapping[str, Any], **outputs: Any) -> None:
    """A description gives these outputs on every device; an array's by a list."""
    expected: dict[str, Any] = {}
    for name, value in outputs.items():
        expected |= {f"{name}[{i}]": item for i, item in enumerate(value)} if name.endswith("s") else {name: value}
    types = {field.name: tensor.data_type.numpy_dtype for field, tensor in desc.inputs if tensor is not None}
    arrays = {name: np.asarray(value, types[name]) for name, value in inputs.items()}
    for bench in benches:
        got = bench.device.run(desc, arrays)
        assert {name: values.tolist() for name, values in got.items()} == expected


_PAIRS = [[[[[1, 2], [3, 4]]]], [[[[5, 6], [7, 8]]]], [[[[9, 10], [11, 12]]]]]


@pytest.mark.parametrize(
    ("axis", "sizes", "expected"),
    [
        (1, (1, 3, 2, 2), [[[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]]),
        (2, (1, 1, 6, 2), [[[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]]]),
        (3, (1, 1, 2, 6), [[[[1, 2, 5, 6, 9, 10], [3, 4, 7, 8, 11, 12]]]]),
    ],
)
def test_join_of_three(benches: list[Workbench], axis: int, sizes: tuple[int, ...], expected: Any) -> None:
    parts = [_floats((1, 1, 2, 2))] * 3
    desc = Join(input_count=3, input_tensors=parts, output_tensor=_floats(sizes), axis=axis)
    _gives(benches, desc, {f"InputTensors[{i}]": part for i, part in enumerate(_PAIRS)}, OutputTensor=expected)


def test_join_of_different_lengths(benches: list[Workbench]) -> None:
    parts = [_floats((1, 1, 2, 3)), _floats((1, 1, 2, 4))]
    desc = Join(input_count=2, input_tensors=parts, output_tensor=_floats((1, 1, 2, 7)), axis=3)
    inputs = {"InputTensors[0]": [[[[1, 2, 3], [4, 5, 6]]]], "InputTensors[1]": [[[[7, 8, 9, 10], [11, 12, 13, 14]]]]}
    _gives(benches, desc, inputs, OutputTensor=[[[[1, 2, 3, 7, 8, 9, 10], [4, 5, 6, 11, 12, 13, 14]]]])


_ROWS = [[[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]]]


@pytest.mark.parametrize(
    ("axis", "sizes", "expected"),
    [
        (
            2,
            [(1, 1, 2, 2), (1, 1, 1, 2), (1, 1, 3, 2)],
            [[[[[1, 2], [3, 4]]]], [[[[5, 6]]]], [[[[7, 8], [9, 10], [11, 12]]]]],
        ),
        (3, [(1, 1, 6, 1)] * 2, [[[[[1], [3], [5], [7], [9], [11]]]], [[[[2], [4], [6], [8], [10], [12]]]]]),
    ],
)
def test_split(benches: list[Workbench], axis: int, sizes: list[tuple[int, ...]], expected: Any) -> None:
    parts = [_floats(part) for part in sizes]
    desc = Split(input_tensor=_floats((1, 1, 6, 2)), output_count=len(parts), output_tensors=parts, axis=axis)
    _gives(benches, desc, {"InputTensor": _ROWS}, OutputTensors=expected)


_SQUARE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]


@pytest.mark.parametrize(
    ("offsets", "sizes", "strides", "expected"),
    [
        ((0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1), [[[[7, 8], [11, 12], [15, 16]]]]),
        ((0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), [[[[5, 8], [13, 16]]]]),
    ],
)
def test_slice(benches: list[Workbench], offsets: Any, sizes: Any, strides: Any, expected: Any) -> None:
    desc = Slice(
        input_tensor=_floats((1, 1, 4, 4)),
        output_tensor=_floats(sizes),
        dimension_count=4,
        offsets=offsets,
        sizes=sizes,
        strides=strides,
    )
    _gives(benches, desc, {"InputTensor": _SQUARE}, OutputTensor=expected)


def _slice1(**changes: Any) -> Slice1:
    members: dict[str, Any] = {
        "input_tensor": _floats((1, 1, 4, 4)),
        "output_tensor": _floats((1, 1, 2, 2)),
        "dimension_count": 4,
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": (1, 1, 2, 2),
    }
    return Slice1(**{**members, **changes})


@pytest.mark.parametrize(
    ("strides", "expected"),
    [((1, 1, 2, 2), [[[[2, 4], [10, 12]]]]), ((1, 1, -2, 2), [[[[14, 16], [6, 8]]]])],
)
def test_slice1(benches: list[Workbench], strides: Any, expected: Any) -> None:
    _gives(benches, _slice1(input_window_strides=strides), {"InputTensor": _SQUARE}, OutputTensor=expected)


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
