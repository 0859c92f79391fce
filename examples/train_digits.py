"""Trains a network that reads handwritten digits, by dmlvk alone, and draws how its loss falls.

python examples/train_digits.py [--device DEVICE] [--epochs N] [--output FILE]

It is the network of examples/digits.onnx. One graph is one step of training: it takes a batch, computes the loss, goes
back to the gradient of every parameter, and moves them by Adam. Pictures, parameters and moments stay on the device
from the first step to the last; what is sent is which pictures are the next batch. The loss falls along the same curve,
to the bit, on every device: the last line is a hash of it.

The pictures are the 1,797 digits that scikit-learn ships (pip install scikit-learn). Every fifth one is kept back.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.bench.plot import Canvas

CHANNELS = (12, 24)
BATCH = 64
RATE = 2e-3
STATE = ("parameters", "mean", "square")
"""What Adam moves."""

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]


SHAPES = {
    "w3": (10, CHANNELS[1] * 16),
    "w2": (CHANNELS[1], CHANNELS[0], 3, 3),
    "w1": (CHANNELS[0], 1, 3, 3),
    "b2": (1, CHANNELS[1], 1, 1),
    "b1": (1, CHANNELS[0], 1, 1),
    "b3": (1, 10),
}
"""Weights and biases, as they lie one behind the other in the vector of all parameters."""

COUNT = sum(math.prod(shape) for shape in SHAPES.values())


def initial_parameters() -> Floats:
    """Random weights of a size that lets signals through, and biases of 0."""
    random = np.random.default_rng(1)
    parts = [
        random.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:])) if name.startswith("w") else np.zeros(shape)
        for name, shape in SHAPES.items()
    ]
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def named(parameters: dml.Expression) -> dict[str, dml.Expression]:
    """The weights and biases of a vector, as views of it."""
    found, first = {}, 0
    for name, shape in SHAPES.items():
        found[name] = parameters[first : first + math.prod(shape)].reshape(shape)
        first += math.prod(shape)
    return found


def convolved(images: dml.Expression, filters: dml.Expression) -> dml.Expression:
    """Images seen through windows of 3 x 3."""
    return F.convolution(images, filters, strides=(1, 1), start_padding=(1, 1), end_padding=(1, 1))


def of_filters(images: dml.Expression, of_results: dml.Expression) -> dml.Expression:
    """The gradient of a convolution's filters: each channel over the batch, seen through the results' gradients."""
    turned = convolved(images.transpose(1, 0, 2, 3), of_results.transpose(1, 0, 2, 3))
    return F.identity(turned.transpose(1, 0, 2, 3))


def step_graph(device: dml.Device, pictures: int, batch: int) -> dml.CompiledGraph:
    """One step of training: forward, backward, Adam."""
    graph = dml.Graph(device)
    ink = graph.input("ink", dml.FLOAT32, (pictures, 1, 8, 8))
    digits = graph.input("digits", dml.UINT32, (pictures, 1))
    chosen = graph.input("chosen", dml.UINT32, (batch,))
    on_off = graph.input("off_and_on", dml.FLOAT32, (2,))
    step = graph.input("step", dml.UINT32, (1,))
    state = {name: graph.input(name, dml.FLOAT32, (COUNT,)) for name in STATE}
    parameters = named(state["parameters"])

    # Forward.
    images = F.gather(ink, chosen.reshape(1, 1, 1, batch), 0, 1).reshape(batch, 1, 8, 8)
    wanted = F.gather(digits, chosen.reshape(1, batch), 0, 1).reshape(batch, 1)
    wanted = F.one_hot(wanted, on_off.reshape(1, 2), 1, output_sizes=(batch, 10))
    before1 = convolved(images, parameters["w1"]) + parameters["b1"]
    bent1 = F.relu(before1)
    before2 = convolved(bent1, parameters["w2"]) + parameters["b2"]
    bent2 = F.relu(before2)
    flat = F.max_pooling(bent2, (2, 2), (2, 2)).reshape(batch, -1)
    scores = flat @ parameters["w3"].T + parameters["b3"]
    loss = -F.sum(wanted * F.log_softmax1(scores, axes=[1])) / batch

    # Backward: the gradient of the scores, then that of what they were made of, and so on.
    of_scores = (F.softmax1(scores, axes=[1]) - wanted) / batch
    gradients = {"w3": of_scores.T @ flat, "b3": F.sum(of_scores, axis=0, keepdims=True)}
    of_pooled = (of_scores @ parameters["w3"]).reshape(batch, CHANNELS[1], 4, 4)
    of_bent2 = F.max_pooling_grad(bent2, of_pooled, (2, 2), (2, 2), (0, 0), (0, 0), (1, 1))
    of_before2 = F.relu_grad(before2, of_bent2)
    gradients["w2"] = of_filters(bent1, of_before2)
    gradients["b2"] = F.sum(of_before2, axis=(0, 2, 3), keepdims=True)
    of_bent1 = F.convolution(
        of_before2, parameters["w2"], direction=dml.ConvolutionDirection.BACKWARD,
        strides=(1, 1), start_padding=(1, 1), end_padding=(1, 1),
    )  # fmt: skip
    of_before1 = F.relu_grad(before1, of_bent1)
    gradients["w1"] = of_filters(images, of_before1)
    gradients["b1"] = F.sum(of_before1, axis=(0, 2, 3), keepdims=True)

    # Adam moves all parameters at once. The outputs have the names of the inputs that they are for the next step.
    step = step + 1
    slope = F.concatenate([gradients[name].reshape(-1) for name in SHAPES], axis=0)
    moved = F.adam_optimizer(*state.values(), slope, step, RATE, 0.9, 0.999, 1e-8)
    return graph.compile(loss=loss, step=step, **dict(zip(STATE, moved, strict=True)))


def reading_graph(device: dml.Device, pictures: int) -> dml.CompiledGraph:
    """The network as it is used: which digit each picture shows."""
    graph = dml.Graph(device)
    ink = graph.input("ink", dml.FLOAT32, (pictures, 1, 8, 8))
    given = named(graph.input("parameters", dml.FLOAT32, (COUNT,)))
    bent1 = F.relu(convolved(ink, given["w1"]) + given["b1"])
    bent2 = F.relu(convolved(bent1, given["w2"]) + given["b2"])
    flat = F.max_pooling(bent2, (2, 2), (2, 2)).reshape(pictures, -1)
    return graph.compile(digits=F.argmax(flat @ given["w3"].T + given["b3"], axis=1))


class Training:
    """A network on a device, and the pictures that it learns from.

    Args:
        device: the device.
        ink: pictures, 1 where there is ink: [n, 1, 8, 8].
        digits: what they show.
        batch: how many of them make a step.

    Attributes:
        state: what a step hands on to the next: parameters, their moments, the number of the step.
    """

    def __init__(self, device: dml.Device, ink: Floats, digits: Words, batch: int = BATCH) -> None:
        self._device = device
        self._graph = step_graph(device, len(ink), batch)
        self._count, self._batch = len(ink), batch
        constants = {"ink": ink, "digits": digits.reshape(-1, 1), "off_and_on": np.array([0, 1], np.float32)}
        self._constants = {name: device.array(array) for name, array in constants.items()}
        zeros = np.zeros(COUNT, np.float32)
        state = {**dict(zip(STATE, (initial_parameters(), zeros, zeros), strict=True)), "step": np.zeros(1, np.uint32)}
        self.state: Mapping[str, dml.Array] = {name: device.array(array) for name, array in state.items()}

    def losses(self, epochs: int) -> Iterator[dml.Array]:
        """Goes through all pictures so often, in a new order each time, and yields the loss of each step."""
        random = np.random.default_rng(2)
        for _ in range(epochs):
            order = random.permutation(self._count).astype(np.uint32)
            for start in range(0, self._count - self._batch + 1, self._batch):
                chosen = order[start : start + self._batch]
                made = self._device.run(self._graph, {**self._constants, **self.state, "chosen": chosen}, keep=True)
                self.state = {name: array for name, array in made.items() if name != "loss"}
                yield made["loss"]

    def read(self, ink: Floats) -> Words:
        """What pictures show, as far as the network has learned."""
        graph = reading_graph(self._device, len(ink))
        return self._device.run(graph, {"ink": ink, "parameters": self.state["parameters"]})["digits"]


def draw(losses: Floats, title: str, path: Path) -> None:
    """The loss of every step, and their mean over the last 22 of them, on a logarithmic scale, as SVG."""
    width, height, left, top, right, bottom = 960, 360, 60, 40, 20, 40
    canvas = Canvas(width, height)
    highest, lowest = 4.0, 0.002

    def pixel(step: int, loss: float) -> tuple[float, float]:
        share = np.log(np.clip(loss, lowest, highest) / lowest) / np.log(highest / lowest)
        return left + (width - left - right) * step / max(1, len(losses) - 1), height - bottom - share * (
            height - top - bottom
        )

    canvas.text(left, 24, title)
    for tick in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        (x, y), (end, _) = pixel(0, tick), pixel(len(losses) - 1, tick)
        canvas.line([(x, y), (end, y)], "#e4e4e4")
        canvas.text(left - 8, y + 4, f"{tick:g}", "end")
    canvas.line([pixel(step, float(loss)) for step, loss in enumerate(losses)], "#9fc3e0")
    means = [float(losses[max(0, step - 21) : step + 1].mean()) for step in range(len(losses))]
    canvas.line([pixel(step, mean) for step, mean in enumerate(means)], "#0b5fa5", 2)
    canvas.text(left, height - 12, "first step")
    canvas.text(width - right, height - 12, f"step {len(losses)}", "end")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.write(path)


def main() -> None:
    """Trains, tests and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="which Vulkan device")
    parser.add_argument("--epochs", type=int, default=12, help="how often to go through all pictures (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("output/loss.svg"), help="the picture (%(default)s)")
    options = parser.parse_args()
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("the pictures come with scikit-learn: pip install scikit-learn")
    data = load_digits()
    ink = (data.images[:, None] / 16).astype(np.float32)
    digits = data.target.astype(np.uint32)
    kept_back = np.arange(len(ink)) % 5 == 4
    with dml.Device(options.device) as device:
        print(f"Learning on {device.info.name}")
        training = Training(device, ink[~kept_back], digits[~kept_back])
        started = time.perf_counter()
        losses = []
        for loss in training.losses(options.epochs):
            losses.append(np.asarray(loss).item())
            if len(losses) % 22 == 0:
                print(f"step {len(losses):4}: loss {np.mean(losses[-22:]):.4f}")
        seconds = time.perf_counter() - started
        right = int((training.read(ink[kept_back]) == digits[kept_back]).sum())
    curve = np.array(losses, np.float32)
    print(f"{len(losses)} steps in {seconds:.1f} s; {right} of {kept_back.sum()} unseen digits are read right")
    draw(
        curve, f"Loss of {len(losses)} steps; {right} of {kept_back.sum()} unseen digits are read right", options.output
    )
    print(f"written to {options.output}; the curve's hash is {hashlib.sha256(curve.tobytes()).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
