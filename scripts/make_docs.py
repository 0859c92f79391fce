#!/usr/bin/env python3
"""Writes the documents that follow from the declarations: docs/operators.md, docs/decisions.md, docs/accuracy.md,
docs/onnx.md, the count of operators in README.md; from measurements the table of platforms in docs/how-to/install.md
and a picture, docs/pictures/roofline.svg; and dmlvk/functions.pyi, which tells editors and type checkers of the
operators' functions.

    python scripts/make_docs.py               write them
    python scripts/make_docs.py --check       say which are stale; for tests
    python scripts/make_docs.py --take FILE   take the errors from FILE (dmlvk conformance --exhaustive --json FILE)
    python scripts/make_docs.py --count       count the operations of the compiled shaders anew

Exit status: 0 done, 1 --check found stale documents, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.docs_tools.accuracy import accuracy_page, merged, reduced
from scripts.docs_tools.decisions import decisions_page
from scripts.docs_tools.function_stubs import function_stubs
from scripts.docs_tools.install import install_page
from scripts.docs_tools.onnx_models import onnx_page
from scripts.docs_tools.operators import operators_page
from scripts.docs_tools.readme import readme_page
from scripts.docs_tools.roofline import roofline_picture
from scripts.shader_tools.operations import operations_by_operator

DOCS = Path(__file__).resolve().parent.parent / "docs"
MEASUREMENTS = "measurements/accuracy.json"
OPERATIONS = "measurements/operations.json"
SPEEDS = "measurements/speed-functions.json"
FLOAT16_EXCEPTIONS = "measurements/float16.json"
PRODUCT_ERRORS = "measurements/product-errors.json"
PLATFORMS = "measurements/platforms.json"
ONNX_SUITE = "measurements/onnx-suite.json"


def pages(docs: Path) -> dict[str, Callable[[], str]]:
    """What makes each document, by its path in ``docs``; stubs and README.md are those of the repository only."""
    made: dict[str, Callable[[], str]] = {
        "operators.md": operators_page,
        "decisions.md": decisions_page,
        "onnx.md": lambda: onnx_page(docs / ONNX_SUITE),
        "pictures/roofline.svg": lambda: roofline_picture(docs / SPEEDS, docs / OPERATIONS),
        "accuracy.md": lambda: accuracy_page(
            docs / MEASUREMENTS, docs / OPERATIONS, docs / FLOAT16_EXCEPTIONS, docs / PRODUCT_ERRORS
        ),
    }
    if docs != DOCS:
        return made
    readme = docs.parent / "README.md"
    made["how-to/install.md"] = lambda: install_page(docs / "how-to/install.md", docs / PLATFORMS)
    return {**made, "../dmlvk/functions.pyi": function_stubs, "../README.md": lambda: readme_page(readme)}


def take(source: Path, docs: Path) -> None:
    """Puts a run's measurements beside those that are there: cases of the same name are replaced."""
    made = reduced(json.loads(source.read_text(encoding="utf-8")))
    target = docs / MEASUREMENTS
    if target.exists():
        made = merged(json.loads(target.read_text(encoding="utf-8")), made)
    made["cases"].sort(key=lambda case: str(case["name"]))
    lines = ",\n".join(f"  {json.dumps(case)}" for case in made.pop("cases"))
    head = json.dumps(made, indent=1, ensure_ascii=False)[:-2]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f'{head},\n "cases": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing: say which documents are stale")
    parser.add_argument("--take", type=Path, metavar="FILE", help="a run's JSON document, to take the errors from")
    parser.add_argument("--count", action="store_true", help="count the operations of the compiled shaders anew")
    parser.add_argument("--docs", type=Path, default=DOCS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.take is not None:
        try:
            take(options.take, options.docs)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{options.take}: cannot take measurements from it: {error}", file=sys.stderr)
            return 2
    if options.count:
        counts = json.dumps(operations_by_operator(), indent=1)
        (options.docs / OPERATIONS).write_text(counts + "\n", encoding="utf-8")
    stale = []
    for name, make in pages(options.docs).items():
        path, text = options.docs / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if options.check and stale:
        print(f"stale: {', '.join(stale)}; run scripts/make_docs.py", file=sys.stderr)
        return 1
    print(f"{len(stale)} of {len(pages(options.docs))} documents {'written' if stale else 'had to be written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
