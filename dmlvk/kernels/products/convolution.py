"""Lowers convolutions: products whose right operand is the input as the windows see it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.products.channel_copies import channel_copies, lower_channel_copies
from dmlvk.kernels.products.matrix import Epilogue, Product, lower_product
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.products.patches import (
    are_patches,
    has_long_lines,
    has_one_place,
    lower_one_place,
    lower_patches,
)
from dmlvk.kernels.program import BindingKind, Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.operators import Convolution, ConvolutionDirection, ConvolutionMode, ElementWiseIdentity
from dmlvk.tensors import TensorDesc

_WORD = 2**32
_HALF_WORD = 2**16

_MOST_TAPS, _LARGEST_STEP = 49, 2
"""Of windows whose weights and elements an invocation can hold."""

_SPATIAL = ("DEPTH", "HEIGHT", "WIDTH")

_GEOMETRY = tuple(
    f"{name}_{axis}"
    for name in ("FILTER", "OUTPUT_STEP", "FILTER_STEP", "FIRST", "INPUT_STEP", "INPUT", "OUTPUT")
    for axis in _SPATIAL
)
"""Constants of shaders/patterns/products/convolution_operands.glsl."""

_AXES_OF_SHAPE = ("sizes", "steps", "signed", "signed", None, "extents", "output")
"""What `_geometry` gives for each axis, `None` where kernels for any shape have 1."""


EPILOGUE_BUFFERS = 8  # Storage buffers of the kernels that compute an epilogue, too


@dataclasses.dataclass(frozen=True)
class ConvolutionEpilogue:
    """What a graph computes of a convolution's results before anything else reads them."""

    normalizes: bool  # whether BATCH_NORMALIZATION comes first, of mean, factor and bias for each channel
    adds: bool  # whether another tensor of the same layout is added then
    relu: bool  # whether RELU comes last
    swish: bool = False  # whether ACTIVATION_SWISH does, with a scale of 1: :func:`may_apply_swish` tells where it may


@lowering(Convolution)
def lower_convolution(desc: Convolution, target: Target) -> Program:
    if has_one_place(desc):
        return lower_one_place(desc, target)
    product = convolution_product(desc, _with_even_places(desc.filter_tensor), with_eights=target.device_arithmetic)
    copies = channel_copies(desc, product, target)
    if are_patches(desc, target) and (copies is None or has_long_lines(desc)):
        return lower_patches(desc, target)
    if copies is not None:
        return lower_channel_copies(desc, copies, target)
    return _lowered(desc, target, None)


def _with_even_places(window: TensorDesc) -> TensorDesc:
    """A filter whose places lie behind one another with one stride: as it is, or as it is copied."""
    return window if tap_stride(window) is not None else TensorDesc(window.data_type, window.sizes)


def lower_with_epilogue(desc: Convolution, epilogue: ConvolutionEpilogue, target: Target) -> Program:
    """The program of a CONVOLUTION without an activation, and of what a graph has behind it.

    It reads the convolution's inputs; mean, factor and bias where it normalizes, packed, the factor in FLOAT32; and
    what is added. It writes what comes out behind the epilogue.
    """
    return _lowered(desc, target, epilogue)


def _epilogue_regions(desc: Convolution, epilogue: ConvolutionEpilogue, given: int) -> Epilogue:
    """Where the epilogue's operands are, behind so many inputs of the convolution."""
    channels, size = desc.output_tensor.sizes[1], desc.output_tensor.data_type.size_in_bits // 8
    normalization = None
    if epilogue.normalizes:
        mean, factor, bias = (
            Region(BindingKind.INPUT, given + number, 0, channels * width)
            for number, width in enumerate((size, 4, size))
        )
        normalization = mean, factor, bias
        given += 3
    residual = Region(BindingKind.INPUT, given, 0, desc.output_tensor.size_in_bytes) if epilogue.adds else None
    swish = epilogue.swish if desc.output_tensor.data_type is DataType.FLOAT16 else None
    return Epilogue(normalization, residual, epilogue.relu, swish)


def _lowered(desc: Convolution, target: Target, epilogue: ConvolutionEpilogue | None) -> Program:
    builder = ProgramBuilder(desc, target)
    window, region = desc.filter_tensor, builder.reads["filter_tensor"]
    packed = _with_even_places(window)
    words = "the filter, packed"
    if may_be_depthwise(desc) and not target.is_cpu:
        packed, words = channels_behind_places(window), "the filter, channels behind places"
    product = convolution_product(desc, packed, with_eights=target.device_arithmetic)
    if epilogue is not None and not choose(product.work(), target).tile.is_of_channels:
        # ResNet-50 took 1.2 times as long with epilogues behind cooperative matrices, where results lie by columns.
        target = target.without_matrices_of_floats()
    if has_inner_channels(desc, product, target):
        packed, words = channels_behind_one_another(desc), "the filter, places before channels"
        product = _with_inner_channels(product)
    if packed.element_strides != window.element_strides:
        copied = builder.scratch(packed.size_in_bytes)
        copy = ElementWiseIdentity(input_tensor=window, output_tensor=packed)
        builder.operator(copy, [region], [copied], words)
        region = copied
    bias = builder.reads.get("bias_tensor")
    behind = None if epilogue is None else _epilogue_regions(desc, epilogue, len(builder.reads))
    lower_product(builder, desc, product, target, region, builder.reads["input_tensor"], bias, behind)
    return builder.program()


_EIGHT = 8  # Elements that kernels of cooperative matrices load at once


def has_inner_channels(desc: Convolution, product: Product, target: Target) -> bool:
    """Whether the terms of a convolution are taken place by place, each with its channels.

    Then eight terms meet one place, which is looked for once. The filter is copied in this order: only cooperative
    matrices gain by it, whose sums have no order of terms.
    """
    positions = math.prod(desc.filter_tensor.sizes[2:])
    channels = product.terms // positions
    is_plain = desc.direction is ConvolutionDirection.FORWARD or desc.group_count == 1
    may_gain = positions > 1 and channels % _EIGHT == 0 and is_plain
    return may_gain and choose(product.work(), target).tile.is_cooperative


def gains_by_channels_last(desc: Convolution, target: Target) -> bool:
    """Whether a CONVOLUTION whose output has its channels behind one another has kernels that gain by it."""
    packed = TensorDesc(desc.filter_tensor.data_type, desc.filter_tensor.sizes)
    product = convolution_product(desc, packed, with_eights=target.device_arithmetic)
    return choose(product.work(), target).tile.is_of_channels


def may_apply_swish(desc: Convolution, target: Target) -> bool:
    """Whether a CONVOLUTION has kernels that apply ACTIVATION_SWISH to results, as the device computes it."""
    if not target.device_arithmetic or desc.output_tensor.data_type is not DataType.FLOAT16:
        return False
    return gains_by_channels_last(desc, target) or (may_be_depthwise(desc) and not target.is_cpu)


def channels_behind_one_another(desc: Convolution) -> TensorDesc:
    """The filter as it is copied for kernels that take its channels place by place."""
    sizes = desc.filter_tensor.sizes
    forward = desc.direction is ConvolutionDirection.FORWARD
    channels = sizes[1] if forward else sizes[0]
    positions = math.prod(sizes[2:])
    row = positions * channels
    outer = (row, 1) if forward else (1, row)
    inner = tuple(channels * math.prod(sizes[axis + 1 :]) for axis in range(2, len(sizes)))
    return TensorDesc(desc.filter_tensor.data_type, sizes, (*outer, *inner))


def may_be_depthwise(desc: Convolution) -> bool:
    """Whether each channel has a filter of its own, and channels of input and output lie in 16 bytes."""
    channels = desc.group_count
    is_such = channels > 1 and desc.direction is ConvolutionDirection.FORWARD
    tensors = desc.input_tensor, desc.output_tensor
    is_such = is_such and all(tensor.sizes[1] == channels and has_channel_vectors(tensor) for tensor in tensors)
    return is_such and _plane(desc, TensorDesc(desc.filter_tensor.data_type, desc.filter_tensor.sizes)) is not None


def channels_behind_places(window: TensorDesc) -> TensorDesc:
    """A filter of depthwise convolutions with all channels of a place behind one another."""
    channels, _, *spatial = window.sizes
    inner = tuple(channels * math.prod(spatial[axis + 1 :]) for axis in range(len(spatial)))
    return TensorDesc(window.data_type, window.sizes, (1, 1, *inner))


def _with_inner_channels(product: Product) -> Product:
    """A product of the filter that was copied so."""
    positions = math.prod(product.geometry[f"FILTER_{axis}"] for axis in _SPATIAL)
    left = (product.terms, 1, 1, product.rows * product.terms)
    geometry = {**product.geometry, "FILTER_IS_SPLIT": 0}
    return dataclasses.replace(
        product, left=left, geometry=geometry, left_has_eights=True, inner_channels=product.terms // positions
    )


def tap_stride(window: TensorDesc) -> int | None:
    """The stride from each place of a filter to the next one, rows and planes included; ``None``: there is no such."""
    stride = next_stride = None
    for size, own in zip(reversed(window.sizes[2:]), reversed(window.element_strides[2:]), strict=True):
        if size > 1:
            if stride is None:
                stride = next_stride = own
            elif own != next_stride:
                return None
            next_stride = own * size
    return 1 if stride is None else stride


def convolution_product(desc: Convolution, window: TensorDesc, *, with_eights: bool = False) -> Product:
    """A CONVOLUTION in the terms of its kernels.

    Args:
        window: its filter, whose places lie behind one another with one stride.
        with_eights: whether kernels that load eight elements at once are to be had.
    """
    stride = tap_stride(window)
    assert stride is not None  # what the caller sees to
    positions = math.prod(window.sizes[2:])
    forward = desc.direction is ConvolutionDirection.FORWARD
    output, source = desc.output_tensor, desc.input_tensor
    rows = output.sizes[1] // desc.group_count
    channels = source.sizes[1] // desc.group_count
    row_stride, channel_stride = window.element_strides[:2] if forward else window.element_strides[1::-1]
    group_stride = rows * row_stride if forward else channels * channel_stride
    is_split = channels > 1 and (channel_stride != stride * positions if positions > 1 else False)
    term_stride = channel_stride if positions == 1 else stride
    terms = channels * positions
    far = [(rows, row_stride), (desc.group_count, group_stride)]
    fours, eights = (
        not is_split and term_stride == 1 and terms % count == 0 and not any(s % count for n, s in far if n > 1)
        for count in (4, 8)
    )
    bias_stride = 0 if desc.bias_tensor is None else desc.bias_tensor.element_strides[1]
    are_last = has_channel_eights(output) and has_channel_eights(source)
    are_eights = is_multiple(rows, 8) and is_multiple(channels, 8)
    has_channels = with_eights and are_last and (desc.group_count == 1 or (forward and are_eights))
    return Product(
        family="convolution",
        data_type=output.data_type,
        batches=desc.group_count,
        rows=rows,
        columns=output.sizes[0] * math.prod(output.sizes[2:]),
        terms=terms,
        left=(row_stride, term_stride, channel_stride, group_stride),
        others=(bias_stride, *_strides(source), *_strides(output)),
        left_along_terms=True,
        left_has_vectors=fours,
        left_has_eights=eights,
        right_along_terms=True,
        right_has_vectors=_is_pointwise(desc) and _has_vectors(source, 4),
        output_has_pairs=output.data_type is DataType.FLOAT16 and _has_vectors(output, 2),
        output_has_fours=_has_vectors(output, 4),
        input_has_fours=is_multiple(source.sizes[-1], 4) and _has_vectors(source, 4),
        geometry={
            **dict(zip(_GEOMETRY, _geometry(desc, window), strict=True)),
            "FILTER_IS_SPLIT": int(is_split),
            **{f"REACHED_{axis}": size for axis, size in zip(_SPATIAL, _reached(desc), strict=True)},
        },
        shape=_shape(desc, window, bias_stride),
        plane=_plane(desc, window),
        right_has_eights=with_eights and _is_pointwise(desc) and _has_vectors(source, 8),
        has_channels=has_channels,
        is_depthwise=may_be_depthwise(desc)
        and window.element_strides == channels_behind_places(window).element_strides,
    )


def has_channel_vectors(tensor: TensorDesc) -> bool:
    """Whether channels lie behind one another in memory, in 16 bytes at multiples of 16."""
    positions, count = zip(tensor.sizes, tensor.element_strides, strict=True), 128 // tensor.data_type.size_in_bits
    return (
        tensor.element_strides[1] == 1
        and is_multiple(tensor.sizes[1], count)
        and all(is_multiple(stride, count) for axis, (size, stride) in enumerate(positions) if axis != 1 and size > 1)
    )


def has_channel_eights(tensor: TensorDesc) -> bool:
    """Whether channels of FLOAT16 lie behind one another in memory, in eights at multiples of eight elements."""
    return tensor.data_type is DataType.FLOAT16 and has_channel_vectors(tensor)


def _is_pointwise(desc: Convolution) -> bool:
    """Whether each place of the output is made of the same place of the input alone."""
    alone = {*desc.filter_tensor.sizes[2:], *desc.strides} == {1}
    return alone and not any(desc.start_padding) and desc.output_tensor.sizes[2:] == desc.input_tensor.sizes[2:]


def _plane(desc: Convolution, window: TensorDesc) -> tuple[int, int] | None:
    """Height and width of the output, where windows overlap as ``patterns/products/matrix_planes.glsl`` wants it."""
    geometry = _geometry(desc, window)
    sizes, output_steps, filter_steps, firsts, input_steps, extents, output = zip(*[iter(geometry)] * 3, strict=True)
    is_flat = (sizes[0], firsts[0], extents[0], output[0]) == (1, 0, 1, 1)
    is_plain = filter_steps[1:] == (1, 1) and input_steps == (1, 1, 1) and output == _reached(desc)
    overlaps = 1 < sizes[1] * sizes[2] <= _MOST_TAPS and max(output_steps[1:]) <= _LARGEST_STEP
    return output[1:] if is_flat and is_plain and overlaps else None


def _shape(desc: Convolution, window: TensorDesc, bias_stride: int) -> tuple[int, ...] | None:
    """The parameters of kernels for any shape: shaders/patterns/products/matrix_parameters.glsl.

    Returns:
        ``None`` for windows in three dimensions or of the backward direction with strides, and for numbers that half a
        word does not hold.
    """
    geometry = _geometry(desc, window)
    axes = [geometry[position : position + 3] for position in range(0, len(geometry), 3)]
    sizes, _, _, firsts, input_steps, extents, output = axes
    if (sizes[0], firsts[0], extents[0], output[0], *input_steps) != (1, 0, 1, 1, 1, 1, 1) or output != _reached(desc):
        return None
    words = []
    for name, values in zip(_AXES_OF_SHAPE, axes, strict=True):
        if name is None:
            continue
        for number in values[1:]:
            if (number + _HALF_WORD // 2 if name == "signed" else number) % _WORD >= _HALF_WORD:
                return None
        words.append(values[1] % _HALF_WORD * _HALF_WORD + values[2] % _HALF_WORD)
    source, result = _strides(desc.input_tensor), _strides(desc.output_tensor)
    return (bias_stride, *source[:2], *source[3:], *result[:2], *result[3:], *words)


def _strides(tensor: TensorDesc) -> tuple[int, ...]:
    """Of batch, channel, depth, height and width."""
    strides = tensor.element_strides
    return (*strides[:2], *((0, 0, 0, *strides[2:])[-3:]))


def _three(values: Sequence[int], absent: int) -> tuple[int, int, int]:
    """Numbers for depth, height and width, where there may be fewer axes."""
    depth, height, width = (absent, absent, absent, *values)[-3:]
    return depth, height, width


def _geometry(desc: Convolution, window: TensorDesc) -> tuple[int, ...]:
    """The specialization constants from the filter's sizes on: shaders/patterns/products/convolution_operands.glsl."""
    sizes = _three(window.sizes[2:], 1)
    strides, dilations = _three(desc.strides, 1), _three(desc.dilations, 1)
    padding = _three(desc.start_padding, 0)
    source, output = _three(desc.input_tensor.sizes[2:], 1), _three(desc.output_tensor.sizes[2:], 1)
    output_steps: Sequence[int]
    filter_steps: Sequence[int]
    firsts: Sequence[int]
    input_steps: Sequence[int]
    if desc.direction is ConvolutionDirection.FORWARD:
        output_steps, filter_steps, firsts = strides, dilations, tuple(-start for start in padding)
        input_steps = (1, 1, 1)
    else:
        output_steps, filter_steps, firsts = (1, 1, 1), tuple(-step for step in dilations), padding
        input_steps = strides
    if desc.mode is ConvolutionMode.CONVOLUTION:
        firsts = tuple(f + step * (size - 1) for f, step, size in zip(firsts, filter_steps, sizes, strict=True))
        filter_steps = tuple(-step for step in filter_steps)
    extents = tuple(size * step for size, step in zip(source, input_steps, strict=True))
    numbers = (*sizes, *output_steps, *filter_steps, *firsts, *input_steps, *extents, *output)
    return tuple(number % _WORD for number in numbers)


def _reached(desc: Convolution) -> tuple[int, int, int]:
    """How many places of the output windows reach, along each axis."""
    sizes = _three(desc.output_tensor.sizes[2:], 1)
    if desc.direction is ConvolutionDirection.BACKWARD:
        return sizes
    behind = _three(desc.output_padding, 0)
    depth, height, width = (size - padding for size, padding in zip(sizes, behind, strict=True))
    return depth, height, width


def _has_vectors(output: TensorDesc, count: int) -> bool:
    """Whether so many neighbouring columns of a row, from a multiple of that on, lie behind one another, and at one."""
    positions = list(zip(output.sizes[2:], output.element_strides[2:], strict=True))
    far = list(zip(output.sizes[:2], output.element_strides[:2], strict=True))
    expected = 1
    while positions and expected:
        size, stride = positions.pop()
        if size > 1 and stride != expected:
            positions.append((size, stride))
            break
        expected *= size
    return is_multiple(expected, count) and all(
        is_multiple(stride, count) for size, stride in (*positions, *far) if size > 1
    )
