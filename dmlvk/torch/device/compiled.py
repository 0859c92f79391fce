"""Parts of a compiled graph of which all tensors are on PyTorch's device: each is recorded as one operator."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from dmlvk.torch.device.kernels import operand_of, recorded, tensors_of
from dmlvk.torch.device.recipes import Recipe
from dmlvk.torch.device.recorder import RECORDER


class RecordedPart(torch.nn.Module):
    """Nodes that are recorded together, and run with what else was recorded.

    Args:
        module: nodes that all have a lowering, of tensors on the device.

    Raises:
        NotLowered: with a node that cannot be computed.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__()
        self._recipe = Recipe(module, RECORDER.device)

    def forward(self, *arguments: torch.Tensor) -> Any:
        """Records them.

        Raises:
            InvalidArgumentError: a tensor is on another device.
        """
        device = RECORDER.device
        operands = [operand_of("a compiled graph", one, device) if one.numel() else None for one in arguments]
        return tensors_of(self._recipe, recorded(self._recipe, operands, device))
