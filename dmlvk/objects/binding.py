"""The tables that bind buffers to the tensors of operators, graphs and initializers.

Rules 39 to 72 of docs/reference/rules.md.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import BindPoint, Dispatchable, OperatorInitializer
from dmlvk.support.integers import checked_integer


@dataclasses.dataclass(frozen=True)
class BufferBinding:
    """A range of a buffer (DML_BUFFER_BINDING).

    Attributes:
        buffer: the buffer.
        offset: where the range begins, in bytes; a multiple of 16.
        size_in_bytes: how long it is; ``None``: to the buffer's end.

    Raises:
        InvalidArgumentError: when a member is of the wrong type or negative.
    """

    buffer: Buffer
    offset: int = 0
    size_in_bytes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.buffer, Buffer):
            raise InvalidArgumentError(f"BufferBinding: buffer must be a dmlvk.Buffer; got {self.buffer!r}")
        object.__setattr__(self, "offset", checked_integer(self.offset, "BufferBinding: offset", 0))
        if self.size_in_bytes is not None:
            size = checked_integer(self.size_in_bytes, "BufferBinding: size_in_bytes", 1)
            object.__setattr__(self, "size_in_bytes", size)

    @property
    def end(self) -> int:
        """The byte behind the range."""
        return self.buffer.size_in_bytes if self.size_in_bytes is None else self.offset + self.size_in_bytes

    def overlaps(self, other: BufferBinding) -> bool:
        """Whether the two ranges share a byte."""
        return self.buffer is other.buffer and self.offset < other.end and other.offset < self.end


@dataclasses.dataclass(frozen=True)
class BufferArrayBinding:
    """Ranges for the inputs of one operator that is initialized (DML_BUFFER_ARRAY_BINDING).

    Attributes:
        bindings: one for each input of the operator, in the order of its fields; ``None`` for all that are not
            OWNED_BY_DML.

    Raises:
        InvalidArgumentError: when it is no sequence.
    """

    bindings: Sequence[BufferBinding | None] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.bindings, Sequence):
            raise InvalidArgumentError(
                f"BufferArrayBinding: bindings must be a sequence of BufferBindings; got {self.bindings!r}"
            )
        object.__setattr__(self, "bindings", tuple(self.bindings))


@dataclasses.dataclass(frozen=True)
class BoundRange:
    """A place of a dispatchable with the range that is bound there."""

    point: BindPoint
    binding: BufferBinding


@dataclasses.dataclass(frozen=True)
class Bindings:
    """Everything that is bound for one dispatch."""

    inputs: Mapping[int, BoundRange]  # by number; those that are there
    outputs: Mapping[int, BoundRange]  # likewise
    temporary: BufferBinding | None  # the scratch memory
    persistent: BufferBinding | None  # the persistent resource

    @functools.cached_property
    def named(self) -> list[tuple[str, BufferBinding]]:
        """All ranges, each with what it is bound as."""
        named = [(bound.point.name, bound.binding) for bound in (*self.inputs.values(), *self.outputs.values())]
        resources = (("the temporary resource", self.temporary), ("the persistent resource", self.persistent))
        return named + [(name, binding) for name, binding in resources if binding is not None]

    def at(self, kind: BindingKind, index: int) -> BufferBinding:
        """The range that is bound somewhere."""
        if kind is BindingKind.INPUT:
            return self.inputs[index].binding
        if kind is BindingKind.OUTPUT:
            return self.outputs[index].binding
        binding = self.temporary if kind is BindingKind.TEMPORARY else self.persistent
        assert binding is not None  # a complete table has what the dispatchable needs
        return binding


AnyBinding = BufferBinding | BufferArrayBinding | None
_Bound = dict[int, BoundRange]


class BindingTable:
    """Binds buffers to a dispatchable (IDMLBindingTable). Made by ``Device.create_binding_table``.

    Every call checks what it is given, with what was bound before, and raises without changing anything. A table may be
    changed or dropped as soon as a dispatch was recorded with it, but for operators that were compiled with
    DESCRIPTORS_VOLATILE. It is not meant to be shared by threads.

    Attributes:
        dispatchable: the compiled operator, compiled graph or initializer that it is for.
    """

    def __init__(self, dispatchable: Dispatchable) -> None:
        self._begin(dispatchable)

    def _begin(self, dispatchable: Dispatchable) -> None:
        self.dispatchable = dispatchable
        self._points = dispatchable.inputs, dispatchable.outputs  # an initializer's may change
        self._inputs: _Bound | None = None
        self._outputs: _Bound | None = None
        self._resources: dict[str, BufferBinding] = {}

    def reset(self, dispatchable: Dispatchable) -> None:
        """Makes this an empty table for another dispatchable of the same device.

        Raises:
            InvalidArgumentError: when it is none, or of another device.
        """
        self.dispatchable.device.engine.check_open()
        if not isinstance(dispatchable, Dispatchable):
            raise InvalidArgumentError(
                f"BindingTable.reset: takes a CompiledOperator or an OperatorInitializer; got {dispatchable!r}"
            )
        if dispatchable.device is not self.dispatchable.device:
            raise InvalidArgumentError(f"BindingTable.reset: {dispatchable.name} belongs to another device")
        self._begin(dispatchable)

    def bind_inputs(self, bindings: Sequence[AnyBinding] | None) -> None:
        """Binds all inputs.

        Args:
            bindings: for a compiled operator or graph one BufferBinding for each input, in the order of the
                description's fields; ``None`` for an absent optional tensor and for one that is OWNED_BY_DML. For an
                initializer one BufferArrayBinding for each target; ``None`` where a target owns no inputs. ``None`` or
                an empty sequence instead of all unbinds the inputs.

        Raises:
            InvalidArgumentError: when a binding breaks a rule.
        """
        points = self._checked_points()
        if isinstance(self.dispatchable, OperatorInitializer):
            bindings = _flattened(self.dispatchable, bindings)
        inputs = self._bound(points[0], bindings, "bind_inputs")
        self._check_hazards(inputs, self._outputs, self._resources)
        self._inputs = inputs

    def bind_outputs(self, bindings: Sequence[BufferBinding | None] | None) -> None:
        """Binds all outputs; as :meth:`bind_inputs` does for inputs. Those of an initializer are persistent resources.

        Args:
            bindings: one BufferBinding for each output; for an initializer one for each target, the persistent resource
                that it writes, ``None`` where the target needs none.

        Raises:
            InvalidArgumentError: when a binding breaks a rule.
        """
        outputs = self._bound(self._checked_points()[1], bindings, "bind_outputs")
        self._check_hazards(self._inputs, outputs, self._resources)
        self._outputs = outputs

    def bind_temporary_resource(self, binding: BufferBinding | None) -> None:
        """Binds scratch memory of at least the size that the binding properties report; ``None`` unbinds it.

        Raises:
            InvalidArgumentError: when the binding breaks a rule.
            UnsupportedError: when a graph needs more scratch memory than one buffer of the device has.
        """
        if len(self.dispatchable.temporary_pages) > 1:
            size, device = self.dispatchable.temporary_resource_size, self.dispatchable.device.info.name
            raise UnsupportedError(
                f"{self.dispatchable.name}: its {size} temporary bytes are more than a buffer of {device} has; "
                "Device.run runs such a graph"
            )
        self._bind_resource("temporary", binding, self.dispatchable.temporary_resource_size)

    def bind_persistent_resource(self, binding: BufferBinding | None) -> None:
        """Binds the persistent resource that the initializer has written; ``None`` unbinds it.

        Raises:
            InvalidArgumentError: when the binding breaks a rule.
        """
        self._bind_resource("persistent", binding, self.dispatchable.persistent_resource_size)

    def snapshot(self) -> Bindings:
        """What is bound now.

        Raises:
            InvalidArgumentError: when something is not bound that must be, or a buffer was closed.
        """
        points, name = self._checked_points(), self.dispatchable.name
        for what, bound, needed in (("inputs", self._inputs, points[0]), ("outputs", self._outputs, points[1])):
            if bound is None and any(point.size_in_bytes for point in needed):
                raise InvalidArgumentError(f"{name}: its {what} are not bound")
        properties = self.dispatchable.binding_properties
        for kind, size in (
            ("temporary", properties.temporary_resource_size),
            ("persistent", properties.persistent_resource_size),
        ):
            if size and kind not in self._resources:
                raise InvalidArgumentError(f"{name}: its {kind} resource of {size} bytes is not bound")
        bindings = Bindings(
            self._inputs or {}, self._outputs or {}, self._resources.get("temporary"), self._resources.get("persistent")
        )
        check_usable(self.dispatchable, bindings, "that is bound to it was closed")
        return bindings

    def _checked_points(self) -> tuple[tuple[BindPoint, ...], tuple[BindPoint, ...]]:
        self.dispatchable.device.engine.check_open()
        if self._points != (self.dispatchable.inputs, self.dispatchable.outputs):
            raise InvalidArgumentError(
                f"{self.dispatchable.name}: was reset after this binding table was made for it; reset the table too"
            )
        return self._points

    def _bind_resource(self, kind: str, binding: BufferBinding | None, size: int) -> None:
        self._checked_points()
        resources = {other: bound for other, bound in self._resources.items() if other != kind}
        if binding is not None:
            where = f"{self.dispatchable.name}: the {kind} resource"
            self._check_binding(binding, where)
            self._check_fits(binding, BindPoint(kind, None, size), where)
            resources[kind] = binding
        self._check_hazards(self._inputs, self._outputs, resources)
        self._resources = resources

    def _bound(
        self, points: Sequence[BindPoint], bindings: Sequence[AnyBinding] | None, call: str
    ) -> dict[int, BoundRange] | None:
        name = self.dispatchable.name
        if bindings is not None and not isinstance(bindings, Sequence):
            raise InvalidArgumentError(f"{name}: {call} takes a sequence of bindings; got {bindings!r}")
        if not bindings:
            return None
        if len(bindings) != len(points):
            raise InvalidArgumentError(
                f"{name}: {call} takes {len(points)} bindings, optional tensors included; got {len(bindings)}"
            )
        bound = {}
        for number, (point, binding) in enumerate(zip(points, bindings, strict=True)):
            where = f"{name}: {point.name}"
            if (point.size_in_bytes == 0) != (binding is None):
                raise InvalidArgumentError(f"{where}: {'must be bound' if binding is None else point.absence}")
            if binding is not None:
                bound[number] = BoundRange(point, self._check_binding(binding, where))
                self._check_fits(bound[number].binding, point, where)
        return bound

    def _check_binding(self, binding: AnyBinding, where: str) -> BufferBinding:
        if not isinstance(binding, BufferBinding):
            raise InvalidArgumentError(f"{where}: must be bound to a BufferBinding or None; got {binding!r}")
        if binding.buffer.engine is not self.dispatchable.device.engine:
            raise InvalidArgumentError(f"{where}: the buffer belongs to another device")
        binding.buffer.check_usable(f"{where}: the buffer was closed")
        if not binding.offset < binding.end <= binding.buffer.size_in_bytes:
            raise InvalidArgumentError(
                f"{where}: bytes {binding.offset} to {binding.end} lie beyond the buffer's "
                f"{binding.buffer.size_in_bytes} bytes"
            )
        return binding

    def _check_fits(self, binding: BufferBinding, point: BindPoint, where: str) -> None:
        if binding.offset % point.alignment:
            raise InvalidArgumentError(
                f"{where}: the binding's offset must be a multiple of {point.alignment} bytes; got {binding.offset}"
            )
        if binding.end - binding.offset < point.size_in_bytes:
            rule = "TotalTensorSizeInBytes " if point.tensor is not None else ""
            raise InvalidArgumentError(
                f"{where}: the binding's size must be at least {rule}{point.size_in_bytes}; "
                f"got {binding.end - binding.offset}"
            )

    def _check_hazards(
        self, inputs: _Bound | None, outputs: _Bound | None, resources: Mapping[str, BufferBinding]
    ) -> None:
        """Rules 64 to 72: what may share bytes with something that is written."""
        inputs, outputs = inputs or {}, outputs or {}
        self._check_resources(inputs, outputs, resources)
        read, written = _by_buffer(inputs), _by_buffer(outputs)
        for number, output in outputs.items():
            there = id(output.binding.buffer)
            for other in (bound for earlier, bound in written[there] if earlier < number):
                if output.binding.overlaps(other.binding):
                    raise InvalidArgumentError(
                        f"{self.dispatchable.name}: {other.point.name} and {output.point.name} must not "
                        f"share bytes; both are outputs ({_ranges(other.binding, output.binding)})"
                    )
            for input_number, bound in read.get(there, ()):
                if isinstance(self.dispatchable, OperatorInitializer):
                    self._check_other_resource(bound, output)
                elif bound.binding.overlaps(output.binding):
                    self._check_in_place(input_number, number, bound, output)

    def _check_other_resource(self, bound: BoundRange, output: BoundRange) -> None:
        if bound.binding.buffer is output.binding.buffer:
            raise InvalidArgumentError(
                f"{self.dispatchable.name}: {bound.point.name} and {output.point.name} must not lie in one buffer, not "
                "even side by side: an operator is initialized from buffers that it does not write"
            )

    def _check_resources(self, inputs: _Bound, outputs: _Bound, resources: Mapping[str, BufferBinding]) -> None:
        """Scratch memory is written, so it must not share bytes with anything; the persistent resource is only read."""
        for kind, resource in resources.items():
            others = [(bound.point.name, bound.binding) for bound in outputs.values()]
            if kind == "temporary":
                others += [(bound.point.name, bound.binding) for bound in inputs.values()]
                others += [(f"the {other} resource", binding) for other, binding in resources.items() if other != kind]
            for name, binding in others:
                if resource.overlaps(binding):
                    raise InvalidArgumentError(
                        f"{self.dispatchable.name}: {name} and the {kind} resource must not share bytes "
                        f"({_ranges(binding, resource)})"
                    )

    def _check_in_place(self, input_number: int, output_number: int, bound: BoundRange, output: BoundRange) -> None:
        where = f"{self.dispatchable.name}: {bound.point.name} and {output.point.name}"
        if (bound.binding.offset, bound.binding.end) != (output.binding.offset, output.binding.end):
            raise InvalidArgumentError(
                f"{where} overlap in part, which is never allowed: bind disjoint or identical ranges "
                f"({_ranges(bound.binding, output.binding)})"
            )
        refusal = self.dispatchable.in_place_refusal(input_number, output_number)
        if refusal is not None:
            raise InvalidArgumentError(f"{where} are bound to the same range, {refusal}")


def check_usable(dispatchable: Dispatchable, bindings: Bindings, problem: str) -> None:
    """Raises when a buffer of these bindings was closed.

    Raises:
        InvalidArgumentError: ``NAME: InputTensor: the buffer <problem>``.
    """
    for name, binding in bindings.named:
        if binding.buffer.is_closed:  # only then, as a message takes a microsecond
            binding.buffer.check_usable(f"{dispatchable.name}: {name}: the buffer {problem}")


def _flattened(
    initializer: OperatorInitializer, arrays: Sequence[AnyBinding] | None
) -> Sequence[BufferBinding | None] | None:
    """The inputs of all targets in a row, from one array for each target."""
    name = initializer.name
    if arrays is not None and not isinstance(arrays, Sequence):
        raise InvalidArgumentError(f"{name}: bind_inputs takes a sequence of BufferArrayBindings; got {arrays!r}")
    if not arrays:
        return None
    if len(arrays) != len(initializer.targets):
        raise InvalidArgumentError(
            f"{name}: bind_inputs takes {len(initializer.targets)} BufferArrayBindings, one for each target; "
            f"got {len(arrays)}"
        )
    flat: list[BufferBinding | None] = []
    for number, (target, array) in enumerate(zip(initializer.targets, arrays, strict=True)):
        where = f"{name}: target {number} ({target.name})"
        if array is not None and not isinstance(array, BufferArrayBinding):
            raise InvalidArgumentError(f"{where}: must be bound to a BufferArrayBinding or None; got {array!r}")
        bindings = array.bindings if array is not None else ()
        if bindings and len(bindings) != len(target.inputs):
            raise InvalidArgumentError(
                f"{where}: its BufferArrayBinding must have {len(target.inputs)} entries, optional tensors included; "
                f"got {len(bindings)}"
            )
        flat += bindings or [None] * len(target.inputs)
    return flat


def _by_buffer(bound: _Bound) -> dict[int, list[tuple[int, BoundRange]]]:
    """What is bound, with its numbers, by the buffer where it lies."""
    found: dict[int, list[tuple[int, BoundRange]]] = {}
    for number, there in bound.items():
        found.setdefault(id(there.binding.buffer), []).append((number, there))
    return found


def _ranges(first: BufferBinding, second: BufferBinding) -> str:
    return f"bytes {first.offset} to {first.end} and {second.offset} to {second.end} of one buffer"
