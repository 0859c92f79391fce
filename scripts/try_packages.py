"""Runs programs of public packages that ship their models, unchanged, by ONNX Runtime and by dmlvk.

    python scripts/try_packages.py                  all of them
    python scripts/try_packages.py magika ddddocr   some
    python scripts/try_packages.py --light          those whose models and packages are small

Each package is installed by pip into an environment of its own (below build/packages, or --folder; all together take
some 2 GB, and are kept), where dmlvk and what it needs come from the Python that runs this. A program must print the
same texts, labels and whole numbers by both, and no float output of any model may differ by more than the program says
(1e-4 as a rule) of its largest element when both compute the same inputs, nor a score by more than one in a thousand.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.package_tools.programs import PROGRAMS, PackageProgram

ROOT = Path(__file__).resolve().parents[1]

_SCORES = 1e-3
_TIMEOUT = 900


@dataclasses.dataclass(frozen=True)
class ProgramOutcome:
    """What came of a program.

    Attributes:
        problems: what differs; empty: nothing.
        models: for each model what ``beside.py`` reports.
        seconds: the time of both runs.
    """

    problems: list[str]
    models: dict[str, dict[str, Any]]
    seconds: float


def python_of(folder: Path, name: str, program: PackageProgram) -> Path:
    """The interpreter of a package's environment, which is made where it is not there."""
    environment = folder / name
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = environment / "installed"
    wanted = "\n".join(program.packages)
    if done.exists() and done.read_text() == wanted:
        return python
    venv.create(environment, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if program.alone:
        subprocess.run([*pip, "--no-deps", *program.alone], check=True)
    others = [package for package in program.packages if package not in program.alone]
    subprocess.run([*pip, *others, "onnx", "onnxruntime"], check=True)
    own = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    # What is installed there comes first; kp and whatever else is missing is this Python's.
    path = Path(own.stdout.strip()) / "of_dmlvk.pth"
    path.write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    done.write_text(wanted)
    return python


def tried(python: Path, program: PackageProgram) -> ProgramOutcome:
    """Runs a program by both, and compares.

    Args:
        python: the interpreter that has its packages.
        program: what is run.
    """
    begun = time.perf_counter()
    wrapper = ROOT / "scripts" / "package_tools" / "beside.py"
    with tempfile.TemporaryDirectory() as folder:
        source, report = Path(folder) / "program.py", Path(folder) / "report.json"
        source.write_text(program.text, encoding="utf-8")
        expected, problem = _printed([str(python), str(source)], folder)
        if problem:
            return ProgramOutcome([f"by ONNX Runtime itself: {problem}"], {}, time.perf_counter() - begun)
        found, problem = _printed([str(python), str(wrapper), str(report), str(source)], folder)
        models = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    allowed = max([_SCORES, *(entry.get("largest", 0.0) for entry in models.values())])
    problems = [problem] if problem else list(_differences(found, expected, "result", allowed))
    for name, entry in models.items():
        if not entry["same"]:
            problems.append(f"{name}: other values")
        if entry["largest"] > program.most:
            problems.append(f"{name}: a float output differs by {entry['largest']:.1e} of its largest")
    if not models and not problems:
        problems.append("no session ran")
    return ProgramOutcome(problems, models, time.perf_counter() - begun)


def _printed(command: list[str], folder: str) -> tuple[Any, str]:
    """What a program prints in its last line; or what went wrong."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"did not end within {_TIMEOUT} seconds"
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return None, " ".join(done.stderr.strip().splitlines()[-1:])[:400] or f"ended with {done.returncode}"
    return json.loads(lines[-1]), ""


def _differences(a: Any, b: Any, where: str, allowed: float) -> Iterator[str]:
    """What differs between two results; numbers by more than is allowed."""
    if isinstance(b, list) and isinstance(a, list) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _differences(one, other, f"{where}[{index}]", allowed)
    elif isinstance(b, dict) and isinstance(a, dict) and list(a) == list(b):
        for name in b:
            yield from _differences(a[name], b[name], f"{where}[{name!r}]", allowed)
    elif isinstance(b, float) and isinstance(a, float):
        if not math.isclose(a, b, rel_tol=allowed, abs_tol=allowed):
            yield f"{where}: {a} for {b}"
    elif a != b or type(a) is not type(b):
        yield f"{where}: {a!r} for {b!r}"


def _sentence(entry: dict[str, Any]) -> str:
    """What was found of a model."""
    hosted = f"; host: {', '.join(entry['hosted'])}" if entry["hosted"] else ""
    return f"{entry['calls']} runs, {entry['largest']:.1e}{hosted}"


def main() -> int:
    """Tries the packages that are asked for; 1 where something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"programs: {', '.join(PROGRAMS)}")
    parser.add_argument("--light", action="store_true", help="only those whose models and packages are small")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "packages", help="where environments are kept")
    parser.add_argument("--python", type=Path, help="one interpreter that has all packages already")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(PROGRAMS)
    if unknown:
        parser.error(f"there is no program for {', '.join(sorted(unknown))}")
    failed = []
    for name in arguments.names or PROGRAMS:
        program = PROGRAMS[name]
        if arguments.light and not program.is_light:
            continue
        python = arguments.python or python_of(arguments.folder, name, program)
        outcome = tried(python, program)
        print(f"{'ok ' if not outcome.problems else 'BAD'} {name} ({outcome.seconds:.0f} s)", flush=True)
        for model, entry in outcome.models.items():
            print(f"      {model}: {_sentence(entry)}", flush=True)
        for problem in outcome.problems:
            print(f"    {problem}", flush=True)
        failed += [name] if outcome.problems else []
    print(f"{len(failed)} of the programs differ: {', '.join(failed)}" if failed else "all programs are the same")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
