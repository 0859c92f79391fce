"""What the scripts that measure have in common: the choice of a device and of a file."""

from __future__ import annotations

import argparse
from pathlib import Path


def argument_parser(documentation: str) -> argparse.ArgumentParser:
    """A parser of ``--device`` and ``--json``, whose description is the first line of some documentation."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("-d", "--device", type=_selector, default=None, help="index of a device, or a part of its name")
    parser.add_argument("--json", type=_new_file, metavar="FILE", help="write everything that was measured")
    return parser


def _selector(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _new_file(text: str) -> Path:
    path = Path(text)
    if not path.absolute().parent.is_dir():  # found out before anything is measured
        raise argparse.ArgumentTypeError(f"{path}: there is no such directory")
    return path
