"""Damage at random, for files of all kinds: to bytes, and to what JSON says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any


def damage_bytes(data: bytearray, offset: int, choose: random.Random) -> None:
    """A bit is turned over, or some bytes are missing, or there are more."""
    way = choose.randrange(3)
    if way == 0 and offset < len(data):
        data[offset] ^= 1 << choose.randrange(8)
    elif way == 1:
        del data[offset : offset + choose.randint(1, 9)]
    else:
        data[offset:offset] = choose.randbytes(choose.randint(1, 9))


def damage_value(content: Any, choose: random.Random, strange: Sequence[Any]) -> None:
    """Something inside of a JSON value is missing, or something else."""
    while isinstance(content, (dict, list)) and content:
        keys: list[Any] = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = choose.choice(keys)
        inside = content[key]
        if choose.random() < 0.5 and isinstance(inside, (dict, list)) and inside:
            content = inside
        elif choose.random() < 0.3:
            del content[key]
            return
        else:
            content[key] = choose.choice(strange)
            return
