"""Calls of a function that still does what it did."""

from __future__ import annotations

from typing import Any

import pytest


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[tuple[Any, ...]]:
    """What a member of a class or an object is called with from now on; the list grows."""
    called: list[tuple[Any, ...]] = []
    real = getattr(owner, name)

    def noting(*given: Any, **more: Any) -> Any:
        called.append(given)
        return real(*given, **more)

    monkeypatch.setattr(owner, name, noting)
    return called
