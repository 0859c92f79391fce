"""A graph from Python: twelve operators become one kernel, with the bits of the twelve one by one.

python examples/fused_graph.py [DEVICE]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import dmlvk as dml
from dmlvk import functions as F


def build(device: dml.Device, count: int, *, fuse: bool) -> dml.CompiledGraph:
    """A little network on ``count`` numbers: a gated activation with bounds."""
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (count,))
    scale = graph.input("scale", dml.FLOAT32, (1,))  # broadcast by strides
    gate = F.activation_sigmoid(x * 1.702 + 0.25)
    value = F.tanh(x * scale) * gate
    y = F.if_(abs(x) < 3, value, (F.clip(x, min=-1, max=1) - 0.5) * scale)
    return graph.compile(y=y, fuse=fuse)


def milliseconds(device: dml.Device, graph: dml.CompiledGraph, arrays: dict[str, np.ndarray]) -> float:
    """The best of five runs, NumPy to NumPy."""
    times = []
    for _ in range(6):  # the first one makes buffers and pipelines
        start = time.perf_counter()
        device.run(graph, arrays)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times[1:])


def main() -> None:
    """Runs the graph fused and unfused, and compares."""
    with dml.Device(sys.argv[1] if len(sys.argv) > 1 else None) as device:
        print(f"Running on {device.info.name}")
        x = np.linspace(-5, 5, 1_000_003, dtype=np.float32)
        arrays = {"x": x, "scale": np.array([0.75], np.float32)}
        fused, unfused = (build(device, x.size, fuse=fuse) for fuse in (True, False))
        for title, graph in (("fused", fused), ("one by one", unfused)):
            memory = graph.memory
            print(
                f"{title}: {len(graph.network.nodes)} operators in {len(graph.stages)} kernels, "
                f"{memory.planned_bytes / 2**20:.1f} MiB for intermediate values "
                f"({memory.naive_bytes / 2**20:.1f} MiB without sharing), {milliseconds(device, graph, arrays):.2f} ms"
            )
        if fused.fusion_remark:
            print(f"not fused: {fused.fusion_remark}")
        same = device.run(fused, arrays)["y"].tobytes() == device.run(unfused, arrays)["y"].tobytes()
        print("the same bits" if same else "DIFFERENT BITS")
        sys.exit(not same)


if __name__ == "__main__":
    main()
