"""Networks as graphs of dmlvk, and what they take on a device."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk import functions as F
from dmlvk.bench.networks import BenchNetwork, NetworkOperations
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.compiled import CompiledGraph
from dmlvk.objects.binding import BufferBinding
from dmlvk.operators.attention import MultiheadAttentionMaskType

_RUNS = 10
"""Runs that are recorded behind one another on a GPU, so that waiting for the device does not count."""

_SECONDS = 0.5


class GraphOperations(NetworkOperations):
    """Operations that draw a graph.

    Args:
        device: where it will be compiled.
        data_type: of input and weights.
    """

    def __init__(self, device: Device, data_type: DataType) -> None:
        super().__init__()
        self.graph = Graph(device)
        self._data_type = data_type

    def constant(self, values: npt.NDArray[np.float32]) -> Any:
        """See :class:`NetworkOperations`."""
        return self.graph.constant(values.astype(self._data_type.numpy_dtype))

    def input(self, *sizes: int) -> Any:
        """See :class:`NetworkOperations`."""
        return self.graph.input("x", self._data_type, sizes)

    def sizes(self, x: Any) -> tuple[int, ...]:
        """See :class:`NetworkOperations`."""
        return tuple(x.sizes)

    def reshape(self, x: Any, *sizes: int) -> Any:
        """See :class:`NetworkOperations`."""
        return x.reshape(sizes)

    def transpose(self, x: Any, *axes: int) -> Any:
        """See :class:`NetworkOperations`."""
        return x.transpose(axes)

    def convolution(self, x: Any, filters: Any, bias: Any, strides: tuple[int, int], padding: tuple[int, int]) -> Any:
        """See :class:`NetworkOperations`."""
        return F.convolution(x, filters, bias, strides=strides, start_padding=padding, end_padding=padding)

    def batch_normalization(self, x: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
        """See :class:`NetworkOperations`."""
        return F.batch_normalization(x, mean, variance, scale, shift, True, 1e-5)

    def group_normalization(self, x: Any, groups: int, scale: Any, shift: Any) -> Any:
        """See :class:`NetworkOperations`."""
        batch, channels, rows, columns = x.sizes
        grouped = x.reshape((batch, groups, channels // groups, rows * columns))
        made = F.mean_variance_normalization1(grouped, (2, 3), True, 1e-5)
        return made.reshape((batch, channels, rows, columns)) * scale + shift

    def layer_normalization(self, x: Any, scale: Any, shift: Any) -> Any:
        """See :class:`NetworkOperations`."""
        scale, shift = (each.broadcast_to(x.sizes) for each in (scale, shift))
        return F.mean_variance_normalization1(x, (2,), True, 1e-5, scale, shift)

    def max_pooling(self, x: Any, window: int, stride: int, padding: int) -> Any:
        """See :class:`NetworkOperations`."""
        both = (padding, padding)
        return F.max_pooling(x, (window, window), strides=(stride, stride), start_padding=both, end_padding=both)

    def global_average(self, x: Any) -> Any:
        """See :class:`NetworkOperations`."""
        return F.average_pooling(x, tuple(x.sizes[2:]), False)

    def linear(self, x: Any, weights: Any, bias: Any) -> Any:
        """See :class:`NetworkOperations`."""
        batch, length, width = x.sizes
        made = x.reshape((batch * length, width)) @ weights
        return made.reshape((batch, length, weights.sizes[1])) + bias

    def attention(self, query: Any, key: Any, value: Any, heads: int) -> Any:
        """See :class:`NetworkOperations`."""
        scale = (query.sizes[2] / heads) ** -0.5
        made: Any = F.multihead_attention(
            scale, -10000.0, heads, MultiheadAttentionMaskType.NONE, query=query, key=key, value=value
        )
        return made[0] if isinstance(made, tuple) else made

    def relu(self, x: Any) -> Any:
        """See :class:`NetworkOperations`."""
        return F.activation_relu(x)

    def gelu(self, x: Any) -> Any:
        """See :class:`NetworkOperations`."""
        return F.activation_gelu(x)

    def silu(self, x: Any) -> Any:
        """See :class:`NetworkOperations`."""
        return x * F.activation_sigmoid(x)


def compiled_network(
    device: Device, network: BenchNetwork, batch: int, data_type: DataType, *, small: bool = False
) -> CompiledGraph:
    """A network with random weights as a graph from ``x`` to ``y``.

    Args:
        device: where.
        network: which.
        batch: pictures or texts at once.
        data_type: of input and weights.
        small: whether with the sizes by which it computes the same way in a moment.
    """
    operations = GraphOperations(device, data_type)
    made = network.draw(operations, batch, **(network.small if small else network.sizes))
    return operations.graph.compile({"y": made})


def network_seconds(device: Device, compiled: CompiledGraph) -> float:
    """What a run takes whose input and result stay on the device: of several recorded behind one another, the best."""
    table = device.create_binding_table(compiled)
    table.bind_inputs(_bindings(device, compiled.inputs))
    table.bind_outputs(_bindings(device, compiled.outputs))
    temporary = compiled.binding_properties.temporary_resource_size
    if temporary:
        table.bind_temporary_resource(BufferBinding(device.create_buffer(temporary), 0, temporary))
    recorder = device.create_command_recorder()
    runs = 1 if device.info.kind == "CPU" else _RUNS
    for _ in range(runs):
        recorder.record_dispatch(compiled, table)
    return best_seconds(recorder.execute) / runs


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


def _bindings(device: Device, points: Any) -> list[BufferBinding | None]:
    made: list[BufferBinding | None] = []
    for point in points:
        buffer = device.create_buffer(point.size_in_bytes) if point.tensor is not None else None
        made.append(BufferBinding(buffer, 0, point.size_in_bytes) if buffer is not None else None)
    return made


__all__ = ["GraphOperations", "best_seconds", "compiled_network", "kernel_seconds", "network_seconds"]
