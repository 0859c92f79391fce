"""The kernels of a graph, before memory is planned."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from dmlvk.errors import DeviceLimitError, ShaderCompilationError
from dmlvk.graphs.channels_last import with_channels_last
from dmlvk.graphs.fusion.epilogues import FusedProduct, factor_of, find_epilogues
from dmlvk.graphs.fusion.functions import Function, function_of
from dmlvk.graphs.fusion.gated_products import GatedProduct, find_gated_products
from dmlvk.graphs.fusion.grouping import Group, KernelLimits, grouped
from dmlvk.graphs.fusion.kernel import fused_kernel, operand_pairs_in_place
from dmlvk.graphs.fusion.packed_weights import PackedProduct, find_packed_products
from dmlvk.graphs.fusion.product_epilogues import ProductEpilogue, find_product_epilogues
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.kernels.library.glsl import KernelRefusedError
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products.packed_matrices import PARTS
from dmlvk.kernels.program import SCRATCH_ALIGNMENT, BindingKind, KernelStep, Program, Region
from dmlvk.kernels.rows.normalization import batch_factor, batch_factor_program, batch_shift_program
from dmlvk.kernels.target import Target
from dmlvk.objects.compilation import permits_in_place
from dmlvk.operators import BatchNormalization
from dmlvk.support import faults
from dmlvk.support.progress import with_progress
from dmlvk.support.threads import map_in_threads
from dmlvk.tensors import TensorDesc

_log = logging.getLogger("dmlvk")

_Joined = FusedProduct | PackedProduct | GatedProduct | ProductEpilogue
"""Operators that one kernel of the package computes together."""

NO_COMPILER = "there is no GLSL compiler (glslangValidator) on this machine"


@dataclasses.dataclass(frozen=True)
class Stage:
    """One operator of a graph, or several that became one kernel."""

    nodes: tuple[NetworkNode, ...]  # the operators that it computes
    program: Program  # what computes them
    reads: tuple[NetworkValue, ...]  # its inputs, as the program numbers them
    writes: tuple[NetworkValue, ...]  # its outputs, likewise
    in_place: frozenset[tuple[int, int]]  # pairs of an input and an output that may be one range of memory

    @property
    def label(self) -> str:
        return " + ".join(node.name for node in self.nodes)


@dataclasses.dataclass(frozen=True)
class Stages:
    stages: tuple[Stage, ...]  # in an order in which they can run
    remark: str = ""  # why something was not fused that could be, or an empty string
    # tensors that are not in the graph: what stages hand to one another inside of an operator
    inner: Mapping[NetworkValue, TensorDesc] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class PlannedStages:
    """What a graph computes in each run, and what only once."""

    network: Network  # the graph, with the sizes of all values; of tensors whose channels were put last, copies, too
    stages: tuple[Stage, ...]  # the kernels of a run, in order
    once: tuple[Stage, ...]  # those that run only once, before the first run
    inner: Mapping[NetworkValue, TensorDesc]  # tensors that are not in the graph as its author wrote it
    remark: str  # why something was not fused that could be, or an empty string

    @property
    def inputs_read_once(self) -> frozenset[int]:
        """The graph inputs, by their numbers, that nothing reads but the stages that run only once."""
        read_again = {value for stage in self.stages for value in stage.reads}
        return frozenset(
            value.index
            for stage in self.once
            for value in stage.reads
            if value.kind == "input" and value not in read_again
        )


def planned_stages(
    network: Network, target: Target, lasting_inputs: Collection[int], *, fuse: bool, is_open: bool = False
) -> PlannedStages:
    """The kernels of a graph, before memory is planned.

    Args:
        lasting_inputs: inputs that are the same in every run, by their numbers; constants are, too.
        fuse: whether several operators may become one kernel, and tensors have their channels last.
        is_open: whether sizes are open, for which no layout is chosen by what it gains.
    """
    lasting = {*(NetworkValue("input", number) for number in lasting_inputs), *network.constants}
    whole = with_channels_last(network, target) if fuse and not is_open else network
    made = fused_stages(whole, target, lasting) if fuse else single_stages(whole, target)
    inner = {value: tensor.size_in_bytes for value, tensor in made.inner.items()}
    whole = dataclasses.replace(whole, sizes=whole.sizes | inner)
    written = {value: tensor for node in whole.nodes for _, tensor, value in node.writes()}
    copies = {value: tensor for value, tensor in written.items() if value not in network.sizes}
    once, others = prepared(whole, made.stages, lasting)
    return PlannedStages(whole, tuple(others), tuple(once), {**made.inner, **copies}, made.remark)


def single_stages(network: Network, target: Target) -> Stages:
    """A stage for each operator; products with packed weights, whose bits are their own, have one with what unpacks."""
    first: dict[int, Stage] = {}
    packed = {found.product.index: found for found in find_packed_products(network, target, ()) if found.has_own_order}
    sources = {found.source.index for found in packed.values()}
    stages = []
    for node in network.nodes:
        if (found := packed.get(node.index)) is not None:
            stages.append(Stage(found.nodes, found.program(target), found.reads(), (found.output,), frozenset()))
        elif node.index not in sources:
            stages.append(_alike(node, target, first))
    return Stages(tuple(stages))


def _alike(node: NetworkNode, target: Target, first: dict[int, Stage]) -> Stage:
    """The stage of one operator, with the program of the first one that has the same description."""
    made = first.get(id(node.desc))
    if made is None:
        with _too_large_for(node):
            made = first[id(node.desc)] = single_stage(node, target)
        return made
    reads, writes = (tuple(value for _, _, value in values) for values in (node.reads(), node.writes()))
    return Stage((node,), made.program, reads, writes, made.in_place)


def fused_stages(network: Network, target: Target, lasting: Collection[NetworkValue] = ()) -> Stages:
    """Kernels that compute several operators where that is possible.

    Args:
        lasting: values that are the same in every run. What follows from them alone becomes stages of its own.
    """
    epilogues = {epilogue.product.index: epilogue for epilogue in find_epilogues(network, target)}
    packed = {found.product.index: found for found in find_packed_products(network, target, epilogues.values())}
    epilogues = {index: epilogue for index, epilogue in epilogues.items() if index not in packed}
    of_desc = {id(node.desc): node.desc for node in network.nodes}  # many nodes share one
    function_by_desc = {number: function_of(desc, target) for number, desc in of_desc.items()}
    functions: dict[int, Function] = {}
    for node in network.nodes:
        function = function_by_desc[id(node.desc)]
        if function is not None:
            functions[node.index] = function
    # One binding is left for the coefficients that some functions read.
    limits = KernelLimits(buffers=min(KernelLimits.buffers, target.buffers - 1))
    gated = find_gated_products(network, target, packed.values())
    inside = {node.index for each in gated for node in each.nodes}
    alone = [each for each in packed.values() if each.product.index not in inside]
    found: list[_Joined] = [*epilogues.values(), *alone, *gated]
    found += find_product_epilogues(
        network, target, [member.index for each in found for member in each.nodes], functions.keys()
    )
    joined = {each.nodes[0].index: each for each in found}
    groups = grouped(network, functions, limits, target, [each.nodes for each in found])
    of_groups = _stages_of_groups(groups, network, target, joined, lasting)
    remarks = [remark for _, remark in of_groups if remark]
    if remarks and remarks[0] == NO_COMPILER:
        _warn_of_missing_compiler()
    elif remarks:
        _log.warning("some operators of a graph run one by one: %s", remarks[0])
    stages = tuple(_of_same_rows(stage for stages, _ in of_groups for stage in stages))
    written = {value for stage in stages for value in stage.writes}
    inner = {
        factor_of(node): batch_factor(node.desc)
        for node in network.nodes
        if isinstance(node.desc, BatchNormalization) and factor_of(node) in written
    }
    return Stages(stages, remarks[0] if remarks else "", inner)


def _of_same_rows(stages: Iterable[Stage]) -> Iterator[Stage]:
    """One stage for neighbours that multiply the same rows by packed weights: their parts are made once."""
    run: list[Stage] = []
    for stage in stages:
        if run and not _have_same_parts(run, stage):
            yield _beside_one_another(run)
            run = []
        run.append(stage)
    yield from [_beside_one_another(run)] if run else ()


def _have_same_parts(run: Sequence[Stage], stage: Stage) -> bool:
    step, first = run[0].program.steps[0], stage.program.steps[0]
    is_alike = step.kernel.variant == PARTS.name and step == first and run[0].reads[0] == stage.reads[0]
    return is_alike and not {value for each in run for value in each.writes} & {*stage.reads}


def _beside_one_another(run: Sequence[Stage]) -> Stage:
    """What begins with the same step, which is launched once; what follows is launched beside one another."""
    if len(run) == 1:
        return run[0]
    (first,) = run[0].program.steps[:1]
    # What comes first lies first in the scratch memory.
    shared = max(_aligned(region.offset + region.size_in_bytes) for region in first.writes)
    rounds: list[list[KernelStep]] = []
    reads, writes, scratch = list[NetworkValue](), list[NetworkValue](), 0

    def moved(region: Region) -> Region:
        if region.kind is BindingKind.TEMPORARY:
            return region if region in first.writes else region.part(scratch, region.size_in_bytes)
        by = len(reads) if region.kind is BindingKind.INPUT else len(writes)
        return dataclasses.replace(region, index=region.index + by)

    for stage in run:
        for number, step in enumerate(stage.program.steps[1:]):
            if len(rounds) == number:
                rounds.append([])
            own_reads, own_writes = tuple(map(moved, step.reads)), tuple(map(moved, step.writes))
            rounds[number].append(dataclasses.replace(step, reads=own_reads, writes=own_writes))
        reads += stage.reads
        writes += stage.writes
        scratch += _aligned(stage.program.scratch_bytes) - shared
    program = Program((first, *itertools.chain(*rounds)), shared + scratch)
    nodes = tuple(node for stage in run for node in stage.nodes)
    return Stage(nodes, program, tuple(reads), tuple(writes), frozenset())


def _aligned(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


@functools.cache  # once in a process: it is true of all graphs
def _warn_of_missing_compiler() -> None:
    _log.warning(
        "graphs run one operator after the other, with the same bits, but several times slower than in one kernel: %s; "
        "Debian, Ubuntu: apt install glslang-tools",
        NO_COMPILER,
    )


def _stages_of_groups(
    groups: Sequence[Group],
    network: Network,
    target: Target,
    joined: Mapping[int, _Joined],
    lasting: Collection[NetworkValue],
) -> list[tuple[list[Stage], str]]:
    """The stages of each group, and why it was not fused; programs of operators that are alike are made once."""
    alone = {index: group.nodes[0] for index, group in enumerate(groups) if _is_alone(group, joined)}
    first = {id(node.desc): index for index, node in reversed(alone.items())}
    distinct = [index for index in range(len(groups)) if index not in alone or first[id(alone[index].desc)] == index]
    fused = sum(len(groups[index].nodes) > 1 for index in distinct)  # the compiler runs for these alone
    making = map_in_threads(
        lambda index: _stages_of(groups[index], network, target, joined.get(groups[index].nodes[0].index), lasting),
        distinct,
        min(os.cpu_count() or 1, max(fused, 1)),
    )
    made = dict(zip(distinct, with_progress(making, len(distinct), "kernels of a graph compiled"), strict=True))
    known = {id(alone[index].desc): stages[0] for index, (stages, _) in made.items() if index in alone}
    return [
        made[index] if index in made else ([_alike(alone[index], target, known)], "") for index in range(len(groups))
    ]


def _is_alone(group: Group, joined: Mapping[int, _Joined]) -> bool:
    """Whether a group is one operator, whose program follows from its description and from nothing else."""
    (node, *others) = group.nodes
    return not others and node.index not in joined and not isinstance(node.desc, BatchNormalization)


def _stages_of(
    group: Group, network: Network, target: Target, joined: _Joined | None, lasting: Collection[NetworkValue]
) -> tuple[list[Stage], str]:
    """One kernel for a group, or one for each of its operators and why."""
    with _too_large_for(group.nodes[0]):
        return _stages_or_remark(group, network, target, joined, lasting)


@contextlib.contextmanager
def _too_large_for(node: NetworkNode) -> Iterator[None]:
    """Says of which node the work was that the device cannot launch."""
    try:
        yield
    except DeviceLimitError as error:
        given = ", ".join(f"{tensor.data_type.name} {list(tensor.sizes)}" for _, tensor, _ in node.writes())
        raise DeviceLimitError(f"the node {node.name!r}, which gives {given}: {error}", node=node.index) from error


def _stages_or_remark(
    group: Group, network: Network, target: Target, joined: _Joined | None, lasting: Collection[NetworkValue]
) -> tuple[list[Stage], str]:
    if isinstance(joined, PackedProduct | GatedProduct | ProductEpilogue):
        return [Stage(joined.nodes, joined.program(target), joined.reads(), (joined.output,), frozenset())], ""
    if joined is not None:
        return _stages_of_epilogue(joined, target), ""
    if len(group.nodes) == 1:
        return _stages_of_node(group.nodes[0], target, lasting), ""
    try:
        return [_fused_stage(group, network)], ""
    except ShaderCompilationError as error:
        if isinstance(error, KernelRefusedError):
            faults.report(error, f"compiling {' + '.join(node.name for node in group.nodes)} as one kernel")
        return [single_stage(node, target) for node in group.nodes], str(error)


def _stages_of_epilogue(epilogue: FusedProduct, target: Target) -> list[Stage]:
    stage = Stage(epilogue.nodes, epilogue.program(target), epilogue.reads(), (epilogue.output,), frozenset())
    return [stage] if epilogue.normalization is None else [_factor_stage(epilogue.normalization, target), stage]


def _stages_of_node(node: NetworkNode, target: Target, lasting: Collection[NetworkValue]) -> list[Stage]:
    if not isinstance(node.desc, BatchNormalization):
        return [single_stage(node, target)]
    source, mean, variance, scale, bias = (value for _, _, value in node.reads())
    if variance not in lasting or scale not in lasting:
        return [single_stage(node, target)]
    shift = batch_shift_program(node.desc, target)
    reads = (source, mean, factor_of(node), bias)
    written = tuple(value for _, _, value in node.writes())
    return [_factor_stage(node, target), Stage((node,), shift, reads, written, frozenset())]


def _factor_stage(node: NetworkNode, target: Target) -> Stage:
    assert isinstance(node.desc, BatchNormalization)
    _, _, variance, scale, _ = (value for _, _, value in node.reads())
    program = batch_factor_program(node.desc, target)
    return Stage((node,), program, (variance, scale), (factor_of(node),), frozenset())


def _fused_stage(group: Group, network: Network) -> Stage:
    kernel = fused_kernel(group, network)
    if kernel is None:
        raise ShaderCompilationError(NO_COMPILER)
    reads, writes = tuple(operand.value for operand in group.inputs), tuple(operand.value for operand in group.outputs)
    step = KernelStep(
        "fused",
        kernel,
        tuple(Region(BindingKind.INPUT, number, 0, network.sizes[value]) for number, value in enumerate(reads)),
        tuple(Region(BindingKind.OUTPUT, number, 0, network.sizes[value]) for number, value in enumerate(writes)),
    )
    return Stage(group.nodes, Program((step,)), reads, writes, frozenset(operand_pairs_in_place(group)))


def single_stage(node: NetworkNode, target: Target) -> Stage:
    reads, writes = node.reads(), node.writes()
    in_place = frozenset(
        (position, output)
        for position, (number, _, _) in enumerate(reads)
        for output, (output_number, _, _) in enumerate(writes)
        if permits_in_place(node.desc, node.desc.inputs[number], node.desc.outputs[output_number])
    )
    return Stage(
        (node,),
        lower(node.desc, target),
        tuple(value for _, _, value in reads),
        tuple(value for _, _, value in writes),
        in_place,
    )


def prepared(
    network: Network, stages: Sequence[Stage], lasting: Collection[NetworkValue]
) -> tuple[list[Stage], list[Stage]]:
    """The stages that need to run only once, as long as some values stay what they are; and the others.

    Nothing is kept that takes more memory than the lasting values that it follows from, or that a graph's output shows;
    what is only between may take any.

    Args:
        network: the graph, with the sizes of all values.
        lasting: what stays: graph inputs, and constants.
    """
    sources = {value: frozenset((value,)) for value in lasting}  # the lasting values that each follows from
    for stage in stages:
        if stage.reads and sources.keys() >= set(stage.reads):
            followed = frozenset[NetworkValue]().union(*(sources[value] for value in stage.reads))
            sources.update(dict.fromkeys(stage.writes, followed))
    shown = frozenset(value for value, _ in network.outputs)
    in_each_run: set[NetworkValue] = set()
    while True:
        read_again = set(shown)
        once: list[Stage] = []
        others: list[Stage] = []
        for stage in reversed(stages):  # what reads a value comes behind what writes it
            kept = sum(network.sizes[value] for value in set(stage.writes) & read_again)
            followed = sources.get(stage.writes[0], frozenset()) if in_each_run.isdisjoint(stage.reads) else frozenset()
            if followed and shown.isdisjoint(stage.writes) and kept <= sum(network.sizes[value] for value in followed):
                once.append(stage)
            else:
                others.append(stage)
                read_again.update(stage.reads)
        # What follows from weights may be read of a value that is too large to be kept: then it is computed behind it.
        in_each_run.update(value for stage in others for value in stage.writes)
        if in_each_run.isdisjoint(value for stage in once for value in stage.reads):
            return once[::-1], others[::-1]
