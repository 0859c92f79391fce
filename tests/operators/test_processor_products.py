"""CONVOLUTION on processors: what is computed again, and which kernels are shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples.products import convolution_desc, values
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products.matrix_tile import SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import LINES, ON_PROCESSORS_IN_SUBGROUPS
from dmlvk.kernels.target import CPU
from tests.operators.test_products import only
from tests.targets import check_bits, on_llvmpipe


@pytest.mark.parametrize("tile", [*LINES, *ON_PROCESSORS_IN_SUBGROUPS], ids=lambda tile: tile.name)
def test_processors_compute_only_rare_filters_again(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tile: MatrixTile
) -> None:
    """The first and the last of a tile, one that meets padding with what is not finite, and ordinary ones between."""
    only(monkeypatch, tile, SEQUENTIAL)
    random = np.random.default_rng(12)
    sizes, window = (1, 3, 6, 15), (tile.rows + 2, 3, 3, 3)
    desc = convolution_desc(dml.FLOAT32, sizes, window, start=(1, 1), end=(1, 1))
    inputs = {
        "InputTensor": values("normal", sizes, dml.FLOAT32, random),
        "FilterTensor": values("normal", window, dml.FLOAT32, random),
        "BiasTensor": np.zeros((1, window[0], 1, 1), np.float32),
    }
    inputs["FilterTensor"][[0, tile.rows - 1]] *= np.float32(1e-38)
    inputs["FilterTensor"][tile.rows // 2, 1, 0, 0] = np.inf
    inputs["FilterTensor"][tile.rows + 1, 2] = np.nan
    check_bits(on_llvmpipe(benches), desc, inputs)


def _on_processor(sizes: Sequence[int], window: Sequence[int], **options: Any) -> tuple[str, tuple[int, ...]]:
    """The kernel of a convolution on llvmpipe, and its specialization constants."""
    desc = convolution_desc(dml.FLOAT32, sizes, window, **options)
    (step, *_) = lower(desc, CPU).steps
    return step.kernel.variant, step.kernel.specialization((0, 0, 0, 0))


def test_processors_have_one_pipeline_for_convolutions_of_any_shape() -> None:
    """As each of them takes a processor's driver a second: a network has dozens of shapes."""
    first = _on_processor((1, 3, 224, 224), (64, 3, 7, 7), strides=(2, 2), start=(3, 3), end=(3, 3))
    assert first[0] == "convolution.float32.wide"
    assert _on_processor((2, 64, 56, 56), (256, 64, 1, 1)) == first
    assert _on_processor((1, 512, 56, 56), (512, 512, 3, 3), start=(1, 1), end=(1, 1), bias=False) == first
    assert _on_processor((1, 4, 300, 300), (4, 64, 3, 3), direction=dml.ConvolutionDirection.BACKWARD) == first


@pytest.mark.parametrize(
    ("sizes", "window", "options"),
    [
        ((1, 4, 3, 8, 300), (16, 4, 1, 2, 2), {}),
        ((1, 4, 3, 300), (4, 16, 2, 2), {"direction": dml.ConvolutionDirection.BACKWARD, "strides": (2, 1)}),
        ((1, 1, 1, 70000), (16, 1, 1, 3), {}),
        ((1, 1, 1, 70000), (16, 1, 1, 2), {"dilations": (1, 40000)}),
    ],
    ids=["depth", "strides of the input", "size", "dilation"],
)
def test_other_convolutions_keep_a_pipeline_for_their_shape(
    sizes: Sequence[int], window: Sequence[int], options: dict[str, Any]
) -> None:
    assert _on_processor(sizes, window, **options)[0] == "convolution.float32.wide_of_a_shape"
