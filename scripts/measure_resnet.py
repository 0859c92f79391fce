#!/usr/bin/env python3
"""Measures ResNet-50's time on a device as one graph, beside PyTorch with a CUDA graph where there is one.

    scripts/measure_resnet.py [-d DEVICE] [-b BATCH …] [-t TYPE] [--arithmetic KIND] [-s SIZE] [--json FILE]

Inputs and results stay on the device: several runs are recorded behind one another and submitted at once, the best
submission counts. PyTorch has its channels last. With device arithmetic, FLOAT16 has its channels last, too.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from dmlvk import functions as F
from scripts.measuring import argument_parser, torch_named, write_measured

torch: Any
torchvision: Any
try:
    torch, torchvision = (importlib.import_module(name) for name in ("torch", "torchvision"))
except ImportError:
    torch = torchvision = None

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels, blocks and stride of each stage (He et al., Deep Residual Learning, 2016, table 1)."""

TYPES = {"float16": dml.FLOAT16, "float32": dml.FLOAT32}
"""What pictures and weights may be of."""

_RUNS = 10
_SECONDS = 0.5


class Network:
    """ResNet-50 up to its logits, with random weights, as a graph."""

    def __init__(self, device: dml.Device, data_type: dml.DataType) -> None:
        self.graph = dml.Graph(device)
        self._data_type = data_type
        self._random = np.random.default_rng(1)

    def _constant(self, low: float, high: float, *sizes: int) -> Any:
        return self.graph.constant(self._random.uniform(low, high, sizes).astype(self._data_type.numpy_dtype))

    def _convolution(self, x: Any, channels: int, side: int, stride: int = 1) -> Any:
        given = x.sizes[1]
        bound = (6 / (given * side * side)) ** 0.5
        filters = self._constant(-bound, bound, channels, given, side, side)
        made = F.convolution(
            x, filters, strides=(stride,) * 2, start_padding=(side // 2,) * 2, end_padding=(side // 2,) * 2
        )
        sizes = (1, channels, 1, 1)
        ranges = ((-0.1, 0.1), (0.5, 1.5), (0.5, 1.0), (-0.1, 0.1))
        mean, variance, scale, shift = (self._constant(low, high, *sizes) for low, high in ranges)
        return F.batch_normalization(made, mean, variance, scale, shift, True, 1e-5)

    def _block(self, x: Any, inner: int, stride: int) -> Any:
        made = F.activation_relu(self._convolution(x, inner, 1))
        made = F.activation_relu(self._convolution(made, inner, 3, stride))
        made = self._convolution(made, 4 * inner, 1)
        if x.sizes[1] != 4 * inner:
            x = self._convolution(x, 4 * inner, 1, stride)
        return F.activation_relu(made + x)

    def logits(self, batch: int, size: int) -> Any:
        """What the network says of pictures of so many places along both axes."""
        x = self.graph.input("x", self._data_type, (batch, 3, size, size))
        made = F.activation_relu(self._convolution(x, 64, 7, 2))
        made = F.max_pooling(made, (3, 3), strides=(2, 2), start_padding=(1, 1), end_padding=(1, 1))
        for inner, count, stride in _STAGES:
            for number in range(count):
                made = self._block(made, inner, stride if number == 0 else 1)
        made = F.average_pooling(made, tuple(made.sizes[2:]), False)
        head = self._constant(-0.02, 0.02, 1000, made.sizes[1], 1, 1)  # a product, as a convolution of one place
        return F.convolution(made, head)


def _best(run: Callable[[], Any]) -> float:
    """The least seconds that a call took, of those within half a second."""
    run()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def _bindings(device: dml.Device, points: Any) -> list[dml.BufferBinding | None]:
    made: list[dml.BufferBinding | None] = []
    for point in points:
        buffer = device.create_buffer(point.size_in_bytes) if point.tensor is not None else None
        made.append(dml.BufferBinding(buffer, 0, point.size_in_bytes) if buffer is not None else None)
    return made


def measure(device: dml.Device, data_type: dml.DataType, batch: int, size: int) -> float:
    """Seconds of a run, of several that are recorded behind one another."""
    network = Network(device, data_type)
    compiled = network.graph.compile({"y": network.logits(batch, size)})
    table = device.create_binding_table(compiled)
    table.bind_inputs(_bindings(device, compiled.inputs))
    table.bind_outputs(_bindings(device, compiled.outputs))
    temporary = compiled.binding_properties.temporary_resource_size
    if temporary:
        table.bind_temporary_resource(dml.BufferBinding(device.create_buffer(temporary), 0, temporary))
    recorder = device.create_command_recorder()
    runs = 1 if device.info.kind == "CPU" else _RUNS
    for _ in range(runs):
        recorder.record_dispatch(compiled, table)
    return _best(recorder.execute) / runs


def measure_torch(name: str, batch: int, size: int) -> float:
    """Seconds of PyTorch's run of the same network by a CUDA graph with channels last."""
    network = torchvision.models.resnet50().cuda().to(getattr(torch, name)).eval().to(memory_format=torch.channels_last)
    x = torch.rand(batch, 3, size, size, device="cuda", dtype=getattr(torch, name)).to(
        memory_format=torch.channels_last
    )
    with torch.no_grad():
        for _ in range(3):
            network(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            network(x)

    def run() -> None:
        for _ in range(_RUNS):
            graph.replay()
        torch.cuda.synchronize()

    return _best(run) / _RUNS


def main() -> int:
    """Measures what the command line asks for.

    Returns:
        the exit status.
    """
    assert __doc__
    parser = argument_parser(__doc__)
    parser.add_argument("-b", "--batch", type=int, nargs="+", default=[1, 32], help="pictures at once")
    parser.add_argument("-t", "--type", choices=sorted(TYPES), default="float16", help="of pictures and weights")
    parser.add_argument("-s", "--size", type=int, default=224, help="places along both axes, at least 32")
    parser.add_argument("--arithmetic", choices=["portable", "device"], default="device")
    arguments = parser.parse_args()
    if min(arguments.batch) < 1 or arguments.size < 32:
        parser.error("a batch has at least 1 picture, and a picture at least 32 places along both axes")
    with_torch = torch is not None and torchvision is not None and torch.cuda.is_available()
    results: list[dict[str, Any]] = []
    with dml.Device(arguments.device, arithmetic=arguments.arithmetic) as device:
        for batch in arguments.batch:
            seconds = measure(device, TYPES[arguments.type], batch, arguments.size)
            result = {"batch": batch, "type": arguments.type, "arithmetic": arguments.arithmetic, "seconds": seconds}
            line = f"{batch:4} pictures  {arguments.type}  {arguments.arithmetic} arithmetic  {seconds * 1e3:9.3f} ms"
            if with_torch:
                result["torch"] = measure_torch(arguments.type, batch, arguments.size)
                line += f"  PyTorch {result['torch'] * 1e3:.3f} ms, share of its speed {result['torch'] / seconds:.2f}"
            print(line, flush=True)
            results.append(result)
        if arguments.json is not None:
            write_measured(arguments.json, device.info, torch_named(torch) if with_torch else [], results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
