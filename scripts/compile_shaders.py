#!/usr/bin/env python3
"""Compile every shader variant to SPIR-V, in parallel, and only those whose contents changed.

    python scripts/compile_shaders.py              compile what is not compiled yet
    python scripts/compile_shaders.py --pack       and pack all of them, as a wheel carries them
    python scripts/compile_shaders.py --check      compile everything anew and compare; --every 8: an eighth of it

A checkout compiles by itself what it runs; this is for what needs all of them. Compiled shaders are kept by content: a
run that was interrupted goes on where it stopped.

Exit status: 0 done, 1 something does not compile or --check found a difference, 2 wrong usage or no compiler,
130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.kernels.library.checkout import COMPILER
from dmlvk.kernels.library.compiler import CompileError, Compiler, MissingToolError, Variant
from dmlvk.kernels.library.facts import FILE_NAME, Facts, facts_text, read_facts
from dmlvk.kernels.library.pack import SUFFIX, Pack, PackError, family, pack_paths, write_pack
from dmlvk.kernels.library.sources import SourceError, SourceTree
from dmlvk.kernels.library.store import Store, remove_unfinished
from dmlvk.kernels.variants import regular_variants
from dmlvk.support.caches import write
from dmlvk.support.progress import with_progress
from scripts.shader_tools.project import (
    LIBRARY,
    SHADERS,
    VariantError,
    checked_variants,
    compiled_store,
    project_variants,
)

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
    if not every:
        print("there are no variants", file=sys.stderr)
        return UNUSABLE
    try:
        compiler = Compiler.find(SourceTree(shaders))
        keys = {variant.name: compiler.key(variant) for variant in every}
    except MissingToolError as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    except SourceError as error:
        print(f"{shaders.name}/{error}", file=sys.stderr)
        return FAILED
    wanted = every
    if options.every > 1:  # others when sources change, for the keys do
        wanted = [variant for variant in every if zlib.crc32(keys[variant.name].encode()) % options.every == 0]
    run = Compilation(compiler, options.output, every, wanted, keys, options.jobs)
    try:
        status = run.check() if options.check else run.update()
        if options.pack and status == DONE:
            status = run.check_packs() if options.check else run.pack()
        return status
    except KeyboardInterrupt:
        print("interrupted; the next run goes on from here", file=sys.stderr)
        return INTERRUPTED


@dataclass(frozen=True)
class Compilation:
    """One run over the library."""

    compiler: Compiler  # the compiler
    directory: Path  # the library
    every: Sequence[Variant]  # all variants of the project
    wanted: Sequence[Variant]  # the variants asked for
    keys: dict[str, str]  # content key of every variant
    jobs: int  # number of compilations at the same time

    @property
    def store(self) -> Store:
        return compiled_store(self.directory)

    def update(self) -> int:
        """Compile what is not there; returns the exit status."""
        write(self.directory / COMPILER, f"{self.compiler.version}\n".encode())
        pending = [variant for variant in self.wanted if self.store.get(self.keys[variant.name]) is None]
        failures = self._compile(pending, lambda variant, data: self.store.put(self.keys[variant.name], data))
        removed = self.store.prune(set(self.keys.values()))
        compiled, unchanged = len(pending) - len(failures), len(self.wanted) - len(pending)
        print(f"{compiled} compiled, {unchanged} unchanged, {removed} removed, {len(failures)} failed")
        if failures:
            self._print_failures(failures)
            return FAILED
        self._write_facts()
        return DONE

    def _write_facts(self) -> None:
        """Writes what plans must know of shaders, of those that are compiled."""
        known = read_facts(self.directory)
        names = {variant.name for variant in regular_variants() if variant.name.endswith(".contiguous")}
        made = []
        for name in sorted(names & self.keys.keys()):
            key, facts = known.get(name, ("", None))
            if key != self.keys[name]:
                module = self.store.get(self.keys[name])
                facts = None if module is None else Facts.of(module)
            if facts is not None:
                made.append((name, self.keys[name], facts))
        if made:
            write(self.directory / FILE_NAME, facts_text(made).encode())

    def check(self) -> int:
        """Compile everything anew and compare with the library; returns the exit status."""
        differences: list[str] = []

        def compare(variant: Variant, data: bytes) -> None:
            there = self.store.get(self.keys[variant.name])
            if there is None:
                differences.append(f"{variant.name}: missing")
            elif there != data:
                path = self.store.path(self.keys[variant.name])
                differences.append(f"{variant.name}: {path} differs from what its source makes")

        failures = self._compile(self.wanted, compare)
        self._print_failures(failures)
        status = self._report(differences)
        if failures or status == FAILED:
            return FAILED
        print(f"{len(self.wanted)} variants are as the sources make them")
        return DONE

    def pack(self) -> int:
        """Pack what changed since it was packed; returns the exit status."""
        families = self._families()
        if families is None:
            return FAILED
        stale = [path for path in pack_paths(self.directory) if path.name.removesuffix(SUFFIX) not in families]
        for path in stale:
            path.unlink()
        pending = [name for name, keys in families.items() if list(self._pack_differences(name, keys))]
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = as_completed([pool.submit(self._pack, name, families[name]) for name in pending])
            for future in with_progress(futures, len(pending), "families packed"):
                future.result()
        remove_unfinished(self.directory)
        size = sum(path.stat().st_size for path in pack_paths(self.directory))
        print(f"{len(self.keys)} variants are packed in {len(families)} files, {size / 1e6:.1f} MB")
        return DONE

    def check_packs(self) -> int:
        """Compare the packed library with the modules; returns the exit status."""
        families = self._families()
        if families is None:
            return FAILED
        differences = [text for name, keys in families.items() for text in self._pack_differences(name, keys)]
        there = {path.name.removesuffix(SUFFIX) for path in pack_paths(self.directory)}
        differences += [f"{name}{SUFFIX}: no variant belongs there" for name in there - families.keys()]
        return self._report(differences)

    def _families(self) -> dict[str, dict[str, str]] | None:
        """The keys of all variants by packed file; ``None`` where one is not compiled, which is told."""
        missing = [name for name, key in self.keys.items() if self.store.get(key) is None]
        if self._report([f"{name}: missing" for name in missing]) == FAILED:
            return None
        found: dict[str, dict[str, str]] = {}
        for name, key in self.keys.items():
            found.setdefault(family(name), {})[name] = key
        return found

    def _pack(self, name: str, keys: dict[str, str]) -> None:
        modules = {variant: (key, self.store.get(key) or b"") for variant, key in keys.items()}
        write_pack(self.directory / f"{name}{SUFFIX}", modules)

    def _pack_differences(self, name: str, keys: dict[str, str]) -> Iterator[str]:
        """What a packed file has that is not the modules of these keys."""
        try:
            packed = Pack(self.directory / f"{name}{SUFFIX}")
            yield from (f"{variant}: packed, but there is no such variant" for variant in packed.modules.keys() - keys)
            for variant, key in keys.items():
                if packed.read(variant) != self.store.get(key) or packed.modules[variant].key != key:
                    yield f"{variant}: packed from other sources"
        except PackError as error:
            yield str(error)

    def _report(self, differences: Iterable[str]) -> int:
        """Print differences; returns the exit status."""
        found = sorted(differences)
        for difference in found:
            print(difference, file=sys.stderr)
        if found:
            print(f"{self.directory} is not what the sources make: run scripts/compile_shaders.py", file=sys.stderr)
        return FAILED if found else DONE

    def _compile(self, variants: Sequence[Variant], done: Callable[[Variant, bytes], None]) -> list[Failure]:
        """Compile variants in parallel; ``done`` is called in this thread with each result."""
        if not variants:
            return []
        failures = []
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(self.compiler.compile, variant): variant for variant in variants}
            try:
                for future in with_progress(as_completed(futures), len(variants), "shaders compiled"):
                    try:
                        done(futures[future], future.result())
                    except CompileError as error:
                        failures.append(Failure(futures[future], str(error)))
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compile the shader variants to SPIR-V.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail unless all is as compiled anew")
    parser.add_argument("--pack", action="store_true", help="pack all variants, as a wheel carries them")
    parser.add_argument("--every", metavar="N", type=_positive, default=1, help="only one of so many, by its sources")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="compilations at once")
    parser.add_argument("--output", metavar="DIR", type=Path, default=LIBRARY, help="library directory (%(default)s)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    if not sys.stdout.isatty():  # else the last line of the terminal tells how far it is
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    sys.exit(main())
