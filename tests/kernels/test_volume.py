"""How long a function is taken to be."""

from __future__ import annotations

import numpy as np
import pytest

from dmlvk.spirv.volume import called_words

_FMA, _CLAMP = 50, 43


def instruction(opcode: int, *operands: int) -> list[int]:
    return [(1 + len(operands)) << 16 | opcode, *operands]


@pytest.mark.parametrize(("called", "words"), [(_FMA, 5 + 2 * 7), (_CLAMP, 5 + 2 * (7 + 5 + 8))])
def test_multiplying_and_adding_at_once_is_one_instruction(called: int, words: int) -> None:
    """Two calls of a function that does nothing else count as two instructions; other functions count in full."""
    inner, outer, main, buffer = 10, 11, 12, 2
    module = [0x07230203, 0x00010300, 0, 100, 0]
    module += instruction(59, 1, buffer, 12)  # a variable in a storage buffer
    module += instruction(54, 1, inner, 0, 1) + instruction(12, 1, 20, 3, called, 4, 5, 6) + instruction(56)
    module += instruction(54, 1, outer, 0, 1)
    module += 2 * instruction(57, 1, 21, inner, 4, 5, 6)
    module += instruction(56)
    module += instruction(54, 1, main, 0, 1) + instruction(65, 1, 22, buffer, 7)
    module += instruction(57, 1, 23, outer) + instruction(56)
    assert called_words(np.array(module, np.uint32).tobytes()) == words
