"""Matrices of integers of few bits as parts of graphs, for tests of their products."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk import functions as F

Array = npt.NDArray[Any]
Sizes = Sequence[int]


def by_rows(x: dml.Expression, weights: dml.Expression, addend: dml.Expression | None = None) -> dml.Expression:
    """The products of rows and rows of weights."""
    return F.gemm(x, weights, addend, trans_b=dml.MatrixTransform.TRANSPOSE)


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


def of_rows_and_blocks(
    device: dml.Device, inputs: Mapping[str, Array], sizes: Sizes, *, fuse: bool = True, **packing: Any
) -> dml.CompiledGraph:
    """Rows ``x`` by a matrix ``w`` of DMLVK_DEQUANTIZE_BLOCKS, with a ``gate`` where inputs have one."""
    graph, number = dml.Graph(device), dml.DataType(inputs["x"].dtype)
    x = graph.input("x", number, inputs["x"].shape)
    names = [name for name in ("gate", "w") if name in inputs]
    products = [by_rows(x, of_blocks(graph, inputs, name, sizes, number, **packing)) for name in names]
    return graph.compile(y=gated(products), fuse=fuse)


def random_integers(random: np.random.Generator, data_type: dml.DataType, sizes: Sizes) -> Array:
    """Integers of the whole type."""
    least, greatest = data_type.integer_limits
    return random.integers(least, greatest, sizes, data_type.numpy_dtype, endpoint=True)


@dataclasses.dataclass(frozen=True)
class Product:
    """Rows ``x`` by a matrix ``w`` that DEQUANTIZE makes of integers, with another as its ``gate``, and plus ``c``."""

    rows: int
    terms: int
    columns: int
    integer: dml.DataType = dml.UINT4
    block: int = 32  # terms that share a scale
    number: dml.DataType = dml.FLOAT16  # of matrices and scales
    has_zeros: bool = False  # whether blocks have zero points
    is_gated: bool = False
    has_addend: bool = False
    is_transposed: bool = True  # whether weights lie along the terms

    @property
    def _names(self) -> tuple[str, ...]:
        return ("gate", "w") if self.is_gated else ("w",)

    def _sizes(self, terms: int) -> tuple[int, int]:
        return (self.columns, terms) if self.is_transposed else (terms, self.columns)

    def products(self, graph: dml.Graph) -> list[dml.Expression]:
        """Of the gate, if there is one, and of the weights."""
        x = graph.input("x", self.number, (self.rows, self.terms))
        types = self.number, self.integer
        sizes, blocks = (self._sizes(count) for count in (self.terms, self.terms // self.block))
        more: dict[str, Any] = {"trans_b": dml.MatrixTransform(self.is_transposed)}
        if self.has_addend:
            more |= {"c": graph.input("c", self.number, (self.rows, self.columns)), "beta": 0.5}
        weights = [dequantized(graph, name, types, sizes, blocks, self.has_zeros) for name in self._names]
        return [F.gemm(x, numbers, **more) for numbers in weights]

    def graph(self, device: dml.Device, *, relu: bool = False, **how: Any) -> dml.CompiledGraph:
        graph = dml.Graph(device)
        y = gated(self.products(graph))
        return graph.compile(y=F.activation_relu(y) if relu else y, **how)

    def inputs(self, seed: int = 7) -> dict[str, Array]:
        """Integers of the whole type, and normal numbers."""
        random, dtype = np.random.default_rng(seed), self.number.numpy_dtype
        blocks = self._sizes(self.terms // self.block)
        made: dict[str, Array] = {"x": random.standard_normal((self.rows, self.terms)).astype(dtype)}
        if self.has_addend:
            made["c"] = random.standard_normal((self.rows, self.columns)).astype(dtype)
        for name in self._names:
            made[name] = random_integers(random, self.integer, self._sizes(self.terms))
            made[f"{name}.s"] = (random.standard_normal(blocks) / 64).astype(dtype)
            if self.has_zeros:
                made[f"{name}.z"] = random_integers(random, self.integer, blocks)
        return made

    def numbers(self, given: Mapping[str, Array], name: str = "w") -> npt.NDArray[np.float64]:
        """What weights along the terms stand for."""
        zero = given.get(f"{name}.z", np.zeros(given[f"{name}.s"].shape)).astype(np.float32)
        scale = given[f"{name}.s"].astype(np.float32)
        integers = given[name].astype(np.float32) - np.repeat(zero, self.block, 1)
        rounded = (integers * np.repeat(scale, self.block, 1)).astype(self.number.numpy_dtype)
        return rounded.astype(np.float64)

    def expected(self, given: Mapping[str, Array]) -> npt.NDArray[np.float64]:
        """Exactly, of weights along the terms and no addend."""
        *gate, made = (given["x"].astype(np.float64) @ self.numbers(given, name).T for name in self._names)
        return np.asarray(gate[0] / (1 + np.exp(-gate[0])) * made if gate else made)
