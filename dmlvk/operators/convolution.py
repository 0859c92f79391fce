"""Convolutions."""

from __future__ import annotations

import enum

from dmlvk.operators.matrix import FUSABLE_BESIDE_PRODUCTS, FUSABLE_FROM, FUSED, ORDER_OF_SUMS, SUMS_OF_PRODUCTS
from dmlvk.operators.words import *

_MOST = 2**31  # What places along an axis stay below, padding and strides counted in


class ConvolutionMode(enum.IntEnum):
    """DML_CONVOLUTION_MODE: whether the filter is turned over."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(enum.IntEnum):
    """DML_CONVOLUTION_DIRECTION: a convolution, or the transposed one, which gives its input's gradient."""

    FORWARD = 0
    BACKWARD = 1


def _lengths(desc: Convolution | Draft, spatial: int) -> None:
    if desc.dimension_count != spatial:
        refuse(
            desc,
            "dimension_count",
            f"must be {spatial}, the number of InputTensor's spatial dimensions; got {desc.dimension_count}",
        )
    for member in ("strides", "dilations", "start_padding", "end_padding", "output_padding"):
        check_length(desc, member, spatial, "one for each spatial dimension")
    for member in ("strides", "dilations"):
        if 0 in getattr(desc, member):
            refuse(desc, member, f"must be at least 1; got {list(getattr(desc, member))}")


def _along(desc: Convolution | Draft, axis: int, size: int, window: int) -> int:
    stride, dilation = int(desc.strides[axis]), int(desc.dilations[axis])
    padding, further = int(desc.start_padding[axis] + desc.end_padding[axis]), int(desc.output_padding[axis])
    reach = (window - 1) * dilation + 1
    if desc.direction is ConvolutionDirection.FORWARD:
        padded = size + padding
        if reach > padded:
            refuse(
                desc,
                "filter_tensor.sizes",
                f"must reach over at most {padded} places along spatial axis {axis}, the input's {size} and the "
                f"padding; got {window} with dilation {dilation}, which are {reach}",
            )
        positions = (padded - reach) // stride + 1 + further
        farthest = max(padded, positions * stride) + reach
    else:
        full = (size - 1) * stride + reach + further
        if padding >= full:
            refuse(
                desc,
                "start_padding",
                f"and EndPadding must be less than {full} together along spatial axis {axis}, the places of the "
                f"result; got {padding}",
            )
        positions, farthest = full - padding, full + size * stride + padding + reach
    if farthest >= _MOST:
        refuse(desc, "input_tensor.sizes", f"and the padding must stay below {_MOST} places along spatial axis {axis}")
    return positions


def convolution_sizes(desc: Convolution | Draft) -> Mapping[str, Sequence[int]]:
    """The rule that the sizes of a convolution follow."""
    source, window, bias = desc.input_tensor, desc.filter_tensor, desc.bias_tensor
    check_dimension_count(desc, "filter_tensor", source.dimension_count, "as InputTensor has")
    _lengths(desc, source.dimension_count - 2)
    groups, channels = desc.group_count, source.sizes[1]
    if not groups or channels % groups:
        refuse(desc, "group_count", f"must divide InputTensor's {channels} channels; got {groups}")
    first, second = window.sizes[:2]
    if desc.direction is ConvolutionDirection.FORWARD:
        if second != channels // groups:
            refuse(
                desc,
                "filter_tensor.sizes[1]",
                f"must be {channels // groups}, the input channels of a group; got {second}",
            )
        if first % groups:
            refuse(desc, "filter_tensor.sizes[0]", f"must be a multiple of GroupCount {groups}; got {first}")
        results = first
    else:
        if first != channels:
            refuse(desc, "filter_tensor.sizes[0]", f"must be {channels}, the input's channels; got {first}")
        results = second * groups
    if bias is not None:
        check_dimension_count(desc, "bias_tensor", source.dimension_count, "as InputTensor has")
        check_sizes(
            desc, "bias_tensor", (1, results, *(1 for _ in source.sizes[2:])), "one number for each output channel"
        )
    positions = (_along(desc, i, size, window.sizes[2 + i]) for i, size in enumerate(source.sizes[2:]))
    return {"output_tensor": (source.sizes[0], results, *positions)}


class Convolution(OperatorDesc):
    """A convolution along 1 to 3 spatial axes, or a transposed one (DML_CONVOLUTION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, channels, and 1 to 3 spatial dimensions")
    filter_tensor: TensorDesc = tensor_input(
        "forward: output channels, input channels of a group, and the window; backward: input channels, output "
        "channels of a group, and the window"
    )
    bias_tensor: TensorDesc | None = tensor_input("a number for each output channel, which is added", default=None)
    output_tensor: TensorDesc = tensor_output("batch, output channels, and the spatial dimensions")
    mode: ConvolutionMode = enum_attribute("whether the filter is turned over", ConvolutionMode)
    direction: ConvolutionDirection = enum_attribute("forward, or transposed", ConvolutionDirection)
    dimension_count: int = count_attribute("number of spatial dimensions")
    strides: Sequence[int] = unsigned_array_attribute("how far windows lie from one another")
    dilations: Sequence[int] = unsigned_array_attribute("how far a window's elements lie from one another")
    start_padding: Sequence[int] = unsigned_array_attribute(
        "places before the first one: of the input, or backward taken away from the result"
    )
    end_padding: Sequence[int] = unsigned_array_attribute("places behind the last one, likewise")
    output_padding: Sequence[int] = unsigned_array_attribute("further places at the end of the result")
    group_count: int = unsigned_attribute("groups of channels that have nothing to do with one another")
    fused_activation: FusedActivation | None = fused_activation_attribute(
        "the activation that is applied to the results", fusable=FUSABLE_BESIDE_PRODUCTS, fusable_from=FUSABLE_FROM
    )
    declaration: ClassVar = Declaration(
        "convolution",
        "FusedActivation(convolution of Input with Filter + Bias)",
        shapes=convolution_sizes,
        decisions=(
            *ORDER_OF_SUMS,
            "The terms of a sum are the input channels of the group, rising, and for each of them the places of the "
            "filter as it lies in memory: depth, height, width.",
            "Bias is added to the sum, and rounded in float32; FLOAT16 results are rounded from that.",
            "OutputPadding: forward, the places behind the last window are sums of nothing, so 0 and then Bias and "
            "FusedActivation; backward, they go on as the places before them (as ONNX's ConvTranspose has it).",
            FUSED,
        ),
        accuracy=SUMS_OF_PRODUCTS,
        support=(Support("1_0", (4, 5), FLOATS), Support("4_0", (3, 5), FLOATS)),
    )
