"""Tensor descriptions (DML_BUFFER_TENSOR_DESC): sizes, strides, byte sizes, alignment and flags."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING

from dmlvk.datatypes import DataType, DataTypeLike, checked_data_type
from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.integers import UINT64_MAX, checked_integer

MAXIMUM_DIMENSION_COUNT = 8
"""DML_TENSOR_DIMENSION_COUNT_MAX1."""

MINIMUM_BUFFER_TENSOR_ALIGNMENT = 16
"""DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT, in bytes: what every binding offset is a multiple of."""

_UINT32_MAX = 2**32 - 1


class TensorFlags(enum.IntFlag):
    """DML_TENSOR_FLAGS."""

    NONE = 0
    OWNED_BY_DML = 1


def _integer(value: object, member: str, lowest: int, highest: int) -> int:
    """``value`` as a Python int within [lowest, highest]; anything else is refused by the member's name."""
    return checked_integer(value, f"TensorDesc: {member}", lowest, highest)


def _integers(values: object, member: str, lowest: int) -> tuple[int, ...]:
    try:
        iterator = iter(values)  # type: ignore[call-overload]  # anything iterable is welcome; the rest is refused here
    except TypeError:
        raise InvalidArgumentError(f"TensorDesc: {member} must be a sequence of integers; got {values!r}") from None
    # What has no length may have no end either: one more than is allowed is enough to refuse it.
    items = iterator if isinstance(values, Sized) else itertools.islice(iterator, MAXIMUM_DIMENSION_COUNT + 1)
    return tuple(_integer(item, f"{member}[{i}]", lowest, _UINT32_MAX) for i, item in enumerate(items))


@dataclasses.dataclass(frozen=True)
class TensorDesc:
    """Describes a tensor in a buffer (DML_BUFFER_TENSOR_DESC).

    Args:
        data_type: type of the elements, by DirectML's or NumPy's name, too (``numpy.float32``); UNKNOWN is invalid.
        sizes: elements along each of 1 to 8 dimensions, outermost first; each at least 1 (there are no empty tensors).
        strides: distance, in elements, between neighbours along each dimension; 0 broadcasts. ``None``: packed.
        total_tensor_size_in_bytes: bytes that the tensor occupies, at least the size implied by sizes and strides,
            rounded up to 4. ``None``: exactly that.
        guaranteed_base_offset_alignment: bytes; 0 promises nothing, otherwise a power of two, at least the element
            size, of which every binding offset of this tensor must be a multiple.
        flags: OWNED_BY_DML or NONE.

    Raises:
        InvalidArgumentError: when a member breaks a rule.
    """

    data_type: DataType
    sizes: Sequence[int]
    strides: Sequence[int] | None = None
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0
    flags: TensorFlags = TensorFlags.NONE

    if TYPE_CHECKING:  # what data types are made of

        def __init__(
            self,
            data_type: DataTypeLike,
            sizes: Sequence[int],
            strides: Sequence[int] | None = None,
            total_tensor_size_in_bytes: int | None = None,
            guaranteed_base_offset_alignment: int = 0,
            flags: TensorFlags = TensorFlags.NONE,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check_data_type()
        sizes = _integers(self.sizes, "Sizes", 1)
        if not 1 <= len(sizes) <= MAXIMUM_DIMENSION_COUNT:
            raise InvalidArgumentError(
                f"TensorDesc: DimensionCount must be from 1 to {MAXIMUM_DIMENSION_COUNT}; got {len(sizes)}"
            )
        object.__setattr__(self, "sizes", sizes)
        if self.strides is not None:
            strides = _integers(self.strides, "Strides", 0)
            if len(strides) != len(sizes):
                raise InvalidArgumentError(
                    f"TensorDesc: Strides must have as many entries as Sizes {list(sizes)}; got {list(strides)}"
                )
            object.__setattr__(self, "strides", strides)
        self._check_element_count()
        self._check_total_size()
        self._check_alignment()
        try:
            object.__setattr__(self, "flags", TensorFlags(_integer(self.flags, "Flags", 0, 1)))
        except ValueError as error:
            raise InvalidArgumentError(f"TensorDesc: Flags must be NONE or OWNED_BY_DML; got {self.flags!r}") from error

    def _check_data_type(self) -> None:
        object.__setattr__(self, "data_type", checked_data_type(self.data_type, "TensorDesc: DataType"))
        if self.data_type is DataType.UNKNOWN:
            raise InvalidArgumentError("TensorDesc: DataType UNKNOWN is never valid")

    def _check_element_count(self) -> None:
        count, span = math.prod(self.sizes), self.span_in_elements
        if max(count, span) > _UINT32_MAX:
            raise InvalidArgumentError(
                f"TensorDesc: a tensor may hold at most {_UINT32_MAX} elements; "
                f"Sizes {list(self.sizes)} with Strides {list(self.element_strides)} make {max(count, span)}"
            )

    def _check_total_size(self) -> None:
        minimum = self.minimum_size_in_bytes
        if self.total_tensor_size_in_bytes is None:
            object.__setattr__(self, "total_tensor_size_in_bytes", minimum)
            return
        total = _integer(self.total_tensor_size_in_bytes, "TotalTensorSizeInBytes", 0, UINT64_MAX)
        if total < minimum:
            raise InvalidArgumentError(
                f"TensorDesc: TotalTensorSizeInBytes must be at least {minimum} for Sizes {list(self.sizes)}, "
                f"Strides {list(self.element_strides)} and {self.data_type.name}; got {total}"
            )
        object.__setattr__(self, "total_tensor_size_in_bytes", total)

    def _check_alignment(self) -> None:
        alignment = _integer(self.guaranteed_base_offset_alignment, "GuaranteedBaseOffsetAlignment", 0, _UINT32_MAX)
        if alignment & (alignment - 1) or 0 < alignment * 8 < self.data_type.size_in_bits:
            raise InvalidArgumentError(
                "TensorDesc: GuaranteedBaseOffsetAlignment must be 0 or a power of two that is at least the element "
                f"size ({self.data_type.size_in_bits // 8} bytes for {self.data_type.name}); got {alignment}"
            )
        object.__setattr__(self, "guaranteed_base_offset_alignment", alignment)

    @functools.cached_property  # operators ask once for each tensor
    def is_dynamic(self) -> bool:
        """Whether a number of it follows from open sizes."""
        return is_dynamic((self.sizes, self.strides, self.total_tensor_size_in_bytes))

    @property
    def dimension_count(self) -> int:
        """Number of dimensions, 1 to 8."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """Number of logical elements: the product of the sizes."""
        return math.prod(self.sizes)

    @functools.cached_property  # runs ask at each input
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements, the packed ones where none were given."""
        return packed_strides(self.sizes) if self.strides is None else tuple(self.strides)

    @property
    def span_in_elements(self) -> int:
        """Elements from the first to the last one in memory, both included."""
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.element_strides, strict=True))

    @property
    def minimum_size_in_bytes(self) -> int:
        """DirectML's MinimumImpliedSizeInBytes: the span in bytes, rounded up to a multiple of 4."""
        span_in_bytes = (self.span_in_elements * self.data_type.size_in_bits + 7) // 8
        return (span_in_bytes + 3) & ~3

    @property
    def size_in_bytes(self) -> int:
        """TotalTensorSizeInBytes, as given or implied."""
        assert self.total_tensor_size_in_bytes is not None  # set by __post_init__
        return self.total_tensor_size_in_bytes

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie in row-major order without gaps; strides of dimensions of size 1 do not matter."""
        return all(
            size == 1 or stride == packed
            for size, stride, packed in zip(self.sizes, self.element_strides, packed_strides(self.sizes), strict=True)
        )

    @functools.cached_property
    def binding_alignment(self) -> int:
        """Bytes of which a binding offset of this tensor must be a multiple."""
        return max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, self.guaranteed_base_offset_alignment)


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements, of a tensor without gaps."""
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_sizes(*shapes: Sequence[int]) -> tuple[int, ...] | None:
    """The sizes that several shapes broadcast to, as NumPy does it; ``None``: there are none."""
    rank = max(map(len, shapes), default=0)
    sizes = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size == 1:
                continue
            if sizes[axis] == 1:
                sizes[axis] = size
            elif size != sizes[axis]:
                return None
    return tuple(sizes)


def reshaped_strides(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Strides by which the same elements have another shape, in the same order; ``None`` where no strides can say it.

    Both shapes are cut into the shortest stretches of axes with equally many elements; a stretch keeps its memory if
    its old axes lie evenly behind one another.

    Args:
        sizes: the shape.
        strides: in any unit.
        wanted: the new shape, of as many elements.
    """
    old = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    made: list[int] = []
    first = 0  # the first old axis that is not used up
    position = 0
    while position < len(wanted):
        if wanted[position] == 1:
            made.append(old[first][0] * old[first][1] if first < len(old) else 1)
            position += 1
            continue
        end, inside, last, wanted_inside = first + 1, old[first][0], position + 1, wanted[position]
        while inside != wanted_inside:
            if wanted_inside < inside:
                wanted_inside *= wanted[last]
                last += 1
            else:
                inside *= old[end][0]
                end += 1
        stretch = old[first:end]
        if any(stride != size * step for (_, stride), (size, step) in itertools.pairwise(stretch)):
            return None
        made += [step * stretch[-1][1] for step in packed_strides(wanted[position:last])]
        first, position = end, last
    return tuple(made)


_OVERLAP_SEARCH_STEPS = 200_000


def elements_overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two different coordinates of a tensor lie on the same element.

    Two coordinates share an element when the difference d of their indices, with |d[i]| < sizes[i], is not all zero and
    ``sum(d[i] * strides[i]) == 0``: a bounded linear Diophantine equation. It is searched with the largest stride
    first, where few values of d can be balanced by the rest.

    Raises:
        InvalidArgumentError: when the search takes too long to be sure (contrived strides only).
    """
    axes = sorted(((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1), reverse=True)
    if any(stride == 0 for stride, _ in axes):
        return True
    reach = [0] * (len(axes) + 1)  # reach[i]: the largest sum that the axes from i on can make
    for i in range(len(axes) - 1, -1, -1):
        stride, size = axes[i]
        reach[i] = reach[i + 1] + (size - 1) * stride
    if all(axes[i][0] > reach[i + 1] for i in range(len(axes))):
        return False  # each stride steps over all that lies inside it: the usual case
    divisor = [0] * (len(axes) + 1)  # divisor[i]: what every such sum is a multiple of
    for i in range(len(axes) - 1, -1, -1):
        divisor[i] = math.gcd(divisor[i + 1], axes[i][0])

    steps = 0

    def balanced(i: int, remainder: int, any_difference: bool) -> bool:
        """Whether the axes from ``i`` on can make ``-remainder``, not all differences being zero."""
        nonlocal steps
        steps += 1
        if steps > _OVERLAP_SEARCH_STEPS:
            raise InvalidArgumentError(
                f"TensorDesc: cannot tell whether elements overlap for Sizes {list(sizes)} and Strides {list(strides)}"
            )
        if i == len(axes):
            return remainder == 0 and any_difference
        if abs(remainder) > reach[i] or (divisor[i] and remainder % divisor[i]):
            return False
        stride, size = axes[i]
        lowest = max(-(size - 1), -((remainder + reach[i + 1]) // stride))
        highest = min(size - 1, (reach[i + 1] - remainder) // stride)
        # The equation is symmetric, so the first axis that differs may be taken to differ upwards.
        start = max(lowest, 0) if not any_difference else lowest
        return any(
            balanced(i + 1, remainder + difference * stride, any_difference or difference != 0)
            for difference in range(start, highest + 1)
        )

    return balanced(0, 0, False)
