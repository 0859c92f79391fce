"""The plan of padding with a constant in one go: shaders/patterns/movement/padded.comp."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.indexed_access import UNITS, lanes, variant_name, variant_of
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.kernels.views import View
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

_PADDED = "padded"


@shader_variants
def variants() -> Iterable[ShaderVariant]:
    for unit in UNITS:
        variant = variant_of(_PADDED, unit, folder="patterns/movement")
        yield variant
        if unit <= 32:
            defines = (("LANES", "4"), ("UNIT_BITS", str(unit)), ("VECTORS", "1"))
            yield dataclasses.replace(variant, name=_of_vectors(unit), defines=defines)


def _of_vectors(unit: int) -> str:
    return variant_name(_PADDED, unit) + ".vectors"


@dataclasses.dataclass(frozen=True)
class _PaddedAxis:
    size: int  # elements
    dense: int  # the target's stride in elements
    sparse: int  # the source's
    start: int  # where the source begins
    length: int  # elements of the source

    @property
    def is_padded(self) -> bool:
        return self.size != self.length

    def around(self, inner: _PaddedAxis) -> _PaddedAxis | None:
        """This axis and the one inside it as one; ``None``: they are none."""
        is_next = self.dense == inner.dense * inner.size and self.sparse == inner.sparse * inner.length
        if inner.is_padded or not is_next:
            return None
        size = inner.size
        return _PaddedAxis(self.size * size, inner.dense, inner.sparse, self.start * size, self.length * size)

    def in_units(self, count: int, *, is_innermost: bool) -> _PaddedAxis:
        if not is_innermost:
            return dataclasses.replace(self, dense=self.dense // count, sparse=self.sparse // count)
        return _PaddedAxis(self.size // count, 1, 1, self.start // count, self.length // count)


def padded(
    operator_name: str, source: View, target: View, starts: Sequence[int], value: Sequence[int], bits: int
) -> PlainKernel | None:
    """The kernel that writes a whole target: the source in its middle, a value around it.

    Args:
        target: all elements of the output, without overlaps.
        starts: where the source begins along each axis.
        value: as many copies of the value as fill four words.

    Returns:
        ``None`` where elements narrower than a word do not lie side by side in the target.
    """
    axes = _folded(source, target, starts)
    unit = _unit(axes, bits)
    if unit > bits:
        axes = [axis.in_units(unit // bits, is_innermost=number == 0) for number, axis in enumerate(axes)]
    elements = math.prod(axis.size for axis in axes)
    is_packed = all(axis.dense == math.prod(inner.size for inner in axes[:number]) for number, axis in enumerate(axes))
    if unit < 32 and not is_packed:
        return None
    # Where a vector of the target lies in two rows at most, its place is found once for all of its units.
    has_vectors = unit <= 32 and is_packed and bool(axes) and axes[0].size >= 128 // unit
    items = -(-elements // (32 // unit)) if unit < 32 else elements
    invocations = -(-elements // (128 // unit)) if has_vectors else -(-items // lanes(unit))
    groups = launch_size(operator_name, invocations)
    missing = MAXIMUM_DIMENSION_COUNT - len(axes)
    strides = {"dense": [axis.dense for axis in axes], "sparse": [axis.sparse for axis in axes]}
    return PlainKernel(
        variant=_of_vectors(unit) if has_vectors else variant_name(_PADDED, unit),
        work_groups=groups,
        constants={
            **constants.axes([axis.size for axis in axes], strides, is_packed=unit < 32),
            **constants.numbered("START", [*(axis.start for axis in axes), *[0] * missing]),
            **constants.numbered("LENGTH", [*(axis.length for axis in axes), *[1] * missing]),
        },
        parameters=(elements, *value),
    )


def _folded(source: View, target: View, starts: Sequence[int]) -> list[_PaddedAxis]:
    """As few axes as possible, the target's innermost first."""
    axes = [
        _PaddedAxis(*each)
        for each in zip(target.sizes, target.strides, source.strides, starts, source.sizes, strict=True)
        if each[0] > 1
    ]
    folded: list[_PaddedAxis] = []
    for axis in sorted(axes, key=lambda axis: axis.dense):
        merged = axis.around(folded[-1]) if folded else None
        if merged is None:
            folded.append(axis)
        else:
            folded[-1] = merged
    return folded


def _unit(axes: Sequence[_PaddedAxis], bits: int) -> int:
    """The widest unit of which source, target and padding are made."""
    if not axes or (axes[0].dense, axes[0].sparse) != (1, 1):
        return bits
    inner = axes[0]
    outer = [stride for axis in axes[1:] for stride in (axis.dense, axis.sparse)]
    numbers = (inner.size, inner.start, inner.length, *outer)
    return next(unit for unit in UNITS if unit <= bits or not any(number % (unit // bits) for number in numbers))
