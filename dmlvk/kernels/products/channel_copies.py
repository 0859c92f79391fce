"""Lowers convolutions of FLOAT16 by copies whose channels lie behind one another, in eights: for kernels of matrices.

Channels that pad are zeros of the input and of the filter, and those of the output are left behind; groups have eights
already. A backward
convolution with strides is as many without: outputs that are a stride apart meet the same places of the filter
(V. Dumoulin, F. Visin, A guide to convolution arithmetic for deep learning, 2016, section 4), and nothing is multiplied
that meets no input.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.products.matrix_tile import MatrixTile
from dmlvk.kernels.products.padded_products import copy_with_zeros_behind
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators import Convolution, ConvolutionDirection, ConvolutionMode, ElementWiseIdentity
from dmlvk.tensors import TensorDesc

_EIGHT = 8
_FEWEST_CHANNELS = 24  # Of an output: fewer are no rows for matrices

_MATRICES, _MATRICES_OF_PLACES, _MATRICES_OF_ELEMENTS, _OTHERS, _FEW = 180e12, 60e12, 22e12, 15e12, 6e12
"""Operations in a second, as on an NVIDIA H200: where channels lie behind one another, where eight of them are found by
one place, where each element is looked for, of kernels without matrices, and of these for few channels."""

_FEW_ROWS = 8

_TERM_ALONE = 4e-7  # Seconds that an invocation waits for a term, where it goes through all by itself

_BYTES, _LAUNCH = 2e12, 4e-6
"""Bytes that copies move in a second, and what a launch takes at least."""

_MOST_SCRATCH = 2**31


@dataclasses.dataclass(frozen=True)
class ChannelCopies:
    source: TensorDesc  # the input's copy
    result: TensorDesc  # what is copied into the output
    groups: int  # of channels
    steps: tuple[int, ...]  # how far outputs that meet the same places of the filter are apart, along each axis
    taps: tuple[int, ...]  # places of the filter that each of them meets

    @property
    def part_size(self) -> int:
        """Elements of the filter that go with one phase."""
        return self.inside * self.result.sizes[1] * math.prod(self.taps)

    @property
    def inside(self) -> int:
        """Channels of the copy of a group's input."""
        return self.source.sizes[1] // self.groups


def _packed_last(tensor: TensorDesc, channels: int) -> TensorDesc:
    """A tensor of so many channels, which lie behind one another."""
    spatial = tensor.sizes[2:]
    inner = tuple(channels * math.prod(spatial[axis + 1 :]) for axis in range(len(spatial)))
    return TensorDesc(
        tensor.data_type, (tensor.sizes[0], channels, *spatial), (channels * math.prod(spatial), 1, *inner)
    )


def channel_copies(desc: Convolution, product: Product, target: Target) -> ChannelCopies | None:
    """How a convolution is computed by such copies; ``None``: it is not, or gains nothing by it."""
    source, output, window = desc.input_tensor, desc.output_tensor, desc.filter_tensor.sizes[2:]
    is_able = target.device_arithmetic and target.multiplies_matrices_of(DataType.FLOAT16)
    has_steps = desc.direction is ConvolutionDirection.BACKWARD
    are_eights = not any(tensor.sizes[1] // desc.group_count % _EIGHT for tensor in (source, output))
    is_plain = desc.mode is ConvolutionMode.CROSS_CORRELATION
    is_plain = is_plain and (desc.group_count == 1 or (are_eights and not has_steps))
    if not is_able or not is_plain or desc.has_dynamic_sizes or output.data_type is not DataType.FLOAT16:
        return None
    steps = tuple(desc.strides) if has_steps else (1,) * len(desc.strides)
    is_cut = any(step > 1 for step in steps)
    if product.has_channels and not is_cut:
        return None  # as it is
    if is_cut and any(
        size % step or apart > 1 for size, step, apart in zip(window, steps, desc.dilations, strict=True)
    ):
        return None
    fewest = _FEWEST_CHANNELS if desc.group_count == 1 else 0
    if product.has_channels and output.sizes[1] < fewest:
        return None
    if any(step > size for step, size in zip(steps, output.sizes[2:], strict=True)):
        return None
    inside = -(-source.sizes[1] // _EIGHT) * _EIGHT
    outside = max(fewest, -(-output.sizes[1] // _EIGHT) * _EIGHT)
    places = [tensor.sizes[0] * math.prod(tensor.sizes[2:]) for tensor in (source, output)]
    filters = inside * outside // desc.group_count * math.prod(window)
    if 2 * (inside * places[0] + outside * places[1] + filters) > min(_MOST_SCRATCH, target.buffer_size):
        return None
    made = ChannelCopies(
        source if product.has_channels else _packed_last(source, inside),
        output if product.has_channels else _packed_last(output, outside),
        desc.group_count,
        steps,
        tuple(size // step for size, step in zip(window, steps, strict=True)),
    )
    return made if _gains(desc, made, product, target) else None


def _gains(desc: Convolution, made: ChannelCopies, product: Product, target: Target) -> bool:
    tile = choose(product.work(), target).tile
    positions = math.prod(made.result.sizes[2:]) * made.result.sizes[0]
    moved = 0 if product.has_channels else made.source.size_in_bytes + made.result.size_in_bytes
    launches = 3 + math.prod(made.steps)
    terms = made.inside * math.prod(made.taps)
    rows = -(-made.result.sizes[1] // made.groups // 32) * 32 * made.groups
    copied = moved and moved + desc.input_tensor.size_in_bytes + desc.output_tensor.size_in_bytes
    own = 2 * rows * positions * terms / _MATRICES + copied / _BYTES + launches * _LAUNCH
    return own < 0.8 * _seconds_otherwise(product, tile)


def _seconds_otherwise(product: Product, tile: MatrixTile) -> float:
    rows = product.rows if tile.rows == 1 else -(-product.rows // tile.rows) * tile.rows
    work = 2 * rows * product.columns * product.terms * product.batches
    if tile.is_of_channels:
        return work / _MATRICES
    if tile.is_cooperative:
        channels = product.terms // math.prod(
            product.geometry[f"FILTER_{axis}"] for axis in ("DEPTH", "HEIGHT", "WIDTH")
        )
        is_eights = channels % _EIGHT == 0 or channels == product.terms
        return work / (_MATRICES_OF_PLACES if is_eights else _MATRICES_OF_ELEMENTS)
    return max(
        work / (_FEW if tile.rows <= _FEW_ROWS else _OTHERS), product.terms * _TERM_ALONE if tile.rows == 1 else 0.0
    )


def lower_channel_copies(desc: Convolution, made: ChannelCopies, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, result = builder.reads["input_tensor"], builder.writes["output_tensor"]
    is_copied = made.source is not desc.input_tensor
    if is_copied:
        source, result = (builder.scratch(tensor.size_in_bytes) for tensor in (made.source, made.result))
        _copy(builder, desc.input_tensor, made.source, "input_tensor", source)
    filters = builder.scratch(2 * made.part_size * math.prod(made.steps))
    whole, phased = _filters(desc, made)
    _copy(builder, whole, phased, "filter_tensor", filters)
    reads = [source, filters]
    bias = desc.bias_tensor
    if bias is not None:
        bias = TensorDesc(bias.data_type, (1, made.result.sizes[1], *bias.sizes[2:]))
        reads.append(builder.scratch(bias.size_in_bytes))
        assert desc.bias_tensor is not None
        _copy(builder, desc.bias_tensor, bias, "bias_tensor", reads[-1])
    for number, (offset, part) in enumerate(_parts(desc, made, bias)):
        first = 2 * made.part_size * number
        filters_of_part = filters.part(first, 2 * made.part_size)
        written = result.part(2 * offset, result.size_in_bytes - 2 * offset)
        builder.operator(part, [source, filters_of_part, *reads[2:]], [written], "products of channels")
    if not is_copied:
        return builder.program()
    crop = TensorDesc(desc.output_tensor.data_type, desc.output_tensor.sizes, made.result.element_strides)
    identity = ElementWiseIdentity(input_tensor=crop, output_tensor=desc.output_tensor)
    builder.operator(identity, [result], [builder.writes["output_tensor"]], "results in their layout")
    return builder.program()


def _copy(builder: ProgramBuilder, source: TensorDesc, copy: TensorDesc, name: str, written: Region) -> None:
    """Adds the steps that copy an input, with zeros behind it where the copy is larger."""
    operator = copy_with_zeros_behind(source, copy)
    builder.operator(operator, [builder.reads[name]], [written], f"{name} in eights of channels")


def _filters(desc: Convolution, made: ChannelCopies) -> tuple[TensorDesc, TensorDesc]:
    """The filter with its places cut into phases, and its copy, in which phases lie behind one another."""
    window = desc.filter_tensor
    first, second, *along = window.element_strides
    inside, outside, taps = made.inside, made.result.sizes[1], math.prod(made.taps)
    is_backward = desc.direction is ConvolutionDirection.BACKWARD
    sizes, strides = [*window.sizes[:2]], [first, second]
    copied = [inside, outside] if is_backward else [outside, inside]
    far = [1, taps * inside] if is_backward else [taps * inside, 1]
    for axis, (places, step) in enumerate(zip(made.taps, made.steps, strict=True)):
        sizes += [places, step]
        strides += [along[axis] * step, along[axis]]
        copied += [places, step]
        far += [inside * math.prod(made.taps[axis + 1 :]), made.part_size * math.prod(made.steps[axis + 1 :])]
    return TensorDesc(window.data_type, sizes, strides), TensorDesc(window.data_type, copied, far)


def _parts(desc: Convolution, made: ChannelCopies, bias: TensorDesc | None) -> Iterator[tuple[int, Convolution]]:
    """For each phase of the filter, in order: the first element of its results, and what computes them."""
    inside, outside = made.inside, made.result.sizes[1]
    is_cut = any(step > 1 for step in made.steps)
    is_backward = desc.direction is ConvolutionDirection.BACKWARD
    channels = (inside, outside) if is_backward else (outside, inside)
    rows = math.prod(made.taps) * inside
    far = (1, rows) if is_backward else (rows, 1)
    inner = tuple(inside * math.prod(made.taps[axis + 1 :]) for axis in range(len(made.taps)))
    window = TensorDesc(desc.filter_tensor.data_type, (*channels, *made.taps), (*far, *inner))
    tensors = dataclasses.replace(desc, input_tensor=made.source, filter_tensor=window, bias_tensor=bias)
    if not is_cut:
        yield 0, dataclasses.replace(tensors, output_tensor=made.result)
        return
    batch, channel, *along = made.result.element_strides
    for phase in itertools.product(*map(range, made.steps)):
        # The first output whose places of the filter begin with this one, and the place of the input that meets it.
        pairs = list(zip(phase, desc.start_padding, made.steps, strict=True))
        firsts = [(place - padding) % step for place, padding, step in pairs]
        meets = [(first + padding - place) // step for first, (place, padding, step) in zip(firsts, pairs, strict=True)]
        sizes = [
            -(-(size - first) // step)
            for size, first, step in zip(made.result.sizes[2:], firsts, made.steps, strict=True)
        ]
        strides = [stride * step for stride, step in zip(along, made.steps, strict=True)]
        output = TensorDesc(made.result.data_type, (made.result.sizes[0], outside, *sizes), (batch, channel, *strides))
        offset = sum(first * stride for first, stride in zip(firsts, along, strict=True))
        zeros = [0] * len(sizes)
        yield (
            offset,
            dataclasses.replace(
                tensors,
                output_tensor=output,
                strides=[1] * len(sizes),
                start_padding=meets,
                end_padding=zeros,
                output_padding=zeros,
            ),
        )
