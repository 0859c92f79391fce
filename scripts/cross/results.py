"""What the default device computes, as JSON lines: the bits of every operator, a conformance case of each family.

    python scripts/cross/results.py [--every N] [--small]

It is asked on its input, by numbers from 0 on, a line each, and runs one after the other: under an emulator a driver's
compiler is quick only when it has compiled before. Everything has a line before it is run (``begun``), for a driver may
end the process, and one of what was found. It ends when the input does, or at a number that nothing has. The cases,
which take longest, have the first numbers: then processes that are asked side by side end at about the same time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from scripts.cross import bits, families
from scripts.cross.families import outcome

Thing = tuple[str, str, Callable[[], Any]]
"""The kind and the name of what is computed, and what does it."""


def main() -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth operator and family only")
    parser.add_argument("--small", action="store_true", help="a small case of every family instead")
    options = parser.parse_args()
    with dml.Device() as device:
        bench = Workbench(device)
        operators: Iterator[Thing] = (
            ("operators", name, partial(run, bench)) for name, run in bits.chosen(options.every)
        )
        cases: Iterator[Thing] = (
            ("cases", each.name, partial(outcome, device, each, is_small=options.small))
            for each in families.chosen(options.every, is_small=options.small)
        )
        things = itertools.chain(cases, operators)
        listed: list[Thing] = []
        for number in map(int, sys.stdin):
            listed += itertools.islice(things, max(0, number + 1 - len(listed)))
            if number >= len(listed):
                break
            kind, name, found = listed[number]
            task = {"number": number, "kind": kind, "name": name}
            print(json.dumps({**task, "begun": True}), flush=True)
            print(json.dumps({**task, "found": found()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
