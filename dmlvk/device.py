"""The device: makes everything else (IDMLDevice), and runs an operator in one call."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.array import Array
from dmlvk.arrays.conversion import converted
from dmlvk.arrays.memory_pool import MemoryPool, Storage
from dmlvk.arrays.tensor_bytes import checked_array, plain_array
from dmlvk.arrays.tensor_memory import TensorMemory, array_tensor
from dmlvk.datatypes import DataType, DataTypeLike, checked_data_type
from dmlvk.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from dmlvk.graphs.description import GraphDesc
from dmlvk.kernels.target import Target
from dmlvk.objects.binding import BindingTable
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import (
    CompiledOperator,
    CompiledSingleOperator,
    Dispatchable,
    ExecutionFlags,
    Operator,
    OperatorInitializer,
    checked_flags,
)
from dmlvk.objects.lookup_tables import LookupTables
from dmlvk.objects.portable import opens_devices, refuse_pickling
from dmlvk.objects.recording import CommandRecorder
from dmlvk.operators import FeatureLevel, OperatorDesc, check_operator
from dmlvk.running.device_runs import DeviceRuns
from dmlvk.running.host_runs import RunCache
from dmlvk.running.resident_runs import ResidentRuns
from dmlvk.running.streaming import ChunkRuns
from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.vulkan import DeviceInfo, select_device
from dmlvk.spirv.specialization import SUMS_OF_MATRICES_ARE_EXACT
from dmlvk.support.arithmetic import Arithmetic, checked_arithmetic, default_arithmetic
from dmlvk.support.collection import collection_paused
from dmlvk.support.recent import Recent
from dmlvk.tensors import TensorDesc
from dmlvk.trials.arithmetic_trial import arithmetic_faults
from dmlvk.trials.arithmetic_trial import warn as warn_of_arithmetic
from dmlvk.trials.device_trials import TRIALS

if TYPE_CHECKING:
    from dmlvk.graphs.compiled import CompiledGraph


_KEPT_OPERATORS = 64
"""Operators that ``run`` keeps compiled for descriptions it saw before."""


_CHECKED_OPERATORS = 256
"""Descriptions that need not be checked again."""


class Feature(enum.IntEnum):
    """DML_FEATURE: what ``Device.check_feature_support`` can be asked."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1


_FAST_MATH_DRIVERS = ("MoltenVK",)
"""Those that rearrange whatever does not demand to be left alone."""


def _opened(info: DeviceInfo) -> tuple[Engine, tuple[str, ...]]:
    """A device, and what its arithmetic does not keep, even where it is demanded."""
    engine = Engine(info, TRIALS, declares_float_controls=info.driver in _FAST_MATH_DRIVERS)
    try:
        found = arithmetic_faults(engine)
        if found and info.float_controls and not engine.declares_float_controls:
            engine.close()
            engine = Engine(info, TRIALS, declares_float_controls=True)
            found = arithmetic_faults(engine)
    except BaseException:
        engine.close()
        raise
    if found:
        warn_of_arithmetic(info, found)
    return engine, found


def _is_bool(dtype: object) -> bool:
    return isinstance(dtype, (type, np.dtype, str)) and dtype in (bool, np.bool_, "bool")


@opens_devices
class Device(DeviceRuns):
    """A Vulkan device, opened for work (IDMLDevice). A context manager; several threads may share it.

    Threads that :meth:`run` overlap, also with one operator (three of them, where their buffers take 256 MiB at most):
    while one waits for the device, others copy and submit. So do threads that read arrays and buffers, or wait for work
    of recorders. On the device one submission comes after the other.

    A process that was forked cannot use what its parent has opened: every call raises DeviceRemovedError there. On
    llvmpipe it may open devices of its own; on SwiftShader only when its parent had none open. No GPU's driver was
    tried: start processes that use GPUs by ``multiprocessing``'s "spawn".

    Args:
        selector: index, UUID, PCI address or part of the name, as ``dmlvk devices`` lists them; equal cards are told
            apart by the first three, and by UUID and PCI address in every process alike. ``None``: what the
            environment variable DMLVK_DEVICE says, else the best device.
        feature_level: what the device pretends to support; operators, data types and dimension counts that DirectML
            brought with a higher level are refused.
        arithmetic: ``"portable"``: results have the same bits on every device. ``"device"``: everything is compiled as
            with ExecutionFlags.ALLOW_DEVICE_ARITHMETIC. ``None``: what the environment variable DMLVK_ARITHMETIC says,
            else ``"portable"``.

    Attributes:
        arithmetic: ``"portable"`` or ``"device"``.
        arithmetic_faults: what the device's arithmetic does not keep of what results rely on, as its first opening has
            tried; empty where all is well. ArithmeticWarning says the same.

    Raises:
        InvalidArgumentError: when ``feature_level``, ``arithmetic`` or DMLVK_ARITHMETIC is none of these.
        DeviceNotFoundError: when there is no such device.
        UnsupportedError: when the device cannot run dmlvk's shaders.
    """

    def __init__(
        self,
        selector: int | str | None = None,
        *,
        feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        try:
            self.feature_level = FeatureLevel(feature_level)
        except ValueError as error:
            raise InvalidArgumentError(
                f"Device: feature_level must be a dmlvk.FeatureLevel; got {feature_level!r}"
            ) from error
        self.arithmetic: Arithmetic = (
            default_arithmetic() if arithmetic is None else checked_arithmetic(arithmetic, "Device: arithmetic")
        )
        self.info: DeviceInfo = select_device(selector)
        if not self.info.usable:
            raise UnsupportedError(f"{self.info.name}: dmlvk cannot use this device: {self.info.unusable_reason}")
        self.engine, self.arithmetic_faults = _opened(self.info)
        # Descriptions that were found right. Networks repeat them: equal ones become one, with what it knows of itself.
        self._checked: dict[OperatorDesc, OperatorDesc] = {}
        self._compiled: Recent[OperatorDesc, CompiledOperator] = Recent(_KEPT_OPERATORS)
        self._runs = RunCache(self.engine)
        self._chunks = ChunkRuns(self.engine, self._runs)
        self.arrays = ResidentRuns(MemoryPool(self.engine))
        self.lookup_tables = LookupTables(self.engine)

    def __repr__(self) -> str:
        return f"<dmlvk.Device {self.info.index}: {self.info.name}, feature level {self.feature_level.label}>"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse_pickling("Device", "models pickle without it, and open one where they arrive: dmlvk.default_device()")

    def close(self) -> None:
        """Frees everything that belongs to the device. Closing twice is allowed; any other use afterwards raises."""
        self.engine.close()  # first: what another thread or the interrupted one is doing ends with an error
        if not self.engine.afterwards.in_call():
            with self.engine.afterwards, self.engine.lock:
                self._chunks.clear()
                self._runs.clear()
                self.arrays.clear()
                self._compiled.clear()

    @property
    def target(self) -> Target:
        """What the choice of kernels may know of the device."""
        target = Target.of(self.info, self.engine.enabled_features)
        if not target.has_cooperative_halves or not target.has_narrow_halves:
            return target
        with self.engine.afterwards, self.engine.lock:
            are_exact = self.engine.shaders.does(SUMS_OF_MATRICES_ARE_EXACT)
        return dataclasses.replace(target, has_exact_halves=are_exact)

    def target_for(self, flags: ExecutionFlags) -> Target:
        """What it may know where something is compiled with these flags, and with its own."""
        allowed = bool((flags | self.own_flags) & ExecutionFlags.ALLOW_DEVICE_ARITHMETIC)
        return dataclasses.replace(self.target, device_arithmetic=allowed)

    @property
    def own_flags(self) -> ExecutionFlags:
        """What everything is compiled with on this device, besides what a call says."""
        return ExecutionFlags.ALLOW_DEVICE_ARITHMETIC if self.arithmetic == "device" else ExecutionFlags.NONE

    def _checked_flags(self, flags: ExecutionFlags, call: str) -> ExecutionFlags:
        return checked_flags(flags, call) | self.own_flags

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
        if desc.has_dynamic_sizes:
            check_operator(desc, self.feature_level)
        elif (known := self._checked.get(desc)) is not None:
            desc = known
        else:
            check_operator(desc, self.feature_level)
            self._checked[desc] = desc
            if len(self._checked) > _CHECKED_OPERATORS:
                with contextlib.suppress(StopIteration, RuntimeError, KeyError):  # other threads may do the same
                    del self._checked[next(iter(self._checked))]
        return Operator(self, desc)

    @collection_paused()
    def compile_operator(
        self, operator: Operator, flags: ExecutionFlags = ExecutionFlags.NONE
    ) -> CompiledSingleOperator:
        """Makes an operator ready to run (CompileOperator).

        Args:
            operator: made by this device.
            flags: permissions, of which ALLOW_DEVICE_ARITHMETIC alone changes results; and DESCRIPTORS_VOLATILE, with
                which bindings are read at every submission instead of when they are recorded.

        Raises:
            InvalidArgumentError: when the operator or the flags are not valid.
            DeviceLimitError: when the tensors are too large to launch.
        """
        self.engine.check_open()
        if not isinstance(operator, Operator):
            raise InvalidArgumentError(f"compile_operator: takes what create_operator returned; got {operator!r}")
        if not operator.is_for(self):
            raise InvalidArgumentError(f"{operator.desc.operator_name}: was created by another device")
        compiled = CompiledSingleOperator(self, operator.desc, self._checked_flags(flags, "compile_operator"))
        for step in compiled.steps:
            step.spirv()  # a shader that is missing is missed here, not when it is run
        return compiled

    @collection_paused()
    def compile_graph(
        self,
        desc: GraphDesc,
        flags: ExecutionFlags = ExecutionFlags.NONE,
        *,
        fuse: bool = True,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        input_tensors: Sequence[TensorDesc | None] | None = None,
        output_tensors: Sequence[TensorDesc | None] | None = None,
        most_temporary_bytes: int | None = None,
        lasting_inputs: Collection[int] = (),
    ) -> CompiledGraph:
        """Makes a graph of operators ready to run as one (CompileGraph).

        Args:
            desc: the graph; its operators are not needed any more afterwards.
            flags: as for :meth:`compile_operator`.
            fuse: whether element-wise operators that follow one another become one kernel. The results are the same
                bits with and without; it takes a GLSL compiler on the machine, else operators run one by one.
            input_names: names of the graph inputs for :meth:`run`; ``None``: ``Input0``, ``Input1`` …
            output_names: names of the graph outputs; ``None``: ``Output0``, ``Output1`` …
            input_tensors: as what :meth:`run` takes arrays for the graph inputs; ``None``: as what the first edge of
                each leads to. The bytes stay the same ones.
            output_tensors: as what it gives arrays of the graph outputs; ``None``: as they are written.
            most_temporary_bytes: of the temporary resource, beyond which it becomes several buffers: :meth:`run` and
                ONNX sessions take these, and binding tables none. ``None``: what a buffer of the device has at most.
            lasting_inputs: the graph inputs that are the same in every run: what follows from them alone is computed
                once, by ``CompiledGraph.prepare``, which is to be called before the first run.

        Raises:
            InvalidArgumentError: when the graph breaks a rule; the message names the node or edge.
            UnsupportedError: when the device's feature level does not have what it asks for.
            DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        from dmlvk.graphs.compiled import CompiledGraph

        self.engine.check_open()
        if not isinstance(desc, GraphDesc):
            raise InvalidArgumentError(f"compile_graph: takes a GraphDesc; got {desc!r}")
        if self.feature_level < FeatureLevel.LEVEL_2_1:
            raise UnsupportedError(
                f"compile_graph: needs feature level 2_1; this device was opened at {self.feature_level.label}"
            )
        return CompiledGraph(
            self,
            desc,
            self._checked_flags(flags, "compile_graph"),
            fuse=bool(fuse),
            input_names=input_names,
            output_names=output_names,
            input_tensors=input_tensors,
            output_tensors=output_tensors,
            most_temporary_bytes=most_temporary_bytes,
            lasting_inputs=lasting_inputs,
        )

    def create_operator_initializer(self, targets: Sequence[CompiledOperator] | None = None) -> OperatorInitializer:
        """Makes what initializes compiled operators that have OWNED_BY_DML inputs (CreateOperatorInitializer).

        Args:
            targets: the compiled operators; more of the same device can be given later (``reset``).

        Raises:
            InvalidArgumentError: when one is no compiled operator of this device, or is initialized already.
        """
        return OperatorInitializer(self, targets)

    def create_buffer(self, size_in_bytes: int, *, zeroed: bool = True) -> Buffer:
        """Memory on the device.

        Args:
            size_in_bytes: from 1 on.
            zeroed: whether it is zero at first, which takes up to 2 ms a MiB; else its contents are undefined.

        Raises:
            InvalidArgumentError: when the size is not a positive integer.
            DeviceLimitError: when it is above the device's limit.
            OutOfMemoryError: when the memory is not there.
        """
        try:
            return Buffer(self.engine, size_in_bytes, zeroed=zeroed)
        except OutOfMemoryError:
            if not self.arrays.pool.size_in_bytes:
                raise
            self.arrays.pool.clear()
            return Buffer(self.engine, size_in_bytes, zeroed=zeroed)

    def array(self, x: npt.ArrayLike | Array, data_type: DataTypeLike | None = None) -> Array:
        """An array on the device, with a copy of what an array holds.

        Args:
            x: anything that NumPy makes an array of, of 0 to 8 dimensions; ``bool`` stays bool, which the device has
                as UINT8. An Array of this device is copied there.
            data_type: of the elements, by DirectML's or NumPy's name; ``None``: the array's own. Values are converted
                where none changes. UINT4 and INT4, which NumPy does not have, are made of ``uint8`` and ``int8``.

        Raises:
            InvalidArgumentError: when no tensor is like that.
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
            DeviceRemovedError: when the device is lost or closed.
        """
        self.engine.check_open()
        if data_type is not None and not _is_bool(data_type):
            data_type = checked_data_type(data_type, "Device.array: data_type")
        if (
            isinstance(x, Array)
            and x.device is self
            and data_type in (None, x.dtype if _is_bool(x.dtype) else x.data_type)
        ):
            return x.__copy__()
        values = plain_array(x, "Device.array")
        if _is_bool(data_type):
            values = converted(values, np.dtype(np.bool_), "Device.array")
        asked = values.dtype if data_type is None else data_type
        if not values.size:
            return self._without_elements(values.shape, asked, "Device.array")
        tensor = array_tensor(asked, values.shape, "Device.array")
        laid_out = checked_array(values.reshape(tensor.sizes), tensor, "Device.array")
        memory = self.arrays.uploaded(self, laid_out, tensor, "Device.array")
        return Array.of(memory, np.dtype(np.bool_) if _is_bool(asked) else None, values.shape)

    def empty(self, shape: int | Sequence[int], dtype: DataTypeLike = DataType.FLOAT32) -> Array:
        """An array on the device whose elements are undefined.

        Args:
            shape: the sizes of 0 to 8 axes.
            dtype: NumPy's or DirectML's type of the elements.

        Raises:
            InvalidArgumentError: when no tensor is like that.
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
            DeviceRemovedError: when the device is lost or closed.
        """
        self.engine.check_open()
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if 0 in sizes:
            return self._without_elements(sizes, dtype, "Device.empty")
        tensor = array_tensor(dtype, shape, "Device.empty")
        memory = TensorMemory(self, Storage(self.arrays.pool, tensor.size_in_bytes), tensor)
        return Array.of(memory, np.dtype(np.bool_) if _is_bool(dtype) else None, () if sizes == () else None)

    def _without_elements(self, shape: tuple[int, ...], dtype: DataTypeLike, where: str) -> Array:
        tensor = array_tensor(dtype, [size or 1 for size in shape], where)
        if tensor.data_type.size_in_bits < 8:
            raise InvalidArgumentError(f"{where}: an array of {tensor.data_type.name} has elements; got {list(shape)}")
        return Array(self, np.dtype(np.bool_) if _is_bool(dtype) else tensor.data_type.numpy_dtype, shape, None)

    def create_binding_table(self, dispatchable: Dispatchable) -> BindingTable:
        """An empty binding table for a compiled operator or an initializer of this device (CreateBindingTable)."""
        self.engine.check_open()
        if not isinstance(dispatchable, Dispatchable):
            raise InvalidArgumentError(
                f"create_binding_table: takes a CompiledOperator or an OperatorInitializer; got {dispatchable!r}"
            )
        if isinstance(dispatchable, CompiledOperator):
            dispatchable.settle(self)
        if dispatchable.device is not self:
            raise InvalidArgumentError(f"{dispatchable.name}: was compiled by another device")
        return BindingTable(dispatchable)

    def create_command_recorder(self, *, timestamps: bool = False) -> CommandRecorder:
        """An empty command recorder (CreateCommandRecorder).

        Args:
            timestamps: whether to note what each kernel takes on the device: ``CommandRecorder.kernel_times``.

        Raises:
            UnsupportedError: when there are to be timestamps, and the device has no clock.
        """
        self.engine.check_open()
        if timestamps and not self.info.limits.timestamp_valid_bits:
            raise UnsupportedError(f"create_command_recorder: {self.info.name} has no timestamps")
        return CommandRecorder(self, timestamps=bool(timestamps))

    def _ready(self, operator: OperatorDesc | CompiledOperator) -> CompiledOperator:
        if not isinstance(operator, CompiledOperator):
            return self._compiled_for(operator)
        operator.settle(self)  # one that arrived pickled
        if operator.device is not self:
            raise InvalidArgumentError(f"{operator.name}: was compiled by another device")
        return operator

    def _compiled_for(self, desc: OperatorDesc) -> CompiledOperator:
        with self.engine.afterwards, self.engine.lock:
            compiled = self._compiled.get(desc) if isinstance(desc, OperatorDesc) else None
            if compiled is None:
                return self._compiled.keep(desc, self.compile_operator(self.create_operator(desc)))
            self._compiled.move_to_end(desc)
            return compiled
