#!/usr/bin/env python3
"""Check the compiled shaders against what portability and the numeric contract forbid.

    python scripts/check_shaders.py                check the library in dmlvk/kernels/spirv
    python scripts/check_shaders.py --source       check the GLSL too: undefined macros, unused files and definitions

Exit status: 0 nothing found, 1 findings or nothing to check, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.kernels.library.checkout import COMPILER
from dmlvk.kernels.library.compiler import CompileError, Compiler, MissingToolError, Variant, key_of
from dmlvk.kernels.library.sources import SourceError, SourceTree
from scripts.shader_tools.project import LIBRARY, SHADERS, compiled_store, project_variants
from scripts.shader_tools.rules import EXEMPTIONS, REASONS, Exemption, Finding, apply_exemptions, lint
from scripts.shader_tools.source_rules import SOURCE_REASONS, lint_sources

CLEAN, FOUND = 0, 1

MOST_SHOWN = 40  # Findings that are printed

LIBRARY_REASONS = {
    "library": "what is checked must be what is shipped: every variant, compiled from the sources as they are",
    "unused-exemption": "an exemption that covers nothing hides the next fault",
}
ALL_REASONS = {**REASONS, **LIBRARY_REASONS, **SOURCE_REASONS}


def main(
    argv: Sequence[str] | None = None,  # command line without the program's name; the process's own when None
    *,
    variants: Sequence[Variant] | None = None,  # what the library was made from; the project's list when None
    shaders: Path = SHADERS,  # directory of the GLSL sources
    exemptions: Sequence[Exemption] = EXEMPTIONS,
) -> int:
    """Run the script.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(argv)
    modules, missing = _modules(options.library, _variants(variants), shaders)
    names = sorted(modules)
    findings = [Finding(name, "library", text, 0) for name, text in missing.items()]
    raw = [finding for name in names for finding in lint(name, modules[name])]
    standing, unused = apply_exemptions(raw, exemptions)
    findings += standing
    findings += [
        Finding(exemption.variants, "unused-exemption", f"{exemption.rule}: {exemption.instruction}", 0)
        for exemption in unused
    ]
    if options.source:
        findings += lint_sources(SourceTree(shaders), _variants(variants))
    _print_text(_located(findings[:MOST_SHOWN], variants, shaders), len(findings) - MOST_SHOWN)
    broken = len({finding.variant for finding in findings}.intersection(names))
    print(f"{len(names)} variants checked: {len(findings)} findings" + (f" in {broken} of them" if broken else ""))
    if not names:
        print(f"no variant is there to be checked in {options.library}: run compile_shaders.py", file=sys.stderr)
        return FOUND
    return FOUND if findings else CLEAN


def _modules(library: Path, variants: Iterable[Variant], shaders: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the modules of variants by name, and what is wrong with those that are not there."""
    tree, store = SourceTree(shaders), compiled_store(library)
    try:
        version = Compiler.find(tree).version
    except MissingToolError:
        try:
            version = (library / COMPILER).read_text(encoding="utf-8").strip()
        except OSError:
            version = ""
    modules, missing = {}, {}
    for variant in variants:
        try:
            module = store.get(key_of(tree, version, variant))
        except SourceError as error:
            missing[variant.name] = str(error)
            continue
        if module is None:
            missing[variant.name] = "not compiled from the sources as they are, or damaged: run compile_shaders.py"
        else:
            modules[variant.name] = module
    return modules, missing


def _located(findings: Iterable[Finding], variants: Sequence[Variant] | None, shaders: Path) -> list[Finding]:
    """Add source positions by compiling the variants in question again, with line numbers.

    Where that is not possible (no compiler, no sources, sources that changed since) findings stay as they are: the
    positions are a help to the reader and no part of the check.
    """
    by_variant: dict[str, list[Finding]] = {}
    for finding in findings:
        by_variant.setdefault(finding.variant, []).append(finding)
    wanted = [name for name, found in by_variant.items() if any(f.rule in REASONS for f in found)]
    if wanted:
        try:
            compiler = Compiler.find(SourceTree(shaders))
        except MissingToolError as error:
            print(f"without line numbers: {error}", file=sys.stderr)
            return list(findings)
        known = {variant.name: variant for variant in _variants(variants)}
        for name in wanted:
            if name in known:
                by_variant[name] = _with_positions(compiler, known[name], by_variant[name])
    return [finding for found in by_variant.values() for finding in found]


def _with_positions(compiler: Compiler, variant: Variant, findings: Sequence[Finding]) -> list[Finding]:
    """Give the n-th finding of each rule the position of the n-th one in a module with line numbers."""
    try:
        debug = lint(variant.name, compiler.compile(variant, debug=True))
    except CompileError as error:
        print(f"{variant.name}: without line numbers: {error}", file=sys.stderr)
        return list(findings)
    seen: Counter[str] = Counter()
    result = []
    for finding in findings:
        same_rule = [other for other in debug if other.rule == finding.rule]
        index = seen[finding.rule]
        seen[finding.rule] += 1
        if index < len(same_rule):
            file = same_rule[index].file.removeprefix(f"{compiler.tree.root.resolve().parent.as_posix()}/")
            finding = dataclasses.replace(finding, file=file, line=same_rule[index].line)
        result.append(finding)
    return result


def _variants(variants: Sequence[Variant] | None) -> Sequence[Variant]:
    return project_variants() if variants is None else variants


def _print_text(findings: Iterable[Finding], left_out: int) -> None:
    for finding in findings:
        position = f"{finding.file}:{finding.line}: " if finding.line else ""
        word = f" (word {finding.word})" if finding.word else ""
        print(f"{position}{finding.variant}: {finding.rule}: {finding.instruction}{word}")
        print(f"    {ALL_REASONS[finding.rule]}")
    if left_out > 0:
        print(f"… and {left_out} more")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Check the compiled shaders.")
    parser.add_argument("--library", metavar="DIR", type=Path, default=LIBRARY, help="what to check (%(default)s)")
    parser.add_argument("--source", action="store_true", help="check the GLSL sources too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
