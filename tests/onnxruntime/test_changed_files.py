"""Files of weights that change behind a session: values are those that were loaded, or an error says why not."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import itertools, os, pathlib, tempfile
import numpy as np, onnx, onnxruntime
from onnx import helper
import dmlvk.onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from tests.onnx.models import model
from tests.onnxruntime.models import BOTH

onnxruntime.set_default_logger_severity(4)
weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
KINDS = {
    "product": helper.make_node("MatMul", ["x", "w"], ["a"]),
    "sum": helper.make_node("Add", ["x", "w"], ["a"]),
    "lines": helper.make_node("Gather", ["w", "k"], ["a"]),
}

def truncated(path): os.truncate(path, 100)
def emptied(path): path.write_bytes(b"")
def longer(path): path.write_bytes(path.read_bytes() + b"more")
def other(path): path.write_bytes((weights * 2).tobytes())
def removed(path): path.unlink()
def replaced(path):
    path.with_name("new").write_bytes((weights * 3).tobytes()); os.replace(path.with_name("new"), path)
def cut_and_replaced(path):
    path.with_name("new").write_bytes(b"short"); os.replace(path.with_name("new"), path)

CHANGES = (truncated, emptied, longer, other, removed, replaced, cut_and_replaced)

for turn, (name, change, before) in enumerate(itertools.product(KINDS, CHANGES, (0, 1))):
    folder = pathlib.Path(tempfile.mkdtemp())
    nodes = [KINDS[name], helper.make_node("Mul", ["a", "x"], ["y"])]
    given = {"x": np.full((1 if name == "lines" else 256, 256), 2, np.float32)}
    rows = given["x"].shape[0] if turn % 3 else "rows"
    source = model(nodes, {"x": [rows, 256]}, ["y"], {"w": weights, "k": np.arange(5)})
    onnx.save(source, folder / "model.onnx", save_as_external_data=True, location="w", size_threshold=100)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=BOTH)  # which may fall back
    wanted = {"product": given["x"] @ weights, "sum": given["x"] + weights, "lines": weights[:5]}[name] * given["x"]
    said = "right"
    for run in range(2):
        if run == before:
            change(folder / "w")
        try:
            np.testing.assert_allclose(session.run(None, given)[0], wanted, rtol=1e-4, atol=1e-4)
        except Fail as error:
            assert "was written to after the model was loaded" in str(error), error
            said = "refused"
        assert session.get_providers() == BOTH
    print(name, change.__name__, before, said, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes() -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-2000:]}"
    return done.stdout.splitlines()


def test_values_are_those_that_were_loaded_or_one_error_says_which_file_changed(outcomes: list[str]) -> None:
    assert len(outcomes) == 3 * 7 * 2
    assert all(line.split()[-1] in ("right", "refused") for line in outcomes)


def test_files_that_are_replaced_or_removed_stay_what_they_were(outcomes: list[str]) -> None:
    assert all(line.endswith("right") for line in outcomes if "replaced" in line or "removed" in line)


def test_weights_of_products_are_on_the_device_as_soon_as_there_is_a_session(outcomes: list[str]) -> None:
    assert all(line.endswith("right") for line in outcomes if line.startswith("product"))
