"""A shape in which products and convolutions are computed, and its shaders; ``matrix_tiles.py`` has all shapes."""

from __future__ import annotations

import dataclasses

from dmlvk.datatypes import DataType
from dmlvk.kernels.library.compiler import DEVICE_ARITHMETIC
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv import cooperative_types

SEGMENT = 1024
"""Terms that are added up in a row, as in ``shaders/patterns/products/matrix.glsl``: part of the bits of every sum."""

TYPES = (DataType.FLOAT32, DataType.FLOAT16)
HALVES = (DataType.FLOAT16,)
FAMILIES = ("gemm", "convolution")

ONE_SEGMENT, SEQUENTIAL, PARALLEL = range(3)
"""How the segments of a sum come together: see ``shaders/patterns/products/matrix.glsl``."""

SUMS_INVOCATIONS = 128  # Of a work group that adds segments' sums: as many as every Vulkan device has

_HAS_EPILOGUE = "HAS_EPILOGUE"

_TERMS_PER_ITERATION = 8
"""Terms of each iteration where a segment's sums are computed with care, as in
``shaders/patterns/products/matrix.glsl``."""

SUBGROUP_SIZE = Target().subgroup_size  # Invocations of a subgroup, where kernels are told nothing else


@dataclasses.dataclass(frozen=True)
class MatrixTile:
    name: str  # of the variant
    rows: int  # results downwards
    columns: int  # results across
    invocations: int  # of a work group
    shared_memory: int  # bytes that a work group needs
    source: str  # below ``shaders/``
    defines: tuple[tuple[str, str], ...]  # preprocessor definitions
    fewest_groups: int = 0  # work groups from which on it keeps a device busy
    families: tuple[str, ...] = FAMILIES  # of those that it can compute
    # whether its kernels are told the shape at run time, so that one pipeline is for all of them
    is_for_any_shape: bool = False
    # results of each invocation, downwards and across in an image, where they are so
    block: tuple[int, int] | None = None
    segment: int = SEGMENT  # terms that are added up in a row
    step: int = 0  # terms that are in shared memory at once, of tiles that may be told that there are no others; else 0
    types: tuple[DataType, ...] = TYPES  # data types for which there are kernels of it
    pace: int = 0  # results in a time, of cooperative tiles that are chosen by how long all work groups take; else 0
    groups_of_core: int = 1  # of these, how many work groups a core has at a time
    subgroup_size: int = SUBGROUP_SIZE  # invocations that multiply matrices together, of cooperative tiles
    toil: int = 0  # what terms of a window's line, or one term, take on a processor, in loads; elsewhere 0
    channels: int = 0  # neighbouring ones of an invocation, each a product of its own, of depthwise tiles; else 0

    def grid(self, rows: int, columns: int, plane: tuple[int, int] | None = None, batches: int = 1) -> tuple[int, int]:
        """Tiles downwards and across that cover so many results; of images of a plane, for those that want to know.

        Depthwise tiles have parts of all channels downwards, each for an invocation.
        """
        if self.block is not None:
            assert plane is not None  # what such tiles are chosen for
            blocks = -(-plane[0] // self.block[0]) * -(-plane[1] // self.block[1])
            images = columns // (plane[0] * plane[1])
            if self.channels:
                return batches // self.channels, images * blocks
            return -(-rows // self.rows), -(-images * blocks // self.invocations)
        return -(-rows // self.rows), -(-columns // self.columns)

    def groups(self, rows: int, columns: int, plane: tuple[int, int] | None, batches: int) -> int:
        """Work groups for so many results of so many products."""
        downwards, across = self.grid(rows, columns, plane, batches)
        if self.channels and self.block is not None:
            return -(-downwards * across * self.block[1] // self.columns)
        return downwards * across * batches

    def segments_at_once(self, target: Target) -> int:
        """How many segments an invocation may compute in one launch."""
        if not target.is_cpu:
            return 2**32
        results = self.rows * self.columns // self.invocations
        iterations = (
            results * (SEGMENT // _TERMS_PER_ITERATION + 3) + 2 * self.rows + SEGMENT
        )  # with those that end a loop
        assert iterations <= MAX_LOOP_ITERATIONS, f"{self.name}: {iterations} iterations of a segment"
        return MAX_LOOP_ITERATIONS // iterations

    @property
    def stores_fours(self) -> bool:
        """Whether an invocation of a product stores four neighbouring results at once, where they may be."""
        return self.source.endswith("/tiles.comp") or self.is_cooperative

    @property
    def is_cooperative(self) -> bool:
        """Whether subgroups multiply matrices that they hold together."""
        return self.source == cooperative_types.FLOATS_SOURCE or self.is_of_channels

    @property
    def is_of_channels(self) -> bool:
        """Whether it is for convolutions whose channels lie behind one another."""
        return self.source == cooperative_types.CHANNELS_SOURCE

    def is_as_large_as(self, other: MatrixTile) -> bool:
        """Whether both are blocks of as many rows and columns."""
        return (self.rows, self.columns) == (other.rows, other.columns)

    def segments(self, terms: int) -> int:
        return -(-terms // self.segment)

    @property
    def may_have_product_epilogue(self) -> bool:
        """Whether there are kernels of it that compute what a graph has behind a GEMM of FLOAT16, too."""
        return self.source == cooperative_types.FLOATS_SOURCE and self.families == ("gemm",) and self.types == HALVES

    @property
    def may_have_epilogue(self) -> bool:
        """Whether there are kernels of it that compute what a graph has behind a convolution, too."""
        runs_elsewhere = self.source.endswith("processors.comp") or self.source == cooperative_types.FLOATS_SOURCE
        return "convolution" in self.families and not runs_elsewhere

    def variant(
        self,
        family: str,  # ``"gemm"`` or ``"convolution"``
        data_type: DataType,
        target: Target,
        *,
        # whether it computes what a graph has behind it: ``patterns/products/matrix_epilogue.glsl`` and
        # ``product_epilogue.glsl``
        has_epilogue: bool = False,
        # whether its right operand is one of packed weights: ``patterns/products/packed_right.glsl``
        is_packed: bool = False,
    ) -> ShaderVariant:
        defines, name = dict(self.defines), self.name
        if is_packed:
            defines |= {"RIGHT_IS_PACKED": "1", "HALF_ARITHMETIC": "1"}
            name += ".packed"
        if has_epilogue:
            defines[_HAS_EPILOGUE] = "1"
            name += ".epilogue"
        if (target.device_arithmetic or self.is_cooperative) and data_type is DataType.FLOAT32:
            # FLOAT16's products are exact: nothing is gained there by other bits.
            defines[DEVICE_ARITHMETIC] = "1"
            name += ".device"
        return _variant(family, data_type, name, self.source, defines)


def sums_variant(family: str, data_type: DataType, *, has_epilogue: bool = False) -> ShaderVariant:
    """The shader that adds segments' sums and finishes results."""
    defines = {"INVOCATIONS": str(SUMS_INVOCATIONS)}
    if has_epilogue:
        defines[_HAS_EPILOGUE] = "1"
    return _variant(family, data_type, "sums.epilogue" if has_epilogue else "sums", "matrix/sums.comp", defines)


def _variant(family: str, data_type: DataType, name: str, source: str, defines: dict[str, str]) -> ShaderVariant:
    type_name = data_type.name.lower()
    all_defines = {
        **defines,
        "CONVOLUTION": str(int(family == "convolution")),
        "OPERAND": type_name,
        "OPERAND_BITS": str(data_type.size_in_bits),
    }
    return ShaderVariant(f"{family}.{type_name}.{name}", source, tuple(sorted(all_defines.items())))
