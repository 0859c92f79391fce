"""What ``--device`` means."""

from __future__ import annotations

_INDEX_DIGITS = 9


def device_selector(text: str) -> int | str:
    """An index; or a UUID, a PCI address or a part of a name."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS else text
