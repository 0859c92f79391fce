"""A picture filter as a graph: more contrast, and darker towards the corners.

python examples/picture_filter.py [PICTURE [OUTPUT]]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

import dmlvk as dml
from dmlvk import functions as F

PICTURE = Path(__file__).parent / "pictures" / "astronaut.jpg"


def build(device: dml.Device, height: int, width: int) -> dml.CompiledGraph:
    """The filter for pictures of one size: FLOAT32 pixels from 0 to 1, rows and columns from -1 to 1."""
    graph = dml.Graph(device)
    pixels = graph.input("pixels", dml.FLOAT32, (height, width, 3))
    rows = graph.input("rows", dml.FLOAT32, (height, 1, 1))  # broadcast along columns and channels, by strides
    columns = graph.input("columns", dml.FLOAT32, (width, 1))
    contrast = F.activation_sigmoid((pixels - 0.5) * 7)
    light = 1 - 0.45 * (rows * rows + columns * columns)
    shaded = F.clip(contrast * light, min=0, max=1)
    return graph.compile(picture=F.quantize_linear(shaded, 1 / 255, output_data_type=dml.UINT8))


def filtered(device: dml.Device, picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The picture, filtered: [height, width, 3]."""
    height, width, _ = picture.shape
    arrays = {
        "pixels": picture.astype(np.float32) / 255,
        "rows": np.linspace(-1, 1, height, dtype=np.float32).reshape(height, 1, 1),
        "columns": np.linspace(-1, 1, width, dtype=np.float32).reshape(width, 1),
    }
    graph = build(device, height, width)
    print(f"{len(graph.network.nodes)} operators in {len(graph.stages)} kernels on {device.info.name}")
    return device.run(graph, arrays)["picture"]


def main() -> None:
    """Filters a file."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("output") / "filtered.png"
    with Image.open(source) as opened:
        picture = np.asarray(opened.convert("RGB"))
    with dml.Device() as device:
        result = filtered(device, picture)
    target.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(result).save(target)
    print(f"written to {target}")


if __name__ == "__main__":
    main()
