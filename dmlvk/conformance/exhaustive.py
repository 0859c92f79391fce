"""Runs an operator on every one of the 2**32 values of a FLOAT32 input.

The inputs are taken in chunks. This process has the device compute them (:mod:`dmlvk.conformance.streaming`), worker
processes hash the results and compare them with the reference, block by block. Finished chunks are kept on disk
(:mod:`dmlvk.conformance.state`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import state
from dmlvk.conformance.cases import ValueCase, typical_attributes
from dmlvk.conformance.comparison import as_bits, compare, compare_errors
from dmlvk.conformance.measurement import Tally, attributes_text, case_report, described
from dmlvk.conformance.profile import shift, stretches
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.conformance.results import CaseReport, Element, Measurement, WorstResult
from dmlvk.conformance.streaming import Bench, Slots, computed, results_in, slots_needed
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.conformance.workers import Stopped, WorkerContext, WorkerCrashError, Workers
from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.operators import OperatorDesc

Array = npt.NDArray[Any]
Chunk = dict[str, Any]

TOTAL = 2**32  # Inputs of a run

CHUNK = 2**24  # Inputs whose results are finished, hashed and stored together

UNIT = 2**22  # Inputs that are computed by one dispatch

BLOCK = 2**15  # Inputs whose references are computed together: their intermediate arrays stay in the processor's cache


@dataclasses.dataclass(frozen=True)
class ExhaustiveRun:
    """An operator with a FLOAT32 input and one set of attributes."""

    case: ValueCase  # operator and data types
    attributes: Mapping[str, Any]  # by their Python names

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
        and case.desc_class.declaration.pattern == "elementwise"
        for attributes in typical_attributes(case.desc_class, dml.FLOAT32)
    ]


def measure_exhaustively(
    run: ExhaustiveRun,
    devices: Sequence[dml.Device],
    workers: Workers,
    directory: Path | None,  # where the states are kept; ``None``: nowhere
    # called with the number of inputs that were finished, by this run or by one before it
    advance: Callable[[int], None],
    notice: Callable[[str], None],  # called with what a user should know, one line each
) -> tuple[CaseReport, list[state.RunState]]:
    """Runs an operator on all values on each device in turn.

    Returns:
        What was found, and the states, to be removed when they are of no more use.

    Raises:
        DeviceRemovedError, WorkerCrashError: when a device is lost or a worker gone; what is finished is stored.
    """
    measurements, states = [], []
    for number, device in enumerate(devices):
        started = time.perf_counter()
        kept = state.RunState(directory, f"{run.name} on {device.info.name}", _identity(run, device))
        if kept.refusal is not None:
            notice(f"{kept.path}: starting anew: {kept.refusal}")
        states.append(kept)
        advance(CHUNK * len(kept.chunks))

        missing = [i for i in range(TOTAL // CHUNK) if i not in kept.chunks]
        try:
            _compute(run, device, workers, missing, kept, advance)
            failure = None
        except (DeviceRemovedError, WorkerCrashError, KeyboardInterrupt):
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


def _compute(
    run: ExhaustiveRun,
    device: dml.Device,
    workers: Workers,
    numbers: Sequence[int],
    kept: state.RunState,
    advance: Callable[[int], None],
) -> None:
    """Has chunks computed and compared, and stores what was found of each."""
    desc = described(run.case, UNIT, run.attributes)
    size = CHUNK * desc.output_type.size_in_bytes
    with contextlib.closing(Slots(size, slots_needed(workers.in_flight))) as slots:

        def take(found: tuple[WorkerChunk, Chunk]) -> None:
            part, chunk = found
            slots.give_back(part.slot)
            kept.store(part.number, chunk)
            advance(CHUNK)

        chunks = computed(lambda: Bench(device, desc), desc.output_type, slots, numbers, CHUNK)
        with contextlib.closing(chunks):
            workers.run(judge_part, (WorkerChunk(run, number, slot) for number, slot in chunks), take)


def _so_far(run: ExhaustiveRun, kept: state.RunState) -> str:
    """What is known of a run that ends early."""
    found = _measurement(run, 0, kept.chunks, None, 0.0)
    where = "not kept" if kept.path is None else f"kept in {kept.path}, where the next run goes on"
    return (
        f"{run.name}: {found.results:,} of {TOTAL:,} results, {found.broken:,} of them wrong, the largest error is "
        f"{found.largest_error:.4f} ULP; {where}"
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


@dataclasses.dataclass(frozen=True)
class WorkerChunk:
    """One chunk of a run with its results: what a worker is given."""

    run: ExhaustiveRun  # the operator
    number: int  # of the chunk
    slot: Path  # the file that holds the results


def judge_part(context: WorkerContext, part: WorkerChunk) -> tuple[WorkerChunk, Chunk]:
    """Hashes and compares a chunk's results; returns what is to be stored of them."""
    judge = _ResultJudge(part.run)
    return part, judge.judged(context, part.number * CHUNK, results_in(part.slot, judge.result_type, CHUNK))


class _ResultJudge:
    """Compares results of a run's operator with the reference."""

    def __init__(self, run: ExhaustiveRun) -> None:
        self._desc: OperatorDesc = described(run.case, BLOCK, run.attributes)
        self.result_type = self._desc.output_type
        self._where = attributes_text(run.attributes)
        self._bound: float | None = None
        if has_true_values(self._desc):
            self._bound = promised_ulp(self._desc.accuracy, self._desc.output_type)

    def judged(self, context: WorkerContext, first: int, results: Array) -> Chunk:
        """What is to be stored of the results of the inputs from ``first`` on."""
        width = 1 << shift(dml.FLOAT32)
        largest = [0.0] * max(1, CHUNK // width)
        tally, digest = Tally(), hashlib.sha256()
        numbers = np.arange(BLOCK, dtype=np.uint32)
        for start in range(0, CHUNK, BLOCK):
            if context.stopped():
                raise Stopped
            block = np.array(results[start : start + BLOCK])
            digest.update(as_bits(block).data)
            inputs = (numbers + np.uint32(first + start)).view(np.float32)
            stretch = (first + start) // width % len(largest)
            largest[stretch] = max(largest[stretch], self._error(inputs, block, tally))
        return _as_chunk(tally, digest.hexdigest(), largest)

    def _error(self, inputs: Array, results: Array, tally: Tally) -> float:
        """Compares a block of results; returns the largest error."""
        expected = expected_output(self._desc, [inputs])
        if self._bound is None:
            comparison = compare(self._desc, results, expected)
        else:
            comparison = compare_errors(ulp_errors(results, expected), self._bound)
        tally.add(comparison, results, expected, [inputs], self._where)
        return comparison.largest_error


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
