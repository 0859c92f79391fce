"""Kernels: a compiled shader with everything but the buffers that it runs on."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from dmlvk.errors import DeviceLimitError, ShaderLibraryError
from dmlvk.kernels import library, special_values
from dmlvk.spirv.constant_names import Constants, constants_of
from dmlvk.spirv.modules import with_work_group_size

WORK_GROUP_SIZE = 256  # Invocations of a work group, as in ``shaders/patterns``; SwiftShader's limit

WORK_GROUPS_PER_ROW = 65535  # The work-group count per dimension that every Vulkan device has


@dataclasses.dataclass(frozen=True)
class Kernel(ABC):
    variant: str  # name of the shader variant
    work_groups: tuple[int, int, int]  # launch size
    work_group_size: int = dataclasses.field(default=WORK_GROUP_SIZE, kw_only=True)  # invocations of a work group

    def module(self) -> bytes:
        """The shader as it was compiled.

        Raises:
            ShaderLibraryError: it is missing or damaged; or, in a source checkout, cannot be compiled.
        """
        return library.load(self.variant)

    def spirv(self) -> bytes:
        module = self.module()
        return module if self.work_group_size == WORK_GROUP_SIZE else _resized(module, self.work_group_size)

    @abstractmethod
    def specialization(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The specialization constants, from id 0 on, for operands that begin at the given byte offsets."""

    @abstractmethod
    def push_constants(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The push constants for operands that begin at the given byte offsets (multiples of 16) of their buffers."""


@dataclasses.dataclass(frozen=True)
class ElementwiseKernel(Kernel):
    """A kernel that goes through elements in an order: patterns/elementwise/elementwise.glsl, along_axes.glsl."""

    geometry: tuple[int, ...]  # values of the specialization constants that follow from the description
    work_items: int  # how many elements, invocations or tiles there is work for, as the access order counts
    attributes: tuple[int, ...]  # the attribute words of the push constants
    special_attribute: int = dataclasses.field(default=0, kw_only=True)  # what the shader's constant of that name is
    # how many words behind an operand's beginning its first element lies, by operand; empty: none
    first_words: tuple[int, ...] = dataclasses.field(default=(), kw_only=True)

    def module(self) -> bytes:
        """The shader as it was compiled, told of an attribute's special value."""
        return special_values.load(self.variant, self.special_attribute)

    def specialization(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The specialization constants, from id 0 on, for operands that begin at the given byte offsets."""
        return (int(self.work_groups[1] > 1), int(any(base_offsets) or any(self.first_words)), *self.geometry)

    def push_constants(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """How much work there is, where operands begin in words, and the attributes."""
        words = [offset // 4 for offset in base_offsets]
        if self.first_words:
            words = [word + first for word, first in zip(words, self.first_words, strict=True)]
        return (self.work_items, *words, *self.attributes)


@dataclasses.dataclass(frozen=True)
class PlainKernel(Kernel):
    """A kernel whose shader declares its constants and parameters by itself.

    Its push constants are where each operand begins, in words, in the order of the bindings, and the parameters behind.

    Raises:
        ShaderLibraryError: a constant is not given, or the shader has none of a name; or the shader cannot be loaded.
    """

    # the specialization constants by their names in the shader: all but those that follow from the launch,
    # ``LAUNCH_HAS_ROWS`` and ``OPERANDS_HAVE_OFFSETS`` (which is true)
    constants: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    # the words of the push constants behind the operands' places; at most 32 with these
    parameters: tuple[int, ...] = ()
    _values: tuple[int, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", self._in_order(_constants(self.variant)))

    def _in_order(self, known: Constants) -> tuple[int, ...]:
        given = {"LAUNCH_HAS_ROWS": int(self.work_groups[1] > 1), "OPERANDS_HAVE_OFFSETS": 1, **self.constants}
        if unknown := sorted(given.keys() - known.ids.keys() - _FROM_LAUNCH):
            raise ShaderLibraryError(f"{self.variant} has no specialization constant {unknown[0]}")
        if missing := sorted(known.ids.keys() - given.keys()):
            raise ShaderLibraryError(f"{self.variant} is not given its specialization constant {missing[0]}")
        values = [0] * known.count
        for name, number in known.ids.items():
            values[number] = given[name]
        return tuple(values)

    def specialization(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The constants, wherever operands begin."""
        return self._values

    def push_constants(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """Where operands begin in words, and the parameters."""
        return (*(offset // 4 for offset in base_offsets), *(word & 0xFFFFFFFF for word in self.parameters))


_FROM_LAUNCH = frozenset(("LAUNCH_HAS_ROWS", "OPERANDS_HAVE_OFFSETS"))
"""Constants of ``shaders/patterns/buffers.glsl`` that follow from the launch."""


@functools.lru_cache(maxsize=4096)
def _constants(variant: str) -> Constants:
    return constants_of(library.load(variant))


@functools.lru_cache(maxsize=256)
def _resized(module: bytes, work_group_size: int) -> bytes:
    return with_work_group_size(module, work_group_size)


def work_groups(invocations: int, work_group_size: int = WORK_GROUP_SIZE) -> tuple[int, int]:
    """Columns and rows of work groups that have at least so many invocations."""
    groups = -(-invocations // work_group_size)
    if groups <= WORK_GROUPS_PER_ROW:
        return groups, 1
    rows = -(-groups // WORK_GROUPS_PER_ROW)
    return -(-groups // rows), rows


def launch_size(operator_name: str, invocations: int, work_group_size: int = WORK_GROUP_SIZE) -> tuple[int, int, int]:
    """Work groups for a number of invocations, in one or several rows.

    Raises:
        DeviceLimitError: when there are more than Vulkan's guaranteed launch sizes can address.
    """
    columns, rows = work_groups(invocations, work_group_size)
    if rows > WORK_GROUPS_PER_ROW or rows * columns * work_group_size > 2**32:
        raise DeviceLimitError(
            f"{operator_name}: the tensor takes {invocations} invocations; at most {2**32 - 2**16} can be launched"
        )
    return columns, rows, 1
