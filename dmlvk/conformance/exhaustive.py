"""Runs an operator on every one of the 2**32 values of a FLOAT32 input.

The inputs are taken in chunks. A worker process writes a unit of inputs, runs the operator, and compares the results
with the reference block by block. Finished chunks are kept on disk, see :mod:`dmlvk.conformance.state`.
"""

from __future__ import annotations

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
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.conformance.workers import Context, Stopped, WorkerCrashError, Workers
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
    workers: Workers,
    directory: Path,
    advance: Callable[[int], None],
    notice: Callable[[str], None],
) -> tuple[CaseReport, list[state.State]]:
    """Runs an operator on all values on each device in turn.

    Args:
        run: what to run.
        devices: where.
        workers: who does it; they have the same devices.
        directory: where the states are kept.
        advance: called with the number of inputs that were finished, by this run or by one before it.
        notice: called with what a user should know, one line each.

    Returns:
        What was found, and the states, to be removed when they are of no more use.

    Raises:
        DeviceRemovedError, WorkerCrashError: when a device is lost or a worker gone; what is finished is stored.
    """
    measurements, states = [], []
    for number, device in enumerate(devices):
        started = time.perf_counter()
        kept = state.State(directory, f"{run.name} on {device.info.name}", _identity(run, device))
        if kept.refusal is not None:
            notice(f"{kept.path}: starting anew: {kept.refusal}")
        states.append(kept)
        advance(CHUNK * len(kept.chunks))

        def take(found: tuple[int, Chunk], kept: state.State = kept) -> None:
            kept.store(*found)
            advance(CHUNK)

        missing = [Part(run, number, i) for i in range(TOTAL // CHUNK) if i not in kept.chunks]
        try:
            workers.run(compute_part, missing, take)
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


@dataclasses.dataclass(frozen=True)
class Part:
    """One chunk of a run: what a worker is given.

    Attributes:
        run: the operator.
        device: its position among the run's devices.
        number: of the chunk.
    """

    run: ExhaustiveRun
    device: int
    number: int


def compute_part(context: Context, part: Part) -> tuple[int, Chunk]:
    """Computes a chunk; returns its number and what is to be stored of it."""
    bench = _bench(context, part)
    tally, digest = Tally(), hashlib.sha256()
    width = 1 << shift(dml.FLOAT32)
    largest = [0.0] * max(1, CHUNK // width)
    for first in range(part.number * CHUNK, (part.number + 1) * CHUNK, UNIT):
        if context.stopped():
            raise Stopped
        patterns, results = bench.run(first)
        digest.update(as_bits(results).data)
        for start in range(0, UNIT, BLOCK):
            block = slice(start, start + BLOCK)
            error = bench.judge(patterns[block].view(np.float32), results[block], tally)
            stretch = (first + start) // width % len(largest)
            largest[stretch] = max(largest[stretch], error)
    return part.number, _as_chunk(tally, digest.hexdigest(), largest)


def _bench(context: Context, part: Part) -> _Bench:
    """The buffers and recorded work of a part's operator, kept from one part to the next."""
    key = (part.run.name, part.device)
    kept: _Bench | None = context.kept.get("exhaustive")
    if kept is None or kept.key != key:
        if kept is not None:
            kept.close()
        kept = context.kept["exhaustive"] = _Bench(key, part.run, context.devices[part.device])
    return kept


class _Bench:
    """Buffers for a unit of inputs and results, with everything recorded."""

    def __init__(self, key: tuple[str, int], run: ExhaustiveRun, device: dml.Device) -> None:
        self.key = key
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
