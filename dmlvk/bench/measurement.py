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

from dmlvk.bench.libraries import Library, Prepared
from dmlvk.bench.task import Array, Task
from dmlvk.conformance.execution import Judge
from dmlvk.errors import DeviceLimitError, DmlError, OutOfMemoryError

_WARM_UP_SECONDS = 0.4
"""An idle GPU clocks low, as while inputs are made. So long the first library works before anything counts, the others
a quarter of it; and all go on while that makes them faster."""

_MOST_WARM_UPS = 20
_FASTER = 0.98  # A smaller part of the time that it took before is faster

_FEWEST_ROUNDS, _MOST_ROUNDS = 5, 25
_SAMPLE_SECONDS = 0.002  # So long a sample takes at least: small operators are repeated within it

_SHORT_SECONDS = 0.001
"""What takes less by the wall is timed five times in a row: a GPU takes up to 0.2 ms (an H200) to go over from one
library's context to another's, for which the first call would wait."""

_SETTLING_SECONDS = 0.06
"""So long each works again before its turn counts, where arithmetic limits it: at the limit of its power a device's
clock is what the work of the last milliseconds has left it, and that was the other one's. So an NVIDIA H100 (700 W)
gives cuBLAS's FLOAT16 products 728 TFLOP/s in turns of 3 ms beside what takes less power, and 640 by themselves."""

_MOST_REPEATS = 64
_COMPARED_ELEMENTS = 2**20  # Of results, so many are compared, or up to twice as many

_TOLERANCES = {
    (True, 16): (2e-3, 6e-4),
    (True, 32): (2e-4, 4e-6),
    (True, 64): (0.0, 0.0),
    (False, 16): (0.0, 2e-2),
    (False, 32): (0.0, 2e-4),
    (False, 64): (0.0, 1e-6),
}
"""By whether an operator is element-wise, and the bits of a float type, how far a library's results may be off: as a
part of each result, and as a part of the largest (of element-wise ones, of 1 if that is less), for results near zero.

FLOAT16: libraries round each intermediate result to it, or flush its denormals; near zeros of HARD_SWISH NumPy is off
by 4.9e-4. FLOAT32: what is left of sums that cancel, and drivers' functions near their zeros; the most that llvmpipe
and SwiftShader need is 3.6e-7, for SIN, and GPUs have functions of their own. FLOAT64: element-wise ones move bits.
"""


@dataclasses.dataclass(frozen=True)
class Spread:
    """Times in seconds: the median of all samples, and the tenth and ninetieth of a hundred."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        low, high = np.quantile(samples, [0.1, 0.9])
        return cls(statistics.median(samples), float(low), float(high))


@dataclasses.dataclass(frozen=True)
class Timing:
    """What one library took for one task."""

    library: str  # its name
    # ``"measured"``; or why there are no times
    status: Literal["measured", "different results", "not measured"]
    detail: str = ""  # what is different, or why it was not measured
    # on the device, one of many back to back; where a library has no clock of the device, by the wall
    seconds: Spread | None = None
    # one alone, from the call until the result is there; if that is short, the median of five in a row
    wall_seconds: Spread | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    operator: str  # DirectML's name
    name: str  # the task's, as all that follows up to the timings
    data_type: str  # its name
    layout: str
    work: int
    unit: Literal["B/s", "OP/s"]
    series: str
    extent: int
    attributes: dict[str, float]
    timings: tuple[Timing, ...]  # dmlvk's first

    def speed(self, library: str, *, alone: bool = False) -> float | None:
        """Work in a second on the device, or of one alone; ``None`` where the library was not measured."""
        for timing in self.timings:
            spread = timing.wall_seconds if alone else timing.seconds
            if timing.library == library and spread is not None:
                return self.work / spread.median
        return None


def measure(task: Task, libraries: Sequence[Library], seconds: float = 2.0) -> Result:
    """Verifies and times one task.

    Args:
        libraries: dmlvk first, with whose results those of the others are compared.
        seconds: about so long each library may take for it.
    """
    if task.judged is not None:
        _judge(libraries[0], task.judged)
    inputs, own = task.inputs(), None
    timings: dict[str, Timing] = {}
    with contextlib.ExitStack() as stack:
        runners: dict[str, Prepared] = {}
        for library in libraries:
            try:
                prepared = library.prepare(task, inputs)
                if prepared is None:
                    continue
                stack.callback(prepared.close)
                result = _some(prepared.result())
            except (MemoryError, OutOfMemoryError, DeviceLimitError) as error:
                timings[library.name] = Timing(library.name, "not measured", str(error) or "out of memory")
                if own is None:
                    break
                continue
            own = result if own is None else own
            if fault := difference(result, own, task):
                timings[library.name] = Timing(library.name, "different results", fault)
                continue
            runners[library.name] = prepared
            timings[library.name] = Timing(library.name, "measured")
        settling = _SETTLING_SECONDS if task.unit == "OP/s" and libraries[0].on_gpu and seconds > 0 else 0.0
        for name, (device, wall) in _in_turn(runners, seconds, settling).items():
            timings[name] = Timing(name, "measured", seconds=Spread.of(device), wall_seconds=Spread.of(wall))
    facts = (task.name, task.data_type.name.lower(), task.layout, task.work, task.unit, task.series, task.extent)
    return Result(task.operator_name, *facts, dict(task.attributes), tuple(timings.values()))


def _some(result: Array) -> Array:
    return result.reshape(-1)[:: max(1, result.size // _COMPARED_ELEMENTS)].copy()


def _judge(own: Library, task: Task) -> None:
    """Checks dmlvk's own results by what the operator promises.

    Raises:
        DmlError: when they are wrong.
    """
    inputs = task.inputs()
    prepared = own.prepare(task, inputs)
    assert prepared is not None  # dmlvk has every task
    with contextlib.closing(prepared):
        fault = Judge(task.desc, [np.ascontiguousarray(array) for array in inputs.values()]).fault(
            "", prepared.result()
        )
    if fault is not None:
        raise DmlError(f"{task.name}: dmlvk's own results are wrong: {fault}")


def difference(got: Array, expected: Array, task: Task) -> str:
    """Whether a library computes the same function at all: within what a sloppy float32 or float16 function may err.

    Returns:
        What is different, or nothing.
    """
    if got.size != expected.size:
        return f"{got.size} results instead of {expected.size}"
    is_elementwise = bool(task.layout)
    if expected.dtype.kind == "f":
        tolerances = _TOLERANCES[is_elementwise, 8 * expected.itemsize]
        most = 1.0 if is_elementwise else np.inf
        same = _near(got.astype(np.float64), expected.astype(np.float64), *tolerances, most)
    else:
        same = got.astype(np.int64) == expected.astype(np.int64)
    wrong = np.flatnonzero(~same)
    if wrong.size <= (0 if is_elementwise or expected.dtype.kind == "f" else got.size // 1000):
        return ""
    first = int(wrong[0])
    return f"{wrong.size} of {got.size} results; the first is {got.flat[first]!r} instead of {expected.flat[first]!r}"


def _near(got: Array, expected: Array, relative: float, absolute: float, most: float) -> Array:
    """Which results are the expected ones, within what ``_TOLERANCES`` says; all NaNs are one."""
    largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    with np.errstate(invalid="ignore"):  # infinities
        near: Array = np.abs(got - expected) <= relative * np.abs(expected) + absolute * min(most, largest)
    near &= np.isfinite(expected)
    near |= got == expected
    near |= np.isnan(got) & np.isnan(expected)
    return near


def _in_turn(
    runners: dict[str, Prepared], seconds: float, settling: float
) -> dict[str, tuple[list[float], list[float]]]:
    """Times on the device and by the wall of each, all in turn; each turn after so many seconds of its own work."""
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
            settled = time.perf_counter() + settling
            while time.perf_counter() < settled:
                runner.seconds(repeats[name])
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
