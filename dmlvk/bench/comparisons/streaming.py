"""An array larger than memory, block by block through a fused graph, beside each part of that work."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import compute

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.streaming_links import computed, pinned, staged
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.selection import NumberRange, device_option, json_option
from dmlvk.dask import BlockFunction, map_blocks

_ROW = 2**16
_FASTEST_BLOCK = 16 * 2**20  # bytes, of those that go to a device and back
_GIBIBYTE = 2**30


def graph(x: dml.Expression) -> dml.Expression:
    """Seven operators that become one kernel."""
    return F.clip(F.tanh(2 * x) * 0.5 + x * x, min=-0.25, max=0.75)


def made(block_info: Any = None) -> npt.NDArray[np.float32]:
    """A block of the array: numbers from -1 to 1 that follow from their places."""
    (first, last), columns = block_info[None]["array-location"][0], block_info[None]["chunk-shape"][1]
    values = np.arange(first * columns, last * columns, dtype=np.uint32)
    values *= np.uint32(2654435761)  # Knuth's multiplicative hash; it wraps
    numbers = values.view(np.int32).astype(np.float32)
    numbers *= np.float32(2.0**-31)
    return numbers.reshape(last - first, columns)


_SPARE = 2**18
_kept: dict[int, npt.NDArray[np.float32]] = {}


def from_memory(block_info: Any = None) -> npt.NDArray[np.float32]:
    """The same kind of numbers without making them: a stretch of those that are kept, which follows from the place."""
    (first, _), (rows, columns) = block_info[None]["array-location"][0], block_info[None]["chunk-shape"]
    count = rows * columns
    if count not in _kept:
        info = {None: {"array-location": [(0, rows + _SPARE // columns)], "chunk-shape": (rows, columns)}}
        _kept[count] = made(info).reshape(-1)
    start = first // rows * 2654435761 % (_SPARE // 64) * 64
    return _kept[count][start : start + count].reshape(rows, columns)


SOURCES = {"made": made, "memory": from_memory}


def checksum(block: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """One number for a block, with its axes: Dask copies blocks that lose one. All are joined in any order."""
    made: npt.NDArray[np.uint64] = np.bitwise_xor.reduce(block.reshape(-1).view(np.uint64), keepdims=True)
    return made.reshape(1, 1)


def seconds_of(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest time of a few calls."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def parts(device: dml.Device, rows: int, source: Callable[[Any], npt.NDArray[np.float32]]) -> dict[str, float]:
    """GiB of input in a second, for each part of the work alone."""
    info = {None: {"array-location": [(0, rows), (0, _ROW)], "chunk-shape": (rows, _ROW)}}
    block = source(info)
    there = device.array(block)
    function = BlockFunction(graph)
    drawn = dml.Graph(device)
    model = drawn.compile(y=graph(drawn.input("x", dml.FLOAT32, block.shape)))
    kernels = device.profile(model, {"x": block}, 3) if device.info.limits.timestamp_valid_bits else []
    found = {
        "made": seconds_of(lambda: source(info)),
        "there": seconds_of(lambda: device.array(block).wait()),
        "back": seconds_of(there.numpy),
        "there and back": seconds_of(lambda: device.array(block).numpy()),
        "checksum": seconds_of(lambda: checksum(block)),
        "one after the other": seconds_of(lambda: (source(info), checksum(function(block)))),
    }
    if kernels:
        found["kernel"] = sum(kernel.seconds for kernel in kernels)
    return {name: block.nbytes / _GIBIBYTE / seconds for name, seconds in found.items()}


def links(device: dml.Device, block: npt.NDArray[np.float32], threads: int, torch: Any) -> dict[str, float]:
    """GiB/s of blocks that go to the device and back, through the graph or without anything that is computed."""
    drawn = dml.Graph(device)
    model = drawn.compile(y=graph(drawn.input("x", dml.FLOAT32, block.shape)))
    small = block.reshape(-1)[: _FASTEST_BLOCK // block.itemsize]
    own = staged(device, small, threads)
    found = {"the graph": computed(device, model, block, threads)}
    if own is not None:
        found |= {"staging buffers": own, "the graph, of the staging buffers": found["the graph"] / own}
    return found | (pinned(torch, small, threads) if torch is not None else {})


def _torch() -> Any:
    """PyTorch, where it is there with an NVIDIA card."""
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        return torch if torch.cuda.is_available() else None
    return None


def peak_gibibytes() -> float:
    """The most memory that was resident at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@click.command()
@device_option
@click.option("--gibibytes", type=NumberRange(0.001), default=16, show_default=True, help="Of the array.")
@click.option(
    "--block", type=click.IntRange(1), default=128, show_default=True, metavar="MEBIBYTES", help="Of a block."
)
@click.option("--threads", type=click.IntRange(1), default=6, show_default=True, help="That work at once.")
@click.option("--source", type=click.Choice(list(SOURCES)), default="made", show_default=True, help="Of the numbers.")
@click.option("--limit", type=NumberRange(0.1), metavar="GIBIBYTES", help="Of address space, drivers included.")
@json_option
def command(
    device: str | None,
    gibibytes: float,
    block: int,
    threads: int,
    source: str,
    limit: float | None,
    json_file: Path | None,
) -> None:
    """Time an array that is made block by block, goes through a fused graph on one device, and is thrown away.

    --limit has the system refuse this process more address space than that (for CPU devices; drivers of GPUs reserve
    hundreds of GiB). The peak of resident memory is told in any case. --source memory takes blocks out of numbers that
    were made before, each from another place: for devices that are faster than a few threads make numbers.

    Beside the stream's speed stand those of its parts, measured in the same run, block by block: making a block, taking
    it to the device and back, and the kernel alone; the slowest of them is what a perfect overlap would reach. Of
    devices with memory of their own there is also the link's speed in the pattern of the stream, without any kernel,
    and PyTorch's where it is there; and the same with the graph, but without Dask and the checksum. The checksum is the
    same on every device and for every number of threads.
    """
    if limit is not None:
        most = int(limit * _GIBIBYTE)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    rows = block * 2**20 // (4 * _ROW)
    blocks = max(1, int(gibibytes * 2**10) // block)
    if device is not None:
        os.environ["DMLVK_DEVICE"] = device
    opened = dml.default_device()
    print(f"{opened.info.name}: {blocks} blocks of {block} MiB, {threads} threads")
    make = SOURCES[source]
    alone = parts(opened, rows, make)
    torch = _torch()
    info = {None: {"array-location": [(0, rows), (0, _ROW)], "chunk-shape": (rows, _ROW)}}
    link = links(opened, make(info), threads, torch)
    x = da.map_blocks(make, chunks=((rows,) * blocks, (_ROW,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    sums = map_blocks(graph, x).map_blocks(
        checksum, chunks=((1,) * blocks, (1,)), dtype=np.uint64, meta=np.empty((0, 0), np.uint64)
    )
    before = peak_gibibytes()
    start = time.perf_counter()
    (each,) = compute(sums, scheduler="threads", num_workers=threads)
    seconds = time.perf_counter() - start
    measured: dict[str, Any] = {
        "device": opened.info.name,
        "GiB": blocks * block / 2**10,
        "threads": threads,
        "source": source,
        "seconds": seconds,
        "GiB/s": blocks * block / 2**10 / seconds,
        "parts alone, GiB/s": alone,
        "there and back in as many threads, GiB/s": link,
        "peak of resident memory, GiB": peak_gibibytes(),
        "of which before the stream, GiB": before,
        "limit of address space, GiB": limit,
        "checksum": f"{np.bitwise_xor.reduce(each, axis=None):016x}",
    }
    for name, value in measured.items():
        print(f"{name}: {value}")
    if json_file is not None:
        write_measured(json_file, opened.info, [] if torch is None else [named(TorchLibrary(torch))], [measured])
