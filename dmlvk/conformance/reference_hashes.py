"""The hashes of a run that is known to be right, shipped with the package: what every device must give."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dmlvk.conformance.results import CaseReport, Extent, Report
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import write_whole

FILE = Path(__file__).with_name("reference_hashes.json")
"""The shipped file; ``dmlvk conformance --write-hashes`` makes it."""

_INPUT_DIGITS = 16  # Of the inputs' hashes, which guard against mistakes only


@dataclasses.dataclass(frozen=True)
class ReferenceHashes:
    plan: Extent  # how much was tried, for which the hashes hold; exhaustive runs do not depend on it
    made_on: tuple[str, ...]  # the devices that gave them
    cases: dict[str, tuple[str, str]]  # by case name, the hash of the inputs (shortened) and that of the results

    @classmethod
    @functools.cache
    def shipped(cls) -> ReferenceHashes:
        """Those that the package carries."""
        return cls.load(FILE)

    @classmethod
    def load(cls, path: Path) -> ReferenceHashes:
        """Reads a file.

        Raises:
            InvalidArgumentError: when it is none.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            plan, made_on = Extent(**document["plan"]), tuple(document["made_on"])
            return cls(
                plan, made_on, {name: (inputs, outputs) for name, (inputs, outputs) in document["cases"].items()}
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(f"{path}: holds no reference hashes ({error})") from error

    def compared(self, report: CaseReport, plan: Extent) -> CaseReport:
        """The report, with the word on how it compares with these hashes."""
        return dataclasses.replace(report, reference_run=self._word(report, plan))

    def _word(self, report: CaseReport, plan: Extent) -> str:
        if report.arithmetic == "device":
            return "not compared"
        found = self.cases.get(report.name)
        if found is None or (plan != self.plan and not report.exhaustive):
            return "unknown"
        inputs, outputs = found
        if inputs != report.inputs_sha256[:_INPUT_DIGITS]:
            return "other inputs"
        measured = [m.sha256 for m in report.measurements if m.failure is None]
        if not measured:
            return "unknown"
        return "equal" if set(measured) == {outputs} else "different"

    def merged(self, report: Report, existing: Collection[str]) -> ReferenceHashes:
        """These hashes, but for what a run has measured anew.

        Args:
            existing: the names of all cases that there are; hashes of others are dropped.

        Raises:
            InvalidArgumentError: when the run cannot be a reference: a promise was broken in it, or it is incomplete.
        """
        # That bits differ from older hashes is what a new file is made for.
        own = [case.name for case in report.cases if case.arithmetic == "device"]
        if own:
            raise InvalidArgumentError(
                f"this run cannot be a reference: bits are the device's own: {', '.join(own[:5])}"
            )
        broken = [c.name for c in report.cases if not (c.agree and all(m.kept for m in c.measurements))]
        if broken or report.stopped is not None:
            raise InvalidArgumentError(
                f"this run cannot be a reference: {report.stopped or 'promises are broken: ' + ', '.join(broken[:5])}"
            )
        made = {case.name: (case.inputs_sha256[:_INPUT_DIGITS], case.measurements[0].sha256) for case in report.cases}
        kept = {name: hashes for name, hashes in self.cases.items() if self.plan == report.plan and name in existing}
        devices = [f"{info.name}, {info.driver} {info.driver_version}" for info in report.devices]
        return ReferenceHashes(
            report.plan, tuple(dict.fromkeys([*(self.made_on if kept else ()), *devices])), {**kept, **made}
        )

    def write(self, path: Path) -> None:
        """Writes the file, one line for each case."""
        head: dict[str, Any] = {"plan": dataclasses.asdict(self.plan), "made_on": list(self.made_on)}
        lines = [f"  {json.dumps(name)}: {json.dumps(self.cases[name])}" for name in sorted(self.cases)]
        body = ",\n".join(lines)
        text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
        write_whole(path, f'{text},\n "cases": {{\n{body}\n }}\n}}\n')
