"""Networks that are timed whole: each drawn once, with operations by which dmlvk makes a graph and PyTorch computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlvk.bench.network_graphs import GraphOperations


def _convolution(
    o: GraphOperations,
    x: Any,
    channels: int,
    side: int,
    stride: int = 1,
    *,
    has_bias: bool = True,
    rows: int | None = None,
) -> Any:
    strides = (stride, stride) if rows is None else (1, stride)
    rows = side if rows is None else rows
    given = o.sizes(x)[1]
    filters = o.weights(channels, given, rows, side, terms=given * rows * side)
    bias = o.shifts(1, channels, 1, 1) if has_bias else None
    return o.convolution(x, filters, bias, strides, (rows // 2, side // 2))


def _normalized(o: GraphOperations, x: Any) -> Any:
    sizes = (1, o.sizes(x)[1], 1, 1)
    return o.batch_normalization(x, o.shifts(*sizes), o.scales(*sizes), o.scales(*sizes), o.shifts(*sizes))


def _linear(o: GraphOperations, x: Any, width: int) -> Any:
    given = o.sizes(x)[-1]
    return o.linear(x, o.weights(given, width, terms=2 * given), o.shifts(1, 1, width))


def _layer_normalized(o: GraphOperations, x: Any) -> Any:
    width = o.sizes(x)[-1]
    return o.layer_normalization(x, o.scales(1, 1, width), o.shifts(1, 1, width))


def _attended(o: GraphOperations, x: Any, width: int, heads: int) -> Any:
    query, key, value = (_linear(o, x, width) for _ in range(3))
    return _linear(o, o.attention(query, key, value, heads), width)


def _fed_forward(o: GraphOperations, x: Any, inner: int) -> Any:
    return _linear(o, o.gelu(_linear(o, x, inner)), o.sizes(x)[-1])


def _pre_normalized_layers(o: GraphOperations, x: Any, layers: int, heads: int) -> Any:
    """Layers of a transformer whose sums are not normalized; what goes into attention and products is."""
    width = o.sizes(x)[-1]
    for _ in range(layers):
        x = x + _attended(o, _layer_normalized(o, x), width, heads)
        x = x + _fed_forward(o, _layer_normalized(o, x), 4 * width)
    return _layer_normalized(o, x)


def resnet(o: GraphOperations, batch: int, side: int, depths: tuple[int, ...], width: int) -> Any:
    """ResNet with bottlenecks (He et al., Deep Residual Learning, 2016, table 1), up to its logits."""

    def unit(x: Any, channels: int, side: int, stride: int = 1) -> Any:
        return _normalized(o, _convolution(o, x, channels, side, stride, has_bias=False))

    x = o.max_pooling(o.relu(unit(o.input(batch, 3, side, side), width, 7, 2)), 3, 2, 1)
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for number in range(depth):
            stride = 2 if stage > 0 and number == 0 else 1
            made = o.relu(unit(o.relu(unit(x, inner, 1)), inner, 3, stride))
            made = unit(made, 4 * inner, 1)
            x = o.relu(made + (unit(x, 4 * inner, 1, stride) if number == 0 else x))
    return _convolution(o, o.global_average(x), 1000, 1)


def vgg(o: GraphOperations, batch: int, side: int, depths: tuple[int, ...], width: int) -> Any:
    """VGG (Simonyan and Zisserman, 2015, table 1, column E for 2, 2, 4, 4, 4), up to its logits."""
    x = o.input(batch, 3, side, side)
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            x = o.relu(_convolution(o, x, min(width * 2**stage, 8 * width), 3))
        x = o.max_pooling(x, 2, 2, 0)
    _, channels, rows, columns = o.sizes(x)
    x = o.reshape(x, batch, 1, channels * rows * columns)
    for _ in range(2):
        x = o.relu(_linear(o, x, 64 * width))
    return _linear(o, x, 1000)


def vision_transformer(
    o: GraphOperations, batch: int, side: int, patch: int, width: int, layers: int, heads: int
) -> Any:
    """ViT (Dosovitskiy et al., 2021), up to the logits from the mean of its places."""
    pictures = o.input(batch, 3, side, side)
    filters = o.weights(width, 3, patch, patch, terms=3 * patch * patch)
    x = o.convolution(pictures, filters, o.shifts(1, width, 1, 1), (patch, patch), (0, 0))
    positions = (side // patch) ** 2
    x = o.transpose(o.reshape(x, batch, width, positions), 0, 2, 1) + o.shifts(1, positions, width)
    x = _pre_normalized_layers(o, x, layers, heads)
    x = o.global_average(o.reshape(o.transpose(x, 0, 2, 1), batch, width, positions, 1))
    return _convolution(o, x, 1000, 1)


def bert(o: GraphOperations, batch: int, length: int, width: int, layers: int, heads: int) -> Any:
    """BERT's encoder (Devlin et al., 2019) from embedded tokens to the last layer's states."""
    x = _layer_normalized(o, o.input(batch, length, width))
    for _ in range(layers):
        x = _layer_normalized(o, x + _attended(o, x, width, heads))
        x = _layer_normalized(o, x + _fed_forward(o, x, 4 * width))
    return x


def whisper_encoder(o: GraphOperations, batch: int, length: int, width: int, layers: int, heads: int) -> Any:
    """Whisper's encoder (Radford et al., 2022), from a spectrogram of 80 bands and twice as many moments as places."""
    x = o.input(batch, 80, 1, 2 * length)
    for stride in (1, 2):
        x = o.gelu(_convolution(o, x, width, 3, stride, rows=1))
    x = o.transpose(o.reshape(x, batch, width, length), 0, 2, 1) + o.shifts(1, length, width)
    return _pre_normalized_layers(o, x, layers, heads)


def unet_block(o: GraphOperations, batch: int, side: int, channels: int, heads: int) -> Any:
    """A residual block and a transformer block over places, as a latent diffusion model's UNet has (Rombach, 2022)."""

    def half(x: Any) -> Any:
        sizes = (1, o.sizes(x)[1], 1, 1)
        return _convolution(o, o.silu(o.group_normalization(x, 32, o.scales(*sizes), o.shifts(*sizes))), channels, 3)

    x = o.input(batch, channels, side, side)
    x = x + half(half(x))
    text = o.transpose(o.reshape(_convolution(o, x, channels, 1), batch, channels, side * side), 0, 2, 1)
    text = _pre_normalized_layers(o, text, 1, heads)
    return x + _convolution(o, o.reshape(o.transpose(text, 0, 2, 1), batch, channels, side, side), channels, 1)


@dataclasses.dataclass(frozen=True)
class BenchNetwork:
    draw: Callable[..., Any]  # given operations, a batch, and its sizes
    sizes: Mapping[str, Any]  # those that it is known by
    small: Mapping[str, Any]  # sizes by which it computes the same way in a moment


NETWORKS: Mapping[str, BenchNetwork] = {
    "ResNet-50": BenchNetwork(
        resnet, {"side": 224, "depths": (3, 4, 6, 3), "width": 64}, {"side": 32, "depths": (1, 2), "width": 8}
    ),
    "VGG-19": BenchNetwork(
        vgg, {"side": 224, "depths": (2, 2, 4, 4, 4), "width": 64}, {"side": 16, "depths": (1, 2), "width": 8}
    ),
    "ViT-B/16": BenchNetwork(
        vision_transformer,
        {"side": 224, "patch": 16, "width": 768, "layers": 12, "heads": 12},
        {"side": 32, "patch": 8, "width": 32, "layers": 2, "heads": 2},
    ),
    "BERT-base": BenchNetwork(
        bert,
        {"length": 128, "width": 768, "layers": 12, "heads": 12},
        {"length": 12, "width": 32, "layers": 2, "heads": 2},
    ),
    "UNet block": BenchNetwork(
        unet_block, {"side": 32, "channels": 640, "heads": 10}, {"side": 8, "channels": 32, "heads": 2}
    ),
    "Whisper encoder": BenchNetwork(
        whisper_encoder,
        {"length": 1500, "width": 512, "layers": 6, "heads": 8},
        {"length": 20, "width": 32, "layers": 2, "heads": 2},
    ),
}
"""By name: Whisper's is its base size, the UNet's block one of Stable Diffusion's middle ones."""
