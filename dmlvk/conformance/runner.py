"""A whole conformance run: which cases, on which devices, in which order, and how it ends."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import functools
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

import dmlvk as dml
from dmlvk.conformance import exhaustive
from dmlvk.conformance.cases import ValueCase, value_cases
from dmlvk.conformance.facets import FacetError
from dmlvk.conformance.measurement import case_report, measure_case
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.results import CaseReport, Extent, Measurement, Report
from dmlvk.conformance.sample_measurement import measure_sample_case
from dmlvk.conformance.samples import SampleCase, sample_cases
from dmlvk.conformance.state import RunState
from dmlvk.conformance.workers import WorkerContext, WorkerCrashError, Workers
from dmlvk.errors import DeviceRemovedError, InvalidArgumentError
from dmlvk.operators import OWN_OPERATORS, operators_named

_CASES_FOR_ONE_PROCESS = 20  # So many cases take less time than starting other processes

_MOST_COMPARING = 24  # Processes that compare results of exhaustive runs: more than these no device keeps busy

INTERRUPTED = "interrupted"  # Why a run ended early, when somebody wished so


class Watcher(Protocol):
    """Is told how a run goes on, from the thread that called :func:`run`."""

    def begin(self, what: str, total: int) -> None:
        """A part of the run begins, of so many steps."""

    def advance(self, steps: int) -> None:
        """Steps were made."""

    def notice(self, line: str) -> None:
        """Something that a user should know."""


Case: TypeAlias = "ValueCase | SampleCase"  # An operator with data types, tried by values or by samples


def selected_cases(wanted: Sequence[str]) -> list[Case]:
    """The cases that texts and globs name; all for none.

    What names operators names all of their cases: see :func:`dmlvk.operators.operators_named`. Else a case's whole name
    means this case, a glob those whose names it matches, another text those whose names have it as a part. Upper and
    lower case are the same.

    Raises:
        InvalidArgumentError: when one of them names nothing.
    """
    cases: list[Case] = [*value_cases(), *sample_cases()]
    if not wanted:
        return cases
    chosen: set[Case] = set()
    for text in wanted:
        operators = operators_named(text)
        found = [case for case in cases if case.desc_class.operator_name in operators]
        found = found or [case for case in cases if case.name == text.lower()]
        found = found or [case for case in cases if _matches(text.lower(), case.name)]
        if not found and text.upper() in OWN_OPERATORS:
            raise InvalidArgumentError(
                f"{text.upper()} is declared with is_listed=False: conformance runs listed operators alone"
            )
        if not found:
            raise InvalidArgumentError(f"no operator and no case is called {text!r} (see `dmlvk operators`)")
        chosen.update(found)
    return [case for case in cases if case in chosen]


def _matches(text: str, case_name: str) -> bool:
    if any(character in text for character in "*?["):
        return any(fnmatch.fnmatchcase(name, text) for name in (case_name, case_name.removeprefix("activation_")))
    return text in case_name


@dataclasses.dataclass(frozen=True)
class Request:
    cases: Sequence[Case]  # operators with data types
    plan: Extent  # how much is tried of each
    exhaustive: bool  # whether FLOAT32 operators of one operand are tried with all values, too
    jobs: int  # processes that work at the same time
    state_directory: Path | None  # where unfinished exhaustive runs are kept; ``None``: nowhere


def run(devices: Sequence[dml.Device], request: Request, watcher: Watcher) -> Report:
    """Measures everything that was asked for; an interrupt or a lost device ends the run with what there is.

    The states of exhaustive runs are removed when all is complete.
    """
    started, clock = datetime.datetime.now(datetime.timezone.utc), time.perf_counter()
    by_values = [case for case in request.cases if isinstance(case, ValueCase)]
    every = exhaustive.exhaustive_runs(by_values) if request.exhaustive else []
    hashes = ReferenceHashes.shipped()
    found: list[CaseReport] = []
    states: list[RunState] = []
    stopped = None
    try:
        _measure_cases(devices, request, hashes, watcher, found)
        _measure_exhaustive_runs(devices, request, every, hashes, watcher, found, states)
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    except (DeviceRemovedError, WorkerCrashError) as error:
        stopped = str(error)
    if stopped is None:
        for state in states:
            state.remove()
    order = {name: i for i, name in enumerate([*(c.name for c in request.cases), *(r.name for r in every)])}
    return Report(
        devices=tuple(device.info for device in devices),
        plan=request.plan,
        exhaustive=request.exhaustive,
        planned=len(request.cases) + len(every),
        cases=tuple(sorted(found, key=lambda case: (case.exhaustive, order[case.name]))),
        stopped=stopped,
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        versions={"dmlvk": dml.__version__, "numpy": np.__version__, "python": platform.python_version()},
    )


def _measure_cases(
    devices: Sequence[dml.Device], request: Request, hashes: ReferenceHashes, watcher: Watcher, found: list[CaseReport]
) -> None:
    watcher.begin("cases", len(request.cases))
    jobs = request.jobs if len(request.cases) > _CASES_FOR_ONE_PROCESS else 1

    def take(report: CaseReport) -> None:
        found.append(hashes.compared(report, request.plan))
        watcher.advance(1)

    with Workers(devices, jobs) as workers:
        workers.run(functools.partial(_measured, plan=request.plan), request.cases, take)


def _measured(context: WorkerContext, case: Case, plan: Extent) -> CaseReport:
    """A case's report; of one whose operator's reference or sampler is at fault, with that line for every device."""
    try:
        return measure_sample_case(context, case) if isinstance(case, SampleCase) else measure_case(context, case, plan)
    except FacetError as error:
        failed = tuple(
            Measurement(number, 0, 0, 0, None, "", str(error), {}, 0.0) for number in range(len(context.devices))
        )
        return case_report(case, inputs_sha256="", measurements=failed)


def _measure_exhaustive_runs(
    devices: Sequence[dml.Device],
    request: Request,
    runs: Sequence[exhaustive.ExhaustiveRun],
    hashes: ReferenceHashes,
    watcher: Watcher,
    found: list[CaseReport],
    states: list[RunState],
) -> None:
    if not runs:
        return
    watcher.begin("values", exhaustive.TOTAL * len(devices) * len(runs))
    with Workers(
        (), min(request.jobs, _MOST_COMPARING)
    ) as workers:  # they compare; this process works with the devices
        for each in runs:
            report, kept = exhaustive.measure_exhaustively(
                each, devices, workers, request.state_directory, watcher.advance, watcher.notice
            )
            states.extend(kept)
            found.append(hashes.compared(report, request.plan))
