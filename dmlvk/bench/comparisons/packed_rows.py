"""Kernels of few rows with packed weights, each by itself."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np

import dmlvk as dml
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option
from dmlvk.kernels.products import block_products
from dmlvk.kernels.products.block_products import RowTile, row_tiles
from dmlvk.running.host_runs import HostRun
from dmlvk.spirv.specialization import MULTIPLIES_HALVES

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
    with contextlib.closing(HostRun(device.engine, graph, timestamps=True)) as run:
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


def _numbers(_: click.Context, __: click.Parameter, text: str) -> list[list[int]]:
    try:
        return [[int(number) for number in part.split("x")] for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers, with x between those of a shape") from None


@click.command()
@device_option
@click.option("--shapes", default=_SHAPES, show_default=True, callback=_numbers, help="Terms x columns.")
@click.option("--rows", default="1,8", show_default=True, callback=_numbers, help="Of the other operand.")
@click.option(
    "--way",
    "ways",
    type=click.Choice(["floats", "halves"]),
    multiple=True,
    default=("floats", "halves"),
    show_default=True,
    help="Without arithmetic of FLOAT16, and with it, where the device has it.",
)
@json_option
def command(
    device: str | None, shapes: list[list[int]], rows: list[list[int]], ways: tuple[str, ...], json_file: Path | None
) -> None:
    """Time each tile of the kernels of few rows with packed weights: 4 bits, a scale for each 32 terms, FLOAT16.

    Weights of those shapes that are measured by default are larger than a GPU's caches. Of each number of rows every
    tile of dmlvk/kernels/products/block_products.py is timed that has at most as many. Times are medians by the
    device's clock; results are compared by bits.
    """
    results: list[dict[str, Any]] = []
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}, {opened.info.driver}, products of FLOAT16 are exact: {_has_exact_halves(opened)}")
        chosen = [way == "halves" for way in ways if way == "floats" or opened.target.has_half_arithmetic]
        for terms, columns in shapes:
            for (count,) in rows:
                tiles = [tile for tile in row_tiles(_BITS) if tile.rows <= count]
                tiles = [tile for tile in tiles if count == 1 or tile.rows > 1]
                results += measured(opened, tiles, chosen, (terms, columns), count)
    if json_file is not None:
        write_measured(json_file, opened.info, [], results)
