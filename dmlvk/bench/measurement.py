"""Verifies results, then takes times: all libraries in turn, in one process, until the medians hold."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.libraries import Library, Prepared
from dmlvk.bench.workload import Array, Workload
from dmlvk.conformance.execution import Judge
from dmlvk.conformance.references import expected_output
from dmlvk.errors import DmlError, OutOfMemoryError

_WARM_UP_SECONDS = 0.4
"""An idle GPU clocks low, as while inputs are made. So long the first library works before anything counts, the others
a quarter of it; and all go on while that makes them faster."""

_MOST_WARM_UPS = 20
_FASTER = 0.98
"""A smaller part of the time that it took before is faster."""

_FEWEST_ROUNDS, _MOST_ROUNDS = 5, 25
_SAMPLE_SECONDS = 0.002
"""So long a sample takes at least: small operators are repeated within it."""

_SHORT_SECONDS = 0.001
"""What takes less by the wall is timed five times in a row: a GPU takes up to 0.2 ms (an H200) to go over from one
library's context to another's, for which the first call would wait."""

_MOST_REPEATS = 64
_VERIFIED_ELEMENTS = 2**16

_TOLERANCES = {16: (2e-3, 6e-4), 32: (2e-4, 4e-6), 64: (0.0, 0.0)}
"""By the bits of a float type, how far a library's results may be off: as a part of each result, and as a part of the
largest or of 1, whichever is less, for results near zero.

FLOAT16: libraries round each intermediate result to it, or flush its denormals; near zeros of HARD_SWISH NumPy is off
by 4.9e-4. FLOAT32: what is left of sums that cancel, and drivers' functions near their zeros; the most that llvmpipe
and SwiftShader need is 3.6e-7, for SIN, and GPUs have functions of their own. FLOAT64: its operators only move bits.
"""


@dataclasses.dataclass(frozen=True)
class Spread:
    """Times in seconds: the median of all samples, and the tenth and ninetieth of a hundred."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Of some samples."""
        low, high = np.quantile(samples, [0.1, 0.9])
        return cls(statistics.median(samples), float(low), float(high))


@dataclasses.dataclass(frozen=True)
class TaskTiming:
    """What one library took for one workload.

    Attributes:
        library: its name.
        status: ``"measured"``; or ``"different results"`` or ``"out of memory"``, with no times.
        detail: what is different.
        seconds: on the device, one of many back to back; where a library has no clock of the device, by the wall.
        wall_seconds: one alone, from the call until the result is there; if that is short, the median of five in a row.
    """

    library: str
    status: Literal["measured", "different results", "out of memory"]
    detail: str = ""
    seconds: Spread | None = None
    wall_seconds: Spread | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """All libraries on one workload.

    Attributes:
        operator: DirectML's name.
        data_type: its name.
        layout: one of ``LAYOUTS``.
        elements: of the output.
        bytes_moved: read and written.
        timings: dmlvk's first.
        attributes: the operator's numbers, by name.
    """

    operator: str
    data_type: str
    layout: str
    elements: int
    bytes_moved: int
    timings: tuple[TaskTiming, ...]
    attributes: dict[str, float] = dataclasses.field(default_factory=dict)

    def bandwidth(self, library: str) -> float | None:
        """Bytes a second on the device; ``None`` where the library was not measured."""
        for timing in self.timings:
            if timing.library == library and timing.seconds is not None:
                return self.bytes_moved / timing.seconds.median
        return None


def measure(workload: Workload, libraries: Sequence[Library], seconds: float = 2.0) -> Result:
    """Verifies and times one workload.

    Args:
        workload: what is computed.
        libraries: dmlvk first.
        seconds: about so long each library may take for it.
    """
    small = workload.of_size(min(workload.elements, _VERIFIED_ELEMENTS))
    timings: dict[str, TaskTiming] = {}
    with contextlib.ExitStack() as stack:
        runners: dict[str, Prepared] = {}
        for library in libraries:
            fault = _verified(library, small)
            if fault is None:
                continue
            if fault:
                timings[library.name] = TaskTiming(library.name, "different results", fault)
                continue
            try:
                prepared = library.prepare(workload)
            except (MemoryError, OutOfMemoryError):
                timings[library.name] = TaskTiming(library.name, "out of memory")
                continue
            if prepared is not None:
                stack.callback(prepared.close)
                runners[library.name] = prepared
                timings[library.name] = TaskTiming(library.name, "measured")
        for name, (device, wall) in _in_turn(runners, seconds).items():
            timings[name] = TaskTiming(name, "measured", seconds=Spread.of(device), wall_seconds=Spread.of(wall))
    return Result(
        workload.operator.operator_name,
        workload.data_type.name.lower(),
        workload.layout,
        math.prod(workload.geometry.sizes),
        workload.bytes_moved,
        tuple(timings.values()),
        workload.given_attributes,
    )


def _verified(library: Library, workload: Workload) -> str | None:
    """What is wrong with a library's results, or nothing; ``None`` where it cannot compute this."""
    prepared = library.prepare(workload)
    if prepared is None:
        return None
    with contextlib.closing(prepared):
        got = prepared.result().reshape(workload.geometry.sizes)
    if library.name == "dmlvk":
        fault = Judge(workload.desc, [np.ascontiguousarray(view) for view in workload.views]).fault("", got)
        if fault is not None:
            raise DmlError(f"{workload.name}: dmlvk's own results are wrong: {fault}")
        return ""
    return difference(got, workload)


def difference(got: Array, workload: Workload) -> str:
    """Whether a library computes the same function at all: within what a sloppy float32 or float16 function may err."""
    expected = expected_results(workload)
    if not workload.data_type.is_float:
        same = got.astype(np.int64) == expected.astype(np.int64)
    else:
        same = _near(got.astype(np.float64), expected.astype(np.float64), *_TOLERANCES[workload.data_type.size_in_bits])
    wrong = np.flatnonzero(~same)
    if not wrong.size:
        return ""
    first = int(wrong[0])
    return f"{wrong.size} of {got.size} results; the first is {got.flat[first]!r} instead of {expected.flat[first]!r}"


def _near(got: Array, expected: Array, relative: float, absolute: float) -> Array:
    """Which results are the expected ones, within what ``_TOLERANCES`` says; all NaNs are one."""
    largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    with np.errstate(invalid="ignore"):  # infinities
        near: Array = np.abs(got - expected) <= relative * np.abs(expected) + absolute * min(1.0, largest)
    near &= np.isfinite(expected)
    near |= got == expected
    near |= np.isnan(got) & np.isnan(expected)
    return near


def expected_results(workload: Workload) -> Array:
    """The true values, by a function of NumPy in float64 or, where there is none, by the operator's reference."""
    function = FUNCTIONS.get(workload.operator.operator_name)
    # Other attributes than the ordinary ones may make it another function than NumPy's: ROUND toward zero is no rint.
    if workload.attributes or function is None or not function.numpy:
        return expected_output(workload.desc, [np.ascontiguousarray(view) for view in workload.views])
    inputs = [view.astype(np.float64) if view.dtype.kind == "f" else view for view in workload.views]
    values: Array = getattr(np, function.numpy)(*inputs, *function.arguments(workload.desc))
    return values


def _in_turn(runners: dict[str, Prepared], seconds: float) -> dict[str, tuple[list[float], list[float]]]:
    warm_up = _WARM_UP_SECONDS if seconds > 0 else 0.0
    repeats = {
        name: _warmed_up(runner, warm_up / (4 if number else 1))
        for number, (name, runner) in enumerate(runners.items())
    }
    device: dict[str, list[float]] = {name: [] for name in runners}
    wall: dict[str, list[float]] = {name: [] for name in runners}
    end = time.perf_counter() + seconds * len(runners)
    for round_number in range(_MOST_ROUNDS):
        if round_number >= _FEWEST_ROUNDS and time.perf_counter() > end:
            break
        for name, runner in runners.items():
            device[name].append(runner.seconds(repeats[name]))
            wall[name].append(_alone(runner))
    return {name: (device[name], wall[name]) for name in runners}


def _alone(runner: Prepared) -> float:
    """The time of one operator by the wall, on a device that is at this library's disposal."""
    took = runner.wall_seconds()
    if took < _SHORT_SECONDS:
        took = statistics.median([took, *(runner.wall_seconds() for _ in range(4))])
    return took


def _warmed_up(runner: Prepared, seconds: float) -> int:
    """Lets a library work until the device's clock rises no more; returns how often a sample repeats the operator."""
    runner.seconds(1)  # compiles what is compiled late: meanwhile the device has nothing to do
    took = _best_of(runner, seconds)
    for _ in range(_MOST_WARM_UPS):
        before, took = took, min(took, _best_of(runner, seconds / 4))
        if took > _FASTER * before:
            break
    repeats = max(1, min(_MOST_REPEATS, math.ceil(_SAMPLE_SECONDS / took)))
    runner.seconds(repeats)  # what is recorded for so many is recorded now
    return repeats


def _best_of(runner: Prepared, seconds: float) -> float:
    """The least time by the wall of one operator, tried for so long."""
    start = time.perf_counter()
    took = _timed(lambda: runner.seconds(1))
    while time.perf_counter() - start < seconds:
        took = min(took, _timed(lambda: runner.seconds(1)))
    return took


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
