"""Models as libraries have them that know nothing of dmlvk: results are the CPU's, and nodes are on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dmlvk.onnxruntime import PROVIDER
from dmlvk.onnxruntime.unchanged import STARTUP
from tests.onnx import models
from tests.onnxruntime.models import alone, session_of
from tests.processes import python

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


class Maker(models.Writer):
    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(1)

    def weights(self, *shape: int) -> str:
        scale = np.prod(shape[1:]) ** -0.5
        return self.constant(self.random.normal(0, scale, shape).astype(np.float32))

    def add(self, op_type: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        names = self.node(op_type, *inputs, outputs=count, **attributes)
        return names[0] if count == 1 else names

    def convolution(self, x: str, inside: int, outside: int, size: int = 3, **attributes: Any) -> str:
        pads = [size // 2] * 4
        bias = self.constant(np.zeros(outside, np.float32))
        return str(self.add("Conv", x, self.weights(outside, inside, size, size), bias, pads=pads, **attributes))

    def model(self, inputs: dict[str, tuple[int, Any]], outputs: dict[str, int]) -> onnx.ModelProto:
        for number, name in enumerate(outputs):
            self.nodes.append(helper.make_node("Identity", [name], [f"output{number}"]))
        kinds = {f"output{number}": kind for number, kind in enumerate(outputs.values())}
        return models.model(self.nodes, inputs, kinds, self.constants)


def segmentation() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """As rembg's: a picture of any size, halved and doubled, with what it was before beside it."""
    make = Maker()
    fine = make.add("Relu", make.convolution("picture", 3, 8))
    coarse = make.add("Relu", make.convolution(make.add("MaxPool", fine, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    scales = make.constant(np.array([1, 1, 2, 2], np.float32))
    large = make.add("Resize", coarse, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    both = make.add("Concat", fine, large, axis=1)
    mask = make.add("Sigmoid", make.convolution(both, 24, 1, 1))
    model = make.model({"picture": (_FLOAT, ["batch", 3, "height", "width"])}, {mask: _FLOAT})
    return model, [{"picture": make.random.random((1, 3, *size)).astype(np.float32)} for size in ((32, 24), (16, 40))]


def detection() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """As insightface's and RapidOCR's: boxes and scores of places, of which the host keeps the best."""
    make = Maker()
    x = make.add("Relu", make.convolution("picture", 3, 8, strides=[2, 2]))
    x = make.add("Relu", make.convolution(x, 8, 8, strides=[2, 2]))
    scores = make.add("Sigmoid", make.convolution(x, 8, 1, 1))
    boxes = make.add("Relu", make.convolution(x, 8, 4, 1))
    scores = make.add("Reshape", scores, make.constant(np.array([1, 1, -1])))
    boxes = make.add("Reshape", boxes, make.constant(np.array([1, 4, -1])))
    boxes = make.add("Transpose", boxes, perm=[0, 2, 1])
    most, overlap = make.constant(np.array([5])), make.constant(np.array([0.5], np.float32))
    chosen = make.add("NonMaxSuppression", boxes, scores, most, overlap, make.constant(np.array([0.4], np.float32)))
    indices = make.add("Gather", chosen, make.constant(np.array(2)), axis=1)
    kept = make.add("Gather", boxes, indices, axis=1)
    inputs: dict[str, tuple[int, Any]] = {"picture": (_FLOAT, [1, 3, "height", "width"])}
    model = make.model(inputs, {kept: _FLOAT, indices: _INT64})
    return model, [{"picture": make.random.random((1, 3, *size)).astype(np.float32)} for size in ((32, 32), (24, 40))]


def voice() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """As faster-whisper's detection of voices: a spectrum by a convolution, an LSTM, and a state that is given on."""
    make = Maker()
    framed = make.add("Unsqueeze", "sound", make.constant(np.array([1])))
    parts = make.add("Conv", framed, make.weights(64, 1, 32), strides=[16])
    real, imaginary = make.add("Split", parts, make.constant(np.array([32, 32])), count=2, axis=1)
    power = make.add("Sqrt", make.add("Add", make.add("Mul", real, real), make.add("Mul", imaginary, imaginary)))
    steps = make.add("Transpose", make.add("Log", make.add("Add", power, make.constant(np.float32(1)))), perm=[2, 0, 1])
    weights, recurrent, bias = make.weights(1, 64, 32), make.weights(1, 64, 16), make.weights(1, 128)
    states = (weights, recurrent, bias, "", "h", "c")
    _, hidden, cell = make.add("LSTM", steps, *states, count=3, hidden_size=16)
    last = make.add("Squeeze", hidden, make.constant(np.array([0])))
    share = make.add("Sigmoid", make.add("Gemm", last, make.weights(16, 1)))
    state = (_FLOAT, [1, "batch", 16])
    inputs: dict[str, tuple[int, Any]] = {"sound": (_FLOAT, ["batch", "samples"]), "h": state, "c": state}
    model = make.model(inputs, {share: _FLOAT, hidden: _FLOAT, cell: _FLOAT})
    feeds = []
    for count in (256, 512):
        zeros = np.zeros((1, 2, 16), np.float32)
        feeds.append({"sound": make.random.normal(size=(2, count)).astype(np.float32), "h": zeros, "c": zeros})
    return model, feeds


def embedding() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """As sentence embeddings: a layer of BERT, and the mean of the tokens that the mask has, of length 1."""
    make = Maker()
    width, heads = 32, 4

    def product(x: str) -> str:
        return str(make.add("Add", make.add("MatMul", x, make.weights(width, width)), make.weights(width)))

    def normal(x: str) -> str:
        ones, zeros = make.constant(np.ones(width, np.float32)), make.constant(np.zeros(width, np.float32))
        return str(make.add("LayerNormalization", x, ones, zeros, axis=-1))

    x = normal(make.add("Gather", make.weights(100, width), "ids"))
    split = make.constant(np.array([0, 0, heads, width // heads]))
    parts = [make.add("Reshape", product(x), split) for _ in range(3)]
    query, value = (make.add("Transpose", parts[n], perm=[0, 2, 1, 3]) for n in (0, 2))
    key = make.add("Transpose", parts[1], perm=[0, 2, 3, 1])
    floats = make.add("Cast", "mask", to=_FLOAT)
    far = make.add("Mul", make.add("Sub", make.constant(np.float32(1)), floats), make.constant(np.float32(-10000)))
    bias = make.add("Unsqueeze", far, make.constant(np.array([1, 2])))
    scores = make.add("Mul", make.add("MatMul", query, key), make.constant(np.float32((width // heads) ** -0.5)))
    seen = make.add("MatMul", make.add("Softmax", make.add("Add", scores, bias), axis=-1), value)
    joined = make.add("Reshape", make.add("Transpose", seen, perm=[0, 2, 1, 3]), make.constant(np.array([0, 0, width])))
    x = normal(make.add("Add", x, product(joined)))
    mask = make.add("Unsqueeze", floats, make.constant(np.array([-1])))
    axis = make.constant(np.array([1]))
    total = make.add("ReduceSum", make.add("Mul", x, mask), axis, keepdims=0)
    mean = make.add("Div", total, make.add("ReduceSum", mask, axis, keepdims=0))
    unit = make.add("LpNormalization", mean, axis=-1, p=2)
    ids = (_INT64, ["batch", "length"])
    model = make.model({"ids": ids, "mask": ids}, {unit: _FLOAT})
    feeds = []
    for batch, length in ((1, 7), (3, 12)):
        mask_values = (np.arange(length) < length - 2 * np.arange(batch)[:, None]).astype(np.int64)
        feeds.append({"ids": make.random.integers(0, 100, (batch, length)), "mask": mask_values})
    return model, feeds


@pytest.mark.parametrize(
    ("program", "on_host"),
    [(segmentation, set()), (detection, {"NonMaxSuppression"}), (voice, set()), (embedding, set())],
)
def test_the_device_gives_what_the_cpu_gives(program: Callable[[], Any], on_host: set[str]) -> None:
    model, feeds = program()
    session, expected = session_of(model), alone(model)
    left = set()
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name != PROVIDER:
            left |= {node.op_type for node in part.get_nodes()}
    assert on_host <= left <= on_host | {"Gather"}
    for feed in feeds:
        for found, wanted in zip(session.run(None, feed), expected.run(None, feed), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


_PROGRAM = """
import multiprocessing, subprocess, sys
import onnxruntime
from beside import PROVIDERS

def first(path):
    return onnxruntime.InferenceSession(path, providers=PROVIDERS).get_providers()[0]

if __name__ == "__main__":
    found = [first(sys.argv[1])]
    if sys.argv[2] == "first":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found += pool.map(first, [sys.argv[1]])
        found += [subprocess.run([sys.executable, __file__, sys.argv[1], "last"], stdout=-1, text=True).stdout.strip()]
    print(*found)
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """A program that knows nothing of dmlvk, with its arguments."""
    onnx.save(segmentation()[0], tmp_path / "model.onnx")
    (tmp_path / "beside.py").write_text("PROVIDERS = ['CPUExecutionProvider']\n")
    (tmp_path / "program.py").write_text(_PROGRAM)
    return [str(tmp_path / "program.py"), str(tmp_path / "model.onnx"), "first"]


def test_a_program_runs_unchanged_and_so_do_the_processes_that_it_starts(program: list[str]) -> None:
    command = [sys.executable, "-m", "dmlvk.onnxruntime", "--device", "0", *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{PROVIDER} {PROVIDER} {PROVIDER}\n", done.stderr


@pytest.mark.parametrize(("value", "expected"), [("1", PROVIDER), ("0", "CPUExecutionProvider")])
def test_an_environment_variable_is_enough_where_a_wheel_is_installed(
    program: list[str], value: str, expected: str
) -> None:
    # What site-packages do with the wheel's .pth file when Python starts.
    start = f"import site, sys, runpy; site.addsitedir({str(STARTUP)!r}); sys.argv = {program[:2]} + ['last']; "
    start += f"sys.path.insert(0, {str(Path(program[0]).parent)!r}); runpy.run_path(sys.argv[0], run_name='__main__')"
    done = python("-c", start, env={"DMLVK_ONNXRUNTIME": value, "DMLVK_DEVICE": "0"})
    assert done.stdout == f"{expected}\n", done.stderr


def test_without_what_dmlvk_needs_a_program_runs_by_other_providers(program: list[str]) -> None:
    start = f"import site, sys, runpy; site.addsitedir({str(STARTUP)!r}); sys.argv = {program[:2]} + ['last']; "
    start += "sys.modules['dmlvk.onnxruntime.library'] = None; "
    start += f"sys.path.insert(0, {str(Path(program[0]).parent)!r}); runpy.run_path(sys.argv[0], run_name='__main__')"
    environment = os.environ | {"DMLVK_ONNXRUNTIME": "1"}
    done = subprocess.run([sys.executable, "-c", start], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "CPUExecutionProvider\n", done.stderr
    assert done.stderr.startswith("DMLVK_ONNXRUNTIME: onnxruntime runs without dmlvk: ")
    assert len(done.stderr.splitlines()) == 1
