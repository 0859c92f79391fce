"""The same decoder by PyTorch: FLOAT16 weights, a step as a CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlvk.bench.cuda_graphs import captured
from dmlvk.bench.decoder_models import DecoderSize


class TorchDecoder:
    """A llama of random weights on the current CUDA device.

    Args:
        capacity: tokens that the caches have room for.

    Raises:
        ImportError: PyTorch is not installed, or finds no CUDA device.
    """

    def __init__(self, size: DecoderSize, capacity: int, batch: int = 1) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no CUDA device")
        self._torch, self._size, self._batch = torch, size, batch
        layers = []
        width = (size.heads + 2 * size.key_heads) * size.head
        for _ in range(size.layers):
            shapes = (
                (width, size.hidden),
                (size.hidden, size.heads * size.head),
                (2 * size.inner, size.hidden),
                (size.hidden, size.inner),
            )
            layers.append([self._weights(*shape) for shape in shapes])
        self._layers = layers
        self._embedding = self._weights(size.vocabulary, size.hidden)
        self._output = self._weights(size.vocabulary, size.hidden)
        self._norm = torch.ones(size.hidden, dtype=torch.float16, device="cuda")
        shape = (size.layers, 2, batch, size.key_heads, capacity, size.head)
        self._caches = torch.randn(shape, dtype=torch.float16, device="cuda")
        positions = torch.arange(capacity, device="cuda")[:, None]
        angles = positions * 10000.0 ** (-torch.arange(0, size.head, 2, device="cuda") / size.head)
        self._cosines, self._sines = angles.cos().half(), angles.sin().half()

    def _weights(self, rows: int, columns: int) -> Any:
        made = self._torch.randn((rows, columns), dtype=self._torch.float16, device="cuda")
        return made.mul_(columns**-0.5)

    def _step(self, tokens: Any, past: int) -> Any:
        """The likeliest tokens behind new ones ([batch, count]) that follow so many of the caches."""
        functional, size = self._torch.nn.functional, self._size
        count, end = tokens.shape[1], past + tokens.shape[1]
        cosines, sines = self._cosines[past:end], self._sines[past:end]

        def heads(values: Any, number: int) -> Any:
            return values.reshape(self._batch, count, number, size.head).transpose(1, 2)

        def turned(values: Any) -> Any:
            first, second = values.chunk(2, -1)
            return self._torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)

        x = self._embedding[tokens]
        for (qkv, o, gate_up, down), (keys, values) in zip(self._layers, self._caches, strict=True):
            normed = functional.rms_norm(x, (size.hidden,), self._norm, 1e-5)
            widths = [size.heads * size.head, size.key_heads * size.head, size.key_heads * size.head]
            q, k, v = functional.linear(normed, qkv).split(widths, -1)
            keys[:, :, past:end] = turned(heads(k, size.key_heads))
            values[:, :, past:end] = heads(v, size.key_heads)
            attended = functional.scaled_dot_product_attention(
                turned(heads(q, size.heads)), keys[:, :, :end], values[:, :, :end], is_causal=count > 1, enable_gqa=True
            )
            x = x + functional.linear(attended.transpose(1, 2).reshape(self._batch, count, -1), o)
            gate, up = functional.linear(functional.rms_norm(x, (size.hidden,), self._norm, 1e-5), gate_up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, down)
        last = functional.rms_norm(x[:, -1:], (size.hidden,), self._norm, 1e-5)
        return functional.linear(last, self._output).argmax(-1)

    def _graph(self, count: int, past: int) -> Callable[[], object]:
        """Runs a step again and again on the same memory."""
        torch = self._torch
        tokens = torch.zeros((self._batch, count), dtype=torch.int64, device="cuda")
        with torch.no_grad():
            return captured(torch, lambda: self._step(tokens, past))

    def seconds(self, count: int, past: int, runs: int) -> float:
        """The median of a step of so many tokens behind a text, each waited for."""
        replay = self._graph(count, past)
        taken = []
        for _ in range(runs + 4):
            start = time.perf_counter()
            replay()
            self._torch.cuda.synchronize()
            taken.append(time.perf_counter() - start)
        return float(np.median(taken[4:]))
