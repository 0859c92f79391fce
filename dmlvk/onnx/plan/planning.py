"""Plans how a model is computed: which nodes the device computes, which the host, and in which order.

A plan holds for one set of input shapes. It is a chain of rounds, most often of one: a graph for the device, then the
nodes that only the host can compute. What depends on those is planned in the next round, when their results' shapes
are known. A node whose shape depends on the contents of a small tensor waits for them likewise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlvk.dynamic.sizes import Guards, is_dynamic
from dmlvk.errors import DeviceRemovedError, DmlError, ModelFileError
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluation.call import function_of
from dmlvk.onnx.host.evaluators import HOST_ONLY, is_random, own_results
from dmlvk.onnx.host.host_chains import follows_on_host, given_by_host, is_of_shape, of_shape
from dmlvk.onnx.model.control import CONTROL_FLOW
from dmlvk.onnx.model.expansion import expanded, has_body
from dmlvk.onnx.model.inference import Inferred, NotInferred, inferred
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, Limits
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.assembly import Assembly, Parts
from dmlvk.onnx.nodes.derived import current, derived_values, fix, has_open_sizes
from dmlvk.onnx.nodes.dynamic_shapes import NoRuleError, shapes_by_rule
from dmlvk.onnx.nodes.emptiness import is_empty, of_pretended
from dmlvk.onnx.nodes.joining import Joined
from dmlvk.onnx.nodes.operators.activation import fused_activation_of
from dmlvk.onnx.nodes.translation import Node, translation_of
from dmlvk.onnx.nodes.values import (
    DATA_TYPES,
    Array,
    Awaited,
    Derived,
    Known,
    NeedsValue,
    NodeInputError,
    NotOnDevice,
    Tensor,
    Value,
    input_tensor,
)
from dmlvk.onnx.plan.branches import branch_of
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.round_plans import (
    Live,
    NotDynamicError,
    NotPlannedError,
    Placement,
    RoundPlan,
    check_views,
    refuse_host,
    viewed,
)
from dmlvk.operators import FusedActivation
from dmlvk.support import faults

if TYPE_CHECKING:
    from dmlvk.device import Device

_LARGEST_KEY = 2**20
"""Bytes of an input whose contents may decide how a model is planned."""

_NOT_TRANSLATED = "is not translated"

_LOOKED_AHEAD = 32
"""Nodes in a round that may wait before those behind them are left to the next one, besides four for each that does
not: what all rounds look at together is in proportion to the model's nodes."""


class Planner:
    """Plans one round.

    Args:
        device: where it will run.
        model: the model.
        known: values that are known.
        live: those that are there besides.
        contents: reads one of them.
        evaluated: computes a node from values that are known, and says which program did.
        strict: whether nodes on the host are refused.
        parts: parts of constants that other plans of the model have.
        limits: what the model may ask for.
        capacities: as for :class:`Assembly`.
        guards: of the live values' dynamic sizes; ``None`` where all sizes are plain numbers.
        unfolded: nodes of constants that the device computes in every run, because their results take more memory.
        readers: the nodes that read each value, as :func:`readers_of` finds them.
    """

    def __init__(
        self,
        device: Device,
        model: OnnxModel,
        known: Mapping[str, Any],
        live: Mapping[str, Live],
        contents: Callable[[str], Any],
        evaluated: Callable[[Step, Mapping[str, Any]], tuple[list[Any], str]],
        *,
        strict: bool = False,
        parts: Parts | None = None,
        limits: Limits = DEFAULT_LIMITS,
        capacities: Mapping[str, int] | None = None,
        guards: Guards | None = None,
        unfolded: Collection[Step] = (),
        readers: Mapping[str, Sequence[Step | None]],
    ) -> None:
        self._model = model
        self._guards = guards
        self._prelude: list[Step] = []
        self._of_host: set[str] = set()  # what that gives
        self._strict = strict
        self._contents = contents
        self._evaluated = evaluated
        self._unfolded = unfolded
        self._assembly = Assembly(device, parts, capacities)
        self._assembly.propagates_nan = model.propagates_nan
        self._values: dict[str, Value] = {}
        self._known_before = known
        self._limits = limits
        self._on_host_already: dict[str, str] = {}
        for name, value in live.items():
            if value.element is None:
                self._on_host_already[name] = "an input has a type that the device does not have"
                continue
            try:
                self._values[name] = input_tensor(name, value.element, value.shape)
            except NotOnDevice as reason:
                self._on_host_already[name] = f"{name!r}: {reason}"
        self._looked_at: dict[str, Array] = {}
        self._found: dict[str, Any] = {}
        self._host: list[Step] = []
        self._rest: list[Step] = []
        self._placements: dict[int, Placement] = {}
        self._done: set[int] = set()
        self._wanted_later: set[str] = set()
        self._readers = readers

    def planned(self, steps: Pending) -> RoundPlan:
        """The round that computes as many of these nodes as it can.

        Raises:
            ModelFileError: naming a node that is not valid.
            UnsupportedError: when nodes would run on the host that must not.
        """
        self._open = steps
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
        if self._guards is not None and (self._host or rest or fetched):
            raise NotDynamicError("not all of it is one graph on the device")
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

    @contextlib.contextmanager
    def _named(self, step: Step) -> Iterator[None]:
        """Whatever else goes wrong with a node is an error that names it."""
        try:
            yield
        except (DmlError, NotPlannedError):
            raise
        except NotOnDevice as error:
            raise self._not_planned(step, str(error)) from error
        except Exception as error:
            faults.report(error, f"planning {step.label}")
            raise self._not_planned(step, f"{type(error).__name__}: {error}") from error

    def _not_planned(self, step: Step, reason: str) -> ModelFileError:
        return ModelFileError(f"{self._model.name}: {step.label}: cannot be planned: {' '.join(reason.split())[:500]}")

    # Values.

    def _value(self, name: str) -> Value | None:
        """A value by its name; ``None`` for one that lies on the host already and that the device does not have."""
        if name in self._values:
            return self._values[name]
        if name in self._found:
            return Known(self._found[name])
        if name in self._known_before:
            return Known(self._known_before[name])
        return None if name in self._on_host_already else Awaited()

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value; ``None`` for one that is not there in this round."""
        value = self._value(name)
        if isinstance(value, Tensor):
            return value.shape
        return value.value.shape if isinstance(value, Known) and isinstance(value.value, np.ndarray) else None

    def _note(self, step: Step, place: str, reason: str = "", program: str = "") -> None:
        index = step.index if step.index >= 0 else step.owner
        if index >= 0 and (step.index >= 0 or place == "host"):
            name = step.proto.name or next(iter(step.proto.output), "")
            self._placements[index] = Placement(name, step.proto.op_type, place, reason, program)

    # Nodes.

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
        if step.domain and any(isinstance(value, Known) and is_empty(value.value) for value in read):
            inputs = [self._value(name) if name else None for name in step.proto.input]
            empty = of_pretended(step, inputs, self._assembly.device)
            if empty is not None:
                self._found.update((name, made) for name, made in zip(step.proto.output, empty, strict=True) if name)
                self._note(step, "constant", "follows from the shapes", OWN)
                return
        is_constant = not is_random(step) and all(isinstance(value, Known) for value in read)
        if is_constant and self._fold(step):
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

    def _fold(self, step: Step) -> bool:
        """Computes a node of constants with the same bits on every machine; ``False``: that is the device's work."""
        values = {name: self._known(name) for name in step.reads}
        if step.proto.op_type in CONTROL_FLOW and not step.domain:
            self._evaluate(step, "")
            return True
        results = None if step in self._unfolded else own_results(step, values, self._model.name, self._limits)
        if results is None:
            return False
        self._note_results(step, results)
        self._note(step, "constant", program=OWN)
        return True

    def _evaluate(self, step: Step, reason: str) -> None:
        """Computes a node of constants that the device does not have."""
        results, program = self._evaluated(step, {name: self._known(name) for name in step.reads})
        self._note_results(step, results)
        self._note(step, "constant", reason, program)

    def _note_results(self, step: Step, results: Sequence[Any]) -> None:
        for name, result in zip(step.proto.output, results, strict=True):
            if name:
                self._found[name] = result

    def _is_known(self, name: str) -> bool:
        """Whether a value is known; one that follows from open sizes is from now on."""
        value = self._value(name)
        if isinstance(value, Derived):
            self._found[name] = value.fixed()
            del self._values[name]
        return isinstance(value, (Known, Derived))

    def _follows_from_sizes(self, name: str) -> bool:
        return isinstance(self._value(name), (Known, Derived)) or name in self._of_host

    def _is_host_s(self, step: Step) -> bool:
        """Whether the host computes a node from sizes, with the same bits on every machine or because none else can."""
        if is_random(step) or not all(map(self._follows_from_sizes, step.reads)):
            return False
        has_function = function_of(step.domain, step.proto.op_type, step.version) is not None
        return has_function or translation_of(step.domain, step.proto.op_type, step.version) is None

    def _derive(self, step: Step) -> None:
        """Computes a node of nothing but constants and what follows from sizes: here, or at each new set of sizes.

        Raises:
            NotDynamicError: when its outputs' shapes cannot be followed.
        """
        inputs = [self._value(name) if name else None for name in step.proto.input]
        found = derived_values(step, inputs)
        if found is not None:
            for name, value in zip(step.proto.output, found, strict=True):
                if isinstance(value, Derived):
                    self._values[name] = value
                else:
                    self._found[name] = value.value
            self._note(step, "constant", "follows from the shapes")
            return
        if step.proto.op_type in CONTROL_FLOW:
            raise NotDynamicError(f"{step.label}: has graphs inside, and is computed from sizes")
        shapes = self._inferred(step, inputs)
        for name, shape in zip(step.proto.output, shapes, strict=True):
            if not name:
                continue
            if shape is None or shape[0] not in DATA_TYPES or any(size == 0 for size in shape[1]):
                raise NotDynamicError(f"{step.label}: the host computes it, and its result is of no known size")
            self._limits.check_shape(step, shape[0], shape[1], self._model.name)
            self._values[name] = input_tensor(name, shape[0], shape[1])
            self._of_host.add(name)
        self._prelude.append(step)
        self._note(step, "constant", "follows from the shapes")

    def _check_refusal(self, step: Step, reason: NotOnDevice) -> None:
        """Holds a node that the device cannot compute against the same node of plain sizes.

        Raises:
            NotDynamicError: when that can be computed.
        """
        if self._guards is None:
            return
        inputs = [current(self._value(name)) if name else None for name in step.proto.input]
        translation = translation_of(step.domain, step.proto.op_type, step.version)
        mark = self._assembly.mark()
        try:
            if translation is None or translation.missing is not None:
                return
            following, _ = self._following(step)
            shapes = inferred(step, inputs, self._model.opsets)
            translation.translate(
                Node(step.proto, step.schema, inputs, shapes, self._assembly, following, self._unused(step))
            )
        except (NotOnDevice, NotInferred, DmlError):
            return
        except NeedsValue as need:
            raise NotDynamicError(f"{step.label}: {need}") from need
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, f"translating {step.label}")
            return
        finally:
            self._assembly.back_to(mark)
        raise NotDynamicError(f"{step.label}: {reason}") from reason

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

    def _known(self, name: str) -> Any:
        value = self._value(name)
        assert isinstance(value, Known)
        return value.value

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

    def _wait(self, step: Step) -> None:
        self._rest.append(step)
        for name in step.proto.output:
            if name:
                self._values[name] = Awaited()

    def _to_host(self, step: Step, reason: str) -> None:
        self._note(step, "host", reason)
        self._host.append(step)
        given = given_by_host(step, [self._value(name) for name in step.reads])
        self._values.update((name, value) for name, value in zip(step.proto.output, given, strict=True) if name)

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

    def _inferred(self, step: Step, inputs: Sequence[Value | None]) -> list[Inferred | None]:
        try:
            found = inferred(step, [current(value) for value in inputs], self._model.opsets)
        except NotInferred as error:
            raise NotOnDevice(str(error)) from error
        if not any(map(has_open_sizes, inputs)):
            return found
        try:
            return shapes_by_rule(step, inputs, found)
        except NoRuleError:
            for value in inputs:
                fix(value, f"there is no rule for shapes of {step.proto.op_type}")
            return found

    def _unused(self, step: Step) -> list[str]:
        """The outputs of a node of the model that nothing reads; of a function's body none is known to be such."""
        return [name for name in step.proto.output if name not in self._readers] if step.index >= 0 else []

    def _following(self, step: Step) -> tuple[FusedActivation | None, Step | None]:
        """The activation that alone reads a node's only result, with its node."""
        if step.index < 0 or not step.proto.output:
            return None, None
        readers = self._readers.get(step.proto.output[0], [])
        if len(readers) != 1 or readers[0] is None or readers[0].index not in self._open:
            return None, None
        if self._model.propagates_nan and readers[0].proto.op_type == "Relu":
            return None, None
        activation = fused_activation_of(readers[0].proto)
        return (activation, readers[0]) if activation is not None else (None, None)

    def _look_at(self, name: str) -> bool:
        """Makes the contents of an input known, where it is one; the plan holds for these contents only."""
        value = self._values.get(name)
        if not isinstance(value, Tensor) or value.source.kind != "input":
            return False
        if name in self._of_host:
            raise NotDynamicError(f"the contents of {name!r}, which follow from sizes, decide what is computed")
        if value.source.size_in_bytes > _LARGEST_KEY:
            raise NotOnDevice(f"the contents of {name!r} decide what is computed, and it is large")
        fix(value, "its contents decide what is computed")
        array = np.asarray(self._contents(value.source.name))
        self._looked_at[value.source.name] = array.copy()
        self._found[name] = viewed(array, value).copy()
        del self._values[name]
        return True

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
            if value.source.kind == "input" and (name not in shown or value.source.name == name):
                if value.source.name != name:
                    fetched[name] = value
            elif value.source.kind == "constant" and name not in shown:
                assert value.source.array is not None
                self._found[name] = viewed(value.source.array, value)
            else:
                outputs[name] = self._assembly.as_written(value, f"copy {name}")
        return outputs, fetched


__all__ = ["Live", "Placement", "Planner", "RoundPlan", "viewed"]
