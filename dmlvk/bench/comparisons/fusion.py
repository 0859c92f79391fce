"""Fused chains of element-wise operators, beside PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.bench.libraries import module
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.selection import chosen_device, device_option, json_option
from dmlvk.kernels.library import glsl
from dmlvk.running.host_runs import HostRun

_NAMES = ("x", "b")
"""Of inputs."""

_REPEATS = 20
_WARM_UP = 10


def arithmetic(x: dml.Expression) -> dml.Expression:
    """Twelve operators, none of them a function."""
    t = abs(F.clip(x * 1.5 + 0.25, min=-3, max=3)) - 0.5
    t = F.max(t * t, 0.125) * 0.75
    result: dml.Expression = F.activation_relu((-t + 1.0) * 2.0)
    return result


def arithmetic_in_torch(x: Any, torch: Any) -> Any:
    """The same."""
    t = torch.abs(torch.clamp(x * 1.5 + 0.25, -3, 3)) - 0.5
    t = torch.clamp_min(t * t, 0.125) * 0.75
    return torch.relu((torch.neg(t) + 1.0) * 2.0)


def functions(x: dml.Expression) -> dml.Expression:
    """Twelve operators, SIGMOID and TANH among them."""
    gate = F.activation_sigmoid(x * 1.702 + 0.25)
    value = F.tanh(x * 0.75) * gate
    result: dml.Expression = F.if_(abs(x) < 3, value, (F.clip(x, min=-1, max=1) - 0.5) * 1.25)
    return result


def functions_in_torch(x: Any, torch: Any) -> Any:
    """The same."""
    gate = torch.sigmoid(x * 1.702 + 0.25)
    value = torch.tanh(x * 0.75) * gate
    return torch.where(torch.abs(x) < 3, value, (torch.clamp(x, -1, 1) - 0.5) * 1.25)


def functions_of_two(x: dml.Expression, b: dml.Expression) -> dml.Expression:
    """Nine operators of two tensors, three functions among them."""
    result: dml.Expression = F.activation_sigmoid(x) * x + F.tanh(b) / 2 - F.exp(-abs(b))
    return result


def functions_of_two_in_torch(x: Any, b: Any, torch: Any) -> Any:
    """The same."""
    return torch.sigmoid(x) * x + torch.tanh(b) / 2 - torch.exp(-torch.abs(b))


Build = Callable[..., dml.Expression]
Chain = tuple[Build, Callable[..., Any], int]

_CHAINS: tuple[Chain, ...] = (
    (arithmetic, arithmetic_in_torch, 1),
    (functions, functions_in_torch, 1),
    (functions_of_two, functions_of_two_in_torch, 2),
)
"""In dmlvk's words and in PyTorch's, and how many tensors each reads."""


def on_the_device(
    device: dml.Device, graph: dml.CompiledGraph, arrays: Sequence[npt.NDArray[Any]]
) -> tuple[float, npt.NDArray[Any]]:
    """The device's time for one run of a graph, and its output."""
    run = HostRun(device.engine, graph, timestamps=True)
    try:
        (output,) = run.execute(dict(zip(_NAMES, arrays, strict=False))).values()
        seconds = []
        for number in range(_WARM_UP + _REPEATS):
            device.engine.run(run.recording)
            if number >= _WARM_UP:
                seconds.append(sum(run.recording.dispatch_seconds()))
        return statistics.median(seconds), output
    finally:
        run.close()


def in_torch(torch: Any, compute: Callable[[], Any]) -> float:
    """The time of one call, on the device where that is a GPU."""
    seconds = []
    for number in range(_WARM_UP + _REPEATS):
        if torch.cuda.is_available():
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            compute()
            last.record()
            last.synchronize()
            taken = float(first.elapsed_time(last)) / 1e3
        else:
            start = time.perf_counter()
            compute()
            taken = time.perf_counter() - start
        if number >= _WARM_UP:
            seconds.append(taken)
    return statistics.median(seconds)


def torch_times(
    torch: Any, compute: Callable[..., Any], arrays: Sequence[npt.NDArray[Any]]
) -> tuple[dict[str, float], Any]:
    """PyTorch's times, and its output."""
    tensors = [torch.from_numpy(array).to("cuda" if torch.cuda.is_available() else "cpu") for array in arrays]
    copied = torch.empty_like(tensors[0])
    times = {
        "PyTorch eager": in_torch(torch, lambda: compute(*tensors, torch)),
        "PyTorch copy": in_torch(torch, lambda: copied.copy_(tensors[0])),
    }
    try:
        compiled = torch.compile(lambda *given: compute(*given, torch))
        compiled(*tensors)
        times["torch.compile"] = in_torch(torch, lambda: compiled(*tensors))
    except (ImportError, OSError, RuntimeError) as error:  # its compiler may lack something here
        print(f"  torch.compile does not work here: {str(error).splitlines()[0]}")
    return times, compute(*tensors, torch).cpu().numpy()


def measured(device: dml.Device, chain: Chain, arrays: Sequence[npt.NDArray[Any]], torch: Any) -> dict[str, Any]:
    """Measures one chain, prints it, and returns its entry in the JSON file.

    Args:
        device: where it is computed.
        chain: in dmlvk's words and in PyTorch's.
        arrays: the inputs.
        torch: the module; ``None`` where it is not installed.
    """
    build, in_torchs_words, inputs = chain
    arrays = arrays[:inputs]
    graph = dml.Graph(device)
    y = build(*(graph.input(name, dml.FLOAT32, arrays[0].shape) for name in _NAMES[:inputs]))
    fused, unfused = graph.compile(y=y), graph.compile(y=y, fuse=False)
    times: dict[str, float] = {}
    times["fused"], output = on_the_device(device, fused, arrays)
    times["one by one"], expected = on_the_device(device, unfused, arrays)
    entry: dict[str, Any] = {
        "chain": build.__name__,
        "elements": arrays[0].size,
        "operators": len(unfused.stages),
        "kernels": len(fused.stages),
        "same_bits": output.tobytes() == expected.tobytes(),
    }
    print(f"{build.__name__}: {entry['operators']} operators in {entry['kernels']} kernel(s)")
    if not entry["same_bits"]:
        print("  the bits differ from those of the operators one by one")
    if torch is not None:
        added, reference = torch_times(torch, in_torchs_words, arrays)
        times |= added
        entry["largest_difference_from_pytorch"] = float(np.abs(output - reference).max())
        print(f"  largest difference from PyTorch: {entry['largest_difference_from_pytorch']:.3g}")
    entry["timings"] = []
    for name, seconds in times.items():
        moved = 2 if name == "PyTorch copy" else inputs + 1
        speed, ratio = moved * arrays[0].nbytes / seconds, seconds / times["fused"]
        entry["timings"].append({"name": name, "seconds": seconds, "bytes_per_second": speed, "of_fused": ratio})
        print(f"  {name:<14}{seconds * 1e6:10.0f} µs {speed / 1e9:6.0f} GB/s {ratio:6.2f} x fused")
    return entry


@click.command()
@device_option
@click.option("-n", "--elements", type=click.IntRange(1), default=2**26, show_default=True, help="Of FLOAT32.")
@json_option
def command(device: str | None, elements: int, json_file: Path | None) -> None:
    """Time chains of element-wise operators: fused, one by one, and in PyTorch, eager and compiled.

    dmlvk's times are the device's, PyTorch's too where it computes on CUDA; medians. Exits with 1 where fused bits
    are not those of the operators one by one.
    """
    if glsl.compiler() is None:
        raise click.UsageError(
            "nothing is fused without a GLSL compiler: install glslangValidator (Debian: glslang-tools)"
        )
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(elements, np.float32) for _ in _NAMES]
    torch = module("torch")
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}, {elements} FLOAT32 elements" + (f", PyTorch {torch.__version__}" if torch else ""))
        entries = [measured(opened, chain, arrays, torch) for chain in _CHAINS]
        if json_file is not None:
            others = [] if torch is None else [named(TorchLibrary(torch))]
            write_measured(json_file, opened.info, [named(OwnLibrary(opened)), *others], entries)
    if not all(entry["same_bits"] for entry in entries):
        raise click.exceptions.Exit(1)
