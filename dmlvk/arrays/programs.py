"""What a device keeps compiled of the work on arrays."""

from __future__ import annotations

import threading
from typing import Any

from dmlvk.support.recent import Recent

_MOST = {"number": 256, "graph": 1024}
"""How many are kept of each kind: numbers as arrays, graphs of operations that waited."""


class Programs:
    """Compiled graphs by what tells them from others; of each kind those not used for longest go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Recent[Any, Any]] = {kind: Recent(most) for kind, most in _MOST.items()}

    def get(self, kind: str, key: Any) -> Any:
        """What is kept; ``None``: nothing."""
        kept = self._kept[kind]
        with self._lock:
            found = kept.get(key)
            if found is not None:
                kept.move_to_end(key)
            return found

    def keep(self, kind: str, key: Any, made: Any) -> Any:
        """Keeps something, and gives it back."""
        with self._lock:
            return self._kept[kind].keep(key, made)

    def clear(self) -> None:
        with self._lock:
            for kept in self._kept.values():
                kept.clear()
