"""How values are written out: the shortest text that reads back as the same value, without a needless ``.0``."""

from __future__ import annotations

import numpy as np

_LARGEST_WRITTEN_OUT = 2.0**53


def format_value(value: np.generic) -> str:
    """``6``, ``-0``, ``0.1``, ``1e-05``, ``nan``, ``inf``: 8-bit values are numbers too.

    Whole numbers are written out (the FLOAT16 65504 would be «65500» otherwise, which rounds to it) up to 2^53.
    """
    number = value.item()
    if isinstance(number, float) and number.is_integer() and 0 < abs(number) <= _LARGEST_WRITTEN_OUT:
        return str(int(number))
    text = str(value)
    return text[:-2] if text.endswith(".0") else text


def name_text(name: object) -> str:
    """A name or path in a line of output: what is not printable, such as the end of a line, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))


def format_bits(value: np.generic) -> str:
    """The bytes of a value as one hexadecimal number: ``0x3F800000``."""
    bits = int(np.asarray(value).view(f"u{value.dtype.itemsize}"))
    return f"0x{bits:0{2 * value.dtype.itemsize}X}"


def verbose_line(index: int, value: np.generic) -> str:
    """One value with its place and bits: ``[2] 1.5 (0x3FC00000)``."""
    return f"[{index}] {format_value(value)} ({format_bits(value)})"
