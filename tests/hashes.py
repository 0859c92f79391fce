"""Runs the value cases on every device and prints the SHA-256 of each operator's results: ``python -m tests.hashes``.

Equal hashes on two machines mean equal bits there:

    python -m tests.hashes --json here.json               the same on the other machine
    python -m tests.hashes --compare here.json there.json

Exit status: 0 when every hash is that of the reference, or of the first device where there is no reference (comparing:
when all agree), 1 when not, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dmlvk as dml
from dmlvk.conformance.cases import PATTERNS, ValueCase, batches, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import Workbench, prepare, run_prepared
from dmlvk.conformance.references import expected_output, has_true_values

REFERENCE = "reference"
"""Name of the reference's column in the report. Operators of class «accurate» have none: only true values are known."""


def hashes_of(
    case: ValueCase, benches: Sequence[Workbench], patterns: int, attribute_sets: int | None
) -> dict[str, str]:
    """SHA-256 over a case's results, packed and strided: the reference's, if it gives bits, and each device's."""
    digests = {_name(bench.device): hashlib.sha256() for bench in benches}
    reference, has_bits = hashlib.sha256(), False
    strided = (min(patterns, 2**19), min(6, attribute_sets or 6))
    for layout, (total, most) in (("contiguous", (patterns, attribute_sets)), ("strided", strided), ("apart", strided)):
        for batch in batches(case, total, most):
            prepared = prepare(case, batch, layout)
            has_bits = not has_true_values(prepared.desc)
            if has_bits:
                reference.update(as_bits(expected_output(prepared.desc, prepared.inputs)).data)
            for bench in benches:
                digests[_name(bench.device)].update(as_bits(run_prepared(bench, prepared)).data)
    known = {REFERENCE: reference} if has_bits else {}
    return {name: digest.hexdigest() for name, digest in {**known, **digests}.items()}


def _name(device: dml.Device) -> str:
    return f"{device.info.index}: {device.info.name}"


def report(
    devices: Sequence[int | str] | None = None,
    operator: str = "",
    patterns: int = PATTERNS,
    attribute_sets: int | None = None,
) -> dict[str, Any]:
    """Hashes of all cases.

    Args:
        devices: indices or parts of names; ``None``: all usable devices.
        operator: part of the cases' names, such as ``sign`` or ``int8``.
        patterns: how many patterns of types of more than 16 bits.
        attribute_sets: how many sets of attributes; ``None``: all.

    Returns:
        ``{"devices": {name: driver}, "patterns": …, "hashes": {case: {"reference" or device: hash}}}``
    """
    selectors = [info.index for info in dml.list_devices() if info.usable] if devices is None else devices
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(dml.Device(selector)) for selector in selectors]
        benches = [stack.enter_context(contextlib.closing(Workbench(device))) for device in opened]
        cases = [case for case in value_cases() if operator in case.name]
        return {
            "devices": {_name(device): f"{device.info.driver} {device.info.driver_version}" for device in opened},
            "patterns": patterns,
            "attribute_sets": attribute_sets,
            "hashes": {case.name: hashes_of(case, benches, patterns, attribute_sets) for case in cases},
        }


def disagreements(hashes: dict[str, dict[str, str]]) -> list[str]:
    """One line for each hash that is not the reference's; where there is none, the first device's."""
    lines = []
    for case, digests in hashes.items():
        first = next(iter(digests))
        name = "the reference" if first == REFERENCE else first
        lines += [
            f"{case}: {device} differs from {name}" for device, digest in digests.items() if digest != digests[first]
        ]
    return lines


def compare(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """One line for everything in which two reports do not agree."""
    settings = ("patterns", "attribute_sets")
    if any(first[key] != second[key] for key in settings) or first["hashes"].keys() != second["hashes"].keys():
        return ["the reports are of different cases or numbers of patterns"]
    lines = disagreements(first["hashes"]) + disagreements(second["hashes"])
    for case, digests in first["hashes"].items():
        if next(iter(digests.values())) != next(iter(second["hashes"][case].values())):
            lines.append(f"{case}: the two reports differ")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hashes", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", action="append", metavar="N", help="index or part of the name; default: all devices"
    )
    parser.add_argument("--operator", default="", metavar="TEXT", help="only cases whose name has this part")
    parser.add_argument("--patterns", type=int, default=PATTERNS, metavar="N", help=f"default: {PATTERNS}")
    parser.add_argument("--attribute-sets", type=int, metavar="N", help="default: all")
    parser.add_argument("--json", metavar="FILE", help="write the hashes there ('-': print them as JSON)")
    parser.add_argument("--compare", nargs=2, metavar="FILE", help="run nothing: compare two files written by --json")
    options = parser.parse_args(argv)
    if options.compare:
        lines = compare(*(json.loads(Path(name).read_text(encoding="utf-8")) for name in options.compare))
        print("\n".join(lines) or "all hashes agree")
        return 1 if lines else 0
    selectors = options.device and [int(text) if text.isdigit() else text for text in options.device]
    made = report(selectors, options.operator, options.patterns, options.attribute_sets)
    text = json.dumps(made, indent=1)
    if options.json == "-":
        print(text)
    else:
        if options.json:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
        for case, digests in made["hashes"].items():
            first = next(iter(digests))
            for device, digest in digests.items():
                verdict = "" if device == first else "equal" if digest == digests[first] else "DIFFERENT"
                print(f"{case:45} {digest[:16]} {device} {verdict}".rstrip())
    lines = disagreements(made["hashes"])
    print(f"{len(made['hashes'])} cases, {len(made['devices'])} devices, {len(lines)} hashes differ", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
