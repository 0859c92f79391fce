"""Runs programs whose words matter only where they fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from scripts.cross.targets import CrossBuildError


def run(command: Sequence[str]) -> str:
    """Runs a program and returns what it says.

    Raises:
        CrossBuildError: it is not there, or fails; the message ends with what it has said.
    """
    print("+", command[0], *command[-3:], file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise CrossBuildError(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        raise CrossBuildError(f"{' '.join(command[:3])} …: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout
