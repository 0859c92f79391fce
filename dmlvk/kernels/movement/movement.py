"""Lowers the operators that move elements by sizes and attributes: to copies from view to view."""

from __future__ import annotations

from collections.abc import Sequence

from dmlvk.kernels.movement.copies import copy, fill
from dmlvk.kernels.movement.parts import CopiedTensor, copy_parts
from dmlvk.kernels.program import ProgramBuilder, Region, adds_steps
from dmlvk.kernels.views import View
from dmlvk.operators.filling import SliceGrad
from dmlvk.operators.movement import Join, Slice, Slice1, Split
from dmlvk.tensors import TensorDesc


@adds_steps(Join)
def _join(b: ProgramBuilder, desc: Join) -> None:
    regions = [b.reads[f"input_tensors[{number}]"] for number in range(len(desc.input_tensors))]
    parts = _parts(desc.output_tensor, desc.input_tensors, regions, desc.axis, "input")
    copy_parts(b, b.writes["output_tensor"], parts, desc.output_tensor.data_type.size_in_bits, is_split=False)


@adds_steps(Split)
def _split(b: ProgramBuilder, desc: Split) -> None:
    regions = [b.writes[f"output_tensors[{number}]"] for number in range(len(desc.output_tensors))]
    parts = _parts(desc.input_tensor, desc.output_tensors, regions, desc.axis, "output")
    copy_parts(b, b.reads["input_tensor"], parts, desc.input_tensor.data_type.size_in_bits, is_split=True)


def _parts(
    whole: TensorDesc, tensors: Sequence[TensorDesc], regions: Sequence[Region], axis: int, word: str
) -> list[CopiedTensor]:
    """Tensors that lie one behind the other along an axis of the whole."""
    parts, start, view = [], 0, View.of(whole)
    for number, (tensor, region) in enumerate(zip(tensors, regions, strict=True)):
        size = tensor.sizes[axis]
        parts.append(CopiedTensor(region, View.of(tensor), view.part(axis, start, size), f"{word} {number}"))
        start += size
    return parts


def _copy_window(b: ProgramBuilder, desc: Slice | Slice1, part: View) -> None:
    target = (b.writes["output_tensor"], View.of(desc.output_tensor))
    copy(b, (b.reads["input_tensor"], part), target, desc.output_tensor.data_type.size_in_bits)


@adds_steps(Slice)
def _slice(b: ProgramBuilder, desc: Slice) -> None:
    _copy_window(b, desc, View.of(desc.input_tensor).window(desc.offsets, desc.sizes, desc.strides))


def window_of(desc: Slice1 | SliceGrad, whole: View, sizes: Sequence[int]) -> View:
    """The first elements of a SLICE1's window, so many along each axis, in order."""
    strides = desc.input_window_strides
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, strides, strict=True)
    starts = [offset + (size - 1 if stride < 0 else 0) for offset, size, stride in windows]
    return whole.window(starts, sizes, strides)


@adds_steps(Slice1)
def _slice1(b: ProgramBuilder, desc: Slice1) -> None:
    _copy_window(b, desc, window_of(desc, View.of(desc.input_tensor), desc.output_tensor.sizes))


@adds_steps(SliceGrad)
def _slice_grad(b: ProgramBuilder, desc: SliceGrad) -> None:
    source, whole = View.of(desc.input_gradient_tensor), View.of(desc.output_gradient_tensor)
    bits, region = desc.output_gradient_tensor.data_type.size_in_bits, b.writes["output_gradient_tensor"]
    fill(b, (region, whole), bits, 0, label="zeros")
    copy(b, (b.reads["input_gradient_tensor"], source), (region, window_of(desc, whole, source.sizes)), bits)
