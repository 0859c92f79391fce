"""What is made before anything is bound: operators, compiled operators and their initializers.

Rules 31 to 38 of docs/reference/rules.md.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.lookup import table_desc
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import SCRATCH_ALIGNMENT, BindingKind, KernelStep, Region
from dmlvk.kernels.small_programs import copy_step, lookup_program
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.portable import Origin, Portable, default_device
from dmlvk.operators import FeatureLevel, Field, OperatorDesc, check_operator
from dmlvk.support.integers import checked_integer
from dmlvk.support.tokens import token_of
from dmlvk.tensors import TensorDesc, TensorFlags

if TYPE_CHECKING:
    from dmlvk.device import Device


RESOURCE_ALIGNMENT = 256
"""DML_TEMPORARY_BUFFER_ALIGNMENT and DML_PERSISTENT_BUFFER_ALIGNMENT, in bytes."""


class ExecutionFlags(enum.IntFlag):
    """DML_EXECUTION_FLAGS. The first two are permissions that dmlvk never needs.

    ALLOW_DEVICE_ARITHMETIC is dmlvk's own: sums of products may be rounded as a device likes, those of FLOAT16 by its
    units for matrices. Results stay within the stated error, but other devices may give other bits. Without it results
    are the same everywhere.
    """

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4
    ALLOW_DEVICE_ARITHMETIC = 0x100


def checked_flags(flags: ExecutionFlags | int, call: str) -> ExecutionFlags:
    """Execution flags, all of them known.

    Args:
        flags: what a caller gives; an integer, too.
        call: the method's name, for messages.

    Raises:
        InvalidArgumentError: when it is no integer, or has a bit that means nothing.
    """
    known = [flag for flag in ExecutionFlags if flag]
    given = checked_integer(flags, f"{call}: flags", 0, 2**32 - 1)
    unknown = given & ~sum(known)
    if unknown:
        names = ", ".join(f"{flag.name} (0x{flag.value:x})" for flag in known)
        raise InvalidArgumentError(f"{call}: flags must be made of {names}; got 0x{given:x}, unknown: 0x{unknown:x}")
    return ExecutionFlags(given)


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


@dataclasses.dataclass(frozen=True)
class BindPoint:
    """A place of a dispatchable that a range of a buffer is bound to."""

    name: str  # for messages, ``InputTensor``
    # what is expected there; ``None`` where nothing may be bound, or for a persistent resource
    tensor: TensorDesc | None
    size_in_bytes: int  # bytes that the range must have; 0 where nothing may be bound
    absence: str = ""  # why nothing may be bound, for the message

    @property
    def alignment(self) -> int:
        """Bytes of which the range's offset must be a multiple."""
        return RESOURCE_ALIGNMENT if self.tensor is None else self.tensor.binding_alignment

    @classmethod
    def of_tensor(cls, name: str, tensor: TensorDesc | None) -> BindPoint:
        """For a tensor, or for an optional one that is absent."""
        if tensor is None:
            return cls(name, None, 0, "is absent, so nothing can be bound to it")
        return cls(name, tensor, tensor.size_in_bytes)


def is_owned(tensor: TensorDesc | None) -> bool:
    """Whether a tensor is there and OWNED_BY_DML: bound when its operator is initialized, and never later."""
    return tensor is not None and bool(tensor.flags & TensorFlags.OWNED_BY_DML)


class Operator:
    """A checked operator description (IDMLOperator). Made by ``Device.create_operator``.

    Pickled, it is its description: where it arrives, every device may compile it.
    """

    def __init__(self, device: Device | None, desc: OperatorDesc) -> None:
        self._device = device
        self.desc = desc

    @property
    def device(self) -> Device:
        """The device that made it; of one that arrived pickled, the device that the process shares."""
        return default_device() if self._device is None else self._device

    def is_for(self, device: Device) -> bool:
        """Whether a device may compile it: the one that made it, or any where it arrived pickled.

        Raises:
            UnsupportedError: when it arrived, and the device's feature level does not have what it asks for.
        """
        if self._device is None:
            check_operator(self.desc, device.feature_level)
        return self._device is None or self._device is device

    def __reduce__(self) -> tuple[Any, ...]:
        return Operator, (None, self.desc)

    def __dask_tokenize__(self) -> str:
        return token_of(self.desc)


class Dispatchable:
    """What a binding table can be made for and a recorder can record (IDMLDispatchable).

    Attributes:
        device: where it runs.
        name: for messages.
        inputs: what its inputs are bound to, in order.
        outputs: what its outputs are bound to, in order.
        steps: the kernels that an execution launches, in order.
        temporary_pages: the sizes of the buffers of scratch memory for an execution, none or one; several only of a
            graph that needs more than a buffer of the device has, which no binding table takes.
        persistent_resource_size: bytes of the persistent resource that an execution reads.
    """

    def __init__(self, device: Device, name: str) -> None:
        self.device = device
        self.name = name
        self.inputs: tuple[BindPoint, ...] = ()
        self.outputs: tuple[BindPoint, ...] = ()
        self.steps: tuple[KernelStep, ...] = ()
        self.temporary_pages: tuple[int, ...] = ()
        self.persistent_resource_size = 0

    @property
    def is_volatile(self) -> bool:
        """Whether its bindings are read when it is submitted, not when it is recorded."""
        return False

    @property
    def temporary_resource_size(self) -> int:
        """Bytes of scratch memory for an execution."""
        return sum(self.temporary_pages)

    @property
    def binding_properties(self) -> BindingProperties:
        """What a binding table for it needs."""
        resources = (self.temporary_resource_size > 0) + (self.persistent_resource_size > 0)
        return BindingProperties(
            len(self.inputs) + len(self.outputs) + resources,
            self.temporary_resource_size,
            self.persistent_resource_size,
        )

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """Memory of its own that its kernels read besides what is bound."""
        return ()

    def in_place_refusal(self, input_index: int, output_index: int) -> str | None:
        """Why an input and an output may not share one range; ``None`` where they may."""
        return "but this operator cannot execute in place"


class CompiledOperator(Portable, Dispatchable):
    """An operator or a graph that is ready to run (IDMLCompiledOperator).

    Made by ``Device.compile_operator`` or ``Device.compile_graph``. Several threads may use it. It pickles as what it
    was made from; where it arrives it is compiled when it is used for the first time, and not yet initialized.

    Attributes:
        flags: as given when it was compiled, with ALLOW_DEVICE_ARITHMETIC where the device was opened so.
        owned: the inputs that are OWNED_BY_DML, by their numbers, with their places in the persistent resource.
    """

    def __init__(self, device: Device, name: str, flags: ExecutionFlags) -> None:
        super().__init__(device, name)
        self.flags = flags
        self.owned: dict[int, Region] = {}
        self._initialized: tuple[weakref.ref[Buffer] | None, int] | None = None

    @property
    def is_volatile(self) -> bool:
        return bool(self.flags & ExecutionFlags.DESCRIPTORS_VOLATILE)

    @property
    def is_initialized(self) -> bool:
        """Whether an initializer was executed for it."""
        return self._initialized is not None

    def mark_initialized(self, persistent: tuple[Buffer, int] | None) -> None:
        """Notes that its initializer was executed, into this buffer at this offset."""
        # Weakly: the memory belongs to the application.
        self._initialized = (weakref.ref(persistent[0]), persistent[1]) if persistent else (None, 0)

    def was_initialized_into(self, buffer: Buffer, offset: int) -> bool:
        """Whether its persistent resource is the one at this place."""
        if self._initialized is None or self._initialized[0] is None:
            return False
        return self._initialized[0]() is buffer and self._initialized[1] == offset

    def _set_inputs(self, inputs: Sequence[tuple[str, TensorDesc | None]]) -> None:
        """Sets ``inputs``, and gives every owned one a place in the persistent resource."""
        points = []
        for number, (name, tensor) in enumerate(inputs):
            if tensor is not None and is_owned(tensor):
                size = tensor.size_in_bytes & ~3  # every view of the tensor ends at a multiple of 4
                self.owned[number] = Region(BindingKind.PERSISTENT, 0, self.persistent_resource_size, size)
                self.persistent_resource_size += -(-size // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT
                reason = "is OWNED_BY_DML, so it is bound when the operator is initialized and not when it is executed"
                points.append(BindPoint(name, None, 0, reason))
            else:
                points.append(BindPoint.of_tensor(name, tensor))
        self.inputs = tuple(points)
        self.input_tensors = tuple(tensor for _, tensor in inputs)

    def _input_region(self, number: int) -> Region:
        """Where an input that is there is read from when the operator is executed."""
        tensor = self.input_tensors[number]
        assert tensor is not None
        return self.owned.get(number) or Region(BindingKind.INPUT, number, 0, tensor.size_in_bytes)

    def __repr__(self) -> str:
        if self.is_pending:
            return f"<dmlvk.{type(self).__name__}, not compiled yet>"
        return f"<dmlvk.{type(self).__name__} {self.name} on {self.device.info.name}>"


@dataclasses.dataclass(frozen=True)
class _OperatorOrigin(Origin):
    feature_level: FeatureLevel
    desc: OperatorDesc
    flags: ExecutionFlags

    @functools.cached_property
    def token(self) -> str:
        return token_of(self)

    def made(self, device: Device) -> CompiledOperator:
        return device.compile_operator(device.create_operator(self.desc), self.flags)


class CompiledSingleOperator(CompiledOperator):
    """A compiled operator of one description.

    Attributes:
        desc: the description.
    """

    def __init__(self, device: Device, desc: OperatorDesc, flags: ExecutionFlags) -> None:
        super().__init__(device, desc.operator_name, flags)
        self.desc = desc
        self._set_inputs([(field.name, tensor) for field, tensor in desc.inputs])
        self.outputs = tuple(BindPoint.of_tensor(field.name, tensor) for field, tensor in desc.outputs)
        reads = [self._input_region(number) for number, (_, tensor) in enumerate(desc.inputs) if tensor is not None]
        writes = [
            Region(BindingKind.OUTPUT, number, 0, tensor.size_in_bytes)
            for number, (_, tensor) in enumerate(desc.outputs)
            if tensor is not None
        ]
        target = device.target_for(flags)
        table = table_desc(desc, target)
        self._table = None if table is None else device.lookup_tables.table(table)
        program = lower(desc, target) if self._table is None else lookup_program(desc, target)
        scratch_bytes = -(-program.scratch_bytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        scratch = Region(BindingKind.TEMPORARY, 0, 0, scratch_bytes) if scratch_bytes else None
        self.temporary_pages = (scratch_bytes,) if scratch_bytes else ()
        self.steps = tuple(program.placed(reads, writes, scratch))

    def _made_from(self) -> Origin:
        return _OperatorOrigin(self.device.feature_level, self.desc, self.flags)

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """The table of results, where they are looked up."""
        return () if self._table is None else (self._table,)

    def in_place_refusal(self, input_index: int, output_index: int) -> str | None:
        """What the operator's page permits, for tensors whose elements lie at the same places."""
        return in_place_refusal(self.desc, self.desc.inputs[input_index], self.desc.outputs[output_index])


def in_place_refusal(
    desc: OperatorDesc, source: tuple[Field, TensorDesc | None], target: tuple[Field, TensorDesc | None]
) -> str | None:
    """Why an operator may not write an output over an input; ``None`` where it may (rules 65, 70)."""
    if permits_in_place(desc, source, target):
        return None
    allowed = desc.declaration.in_place
    if not desc.declaration.permits_in_place(source[0].member, target[0].member):
        return "but this operator cannot execute in place" + (f" over {source[0].name}" if allowed else "")
    assert source[1] is not None and target[1] is not None  # an absent tensor is not bound
    return (
        "so their Strides must be the same; "
        f"got {list(source[1].element_strides)} and {list(target[1].element_strides)}"
    )


def permits_in_place(
    desc: OperatorDesc, source: tuple[Field, TensorDesc | None], target: tuple[Field, TensorDesc | None]
) -> bool:
    """Whether an operator may write an output over an input."""
    if not desc.declaration.permits_in_place(source[0].member, target[0].member):
        return False
    assert source[1] is not None and target[1] is not None  # an absent tensor is not bound
    # DirectML is silent here. With other strides one element's result would overwrite another's operand.
    return same_elements(source[1], target[1])


def same_elements(a: TensorDesc, b: TensorDesc) -> bool:
    """Whether the elements of two tensors at one address lie on each other, coordinate by coordinate."""
    return (
        a.data_type.size_in_bits == b.data_type.size_in_bits
        and a.sizes == b.sizes
        and all(
            size == 1 or first == second
            for size, first, second in zip(a.sizes, a.element_strides, b.element_strides, strict=True)
        )
    )


class OperatorInitializer(Dispatchable):
    """Initializes compiled operators (IDMLOperatorInitializer). Made by ``Device.create_operator_initializer``.

    Executing it copies the targets' OWNED_BY_DML inputs into their persistent resources; afterwards the targets are
    initialized, each once and for all.

    Attributes:
        targets: the compiled operators.
    """

    def __init__(self, device: Device, targets: Sequence[CompiledOperator] | None = None) -> None:
        super().__init__(device, "OperatorInitializer")
        self.targets: tuple[CompiledOperator, ...] = ()
        self.reset(targets)

    def __repr__(self) -> str:
        return f"<dmlvk.OperatorInitializer of {len(self.targets)} operators on {self.device.info.name}>"

    def reset(self, targets: Sequence[CompiledOperator] | None = None) -> None:
        """Gives it other targets; binding tables that were made for it must be reset too.

        Args:
            targets: compiled operators that are not initialized yet. None at all is allowed: then executing it does
                nothing.

        Raises:
            InvalidArgumentError: when one is no compiled operator of this device, is there twice, or is initialized.
        """
        self.device.engine.check_open()
        checked = self._checked(targets)
        inputs: list[BindPoint] = []
        outputs: list[BindPoint] = []
        steps: list[KernelStep] = []
        for number, target in enumerate(checked):
            where = f"target {number} ({target.name})"
            for index, tensor in enumerate(target.input_tensors):
                point = BindPoint.of_tensor(f"{where}: {target.inputs[index].name}", tensor)
                region = target.owned.get(index)
                if region is None:
                    point = dataclasses.replace(
                        point, tensor=None, size_in_bytes=0, absence="is not OWNED_BY_DML, so it is not bound here"
                    )
                else:
                    source = Region(BindingKind.INPUT, len(inputs), 0, region.size_in_bytes)
                    written = dataclasses.replace(region, kind=BindingKind.OUTPUT, index=number)
                    steps.append(copy_step(f"initialize {point.name}", source, written, self.device.target))
                inputs.append(point)
            size = target.persistent_resource_size
            absence = "" if size else "needs none, so nothing can be bound to it"
            outputs.append(BindPoint(f"{where}: the persistent resource", None, size, absence))
        self.targets = checked
        self.inputs, self.outputs, self.steps = tuple(inputs), tuple(outputs), tuple(steps)

    def _checked(self, targets: Sequence[CompiledOperator] | None) -> tuple[CompiledOperator, ...]:
        if targets is not None and not isinstance(targets, Sequence):
            raise InvalidArgumentError(f"OperatorInitializer: takes a sequence of CompiledOperators; got {targets!r}")
        checked: list[CompiledOperator] = []
        for number, target in enumerate(targets or ()):
            where = f"OperatorInitializer: target {number}"
            if not isinstance(target, CompiledOperator):
                raise InvalidArgumentError(f"{where} must be a CompiledOperator; got {target!r}")
            if target.device is not self.device:
                raise InvalidArgumentError(f"{where} ({target.name}) was compiled by another device")
            if target in checked:
                raise InvalidArgumentError(f"{where} ({target.name}) is there twice")
            if target.is_initialized:
                raise InvalidArgumentError(f"{where} ({target.name}) {ALREADY_INITIALIZED}")
            checked.append(target)
        return tuple(checked)


ALREADY_INITIALIZED = "is initialized already, which a compiled operator is only once"
