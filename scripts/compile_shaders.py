#!/usr/bin/env python3
"""Compile every shader variant to SPIR-V, in parallel, and only those whose contents changed.

    python scripts/compile_shaders.py              bring dmlvk/kernels/spirv up to date
    python scripts/compile_shaders.py --check      compile everything anew and compare; for CI
    python scripts/compile_shaders.py --list       name the variants

Exit status: 0 done, 1 something does not compile or --check found a difference, 2 wrong usage or no compiler,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.shader_tools.compiler import CompileError, Compiler, MissingToolError
from scripts.shader_tools.library import Entry, Library, Manifest, ManifestError, sha256
from scripts.shader_tools.progress import progress
from scripts.shader_tools.project import (
    LIBRARY,
    SHADERS,
    Variant,
    VariantError,
    checked_variants,
    project_variants,
    selected,
)
from scripts.shader_tools.sources import SourceError, SourceTree

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Failure:
    """A variant that does not compile, and the compiler's words."""

    variant: Variant
    message: str


def main(
    argv: Sequence[str] | None = None, *, variants: Sequence[Variant] | None = None, shaders: Path = SHADERS
) -> int:
    """Run the script.

    Args:
        argv: command line without the program's name; the process's own when None.
        variants: what to compile; the project's list when None.
        shaders: directory of the GLSL sources.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(argv)
    try:
        every = checked_variants(project_variants() if variants is None else variants)
    except VariantError as error:
        print(error, file=sys.stderr)
        return FAILED
    wanted = selected(every, options.variant)
    if not wanted:
        what = f"no variant matches {options.variant!r}" if every else "there are no variants"
        print(f"{what}; --list names them", file=sys.stderr)
        return UNUSABLE
    if options.list:
        _print_variants(wanted)
        return DONE
    try:
        compiler = Compiler.find(SourceTree(shaders))
        keys = {variant.name: compiler.key(variant) for variant in every}
    except MissingToolError as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    except SourceError as error:
        print(f"{shaders.name}/{error}", file=sys.stderr)
        return FAILED
    run = Run(compiler, Library(options.output), every, wanted, keys, options.jobs)
    try:
        return run.check() if options.check else run.update()
    except KeyboardInterrupt:
        print("interrupted; the next run goes on from here", file=sys.stderr)
        return INTERRUPTED


@dataclass(frozen=True)
class Run:
    """One run over the library.

    Attributes:
        compiler: the compiler.
        library: what to bring up to date or to compare with.
        every: all variants of the project.
        wanted: the variants asked for.
        keys: content key of every variant.
        jobs: number of compilations at the same time.
    """

    compiler: Compiler
    library: Library
    every: Sequence[Variant]
    wanted: Sequence[Variant]
    keys: dict[str, str]
    jobs: int

    def update(self) -> int:
        """Compile what changed and delete what no variant owns; returns the exit status."""
        self.library.directory.mkdir(parents=True, exist_ok=True)
        self.library.remove_leftovers()
        current = self._current_entries()
        pending = [variant for variant in self.wanted if variant.name not in current]
        stale = self.library.names() - self.keys.keys()
        if pending or stale:
            # From here until the end of the run the manifest must not call the library complete.
            self._write_manifest(current, complete=False)
        for name in stale:
            self.library.remove(name)

        def keep(variant: Variant, data: bytes) -> None:
            self.library.write(variant.name, data)
            current[variant.name] = Entry(self.keys[variant.name], sha256(data))

        try:
            failures = self._compile(pending, keep)
        finally:
            complete = current.keys() == self.keys.keys()
            self._write_manifest(current, complete=complete)
        compiled = len(pending) - len(failures)
        unchanged = len(self.wanted) - len(pending)
        print(f"{compiled} compiled, {unchanged} unchanged, {len(stale)} removed, {len(failures)} failed")
        if failures:
            self._print_failures(failures)
            return FAILED
        if not complete:
            print(f"the library holds {len(current)} of {len(self.keys)} variants; complete it without --variant")
        return DONE

    def check(self) -> int:
        """Compile everything anew and compare with the library; returns the exit status."""
        differences: list[str] = []
        compiled: dict[str, Entry] = {}

        def compare(variant: Variant, data: bytes) -> None:
            compiled[variant.name] = Entry(self.keys[variant.name], sha256(data))
            on_disk = self.library.read(variant.name)
            if on_disk is None:
                differences.append(f"{variant.name}: missing")
            elif on_disk != data:
                differences.append(f"{variant.name}: {self.library.path(variant.name)} differs from its source")

        failures = self._compile(self.wanted, compare)
        differences += self._manifest_differences(compiled)
        differences += [f"{name}: no variant has this name" for name in self.library.names() - self.keys.keys()]
        for difference in sorted(differences):
            print(difference, file=sys.stderr)
        self._print_failures(failures)
        if differences or failures:
            where = self.library.directory
            print(f"{where} is not what the sources make: run scripts/compile_shaders.py", file=sys.stderr)
            return FAILED
        print(f"{len(self.wanted)} variants are as the sources make them")
        return DONE

    def _current_entries(self) -> dict[str, Entry]:
        """Return the manifest's entries whose sources are unchanged and whose files are whole."""
        try:
            manifest = self.library.read_manifest()
        except ManifestError:
            # No library yet, or one of another format: everything is made anew, which is what repairs it.
            return {}
        current = {}
        for name, entry in manifest.entries.items():
            if self.keys.get(name) == entry.key:
                data = self.library.read(name)
                if data is not None and sha256(data) == entry.sha256:
                    current[name] = entry
        return current

    def _manifest_differences(self, compiled: dict[str, Entry]) -> list[str]:
        """Return what is wrong with the manifest, as far as the variants asked for tell."""
        try:
            manifest = self.library.read_manifest()
        except ManifestError as error:
            return [f"manifest: {error}"]
        differences = []
        if manifest.compiler != self.compiler.version:
            differences.append(f"manifest: made with glslang {manifest.compiler}, here is {self.compiler.version}")
        if not manifest.complete:
            differences.append("manifest: the library is marked incomplete")
        differences += [
            f"{name}: the manifest does not list what its source makes"
            for name, entry in compiled.items()
            if manifest.entries.get(name) != entry
        ]
        return differences + [
            f"{name}: listed in the manifest, but no variant has this name"
            for name in manifest.entries.keys() - self.keys.keys()
        ]

    def _compile(self, variants: Sequence[Variant], done: Callable[[Variant, bytes], None]) -> list[Failure]:
        """Compile variants in parallel; ``done`` is called in this thread with each result."""
        if not variants:
            return []
        failures = []
        with tempfile.TemporaryDirectory(prefix="dmlvk-shaders-") as scratch, ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(self.compiler.compile, variant, Path(scratch)): variant for variant in variants}
            try:
                with progress("Compiling shaders", len(variants)) as advance:
                    for future in as_completed(futures):
                        try:
                            done(futures[future], future.result())
                        except CompileError as error:
                            failures.append(Failure(futures[future], str(error)))
                        advance()
            finally:
                # Without this an interrupt would wait for everything that has not even begun.
                pool.shutdown(wait=True, cancel_futures=True)
        return sorted(failures, key=lambda failure: failure.variant.name)

    def _print_failures(self, failures: Iterable[Failure]) -> None:
        """Print each message once, with all variants that it is about and a command that repeats the first."""
        by_message: dict[str, list[Variant]] = {}
        for failure in failures:
            by_message.setdefault(failure.message, []).append(failure.variant)
        for message, variants in by_message.items():
            first = variants[0]
            print(f"\n{', '.join(variant.name for variant in variants)}:\n{message}", file=sys.stderr)
            print(f"to repeat: {self.compiler.reproduction(first)}", file=sys.stderr)

    def _write_manifest(self, entries: dict[str, Entry], *, complete: bool) -> None:
        self.library.write_manifest(Manifest(self.compiler.version, tuple(self.compiler.flags), complete, entries))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compile the shader variants to SPIR-V.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail unless the library is current")
    parser.add_argument("--list", action="store_true", help="name the variants with source and definitions")
    parser.add_argument("--variant", metavar="GLOB", help="only variants with such a name, as 'element_wise_sign.*'")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="compilations at once")
    parser.add_argument("--output", metavar="DIR", type=Path, default=LIBRARY, help="library directory (%(default)s)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _print_variants(variants: Iterable[Variant]) -> None:
    for variant in variants:
        print(" ".join([variant.name, variant.source, *(f"{name}={value}" for name, value in variant.defines)]))


if __name__ == "__main__":
    sys.exit(main())
