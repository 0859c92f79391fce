#!/usr/bin/env python3
"""Trains the network of examples/digits.onnx, which reads a handwritten digit, with NumPy alone.

    python scripts/train_digits.py              writes examples/digits.onnx and examples/digit.png

The data are the 1,797 digits that scikit-learn ships (``pip install scikit-learn``); nothing is downloaded. Every fifth
one is kept back to test the network; the picture is one of those. Takes about a minute.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
CHANNELS = (12, 24)  # Channels of the two convolutions

PICTURED = 7  # The digit of the picture

Floats = npt.NDArray[np.float32]
Parameters = dict[str, Floats]


def windows(images: Floats) -> Floats:
    """The 3 x 3 neighbourhood of every pixel, zeros beyond the edges: [n, c, h, w] becomes [n, h, w, c * 9]."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    count, channels, height, width = images.shape
    seen = np.lib.stride_tricks.as_strided(padded, (*images.shape, 3, 3), (*padded.strides, *padded.strides[2:]))
    return np.ascontiguousarray(seen.transpose(0, 2, 3, 1, 4, 5)).reshape(count, height, width, channels * 9)


def from_windows(gradient: Floats, channels: int) -> Floats:
    """The gradient of an image from that of its windows."""
    count, height, width, _ = gradient.shape
    parts = gradient.reshape(count, height, width, channels, 3, 3).transpose(0, 3, 1, 2, 4, 5)
    padded = np.zeros((count, channels, height + 2, width + 2), np.float32)
    for row in range(3):
        for column in range(3):
            padded[:, :, row : row + height, column : column + width] += parts[..., row, column]
    return padded[:, :, 1:-1, 1:-1]


def initial(seed: int) -> Parameters:
    """Weights before training."""
    generator = np.random.default_rng(seed)
    first, second = CHANNELS

    def normal(*shape: int, inputs: int) -> Floats:
        return np.asarray(generator.standard_normal(shape) * np.sqrt(2 / inputs), np.float32)

    return {
        "w1": normal(first, 1, 3, 3, inputs=9),
        "b1": np.zeros(first, np.float32),
        "w2": normal(second, first, 3, 3, inputs=9 * first),
        "b2": np.zeros(second, np.float32),
        "w3": normal(10, second * 16, inputs=second * 16),
        "b3": np.zeros(10, np.float32),
    }


def forward(parameters: Parameters, ink: Floats) -> tuple[Floats, dict[str, Any]]:
    """Scores of the ten digits, and what the way back needs."""
    first, second = CHANNELS
    seen1 = windows(ink)
    bent1 = np.maximum(seen1 @ parameters["w1"].reshape(first, -1).T + parameters["b1"], 0)
    seen2 = windows(bent1.transpose(0, 3, 1, 2))
    bent2 = np.maximum(seen2 @ parameters["w2"].reshape(second, -1).T + parameters["b2"], 0)
    images = bent2.transpose(0, 3, 1, 2)
    blocks = images.reshape(len(ink), second, 4, 2, 4, 2)
    pooled = blocks.max(axis=(3, 5))
    flat = pooled.reshape(len(ink), -1)
    kept = {"seen1": seen1, "bent1": bent1, "seen2": seen2, "bent2": bent2, "blocks": blocks, "pooled": pooled}
    return flat @ parameters["w3"].T + parameters["b3"], kept | {"flat": flat}


def backward(parameters: Parameters, kept: dict[str, Any], slope: Floats) -> Parameters:
    """The gradient of every parameter, from that of the scores."""
    first, second = CHANNELS
    gradients = {"w3": slope.T @ kept["flat"], "b3": slope.sum(0)}
    pooled = (slope @ parameters["w3"]).reshape(kept["pooled"].shape)
    largest = kept["blocks"] == kept["pooled"][:, :, :, None, :, None]
    shares = largest / largest.sum(axis=(3, 5), keepdims=True)
    images = (pooled[:, :, :, None, :, None] * shares).reshape(len(slope), second, 8, 8).astype(np.float32)
    bent2 = images.transpose(0, 2, 3, 1) * (kept["bent2"] > 0)
    gradients["w2"] = np.tensordot(bent2, kept["seen2"], ((0, 1, 2), (0, 1, 2))).reshape(second, first, 3, 3)
    gradients["b2"] = bent2.sum((0, 1, 2))
    before = from_windows(bent2 @ parameters["w2"].reshape(second, -1), first)
    bent1 = before.transpose(0, 2, 3, 1) * (kept["bent1"] > 0)
    gradients["w1"] = np.tensordot(bent1, kept["seen1"], ((0, 1, 2), (0, 1, 2))).reshape(first, 1, 3, 3)
    gradients["b1"] = bent1.sum((0, 1, 2))
    return gradients


def trained(ink: Floats, digits: npt.NDArray[np.int64], epochs: int) -> Parameters:
    """Adam on batches of 64 images, each shifted by up to a pixel."""
    parameters = initial(1)
    generator = np.random.default_rng(2)
    mean = {name: np.zeros_like(value) for name, value in parameters.items()}
    square = {name: np.zeros_like(value) for name, value in parameters.items()}
    step = 0
    for epoch in range(epochs):
        rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = generator.permutation(len(ink))
        for start in range(0, len(order), 64):
            chosen = order[start : start + 64]
            batch = np.roll(ink[chosen], tuple(generator.integers(-1, 2, 2)), axis=(2, 3))
            scores, kept = forward(parameters, batch)
            shares = softmax(scores)
            shares[np.arange(len(chosen)), digits[chosen]] -= 1
            step += 1
            for name, gradient in backward(parameters, kept, shares / len(chosen)).items():
                mean[name] = 0.9 * mean[name] + 0.1 * gradient
                square[name] = 0.999 * square[name] + 0.001 * gradient**2
                size = np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
                update = rate * (mean[name] / (1 - 0.9**step) / size + 1e-3 * parameters[name])
                parameters[name] = (parameters[name] - update).astype(np.float32)
    return parameters


def softmax(scores: Floats) -> Floats:
    """Scores as shares of 1."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True), np.float32)


def as_model(parameters: Parameters) -> onnx.ModelProto:
    """The network as an ONNX model of pictures with dark ink on white paper."""
    nodes = [
        helper.make_node("Sub", ["one", "image"], ["ink"], name="ink"),
        helper.make_node("Conv", ["ink", "w1", "b1"], ["c1"], name="conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p2"], ["f2"], name="flatten"),
        helper.make_node("Gemm", ["f2", "w3", "b3"], ["scores"], name="scores", transB=1),
        helper.make_node("Softmax", ["scores"], ["digit"], name="shares", axis=1),
    ]
    constants = {"one": np.ones(1, np.float32), **parameters}
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["images", 1, 8, 8])],
        [helper.make_tensor_value_info("digit", TensorProto.FLOAT, ["images", 10])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
        doc_string="Reads a handwritten digit, dark on white, of 8 x 8 pixels.",
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="dmlvk scripts/train_digits.py"
    )
    onnx.checker.check_model(made)
    return made


def main() -> int:
    """Trains, tests and writes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--output-dir", type=Path, default=EXAMPLES)
    options = parser.parse_args()
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        print("needs the digits that scikit-learn ships: pip install scikit-learn", file=sys.stderr)
        return 2
    data = load_digits()
    ink = (data.images[:, None] / 16).astype(np.float32)
    digits = data.target.astype(np.int64)
    kept_back = np.arange(len(ink)) % 5 == 0
    parameters = trained(ink[~kept_back], digits[~kept_back], options.epochs)
    scores, _ = forward(parameters, ink[kept_back])
    right = int((scores.argmax(1) == digits[kept_back]).sum())
    print(f"{right} of {int(kept_back.sum())} digits that it was not trained with are read rightly")
    (options.output_dir / "digits.onnx").write_bytes(as_model(parameters).SerializeToString())
    pictured = ink[kept_back][digits[kept_back] == PICTURED][0, 0]
    grey = Image.fromarray(np.rint(255 * (1 - pictured)).astype(np.uint8))
    grey.resize((256, 256), Image.Resampling.BICUBIC).save(options.output_dir / "digit.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
