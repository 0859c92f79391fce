"""What a graph computes of a product's results before anything else reads them, and the product's own kernels can.

Behind a CONVOLUTION that is BATCH_NORMALIZATION, the sum with another tensor, and RELU, each of which may be missing;
behind a GEMM it is RELU (and more with device arithmetic: ``product_epilogues.py``). Every step has the bits that the
operator itself would give, so it does not matter to results what is found here; but for ACTIVATION_SWISH of FLOAT16 in
the place of RELU, which is the device's where it is permitted its own arithmetic. These kernels are among those that
the package brings: no compiler is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import cast

from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products.convolution import (
    EPILOGUE_BUFFERS,
    ConvolutionEpilogue,
    lower_with_epilogue,
    may_apply_swish,
)
from dmlvk.kernels.products.patches import has_one_place
from dmlvk.kernels.program import Program
from dmlvk.kernels.rows.normalization import batch_factor
from dmlvk.kernels.target import Target
from dmlvk.objects.compilation import same_elements
from dmlvk.operators import (
    ActivationRelu,
    ActivationSwish,
    BatchNormalization,
    Convolution,
    ElementWiseAdd,
    ElementWiseAdd1,
    FusedActivation,
    Gemm,
    OperatorDesc,
)
from dmlvk.tensors import TensorDesc

_RELU = "ACTIVATION_RELU"


@dataclasses.dataclass(frozen=True)
class FusedProduct:
    product: NetworkNode  # the CONVOLUTION or the GEMM
    normalization: NetworkNode | None = None  # the BATCH_NORMALIZATION behind it
    addition: NetworkNode | None = None  # the sum behind that
    residual: NetworkValue | None = None  # what is added there
    relu: NetworkNode | None = None  # the ACTIVATION_RELU that comes last, as an operator of its own
    has_relu: bool = False  # whether RELU comes last: so, or fused with the operator before
    swish: NetworkNode | None = None  # the ACTIVATION_SWISH that comes last

    @property
    def nodes(self) -> tuple[NetworkNode, ...]:
        found = (self.product, self.normalization, self.addition, self.relu, self.swish)
        return tuple(node for node in found if node is not None)

    @property
    def output(self) -> NetworkValue:
        ((_, _, value),) = self.nodes[-1].writes()
        return value

    def reads(self) -> tuple[NetworkValue, ...]:
        """What its kernels read, in the order of their inputs."""
        values = [value for _, _, value in self.product.reads()]
        if self.normalization is not None:
            mean, _, _, bias = (value for _, _, value in self.normalization.reads()[1:])
            values += [mean, factor_of(self.normalization), bias]
        if self.residual is not None:
            values.append(self.residual)
        return tuple(values)

    def program(self, target: Target) -> Program:
        desc = cast("Convolution", self.product.desc)
        swish = self.swish is not None
        if self.normalization is None and self.addition is None and not swish:
            return lower(dataclasses.replace(desc, fused_activation=FusedActivation(ActivationRelu)), target)
        epilogue = ConvolutionEpilogue(self.normalization is not None, self.addition is not None, self.has_relu, swish)
        return lower_with_epilogue(desc, epilogue, target)


def factor_of(normalization: NetworkNode) -> NetworkValue:
    """The value between the steps of a BATCH_NORMALIZATION: behind its output, of which there is one."""
    return NetworkValue("node", normalization.index, 1)


def find_epilogues(network: Network, target: Target) -> list[FusedProduct]:
    """Finds what follows the products of a graph. No operator is part of two epilogues."""
    only = only_readers(network)
    taken: set[int] = set()
    epilogues = []
    for node in reversed(network.nodes):  # of two that could take a sum the later one does, when the other is there
        if isinstance(node.desc, Convolution | Gemm) and has_no_activation(node.desc):
            epilogue = _followed(FusedProduct(node), only, taken, target)
            if len(epilogue.nodes) > 1:
                taken.update(member.index for member in epilogue.nodes)
                epilogues.append(epilogue)
    return epilogues


def only_readers(network: Network) -> dict[NetworkValue, tuple[NetworkNode, int]]:
    """Who alone reads a value that is no output of the graph, and as which of its inputs."""
    readers: dict[NetworkValue, list[tuple[NetworkNode, int]]] = {}
    for node in network.nodes:
        for number, _, value in node.reads():
            readers.setdefault(value, []).append((node, number))
    outputs = {value for value, _ in network.outputs}
    return {value: found[0] for value, found in readers.items() if len(found) == 1 and value not in outputs}


def has_no_activation(desc: OperatorDesc) -> bool:
    """Whether nothing is fused with an operator."""
    return desc.activation is None or desc.activation.operator_name == "ACTIVATION_IDENTITY"


def ends_with_relu(desc: OperatorDesc) -> bool | None:
    """Whether RELU is fused with an operator; ``None``: another activation is."""
    if has_no_activation(desc):
        return False
    assert desc.activation is not None
    return True if desc.activation.operator_name == _RELU else None


def _followed(
    epilogue: FusedProduct, only: Mapping[NetworkValue, tuple[NetworkNode, int]], taken: set[int], target: Target
) -> FusedProduct:
    """The epilogue with as much as can be of what follows it."""
    desc = epilogue.product.desc
    is_convolution = isinstance(desc, Convolution) and not has_one_place(desc)
    has_kernels = is_convolution and not target.is_cpu and target.buffers >= EPILOGUE_BUFFERS
    ((_, tensor, _),) = epilogue.product.writes()
    while not epilogue.has_relu:
        reader, number = only.get(epilogue.output, (None, 0))
        if reader is None or reader.index in taken or not _keeps_layout(reader, number, tensor):
            break
        desc, relu = reader.desc, ends_with_relu(reader.desc)
        if isinstance(desc, ActivationRelu):
            return dataclasses.replace(epilogue, relu=reader, has_relu=True)
        if isinstance(desc, ActivationSwish) and has_kernels and desc.sigmoid_input_scale == 1.0:
            applies = may_apply_swish(cast("Convolution", epilogue.product.desc), target)
            return dataclasses.replace(epilogue, swish=reader) if applies else epilogue
        if not has_kernels or relu is None or epilogue.addition is not None:
            break
        if isinstance(desc, BatchNormalization) and epilogue.normalization is None and _is_of_channels(desc, number):
            epilogue = dataclasses.replace(epilogue, normalization=reader, has_relu=relu)
        elif isinstance(desc, ElementWiseAdd | ElementWiseAdd1):
            _, other, residual = reader.reads()[1 - number]
            if not same_elements(other, tensor) or other.data_type is not tensor.data_type:
                break
            epilogue = dataclasses.replace(epilogue, addition=reader, residual=residual, has_relu=relu)
        else:
            break
    return epilogue


def _keeps_layout(reader: NetworkNode, number: int, tensor: TensorDesc) -> bool:
    seen = [reader.desc.inputs[number][1], *(written for _, written, _ in reader.writes())]
    return len(seen) == 2 and all(
        other is not None and other.data_type is tensor.data_type and same_elements(other, tensor) for other in seen
    )


def _is_of_channels(desc: BatchNormalization, number: int) -> bool:
    """Whether a BATCH_NORMALIZATION of its first input has a number for each channel, which lie side by side."""
    channels = desc.output_tensor.sizes[1]
    expected = (1, channels, *(1 for _ in desc.output_tensor.sizes[2:]))
    operands: Sequence[TensorDesc] = (desc.mean_tensor, batch_factor(desc), desc.bias_tensor)
    return number == 0 and all(
        operand.sizes == expected and (channels == 1 or operand.element_strides[1] == 1) for operand in operands
    )
