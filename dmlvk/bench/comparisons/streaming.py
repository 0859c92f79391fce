#!/usr/bin/env python3
"""Measures an array larger than memory: made block by block, through a fused graph on one device, and thrown away.

    scripts/measure_streaming.py [-d DEVICE] [--gibibytes 16] [--block 128] [--threads 6] [--limit GIBIBYTES]
                                 [--source made|memory] [--json FILE]

``--limit`` has the system refuse this process more address space than that, drivers included (for CPU devices; those
of GPUs reserve hundreds of GiB of it). The peak of resident memory is told in any case. ``--source memory`` takes
blocks out of numbers that were made before, each from another place, and so costs nothing: for devices that are faster
than a few threads make numbers. Beside the stream's speed stand those of its parts, measured in the same run, block by
block: making a block, taking it to the device and back, and the kernel alone; the slowest of them is what a perfect
overlap would reach. Of devices with memory of their own there is also the link's speed in the pattern of the stream: as
many threads, NumPy to NumPy through plain staging buffers, blocks of 16 MiB or less (larger ones are slower), without
any kernel (``scripts/streaming_links.py``), and PyTorch's where it is there; and the same with the graph, but without
Dask and the checksum. The checksum is the same on every device and for every number of threads.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import compute

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from dmlvk import functions as F
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.dask import BlockFunction, map_blocks
from scripts.measuring import argument_parser
from scripts.streaming_links import computed, pinned, staged

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


def main() -> None:
    """Measures, and prints a line for each number."""
    parser = argument_parser(__doc__)
    parser.add_argument("--gibibytes", type=float, default=16)
    parser.add_argument("--block", type=int, default=128, metavar="MEBIBYTES")
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--source", choices=SOURCES, default="made")
    parser.add_argument("--limit", type=float, metavar="GIBIBYTES")
    options = parser.parse_args()
    if options.limit:
        limit = int(options.limit * _GIBIBYTE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    rows = options.block * 2**20 // (4 * _ROW)
    blocks = int(options.gibibytes * 2**10) // options.block
    if options.device is not None:
        os.environ["DMLVK_DEVICE"] = str(options.device)
    device = dml.default_device()
    print(f"{device.info.name}: {blocks} blocks of {options.block} MiB, {options.threads} threads")
    source = SOURCES[options.source]
    alone = parts(device, rows, source)
    torch = _torch()
    info = {None: {"array-location": [(0, rows), (0, _ROW)], "chunk-shape": (rows, _ROW)}}
    link = links(device, source(info), options.threads, torch)
    x = da.map_blocks(source, chunks=((rows,) * blocks, (_ROW,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    sums = map_blocks(graph, x).map_blocks(
        checksum, chunks=((1,) * blocks, (1,)), dtype=np.uint64, meta=np.empty((0, 0), np.uint64)
    )
    before = peak_gibibytes()
    start = time.perf_counter()
    (each,) = compute(sums, scheduler="threads", num_workers=options.threads)
    seconds = time.perf_counter() - start
    measured: dict[str, Any] = {
        "device": device.info.name,
        "GiB": blocks * options.block / 2**10,
        "threads": options.threads,
        "source": options.source,
        "seconds": seconds,
        "GiB/s": blocks * options.block / 2**10 / seconds,
        "parts alone, GiB/s": alone,
        "there and back in as many threads, GiB/s": link,
        "peak of resident memory, GiB": peak_gibibytes(),
        "of which before the stream, GiB": before,
        "limit of address space, GiB": options.limit,
        "checksum": f"{np.bitwise_xor.reduce(each, axis=None):016x}",
    }
    for name, value in measured.items():
        print(f"{name}: {value}")
    if options.json:
        write_measured(options.json, device.info, [] if torch is None else [named(TorchLibrary(torch))], [measured])


if __name__ == "__main__":
    main()
