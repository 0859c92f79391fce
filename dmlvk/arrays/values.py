"""What an array's elements are: memory on a device, or an operation that still has to be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.datatypes import DataType

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.runtime.work import Allocation

Shape = tuple[int, ...]


class Computation(Protocol):
    """How elements follow from others."""

    def compute(self, value: Value) -> None:
        """Computes its result, with everything that this waits for."""


class Value:
    """Elements on a device, or how they follow from others.

    Attributes:
        device: where they are.
        data_type: DirectML's type.
        shape: any, without empty axes; in memory that of no axis is (1,).
        operation: how they follow from the operands; ``None``: they are in memory.
        handles: how many arrays of the user's have this value.
        uses: operations that wait for it.
        weight: how many operations wait with it, itself among them; one operand's count each time that it is used.
    """

    __slots__ = (
        "__weakref__", "_memory", "_operands", "data_type", "device", "handles", "operation", "shape", "target",
        "uses", "weight",
    )  # fmt: skip

    def __init__(
        self,
        device: Device,
        data_type: DataType,
        shape: Shape,
        memory: TensorMemory | None = None,
        operation: Computation | None = None,
        operands: tuple[Value, ...] = (),
    ) -> None:
        self.device, self.data_type, self.shape = device, data_type, shape
        self.operation = operation
        self.handles = self.uses = 0
        self._memory = memory
        self._operands: tuple[Value, ...] | None = operands
        self.weight: int = 0 if memory is not None else 1 + sum([one.weight for one in operands])
        for one in operands:
            one.uses += 1
            if one._memory is not None:  # which a run may overwrite or a program close, before this is computed
                one._memory.storage.add_waiting(self)

    @property
    def memory_shape(self) -> Shape:
        return self.shape or (1,)

    @property
    def is_pending(self) -> bool:
        return self._memory is None

    def operands_if_pending(self) -> tuple[Value, ...] | None:
        """What it is computed from, if it is not computed yet."""
        operands = self._operands  # first: another thread may be computing it
        return operands if self._memory is None else None

    def settle(self, memory: TensorMemory) -> None:
        """Takes the computed elements, and lets go of the operands."""
        operands = self._operands or ()
        self._memory = memory
        self._operands = None
        self.weight = 0
        for one in operands:
            one.uses -= 1
            if one._memory is not None:
                one._memory.storage.remove_waiting(self)

    def wish(self) -> Allocation | None:
        """In which memory it would best be computed; ``None``: in any."""
        return None

    def memory(self) -> TensorMemory:
        """Where the elements are, computed now if they were not yet."""
        if self._memory is None:
            assert self.operation is not None  # what is not in memory has one
            self.operation.compute(self)
        assert self._memory is not None  # what is not pending has one
        return self._memory
