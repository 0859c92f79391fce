"""Plans how a model is computed: which nodes the device computes, which the host, and in which order.

A plan holds for one set of input shapes, or for all for which its guards hold. It is a chain of rounds, most often of
one: a graph for the device, then the nodes that only the host can compute. What depends on those is planned in the next
round, when their results' shapes are known. A node whose shape depends on the contents of a small tensor waits for them
likewise.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import DeviceRemovedError, DmlError, ModelFileError
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluators import HOST_ONLY, is_random
from dmlvk.onnx.host.host_chains import follows_on_host, is_of_shape, of_shape
from dmlvk.onnx.model.expansion import expanded, has_body
from dmlvk.onnx.model.loading import OnnxModel, Step, subgraph
from dmlvk.onnx.nodes.emptiness import is_empty, of_pretended
from dmlvk.onnx.nodes.joining import Joined
from dmlvk.onnx.nodes.translation import Node, record_of, translation_of
from dmlvk.onnx.nodes.values import (
    Array,
    Awaited,
    Derived,
    Known,
    NeedsValue,
    NodeInputError,
    NotOnDevice,
    Tensor,
    Value,
)
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.round_plans import Live, Placement, RoundPlan, check_views, refuse_host, viewed
from dmlvk.onnx.plan.round_values import RoundValues
from dmlvk.support import faults

_numbers = itertools.count()


def branch_of(step: Step, model: OnnxModel, *, is_taken: bool) -> tuple[list[Step], dict[str, Array]]:
    """The nodes of a branch, which end in those that give the outputs of the If, and its constants.

    What the branch defines gets names that nothing else in the model has.

    Raises:
        ModelFileError: when the branch breaks a rule.
    """
    name = "then_branch" if is_taken else "else_branch"
    graph = next(attribute.g for attribute in step.proto.attribute if attribute.name == name)
    inner = subgraph(model, graph)
    prefix = f"{step.proto.name or step.proto.output[0]}/{next(_numbers)}/"
    own = [*inner.constants, *(output for made in inner.steps for output in made.proto.output if output)]
    names = {name: prefix + name for name in own}
    owner = step.index if step.index >= 0 else step.owner
    steps = [_renamed(made, names, prefix, owner) for made in inner.steps]
    version = model.opsets.get("", 1)
    schema = onnx.defs.get_schema("Identity", version)
    for info, output in zip(inner.outputs, step.proto.output, strict=False):
        if output:
            source = names.get(info.name, info.name)
            proto = helper.make_node("Identity", [source], [output], name=f"{prefix}{output}")
            steps.append(Step(-1, proto, schema, (source,), owner))
    return steps, {names[name]: array for name, array in inner.constants.items()}


def _renamed(step: Step, names: Mapping[str, str], prefix: str, owner: int) -> Step:
    proto = onnx.NodeProto()
    proto.CopyFrom(step.proto)
    proto.name = prefix + (proto.name or proto.op_type)
    _rename(proto, names)
    return Step(-1, proto, step.schema, tuple(names.get(name, name) for name in step.reads), owner)


def _rename(proto: Any, names: Mapping[str, str]) -> None:
    """Other names for what a node reads and writes, and for what graphs inside it take from outside."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for attribute in proto.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
            for node in graph.node:
                _rename(node, names)
            for info in graph.output:
                info.name = names.get(info.name, info.name)


_NOT_TRANSLATED = "is not translated"

_LOOKED_AHEAD = 32
"""Nodes in a round that may wait before those behind them are left to the next one, besides four for each that does
not: what all rounds look at together is in proportion to the model's nodes."""


class Planner(RoundValues):
    """Plans one round; with arguments as of :class:`RoundValues`."""

    def planned(self, steps: Pending, derived: Mapping[str, Derived] | None = None) -> RoundPlan:
        """The round that computes as many of these nodes as it can.

        Args:
            derived: integers among what is known that follow from open sizes.

        Raises:
            ModelFileError: naming a node that is not valid.
            UnsupportedError: when nodes would run on the host that must not.
        """
        self._open = steps
        self._values.update(derived or {})
        looked_at = 0
        for looked_at, step in enumerate(steps, 1):
            if step.index not in self._done:
                with self._named(step):
                    self._assign(step)
            if len(self._rest) > _LOOKED_AHEAD + 4 * (looked_at - len(self._rest)) and looked_at > len(self._rest):
                break
        self._host, self._rest = self._sorted_out()
        rest = steps.left(self._rest, looked_at, self._done)
        if self._strict:
            refuse_host(self._model.name, self._placements.values())
        outputs, fetched = self._what_is_asked_for(rest)
        return RoundPlan(
            self._assembly,
            outputs,
            fetched,
            tuple(self._host),
            rest,
            self._found,
            self._assembly.follows | {name: each for name, each in self._values.items() if isinstance(each, Derived)},
            tuple(self._prelude),
            self._looked_at,
            self._placements,
        )

    def _assign(self, step: Step) -> None:
        read = [self._value(name) for name in step.reads]
        if any(isinstance(value, Awaited) for value in read):
            if not follows_on_host(step, read):
                self._wait(step)
            elif isinstance(step, Joined):
                self._assign_members(step)
            else:
                self._to_host(step, "reads a type that the device does not have")
            return
        missing = next((name for name, value in zip(step.reads, read, strict=True) if value is None), None)
        if isinstance(step, Joined) and (missing is not None or all(map(self._follows_from_sizes, step.reads))):
            self._assign_members(step)
            return
        if missing is not None:
            self._to_host(step, self._on_host_already[missing])
            return
        is_constant = not is_random(step) and all(isinstance(value, Known) for value in read)
        if is_constant and self._fold(step):
            return
        is_of_nothing = any(isinstance(value, Known) and is_empty(value.value) for value in read)
        if is_of_nothing and self._gives_nothing(step, is_constant=is_constant):
            return
        if step.proto.op_type == "If" and not step.domain and self._is_known(step.proto.input[0]):
            self._take_branch(step)
            return
        if is_of_shape(step):
            self._take_shape(step, self._value(step.proto.input[0]))
            return
        if self._guards is not None and not is_constant and self._is_host_s(step):
            self._derive(step)
            return
        self._try_device(step, is_constant=is_constant)

    def _gives_nothing(self, step: Step, *, is_constant: bool) -> bool:
        """Notes the results of a node that reads tensors without elements, where these have none or a rule tells."""
        record = record_of(step.domain, step.proto.op_type, step.version)
        if is_constant and record is not None and record.empty is not None:
            self._evaluate(step, "DirectML has no tensors without elements")
            return True
        inputs = [self._value(name) if name else None for name in step.proto.input]
        results = of_pretended(step, inputs, self._assembly.device)
        if results is None:
            return False
        self._found.update((name, made) for name, made in zip(step.proto.output, results, strict=True) if name)
        self._note(step, "constant", "follows from the shapes", OWN)
        return True

    def _try_device(self, step: Step, *, is_constant: bool) -> None:
        """Places a node on the device, or else where its inputs and its function's body let it be."""
        try:
            self._to_device(step)
        except NeedsValue as need:
            try:
                is_there = self._look_at(need.name)
            except NotOnDevice as reason:
                self._to_host(step, str(reason))
                return
            if is_there:
                self._assign(step)
            else:
                self._wanted_later.add(need.name)
                self._wait(step)
        except NotOnDevice as reason:
            self._check_refusal(step, reason)
            if isinstance(step, Joined):
                self._assign_members(step)
            elif self._expand(step):
                return
            elif is_constant:
                self._evaluate(step, str(reason))
            else:
                self._to_host(step, str(reason))

    def _assign_members(self, step: Joined) -> None:
        """Places the nodes that a joined one stands for, one by one."""
        for member in step.body:
            self._assign(member)

    def _take_branch(self, step: Step) -> None:
        """Places the nodes of an If's branch in its stead."""
        condition = np.asarray(self._known(step.proto.input[0]))
        if condition.size != 1:
            self._to_host(step, f"its condition has {condition.size} elements")
            return
        self._note(step, "device", f"its condition is known: {bool(condition.reshape(-1)[0])}")
        steps, constants = branch_of(step, self._model, is_taken=bool(condition.reshape(-1)[0]))
        self._found.update(constants)
        for inner in steps:
            self._assign(inner)

    def _take_shape(self, step: Step, value: Value | None) -> None:
        if isinstance(value, Derived):
            value = self._assembly.derived(value)
        assert isinstance(value, (Known, Tensor))
        found = of_shape(step, value, lambda *made: self._limits.check_shape(step, made[0], made[1], self._model.name))
        if found is None:
            self._to_host(step, "needs a matrix of a type that the device has")
            return
        name = step.proto.output[0]
        if is_dynamic(list(found.reshape(-1))):
            self._values[name] = Derived(name, TensorProto.INT64, found)
        else:
            self._found[name] = found.astype(np.int64) if found.dtype == object else found
        self._note(step, "constant", "follows from the shapes")

    def _to_device(self, step: Step) -> None:
        """Translates a node.

        Raises:
            NeedsValue: when the contents of an input decide about it.
            NotOnDevice: when the device cannot do it.
        """
        translation = translation_of(step.domain, step.proto.op_type, step.version)
        if translation is None:
            raise NotOnDevice(HOST_ONLY.get(step.proto.op_type, _NOT_TRANSLATED))
        if translation.missing is not None:
            raise NotOnDevice(f"this version of dmlvk has no {translation.missing} yet")
        inputs = [self._value(name) if name else None for name in step.proto.input]
        following, reader = self._following(step)
        mark = self._assembly.mark()
        try:
            if translation.check is not None:
                translation.check(Node(step.proto, step.schema, inputs, [], self._assembly))
            shapes, unused = self._inferred(step, inputs), self._unused(step)
            node = Node(step.proto, step.schema, inputs, shapes, self._assembly, following, unused)
            translation.translate(node)
            wanted = [(index, name) for index, name in enumerate(step.proto.output) if name and name not in unused]
            results = {name: node.results[index] for index, name in wanted}
            check_views(results.values(), self._limits)
        except (NeedsValue, NotOnDevice, DeviceRemovedError):
            self._assembly.back_to(mark)
            raise
        except NodeInputError as error:
            raise NodeInputError(f"{self._model.name}: {step.label}: {error}") from None
        except DmlError as error:
            self._assembly.back_to(mark)
            raise NotOnDevice(" ".join(f"{error}".split())) from error
        except Exception as error:
            self._assembly.back_to(mark)
            faults.report(error, f"translating {step.label}")
            raise NotOnDevice(f"a fault of dmlvk: {' '.join(f'{type(error).__name__}: {error}'.split())}") from error
        self._values.update(results)
        for name, tensor in results.items():
            self._assembly.name(tensor, name)
        self._note(step, "device")
        if isinstance(step, Joined):
            for member in step.body:
                self._note(member, "device", f"joined with others to {step.proto.op_type}")
        if node.fused and reader is not None:
            self._values[reader.proto.output[0]] = next(iter(results.values()))
            self._done.add(reader.index)
            self._note(reader, "device", f"computed with {step.label}")

    def _expand(self, step: Step) -> bool:
        """Computes a node by its function's body, where the device can compute all of that."""
        inputs = [self._value(name) if name else None for name in step.proto.input]
        body = expanded(step, inputs, self._model.opsets)
        if body is None:
            return False
        before = (self._assembly.mark(), dict(self._values), dict(self._found), len(self._host), len(self._rest))
        prelude = len(self._prelude)
        looked_at = dict(self._looked_at)
        for inner in body:
            try:
                self._assign(inner)
                is_computed = len(self._host) == before[3] and len(self._rest) == before[4]
            except ModelFileError:  # nobody computes this part of constants; of the whole node somebody may
                is_computed = False
            if not is_computed:
                self._assembly.back_to(before[0])
                self._values, self._found, self._looked_at = before[1], before[2], looked_at
                del self._host[before[3] :], self._rest[before[4] :], self._prelude[prelude:]
                return False
        self._note(step, "device", "by its function's body")
        return True

    # What is left.

    def _sorted_out(self) -> tuple[list[Step], list[Step]]:
        """The nodes that the host computes after the graph; and those for which it is too early.

        Nodes that only the host can compute follow each other without another round.
        """
        host, rest = list(self._host), []
        waiting = {name for step in self._rest for name in step.proto.output}
        for step in self._rest:
            translation = translation_of(step.domain, step.proto.op_type, step.version)
            is_early = any(name in waiting for name in step.reads)
            if translation is None and not is_early and not has_body(step):
                host.append(step)
                waiting -= set(step.proto.output)
                self._note(step, "host", HOST_ONLY.get(step.proto.op_type, _NOT_TRANSLATED))
            else:
                rest.append(step)
        return host, rest

    def _what_is_asked_for(self, rest: Pending) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The graph's outputs, and the views of inputs that the host reads."""
        outputs: dict[str, Tensor] = {}
        fetched: dict[str, Tensor] = {}
        shown = [info.name for info in self._model.outputs]
        read_later = [name for step in (*self._host, *rest.waiting) for name in step.reads]
        read_later += filter(rest.reads_behind, self._values)
        for name in dict.fromkeys([*shown, *read_later]):
            value = self._values.get(name)
            if not isinstance(value, Tensor):
                continue
            source = value.source
            is_of_sizes = source.name in self._of_host or source.name in self._assembly.of_sizes
            is_copied = name in shown or is_of_sizes or is_dynamic((value.shape, value.strides))
            if source.kind == "input" and (not is_copied or source.name == name):
                if source.name != name:
                    fetched[name] = value  # the host looks at the same bytes otherwise
            elif source.kind == "constant" and not is_copied:
                assert source.array is not None
                self._found[name] = viewed(source.array, value)
            else:
                outputs[name] = self._assembly.as_written(value, f"copy {name}")
        return outputs, fetched


__all__ = ["Live", "Placement", "Planner", "RoundPlan", "viewed"]
