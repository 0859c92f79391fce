"""The bits of one case of every operator on the default device, as JSON: the same on every platform.

    python scripts/cross/bits.py [--every N]

Run on this machine and on another, or under an emulator, the outputs are compared; no reference is computed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import dmlvk as dml
from dmlvk.conformance.cases import batches, value_cases
from dmlvk.conformance.execution import Workbench, prepare, run_prepared
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import run_sample

_ELEMENTS = 1024


def digests(device: dml.Device, every: int = 1) -> Iterator[tuple[str, str]]:
    """A case's name and the hash of its outputs, for a case of each operator.

    Args:
        device: where they are computed.
        every: each so many operators.
    """
    bench = Workbench(device)
    seen: set[str] = set()
    for case in value_cases():
        name = case.desc_class.operator_name
        if name not in seen and not seen.add(name) and len(seen) % every == 0:  # type: ignore[func-returns-value]
            batch = next(iter(batches(case, _ELEMENTS, 1)))
            found = run_prepared(bench, prepare(case, batch, "contiguous"))
            yield case.name, hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()
    for sampled in sample_cases():
        name = sampled.desc_class.operator_name
        if name not in seen and not seen.add(name) and len(seen) % every == 0:  # type: ignore[func-returns-value]
            sample = next(iter(sampled.samples()))
            yield f"{sampled.name}, {sample.name}", run_sample(bench, sample.desc, sample.inputs).sha256()


def main() -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth operator only")
    options = parser.parse_args()
    with dml.Device() as device:
        json.dump({"device": device.info.name, "bits": dict(digests(device, options.every))}, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
