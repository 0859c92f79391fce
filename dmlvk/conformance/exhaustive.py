"""Runs an operator on every one of the 2**32 values of a FLOAT32 input.

The inputs are taken in chunks, which worker threads work on: each has buffers of its own, writes a unit of inputs, runs
the operator, and compares the results with the reference block by block. While one thread waits for the device, the
others compute references (NumPy lets them). Finished chunks are kept on disk, see :mod:`dmlvk.conformance.state`.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import state
from dmlvk.conformance.cases import ValueCase, typical_attributes
from dmlvk.conformance.comparison import as_bits, compare, compare_errors
from dmlvk.conformance.measurement import Stopped, Tally, attributes_text, case_report, described
from dmlvk.conformance.profile import shift, stretches
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.conformance.results import CaseReport, Element, Measurement, WorstResult
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.operators import OperatorDesc

Array = npt.NDArray[Any]
Chunk = dict[str, Any]

TOTAL = 2**32
"""Inputs of a run."""

CHUNK = 2**24
"""Inputs whose results are finished, hashed and stored together."""

UNIT = 2**22
"""Inputs that are computed by one dispatch."""

BLOCK = 2**15
"""Inputs whose references are computed together: their intermediate arrays stay in the processor's cache."""


@dataclasses.dataclass(frozen=True)
class ExhaustiveRun:
    """An operator with a FLOAT32 input and one set of attributes.

    Attributes:
        case: operator and data types.
        attributes: by their Python names.
    """

    case: ValueCase
    attributes: Mapping[str, Any]

    @property
    def name(self) -> str:
        """``round-float32 exhaustive (rounding_mode=TOWARD_ZERO)``."""
        text = attributes_text(self.attributes)
        return f"{self.case.name} exhaustive ({text})" if text else f"{self.case.name} exhaustive"


def exhaustive_runs(cases: Sequence[ValueCase]) -> list[ExhaustiveRun]:
    """The runs that there are for these cases: element-wise ones of a single FLOAT32 input."""
    return [
        ExhaustiveRun(case, attributes)
        for case in cases
        if [data_type for _, data_type in case.tensors("input")] == [dml.FLOAT32]
        for attributes in typical_attributes(case.desc_class, dml.FLOAT32)
    ]


def measure_exhaustively(
    run: ExhaustiveRun,
    devices: Sequence[dml.Device],
    jobs: int,
    directory: Path,
    stop: threading.Event,
    advance: Callable[[int], None],
    notice: Callable[[str], None],
) -> tuple[CaseReport, list[state.State]]:
    """Runs an operator on all values on each device in turn.

    Args:
        run: what to run.
        devices: where.
        jobs: worker threads.
        directory: where the states are kept.
        stop: set from elsewhere to end the run.
        advance: called with the number of inputs that were finished, by this run or by one before it.
        notice: called with what a user should know, one line each.

    Returns:
        What was found, and the states, to be removed when they are of no more use.

    Raises:
        Stopped: when ``stop`` was set; what is finished is stored.
        DeviceRemovedError: when a device is lost; likewise.
    """
    _keep_freed_memory()
    measurements, states = [], []
    for number, device in enumerate(devices):
        started = time.perf_counter()
        kept = state.State(directory, f"{run.name} on {device.info.name}", _identity(run, device))
        if kept.refusal is not None:
            notice(f"{kept.path}: starting anew: {kept.refusal}")
        states.append(kept)
        advance(CHUNK * len(kept.chunks))
        try:
            _finish(run, device, jobs, kept, stop, advance)
            failure = None
        except (DeviceRemovedError, KeyboardInterrupt, Stopped):
            notice(_so_far(run, kept))
            raise
        except DmlError as error:
            failure = str(error)
        measurements.append(_measurement(run, number, kept.chunks, failure, time.perf_counter() - started))
    inputs = hashlib.sha256(f"{TOTAL} values of float32, {attributes_text(run.attributes)}".encode()).hexdigest()
    report = case_report(
        run.case, name=run.name, exhaustive=True, inputs_sha256=inputs, measurements=tuple(measurements)
    )
    return report, states


def _so_far(run: ExhaustiveRun, kept: state.State) -> str:
    """What is known of a run that ends early."""
    found = _measurement(run, 0, kept.chunks, None, 0.0)
    return (
        f"{run.name}: {found.results:,} of {TOTAL:,} results, {found.broken:,} of them wrong, the largest error is "
        f"{found.largest_error:.4f} ULP; kept in {kept.path}, where the next run goes on"
    )


def _identity(run: ExhaustiveRun, device: dml.Device) -> dict[str, str]:
    """Everything that the results and what is found of them depend on."""
    info = device.info
    compiled = device.compile_operator(device.create_operator(described(run.case, UNIT, run.attributes)))
    return {
        "device": f"{info.name} ({info.vendor_id:#x}:{info.device_id:#x})",
        "driver": f"{info.driver} {info.driver_version}, Vulkan {info.api_version}",
        "shader": hashlib.sha256(b"".join(step.kernel.spirv() for step in compiled.steps)).hexdigest(),
        "operator": run.name,
        "division": f"{TOTAL}/{CHUNK}",
        "definition": _definition_hash(),
    }


@functools.cache
def _definition_hash() -> str:
    """SHA-256 of the references and of what compares with them, and the version of the NumPy that computes them."""
    digest = hashlib.sha256(np.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _finish(
    run: ExhaustiveRun,
    device: dml.Device,
    jobs: int,
    kept: state.State,
    stop: threading.Event,
    advance: Callable[[int], None],
) -> None:
    """Computes the chunks that are missing, and stores each."""
    missing = iter([number for number in range(TOTAL // CHUNK) if number not in kept.chunks])
    halt = threading.Event()
    workers = _Workers(run, device, lambda: halt.is_set() or stop.is_set())
    with contextlib.closing(workers), ThreadPoolExecutor(jobs) as pool:
        unstored: set[Future[tuple[int, Chunk]]] = set()

        def start(count: int) -> None:
            """Not all at once: after an error nothing that waits should still be run."""
            unstored.update(pool.submit(workers.chunk, number) for number in itertools.islice(missing, count))

        def store(future: Future[tuple[int, Chunk]]) -> None:
            kept.store(*future.result())
            unstored.discard(future)
            advance(CHUNK)

        start(jobs)
        try:
            while unstored:
                for future in wait(unstored, return_when=FIRST_COMPLETED).done:
                    store(future)
                    start(1)
        except BaseException:
            halt.set()
            for future in wait(unstored).done:
                if future.exception() is None:
                    store(future)
            raise


class _Workers:
    """What the worker threads share: the operator, and for each thread its buffers."""

    def __init__(self, run: ExhaustiveRun, device: dml.Device, stopped: Callable[[], bool]) -> None:
        self._run = run
        self._device = device
        self._stopped = stopped
        self._local = threading.local()
        self._benches: list[_Bench] = []

    def chunk(self, number: int) -> tuple[int, Chunk]:
        """Computes a chunk; returns its number and what is to be stored of it."""
        bench = getattr(self._local, "bench", None)
        if bench is None:
            bench = self._local.bench = _Bench(self._run, self._device)
            self._benches.append(bench)
        tally, digest = Tally(), hashlib.sha256()
        width = 1 << shift(dml.FLOAT32)
        largest = [0.0] * max(1, CHUNK // width)
        for first in range(number * CHUNK, (number + 1) * CHUNK, UNIT):
            if self._stopped():
                raise Stopped
            patterns, results = bench.run(first)
            digest.update(as_bits(results).data)
            for start in range(0, UNIT, BLOCK):
                block = slice(start, start + BLOCK)
                error = bench.judge(patterns[block].view(np.float32), results[block], tally)
                stretch = (first + start) // width % len(largest)
                largest[stretch] = max(largest[stretch], error)
        return number, _as_chunk(tally, digest.hexdigest(), largest)

    def close(self) -> None:
        """Frees the buffers."""
        for bench in self._benches:
            bench.close()


class _Bench:
    """Buffers for a unit of inputs and results, with everything recorded."""

    def __init__(self, run: ExhaustiveRun, device: dml.Device) -> None:
        desc = described(run.case, UNIT, run.attributes)
        compiled = device.compile_operator(device.create_operator(desc))
        self._result_type = desc.output_type.numpy_dtype
        self._input = device.create_buffer(4 * UNIT)
        self._output = device.create_buffer(UNIT * desc.output_type.size_in_bytes)
        table = device.create_binding_table(compiled)
        table.bind_inputs([dml.BufferBinding(self._input)])
        table.bind_outputs([dml.BufferBinding(self._output)])
        self._recorder = device.create_command_recorder()
        self._recorder.record_dispatch(compiled, table)
        self._numbers = np.arange(UNIT, dtype=np.uint32)
        self._patterns = np.empty(UNIT, np.uint32)
        self._block_desc = described(run.case, BLOCK, run.attributes)
        self._where = attributes_text(run.attributes)
        self._bound: float | None = None
        if has_true_values(desc):
            self._bound = promised_ulp(desc.declaration.accuracy, desc.output_type)

    def run(self, first: int) -> tuple[npt.NDArray[np.uint32], Array]:
        """The patterns from ``first`` on, and the device's results."""
        np.add(self._numbers, np.uint32(first), out=self._patterns)
        self._input.upload(self._patterns)
        self._recorder.execute()
        return self._patterns, self._output.download(self._result_type)

    def judge(self, inputs: Array, results: Array, tally: Tally) -> float:
        """Compares a block of results with the reference; returns the largest error."""
        desc: OperatorDesc = self._block_desc
        expected = expected_output(desc, [inputs])
        if self._bound is None:
            comparison = compare(desc, results, expected)
        else:
            comparison = compare_errors(ulp_errors(results, expected), self._bound)
        tally.add(comparison, results, expected, [inputs], self._where)
        return comparison.largest_error

    def close(self) -> None:
        """Frees the buffers."""
        self._input.close()
        self._output.close()


def _as_chunk(tally: Tally, sha256: str, largest: list[float]) -> Chunk:
    worst = None if tally.worst is None else dataclasses.asdict(tally.worst)
    return {
        "sha256": sha256,
        "results": tally.results,
        "broken": tally.broken,
        "misrounded": tally.misrounded,
        "worst": worst,
        "largest": largest,
    }


def _measurement(
    run: ExhaustiveRun, number: int, chunks: Mapping[int, Chunk], failure: str | None, seconds: float
) -> Measurement:
    """Puts the chunks together; the hash of all results is that of the chunks' hashes, in order."""
    ordered = [chunks[i] for i in sorted(chunks)]
    digest = hashlib.sha256(b"".join(bytes.fromhex(chunk["sha256"]) for chunk in ordered))
    worst = max((_worst_of(chunk) for chunk in ordered if chunk["worst"]), key=lambda w: w.error, default=None)
    profile: list[float | None] = [None] * stretches(dml.FLOAT32)
    for i, chunk in chunks.items():
        begin = i * CHUNK >> shift(dml.FLOAT32)
        for stretch, error in enumerate(chunk["largest"], begin):
            profile[stretch] = max(profile[stretch] or 0.0, error)
    return Measurement(
        device=number,
        results=sum(chunk["results"] for chunk in ordered),
        broken=sum(chunk["broken"] for chunk in ordered),
        misrounded=sum(chunk["misrounded"] for chunk in ordered),
        worst=worst,
        sha256="" if failure else digest.hexdigest(),
        failure=failure,
        profile={run.case.tensors("input")[0][0].name: profile},
        seconds=seconds,
    )


def _worst_of(chunk: Chunk) -> WorstResult:
    found = chunk["worst"]
    elements = {key: Element(**found[key]) for key in ("got", "expected")}
    return WorstResult(
        error=found["error"],
        inputs=tuple(Element(**item) for item in found["inputs"]),
        where=found["where"],
        **elements,
    )


def _keep_freed_memory() -> None:
    """Tells the C library to keep the memory of freed arrays for the next ones.

    glibc hands arrays of more than 128 KiB back to the system as soon as they are freed, which then clears new pages
    for the next one: two thirds of the time that a reference takes. Other C libraries have no such switch.
    """
    if sys.platform == "win32":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, 2**30)
        mallopt(mmap_threshold, 2**30)
