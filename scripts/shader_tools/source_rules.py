"""What can be wrong with the GLSL sources that no compiled file shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dmlvk.kernels.library.compiler import Variant
from dmlvk.kernels.library.sources import SourceError, SourceTree
from scripts.shader_tools.preprocessor import undefined_macros
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
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATION = re.compile(r"^\s*(?:layout\s*\(|shared\b|(?:\w+\s+)*buffer\s+\w+\s*\{)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


RUN_TIME_SOURCES = ("patterns/elementwise/fused_operands.glsl",)
"""What only kernels include that are put together for graphs (dmlvk/graphs/fusion); their tests lint them."""


def lint_sources(tree: SourceTree, variants: Sequence[Variant]) -> list[Finding]:
    """Return what is wrong with the sources.

    Args:
        tree: the shader directory.
        variants: all variants that are made from it.

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
    root = tree.root.name
    for variant in variants:
        try:
            closure = tree.closure(variant.source)
            for problem in undefined_macros(tree, variant.source, variant.defines):
                file = f"{root}/{problem.file}"
                yield Finding(variant.name, "undefined-macro", problem.message, 0, file, problem.line)
        except SourceError as error:
            yield Finding(variant.name, "unreadable-source", f"{root}/{error}", 0)
            continue
        used.update(closure)
        if variant.source not in words:
            # Comments count: a name that a pattern puts together from parts is at least described there.
            words[variant.source] = {word for path in closure for word in _WORD.findall(tree.file(path).text)}
        for name, _ in variant.defines:
            if name not in words[variant.source]:
                text = f"{name}, passed to {variant.source}"
                yield Finding(variant.name, "unused-definition", text, 0)
    for path in tree.paths():
        if path not in used and path not in RUN_TIME_SOURCES:
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


def _matches(rule: str, pattern: re.Pattern[str], code: str, file: str) -> Iterator[Finding]:
    for match in pattern.finditer(code):
        line = code.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip())) + 1
        yield Finding("sources", rule, match[0].strip(), 0, file, line)


def _code(tree: SourceTree, path: str) -> str:
    """Return a file without its comments, lines kept."""
    return _COMMENT.sub(lambda match: " " + "\n" * match[0].count("\n"), tree.file(path).text)
