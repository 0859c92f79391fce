"""Two products with packed weights and the same rows, of which SWISH of one is the other's factor: one kernel (SwiGLU).

N. Shazeer, «GLU variants improve transformer» (2020). Results have the bits that the operators give one by one.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from dmlvk.graphs.fusion.packed_weights import PackedProduct
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.products.block_products import can_gate, lower_gated
from dmlvk.kernels.program import Program
from dmlvk.kernels.target import Target
from dmlvk.operators import ActivationSwish, ElementWiseMultiply, Gemm
from dmlvk.tensors import TensorDesc


@dataclasses.dataclass(frozen=True)
class GatedProduct:
    """A product of packed weights, multiplied by SWISH of another one of the same rows (SwiGLU)."""

    gate: PackedProduct  # what SWISH is taken of
    up: PackedProduct  # the other one
    swish: NetworkNode  # the ACTIVATION_SWISH
    multiply: NetworkNode  # the ELEMENT_WISE_MULTIPLY

    @property
    def nodes(self) -> tuple[NetworkNode, ...]:
        found = (*self.gate.nodes, *self.up.nodes, self.swish, self.multiply)
        return tuple(sorted(found, key=lambda node: node.index))

    @property
    def output(self) -> NetworkValue:
        ((_, _, value),) = self.multiply.writes()
        return value

    def reads(self) -> tuple[NetworkValue, ...]:
        """What its kernel reads, in the order of the program's inputs."""
        return (*self.gate.reads(), *self.up.reads()[1:])

    def program(self, target: Target) -> Program:
        sizes = [tensor.size_in_bytes for _, tensor, _ in self.up.source.reads()]
        return lower_gated(self.up.desc, self.up.weights, sizes, target)


def find_gated_products(network: Network, target: Target, packed: Iterable[PackedProduct]) -> list[GatedProduct]:
    """Finds them. What is read elsewhere too, or is an output, is computed by itself."""
    products = {each.output: each for each in packed}
    readers = collections.Counter(value for node in network.nodes for _, _, value in node.reads())
    readers.update(value for value, _ in network.outputs)
    swishes = {node.writes()[0][2]: node for node in network.nodes if isinstance(node.desc, ActivationSwish)}
    found = []
    for multiply in network.nodes:
        if not isinstance(multiply.desc, ElementWiseMultiply) or multiply.desc.activation is not None:
            continue
        first, second = (value for _, _, value in multiply.reads())
        for swished, other in ((first, second), (second, first)):
            swish, up = swishes.get(swished), products.get(other)
            gate = None if swish is None else products.get(swish.reads()[0][2])
            if swish is None or gate is None or up is None or gate is up:
                continue
            inner = (swished, gate.output, up.output)
            if any(readers[value] > 1 for value in inner) or not _is_gate(gate, up, swish, multiply):
                continue
            assert isinstance(up.product.desc, Gemm)
            if can_gate(up.product.desc, up.weights, target):
                found.append(GatedProduct(gate, up, swish, multiply))
            break
    return found


def _is_gate(gate: PackedProduct, up: PackedProduct, swish: NetworkNode, multiply: NetworkNode) -> bool:
    """Whether both products are alike, and all elements stay where they are."""
    first, second = gate.product, up.product
    assert isinstance(swish.desc, ActivationSwish)
    alike = first.desc == second.desc and gate.weights == up.weights and first.inputs[0] == second.inputs[0]
    plain = gate.relu is None and up.relu is None and swish.desc.sigmoid_input_scale == 1.0
    ((_, made, _),) = second.writes()
    tensors = [tensor for node in (swish, multiply) for _, tensor, _ in (*node.reads(), *node.writes())]
    return alike and plain and all(_lies_as(tensor, made) for tensor in tensors)


def _lies_as(tensor: TensorDesc, other: TensorDesc) -> bool:
    """Whether two tensors have the same elements in the same places, whatever axes of one element they have."""

    def axes(of: TensorDesc) -> list[tuple[int, int]]:
        return [(size, step) for size, step in zip(of.sizes, of.element_strides, strict=True) if size != 1]

    return tensor.data_type is other.data_type and axes(tensor) == axes(other)
