#!/usr/bin/env python3
"""Measures the operators' speed on contiguous float32 tensors, beside hand-written kernels and a copy.

    python scripts/measure_speed.py [--device N] [--mebibytes 64] [--json FILE]

The hand-written kernels (``scripts/measurements/``) run through the same Kompute calls, in turn with the operators,
in one process: the ratios are what counts. Bandwidth counts each input byte read once and each output byte written
once. On a GPU the time is the device's own (timestamps); on a CPU driver it is the wall time of a submission of
several dispatches. Where PyTorch with CUDA is installed, its device-to-device copy is measured too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.runtime.kompute import Allocation, Engine, Launch, Recording

MEASUREMENTS = Path(__file__).resolve().parent / "measurements"
DISPATCHES = 8


def operators(count: int) -> dict[str, dml.OperatorDesc]:
    """The measured operators on ``count`` elements, by the name of their hand-written kernel."""
    floats, words, bytes_ = (dml.TensorDesc(t, (count,)) for t in (dml.FLOAT32, dml.UINT32, dml.UINT8))
    return {
        "sign": dml.ElementWiseSign(input_tensor=floats, output_tensor=floats),
        "threshold": dml.ElementWiseThreshold(input_tensor=floats, output_tensor=floats, min=0.5),
        "logical_greater_than": dml.ElementWiseLogicalGreaterThan(
            a_tensor=floats, b_tensor=floats, output_tensor=words
        ),
        "if": dml.ElementWiseIf(condition_tensor=bytes_, a_tensor=floats, b_tensor=floats, output_tensor=floats),
    }


def hand_written(name: str, compiled_directory: Path | None) -> bytes:
    """The SPIR-V of a hand-written kernel: compiled before, or compiled now."""
    if compiled_directory is not None:
        return (compiled_directory / f"{name}.spv").read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "kernel.spv"
        source = MEASUREMENTS / f"{name}.comp"
        subprocess.run(
            ["glslangValidator", "-V", "--target-env", "vulkan1.1", "-o", str(target), str(source)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return target.read_bytes()


def seconds_per_dispatch(engine: Engine, recording: Recording) -> float:
    """The time of one of the recording's dispatches."""
    start = time.perf_counter()
    engine.run(recording)
    wall = time.perf_counter() - start
    if engine.info.kind == "CPU":
        return wall / DISPATCHES
    return statistics.median(recording.dispatch_seconds())


def in_turn(engine: Engine, recordings: dict[str, Recording], repeats: int) -> dict[str, float]:
    """The time of one dispatch of each recording, all measured in turn: the median, or on a CPU driver the minimum.

    A CPU driver shares its cores with everything else on the machine, which only ever adds time.
    """
    times: dict[str, list[float]] = {name: [] for name in recordings}
    for turn in range(repeats + 2):
        for name, recording in recordings.items():
            seconds = seconds_per_dispatch(engine, recording)
            if turn >= 2:  # the first turns warm up
                times[name].append(seconds)
    typical = min if engine.info.kind == "CPU" else statistics.median
    return {name: typical(values) for name, values in times.items()}


def measure(
    device: dml.Device, name: str, desc: dml.OperatorDesc, spirv: bytes, repeats: int
) -> dict[str, float | str]:
    """One operator beside its hand-written kernel."""
    compiled = device.compile_operator(device.create_operator(desc))
    engine, kernel = device.engine, compiled.steps[0].kernel
    tensors = [tensor for _, tensor in desc.inputs + desc.outputs if tensor is not None]
    random = np.random.default_rng(7)
    allocations: list[Allocation] = []
    for tensor in tensors:
        allocation = engine.allocate(tensor.size_in_bytes)
        with engine.writing(allocation, keeps_contents=False) as host_bytes:
            host_bytes[:] = random.integers(0, 256, host_bytes.size, np.uint8)
        allocations.append(allocation)
    shared: dict[str, Any] = {"allocations": tuple(allocations), "written": (allocations[-1],), "depends": False}
    own = Launch(
        spirv=library.load(kernel.variant),
        specialization=kernel.specialization([0] * len(tensors)),
        push_constants=kernel.push_constants([0] * len(tensors)),
        work_groups=kernel.work_groups,
        **shared,
    )
    hand = Launch(spirv=spirv, specialization=(), push_constants=(), work_groups=kernel.work_groups, **shared)
    recordings = {
        "dmlvk": engine.record([own] * DISPATCHES, timestamps=engine.info.kind != "CPU"),
        "hand-written": engine.record([hand] * DISPATCHES, timestamps=engine.info.kind != "CPU"),
    }
    times = in_turn(engine, recordings, repeats)
    moved = sum(tensor.size_in_bytes for tensor in tensors)
    for allocation in allocations:
        engine.release(allocation)
    return {
        "operator": desc.operator_name,
        "dmlvk GB/s": moved / times["dmlvk"] / 1e9,
        "hand-written GB/s": moved / times["hand-written"] / 1e9,
        "ratio": times["hand-written"] / times["dmlvk"],
    }


def torch_copy_bandwidth(size_in_bytes: int) -> float | None:
    """GB/s of PyTorch's device-to-device copy, read and written bytes counted; None without PyTorch and CUDA."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    source = torch.randint(0, 255, (size_in_bytes,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(60):
        start.record()
        for _ in range(DISPATCHES):
            target.copy_(source)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3 / DISPATCHES)
    return float(2 * size_in_bytes / statistics.median(times[20:]) / 1e9)


def main() -> int:
    """Runs the measurement; exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=None, help="index or part of the name")
    parser.add_argument("--mebibytes", type=int, default=64, help="size of each float32 tensor")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compiled", type=Path, default=None, help="directory of compiled hand-written kernels")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    selector = int(arguments.device) if arguments.device and arguments.device.isdigit() else arguments.device
    size = arguments.mebibytes * 2**20
    copy = torch_copy_bandwidth(size)
    with dml.Device(selector) as device:
        rows = []
        for name, desc in operators(size // 4).items():
            row = measure(device, name, desc, hand_written(name, arguments.compiled), arguments.repeats)
            if copy is not None:
                row["of PyTorch's copy"] = float(row["dmlvk GB/s"]) / copy
            rows.append(row)
            print(
                ", ".join(
                    f"{key}: {value}" if isinstance(value, str) else f"{key}: {value:.4g}" for key, value in row.items()
                )
            )
        report = {"device": device.info.name, "driver": device.info.driver, "bytes per tensor": size, "rows": rows}
    if copy is not None:
        report["PyTorch copy GB/s"] = copy
        print(f"PyTorch device-to-device copy: {copy:.4g} GB/s")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
