"""Says which name may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant, for the end of a message: ``"; did you mean 'min'?"``, or nothing."""
    near = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(repr(word) for word in near)}?" if near else ""
