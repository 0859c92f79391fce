"""A large picture, made here, is sharpened by two worker processes, block by block, with a halo of its neighbours.

python examples/large_picture.py [HEIGHT WIDTH [DEVICE …]]

Two devices may be named, else both workers use the best one; the result is the same. Neither the picture nor the
result is ever whole in memory: both lie in output/*.npy, from where a preview is made. Needs pip install dmlvk[dask].
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from PIL import Image

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.dask import LocalCluster, from_npy, map_overlap, store

OUTPUT = Path("output")
ROWS = 512
HALO = 2
TAPS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def rings(width: int, block_info: Any = None) -> npt.NDArray[np.uint8]:
    """A block of the picture: coloured rings, ever finer."""
    first, last = block_info[None]["array-location"][0]
    y = np.arange(first, last, dtype=np.float32)[:, None, None] / width
    x = np.arange(width, dtype=np.float32)[:, None] / width
    phase = 400 * (x * x + y * y) + np.arange(3, dtype=np.float32)
    return (127.5 + 100 * np.sin(phase)).astype(np.uint8)


def sharpened(pixels: dml.Expression) -> dml.Expression:
    """What a block becomes: the picture and 1.5 times what it has more than its blurred self; smaller by the halo."""
    colours = F.cast(pixels, output_data_type=dml.FLOAT32)
    height, width = pixels.shape[0] - 2 * HALO, pixels.shape[1] - 2 * HALO
    down = sum(tap * colours[i : i + height] for i, tap in enumerate(TAPS))
    blurred = sum(tap * down[:, i : i + width] for i, tap in enumerate(TAPS))
    inner = colours[HALO:-HALO, HALO:-HALO]
    return F.quantize_linear(inner + 1.5 * (inner - blurred), 1.0, output_data_type=dml.UINT8)


def main() -> None:
    """Makes, sharpens, and shows."""
    height, width = (int(size) for size in sys.argv[1:3]) if len(sys.argv) > 2 else (3000, 4000)
    devices = sys.argv[3:] or [dml.default_device().info.index] * 2
    OUTPUT.mkdir(exist_ok=True)
    made = da.map_blocks(
        rings,
        width,
        chunks=(tuple(min(ROWS, height - first) for first in range(0, height, ROWS)), width, 3),
        dtype=np.uint8,
        meta=np.empty((0, 0, 0), np.uint8),
    )
    store(made, OUTPUT / "large_picture.npy")
    picture = from_npy(OUTPUT / "large_picture.npy", (ROWS, width, 3))
    with LocalCluster(devices, dashboard_address=":0") as cluster, cluster.get_client():
        names = ", ".join(info.name for info in cluster.devices)
        print(f"{height} x {width} pixels in {picture.npartitions} blocks, on {names}")
        start = time.perf_counter()
        result = map_overlap(sharpened, picture, depth=(HALO, HALO, 0), boundary="nearest", trim=False)
        store(result, OUTPUT / "large_picture_sharpened.npy", progress=True)
        print(f"sharpened in {time.perf_counter() - start:.1f} s")
    step = max(1, height // 750)
    preview = np.load(OUTPUT / "large_picture_sharpened.npy", mmap_mode="r")[::step, ::step]
    Image.fromarray(np.ascontiguousarray(preview)).save(OUTPUT / "large_picture.png")
    print(f"written to {OUTPUT / 'large_picture_sharpened.npy'}, a preview to {OUTPUT / 'large_picture.png'}")


if __name__ == "__main__":  # worker processes import this file
    main()
