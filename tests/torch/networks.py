"""Small networks that tests compile and train."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def network() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.LayerNorm(5),
        nn.GELU(),
    )


class Transformer(torch.nn.Module):  # type: ignore[misc, name-defined]  # of a package that may be missing
    """An embedding, a layer, a product."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.layer(self.embedding(tokens)))
