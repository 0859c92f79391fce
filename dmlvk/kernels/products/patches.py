"""Lowers convolutions whose windows lie beside one another, as of a vision transformer's patches (Dosovitskiy et al.,
2021): the windows are copied behind one another, and multiplied as a matrix. Windows of one place whose channels lie
behind one another, as behind a transformer's layers, are such a matrix where they are. So are pictures of one place, as
in squeeze-and-excitation (Hu et al., 2018), whose rows are the pictures.
"""

from __future__ import annotations

import math

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.products.matrix import gemm_product
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.target import Target
from dmlvk.operators import (
    Convolution,
    ConvolutionDirection,
    ConvolutionMode,
    ElementWiseIdentity,
    Gemm,
    MatrixTransform,
)
from dmlvk.tensors import TensorDesc

_FOUR = 4  # Results that kernels of cooperative matrices store at once

_EIGHT = 8  # Elements that a copy moves at once


def are_patches(desc: Convolution, target: Target) -> bool:
    """Whether each element of a CONVOLUTION's input is in one window at most, and cooperative matrices gain by that.

    Only with device arithmetic: a window's elements are found one by one otherwise, which is as fast as a copy there.
    """
    if desc.output_tensor.data_type is not DataType.FLOAT16 or not target.device_arithmetic or desc.has_dynamic_sizes:
        return False
    window = tuple(desc.filter_tensor.sizes[2:])
    lie_beside = tuple(desc.strides) == window and not any((*desc.start_padding, *desc.end_padding))
    is_plain = desc.direction is ConvolutionDirection.FORWARD and desc.mode is ConvolutionMode.CROSS_CORRELATION
    is_whole = desc.group_count == 1 and not any((*desc.output_padding, *(step - 1 for step in desc.dilations)))
    may_be_last = desc.input_tensor.element_strides[1] > 1  # else there are kernels that load channels together
    are_packed = _is_packed(desc.filter_tensor) and (
        _is_packed(desc.output_tensor) or (may_be_last and _is_last(desc.output_tensor))
    )
    if not (lie_beside and is_plain and is_whole and are_packed) or (math.prod(window) == 1 and _is_copied(desc)):
        return False
    product = _product(desc)
    is_whole = is_multiple(product.output_tensor.sizes[-1], _FOUR)
    return is_whole and choose(gemm_product(product, with_eights=True).work(), target).tile.is_cooperative


def _is_packed(tensor: TensorDesc) -> bool:
    return tensor.element_strides == TensorDesc(tensor.data_type, tensor.sizes).element_strides


def _is_last(tensor: TensorDesc) -> bool:
    """Whether a packed tensor has its channels behind one another, and places behind that."""
    batch, channels, *spatial = range(len(tensor.sizes))
    sizes, strides = tensor.sizes, tensor.element_strides
    turned = TensorDesc(tensor.data_type, tuple(sizes[axis] for axis in (batch, *spatial, channels)))
    return turned.element_strides == tuple(strides[axis] for axis in (batch, *spatial, channels))


def has_long_lines(desc: Convolution) -> bool:
    """Whether patches are copied by eights, or not at all: with shorter lines copies of channels are faster."""
    return desc.filter_tensor.sizes[-1] % _EIGHT == 0 or not _is_copied(desc)


def lower_patches(desc: Convolution, target: Target) -> Program:
    """The program of a CONVOLUTION whose windows :func:`are_patches`."""
    builder = ProgramBuilder(desc, target)
    patches = builder.reads["input_tensor"]
    if _is_copied(desc):
        copy = _copy(desc)
        patches = builder.scratch(copy.output_tensor.size_in_bytes)
        builder.operator(copy, [builder.reads["input_tensor"]], [patches], "patches behind one another")
    operands = [builder.reads["filter_tensor"], patches]
    if not _is_packed(desc.output_tensor):
        operands.reverse()
    operands += [builder.reads["bias_tensor"]] if "bias_tensor" in builder.reads else []
    builder.operator(_product(desc), operands, [builder.writes["output_tensor"]], "their products")
    return builder.program()


def has_one_place(desc: Convolution) -> bool:
    """Whether input, filter and output have one place for each channel: GEMM's order of sums is the same then."""
    tensors = (desc.input_tensor, desc.filter_tensor, desc.output_tensor)
    is_alone = all(size == 1 for tensor in tensors for size in tensor.sizes[2:])
    return is_alone and desc.group_count == 1 and not any((*desc.start_padding, *desc.end_padding))


def lower_one_place(desc: Convolution, target: Target) -> Program:
    """The program of a CONVOLUTION that :func:`has_one_place`: pictures are rows, and channels columns."""
    builder = ProgramBuilder(desc, target)
    bias = desc.bias_tensor
    addend = None
    if bias is not None:
        addend = TensorDesc(bias.data_type, (1, 1, *desc.output_tensor.sizes[:2]), (0, 0, 0, bias.element_strides[1]))
    is_forward = desc.direction is ConvolutionDirection.FORWARD
    product = Gemm(
        a_tensor=_as_matrix(desc.input_tensor),
        b_tensor=_as_matrix(desc.filter_tensor),
        c_tensor=addend,
        output_tensor=_as_matrix(desc.output_tensor),
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.TRANSPOSE if is_forward else MatrixTransform.NONE,
        alpha=1.0,
        beta=1.0,
        fused_activation=desc.fused_activation,
    )
    builder.operator(product, list(builder.reads.values()), [builder.writes["output_tensor"]], "channels of pictures")
    return builder.program()


def _as_matrix(tensor: TensorDesc) -> TensorDesc:
    """The first two axes alone."""
    return TensorDesc(tensor.data_type, (1, 1, *tensor.sizes[:2]), (0, 0, *tensor.element_strides[:2]))


def _is_copied(desc: Convolution) -> bool:
    """Whether windows are no matrix where they are: more than a place, or channels that do not lie as its terms."""
    source, window = desc.input_tensor, desc.filter_tensor.sizes[2:]
    _, channel, *along = source.element_strides
    inner = zip(along, source.sizes[3:], along[1:], strict=False)
    return math.prod(window) > 1 or channel != 1 or any(outer != size * step for outer, size, step in inner)


def _copy(desc: Convolution) -> ElementWiseIdentity:
    """Windows behind one another: batch, places, channels, places of a window."""
    source, window, output = desc.input_tensor, desc.filter_tensor.sizes[2:], desc.output_tensor.sizes
    batch, channel, *along = source.element_strides
    steps = [size * stride for size, stride in zip(window, along, strict=True)]
    sizes = (output[0], *output[2:], source.sizes[1], *window)
    return ElementWiseIdentity(
        input_tensor=TensorDesc(source.data_type, sizes, (batch, *steps, channel, *along)),
        output_tensor=TensorDesc(source.data_type, sizes),
    )


def _product(desc: Convolution) -> Gemm:
    """The filter times each picture's windows, or these times the filter where results have their channels last."""
    batch, _, *along = desc.input_tensor.element_strides
    filters, output, data_type = desc.filter_tensor, desc.output_tensor.sizes, desc.output_tensor.data_type
    rows, terms, positions = filters.sizes[0], math.prod(filters.sizes[1:]), math.prod(output[2:])
    left = TensorDesc(data_type, (1, output[0], rows, terms), (0, 0, terms, 1))
    right = TensorDesc(
        data_type,
        (1, output[0], positions, terms),
        (0, positions * terms, terms, 1) if _is_copied(desc) else (0, batch, along[-1], 1),
    )
    sizes, bias_axis = (1, output[0], rows, positions), 2
    if not _is_packed(desc.output_tensor):
        left, right, sizes, bias_axis = right, left, (1, output[0], positions, rows), 3
    bias = None
    if desc.bias_tensor is not None:
        stride = desc.bias_tensor.element_strides[1]
        bias = TensorDesc(data_type, sizes, tuple(stride if axis == bias_axis else 0 for axis in range(4)))
    return Gemm(
        a_tensor=left,
        b_tensor=right,
        c_tensor=bias,
        output_tensor=TensorDesc(data_type, sizes),
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=1.0,
        fused_activation=desc.fused_activation,
    )
