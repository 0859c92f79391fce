"""What a graph computes of a GEMM's results before anything else reads them, and the GEMM's own kernels can.

That is the sum with a number for each column, ACTIVATION_GELU, the product with a number for each column, the sum with
another tensor, and RELU, in this order, each of which may be missing. Sums, products and RELU have the bits that the
operators themselves would give behind the same products; GELU is the device's (``shaders/include/device_gelu.glsl``).
Where another element-wise operator follows, which needs a kernel of its own anyway, that one computes all of it.

Of FLOAT32 it is a bias and RELU: C is added to what a GEMM gives without it, which is not rounded once more.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import typical
from dmlvk.graphs.fusion.epilogues import ends_with_relu, has_no_activation, only_readers
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products.product_epilogue import (
    EpilogueOfGemm,
    lower_gemm_with_epilogue,
    may_have_epilogue,
    with_bias,
)
from dmlvk.kernels.program import Program
from dmlvk.kernels.target import Target
from dmlvk.objects.compilation import same_elements
from dmlvk.operators import (
    ActivationGelu,
    ActivationRelu,
    ElementWiseAdd,
    ElementWiseAdd1,
    ElementWiseMultiply,
    FusedActivation,
    Gemm,
    OperatorDesc,
)
from dmlvk.tensors import TensorDesc


@dataclasses.dataclass(frozen=True)
class ProductEpilogue:
    """A GEMM and what follows it."""

    product: NetworkNode  # the GEMM
    followers: tuple[NetworkNode, ...] = ()  # the operators behind it, in order
    kind: EpilogueOfGemm = dataclasses.field(default_factory=EpilogueOfGemm)  # what these compute
    bias: NetworkValue | None = None  # what is added for each column
    scale: NetworkValue | None = None  # what each column is multiplied by
    residual: NetworkValue | None = None  # the other tensor that is added
    beside: int = 1  # products of its size with the same left operand, this one among them

    @property
    def nodes(self) -> tuple[NetworkNode, ...]:
        return (self.product, *self.followers)

    @property
    def output(self) -> NetworkValue:
        ((_, _, value),) = self.nodes[-1].writes()
        return value

    def reads(self) -> tuple[NetworkValue, ...]:
        """What its kernels read, in the order of their inputs."""
        given = [value for _, _, value in self.product.reads()]
        return (*given, *(value for value in (self.bias, self.scale, self.residual) if value is not None))

    def program(self, target: Target) -> Program:
        desc = cast("Gemm", self.product.desc)
        if desc.output_tensor.data_type is DataType.FLOAT32:
            relu = FusedActivation(ActivationRelu) if self.kind.relu else None
            return lower(dataclasses.replace(with_bias(desc), fused_activation=relu), target)
        return lower_gemm_with_epilogue(desc, self.kind, target, beside=self.beside)

    def followed_by(self, node: NetworkNode, **changes: Any) -> ProductEpilogue:
        operands = {name: changes.pop(name) for name in ("bias", "scale", "residual") if name in changes}
        kind = dataclasses.replace(self.kind, **changes)
        return dataclasses.replace(self, followers=(*self.followers, node), kind=kind, **operands)


def find_product_epilogues(
    network: Network, target: Target, taken: Iterable[int], functions: Collection[int]
) -> list[ProductEpilogue]:
    """Finds what follows the GEMMs of a graph.

    Args:
        taken: operators, by index, that stages of other kinds have.
        functions: operators, by index, that are functions of single elements.
    """
    only = only_readers(network)
    beside = collections.Counter(
        _left_operand_and_columns(node) for node in network.nodes if isinstance(node.desc, Gemm)
    )
    busy, epilogues = set(taken), []
    for node in reversed(network.nodes):  # of two that could take a sum the later one does, when the other is there
        desc = node.desc
        if not isinstance(desc, Gemm) or node.index in busy or not has_no_activation(desc):
            continue
        if node.index not in busy and may_have_epilogue(desc, target):
            alone = ProductEpilogue(node, beside=beside[_left_operand_and_columns(node)])
            epilogue = _followed(alone, only, busy)
            reader, _ = only.get(epilogue.output, (None, 0))
            if epilogue.followers and (reader is None or reader.index not in functions):
                busy.update(member.index for member in epilogue.nodes)
                epilogues.append(epilogue)
    return epilogues


def _left_operand_and_columns(node: NetworkNode) -> tuple[NetworkValue, int]:
    """What GEMMs have in common that may run beside one another, by which they have the same rows, too."""
    ((_, written, _),) = node.writes()
    return node.reads()[0][2], typical(written.sizes[-1])


def _followed(
    epilogue: ProductEpilogue, only: Mapping[NetworkValue, tuple[NetworkNode, int]], busy: set[int]
) -> ProductEpilogue:
    """The epilogue with as much as can be of what follows it."""
    while not epilogue.kind.relu:
        reader, number = only.get(epilogue.output, (None, 0))
        if reader is None or reader.index in busy or not _keeps_elements(reader, number, epilogue.product.desc):
            return epilogue
        longer = _with(epilogue, reader, number)
        if longer is None:
            return epilogue
        epilogue = longer
    return epilogue


def _with(epilogue: ProductEpilogue, reader: NetworkNode, number: int) -> ProductEpilogue | None:
    """The epilogue with the operator that reads its output; ``None``: that comes in no such place."""
    desc, kind = reader.desc, epilogue.kind
    assert isinstance(epilogue.product.desc, Gemm)
    relu, results = ends_with_relu(desc), epilogue.product.desc.output_tensor
    is_half = results.data_type is DataType.FLOAT16  # else a bias, which is C then, and RELU behind it are all
    if isinstance(desc, ActivationRelu):
        return epilogue.followed_by(reader, relu=True) if is_half or kind.has_bias else None
    if isinstance(desc, ActivationGelu) and is_half:
        return None if kind.gelu or kind.scales or kind.adds else epilogue.followed_by(reader, gelu=True)
    if not isinstance(desc, ElementWiseAdd | ElementWiseAdd1 | ElementWiseMultiply) or relu is None or kind.adds:
        return None
    _, other, value = reader.reads()[1 - number]
    is_of_columns = _is_of(other, desc.output_tensor, results.sizes[-1])
    if isinstance(desc, ElementWiseMultiply):
        may_scale = is_of_columns and is_half and not kind.scales
        return epilogue.followed_by(reader, scales=True, scale=value, relu=relu) if may_scale else None
    if is_half and same_elements(other, desc.output_tensor):
        return epilogue.followed_by(reader, adds=True, residual=value, relu=relu)
    if epilogue.followers or epilogue.product.desc.c_tensor is not None or not is_of_columns:
        return None
    return epilogue.followed_by(reader, has_bias=True, bias=value, relu=relu)


def _is_of(tensor: TensorDesc, result: TensorDesc, columns: int) -> bool:
    """Whether a tensor is the same row of numbers, one for each column, all over a result of whole columns."""
    axes = zip(tensor.sizes, tensor.element_strides, result.element_strides, strict=True)
    along = [(size, step) if place == 1 else (1, step) for size, step, place in axes if size != 1]
    return [each for each in along if each[0] != 1] == [(columns, 1)] and not any(s for size, s in along if size == 1)


def _keeps_elements(reader: NetworkNode, number: int, product: OperatorDesc) -> bool:
    """Whether an operator reads a product's results, whatever axes they have, and writes others that lie so."""
    if len(writes := reader.writes()) != 1:
        return False
    read, written = reader.desc.inputs[number][1], writes[0][1]
    if read is None or read.is_dynamic or written.is_dynamic or not same_elements(read, written):
        return False
    assert isinstance(product, Gemm)
    results = product.output_tensor
    places = sorted((stride, size) for size, stride in zip(read.sizes, read.element_strides, strict=True) if size != 1)
    steps = itertools.accumulate((size for _, size in places), operator.mul, initial=1)
    is_whole = read.element_count == results.element_count
    are_packed = all(stride == step for (stride, _), step in zip(places, steps, strict=False))
    return is_whole and are_packed and read.data_type is written.data_type and read.data_type is results.data_type
