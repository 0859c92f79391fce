"""Nodes of many operators at sizes that follow each other give the bits of plans for each of these sizes alone."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.targets import MOST_PLANS_OF_GPUS, all_compute_as_gpus

Sizes = tuple[int | str, ...]


class Case(NamedTuple):
    """A node.

    Attributes:
        name: its operator, and perhaps more.
        shapes: of its inputs; names are open sizes.
        attributes: of the node.
        constants: further inputs, which are known.
        element: of its inputs.
        outputs: how many.
        is_pinned: whether plans are for one size only, and known to be.
        opset: of ONNX's operators.
    """

    name: str
    shapes: tuple[Sizes, ...]
    attributes: dict[str, Any] = {}  # noqa: RUF012  # never changed
    constants: tuple[Any, ...] = ()
    element: int = TensorProto.FLOAT
    outputs: int = 1
    is_pinned: bool = False
    opset: int = 17


def _i(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, np.int64)


N, M = "n", "m"
_SAMPLED = ("mode", "padding_mode", "align_corners")
CASES = [
    *(Case(name, ((2, N, 5),)) for name in ("Relu", "Erf", "Tanh", "Neg", "Sigmoid", "HardSwish", "Softplus", "Abs")),
    *(Case(name, ((N, M),)) for name in ("Exp", "Sqrt", "LeakyRelu", "Softsign", "Elu", "Ceil")),
    *(Case(name, ((2, N, M), (N, M))) for name in ("Add", "Mul", "Sub", "Div", "Max", "Less", "Equal")),
    *(
        Case(f"{name} {index}", shapes)
        for name in ("Add", "Mul")
        for index, shapes in enumerate(
            (
                *(((N, 8), (8,)), ((3, N, M), (3, 1, M)), ((3, N, 1), (1, N, M)), ((N, 6), (1,))),
                *(((2, 4, N), (4, 1)), ((N, N), (N,)), ((1, N, 4), (3, 1, 4))),
            )
        )
    ),
    Case("Add half", ((2, N, M), (M,)), element=TensorProto.FLOAT16),
    Case("Mul half", ((N, 5), (N, 1)), element=TensorProto.FLOAT16),
    Case("Softmax", ((2, N, M),)),
    Case("Softmax 1", ((2, N, M),), {"axis": 1}),
    Case("Softmax half", ((2, 3, N),), element=TensorProto.FLOAT16),
    Case("LogSoftmax", ((N, 40),)),
    *(
        Case(f"{name} {axes}", ((2, N, M),), {"axes": list(axes), "keepdims": keep})
        for name, axes, keep in (
            ("ReduceMean", (1,), 1),
            ("ReduceMax", (2,), 0),
            ("ReduceL2", (1, 2), 1),
            ("ReduceMin", (0,), 0),
        )
    ),
    Case("ReduceSum 1", ((2, N, M),), {}, (_i(1),)),
    Case("ReduceSum 0 2", ((2, N, M),), {"keepdims": 0}, (_i(0, 2),)),
    Case("ArgMax", ((2, N, M),), {"axis": 1}),
    Case("CumSum", ((2, N, M),), {}, (np.array(1, np.int64),)),
    Case("Transpose", ((2, N, M),), {"perm": [2, 0, 1]}),
    Case("Transpose half", ((2, N, M),), {"perm": [0, 2, 1]}, element=TensorProto.FLOAT16),
    Case("Concat", ((2, N, 4), (2, M, 4)), {"axis": 1}),
    Case("Concat last", ((2, N), (2, M)), {"axis": 1}),
    Case("Concat bytes", ((3, N), (3, M)), {"axis": 1}, element=TensorProto.UINT8),
    Case("Split", ((2, N, 6),), {"axis": 2}, (_i(2, 3, 1),), outputs=3),
    Case("Slice", ((2, N, 5),), {}, (_i(1), _i(2**31 - 1), _i(1), _i(1))),
    Case("Slice back", ((2, N, M),), {}, (_i(-1), _i(-(2**31)), _i(1), _i(-2))),
    Case("Slice end", ((2, N, M),), {}, (_i(0, -2), _i(1, 2**31 - 1), _i(0, 2))),
    Case("Gather", ((N, M),), {"axis": 1}, (_i(1, 0, -1),)),
    Case("Tile", ((2, N),), {}, (_i(2, 3),)),
    *(
        Case(f"Pad {mode}", ((2, N, M),), {"mode": mode}, (_i(0, 1, 1, 0, 0, 1),))
        for mode in ("constant", "edge", "reflect")
    ),
    Case("MatMul", ((N, 24), (24, M))),
    Case("MatMul batch", ((2, 3, N, 8), (2, 3, 8, M))),
    Case("MatMul terms", ((2, 5, N), (2, N, M))),
    Case("MatMul one", ((3, N, 8), (8, 12))),
    Case("MatMul half", ((2, N, 16), (16, M)), element=TensorProto.FLOAT16),
    Case("Gemm", ((N, 8), (5, 8), (5,)), {"transB": 1, "alpha": 0.5}),
    Case("Conv", ((2, 3, N, M), (4, 3, 3, 3), (4,)), {"pads": [1, 1, 1, 1]}),
    Case("Conv strides", ((1, 4, N, M), (8, 4, 1, 1)), {"strides": [2, 2]}),
    Case("Conv depthwise", ((1, 6, N, M), (6, 1, 3, 3)), {"group": 6, "auto_pad": "SAME_UPPER"}),
    Case("Conv line", ((2, 3, N), (4, 3, 2)), {"dilations": [1]}),
    Case("ConvTranspose", ((1, 4, N, M), (4, 3, 2, 2)), {"strides": [2, 2]}),
    Case("MaxPool", ((1, 3, N, M),), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("AveragePool", ((1, 3, N, M),), {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
    Case("GlobalAveragePool", ((2, 3, N, M),)),
    Case("GlobalMaxPool", ((2, 3, N, M),)),
    Case("GlobalAveragePool large", ((1, 1, 4500, N),)),
    Case("GlobalMaxPool large", ((1, 2, 4500, N),)),
    Case("LayerNormalization", ((2, N, 24), (24,), (24,))),
    Case("LayerNormalization open", ((3, 4, N), (N,))),
    Case("InstanceNormalization", ((2, 3, N, M), (3,), (3,))),
    Case("BatchNormalization", ((2, 3, N, M), (3,), (3,), (3,), (3,))),
    Case(
        "Resize nearest",
        ((1, 2, N, M),),
        {"mode": "nearest", "nearest_mode": "floor"},
        (None, np.array([1, 1, 2, 2], np.float32)),
    ),
    Case("Resize linear", ((1, 2, N, M),), {"mode": "linear"}, (None, np.array([1, 1, 2, 3], np.float32))),
    Case("DepthToSpace", ((1, 8, N, M),), {"blocksize": 2}),
    Case("Trilu", ((2, N, N),), {}, (np.array(0, np.int64),)),
    Case("Cast", ((N, 3),), {"to": TensorProto.INT32}),
    Case("Cast half", ((2, N, M),), {"to": TensorProto.FLOAT16}),
    Case("Expand", ((N, 1, 4),), {}, (_i(1, 3, 4),)),
    Case("Flatten", ((2, N, M),), {"axis": 2}),
    Case("Where", ((N, M), (N, M))),
    Case("Clip", ((N, M),), {}, (np.float32(-0.5), np.float32(0.5))),
    Case("Einsum", ((2, N, 4), (2, M, 4)), {"equation": "bnk,bmk->bnm"}),
    Case("Einsum batch", ((N, 6, 8), (8, 3)), {"equation": "nab,bc->nac"}),
    Case("OneHot", ((N, M),), {"axis": 0}, (np.array(8), np.array([0, 1], np.float32)), TensorProto.INT32),
    Case("GatherND", ((3, N, 8),), {"batch_dims": 1}, (np.array([[[1]], [[0]], [[-1]]]),)),
    Case("Shrink", ((N, M),), {"lambd": 0.25}),
    Case("GridSample", ((2, 3, 5, 4), (2, N, M, 2))),
    Case("GridSample picture", ((2, 3, N, 4), (2, 5, 4, 2))),
    *(
        Case(f"GridSample {index}", ((2, 3, N, M), (2, M, N, 2)), dict(zip(_SAMPLED, way, strict=True)), opset=20)
        for index, way in enumerate(
            (
                *(("linear", "zeros", 0), ("linear", "border", 1), ("linear", "reflection", 0), ("cubic", "zeros", 0)),
                *(("nearest", "zeros", 1), ("nearest", "border", 0), ("nearest", "reflection", 1)),
                ("cubic", "reflection", 1),
            )
        )
    ),
    Case("GridSample half", ((2, 3, N, M), (2, M, N, 2)), {"mode": "linear"}, element=TensorProto.FLOAT16, opset=20),
    Case("RMSNormalization", ((2, N, 16), (16,)), {"axis": -1, "epsilon": 1e-5}, opset=23),
    *(
        Case(f"{name} batch", ((4, N, 8), (1, gates * 5, 8), (1, gates * 5, 5)), {"hidden_size": 5})
        for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    ),
    Case("LSTM steps", ((N, 2, 8), (1, 20, 8), (1, 20, 5)), {"hidden_size": 5}),
]


def _model(case: Case, sizes: dict[str, int] | None) -> onnx.ModelProto:
    op_type = case.name.partition(" ")[0]
    names = [f"x{number}" for number in range(len(case.shapes))]
    inputs = list(names)
    nodes = []
    if op_type == "Where":
        nodes.append(helper.make_node("Less", names, ["condition"]))
        inputs.insert(0, "condition")
    constants = {}
    for number, constant in enumerate(case.constants):
        inputs.append("" if constant is None else f"c{number}")
        if constant is not None:
            constants[f"c{number}"] = np.asarray(constant)
    outputs = [f"y{number}" for number in range(case.outputs)]
    nodes.append(helper.make_node(op_type, inputs, outputs, **case.attributes))
    shapes = [[size if sizes is None else sizes.get(str(size), size) for size in shape] for shape in case.shapes]
    return models.model(
        nodes, dict(zip(names, shapes, strict=True)), outputs, constants, element=case.element, opset=case.opset
    )


def _feed(case: Case, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    drawn = np.random.default_rng(seed)
    dtype = helper.tensor_dtype_to_np_dtype(case.element)
    made = {}
    for number, shape in enumerate(case.shapes):
        values = drawn.standard_normal([size if isinstance(size, int) else sizes[size] for size in shape])
        made[f"x{number}"] = (np.abs(values) * 9 if np.dtype(dtype).kind == "u" else values).astype(dtype)
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nodes_have_the_bits_of_plans_for_their_sizes_alone(case: Case, any_device: dml.Device) -> None:
    drawn = np.random.default_rng(zlib.crc32(case.name.encode()))
    session = ort.InferenceSession(_model(case, None), device=any_device)
    for turn in range(3):
        sizes = {N: int(drawn.integers(17, 33)), M: int(drawn.integers(9, 17))}
        feed = _feed(case, sizes, turn)
        results = session.run(None, feed)
        if turn < 1:
            continue
        alone = ort.InferenceSession(_model(case, sizes), device=any_device).run(None, feed)
        for result, wanted in zip(results, alone, strict=True):
            assert result.dtype == wanted.dtype
            assert result.tobytes() == wanted.tobytes(), (case.name, sizes)
    (made,) = session._program.last
    assert made.guards is not None, session._program._dynamic.refused
    assert bool(made.guards.locations) is case.is_pinned, made.guards.locations


def test_gpus_have_few_plans_however_many_sizes_pictures_have(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch)
    case = Case("GridSample", ((2, 3, N, M), (2, "rows", "columns", 2)))
    session = ort.InferenceSession(_model(case, None), device=device, strict=True)
    drawn = np.random.default_rng(0)
    for turn in range(24):
        sizes = {
            name: int(size) for name, size in zip((N, M, "rows", "columns"), drawn.integers(3, 60, 4), strict=True)
        }
        session.run(None, _feed(case, sizes, turn))
    assert session._program.plan_count <= MOST_PLANS_OF_GPUS
