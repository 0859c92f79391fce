"""Steps of training: operators of the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from dmlvk.onnx.nodes.translation import Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_TRAINING = "ai.onnx.preview.training"


def _times(tensor: Tensor, factor: float) -> Tensor:
    return tensor if factor == 1.0 else tensor * factor


def _members(node: Node, each: int) -> Iterator[tuple[list[Tensor], list[int]]]:
    """What belongs to each tensor that is learned, and the numbers of its outputs; FLOAT alone."""
    count = (node.input_count - 2) // each
    for number in range(count):
        for index in (0, *(2 + part * count + number for part in range(each))):
            node.check_element(index, TensorProto.FLOAT)
        tensors = [node.tensor(2 + part * count + number) for part in range(each)]
        yield tensors, [part * count + number for part in range(each - 1)]


def _rate(node: Node) -> Tensor:
    """The learning rate: a single number."""
    return _single(node.tensor(0))


def _single(tensor: Tensor) -> Tensor:
    if any(size != 1 for size in tensor.shape):
        raise NotOnDevice("the learning rate and the count of steps are single numbers")
    return tensor.viewed((1,))


def _count(node: Node) -> Tensor:
    """How many steps were made before, a single INT64."""
    return _single(node.tensor(1))


def _chosen(count: Tensor, later: Tensor, at_first: Tensor) -> Tensor:
    """One of two single numbers: where the count is above 0, and where it is not."""
    return (count > 0).where(later, at_first)


@translates(
    "Adam", by=["ADAM_OPTIMIZER", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ADD", "ELEMENT_WISE_MAX"], domain=_TRAINING
)
def adam(node: Node) -> None:
    """A step from parameters of 0 with a learning rate of 1 is what is added, times the learning rate."""
    alpha, beta = node.real("alpha", 0.9), node.real("beta", 0.999)
    if not (0 <= alpha < 1 and 0 <= beta < 1):
        raise NotOnDevice(f"alpha {alpha} and beta {beta}")
    count, rate = _count(node), _rate(node)
    # Before the first step nothing is corrected: the correction of step 1 is taken out again.
    first_correction = (1 - beta) ** 0.5 / (1 - alpha)
    rate = _chosen(count, rate, _times(rate, 1 / first_correction))
    at_least_one = node.apply("ELEMENT_WISE_MAX", a_tensor=count, b_tensor=1)
    step = node.cast(at_least_one, TensorProto.UINT32)
    before, behind = node.real("norm_coefficient"), node.real("norm_coefficient_post")
    for (values, gradient, first, second), outputs in _members(node, 4):
        if before:
            gradient = _times(values, before) + gradient
        change, *moments = node.apply_all(
            "ADAM_OPTIMIZER",
            input_parameters_tensor=node.scalar(0.0, values.element).broadcast(values.shape),
            input_first_moment_tensor=first.broadcast(values.shape),
            input_second_moment_tensor=second.broadcast(values.shape),
            gradient_tensor=gradient.broadcast(values.shape),
            training_step_tensor=step,
            learning_rate=1.0,
            beta1=alpha,
            beta2=beta,
            epsilon=node.real("epsilon", 1e-6),
        )
        learned = _times(values + change * rate, 1 - behind)
        for tensor, index in zip((learned, *moments), outputs, strict=True):
            node.set(tensor, index)


@translates("Momentum", by=["ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ADD", "ELEMENT_WISE_SUBTRACT"], domain=_TRAINING)
def momentum(node: Node) -> None:
    """Standard or Nesterov's."""
    alpha, norm = node.real("alpha"), node.real("norm_coefficient")
    count, rate = _count(node), _rate(node)
    share = _chosen(count, *(node.scalar(value, TensorProto.FLOAT) for value in (node.real("beta"), 1.0)))
    for (values, gradient, velocity), outputs in _members(node, 3):
        if norm:
            gradient = _times(values, norm) + gradient
        moved = _times(velocity, alpha) + gradient * share
        way = gradient + _times(moved, alpha) if node.text("mode") == "nesterov" else moved
        node.set(values - way * rate, outputs[0])
        node.set(moved, outputs[1])


@translates(
    "Adagrad",
    by=[
        "ELEMENT_WISE_MULTIPLY",
        "ELEMENT_WISE_ADD",
        "ELEMENT_WISE_SUBTRACT",
        "ELEMENT_WISE_DIVIDE",
        "ELEMENT_WISE_SQRT",
    ],
    domain=_TRAINING,
)
def adagrad(node: Node) -> None:
    """The learning rate decays with the count of steps, and with the gradients that there were."""
    decay = _times(node.cast(_count(node), TensorProto.FLOAT), node.real("decay_factor"))
    rate = _rate(node) / (1.0 + decay)
    norm = node.real("norm_coefficient")
    for (values, gradient, squares), outputs in _members(node, 3):
        if norm:
            gradient = _times(values, norm) + gradient
        seen = squares + gradient * gradient
        root = node.apply("ELEMENT_WISE_SQRT", input_tensor=seen)
        least = root + node.real("epsilon")
        way = gradient / least
        node.set(values - way * rate, outputs[0])
        node.set(seen, outputs[1])
