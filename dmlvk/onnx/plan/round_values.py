"""What a round knows of values, and does with single nodes while it is planned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.dynamic.sizes import Guards
from dmlvk.errors import DmlError, ModelFileError
from dmlvk.onnx.host.evaluation import OWN
from dmlvk.onnx.host.evaluation.call import function_of
from dmlvk.onnx.host.evaluators import is_random, own_results
from dmlvk.onnx.host.host_chains import given_by_host
from dmlvk.onnx.model.control import CONTROL_FLOW
from dmlvk.onnx.model.inference import Inferred, NotInferred, inferred
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, Limits
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.assembly import Assembly, Parts
from dmlvk.onnx.nodes.derived import derived_values, host_shape, most_exact
from dmlvk.onnx.nodes.operators.activation import fused_activation_of
from dmlvk.onnx.nodes.translation import Node, translation_of
from dmlvk.onnx.nodes.values import (
    DATA_TYPES,
    NUMPY_TYPES,
    Array,
    Awaited,
    Derived,
    Known,
    NeedsValue,
    NotOnDevice,
    Tensor,
    Value,
    current,
    fix,
    has_open_sizes,
)
from dmlvk.onnx.plan.pending import Pending
from dmlvk.onnx.plan.round_plans import Live, NotDynamicError, NotPlannedError, Placement, viewed
from dmlvk.operators import FusedActivation
from dmlvk.support import faults

if TYPE_CHECKING:
    from dmlvk.device import Device

_LARGEST_KEY = 2**20  # Bytes of an input whose contents may decide how a model is planned


class RoundValues:
    """The values of a round while it is planned, and what becomes of single nodes."""

    _open: Pending

    def __init__(
        self,
        device: Device,
        model: OnnxModel,
        known: Mapping[str, Any],
        live: Mapping[str, Live],  # those that are there besides
        contents: Callable[[str], Any],
        # computes a node from values that are known, and says which program did
        evaluated: Callable[[Step, Mapping[str, Any]], tuple[list[Any], str]],
        *,
        strict: bool = False,  # whether nodes on the host are refused
        parts: Parts | None = None,  # parts of constants that other plans of the model have
        limits: Limits = DEFAULT_LIMITS,  # what the model may ask for
        capacities: Mapping[str, int] | None = None,  # as for :class:`Assembly`
        guards: Guards | None = None,  # of the live values' dynamic sizes; ``None`` where all sizes are plain numbers
        # nodes of constants that the device computes in every run, because their results take more memory
        unfolded: Collection[Step] = (),
        # the nodes that read each value, as :func:`readers_of` finds them
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
                self._values[name] = self._assembly.input(name, value.element, value.shape)
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
        value = self._value(name)
        if isinstance(value, Tensor):
            return value.shape
        return value.value.shape if isinstance(value, Known) and isinstance(value.value, np.ndarray) else None

    def _note(self, step: Step, place: str, reason: str = "", program: str = "") -> None:
        index = step.index if step.index >= 0 else step.owner
        if index >= 0 and (step.index >= 0 or place == "host"):
            name = step.proto.name or next(iter(step.proto.output), "")
            self._placements[index] = Placement(name, step.proto.op_type, place, reason, program)

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
        shapes = self._shapes_of_host(step, inputs)
        for name, shape in zip(step.proto.output, shapes, strict=True):
            if not name:
                continue
            if shape is None or shape[0] not in DATA_TYPES or any(size == 0 for size in shape[1]):
                raise NotDynamicError(f"{step.label}: the host computes it, and its result is of no known size")
            self._limits.check_shape(step, shape[0], shape[1], self._model.name)
            self._values[name] = self._assembly.input(name, shape[0], shape[1])
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

    def _known(self, name: str) -> Any:
        value = self._value(name)
        assert isinstance(value, Known)
        return value.value

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

    def _inferred(self, step: Step, inputs: Sequence[Value | None]) -> list[Inferred | None]:
        """What ONNX's rules say of a node with the sizes of now."""
        try:
            return inferred(step, [current(value) for value in inputs], self._model.opsets)
        except NotInferred as error:
            raise NotOnDevice(str(error)) from error

    def _shapes_of_host(self, step: Step, inputs: Sequence[Value | None]) -> list[Inferred | None]:
        """Types and shapes of what the host computes of sizes: those that the device's results would have."""
        found = self._inferred(step, inputs)
        before = [self._before_cast(value) for value in inputs]
        if not any(map(has_open_sizes, before)):
            return found
        alone = host_shape(step, before)
        if alone is not None:
            element = next((value.element for value in inputs if isinstance(value, Tensor)), None)
            elements = [element if each is None else each[0] for each in found]
            return [None if each is None else (each, alone) for each in elements]
        translation = translation_of(step.domain, step.proto.op_type, step.version)
        mark, ranges = self._assembly.mark(), dict(self._assembly.ranges)
        try:
            if translation is not None and translation.missing is None:
                node = Node(step.proto, step.schema, inputs, found, self._assembly, unused=self._unused(step))
                translation.translate(node)
                made = [node.results.get(number) for number in range(len(found))]
                pairs = list(zip(found, made, strict=True))
                if not any(each is not None and own is None for each, own in pairs):
                    return [None if own is None or each is None else (each[0], own.shape) for each, own in pairs]
        except (NeedsValue, NotOnDevice, DmlError):
            pass  # what the device does not have is of known sizes on the host
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, f"translating {step.label}")
        finally:
            self._assembly.back_to(mark)
            self._assembly.ranges = ranges
        for value in inputs:
            fix(value, f"the host computes {step.proto.op_type} of sizes")
        return found

    def _before_cast(self, value: Value | None) -> Value | None:
        """A value, or the integers that follow from sizes and were cast to it, exactly: exporters count in FLOAT."""
        if not isinstance(value, Tensor) or value.source.name not in self._of_host:
            return value
        casts = (step for step in self._prelude if value.source.name in step.proto.output)
        source = next((self._value(step.proto.input[0]) for step in casts if step.proto.op_type == "Cast"), None)
        dtype = NUMPY_TYPES[value.element]
        if not isinstance(source, Derived) or dtype.kind != "f":
            return value
        most = most_exact(dtype)
        return source if all(-most < number < most for number in source.numbers.reshape(-1)) else value

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
