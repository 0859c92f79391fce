#!/usr/bin/env python3
"""Run dmlvk's command with every module as Metal would compute it: products as fma(a, b, 0), as spirv-cross has them.

    scripts/run_as_metal.py conformance --device llvmpipe --jobs 1
    scripts/run_as_metal.py --broken conformance -o element_wise_multiply      must fail: 1 for -0

No Mac is needed: the modules are changed on their way to the driver of this machine. What the command says of promises
and bits then holds for MoltenVK's translation, as far as that is what differs; ``scripts/translate_to_metal.py``
tells whether modules translate at all. Processes that the command starts are not changed, hence ``--jobs 1``.

Exit status: the command's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.cli import main as command
from dmlvk.runtime.shader_forms import ShaderForms
from dmlvk.runtime.work import Launch
from scripts.shader_tools.metal import with_products_as_fma


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command, which ends the process with its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_broken = words[:1] == ["--broken"]
    _translate(is_broken)
    sys.argv = ["dmlvk", *words[is_broken:]]
    command()


def _translate(is_broken: bool) -> None:
    of_driver = ShaderForms.of
    translated = functools.lru_cache(maxsize=4096)(with_products_as_fma)

    def of(self: ShaderForms, launch: Launch) -> tuple[bytes, tuple[int, ...]]:
        spirv, constants = of_driver(self, launch)
        return translated(spirv, is_broken=is_broken), constants

    ShaderForms.of = of  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
