"""Nodes and constants that ONNX models consist of: products with plain and packed weights, norms, rows of tables.

Packed weights become dmlvk's own MatMulNBits, or com.microsoft's in folders for others. There, and of experts, what a
block's minimum takes from a sum is a product of its own, of the minimum and the sum of the block's operands.
"""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dmlvk.language.decoder import Decoder
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix, Numbers
from dmlvk.support.file_arrays import FileArray

DATA = "model.onnx.data"
DMLVK, MICROSOFT = "dmlvk", "com.microsoft"
_LEAST_EXTERNAL = 1024  # Bytes from which a tensor's contents lie in the file of data

_ALIGNMENT = 64


def packing(weights: Matrix) -> dict[str, int]:
    """What nodes are told of packed weights."""
    if weights.scales is None:
        return {}
    members = {"bits": weights.bits, "block_size": weights.block}
    if weights.zeros is not None:
        return members
    return members | ({"table": weights.table} if weights.table else {"zero_point": weights.zero})


class WeightNodes:
    """Nodes and constants, as they are put together.

    Attributes:
        weights: the contents of initializers that are in no file, by name, as sessions take them.

    Args:
        data: the file beside the model in which large tensors lie; ``None``: there is none.
    """

    def __init__(self, source: Source, decoder: Decoder, data: BinaryIO | None = None) -> None:
        self._source, self._decoder, self._data = source, decoder, data
        self._nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Numbers | FileArray] = {}
        self._constants: dict[str, onnx.TensorProto] = {}
        self._sums: dict[tuple[str, int], str] = {}

    def _weights(self, own: str, part: str, rows: int, columns: int) -> tuple[str, Matrix, Numbers | None]:
        """A product's name, its matrix, and the bias that the file has for it."""
        name, bias = f"{own}.{part}", None
        weights = self._source.matrix(f"{name}.weight", rows, columns).quantized(self._source.quantize)
        if part in self._decoder.biases or (self._source.has_any_bias and self._source.has(f"{name}.bias")):
            bias = self._source.vector(f"{name}.bias", rows)
        return name, weights, bias

    def _biased(self, operand: str, weights: tuple[str, Matrix, Numbers | None]) -> str:
        name, matrix, bias = weights
        product = self._product(operand, matrix, name)
        if bias is None:
            return product
        return self._node("Add", [product, self._constant(f"{name}.bias", bias)], f"{name}.sum")

    def _product(self, operand: str, weights: Matrix, name: str) -> str:
        is_for_others = self._source.is_for_others
        has_minima = weights.has_pairs and not is_for_others
        numbers, scales, factors = self._matrix(name, weights, has_minima=has_minima)
        if weights.scales is None:
            inputs = [operand, numbers]
            return self._node("FusedMatMul", inputs, f"{name}.product", domain=MICROSOFT, transB=1)
        if weights.order is not None:
            order = weights.order.astype(np.int64)
            operand = self._node(
                "Gather", [operand, self._constant(f"{name}.order", order)], f"{name}.operand", axis=-1
            )
        zeros = self._zeros(name, weights)
        inputs = [operand, numbers, scales, *([zeros, "", "", factors] if factors else [zeros] if zeros else [])]
        members = {"K": weights.columns, "N": weights.rows, **packing(weights)}
        if has_minima:
            return self._node("MatMulNBits", inputs, f"{name}.product", domain=DMLVK, minima=1, **members)
        if is_for_others and not members.pop("zero_point"):
            width = math.ceil(weights.numbers.shape[1] * weights.bits / 8)
            inputs.append(self._constant(f"{name}.zero_points", np.zeros((weights.rows, width), np.uint8)))
        domain = MICROSOFT if is_for_others else DMLVK
        product = self._node("MatMulNBits", inputs, f"{name}.product", domain=domain, **members)
        if weights.minima is None:
            return product
        less = self._less(operand, weights.minima, weights.block, name)
        return self._node("Sub", [product, less], f"{name}.difference")

    def _zeros(self, name: str, weights: Matrix) -> str:
        """What stands for zero in each block; empty where it is one for all."""
        zeros = weights.zero_points
        return "" if zeros is None else self._constant(f"{name}.zeros", zeros)

    def _less(self, operand: str, minima: Matrix, block: int, name: str) -> str:
        """What blocks' minima take from a product."""
        key = operand, block
        if key not in self._sums:
            blocks = self._blocks(operand, block)
            axis = self._constant("third", np.array([3]))
            self._sums[key] = self._node("ReduceSum", [blocks, axis], f"{blocks}.sums", keepdims=0)
        return self._product(self._sums[key], minima, f"{name}.minima")

    def _blocks(self, operand: str, block: int) -> str:
        shape = self._constant(f"blocks.{block}", np.array([0, 0, -1, block]))
        return self._node("Reshape", [operand, shape], f"{operand}.blocks.{block}")

    def _matrix(self, name: str, weights: Matrix, *, has_minima: bool = False) -> tuple[str, str, str]:
        """Numbers, and what belongs to packed ones: scales and factors; empty where there are none.

        Args:
            has_minima: whether minima lie beside both.
        """
        if weights.scales is None:
            return self._constant(f"{name}.weight", weights.numbers), "", ""
        scales, factors = weights.pairs() if has_minima else (weights.scales, weights.factors)
        numbers = self._constant(f"{name}.numbers", weights.planes)
        made = self._constant(f"{name}.scales", scales)
        return numbers, made, "" if factors is None else self._constant(f"{name}.factors", factors)

    def _embedded(self, table: Matrix, name: str, made: str) -> str:
        """The rows of the tokens."""
        if self._source.is_for_others and table.scales is not None:
            return self._embedded_by_onnx(table, name, made)
        numbers, scales, factors = self._matrix(name, table, has_minima=table.minima is not None)
        if table.scales is None:
            return self._node("Gather", [numbers, "input_ids"], made, axis=0)
        members = packing(table) | ({} if table.minima is None else {"minima": 1})
        inputs = [numbers, "input_ids", scales, factors]
        return self._node("GatherNBits", inputs, made, domain=DMLVK, K=table.columns, **members)

    def _embedded_by_onnx(self, table: Matrix, name: str, made: str) -> str:
        """The same by ONNX's own operators."""
        numbers, scales, _ = self._matrix(name, table)
        found = self._node("Gather", [numbers, "input_ids"], f"{made}.numbers", axis=0)
        floats = self._node("Cast", [found], f"{made}.floats", to=TensorProto.FLOAT)
        if table.bits == 4:
            floats = self._halves(floats, table.block, made)
        if table.zero:
            middle = self._constant("middle", np.array(table.zero, np.float32))
            floats = self._node("Sub", [floats, middle], f"{made}.signed")
        whole = self._node("Mul", [floats, self._of_blocks(scales, f"{made}.scales")], f"{made}.products")
        if table.minima is not None:
            minima = self._of_blocks(self._matrix(f"{name}.minima", table.minima)[0], f"{made}.minima")
            whole = self._node("Sub", [whole, minima], f"{made}.less")
        shape = self._constant(f"{made}.shape", np.array([0, 0, table.columns]))
        return self._node("Reshape", [whole, shape], made)

    def _of_blocks(self, values: str, name: str) -> str:
        """What the blocks of the tokens' rows have, with an axis for the elements of a block."""
        found = self._node("Gather", [values, "input_ids"], f"{name}.rows", axis=0)
        return self._node("Unsqueeze", [found, self._constant("third", np.array([3]))], name)

    def _halves(self, floats: str, block: int, made: str) -> str:
        """Numbers of four bits, of bytes that were made floats."""
        sixteen = self._constant("sixteen", np.array(16, np.float32))
        high = self._node("Floor", [self._node("Div", [floats, sixteen], f"{made}.quotients")], f"{made}.high")
        low = self._node("Sub", [floats, self._node("Mul", [high, sixteen], f"{made}.highest")], f"{made}.low")
        axis = self._constant("fourth", np.array([4]))
        pairs = [self._node("Unsqueeze", [half, axis], f"{half}.column") for half in (low, high)]
        joined = self._node("Concat", pairs, f"{made}.pairs", axis=4)
        shape = self._constant(f"{made}.blocks", np.array([0, 0, 0, block]))
        return self._node("Reshape", [joined, shape], f"{made}.unpacked")

    def _normed(self, state: str, name: str) -> str:
        weights, epsilon = self._norm(name, self._decoder.hidden), self._decoder.epsilon
        made = f"{name}.normed"
        if self._decoder.has_means:
            bias = self._constant(f"{name}.bias", self._source.vector(f"{name}.bias", self._decoder.hidden))
            return self._node("LayerNormalization", [state, weights, bias], made, axis=-1, epsilon=epsilon)
        return self._root_mean_square(state, weights, epsilon, made)

    def _root_mean_square(self, rows: str, weights: str, epsilon: float, made: str) -> str:
        inputs = [rows, weights]
        return self._node("SimplifiedLayerNormalization", inputs, made, axis=-1, epsilon=epsilon, stash_type=1)

    def _norm(self, name: str, length: int) -> str:
        weights = self._source.vector(f"{name}.weight", length)
        return self._constant(f"{name}.weight", weights + np.float32(1) if self._source.adds_one else weights)

    def _scaled(self, operand: str, factor: float, name: str) -> str:
        if factor == 1:
            return operand
        return self._node("Mul", [operand, self._constant(f"{name}.factor", np.array(factor, np.float32))], name)

    def _constant(self, name: str, array: Numbers | FileArray) -> str:
        if name in self._constants:  # one matrix that is used twice
            return name
        if array.nbytes < _LEAST_EXTERNAL:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            return name
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        self._constants[name] = tensor
        if self._data is None:
            self.weights[name] = array
            return name
        contents = np.ascontiguousarray(array)
        self._data.write(bytes(-self._data.tell() % _ALIGNMENT))
        for key, value in (("location", DATA), ("offset", self._data.tell()), ("length", contents.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._data.write(contents.data)
        return name

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        return self._several(operator, inputs, [output], output, domain, **attributes)[0]

    def _several(
        self, operator: str, inputs: list[str], outputs: list[str], name: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node of several outputs, or of another name than its output."""
        self._nodes.append(helper.make_node(operator, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs

    def _split(self, tensor: str, sizes: list[int], constant: str, parts: list[str], name: str) -> list[str]:
        """Parts along the last axis.

        Args:
            constant: what the initializer of sizes is called.
        """
        return self._several("Split", [tensor, self._constant(constant, np.array(sizes))], parts, name, axis=-1)

    def _onnx(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], version: int
    ) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, self._decoder.name, inputs, outputs, list(self._constants.values()))
        versions = [
            helper.make_opsetid("", version),
            *(helper.make_opsetid(domain, 1) for domain in (DMLVK, MICROSOFT)),
        ]
        return helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="dmlvk")
