"""What ``Device.run`` and ``Device.profile`` do."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, overload

import numpy.typing as npt

from dmlvk.arrays.array import Array
from dmlvk.arrays.conversion import Casting, checked_casting
from dmlvk.errors import UnsupportedError
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.objects.profiling import median_times
from dmlvk.objects.recording import KernelTime
from dmlvk.operators import OperatorDesc
from dmlvk.running.host_runs import HostRun, checked_inputs
from dmlvk.running.resident_runs import OnDevice, ResidentRuns
from dmlvk.running.streaming import ChunkRuns
from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.vulkan import DeviceInfo
from dmlvk.support.integers import checked_integer

RunInput: TypeAlias = npt.ArrayLike | Array | Buffer | BufferBinding  # What ``Device.run`` takes for an input


def _any_on_device(inputs: object) -> bool:
    if isinstance(inputs, Mapping):
        for value in inputs.values():  # a generator costs a small operator half a microsecond
            if isinstance(value, OnDevice):
                return True
    return False


class DeviceRuns:
    engine: Engine
    info: DeviceInfo
    arrays: ResidentRuns
    _chunks: ChunkRuns

    def _ready(self, operator: OperatorDesc | CompiledOperator) -> CompiledOperator:
        raise NotImplementedError

    @overload
    def run(
        self,
        operator: OperatorDesc | CompiledOperator,
        inputs: Mapping[str, RunInput],
        *,
        keep: Literal[False] = False,
        casting: Casting | None = None,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, npt.NDArray[Any]]: ...

    @overload
    def run(
        self,
        operator: OperatorDesc | CompiledOperator,
        inputs: Mapping[str, RunInput],
        *,
        keep: Literal[True],
        casting: Casting | None = None,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]: ...

    @overload
    def run(
        self,
        operator: OperatorDesc | CompiledOperator,
        inputs: Mapping[str, RunInput],
        *,
        keep: bool,
        casting: Casting | None = None,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, npt.NDArray[Any]] | dict[str, Array]: ...

    def run(
        self,
        # a description, which is checked and compiled at its first use, or a compiled operator
        operator: OperatorDesc | CompiledOperator,
        # an array for each input tensor that the description has, by DirectML's member names or the Python ones
        # (``InputTensor``, ``input_tensor``). Each is the logical array, shape = sizes, whatever the strides; lists and
        # arrays of another dtype are converted where every value stays what it is. Arrays of this device are read where
        # they are; a Buffer, or a BufferBinding, has the tensor's bytes as they are
        inputs: Mapping[str, RunInput],
        *,
        keep: bool = False,  # whether the outputs stay on the device, as Arrays. The call does not wait for them then
        # what else is converted, by NumPy's words: ``"same_kind"`` rounds float64 to float32, ``"unsafe"`` converts
        # anything, ``"no"`` nothing
        casting: Casting | None = None,
        # Arrays that outputs are written to, by member name, instead of new ones: also the Array that is an input,
        # where the operator can execute in place
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, npt.NDArray[Any]] | dict[str, Array]:
        """Runs an operator on arrays, in one call.

        Element-wise work, casts and softmax along rows on arrays of 16 MiB and more go there in chunks, so that copies
        and kernels overlap: with the same bits, and also where the arrays are larger than the device's memory.

        Returns:
            The outputs by DirectML's member names: arrays of shape = sizes, new but for those of ``out``.

        Raises:
            InvalidArgumentError: when the description or an array breaks a rule.
            UnsupportedError, DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        self.engine.check_open()
        compiled = self._ready(operator)
        checked_casting(casting)
        if keep or out is not None or _any_on_device(inputs):
            made = self.arrays.execute(compiled, inputs, casting, out)
            if not keep:
                return {member: memory.numpy() for member, memory in made.items()}
            own = {array.memory(): array for array in (out or {}).values()}
            return {member: own[memory] if memory in own else Array.of(memory) for member, memory in made.items()}
        return self._chunks.execute(compiled, checked_inputs(compiled, inputs, casting))

    def profile(
        self, operator: OperatorDesc | CompiledOperator, inputs: Mapping[str, npt.ArrayLike], repeats: int = 10
    ) -> list[KernelTime]:
        """Runs an operator or a graph several times, and tells what each of its kernels takes on the device.

        Args:
            repeats: how many runs the medians are taken of, after one that does not count.

        Raises:
            InvalidArgumentError: when the description or an array breaks a rule, or ``repeats`` is not positive.
            UnsupportedError: when the device has no timestamps.
            DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        self.engine.check_open()
        count = checked_integer(repeats, "profile: repeats", 1, 1_000_000)
        if not self.info.limits.timestamp_valid_bits:
            raise UnsupportedError(f"profile: {self.info.name} has no timestamps")
        compiled = self._ready(operator)
        arrays = checked_inputs(compiled, inputs)
        with (
            self.engine.afterwards,
            self.engine.lock,
            contextlib.closing(HostRun(self.engine, compiled, timestamps=True)) as run,
        ):
            runs = []
            for _ in range(count + 1):
                run.execute(arrays)
                runs.append(run.kernel_times())
        return median_times(runs[1:])
