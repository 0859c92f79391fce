"""Networks as graphs of dmlvk, and what they take on a device."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk import functions as F
from dmlvk.bench.networks import BenchNetwork
from dmlvk.bench.own import BoundRun
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.compiled import CompiledGraph
from dmlvk.operators.attention import MultiheadAttentionMaskType

_RUNS = 10  # Runs that are recorded behind one another on a GPU, so that waiting for the device does not count

_SECONDS = 0.5


class GraphOperations:
    """What networks are drawn with: operations that draw a graph; PyTorch's are a subclass.

    Pictures are (batch, channels, rows, columns), texts (batch, length, width). Weights are the same random numbers in
    every implementation: those of one seed, in the order in which they are asked for.

    Args:
        device: where it will be compiled.
    """

    def __init__(self, device: Device, data_type: DataType) -> None:
        self.graph = Graph(device)
        self._data_type = data_type
        self._random = np.random.default_rng(1)

    def weights(self, *sizes: int, terms: int) -> Any:
        """Random weights by which sums of so many terms keep the variance of what is summed (He et al., 2015)."""
        bound = (6 / terms) ** 0.5
        return self.constant(self._random.uniform(-bound, bound, sizes).astype(np.float32))

    def scales(self, *sizes: int) -> Any:
        """Random positive numbers about 1."""
        return self.constant(self._random.uniform(0.5, 1.5, sizes).astype(np.float32))

    def shifts(self, *sizes: int) -> Any:
        """Random numbers about 0."""
        return self.constant(self._random.uniform(-0.1, 0.1, sizes).astype(np.float32))

    def constant(self, values: npt.NDArray[np.float32]) -> Any:
        return self.graph.constant(values.astype(self._data_type.numpy_dtype))

    def input(self, *sizes: int) -> Any:
        return self.graph.input("x", self._data_type, sizes)

    def sizes(self, x: Any) -> tuple[int, ...]:
        return tuple(x.sizes)

    def reshape(self, x: Any, *sizes: int) -> Any:
        return x.reshape(sizes)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def convolution(self, x: Any, filters: Any, bias: Any, strides: tuple[int, int], padding: tuple[int, int]) -> Any:
        """A convolution of pictures; ``bias`` of shape (1, channels, 1, 1) or ``None``."""
        return F.convolution(x, filters, bias, strides=strides, start_padding=padding, end_padding=padding)

    def batch_normalization(self, x: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
        """Of pictures, by what was learned: all of shape (1, channels, 1, 1)."""
        return F.batch_normalization(x, mean, variance, scale, shift, True, 1e-5)

    def group_normalization(self, x: Any, groups: int, scale: Any, shift: Any) -> Any:
        """Of pictures, each of so many groups of channels by itself; scale and shift of shape (1, channels, 1, 1)."""
        batch, channels, rows, columns = x.sizes
        grouped = x.reshape((batch, groups, channels // groups, rows * columns))
        made = F.mean_variance_normalization1(grouped, (2, 3), True, 1e-5)
        return made.reshape((batch, channels, rows, columns)) * scale + shift

    def layer_normalization(self, x: Any, scale: Any, shift: Any) -> Any:
        """Of texts along their width; scale and shift of shape (1, 1, width)."""
        scale, shift = (each.broadcast_to(x.sizes) for each in (scale, shift))
        return F.mean_variance_normalization1(x, (2,), True, 1e-5, scale, shift)

    def max_pooling(self, x: Any, window: int, stride: int, padding: int) -> Any:
        both = (padding, padding)
        return F.max_pooling(x, (window, window), strides=(stride, stride), start_padding=both, end_padding=both)

    def global_average(self, x: Any) -> Any:
        """Of each channel of pictures: (batch, channels, 1, 1)."""
        return F.average_pooling(x, tuple(x.sizes[2:]), False)

    def linear(self, x: Any, weights: Any, bias: Any) -> Any:
        """Of texts: products with (width, new width), and a bias of shape (1, 1, new width)."""
        batch, length, width = x.sizes
        made = x.reshape((batch * length, width)) @ weights
        return made.reshape((batch, length, weights.sizes[1])) + bias

    def attention(self, query: Any, key: Any, value: Any, heads: int) -> Any:
        """Of texts, without a mask, scaled by the root of a head's width."""
        scale = (query.sizes[2] / heads) ** -0.5
        made: Any = F.multihead_attention(
            scale, -10000.0, heads, MultiheadAttentionMaskType.NONE, query=query, key=key, value=value
        )
        return made[0] if isinstance(made, tuple) else made

    def relu(self, x: Any) -> Any:
        """Of each element: max(x, 0)."""
        return F.activation_relu(x)

    def gelu(self, x: Any) -> Any:
        """Of each element: x / 2 * (1 + erf(x / sqrt(2)))."""
        return F.activation_gelu(x)

    def silu(self, x: Any) -> Any:
        """Of each element: x / (1 + exp(-x))."""
        return x * F.activation_sigmoid(x)


def compiled_network(
    device: Device, network: BenchNetwork, batch: int, data_type: DataType, *, small: bool = False
) -> CompiledGraph:
    """A network with random weights as a graph from ``x`` to ``y``.

    Args:
        batch: pictures or texts at once.
        small: whether with the sizes by which it computes the same way in a moment.
    """
    operations = GraphOperations(device, data_type)
    made = network.draw(operations, batch, **(network.small if small else network.sizes))
    return operations.graph.compile({"y": made})


def network_seconds(device: Device, compiled: CompiledGraph) -> float:
    """What a run takes whose input and result stay on the device: of several recorded behind one another, the best."""
    runs = 1 if device.info.kind == "CPU" else _RUNS
    with contextlib.closing(BoundRun(device, compiled, runs)) as bound:
        return best_seconds(bound.recorder.execute) / runs


def kernel_seconds(device: Device, compiled: CompiledGraph) -> dict[str, tuple[float, int]]:
    """What each kind of kernel takes in a run by the device's clock, and how many of it there are; slowest first.

    Raises:
        UnsupportedError: when the device has no clock.
    """
    inputs = {
        point.name: np.zeros(point.tensor.sizes, point.tensor.data_type.numpy_dtype)
        for point in compiled.inputs
        if point.tensor is not None
    }
    found: dict[str, tuple[float, int]] = {}
    for kernel in device.profile(compiled, inputs):
        label = re.sub(r"\d+", "N", kernel.label)
        seconds, launches = found.get(label, (0.0, 0))
        found[label] = seconds + kernel.seconds, launches + 1
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def best_seconds(run: Callable[[], object]) -> float:
    """The least that a call took, of those within half a second, behind one that does not count."""
    run()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best
