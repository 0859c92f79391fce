"""Shaders for submissions in which memory barriers stand between dispatches."""

from __future__ import annotations

import functools

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.opcodes import NUMBERS

_MEMBER_DECORATE = NUMBERS["OpMemberDecorate"]
_TYPES = range(19, 40)  # OpTypeVoid to OpTypeForwardPointer: what decorates something stands before them
_COHERENT = 23


@functools.lru_cache(maxsize=512)
def without_coherence(spirv: bytes) -> bytes:
    """A shader whose buffers are no longer ``coherent``.

    The shaders are compiled for submissions without memory barriers between dispatches. Where there are barriers the
    word only keeps loads out of the cache nearest to a core: without it an NVIDIA H200 reads broadcast columns 1.4 to
    1.7 times faster.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    kept = words[:HEADER_WORDS]
    position = HEADER_WORDS
    for position, opcode, operands in module_instructions(words):
        if opcode in _TYPES:
            break
        if opcode != _MEMBER_DECORATE or operands[2] != _COHERENT:  # glslang has the word at members alone
            kept.extend(words[position : position + 1 + len(operands)])
    return (kept + words[position:]).tobytes()
