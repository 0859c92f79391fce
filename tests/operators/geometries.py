"""Ways for tensors to lie in memory: a fixed list, and a Hypothesis strategy for any other."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

Strides = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Geometry:
    name: str  # what is special about it
    sizes: tuple[int, ...]  # of all tensors
    output: Strides  # strides of the output, in elements
    inputs: tuple[Strides, ...]  # strides of the inputs; used again from the first on when there are more inputs
    # byte offsets of the bindings, output first, used again likewise; multiples of 16
    offsets: tuple[int, ...] = (16, 0, 32)
    in_place: bool = False  # whether input and output are one range (their strides are then the output's)

    def input_strides(self, number: int) -> Strides:
        return self.output if self.in_place else self.inputs[number % len(self.inputs)]

    def offset(self, tensor: int) -> int:
        """Binding offset of a tensor, 0 being the output."""
        return self.offsets[tensor % len(self.offsets)]


def packed(sizes: Sequence[int], order: Sequence[int] | None = None) -> Strides:
    """Strides without gaps; ``order`` names the axes from the outermost in memory to the innermost."""
    order = range(len(sizes)) if order is None else order
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides)


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements lie in one place: by enumerating them all."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(size) * stride).reshape(-1)
    return bool(np.unique(offsets).size < offsets.size)


def _contiguous() -> list[Geometry]:
    primes = [2, 3, 5, 7, 11, 13, 31, 61, 127, 509, 1021, 4093]
    edges = [power + step for power in (4, 8, 16, 32, 64, 256, 1024, 4096) for step in (-1, 0, 1)]
    lengths = sorted({1, *primes, *edges})
    made = [Geometry(f"{length} packed", (length,), (1,), ((1,),)) for length in lengths]
    for count in range(2, 9):
        sizes = (2,) * (count - 1) + (5,)
        made.append(Geometry(f"{count} dimensions packed", sizes, packed(sizes), (packed(sizes),)))
    sizes = (2, 3, 4, 5)
    nhwc = packed(sizes, (0, 2, 3, 1))
    made.append(Geometry("all NHWC", sizes, nhwc, (nhwc,)))
    made.append(Geometry("at the start of their buffers", (37,), (1,), ((1,),), offsets=(0,)))
    made.append(Geometry("far into their buffers", (37,), (1,), ((1,),), offsets=(4096, 256, 1008, 16)))
    made.append(Geometry("in place", (100,), (1,), (), in_place=True))
    return made


def _broadcast() -> list[Geometry]:
    sizes = (3, 5, 7)
    rows = packed(sizes)
    made = [Geometry("all inputs one element", sizes, rows, ((0, 0, 0),))]
    made.append(Geometry("first input one element", sizes, rows, ((0, 0, 0), rows, rows)))
    made.append(Geometry("second input one element", sizes, rows, (rows, (0, 0, 0), rows)))
    made.append(Geometry("third input one element", sizes, rows, (rows, rows, (0, 0, 0))))
    for axis in range(3):
        other = tuple(size for i, size in enumerate(sizes) if i != axis)
        kept = iter(packed(other))
        strides = tuple(0 if i == axis else next(kept) for i in range(3))
        made.append(Geometry(f"inputs broadcast along axis {axis}", sizes, rows, (strides, rows)))
    made.append(Geometry("inputs broadcast along different axes", (4, 6), (6, 1), ((0, 1), (1, 0), (0, 0))))
    made.append(Geometry("a row broadcast over many", (300, 3), (3, 1), ((0, 1), (3, 1))))
    made.append(Geometry("bias of 4-D", (2, 3, 4, 5), packed((2, 3, 4, 5)), (packed((2, 3, 4, 5)), (0, 1, 0, 0))))
    made.append(Geometry("sliding window", (5, 4), (4, 1), ((1, 1), (2, 1))))
    return made


def _permuted() -> list[Geometry]:
    made = []
    for rows, columns in ((2, 3), (5, 7), (16, 16), (33, 17), (4, 129)):
        straight, turned = (columns, 1), (1, rows)
        made.append(Geometry(f"{rows}x{columns} input transposed", (rows, columns), straight, (turned, straight)))
        made.append(Geometry(f"{rows}x{columns} output transposed", (rows, columns), turned, (straight, turned)))
    sizes = (2, 3, 4, 5)
    nchw, nhwc = packed(sizes), packed(sizes, (0, 2, 3, 1))
    made.append(Geometry("NHWC to NCHW", sizes, nchw, (nhwc, nchw)))
    made.append(Geometry("NCHW to NHWC", sizes, nhwc, (nchw, nhwc)))
    for order in itertools.islice(itertools.permutations(range(3)), 1, None):
        made.append(Geometry(f"axes {order}", (3, 4, 5), packed((3, 4, 5), order), (packed((3, 4, 5)),)))
    eight = (2, 2, 3, 2, 2, 3, 2, 2)
    backwards = packed(eight, tuple(reversed(range(8))))
    made.append(Geometry("8 axes reversed", eight, backwards, (packed(eight), backwards)))
    mixed = packed(eight, (3, 0, 7, 5, 1, 6, 2, 4))
    made.append(Geometry("8 axes shuffled", eight, mixed, (backwards, packed(eight))))
    return made


def _with_gaps() -> list[Geometry]:
    made = []
    for gap in (1, 2, 3, 4, 9):
        strides = (7 + gap, 1)
        made.append(Geometry(f"output rows of 7 with gaps of {gap}", (6, 7), strides, ((7, 1), strides)))
        made.append(Geometry(f"input rows of 7 with gaps of {gap}", (6, 7), (7, 1), (strides, (7, 1))))
        made.append(Geometry(f"rows of 7 with gaps of {gap} in place", (6, 7), strides, (), in_place=True))
    for length in (1, 2, 3, 4, 5, 8, 9):  # rows that begin and end inside words
        made.append(Geometry(f"packed rows of {length}, input turned", (9, length), (length, 1), ((1, 9),)))
    for step in (2, 3, 4, 5):
        made.append(Geometry(f"every {step}th element", (41,), (step,), ((1,), (step,))))
        made.append(Geometry(f"every {step}th element of the input", (41,), (1,), ((step,), (1,))))
        made.append(Geometry(f"every {step}th element in place", (41,), (step,), (), in_place=True))
    made.append(Geometry("interleaved rows", (2, 3), (3, 2), ((3, 1),)))
    made.append(Geometry("interleaved rows in place", (2, 3), (3, 2), (), in_place=True))
    made.append(Geometry("interleaved, 3 axes", (3, 2, 4), (2, 7, 18), ((8, 4, 1), (2, 7, 18))))
    made.append(Geometry("halves woven together", (2, 50), (1, 2), ((50, 1),)))
    made.append(
        Geometry("strange strides along axes of 1", (1, 5, 1, 3), (1000, 3, 77, 1), ((9, 3, 0, 1), (0, 1, 5, 8)))
    )
    made.append(Geometry("one element with strange strides", (1, 1), (500, 3), ((0, 7),)))
    made.append(Geometry("gaps, offsets", (3, 11), (13, 1), ((11, 1), (1, 3)), offsets=(208, 64, 16, 512)))
    return made


def _transposed() -> list[Geometry]:
    """With neighbours along another axis than the output has them, in whole tiles and in parts of tiles."""
    made = []
    for rows, columns in ((64, 96), (100, 72), (70, 81)):
        straight, turned = (columns, 1), (1, rows)
        aligned = -(-columns // 16) * 16 + 16
        name = f"{rows}x{columns} turned"
        made.append(Geometry(f"{name}, beside straight ones", (rows, columns), straight, (turned, straight)))
        made.append(Geometry(f"{name}, beside a row and a column", (rows, columns), straight, (turned, (0, 1), (1, 0))))
        made.append(Geometry(f"{name}, with gaps", (rows, columns), (aligned, 1), ((1, rows + 8), (aligned + 16, 1))))
        made.append(Geometry(f"{name}, all", (rows, columns), straight, (turned,)))
    sizes = (2, 16, 4, 24)
    nchw, nhwc = packed(sizes), packed(sizes, (0, 2, 3, 1))
    made.append(Geometry("NHWC to NCHW beside NCHW", sizes, nchw, (nhwc, nchw, nchw)))
    made.append(Geometry("NCHW to NHWC beside NHWC", sizes, nhwc, (nhwc, nchw, nhwc)))
    return made


def _listed() -> list[Geometry]:
    made = [*_contiguous(), *_broadcast(), *_permuted(), *_with_gaps(), *_transposed()]
    # Every third one without offsets: kernels need not add any then.
    return [dataclasses.replace(g, offsets=(0,)) if i % 3 == 0 else g for i, g in enumerate(made)]


FIXED = tuple(_listed())  # Geometries that every operator is tested with

TRANSPOSED = tuple(_transposed())
"""Those of them in which an input has its neighbours along another axis than the output."""

REPEATED = (
    Geometry("one element everywhere", (6, 64), (64, 1), ((0, 0),)),
    Geometry("one row everywhere", (12, 64), (64, 1), ((0, 1),)),
    Geometry("one column everywhere", (5, 96), (96, 1), ((1, 0),)),
    Geometry("one row everywhere, with gaps", (7, 64), (80, 1), ((0, 1),)),
    Geometry("a middle axis", (3, 10, 64), (640, 64, 1), ((64, 0, 1),), offsets=(0,)),
    Geometry("the middle axis of one input only", (3, 10, 64), (640, 64, 1), ((64, 0, 1), (640, 64, 1))),
)
"""Geometries in which a result is the same along an axis, and some that only look like it."""


@st.composite
def _output_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> Strides:
    """Strides without overlaps: nested in any order with any gaps, or small numbers that happen to fit."""
    if draw(st.booleans()):
        strides = draw(st.tuples(*[st.integers(0, 14) for _ in sizes]))
        if not overlaps(sizes, strides):
            return strides
    made = [0] * len(sizes)
    extent = 1
    for axis in draw(st.permutations(range(len(sizes)))):
        made[axis] = extent + draw(st.sampled_from((0, 0, 0, 1, 2, 3, 5)))
        extent += (sizes[axis] - 1) * made[axis]
    return tuple(made)


def _input_strides(sizes: tuple[int, ...]) -> st.SearchStrategy[Strides]:
    """Any strides at all: packed in any order, with axes broadcast, or small numbers, which overlap."""
    permuted = st.permutations(range(len(sizes))).map(lambda order: packed(sizes, order))
    masks = st.tuples(*[st.booleans() for _ in sizes])
    broadcast = st.tuples(permuted, masks).map(
        lambda both: tuple(stride * kept for stride, kept in zip(both[0], both[1], strict=True))
    )
    small = st.tuples(*[st.integers(0, 9) for _ in sizes])
    return st.one_of(st.just(packed(sizes)), permuted, broadcast, small)


@st.composite
def geometries(draw: st.DrawFn, may_be_in_place: bool) -> Geometry:
    """Any geometry of up to 8 dimensions and some 600 elements."""
    sizes = draw(st.lists(st.sampled_from((1, 2, 2, 3, 4, 5, 7, 8, 13, 33)), min_size=1, max_size=8).map(tuple))
    while math.prod(sizes) > 600:
        sizes = tuple(max(1, size // 2) for size in sizes)
    output = draw(_output_strides(sizes))
    inputs = tuple(draw(_input_strides(sizes)) for _ in range(3))
    if draw(st.booleans()):
        inputs = (inputs[0], output, inputs[2])
    offsets = (0,) if draw(st.booleans()) else tuple(16 * draw(st.integers(0, 9)) for _ in range(4))
    return Geometry("random", sizes, output, inputs, offsets, may_be_in_place and draw(st.booleans()))
