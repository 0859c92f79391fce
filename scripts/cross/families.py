"""A conformance case of every operator family on the default device, as JSON: whether it keeps its promises, its bits.

    python scripts/cross/families.py [--every N]

The results are compared with the references there, and by whoever reads this with the bits of another machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dmlvk as dml
from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.results import CaseReport, Extent
from dmlvk.conformance.runner import Case, Request, run
from dmlvk.conformance.samples import sample_cases

_EXTENT = Extent(patterns=1024, attribute_sets=1)
"""As much of types of more than 16 bits as an emulator computes within seconds."""


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


def measured(device: dml.Device, every: int = 1) -> dict[str, dict[str, Any]]:
    """What became of the cases, by their names.

    Args:
        device: where they are computed.
        every: each so many families.

    Returns:
        ``"fault"``, an empty text where every promise was kept, and ``"sha256"`` of the results.
    """
    cases = list(one_case_each().values())[every - 1 :: every]
    request = Request(cases=cases, plan=_EXTENT, exhaustive=False, jobs=1, state_directory=None)
    report = run([device], request, _Silent())
    return {each.name: {"fault": _fault(each), "sha256": each.measurements[0].sha256} for each in report.cases}


def _fault(report: CaseReport) -> str:
    (only,) = report.measurements
    if report.kept:
        return ""
    return only.failure or f"{only.broken} of {only.results} results; as in the reference run: {report.reference_run}"


def main() -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth family only")
    options = parser.parse_args()
    with dml.Device() as device:
        json.dump({"device": device.info.name, "cases": measured(device, options.every)}, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
