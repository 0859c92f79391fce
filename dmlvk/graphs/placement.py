"""Where every value of a graph lies: in what is bound, among the constants, or in the temporary resource."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dmlvk.graphs.memory import SMALL_ALIGNMENT, Item, MemoryPlan, plan_memory, plan_pages
from dmlvk.graphs.network import Network, NetworkValue
from dmlvk.graphs.stages import Stage
from dmlvk.kernels.program import BindingKind, KernelStep, Region
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT
from dmlvk.objects.recording import HazardTracker, scheduled
from dmlvk.runtime.kompute import Allocation

if TYPE_CHECKING:
    from dmlvk.device import Device

_LINGERING_BYTES = 2**20
"""Values up to so large keep their memory for one stage more: the next one need not wait for who reads them last."""


@dataclasses.dataclass(frozen=True)
class ConstantMemory:
    """The graph's own memory, in several buffers where one would be larger than the device has."""

    # where contents lie that are given, by page and bytes, and these; the rest is what stages write that run only
    # once
    parts: Sequence[tuple[int, int, bytes]]
    page_bytes: tuple[int, ...]  # the size of each buffer

    def uploaded(self, device: Device) -> tuple[Buffer, ...]:
        """Such memory on a device.

        Parts are copied to where the device has them from, and nowhere else: weights are large.

        Raises:
            DeviceLimitError, OutOfMemoryError: the device cannot have it.
        """
        buffers: list[Buffer] = []
        try:
            for size in self.page_bytes:
                buffers.append(device.create_buffer(size, zeroed=False))
            for page, offset, contents in self.parts:
                buffers[page].upload(contents, offset)
        except BaseException:
            for buffer in buffers:
                buffer.close()
            raise
        return tuple(buffers)


@dataclasses.dataclass(frozen=True)
class TemporaryMemory:
    """Where stages that run one after another keep what none but they read."""

    plan: MemoryPlan  # how it is shared
    page_bytes: tuple[int, ...]  # the sizes of the buffers that it is
    shared: Mapping[NetworkValue, NetworkValue]  # values that are written over another one, with that one
    scratch: Mapping[int, Region]  # where the scratch memory of each stage lies that needs some, by the stage's number


@dataclasses.dataclass(frozen=True)
class MemoryPlacement:
    regions: Mapping[NetworkValue, Region]  # where each value lies that goes through memory
    constants: ConstantMemory  # the graph's own memory
    # contents that only the stages read that run only once; its pages are numbered behind those
    constants_once: ConstantMemory
    temporary: TemporaryMemory  # the temporary resource
    once: TemporaryMemory  # the temporary memory of the stages that run only once


def placed(
    network: Network,
    stages: Sequence[Stage],  # its kernels, in order
    inputs: Mapping[int, Region],  # where each graph input lies that is there
    most_bytes: int,  # of a buffer, beyond which the temporary resource and the constants become several
    once: Sequence[Stage] = (),  # the stages that run only once, and before the others
) -> MemoryPlacement:
    regions = {NetworkValue("input", number): region for number, region in inputs.items()}
    contents = {
        value: network.constants[value]
        for stage in (*once, *stages)
        for value in stage.reads
        if value.kind == "constant"
    }
    read_again = {value for stage in stages for value in stage.reads}
    lasting = {value: len(constant) for value, constant in contents.items() if value in read_again}
    lasting |= {value: network.sizes[value] for stage in once for value in stage.writes if value in read_again}
    passing = {value: len(constant) for value, constant in contents.items() if value not in read_again}
    constants = _constants(lasting, contents, regions, most_bytes, 0)
    constants_once = _constants(passing, contents, regions, most_bytes, len(constants.page_bytes))
    for number, (value, tensor) in enumerate(network.outputs):
        regions.setdefault(value, Region(BindingKind.OUTPUT, number, 0, tensor.size_in_bytes))
    of_once = _temporary(network, once, regions, most_bytes)
    of_runs = _temporary(network, stages, regions, most_bytes)
    return MemoryPlacement(regions, constants, constants_once, of_runs, of_once)


def _constants(
    sizes: Mapping[NetworkValue, int],
    contents: Mapping[NetworkValue, bytes],
    regions: dict[NetworkValue, Region],
    most_bytes: int,
    first_page: int,
) -> ConstantMemory:
    """Finds a place for values that lie side by side; adds them to the regions."""
    pages: list[int] = []
    parts: list[tuple[int, int, bytes]] = []
    for value, size in sizes.items():
        if not pages or pages[-1] + size > most_bytes:
            pages.append(0)
        regions[value] = Region(BindingKind.CONSTANTS, first_page + len(pages) - 1, pages[-1], size)
        if value in contents:
            parts.append((len(pages) - 1, pages[-1], contents[value]))
        pages[-1] += _aligned(size)
    return ConstantMemory(parts, tuple(pages))


def _temporary(
    network: Network, stages: Sequence[Stage], regions: dict[NetworkValue, Region], most_bytes: int
) -> TemporaryMemory:
    """Finds a place for the values that these stages write and that have none yet; adds them to the regions."""
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
    shared = {value: root for value, root in owners.items() if value != root}
    return TemporaryMemory(dataclasses.replace(plan, naive_bytes=naive), pages, shared, scratch)


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
                size = network.sizes[value]
                roots[value] = Item(size, number, last + (size <= _LINGERING_BYTES))
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


def steps_once(stages: Sequence[Stage], placement: MemoryPlacement) -> list[KernelStep]:
    launches: list[KernelStep] = []
    for number, stage in enumerate(stages):
        reads, writes = ([placement.regions[value] for value in values] for values in (stage.reads, stage.writes))
        launches += labelled(stage, stage.program.placed(reads, writes, placement.once.scratch.get(number)))
    return launches


def run_once(
    device: Device,
    steps: Sequence[KernelStep],
    placement: MemoryPlacement,
    # where the graph's inputs lie that the steps read, by their numbers
    inputs: Mapping[int, tuple[Buffer | Allocation, int]],
    constants: Sequence[Buffer],
) -> None:
    """Computes what is the same in every run; memory for what is between is freed afterwards.

    Raises:
        DeviceLimitError, OutOfMemoryError: the device cannot have the memory.
    """
    if not steps:
        return
    scratch: list[Buffer] = []
    own = placement.constants_once.uploaded(device)
    lasting = (*constants, *own)

    def locate(region: Region) -> tuple[Buffer | Allocation, int]:
        if region.kind is BindingKind.INPUT:
            return inputs[region.index]
        return (scratch if region.kind is BindingKind.TEMPORARY else lasting)[region.index], 0

    try:
        for size in placement.once.page_bytes:
            scratch.append(device.create_buffer(size, zeroed=False))
        engine = device.engine
        engine.run(engine.record([step.launch(engine) for step in scheduled(steps, locate, HazardTracker())]))
    finally:
        for buffer in (*scratch, *own):
            buffer.close()


def labelled(stage: Stage, steps: Sequence[KernelStep]) -> list[KernelStep]:
    """The launches of a stage, which say for people what they compute."""
    count = len(steps)
    return [
        dataclasses.replace(step, label=stage.label if count == 1 else f"{stage.label} ({part} of {count})")
        for part, step in enumerate(steps, 1)
    ]
