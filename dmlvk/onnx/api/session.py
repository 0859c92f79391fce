"""Sessions: a model that is loaded once and run as often as needed, by ONNX Runtime's names."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from dmlvk.device import Device
from dmlvk.errors import DeviceRemovedError, DmlError, InvalidArgumentError, OutOfMemoryError, UnsupportedError
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.objects.portable import Origin, Portable, leave_device, shared_device
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.api.facts import Facts
from dmlvk.onnx.api.options import RunOptions, SessionOptions, device_id_of, option_of
from dmlvk.onnx.api.ort_values import IOBinding, OrtValue, run_inputs, value_of
from dmlvk.onnx.api.overriding import Overriding
from dmlvk.onnx.api.profiling import Profiling
from dmlvk.onnx.decoding.standing import StandingStep
from dmlvk.onnx.model.limits import Limits, MemoryChecked
from dmlvk.onnx.model.loading import OnnxModel, load, reloaded, save_as_it_is
from dmlvk.onnx.plan.captures import Signature, captured, captures, signature_of
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.operators import FeatureLevel
from dmlvk.support.arithmetic import Arithmetic, checked_arithmetic
from dmlvk.support.collection import collection_paused
from dmlvk.support.tokens import token_of


class AcceptedNames:
    """A session's methods that choose among providers, tune them, or tell of what only others have."""

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Accepted for ONNX Runtime's sake: the session stays on its device."""

    def enable_fallback(self) -> None:
        """Accepted for ONNX Runtime's sake."""

    def disable_fallback(self) -> None:
        """Accepted for ONNX Runtime's sake; ``strict=True`` refuses models of which the host computes something."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted for ONNX Runtime's sake."""

    def get_tuning_results(self) -> list[Any]:
        """None: kernels are chosen by sizes."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Accepted for ONNX Runtime's sake."""

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """None: ``partition`` says where nodes are computed."""
        return []

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for ONNX Runtime's sake: no run is captured."""

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)


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
    limits: Limits
    joins: bool
    propagates_nan: bool

    @functools.cached_property
    def token(self) -> str:
        how = [self.strict, self.fuse, int(self.flags), self.joins, self.propagates_nan]
        return token_of([self.feature_level, self.contents, self.constants, *how])

    def made(self, device: Device) -> InferenceSession:
        session = InferenceSession.__new__(InferenceSession)
        loaded = reloaded(self.name, self.contents, self.constants)
        loaded = dataclasses.replace(loaded, propagates_nan=self.propagates_nan)
        how = {"strict": self.strict, "fuse": self.fuse, "joins": self.joins}
        session._open(loaded, device, flags=self.flags, limits=self.limits, **how)
        return session


def _check_bits(wanted: Arithmetic | None, opened: Device) -> None:
    """Refuses to promise the same bits everywhere of a device that was opened for its own."""
    if wanted == "portable" and opened.arithmetic == "device":
        raise InvalidArgumentError(
            "InferenceSession: arithmetic cannot be 'portable': the device was opened with arithmetic='device'"
        )


class InferenceSession(AcceptedNames, Facts, Profiling, Portable):
    """A model, ready to run.

    It pickles with its model; where it arrives it is planned when it is used for the first time.

    Args:
        path_or_bytes: a path, the bytes of a model's file, or a ``ModelProto``.
        sess_options: sizes that are fixed, whether times are noted, and whether nodes are joined; all else in it is
            accepted for ONNX Runtime's sake.
        providers: accepted for ONNX Runtime's sake.
        provider_options: likewise; in either, ``device_id`` for ``DmlExecutionProvider`` chooses a device where
            ``device`` does not, and ``arithmetic`` stands for the argument of that name.
        disabled_optimizers: accepted for ONNX Runtime's sake.
        enable_fallback: likewise.
        read_config_from_model: likewise.
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
        path_or_bytes: str | os.PathLike[str] | bytes | onnx.ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        disabled_optimizers: Sequence[str] | None = None,
        enable_fallback: bool = True,
        *,
        read_config_from_model: bool = False,
        device: Device | int | str | None = None,
        feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4,
        strict: bool = False,
        fuse: bool = True,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        if not isinstance(sess_options, (SessionOptions, type(None))):
            raise InvalidArgumentError(
                f"InferenceSession: sess_options must be a SessionOptions or None; got {sess_options!r}"
            )
        said = option_of(providers, provider_options, "arithmetic") if arithmetic is None else arithmetic
        wanted = None if said is None else checked_arithmetic(said, "InferenceSession: arithmetic")
        options = SessionOptions() if sess_options is None else sess_options
        limits = options.limits()
        with collection_paused(), MemoryChecked("InferenceSession"):
            loaded = options.fixed(load(path_or_bytes, limits.nodes, options.given_initializers))
        selector = device_id_of(providers, provider_options) if device is None else device
        if isinstance(selector, Device):
            opened, owns_device = selector, False
        elif options.shares_device:
            opened, owns_device = shared_device(self, selector, feature_level, wanted), False
        else:
            opened, owns_device = Device(selector, feature_level=feature_level, arithmetic=wanted), True
        _check_bits(wanted, opened)
        flags = ExecutionFlags.ALLOW_DEVICE_ARITHMETIC if wanted == "device" else ExecutionFlags.NONE
        how = {"strict": strict, "fuse": fuse, "joins": options.joins_nodes}
        self._open(loaded, opened, owns_device=owns_device, flags=flags, limits=limits, **how)
        self._options = options
        if options.optimized_model_filepath:
            save_as_it_is(path_or_bytes, options.optimized_model_filepath)
        self._model_path: str | None = (
            os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        )

    def _open(
        self,
        model: OnnxModel,
        device: Device,
        *,
        owns_device: bool = False,
        strict: bool,
        fuse: bool,
        joins: bool,
        flags: ExecutionFlags,
        limits: Limits,
    ) -> None:
        self._model = model
        self._joins = joins
        self._limits = limits
        self._options = SessionOptions()
        self._model_path = None
        self._times: list[KernelTime] = []
        self._begun = time.time_ns()
        self._lock = threading.RLock()
        self._owns_device = owns_device
        self._is_closed = False
        self._captures = captures()
        self._elements = {info.name: info.element for info in model.outputs}
        self._strict, self._fuse = strict, fuse
        self._overriding: Overriding[InferenceSession] = Overriding(model)
        self._flags = flags | device.own_flags
        self.device = device
        try:
            with collection_paused(), MemoryChecked(model.name):
                self._program = DeviceModel(
                    self.device, self._model, strict=strict, fuse=fuse, joins=joins, flags=self._flags, limits=limits
                )
                self._program.plan_static_shapes()
        except BaseException:
            self._close_device()
            raise

    def with_inputs(self, names: frozenset[str]) -> InferenceSession:
        """The model with some of its initializers as inputs that must be given. dmlvk's own.

        Those that it does not list as inputs have one dimension, of any length.

        Raises:
            UnsupportedError: it has no such initializer.
        """
        self._check_open()
        origin = self._made_from()
        if missing := names.difference(origin.constants):
            raise UnsupportedError(f"{self._model.name}: has no initializer {', '.join(sorted(missing))}")
        kept = {name: array for name, array in origin.constants.items() if name not in names}
        proto = onnx.ModelProto.FromString(origin.contents)
        for name in names.difference(info.name for info in proto.graph.input):
            element = onnx.helper.np_dtype_to_tensor_dtype(origin.constants[name].dtype)
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, element, [f"length of {name}"]))
        contents = proto.SerializeToString(deterministic=True)
        made = dataclasses.replace(origin, contents=contents, constants=kept).made(self.device)
        made._options = self._options
        return made

    def _made_from(self) -> _SessionOrigin:
        contents = self._model.proto.SerializeToString(deterministic=True)
        level = self.device.feature_level
        return _SessionOrigin(
            level,
            self._model.name,
            contents,
            self._model.constants,
            self._strict,
            self._fuse,
            self._flags,
            self._limits,
            self._joins,
            self._model.propagates_nan,
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
        """Frees what lies on the device; closes the device, where it was opened for sessions and no other one uses it.

        A run of another thread ends before. A session that is closed runs no more.
        """
        self._is_closed = True
        self._captures.clear()
        if self.device.engine.is_removed:  # perhaps in a process that was forked, where a lock may be held for ever
            self._program.forget()
            return
        with self._lock:
            self._program.forget()
            self._overriding.close()
            self._close_device()

    def _close_device(self) -> None:
        if self._owns_device:
            self.device.close()
        else:
            leave_device(self, self.device)

    def _check_open(self) -> None:
        """Refuses what comes after the end.

        Raises:
            DeviceRemovedError: when the session is closed, or the device is closed or lost.
        """
        if self._is_closed:
            raise DeviceRemovedError(f"{self._model.name}: the session was closed")
        self.device.engine.check_open()

    # Running.

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Runs the model.

        Args:
            output_names: the outputs that are wanted; ``None``: all, in order.
            input_feed: an array for each input, of its type and of a shape that fits; a ``dmlvk.Array`` of the
                session's device and an OrtValue there are read where they are.
            run_options: accepted for ONNX Runtime's sake.

        Returns:
            The outputs as new arrays.

        Raises:
            InvalidArgumentError: when an input is missing, unknown or does not fit, or an output is unknown.
            ModelFileError: when a node cannot be computed.
            UnsupportedError: when ``strict`` refuses it.
            DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        other = self._overriding.session_for(input_feed, self.with_inputs)
        if other is not None:
            return other.run(output_names, input_feed, run_options)
        return self._results(output_names, input_feed)

    def _results(
        self,
        output_names: Sequence[str] | None,
        feed: Mapping[str, Any],
        kept: Sequence[str] = (),
        targets: Mapping[str, OrtValue] | None = None,
    ) -> list[Any]:
        """The outputs as new arrays; those of ``kept`` as values on the device, where the device computes them.

        Args:
            output_names: as for :meth:`run`.
            feed: the inputs.
            kept: as for :meth:`run_where_it_is`.
            targets: likewise.
        """
        given = run_inputs(feed, self.device) if type(feed) is dict or isinstance(feed, Mapping) else feed
        bound = {name: value.taken(self.device) for name, value in targets.items() if name in kept} if targets else {}
        signature = None if self._options.enable_profiling else signature_of(output_names, given, kept)
        replayed = self._replayed(signature, given, bound)
        if replayed is not None:
            return replayed
        names = self._checked_outputs(output_names)
        arrays = self._checked_inputs(given)
        self._check_open()  # before the lock, which a thread of a parent process may have
        with self._lock, MemoryChecked(self._model.name):
            self._check_open()
            try:
                state = self._ran(arrays, kept, bound)
            except OutOfMemoryError:
                if not self._captures.clear():
                    raise
                state = self._ran(arrays, kept, bound)
            stay = {n: v for n in kept if isinstance(v := state.values.get(n), DeviceValue)}
            host = iter(state.results([name for name in names if name not in stay], arrays))
            results = [stay[name] if name in stay else next(host) for name in names]
            self._captures.note(
                signature, lambda *again: captured(self._program, names, given, arrays, state, kept, *again)
            )
            return results

    def _replayed(
        self, signature: Signature | None, given: Mapping[str, Any], targets: Mapping[str, DeviceValue]
    ) -> list[Any] | None:
        """The outputs of a run that is like an earlier one; ``None`` where it is not."""
        if signature is None or not self._captures:
            return None
        self._check_open()
        with self._lock, MemoryChecked(self._model.name):
            self._check_open()
            capture = self._captures.find(signature)
            if capture is None:
                return None
            self._program.index_checks.check(given)
            try:
                results = capture.run(given, targets)
            except OutOfMemoryError:  # others' memory is to be had
                self._captures.clear()
                return None
            capture.note_in(self._program)
            return results

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As :meth:`run`, with values; outputs that the device computes stay there.

        Raises:
            DmlError: as for :meth:`run`.
        """
        names = self._checked_outputs(output_names)
        return self.run_where_it_is(names, input_dict_ort_values, names)

    def run_where_it_is(
        self,
        names: Sequence[str],
        feed: Mapping[str, Any],
        kept: Sequence[str],
        targets: Mapping[str, OrtValue] | None = None,
    ) -> list[OrtValue]:
        """As :meth:`run`, with values. dmlvk's own.

        Args:
            names: the outputs that are wanted.
            feed: the inputs.
            kept: the outputs that are to lie on the device.
            targets: values that outputs are bound to: a cache that is one with its input is appended to where it lies.

        Raises:
            DmlError: as for :meth:`run`.
        """
        other = self._overriding.session_for(feed, self.with_inputs)
        if other is not None:
            return other.run_where_it_is(names, feed, kept, targets)
        values = []
        for name, result in zip(names, self._results(names, feed, kept, targets), strict=True):
            value = value_of(result, self._elements[name], is_on_device=name in kept)
            if not isinstance(result, DeviceValue):
                value.taken(self.device)
            values.append(value)
        return values

    def standing_step(self, feed: Mapping[str, Any], caches: Mapping[str, OrtValue]) -> StandingStep | None:
        """A decoder's run as it lies on the device, without running it. dmlvk's own.

        Args:
            feed: the inputs; all but the caches come from the host.
            caches: the values that the caches' outputs are bound to.

        Returns:
            What runs where; ``None`` where the model is no decoder that one plan of all lengths does.

        Raises:
            DmlError: as for :meth:`run`.
        """
        arrays = self._checked_inputs(feed)
        self._check_open()
        bound = {name: value.taken(self.device) for name, value in caches.items()}
        with self._lock, MemoryChecked(self._model.name):
            self._check_open()
            return self._program.standing_step(arrays, bound)

    def io_binding(self) -> IOBinding:
        """What :meth:`run_with_iobinding` takes: inputs and outputs that may lie on the device."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on what is bound.

        Raises:
            DmlError: as for :meth:`run`.
        """
        if not isinstance(iobinding, IOBinding):
            raise InvalidArgumentError(
                f"{self._model.name}: iobinding must be what io_binding() returned; got {iobinding!r}"
            )
        iobinding.run(run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """As :meth:`run`, in a thread of its own.

        Args:
            output_names: as for :meth:`run`.
            input_feed: likewise.
            callback: called with the outputs, ``user_data``, and what went wrong (empty: nothing).
            user_data: anything.
            run_options: accepted for ONNX Runtime's sake.

        Raises:
            InvalidArgumentError: when ``callback`` cannot be called.
        """
        if not callable(callback):
            raise InvalidArgumentError(f"{self._model.name}: run_async: callback must be a function; got {callback!r}")

        def work() -> None:
            outputs: list[Any] = []
            try:
                outputs = self.run(output_names, input_feed, run_options)
                message = ""
            except DmlError as error:
                message = str(error) or type(error).__name__
            except BaseException as error:  # noqa: BLE001  # whoever waits for the callback must hear of it
                message = f"{type(error).__name__}: {error}"
            callback(outputs, user_data, message)

        threading.Thread(target=work, name="dmlvk run_async").start()

    # Names of the interface, checked.


__all__ = ["InferenceSession", "RunOptions", "SessionOptions"]
