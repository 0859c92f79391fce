"""Which tensors inside of a graph have their channels behind one another: those around convolutions that gain by it.

Convolutions by cooperative matrices load eight channels of a place at once where these are neighbours, and store eight
results. So between them, and through what only follows their layout (element-wise operators, BATCH_NORMALIZATION,
pooling, depthwise convolutions), tensors have other strides than the graph's author gave them. Where others read them,
at a graph's ends above all, they are copied, and so are filters, which are the same in every run. Only strides change:
no operator computes anything else.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.products.convolution import (
    channels_behind_one_another,
    channels_behind_places,
    gains_by_channels_last,
    may_be_depthwise,
)
from dmlvk.kernels.products.patches import are_patches
from dmlvk.kernels.target import Target
from dmlvk.operators import (
    AveragePooling,
    AveragePooling1,
    BatchNormalization,
    Convolution,
    ElementWiseIdentity,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    MeanVarianceNormalization2,
    OperatorDesc,
)
from dmlvk.tensors import TensorDesc

_NORMALIZATIONS = (MeanVarianceNormalization, MeanVarianceNormalization1, MeanVarianceNormalization2)
_POOLS = (AveragePooling, AveragePooling1, MaxPooling, MaxPooling1, MaxPooling2)
_FEWEST_AXES = 4

_GAIN = 1 / 30e12 - 1 / 90e12
"""Seconds that a convolution gains for each of its multiplications and additions, as on an NVIDIA H100."""

_COST = 2 / 1.5e12  # Seconds that a copy takes there for each of its bytes, which are read and written

_COST_OF_LAUNCH = 3e-6


def with_channels_last(network: Network, target: Target) -> Network:
    """The same graph with such strides where they gain more than the copies between layouts cost.

    Args:
        target: the device: only those that multiply cooperative matrices of FLOAT16, and may, gain.

    Returns:
        the graph with further operators behind those that it had, or as it was.
    """
    if not (target.device_arithmetic and target.multiplies_matrices_of(DataType.FLOAT16)):
        return network
    if not any(isinstance(node.desc, Convolution) for node in network.nodes):
        return network
    layouts = _Layouts(network, target)
    for node in network.nodes:
        layouts.take(node)
    made = layouts.network()  # whose outputs are copied, too
    return made if layouts.gain > layouts.cost else network


def is_image(tensor: TensorDesc) -> bool:
    """Whether a tensor may have its channels last: FLOAT16, packed, with channels in eights and several places."""
    packed = TensorDesc(tensor.data_type, tensor.sizes)
    return (
        tensor.data_type is DataType.FLOAT16
        and len(tensor.sizes) >= _FEWEST_AXES
        and is_multiple(tensor.sizes[1], 8)
        and bool(typical(math.prod(tensor.sizes[2:])) > 1)
        and tensor.element_strides == packed.element_strides
        and tensor.total_tensor_size_in_bytes == packed.total_tensor_size_in_bytes
    )


def is_last(tensor: TensorDesc) -> bool:
    """Whether a tensor is an image that has its channels last already, as behind a layer of a transformer's."""
    packed = TensorDesc(tensor.data_type, tensor.sizes)
    return is_image(packed) and tensor.element_strides == channels_last(packed).element_strides


def _relaid(written: TensorDesc, tensor: TensorDesc) -> TensorDesc | None:
    """A tensor's axes in another order, as they are where that has its channels last; ``None``: it is no such view."""
    axes = zip(written.sizes, written.element_strides, channels_last(written).element_strides, strict=True)
    strides = {(size, stride): new for size, stride, new in axes if size > 1}
    found = [
        stride if size == 1 else strides.pop((size, stride), None)
        for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True)
    ]
    known = [stride for stride in found if stride is not None]
    if strides or len(known) < len(found) or tensor.data_type is not written.data_type:
        return None
    return TensorDesc(tensor.data_type, tensor.sizes, known)


def _lie_alike(tensor: TensorDesc, other: TensorDesc) -> bool:
    return tensor.sizes == other.sizes and tensor.element_strides == other.element_strides


def _has_one_pixel(tensor: TensorDesc) -> bool:
    return len(tensor.sizes) >= _FEWEST_AXES and math.prod(tensor.sizes[2:]) == 1


def channels_last(tensor: TensorDesc) -> TensorDesc:
    channels, spatial = tensor.sizes[1], tensor.sizes[2:]
    inner = tuple(channels * math.prod(spatial[axis + 1 :]) for axis in range(len(spatial)))
    return TensorDesc(tensor.data_type, tensor.sizes, (channels * math.prod(spatial), 1, *inner))


class _Layouts:
    """The layout of each value, operator by operator.

    Attributes:
        gain: seconds that convolutions gain so far.
        cost: seconds that copies between layouts take, of those in every run.
    """

    def __init__(self, network: Network, target: Target) -> None:
        self._network = network
        self._target = target
        self._nodes: list[NetworkNode] = []
        self._next = 1 + max(value.index for value in network.sizes)
        # By a value and the sizes with which it is read, the one with channels last.
        self._last: dict[tuple[NetworkValue, tuple[int, ...]], NetworkValue] = {}
        self._written: dict[
            NetworkValue, TensorDesc
        ] = {}  # as the graph has them, what operators write with channels last
        self._plain: dict[NetworkValue, NetworkValue] = {}  # copies of these
        self._sizes = dict(network.sizes)
        self._names = dict(network.names)
        self.gain = self.cost = 0.0

    def take(self, node: NetworkNode) -> None:
        """Decides on an operator behind those that it reads from."""
        desc = node.desc
        if isinstance(desc, Convolution):
            changed = self._convolution(node, desc)
        elif self._follows(node):
            changed = self._with_images_last(node, [number for number, tensor, _ in node.reads() if is_image(tensor)])
        else:
            changed = None
        self._nodes.append(changed or self._with_plain_inputs(node))

    def network(self) -> Network:
        outputs = tuple((self._plain_of(value), tensor) for value, tensor in self._network.outputs)
        same = self._same(outputs)
        return dataclasses.replace(
            self._network,
            nodes=tuple(node for node in self._nodes if not any(value in same for _, _, value in node.writes())),
            outputs=tuple((same.get(value, value), tensor) for value, tensor in outputs),
            sizes=self._sizes,
            names=self._names,
        )

    def _same(self, outputs: Sequence[tuple[NetworkValue, TensorDesc | None]]) -> dict[NetworkValue, NetworkValue]:
        """Outputs that are copies as their sources lie, which nobody else reads, and what stands for each."""
        given = collections.Counter(value for value, _ in outputs)
        read = {value for node in self._nodes for _, _, value in node.reads()}
        made: dict[NetworkValue, NetworkValue] = {}
        for node in self._nodes:
            desc = node.desc
            if not isinstance(desc, ElementWiseIdentity) or desc.scale_bias is not None:
                continue
            ((_, _, source),), ((_, _, copied),) = node.reads(), node.writes()
            if copied in read or given[copied] != 1 or source not in self._written or given[source]:
                continue
            if _lie_alike(desc.input_tensor, desc.output_tensor):
                made[copied] = source
                given[source] += 1
        return made

    def _follows(self, node: NetworkNode) -> bool:
        """Whether an operator has any layout, and an input whose channels lie last already."""
        desc = node.desc
        outputs = node.writes()
        is_able = desc.declaration.pattern == "elementwise" or isinstance(desc, (*_POOLS, BatchNormalization))
        return (
            is_able
            and len(outputs) == 1
            and (is_image(outputs[0][1]) or _has_one_pixel(outputs[0][1]))
            and any(is_last(tensor) or (value, tuple(tensor.sizes)) in self._last for _, tensor, value in node.reads())
        )

    def _convolution(self, node: NetworkNode, desc: Convolution) -> NetworkNode | None:
        source, output = desc.input_tensor, desc.output_tensor
        if not (is_image(source) or is_last(source)) and is_image(output):
            return self._patches(node, desc)
        if not is_image(output):
            return None
        laid = dataclasses.replace(desc, output_tensor=channels_last(output), input_tensor=channels_last(source))
        assert node.inputs[0] is not None and node.inputs[1] is not None  # a convolution has them
        if may_be_depthwise(laid):
            if not is_last(source) and (node.inputs[0], tuple(source.sizes)) not in self._last:
                return None
            window = channels_behind_places(desc.filter_tensor)
            self.gain += _COST_OF_LAUNCH + _COST * typical(output.size_in_bytes)  # as of a copy into planes
        elif gains_by_channels_last(laid, self._target):
            window = channels_behind_one_another(desc)
            terms = math.prod(desc.filter_tensor.sizes[1:])
            self.gain += 2 * float(typical(math.prod(output.sizes)) * typical(terms)) * _GAIN
        else:
            return None
        changed = self._with_images_last(node, [0] if is_image(source) else [])
        if math.prod(desc.filter_tensor.sizes[2:]) > 1:
            copied = self._copy(node.inputs[1], desc.filter_tensor, window, "channels behind places")
            changed = dataclasses.replace(
                changed,
                desc=_with(changed.desc, {"filter_tensor": window}),
                inputs=(changed.inputs[0], copied, *changed.inputs[2:]),
            )
        return changed

    def _patches(self, node: NetworkNode, desc: Convolution) -> NetworkNode | None:
        """A convolution of windows that are copied anyway: as rows of a product, whose columns are channels."""
        laid = dataclasses.replace(desc, output_tensor=channels_last(desc.output_tensor))
        if not are_patches(laid, self._target):
            return None
        self.gain += _COST_OF_LAUNCH  # as of another copy, which whoever reads channels last does not need
        ((_, tensor, value),) = node.writes()
        self._last[value, tuple(tensor.sizes)] = value
        self._written[value] = tensor
        return dataclasses.replace(self._with_plain_inputs(node), desc=laid)

    def _with_images_last(self, node: NetworkNode, images: Collection[int]) -> NetworkNode:
        """An operator with some inputs whose channels lie last, as those of its output do."""
        inputs = list(node.inputs)
        members: dict[str, TensorDesc] = {}
        for number, tensor, value in node.reads():
            if number in images:
                inputs[number] = self._last_of(value, tensor)
                members[node.desc.inputs[number][0].attribute] = channels_last(tensor)
            else:
                inputs[number] = self._plain_of(value)
        ((number, tensor, value),) = node.writes()
        if is_image(tensor):
            members[node.desc.outputs[number][0].attribute] = channels_last(tensor)
            self._last[value, tuple(tensor.sizes)] = value
            self._written[value] = tensor
        return dataclasses.replace(node, desc=_with(node.desc, members), inputs=tuple(inputs))

    def _with_plain_inputs(self, node: NetworkNode) -> NetworkNode:
        """An operator that has no layout of its own; what reads axes in another order reads them where they are."""
        inputs = list(node.inputs)
        members: dict[str, TensorDesc] = {}
        is_able = node.desc.declaration.pattern == "elementwise" or isinstance(node.desc, _NORMALIZATIONS)
        for number, tensor, value in node.reads():
            view = _relaid(self._written[value], tensor) if is_able and value in self._written else None
            if view is None:
                inputs[number] = self._plain_of(value)
            else:
                members[node.desc.inputs[number][0].attribute] = view
        return dataclasses.replace(node, desc=_with(node.desc, members), inputs=tuple(inputs))

    def _last_of(self, value: NetworkValue, tensor: TensorDesc) -> NetworkValue:
        key = value, tuple(tensor.sizes)
        if key not in self._last:
            self.cost += _COST_OF_LAUNCH + _COST * typical(tensor.size_in_bytes)
            self._last[key] = self._copy(self._plain_of(value), tensor, channels_last(tensor), "channels last")
        return self._last[key]

    def _plain_of(self, value: NetworkValue) -> NetworkValue:
        """A value as the graph has it: that of an operator which writes channels last is copied."""
        if value not in self._written:
            return value
        if value not in self._plain:
            written = self._written[value]
            self.cost += _COST_OF_LAUNCH + _COST * typical(written.size_in_bytes)
            self._plain[value] = self._copy(value, channels_last(written), written, "channels first")
        return self._plain[value]

    def _copy(self, value: NetworkValue, source: TensorDesc, output: TensorDesc, what: str) -> NetworkValue:
        """A further operator, which copies a value into another layout."""
        copied = NetworkValue("node", self._next)
        self._next += 1
        self._sizes[copied] = output.size_in_bytes
        self._names[copied] = f"{self._names[value]}, {what}"
        desc = ElementWiseIdentity(input_tensor=source, output_tensor=output)
        self._nodes.append(NetworkNode(copied.index, self._names[copied], desc, (value,), (copied,)))
        return copied


def _with(desc: OperatorDesc, members: dict[str, TensorDesc]) -> OperatorDesc:
    changed: Any = desc  # the classes of descriptions are made as dataclasses
    laid: OperatorDesc = dataclasses.replace(changed, **members)
    return laid
