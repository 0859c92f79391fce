"""Runs of graphs with open sizes: buffers for capacities, and what is recorded for each set of sizes."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dmlvk.graphs.dynamic import DynamicGraph, Layout
from dmlvk.graphs.launching import Launcher
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.buffers import Buffer
from dmlvk.runtime.kompute import Allocation, Recording

if TYPE_CHECKING:
    from dmlvk.device import Device

KEPT_RECORDINGS = 64
"""Of a graph: each for a set of sizes. Those not used for longest go first."""


Slot: TypeAlias = tuple[BindingKind, int]


def fit(buffers: dict[Slot, Buffer], wanted: Mapping[Slot, int], device: Device) -> None:
    """Has a buffer of each of these sizes, in bytes; those of other sizes, and those that nothing wants, are closed."""
    for slot, buffer in list(buffers.items()):
        if wanted.get(slot) != buffer.size_in_bytes:
            buffers.pop(slot).close()
    for slot, size in wanted.items():
        if slot not in buffers:
            buffers[slot] = device.create_buffer(size)


class OpenRuns:
    """Those of one graph.

    Args:
        device: where it runs.
        graph: the graph.
        uploads: its inputs, by their numbers, that have buffers here.

    Attributes:
        buffers: for those inputs, the outputs and scratch memory, for the largest sizes so far.
        layout: where everything lies; ``None`` before the first run.
    """

    def __init__(self, device: Device, graph: DynamicGraph, uploads: Collection[int]) -> None:
        self._device, self._graph, self._uploads = device, graph, uploads
        self.buffers: dict[tuple[BindingKind, int], Buffer] = {}
        self.layout: Layout | None = None
        self._elsewhere: dict[int, tuple[Allocation, int]] = {}
        self._recordings: collections.OrderedDict[tuple[int, ...], Recording] = collections.OrderedDict()
        self._launcher: Launcher | None = None
        self._is_prepared = False  # what follows from the inputs elsewhere alone is computed, of what they are now

    def recording(
        self, sizes: tuple[int, ...], elsewhere: Mapping[int, tuple[Allocation, int]], *, have_changed: bool = False
    ) -> Recording:
        """The launches for a set of sizes, for which the plan's guards hold; buffers are there afterwards.

        Args:
            sizes: the open sizes.
            elsewhere: where the other inputs lie, by their numbers.
            have_changed: whether their contents are not those of the last call.
        """
        self._is_prepared &= not have_changed
        if elsewhere != self._elsewhere:
            self._is_prepared = False
            self._elsewhere = dict(elsewhere)
            self._forget()
        found = self._recordings.get(sizes)
        numbers: Any = None
        layout = self.layout
        if found is None or layout is None:
            numbers, needed = self._graph.numbers(sizes)
            layout = self._graph.laid_out(sizes, needed, self.layout)
            if layout is not self.layout:
                self._lay_out(layout)
        if not self._is_prepared:
            self._graph.prepare(layout, self._elsewhere)
            self._is_prepared = True  # only now: what fails above is done in the next call
        if found is None:
            if self._launcher is None:
                self._launcher = self._graph.launcher(layout, self._bound(), numbers)
            found = self._recordings[sizes] = self._launcher.recording(numbers)
            if len(self._recordings) > KEPT_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(sizes)
        return found

    def _forget(self) -> None:
        """Lets go of what was recorded for other memory."""
        self._recordings.clear()
        self._launcher = None

    def _lay_out(self, layout: Layout) -> None:
        """Makes buffers for the capacities of a layout, in the place of those before."""
        self._forget()
        self.layout = None  # what fails below leaves no half of one
        fit(self.buffers, self._graph.buffer_bytes(layout, self._uploads), self._device)
        self.layout = layout

    def _bound(self) -> dict[tuple[BindingKind, int], tuple[Allocation, int]]:
        """Memory and first byte of each place."""
        bound = {slot: (buffer.allocation, 0) for slot, buffer in self.buffers.items()}
        bound |= {(BindingKind.INPUT, number): lies for number, lies in self._elsewhere.items()}
        return bound | {
            (BindingKind.CONSTANTS, page): (buffer.allocation, 0) for page, buffer in enumerate(self._graph.constants)
        }
