"""ResNet-50 by torch.compile, beside dmlvk.onnx."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

import dmlvk as dml
import dmlvk.onnx
import dmlvk.torch
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.selection import arithmetic_option, chosen_device, device_option, json_option
from dmlvk.support.arithmetic import Arithmetic

_REPEATS = 30
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels, blocks and stride of each stage (He et al., Deep Residual Learning, 2016, table 1)."""


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, given: int, inner: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, inner, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(inner)
        self.second = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(inner)
        self.third = nn.Conv2d(inner, 4 * inner, 1, bias=False)
        self.third_norm = nn.BatchNorm2d(4 * inner)
        is_same = given == 4 * inner
        self.shortcut = None if is_same else nn.Conv2d(given, 4 * inner, 1, stride, bias=False)
        self.shortcut_norm = None if is_same else nn.BatchNorm2d(4 * inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        made = torch.relu(self.first_norm(self.first(x)))
        made = torch.relu(self.second_norm(self.second(made)))
        made = self.third_norm(self.third(made))
        if self.shortcut is not None and self.shortcut_norm is not None:
            x = self.shortcut_norm(self.shortcut(x))
        return torch.relu(made + x)


class ResNet50(nn.Module):
    """The network for pictures of 1,000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem_norm = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks, given = [], 64
        for inner, count, stride in _STAGES:
            for number in range(count):
                blocks.append(Bottleneck(given, inner, stride if number == 0 else 1))
                given = 4 * inner
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(given, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        made = self.blocks(self.pool(torch.relu(self.stem_norm(self.stem(x)))))
        logits: torch.Tensor = self.head(made.mean((2, 3)))
        return logits


class Writer:
    """Writes the same network as a model of ONNX."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def _weight(self, name: str, value: torch.Tensor) -> str:
        self.weights.append(numpy_helper.from_array(value.detach().numpy(), name))
        return name

    def _node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"value {len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _convolution(self, x: str, layer: nn.Conv2d, norm: nn.BatchNorm2d) -> str:
        number = len(self.nodes)
        padding = layer.padding[0]
        made = self._node(
            "Conv", [x, self._weight(f"filter {number}", layer.weight)], strides=list(layer.stride), pads=[padding] * 4
        )
        state = [norm.weight, norm.bias, norm.running_mean, norm.running_var]
        names = [self._weight(f"norm {number} {index}", one) for index, one in enumerate(state) if one is not None]
        return self._node("BatchNormalization", [made, *names], epsilon=norm.eps)

    def _block(self, x: str, block: Bottleneck) -> str:
        made = self._node("Relu", [self._convolution(x, block.first, block.first_norm)])
        made = self._node("Relu", [self._convolution(made, block.second, block.second_norm)])
        made = self._convolution(made, block.third, block.third_norm)
        if block.shortcut is not None and block.shortcut_norm is not None:
            x = self._convolution(x, block.shortcut, block.shortcut_norm)
        return self._node("Relu", [self._node("Add", [made, x])])

    def model(self, network: ResNet50, shape: Sequence[int]) -> bytes:
        """The model's file."""
        made = self._node("Relu", [self._convolution("x", network.stem, network.stem_norm)])
        made = self._node("MaxPool", [made], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        for block in network.blocks:
            assert isinstance(block, Bottleneck)
            made = self._block(made, block)
        made = self._node("Flatten", [self._node("GlobalAveragePool", [made])])
        head = [self._weight("head", network.head.weight), self._weight("bias", network.head.bias)]
        self.nodes.append(helper.make_node("Gemm", [made, *head], ["y"], transB=1))
        graph = helper.make_graph(
            self.nodes,
            "resnet50",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(shape))],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [shape[0], 1000])],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        contents: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        return contents


def _medians(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Milliseconds of each, taken in turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for repeat in range(_REPEATS + 5):
        for times, call in zip(taken, calls, strict=True):
            start = time.perf_counter()
            call()
            if repeat >= 5:
                times.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(times) for times in taken]


@click.command()
@device_option
@click.option("-b", "--batch", type=click.IntRange(1), default=1, show_default=True, help="Pictures at once.")
@click.option("-s", "--size", type=click.IntRange(32), default=224, show_default=True, help="Rows and columns of one.")
@arithmetic_option
@json_option
def command(device: str | None, batch: int, size: int, arithmetic: Arithmetic | None, json_file: Path | None) -> None:
    """Time ResNet-50 by torch.compile(backend="dmlvk") beside dmlvk.onnx, with the same weights.

    Both take pictures from the host and give logits to it; medians of calls in turn. Exits with 1 where logits differ
    by more than 1e-4 of the largest.
    """
    torch.manual_seed(0)
    network = ResNet50().eval()
    pictures = torch.randn(batch, 3, size, size)
    opened = dml.Device(chosen_device(device), arithmetic=arithmetic)
    compiled = torch.compile(network, backend="dmlvk", options={"device": opened})
    session = dmlvk.onnx.InferenceSession(Writer().model(network, tuple(pictures.shape)), device=opened)
    feed = {"x": pictures.numpy()}
    with torch.no_grad():
        first, second = compiled(pictures).numpy(), session.run(None, feed)[0]
        difference = float(np.abs(first - second).max() / np.abs(second).max())
        by_torch, by_onnx = _medians([lambda: compiled(pictures), lambda: session.run(None, feed)])
    print(
        f"{opened.info.name}: ResNet-50, {list(pictures.shape)}: torch.compile {by_torch:.2f} ms, dmlvk.onnx ", end=""
    )
    print(f"{by_onnx:.2f} ms, {by_torch / by_onnx:.3f} times; logits differ by {difference:.1e} of the largest")
    if json_file is not None:
        result = {"torch": by_torch, "onnx": by_onnx, "difference": difference, "shape": list(pictures.shape)}
        write_measured(json_file, opened.info, [named(TorchLibrary(torch))], [result])
    if not difference < 1e-4:
        raise click.exceptions.Exit(1)
