"""What runs of a session took, and pictures of what they were."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.objects.profiling import median_times, write_trace
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.model.limits import MemoryChecked
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnx.plan.states import State

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.onnx.api.options import SessionOptions


class Profiling:
    """The part of a session that times its runs."""

    device: Device
    _begun: int
    _lock: Any
    _model: OnnxModel
    _options: SessionOptions
    _program: DeviceModel
    _times: list[KernelTime]

    def _check_open(self) -> None:
        raise NotImplementedError

    def _checked_inputs(self, feed: Mapping[str, npt.ArrayLike]) -> dict[str, Any]:
        raise NotImplementedError

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made, in nanoseconds since 1970."""
        return self._begun

    def end_profiling(self) -> str:
        """Writes what each kernel of the runs took, of a session that was made with ``enable_profiling``.

        Returns:
            The file's name, for chrome://tracing and https://ui.perfetto.dev; empty where nothing was noted.

        Raises:
            InvalidArgumentError: when the file cannot be written.
        """
        if not self._options.enable_profiling:
            return ""
        moment = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._begun / 1e9))
        path = f"{self._options.profile_file_prefix}{moment}.json"
        with self._lock:
            try:
                write_trace(path, self._times, self.device)
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(f"{self._model.name}: end_profiling: {path}: {error}") from error
            self._times = []
        return path

    def _ran(
        self, arrays: Mapping[str, Any], kept: Sequence[str] = (), targets: Mapping[str, Any] | None = None
    ) -> State:
        if not self._options.enable_profiling or not self.device.info.limits.timestamp_valid_bits:
            return self._program.run(arrays, kept=kept, targets=targets)
        taken: list[KernelTime] = []
        state = self._program.run(arrays, taken)
        end = max((time.start + time.seconds for time in self._times), default=0.0)
        self._times += [dataclasses.replace(time, start=end + time.start) for time in taken]
        return state

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
        self._check_open()
        with self._lock, MemoryChecked(self._model.name):
            self._check_open()
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
        graphs = self._program.graphs_of_last()
        if not graphs:
            raise InvalidArgumentError("write_picture: nothing was run on the device yet")
        target = Path(path)
        paths = [target]
        paths += [target.with_stem(f"{target.stem}-{number}") for number in range(2, len(graphs) + 1)]
        for graph, file in zip(graphs, paths, strict=True):
            graph.write_picture(file)
        return paths
