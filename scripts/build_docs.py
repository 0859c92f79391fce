#!/usr/bin/env python3
"""Builds the documentation site into build/site; a warning, as of a link that leads nowhere, is an error.

    python scripts/build_docs.py

The pages that git does not keep are made first (make_docs.py).
MkDocs and what it needs (`pip install dmlvk[docs]`) are taken from this Python's packages, else from an environment
that is made in build/docs-environment. Exit status: MkDocs' own, 0 when the site is complete.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build" / "docs-environment"
_MODULES = ("mkdocs", "material", "mkdocstrings_handlers.python")


def requirements() -> list[str]:
    """What the extra ``docs`` of pyproject.toml asks for. (Python 3.10 has no reader of TOML.)"""
    found = re.search(r"^docs = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "pyproject.toml has an extra docs"
    return re.findall(r'"([^"]+)"', found[1])


def _has_all() -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in _MODULES)
    except ModuleNotFoundError:  # the package around one is missing
        return False


def python_with_mkdocs() -> Path:
    """This Python where it has MkDocs, else that of an environment which is made once for these requirements."""
    if _has_all():
        return Path(sys.executable)
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, wanted = ENVIRONMENT / "requirements.txt", "\n".join(requirements())
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements()], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    try:
        python = python_with_mkdocs()
    except subprocess.CalledProcessError as error:
        print(f"MkDocs could not be installed: exit status {error.returncode}", file=sys.stderr)
        return 1
    made = subprocess.run([sys.executable, str(ROOT / "scripts" / "make_docs.py")], cwd=ROOT, check=False)
    if made.returncode != 0:
        return made.returncode
    configuration = ROOT / "docs" / "site" / "mkdocs.yml"
    command = [str(python), "-m", "mkdocs", "build", "--strict", "--config-file", str(configuration)]
    return subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
