"""Runs programs whose words matter only where they fail, and fetches files that are known."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence

from scripts.cross.targets import CrossBuildError

_WAITS = (5.0, 20.0)  # Seconds before a file is asked for again: what servers cannot give at once they mostly can soon


def fetched(url: str, sha256: str) -> bytes:
    """A file from the network.

    Args:
        sha256: of its content, in hexadecimal digits.

    Raises:
        CrossBuildError: it is not to be had, or is another one.
    """
    for wait in (*_WAITS, None):
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                content: bytes = answer.read()
            break
        except OSError as error:
            if wait is None:
                raise CrossBuildError(f"{url} is not to be had: {error}") from error
            time.sleep(wait)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise CrossBuildError(f"{url} is not what it was")
    return content


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
