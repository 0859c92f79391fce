"""What a graph computes: lowered once, and launched with the numbers of each set of its open sizes, if it has any.

Nothing of a kernel is chosen here anew: whatever a lowering decides by comparing sizes is among the guards of the plan
(:mod:`dmlvk.dynamic.sizes`). What is left of it are numbers, which one function gives for all launches together.
Memory is laid out for capacities, which grow geometrically; what a kernel computes follows from sizes alone.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlvk.dynamic.sizes import DynamicSize, Guards, is_dynamic
from dmlvk.dynamic.vectors import Integers, NumberVector
from dmlvk.graphs.launching import Launcher, Lies, OpenLaunch, PlaceNumber
from dmlvk.graphs.network import Network, NetworkValue
from dmlvk.graphs.placement import MemoryPlacement, labelled, placed, run_once, steps_once
from dmlvk.graphs.stages import Stage, planned_stages
from dmlvk.kernels.library import coefficients
from dmlvk.kernels.program import BindingKind, KernelStep, Program, Region
from dmlvk.kernels.small_programs import copy_step
from dmlvk.kernels.target import Target
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.objects.recording import Access, HazardTracker, RecordedStep
from dmlvk.runtime.kompute import Allocation, Launch
from dmlvk.support.collection import collection_paused

if TYPE_CHECKING:
    from dmlvk.device import Device


def coefficients_of(value: Any, sizes: Sequence[Any]) -> tuple[Any, list[int]]:
    """A number as a sum of multiples of some open sizes and a rest without them.

    Args:
        value: an integer or a dynamic size.

    Returns:
        The rest, and how often it has each.

    Raises:
        ValueError: when they are in it otherwise.
    """
    found = [0] * len(sizes)
    if not isinstance(value, DynamicSize):
        return value, found
    atoms = {next(iter(size.terms))[0]: number for number, size in enumerate(sizes)}
    rest: Any = value
    for monomial, coefficient in value.terms.items():
        if atoms.keys().isdisjoint(monomial):
            continue
        if len(monomial) > 1:
            raise ValueError("a product of an open size and another number")
        found[atoms[monomial[0]]] = coefficient
        rest = rest - coefficient * sizes[atoms[monomial[0]]]
    if isinstance(rest, DynamicSize) and rest.guards.mentions(rest.terms, atoms):
        raise ValueError("a quotient of an open size")
    return rest, found


MOST_OPERANDS = 16  # Buffers that a kernel of a graph binds at most

_GROWTH = 5, 4  # For how many times as large sizes memory is laid out when it was not enough

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
class _OwnedRange:
    owner: _Owner  # what it lies in
    offset: int  # where it begins in that, in bytes
    size: int  # its bytes


@dataclasses.dataclass(frozen=True)
class _OpenNumbers:
    """The numbers of a launch that follow from open sizes."""

    spirv: bytes  # the shader
    # the words of the push constants that depend on where operands lie, by their numbers: on which, and with which
    # factors
    lying: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    varying: frozenset[int]  # the specialization constants that follow from open sizes
    constants: tuple[Any, ...]  # specialization constants
    words: tuple[Any, ...]  # push constants, without where the memory of operands begins
    groups: tuple[Any, ...]  # work groups

    @property
    def all(self) -> tuple[Any, ...]:
        """In the order of :class:`dmlvk.runtime.prepared_launches.PreparedLaunches`."""
        return *self.constants, *self.words, *self.groups


@dataclasses.dataclass(frozen=True)
class _PlannedLaunch:
    """A launch before memory is bound."""

    step: KernelStep  # what is launched
    operands: tuple[_OwnedRange, ...]  # in the order of its bindings
    numbers: _OpenNumbers | None  # of a plan with open sizes


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    sizes: Integers  # bytes of every value, and of every stage's scratch memory
    placement: MemoryPlacement  # where everything lies
    depends: tuple[bool, ...]  # which launches wait for those before them


class Plan:
    """What a graph computes, for all values of its open sizes; without open sizes, for the sizes that it has.

    Attributes:
        network: the graph, with the sizes of all values.
        stages: the kernels of a run, in order.
        stages_once: those that run only once, before the first run.
        inner: tensors that are not in the graph.
        remark: why something was not fused that could be, or an empty string.
        is_open: whether sizes are open.
        inputs_read_once: inputs, by their numbers, that only :meth:`prepare` reads.
        constants: its own memory.
        is_prepared: whether :meth:`prepare` was done.
    """

    @collection_paused()
    def __init__(
        self,
        device: Device,  # where it runs
        net: Network,  # the graph
        flags: ExecutionFlags,  # as for ``Device.compile_graph``
        guards: Guards | None = None,  # of the open sizes, made with :func:`open_sizes`; ``None``: no size is open
        offsets: Sequence[int] = (),  # likewise
        *,
        fuse: bool = True,  # as for ``Device.compile_graph``
        lasting_inputs: Collection[int] = (),  # likewise; their sizes are plain numbers
        owned: Mapping[int, Region] | None = None,  # where inputs lie that are not bound as such, by their numbers
        # of a buffer of scratch memory or constants; ``None``: what the device has at most
        most_bytes: int | None = None,
    ) -> None:
        self.device = device
        self.is_open = guards is not None
        self._offsets = offsets
        target = device.target_for(flags)
        made = planned_stages(net, target, lasting_inputs, fuse=fuse, is_open=self.is_open)
        self.network, self.stages, self.stages_once = made.network, made.stages, made.once
        self.inner, self.remark = made.inner, made.remark
        self._owned = {} if owned is None else owned
        self._most_bytes = device.info.limits.largest_buffer if most_bytes is None else most_bytes
        self.inputs_read_once = made.inputs_read_once
        self._values = tuple(self.network.sizes)
        self._launches = [
            self._launch(number, stage, part)
            for number, stage in enumerate(self.stages)
            for part in labelled(stage, stage.program.steps)
        ]
        self._launches += self._copies(target)
        numbers = [n for each in self._launches if each.numbers is not None for n in each.numbers.all]
        self._launch_numbers = len(numbers)
        numbers += [*self.network.sizes.values(), *(stage.program.scratch_bytes for stage in self.stages)]
        self._numbers = NumberVector(Guards() if guards is None else guards, numbers)
        self.constants: tuple[Buffer, ...] = ()
        self.is_prepared = False

    def _launch(self, number: int, stage: Stage, step: KernelStep) -> _PlannedLaunch:
        def operand(region: Region) -> _OwnedRange:
            owner: _Owner = number
            if region.kind is BindingKind.INPUT:
                owner = stage.reads[region.index]
            elif region.kind is BindingKind.OUTPUT:
                owner = stage.writes[region.index]
            return _OwnedRange(owner, region.offset, region.size_in_bytes)

        return self._of_step(step, operand)

    def _of_step(self, step: KernelStep, operand: Callable[[Region], _OwnedRange]) -> _PlannedLaunch:
        operands = tuple(map(operand, (*step.reads, *step.writes)))
        spirv = step.spirv()  # a shader that is missing is missed here, not when it is run
        return _PlannedLaunch(step, operands, self._open_numbers(step, operands, spirv) if self.is_open else None)

    def _open_numbers(self, step: KernelStep, operands: Sequence[_OwnedRange], spirv: bytes) -> _OpenNumbers:
        kernel = step.kernel
        offsets = self._offsets[: len(operands)]
        begins = [4 * offset for offset in offsets]
        words, lying = [], []
        for number, word in enumerate(kernel.push_constants(begins)):
            rest, factors = coefficients_of(word, offsets)
            if any(factors):
                lying.append((number, tuple((i, factor) for i, factor in enumerate(factors) if factor)))
                rest = rest + sum(factor * (each.offset // 4) for factor, each in zip(factors, operands, strict=True))
            words.append(rest)
        constants = tuple(kernel.specialization(begins))
        return _OpenNumbers(
            spirv,
            tuple(lying),
            frozenset(number for number, value in enumerate(constants) if is_dynamic(value)),
            constants,
            tuple(words),
            tuple(kernel.work_groups),
        )

    def _copies(self, target: Target) -> list[_PlannedLaunch]:
        """Of values that several graph outputs show, to all but the first of them."""
        shown: set[NetworkValue] = set()
        made = []
        for number, (value, tensor) in enumerate(self.network.outputs):
            if value.kind == "node" and value not in shown:
                shown.add(value)
                continue
            size = tensor.size_in_bytes & ~3
            regions = Region(BindingKind.INPUT, 0, 0, size), Region(BindingKind.OUTPUT, number, 0, size)
            step = copy_step(f"copy {self.network.names[value]}", *regions, target)

            def operand(region: Region, value: NetworkValue = value) -> _OwnedRange:
                return _OwnedRange(value if region.kind is BindingKind.INPUT else region, 0, region.size_in_bytes)

            made.append(self._of_step(step, operand))
        return made

    @property
    def labels(self) -> list[str]:
        """What each launch of a run computes, for people."""
        return [launch.step.label for launch in self._launches]

    def numbers(self, sizes: Sequence[int]) -> tuple[Integers, Integers]:
        """The numbers of all launches for a set of sizes; and the bytes of all values and of scratch memory."""
        made = self._numbers(*sizes, *[0] * len(self._offsets))
        return made[: self._launch_numbers], made[self._launch_numbers :]

    def output_bytes(self, layout: Layout) -> list[int]:
        """Of each output of the graph, by its capacity."""
        sizes = dict(zip(self._values, layout.sizes.tolist(), strict=False))
        return [sizes[value] for value, _ in self.network.outputs]

    def input_bytes(self, layout: Layout) -> dict[int, int]:
        """Of each input of the graph, by its number and its capacity."""
        sizes = zip(self._values, layout.sizes.tolist(), strict=False)
        return {value.index: size for value, size in sizes if value.kind == "input"}

    def buffer_bytes(self, layout: Layout, inputs: Iterable[int]) -> dict[tuple[BindingKind, int], int]:
        """Of buffers for scratch memory, the outputs and some inputs that something reads, by their capacities."""
        found = {(BindingKind.TEMPORARY, n): size for n, size in enumerate(layout.placement.temporary.page_bytes)}
        found |= {(BindingKind.OUTPUT, n): size for n, size in enumerate(self.output_bytes(layout))}
        sizes = self.input_bytes(layout)
        return found | {(BindingKind.INPUT, n): sizes[n] for n in inputs}

    def laid_out(self, sizes: Sequence[int], needed: Integers, before: Layout | None) -> Layout:
        """Memory for some sizes at least; ``before`` where that is enough.

        Args:
            needed: bytes of everything for these, as :meth:`numbers` gives them.
            before: the memory that there is; ``None``: none, and for the first sizes nothing more than they need is
                laid out.
        """
        if before is None:
            return self._placed(needed)
        if (needed <= before.sizes).all():
            return before
        largest = self.device.info.limits.largest_buffer
        try:
            _, more = self.numbers([size * _GROWTH[0] // _GROWTH[1] + 1 for size in sizes])
        except ArithmeticError:  # the plan is not for these, so what is divided by may be 0
            more = needed
        return self._placed(np.maximum(np.maximum(needed, before.sizes), np.minimum(more, largest)))

    def _placed(self, sizes: Integers) -> Layout:
        of_values = dict(zip(self._values, sizes.tolist(), strict=False))
        of_scratch = sizes[len(self._values) :].tolist()
        net = dataclasses.replace(self.network, sizes=of_values)
        stages = [
            dataclasses.replace(stage, program=Program((), size))
            for stage, size in zip(self.stages, of_scratch, strict=True)
        ]
        regions = {
            number: self._owned.get(number)
            or Region(BindingKind.INPUT, number, 0, of_values[NetworkValue("input", number)])
            for number, tensor in enumerate(self.network.inputs)
            if tensor is not None
        }
        placement = placed(net, stages, regions, self._most_bytes, self.stages_once)
        hazards = HazardTracker()
        depends = []
        memories: collections.defaultdict[tuple[BindingKind, int], Any] = collections.defaultdict(object)

        def reach(operand: _OwnedRange) -> Access:
            """The bytes that it may have, whatever the sizes are: where these decide, all of what it lies in."""
            kind, index, start = self._home(operand.owner, placement)
            if not is_dynamic(operand.offset) and not is_dynamic(operand.size):
                start += operand.offset
                return Access(memories[kind, index], start, start + operand.size)
            if isinstance(operand.owner, Region):
                whole = 2**62
            else:
                whole = of_scratch[operand.owner] if isinstance(operand.owner, int) else of_values[operand.owner]
            return Access(memories[kind, index], start, start + whole)

        for launch in self._launches:
            accesses = [reach(operand) for operand in launch.operands]
            count = len(launch.step.reads)
            waits = hazards.depends(accesses[:count], accesses[count:], is_independent=launch.step.is_independent)
            depends.append(waits)
        return Layout(sizes, placement, tuple(depends))

    def _home(self, owner: _Owner, placement: MemoryPlacement) -> tuple[BindingKind, int, int]:
        if isinstance(owner, int):
            region = placement.temporary.scratch[owner]
        else:
            region = owner if isinstance(owner, Region) else placement.regions[owner]
        return region.kind, region.index, region.offset

    def steps(self, layout: Layout) -> list[KernelStep]:
        """The launches of a plan without open sizes, where everything lies in some memory."""
        made = []
        for launch in self._launches:
            regions = []
            for operand in launch.operands:
                kind, index, start = self._home(operand.owner, layout.placement)
                regions.append(Region(kind, index, start + operand.offset, operand.size))
            count = len(launch.step.reads)
            made.append(dataclasses.replace(launch.step, reads=tuple(regions[:count]), writes=tuple(regions[count:])))
        return made

    def recorded(self, layout: Layout, memory: Mapping[PlaceNumber, Lies]) -> list[RecordedStep]:
        def access(region: Region) -> Access:
            allocation, first = memory[region.kind, region.index]
            first += region.offset
            return Access(allocation, first, first + region.size_in_bytes)

        return [
            RecordedStep(step, tuple(map(access, step.reads)), tuple(map(access, step.writes)), depends)
            for step, depends in zip(self.steps(layout), layout.depends, strict=True)
        ]

    def launcher(
        self, layout: Layout, memory: Mapping[PlaceNumber, Lies], numbers: Integers, elsewhere: Collection[PlaceNumber]
    ) -> Launcher:
        """What launches everything of a plan with open sizes.

        Args:
            numbers: of one set of sizes, as :meth:`numbers` gives them.
            elsewhere: those of the places that lie elsewhere in each recording.
        """
        shared, first = None, 0
        made = []
        for launch, depends in zip(self._launches, layout.depends, strict=True):
            of = launch.numbers
            assert of is not None  # sizes are open
            homes = [self._home(operand.owner, layout.placement) for operand in launch.operands]
            more: tuple[Allocation, ...] = ()
            if coefficients.are_read_by(of.spirv, len(launch.operands)):
                shared = shared or self.device.engine.shared(coefficients.contents())
                more = (shared,)
            words = first + len(of.constants)
            made.append(
                OpenLaunch(
                    Launch(of.spirv, (), (), (0, 0, 0), (), (), depends, of.varying),
                    (len(of.constants), len(of.words)),
                    tuple(((kind, index), start) for kind, index, start in homes),
                    len(launch.step.reads),
                    more,
                    tuple((words + number, factors) for number, factors in of.lying),
                    bool(self._numbers.is_open[first : first + len(of.all)].any()),
                )
            )
            first += len(of.all)
        return Launcher(self.device, made, memory, numbers, elsewhere)

    def prepare(self, layout: Layout, inputs: Mapping[int, tuple[Buffer | Allocation, int]]) -> None:
        """Uploads its constants, and computes what is the same in every run, whatever the sizes are.

        To be called again where lasting inputs changed nevertheless.

        Args:
            inputs: where its lasting inputs lie, by their numbers.
        """
        placement = layout.placement
        constants = self.constants if self.is_prepared else placement.constants.uploaded(self.device)
        run_once(self.device, steps_once(self.stages_once, placement), placement, inputs, constants)
        self.constants, self.is_prepared = constants, True  # only now: whoever sees them takes them for whole
