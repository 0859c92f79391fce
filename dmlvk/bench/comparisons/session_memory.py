#!/usr/bin/env python3
"""Measures what a session takes, beside the weights of its file.

    python scripts/measure_session_memory.py                          products of 256 MB, inside of the file and outside
    python scripts/measure_session_memory.py --megabytes 1024 model.onnx

Each model is loaded and run twice in a process of its own. What that process takes more than one that only opened the
device is told as a part of the weights: the memory of the host (what ``VmRSS`` and, at its peak, ``VmHWM`` say on
Linux), what each of three more sessions of the model takes, and the memory of the device. On llvmpipe and SwiftShader
the host's has the device's in it, and, once in a process, the code that these drivers make of each kernel.

Exit status: 0 the host's memory and the device's are at most 1.3 times the weights, 1 more, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
        numpy_helper.from_array(rng.standard_normal((_SIZE, _SIZE), np.float32) * scale, f"w{place}")
        for place in range(count)
    ]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(count)]
    x, y = (helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, ["rows", _SIZE]) for n in (0, count))
    graph = helper.make_graph(nodes, "products", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=is_external, location=f"{path.name}.weights")


def taken(path: Path, open_size: int) -> dict[str, float]:
    """What a session of a model takes of this process, in bytes."""
    import dmlvk
    import dmlvk.onnx as ort
    from dmlvk.cli.onnx_models import random_input
    from dmlvk.onnx.loading import load

    with dmlvk.Device() as device:
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


def main() -> int:
    """Measures the models that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="models' files; none: two that are made")
    parser.add_argument("--megabytes", type=int, default=256, help="of the weights of models that are made")
    parser.add_argument("--size", type=int, default=1, help="what sizes of inputs are that a model leaves open")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(taken(arguments.child, arguments.size)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        models: list[Path] = list(arguments.models)
        for name in () if models else ("inside", "outside"):
            models.append(Path(folder) / f"{name}.onnx")
            write_products(models[-1], arguments.megabytes, is_external=name == "outside")
        failed = sum(not _is_small(path, arguments.size) for path in models)
        return int(failed > 0)


def _is_small(path: Path, open_size: int) -> bool:
    """Whether a session of a model takes as little as it may; tells what."""
    command = [sys.executable, __file__, "--child", str(path), "--size", str(open_size)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    parts = {key: found[key] / found["weights"] for key in ("rss", "peak", "more", "device")}
    print(
        f"{path.name}: weights {found['weights'] / 2**20:.0f} MiB; host {parts['rss']:.2f} times that, "
        f"at its peak {parts['peak']:.2f}, a further session {parts['more']:.2f}; device {parts['device']:.2f}",
        flush=True,
    )
    return max(parts["rss"], parts["device"]) <= MOST


if __name__ == "__main__":
    sys.exit(main())
