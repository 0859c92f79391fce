"""Measures the cases of operators that are tried by samples."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Mapping

import numpy as np

from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.facets import result_of
from dmlvk.conformance.measurement import DeviceRun, case_report
from dmlvk.conformance.references.bounded import Expected, expected_outputs, wrong_elements
from dmlvk.conformance.references.device_arithmetic import is_rounded_by_device, outputs_within_error
from dmlvk.conformance.results import CaseReport, Element, WorstResult
from dmlvk.conformance.samples import Sample, SampleCase
from dmlvk.conformance.sampling import LAYOUTS, Outcome, laid_out, run_sample
from dmlvk.conformance.workers import Stopped, WorkerContext
from dmlvk.errors import DeviceRemovedError, DmlError


class _SampleRun(DeviceRun):
    """What one device does in one case.

    Args:
        has_settled_bits: whether every layout must give the same bits.
    """

    def __init__(self, number: int, bench: Workbench, has_settled_bits: bool) -> None:
        super().__init__(number, bench)
        self._has_settled_bits = has_settled_bits

    def take(self, sample: Sample, expected: Mapping[str, Expected]) -> None:
        """Runs a sample in all layouts; an error of the driver, or a damaged byte, ends this device's part."""
        started = time.perf_counter()
        first: str | None = None
        for layout in LAYOUTS:
            where = f"{sample.name}, {layout}"
            try:
                outcome = run_sample(self.bench, laid_out(sample.desc, layout), sample.inputs)
            except DeviceRemovedError:
                raise
            except DmlError as error:
                self.failure = f"{where}: {error}"
                return
            if first is None:
                first = outcome.sha256()
                self.digest.update(first.encode())
            elif self._has_settled_bits and outcome.sha256() != first:
                self.failure = f"{where}: other bits than in the layout {LAYOUTS[0]}"
            if outcome.damage is not None:
                self.failure = f"{where}: {outcome.damage}"
            self._judge(outcome, expected, where)
            if self.failure is not None:
                return
        self.seconds += time.perf_counter() - started

    def _judge(self, outcome: Outcome, expected: Mapping[str, Expected], where: str) -> None:
        for name, values in outcome.outputs.items():
            wrong = wrong_elements(values, expected[name])
            self.tally.results += values.size
            count = int(np.count_nonzero(wrong))
            self.tally.broken += count
            self.tally.misrounded += count
            if count and self.tally.worst is None:
                element = tuple(int(i) for i in np.argwhere(wrong)[0])
                true = expected[name]
                wanted = true[element] if isinstance(true, np.ndarray) else true.values[element]
                text = f"{where}, {name}{list(element)}"
                self.tally.worst = WorstResult(float("inf"), (), Element.of(values[element]), Element.of(wanted), text)


def measure_sample_case(context: WorkerContext, case: SampleCase) -> CaseReport:
    """Runs all samples of a case on every device, in all memory layouts.

    Raises:
        Stopped: when the run was asked to end.
        DeviceRemovedError: when a device is lost. Other errors of a device become its measurement's failure.
    """
    of_halves = any(device.target.has_cooperative_halves for device in context.devices)
    own = is_rounded_by_device(case.desc_class.operator_name, dict(case.data_types), of_halves=of_halves)
    arithmetic = "device" if own and any(device.arithmetic == "device" for device in context.devices) else "portable"
    reference = expected_outputs if arithmetic == "portable" else outputs_within_error
    runs = [_SampleRun(number, bench, arithmetic == "portable") for number, bench in enumerate(context.benches)]
    inputs_digest = hashlib.sha256()
    for sample in case.samples():
        if context.stopped():
            raise Stopped
        _update(inputs_digest, sample)
        desc, inputs = sample.desc, sample.inputs
        expected = result_of(desc.operator_name, "reference", functools.partial(reference, desc, inputs))
        for run in runs:
            if run.failure is None:
                run.take(sample, expected)
    found = tuple(run.measurement() for run in runs)
    return case_report(case, inputs_sha256=inputs_digest.hexdigest(), measurements=found, arithmetic=arithmetic)


def _update(digest: hashlib._Hash, sample: Sample) -> None:
    digest.update(f"{sample.name}: {sample.desc!r}".encode())
    for name, values in sample.inputs.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(values).view(np.uint8).data)
