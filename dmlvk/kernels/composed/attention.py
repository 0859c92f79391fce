"""Lowers MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: products, sums and softmax of other operators, on views."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import power_of_two_in
from dmlvk.kernels.composed import matrix_attention
from dmlvk.kernels.composed.placed_tensors import PlacedTensor, broadcast, last_four
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.operators import MatrixTransform, MultiheadAttention, MultiheadAttention1, operator_desc
from dmlvk.operators.attention import MultiheadAttentionMaskType, head_counts, part_sizes, past_lengths, source_of
from dmlvk.tensors import TensorDesc

_MOST_SCORES = 2**26
"""Bytes of scores that are made at a time, unless 512 rows take more: blocks of batch elements, heads and queries."""

_EQUALS = "ELEMENT_WISE_LOGICAL_EQUALS"

_ALIGNMENT = 16  # What regions' offsets must be multiples of, in bytes


@dataclasses.dataclass(frozen=True)
class _HeadBlock:
    """Some batch elements, heads of keys and queries: where they begin and how many there are."""

    starts: tuple[int, int, int]
    counts: tuple[int, int, int]


class _AttentionLowering:
    def __init__(self, desc: MultiheadAttention | MultiheadAttention1, target: Target) -> None:
        self.desc = desc
        self.target = target
        self.builder = ProgramBuilder(desc, target)
        self.heads, self.key_heads = head_counts(desc)
        self.group = self.heads // self.key_heads
        self.batch, self.queries, self.size = part_sizes(desc, "query")
        _, self.own, self.value_size = part_sizes(desc, "value")
        self.past = 0 if desc.past_key_tensor is None else desc.past_key_tensor.sizes[-2]
        self.keys = self.past + self.own
        self.type = desc.output_tensor.data_type
        self.shape = matrix_attention.Shape(self.batch, self.heads, self.queries, self.keys, self.size, self.value_size)
        self._constants: dict[tuple[float, DataType], PlacedTensor] = {}

    def program(self) -> Program:
        key_at = self.heads * self.size
        query = self._part("query", 0)
        key = self._present("key", self._part("key", key_at))
        value = self._present("value", self._part("value", key_at + self.key_heads * self.size))
        boolean, added = self._boolean(), self._beyond()
        bias = self._relative()
        output = self._headed(PlacedTensor(self.desc.output_tensor, self.builder.writes["output_tensor"]), self.heads)
        of_queries = [view for view in (query, boolean, added, bias, output) if view is not None]
        tile = matrix_attention.tile_of(self.target, self.type, self.shape)
        if tile is not None and all(map(matrix_attention.is_in_vectors, (query, key, value, output))):
            operands = matrix_attention.Operands(query, key, value, bias, self._mask(boolean, added), output)
            kernel, reads = matrix_attention.kernel_of(
                self.desc.operator_name, tile, self.shape, operands, self.desc.scale
            )
            self.builder.launch(kernel, reads, [output.region], label="results")
            return self.builder.program()
        for block in self._blocks(of_queries, [key, value]):
            with self.builder.passing_scratch():
                starts, counts = self._of_queries(block)
                parts = [view and view.part(starts, counts) for view in (boolean, added)]
                seen = [view.part(block.starts[:2], block.counts[:2]) for view in (key, value)]
                relative = bias and bias.part(starts, counts)
                shares = self._shares(query.part(starts, counts), seen[0], relative, self._mask(*parts))
                self._result(shares, seen[1], output.part(starts, counts))
        return self.builder.program()

    def _of_queries(self, block: _HeadBlock) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where a block begins, and how large it is, with the heads of queries instead of those of keys."""
        (batch, head, row), (batches, heads, rows) = block.starts, block.counts
        return (batch, head * self.group, row), (batches, heads * self.group, rows)

    def _blocks(self, of_queries: Sequence[PlacedTensor], of_keys: Sequence[PlacedTensor]) -> Iterator[_HeadBlock]:
        """Blocks of as many scores as may be made at a time, which begin at multiples of 16 bytes in every view."""
        whole = (self.batch, self.key_heads, self.queries)
        if math.prod(whole) * self.group * self.keys * self.type.size_in_bytes <= _MOST_SCORES:
            yield _HeadBlock((0, 0, 0), whole)
            return
        rows = max(1, _MOST_SCORES // (self.keys * self.type.size_in_bytes))
        counts = []
        for axis, size in enumerate(whole):
            group = self.group if axis == 1 else 1
            steps = [_step(view, axis, group) for view in of_queries]
            steps += [_step(view, axis, 1) for view in of_keys if axis < 2]
            fitting = rows // (math.prod(whole[axis + 1 :]) * (self.group if axis < 2 else 1))
            count = size if fitting >= size else min(size, max(*steps, fitting // max(steps) * max(steps)))
            counts.append(count)
            rows = max(1, rows // (count * group))
        ranges = (range(0, size, count) for size, count in zip(whole, counts, strict=True))
        for starts in itertools.product(*ranges):
            sizes = tuple(min(n, size - at) for at, n, size in zip(starts, counts, whole, strict=True))
            yield _HeadBlock((starts[0], starts[1], starts[2]), (sizes[0], sizes[1], sizes[2]))

    def _shares(
        self, query: PlacedTensor, key: PlacedTensor, bias: PlacedTensor | None, mask: PlacedTensor | None
    ) -> PlacedTensor:
        """What each query of a block takes of each value: packed, of sizes batch, heads, queries, keys."""
        sizes = (*query.tensor.sizes[:3], self.keys)
        here, there = (self._scratch(sizes) for _ in range(2))
        if bias is not None and bias.folded(self.group) is None:
            self._identity(bias, there)
            bias = there
        self._gemm(self._folded(query), key, bias and self._folded(bias), self._folded(here), self.desc.scale, True)
        if mask is not None:
            self._binary("ELEMENT_WISE_ADD", here, broadcast(mask, sizes), there)
            here, there = there, here
        flat, shares = (
            view.shaped((1, 1, math.prod(sizes[:3]), self.keys), (0, 0, self.keys, 1)) for view in (here, there)
        )
        softmax = operator_desc("ACTIVATION_SOFTMAX", InputTensor=flat.tensor, OutputTensor=shares.tensor)
        self.builder.operator(softmax, [flat.region], [shares.region], "softmax")
        return there

    def _result(self, shares: PlacedTensor, value: PlacedTensor, output: PlacedTensor) -> None:
        target = output.folded(self.group)
        made = target or self._scratch(output.tensor.sizes)
        self._gemm(self._folded(shares), value, None, target or self._folded(made), 1.0, False)
        if target is None:
            self._identity(made, output)

    def _folded(self, view: PlacedTensor) -> PlacedTensor:
        """Heads of each group as rows, copied where that is needed."""
        found = view.folded(self.group)
        if found is None:
            copy = self._scratch(view.tensor.sizes)
            self._identity(view, copy)
            found = copy.folded(self.group)
            assert found is not None  # it is packed
        return found

    def _identity(self, source: PlacedTensor, result: PlacedTensor) -> None:
        desc = operator_desc("ELEMENT_WISE_IDENTITY", InputTensor=source.tensor, OutputTensor=result.tensor)
        self.builder.operator(desc, [source.region], [result.region], "groups")

    def _scratch(self, sizes: Sequence[int], data_type: DataType | None = None) -> PlacedTensor:
        tensor = TensorDesc(data_type or self.type, tuple(sizes))
        return PlacedTensor(tensor, self.builder.scratch(tensor.size_in_bytes))

    def _slice(self, view: PlacedTensor, axis: int, first: int, count: int) -> PlacedTensor:
        """Elements along an axis: in place if they begin at a multiple of 16 bytes, else copied."""
        tensor = view.tensor
        sizes = tuple(count if i == axis else size for i, size in enumerate(tensor.sizes))
        offset = first * tensor.element_strides[axis] * tensor.data_type.size_in_bytes
        if offset % _ALIGNMENT == 0:
            part = TensorDesc(tensor.data_type, sizes, tensor.element_strides)
            return PlacedTensor(part, view.region.part(offset, part.size_in_bytes))
        found = self._scratch(sizes, tensor.data_type)
        rank = len(sizes)
        desc = operator_desc(
            "SLICE1",
            InputTensor=tensor,
            OutputTensor=found.tensor,
            DimensionCount=rank,
            InputWindowOffsets=[first if i == axis else 0 for i in range(rank)],
            InputWindowSizes=list(sizes),
            InputWindowStrides=[1] * rank,
        )
        self.builder.operator(desc, [view.region], [found.region], "slice")
        return found

    def _headed(self, view: PlacedTensor, heads: int) -> PlacedTensor:
        """Batch, length, heads * size as batch, heads, length, size."""
        sizes, strides = view.tensor.sizes[-3:], view.tensor.element_strides[-3:]
        size = sizes[2] // heads
        batch, row, element = strides
        return view.shaped((sizes[0], heads, sizes[1], size), (batch, size * element, row, element))

    def _part(self, role: str, bias_at: int) -> PlacedTensor:
        """Queries, keys or values, with their bias: batch, heads, length, size."""
        name, position = source_of(self.desc, role)
        view = PlacedTensor(getattr(self.desc, name), self.builder.reads[name])
        if position >= 0:
            view = self._slice(view, 3, position, 1)
            sizes, strides = view.tensor.sizes, view.tensor.element_strides
            order = (0, 2, 1, 4)
            view = view.shaped([sizes[i] for i in order], [strides[i] for i in order])
        else:
            view = self._headed(view, self.heads if role == "query" else self.key_heads)
        if self.desc.bias_tensor is None:
            return view
        tensor = self.desc.bias_tensor
        whole = PlacedTensor(tensor, self.builder.reads["bias_tensor"])
        _, heads, _, size = view.tensor.sizes
        part = self._slice(whole, tensor.dimension_count - 1, bias_at, heads * size)
        stride = part.tensor.element_strides[-1]
        bias = part.shaped(view.tensor.sizes, (0, size * stride, 0, stride))
        found = self._scratch(view.tensor.sizes)
        self._binary("ELEMENT_WISE_ADD", view, bias, found)
        return found

    def _present(self, role: str, own: PlacedTensor) -> PlacedTensor:
        """Past and own keys or values, in the present tensor if there is one."""
        past, present = f"past_{role}_tensor", f"output_present_{role}_tensor"
        parts = [own]
        if past in self.builder.reads:
            parts.insert(0, last_four(PlacedTensor(getattr(self.desc, past), self.builder.reads[past])))
        if present in self.builder.writes:
            found = last_four(PlacedTensor(getattr(self.desc, present), self.builder.writes[present]))
        elif len(parts) == 1:
            return own
        else:
            sizes = own.tensor.sizes
            found = self._scratch((*sizes[:2], sum(part.tensor.sizes[2] for part in parts), sizes[3]))
        tensors = [part.tensor for part in parts]
        desc = operator_desc("JOIN", InputCount=len(parts), InputTensors=tensors, OutputTensor=found.tensor, Axis=2)
        self.builder.operator(desc, [part.region for part in parts], [found.region], f"{role}s")
        return found

    def _relative(self) -> PlacedTensor | None:
        name = "relative_position_bias_tensor"
        if name not in self.builder.reads:
            return None
        view = last_four(PlacedTensor(getattr(self.desc, name), self.builder.reads[name]))
        strides = view.tensor.element_strides
        outer = 0 if view.tensor.sizes[0] == 1 else strides[0]
        return view.shaped((self.batch, self.heads, self.queries, self.keys), (outer, *strides[1:]))

    def _binary(self, name: str, left: PlacedTensor, right: PlacedTensor, result: PlacedTensor) -> None:
        desc = operator_desc(name, ATensor=left.tensor, BTensor=right.tensor, OutputTensor=result.tensor)
        self.builder.operator(desc, [left.region, right.region], [result.region])

    def _gemm(
        self,
        a: PlacedTensor,
        b: PlacedTensor,
        c: PlacedTensor | None,
        result: PlacedTensor,
        alpha: float,
        transposed: bool,
    ) -> None:
        desc = operator_desc(
            "GEMM",
            ATensor=a.tensor,
            BTensor=b.tensor,
            CTensor=c and c.tensor,
            OutputTensor=result.tensor,
            TransA=MatrixTransform.NONE,
            TransB=MatrixTransform.TRANSPOSE if transposed else MatrixTransform.NONE,
            Alpha=alpha,
            Beta=1.0,
            FusedActivation=None,
        )
        reads = [view.region for view in (a, b, c) if view is not None]
        self.builder.operator(desc, reads, [result.region], "scores" if transposed else "results")

    def _boolean(self) -> PlacedTensor | None:
        """A BOOLEAN mask as it is given: of four dimensions, some of size 1."""
        if self.desc.mask_type is not MultiheadAttentionMaskType.BOOLEAN or self.desc.mask_tensor is None:
            return None
        given = PlacedTensor(self.desc.mask_tensor, self.builder.reads["mask_tensor"])
        for value, data_type in ((0, DataType.INT32), (0.0, self.type), (self.desc.mask_filter_value, self.type)):
            self._constant(value, data_type)  # before the blocks, which take turns in what memory they take
        rank = given.tensor.dimension_count
        sizes = (1,) * (4 - rank) + tuple(given.tensor.sizes[-4:])
        return given.shaped(sizes, (0,) * (4 - rank) + tuple(given.tensor.element_strides[-4:]))

    def _mask(self, boolean: PlacedTensor | None, added: PlacedTensor | None) -> PlacedTensor | None:
        """What is added to the scores of a block: of four dimensions, some of size 1.

        Args:
            boolean: the block's part of a BOOLEAN mask.
            added: what is added where that hides nothing.
        """
        if boolean is None:
            return added
        hidden = self._compare(_EQUALS, boolean, self._constant(0), boolean.tensor.sizes)
        return self._filtered(hidden, added or self._constant(0.0, self.type))

    def _filtered(self, hidden: PlacedTensor, otherwise: PlacedTensor) -> PlacedTensor:
        """MaskFilterValue where a key is hidden, else something else."""
        pairs = zip(hidden.tensor.sizes, otherwise.tensor.sizes, strict=True)
        sizes = tuple(max(pair) for pair in pairs)
        found = self._scratch(sizes)
        filtered = self._constant(self.desc.mask_filter_value, self.type)
        condition, a, b = (broadcast(view, sizes) for view in (hidden, filtered, otherwise))
        desc = operator_desc(
            "ELEMENT_WISE_IF",
            ConditionTensor=condition.tensor,
            ATensor=a.tensor,
            BTensor=b.tensor,
            OutputTensor=found.tensor,
        )
        self.builder.operator(desc, [condition.region, a.region, b.region], [found.region], "mask")
        return found

    def _beyond(self) -> PlacedTensor | None:
        """What is added for lengths: of the mask, and of the past; batch, 1, 1, keys."""
        hidden = None
        if self.desc.mask_type not in (MultiheadAttentionMaskType.NONE, MultiheadAttentionMaskType.BOOLEAN):
            hidden = self._outside()
        if past_lengths(self.desc) is not None:
            before = self._past_beyond()
            hidden = before if hidden is None else self._both("ELEMENT_WISE_LOGICAL_OR", hidden, before)
        return None if hidden is None else self._filtered(hidden, self._constant(0.0, self.type))

    def _outside(self) -> PlacedTensor:
        """Which keys lie at an end or behind it, or before a start, as the mask says: batch, 1, 1, keys."""
        assert self.desc.mask_tensor is not None  # its kind says so
        given = PlacedTensor(self.desc.mask_tensor, self.builder.reads["mask_tensor"])
        sizes, positions = self._key_sizes, self._positions(DataType.INT32)
        axis = given.tensor.dimension_count - 1
        if self.desc.mask_type is MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END:
            given = self._slice(given, axis, 0, self.batch)
        hidden = self._compare("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", positions, self._of_batch(given), sizes)
        if self.desc.mask_type is not MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
            return hidden
        starts = self._of_batch(self._slice(given, axis - 1, 1, 1))
        return self._both(
            "ELEMENT_WISE_LOGICAL_OR", hidden, self._compare("ELEMENT_WISE_LOGICAL_LESS_THAN", positions, starts, sizes)
        )

    def _past_beyond(self) -> PlacedTensor:
        """Which past keys lie at their sequence's length or behind it: batch, 1, 1, keys."""
        name = "past_sequence_lengths_tensor"
        given = self._of_batch(PlacedTensor(getattr(self.desc, name), self.builder.reads[name]))
        if self.type is not DataType.FLOAT32:
            numbers = self._scratch(given.tensor.sizes, DataType.FLOAT32)
            cast = operator_desc("CAST", InputTensor=given.tensor, OutputTensor=numbers.tensor)
            self.builder.operator(cast, [given.region], [numbers.region])
            given = numbers
        sizes, positions = self._key_sizes, self._positions(DataType.FLOAT32)
        past = self._constant(float(self.past), DataType.FLOAT32)
        behind = self._compare("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", positions, given, sizes)
        return self._both(
            "ELEMENT_WISE_LOGICAL_AND", behind, self._compare("ELEMENT_WISE_LOGICAL_LESS_THAN", positions, past, sizes)
        )

    @property
    def _key_sizes(self) -> tuple[int, int, int, int]:
        return (self.batch, 1, 1, self.keys)

    def _of_batch(self, view: PlacedTensor) -> PlacedTensor:
        """A number for each element of the batch: batch, 1, 1, 1."""
        return view.shaped((self.batch, 1, 1, 1), (view.tensor.element_strides[-1], 0, 0, 0))

    def _positions(self, data_type: DataType) -> PlacedTensor:
        """0, 1, 2 and so on for the keys."""
        positions = self._scratch((1, 1, 1, self.keys), data_type)
        desc = operator_desc(
            "FILL_VALUE_SEQUENCE", OutputTensor=positions.tensor, ValueDataType=data_type, ValueStart=0, ValueDelta=1
        )
        self.builder.operator(desc, [], [positions.region])
        return positions

    def _both(self, name: str, left: PlacedTensor, right: PlacedTensor) -> PlacedTensor:
        found = self._scratch(left.tensor.sizes, DataType.UINT8)
        self._binary(name, left, right, found)
        return found

    def _compare(self, name: str, left: PlacedTensor, right: PlacedTensor, sizes: Sequence[int]) -> PlacedTensor:
        found = self._scratch(sizes, DataType.UINT8)
        self._binary(name, broadcast(left, sizes), broadcast(right, sizes), found)
        return found

    def _constant(self, value: float, data_type: DataType = DataType.INT32) -> PlacedTensor:
        """A number in scratch memory, the same one each time."""
        if (value, data_type) not in self._constants:
            found = self._scratch((1, 1, 1, 1), data_type)
            desc = operator_desc("FILL_VALUE_CONSTANT", OutputTensor=found.tensor, ValueDataType=data_type, Value=value)
            self.builder.operator(desc, [], [found.region])
            self._constants[value, data_type] = found
        return self._constants[value, data_type]


def _step(view: PlacedTensor, axis: int, group: int) -> int:
    """How many positions along an axis, each of so many elements, lie multiples of 16 bytes apart."""
    if view.tensor.sizes[axis] == 1:
        return 1
    stride = group * view.tensor.element_strides[axis] * view.tensor.data_type.size_in_bytes
    return _ALIGNMENT // power_of_two_in(stride, _ALIGNMENT)


@lowering(MultiheadAttention, MultiheadAttention1)
def lower(desc: MultiheadAttention | MultiheadAttention1, target: Target) -> Program:
    return _AttentionLowering(desc, target).program()
