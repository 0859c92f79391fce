"""Reads SPIR-V modules, word by word."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

HEADER_WORDS = 5
"""What stands before a module's first instruction."""

_MAGIC = 0x07230203


def module_words(data: bytes) -> array[int]:
    """A module in the byte order of this machine.

    Raises:
        ValueError: the bytes are not a SPIR-V module.
    """
    if len(data) % 4 or len(data) < 4 * HEADER_WORDS:
        raise ValueError(f"{len(data)} bytes are not a SPIR-V module: a multiple of 4, at least 20")
    words = array("I")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != _MAGIC:
        words.byteswap()
    if words[0] != _MAGIC:
        raise ValueError(f"the first word is {words[0]:#010x}, not SPIR-V's {_MAGIC:#010x}")
    return words


def module_instructions(words: array[int]) -> Iterator[tuple[int, int, array[int]]]:
    """Position, number and operands of every instruction, in order.

    Raises:
        ValueError: one of them has no possible length.
    """
    position = HEADER_WORDS
    while position < len(words):
        length = words[position] >> 16
        if length == 0 or position + length > len(words):
            raise ValueError(f"the instruction at word {position} has the length {length}")
        yield position, words[position] & 0xFFFF, words[position + 1 : position + length]
        position += length
