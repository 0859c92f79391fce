"""The bits of one case of every operator on the default device, as JSON: the same on every platform.

    python scripts/cross/bits.py [--every N] [--skip N]

Run on this machine and on another, or under an emulator, the outputs are compared; no reference is computed. Every
operator has a line before it is run (``begun``) and one with its digest: a driver may end the process.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

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


def main() -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth operator only")
    parser.add_argument("--skip", metavar="N", type=int, default=0, help="of those, not the first N")
    options = parser.parse_args()
    with dml.Device() as device:
        bench = Workbench(device)
        for name, run in itertools.islice(chosen(options.every), options.skip, None):
            print(json.dumps({"begun": name}), flush=True)
            print(json.dumps({"name": name, "sha256": run(bench)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
