"""The bits of one case of every operator on a device: the same on every platform. No reference is computed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator

import numpy as np

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import Workbench, prepare, run_prepared
from dmlvk.conformance.samples import Sample, sample_cases
from dmlvk.conformance.sampling import run_sample

_ELEMENTS = 1024


def chosen(every: int = 1) -> Iterator[tuple[str, Callable[[Workbench], str]]]:
    """A case of each operator, by its name, and what runs it and returns the hash of its outputs.

    Args:
        every: each so many operators.
    """
    seen: set[str] = set()
    for case in value_cases():
        name = case.desc_class.operator_name
        if name not in seen and not seen.add(name) and len(seen) % every == 0:  # type: ignore[func-returns-value]
            yield case.name, functools.partial(_of_values, case)
    for sampled in sample_cases():
        name = sampled.desc_class.operator_name
        if name not in seen and not seen.add(name) and len(seen) % every == 0:  # type: ignore[func-returns-value]
            sample = next(iter(sampled.samples()))
            yield f"{sampled.name}, {sample.name}", functools.partial(_of_sample, sample)


def _of_values(case: ValueCase, bench: Workbench) -> str:
    found = run_prepared(bench, prepare(case, next(iter(batches(case, _ELEMENTS, 1))), "contiguous"))
    return hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()


def _of_sample(sample: Sample, bench: Workbench) -> str:
    return run_sample(bench, sample.desc, sample.inputs).sha256()


def digests(device: dml.Device, every: int = 1) -> Iterator[tuple[str, str]]:
    """A case's name and the hash of its outputs, for a case of each operator.

    Args:
        device: where they are computed.
        every: each so many operators.
    """
    bench = Workbench(device)
    return ((name, run(bench)) for name, run in chosen(every))
