"""What was recorded for the device, and runs as one graph when it is needed, or when it is enough.

What a program repeats, it records in the same order. So a graph is found again by what was recorded, one operation
after the other, without a look at how they depend on each other.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlvk.array_api.lazy import Operation, Trace
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.arrays.values import Value
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.objects.portable import default_device
from dmlvk.torch.device.geometry import Shape

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.runtime.work import Allocation

MOST_PENDING = 160  # Operators that are recorded before they run at most

_MOST_BESIDE = 4096  # Values beside them that belong to operators of lists

_FEWEST_BEFORE_PRODUCT = 24
"""Operators after which a product begins the next graph: so layers that are alike share a plan."""

_RUNS_OF_NUMBERS = 512
"""Runs after which numbers take a turn without an optimizer's step."""


class Target(Protocol):
    """What gets other elements again and again: two chunks of memory in turn, so that what repeats stays bound.

    Attributes:
        spare: the chunk that it had before the present one.
    """

    spare: Allocation | None

    def turn(self) -> None:
        """Notes that it has new elements."""


class Recorded(Value):
    """Elements of a tensor that were recorded. Nothing else than the recorder computes them.

    Attributes:
        target: whose elements it is; ``None``: that does not matter.
    """

    __slots__ = ("target",)

    def __init__(  # what operands are waited for nobody asks
        self, device: Device, data_type: DataType, shape: Shape, operation: Operation, operands: tuple[Value, ...]
    ) -> None:
        self.device, self.data_type, self.shape = device, data_type, shape
        self.operation, self._operands = operation, operands
        self.target: Callable[[], Target | None] | None = None
        self._memory = None
        self.handles = self.uses = 0
        self.weight = 1

    def settle(self, memory: TensorMemory) -> None:
        """Takes the computed elements, and lets go of the operands."""
        self._memory, self._operands = memory, None
        if self.target is not None and (target := self.target()) is not None:
            target.turn()

    def wish(self) -> Allocation | None:
        """What its target had before the present elements."""
        target = None if self.target is None else self.target()
        return None if target is None else target.spare

    def memory(self) -> TensorMemory:
        """Where the elements are, with everything that was recorded computed."""
        if self._memory is None:
            RECORDER.run(self)
        assert self._memory is not None  # what runs has one
        return self._memory


class Numbers:
    """Numbers of Python in the device's memory, so that others need no other graph.

    Those stay that were asked for since the turn before the last one. So numbers that change with each step of an
    optimizer lie in two pieces of memory in turn, as parameters do, and what was recorded for these is run again.
    """

    def __init__(self) -> None:
        self._device: Device | None = None
        self._young: dict[Any, Value] = {}
        self._old: dict[Any, Value] = {}

    def value(self, device: Device, value: float, data_type: DataType) -> Value:
        """One without axes."""
        if device is not self._device:
            self._device, self._young, self._old = device, {}, {}
        key = data_type, struct.pack("d", value) if isinstance(value, float) else int(value)  # -0 equals 0
        known = self._young.get(key)
        if known is None:
            known = self._old.get(key)
            if known is None:
                with np.errstate(over="ignore"):  # infinity
                    memory = device.array(np.array(value).astype(data_type.numpy_dtype)).memory()
                known = Value(device, data_type, (), memory)
            self._young[key] = known
        return known

    def turn(self) -> None:
        """Lets go of those that nobody asked for since the last turn."""
        self._young, self._old = {}, self._young


class Recorder:
    """What is recorded for the device and has not run.

    Attributes:
        numbers: beside tensors.
    """

    def __init__(self) -> None:
        self.numbers = Numbers()
        self._runs = 0
        self._pending: list[Value] = []
        self._beside = 0  # how many of them do not count
        self._lock = threading.RLock()
        self._device: Device | None = None
        self._is_chosen = False

    @property
    def device(self) -> Device:
        """What :meth:`use` chose; without that, the process's device, opened when it is first needed."""
        device = self._device
        if device is None or device.engine.is_removed:
            if device is not None and self._is_chosen:
                device.engine.check_open()
            device = self._device = default_device()
        return device

    def use(self, device: Device | None) -> None:
        """Has another device of Vulkan's stand behind PyTorch's; tensors that there are stay on theirs."""
        self.run()
        self._device, self._is_chosen = device, device is not None

    def add(self, value: Value, *, is_product: bool = False) -> None:
        """Notes a value that waits; runs what came before it where it is enough."""
        count = len(self._pending) - self._beside
        if count >= _FEWEST_BEFORE_PRODUCT and (is_product or count >= MOST_PENDING):
            self.run()
        self._pending.append(value)

    def widen(self, count: int) -> None:
        """Has so many values more run together with what is recorded, since they belong to one operator."""
        if self._beside and self._beside + count > _MOST_BESIDE:
            self.run()
        self._beside += count

    def run(self, wanted: Value | None = None) -> None:
        """Hands everything that somebody still needs to the device, as one graph.

        Args:
            wanted: a value that the caller needs.

        Raises:
            DeviceRemovedError: the wanted one's device is lost or closed.
            DmlError: the device cannot compute it, or without a wanted one something of it: the rest is computed.
        """
        with self._lock:
            pending, self._pending, self._beside = self._pending, [], 0
            if wanted is not None:
                wanted.device.engine.check_open()
                wanted.handles += 1
                pending.append(wanted)
            self._runs += bool(pending)
            if self._runs >= _RUNS_OF_NUMBERS:
                self.turn()
            try:
                waiting = [value for value in pending if value.is_pending]
                if waiting and not waiting[0].device.engine.is_removed:
                    try:
                        Trace(waiting).run(waiting[0].device)
                    except DmlError:
                        _run_apart(waiting, wanted)
            except DmlError:  # it is said, and keeps nothing else from being computed
                raise
            except BaseException:
                self._pending = pending + self._pending
                raise
            finally:
                if wanted is not None:
                    wanted.handles -= 1

    def turn(self) -> None:
        """Lets go of numbers that nobody needs any more: after a step of an optimizer, or many runs."""
        self._runs = 0
        self.numbers.turn()

    def wait(self) -> None:
        """Runs what is recorded, and waits for everything that was submitted, also where nobody has results of it."""
        self.run()
        if self._device is not None:
            self._device.engine.wait_for_all()


def _run_apart(waiting: list[Value], wanted: Value | None) -> None:
    """Computes what somebody needs one by one, where all of it together failed.

    Raises:
        DmlError: the wanted one, or without that any of them, cannot be computed.
    """
    failure: DmlError | None = None
    for value in waiting:
        if value.handles > 0 and value.is_pending:
            try:
                Trace([value]).run(value.device)
            except DmlError as own:
                failure = own if wanted in (None, value) else failure
    if failure is not None:
        raise failure


RECORDER = Recorder()


def deferred(operation: Operation, operands: tuple[Value, ...], data_type: DataType, shape: Shape) -> Recorded:
    """One result of an operation, recorded."""
    value = Recorded(RECORDER.device, data_type, shape, operation, operands)
    RECORDER.add(value)
    return value
