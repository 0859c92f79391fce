"""Products whose second matrix is made of packed weights, and of nothing else: one stage of a graph.

What DEQUANTIZE, ELEMENT_WISE_DEQUANTIZE_LINEAR or DMLVK_DEQUANTIZE_BLOCKS makes of integers of few bits is several
times as large as these. The kernels of such a stage read the integers. FLOAT32 results have the bits that the operators
give one by one; those of FLOAT16 are by exact integers, in graphs that are not fused too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from dmlvk.graphs.fusion.epilogues import FusedProduct
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.products.block_products import can_multiply, lower_product
from dmlvk.kernels.products.block_weights import BlockWeights, weights_of
from dmlvk.kernels.products.packed_integers import has_own_order
from dmlvk.kernels.program import Program
from dmlvk.kernels.target import Target
from dmlvk.operators import ActivationRelu, FusedActivation, Gemm

_RIGHT = 1  # The number of the second matrix among a GEMM's inputs


@dataclasses.dataclass(frozen=True)
class PackedProduct:
    """A GEMM and what makes numbers of its weights."""

    source: NetworkNode  # makes the numbers
    product: NetworkNode  # the GEMM
    desc: Gemm  # what it computes
    weights: BlockWeights  # where the integers lie
    relu: NetworkNode | None = None  # the RELU that follows; ``None``: there is none of its own

    @property
    def nodes(self) -> tuple[NetworkNode, ...]:
        return (self.source, self.product, *(() if self.relu is None else (self.relu,)))

    @property
    def output(self) -> NetworkValue:
        ((_, _, value),) = self.nodes[-1].writes()
        return value

    @property
    def has_own_order(self) -> bool:
        """Whether its bits are not those of its operators one by one."""
        return has_own_order(self.weights)

    def reads(self) -> tuple[NetworkValue, ...]:
        """What its kernels read, in the order of the program's inputs."""
        left, _, *addend = (value for _, _, value in self.product.reads())
        return (left, *(value for _, _, value in self.source.reads()), *addend)

    def program(self, target: Target) -> Program:
        desc = self.desc
        if self.relu is not None:
            desc = dataclasses.replace(desc, fused_activation=FusedActivation(ActivationRelu))
        sizes = [tensor.size_in_bytes for _, tensor, _ in self.source.reads()]
        return lower_product(desc, self.weights, sizes, target)


def find_packed_products(network: Network, target: Target, epilogues: Iterable[FusedProduct]) -> list[PackedProduct]:
    """Finds them. A value that is read elsewhere too, or is an output, is made after all."""
    reads: dict[NetworkValue, int] = {}
    for node in network.nodes:
        for _, _, value in node.reads():
            reads[value] = reads.get(value, 0) + 1
    shown = {value for value, _ in network.outputs}
    by_index = {node.index: node for node in network.nodes}
    relus = {epilogue.product.index: epilogue.relu for epilogue in epilogues}
    found = []
    for node in network.nodes:
        if not isinstance(node.desc, Gemm):
            continue
        right = node.inputs[_RIGHT]
        if right is None or right.kind != "node" or reads[right] > 1 or right in shown:
            continue
        source = by_index[right.index]
        weights = weights_of(source.desc, node.desc)
        if weights is not None and can_multiply(node.desc, weights, target):
            found.append(PackedProduct(source, node, node.desc, weights, relus.get(node.index)))
    return found
