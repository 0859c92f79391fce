"""Computes a model, or a graph inside one: rounds are planned as they are needed, kept, and run."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlvk.onnx.nodes.operators as operators
from dmlvk.errors import DeviceLimitError, ModelFileError, OutOfMemoryError
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.decoding.decoder_runs import DecoderRun, Targets
from dmlvk.onnx.decoding.standing import StandingStep
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluators import evaluate
from dmlvk.onnx.model.control import CONTROL_FLOW, run_control_flow
from dmlvk.onnx.model.limits import MOST_AXES, Budget, size_of
from dmlvk.onnx.model.loading import OnnxModel, Step, subgraph
from dmlvk.onnx.nodes.index_checks import IndexChecks
from dmlvk.onnx.nodes.ranges import check_ranges
from dmlvk.onnx.nodes.values import NUMPY_TYPES
from dmlvk.onnx.plan.batches import DividedRuns, Shape
from dmlvk.onnx.plan.dynamic_rounds import DynamicRounds, Opening
from dmlvk.onnx.plan.execution import DeviceValue, writable
from dmlvk.onnx.plan.made_rounds import MadeRound, Rounds
from dmlvk.onnx.plan.model_rounds import ModelRounds, read_later
from dmlvk.onnx.plan.round_plans import ContentsNeededError, not_there, viewed
from dmlvk.onnx.plan.states import State
from dmlvk.support.collection import collection_paused

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.device import Device

assert operators  # importing it registers the translators

_log = logging.getLogger("dmlvk")


class DeviceModel(ModelRounds):
    """A model on a device, which runs; with arguments as of :class:`ModelRounds`."""

    def __init__(self, device: Device, model: OnnxModel, **options: Any) -> None:
        super().__init__(device, model, **options)
        self._inside: dict[tuple[Step, str], DeviceModel] = {}
        self.index_checks = IndexChecks(model, self._steps, self._constants)
        self._divided = DividedRuns(model, self._steps, self._constants)

    def forget(self) -> None:
        super().forget()
        self._inside = {}

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
        times: list[KernelTime] | None = None,  # where to note what the kernels took
        # the outputs that are to lie in arrays of their own on the device, where the device computes them
        kept: Collection[str] = (),
        # arrays on the device that outputs are bound to, or what finds them; caches are appended to where they lie
        targets: Targets | None = None,
    ) -> State:
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
        state, where = State(self._constants, arrays), writable(targets, arrays)
        if times is None and self._may_have_open_sizes(state, kept):
            # The plan for these sizes alone says which value is too large, and may do with less memory.
            with contextlib.suppress(DeviceLimitError):
                if self._ran_in_rounds(self._dynamic, state, None, kept, where):
                    return state
            state = State(self._constants, arrays)
        self._ran_in_rounds(self._rounds, state, times, kept, where)
        return state

    def _ran_in_rounds(
        self,
        rounds: Rounds,  # where the first ones are kept; for open sizes, if they are so
        state: State,
        times: list[KernelTime] | None,
        kept: Collection[str],
        targets: Mapping[str, DeviceValue],
    ) -> bool:
        """Computes everything in rounds; says whether there can be plans of this kind."""
        steps, placements = self.pending, self.constant_placements()
        last: list[MadeRound] = []
        for _ in range(self._limits.nodes):
            made: MadeRound | None = None
            sizes: tuple[int, ...] = ()
            if isinstance(rounds, DynamicRounds):
                opening = rounds.opening_of(state, steps, kept)
                if opening is not None:
                    made, sizes = self._round_for(rounds, steps, opening, state), opening.sizes
                if made is None and not last:
                    return False
            if made is None:
                made, sizes = rounds.find(state.key(), state), ()
            if made is None:
                with collection_paused():
                    made = self._made(self._planned(steps, state), state, stays=not isinstance(rounds, DynamicRounds))
                rounds.keep(state.key(), made)
            self.last = last
            last.append(made)
            try:
                self._execute(made, sizes, rounds, state, times, kept, targets)
            except OutOfMemoryError:
                if not made.is_open or not rounds.forget_others(made):
                    raise
                self._execute(made, sizes, rounds, state, times, kept, targets)
            placements.update(made.plan.placements)
            rounds, steps = made.next, made.plan.rest
            if not steps:
                break
            state.drop(self._shown, steps)
        else:
            raise ModelFileError(f"{self.model.name}: {next(iter(steps)).label}: cannot be planned")
        self.placements = placements
        return True

    def _decoded(self, run: DecoderRun, kept: Collection[str], targets: Targets) -> State | None:
        """Computes everything by a decoder's plan; ``None`` where one graph on the device does not do."""
        assert self.decoding is not None  # its run was taken
        state = State(self._constants, run.arrays)
        if not self.decoding.has_plan(run):
            return None
        opening = self._opening_of_decoder(run, state, kept) if self.decoding.is_open else None
        state.known.update(run.known)
        found: tuple[MadeRound, DecoderRun] | None = None
        sizes: tuple[int, ...] = ()
        if opening is not None:
            round_of_all = self._round_for(self._open_decoder, self._decoder_steps, opening, state, run.capacities)
            found = self._settled(run, round_of_all, opening.sizes)
        if opening is not None and found is not None:
            sizes = opening.sizes
        elif (found := self._round_of_decoder(run, state)) is None:
            return None
        made, run = found
        lengths = made.lengths(sizes)
        check_ranges(self.model.name, made.ranges(sizes), run.arrays, run.counted)
        memory = self.decoding.memory(run, lengths, targets, kept)
        state.known.update(made.plan.known)
        self._run_segment(made, sizes, state, kept, memory)
        state.values.update(self.decoding.with_scores(run, lengths, state.values))
        state.values.update(self.decoding.shown(run, memory))
        for name, value in run.counted.items():
            state.values.setdefault(name, value)
        if self.last != [made]:
            self.last, self.placements = [made], {**self.constant_placements(), **made.plan.placements}
        return state

    def _opening_of_decoder(self, run: DecoderRun, state: State, kept: Collection[str]) -> Opening | None:
        """What is open in a decoder's run, if there can be a plan for all lengths of its masks."""
        kept_apart = {*kept, *run.capacities}
        opening = None if state.known.maps[0] else self._open_decoder.opening(state.values, kept_apart)
        if opening is None:
            return None
        opening = dataclasses.replace(opening, key=(opening.key, run.branches, tuple(run.capacities.items())))
        return None if opening.key in self._open_decoder.refused else opening

    def _round_of_decoder(self, run: DecoderRun, state: State) -> tuple[MadeRound, DecoderRun] | None:
        """The plan of a decoder's run for its sizes alone, with the run; ``None`` where there is none."""
        assert self.decoding is not None  # its run was taken
        key = state.key(), run.branches, tuple(self.decoding.live(run).items())
        return self._settled(run, self._decoder_plans.of(key, lambda: self._made_for_decoder(run, state)), ())

    def _settled(
        self, run: DecoderRun, made: MadeRound | None, sizes: tuple[int, ...]
    ) -> tuple[MadeRound, DecoderRun] | None:
        """A round that there is, and the run as it is by its lengths."""
        assert self.decoding is not None  # its run was taken
        settled = None if made is None else self.decoding.settled(run, made.lengths(sizes))
        return None if made is None or made.segment is None or settled is None else (made, settled)

    def _run_segment(
        self,
        made: MadeRound,
        sizes: tuple[int, ...],
        state: State,
        kept: Collection[str],
        memory: Mapping[str, TensorMemory] | None = None,
        targets: Mapping[str, DeviceValue] | None = None,
    ) -> None:
        """Runs a round's graph on the device, and notes what it gives."""
        assert made.segment is not None  # whoever has none does not ask
        found, of_host = made.segment.run(sizes, state.uploaded, kept, memory, targets)
        made.note_inputs(state)
        state.add_of_sizes(of_host, made.plan)
        state.values.update(found)

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
        found = self._round_of_decoder(run, state)
        if found is None:
            return None
        made, run = found
        decoding, lengths = self.decoding, self.decoding.lengths_in(run, made.plan.assembly.lengths)
        memory = decoding.memory(run, made.plan.assembly.lengths, targets, list(self.cache_outputs))
        assert made.segment is not None  # it was settled
        return made.segment.standing(state.uploaded, memory, lambda others: decoding.again(run, others, lengths))

    def _may_have_open_sizes(self, state: State, kept: Collection[str]) -> bool:
        """Whether a plan for open sizes is worth while: on the device sizes often stay the same, so not at once."""
        if not kept and not any(isinstance(value, DeviceValue) for value in state.values.values()):
            return True
        return any(self._rounds) and self._rounds.find(state.key(), state) is None

    def _execute(
        self,
        made: MadeRound,
        sizes: tuple[int, ...],
        rounds: Rounds,
        state: State,
        times: list[KernelTime] | None,
        kept: Collection[str],
        targets: Mapping[str, DeviceValue],
    ) -> None:
        plan = made.plan
        check_ranges(self.model.name, made.ranges(sizes), state.values, state.numbers)
        state.known.update(plan.known)
        fetched = {
            name: viewed(np.asarray(state.host_array(tensor.source.name)), tensor)
            for name, tensor in plan.fetched.items()
        }
        if made.segment is not None:
            if times is None:
                # Of one set of sizes the next graph looks here for what it reads.
                is_open = isinstance(rounds, DynamicRounds)
                apart = [*kept, *read_later(plan)] if is_open else [n for n in kept if not plan.rest.reads(n)]
                self._run_segment(made, sizes, state, apart, targets=targets)
            else:
                profiled, taken = made.segment.profile((), state.uploaded)
                times += taken
                state.values.update(profiled)
        elif made.of_sizes is not None:
            made.note_inputs(state)
            state.add_of_sizes(made.of_sizes(sizes).arrays, plan)
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
                step, values, lambda name, given: self._run_inside(step, name, given), self.model, self._budget
            )
            return results, OWN
        return evaluate(step, values, self.model.opsets, self.model.name, self._limits)

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
        return [state.unshared(info.name) for info in program.model.outputs]
