"""How much code an operator's function is, once a driver has put all calls into their places."""

from __future__ import annotations

import collections
import functools
import math

from dmlvk.spirv.modules import module_instructions, module_words
from dmlvk.spirv.opcodes import numbers

LONG_FUNCTION_WORDS = 500
"""Words of SPIR-V from which on a function that calculates is slower than memory: MULTIPLY has 506, ADD 420."""

_FUNCTION, _FUNCTION_END, _FUNCTION_CALL, _VARIABLE, _ACCESS_CHAIN, _EXTENDED = numbers(
    "Function FunctionEnd FunctionCall Variable AccessChain ExtInst"
)
_STORAGE_BUFFER = 12
_FMA = 50


def called_words(spirv: bytes) -> int:
    """Words of SPIR-V, roughly, of what a kernel calls for one element, every call counted in full.

    But for calls of a function that multiplies and adds by ``fma()`` and does nothing else (``exact_product_plus``
    and ``loose_product_plus``): each becomes one instruction, of about as many words as the call.

    What loads and stores elements is not counted: that is the pattern, which a fused kernel has only once. A function
    that is called for every lane stands in the pattern as often. Where some elements are computed in a quicker way than
    others, the ordinary one counts, which the last few elements always take.
    """
    words: collections.Counter[int] = collections.Counter()
    calls: dict[int, collections.Counter[int]] = {}
    buffers: set[int] = set()
    pattern: set[int] = set()
    fused: set[int] = set()
    current = 0
    for _, opcode, operands in module_instructions(module_words(spirv)):
        if opcode == _VARIABLE and operands[2] == _STORAGE_BUFFER:
            buffers.add(operands[1])
        elif opcode == _FUNCTION:
            current = operands[1]
            calls[current] = collections.Counter()
        elif opcode == _FUNCTION_END:
            current = 0
        if not current:
            continue
        words[current] += 1 + len(operands)
        if opcode == _FUNCTION_CALL:
            calls[current][operands[2]] += 1
        elif opcode == _EXTENDED and operands[3] == _FMA:  # scripts/check_shaders.py: only in functions of its own
            fused.add(current)
        elif opcode == _ACCESS_CHAIN and operands[2] in buffers:
            pattern.add(current)

    @functools.cache
    def inlined(function: int) -> int:
        if function in fused:
            return 0
        return words[function] + sum(count * inlined(callee) for callee, count in calls[function].items())

    found_words = []
    for caller in pattern:
        found = {callee: count for callee, count in calls[caller].items() if callee not in pattern}
        if found:
            copies = math.gcd(*found.values())
            found_words.append(sum(count * inlined(callee) for callee, count in found.items()) // copies)
    return min(found_words, default=0)
