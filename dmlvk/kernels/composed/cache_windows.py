"""Caches of CACHED_ATTENTION that keep a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.program import Region

if TYPE_CHECKING:
    from dmlvk.kernels.composed.cached_attention import CachedAttentionLowering

SEGMENT = 256  # Keys of a segment, as in ``shaders/patterns/composed/attention_results.glsl``

ROLES = ("key", "value")


class WindowOfCaches:
    """Caches of a window, whose keys lie in scratch memory while attention goes through them.

    There they lie as in a cache of all keys that begins with a segment, and behind them those of the new tokens.

    Args:
        rows: where the rows of each sequence begin.
    """

    def __init__(self, lowering: CachedAttentionLowering, rows: Region) -> None:
        self._lowering, self._rows = lowering, rows
        self._caches, self._capacity = lowering.caches, lowering.capacity

    def opened(self) -> None:
        """The past goes into scratch memory, which stands for the caches from here on."""
        lowering, reads = self._lowering, self._lowering.builder.reads
        lowering.capacity = SEGMENT + self._capacity + lowering.tokens
        lowering.caches = [
            lowering.builder.scratch(-(-cache.size_in_bytes // self._capacity) * lowering.capacity)
            for cache in self._caches
        ]
        for index, role in enumerate(ROLES):
            source = reads.get(f"past_{role}_tensor", self._caches[index])
            self._moved(index, source, lowering.caches[index], SEGMENT + self._capacity, is_kept=False)

    def closed(self) -> None:
        """What stays goes back into the caches."""
        for index, target in enumerate(self._caches):
            self._moved(index, self._lowering.caches[index], target, self._capacity, is_kept=True)

    def _moved(self, index: int, source: Region, target: Region, rows: int, *, is_kept: bool) -> None:
        lowering = self._lowering
        pairs = (lowering.size, lowering.value_size)[index] // 2
        items = lowering.batch * lowering.key_heads * rows * pairs
        capacities = (self._capacity, lowering.capacity)
        capacities = capacities[::-1] if is_kept else capacities
        constants = {"IS_KEPT": int(is_kept), "IS_IN_PLACE": int(lowering.desc.keeps_past)}
        if lowering.cache_bits:
            constants["ELEMENTS_HAVE_SCALES"] = 0  # integers are moved as they are
        kernel = PlainKernel(
            lowering.of_caches("window"),
            launch_size(lowering.desc.operator_name, items),
            constants,
            (items, lowering.key_heads, pairs, *capacities, rows),
        )
        label = f"{'kept' if is_kept else 'past'} {ROLES[index]}s"
        lowering.builder.launch(kernel, [source, self._rows], [target], label=label)
