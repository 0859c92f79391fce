#!/usr/bin/env python3
"""Have the drivers for AMD's and Intel's GPUs compile what operators launch there, without such GPUs; refuse the bad.

    scripts/compile_for_gpus.py                        all launches, as an RX 7900 (GFX1100) compiles them
    scripts/compile_for_gpus.py --family POLARIS10     and others: VEGA10, NAVI10, NAVI21, ...
    scripts/compile_for_gpus.py --family dg2           as Intel's Arc; and skl, icl, tgl, adl, mtl
    scripts/compile_for_gpus.py --operators GEMM       those of some operators
    scripts/compile_for_gpus.py --every 20             every twentieth
    scripts/compile_for_gpus.py --changed-since main   those whose shaders are other ones than a commit's
    scripts/compile_for_gpus.py --json all.json        everything that the driver tells

Launches are those that operators make for tensors of many kinds and sizes, with the constants that they give to each
pipeline. Mesa's RADV with RADV_FORCE_FAMILY needs no card: it compiles by ACO, and tells registers, spills and memory.
Intel's driver anv takes a library for the kernel, built from Mesa's source once (``scripts/cross/drm_shim.py``; it
needs gcc and libdrm-dev). They execute nothing. A launch is bad that does not compile, spills vector registers or needs
scratch memory, or takes more than two seconds of a processor to compile.

Exit status: 0 no launch is bad, 1 some are, 2 wrong usage, 3 there is no such driver here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.errors import DmlError
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library.compiler import key_of
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.target import GPU
from dmlvk.runtime.vulkan import loader
from scripts.cross import drm_shim
from scripts.cross.platform_table import add_row
from scripts.cross.targets import CrossBuildError
from scripts.shader_tools.launches import RealLaunch, real_launches
from scripts.shader_tools.pipelines import Compiled, PipelineCompiler

ROOT = Path(__file__).resolve().parent.parent

MOST_SECONDS = 2.0

_SCALED = "sixteen lanes that are scaled exactly, side by side: 2.4 to 2.9 s"

KNOWN: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "AMD": (
        ("*.int8.scale_bias.contiguous", "takes", _SCALED),
        ("*.uint8.scale_bias.contiguous", "takes", _SCALED),
    ),
    "Intel": (
        (
            "selected_tiles.64bits",
            "spills",
            "the largest of 700 elements of 64 bits: 105 to 110 registers, on dg2 and skl",
        ),
        ("register_rows", "takes", "thirteen registers of a row, each of its own: 2.0 to 2.3 s"),
        ("*.int8.scale_bias.contiguous", "takes", _SCALED),
        ("*.uint8.scale_bias.contiguous", "takes", _SCALED),
    ),
}
"""Modules by pattern, how what is bad about them begins, and why nothing is done about it: shown, but not counted. By
the maker of the GPU."""

_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", default="GFX1100", help="of GPUs, by the driver's name (%(default)s)")
    parser.add_argument("--operators", metavar="GLOB", default="*", help="only of such operators")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="each Nth launch only")
    parser.add_argument("--changed-since", metavar="COMMIT", help="only of shaders that have changed since")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what the driver tells of each")
    parser.add_argument("--table", metavar="FILE", type=Path, help="put what is found into this table")
    options = parser.parse_args(arguments)
    is_intel = options.family in drm_shim.PLATFORMS
    manifest = found_manifest("intel" if is_intel else "radeon")
    if manifest is None:
        driver = "anv" if is_intel else "RADV"
        print(f"compile_for_gpus.py: {driver} is not here (apt install mesa-vulkan-drivers)", file=sys.stderr)
        return 3
    os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = str(manifest)
    os.environ["MESA_SHADER_CACHE_DISABLE"] = "true"
    if not is_intel:
        os.environ["RADV_FORCE_FAMILY"] = options.family
    elif os.environ.get("INTEL_STUB_GPU_PLATFORM") != options.family:
        return _again_with_shim(options.family, arguments)
    launches: Iterator[RealLaunch] = real_launches(GPU, options.operators)
    if options.changed_since is not None:
        changed = changed_variants(options.changed_since)
        launches = (launch for launch in launches if launch.variant in changed)
    try:
        with loader.Instance() as instance:
            device = instance.physical_devices()[0]
            name = instance.properties(device).deviceName.decode()
            with PipelineCompiler(instance, device) as compiler:
                return _compiled(compiler, name, launches, options)
    except (DmlError, IndexError) as error:
        print(f"compile_for_gpus.py: {options.family} cannot be compiled for: {error}", file=sys.stderr)
        return 3


def found_manifest(driver: str) -> Path | None:
    """The file that tells the loader about one of Mesa's drivers; ``None`` where it is not installed."""
    names = [f"{driver}_icd{machine}.json" for machine in (".x86_64", "", ".aarch64")]
    return next((path for path in (Path(*each) for each in product(_FOLDERS, names)) if path.is_file()), None)


def _again_with_shim(family: str, arguments: Sequence[str] | None) -> int:
    """Runs this script in a process for which a library answers instead of the kernel; returns its exit status."""
    try:
        library = drm_shim.library()
    except CrossBuildError as error:
        print(f"compile_for_gpus.py: {error}", file=sys.stderr)
        return 3
    environment = {**os.environ, "LD_PRELOAD": str(library), "INTEL_STUB_GPU_PLATFORM": family}
    words = [sys.executable, __file__, *(sys.argv[1:] if arguments is None else arguments)]
    return subprocess.run(words, env=environment, check=False).returncode


def _compiled(
    compiler: PipelineCompiler, name: str, launches: Iterator[RealLaunch], options: argparse.Namespace
) -> int:
    maker, driver = ("Intel", "anv") if options.family in drm_shim.PLATFORMS else ("AMD", "RADV")
    rows: list[dict[str, Any]] = []
    bad = 0
    for number, launch in enumerate(launches):
        if number % options.every:
            continue
        row: dict[str, Any] = {"variant": launch.variant, "constants": launch.constants, "operator": launch.told}
        try:
            made = compiler.compile(launch.spirv, launch.constants, launch.bindings, launch.push_words)
            row |= {"seconds": round(made.seconds, 3), **made.statistics}
            fault = fault_of(made)
        except DmlError as error:
            fault = str(error)
        rows.append(row)
        if fault:
            is_known = any(
                fnmatchcase(launch.variant, name) and fault.startswith(kind) for name, kind, _ in KNOWN[maker]
            )
            bad += not is_known
            row["fault"] = fault
            known = " (known)" if is_known else ""
            print(f"{launch.variant} {list(launch.constants)} ({launch.told}): {fault}{known}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"device": name, "launches": rows}, indent=1) + "\n", encoding="utf-8")
    seconds = sorted(row.get("seconds", 0.0) for row in rows)
    middle = (
        f", half of them within {seconds[len(seconds) // 2] * 1000:.0f} ms, all {seconds[-1]:.2f} s" if rows else ""
    )
    variants = len({row["variant"] for row in rows})
    print(f"{name}: {len(rows)} launches of {variants} modules compiled{middle}; {bad} are bad")
    if options.table is not None:
        more = f"{len(rows)} launches of {variants} modules are compiled for {options.family} by {driver}, {bad} badly"
        add_row(options.table, f"{maker}'s GPUs on Linux, {options.family}", {"built": "as Linux", "more": more})
    return 1 if bad else 0


def fault_of(made: Compiled) -> str | None:
    """Why a pipeline should not be launched by default; ``None`` where nothing speaks against it."""
    told = made.statistics
    spilled = told.get("Spilled VGPRs", 0) + told.get("Spill Count", 0)
    scratch = told.get("Scratch size", 0) + told.get("Scratch Memory Size", 0)
    if spilled or scratch:
        return f"spills {spilled} vector registers, {scratch} bytes of scratch memory for each subgroup"
    if made.seconds > MOST_SECONDS:
        return f"takes {made.seconds:.1f} s to compile"
    return None


def changed_variants(commit: str) -> set[str]:
    """The variants whose sources or definitions are other ones than in a commit, or were not there.

    Only shaders are compared: with definitions that are the same, sources decide.
    """
    done = subprocess.run(["git", "archive", commit, "shaders"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compile_for_gpus.py: {commit}: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)
        before, now = SourceTree(Path(folder) / "shaders"), SourceTree(ROOT / "shaders")
        return {each.name for each in all_variants() if _key(before, each) != _key(now, each)}


def _key(tree: SourceTree, variant: Any) -> str | None:
    from dmlvk.kernels.library.sources import SourceError

    try:
        return key_of(tree, "", variant)
    except SourceError:
        return None  # a file that was not there


if __name__ == "__main__":
    sys.exit(main())
