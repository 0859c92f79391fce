"""Where every value of a graph lies: in what is bound, among the constants, or in the temporary resource."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dmlvk.graphs.memory import SMALL_ALIGNMENT, Item, MemoryPlan, plan_memory, plan_pages
from dmlvk.graphs.network import Network, NetworkValue
from dmlvk.graphs.stages import Stage
from dmlvk.kernels.program import BindingKind, KernelStep, Region
from dmlvk.kernels.small_programs import copy_step
from dmlvk.kernels.target import Target
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT

if TYPE_CHECKING:
    from dmlvk.device import Device


@dataclasses.dataclass(frozen=True)
class ConstantMemory:
    """The graph's own memory.

    Attributes:
        parts: where contents lie that are given, in bytes, and these; the rest is what stages write that run only once.
        size_in_bytes: of all.
    """

    parts: Sequence[tuple[int, bytes]]
    size_in_bytes: int

    def uploaded(self, device: Device) -> Buffer | None:
        """Such memory on a device, with zeros where nothing is given; ``None`` where there is none.

        Parts are copied to where the device has them from, and nowhere else: weights are large.

        Raises:
            DeviceLimitError, OutOfMemoryError: the device cannot have it.
        """
        if not self.size_in_bytes:
            return None
        buffer = device.create_buffer(self.size_in_bytes)
        for offset, contents in self.parts:
            buffer.upload(contents, offset)
        return buffer


@dataclasses.dataclass(frozen=True)
class MemoryPlacement:
    """The memory of a graph.

    Attributes:
        regions: where each value lies that goes through memory.
        constants: the graph's own memory.
        memory: how the temporary resource is shared.
        temporary_pages: the sizes of the buffers that it is.
        shared: values that are written over another one, with that one.
        scratch: where the scratch memory of each stage lies that needs some, by the stage's number.
    """

    regions: Mapping[NetworkValue, Region]
    constants: ConstantMemory
    memory: MemoryPlan
    temporary_pages: tuple[int, ...]
    shared: Mapping[NetworkValue, NetworkValue]
    scratch: Mapping[int, Region]


def placed(
    network: Network,
    stages: Sequence[Stage],
    inputs: Mapping[int, Region],
    most_bytes: int,
    once: Sequence[Stage] = (),
) -> MemoryPlacement:
    """Finds a place for every value.

    Args:
        network: the graph.
        stages: its kernels, in order.
        inputs: where each graph input lies that is there.
        most_bytes: of the temporary resource, beyond which it becomes several buffers.
        once: the stages that run only once, and before the others.
    """
    regions = {NetworkValue("input", number): region for number, region in inputs.items()}
    contents: list[tuple[int, bytes]] = []
    size_of_constants = 0
    for stage in (*once, *stages):
        for value in stage.reads:
            if value.kind == "constant" and value not in regions:
                constant = network.constants[value]
                regions[value] = Region(BindingKind.CONSTANTS, 0, size_of_constants, len(constant))
                contents.append((size_of_constants, constant))
                size_of_constants += _aligned(len(constant))
    for value in (value for stage in once for value in stage.writes):
        size = network.sizes[value]
        regions[value] = Region(BindingKind.CONSTANTS, 0, size_of_constants, size)
        size_of_constants += _aligned(size)
    for number, (value, tensor) in enumerate(network.outputs):
        regions.setdefault(value, Region(BindingKind.OUTPUT, number, 0, tensor.size_in_bytes))
    roots, owners = _shared_storage(network, stages, regions)
    needing = [number for number, stage in enumerate(stages) if stage.program.scratch_bytes]
    items = [*roots.values(), *(Item(stages[number].program.scratch_bytes, number, number) for number in needing)]
    plan = plan_memory(items)
    locations = [(0, offset) for offset in plan.offsets]
    pages: tuple[int, ...] = (plan.planned_bytes,) if plan.planned_bytes else ()
    if plan.planned_bytes > most_bytes:
        paged = plan_pages(items, most_bytes)
        locations, pages = list(zip(paged.pages, paged.offsets, strict=True)), paged.page_bytes
        plan = dataclasses.replace(plan, offsets=paged.offsets, planned_bytes=sum(pages))
    of_roots = dict(zip(roots, locations, strict=False))
    scratch = {
        number: Region(BindingKind.TEMPORARY, *location, stages[number].program.scratch_bytes)
        for number, location in zip(needing, locations[len(roots) :], strict=True)
    }
    for value, root in owners.items():
        regions[value] = Region(BindingKind.TEMPORARY, *of_roots[root], network.sizes[value])
    pages = tuple(-(-size // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT for size in pages)
    naive = sum(network.sizes[value] for value in owners) + sum(region.size_in_bytes for region in scratch.values())
    memory = dataclasses.replace(plan, naive_bytes=naive)
    shared = {value: root for value, root in owners.items() if value != root}
    constants = ConstantMemory(contents, size_of_constants)
    return MemoryPlacement(regions, constants, memory, pages, shared, scratch)


def _aligned(size: int) -> int:
    return -(-size // SMALL_ALIGNMENT) * SMALL_ALIGNMENT


def _shared_storage(
    network: Network, stages: Sequence[Stage], placed_already: Mapping[NetworkValue, Region]
) -> tuple[dict[NetworkValue, Item], dict[NetworkValue, NetworkValue]]:
    """The storage that the temporary resource must hold, and which storage each value lies in.

    A value that is written in place lies in the storage of the one that it replaces.
    """
    last_read: dict[NetworkValue, int] = {}
    for number, stage in enumerate(stages):
        for value in stage.reads:
            last_read[value] = number
    roots: dict[NetworkValue, Item] = {}
    owners: dict[NetworkValue, NetworkValue] = {}
    for number, stage in enumerate(stages):
        replaced: set[NetworkValue] = set()
        for position, value in enumerate(stage.writes):
            if value in placed_already:
                continue
            last = last_read.get(value, number)
            replaceable = _replaceable(stage, position, owners, last_read, number, replaced)
            if replaceable is not None and network.sizes[value] <= roots[owners[replaceable]].size:
                replaced.add(replaceable)
                root = owners[replaceable]
                roots[root] = dataclasses.replace(roots[root], last=last)
                owners[value] = root
            else:
                roots[value] = Item(network.sizes[value], number, last)
                owners[value] = value
    return roots, owners


def _replaceable(
    stage: Stage,
    output: int,
    owners: Mapping[NetworkValue, NetworkValue],
    last_read: Mapping[NetworkValue, int],
    number: int,
    replaced: set[NetworkValue],
) -> NetworkValue | None:
    """A value that this kernel reads last, and only in ways that permit writing the output over it."""
    for value in dict.fromkeys(stage.reads):
        if value not in owners or value in replaced or last_read[value] != number:
            continue
        positions = [position for position, read in enumerate(stage.reads) if read == value]
        if all((position, output) in stage.in_place for position in positions):
            return value
    return None


def steps(network: Network, stages: Sequence[Stage], placement: MemoryPlacement, target: Target) -> list[KernelStep]:
    """The launches of a graph: its kernels, then copies of values that several graph outputs show."""
    regions = placement.regions
    launches = []
    for number, stage in enumerate(stages):
        launches += _steps_of(stage, placement, placement.scratch.get(number))
    for number, (value, tensor) in enumerate(network.outputs):
        source = regions[value]
        if (source.kind, source.index) != (BindingKind.OUTPUT, number):
            size = tensor.size_in_bytes & ~3
            destination = Region(BindingKind.OUTPUT, number, 0, size)
            launches.append(
                copy_step(
                    f"copy {network.names[value]}", dataclasses.replace(source, size_in_bytes=size), destination, target
                )
            )
    return launches


def steps_once(stages: Sequence[Stage], placement: MemoryPlacement) -> tuple[list[KernelStep], int]:
    """The launches of stages that run only once, and the bytes of temporary memory that they need for it."""
    scratch_bytes = max((stage.program.scratch_bytes for stage in stages), default=0)
    scratch = Region(BindingKind.TEMPORARY, 0, 0, scratch_bytes)
    return [step for stage in stages for step in _steps_of(stage, placement, scratch)], scratch_bytes


def _steps_of(stage: Stage, placement: MemoryPlacement, scratch: Region | None) -> list[KernelStep]:
    regions = placement.regions
    reads, writes = [regions[value] for value in stage.reads], [regions[value] for value in stage.writes]
    placed_steps = stage.program.placed(reads, writes, scratch)
    if len(placed_steps) == 1:
        return [dataclasses.replace(placed_steps[0], label=stage.label)]
    return [
        dataclasses.replace(step, label=f"{stage.label} ({part} of {len(placed_steps)})")
        for part, step in enumerate(placed_steps, 1)
    ]
