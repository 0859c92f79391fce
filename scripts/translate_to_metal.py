#!/usr/bin/env python3
"""Translate the compiled shaders to Metal's language, as MoltenVK does, and check what Metal allows.

    scripts/translate_to_metal.py                 all modules
    scripts/translate_to_metal.py --every 20      every twentieth

spirv-cross is what MoltenVK has inside. A module is bad that it refuses, that has more than 31 buffers or more than 32
KiB of shared memory with its largest tiles, or whose text has what Metal lacks or what depends on fast math (double,
half, 64-bit integers, isnan, transcendental functions). Modules with optional features (cooperative matrices, integer
dot products), which no device of MoltenVK has, are counted apart. Nothing is compiled by Apple's compiler.

Exit status: 0 no module is bad, 1 some are, 2 wrong usage, 3 spirv-cross is not here.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.modules import binding_count, module_instructions, module_words

MOST_BUFFERS = 30  # Of 31 one is for push constants

MOST_SHARED_BYTES = 32768

VERSION = "20300"  # Metal 2.3: macOS 11

_CAPABILITY = 17
_USUAL_CAPABILITIES = frozenset({1})  # Shader
_FORBIDDEN = re.compile(
    r"\b(double|half|long|ulong|isnan|isinf|isfinite|sqrt|rsqrt|exp2?|log2?|sin|cos|tan|pow|precise::\w+|fast::\w+|simd_\w+)\b"
)
_MAY_ROUND = re.compile(r"(gemm\.float16\.sums|convolution\.float16\..+)\.epilogue")
"""Modules that use the device's exp2 for those only who permit a device its own arithmetic, behind a specialization
constant (``shaders/include/device_gelu.glsl``, ``device_swish.glsl``): Metal's need not be as Linux'."""
_SHARED = re.compile(r"threadgroup (uint|int|float|bool)([234]?) \w+((?:\[\d+\])+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth module only")
    options = parser.parse_args(arguments)
    if shutil.which("spirv-cross") is None:
        print("translate_to_metal.py: spirv-cross is not here (apt install spirv-cross)", file=sys.stderr)
        return 3
    translated = left_out = 0
    faults: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in all_variants()[:: options.every]:
            module = without_coherence(library.load(variant.name))
            fault = fault_of(module, Path(folder), ("exp2",) if _MAY_ROUND.fullmatch(variant.name) else ())
            if fault is None:
                translated += 1
            elif optional_capabilities(module):
                left_out += 1
            else:
                faults[variant.name] = fault
                print(f"{variant.name}: {fault}", flush=True)
    print(f"Metal: {translated} modules translated, {left_out} not, which Metal never gets, {len(faults)} are bad")
    return 1 if faults else 0


def optional_capabilities(module: bytes) -> set[int]:
    """What a module asks for beyond what every device has."""
    words = module_words(module)
    return {o[0] for _, opcode, o in module_instructions(words) if opcode == _CAPABILITY} - _USUAL_CAPABILITIES


def fault_of(module: bytes, folder: Path, allowed: Collection[str] = ()) -> str | None:
    """Why Metal would not take a module, or compute otherwise; ``None`` where nothing is known against it.

    Args:
        allowed: functions that the module may use, since it is given only to those who permit the device's own.
    """
    file = folder / "module.spv"
    file.write_bytes(module)
    command = ["spirv-cross", "--msl", "--msl-version", VERSION, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        return " ".join(done.stderr.split())[:300] or f"spirv-cross ends with status {done.returncode}"
    if binding_count(module) > MOST_BUFFERS:
        return f"has {binding_count(module)} buffers; Metal has {MOST_BUFFERS} beside that of push constants"
    shared = sum(_bytes(*match.groups()) for match in _SHARED.finditer(done.stdout))
    if shared > MOST_SHARED_BYTES:
        return f"has {shared} bytes of shared memory; Metal has {MOST_SHARED_BYTES}"
    found = sorted(set(_FORBIDDEN.findall(_without_comments(done.stdout))) - set(allowed))
    return f"has {', '.join(found)} in its text" if found else None


def _bytes(kind: str, width: str, extents: str) -> int:
    count = 1
    for extent in re.findall(r"\d+", extents):
        count *= int(extent)
    size = 1 if kind == "bool" else 4
    return count * size * {"": 1, "2": 2, "3": 4, "4": 4}[width]


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|#[^\n]*", "", text)


if __name__ == "__main__":
    sys.exit(main())
