"""Lowers CACHED_ATTENTION: new rows go into the caches, queries see segments of them, segments are joined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.composed import matrix_attention
from dmlvk.kernels.composed.cache_operands import CACHE_BITS, CacheOperands, variant_name
from dmlvk.kernels.composed.cache_windows import SEGMENT, WindowOfCaches
from dmlvk.kernels.kernel import PlainKernel, launch_size, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.cached_attention import CachedAttention
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_ROWS = (1, 2, 4)  # Rows of queries that a work group may have

_ROWS_OF_LARGE = (1, 2)  # Likewise, where heads are large

_LARGE = 256  # Elements of a head above which it is large

_OF_LARGE = ("BLOCKS", "8u")  # What shaders are told there

_SIZES_OF_ROWS = {64, 128}  # Elements of heads that ``shaders/patterns/composed/attention_rows.comp`` has

_TILE_ROWS = (64, 32, 16)  # Rows of queries of a work group where there are many

_REGISTERS_OF_ROW = 32
_REGISTERS_OF_TILE_ROW = 4
"""Of each invocation: with fewer, drivers for GPUs of Intel, and for RDNA 3 in Mesa 22, keep some in memory."""

_TILE_ELEMENTS = (64, 128)  # That heads of values may have there

_FEW_TOKENS = 16  # Up to so many new tokens, segments are spread over work groups: there are few other ones

_FEW_OF_ONE_TEXT = 32  # Likewise of a single text in FLOAT16: tiles of them are too few for a large GPU

_SEGMENTS_OF_PROCESSOR = 16
"""That a processor's work group goes through at least, where there are so many: each group takes it 70 us."""

_BUSY_GROUPS = 1024  # Work groups that a GPU has room for at one time

_GROUPS_AT_ONCE = 288
"""Of ``shaders/patterns/composed/attention_rows.comp``, that a large GPU computes at once: two on each core."""

_JOINED_PAIRS = 32  # Of a row of results, that a work group of ``shaders/patterns/composed/attention_join.comp`` makes

_PAIRS_OF_VECTOR = 4  # Of FLOAT16, as kernels that multiply matrices load them

_MOST_BUFFERS = 11  # That a kernel binds, without scales of integers

_BUFFERS_OF_STEP = 12  # That a kernel binds which appends a token itself

_LENGTHS = "cached_attention.lengths"  # The variant that tells where keys lie


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield ShaderVariant(_LENGTHS, "patterns/composed/attention_lengths.comp", ())
    for data_type in FLOATS:
        bits = ("ELEMENT_BITS", str(data_type.size_in_bits))
        yield ShaderVariant(variant_name("join", data_type), "patterns/composed/attention_join.comp", (bits,))
        if data_type is DataType.FLOAT16:
            for rows in _ROWS:
                of_rows = (bits, ("ROWS", f"{rows}u"))
                yield ShaderVariant(
                    f"{variant_name('rows', data_type)}.{rows}", "patterns/composed/attention_rows.comp", of_rows
                )
                of_step = (*of_rows, ("APPENDS", "1"))
                yield ShaderVariant(
                    f"{variant_name('step', data_type)}.{rows}", "patterns/composed/attention_rows.comp", of_step
                )
        of_beams = (bits, ("BEAMS", "1"))
        for name in ("totals", "shown"):
            yield ShaderVariant(
                variant_name(f"{name}_of_beams", data_type), f"patterns/composed/attention_{name}.comp", of_beams
            )
        of_row, segments = (*of_beams, ("ROWS", "1u")), "patterns/composed/attention_segments.comp"
        yield ShaderVariant(variant_name("segments_of_beams", data_type), segments, of_row)
        yield ShaderVariant(variant_name("large_segments_of_beams", data_type), segments, (*of_row, _OF_LARGE))
        for cached in (0, *CACHE_BITS.values()):
            common = (bits, ("CACHE_BITS", str(cached))) if cached else (bits,)
            for name in ("append", "carry_over", "window"):
                yield ShaderVariant(
                    variant_name(name, data_type, cached), f"patterns/composed/attention_{name}.comp", common
                )
            for name in ("totals", "shown"):
                yield ShaderVariant(
                    variant_name(name, data_type, cached), f"patterns/composed/attention_{name}.comp", common
                )
            for rows in _ROWS:
                of_rows = (*common, ("ROWS", f"{rows}u"))
                yield ShaderVariant(f"{variant_name('segments', data_type, cached)}.{rows}", segments, of_rows)
                if rows in _ROWS_OF_LARGE:
                    name = f"{variant_name('large_segments', data_type, cached)}.{rows}"
                    yield ShaderVariant(name, segments, (*of_rows, _OF_LARGE))
            for elements in _TILE_ELEMENTS:
                for rows in _TILE_ROWS:
                    name = f"{variant_name('tiles', data_type, cached)}.{rows}x{elements}"
                    given = (*common, ("DIMS", f"{elements // 16}u"), ("ROWS", str(rows)))
                    yield ShaderVariant(name, "patterns/composed/attention_tiles.comp", given)


def _shared_bytes(rows: int, elements: int) -> int:
    """Of ``shaders/patterns/composed/attention_tiles.comp``: keys or shares, queries, a chain's values, and peaks."""
    return 8704 + 64 * (rows + 4) + 128 * elements + 4 * rows


class CachedAttentionLowering(CacheOperands):
    def program(self) -> Program:
        buffers = _MOST_BUFFERS + len(self.scales)
        if self.target.buffers < buffers:
            raise DeviceLimitError(
                f"{self.desc.operator_name}: needs {buffers} buffers in a kernel; the device has {self.target.buffers}"
            )
        rows = self._located() if self.desc.keeps_window or self.desc.query_lengths_tensor is not None else None
        if self.desc.keeps_window:
            assert rows is not None  # a window's keys were located
            window = WindowOfCaches(self, rows)
            window.opened()
            self._attended()
            window.closed()
            return self.builder.program()
        if not self.desc.keeps_past and not self.only_reads:
            self._carry_over("key", self.size)
            self._carry_over("value", self.value_size)
        self._attended()
        return self.builder.program()

    def _located(self) -> Region:
        """Tells where each sequence's keys lie; from here on the lengths are those that this gives.

        Returns:
            For each sequence where the rows of a window's cache begin, and how many there are, before the step and
            behind it.
        """
        desc, reads, scratch = self.desc, self.builder.reads, self.builder.scratch
        ends, origins, rows = (scratch(4 * words) for words in (self.batch, self.batch + 1, 4 * self.batch))
        items = self.batch * self.tokens
        positions, last = scratch(8 * items), reads["ends_tensor"]
        window = desc.window if desc.keeps_window else 0
        kernel = PlainKernel(
            _LENGTHS,
            launch_size(desc.operator_name, items),
            {"HAS_COUNTS": int(desc.query_lengths_tensor is not None)},
            (items, self.tokens, self.capacity, window),
        )
        counts = reads.get("query_lengths_tensor", last)
        self.builder.launch(kernel, [last, counts], [ends, origins, rows, positions], label="lengths")
        self.lengths = [ends, origins]
        if desc.keeps_window and self.positions is None:
            self.positions = positions
        return rows

    def _attended(self) -> None:
        """Adds what appends to the caches, and makes results of them."""
        self.segments = -(-self.capacity // SEGMENT)
        together = self._queries_together()
        if together is not None and self._appends_itself:
            self._step(together)
            return
        query, row = self._append()
        if self.desc.scores_tensor is not None:
            self._show(query, row)
        output = self.builder.writes["output_tensor"]
        if together is not None:
            tiles = self.batch * self.key_heads * self.tokens * -(-self.group // together)
            parts = self._parts()
            variant = f"{variant_name('rows', self.type)}.{together}"
            self._attend(variant, tiles * self.segments, {}, (tiles, self.segments), query, row, parts, "segments")
            self._join(parts)
            return
        if self._attends_by_matrices(query, row, output):
            return
        if self.beams is not None:
            self._attend_beams(query, row, output)
            return
        tiled = next((size for size in _TILE_ELEMENTS if size >= self.value_size), None)
        if self.tokens > _FEW_TOKENS and tiled is not None and not self.target.is_cpu:
            rows = next(rows for rows in _TILE_ROWS if rows * _REGISTERS_OF_TILE_ROW <= self.target.registers)
            if _shared_bytes(rows, tiled) <= self.target.shared_memory:
                tiles = self.batch * self.key_heads * -(-self.group * self.tokens // rows)
                self._attend(f"{self.of_caches('tiles')}.{rows}x{tiled}", tiles, {}, (), query, row, output, "results")
                return
        tile = self._tile()
        name = f"{self.of_caches(self._kind_of_segments)}.{tile}"
        tiles = self.batch * self.key_heads * -(-self.group * self.tokens // tile)
        is_few = self.tokens <= _FEW_TOKENS and not self.target.is_cpu
        if self.segments == 1 or (not is_few and self.segments <= self._segments_alone(tiles)):
            self._segments(name, tiles, query, row, output, is_alone=True)
        else:
            parts = self._parts()
            self._segments(name, tiles, query, row, parts, is_alone=False)
            self._join(parts)

    def _queries_together(self) -> int | None:
        """Queries of a token for which a work group reads keys once; ``None`` where there are other kernels."""
        is_plain = self.type is DataType.FLOAT16 and not self.cache_bits
        few = _FEW_OF_ONE_TEXT if self.batch == 1 and not self.target.device_arithmetic else _FEW_TOKENS
        is_few = self.segments > 1 and self.tokens <= few
        is_plain = is_plain and self.beams is None
        if self.target.is_cpu or not is_plain or not is_few or not {self.size, self.value_size} <= _SIZES_OF_ROWS:
            return None
        tokens = self.batch * self.key_heads * self.tokens
        fitting = [rows for rows in _ROWS if rows < 2 * self.group]  # the work of at most one half is in vain
        groups = {rows: tokens * -(-self.group // rows) * self.segments for rows in fitting}
        if self.tokens > 1 and fitting[-1] < _ROWS[-1] and groups[fitting[-1]] > _BUSY_GROUPS:
            return None  # queries of several tokens read keys together
        return next((rows for rows in fitting if groups[rows] <= _GROUPS_AT_ONCE), fitting[-1])

    @property
    def _appends_itself(self) -> bool:
        """Whether the kernel that attends also appends the one new token, and turns it."""
        has_room = self.target.buffers >= _BUFFERS_OF_STEP and self.size <= self.target.registers
        is_plain = self.desc.bias_tensor is None and self.desc.scores_tensor is None
        return self.tokens == 1 and is_plain and has_room and not self.only_reads

    def _step(self, together: int) -> None:
        """All that one new token of each sequence takes."""
        reads, desc = self.builder.reads, self.desc
        tiles = self.batch * self.key_heads * -(-self.group // together)
        parts, cap, table = self._parts(), desc.softcap or 1.0, desc.cosine_tensor
        constants = {**self._common, **self._of_turning, "SIZE": self.size, "HAS_CAP": int(desc.softcap != 0)}
        parameters = (
            tiles * self.segments,
            self.tokens,
            self.capacity,
            desc.window,
            tiles,
            self.segments,
            *self.rows,
            *self.firsts,
            1 if table is None else table.sizes[0],
            *(float32_bits(number) for number in (desc.scale, cap, 1.0 / cap)),
        )
        given = reads["query_tensor"]
        operands = [
            given,
            *(reads.get(f"{name}_tensor", given) for name in ("key", "value", "cosine", "sine")),
            self.positions or given,
            *self.lengths,
            reads.get("sink_tensor", given),
        ]
        launched = (*work_groups(tiles * self.segments, 1), 1)
        kernel = PlainKernel(f"{variant_name('step', self.type)}.{together}", launched, constants, parameters)
        self.builder.launch(kernel, operands, [*self.caches, parts], label="new keys and values, segments")
        self._join(parts)

    def _attends_by_matrices(self, query: Region, row: int, output: Region) -> bool:
        """Adds the kernel of those who permit a device its own arithmetic, where there is one for it."""
        desc = self.desc
        is_plain = desc.softcap == 0 and not desc.has_empty_sink and desc.sink_tensor is None
        if desc.bias_tensor is not None or not is_plain or self.cache_bits or self.tokens <= _FEW_TOKENS:
            return False
        shape = matrix_attention.Shape(self.batch, self.heads, self.tokens, self.capacity, self.size, self.value_size)
        tile = matrix_attention.tile_of(self.target, self.type, shape)
        if tile is None or row % _PAIRS_OF_VECTOR:
            return False
        operands = matrix_attention.CachedOperands(
            query,
            2 * row,
            self.caches,
            self.lengths,
            self.key_heads,
            {**self._of_lengths, "IS_CAUSAL": int(desc.is_causal)},
            desc.window,
        )
        kernel, reads = matrix_attention.cached_kernel_of(tile, shape, operands, desc.scale)
        self.builder.launch(kernel, reads, [output], label="results")
        return True

    def _tile(self) -> int:
        """Rows of a work group: few where there are few work groups, though each reads all keys that its rows see."""
        heads, rows = self.batch * self.key_heads, max(1, self.group * self.tokens)
        fitting = [tile for tile in (_ROWS_OF_LARGE if self._is_large else _ROWS) if tile <= rows]
        if self.target.is_cpu:
            return fitting[-1]
        registers = _REGISTERS_OF_ROW * (2 if self._is_large else 1)
        fitting = [tile for tile in fitting if tile == 1 or tile * registers <= self.target.registers]
        return next((tile for tile in fitting if heads * -(-rows // tile) * self.segments <= _BUSY_GROUPS), fitting[-1])

    def _carry_over(self, role: str, size: int) -> None:
        """Keys or values of the past in the present tensor."""
        present, past = self.builder.writes[f"present_{role}_tensor"], f"past_{role}_tensor"
        tensor: TensorDesc | None = getattr(self.desc, past)
        items = self.batch * self.key_heads * self.capacity * size // 2
        groups = launch_size(self.desc.operator_name, items)
        parameters = (
            items, self.tokens, self.capacity, 0 if tensor is None else tensor.sizes[2], self.key_heads, size // 2,
        )  # fmt: skip
        kernel = PlainKernel(self.of_caches("carry_over"), groups, self._of_caches, parameters)
        source = self.lengths[0] if tensor is None else self.builder.reads[past]
        self.builder.launch(kernel, [source, *self.lengths], [present], label=f"past {role}s")

    def _append(self) -> tuple[Region, int]:
        """New rows in the caches; the queries, turned where they are to be, and the pairs from token to token there."""
        reads, desc = self.builder.reads, self.desc
        given, key_heads = reads["query_tensor"], 0 if self.only_reads else self.key_heads
        if self.only_reads and not self.is_rotated:
            return given, self.rows[0]
        queries = self.heads * self.size // 2 if self.is_rotated else 0
        size_in_bytes = self.batch * self.tokens * self.heads * self.size * self.type.size_in_bytes
        rotated = self.builder.scratch(size_in_bytes) if self.is_rotated else None
        pairs = queries + key_heads * (self.size + self.value_size) // 2
        items = self.batch * self.tokens * pairs
        groups = launch_size(desc.operator_name, items)
        table = desc.cosine_tensor
        constants = {
            **self._of_caches, "QUERY_PAIRS": queries, "KEY_HEADS": key_heads, "SIZE": self.size,
            "VALUE_SIZE": self.value_size, **self._of_turning,
        }  # fmt: skip
        positions = 1 if table is None else table.sizes[0]
        parameters = (items, self.tokens, self.capacity, positions, *self.rows, *self.firsts)
        operands = [
            given,
            reads.get("key_tensor", given),
            reads.get("value_tensor", given),
            *self.lengths,
            *(reads.get(f"{name}_tensor", given) for name in ("cosine", "sine")),
            self.positions or given,
            *self.scales,
        ]
        kernel = PlainKernel(self.of_caches("append"), groups, constants, parameters)
        made = self.caches[0] if rotated is None else rotated
        written = [made] * 3 if self.only_reads else [made, *self.caches]
        self.builder.launch(kernel, operands, written, label="queries" if self.only_reads else "new keys and values")
        return (rotated, queries) if rotated is not None else (given, self.rows[0])

    @property
    def _is_large(self) -> bool:
        return max(self.size, self.value_size) > _LARGE

    @property
    def _kind_of_segments(self) -> str:
        """The shader that makes what queries see of segments."""
        return "large_segments" if self._is_large else "segments"

    def _attend_beams(self, query: Region, row: int, output: Region) -> None:
        """Results of sequences whose keys may be those of others: a row for each work group."""
        tiles = self.batch * self.key_heads
        is_alone = self.segments <= (self._segments_alone(tiles) if self.target.is_cpu else 1)
        name = variant_name(f"{self._kind_of_segments}_of_beams", self.type)
        result = output if is_alone else self._parts()
        self._segments(name, tiles, query, row, result, is_alone=is_alone)
        if not is_alone:
            self._join(result)

    def _show(self, query: Region, row: int) -> None:
        """Scores, or shares, as an output."""
        desc, shown = self.desc, self.desc.scores_tensor
        assert shown is not None  # who calls asks
        rows, columns = self.batch * self.heads * self.tokens, shown.sizes[3]
        loops = 2 * -(-self.capacity // SEGMENT) * (self.size // 2 + 2)
        if self.target.is_cpu and loops > MAX_LOOP_ITERATIONS:
            raise DeviceLimitError(
                f"{desc.operator_name}: scores of {self.capacity} keys take {loops} turns of loops; drivers of "
                f"processors end them after {MAX_LOOP_ITERATIONS}"
            )
        scratch = self.builder.scratch(12 * rows) if desc.shows_shares else self.lengths[0]
        if desc.shows_shares:
            self._launch_scores("totals", rows, work_groups(rows, 1), (rows, columns), query, row, scratch, scratch)
        words = -(-rows * columns * self.type.size_in_bits // 32)
        columns_and_lines = launch_size(desc.operator_name, words)[:2]
        output = self.builder.writes["scores_tensor"]
        self._launch_scores("shown", words, columns_and_lines, (rows, columns), query, row, scratch, output)

    def _launch_scores(
        self,
        shader: str,
        items: int,
        groups: tuple[int, int],  # work groups, in columns and lines
        sizes: tuple[int, int],  # rows of scores, and elements of each at most
        query: Region,
        row: int,  # from token to token there, in pairs
        of_rows: Region,  # what was found of each row; where there is nothing, anything
        result: Region,
    ) -> None:
        """Launches a kernel that makes a score for each key."""
        reads, beams = self.builder.reads, self.beams
        constants = {**self._common, **self._of_caches, **self._of_scores}
        if shader == "shown":
            constants["SHOWS_SHARES"] = int(self.desc.shows_shares)
        own = () if beams is None else self._beam_sizes
        parameters = (items, self.tokens, self.capacity, self.desc.window, row, *self._score_parameters, *sizes, *own)
        operands = [
            query, self.caches[0], *self.lengths, reads.get("bias_tensor", query), reads.get("sink_tensor", query),
            query if shader == "totals" else of_rows, *self.scales[:1], *([] if beams is None else [beams]),
        ]  # fmt: skip
        name = self.of_caches(shader) if beams is None else variant_name(f"{shader}_of_beams", self.type)
        kernel = PlainKernel(name, (*groups, 1), constants, parameters)
        self.builder.launch(kernel, operands, [result], label="scores")

    def _most_by_turns(self) -> int:
        """Segments that an invocation may go through, by the turns of loops that llvmpipe ends."""
        blocks = -(-self.value_size // 64)
        turns = (_ROWS[-1] + 1) * (self.size // 2 + 48 * blocks + 8)  # for a segment, at most
        return MAX_LOOP_ITERATIONS // turns

    def _segments_alone(self, tiles: int) -> float:
        """Segments up to which a work group goes through all of them, where there are so many tiles of rows."""
        if not self.target.is_cpu:
            return math.inf
        return self._most_by_turns() if tiles >= _SEGMENTS_OF_PROCESSOR else _SEGMENTS_OF_PROCESSOR

    def _segments(self, name: str, tiles: int, query: Region, row: int, result: Region, *, is_alone: bool) -> None:
        together = 1
        if self.target.is_cpu and not is_alone:
            wanted = max(_SEGMENTS_OF_PROCESSOR, -(-self.segments // _SEGMENTS_OF_PROCESSOR))
            together = min(wanted, self._most_by_turns())
        self._attend(
            name,
            tiles if is_alone else tiles * -(-self.segments // together),
            {"IS_ALONE": int(is_alone), "TOGETHER": together},
            (tiles, self.segments),
            query,
            row,
            result,
            "results" if is_alone else "segments",
        )

    def _attend(
        self,
        variant: str,
        groups: int,
        own_constants: Mapping[str, int],  # what it has besides the constants that all have
        own_parameters: tuple[int, ...],  # what it has behind the first of the parameters that all have
        query: Region,
        row: int,  # from token to token there, in pairs
        result: Region,
        label: str,
    ) -> None:
        """Launches a kernel that multiplies queries with keys."""
        desc, reads = self.desc, self.builder.reads
        columns, lines = work_groups(groups, 1)
        constants = {**self._common, **self._of_caches, **self._of_scores, **own_constants}
        parameters = (
            groups,
            self.tokens,
            self.capacity,
            desc.window,
            *own_parameters,
            row,
            *self._score_parameters,
            *(() if self.beams is None else self._beam_sizes),
        )
        operands = [
            query,
            *self.caches,
            *self.lengths,
            reads.get("bias_tensor", query),
            reads.get("sink_tensor", query),
            *self.scales,
            *([] if self.beams is None else [self.beams]),
        ]
        kernel = PlainKernel(variant, (columns, lines, 1), constants, parameters)
        self.builder.launch(kernel, operands, [result], label=label)

    def _join(self, parts: Region) -> None:
        groups = self.batch * self.heads * self.tokens * -(-self.value_size // (2 * _JOINED_PAIRS))
        parameters = (groups, self.tokens, self.capacity, self.desc.window, self.segments)
        launched = (*work_groups(groups, 1), 1)
        name = variant_name("join", self.type)
        kernel = PlainKernel(name, launched, self._common, parameters, work_group_size=_JOINED_PAIRS)
        sink = self.builder.reads.get("sink_tensor", parts)
        output = self.builder.writes["output_tensor"]
        self.builder.launch(kernel, [parts, *self.lengths, sink], [output], label="results")


@lowering(CachedAttention)
def lower(desc: CachedAttention, target: Target) -> Program:
    return CachedAttentionLowering(desc, target).program()
