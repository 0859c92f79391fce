"""Measures cases: runs them on devices, compares all results with the references, and keeps what was found."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.cases import Batch, ValueCase, batches
from dmlvk.conformance.comparison import Comparison, as_bits, compare, compare_errors
from dmlvk.conformance.execution import LAYOUTS, PreparedBatch, Workbench, prepare, run_prepared
from dmlvk.conformance.profile import Profile
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.conformance.results import CaseReport, Element, Extent, Measurement, WorstResult
from dmlvk.conformance.samples import SampleCase
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.conformance.workers import Stopped, WorkerContext
from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.operators import OperatorDesc
from dmlvk.operators.shapes import member_text

Array = npt.NDArray[Any]

_STRIDED_PATTERNS, _STRIDED_SETS = 2**14, 2
"""How much the access order that knows strides is tried with: only the way to the elements is another there."""


class _Digest(Protocol):
    def update(self, data: Any, /) -> None: ...

    def hexdigest(self) -> str: ...


def layouts(plan: Extent) -> list[tuple[str, int, int | None]]:
    """The memory layouts that a case is tried with, each with its numbers of patterns and of attribute sets."""
    patterns = min(plan.patterns, _STRIDED_PATTERNS)
    sets = min(_STRIDED_SETS, plan.attribute_sets or _STRIDED_SETS)
    return [
        (layout, *((plan.patterns, plan.attribute_sets) if layout == "contiguous" else (patterns, sets)))
        for layout in LAYOUTS
    ]


class Tally:
    def __init__(self) -> None:
        self.results = self.broken = self.misrounded = 0
        self.worst: WorstResult | None = None

    def add(self, comparison: Comparison, got: Array, expected: Array, inputs: Sequence[Array], where: str) -> None:
        """Takes in a comparison; the arrays are those that were compared."""
        self.results += comparison.count
        self.broken += comparison.broken
        self.misrounded += comparison.misrounded
        if comparison.worst is None or (self.worst is not None and comparison.largest_error <= self.worst.error):
            return
        element = comparison.worst
        self.worst = WorstResult(
            error=comparison.largest_error,
            inputs=tuple(Element.of(values.reshape(-1)[element]) for values in inputs),
            got=Element.of(got.reshape(-1)[element]),
            expected=Element.of(expected.reshape(-1)[element]),
            where=where,
        )


def promised_bound(case: ValueCase) -> float | None:
    """The largest error that is promised for a case's results, in units in the last place; None: bits are compared."""
    output_type = case.tensors("output")[0][1]
    accuracy = case.desc_class.declaration.accuracy
    if accuracy.promise != "accurate" or not output_type.is_float:
        return None
    return promised_ulp(accuracy, output_type)


def is_settled(case: ValueCase) -> bool:
    """Whether a definition settles every bit of a case: not where an activation of class «accurate» is fused."""
    return promised_bound(case) is None and not any(field.fusable for field in case.desc_class.fields)


def case_report(case: ValueCase | SampleCase, **found: Any) -> CaseReport:
    facts: dict[str, Any] = {
        "name": case.name,
        "operator": case.desc_class.operator_name,
        "data_types": {member_text(attribute): data_type.name for attribute, data_type in case.data_types},
        "exhaustive": False,
        "promise": case.desc_class.declaration.accuracy.promise,
        "bound": promised_bound(case) if isinstance(case, ValueCase) else None,
        "reference_run": "unknown",
    }
    return CaseReport(**{**facts, **found})


class DeviceRun:
    def __init__(self, number: int, bench: Workbench) -> None:
        self.bench = bench
        self.tally = Tally()
        self.digest = hashlib.sha256()
        self.failure: str | None = None
        self.seconds = 0.0
        self.profiles: dict[str, tuple[int, Profile]] = {}  # by inputs, with their places among them
        self._number = number

    def measurement(self) -> Measurement:
        return Measurement(
            device=self._number,
            results=self.tally.results,
            broken=self.tally.broken,
            misrounded=self.tally.misrounded,
            worst=self.tally.worst,
            sha256="" if self.failure else self.digest.hexdigest(),
            failure=self.failure,
            profile={member: profile.as_list() for member, (_, profile) in self.profiles.items()},
            seconds=self.seconds,
        )


class _CaseRun(DeviceRun):
    def __init__(self, number: int, bench: Workbench, case: ValueCase) -> None:
        super().__init__(number, bench)
        self.profiles = {
            field.name: (position, Profile(data_type))
            for position, (field, data_type) in enumerate(case.tensors("input"))
            if promised_bound(case) is not None and data_type in (dml.FLOAT32, dml.FLOAT16)
        }

    def take(self, prepared: PreparedBatch, expected: Array, where: str) -> None:
        """Runs a batch and judges the results; an error of the driver ends this device's part in the case."""
        started = time.perf_counter()
        try:
            got = run_prepared(self.bench, prepared)
        except DeviceRemovedError:
            raise
        except DmlError as error:
            self.failure = f"{where}: {error}"
            return
        self.digest.update(as_bits(got).data)
        if has_true_values(prepared.desc):
            errors = ulp_errors(got, expected)
            bound = promised_ulp(prepared.desc.accuracy, prepared.desc.output_type)
            comparison = compare_errors(errors, bound)
            for position, profile in self.profiles.values():
                profile.add(prepared.inputs[position], errors)
        else:
            comparison = compare(prepared.desc, got, expected)
        self.tally.add(comparison, got, expected, prepared.inputs, where)
        self.seconds += time.perf_counter() - started


def measure_case(context: WorkerContext, case: ValueCase, plan: Extent) -> CaseReport:
    """Runs a case on every device, with all memory layouts.

    Raises:
        Stopped: when the run was asked to end.
        DeviceRemovedError: when a device is lost. Other errors of a device become its measurement's failure.
    """
    runs = [_CaseRun(number, bench, case) for number, bench in enumerate(context.benches)]
    inputs_digest = hashlib.sha256()
    for layout, total, sets in layouts(plan):
        for batch in batches(case, total, sets):
            if context.stopped():
                raise Stopped
            if layout == "contiguous":
                update_inputs(inputs_digest, batch)
            prepared = prepare(case, batch, layout)
            expected = expected_output(prepared.desc, prepared.inputs)
            where = ", ".join(filter(None, (layout, batch.name, attributes_text(batch.attributes))))
            for run in runs:
                if run.failure is None:
                    run.take(prepared, expected, where)
    return case_report(
        case, inputs_sha256=inputs_digest.hexdigest(), measurements=tuple(run.measurement() for run in runs)
    )


def reference_digests(case: ValueCase, plan: Extent) -> tuple[str, str]:
    """SHA-256 of a case's inputs, and of what the reference function gives for them; no device takes part.

    The second one is empty where no definition settles the last bit.
    """
    inputs_digest, outputs_digest = hashlib.sha256(), hashlib.sha256()
    settled = is_settled(case)
    for layout, total, sets in layouts(plan):
        for batch in batches(case, total, sets):
            if layout == "contiguous":
                update_inputs(inputs_digest, batch)
            if settled:
                prepared = prepare(case, batch, layout)
                outputs_digest.update(as_bits(expected_output(prepared.desc, prepared.inputs)).data)
    return inputs_digest.hexdigest(), outputs_digest.hexdigest() if settled else ""


def update_inputs(digest: _Digest, batch: Batch) -> None:
    """Feeds a batch's attributes and inputs to a digest."""
    digest.update(attributes_text(batch.attributes).encode())
    for values in batch.inputs:
        digest.update(as_bits(values).data)


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """``alpha=0.5, scale_bias=(1.5, 0.25)``: the same on every machine; what is absent is left out."""
    return ", ".join(f"{name}={_value_text(value)}" for name, value in attributes.items() if value is not None)


def _value_text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"({', '.join(_value_text(getattr(value, field.name)) for field in dataclasses.fields(value))})"
    if isinstance(value, float):
        return repr(float(np.float32(value)))
    return repr(value)


def described(case: ValueCase, count: int, attributes: Mapping[str, Any]) -> OperatorDesc:
    """A case's description for packed tensors of one dimension."""
    tensors = {attribute: dml.TensorDesc(data_type, (count,)) for attribute, data_type in case.data_types}
    return case.desc_class(**tensors, **attributes)
