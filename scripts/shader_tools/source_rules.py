"""What can be wrong with the GLSL sources that no compiled file shows."""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dmlvk.kernels.library.compiler import Variant
from dmlvk.kernels.library.glsl import INCLUDE_DIRECTORIES
from dmlvk.kernels.library.sources import SourceError, SourceTree
from scripts.shader_tools.rules import Finding

SOURCE_REASONS: Final = {
    "undefined-macro": "#if compares unknown names as 0 == 0, which is true, without a warning",
    "unused-definition": "a definition that no file mentions is a misspelt one, and is ignored without a warning",
    "unused-source": "a file that no variant includes is never compiled",
    "exact-product": "fma() may be one rounding or two: call exact_product_plus, and only for exact products",
    "loose-product": "loose_product_plus needs a test of every way to round: tests/kernels/test_loose_products.py",
    "device-product": "device_product_plus gives other bits on other devices: in products that permit it only",
    "operator-file": "buffers, shared memory and layouts belong into shaders/patterns; operators are functions",
    "unreadable-source": "a source or include is missing, ambiguous or circular",
}
"""Every rule about sources, with its reason."""

_SHARED_DIRECTORIES = ("include", "patterns")
_EXACT_FILE = "include/error_free.glsl"
_DEVICE_FILE = "include/device_arithmetic.glsl"
_FMA = re.compile(r"\bfma\s*\(")
_LOOSE_FILES = (_EXACT_FILE, "include/half_exponential.glsl")
_LOOSE = re.compile(r"\bloose_product_plus\s*\(")
_DEVICE_FILES = (_DEVICE_FILE, "include/device_gelu.glsl", "patterns/products/matrix_terms.glsl")
_DEVICE = re.compile(r"\bdevice_product_plus\s*\(")
_CONDITIONS = ("if", "ifdef", "ifndef", "elif")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATION = re.compile(r"^\s*(?:layout\s*\(|shared\b|(?:\w+\s+)*buffer\s+\w+\s*\{)", re.MULTILINE)
_PREDEFINED = (("VULKAN", "100"), ("GL_SPIRV", "100"), ("GL_core_profile", "1"), ("__VERSION__", "450"))
"""Macros that glslang defines itself, and that a condition may ask for."""
_UNDEFINED = re.compile(
    r'^(?:<command-line>|(?P<file>.+?):(?P<line>\d+):\d+): warning: "(?P<name>\w+)" is not defined', re.MULTILINE
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def lint_sources(tree: SourceTree, variants: Sequence[Variant]) -> list[Finding]:
    """Return what is wrong with the sources.

    Returns:
        Findings without duplicates; a fault that several variants share is named for the first of them.
    """
    found: dict[tuple[str, str, str, int], Finding] = {}
    for finding in _all_findings(tree, variants):
        found.setdefault((finding.rule, finding.instruction, finding.file, finding.line), finding)
    return list(found.values())


def _all_findings(tree: SourceTree, variants: Iterable[Variant]) -> Iterator[Finding]:
    used: set[str] = set()
    words: dict[str, set[str]] = {}
    asked: dict[str, set[str]] = {}
    seen: set[tuple[object, ...]] = set()
    chosen: list[Variant] = []
    root = tree.root.name
    for variant in variants:
        try:
            closure = tree.closure(variant.source)
        except SourceError as error:
            yield Finding(variant.name, "unreadable-source", f"{root}/{error}", 0)
            continue
        used.update(closure)
        if variant.source not in asked:
            asked[variant.source] = _asked(tree, closure)
        told = [define for define in variant.defines if define[0] in asked[variant.source]]
        pairs = {(variant.source, *pair) for pair in itertools.combinations(told, min(2, len(told)))}
        if not pairs <= seen:  # any two values of what conditions depend on meet in one of those that are read
            chosen.append(variant)
            seen |= pairs
        if variant.source not in words:
            # Comments count: a name that a pattern puts together from parts is at least described there.
            words[variant.source] = {word for path in closure for word in _WORD.findall(tree.file(path).text)}
        for name, _ in variant.defines:
            if name not in words[variant.source]:
                text = f"{name}, passed to {variant.source}"
                yield Finding(variant.name, "unused-definition", text, 0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from itertools.chain.from_iterable(pool.map(functools.partial(_undefined_macros, tree), chosen))
    for path in tree.paths():
        if path not in used:
            yield Finding("sources", "unused-source", f"{root}/{path}", 0)
            continue
        code = _code(tree, path)
        if path.split("/", 1)[0] not in _SHARED_DIRECTORIES:
            yield from _matches("operator-file", _DECLARATION, code, f"{root}/{path}")
        if path not in (_EXACT_FILE, _DEVICE_FILE):
            yield from _matches("exact-product", _FMA, code, f"{root}/{path}")
        if path not in _LOOSE_FILES:
            yield from _matches("loose-product", _LOOSE, code, f"{root}/{path}")
        if path not in _DEVICE_FILES:
            yield from _matches("device-product", _DEVICE, code, f"{root}/{path}")


def _asked(tree: SourceTree, closure: Iterable[str]) -> set[str]:
    """Names on which conditions depend: those in them, and in definitions of these."""
    lines = [line for path in closure for line in tree.file(path).directives]
    found = {word for line in lines if line.name in _CONDITIONS for word in _WORD.findall(line.text)}
    definitions = [_WORD.findall(line.text) for line in lines if line.name == "define"]
    while more := {word for name, *body in definitions if name in found for word in body} - found:
        found |= more
    return found


def _undefined_macros(tree: SourceTree, variant: Variant) -> list[Finding]:
    """What the preprocessor of C says of conditions, which reads them as glslang does, and warns."""
    words = ["cpp", "-undef", "-nostdinc", "-Wundef", "-fdiagnostics-plain-output", "-o", os.devnull]
    words += [f"-I{tree.root / folder}" for folder in INCLUDE_DIRECTORIES]
    words += [f"-D{name}={value}" for name, value in (*_PREDEFINED, *variant.defines)]
    words += [f"-I{(tree.root / variant.source).parent}", "-"]
    text = f'#line 1 "{variant.source}"\n'.join(tree.file(variant.source).shader.rsplit("#line 1\n", 1))
    told = subprocess.run(words, cwd=tree.root, input=text, capture_output=True, text=True, check=False).stderr
    found = []
    for match in _UNDEFINED.finditer(told):  # what a definition of the variant's own names stands in no file
        file = (tree.root / (match["file"] or variant.source)).relative_to(tree.root.parent).as_posix()
        found.append(Finding(variant.name, "undefined-macro", match["name"], 0, file, int(match["line"] or 0)))
    return found


def _matches(rule: str, pattern: re.Pattern[str], code: str, file: str) -> Iterator[Finding]:
    for match in pattern.finditer(code):
        line = code.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip())) + 1
        yield Finding("sources", rule, match[0].strip(), 0, file, line)


def _code(tree: SourceTree, path: str) -> str:
    """Return a file without its comments, lines kept."""
    return _COMMENT.sub(lambda match: " " + "\n" * match[0].count("\n"), tree.file(path).text)
