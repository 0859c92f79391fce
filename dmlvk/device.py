"""The device: makes everything else (IDMLDevice), and runs an operator in one call."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from dmlvk.arrays import checked_array, copied, copy_elements, lay_out, logical_view, may_overlap
from dmlvk.binding import BindingTable, CompiledOperator, ExecutionFlags, Operator
from dmlvk.buffers import Buffer
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.integers import checked_integer
from dmlvk.kernels import library
from dmlvk.kernels.elementwise import lower
from dmlvk.operators import FeatureLevel, Field, OperatorDesc, check_operator
from dmlvk.recording import CommandRecorder
from dmlvk.runtime.kompute import Allocation, Engine, Launch, Recording
from dmlvk.runtime.vulkan import DeviceInfo, select_device
from dmlvk.tensors import TensorDesc

_KEPT_OPERATORS = 64
"""Operators that ``run`` keeps compiled for descriptions it saw before."""

_KEPT_RUN_BYTES = 64 * 2**20
"""Buffers of up to this size are kept between two runs of a compiled operator."""

_KEPT_RUN_BYTES_IN_ALL = 256 * 2**20
"""Buffers of up to this size are kept by all compiled operators together; those not used for longest go first."""


class Feature(enum.IntEnum):
    """DML_FEATURE: what ``Device.check_feature_support`` can be asked."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1


class Device:
    """A Vulkan device, opened for work (IDMLDevice). A context manager; several threads may share it.

    Args:
        selector: index or part of the name, as ``dmlvk devices`` lists them. ``None``: what the environment variable
            DMLVK_DEVICE says, else the best device.
        feature_level: what the device pretends to support; operators, data types and dimension counts that DirectML
            brought with a higher level are refused.

    Raises:
        DeviceNotFoundError: when there is no such device.
        UnsupportedError: when the device cannot run dmlvk's shaders.
    """

    def __init__(
        self, selector: int | str | None = None, *, feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4
    ) -> None:
        try:
            self.feature_level = FeatureLevel(feature_level)
        except ValueError as error:
            raise InvalidArgumentError(
                f"Device: feature_level must be a dmlvk.FeatureLevel; got {feature_level!r}"
            ) from error
        self.info: DeviceInfo = select_device(selector)
        if not self.info.usable:
            raise UnsupportedError(f"{self.info.name}: dmlvk cannot use this device: {self.info.unusable_reason}")
        self.engine = Engine(self.info)
        self._compiled: collections.OrderedDict[OperatorDesc, CompiledOperator] = collections.OrderedDict()
        self._runs: weakref.WeakKeyDictionary[CompiledOperator, _Run] = weakref.WeakKeyDictionary()
        self._last_run: Callable[[], _Run | None] = lambda: None

    def __repr__(self) -> str:
        return f"<dmlvk.Device {self.info.index}: {self.info.name}, feature level {self.feature_level.label}>"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees everything that belongs to the device. Closing twice is allowed; any other use afterwards raises."""
        with self.engine.exclusive():
            self._runs.clear()
            self._compiled.clear()
            self.engine.close()

    def check_feature_support(
        self, feature: Feature, query: DataType | Sequence[FeatureLevel]
    ) -> bool | FeatureLevel | None:
        """Asks what the device supports (CheckFeatureSupport).

        Args:
            feature: TENSOR_DATA_TYPE_SUPPORT or FEATURE_LEVELS.
            query: a data type; or the feature levels of interest.

        Returns:
            For a data type whether tensors may have it; for levels the highest of them that is supported, or ``None``
            when none is.

        Raises:
            InvalidArgumentError: when the query does not fit the feature.
            UnsupportedError: when the feature is none of :class:`Feature`.
        """
        self.engine.check_open()
        if feature == Feature.TENSOR_DATA_TYPE_SUPPORT:
            if not isinstance(query, DataType):
                raise InvalidArgumentError(f"check_feature_support: the query must be a DataType; got {query!r}")
            return query.size_in_bits >= 8 and (query.size_in_bits < 64 or self.feature_level >= FeatureLevel.LEVEL_3_0)
        if feature == Feature.FEATURE_LEVELS:
            if not isinstance(query, Sequence) or not all(isinstance(level, FeatureLevel) for level in query):
                raise InvalidArgumentError(f"check_feature_support: the query must be FeatureLevels; got {query!r}")
            return max((level for level in query if level <= self.feature_level), default=None)
        raise UnsupportedError(f"check_feature_support: unknown feature {feature!r}")

    def create_operator(self, desc: OperatorDesc) -> Operator:
        """Checks a description against all of DirectML's rules (CreateOperator).

        Raises:
            InvalidArgumentError: when it breaks a rule.
            UnsupportedError: when the device's feature level does not have what it asks for.
        """
        self.engine.check_open()
        if not isinstance(desc, OperatorDesc):
            raise InvalidArgumentError(f"create_operator: takes an operator description; got {desc!r}")
        check_operator(desc, self.feature_level)
        return Operator(self, desc)

    def compile_operator(self, operator: Operator, flags: ExecutionFlags = ExecutionFlags.NONE) -> CompiledOperator:
        """Makes an operator ready to run (CompileOperator).

        Args:
            operator: made by this device.
            flags: permissions; DESCRIPTORS_VOLATILE is not supported yet.

        Raises:
            InvalidArgumentError: when the operator or the flags are not valid.
            UnsupportedError: for DESCRIPTORS_VOLATILE.
            DeviceLimitError: when the tensors are too large to launch.
        """
        self.engine.check_open()
        if not isinstance(operator, Operator):
            raise InvalidArgumentError(f"compile_operator: takes what create_operator returned; got {operator!r}")
        if operator.device is not self:
            raise InvalidArgumentError(f"{operator.desc.operator_name}: was created by another device")
        all_flags = sum(ExecutionFlags)
        execution_flags = ExecutionFlags(checked_integer(flags, "compile_operator: flags", 0, all_flags))
        if execution_flags & ExecutionFlags.DESCRIPTORS_VOLATILE:
            raise UnsupportedError("compile_operator: this version of dmlvk does not support DESCRIPTORS_VOLATILE")
        kernel = lower(operator.desc)
        library.load(kernel.variant)
        return CompiledOperator(self, operator.desc, execution_flags, kernel)

    def create_buffer(self, size_in_bytes: int) -> Buffer:
        """Memory on the device, zero at first.

        Raises:
            InvalidArgumentError: when the size is not a positive integer.
            DeviceLimitError: when it is above the device's limit.
            OutOfMemoryError: when the memory is not there.
        """
        return Buffer(self.engine, size_in_bytes)

    def create_binding_table(self, compiled: CompiledOperator) -> BindingTable:
        """An empty binding table for a compiled operator of this device (CreateBindingTable)."""
        self.engine.check_open()
        if not isinstance(compiled, CompiledOperator):
            raise InvalidArgumentError(f"create_binding_table: takes a CompiledOperator; got {compiled!r}")
        if compiled.device is not self:
            raise InvalidArgumentError(f"{compiled.desc.operator_name}: was compiled by another device")
        return BindingTable(compiled)

    def create_command_recorder(self) -> CommandRecorder:
        """An empty command recorder (CreateCommandRecorder)."""
        self.engine.check_open()
        return CommandRecorder(self)

    def run(
        self, operator: OperatorDesc | CompiledOperator, inputs: Mapping[str, npt.ArrayLike]
    ) -> dict[str, npt.NDArray[Any]]:
        """Runs an operator on arrays, in one call.

        Args:
            operator: a description, which is checked and compiled at its first use, or a compiled operator.
            inputs: an array for each input tensor that the description has, by DirectML's member names. Each is the
                logical array, shape = sizes, whatever the strides; its dtype must be the tensor's.

        Returns:
            The outputs as new arrays of shape = sizes, by DirectML's member names.

        Raises:
            InvalidArgumentError: when the description or an array breaks a rule.
            UnsupportedError, DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        self.engine.check_open()
        compiled = operator if isinstance(operator, CompiledOperator) else self._compiled_for(operator)
        if compiled.device is not self:
            raise InvalidArgumentError(f"{compiled.desc.operator_name}: was compiled by another device")
        arrays = _checked_inputs(compiled.desc, inputs)
        with self.engine.exclusive():
            run = self._runs.get(compiled)
            if run is not None:
                if run is not self._last_run():  # the order in which they were used says which goes first
                    self._runs[compiled] = self._runs.pop(compiled)
                    self._last_run = weakref.ref(run)
                return run.execute(arrays)
            with self._new_run(compiled) as run:
                return run.execute(arrays)

    def _compiled_for(self, desc: OperatorDesc) -> CompiledOperator:
        with self.engine.exclusive():
            compiled = self._compiled.get(desc) if isinstance(desc, OperatorDesc) else None
            if compiled is None:
                compiled = self.compile_operator(self.create_operator(desc))
                self._compiled[desc] = compiled
                if len(self._compiled) > _KEPT_OPERATORS:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(desc)
            return compiled

    @contextlib.contextmanager
    def _new_run(self, compiled: CompiledOperator) -> Iterator[_Run]:
        """New buffers and a recording for a compiled operator; large ones live for one run only."""
        run = _Run(self.engine, compiled)
        if run.size_in_bytes <= _KEPT_RUN_BYTES:
            self._runs[compiled] = run
            self._last_run = weakref.ref(run)
            self._drop_old_runs()
            yield run
        else:
            with contextlib.closing(run):
                yield run

    def _drop_old_runs(self) -> None:
        runs = list(self._runs.items())
        size = sum(run.size_in_bytes for _, run in runs)
        for compiled, run in runs[:-1]:
            if size <= _KEPT_RUN_BYTES_IN_ALL:
                break
            del self._runs[compiled]
            run.close()
            size -= run.size_in_bytes


def _checked_inputs(desc: OperatorDesc, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
    name = desc.operator_name
    if not isinstance(inputs, Mapping):
        raise InvalidArgumentError(f"{name}: run takes the inputs as a mapping by member name; got {inputs!r}")
    wanted = {field.name: tensor for field, tensor in desc.inputs if tensor is not None}
    for member in inputs:
        if member not in wanted:
            raise InvalidArgumentError(f"{name}: has no input {member!r} to give an array for; it has {list(wanted)}")
    for member in wanted:
        if member not in inputs:
            raise InvalidArgumentError(f"{name}: {member}: an array is missing")
    return {member: checked_array(inputs[member], tensor, f"{name}: {member}") for member, tensor in wanted.items()}


class _Run:
    """A compiled operator with buffers of its own and everything recorded, for ``Device.run``."""

    def __init__(self, engine: Engine, compiled: CompiledOperator) -> None:
        self._engine = engine
        self._desc = compiled.desc
        self._allocations: dict[str, Allocation] = {}
        # Frees the memory when the compiled operator goes, and with it this object.
        self._release = weakref.finalize(self, _release_all, engine, self._allocations)
        try:
            self._recording = self._record(compiled)
            self._inputs, self._outputs = self._views(self._desc.inputs), self._views(self._desc.outputs)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees the buffers."""
        self._inputs, self._outputs = [], []
        self._release()

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(allocation.size_in_bytes for allocation in self._allocations.values())

    def _tensors(self, members: Sequence[tuple[Field, TensorDesc | None]]) -> list[tuple[str, TensorDesc]]:
        return [(field.name, tensor) for field, tensor in members if tensor is not None]

    def _record(self, compiled: CompiledOperator) -> Recording:
        inputs, outputs = self._tensors(self._desc.inputs), self._tensors(self._desc.outputs)
        for member, tensor in inputs + outputs:
            self._allocations[member] = self._engine.allocate((tensor.size_in_bytes + 3) & ~3, zeroed=False)
        read = [self._allocations[member] for member, _ in inputs]
        written = [self._allocations[member] for member, _ in outputs]
        offsets = [0] * (len(read) + len(written))
        launch = Launch(
            spirv=library.load(compiled.kernel.variant),
            specialization=compiled.kernel.specialization(offsets),
            push_constants=compiled.kernel.push_constants(offsets),
            work_groups=compiled.kernel.work_groups,
            allocations=(*read, *written),
            written=tuple(written),
            depends=False,
        )
        return self._engine.record([launch], upload=read, download=written)

    def _views(self, members: Sequence[tuple[Field, TensorDesc | None]]) -> list[_View]:
        return [
            _View(member, tensor, logical_view(self._allocations[member].host_bytes, tensor), may_overlap(tensor))
            for member, tensor in self._tensors(members)
        ]

    def execute(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Lays out the inputs, runs, and copies the outputs out."""
        self._engine.check_open()  # else the views lead nowhere
        for view in self._inputs:
            if view.overlaps:
                where = f"{self._desc.operator_name}: {view.member}"
                lay_out(arrays[view.member], view.tensor, self._allocations[view.member].host_bytes, where)
            else:
                copy_elements(view.elements, arrays[view.member])
        self._engine.run_whole(self._recording)
        return {view.member: copied(view.elements) for view in self._outputs}


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """A tensor of a :class:`_Run` in the host's memory."""

    member: str
    tensor: TensorDesc
    elements: npt.NDArray[Any]
    overlaps: bool


def _release_all(engine: Engine, allocations: Mapping[str, Allocation]) -> None:
    for allocation in allocations.values():
        engine.release(allocation)
