"""What a conformance run finds: plain records, and their form as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dmlvk as dml

FORMAT = 1  # Of the JSON document; counts up when its meaning changes


@dataclasses.dataclass(frozen=True)
class Element:
    bits: str  # ``"0x3f800000"``
    value: str  # ``"1.0"``

    @classmethod
    def of(cls, element: Any) -> Element:
        """The element of a NumPy array."""
        bits = int(np.array([element]).view(f"u{element.dtype.itemsize}")[0])
        return cls(f"0x{bits:0{2 * element.dtype.itemsize}x}", str(element))

    def __str__(self) -> str:
        return f"{self.bits} ({self.value})"


@dataclasses.dataclass(frozen=True)
class WorstResult:
    """The result that lies furthest from the definition."""

    # in units in the last place of the output's data type (integers: in ones); infinite for what is wrong altogether
    error: float
    inputs: tuple[Element, ...]  # the operands
    got: Element  # what the device gave
    expected: Element  # what it should have given; where the reference gives true values, that value (a float64)
    where: str  # memory layout, kind of inputs and attributes


@dataclasses.dataclass(frozen=True)
class Measurement:
    device: int  # its position among the report's devices
    results: int  # how many were compared
    broken: int  # how many break the promise
    misrounded: int  # how many are not the number nearest to the true value
    worst: WorstResult | None  # the one with the largest error; None when all are exact
    sha256: str  # of all results, in order; empty when the case could not be run to its end
    failure: str | None  # why it could not; None for a case that was
    # by input member (DirectML's names) the largest error in each stretch of that input's number line, as
    # :mod:`dmlvk.conformance.profile` divides it; None where no input fell. Empty where bits are compared
    profile: dict[str, list[float | None]]
    seconds: float  # how long it took, references included

    @property
    def kept(self) -> bool:
        return self.failure is None and self.broken == 0

    @property
    def largest_error(self) -> float:
        return 0.0 if self.worst is None else self.worst.error


@dataclasses.dataclass(frozen=True)
class CaseReport:
    """An operator with one combination of data types, on every device."""

    # the case, such as ``"exp-float32"``; of an exhaustive run ``"exp-float32 exhaustive"``, with the attributes
    # behind it, if there are any
    name: str
    operator: str  # DirectML's name
    data_types: dict[str, str]  # by tensor member (DirectML's names)
    exhaustive: bool  # whether every one of the 2**32 values of a FLOAT32 input was tried
    promise: str  # ``"exact"``, ``"correctly rounded"`` or ``"accurate"``
    bound: float | None  # the largest error that is promised, in units in the last place; None where bits are compared
    inputs_sha256: str  # of all inputs and attributes, so that runs with other inputs are not taken for wrong ones
    # how the results compare with the run whose hashes the package carries: ``"equal"``, ``"different"``, ``"other
    # inputs"``, ``"unknown"`` where it has no such run, or ``"not compared"`` where bits are the device's own
    reference_run: str
    measurements: tuple[Measurement, ...]  # one for each device
    # ``"device"`` where sums were rounded as the device likes: then results must be within the stated error, and bits
    # mean nothing. Else ``"portable"``
    arithmetic: str = "portable"

    @property
    def agree(self) -> bool:
        """Whether all devices gave the same bits, where they must."""
        return (
            self.arithmetic == "device"
            or len({measured.sha256 for measured in self.measurements if measured.failure is None}) <= 1
        )

    @property
    def kept(self) -> bool:
        """Whether every promise was kept: by each result, and of the same bits everywhere."""
        measured = self.reference_is_doubted or all(m.kept for m in self.measurements)
        return self.agree and self.reference_run != "different" and measured

    @property
    def reference_is_doubted(self) -> bool:
        """Whether results differ from what the reference computes here, though their bits are the reference run's.

        The results of that run kept every promise, so it is the reference that computes something else on this machine.
        """
        complete = all(m.failure is None for m in self.measurements)
        return complete and self.reference_run == "equal" and any(m.broken for m in self.measurements)


@dataclasses.dataclass(frozen=True)
class Extent:
    patterns: int = 2**18  # values of each data type of more than 16 bits
    attribute_sets: int | None = 8  # sets of attributes; None: all that there are

    def __str__(self) -> str:
        return f"{self.patterns} patterns, {self.attribute_sets or 'all'} attribute sets"


@dataclasses.dataclass(frozen=True)
class Report:
    devices: tuple[dml.DeviceInfo, ...]  # those that were measured
    plan: Extent  # how much was tried
    exhaustive: bool  # whether exhaustive runs were asked for
    planned: int  # how many cases there were to measure, exhaustive ones included
    cases: tuple[CaseReport, ...]  # those that were measured
    stopped: str | None  # why the run ended early, in one clause; None for a complete one
    started: str  # when it began, ISO 8601
    seconds: float  # how long it took
    versions: dict[str, str]  # of dmlvk, NumPy and Python

    @property
    def broken(self) -> tuple[CaseReport, ...]:
        """The cases in which a promise was not kept."""
        return tuple(case for case in self.cases if not case.kept)

    @property
    def doubted(self) -> tuple[CaseReport, ...]:
        """The cases whose reference, as this machine computes it, is doubted: the device is not."""
        return tuple(case for case in self.cases if case.reference_is_doubted)

    @property
    def results(self) -> int:
        return sum(measured.results for case in self.cases for measured in case.measurements)

    @property
    def verdict(self) -> str:
        names = " and ".join(info.name for info in self.devices)
        done = f"{len(self.cases)} cases" if self.stopped is None else f"{len(self.cases)} of {self.planned} cases"
        tried = f"{done}, {self.results:,} results"
        if self.broken:
            line = f"BROKEN: {names}: {len(self.broken)} of {tried} break a promise: {_names(self.broken)}"
        elif self.stopped is not None:
            line = f"INCOMPLETE: {names}: {tried}, every promise kept so far"
        else:
            line = f"KEPT: {names}: {tried}, every promise kept"
        equal = sum(case.reference_run == "equal" for case in self.cases)
        if equal and not self.broken:
            line += ", bits equal to the reference run" + ("" if equal == len(self.cases) else f" in {equal} cases")
        if own := [case for case in self.cases if case.arithmetic == "device"]:
            word = (
                "bits not compared"
                if any(not case.kept for case in own)
                else "within the stated error, bits not compared"
            )
            line += f"; DEVICE ARITHMETIC in {len(own)} cases ({word}): {_names(own)}"
        if self.doubted:
            numpy = f"NumPy {self.versions.get('numpy', '')}".strip()
            line += f"; DOUBTED: not the device but this machine's references ({numpy}): {_names(self.doubted)}"
        return line if self.stopped is None else f"{line} ({self.stopped})"


def _names(cases: Sequence[CaseReport]) -> str:
    return ", ".join(case.name for case in cases[:5]) + (", …" if len(cases) > 5 else "")


def report_as_json(report: Report) -> dict[str, Any]:
    """Everything about a run, ready for ``json.dumps``: infinite errors are the text ``"infinity"``."""
    document: dict[str, Any] = _plain(dataclasses.asdict(report))
    for case, written in zip(report.cases, document["cases"], strict=True):
        written["kept"], written["reference_is_doubted"] = case.kept, case.reference_is_doubted
    return {"format": FORMAT, "verdict": report.verdict, "kept": not report.broken, **document}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity" if value > 0 else str(value)
    return value
