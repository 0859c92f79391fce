"""Steps of a decoder that follow one another on the device: each takes its token from the one before.

A step's kernels, the choice of its token, and the lengths of the next step are recorded once for each of two sets of
memory, of which one holds what the other one's step reads. The host then only submits the two recordings in turn, the
next one while the present one still runs, and reads one token of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.program import BindingKind
from dmlvk.language.sampling import write_array
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.recording import KernelTime
from dmlvk.runtime.kompute import Chain, Recording

if TYPE_CHECKING:
    import numpy.typing as npt

    from dmlvk.device import Device
    from dmlvk.graphs.launching import PlaceNumber
    from dmlvk.language.sampling import Chooser
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


class StepChain:
    """The two recordings, and what they run on."""

    def __init__(
        self,
        device: Device,
        step: StandingStep,  # a step of the decoder
        token: str,  # its input that takes the token
        logits: str,
        chooser: Chooser,  # chooses a token, and counts; its ``counts`` are the step's inputs that grow
        *,
        timestamps: bool = False,  # whether to note the device's time, for :meth:`kernel_times`
    ) -> None:
        self._engine, self._counts = device.engine, chooser.counts
        self._constant = {name: step.inputs[name] for name in step.given if name not in (token, *chooser.counts)}
        self._plans = step.plan, chooser.graph  # whose constants are theirs
        same = {name: device.empty(shape, dtype).memory() for name, (shape, dtype) in chooser.constant.items()}
        of_step, self._told = {**chooser.state, **chooser.told}, ("token", *chooser.told)
        self._sets = [
            {name: device.empty(shape, dtype).memory() for name, (shape, dtype) in of_step.items()} | same for _ in "ab"
        ]
        scratch = [device.create_buffer(size, zeroed=False) for size in chooser.graph.temporary_pages]
        arrays = [each for each in step.locations.values() if isinstance(each, TensorMemory)]
        arrays += [array for one in self._sets for array in one.values()]
        self._owners: list[Storage | Buffer] = [*step.buffers, *scratch, *(array.storage for array in arrays)]
        launches = []
        for parity in (0, 1):
            of_plan, of_choice = self._locations(step, token, logits, chooser, parity)
            of_choice |= {(BindingKind.TEMPORARY, n): BufferBinding(buffer) for n, buffer in enumerate(scratch)}
            launched = step.launches({place: (a.storage.allocation, a.offset) for place, a in of_plan.items()})
            chosen = device.arrays.scheduled(chooser.graph, of_choice)
            first, *others = [each.launch(device.engine) for each in chosen]
            launches.append([*launched, dataclasses.replace(first, depends=True), *others])
        self._labels = [*step.plan.labels, *(each.step.label for each in chosen)]
        shared = dict.fromkeys(allocation for both in launches for launch in both for allocation in launch.written)
        chain = Chain(tuple(shared))
        self._recordings: list[Recording] = [
            device.engine.record(
                both,
                (),
                [self._sets[1 - parity][name].storage.allocation for name in self._told],
                timestamps=timestamps,
                chain=chain,
            )
            for parity, both in enumerate(launches)
        ]
        self._submitted = self._read = 0

    def _locations(
        self, step: StandingStep, token: str, logits: str, chooser: Chooser, parity: int
    ) -> tuple[dict[PlaceNumber, TensorMemory], dict[PlaceNumber, TensorMemory | BufferBinding]]:
        """Where one recording's step finds what the choice before has written, and where its choice reads and writes:
        from one set of memory into the other one.
        """
        now, then = self._sets[parity], self._sets[1 - parity]
        of_step = {
            (BindingKind.INPUT, number): now["token" if name == token else chooser.counts[name]]
            for name, number in step.inputs.items()
            if name == token or name in chooser.counts
        }
        made: Mapping[str, TensorMemory | BufferBinding] = {
            "logits": step.locations[BindingKind.OUTPUT, step.outputs[logits]],
            **{name: array for name, array in now.items() if name not in self._told},
        }
        of_choice: dict[PlaceNumber, TensorMemory | BufferBinding] = {}
        for number, point in enumerate(chooser.graph.inputs):
            of_choice[BindingKind.INPUT, number] = made[point.name]
        for number, point in enumerate(chooser.graph.outputs):
            of_choice[BindingKind.OUTPUT, number] = then[chooser.following[point.name]]
        return of_step, of_choice

    def start(self, step: StandingStep, tokens: Sequence[int], state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Begins with a token of each sequence behind those in the caches.

        Args:
            step: as before, with the numbers that are given to the step of these tokens.
            state: what the choice of tokens goes on from.
        """
        self._check()
        values = {"token": np.array(tokens, np.int64), **state}
        values |= {name: step.given[of_step] for of_step, name in self._counts.items()}
        for name, array in self._sets[0].items():
            if name in values:
                write_array(self._engine, array.storage, values[name])
        for name, number in self._constant.items():
            memory = step.locations[BindingKind.INPUT, number]
            assert not isinstance(memory, TensorMemory)  # what the host writes has a buffer of the plan's own
            memory.buffer.upload(np.ascontiguousarray(step.given[name]).reshape(-1), memory.offset)
        self._submitted = self._read = 0

    def submit(self) -> None:
        """Hands the next step to the device."""
        self._check()
        self._engine.submit(self._recordings[self._submitted % 2])
        self._submitted += 1

    def choice(self) -> dict[str, npt.NDArray[Any]]:
        """What the earliest step gave that was not asked for yet, as :meth:`Sampler.choice`; waits for it alone."""
        parity = self._read % 2
        self._engine.wait(self._recordings[parity])
        self._read += 1
        made = {}
        for name in self._told:
            memory = self._sets[1 - parity][name]
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
        return len(self._labels)

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the step that :meth:`tokens` was last asked for; of a chain with timestamps."""
        spans = self._engine.dispatch_spans(self._recordings[(self._read - 1) % 2])
        return [KernelTime(label, *span) for label, span in zip(self._labels, spans, strict=True)]

    def _check(self) -> None:
        if any(memory.is_closed for memory in self._owners):
            raise InvalidArgumentError("the memory of a decoder's step was closed")
