"""The same networks by PyTorch: a CUDA graph, pictures with channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.bench.cuda_graphs import captured
from dmlvk.bench.network_graphs import GraphOperations, best_seconds
from dmlvk.bench.networks import BenchNetwork

_RUNS = 10  # Runs behind one another, so that waiting for the device does not count


class _TorchOperations(GraphOperations):
    """Operations that PyTorch computes at once.

    Args:
        weights: those of an earlier run with the same network, which are used again; filled where it is empty.
    """

    def __init__(self, torch: Any, values: Any, weights: list[Any]) -> None:
        self._random = np.random.default_rng(1)
        self._torch, self._functional, self._values = torch, torch.nn.functional, values
        self._weights, self._is_new, self._next = weights, not weights, 0

    def constant(self, values: npt.NDArray[np.float32]) -> Any:
        if self._is_new:
            made = self._torch.from_numpy(values).to(self._values.device, self._values.dtype)
            if values.ndim == 4:
                made = made.to(memory_format=self._torch.channels_last)
            self._weights.append(made)
        self._next += 1
        return self._weights[self._next - 1]

    def weights(self, *sizes: int, terms: int) -> Any:
        return super().weights(*sizes, terms=terms) if self._is_new else self.constant(_NONE)

    def scales(self, *sizes: int) -> Any:
        return super().scales(*sizes) if self._is_new else self.constant(_NONE)

    def shifts(self, *sizes: int) -> Any:
        return super().shifts(*sizes) if self._is_new else self.constant(_NONE)

    def input(self, *sizes: int) -> Any:
        assert tuple(self._values.shape) == sizes
        return self._values

    def sizes(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def reshape(self, x: Any, *sizes: int) -> Any:
        return x.reshape(sizes)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.permute(axes)

    def convolution(self, x: Any, filters: Any, bias: Any, strides: tuple[int, int], padding: tuple[int, int]) -> Any:
        return self._functional.conv2d(x, filters, None if bias is None else bias.flatten(), strides, padding)

    def batch_normalization(self, x: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
        mean, variance, scale, shift = (each.flatten() for each in (mean, variance, scale, shift))
        return self._functional.batch_norm(x, mean, variance, scale, shift, False, 0.0, 1e-5)

    def group_normalization(self, x: Any, groups: int, scale: Any, shift: Any) -> Any:
        return self._functional.group_norm(x, groups, scale.flatten(), shift.flatten(), 1e-5)

    def layer_normalization(self, x: Any, scale: Any, shift: Any) -> Any:
        return self._functional.layer_norm(x, x.shape[-1:], scale.flatten(), shift.flatten(), 1e-5)

    def max_pooling(self, x: Any, window: int, stride: int, padding: int) -> Any:
        return self._functional.max_pool2d(x, window, stride, padding)

    def global_average(self, x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def linear(self, x: Any, weights: Any, bias: Any) -> Any:
        return self._functional.linear(x, weights.T, bias.flatten())

    def attention(self, query: Any, key: Any, value: Any, heads: int) -> Any:
        batch, length, width = query.shape
        query, key, value = (
            each.reshape(batch, each.shape[1], heads, -1).transpose(1, 2) for each in (query, key, value)
        )
        made = self._functional.scaled_dot_product_attention(query, key, value)
        return made.transpose(1, 2).reshape(batch, length, width)

    def relu(self, x: Any) -> Any:
        return self._functional.relu(x)

    def gelu(self, x: Any) -> Any:
        return self._functional.gelu(x)

    def silu(self, x: Any) -> Any:
        return self._functional.silu(x)


_NONE: npt.NDArray[np.float32] = np.empty(0, np.float32)


class TorchNetwork:
    """A network with the weights that dmlvk's has.

    Args:
        values: its input, of the data type and on the device that it shall have.

    Raises:
        ImportError: PyTorch is not installed.
    """

    def __init__(self, network: BenchNetwork, values: Any, *, small: bool = False) -> None:
        import torch

        self._torch, self._network, self._weights = torch, network, list[Any]()
        self._sizes = network.small if small else network.sizes
        self._values = values.to(memory_format=torch.channels_last) if values.ndim == 4 else values

    def run(self) -> Any:
        with self._torch.no_grad():
            operations = _TorchOperations(self._torch, self._values, self._weights)
            return self._network.draw(operations, self._values.shape[0], **self._sizes)

    def replay(self, runs: int) -> Any:
        """A call that runs it so often as a CUDA graph, and waits."""
        replay = captured(self._torch, self.run)

        def replayed() -> None:
            for _ in range(runs):
                replay()
            self._torch.cuda.synchronize()

        return replayed


def torch_seconds(network: BenchNetwork, sizes: Sequence[int], data_type: str, *, small: bool = False) -> float:
    """What a run takes on the current CUDA device, of several as a CUDA graph behind one another, the best.

    Raises:
        ImportError: PyTorch is not installed, or finds no CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no CUDA device")
    values = torch.rand(*sizes, dtype=getattr(torch, data_type), device="cuda")
    return best_seconds(TorchNetwork(network, values, small=small).replay(_RUNS)) / _RUNS
