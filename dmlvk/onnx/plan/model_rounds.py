"""What is planned of a model on a device: rounds, made as they are needed, and kept."""

from __future__ import annotations

import collections
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.dynamic.sizes import Guards
from dmlvk.errors import ModelFileError
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.onnx.decoding.decoder_runs import DecoderRun, Decoding
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluators import Repeated
from dmlvk.onnx.host.folding import folded
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, Budget, Limits, size_of
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.model.looking import described, needed
from dmlvk.onnx.nodes.assembly import Parts
from dmlvk.onnx.nodes.joining import Joined, joined, joined_integers
from dmlvk.onnx.nodes.values import dense, memory_of
from dmlvk.onnx.plan.dynamic_rounds import DynamicRounds, Opening
from dmlvk.onnx.plan.execution import Resident, Usage, Weights
from dmlvk.onnx.plan.made_rounds import MadeRound, Rounds
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.planning import Planner
from dmlvk.onnx.plan.round_plans import Live, NotDynamicError, Placement, RoundPlan, readers_of
from dmlvk.onnx.plan.segments import HostOfSizes, OpenSizes, Segment, compiled_graph
from dmlvk.onnx.plan.states import State
from dmlvk.support.collection import collection_paused
from dmlvk.support.recent import Recent
from dmlvk.support.weak_calls import weakly

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph


_log = logging.getLogger("dmlvk")

_UNREAD = "nothing reads what it gives"

_KEPT_DECODER_PLANS = 32
"""For chunks of prompts and what is left of them, 1 to 64 sequences, and steps with 4 to 32 guesses."""


class ModelRounds:
    """A model on a device, with what is planned of it."""

    def __init__(
        self,
        device: Device,
        model: OnnxModel,
        *,
        strict: bool = False,  # refuses models of which the host would compute more than shapes and constants
        fuse: bool = True,  # whether stretches of element-wise operators become one kernel
        flags: ExecutionFlags = ExecutionFlags.NONE,  # as for ``Device.compile_graph``
        limits: Limits = DEFAULT_LIMITS,  # what the model may ask for
        budget: Budget | None = None,  # what is left of the run of which this is a part; ``None``: each run has its own
        joins: bool = True,  # whether nodes are joined that stand for one operator together
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
        self.last: list[MadeRound] = []
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
        self._rounds = Rounds()
        self._dynamic, self._open_decoder = self._no_open_plans(), self._no_open_plans()
        self._parts: Parts = {}
        self.decoding = Decoding.of(device, model, self._steps, self._constants)
        self._decoder_plans: Recent[object, MadeRound | None] = Recent(_KEPT_DECODER_PLANS)

    def forget(self) -> None:
        """Frees what lies on the device."""
        self._rounds, self.last = Rounds(), []
        self._decoder_plans.clear()
        self._dynamic, self._open_decoder = self._no_open_plans(), self._no_open_plans()
        self._weights = Weights(self.device, described=self._described)

    def _evaluated(self, step: Step, values: Mapping[str, Any]) -> tuple[list[Any], str]:
        """What a node gives that is not on the device itself, and what computed it."""
        raise NotImplementedError

    def _no_open_plans(self) -> DynamicRounds:
        return DynamicRounds(self.model, tells_multiples=not self.device.target.is_cpu)

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

    def _round_for(
        self,
        rounds: DynamicRounds,
        steps: Pending,
        opening: Opening,
        state: State,
        capacities: Mapping[str, int] | None = None,
    ) -> MadeRound | None:
        """The plan for open sizes, of a decoder where it has room for its caches; ``None`` where there can be none."""
        made = rounds.find(opening.key, state, opening.sizes)
        if made is not None:
            return made
        with collection_paused():
            return rounds.make(
                opening, lambda *given: self._made_for_open_sizes(steps, state, opening, capacities, *given)
            )

    def _made_for_open_sizes(
        self,
        steps: Pending,
        state: State,
        opening: Opening,
        capacities: Mapping[str, int] | None,
        guards: Guards,
        sizes: Sequence[int],
        offsets: Sequence[int],
    ) -> MadeRound:
        known = opening.known()
        there = collections.ChainMap(known, *state.known.maps)
        planner = self.planner(there, opening.live(sizes), state.host_array, capacities, guards)
        plan = planner.planned(steps, opening.derived(sizes))
        if capacities is not None:
            self._note_counting(plan)
            is_appended = capacities.keys() <= plan.outputs.keys() & plan.assembly.appended
            if plan.contents or not is_appended or any(of.scores for of in plan.assembly.lengths):
                raise NotDynamicError("caches are not appended to where they lie")
            if plan.rest or plan.host or plan.fetched:
                raise NotDynamicError("not all of it is one graph on the device")
        if _computes_nothing(plan, steps):
            raise NotDynamicError("it cannot be planned")
        found = {name: value for name, value in state.known.maps[0].items() if name not in state.numbers}
        read = {name for step in plan.host for name in step.reads}
        read |= {name for name in plan.derived if plan.rest.reads(name)}
        opened = OpenSizes(
            guards,
            offsets,
            {**self._constants, **found, **known, **plan.known},
            weakly(self._evaluated),  # the plan is kept here: it would be a circle, with all memory on the device
            lambda step: Repeated(step, self.model.opsets, self.model.name, self._limits),
            self._shown | read,
        )
        segment = self._segment(plan, opened, elsewhere=opening.elsewhere.union(read_later(plan)))
        if segment is None and not plan.host:
            raise NotDynamicError("there is nothing for the device to compute")
        self._tell_hosted(plan)
        of_sizes = HostOfSizes(plan, (), (), opened) if segment is None else None
        return MadeRound(plan, segment, guards, len(offsets), capacities, of_sizes, tuple(opening.numbers))

    @functools.cached_property
    def _decoder_steps(self) -> Pending:
        return Pending.of([] if self.decoding is None else self.decoding.steps)

    def graphs_of_last(self) -> list[CompiledGraph]:
        """The graphs of the last run; one for open sizes as it is for that run's."""
        graphs, steps = [], self.pending
        for made in self.last:
            plan = made.plan
            if made.is_open:
                arrays = {name: plan.contents.get(name, array) for name, array in made.empty_inputs.items()}
                state = State(self._constants | made.known, arrays)
                planner = self.planner(state.known, state.live(), state.host_array, made.capacities)
                plan = planner.planned(steps if made.capacities is None else self._decoder_steps)
            steps = made.plan.rest
            assembled = plan.assembly.assembled(list(plan.outputs.values()))
            if assembled is not None:
                graphs.append(compiled_graph(self.device, assembled, list(plan.outputs), self._flags, fuse=self._fuse))
        return graphs

    @property
    def plan_count(self) -> int:
        of_decoder = sum(plan is not None for plan in self._decoder_plans.values())
        return len(self._dynamic) + len(self._open_decoder) + len(self._rounds) + of_decoder

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
        return self._constants

    @property
    def cache_outputs(self) -> dict[str, str]:
        """The outputs that show a decoder's caches, with the inputs that they go on from."""
        return {} if self.decoding is None else self.decoding.cache_outputs

    def planner(
        self,
        known: Mapping[str, Any],
        live: Mapping[str, Live],  # those that are there besides
        contents: Callable[[str], Any],
        capacities: Mapping[str, int] | None = None,  # as for :class:`Planner`
        guards: Guards | None = None,
    ) -> Planner:
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
        if _computes_nothing(plan, steps):
            raise ModelFileError(f"{self.model.name}: {next(iter(plan.rest)).label}: cannot be planned")
        return plan

    def _made(self, plan: RoundPlan, state: State, elsewhere: Collection[str] = (), *, stays: bool = True) -> MadeRound:
        """A round for one set of sizes.

        Args:
            stays: whether what lies on the device lies there in all runs of it.
        """
        if not elsewhere:
            self._tell_hosted(plan)
        resident = {name: value for name, value in state.values.items() if stays and isinstance(value, Resident)}
        return MadeRound(plan, self._segment(plan, resident=resident, elsewhere=elsewhere))

    def _tell_hosted(self, plan: RoundPlan) -> None:
        hosted = {n: item for n, item in plan.placements.items() if item.place == "host" and n not in self._told}
        if hosted:
            first = next(iter(hosted.values()))
            _log.warning(
                "%s: the host computes %d of %d nodes, first %r (%s): %s",
                *(self.model.name, len(hosted), len(self.model.steps), first.node, first.op_type, first.reason),
            )
            self._told.update(hosted)  # once for each node, whatever the sizes

    def _segment(self, plan: RoundPlan, opened: OpenSizes | None = None, **values: Any) -> Segment | None:
        """A plan's graph on the device; ``None`` where there is nothing to compute; with values as of the class."""
        assembled = plan.assembly.assembled(list(plan.outputs.values()))
        if assembled is None:
            return None
        weights = self._plan_weights()
        return Segment(self.device, assembled, plan, weights, opened, fuse=self._fuse, flags=self._flags, **values)

    def _plan_weights(self) -> Weights:
        """The weights of a plan, of which the model's own are shared by all plans."""
        parts = (part for _, part in self._parts.values())
        lasting = {
            memory_of(dense(array))
            for array in (*self._constants.values(), *parts)
            if isinstance(array, np.ndarray) and array.size
        }
        return Weights(self.device, self._weights, self._described, lasting)

    @property
    def _limits(self) -> Limits:
        return self._budget.limits


def _computes_nothing(plan: RoundPlan, steps: Pending) -> bool:
    is_left = plan.rest and len(plan.rest) == len(steps)
    return bool(is_left and not plan.host and not plan.outputs and not plan.known)


def read_later(plan: RoundPlan) -> list[str]:
    """The outputs of a round's graph that later rounds read."""
    return [name for name in plan.outputs if plan.rest.reads(name)]
