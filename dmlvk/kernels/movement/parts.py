"""Copies between several tensors and one that has them side by side: JOIN and SPLIT.

On GPUs one launch serves up to four of them, where all are made of whole vectors: patterns/movement/parts.comp. What
begins a launch, and what its last work groups leave idle, is there once then.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import SMALL_IN_BYTES, WIDTHS, FoldedCopy, copy, fold_copy
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.kernels.views import View

_PARTS = (2, 3, 4)  # How many tensors a launch may have beside the one that has all of them


@dataclasses.dataclass(frozen=True)
class CopiedTensor:
    region: Region  # where the tensor lies
    own: View  # all of its elements
    in_whole: View  # the elements of the whole that they are
    label: str  # what copying it is called, for people


@dataclasses.dataclass(frozen=True)
class _VectorRows:
    """A part as rows of neighbouring vectors; all numbers count vectors."""

    rows: int  # how many
    width: int  # of a row
    step: int  # from row to row of the tensor
    whole_step: int  # from row to row of the whole
    first: int  # where the first row begins in the whole


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for count in _PARTS:
        for is_split in (False, True):
            defines = [("PARTS", str(count))] + [("SPLIT", "1")] * is_split
            yield ShaderVariant(_variant_name(count, is_split), "patterns/movement/parts.comp", tuple(defines))


def _variant_name(count: int, is_split: bool) -> str:
    return f"parts.{'split' if is_split else 'join'}{count}"


def copy_parts(
    builder: ProgramBuilder, whole: Region, parts: Sequence[CopiedTensor], bits: int, *, is_split: bool
) -> None:
    """Adds the launches that copy all parts into the whole, or from it.

    Args:
        whole: the tensor that has all parts, one behind the other along an axis.
        bits: of an element: 8, 16, 32 or 64.
        is_split: whether they come from the whole.
    """
    most = max((count for count in _PARTS if count < builder.target.buffers), default=1)
    for start in range(0, len(parts), most):
        some = parts[start : start + most]
        kernel = _kernel(builder, some, bits, is_split)
        if kernel is None:
            for part in some:
                _copy_part(builder, whole, part, bits, is_split)
            continue
        regions = [part.region for part in some]
        reads, writes = ([whole], regions) if is_split else (regions, [whole])
        builder.launch(kernel, reads, writes, label=f"{some[0].label} to {some[-1].label}", is_independent=True)


def _copy_part(builder: ProgramBuilder, whole: Region, part: CopiedTensor, bits: int, is_split: bool) -> None:
    source, target = (part.region, part.own), (whole, part.in_whole)
    if is_split:
        source, target = target, source
    copy(builder, source, target, bits, label=part.label, is_independent=True)


def _kernel(builder: ProgramBuilder, parts: Sequence[CopiedTensor], bits: int, is_split: bool) -> PlainKernel | None:
    """One kernel for all of them; ``None``: where each has its own, it is as fast, or they are not made of vectors."""
    if builder.target.is_cpu or len(parts) not in _PARTS:
        return None
    if sum(math.prod(part.own.sizes) for part in parts) * bits <= 8 * SMALL_IN_BYTES:
        return None
    folded = [_rows(part, bits, is_split) for part in parts]
    found = [rows for rows in folded if rows is not None]
    if len(found) < len(parts) or len({(rows.rows, rows.whole_step) for rows in found}) > 1:
        return None
    first, starts, width = found[0], [], 0
    for rows in found:
        if rows.first != first.first + width:
            return None
        starts.append(width)
        width += rows.width
    items = first.rows * width
    groups = launch_size(builder.operator_name, items)
    return PlainKernel(
        variant=_variant_name(len(parts), is_split),
        work_groups=groups,
        constants={
            "WIDTH": width,
            "STEP": first.whole_step,
            **constants.numbered("START", starts),
            **constants.numbered("STEP", [rows.step for rows in found]),
        },
        parameters=(items, first.first),
    )


def _rows(part: CopiedTensor, bits: int, is_split: bool) -> _VectorRows | None:
    """The part as rows of vectors; ``None``: it is none."""
    source, target = (part.in_whole, part.own) if is_split else (part.own, part.in_whole)
    folded = fold_copy(source, target, bits)
    sizes, steps = folded.sizes, _steps(folded, is_split)
    if not steps or steps[0] != (1, 1):  # a single vector for a row
        sizes, steps = (1, *sizes), [(1, 1), *steps]
    first_own, first = folded.first_source, folded.first_target
    if is_split:
        first_own, first = first, first_own
    if folded.bits != WIDTHS[-1] or len(sizes) > 2 or first_own:
        return None
    step, whole_step = steps[1] if len(sizes) > 1 else (0, 0)
    if min(step, whole_step) < 0:
        return None
    return _VectorRows(sizes[1] if len(sizes) > 1 else 1, sizes[0], step, whole_step, first)


def _steps(folded: FoldedCopy, is_split: bool) -> list[tuple[int, int]]:
    """The strides along each axis, of the part and of the whole."""
    operands = (folded.target, folded.source) if is_split else (folded.source, folded.target)
    return list(zip(*operands, strict=True))
