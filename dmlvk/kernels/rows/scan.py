"""Lowers CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: shaders/patterns/rows/scan.glsl has the order of operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.rows.reduction import Rows
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import AxisDirection
from dmlvk.operators.scan import CumulativeProduct, CumulativeSummation
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

ELEMENTS_OF_RUN = 16  # Neighbours that one invocation goes through

_RUNS_OF_CHUNK = 256
_RUNS_OF_NEIGHBOURS = 16
"""Runs of a chunk where rows are neighbours in memory: as many rows stand side by side in a work group."""

_MOST_CHUNKS_OF_GROUP = 64
"""So many chunks of its row a work group goes through at most: ``OF_SIXTEENS`` in patterns/rows/scan_rows.glsl."""

_WIDE_GROUP = 512
"""Invocations of a work group for rows that are neighbours, where the device has room: 32 of them, so that their
neighbouring elements are whole lines of memory."""

_FEWEST_WIDE_ROWS = 8192
"""From so many rows on: of fewer, smaller work groups are faster (4096 on an H100: 2194 instead of 1968 GB/s)."""

_TILE_BYTES = 25 * 1024
_WIDE_BYTES = 32 * 1024  # Shared memory for rows that go through it, and for a wide work group

_WORK_GROUPS_FOR_CHUNK = 4
"""For each chunk that a work group goes through there are so many work groups: else a device has too little to do."""

_UNSIGNED, _FLOAT = 0, 2
_OF_PRODUCTS = 3  # ``MODE`` of shaders/reduction/integers.comp


@dataclasses.dataclass(frozen=True)
class _Scan:
    """What is made of the elements before each one: the shader, what its states take, and its mode."""

    shader: str
    state_words: int
    is_wide: bool = False
    mode: int = 0
    defines: tuple[tuple[str, str], ...] = ()

    def variant(self, of_states: bool, whole_rows: bool = False) -> ShaderVariant:
        words = {"wide": self.is_wide, "states": of_states, "rows": whole_rows}
        name = ".".join(["scan", self.shader, *(word for word, holds in words.items() if holds)])
        defines = [*self.defines, ("PARTIALS", str(int(of_states))), ("SCAN", "1")]
        defines += [("WIDE", "1")] * self.is_wide + [("WHOLE_ROWS", "1")] * whole_rows
        return ShaderVariant(name, f"reduction/{self.shader}.comp", tuple(sorted(defines)))


_SUMS = _Scan("sum", 7, defines=(("TERMS", "0"),))
_PRODUCTS = _Scan("product", 5)
_INTEGERS = _Scan("integers", 1)
_WIDE_INTEGERS = _Scan("integers", 2, is_wide=True)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for scan in (_SUMS, _PRODUCTS, _INTEGERS, _WIDE_INTEGERS):
        yield from (scan.variant(of_states) for of_states in (False, True))
    yield _SUMS.variant(False, whole_rows=True)


@lowering(CumulativeSummation, CumulativeProduct)
def lower(desc: CumulativeSummation | CumulativeProduct, target: Target) -> Program:
    """The program of a checked description."""
    return _Launches(desc, target).program()


class _Launches:
    def __init__(self, desc: CumulativeSummation | CumulativeProduct, target: Target) -> None:
        self._builder = ProgramBuilder(desc, target)
        self._scan = _scan_of(desc)
        self._rows = rows = Rows.of(desc.input_tensor, [desc.axis], desc.output_tensor)
        self._bits = desc.input_tensor.data_type.size_in_bits
        self._is_float = desc.input_tensor.data_type.is_float
        self._is_reversed = desc.axis_direction is AxisDirection.DECREASING
        self._is_exclusive = (
            desc.has_exclusive_sum if isinstance(desc, CumulativeSummation) else desc.has_exclusive_product
        )
        self._output_stride = desc.output_tensor.element_strides[desc.axis] if rows.length > 1 else 0
        ends_fit = not self._is_reversed or rows.length % 4 == 0
        self._has_blocks = rows.have_blocks and ends_fit
        further = rows.others.strides[1]
        self._output_has_blocks = self._output_stride == 1 and ends_fit and not any(step % 4 for step in further)

    def program(self) -> Program:
        """Whole rows; or chunks' totals, what comes before each, and the results; only the last of a single chunk."""
        builder, rows = self._builder, self._rows
        read, written = builder.reads["input_tensor"], builder.writes["output_tensor"]
        most = _RUNS_OF_NEIGHBOURS if rows.are_neighbours else _RUNS_OF_CHUNK
        runs = -(-rows.length // ELEMENTS_OF_RUN)
        chunks = -(-runs // most)
        carries = None
        if self._takes_whole_rows(chunks, min(runs, most)):
            self._launch(rows.length, chunks, min(runs, most), read, None, written, is_last=True, whole_rows=True)
            return builder.program()
        if chunks > 1:
            totals = self._states(chunks)
            self._launch(rows.length, chunks, most, read, None, totals, is_last=False)
            carries = self._carries(totals, chunks)
        self._launch(rows.length, chunks, min(runs, most), read, carries, written, is_last=True)
        return builder.program()

    def _takes_whole_rows(self, chunks: int, lanes: int) -> bool:
        """Whether a work group goes through all chunks of its rows: a processor's barriers are dear."""
        if self._builder.target.is_cpu or self._scan != _SUMS:
            return False
        groups = -(-self._rows.count // (WORK_GROUP_SIZE // lanes))
        return chunks == 1 or chunks <= min(_MOST_CHUNKS_OF_GROUP, groups // _WORK_GROUPS_FOR_CHUNK)

    def _is_wide(self, lanes: int) -> bool:
        """Whether whole rows that are neighbours are taken by wide work groups."""
        target, rows = self._builder.target, self._rows
        has_limits = target.work_group_size >= _WIDE_GROUP and target.shared_memory >= _WIDE_BYTES
        is_possible = rows.are_neighbours and lanes == _RUNS_OF_NEIGHBOURS and has_limits
        return is_possible and rows.count >= _FEWEST_WIDE_ROWS

    def _has_tile(self) -> bool:
        """Whether whole rows go through shared memory."""
        return not self._rows.are_neighbours and self._builder.target.shared_memory >= _TILE_BYTES

    def _carries(self, totals: Region, count: int) -> Region:
        """What comes before each of the parts of a row, of which it is given what they come to."""
        chunks = -(-count // _RUNS_OF_CHUNK)
        carries = self._states(count)
        before = None
        if chunks > 1:
            sums = self._states(chunks)
            self._launch(count, chunks, _RUNS_OF_CHUNK, totals, None, sums, is_last=False, of_states=True)
            before = self._carries(sums, chunks)
        lanes = min(count, _RUNS_OF_CHUNK)
        self._launch(count, chunks, lanes, totals, before, carries, is_last=True, of_states=True)
        return carries

    def _states(self, count: int) -> Region:
        return self._builder.scratch(4 * self._scan.state_words * self._rows.count * count)

    def _launch(
        self,
        length: int,
        chunks: int,
        lanes: int,
        read: Region,
        carries: Region | None,
        written: Region,
        *,
        is_last: bool,
        of_states: bool = False,
        whole_rows: bool = False,
    ) -> None:
        rows = self._rows
        is_wide = whole_rows and self._is_wide(lanes)
        size = _WIDE_GROUP if is_wide else WORK_GROUP_SIZE
        groups = -(-rows.count * (1 if whole_rows else chunks) // (size // lanes))
        launch = launch_size(self._builder.operator_name, groups * WORK_GROUP_SIZE)
        sizes = [*rows.row.sizes, *rows.others.sizes]
        zeros = [0] * (MAXIMUM_DIMENSION_COUNT - len(sizes))
        kernel = PlainKernel(
            variant=self._scan.variant(of_states, whole_rows).name,
            work_groups=launch,
            work_group_size=size,
            constants={
                **({"HAS_TILE": int(self._has_tile()), "GROUP_SIZE": size} if whole_rows else {}),
                "ROW_AXES": 1,
                "OTHER_AXES": len(rows.others.sizes),
                "LANES_OF_CHUNK": lanes,
                "LANES_OF_INVOCATION": 1,
                "WIDTH": self._bits,
                "KIND": _FLOAT if self._is_float else _UNSIGNED,
                "HAS_BLOCKS": int(self._has_blocks),
                "ROWS_ARE_NEIGHBOURS": int(rows.are_neighbours and not of_states),
                "IS_LAST": int(is_last),
                "OUTPUT_WIDTH": self._bits,
                "HAS_CARRIES": int(carries is not None),
                "IS_REVERSED": int(self._is_reversed),
                "IS_EXCLUSIVE": int(self._is_exclusive),
                "OUTPUT_HAS_BLOCKS": int(self._output_has_blocks),
            },
            parameters=(
                rows.count,
                length,
                chunks,
                rows.length,
                self._scan.mode,
                *sizes,
                *[1] * len(zeros),
                *rows.row.strides[0],
                *rows.others.strides[0],
                *zeros,
                self._output_stride,
                *rows.others.strides[1],
                *zeros,
            ),
        )
        words = "totals" if not is_last else "what comes before" if of_states else ""
        self._builder.launch(kernel, [read, carries or read], [written], label=words)


def _scan_of(desc: CumulativeSummation | CumulativeProduct) -> _Scan:
    is_product = isinstance(desc, CumulativeProduct)
    data_type = desc.input_tensor.data_type
    if data_type.is_float:
        return _PRODUCTS if is_product else _SUMS
    integers = _WIDE_INTEGERS if data_type.size_in_bits == 64 else _INTEGERS
    return dataclasses.replace(integers, mode=_OF_PRODUCTS if is_product else 0)
