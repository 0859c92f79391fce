"""Matrices of integers of few bits as parts of graphs, for tests of their products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk import functions as F

Array = npt.NDArray[Any]
Sizes = Sequence[int]


def by_rows(
    x: dml.Expression, weights: dml.Expression, addend: dml.Expression | None = None, beta: float = 1.0
) -> dml.Expression:
    """The products of rows and rows of weights."""
    return F.gemm(x, weights, addend, trans_b=dml.MatrixTransform.TRANSPOSE, beta=beta)


def dequantized(
    graph: dml.Graph, name: str, types: tuple[dml.DataType, dml.DataType], sizes: Sizes, blocks: Sizes, has_zero: bool
) -> dml.Expression:
    """What DEQUANTIZE makes of inputs: integers of a name, its ``.s`` and, where there are zero points, its ``.z``.

    Args:
        types: of numbers and of integers.
        sizes: of the matrix.
        blocks: how many there are along each axis.
    """
    parameters = [graph.input(f"{name}.s", types[0], blocks)]
    if has_zero:
        parameters.append(graph.input(f"{name}.z", types[1], blocks))
    tensors: dict[str, Any] = {"input_tensor": graph.input(name, types[1], sizes), "quantization_tensors": parameters}
    return graph.apply("DEQUANTIZE", tensors, {"quantization_type": dml.QuantizationType(len(parameters))})


def of_blocks(
    graph: dml.Graph, inputs: Mapping[str, Array], name: str, sizes: Sizes, number: dml.DataType, **members: Any
) -> dml.Expression:
    """What DMLVK_DEQUANTIZE_BLOCKS makes of inputs: bytes of a name, its ``.s``, and its ``.f`` and ``.z`` if there."""
    ends = {"": "packed_tensor", ".s": "scale_tensor", ".f": "factor_tensor", ".z": "zero_point_tensor"}
    given = {member: f"{name}{end}" for end, member in ends.items() if f"{name}{end}" in inputs}
    tensors = {
        member: graph.input(of, dml.DataType(inputs[of].dtype), inputs[of].shape) for member, of in given.items()
    }
    return graph.apply("DMLVK_DEQUANTIZE_BLOCKS", tensors, members, output_sizes=tuple(sizes), output_data_type=number)


def gated(products: Sequence[dml.Expression]) -> dml.Expression:
    """A product, or the second one of two of which the first is its gate."""
    *gate, up = products
    return F.activation_swish(gate[0], sigmoid_input_scale=1.0) * up if gate else up


def random_integers(random: np.random.Generator, data_type: dml.DataType, sizes: Sizes) -> Array:
    """Integers of the whole type."""
    least, greatest = data_type.integer_limits
    return random.integers(least, greatest, sizes, data_type.numpy_dtype, endpoint=True)
