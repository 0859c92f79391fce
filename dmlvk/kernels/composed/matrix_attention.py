"""Attention by matrices that subgroups hold together, without scores in memory: attention_cooperative.glsl."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.composed.placed_tensors import PlacedTensor, broadcast
from dmlvk.kernels.kernel import PlainKernel, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv.cooperative_types import ATTENTION_SOURCE

_SIDE = 16  # Rows and columns of a matrix

_KEY_BLOCK = 32  # Keys whose scores a subgroup makes at a time

_VECTOR = 8  # Elements of FLOAT16 that are loaded at once

_FEWEST = 16  # Queries and keys for which there is work for matrices

_BUFFERS = 6  # That the kernel binds


@dataclasses.dataclass(frozen=True)
class Shape:
    batch: int  # elements of the batch
    heads: int  # of queries
    queries: int  # of each head
    keys: int  # of each head
    size: int  # elements of a query or key of a head
    value_size: int  # elements of a value of a head


@dataclasses.dataclass(frozen=True)
class AttentionTile:
    """How a work group divides its queries."""

    head_tiles: int  # of 16 elements that a head may have
    subgroups: int  # of a work group, each of which has 16 queries
    keys: int  # that are in shared memory at once
    subgroup_size: int = 32  # invocations of a subgroup

    @property
    def rows(self) -> int:
        return _SIDE * self.subgroups

    @property
    def invocations(self) -> int:
        return self.subgroup_size * self.subgroups

    @property
    def shared_memory(self) -> int:
        """Bytes that a work group has at most: keys and values or queries, scores, numbers of rows."""
        pitch = 2 * self.head_tiles + 1
        lines = max(2 * self.keys * pitch, self.rows * min(pitch, 9))
        vectors = lines + self.rows * (_KEY_BLOCK // 4 + 1) + self.rows // 4
        return 16 * vectors + 4 * self.invocations

    @property
    def variant(self) -> ShaderVariant:
        return self._variant("", {})

    @property
    def cached_variant(self) -> ShaderVariant:
        return self._variant(".cached", {"IS_CACHED": 1})

    def _variant(self, kind: str, more: Mapping[str, int]) -> ShaderVariant:
        defines = {"HEAD_TILES": self.head_tiles, "SUBGROUPS": self.subgroups, "KEYS": self.keys, **more}
        name = f"attention.float16.cooperative{kind}.{self.rows}x{self.keys}x{_SIDE * self.head_tiles}"
        if self.subgroup_size != AttentionTile.subgroup_size:
            defines["SUBGROUP_INVOCATIONS"] = self.subgroup_size
            name += f".of{self.subgroup_size}"
        return ShaderVariant(name, ATTENTION_SOURCE, tuple((key, str(value)) for key, value in defines.items()))


TILES = (
    AttentionTile(2, 8, 64),
    AttentionTile(2, 2, 32),
    AttentionTile(3, 8, 128),
    AttentionTile(3, 2, 32),
    AttentionTile(4, 8, 64),
    AttentionTile(4, 2, 32),
    AttentionTile(5, 4, 64),
    AttentionTile(5, 2, 32),
    AttentionTile(6, 8, 64),
    AttentionTile(6, 2, 32),
    AttentionTile(8, 8, 32),
    AttentionTile(8, 2, 32),
    AttentionTile(10, 4, 32),
    AttentionTile(10, 2, 32),
    *(AttentionTile(head_tiles, 4, 64 if head_tiles != 8 else 32, 64) for head_tiles in (2, 4, 6, 8, 10)),
)
"""For each size of heads a large tile, and a small one for work that does not keep a device busy otherwise; one for
subgroups of 64 invocations, whose scores go through shared memory."""

_BUSY = 128  # Work groups that keep a device busy


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield from (tile.variant for tile in TILES)
    yield from (tile.cached_variant for tile in TILES)


def tile_of(target: Target, data_type: DataType, shape: Shape) -> AttentionTile | None:
    if not target.device_arithmetic or data_type is not DataType.FLOAT16 or not target.has_cooperative_halves:
        return None
    if target.buffers < _BUFFERS or shape.queries < _FEWEST or shape.keys < _FEWEST:
        return None
    if shape.size % _VECTOR or shape.value_size % _VECTOR:
        return None
    longest = max(shape.size, shape.value_size)
    fitting = [
        tile
        for tile in TILES
        if tile.subgroup_size == target.subgroup_size
        and _SIDE * tile.head_tiles >= longest
        and tile.shared_memory <= target.shared_memory
        and tile.invocations <= target.work_group_size
    ]
    of_size = [tile for tile in fitting if tile.head_tiles == fitting[0].head_tiles]
    busy = (tile for tile in of_size if _groups(tile, shape) >= _BUSY)
    return next(busy, of_size[-1] if of_size else None)


def _groups(tile: AttentionTile, shape: Shape) -> int:
    return shape.batch * shape.heads * -(-shape.queries // tile.rows)


@dataclasses.dataclass(frozen=True)
class Operands:
    """Where everything lies: batch, heads, length, size."""

    query: PlacedTensor  # the queries
    key: PlacedTensor  # the keys
    value: PlacedTensor  # the values
    bias: PlacedTensor | None  # what is added to scores, if there is something
    mask: PlacedTensor | None  # what is added besides; axes of size 1 are broadcast
    output: PlacedTensor  # the results


def is_in_vectors(view: PlacedTensor) -> bool:
    """Whether eight elements of each head lie behind one another, at multiples of eight elements."""
    *outer, (_, element) = zip(view.tensor.sizes, view.tensor.element_strides, strict=True)
    return element == 1 and all(size == 1 or stride % _VECTOR == 0 for size, stride in outer)


def kernel_of(
    operator_name: str, tile: AttentionTile, shape: Shape, operands: Operands, scale: float
) -> tuple[PlainKernel, list[Region]]:
    """The kernel, and what it reads.

    Args:
        tile: how a work group divides its queries.
        operands: where everything lies, in vectors.
        scale: that products of queries and keys are multiplied by.
    """
    of_scores = [operands.bias, operands.mask]
    sizes = (shape.batch, shape.heads, shape.queries, shape.keys)
    groups = _groups(tile, shape)
    constants = {
        "SIZE": shape.size,
        "VALUE_SIZE": shape.value_size,
        "GROUP": shape.heads // operands.key.tensor.sizes[1],
        "HAS_BIAS": int(operands.bias is not None),
        "HAS_MASK": int(operands.mask is not None),
    }
    parameters = [groups, shape.heads, shape.queries, shape.keys, float32_bits(scale * math.log2(math.e))]
    for view in (operands.query, operands.key, operands.value, operands.output):
        parameters += [stride // _VECTOR for stride in view.tensor.element_strides[:3]]
    for added in of_scores:
        parameters += (0,) * 4 if added is None else broadcast(added, sizes).tensor.element_strides
    columns, lines = work_groups(groups, 1)
    kernel = PlainKernel(tile.variant.name, (columns, lines, 1), constants, tuple(parameters))
    reads = [view.region for view in (operands.query, operands.key, operands.value)]
    reads += [operands.query.region if view is None else view.region for view in of_scores]
    return kernel, reads


@dataclasses.dataclass(frozen=True)
class CachedOperands:
    """What attention over caches reads, and how it sees it."""

    query: Region  # the queries: batch, tokens, heads, elements
    query_row: int  # elements from token to token there
    caches: Sequence[Region]  # keys and values: batch, heads of keys, the shape's keys, elements
    lengths: Sequence[Region]  # what tells how many keys each sequence has
    key_heads: int  # heads of keys
    constants: Mapping[str, int]  # how lengths are counted, and whether a query sees no key behind its own
    window: int  # keys that a query sees, its own last; 0: all


def cached_kernel_of(
    tile: AttentionTile, shape: Shape, operands: CachedOperands, scale: float
) -> tuple[PlainKernel, list[Region]]:
    """The kernel of attention over caches, and what it reads; its output is packed: batch, tokens, heads, elements.

    Args:
        tile: how a work group divides its queries.
        shape: of the work; its keys are those that there is room for.
        operands: what it reads, in vectors.
        scale: that products of queries and keys are multiplied by.
    """
    groups = _groups(tile, shape)
    constants = {
        "SIZE": shape.size,
        "VALUE_SIZE": shape.value_size,
        "GROUP": shape.heads // operands.key_heads,
        **operands.constants,
    }
    parameters = [groups, shape.heads, shape.queries, shape.keys, float32_bits(scale * math.log2(math.e))]
    row, of_results = operands.query_row, shape.heads * shape.value_size
    strides = [shape.queries * row, shape.size, row]
    for size in (shape.size, shape.value_size):
        strides += [operands.key_heads * shape.keys * size, shape.keys * size, size]
    strides += [shape.queries * of_results, shape.value_size, of_results]
    parameters += [stride // _VECTOR for stride in strides]
    columns, lines = work_groups(groups, 1)
    kernel = PlainKernel(tile.cached_variant.name, (columns, lines, 1), constants, (*parameters, operands.window))
    return kernel, [operands.query, *operands.caches, *operands.lengths]
