"""Steps of a decoder that follow one another on the device: each takes its token from the one before.

A step's kernels are recorded once for each of two sets of memory, and so is the choice of a token with the lengths of
the next step, which reads one set and writes the other one. The host then only submits these recordings in turn, those
of the next step while the present one still runs, and reads one token of each. Steps know nothing of what choices do,
nor choices of where steps have their caches: so there are few recordings, whatever texts ask for and wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.recording import KernelTime
from dmlvk.runtime.kompute import Allocation, Launch, Recording

if TYPE_CHECKING:
    import numpy.typing as npt

    from dmlvk.device import Device
    from dmlvk.graphs.launching import Lies, PlaceNumber
    from dmlvk.language.choice_memory import ChoiceMemory
    from dmlvk.language.sampling import Choices, Chooser
    from dmlvk.onnx.decoding.standing import StandingStep


def counters(now: Mapping[str, npt.NDArray[Any]], then: Mapping[str, npt.NDArray[Any]], token: str) -> list[str] | None:
    """The inputs that grow by one from a step to the next one; ``None`` where others change.

    Args:
        now: what the host writes before a step.
    """
    if token not in now:
        return None
    growing = []
    for name, array in now.items():
        later = then[name]
        if name == token or np.array_equal(array, later):
            continue
        if array.dtype.kind not in "iu" or array.shape != later.shape or not np.array_equal(array + 1, later):
            return None
        growing.append(name)
    return growing


class ChainPart:
    """A step or a choice, recorded for each of the two sets of memory when it reads that for the first time.

    Attributes:
        labels: of its kernels.
    """

    def __init__(
        self,
        device: Device,
        memory: ChoiceMemory,
        launches: Callable[[int], list[Launch]],  # those that read one of the sets
        read: Callable[[int], list[Allocation]],  # what the host reads behind them
        owners: Collection[Storage | Buffer],  # what they run on
        labels: Sequence[str],
        *,
        timestamps: bool = False,  # whether to note the device's time, for :meth:`kernel_times`
    ) -> None:
        self.labels, self._launches, self._read, self._owners = labels, launches, read, owners
        self._engine, self._chain, self._timestamps = device.engine, memory.chain, timestamps
        self._recordings: dict[int, Recording] = {}

    def recording(self, parity: int) -> Recording:
        if any(memory.is_closed for memory in self._owners):
            raise InvalidArgumentError("the memory of a decoder's step was closed")
        if parity not in self._recordings:
            self._recordings[parity] = self._engine.record(
                self._launches(parity), (), self._read(parity), timestamps=self._timestamps, chain=self._chain
            )
        return self._recordings[parity]

    def kernel_times(self, parity: int) -> list[KernelTime]:
        spans = self._engine.dispatch_spans(self.recording(parity))
        return [KernelTime(label, *span) for label, span in zip(self.labels, spans, strict=True)]


def step_part(
    device: Device,
    memory: ChoiceMemory,
    step: StandingStep,
    token: str,  # its input that takes the token
    chooser: Chooser,  # any of those that count what it reads
    *,
    timestamps: bool = False,
) -> ChainPart:
    """A decoder's step, which finds its token and its counts in one of the sets."""
    names = {token: "token", **chooser.counts}

    def launches(parity: int) -> list[Launch]:
        places: dict[PlaceNumber, Lies] = {}
        for name, number in step.inputs.items():
            if name in names:
                array = memory.array(names[name], *chooser.state[names[name]], parity)
                places[BindingKind.INPUT, number] = array.storage.allocation, 0
        return step.launches(places)

    arrays = [each.storage for each in step.locations.values() if isinstance(each, TensorMemory)]
    owners: list[Storage | Buffer] = [*step.buffers, *arrays]
    return ChainPart(device, memory, launches, lambda _: [], owners, step.plan.labels, timestamps=timestamps)


def choice_part(
    device: Device,
    memory: ChoiceMemory,
    step: StandingStep,
    logits: str,  # the output of the step that it reads
    chooser: Chooser,
    *,
    timestamps: bool = False,
) -> ChainPart:
    """The choice of a token behind a step, which goes on from one of the sets, and writes the other one."""
    graph, scratch = chooser.graph, memory.scratch(chooser.graph.temporary_pages)
    written = {**chooser.state, **chooser.told}

    def of(name: str, number: int) -> TensorMemory:
        return memory.array(name, *written[name], number).memory()

    def launches(parity: int) -> list[Launch]:
        read: dict[str, TensorMemory | BufferBinding] = {name: of(name, parity) for name in chooser.state}
        read |= {name: memory.array(name, *each).memory() for name, each in chooser.constant.items()}
        read["logits"] = step.locations[BindingKind.OUTPUT, step.outputs[logits]]
        places: dict[PlaceNumber, TensorMemory | BufferBinding] = {
            (BindingKind.TEMPORARY, number): BufferBinding(buffer) for number, buffer in enumerate(scratch)
        }
        places |= {(BindingKind.INPUT, number): read[point.name] for number, point in enumerate(graph.inputs)}
        for number, point in enumerate(graph.outputs):
            places[BindingKind.OUTPUT, number] = of(chooser.following[point.name], 1 - parity)
        return [each.launch(device.engine) for each in device.arrays.scheduled(graph, places)]

    def read(parity: int) -> list[Allocation]:
        return [of(name, 1 - parity).storage.allocation for name in chooser.read]

    owners: list[Storage | Buffer] = [*step.buffers, *scratch]
    labels = [each.label for each in graph.steps]
    return ChainPart(device, memory, launches, read, owners, labels, timestamps=timestamps)


class StepChain:
    """Steps behind one another, from a token of each sequence on."""

    def __init__(
        self,
        choices: Choices,
        step: StandingStep,  # with the numbers that are given to the step of these tokens
        token: str,  # its input that takes the token
        chooser: Chooser,
        parts: Sequence[ChainPart],  # the step, and the choice behind it
        tokens: Sequence[int],
        state: Mapping[str, npt.NDArray[np.generic]],  # what the choice of tokens goes on from
    ) -> None:
        self._engine, self._memory, self._parts = choices.device.engine, choices.memory, parts
        self._chooser, self._plan = chooser, step.plan  # whose constants are theirs
        self._submitted = self._read = 0
        for part in parts:
            part.recording(0)  # which looks whether its memory is there
        self._memory.owner = self
        values = {"token": np.array(tokens, np.int64), **state}
        values |= {name: step.given[of_step] for of_step, name in chooser.counts.items()}
        wanted = {**chooser.constant, **chooser.state}
        self._memory.write({name: self._memory.array(name, *each) for name, each in wanted.items()}, values)
        for name in step.given.keys() - {token, *chooser.counts}:
            memory = step.locations[BindingKind.INPUT, step.inputs[name]]
            assert not isinstance(memory, TensorMemory)  # what the host writes has a buffer of the plan's own
            memory.buffer.upload(np.ascontiguousarray(step.given[name]).reshape(-1), memory.offset)

    @property
    def is_lost(self) -> bool:
        """Whether others have written into the memory since it began: no step can follow, and none be read."""
        return self._memory.owner is not self

    @property
    def is_masked(self) -> bool:
        """Whether the host says before each step which tokens may be chosen."""
        return "allowed" in self._chooser.constant

    def submit(self, allowed: npt.NDArray[np.uint8] | None = None) -> None:
        """Hands the next step to the device.

        Args:
            allowed: of a chain with masks, [sequences, vocabulary]: 0 for tokens that must not be chosen.
        """
        assert not self.is_lost  # whoever was away has looked
        if allowed is not None:
            array = self._memory.array("allowed", *self._chooser.constant["allowed"])
            self._memory.write({"allowed": array}, {"allowed": allowed})
        for part in self._parts:
            self._engine.submit(part.recording(self._submitted % 2))
        self._submitted += 1

    def choice(self) -> dict[str, npt.NDArray[Any]]:
        """What the earliest step gave that was not asked for yet, as :meth:`Sampler.choice`; waits for it alone."""
        assert not self.is_lost  # likewise
        parity = self._read % 2
        for part in reversed(self._parts):
            self._engine.wait(part.recording(parity))
        self._read += 1
        made = {}
        for name, each in self._chooser.read.items():
            memory = self._memory.array(name, *each, 1 - parity).memory()
            contents = memory.storage.allocation.host_bytes[: memory.nbytes].copy()
            made[name] = contents.view(memory.data_type.numpy_dtype).reshape(memory.shape)
        return made

    def tokens(self) -> list[int]:
        """Each sequence's token of the earliest step that was not asked for its yet."""
        return [int(token) for token in self.choice()["token"][:, 0]]

    @property
    def pending(self) -> int:
        """Steps that were submitted, and whose tokens were not asked for."""
        return self._submitted - self._read

    @property
    def launch_count(self) -> int:
        return sum(len(part.labels) for part in self._parts)

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the step that :meth:`tokens` was last asked for; of parts with timestamps."""
        return [time for part in self._parts for time in part.kernel_times((self._read - 1) % 2)]
