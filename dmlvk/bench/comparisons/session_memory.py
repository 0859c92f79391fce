"""What an ONNX session takes of memory, beside the weights of its file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.cli.onnx_models import random_input
from dmlvk.onnx.model.loading import load

MOST = 1.3
"""How much a session may take, as a part of the weights."""

_MORE = 3
"""Sessions of the same model that are made besides."""

_SIZE = 2048
_ASKED = {"VmRSS": "rss", "VmHWM": "peak"}


def write_products(path: Path, megabytes: int, *, is_external: bool) -> None:
    """A model of matrix products in a row."""
    rng = np.random.default_rng(0)
    count = max(1, megabytes * 2**20 // (4 * _SIZE * _SIZE))
    scale = np.float32(_SIZE**-0.5)
    weights = [
        numpy_helper.from_array(rng.standard_normal((_SIZE, _SIZE), np.float32) * scale, f"w{index}")
        for index in range(count)
    ]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(count)]
    x, y = (helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, ["rows", _SIZE]) for n in (0, count))
    graph = helper.make_graph(nodes, "products", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=is_external, location=f"{path.name}.weights")


def taken(path: Path, open_size: int) -> dict[str, float]:
    """What a session of a model takes of this process, in bytes."""
    with dml.Device() as device:
        before = _memory()
        sessions = []
        for _ in range(1 + _MORE):
            sessions.append(ort.InferenceSession(path, device=device))
            given = {argument.name: random_input(argument, open_size) for argument in sessions[-1].get_inputs()}
            for _ in range(2):
                sessions[-1].run(None, given)
            if len(sessions) == 1:
                first = _memory()
        on_device = sessions[0].usage.device_bytes
        more = (_memory()["rss"] - first["rss"]) / _MORE
    weights = sum(array.nbytes for array in load(path).constants.values())
    return {"weights": weights, "device": on_device, "more": more, **{key: first[key] - before[key] for key in first}}


def _memory() -> dict[str, int]:
    found = {}
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, value = line.split(":", 1)
        if name in _ASKED:
            found[_ASKED[name]] = int(value.split()[0]) * 1024
    return found


def _is_small(path: Path, open_size: int) -> bool:
    """Whether a session of a model takes as little as it may; tells what."""
    words = [sys.executable, "-m", "dmlvk", "bench", "session-memory", "--here", str(path), "--size", str(open_size)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    parts = {key: found[key] / found["weights"] for key in ("rss", "peak", "more", "device")}
    print(
        f"{path.name}: weights {found['weights'] / 2**20:.0f} MiB; host {parts['rss']:.2f} times that, "
        f"at its peak {parts['peak']:.2f}, a further session {parts['more']:.2f}; device {parts['device']:.2f}",
        flush=True,
    )
    return max(parts["rss"], parts["device"]) <= MOST


@click.command()
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--megabytes", type=click.IntRange(1), default=256, show_default=True, help="Of weights that are made.")
@click.option("--size", type=click.IntRange(1), default=1, show_default=True, help="Of what a model leaves open.")
@click.option("--here", is_flag=True, help="In this process, of one model; as JSON.")
def command(models: tuple[Path, ...], megabytes: int, size: int, here: bool) -> None:
    """Measure what sessions of models take, or of two that are made: products with weights inside of the file, outside.

    Each is loaded and run twice in a process of its own. What that process takes more than one that only opened the
    device is told as a part of the weights: the memory of the host (what VmRSS and, at its peak, VmHWM say on Linux),
    what each of three more sessions of the model takes, and the memory of the device. On llvmpipe and SwiftShader the
    host's has the device's in it, and, once in a process, the code that these drivers make of each kernel.

    Exit status: 0 the host's memory and the device's are at most 1.3 times the weights, 1 more, 2 wrong usage.
    """
    if here:
        print(json.dumps(taken(models[0], size)))
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = list(models)
        for name in () if paths else ("inside", "outside"):
            paths.append(Path(folder) / f"{name}.onnx")
            write_products(paths[-1], megabytes, is_external=name == "outside")
        if sum(not _is_small(path, size) for path in paths):
            raise SystemExit(1)
