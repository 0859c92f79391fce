"""Cells of LSTM and GRU, and their gradients, taken apart: what PyTorch calls on devices for a step of a layer.

Hochreiter, Schmidhuber: Long Short-Term Memory, 1997; Cho et al.: Learning Phrase Representations using RNN
Encoder-Decoder, 2014, with the reset gate behind the product, as PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

_aten = torch.ops.aten

_Optional: TypeAlias = "torch.Tensor | None"


def _with(gates: torch.Tensor, bias: _Optional) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _lstm_cell(
    inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, input_bias: _Optional, hidden_bias: _Optional
) -> tuple[torch.Tensor, ...]:
    """The hidden state, the cell, and what the gradient takes: the four gates."""
    i, f, g, o = (_with(inputs, input_bias) + _with(hidden, hidden_bias)).chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    after = f * cell + i * g
    return o * torch.tanh(after), after, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    of_hidden: _Optional,
    of_cell: _Optional,
    before: torch.Tensor,
    after: torch.Tensor,
    gates: torch.Tensor,
    has_bias: bool,
) -> tuple[_Optional, ...]:
    """Gradients of the gates, of the cell before, of a bias."""
    i, f, g, o = gates.chunk(4, 1)
    size = torch.tanh(after)
    of_out = torch.zeros_like(after) if of_hidden is None else of_hidden
    of_after = of_out * o * (1 - size * size)
    if of_cell is not None:
        of_after = of_after + of_cell
    parts = [of_after * g * i * (1 - i), of_after * before * f * (1 - f), of_after * i * (1 - g * g)]
    made = torch.cat([*parts, of_out * size * o * (1 - o)], 1)
    return made, of_after * f, made.sum(0) if has_bias else None


def _gru_cell(
    inputs: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor, input_bias: _Optional, hidden_bias: _Optional
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state, and what the gradient takes: gates, the state before, what the reset gate takes a part of."""
    of_input, of_hidden = _with(inputs, input_bias).chunk(3, 1), _with(hidden, hidden_bias).chunk(3, 1)
    r, z = torch.sigmoid(of_input[0] + of_hidden[0]), torch.sigmoid(of_input[1] + of_hidden[1])
    n = torch.tanh(of_input[2] + r * of_hidden[2])
    return n + z * (state - n), torch.cat([r, z, n, state, of_hidden[2]], 1)


def _gru_cell_backward(gradient: torch.Tensor, kept: torch.Tensor, has_bias: bool) -> tuple[_Optional, ...]:
    """Gradients of both sides' gates, of the state before, of both biases."""
    r, z, n, state, share = kept.chunk(5, 1)
    of_z = gradient * (state - n) * z * (1 - z)
    of_n = gradient * (1 - z) * (1 - n * n)
    of_r = of_n * share * r * (1 - r)
    of_input, of_hidden = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, gradient * z, *biases


RECURRENT: dict[Any, Callable[..., Any]] = {
    _aten._thnn_fused_lstm_cell.default: lambda i, h, c, a=None, b=None: _lstm_cell(i, h, c, a, b),
    _aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    _aten._thnn_fused_gru_cell.default: lambda i, h, s, a=None, b=None: _gru_cell(i, h, s, a, b),
    _aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
"""By operator."""
