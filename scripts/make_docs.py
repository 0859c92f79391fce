#!/usr/bin/env python3
"""Writes the documents that follow from the declarations.

Of these git keeps docs/accuracy.md with what was measured, and the count of operators in README.md. It does not keep
docs/operators.md, docs/onnx-operators.md, docs/decisions.md and dmlvk/functions.pyi, which tells editors and type
checkers of the operators' functions: set-up makes these here, the build of a wheel the last one, scripts/build_docs.py
those of the site.

    python scripts/make_docs.py                   write all of them
    python scripts/make_docs.py --check           say which of those in git are stale, and write the others
    python scripts/make_docs.py --take FILE       take the errors from FILE (dmlvk conformance --exhaustive --json FILE)
    python scripts/make_docs.py --count           count the operations of the compiled shaders anew

Exit status: 0 done, 1 --check found stale documents, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.docs_tools.accuracy import accuracy_page
from scripts.docs_tools.decisions import decisions_page
from scripts.docs_tools.function_stubs import function_stubs
from scripts.docs_tools.measured import Measured
from scripts.docs_tools.onnx_models import onnx_page
from scripts.docs_tools.operators import operators_page
from scripts.docs_tools.readme import readme_page
from scripts.shader_tools.operations import operations_by_operator

DOCS = Path(__file__).resolve().parent.parent / "docs"
ACCURACY = "accuracy.md"
STUBS = "../dmlvk/functions.pyi"
NOT_IN_GIT = ("operators.md", "onnx-operators.md", "decisions.md", STUBS)


def pages(docs: Path, measured: Measured) -> dict[str, Callable[[], str]]:
    """What makes each document, by its path in ``docs``.

    Stubs and README.md are those of the repository only.
    """
    made: dict[str, Callable[[], str]] = {
        "operators.md": operators_page,
        "decisions.md": decisions_page,
        "onnx-operators.md": onnx_page,
        ACCURACY: lambda: accuracy_page((docs / ACCURACY).read_text(encoding="utf-8"), measured),
    }
    if docs != DOCS:
        return made
    return {**made, STUBS: function_stubs, "../README.md": lambda: readme_page(docs.parent / "README.md")}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="say which documents in git are stale; write the others")
    parser.add_argument("--take", type=Path, metavar="FILE", help="a run's JSON document, to take the errors from")
    parser.add_argument("--count", action="store_true", help="count the operations of the compiled shaders anew")
    parser.add_argument("--docs", type=Path, default=DOCS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    measured = Measured.read((options.docs / ACCURACY).read_text(encoding="utf-8"))
    if options.take is not None:
        try:
            measured = measured.with_run(json.loads(options.take.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{options.take}: cannot take measurements from it: {error}", file=sys.stderr)
            return 2
    if options.count:
        measured = dataclasses.replace(measured, operations=operations_by_operator())
    changed, stale, made = 0, [], pages(options.docs, measured)
    for name, make in made.items():
        path, text = options.docs / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed += 1
            if options.check and name not in NOT_IN_GIT:
                stale.append(name)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"stale: {', '.join(stale)}; run scripts/make_docs.py", file=sys.stderr)
        return 1
    print(f"{changed} of {len(made)} documents {'written' if changed else 'had to be written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
