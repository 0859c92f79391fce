"""Computes a model, or a graph inside one: rounds are planned as they are needed, kept, and run."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlvk.onnx.nodes.operators as operators
from dmlvk.dynamic.sizes import Guards
from dmlvk.errors import DeviceLimitError, ModelFileError, OutOfMemoryError
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.decoding.decoder_runs import DecoderPlans, DecoderRun, Decoding, Targets
from dmlvk.onnx.decoding.standing import StandingStep
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluators import Repeated, evaluate
from dmlvk.onnx.host.folding import folded
from dmlvk.onnx.model.control import CONTROL_FLOW, run_control_flow
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, MOST_AXES, Budget, Limits, size_of
from dmlvk.onnx.model.loading import OnnxModel, Step, subgraph
from dmlvk.onnx.model.looking import described, needed
from dmlvk.onnx.nodes.assembly import Parts
from dmlvk.onnx.nodes.index_checks import IndexChecks
from dmlvk.onnx.nodes.joining import Joined, joined, joined_integers
from dmlvk.onnx.nodes.ranges import check_ranges
from dmlvk.onnx.nodes.values import NUMPY_TYPES, dense, memory_of
from dmlvk.onnx.plan.batches import DividedRuns, Shape
from dmlvk.onnx.plan.dynamic_execution import DynamicRound, DynamicSegment
from dmlvk.onnx.plan.dynamic_rounds import DynamicRounds
from dmlvk.onnx.plan.execution import DeviceValue, Resident, Segment, Usage, Weights, writable
from dmlvk.onnx.plan.made_rounds import KEPT_PLANS, MadeRound, MadeRounds, has_contents
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.planning import Planner
from dmlvk.onnx.plan.round_plans import (
    ContentsNeededError,
    Live,
    NotDynamicError,
    Placement,
    RoundPlan,
    not_there,
    readers_of,
    viewed,
)
from dmlvk.onnx.plan.states import State
from dmlvk.support.collection import collection_paused
from dmlvk.support.weak_calls import weakly

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

assert operators  # importing it registers the translators

_log = logging.getLogger("dmlvk")

_UNREAD = "nothing reads what it gives"


class DeviceModel:
    """A model on a device.

    Args:
        device: where it runs.
        model: what is computed.
        strict: refuses models of which the host would compute more than shapes and constants.
        fuse: whether stretches of element-wise operators become one kernel.
        flags: as for ``Device.compile_graph``.
        limits: what the model may ask for.
        budget: what is left of the run of which this is a part; ``None``: each run has its own.
        joins: whether nodes are joined that stand for one operator together.
    """

    def __init__(
        self,
        device: Device,
        model: OnnxModel,
        *,
        strict: bool = False,
        fuse: bool = True,
        flags: ExecutionFlags = ExecutionFlags.NONE,
        limits: Limits = DEFAULT_LIMITS,
        budget: Budget | None = None,
        joins: bool = True,
    ) -> None:
        self.model = model
        self._joins = joins
        self._stated_limits = limits
        self._model_bytes = sum(size_of(array) for array in model.constants.values())
        self._outer_budget = budget
        self._budget = Budget(limits.beside(self._model_bytes)) if budget is None else budget
        self.device = device
        self.placements: dict[int, Placement] = {}
        self._told: set[int] = set()
        self.last: list[MadeRound | DynamicRound] = []
        self._strict = strict
        self._fuse = fuse
        self._flags = flags
        shown = [info.name for info in model.outputs]
        self._shown = frozenset(shown)
        steps = joined_integers(needed(model), model.constants, shown) if joins else needed(model)
        folding = folded(model, steps, self._limits, self._budget)
        self._constants, self._steps, self._unfolded = folding.constants, folding.steps, folding.unfolded
        if joins:
            self._steps = joined(self._steps, self._constants, shown)
        self.pending = Pending.of(self._steps)
        self._readers = readers_of(model)
        # No method: weights that lead back here would be a circle, which keeps the device of a session that is dropped.
        self._described = functools.partial(described, self._constants, self._readers)
        self._weights = Weights(device, described=self._described)
        self._weights.upload_ahead(self._steps, self._constants)
        self._rounds = MadeRounds()
        self._dynamic, self._open_decoder = self._no_open_plans(), self._no_open_plans()
        self._parts: Parts = {}
        self._inside: dict[tuple[Step, str], DeviceModel] = {}
        self.index_checks = IndexChecks(model, self._steps, self._constants)
        self.decoding = Decoding.of(device, model, self._steps, self._constants)
        self._decoder_plans = DecoderPlans(KEPT_PLANS)
        self._divided = DividedRuns(model, self._steps, self._constants)

    def forget(self) -> None:
        """Frees what lies on the device."""
        self._rounds, self.last, self._inside = MadeRounds(), [], {}
        self._decoder_plans = DecoderPlans(KEPT_PLANS)
        self._dynamic, self._open_decoder = self._no_open_plans(), self._no_open_plans()
        self._weights = Weights(self.device, described=self._described)

    def _no_open_plans(self) -> DynamicRounds:
        return DynamicRounds(self.model, tells_multiples=not self.device.target.is_cpu)

    def plan_static_shapes(self) -> None:
        """Plans a model whose input shapes are all given, and whose plan depends on nothing else."""
        arrays: dict[str, Any] = {}
        for info in self.model.inputs:
            if info.element not in NUMPY_TYPES or info.shape is None or len(info.shape) > MOST_AXES:
                return
            sizes = [size for size in info.shape if isinstance(size, int) and size > 0]
            if len(sizes) != len(info.shape):
                return
            arrays[info.name] = np.broadcast_to(np.zeros((), NUMPY_TYPES[info.element]), sizes)
        state = State(self._constants, arrays)
        with collection_paused():
            try:
                plan = self.planner(state.known, state.live(), not_there).planned(self.pending)
                made = self._made(plan, state)
            except ContentsNeededError:
                return
            except DeviceLimitError:
                if self._divided.plan(arrays, self._shapes) is None:
                    raise
                return
        self._rounds.keep(state.key(), made)
        self.last = [made]
        self.placements = dict(plan.placements) | self.constant_placements()

    def run(
        self,
        arrays: Mapping[str, Any],
        times: list[KernelTime] | None = None,
        kept: Collection[str] = (),
        targets: Targets | None = None,
    ) -> State:
        """Computes everything.

        Args:
            arrays: the inputs.
            times: where to note what the kernels took.
            kept: the outputs that are to lie in arrays of their own on the device, where the device computes them.
            targets: arrays on the device that outputs are bound to, or what finds them; caches are appended to where
                they lie.
        """
        return self._divided.run(arrays, lambda part: self._ran_at_once(part, times, kept, targets), self._shapes)

    def _shapes(self, arrays: Mapping[str, Any]) -> Callable[[str], Shape | None]:
        """The shapes of all values, as far as one round tells them."""
        state = State(self._constants, arrays)
        planner = self.planner(state.known, state.live(), state.host_array)
        planner.planned(self.pending)
        return planner.shape_of

    def _ran_at_once(
        self, arrays: Mapping[str, Any], times: list[KernelTime] | None, kept: Collection[str], targets: Targets | None
    ) -> State:
        if self._outer_budget is None:
            given = self._model_bytes + sum(size_of(array) for array in arrays.values())
            self._budget = Budget(self._stated_limits.beside(given))
        self.index_checks.check(arrays)
        decoder_run = None if self.decoding is None or times is not None else self.decoding.taken(arrays)
        if decoder_run is not None:
            decoded = self._decoded(decoder_run, kept, targets or {})
            if decoded is not None:
                return decoded
        state = State(self._constants, arrays)
        if times is None and self._may_have_open_sizes(state, kept):
            # The plan for these sizes alone says which value is too large, and may do with less memory.
            with contextlib.suppress(DeviceLimitError):
                if self._ran_for_open_sizes(state, kept, writable(targets, arrays)):
                    return state
        rounds, steps = self._rounds, self.pending
        self.last = []
        placements = self.constant_placements()
        for _ in range(self._limits.nodes):
            made = rounds.find(state.key(), state)
            if made is None:
                with collection_paused():
                    made = self._made(self._planned(steps, state), state)
                rounds.keep(state.key(), made)
            self.last.append(made)
            self._execute(made, state, times, kept, writable(targets, arrays))
            placements.update(made.plan.placements)
            rounds, steps = made.next, made.plan.rest
            if not steps:
                break
            state.drop(self._shown, steps)
        else:
            raise ModelFileError(f"{self.model.name}: {next(iter(steps)).label}: cannot be planned")
        self.placements = placements
        return state

    def _decoded(self, run: DecoderRun, kept: Collection[str], targets: Targets) -> State | None:
        """Computes everything by a decoder's plan; ``None`` where one graph on the device does not do."""
        assert self.decoding is not None  # its run was taken
        state = State(self._constants, run.arrays)
        if not self.decoding.has_plan(run):
            return None
        if self.decoding.is_open and self._decoded_for_open_sizes(run, state, kept, targets):
            return state
        state.known.update(run.known)
        key = state.key(), run.branches, tuple(self.decoding.live(run).items())
        made: MadeRound | None = self._decoder_plans.of(key, lambda: self._made_for_decoder(run, state))
        settled = None if made is None else self.decoding.settled(run, made.plan.assembly.lengths)
        if made is None or made.segment is None or settled is None:
            return None
        run = settled
        check_ranges(self.model.name, made.plan.assembly.ranges.values(), run.arrays, run.counted)
        memory = self.decoding.memory(run, made.plan.assembly.lengths, targets, kept)
        state.known.update(made.plan.known)
        arrays = {name: state.uploaded(name) for name in made.segment.uploads}
        state.values.update(made.segment.run(arrays, kept, memory))
        state.values.update(self.decoding.with_scores(run, made.plan.assembly.lengths, state.values))
        state.values.update(self.decoding.shown(run, memory))
        self._note_decoded(run, made, state)
        return state

    def _decoded_for_open_sizes(self, run: DecoderRun, state: State, kept: Collection[str], targets: Targets) -> bool:
        """Computes everything by a decoder's plan that is for all lengths of its masks; whether there can be one."""
        assert self.decoding is not None  # its run was taken
        kept_apart = {*kept, *run.capacities}
        opening = None if state.known.maps[0] else self._open_decoder.opening(state.values, kept_apart)
        if opening is None:
            return False
        opening = dataclasses.replace(opening, key=(opening.key, run.branches, tuple(run.capacities.items())))
        if opening.key in self._open_decoder.refused:
            return False
        state.known.update(run.known)
        made = self._open_decoder.find(opening, lambda _: True)
        if made is None:
            made = self._open_decoder.make(
                opening, lambda *given: self._made_for_open_sizes(state, opening.elsewhere, run.capacities, *given)
            )
        lengths = [] if made is None else made.lengths(opening.sizes)
        settled = None if made is None else self.decoding.settled(run, lengths)
        if made is None or settled is None:
            return False
        check_ranges(self.model.name, made.ranges(opening.sizes), run.arrays, run.counted)
        memory = self.decoding.memory(settled, lengths, targets, kept)
        found, of_host = made.segment.run(opening.sizes, state.values, memory)
        state.known.update(made.plan.known)
        state.known.update(of_host)
        state.values.update(found)
        state.values.update(self.decoding.shown(settled, memory))
        self._note_decoded(run, made, state)
        return True

    def _note_decoded(self, run: DecoderRun, made: MadeRound | DynamicRound, state: State) -> None:
        """Notes what the host counted in a decoder's run, and which plan it was."""
        for name, value in run.counted.items():
            state.values.setdefault(name, value)
        if self.last != [made]:
            self.last, self.placements = [made], {**self.constant_placements(), **made.plan.placements}

    def standing_step(self, arrays: Mapping[str, Any], targets: Targets) -> StandingStep | None:
        """A decoder's run as it lies on the device, without running it; ``None`` where no plan of all lengths does it.

        Args:
            arrays: as for :meth:`run`; all but the caches come from the host.
            targets: likewise, for all caches.
        """
        run = None if self.decoding is None else self.decoding.taken(arrays)
        if self.decoding is None or run is None or not self.decoding.has_plan(run):
            return None
        state = State(self._constants, run.arrays)
        state.known.update(run.known)
        key = state.key(), run.branches, tuple(self.decoding.live(run).items())
        made: MadeRound | None = self._decoder_plans.of(key, lambda: self._made_for_decoder(run, state))
        settled = None if made is None else self.decoding.settled(run, made.plan.assembly.lengths)
        if made is None or made.segment is None or settled is None:
            return None
        memory = self.decoding.memory(settled, made.plan.assembly.lengths, targets, list(self.cache_outputs))
        return made.segment.standing({name: state.uploaded(name) for name in made.segment.uploads}, memory)

    def _made_for_decoder(self, run: DecoderRun, state: State) -> MadeRound | None:
        assert self.decoding is not None  # its run was taken
        live = state.live() | self.decoding.live(run)
        planner = self.planner(state.known, live, state.host_array, {**run.capacities, **run.widths})
        plan = planner.planned(self._decoder_steps)
        appended = plan.outputs.keys() & plan.assembly.appended
        if plan.rest or plan.host or plan.contents or plan.fetched or not run.capacities.keys() <= appended:
            return None
        self._note_counting(plan)
        return self._made(plan, state, run.capacities)

    def _note_counting(self, plan: RoundPlan) -> None:
        """Notes where the nodes are computed of which a decoder's plan reads the results."""
        assert self.decoding is not None  # the plan is a decoder's
        for step in self.decoding.counting_steps:
            name = step.proto.name or next(iter(step.proto.output), "")
            plan.placements[step.index] = Placement(name, step.proto.op_type, "host", "counts, before each run")

    def _may_have_open_sizes(self, state: State, kept: Collection[str]) -> bool:
        """Whether a plan for open sizes is worth while: on the device sizes often stay the same, so not at once."""
        if not kept and not any(isinstance(value, DeviceValue) for value in state.values.values()):
            return True
        return any(self._rounds) and self._rounds.find(state.key(), state) is None

    def _ran_for_open_sizes(self, state: State, kept: Collection[str], targets: Mapping[str, DeviceValue]) -> bool:
        """Computes everything by a plan for open sizes, where there is one or can be."""
        opening = None if state.known.maps[0] else self._dynamic.opening(state.values, kept)
        if opening is None:
            return False
        made = self._dynamic.find(opening, lambda made: has_contents(made.plan, state))
        if made is None:
            made = self._dynamic.make(
                opening, lambda *given: self._made_for_open_sizes(state, opening.elsewhere, None, *given)
            )
        if made is None:
            return False
        self.last = [made]
        self.placements = self.constant_placements() | made.plan.placements
        check_ranges(self.model.name, made.ranges(opening.sizes), state.values)
        try:
            found, of_host = made.segment.run(opening.sizes, state.values, targets=targets)
        except OutOfMemoryError:
            if not self._dynamic.forget_others(opening, made):
                raise
            found, of_host = made.segment.run(opening.sizes, state.values, targets=targets)
        state.known.update(made.plan.known)
        state.known.update(of_host)
        state.values.update(found)
        return True

    def _made_for_open_sizes(
        self,
        state: State,
        elsewhere: Collection[str],
        capacities: Mapping[str, int] | None,
        guards: Guards,
        live: Mapping[str, Live],
        offsets: Sequence[int],
    ) -> DynamicRound:
        planner = self.planner(state.known, live, state.host_array, capacities, guards)
        plan = planner.planned(self.pending if capacities is None else self._decoder_steps)
        if capacities is not None:
            self._note_counting(plan)
            is_appended = capacities.keys() <= plan.outputs.keys() & plan.assembly.appended
            if plan.contents or not is_appended or any(of.scores for of in plan.assembly.lengths):
                raise NotDynamicError("caches are not appended to where they lie")
        assembled = plan.assembly.assembled(list(plan.outputs.values()))
        if assembled is None:
            raise NotDynamicError("there is nothing for the device to compute")
        weights = self._plan_weights()
        known = collections.ChainMap(plan.known, self._constants)
        segment = DynamicSegment(
            self.device,
            assembled,
            plan,
            guards,
            offsets,
            weights,
            known,
            weakly(self._evaluated),  # the plan is kept here: it would be a circle, with all memory on the device
            lambda step: Repeated(step, self.model.opsets, self.model.name, self._limits),
            self._shown,
            elsewhere,
            fuse=self._fuse,
            flags=self._flags,
        )
        return DynamicRound(plan, guards, segment, len(offsets), capacities)

    @functools.cached_property
    def _decoder_steps(self) -> Pending:
        return Pending.of([] if self.decoding is None else self.decoding.steps)

    def graphs_of_last(self) -> list[CompiledGraph]:
        """The graphs of the last run; one for open sizes as it is for that run's."""
        rounds = list(self.last)
        for index, made in enumerate(rounds):
            if isinstance(made, DynamicRound):
                state = State(self._constants, made.arrays)
                planner = self.planner(state.known, state.live(), state.host_array, made.capacities)
                plan = planner.planned(self.pending if made.capacities is None else self._decoder_steps)
                rounds[index] = self._made(plan, state, made.capacities or ())
        return [made.segment.compiled for made in rounds if isinstance(made, MadeRound) and made.segment is not None]

    @property
    def plan_count(self) -> int:
        """The plans that are kept."""
        return len(self._dynamic) + len(self._open_decoder) + sum(1 for _ in self._rounds) + len(self._decoder_plans)

    @property
    def usage(self) -> Usage:
        """What the last run took, without what graphs inside of nodes did."""
        weights = self._weights.size_in_bytes, sum(array.nbytes for array in self._weights.arrays)
        segments = [made.segment.usage for made in self.last if made.segment is not None]
        return sum(segments, Usage(device_bytes=weights[0], least_bytes=weights[1]))

    def constant_placements(self) -> dict[int, Placement]:
        """The nodes that depend on nothing but constants."""
        return dict(self._constant_placements)

    @functools.cached_property
    def _constant_placements(self) -> dict[int, Placement]:
        members = [step.body if isinstance(step, Joined) else (step,) for step in self._steps]
        left = {step.index for together in members for step in together}
        read = {step.index for step in needed(self.model)}
        return {
            step.index: Placement(
                step.proto.name or next(iter(step.proto.output), ""),
                step.proto.op_type,
                "constant",
                "" if step.index in read else _UNREAD,
                OWN if step.index in read else "",
            )
            for step in self.model.steps
            if step.index not in left
        }

    @property
    def constants(self) -> Mapping[str, Any]:
        """What is known of the model before it runs."""
        return self._constants

    @property
    def cache_outputs(self) -> dict[str, str]:
        """The outputs that show a decoder's caches, with the inputs that they go on from."""
        return {} if self.decoding is None else self.decoding.cache_outputs

    def planner(
        self,
        known: Mapping[str, Any],
        live: Mapping[str, Live],
        contents: Callable[[str], Any],
        capacities: Mapping[str, int] | None = None,
        guards: Guards | None = None,
    ) -> Planner:
        """What plans a round on these values.

        Args:
            known: those that are known.
            live: those that are there besides.
            contents: reads one of them.
            capacities: as for :class:`Planner`.
            guards: likewise.
        """
        return Planner(
            self.device,
            self.model,
            known,
            live,
            contents,
            self._evaluated,
            strict=self._strict and capacities is None,  # without room there is another plan
            parts=self._parts,
            limits=self._limits,
            capacities=capacities,
            guards=guards,
            unfolded=self._unfolded,
            readers=self._readers,
        )

    def _planned(self, steps: Pending, state: State) -> RoundPlan:
        plan = self.planner(state.known, state.live(), state.host_array).planned(steps)
        if plan.rest and len(plan.rest) == len(steps) and not plan.host and not plan.outputs and not plan.known:
            raise ModelFileError(f"{self.model.name}: {next(iter(plan.rest)).label}: cannot be planned")
        return plan

    def _made(self, plan: RoundPlan, state: State, elsewhere: Collection[str] = ()) -> MadeRound:
        hosted = {n: item for n, item in plan.placements.items() if item.place == "host" and n not in self._told}
        if hosted and not elsewhere:
            first = next(iter(hosted.values()))
            _log.warning(
                "%s: the host computes %d of %d nodes, first %r (%s): %s",
                *(self.model.name, len(hosted), len(self.model.steps), first.node, first.op_type, first.reason),
            )
            self._told.update(hosted)  # once for each node, whatever the sizes
        assembled = plan.assembly.assembled(list(plan.outputs.values()))
        if assembled is None:
            return MadeRound(plan, None)
        resident = {name: value for name, value in state.values.items() if isinstance(value, Resident)}
        weights = self._plan_weights()
        names = list(plan.outputs)
        segment = Segment(
            self.device, assembled, names, weights, resident, fuse=self._fuse, flags=self._flags, elsewhere=elsewhere
        )
        return MadeRound(plan, segment)

    def _plan_weights(self) -> Weights:
        """The weights of a plan, of which the model's own are shared by all plans."""
        parts = (part for _, part in self._parts.values())
        lasting = {
            memory_of(dense(array))
            for array in (*self._constants.values(), *parts)
            if isinstance(array, np.ndarray) and array.size
        }
        return Weights(self.device, self._weights, self._described, lasting)

    def _execute(
        self,
        made: MadeRound,
        state: State,
        times: list[KernelTime] | None,
        kept: Collection[str],
        targets: Mapping[str, DeviceValue],
    ) -> None:
        plan = made.plan
        for name, value in plan.known.items():
            state.known[name] = value
        check_ranges(self.model.name, plan.assembly.ranges.values(), state.values)
        fetched = {
            name: viewed(np.asarray(state.host_array(tensor.source.name)), tensor)
            for name, tensor in plan.fetched.items()
        }
        if made.segment is not None:
            arrays = {name: state.uploaded(name) for name in made.segment.uploads}
            if times is None:
                apart = [name for name in kept if not plan.rest.reads(name)]  # the next graph looks here for the others
                state.values.update(made.segment.run(arrays, apart, targets=targets))
            else:
                profiled, taken = made.segment.profile(arrays)
                times += taken
                state.values.update(profiled)
        state.values.update(fetched)
        for step in plan.host:
            noted = plan.placements.get(step.index)
            try:
                results, program = self._evaluated(step, {name: state.host_array(name) for name in step.reads})
            except ModelFileError as error:
                if noted is None or not noted.reason or noted.reason in str(error):
                    raise
                raise ModelFileError(f"{error}; the device: {noted.reason}") from error
            state.kept_bytes = self._budget.kept_by(results, state.kept_bytes, step, self.model.name)
            if noted is not None and noted.program != program:
                plan.placements[step.index] = dataclasses.replace(noted, program=program)
            for name, result in zip(step.proto.output, results, strict=True):
                if name:
                    state.add(name, result)

    def _evaluated(self, step: Step, values: Mapping[str, Any]) -> tuple[list[Any], str]:
        """What a node gives that is not on the device itself, and what computed it; graphs inside it may be there."""
        if step.proto.op_type in CONTROL_FLOW and not step.domain and step.version > 8:
            results = run_control_flow(
                step, values, lambda name, given: self._run_inside(step, name, given), self.model.name, self._budget
            )
            return results, OWN
        return evaluate(step, values, self.model.opsets, self.model.name, self._limits)

    @property
    def _limits(self) -> Limits:
        return self._budget.limits

    def share(self, budget: Budget) -> None:
        """What is left of the run of which the next ones are parts."""
        self._outer_budget = self._budget = budget

    def _run_inside(self, step: Step, name: str, values: Mapping[str, Any]) -> list[Any]:
        """Computes the graph that an attribute of a node holds."""
        program = self._inside.get((step, name))
        if program is None:
            graph = next(attribute.g for attribute in step.proto.attribute if attribute.name == name)
            inner = subgraph(self.model, graph)
            program = DeviceModel(
                self.device,
                inner,
                strict=self._strict,
                fuse=self._fuse,
                flags=self._flags,
                limits=self._limits,
                budget=self._budget,
                joins=self._joins,
            )
            self._inside[step, name] = program
        program.share(self._budget)
        names = {info.name for info in program.model.inputs}
        state = program.run({name: value for name, value in values.items() if name in names})
        return [state.host_array(info.name) for info in program.model.outputs]
