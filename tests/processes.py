"""Python in processes of its own, and work in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def python(
    *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 300, **more: Any
) -> subprocess.CompletedProcess[str]:
    """How this Python ends with these arguments, and what it prints.

    Args:
        env: variables besides those of this process.
        timeout: seconds after which the test fails.
        more: for :func:`subprocess.run`.
    """
    program = [sys.executable, *arguments]
    merged = {**os.environ, **(env or {})}
    return subprocess.run(program, env=merged, timeout=timeout, capture_output=True, text=True, check=False, **more)


def in_threads(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Does work for each item in a thread of its own, all at once, and waits for them."""
    threads = [threading.Thread(target=work, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
