"""Runs decoders with one plan for all lengths: numbers in memory, and caches that are appended to where they lie."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.decoding.cache_pairs import cache_pairs, masks_of, with_rows
from dmlvk.onnx.decoding.caches import Cache, CachePair, Caches, Lengths, check_lengths, rounded_rows
from dmlvk.onnx.decoding.counting import Counting, NotCountedError, conditions_of, is_counted, is_size, makers_of
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.values import Array
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.round_plans import Live
from dmlvk.tensors import TensorDesc, packed_strides

if TYPE_CHECKING:
    from dmlvk.device import Device


MOST_ELEMENTS = 2**24
"""Of a mask that the host makes: those of more are left to the device, with a plan for their sizes."""


def widened_masks(
    model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any], masks: Sequence[tuple[Step, Sequence[str]]]
) -> frozenset[str]:
    """The masks that the host can make: they follow from inputs by counting, and nothing else reads them.

    Args:
        steps: its nodes that are not constants.
        masks: the nodes that append to caches, with their masks. Where one of a node's is left to the device, all are.
    """
    readers: dict[str, int] = {info.name: 1 for info in model.outputs}
    for step in steps:
        for name in step.reads:
            readers[name] = readers.get(name, 0) + 1
    own: dict[str, int] = {}
    for _, names in masks:
        for name in set(names):
            own[name] = own.get(name, 0) + 1
    found = set()
    for name, count in own.items():
        if name in constants or readers.get(name) != count:
            continue
        try:
            makers_of(model, steps, constants, [name], are_masks=True)
        except NotCountedError:
            continue
        found.add(name)
    while left := {name for _, names in masks if not found.issuperset(names) for name in names if name in found}:
        found -= left
    return frozenset(found)


def widened(mask: Array, width: int) -> Array:
    columns = mask.shape[-1]
    if columns >= width or not columns:
        return mask
    made = np.empty((*mask.shape[:-1], width), mask.dtype)
    made[..., :columns] = mask
    made[..., columns:] = mask[..., -1:]
    return made


def is_wide(mask: Array) -> bool:
    """Whether a mask has a column for each key: those of one dimension have numbers of sequences."""
    return mask.ndim > 1


_log = logging.getLogger("dmlvk")


Targets = Mapping[str, Any] | Callable[[str, tuple[int, ...]], Any]
"""Values that outputs are bound to, by name; or a function that finds that of an output by its name and shape."""


@dataclasses.dataclass(frozen=True)
class DecoderRun:
    """The inputs of a run as a decoder's plan takes them."""

    arrays: dict[str, Any]  # the inputs that the device reads, counts, and caches; by name
    counted: Mapping[str, Any]  # everything that was counted
    caches: tuple[Cache, ...]  # those of the run
    widths: Mapping[str, int]  # the columns that masks have, by their names
    known: Mapping[str, Array]  # what decides which branches are taken, by name

    @property
    def branches(self) -> tuple[tuple[str, bytes], ...]:
        """The same, as what plans are told apart by."""
        return tuple((name, array.tobytes()) for name, array in self.known.items())

    @property
    def capacities(self) -> dict[str, int]:
        """How many rows the caches have room for, by the outputs that show them."""
        return {cache.pair.present: cache.shape[2] for cache in self.caches}


class Decoding:
    """What a model is, seen as a decoder."""

    def __init__(
        self,
        device: Device,
        model: OnnxModel,
        pairs: Sequence[CachePair],
        counting: Counting,
        *,
        is_open: bool = False,  # whether sizes on the device follow from lengths: of masks that are made there, say
    ) -> None:
        self.is_open = is_open
        self._reads_rows = _reads_rows(counting.rest, pairs)
        self._model = model
        self._infos = {info.name: info for info in model.inputs}
        self._pairs = tuple(pairs)
        self._caches = Caches(device)
        self._counting = counting
        self._masks = {name for pair in pairs for name in pair.masks}
        self._conditions = conditions_of(counting.rest) & set(counting.made)
        self.steps = counting.rest
        self.counting_steps = tuple(step for step in counting.steps if step.index >= 0)
        pasts = {pair.past for pair in pairs}
        self._others = [info.name for info in model.inputs if info.name not in pasts]
        axes = {
            info.name: [axis for axis, size in enumerate(info.shape or ()) if not isinstance(size, int)]
            for info in model.inputs
            if info.name not in pasts
        }
        self._open = {name: axes[name] for name in axes if name not in counting.dropped | self._masks}
        self._counted_open = {name: axes[name] for name in axes if name not in self._open}

    @classmethod
    def of(
        cls, device: Device, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]
    ) -> Decoding | None:
        """A model as a decoder; ``None`` where it has no caches, or lengths that are more than counts."""
        masks = widened_masks(model, steps, constants, masks_of(steps))
        on_device = {name for _, names in masks_of(steps) for name in names if name not in constants} - masks
        counted_masks, rows = with_rows(model, steps, constants, masks | on_device)
        pairs = cache_pairs(model, counted_masks, constants, masks)
        if not pairs:
            return None
        lengths = {name for pair in pairs for name in (pair.ends, pair.total, pair.counts) if name}
        lengths |= {name for name in conditions_of(steps) if is_counted(model, counted_masks, constants, name)}
        try:
            all_steps = [*rows, *counted_masks]
            counting = Counting(model, all_steps, constants, lengths, masks)
            is_open = bool(on_device) or _reads_rows(counting.rest, pairs)
            if is_open:
                counting = Counting(model, all_steps, constants, lengths, masks, counts_again=True)
            return cls(device, model, pairs, counting, is_open=is_open)
        except NotCountedError as reason:
            _log.debug("%s: its lengths are computed on the device: %s", model.name, reason)
            return None

    def taken(self, arrays: Mapping[str, Any]) -> DecoderRun | None:
        """The inputs of a run; ``None`` where they are not such that caches can be appended to.

        Raises:
            ModelFileError: when something cannot be counted.
            InvalidArgumentError: when there are lengths of other sequences than the caches have.
        """
        if self._masks and self._most_masked(arrays) > MOST_ELEMENTS:
            return None
        counted = self._counting.counted(arrays)
        if not all(is_wide(counted[name]) for name in self._masks):
            return None
        caches: list[Cache] = []
        for pair in self._pairs:
            total, ends = self._longest(pair, counted, arrays), counted.get(pair.ends)
            if total is None or ends is None or (pair.counts and pair.counts not in counted):
                return None
            info = self._infos[pair.past]
            self._check_total(pair, total, arrays)
            cache = self._caches.taken(pair, info, arrays[pair.past], total)
            if cache is None or (pair.grows and cache.rows != int(ends[0])):
                return None
            if ends.size != (cache.shape[0] if pair.total else 1):
                raise InvalidArgumentError(
                    f"{self._model.name}: {pair.node}: {pair.ends!r} must have a number for "
                    f"{f'each of {cache.shape[0]}' if pair.total else 'all'} sequences; got {ends.size}"
                )
            caches.append(cache)
        self._check_alike(caches, arrays)
        own = {cache.pair.past: cache for cache in caches}
        widths = dict.fromkeys(self._masks, 0)
        for cache in caches:
            for name in cache.pair.masks:
                columns = counted[name].shape[-1]
                width = rounded_rows(columns) if cache.pair.keeps_window else cache.shape[2]
                widths[name] = max(widths[name], columns, width)
        known = {name: np.array(counted[name]) for name in sorted(self._conditions)}  # inputs' memory may be used again
        return DecoderRun({**self._made(arrays, counted, widths), **own}, counted, tuple(caches), widths, known)

    def _check_total(self, pair: CachePair, total: int, arrays: Mapping[str, Any]) -> None:
        """Refuses a length of which nobody knows the keys, before anything is planned for so many.

        There are no more new tokens than an input has elements, or would have in one sequence where there are none; the
        plan, which knows how many there are, looks again.
        """
        shape = _shape_of(arrays[pair.past])
        rows = shape[2] if len(shape) == 4 else total
        if total <= rows:
            return
        shapes = [_shape_of(arrays[name]) for name in self._others if name in arrays]
        most = max((math.prod(max(size, 1) for size in shape) for shape in shapes), default=0)
        if total > rows + most:
            raise InvalidArgumentError(
                f"{self._model.name}: {pair.node}: {pair.total or pair.ends!r} says that a sequence has {total} "
                f"tokens; {pair.past!r} has {rows} rows, and no input as many new tokens"
            )

    def _check_alike(self, caches: Sequence[Cache], arrays: Mapping[str, Any]) -> None:
        """Refuses keys of another number of sequences, heads or rows than the values have that they belong to."""
        first: dict[str, Cache] = {}
        for cache in caches:
            other = first.setdefault(cache.pair.node, cache)
            own, others = (tuple(_shape_of(arrays[each.pair.past]))[:3] for each in (cache, other))
            if own != others:
                raise InvalidArgumentError(
                    f"{self._model.name}: {cache.pair.node}: {other.pair.past!r} and {cache.pair.past!r} must have as "
                    f"many sequences, heads and rows; got {list(others)} and {list(own)}"
                )

    def _made(self, arrays: Mapping[str, Any], counted: Mapping[str, Any], widths: Mapping[str, int]) -> dict[str, Any]:
        """The inputs of a run but for its caches, as the device reads them."""
        given = {name: value for name, value in arrays.items() if name not in self._counting.dropped}
        given |= {name: counted[name] for name in self._counting.made if name not in self._conditions}
        return given | {name: widened(counted[name], width) for name, width in widths.items()}

    def _most_masked(self, arrays: Mapping[str, Any]) -> int:
        """The elements of a head's mask at most, by the open sizes of a run: its new tokens, and all keys."""
        tokens = max(_sizes_of(arrays, self._open), default=1)
        return tokens * max(_sizes_of(arrays, self._counted_open), default=1)

    def lengths_in(self, run: DecoderRun, lengths: Collection[Lengths]) -> list[tuple[Lengths, list[Cache]]]:
        """What a plan knows of lengths, each once, with the caches of a run that tell all that is to be checked."""
        several = {
            (of.ends, of.total, of.counts, of.batch, of.tokens, of.positions, of.masked, bool(of.scores)): of
            for of in lengths
        }
        kinds = {
            (cache.pair.ends, cache.pair.total, cache.pair.counts, cache.shape, cache.rows): cache
            for cache in run.caches
        }
        return [(of, list(kinds.values())) for of in several.values()]  # most often those of all layers are the same

    def again(
        self, run: DecoderRun, arrays: Mapping[str, Any], lengths: Sequence[tuple[Lengths, Sequence[Cache]]]
    ) -> dict[str, Array] | None:
        """What the device reads in a run on the caches of an earlier one, which are bound to their outputs.

        Args:
            arrays: the inputs, but for the caches.

        Returns:
            Arrays by name; ``None`` where their shapes or types are not those of the earlier run, other branches are
            taken, or there are more tokens than the caches show.

        Raises:
            InvalidArgumentError: when lengths contradict one another, or a cache.
        """
        if any(cache.pair.grows for cache in run.caches) or any(of.scores for of, _ in lengths):
            return None
        counted = self._counting.counted(arrays)
        if any(not np.array_equal(counted[name], known) for name, known in run.known.items()):
            return None
        given = self._made(arrays, counted, run.widths)
        for name, value in given.items():
            earlier = run.arrays[name]
            if not isinstance(value, np.ndarray) or value.shape != earlier.shape or value.dtype != earlier.dtype:
                return None
        return given if self._have_room(counted, lengths) else None

    def _have_room(self, counted: Mapping[str, Any], lengths: Sequence[tuple[Lengths, Sequence[Cache]]]) -> bool:
        for of, caches in lengths:
            total = np.asarray(counted[of.total] if of.total else 0)
            if total.size != 1:
                return False
            most = int(total.reshape(-1)[0])
            if any(most > cache.rows and not cache.pair.keeps_window for cache in caches):
                return False
            check_lengths(self._model.name, of, counted, caches)
        return True

    def row_of_step(self, counted: Mapping[str, Any], lengths: Sequence[tuple[Lengths, Sequence[Cache]]]) -> int | None:
        """Where in its caches a step of one sequence writes; ``None`` where it cannot be run on them, or moves others.

        Args:
            counted: numbers as far as the device reads them.
        """
        if not all(name in counted for of, _ in lengths for name in (of.ends, of.total, of.counts) if name):
            return None
        if any(cache.pair.keeps_window for _, caches in lengths for cache in caches):
            return None
        if any(of.scores for of, _ in lengths):
            return None
        try:
            if not self._have_room(counted, lengths):
                return None
        except InvalidArgumentError:  # a text of the greatest length has no next step
            return None
        rows = {past for of, _ in lengths for past in of.pasts(counted)}
        return rows.pop() if len(rows) == 1 else None

    def _longest(self, pair: CachePair, counted: Mapping[str, Any], arrays: Mapping[str, Any]) -> int | None:
        """How long the longest sequence of a cache is at most; 0: its keys go into the rows that it has."""
        if pair.keeps_window:
            return 0
        if pair.total:
            total = counted.get(pair.total)
            return None if total is None or total.size != 1 else int(total.reshape(-1)[0])
        if not pair.grows:
            return 0
        # The new tokens are one of the open sizes; which one, the plan knows.
        return int(counted[pair.ends][0]) + max(_sizes_of(arrays, self._open), default=1)

    def settled(self, run: DecoderRun, lengths: Collection[Lengths]) -> DecoderRun | None:
        """The run, where caches that grow show what they have with the plan's new tokens; ``None``: more than there is
        room for, or masks have other keys.
        """
        tokens = {of.ends: of.tokens for of in lengths}
        masked = {of.ends: of.masked for of in lengths if of.masked is not None}
        for cache in run.caches:
            whole = cache.rows + tokens.get(cache.pair.ends, 0)
            if cache.pair.grows and any(run.counted[name].shape[-1] != whole for name in cache.pair.masks):
                return None
            if cache.pair.grows and masked.get(cache.pair.ends, whole) != whole:
                return None
        caches = tuple(
            dataclasses.replace(cache, shown=cache.rows + tokens.get(cache.pair.ends, 0)) if cache.pair.grows else cache
            for cache in run.caches
        )
        if any(cache.shown > cache.shape[2] for cache in caches):
            return None
        return dataclasses.replace(run, caches=caches)

    def has_plan(self, run: DecoderRun) -> bool:
        """Whether a run may be one of a decoder's plan: not where something reads that caches have no rows."""
        return not (self._reads_rows and any(cache.rows == 0 for cache in run.caches))

    def live(self, run: DecoderRun) -> dict[str, Live]:
        """The caches of a run as something sees them that reads their shapes."""
        if not self._reads_rows:
            return {}
        shapes = {cache.pair.past: (*cache.shape[:2], cache.rows, cache.shape[3]) for cache in run.caches}
        return {cache.pair.past: Live(cache.element, shapes[cache.pair.past]) for cache in run.caches}

    @property
    def counted_inputs(self) -> Collection[str]:
        """The inputs of which the device reads nothing but what is counted."""
        return self._counting.dropped

    @property
    def cache_outputs(self) -> dict[str, str]:
        """The outputs that show caches, with the inputs that they go on from."""
        return {pair.present: pair.past for pair in self._pairs}

    def memory(
        self, run: DecoderRun, lengths: Collection[Any], targets: Targets, kept: Collection[str]
    ) -> dict[str, TensorMemory]:
        """Where the caches of a run lie, by the outputs that show them.

        Args:
            lengths: what the plan knows of lengths.
            targets: arrays on the device that outputs are bound to.
            kept: the outputs that stay on the device.

        Raises:
            InvalidArgumentError: when lengths contradict one another, a cache, or what an output is bound to.
        """
        pasts: dict[tuple[str, str, str], list[int]] = {}
        for length, _ in self.lengths_in(run, lengths):
            found = check_lengths(self._model.name, length, run.counted, run.caches)
            pasts[length.ends, length.total, length.counts] = found
        bound: dict[str, Any] = {}
        for cache in run.caches:
            (batch, heads, _, size), name = cache.shape, cache.pair.present
            shape = (batch, heads, cache.shown, size)
            target = bound[name] = targets(name, shape) if callable(targets) else targets.get(name)
            if isinstance(target, DeviceValue) and target.shape != (batch, heads, cache.shown, size):
                raise InvalidArgumentError(
                    f"{self._model.name}: {cache.pair.node}: {cache.pair.present!r} will have the shape "
                    f"{[batch, heads, cache.shown, size]}; it is bound to a value of {list(target.shape)}"
                )
        made: dict[str, TensorMemory] = {}
        for cache in run.caches:
            name = cache.pair.present
            of_cache = pasts[cache.pair.ends, cache.pair.total, cache.pair.counts]
            made[name] = self._caches.memory(cache, of_cache, bound[name], is_kept=name in kept)
        return made

    def with_scores(
        self, run: DecoderRun, lengths: Collection[Lengths], values: Mapping[str, Resident | DeviceValue]
    ) -> dict[str, Resident | DeviceValue]:
        """The outputs that show scores, of as many columns as the longest sequence has keys: those stand in front."""
        made: dict[str, Resident | DeviceValue] = {}
        for of in lengths:
            if not of.scores or of.scores not in values:
                continue
            whole = values[of.scores]
            if isinstance(whole, Resident):
                shape = (*whole.tensor.shape[:3], of.keys(run.counted))
                made[of.scores] = Resident(
                    dataclasses.replace(whole.tensor, shape=shape, strides=packed_strides(shape)), whole.buffer
                )
            else:
                shape = (*whole.shape[:3], of.keys(run.counted))
                storage = whole.on_device.storage
                tensor = TensorDesc(whole.on_device.data_type, shape)
                array = TensorMemory(whole.on_device.device, storage, tensor, is_whole=False)
                made[of.scores] = DeviceValue(whole.element, shape, array)
        return made

    def shown(self, run: DecoderRun, memory: Mapping[str, TensorMemory]) -> dict[str, DeviceValue]:
        """What the outputs show when the run was handed to the device."""
        return {cache.pair.present: self._caches.shown(cache, memory[cache.pair.present]) for cache in run.caches}


def _reads_rows(steps: Sequence[Step], pairs: Sequence[CachePair]) -> bool:
    caches = {name for pair in pairs for name in (pair.past, pair.present)}
    return any(is_size(step) and not caches.isdisjoint(step.reads) for step in steps)


def _shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, DeviceValue) else np.shape(value)


def _sizes_of(arrays: Mapping[str, Any], axes: Mapping[str, Sequence[int]]) -> list[int]:
    given = [(arrays[name], several) for name, several in axes.items() if name in arrays]
    shapes = [(_shape_of(value), several) for value, several in given]
    return [shape[axis] for shape, several in shapes for axis in several]
