"""Graphs whose tensors have dynamic sizes: lowered once, and launched with the numbers of each set of sizes.

Nothing of a kernel is chosen here anew: whatever a lowering decides by comparing sizes is among the guards of the plan
(:mod:`dmlvk.dynamic.sizes`). What is left of it are numbers, which one function gives for all launches together.
Memory is laid out for capacities, which grow geometrically; what a kernel computes follows from sizes alone.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlvk.dynamic.coefficients import coefficients_of
from dmlvk.dynamic.sizes import Guards, is_dynamic
from dmlvk.graphs.description import GraphDesc
from dmlvk.graphs.network import NetworkValue, network
from dmlvk.graphs.placement import MemoryPlacement, placed, steps_once
from dmlvk.graphs.stages import Stage, fused_stages, prepared, single_stages
from dmlvk.kernels.library import coefficients
from dmlvk.kernels.program import KernelStep, Place, Program, Region
from dmlvk.kernels.small_programs import copy_step
from dmlvk.kernels.target import Target
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.objects.recording import Access, HazardTracker, scheduled
from dmlvk.runtime.kompute import Allocation, Launch

if TYPE_CHECKING:
    from dmlvk.device import Device

MOST_OPERANDS = 16
"""Buffers that a kernel of a graph binds at most."""

_GROWTH = 5, 4
"""For how many times as large sizes memory is laid out when it was not enough."""

_Owner: TypeAlias = "NetworkValue | int | Region"
"""What an operand lies in: a value, the scratch memory of a stage by its number, or a graph output."""


def open_sizes(guards: Guards, values: Sequence[int]) -> tuple[list[int], list[int]]:
    """The open sizes of a plan, and those that stand for where its kernels' operands begin.

    Args:
        guards: the plan's, which are empty.
        values: the sizes of the run that is planned.

    Returns:
        The open sizes; and for each operand of a kernel a number of words.
    """
    sizes = [guards.size(value) for value in values]
    return sizes, [guards.size(2) for _ in range(MOST_OPERANDS)]


@dataclasses.dataclass(frozen=True)
class _Operand:
    """A range that a launch reads or writes.

    Attributes:
        owner: what it lies in.
        offset: where it begins in that, in bytes.
        size: its bytes.
    """

    owner: _Owner
    offset: int
    size: int


@dataclasses.dataclass(frozen=True)
class _Launch:
    """A launch whose numbers are not known yet.

    Attributes:
        label: what it computes, for people.
        spirv: the shader.
        operands: in the order of its bindings.
        reads: how many of them are read.
        places: the words of the push constants that depend on where operands lie, by their numbers: on which, and with
            which factors.
        varying: the specialization constants that follow from dynamic sizes.
        is_independent: as of a Step.
        numbers: specialization constants, push constants, work groups, and the operands' offsets.
    """

    label: str
    spirv: bytes
    operands: tuple[_Operand, ...]
    reads: int
    places: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    varying: frozenset[int]
    is_independent: bool
    numbers: tuple[Any, Any, Any, Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Memory for capacities.

    Attributes:
        sizes: bytes of every value, and of every stage's scratch memory.
        placement: where everything lies.
        depends: which launches wait for those before them.
    """

    sizes: tuple[int, ...]
    placement: MemoryPlacement
    depends: tuple[bool, ...]


class DynamicGraph:
    """A graph of operators with dynamic sizes.

    Args:
        device: where it runs.
        desc: the graph.
        flags: as for ``Device.compile_graph``.
        guards: of the sizes, made with :func:`open_sizes`.
        offsets: likewise.
        fuse: as for ``Device.compile_graph``.
        lasting_inputs: likewise; their sizes are plain numbers.
    """

    def __init__(
        self,
        device: Device,
        desc: GraphDesc,
        flags: ExecutionFlags,
        guards: Guards,
        offsets: Sequence[int],
        *,
        fuse: bool,
        lasting_inputs: Collection[int],
    ) -> None:
        self.device = device
        self.network = network(desc, device)
        self._offsets = [4 * offset for offset in offsets]
        self._places = offsets
        target = device.target_for(flags)
        lasting = {*(NetworkValue("input", number) for number in lasting_inputs), *self.network.constants}
        made = fused_stages(self.network, target, lasting) if fuse else single_stages(self.network, target)
        inner = {value: tensor.size_in_bytes for value, tensor in made.inner.items()}
        self.network = dataclasses.replace(self.network, sizes=self.network.sizes | inner)
        once, others = prepared(self.network, made.stages, lasting)
        self.stages: tuple[Stage, ...] = tuple(others)
        self.stages_once: tuple[Stage, ...] = tuple(once)
        self._values = tuple(self.network.sizes)
        self._launches = [
            self._launch(number, stage, step)
            for number, stage in enumerate(self.stages)
            for step in stage.program.steps
        ]
        self._launches += self._copies(target)
        sizes = (*self.network.sizes.values(), *(stage.program.scratch_bytes for stage in self.stages))
        self._numbers: Callable[..., Any] = guards.function((tuple(each.numbers for each in self._launches), sizes))
        self.constants: Buffer | None = None

    def _launch(self, number: int, stage: Stage, step: KernelStep) -> _Launch:
        def operand(region: Region) -> _Operand:
            owner: _Owner = number
            if region.place is Place.INPUT:
                owner = stage.reads[region.index]
            elif region.place is Place.OUTPUT:
                owner = stage.writes[region.index]
            return _Operand(owner, region.offset, region.size_in_bytes)

        label = stage.label if len(stage.program.steps) == 1 else f"{stage.label} ({step.label})"
        return self._of_step(dataclasses.replace(step, label=label), operand)

    def _of_step(self, step: KernelStep, operand: Callable[[Region], _Operand]) -> _Launch:
        kernel = step.kernel
        operands = tuple(map(operand, (*step.reads, *step.writes)))
        begins = self._offsets[: len(operands)]
        words, places = [], []
        for number, word in enumerate(kernel.push_constants(begins)):
            rest, factors = coefficients_of(word, self._places[: len(operands)])
            words.append(rest)
            if any(factors):
                places.append((number, tuple((i, factor) for i, factor in enumerate(factors) if factor)))
        numbers = (
            tuple(kernel.specialization(begins)),
            tuple(words),
            tuple(kernel.work_groups),
            tuple(each.offset for each in operands),
        )
        varying = frozenset(number for number, value in enumerate(numbers[0]) if is_dynamic(value))
        return _Launch(
            step.label,
            kernel.spirv(),
            operands,
            len(step.reads),
            tuple(places),
            varying,
            step.is_independent,
            numbers,
        )

    def _copies(self, target: Target) -> list[_Launch]:
        """Of values that several graph outputs show, to all but the first of them."""
        shown: set[NetworkValue] = set()
        made = []
        for number, (value, tensor) in enumerate(self.network.outputs):
            if value.kind == "node" and value not in shown:
                shown.add(value)
                continue
            size = tensor.size_in_bytes & ~3
            regions = Region(Place.INPUT, 0, 0, size), Region(Place.OUTPUT, number, 0, size)
            step = copy_step(f"copy {self.network.names[value]}", *regions, target)

            def operand(region: Region, value: NetworkValue = value) -> _Operand:
                return _Operand(value if region.place is Place.INPUT else region, 0, region.size_in_bytes)

            made.append(self._of_step(step, operand))
        return made

    @property
    def launch_count(self) -> int:
        """Of a run."""
        return len(self._launches)

    def numbers(self, sizes: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
        """The numbers of all launches for a set of sizes; and the bytes of all values and of scratch memory."""
        launches, needed = self._numbers(*sizes, *[0] * MOST_OPERANDS)
        return launches, needed

    def output_bytes(self, layout: Layout) -> list[int]:
        """Of each output of the graph, by its capacity."""
        sizes = dict(zip(self._values, layout.sizes, strict=False))
        return [sizes[value] for value, _ in self.network.outputs]

    def input_bytes(self, layout: Layout) -> dict[int, int]:
        """Of each input of the graph that something reads, by its capacity."""
        sizes = dict(zip(self._values, layout.sizes, strict=False))
        return {value.index: size for value, size in sizes.items() if value.kind == "input"}

    def laid_out(self, sizes: Sequence[int], needed: Sequence[int], before: Layout | None) -> Layout:
        """Memory for some sizes at least; ``before`` where that is enough.

        Args:
            sizes: the open sizes.
            needed: bytes of everything for these, as :meth:`numbers` gives them.
            before: the memory that there is; ``None``: none, and for the first sizes nothing more than they need is
                laid out.
        """
        if before is None:
            return self._placed(tuple(needed))
        if all(has >= wants for has, wants in zip(before.sizes, needed, strict=True)):
            return before
        largest = self.device.info.limits.largest_buffer
        _, more = self.numbers([size * _GROWTH[0] // _GROWTH[1] + 1 for size in sizes])
        room = [
            max(wants, has, min(grown, largest)) for wants, has, grown in zip(needed, before.sizes, more, strict=True)
        ]
        return self._placed(tuple(room))

    def _placed(self, sizes: tuple[int, ...]) -> Layout:
        of_values = dict(zip(self._values, sizes, strict=False))
        of_scratch = sizes[len(self._values) :]
        net = dataclasses.replace(self.network, sizes=of_values)
        stages = [
            dataclasses.replace(stage, program=Program((), size))
            for stage, size in zip(self.stages, of_scratch, strict=True)
        ]
        regions = {
            number: Region(Place.INPUT, number, 0, of_values[NetworkValue("input", number)])
            for number, tensor in enumerate(self.network.inputs)
            if tensor is not None
        }
        most_bytes = self.device.info.limits.largest_buffer
        placement = placed(net, stages, regions, most_bytes, self.stages_once)
        hazards = HazardTracker()
        depends = []
        memories: collections.defaultdict[tuple[Place, int], Any] = collections.defaultdict(object)

        def reach(operand: _Operand) -> Access:
            """The bytes that it may have, whatever the sizes are: where these decide, all of what it lies in."""
            place, index, start = self._home(operand.owner, placement)
            if not is_dynamic(operand.offset) and not is_dynamic(operand.size):
                start += operand.offset
                return Access(memories[place, index], start, start + operand.size)
            if isinstance(operand.owner, Region):
                whole = 2**62
            else:
                whole = of_scratch[operand.owner] if isinstance(operand.owner, int) else of_values[operand.owner]
            return Access(memories[place, index], start, start + whole)

        for launch in self._launches:
            accesses = [reach(operand) for operand in launch.operands]
            reads, writes = accesses[: launch.reads], accesses[launch.reads :]
            depends.append(hazards.depends(reads, writes, is_independent=launch.is_independent))
        return Layout(sizes, placement, tuple(depends))

    def _home(self, owner: _Owner, placement: MemoryPlacement) -> tuple[Place, int, int]:
        if isinstance(owner, int):
            region = placement.scratch[owner]
        else:
            region = owner if isinstance(owner, Region) else placement.regions[owner]
        return region.place, region.index, region.offset

    def bound(
        self, layout: Layout, bound: Mapping[tuple[Place, int], tuple[Allocation, int]]
    ) -> list[tuple[tuple[Allocation, ...], tuple[Allocation, ...], list[int]]]:
        """What each launch binds, what it writes of that, and where its operands' values begin, in words.

        Args:
            layout: the memory.
            bound: allocation and first byte of each place.
        """
        shared = None
        made = []
        for launch in self._launches:
            allocations, begins = [], []
            for operand in launch.operands:
                place, index, start = self._home(operand.owner, layout.placement)
                allocation, first = bound[place, index]
                allocations.append(allocation)
                begins.append((first + start) // 4)
            written = tuple(allocations[launch.reads :])
            if coefficients.are_read_by(launch.spirv, len(launch.operands)):
                shared = shared or self.device.engine.shared(coefficients.contents())
                allocations.append(shared)
            made.append((tuple(allocations), written, begins))
        return made

    def launches(
        self,
        numbers: Any,
        layout: Layout,
        bound: Sequence[tuple[tuple[Allocation, ...], tuple[Allocation, ...], list[int]]],
    ) -> list[Launch]:
        """What a device is to do.

        Args:
            numbers: as :meth:`numbers` gives them.
            layout: the memory.
            bound: as :meth:`bound` gives it.
        """
        made = []
        for launch, (allocations, written, begins), depends, (constants, words, groups, offsets) in zip(
            self._launches, bound, layout.depends, numbers, strict=True
        ):
            if any(offsets):
                begins = [begin + offset // 4 for begin, offset in zip(begins, offsets, strict=True)]
            push = list(words)
            for number, places in launch.places:
                push[number] += sum(factor * begins[i] for i, factor in places)
            made.append(
                Launch(launch.spirv, constants, tuple(push), groups, allocations, written, depends, launch.varying)
            )
        return made

    def prepare(self, layout: Layout, inputs: Mapping[int, tuple[Buffer | Allocation, int]]) -> None:
        """Uploads its constants, and computes what is the same in every run, whatever the sizes are.

        To be called again where lasting inputs changed nevertheless.

        Args:
            layout: any one.
            inputs: where its lasting inputs lie, by their numbers.
        """
        placement = layout.placement
        if placement.constants and self.constants is None:
            self.constants = self.device.create_buffer(len(placement.constants))
            self.constants.upload(np.frombuffer(placement.constants, np.uint8))
        if not self.stages_once:
            return
        steps, scratch_bytes = steps_once(self.stages_once, placement)
        scratch = self.device.create_buffer(scratch_bytes) if scratch_bytes else None

        def locate(region: Region) -> tuple[Buffer | Allocation, int]:
            if region.place is Place.INPUT:
                return inputs[region.index]
            buffer = scratch if region.place is Place.TEMPORARY else self.constants
            assert buffer is not None
            return buffer, 0

        engine = self.device.engine
        engine.run(engine.record([step.launch(engine) for step in scheduled(steps, locate, HazardTracker())]))
        if scratch is not None:
            scratch.close()
