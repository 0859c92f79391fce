"""A plan bound to memory: buffers for its capacities, and what is recorded for each set of its open sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dmlvk.dynamic.vectors import Integers
from dmlvk.errors import DeviceLimitError
from dmlvk.graphs.launching import Launcher, Lies, PlaceNumber
from dmlvk.graphs.plan import Layout, Plan
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.recording import KernelTime
from dmlvk.runtime.kompute import Allocation, Launch, Recording
from dmlvk.support.recent import Recent

if TYPE_CHECKING:
    from dmlvk.device import Device

KEPT_RECORDINGS = 64
"""Of a plan: each for a set of sizes, and memory that lies elsewhere. Those not used for longest go first."""

Elsewhere: TypeAlias = Mapping[PlaceNumber, Lies]
"""Memory that is not the plan's own, and not the same in all runs, by its places."""


class Bound:
    """A plan with memory of its own, which grows with the sizes."""

    def __init__(
        self,
        device: Device,
        plan: Plan,
        own: Collection[int],  # the inputs, by their numbers, that have buffers here
        elsewhere: Collection[PlaceNumber] = (),  # outputs, and inputs of those, that never need them
    ) -> None:
        self._device, self.plan, self._own = device, plan, own
        self._elsewhere = frozenset(elsewhere)
        # what a place is for, in messages of what the device cannot have
        self.described: Callable[[PlaceNumber], str] | None = None
        # for those inputs, the outputs and scratch memory, for the largest sizes so far
        self.buffers: dict[PlaceNumber, Buffer] = {}
        self.layout: Layout | None = None  # where everything lies; ``None`` before the first run
        self._inputs: dict[PlaceNumber, Lies] = {}
        self._fitting: set[tuple[int, ...]] = set()  # sizes for which there is enough
        self._recordings: Recent[object, Recording] = Recent(KEPT_RECORDINGS)
        self._launcher: Launcher | None = None

    def bind(self, inputs: Mapping[int, Lies]) -> bool:
        """Says where the inputs lie that have no buffers here, and lie there in many runs; whether that is new."""
        bound = {(BindingKind.INPUT, number): lies for number, lies in inputs.items()}
        if bound == self._inputs:
            return False
        self._inputs = bound
        self.forget()
        return True

    def forget(self) -> None:
        """Lets go of what was recorded."""
        self._recordings.clear()
        self._launcher = None

    def lay_out(self, sizes: tuple[int, ...], prepare: Callable[[Layout], object] | None = None) -> Integers | None:
        """Has memory for a set of sizes at least.

        Args:
            sizes: the open sizes, for which the plan's guards hold.
            prepare: what is to be done before there is other memory than that of constants.

        Returns:
            The numbers of the launches where buffers were made anew: what was recorded, and all contents are gone.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """
        if self.layout is not None and sizes in self._fitting:
            return None
        numbers, needed = self.plan.numbers(sizes)
        layout = self.plan.laid_out(sizes, needed, self.layout)
        if layout is self.layout:
            if len(self._fitting) > KEPT_RECORDINGS:
                self._fitting.clear()
            self._fitting.add(sizes)
            return None
        self.forget()
        self.layout = None  # what fails below leaves no half of one
        if prepare is not None:
            prepare(layout)
        wanted = self.plan.buffer_bytes(layout, self._own)
        self._fit({place: wanted[place] for place in wanted if place not in self._elsewhere})
        self.layout = layout
        self._fitting = {sizes}
        return numbers

    def _fit(self, wanted: Mapping[PlaceNumber, int]) -> None:
        """Has a buffer of each of these sizes; those of other sizes, and those that nothing wants, are closed."""
        for place, buffer in list(self.buffers.items()):
            if wanted.get(place) != buffer.size_in_bytes:
                self.buffers.pop(place).close()
        for place, size in wanted.items():
            if place not in self.buffers:
                try:
                    self.buffers[place] = self._device.create_buffer(size, zeroed=False)
                except DeviceLimitError as error:
                    if self.described is None:
                        raise
                    raise DeviceLimitError(f"{self.described(place)}: {error}") from error

    def recording(
        self,
        sizes: tuple[int, ...],
        elsewhere: Elsewhere,  # where places lie that are not the plan's own
        numbers: Integers | None = None,  # those of the launches, if the caller knows them
        # memory that the host writes before every run; a plan with open sizes uploads what was written
        uploads: Sequence[Allocation] = (),
        # what it reads after every run; a plan with open sizes downloads what is asked for
        downloads: Sequence[Allocation] = (),
    ) -> Recording:
        """What runs for a set of sizes, for which there is memory."""
        found = self.recorded(sizes, elsewhere)
        if found is not None:
            return found
        if self.plan.is_open:
            numbers = self.plan.numbers(sizes)[0] if numbers is None else numbers
            found = self._launcher_for(numbers, elsewhere).recording(numbers, elsewhere)
        else:
            found = self._device.engine.record(self.launches(sizes, elsewhere), uploads, downloads)
        return self._recordings.keep((sizes, tuple(elsewhere.items())), found)

    def recorded(self, sizes: tuple[int, ...], elsewhere: Elsewhere) -> Recording | None:
        """What :meth:`recording` gave before, if it is still kept."""
        key = sizes, tuple(elsewhere.items())
        found = self._recordings.get(key)
        if found is not None:
            self._recordings.move_to_end(key)
        return found

    def launches(self, sizes: tuple[int, ...], elsewhere: Elsewhere) -> list[Launch]:
        """The launches for a set of sizes, for those who record them otherwise."""
        if self.plan.is_open:
            numbers = self.plan.numbers(sizes)[0]
            return self._launcher_for(numbers, elsewhere).launches(numbers, elsewhere)
        assert self.layout is not None  # these sizes have one
        recorded = self.plan.recorded(self.layout, {**self._positions(), **elsewhere})
        return [step.launch(self._device.engine) for step in recorded]

    def profile(self, sizes: tuple[int, ...]) -> list[KernelTime]:
        """Runs, and tells what each kernel took."""
        engine = self._device.engine
        recording = engine.record(self.launches(sizes, {}), timestamps=True)
        engine.run(recording)
        spans = engine.dispatch_spans(recording)
        return [KernelTime(label, *span) for label, span in zip(self.plan.labels, spans, strict=True)]

    def _launcher_for(self, numbers: Integers, elsewhere: Elsewhere) -> Launcher:
        if self._launcher is None or self._launcher.elsewhere != elsewhere.keys():
            assert self.layout is not None  # these sizes have one
            memory = {**self._positions(), **elsewhere}
            self._launcher = self.plan.launcher(self.layout, memory, numbers, elsewhere.keys())
        return self._launcher

    def _positions(self) -> dict[PlaceNumber, Lies]:
        """Memory and first byte of each place that does not lie elsewhere."""
        own = {place: (buffer.allocation, 0) for place, buffer in self.buffers.items()}
        constants = enumerate(self.plan.constants)
        return self._inputs | own | {(BindingKind.CONSTANTS, page): (b.allocation, 0) for page, b in constants}
