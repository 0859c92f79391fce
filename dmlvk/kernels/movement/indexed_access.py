"""How kernels go through elements that indices move: the plan behind ``shaders/patterns/movement/indexed.glsl``.

One operand is gone through element by element, the dense one (the output of what gathers); the place of each element in
another one, the sparse one, follows from indices.
"""

from __future__ import annotations

import dataclasses
import math

from dmlvk.datatypes import DataType
from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.layout import fold, fold_in_order
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

UNITS = (128, 64, 32, 16, 8)  # Bits that are moved at once, the most first


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis along which all operands lie."""

    size: int  # elements
    dense: int  # the stride of the operand that is gone through, in elements, as all that follow
    index: int  # that of the indices
    sparse: int  # that of the operand into which the indices point
    position: int = 0  # 1 on the axis whose coordinates the operator compares with indices, else 0


@dataclasses.dataclass(frozen=True)
class IndexedAccess:
    """How elements are gone through, and where indices lead."""

    axes: tuple[Axis, ...]  # the axes, outermost first
    # for each index of an element, how many places it chooses from, and their stride in the sparse operand
    choices: tuple[tuple[int, int], ...]
    index_step: int = 0  # how far apart the indices of an element lie, in elements

    @property
    def elements(self) -> int:
        """Elements of the dense operand."""
        return math.prod(axis.size for axis in self.axes)

    def folded(self, *, keep_order: bool = False) -> IndexedAccess:
        """The same with as few axes as possible, ordered as the dense operand lies in memory, or as they are."""
        sizes = [axis.size for axis in self.axes]
        operands = [
            [getattr(axis, operand) for axis in self.axes] for operand in ("index", "sparse", "position", "dense")
        ]
        layout = fold_in_order(sizes, operands) if keep_order else fold(sizes, operands)
        index, sparse, position, dense = layout.strides
        inwards = zip(layout.sizes, dense, index, sparse, position, strict=True)
        return dataclasses.replace(self, axes=tuple(Axis(*each) for each in reversed(list(inwards))))

    def in_units(self, bits: int, *, moves_position: bool = False) -> tuple[int, IndexedAccess]:
        """The widest unit that moves elements of so many bits together, and the access order through these, once
        folded.

        Elements move together that are neighbours in all operands and have the same indices.

        Args:
            moves_position: whether positions count elements of a further operand, which are moved, too.
        """
        if not self.axes:
            return bits, self
        *others, last = self.axes
        if (last.dense, last.sparse, last.index, last.position) != (1, 1, 0, int(moves_position)):
            return bits, self
        moved = ("dense", "sparse", "position") if moves_position else ("dense", "sparse")
        strides = [getattr(axis, operand) for axis in others for operand in moved]
        numbers = (last.size, *strides, *(stride for _, stride in self.choices))
        unit = next(unit for unit in UNITS if unit <= bits or not any(number % (unit // bits) for number in numbers))
        if unit <= bits:
            return bits, self
        count = unit // bits
        axes = [
            dataclasses.replace(axis, **{operand: getattr(axis, operand) // count for operand in moved})
            for axis in others
        ]
        if last.size > count:
            axes.append(dataclasses.replace(last, size=last.size // count))
        choices = tuple((size, stride // count) for size, stride in self.choices)
        return unit, dataclasses.replace(self, axes=tuple(axes), choices=choices)

    @property
    def is_packed(self) -> bool:
        """Whether the dense operand's elements are neighbours in the order of the axes, once folded."""
        expected = 1
        for axis in reversed(self.axes):
            if axis.dense != expected:
                return False
            expected *= axis.size
        return True


_INDEX_PAIRS = (DataType.INT64, DataType.UINT64)
_SIGNED_INDICES = (DataType.INT64, DataType.INT32)


def variant_name(operation: str, unit: int) -> str:
    """The name of the variant that moves so many bits at once."""
    return f"{operation}.{unit}bits"


MANY_LANES = 16
"""Units of 32 bits that an invocation moves of a large tensor: a work group then finds more in the cache."""

_FEWEST_ELEMENTS_OF_MANY = 2**22


def lanes(unit: int) -> int:
    """Units that an invocation moves: fewer of wide ones, of which more bytes are under way already."""
    return 2 if unit >= 64 else 4


def variant_of(operation: str, unit: int, *, folder: str = "indexed", has_many: bool = False) -> ShaderVariant:
    """The variant that :func:`variant_name` names; that for many units has a name of its own."""
    defines = (("LANES", str(MANY_LANES if has_many else lanes(unit))), ("UNIT_BITS", str(unit)))
    name = variant_name(operation, unit) + ".many" * has_many
    return ShaderVariant(name, f"{folder}/{operation}.comp", defines)


def takes_many(access: IndexedAccess, unit: int, target: Target) -> bool:
    """Whether invocations shall move many units: of a large tensor whose neighbours have indices of their own."""
    has_own_indices = bool(access.axes) and access.axes[-1].index > 0
    return not target.is_cpu and unit == 32 and has_own_indices and access.elements >= _FEWEST_ELEMENTS_OF_MANY


def kernel_of(
    operation: str, access: IndexedAccess, unit: int, index_type: DataType, *, has_many: bool = False
) -> PlainKernel:
    """The kernel that goes through all elements of the dense operand.

    Args:
        access: folded, in units.
        unit: bits that are moved at once.
        has_many: whether an invocation moves many units; the shader has a variant for it.

    Raises:
        DeviceLimitError: when there are more elements than can be launched.
    """
    is_packed = unit < 32 and access.is_packed
    items = -(-access.elements // (32 // unit)) if is_packed else access.elements
    groups = launch_size(operation.upper(), -(-items // (MANY_LANES if has_many else lanes(unit))))
    return PlainKernel(
        variant=variant_name(operation, unit) + ".many" * has_many,
        work_groups=groups,
        constants=_geometry(access, index_type, is_packed=is_packed),
        parameters=(access.elements,),
    )


def _geometry(access: IndexedAccess, index_type: DataType, *, is_packed: bool) -> dict[str, int]:
    """The specialization constants of shaders/patterns/movement/indexed.glsl."""
    axes = list(reversed(access.axes))
    strides = {
        "dense": [axis.dense for axis in axes],
        "index": [axis.index for axis in axes],
        "sparse": [axis.sparse for axis in axes],
        "position": [axis.position for axis in axes],
    }
    missing = MAXIMUM_DIMENSION_COUNT - len(access.choices)
    return {
        **constants.axes([axis.size for axis in axes], strides, is_packed=is_packed),
        **constants.numbered("CHOICES", [*(size for size, _ in access.choices), *[1] * missing]),
        **constants.numbered("CHOICE_STRIDE", [*(stride for _, stride in access.choices), *[0] * missing]),
        "INDICES": len(access.choices),
        "INDEX_STEP": access.index_step,
        "INDEX_IS_PAIR": int(index_type in _INDEX_PAIRS),
        "INDEX_IS_SIGNED": int(index_type in _SIGNED_INDICES),
    }
