"""A conformance case of every operator family on a device: whether it keeps its promises, and its bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import dmlvk as dml
from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.results import CaseReport, Extent
from dmlvk.conformance.runner import Case, Request, run
from dmlvk.conformance.samples import Sample, SampleCase, sample_cases

_EXTENT = Extent(patterns=1024, attribute_sets=1)
"""As much of types of more than 16 bits as an emulator computes within seconds."""

_SMALL = Extent(patterns=64, attribute_sets=1)
"""What shows of a small case whether the platform computes: nearly all of its time is the driver's compiler's."""


class _Silent:
    """Watches a run, and says nothing."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, steps: int) -> None: ...

    def notice(self, line: str) -> None: ...


def one_case_each() -> dict[str, Case]:
    """The first case of each family, by the name of the family's module."""
    found: dict[str, Case] = {}
    cases: list[Case] = [*value_cases(), *sample_cases()]
    for case in cases:
        found.setdefault(case.desc_class.__module__.rpartition(".")[2], case)
    return found


class _FirstSample(SampleCase):
    """A case with the first of its samples only, in all memory layouts."""

    def samples(self) -> Iterator[Sample]:
        return itertools.islice(super().samples(), 1)


def chosen(every: int = 1, *, is_small: bool = False) -> list[Case]:
    """The cases of each so many families; small ones are of every family, each with its first sample only."""
    if is_small:
        return [
            _FirstSample(case.desc_class, case.data_types) if isinstance(case, SampleCase) else case
            for case in one_case_each().values()
        ]
    return list(one_case_each().values())[every - 1 :: every]


def outcome(device: dml.Device, case: Case, *, is_small: bool = False) -> dict[str, str]:
    """What became of a case, which is computed on a device and compared with its reference.

    Args:
        device: where it is computed.
        case: what is computed.
        is_small: whether to try few patterns of values.

    Returns:
        ``"fault"``, an empty text where every promise was kept, and ``"sha256"`` of the results.
    """
    plan = _SMALL if is_small else _EXTENT
    request = Request(cases=[case], plan=plan, exhaustive=False, jobs=1, state_directory=None)
    (report,) = run([device], request, _Silent()).cases
    return {"fault": _fault(report), "sha256": report.measurements[0].sha256}


def measured(device: dml.Device, every: int = 1) -> dict[str, dict[str, str]]:
    """What became of the cases of each so many families, by their names."""
    return {case.name: outcome(device, case) for case in chosen(every)}


def _fault(report: CaseReport) -> str:
    (only,) = report.measurements
    if report.kept:
        return ""
    return only.failure or f"{only.broken} of {only.results} results; as in the reference run: {report.reference_run}"
