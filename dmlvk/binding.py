"""Compiled operators, and the tables that bind buffers to their tensors (rules 31 to 71 of DirectML's API)."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dmlvk.buffers import Buffer
from dmlvk.errors import InvalidArgumentError
from dmlvk.integers import checked_integer
from dmlvk.kernels.elementwise import Kernel
from dmlvk.operators import Field, OperatorDesc
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device


RESOURCE_ALIGNMENT = 256
"""DML_TEMPORARY_BUFFER_ALIGNMENT and DML_PERSISTENT_BUFFER_ALIGNMENT, in bytes."""


class ExecutionFlags(enum.IntFlag):
    """DML_EXECUTION_FLAGS. The first two are permissions that dmlvk never needs: its results are always the same."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


@dataclasses.dataclass(frozen=True)
class BindingProperties:
    """DML_BINDING_PROPERTIES.

    Attributes:
        required_descriptor_count: descriptors that a binding table needs.
        temporary_resource_size: bytes of scratch memory for an execution; 0: none is needed.
        persistent_resource_size: bytes that live as long as the compiled operator; 0: none is needed.
    """

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


class Operator:
    """A checked operator description (IDMLOperator). Made by ``Device.create_operator``."""

    def __init__(self, device: Device, desc: OperatorDesc) -> None:
        self.device = device
        self.desc = desc


class CompiledOperator:
    """An operator that is ready to run (IDMLCompiledOperator). Made by ``Device.compile_operator``.

    Attributes:
        device: where it runs.
        desc: its description.
        flags: as given to ``compile_operator``.
        kernel: what it launches.
    """

    def __init__(self, device: Device, desc: OperatorDesc, flags: ExecutionFlags, kernel: Kernel) -> None:
        self.device = device
        self.desc = desc
        self.flags = flags
        self.kernel = kernel

    @property
    def binding_properties(self) -> BindingProperties:
        """What a binding table for it needs."""
        return BindingProperties(len(self.desc.inputs) + len(self.desc.outputs), 0, 0)

    def __repr__(self) -> str:
        return f"<dmlvk.CompiledOperator {self.desc.operator_name} on {self.device.info.name}>"


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
class BoundTensor:
    """A tensor of an operator with the range that it is bound to."""

    field: Field
    tensor: TensorDesc
    binding: BufferBinding


class BindingTable:
    """Binds buffers to an operator's tensors (IDMLBindingTable). Made by ``Device.create_binding_table``.

    Every call checks what it is given, with what was bound before, and raises without changing anything. A table may be
    changed or dropped as soon as a dispatch was recorded with it. It is not meant to be shared by threads.
    """

    def __init__(self, compiled: CompiledOperator) -> None:
        self.compiled = compiled
        self._inputs: tuple[BoundTensor, ...] | None = None
        self._outputs: tuple[BoundTensor, ...] | None = None
        self._resources: dict[str, BufferBinding] = {}

    def reset(self, compiled: CompiledOperator) -> None:
        """Makes this an empty table for another compiled operator of the same device.

        Raises:
            InvalidArgumentError: when it is none, or of another device.
        """
        self.compiled.device.engine.check_open()
        if not isinstance(compiled, CompiledOperator):
            raise InvalidArgumentError(f"BindingTable.reset: takes a CompiledOperator; got {compiled!r}")
        if compiled.device is not self.compiled.device:
            raise InvalidArgumentError("BindingTable.reset: the compiled operator belongs to another device")
        self.compiled = compiled
        self._inputs = self._outputs = None
        self._resources = {}

    def bind_inputs(self, bindings: Sequence[BufferBinding | None] | None) -> None:
        """Binds all inputs, in the order of the description's fields.

        Args:
            bindings: one for each input, optional ones included; ``None`` for an absent optional tensor. ``None`` or an
                empty sequence instead of all unbinds the inputs.

        Raises:
            InvalidArgumentError: when a binding breaks a rule.
        """
        inputs = self._bound(self.compiled.desc.inputs, bindings, "bind_inputs")
        self._check_hazards(inputs, self._outputs, self._resources)
        self._inputs = inputs

    def bind_outputs(self, bindings: Sequence[BufferBinding | None] | None) -> None:
        """Binds all outputs; as :meth:`bind_inputs` does for inputs."""
        outputs = self._bound(self.compiled.desc.outputs, bindings, "bind_outputs")
        self._check_hazards(self._inputs, outputs, self._resources)
        self._outputs = outputs

    def bind_temporary_resource(self, binding: BufferBinding | None) -> None:
        """Binds scratch memory, of which no operator of this version needs any; ``None`` unbinds it.

        Raises:
            InvalidArgumentError: when the binding breaks a rule.
        """
        self._bind_resource("temporary", binding)

    def bind_persistent_resource(self, binding: BufferBinding | None) -> None:
        """Binds the persistent resource, which no operator of this version needs; ``None`` unbinds it.

        Raises:
            InvalidArgumentError: when the binding breaks a rule.
        """
        self._bind_resource("persistent", binding)

    def snapshot(self) -> tuple[tuple[BoundTensor, ...], tuple[BoundTensor, ...]]:
        """What is bound now: inputs and outputs.

        Raises:
            InvalidArgumentError: when inputs or outputs are not bound.
        """
        if self._inputs is None or self._outputs is None:
            missing = "inputs" if self._inputs is None else "outputs"
            raise InvalidArgumentError(f"{self.compiled.desc.operator_name}: its {missing} are not bound")
        for bound in self._inputs + self._outputs:
            where = f"{self.compiled.desc.operator_name}: {bound.field.name}"
            bound.binding.buffer.check_usable(f"{where}: the buffer that is bound to it was closed")
        return self._inputs, self._outputs

    def _bind_resource(self, kind: str, binding: BufferBinding | None) -> None:
        self.compiled.device.engine.check_open()
        resources = {other: bound for other, bound in self._resources.items() if other != kind}
        if binding is not None:
            where = f"{self.compiled.desc.operator_name}: the {kind} resource"
            self._check_binding(binding, where)
            if binding.offset % RESOURCE_ALIGNMENT:
                raise InvalidArgumentError(
                    f"{where}: the binding's offset must be a multiple of {RESOURCE_ALIGNMENT} bytes; "
                    f"got {binding.offset}"
                )
            resources[kind] = binding
        self._check_hazards(self._inputs, self._outputs, resources)
        self._resources = resources

    def _bound(
        self,
        tensors: Sequence[tuple[Field, TensorDesc | None]],
        bindings: Sequence[BufferBinding | None] | None,
        call: str,
    ) -> tuple[BoundTensor, ...] | None:
        self.compiled.device.engine.check_open()
        name = self.compiled.desc.operator_name
        if bindings is not None and not isinstance(bindings, Sequence):
            raise InvalidArgumentError(f"{name}: {call} takes a sequence of bindings; got {bindings!r}")
        if not bindings:
            return None
        if len(bindings) != len(tensors):
            raise InvalidArgumentError(
                f"{name}: {call} takes {len(tensors)} bindings, optional tensors included; got {len(bindings)}"
            )
        bound = []
        for (field, tensor), binding in zip(tensors, bindings, strict=True):
            where = f"{name}: {field.name}"
            if (tensor is None) != (binding is None):
                problem = "must be bound" if binding is None else "is absent, so nothing can be bound to it"
                raise InvalidArgumentError(f"{where}: {problem}")
            if tensor is not None and binding is not None:
                self._check_binding(binding, where)
                self._check_fits(binding, tensor, where)
                bound.append(BoundTensor(field, tensor, binding))
        return tuple(bound)

    def _check_binding(self, binding: BufferBinding, where: str) -> None:
        if not isinstance(binding, BufferBinding):
            raise InvalidArgumentError(f"{where}: must be bound to a BufferBinding or None; got {binding!r}")
        if binding.buffer.engine is not self.compiled.device.engine:
            raise InvalidArgumentError(f"{where}: the buffer belongs to another device")
        binding.buffer.check_usable(f"{where}: the buffer was closed")
        if not binding.offset < binding.end <= binding.buffer.size_in_bytes:
            raise InvalidArgumentError(
                f"{where}: bytes {binding.offset} to {binding.end} lie beyond the buffer's "
                f"{binding.buffer.size_in_bytes} bytes"
            )

    def _check_fits(self, binding: BufferBinding, tensor: TensorDesc, where: str) -> None:
        if binding.offset % tensor.binding_alignment:
            raise InvalidArgumentError(
                f"{where}: the binding's offset must be a multiple of {tensor.binding_alignment} bytes; "
                f"got {binding.offset}"
            )
        if binding.end - binding.offset < tensor.size_in_bytes:
            raise InvalidArgumentError(
                f"{where}: the binding's size must be at least TotalTensorSizeInBytes {tensor.size_in_bytes}; "
                f"got {binding.end - binding.offset}"
            )

    def _check_hazards(
        self,
        inputs: tuple[BoundTensor, ...] | None,
        outputs: tuple[BoundTensor, ...] | None,
        resources: Mapping[str, BufferBinding],
    ) -> None:
        """Rules 64 to 72: what may share bytes with something that is written."""
        outputs = outputs or ()
        self._check_resources(inputs or (), outputs, resources)
        for i, output in enumerate(outputs):
            for other in outputs[:i]:
                if output.binding.overlaps(other.binding):
                    raise InvalidArgumentError(
                        f"{self.compiled.desc.operator_name}: {other.field.name} and {output.field.name} must not "
                        f"share bytes; both are outputs ({_ranges(other.binding, output.binding)})"
                    )
            for bound in inputs or ():
                if bound.binding.overlaps(output.binding):
                    self._check_in_place(bound, output)

    def _check_resources(
        self, inputs: Sequence[BoundTensor], outputs: Sequence[BoundTensor], resources: Mapping[str, BufferBinding]
    ) -> None:
        """Scratch memory is written, so it must not share bytes with anything; the persistent resource is only read."""
        for kind, resource in resources.items():
            others = [(bound.field.name, bound.binding) for bound in outputs]
            if kind == "temporary":
                others += [(bound.field.name, bound.binding) for bound in inputs]
                others += [(f"the {other} resource", binding) for other, binding in resources.items() if other != kind]
            for name, binding in others:
                if resource.overlaps(binding):
                    raise InvalidArgumentError(
                        f"{self.compiled.desc.operator_name}: {name} and the {kind} resource must not share bytes "
                        f"({_ranges(binding, resource)})"
                    )

    def _check_in_place(self, bound: BoundTensor, output: BoundTensor) -> None:
        where = f"{self.compiled.desc.operator_name}: {bound.field.name} and {output.field.name}"
        if (bound.binding.offset, bound.binding.end) != (output.binding.offset, output.binding.end):
            raise InvalidArgumentError(
                f"{where} overlap in part, which is never allowed: bind disjoint or identical ranges "
                f"({_ranges(bound.binding, output.binding)})"
            )
        allowed = self.compiled.desc.declaration.in_place
        if bound.field.attribute not in allowed:
            raise InvalidArgumentError(
                f"{where} are bound to the same range, but this operator cannot execute in place"
                + (f" over {bound.field.name}" if allowed else "")
            )
        # DirectML is silent here. With other strides one element's result would overwrite another's operand.
        if not _same_elements(bound.tensor, output.tensor):
            raise InvalidArgumentError(
                f"{where} are bound to the same range, so their Strides must be the same; "
                f"got {list(bound.tensor.element_strides)} and {list(output.tensor.element_strides)}"
            )


def _same_elements(a: TensorDesc, b: TensorDesc) -> bool:
    return a.data_type.size_in_bits == b.data_type.size_in_bits and all(
        size == 1 or first == second
        for size, first, second in zip(a.sizes, a.element_strides, b.element_strides, strict=True)
    )


def _ranges(first: BufferBinding, second: BufferBinding) -> str:
    return f"bytes {first.offset} to {first.end} and {second.offset} to {second.end} of one buffer"
