"""Sessions: a model that is loaded once and run as often as needed, by ONNX Runtime's names."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from dmlvk.arithmetic import Arithmetic, checked_arithmetic
from dmlvk.compilation import ExecutionFlags
from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.engine import Program
from dmlvk.onnx.loading import Model, ValueInfo, load, reloaded
from dmlvk.onnx.planning import Placement
from dmlvk.onnx.values import NUMPY_TYPES, element_name
from dmlvk.operators import FeatureLevel
from dmlvk.portable import Origin, Portable
from dmlvk.profiling import median_times
from dmlvk.recording import KernelTime
from dmlvk.tokens import token_of


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or an output of a model.

    Attributes:
        name: its name.
        shape: sizes, names of sizes that differ from run to run, ``None`` for unknown ones.
        type: ``"tensor(float)"`` and so on.
    """

    name: str
    shape: list[int | str | None]
    type: str


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says of itself."""

    custom_metadata_map: dict[str, str]
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


class SessionOptions:
    """Accepted where ONNX Runtime accepts it. Its settings change nothing here but the log's name.

    Attributes:
        logid: ignored, as are all other attributes that a program sets.
    """

    logid = ""

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Ignored."""


class RunOptions:
    """Accepted where ONNX Runtime accepts it; nothing in it matters here."""


@dataclasses.dataclass(frozen=True, eq=False)
class _SessionOrigin(Origin):
    """What a session was made from: the model with the contents of its files, wherever they lay."""

    feature_level: FeatureLevel
    name: str
    contents: bytes
    constants: Mapping[str, Any]
    strict: bool
    fuse: bool
    flags: ExecutionFlags

    @functools.cached_property
    def token(self) -> str:
        return token_of([self.feature_level, self.contents, self.constants, self.strict, self.fuse, int(self.flags)])

    def made(self, device: Device) -> InferenceSession:
        session = InferenceSession.__new__(InferenceSession)
        loaded = reloaded(self.name, self.contents, self.constants)
        session._open(loaded, device, strict=self.strict, fuse=self.fuse, flags=self.flags)
        return session


class InferenceSession(Portable):
    """A model, ready to run.

    It pickles with its model; where it arrives it is planned when it is used for the first time.

    Args:
        model: a path, the bytes of a model's file, or a ``ModelProto``.
        sess_options: accepted for ONNX Runtime's sake.
        providers: accepted for ONNX Runtime's sake.
        provider_options: accepted for ONNX Runtime's sake; ``device_id`` in it chooses a device where ``device`` does
            not, and ``arithmetic`` stands for the argument of that name.
        device: where to run: a device, or what ``dmlvk.Device`` takes to choose one. A device that is given stays open.
        feature_level: of a device that is opened here.
        strict: refuses models of which the host would compute more than shapes and constants.
        fuse: whether stretches of element-wise operators become one kernel; the results are the same.
        arithmetic: ``"portable"`` or ``"device"``, as ``dmlvk.Device`` takes it; ``None``: as the device was opened.

    Raises:
        InvalidArgumentError: when ``arithmetic`` is none of these, or asks a device for the same bits everywhere that
            was opened for its own.
        ModelFileError: when the model cannot be read or breaks a rule.
        DeviceNotFoundError, UnsupportedError: when there is no device for it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        device: Device | int | str | None = None,
        feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4,
        strict: bool = False,
        fuse: bool = True,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        said = _option(providers, provider_options, "arithmetic") if arithmetic is None else arithmetic
        wanted = None if said is None else checked_arithmetic(said, "InferenceSession: arithmetic")
        loaded = load(model)
        selector = _selector(providers, provider_options) if device is None else device
        is_opened = isinstance(selector, Device)
        opened = (
            selector
            if isinstance(selector, Device)
            else Device(selector, feature_level=feature_level, arithmetic=wanted)
        )
        if wanted == "portable" and opened.arithmetic == "device":
            raise InvalidArgumentError(
                "InferenceSession: arithmetic cannot be 'portable': the device was opened with arithmetic='device'"
            )
        flags = ExecutionFlags.ALLOW_DEVICE_ARITHMETIC if wanted == "device" else ExecutionFlags.NONE
        self._open(loaded, opened, owns_device=not is_opened, strict=strict, fuse=fuse, flags=flags)

    def _open(
        self,
        model: Model,
        device: Device,
        *,
        owns_device: bool = False,
        strict: bool,
        fuse: bool,
        flags: ExecutionFlags,
    ) -> None:
        self._model = model
        self._lock = threading.RLock()
        self._owns_device = owns_device
        self._strict, self._fuse = strict, fuse
        self._flags = flags | device.own_flags
        self.device = device
        try:
            self._program = Program(self.device, self._model, strict=strict, fuse=fuse, flags=flags)
            self._program.plan_static_shapes()
        except BaseException:
            if self._owns_device:
                self.device.close()
            raise

    def _made_from(self) -> Origin:
        contents = self._model.proto.SerializeToString(deterministic=True)
        level = self.device.feature_level
        return _SessionOrigin(
            level, self._model.name, contents, self._model.constants, self._strict, self._fuse, self._flags
        )

    def __repr__(self) -> str:
        if self.is_pending:
            return "<dmlvk.onnx.InferenceSession, not opened yet>"
        return f"<dmlvk.onnx.InferenceSession {self._model.name} on {self.device.info.name}>"

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees what lies on the device; closes the device, where the session opened it."""
        if self.device.engine.is_removed:  # perhaps in a process that was forked, where a lock may be held for ever
            self._program.forget()
            return
        with self._lock:
            self._program.forget()
            if self._owns_device:
                self.device.close()

    # What the model says.

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given."""
        return [_node_arg(info) for info in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order."""
        return [_node_arg(info) for info in self._model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: initializers are constants here."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says of itself."""
        proto = self._model.proto
        return ModelMetadata(
            {entry.key: entry.value for entry in proto.metadata_props},
            proto.doc_string,
            proto.domain,
            proto.graph.doc_string,
            proto.graph.name,
            proto.producer_name,
            proto.model_version,
        )

    def get_providers(self) -> list[str]:
        """What computes: dmlvk, under the name of the provider that it stands in for."""
        return ["DmlExecutionProvider"]

    @property
    def partition(self) -> list[Placement]:
        """Where each node was computed in the last run, and why; the nodes of the model's file in order.

        Empty before the first run of a model whose input shapes are not all given.
        """
        placements = self._program.placements
        return [placements[index] for index in sorted(placements)]

    # Running.

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, npt.ArrayLike],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Runs the model.

        Args:
            output_names: the outputs that are wanted; ``None``: all, in order.
            input_feed: an array for each input, of its type and of a shape that fits.
            run_options: accepted for ONNX Runtime's sake.

        Returns:
            The outputs as new arrays.

        Raises:
            InvalidArgumentError: when an input is missing, unknown or does not fit, or an output is unknown.
            ModelFileError: when a node cannot be computed.
            UnsupportedError: when ``strict`` refuses it.
            DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        names = self._checked_outputs(output_names)
        arrays = self._checked_inputs(input_feed)
        self.device.engine.check_open()  # before the lock, which a thread of a parent process may have
        with self._lock:
            state = self._program.run(arrays)
            return [_as_array(state.host_array(name)) for name in names]

    def profile(self, input_feed: Mapping[str, npt.ArrayLike], repeats: int = 10) -> list[KernelTime]:
        """Runs the model several times, and tells what each kernel takes on the device.

        Args:
            input_feed: as for :meth:`run`.
            repeats: how many runs the medians are taken of, after one that does not count.

        Raises:
            UnsupportedError: when the device has no timestamps.
        """
        if not isinstance(repeats, int) or repeats < 1:
            raise InvalidArgumentError(f"profile: repeats must be a positive integer; got {repeats!r}")
        arrays = self._checked_inputs(input_feed)
        self.device.engine.check_open()
        with self._lock:
            runs = []
            for _ in range(repeats + 1):
                times: list[KernelTime] = []
                self._program.run(arrays, times)
                runs.append(times)
        return median_times(runs[1:])

    def write_picture(self, path: str | os.PathLike[str]) -> list[Path]:
        """Writes pictures of the graphs of the last run to .svg (or .dot) files; more than one are numbered.

        Raises:
            InvalidArgumentError: when nothing was planned yet, or nothing runs on the device.
        """
        segments = [made.segment for made in self._program.last if made.segment is not None]
        if not segments:
            raise InvalidArgumentError("write_picture: nothing was run on the device yet")
        target = Path(path)
        paths = [target]
        paths += [target.with_stem(f"{target.stem}-{number}") for number in range(2, len(segments) + 1)]
        for segment, place in zip(segments, paths, strict=True):
            segment.compiled.write_picture(place)
        return paths

    # Checks.

    def _checked_outputs(self, output_names: Sequence[str] | None) -> list[str]:
        there = [info.name for info in self._model.outputs]
        if output_names is None or not list(output_names):
            return there
        for name in output_names:
            if name not in there:
                raise InvalidArgumentError(f"{self._model.name}: has no output {name!r}; it has {there}")
        return list(output_names)

    def _checked_inputs(self, feed: Mapping[str, npt.ArrayLike]) -> dict[str, Any]:
        if not isinstance(feed, Mapping):
            raise InvalidArgumentError(f"{self._model.name}: run takes the inputs as a mapping by name; got {feed!r}")
        wanted = {info.name: info for info in self._model.inputs}
        for name in feed:
            if name not in wanted:
                raise InvalidArgumentError(f"{self._model.name}: has no input {name!r}; it has {list(wanted)}")
        checked: dict[str, Any] = {}
        symbols: dict[str, int] = {}
        for name, info in wanted.items():
            if name not in feed:
                raise InvalidArgumentError(f"{self._model.name}: the input {name!r} is missing")
            checked[name] = self._checked_input(info, feed[name], symbols)
        return checked

    def _checked_input(self, info: ValueInfo, given: Any, symbols: dict[str, int]) -> Any:
        if info.element is None:
            return given
        where = f"{self._model.name}: the input {info.name!r}"
        try:
            array = np.asarray(given)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(f"{where} is not an array: {error}") from error
        wanted = _numpy_type(info.element)
        if wanted.kind == "O" or array.dtype.kind in "UOS":
            if info.element != TensorProto.STRING or array.dtype.kind not in "UOS":
                raise InvalidArgumentError(f"{where} must be of {element_name(info.element)}; got {array.dtype}")
        elif array.dtype.newbyteorder("=") != wanted:
            raise InvalidArgumentError(f"{where} must be of the dtype {wanted}; got {array.dtype}")
        else:
            array = array.astype(wanted, copy=False)
        if info.shape is not None:
            self._check_shape(where, info, array.shape, symbols)
        return array

    def _check_shape(self, where: str, info: ValueInfo, shape: tuple[int, ...], symbols: dict[str, int]) -> None:
        assert info.shape is not None
        fits = len(shape) == len(info.shape)
        for got, wanted in zip(shape, info.shape, strict=False):
            if isinstance(wanted, int):
                fits = fits and got == wanted
            elif isinstance(wanted, str):
                symbols.setdefault(wanted, got)
        if not fits:
            raise InvalidArgumentError(f"{where} must have the shape {list(info.shape)}; got {list(shape)}")


def _as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy() if value.base is not None or not value.flags.owndata else value
    return value


def _numpy_type(element: int) -> np.dtype[Any]:
    if element in NUMPY_TYPES:
        return NUMPY_TYPES[element]
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


def _node_arg(info: ValueInfo) -> NodeArg:
    kind = info.proto.type.WhichOneof("value") or "tensor_type"
    if info.element is None:
        return NodeArg(info.name, [], kind.removesuffix("_type"))
    names: dict[int, str] = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double"}
    name = names.get(info.element, element_name(info.element).lower())
    return NodeArg(info.name, list(info.shape or ()), f"tensor({name})")


def _selector(
    providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> int | str | None:
    """The device that ONNX Runtime's options name."""
    number = _option(providers, provider_options, "device_id")
    return None if number is None else int(number)


def _option(providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None, name: str) -> Any:
    """What ONNX Runtime's options say; ``None`` where they do not have such a name."""
    named = [item[1] for item in providers or () if isinstance(item, tuple) and len(item) > 1]
    for options in [*named, *(provider_options or ())]:
        if isinstance(options, Mapping) and name in options:
            return options[name]
    return None


__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "RunOptions", "SessionOptions"]
