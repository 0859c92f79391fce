"""Networks of torchvision and timm, exported to ONNX, beside themselves in PyTorch as a CUDA graph."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import click
import numpy.typing as npt

from dmlvk.bench.cuda_graphs import captured
from dmlvk.bench.libraries import module


class TorchvisionNetwork:
    """A network of random weights for pictures.

    Args:
        name: torchvision's, else timm's.

    Raises:
        click.UsageError: neither package has it.
    """

    def __init__(self, torch: Any, name: str, data_type: str, batch: int) -> None:
        self._torch = torch
        torch.manual_seed(0)
        made = self._made(name).eval().cuda().to(getattr(torch, data_type))
        self._network = made
        self._pictures = torch.randn(batch, 3, 224, 224, dtype=getattr(torch, data_type), device="cuda")

    def _made(self, name: str) -> Any:
        vision, timm = module("torchvision"), module("timm")
        if vision is not None and name in vision.models.list_models():
            of_backbone = name in vision.models.list_models(vision.models.segmentation)
            return vision.models.get_model(name, weights=None, **({"weights_backbone": None} if of_backbone else {}))
        if timm is not None and name in timm.list_models():
            return timm.create_model(name, pretrained=False)
        there = [each.__name__ for each in (vision, timm) if each is not None]
        raise click.UsageError(
            f"cliffs: no network {name} in {' or '.join(there)}"
            if there
            else "cliffs: networks need torchvision or timm"
        )

    def model(self) -> bytes:
        """It as a file of ONNX's, of this batch, with the input ``x``."""
        written = io.BytesIO()
        with self._torch.no_grad():
            self._torch.onnx.export(
                self._network, (self._pictures,), written, input_names=["x"], opset_version=18, dynamo=False
            )
        return written.getvalue()

    def values(self) -> npt.NDArray[Any]:
        pictures: npt.NDArray[Any] = self._pictures.cpu().numpy()
        return pictures

    def _run(self) -> Any:
        with self._torch.no_grad():
            made = self._network(self._pictures)
        return next(iter(made.values())) if isinstance(made, dict) else made  # of segmentation: by name, classes first

    def result(self) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self._run().float().cpu().numpy()
        return values

    def replay(self) -> Callable[[], object]:
        """A run of it as a CUDA graph with channels last, without waiting."""
        torch = self._torch
        self._network = self._network.to(memory_format=torch.channels_last)
        self._pictures = self._pictures.to(memory_format=torch.channels_last)
        return captured(torch, self._run)
