#!/usr/bin/env python3
"""Run dmlvk's command with every module as Metal would compute it: products as fma(a, b, 0), as spirv-cross has them.

    scripts/run_as_metal.py bits --every 5                 each fifth operator, and family: same bits, promises kept
    scripts/run_as_metal.py conformance --device llvmpipe --jobs 1
    scripts/run_as_metal.py --broken conformance -o element_wise_multiply      must fail: 1 for -0

No Mac is needed: the modules are changed on their way to the driver of this machine. What the command says of promises
and bits then holds for MoltenVK's translation, as far as that is what differs; ``scripts/translate_to_metal.py``
tells whether modules translate at all. Processes that the command starts are not changed, hence ``--jobs 1``.

Exit status: the command's; of ``bits`` 0 where all bits are equal, else 1.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml
from dmlvk.cli import main as command
from dmlvk.runtime.shader_forms import ShaderForms
from dmlvk.runtime.work import Launch
from scripts.cross.bits import digests
from scripts.cross.families import measured
from scripts.cross.platform_table import Found, add_row, compared, is_well, table_row
from scripts.shader_tools.metal import with_products_as_fma


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_broken = words[:1] == ["--broken"]
    words = words[is_broken:]
    if words[:1] == ["bits"]:
        parser = argparse.ArgumentParser(prog="run_as_metal.py bits")
        parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth operator only")
        parser.add_argument("--table", metavar="FILE", type=Path, help="put what is found into this page's table")
        options = parser.parse_args(words[1:])
        return _compare_bits(options.every, is_broken, options.table)
    _translate(is_broken)
    sys.argv = ["dmlvk", *words]
    command()  # ends by itself


def _compare_bits(every: int, is_broken: bool, table: Path | None) -> int:
    """A case of every operator and family, or of each so many, with modules as they are and as Metal has them."""
    found = []
    for is_metal in (False, True):
        if is_metal:
            _translate(is_broken)
        with dml.Device() as device:
            found.append(Found(dict(digests(device, every)), measured(device, every)))
    result = compared(*found)
    print(f"as Metal computes: {result['told']}")
    if table is not None:
        row = table_row(result)
        add_row(table, "macOS", {**row, "operators": f"{row['operators']}, as Metal would compute them"})
    return 0 if is_well(result) else 1


def _translate(is_broken: bool) -> None:
    of_driver = ShaderForms.of
    translated = functools.lru_cache(maxsize=4096)(with_products_as_fma)

    def of(self: ShaderForms, launch: Launch) -> tuple[bytes, tuple[int, ...]]:
        spirv, constants = of_driver(self, launch)
        return translated(spirv, is_broken=is_broken), constants

    ShaderForms.of = of  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
