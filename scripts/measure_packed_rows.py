#!/usr/bin/env python3
"""Measures the kernels of few rows with packed weights, each by itself: 4 bits, a scale for each 32 terms, FLOAT16.

    scripts/measure_packed_rows.py [-d DEVICE] [--shapes 4096x57344,...] [--rows 1,8] [--ways halves] [--json FILE]

A shape is terms x columns; weights of those that are measured by default are larger than a GPU's caches. Of each number
of rows every tile of dmlvk/kernels/products/block_products.py is timed that has at most as many, with arithmetic of
FLOAT16 (where the device has it) and without. Times are medians by the device's clock; results are compared by bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from dmlvk.bench.report import write_measured
from dmlvk.kernels.products import block_products
from dmlvk.kernels.products.block_products import RowTile, row_tiles
from dmlvk.running.host_runs import Run
from dmlvk.spirv.specialization import MULTIPLIES_HALVES
from scripts.measuring import argument_parser

_BITS, _BLOCK = 4, 32
_SHAPES = "4096x57344,14336x16384"
_REPEATS, _WARM_UP_SECONDS = 7, 0.2


def product(device: dml.Device, rows: int, terms: int, columns: int) -> dml.CompiledGraph:
    """A product of rows and packed weights."""
    graph = dml.Graph(device)
    w = graph.input("w", dml.UINT4, (columns, terms))
    scales = graph.input("s", dml.FLOAT16, (columns, terms // _BLOCK))
    numbers = graph.apply(
        "DEQUANTIZE",
        {"input_tensor": w, "quantization_tensors": [scales]},
        {"quantization_type": dml.QuantizationType.SCALE, "quantization_tensor_count": 1},
    )
    x = graph.input("x", dml.FLOAT16, (rows, terms))
    transforms = {"trans_a": dml.MatrixTransform.NONE, "trans_b": dml.MatrixTransform.TRANSPOSE}
    y = graph.apply("GEMM", {"a_tensor": x, "b_tensor": numbers}, {**transforms, "alpha": 1.0, "beta": 0.0})
    return graph.compile(y=y)


def inputs(rows: int, terms: int, columns: int) -> dict[str, Any]:
    """Random weights and rows."""
    random = np.random.default_rng(1)
    return {
        "w": random.integers(0, 256, (columns, terms), np.uint8) >> 4,
        "s": (random.standard_normal((columns, terms // _BLOCK), np.float32) / 64).astype(np.float16),
        "x": random.standard_normal((rows, terms)).astype(np.float16),
    }


def timed(device: dml.Device, graph: dml.CompiledGraph, arrays: dict[str, Any]) -> tuple[float, bytes]:
    """The median of what a graph takes by the device's clock, and the bytes of its result."""
    with contextlib.closing(Run(device.engine, graph, timestamps=True)) as run:
        (output,) = run.execute(arrays).values()
        warm = time.perf_counter() + _WARM_UP_SECONDS
        while time.perf_counter() < warm:  # an idle device's clock is slow
            device.engine.run(run.recording)
        seconds = []
        for _ in range(_REPEATS):
            device.engine.run(run.recording)
            seconds.append(sum(run.recording.dispatch_seconds()))
    return statistics.median(seconds), output.tobytes()


def measured(
    device: dml.Device, tiles: Sequence[RowTile], ways: Sequence[bool], shape: tuple[int, int], rows: int
) -> list[dict[str, Any]]:
    """All tiles for a shape and a number of rows, printed; in ways without arithmetic of FLOAT16 and with it."""
    terms, columns = shape
    arrays, found, bits = inputs(rows, terms, columns), [], set()
    megabytes = columns * terms * (_BITS / 8 + 2 / _BLOCK) / 1e6
    for tile in tiles:
        for has_halves in ways:
            target = dataclasses.replace(device.target, has_half_arithmetic=has_halves)
            with (
                mock.patch.object(block_products, "tile_for", return_value=tile),
                mock.patch.object(dml.Device, "target", target),
            ):
                seconds, result = timed(device, product(device, rows, terms, columns), arrays)
            bits.add(result)
            way = "halves" if has_halves else "floats"
            print(
                f"{rows:3} x {terms} x {columns}  {tile.rows}x{tile.columns}, {tile.invocations} invocations, "
                f"{tile.line_vectors} vectors, {tile.left_lines} lines, {way}: {seconds * 1e6:8.1f} us, "
                f"{megabytes / seconds / 1e3:6.0f} GB/s",
                flush=True,
            )
            found.append(
                {"rows": rows, "shape": shape, "halves": has_halves, "seconds": seconds, **dataclasses.asdict(tile)}
            )
    print("  the same bits" if len(bits) == 1 else f"  {len(bits)} DIFFERENT RESULTS", flush=True)
    return found


def _has_exact_halves(device: dml.Device) -> bool:
    return device.target.has_half_arithmetic and device.engine.shaders.does(MULTIPLIES_HALVES)


def main() -> None:
    """Measures, and prints a line for each kernel."""
    parser = argument_parser(__doc__)
    parser.add_argument("--shapes", default=_SHAPES, help="terms x columns, with commas between them")
    parser.add_argument("--rows", default="1,8")
    parser.add_argument("--ways", default="floats,halves", help="without arithmetic of FLOAT16, and with it")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with dml.Device(options.device) as device:
        print(f"{device.info.name}, {device.info.driver}, products of FLOAT16 are exact: {_has_exact_halves(device)}")
        ways = [
            way == "halves" for way in options.ways.split(",") if way == "floats" or device.target.has_half_arithmetic
        ]
        for text in options.shapes.split(","):
            terms, columns = (int(part) for part in text.split("x"))
            for rows in (int(part) for part in options.rows.split(",")):
                tiles = [tile for tile in row_tiles(_BITS) if tile.rows <= rows]
                tiles = [tile for tile in tiles if rows == 1 or tile.rows > 1]
                results += measured(device, tiles, ways, (terms, columns), rows)
        info = device.info
    if options.json:
        write_measured(options.json, info, [], results)


if __name__ == "__main__":
    main()
