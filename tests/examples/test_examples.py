"""The Python examples run and do what they say; the model files among the examples are run by tests/models."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.processes import python

EXAMPLES = Path(__file__).parents[2] / "examples"


def output_of(name: str, *arguments: str, directory: Path) -> str:
    result = python(
        str(EXAMPLES / name),
        *arguments,
        env={"PYTHONPATH": str(EXAMPLES.parent), "DMLVK_CACHE_DIR": str(directory / "kernels")},
        cwd=directory,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_fused_graph(tmp_path: Path) -> None:
    output = output_of("fused_graph.py", "llvmpipe", directory=tmp_path)
    assert re.search(r"^fused: 12 operators in 1 kernels, 0\.0 MiB", output, re.MULTILINE)
    assert re.search(r"^one by one: 12 operators in 12 kernels, \d+\.\d MiB", output, re.MULTILINE)
    assert output.endswith("the same bits\n")


@pytest.mark.sweep  # the quick command has tests of clusters already
def test_large_picture(tmp_path: Path) -> None:
    """Two worker processes sharpen rings, as wide as without arguments; the result against NumPy's sums in float64."""
    output = output_of("large_picture.py", "600", "4000", directory=tmp_path)
    assert re.search(r"^600 x 4000 pixels in 2 blocks, on .+, .+$", output, re.MULTILINE)
    picture = np.load(tmp_path / "output" / "large_picture.npy").astype(np.float64)
    made = np.load(tmp_path / "output" / "large_picture_sharpened.npy")
    assert picture.shape == made.shape == (600, 4000, 3) and picture.std() > 50
    around = np.pad(picture, ((2, 2), (2, 2), (0, 0)), mode="edge")
    binomial = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256
    blurred = sum(binomial[i, j] * around[i : i + 600, j : j + 4000] for i in range(5) for j in range(5))
    expected = 2.5 * picture - 1.5 * blurred
    assert np.abs(np.clip(expected, 0, 255) - made).max() < 0.501
    with Image.open(tmp_path / "output" / "large_picture.png") as preview:
        assert preview.size == (4000, 600)


def test_picture_filter(tmp_path: Path) -> None:
    output = output_of("picture_filter.py", directory=tmp_path)
    assert re.search(r"^\d+ operators in 4 kernels on ", output)
    with Image.open(EXAMPLES / "pictures" / "astronaut.jpg") as opened:
        picture = np.asarray(opened).astype(np.float64) / 255
    with Image.open(tmp_path / "output" / "filtered.png") as opened:
        filtered = np.asarray(opened).astype(np.float64)
    rows, columns = (np.linspace(-1, 1, length) for length in picture.shape[:2])
    light = 1 - 0.45 * (rows[:, None, None] ** 2 + columns[:, None] ** 2)
    expected = np.clip(light / (1 + np.exp(-7 * (picture - 0.5))), 0, 1) * 255
    assert np.abs(filtered - expected).max() < 0.501  # halves may go either way after rounded steps
