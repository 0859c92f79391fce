"""What ONNX Runtime's programs set before they load or run a model: accepted here, and followed where it matters."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx

from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.onnx.model.limits import DEFAULT_LIMITS, Limits
from dmlvk.onnx.model.loading import OnnxModel, ValueInfo
from dmlvk.support.file_arrays import is_of_files
from dmlvk.support.mapped_files import files_of

if TYPE_CHECKING:
    from dmlvk.onnx.api.ort_values import OrtValue

PROVIDER = "DmlExecutionProvider"
"""The provider of ONNX Runtime that dmlvk stands in for."""

HOST_PROVIDER = "CPUExecutionProvider"
"""The provider of ONNX Runtime that stands for what the host computes."""


class GraphOptimizationLevel(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it: a plan does not depend on it."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it: a device's queue decides about order."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class SessionOptions:
    """What a session is made with.

    Sizes that a model leaves open can be fixed here, times be written to a trace, and what a model may ask for be
    bounded; all else is accepted for ONNX Runtime's sake, and changes nothing. What is no attribute there raises
    AttributeError here, too.

    Attributes:
        graph_optimization_level: from ORT_ENABLE_EXTENDED on, what exporters write out as several nodes (LayerNorm,
            RMSNorm, GELU, SiLU, attention) is joined into one operator, as ONNX Runtime does it; lower ones leave it.
        enable_profiling: whether :meth:`InferenceSession.end_profiling` writes what each kernel of each run took.
        profile_file_prefix: begins the name of that file.
        propagate_nan: whether Relu, Clip, Max, Min, Sign, ReduceMax and ReduceMin give NaN for NaN, as ONNX Runtime
            does, where DirectML's rules give a number. Costs a comparison and a choice for each; off by default.
        shares_device: whether the session shares its device with all others of the process that choose the same one:
            a device takes 10 to 20 MiB and a dozen threads. dmlvk's own, as those that follow.
        most_nodes: that a model may have, with its functions' bodies in place and graphs inside of nodes.
        most_iterations: of all loops and scans of a run together.
        most_result_bytes: of one result of the host, and of what a loop or scan gathers.
        most_host_bytes: of all results of the host that are kept in a run, or when a model is loaded. Both may be 16
            times what the model's initializers and the run's inputs take, where that is more.
        most_host_work: terms of products that one node of the host sums, or as much of other work. A
            model that asks for more ends in a ModelFileError before anything is computed.
    """

    def __init__(self) -> None:
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.inter_op_num_threads = 0
        self.intra_op_num_threads = 0
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.optimized_model_filepath = ""
        self.use_deterministic_compute = True
        self.use_per_session_threads = True
        self.propagate_nan = False
        self.shares_device = True
        self.most_nodes = DEFAULT_LIMITS.nodes
        self.most_iterations = DEFAULT_LIMITS.iterations
        self.most_result_bytes = DEFAULT_LIMITS.result_bytes
        self.most_host_bytes = DEFAULT_LIMITS.host_bytes
        self.most_host_work = DEFAULT_LIMITS.host_work
        self._entries: dict[str, str] = {}
        self._initializers: dict[str, Any] = {}
        self._by_name: dict[str, int] = {}
        self._by_denotation: dict[str, int] = {}

        self._is_made = True

    if not TYPE_CHECKING:  # else it would hide mistyped names from type checkers

        def __setattr__(self, name: str, value: object) -> None:
            if getattr(self, "_is_made", False) and name not in vars(self):
                known = [word for word in vars(self) if not word.startswith("_")]
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
                raise AttributeError(f"SessionOptions: has no attribute {name!r}{hint}")
            super().__setattr__(name, value)

    @property
    def joins_nodes(self) -> bool:
        """Whether what is written out as several nodes is joined."""
        return self.graph_optimization_level >= GraphOptimizationLevel.ORT_ENABLE_EXTENDED

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Kept for :meth:`get_session_config_entry`; nothing else reads it."""
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """What :meth:`add_session_config_entry` was given.

        Raises:
            InvalidArgumentError: when it was given nothing.
        """
        if key not in self._entries:
            raise InvalidArgumentError(f"SessionOptions: there is no configuration entry {key!r}")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes the sizes of inputs and outputs that the model calls by this name; the model is planned when loaded.

        Raises:
            InvalidArgumentError: when it is no size.
        """
        self._by_name[str(name)] = _checked_size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes the sizes that the model denotes so (``DATA_BATCH``, for example).

        Raises:
            InvalidArgumentError: when it is no size.
        """
        self._by_denotation[str(denotation)] = _checked_size(denotation, size)

    def add_initializer(self, name: str, value: OrtValue | npt.ArrayLike) -> None:
        """Contents for the initializer of this name, in the place of what the model's file has.

        Args:
            name: of an initializer; a model that has no such one does without.
            value: of its type and shape; copied when a session is made.
        """
        self._initializers[str(name)] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue | npt.ArrayLike]) -> None:
        """The same for several initializers, whose files need not be there.

        Raises:
            InvalidArgumentError: when there are more names than values, or fewer.
        """
        if len(names) != len(values):
            raise InvalidArgumentError(
                f"SessionOptions.add_external_initializers: needs a value for each name; got {len(names)} names and "
                f"{len(values)} values"
            )
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    @property
    def given_initializers(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of what :meth:`add_initializer` was given, by name, but for what lies in files that dmlvk has mapped.

        dmlvk's own.
        """
        numbers = {
            name: value if isinstance(value, np.ndarray) or not hasattr(value, "numpy") else value.numpy()
            for name, value in self._initializers.items()
        }
        return {
            name: value
            if is_of_files(value) or (isinstance(value, np.ndarray) and value.flags.c_contiguous and files_of([value]))
            else np.array(value, order="C")
            for name, value in numbers.items()
        }

    def register_custom_ops_library(self, path: str | os.PathLike[str]) -> None:
        """Not there: the kernels of such a library are for another machine.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"SessionOptions.register_custom_ops_library: dmlvk cannot use the kernels of {path!s}")

    def add_provider(self, provider: str, options: Mapping[str, str] | None = None) -> None:
        """Accepted for ONNX Runtime's sake."""

    def add_provider_for_devices(self, ep_devices: Sequence[Any], options: Mapping[str, str]) -> None:
        """Accepted for ONNX Runtime's sake: no device of another provider is listed."""

    def has_providers(self) -> bool:
        """False: providers are a session's own."""
        return False

    def set_provider_selection_policy(self, policy: Any) -> None:
        """Accepted for ONNX Runtime's sake: a session's device is what it is given."""

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        """As :meth:`set_provider_selection_policy`."""

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Accepted for ONNX Runtime's sake: nothing looks at it."""

    def limits(self) -> Limits:
        """What a model may ask for. dmlvk's own.

        Raises:
            InvalidArgumentError: when a bound is no positive integer.
        """
        bounds = {}
        for field in dataclasses.fields(Limits):
            value = getattr(self, f"most_{field.name}")
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgumentError(
                    f"SessionOptions: most_{field.name} must be a positive integer; got {value!r}"
                )
            bounds[field.name] = value
        return Limits(**bounds)

    def fixed(self, model: OnnxModel) -> OnnxModel:
        """The model, whose own description is changed, with the sizes that are fixed here."""
        model = dataclasses.replace(model, propagates_nan=bool(self.propagate_nan))
        if not self._by_name and not self._by_denotation:
            return model
        return dataclasses.replace(
            model,
            inputs=tuple(self._fixed_info(info) for info in model.inputs),
            outputs=tuple(self._fixed_info(info) for info in model.outputs),
        )

    def _fixed_info(self, info: ValueInfo) -> ValueInfo:
        if info.shape is None:
            return info
        dimensions = info.proto.type.tensor_type.shape.dim
        sizes = [self._fixed_size(size, dim) for size, dim in zip(info.shape, dimensions, strict=True)]
        return dataclasses.replace(info, shape=tuple(sizes))

    def _fixed_size(self, size: int | str | None, dimension: onnx.TensorShapeProto.Dimension) -> int | str | None:
        if isinstance(size, int):
            return size
        found = self._by_name.get(size) if isinstance(size, str) else None
        found = self._by_denotation.get(dimension.denotation) if found is None else found
        if found is not None:
            dimension.dim_value = found  # so that a session that pickles has it, too
        return size if found is None else found


def _checked_size(name: str, size: int) -> int:
    if not isinstance(size, int) or not 0 <= size < 2**32:
        raise InvalidArgumentError(
            f"SessionOptions: the size of {name!r} must be an integer of 0 or more; got {size!r}"
        )
    return size


class RunOptions:
    """What a run is made with: accepted where ONNX Runtime accepts it; nothing in it matters here."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False
        self.training_mode = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Kept for :meth:`get_run_config_entry`; nothing else reads it."""
        self._entries[str(key)] = str(value)

    def add_active_adapter(self, adapter: Any) -> None:
        """Not there.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("RunOptions.add_active_adapter: dmlvk.onnx has no adapters")

    def get_run_config_entry(self, key: str) -> str:
        """What :meth:`add_run_config_entry` was given.

        Raises:
            InvalidArgumentError: when it was given nothing.
        """
        if key not in self._entries:
            raise InvalidArgumentError(f"RunOptions: there is no configuration entry {key!r}")
        return self._entries[key]


def option_of(providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None, name: str) -> Any:
    """What the options of the provider that dmlvk stands in for say; ``None``: nothing. Others know other devices.

    Raises:
        InvalidArgumentError: when there are no sequences of providers and of their options.
    """
    for argument, value in (("providers", providers), ("provider_options", provider_options)):
        if isinstance(value, (str, Mapping)) or not isinstance(value, (Sequence, type(None))):
            raise InvalidArgumentError(f"InferenceSession: {argument} must be a list, or None; got {value!r}")
    given: list[tuple[str, Any]] = []
    for index, provider in enumerate(providers or ()):
        of, options = provider if isinstance(provider, tuple) and len(provider) == 2 else (provider, None)
        if options is None and provider_options is not None and index < len(provider_options):
            options = provider_options[index]
        given.append((of, options))
    if providers is None:
        given = [(PROVIDER, options) for options in provider_options or ()]
    for of, options in given:
        if of == PROVIDER and isinstance(options, Mapping) and name in options:
            return options[name]
    return None


def device_id_of(providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None) -> int | None:
    """The device that ONNX Runtime's options name.

    Raises:
        InvalidArgumentError: when it is no number.
    """
    said = option_of(providers, provider_options, "device_id")
    try:
        return None if said is None else int(said)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"device_id must be a number; got {said!r}") from error


__all__ = [
    "HOST_PROVIDER", "PROVIDER", "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "RunOptions",
    "SessionOptions", "device_id_of", "option_of",
]  # fmt: skip
