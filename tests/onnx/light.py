"""The light models of the onnx package: real architectures, whose weights are constants; here also random ones.

python -m tests.onnx.light [--device N] [--batch 1] [--random] [--torch] [NAME...]    compare, and measure times
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.torch_network import TorchNetwork

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx")))

_WARM_UP_SECONDS = 1.0

Floats = npt.NDArray[Any]


def load(name: str) -> onnx.ModelProto:
    return onnx.load(FOLDER / f"light_{name}.onnx")


def input_of(model: onnx.ModelProto, batch: int = 1) -> tuple[str, Floats]:
    """The suite's input: numbers that rise from 0 to 1; each further picture is darker than the one before."""
    constants = {tensor.name for tensor in model.graph.initializer}
    info = next(info for info in model.graph.input if info.name not in constants)
    shape = tuple(dimension.dim_value for dimension in info.type.tensor_type.shape.dim)
    count = int(np.prod(shape))
    picture = (np.arange(count).reshape(shape) / count).astype(np.float32)
    return info.name, np.concatenate([picture * np.float32(1 - i / 40) for i in range(batch)])


def expected_of(name: str) -> Floats:
    tensor = onnx.TensorProto()
    tensor.ParseFromString((FOLDER / f"light_{name}_output_0.pb").read_bytes())
    return numpy_helper.to_array(tensor)


def with_random_weights(
    model: onnx.ModelProto, seed: int = 0, *, batch: int = 1, calmness: float = 1.0
) -> onnx.ModelProto:
    """The same network with seeded random weights, without its last Softmax, which would hide most differences.

    Scales of normalizations are divided by ``calmness``: with 2 no number leaves FLOAT16's range in any light model.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            readers.setdefault(name, (node.op_type, index))
    generator = np.random.default_rng(seed)
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = [int(size) for size in shapes[node.input[0]]]
        value = numpy_helper.to_array(node.attribute[0].t)
        if value.dtype != np.float32:
            kept.append(node)
            continue
        op_type, index = readers.get(node.output[0], ("", 0))
        weights = _weights(op_type, index, shape, generator)
        if op_type == "BatchNormalization" and index == 1:
            weights /= np.float32(calmness)
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    used = {name for node in graph.node for name in node.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
    inputs = [info for info in graph.input if info.name in used]
    del graph.input[:]
    graph.input.extend(inputs)
    if kept[-1].op_type == "Softmax":
        graph.output[0].name = kept[-1].input[0]
        del graph.node[-1]
    if batch > 1:
        _with_batch(made, batch)
    return made


def in_halves(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with FLOAT16 instead of FLOAT: weights, input and output."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for index, tensor in enumerate(made.graph.initializer):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            halves = numpy_helper.to_array(tensor).astype(np.float16)
            made.graph.initializer[index].CopyFrom(numpy_helper.from_array(halves, tensor.name))
    for info in [*made.graph.input, *made.graph.output]:
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.t.data_type == onnx.TensorProto.FLOAT:
                halves = numpy_helper.to_array(attribute.t).astype(np.float16)
                attribute.t.CopyFrom(numpy_helper.from_array(halves))
    del made.graph.value_info[:]
    return made


def _weights(op_type: str, index: int, shape: Sequence[int], generator: np.random.Generator) -> Floats:
    if op_type in ("Conv", "Gemm") and index == 1:
        inputs = int(np.prod(shape[1:]))
        return generator.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / max(inputs, 1)))
    if op_type == "BatchNormalization" and index in (1, 4):
        return generator.random(shape, np.float32) + np.float32(0.5)
    if op_type == "Unsqueeze":
        return generator.random(shape, np.float32) + np.float32(0.5)
    return generator.standard_normal(shape, np.float32) * np.float32(0.1)


def _with_batch(model: onnx.ModelProto, batch: int) -> None:
    """Another number of pictures, also in the shapes that they (but not weights) are given in between."""
    names = {tensor.name for tensor in model.graph.initializer}
    for info in [*model.graph.input, *model.graph.output]:
        if info.name not in names:
            info.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape" and node.input[0] not in names}
    for position, tensor in enumerate(model.graph.initializer):
        if tensor.name in shapes:
            sizes = numpy_helper.to_array(tensor).copy()
            sizes[0] = batch
            model.graph.initializer[position].CopyFrom(numpy_helper.from_array(sizes, tensor.name))


def by_onnx_runtime(model: onnx.ModelProto, feed: dict[str, Floats]) -> Floats:
    """What ONNX Runtime's CPU provider computes."""
    return np.asarray(models.by_onnx_runtime(model, feed)[0])


def main() -> int:
    """Compares and measures; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--device", default=None)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="random weights, beside ONNX Runtime's CPU provider")
    parser.add_argument("--half", action="store_true", help="FLOAT16 instead of FLOAT")
    parser.add_argument("--runs", type=int, default=5, help="that count, after a second of them")
    parser.add_argument(
        "--torch", action="store_true", help="PyTorch's time, operator by operator without TF32, and ONNX Runtime's"
    )
    parser.add_argument("--profile", type=int, default=0, help="show so many kernels that take longest")
    options = parser.parse_args()
    with dml.Device(options.device) as device:
        print(f"on {device.info.name}")
        for name in options.names or NAMES:
            _compare(name, device, options)
    return 0


def _compare(name: str, device: dml.Device, options: argparse.Namespace) -> None:
    model = load(name)
    is_random = options.random or options.batch > 1
    key, picture = input_of(model, options.batch)
    if is_random:
        model = with_random_weights(model, batch=options.batch, calmness=2 if options.half else 1)
    expected = by_onnx_runtime(model, {key: picture}) if is_random else expected_of(name)
    if options.half:
        model, picture = in_halves(model), picture.astype(np.float16)
    start = time.perf_counter()
    session = ort.InferenceSession(model, device=device)
    loaded = time.perf_counter() - start
    (output,), times = _timed(lambda: session.run(None, {key: picture}), options.runs)
    error = float(np.max(np.abs(output.astype(np.float64) - expected)) / np.max(np.abs(expected)))
    places = [item.place for item in session.partition]
    counts = ", ".join(f"{places.count(place)} {place}" for place in ("device", "host", "constant"))
    print(
        f"{name}: error {error:.2e} of the largest; loaded in {loaded:.2f} s, first run {times[0]:.2f} s, later ones "
        f"{_summary(times, options.runs)}; nodes: {counts}; bits {zlib.crc32(output.tobytes()):08x}"
    )
    usage = session.usage
    print(
        f"    a run: {usage.launches} launches, {usage.waits} waits; memory {usage.device_bytes / 2**20:.1f} MiB, "
        f"{usage.device_bytes / usage.least_bytes:.3f} of the least"
    )
    if options.torch:
        _compare_with_torch(model, {key: picture}, expected, options.runs)
    for item in [item for item in session.partition if item.place == "host"][:3]:
        print(f"    host: {item.node} ({item.op_type}): {item.reason}")
    if options.profile:
        kernels = sorted(session.profile({key: picture}, 1), key=lambda kernel: -kernel.seconds)
        for kernel in kernels[: options.profile]:
            print(f"    {kernel.seconds * 1e3:8.2f} ms  {kernel.label}")


def _compare_with_torch(model: onnx.ModelProto, feed: dict[str, Floats], expected: Floats, runs: int) -> None:
    network = TorchNetwork(model)
    output, times = _timed(lambda: network.run(feed), runs)
    error = float(np.max(np.abs(output.astype(np.float64) - expected)) / np.max(np.abs(expected)))
    print(f"    PyTorch: error {error:.2e}; first run {times[0]:.2f} s, later ones {_summary(times, runs)}")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    print(f"    ONNX Runtime, CPU: later runs {_summary(_timed(lambda: session.run(None, feed), runs)[1], runs)}")


def _timed(run: Callable[[], Any], runs: int) -> tuple[Any, list[float]]:
    """What the last run gave, and the seconds of all of them, the first among them."""
    times: list[float] = []
    # A GPU that was idle while kernels were compiled works at a fraction of its clock for a while: that does not count.
    while len(times) <= runs or (runs and sum(times[1:]) < _WARM_UP_SECONDS):
        start = time.perf_counter()
        output = run()
        times.append(time.perf_counter() - start)
    return output, times


def _summary(times: Sequence[float], runs: int) -> str:
    last = times[-max(runs, 1) :]
    return f"{min(last) * 1e3:.2f} ms at least, {np.median(last) * 1e3:.2f} in the median"


if __name__ == "__main__":
    sys.exit(main())
