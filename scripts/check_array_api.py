#!/usr/bin/env python3
"""Run the array API standard's own test suite (data-apis/array-api-tests) on dmlvk.array_api.

    python scripts/check_array_api.py FOLDER [--examples 20] [PYTEST_ARGUMENT ...]

FOLDER is a checkout of the suite with its submodule array-api. Needs the packages hypothesis, ndindex and
pytest-json-report. What may fail is the table in docs/how-to/array-programs.md, patterns of tests with a reason in
each row: everything else has to pass. Rows of which nothing fails are told.

The suite takes it that there is some complex type, and cannot be imported without: in a copy of the folder, two lines
take the name complex64 for it. Tests with complex numbers are run nevertheless.

Exit status: 0 only what the table names fails, 1 something else does, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "array-programs.md"

_ABSENT_TYPES = "float64,complex64,complex128"

_CHANGES = (
    ("dtype_helpers.py", r"^widest_complex_dtype = max\(.*?^\)\[0\]", "widest_complex_dtype = xp.complex64"),
    ("test_signatures.py", r"dh\.dtype_to_name\[dh\.widest_complex_dtype\]", '"complex64"'),
)
"""File, what stands there, and what does instead: nothing where a version of the suite has no such line."""


def expected_failures(page: str) -> dict[str, str]:
    """The reasons of the documentation's table by patterns of the suite's tests.

    Args:
        page: the documentation, whose rows ``| `pattern` `pattern` | reason |`` name tests (``test_….py::…``).
    """
    rows = re.findall(r"^\| (`test_\w+\.py::.*?`) \| (.*) \|$", page, re.MULTILINE)
    return {pattern: reason for patterns, reason in rows for pattern in re.findall(r"`(.*?)`", patterns)}


def matches(test: str, pattern: str) -> bool:
    """Whether a pattern, in which only ``*`` has a meaning, names a test."""
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))


def judged(outcomes: Mapping[str, str], expected: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
    """Tests that fail though they should not, patterns none of whose tests fail, and failures that the table names.

    Args:
        outcomes: ``passed``, ``failed``, … by test.
    """
    failed = [test for test, outcome in outcomes.items() if outcome in ("failed", "error")]
    known = [test for test in failed if any(matches(test, pattern) for pattern in expected)]
    tried = [p for p in expected if any(matches(test, p) for test, one in outcomes.items() if one != "skipped")]
    idle = [pattern for pattern in tried if not any(matches(test, pattern) for test in failed)]
    return [test for test in failed if test not in known], idle, known


def run_suite(folder: Path, examples: int, arguments: list[str]) -> dict[str, str] | None:
    """The outcome of each test; ``None``: the suite did not run."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "suite"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        for file, old, new in _CHANGES:
            path = copy / "array_api_tests" / file
            path.write_text(re.sub(old, new, path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL), "utf-8")
        report = Path(name) / "report.json"
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "ARRAY_API_TESTS_MODULE": "dmlvk.array_api",
            "ARRAY_API_TESTS_SKIP_DTYPES": _ABSENT_TYPES,
            "PYTHONPATH": os.pathsep.join(paths),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short"]
        command += ["--disable-deadline", f"--max-examples={examples}", "--json-report"]
        command += [f"--json-report-file={report}", *(arguments or ["array_api_tests"])]
        subprocess.run(command, cwd=copy, env=environment, check=False)
        if not report.exists():
            return None
        tests = json.loads(report.read_text("utf-8"))["tests"]
    return {one["nodeid"].removeprefix("array_api_tests/"): one["outcome"] for one in tests} or None


def table(outcomes: Mapping[str, str], known: list[str]) -> str:
    """Passed, named failures, other failures and skipped tests of each of the suite's files."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for test, outcome in outcomes.items():
        counts[test.split("::")[0]]["named" if test in known else outcome] += 1
    rows = [f"{'file':48} passed  not supported  failed  skipped"]
    for file, count in [*sorted(counts.items()), ("all", sum(counts.values(), collections.Counter()))]:
        wrong = count["failed"] + count["error"]
        rows.append(f"{file:48} {count['passed']:6}  {count['named']:13}  {wrong:6}  {count['skipped']:7}")
    return "\n".join(rows)


def main() -> int:
    """Runs the suite and says what is not as documented."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=20, help="of each test (default: 20)")
    options, arguments = parser.parse_known_args()
    missing = [
        name for name in ("hypothesis", "ndindex", "pytest_jsonreport") if importlib.util.find_spec(name) is None
    ]
    if (
        missing
        or not (options.folder / "array_api_tests").is_dir()
        or not any((options.folder / "array-api").glob("*"))
    ):
        parser.error(
            f"needs the packages {', '.join(missing)}"
            if missing
            else f"{options.folder} has no array_api_tests, or not its submodule (git submodule update --init)"
        )
    outcomes = run_suite(options.folder, options.examples, arguments)
    if outcomes is None:
        print("check_array_api.py: the suite did not run", file=sys.stderr)
        return 1
    wrong, idle, known = judged(outcomes, expected_failures(PAGE.read_text("utf-8")))
    print(table(outcomes, known))
    for test in wrong:
        print(f"fails, and {PAGE.name} does not say so: {test}")
    for pattern in idle:
        print(f"passes, though {PAGE.name} says that it may fail: {pattern}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
