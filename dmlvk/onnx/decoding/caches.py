"""Caches of keys and values: memory with room for more rows than there are, to which decoders append where it lies."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.model.loading import ValueInfo
from dmlvk.onnx.nodes.values import DATA_TYPES, Array
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device

_FEWEST_ROWS = 256  # For which new memory has room besides those that there are: what a few answers take


@dataclasses.dataclass(frozen=True)
class CachePair:
    """An input that holds keys or values, and the output that holds the same with those of new tokens."""

    past: str  # the input
    present: str  # the output
    node: str  # the node that appends, for messages
    ends: str  # the value that says where sequences end; where there is no total, how many rows all have before
    total: str  # the value that says how long the longest is; empty: none does
    counts: str = ""  # the value that says how many of the new tokens of each sequence count; empty: all do
    masks: tuple[str, ...] = ()  # the values that hide keys, or are added to scores, as far as the host makes them
    grows: bool = False  # whether the output has the rows of the input and those of all new tokens, whatever is counted
    keeps_window: bool = False  # whether it has the rows of the input, of the latest keys only


@dataclasses.dataclass(frozen=True)
class Lengths:
    """What a plan knows of the lengths that a node reads."""

    node: str  # the node, for messages
    ends: str  # as of :class:`CachePair`
    total: str  # likewise
    batch: int  # sequences
    tokens: int  # new ones of each
    positions: int | None  # for how many there are angles; ``None``: nothing is turned by its place
    masked: int | None = None  # keys that a mask of the node has; ``None``: it has none, or those that the host makes
    counts: str = ""  # as of :class:`CachePair`
    masks: tuple[str, ...] = ()  # likewise
    # the output that shows scores, which has as many columns as the longest sequence has keys; empty: none
    scores: str = ""

    def keys(self, counted: Mapping[str, Any]) -> int:
        """How many keys the longest sequence has, with those of its new tokens."""
        if self.total:
            return int(np.asarray(counted[self.total]).reshape(-1)[0])
        return max(self.pasts(counted)) + self.tokens

    def pasts(self, counted: Mapping[str, Any]) -> list[int]:
        """How many keys each sequence has before its new tokens."""
        if not self.total:
            return [int(np.asarray(counted[self.ends]).reshape(-1)[0])] * self.batch
        total = int(np.asarray(counted[self.total]).reshape(-1)[0])
        ends = [int(end) for end in np.asarray(counted[self.ends]).reshape(-1)]
        if self.counts:
            own = np.asarray(counted[self.counts]).reshape(-1)
            return [end + 1 - int(count) for end, count in zip(ends, own, strict=True)]
        return [0 if total == self.tokens else end + 1 - self.tokens for end in ends]


@dataclasses.dataclass(frozen=True, eq=False)
class Cache:
    pair: CachePair  # what it is in the model
    element: int  # ONNX's element type
    shape: tuple[int, int, int, int]  # batch, heads, the rows that there is room for, size
    given: Any  # what the caller has: an array, or one on the device
    rows: int  # how many the caller sees in it
    shown: int  # how many the output shows

    @property
    def is_growing(self) -> bool:
        return self.shown > self.rows


class Caches:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._filled: weakref.WeakKeyDictionary[Storage, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._own: dict[str, TensorMemory] = {}

    def taken(self, pair: CachePair, info: ValueInfo, given: Any, total: int) -> Cache | None:
        """A cache for a run; ``None`` where it has no four dimensions, or no type that the device has.

        Args:
            total: the length of the longest sequence, with its new tokens.
        """
        shape = given.shape if isinstance(given, DeviceValue) else np.shape(given)
        if len(shape) != 4 or info.element not in DATA_TYPES or 0 in (shape[0], shape[1], shape[3]):
            return None
        batch, heads, rows, size = (int(length) for length in shape)
        shown = max(rows, total)
        room = shown
        if shown > rows:
            known = self._known(given)
            row = batch * heads * size * DATA_TYPES[info.element].size_in_bytes
            most = self._device.info.limits.largest_buffer // row
            room = known[0] if known is not None and known[0] >= shown else max(shown, min(rounded_rows(shown), most))
        return Cache(pair, info.element, (batch, heads, room, size), given, rows, shown)

    def _known(self, given: Any) -> tuple[int, int] | None:
        """Of an array that a run has made, the rows that its memory has room for, and those that are filled."""
        return self._filled.get(given.on_device.storage) if isinstance(given, DeviceValue) else None

    def memory(self, cache: Cache, pasts: Sequence[int], target: Any, *, is_kept: bool) -> TensorMemory:
        """Where a run appends: an array of the cache's whole shape that holds its past.

        That is the caller's own memory where the output is bound to it, or where what comes behind the rows that the
        caller sees was never shown; else a copy. Rows behind a sequence's length are zeros in a cache that comes from
        the host, and anything in others.

        Args:
            target: the array on the device that the output is bound to; ``None``: to none.
            is_kept: whether the output stays on the device.
        """
        given, tensor = cache.given, _tensor(cache.element, cache.shape)
        if isinstance(given, DeviceValue):
            storage, known = given.on_device.storage, self._known(given)
            is_bound = isinstance(target, DeviceValue) and target.on_device.storage is storage
            is_whole = given.on_device.tensor == tensor or given.on_device.fits(tensor)
            if not cache.is_growing and is_bound and is_whole:
                return given.on_device
            if cache.is_growing and known == (cache.shape[2], cache.rows) and given.on_device.offset == 0:
                return TensorMemory(self._device, storage, tensor)
            return self._copied(cache, tensor)
        own = None if is_kept else self._own.get(cache.pair.present)
        if own is None or own.is_closed or own.shape != cache.shape or own.data_type is not tensor.data_type:
            own = TensorMemory(self._device, Storage(self._device.arrays.pool, tensor.size_in_bytes), tensor)
            if not is_kept:
                self._own[cache.pair.present] = own
        _write(own, np.asarray(given), pasts, cache.shown)
        return own

    def _copied(self, cache: Cache, tensor: TensorDesc) -> TensorMemory:
        source = cache.given.on_device
        batch, heads, _, size = cache.shape
        part = TensorDesc(
            tensor.data_type, (batch, heads, cache.rows, size), tensor.element_strides, tensor.size_in_bytes
        )
        made = self._device.arrays.moved(source, tensor=part)
        return TensorMemory(self._device, made.storage, tensor)

    def shown(self, cache: Cache, memory: TensorMemory) -> DeviceValue:
        """What the output shows, when its rows are written."""
        self._filled[memory.storage] = (cache.shape[2], cache.shown)
        batch, heads, _, size = cache.shape
        shape = (batch, heads, cache.shown, size)
        if cache.shown == cache.shape[2]:
            return DeviceValue(cache.element, shape, memory)
        tensor = _part(memory.tensor, cache.shown)
        return DeviceValue(cache.element, shape, TensorMemory(self._device, memory.storage, tensor, is_whole=False))


def rounded_rows(rows: int) -> int:
    """Room for so many rows, and for more."""
    return 1 << (rows + _FEWEST_ROWS - 1).bit_length()


@functools.lru_cache(maxsize=64)
def _tensor(element: int, shape: tuple[int, int, int, int]) -> TensorDesc:
    return TensorDesc(DATA_TYPES[element], shape)


@functools.lru_cache(maxsize=64)
def _part(whole: TensorDesc, rows: int) -> TensorDesc:
    batch, heads, _, size = whole.sizes
    return TensorDesc(whole.data_type, (batch, heads, rows, size), whole.element_strides)


def _write(target: TensorMemory, values: Array, pasts: Sequence[int], shown: int) -> None:
    """Writes the rows of a cache that count, and zeros behind them, as far as the output shows them."""

    def fill(contents: Array) -> None:
        whole = contents[: target.nbytes].view(target.dtype).reshape(target.shape)
        for sequence, past in enumerate(pasts):
            whole[sequence, :, :past] = values[sequence, :, :past]
            whole[sequence, :, past:shown] = 0

    target.device.engine.write(target.storage.allocation, fill, keeps_contents=False)


def check_lengths(model: str, lengths: Lengths, counted: Mapping[str, Any], caches: Sequence[Cache]) -> list[int]:
    """The keys that each sequence has before its new tokens.

    Raises:
        InvalidArgumentError: when lengths contradict one another, a mask, or a cache.
    """
    where = f"{model}: {lengths.node}"
    pasts = lengths.pasts(counted)
    if lengths.total:
        _check_ends(where, lengths, counted, pasts)
    elif pasts[0] < 0:
        raise InvalidArgumentError(f"{where}: {lengths.ends!r} says that {pasts[0]} tokens stand before the new ones")
    most = max(pasts)
    masked = {counted[name].shape[-1] for name in lengths.masks} | {lengths.masked} - {None}
    keys = lengths.keys(counted)
    if wrong := masked - {keys}:
        raise InvalidArgumentError(
            f"{where}: {most} tokens and {lengths.tokens} new ones contradict a mask of {wrong.pop()} keys"
        )
    for cache in caches:
        pair = cache.pair
        if (pair.ends, pair.total, pair.counts) != (lengths.ends, lengths.total, lengths.counts):
            continue
        if cache.shape[0] != lengths.batch:
            raise InvalidArgumentError(
                f"{where}: {pair.past!r} must have {lengths.batch} sequences; got {cache.shape[0]}"
            )
        if pair.keeps_window:
            continue  # it has room whatever comes
        if most > cache.rows:
            raise InvalidArgumentError(
                f"{where}: {lengths.ends!r} says that a sequence has {most} tokens before its {lengths.tokens} "
                f"new ones; {pair.past!r} has {cache.rows}"
            )
        if lengths.total and keys > cache.rows and keys != cache.rows + lengths.tokens:
            raise InvalidArgumentError(
                f"{where}: {lengths.total!r} says that a sequence has {keys} tokens; {pair.past!r} must have room for "
                f"all of them, or all but the {lengths.tokens} new ones: it has {cache.rows} rows"
            )
        if most + lengths.tokens > cache.shape[2]:
            raise InvalidArgumentError(
                f"{where}: {most} tokens and {lengths.tokens} new ones do not go into {pair.past!r} of {cache.shape[2]}"
            )
    return pasts


def _check_ends(where: str, lengths: Lengths, counted: Mapping[str, Any], pasts: Sequence[int]) -> None:
    """Looks whether the ends of sequences go with the longest one, with the new tokens, and with the angles."""
    ends = np.asarray(counted[lengths.ends]).reshape(-1)
    total = int(np.asarray(counted[lengths.total]).reshape(-1)[0])
    longest = int(ends.max()) + 1
    if longest > total:
        raise InvalidArgumentError(
            f"{where}: {lengths.ends!r} says that a sequence has {longest} tokens; {lengths.total!r} says at most "
            f"{total}"
        )
    needed = longest if lengths.counts else total
    if lengths.positions is not None and needed > lengths.positions:
        said = lengths.ends if lengths.counts else lengths.total
        raise InvalidArgumentError(
            f"{where}: {said!r} says that a sequence has {needed} tokens; the tables of cosines and sines have "
            f"{lengths.positions} places"
        )
    if min(pasts) < 0 or int(ends.min()) < 0:
        raise InvalidArgumentError(
            f"{where}: {lengths.ends!r} says that a sequence has {int(ends.min()) + 1} tokens; it is given "
            f"{lengths.tokens} new ones"
        )
    own = np.asarray(counted[lengths.counts]).reshape(-1) if lengths.counts else np.zeros(1, np.int32)
    if int(own.min()) < 0 or int(own.max()) > lengths.tokens:
        raise InvalidArgumentError(
            f"{where}: {lengths.counts!r} says that {[int(count) for count in own]} tokens count, of {lengths.tokens}"
        )
