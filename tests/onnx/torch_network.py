"""An ONNX network operator by operator in PyTorch: whose results and times stand beside dmlvk's (see ``light.py``)."""

from __future__ import annotations

import importlib
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Attributes = dict[str, Any]


class TorchNetwork:
    """A network of the light models' operators, its weights on CUDA's device if there is one; FLOAT32 without TF32.

    What follows from weights alone is computed once, as dmlvk does it, and dropout and the like are left out.
    Raises NotImplementedError where an operator is none of theirs, and ModuleNotFoundError without PyTorch.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._torch = importlib.import_module("torch")
        self._torch.backends.cuda.matmul.allow_tf32 = self._torch.backends.cudnn.allow_tf32 = False
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._operators = _operators(self._torch)
        # Shapes are Python's numbers: a tensor of the device would be waited for in every run.
        shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
        self._constants: dict[str, Any] = {}
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            self._constants[tensor.name] = (
                array.tolist() if tensor.name in shapes else self._torch.from_numpy(array.copy()).to(self._device)
            )
        self._output = model.graph.output[0].name
        self._nodes = [self._node(node) for node in model.graph.node]
        self._nodes = [node for node in self._nodes if not self._is_constant(*node)]

    def run(self, feed: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The first output as a NumPy array, its arguments copied to the device and it back."""
        with self._torch.inference_mode():
            given = {name: self._torch.from_numpy(array).to(self._device) for name, array in feed.items()}
            values = ChainMap(given, self._constants)
            for compute, inputs, output in self._nodes:
                values[output] = compute(
                    *(values[name] if name in values else self._constants[name] for name in inputs)
                )
            return np.asarray(values[self._output].cpu().numpy())

    def _node(self, node: onnx.NodeProto) -> tuple[Callable[..., Any], Sequence[str], str]:
        if node.op_type not in self._operators:
            raise NotImplementedError(f"{node.op_type} is no operator of the light models")
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        return self._operators[node.op_type](attributes), list(node.input), node.output[0]

    def _is_constant(self, compute: Callable[..., Any], inputs: Sequence[str], output: str) -> bool:
        if not all(name in self._constants for name in inputs):
            return False
        self._constants[output] = compute(*(self._constants[name] for name in inputs))
        return True


def _operators(torch: Any) -> dict[str, Callable[[Attributes], Callable[..., Any]]]:
    """What makes a node's function of its attributes, by ONNX's names."""
    functional = torch.nn.functional

    def same(function: Callable[..., Any]) -> Callable[[Attributes], Callable[..., Any]]:
        return lambda attributes: function

    def convolution(attributes: Attributes) -> Callable[..., Any]:
        before, symmetric = _padding(torch, attributes, 0.0)
        options = {
            "stride": attributes.get("strides", 1),
            "dilation": attributes.get("dilations", 1),
            "groups": attributes.get("group", 1),
            "padding": symmetric,
        }
        return lambda x, *weights: functional.conv2d(before(x), *weights, **options)

    def maximum_pool(attributes: Attributes) -> Callable[..., Any]:
        before, symmetric = _padding(torch, attributes, float("-inf"))
        kernel, stride = attributes["kernel_shape"], attributes.get("strides", 1)
        return lambda x: functional.max_pool2d(before(x), kernel, stride, symmetric)

    def average_pool(attributes: Attributes) -> Callable[..., Any]:
        before, symmetric = _padding(torch, attributes, 0.0)
        kernel, stride = attributes["kernel_shape"], attributes.get("strides", 1)
        includes = bool(attributes.get("count_include_pad", 0))
        if before is not _unchanged and not includes:
            mean = average_pool({**attributes, "count_include_pad": 1})
            return lambda x: mean(x) / mean(torch.ones_like(x[:1, :1]))
        return lambda x: functional.avg_pool2d(before(x), kernel, stride, symmetric, count_include_pad=includes)

    def normalization(attributes: Attributes) -> Callable[..., Any]:
        epsilon = attributes.get("epsilon", 1e-5)
        return lambda x, scale, bias, mean, variance: functional.batch_norm(
            x, mean, variance, scale, bias, False, 0.0, epsilon
        )

    def local_response(attributes: Attributes) -> Callable[..., Any]:
        size, bias = attributes["size"], attributes.get("bias", 1.0)
        alpha, beta = attributes.get("alpha", 1e-4), attributes.get("beta", 0.75)
        return lambda x: functional.local_response_norm(x, size, alpha, beta, bias)

    def product(attributes: Attributes) -> Callable[..., Any]:
        alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
        turned = [bool(attributes.get(name, 0)) for name in ("transA", "transB")]
        return lambda a, b, c: torch.addmm(c, a.T if turned[0] else a, b.T if turned[1] else b, beta=beta, alpha=alpha)

    def softmax(attributes: Attributes) -> Callable[..., Any]:
        axis = attributes.get("axis", 1)
        return lambda x: torch.softmax(x.flatten(axis), -1).reshape(x.shape)

    def unsqueeze(attributes: Attributes) -> Callable[..., Any]:
        axes = attributes["axes"]
        return lambda x: x.reshape([1 if axis in axes else -1 for axis in range(x.ndim + len(axes))])

    return {
        "Add": same(torch.add),
        "AveragePool": average_pool,
        "BatchNormalization": normalization,
        "Concat": lambda attributes: lambda *inputs: torch.cat(inputs, attributes["axis"]),
        "Conv": convolution,
        "Dropout": same(_unchanged),
        "Gemm": product,
        "GlobalAveragePool": same(lambda x: x.mean((2, 3), keepdim=True)),
        "LRN": local_response,
        "MaxPool": maximum_pool,
        "Mul": same(torch.mul),
        "Relu": same(torch.relu),
        "Reshape": same(torch.reshape),
        "Softmax": lambda attributes: (
            lambda x: torch.softmax(x.flatten(attributes.get("axis", 1)), -1).reshape(x.shape)
        ),
        "Sum": same(lambda *inputs: sum(inputs[1:], inputs[0])),
        "Transpose": lambda attributes: lambda x: x.permute(*attributes["perm"]),
        "Unsqueeze": unsqueeze,
    }


def _unchanged(x: Any) -> Any:
    return x


def _padding(torch: Any, attributes: Attributes, value: float) -> tuple[Callable[[Any], Any], list[int]]:
    """What pads by itself where the two ends differ, and the padding that PyTorch's own function then takes."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise NotImplementedError(f"auto_pad is {attributes['auto_pad']}")
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    if (top, left) == (bottom, right):
        return _unchanged, [top, left]
    return lambda x: torch.nn.functional.pad(x, (left, right, top, bottom), value=value), [0, 0]
