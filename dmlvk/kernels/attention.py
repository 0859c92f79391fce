"""Lowers MULTIHEAD_ATTENTION: products, sums and softmax of other operators, on views of its tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators import MatrixTransform, MultiheadAttention, OperatorDesc, operator_desc
from dmlvk.operators.attention import MultiheadAttentionMaskType, part_sizes, source_of
from dmlvk.tensors import TensorDesc

_MOST_SCORES = 2**26
"""Bytes of scores that are kept at a time: query rows are gone through in blocks."""

_EQUALS = "ELEMENT_WISE_LOGICAL_EQUALS"

_ROWS = 8
"""Blocks have multiples of so many rows, so that they begin at multiples of 16 bytes."""


@dataclasses.dataclass(frozen=True)
class _View:
    """A tensor and where it lies."""

    tensor: TensorDesc
    region: Region

    def shaped(self, sizes: Sequence[int], strides: Sequence[int]) -> _View:
        """The same memory with other sizes and strides, in elements."""
        return _View(TensorDesc(self.tensor.data_type, tuple(sizes), tuple(strides)), self.region)

    def rows(self, first: int, count: int) -> _View:
        """Rows of each matrix, the first one a multiple of ``_ROWS`` (or of strides 0)."""
        sizes, strides = list(self.tensor.sizes), self.tensor.element_strides
        sizes[-2] = count
        part = TensorDesc(self.tensor.data_type, tuple(sizes), tuple(strides))
        offset = first * strides[-2] * self.tensor.data_type.size_in_bytes
        return _View(part, self.region.part(offset, part.size_in_bytes))


class _Lowering:
    """The steps of one description."""

    def __init__(self, desc: MultiheadAttention, target: Target) -> None:
        self.desc = desc
        self.builder = ProgramBuilder(desc, target)
        self.heads = desc.head_count
        self.batch, self.queries, self.size = part_sizes(desc, "query")
        _, self.own, self.value_size = part_sizes(desc, "value")
        self.type = desc.output_tensor.data_type

    def program(self) -> Program:
        """All steps."""
        hidden = self.heads * self.size
        query = self._part("query", 0)
        key = self._present("key", self._part("key", hidden))
        value = self._present("value", self._part("value", 2 * hidden))
        keys = key.tensor.sizes[2]
        mask = self._mask(keys)
        bias = self._relative(keys)
        output = self._headed(_View(self.desc.output_tensor, self.builder.writes["output_tensor"]))
        row_bytes = self.batch * self.heads * keys * self.type.size_in_bytes
        count = min(self.queries, max(_ROWS, _MOST_SCORES // row_bytes // _ROWS * _ROWS))
        spaces = [self._scratch((self.batch, self.heads, count, keys)) for _ in range(2)]
        for first in range(0, self.queries, count):
            length = min(count, self.queries - first)
            here, there = ((_packed(space, (self.batch, self.heads, length, keys))) for space in spaces)
            self._gemm(query.rows(first, length), key, bias and bias.rows(first, length), here, self.desc.scale, True)
            if mask is not None:
                self._binary("ELEMENT_WISE_ADD", here, self._rows_of_mask(mask, first, length), there)
                here, there = there, here
            rows = (self.batch * self.heads * length, keys)
            flat, shares = (view.shaped((1, 1, *rows), (0, 0, keys, 1)) for view in (here, there))
            softmax = operator_desc("ACTIVATION_SOFTMAX", InputTensor=flat.tensor, OutputTensor=shares.tensor)
            self.builder.operator(softmax, [flat.region], [shares.region], "softmax")
            self._gemm(there, value, None, output.rows(first, length), 1.0, False)
        return self.builder.program()

    def _scratch(self, sizes: Sequence[int], data_type: DataType | None = None) -> _View:
        tensor = TensorDesc(data_type or self.type, tuple(sizes))
        return _View(tensor, self.builder.scratch(tensor.size_in_bytes))

    def _slice(self, view: _View, axis: int, first: int, count: int) -> _View:
        """Elements along an axis: in place if they begin at a multiple of 16 bytes, else copied."""
        tensor = view.tensor
        sizes = tuple(count if i == axis else size for i, size in enumerate(tensor.sizes))
        offset = first * tensor.element_strides[axis] * tensor.data_type.size_in_bytes
        if offset % 16 == 0:
            part = TensorDesc(tensor.data_type, sizes, tensor.element_strides)
            return _View(part, view.region.part(offset, part.size_in_bytes))
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

    def _headed(self, view: _View) -> _View:
        """Batch, length, heads * size as batch, heads, length, size."""
        sizes, strides = view.tensor.sizes[-3:], view.tensor.element_strides[-3:]
        size = sizes[2] // self.heads
        batch, row, element = strides
        return view.shaped((sizes[0], self.heads, sizes[1], size), (batch, size * element, row, element))

    def _part(self, role: str, bias_at: int) -> _View:
        """Queries, keys or values, with their bias: batch, heads, length, size."""
        name, place = source_of(self.desc, role)
        view = _View(getattr(self.desc, name), self.builder.reads[name])
        if place >= 0:
            view = self._slice(view, 3, place, 1)
            sizes, strides = view.tensor.sizes, view.tensor.element_strides
            order = (0, 2, 1, 4)
            view = view.shaped([sizes[i] for i in order], [strides[i] for i in order])
        else:
            view = self._headed(view)
        if self.desc.bias_tensor is None:
            return view
        tensor = self.desc.bias_tensor
        whole = _View(tensor, self.builder.reads["bias_tensor"])
        size = view.tensor.sizes[3]
        part = self._slice(whole, tensor.dimension_count - 1, bias_at, self.heads * size)
        stride = part.tensor.element_strides[-1]
        bias = part.shaped(view.tensor.sizes, (0, size * stride, 0, stride))
        found = self._scratch(view.tensor.sizes)
        self._binary("ELEMENT_WISE_ADD", view, bias, found)
        return found

    def _present(self, role: str, own: _View) -> _View:
        """Past and own keys or values, in the present tensor if there is one."""
        past, present = f"past_{role}_tensor", f"output_present_{role}_tensor"
        parts = [own]
        if past in self.builder.reads:
            parts.insert(0, _last_four(_View(getattr(self.desc, past), self.builder.reads[past])))
        if present in self.builder.writes:
            found = _last_four(_View(getattr(self.desc, present), self.builder.writes[present]))
        elif len(parts) == 1:
            return own
        else:
            sizes = own.tensor.sizes
            found = self._scratch((*sizes[:2], sum(part.tensor.sizes[2] for part in parts), sizes[3]))
        tensors = [part.tensor for part in parts]
        desc = operator_desc("JOIN", InputCount=len(parts), InputTensors=tensors, OutputTensor=found.tensor, Axis=2)
        self.builder.operator(desc, [part.region for part in parts], [found.region], f"{role}s")
        return found

    def _relative(self, keys: int) -> _View | None:
        name = "relative_position_bias_tensor"
        if name not in self.builder.reads:
            return None
        view = _last_four(_View(getattr(self.desc, name), self.builder.reads[name]))
        strides = view.tensor.element_strides
        outer = 0 if view.tensor.sizes[0] == 1 else strides[0]
        return view.shaped((self.batch, self.heads, self.queries, keys), (outer, *strides[1:]))

    def _binary(self, name: str, left: _View, right: _View, result: _View) -> None:
        desc = operator_desc(name, ATensor=left.tensor, BTensor=right.tensor, OutputTensor=result.tensor)
        self.builder.operator(desc, [left.region, right.region], [result.region])

    def _gemm(self, a: _View, b: _View, c: _View | None, result: _View, alpha: float, transposed: bool) -> None:
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

    def _mask(self, keys: int) -> _View | None:
        """What is added to scores: of four dimensions, some of size 1."""
        types, kind = MultiheadAttentionMaskType, self.desc.mask_type
        if self.desc.mask_tensor is None:
            return None
        given = _View(self.desc.mask_tensor, self.builder.reads["mask_tensor"])
        if kind is types.BOOLEAN:
            rank = given.tensor.dimension_count
            sizes: tuple[int, ...] = (1,) * (4 - rank) + tuple(given.tensor.sizes[-4:])
            strides = (0,) * (4 - rank) + tuple(given.tensor.element_strides[-4:])
            hidden = self._compare(_EQUALS, given.shaped(sizes, strides), self._constant(0), sizes)
        else:
            hidden = self._beyond(given, keys)
        own = hidden.tensor.sizes
        found = self._scratch(own)
        values = [_broadcast(self._constant(value, self.type), own) for value in (self.desc.mask_filter_value, 0.0)]
        desc = operator_desc(
            "ELEMENT_WISE_IF",
            ConditionTensor=hidden.tensor,
            ATensor=values[0].tensor,
            BTensor=values[1].tensor,
            OutputTensor=found.tensor,
        )
        self.builder.operator(desc, [hidden.region, *(value.region for value in values)], [found.region], "mask")
        return found

    def _beyond(self, given: _View, keys: int) -> _View:
        """Which keys lie at an end or behind it, or before a start: batch, 1, 1, keys."""
        sizes = (self.batch, 1, 1, keys)
        places = self._scratch((1, 1, 1, keys), DataType.INT32)
        sequence = operator_desc(
            "FILL_VALUE_SEQUENCE",
            OutputTensor=places.tensor,
            ValueDataType=DataType.INT32,
            ValueStart=0,
            ValueDelta=1,
        )
        self.builder.operator(sequence, [], [places.region])
        axis = given.tensor.dimension_count - 1
        if self.desc.mask_type is MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END:
            given = self._slice(given, axis, 0, self.batch)
        stride = given.tensor.element_strides[-1]
        ends = given.shaped((self.batch, 1, 1, 1), (stride, 0, 0, 0))
        hidden = self._compare("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", places, ends, sizes)
        if self.desc.mask_type is not MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
            return hidden
        starts = self._slice(given, axis - 1, 1, 1)
        starts = starts.shaped((self.batch, 1, 1, 1), (starts.tensor.element_strides[-1], 0, 0, 0))
        before = self._compare("ELEMENT_WISE_LOGICAL_LESS_THAN", places, starts, sizes)
        either = self._scratch(sizes, DataType.UINT8)
        self._binary("ELEMENT_WISE_LOGICAL_OR", hidden, before, either)
        return either

    def _compare(self, name: str, left: _View, right: _View, sizes: Sequence[int]) -> _View:
        found = self._scratch(sizes, DataType.UINT8)
        self._binary(name, _broadcast(left, sizes), _broadcast(right, sizes), found)
        return found

    def _constant(self, value: float, data_type: DataType = DataType.INT32) -> _View:
        found = self._scratch((1, 1, 1, 1), data_type)
        desc = operator_desc("FILL_VALUE_CONSTANT", OutputTensor=found.tensor, ValueDataType=data_type, Value=value)
        self.builder.operator(desc, [], [found.region])
        return found

    def _rows_of_mask(self, mask: _View, first: int, count: int) -> _View:
        whole = _broadcast(mask, (self.batch, self.heads, self.queries, self._keys))
        return whole.rows(first, count)

    @property
    def _keys(self) -> int:
        past = self.desc.past_key_tensor
        return self.own + (0 if past is None else past.sizes[-2])


def _last_four(view: _View) -> _View:
    return view.shaped(view.tensor.sizes[-4:], view.tensor.element_strides[-4:])


def _packed(space: _View, sizes: Sequence[int]) -> _View:
    tensor = TensorDesc(space.tensor.data_type, tuple(sizes))
    return _View(tensor, space.region.part(0, tensor.size_in_bytes))


def _broadcast(view: _View, sizes: Sequence[int]) -> _View:
    """The same elements with these sizes; those of size 1 repeat by stride 0."""
    pairs = zip(view.tensor.sizes, view.tensor.element_strides, strict=True)
    return view.shaped(sizes, [0 if size == 1 else stride for size, stride in pairs])


def lower(desc: OperatorDesc, target: Target) -> Program:
    """The program of a MULTIHEAD_ATTENTION.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    assert isinstance(desc, MultiheadAttention)
    return _Lowering(desc, target).program()
