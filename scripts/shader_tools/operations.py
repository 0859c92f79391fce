"""Counts what a shader computes for one element: arithmetic, comparisons, bit operations, selections, conversions."""

from __future__ import annotations

import functools
from pathlib import Path

from scripts.shader_tools.opcodes import opcode
from scripts.shader_tools.spirv import Module

# SPIR-V numbers its instructions in groups: arithmetic (from SNegate on), logic and comparisons (from Any on), bits and
# shifts (from ShiftRightLogical on), conversions. A Bitcast is the same register under another name.
_COUNTED = frozenset([*range(109, 118), *range(126, 153), *range(154, 192), *range(194, 206)])
_FUNCTION, _FUNCTION_END, _CALL = opcode("OpFunction"), opcode("OpFunctionEnd"), opcode("OpFunctionCall")
_ENTRY_POINT = opcode("OpEntryPoint")


def operations(module: Module) -> int:
    """The operations of a module's entry point and all that it calls: both sides of branches, loops once."""
    own: dict[int, int] = {}
    calls: dict[int, list[int]] = {}
    function = 0
    for offset in sorted(offset for offsets in module.offsets.values() for offset in offsets):
        instruction = module.instruction(offset)
        if instruction.opcode == _FUNCTION:
            function = instruction.operands[1]
            own[function], calls[function] = 0, []
        elif function and instruction.opcode in _COUNTED:
            own[function] += 1
        elif instruction.opcode == _CALL:
            calls[function].append(instruction.operands[2])

    @functools.cache
    def total(name: int) -> int:
        return own[name] + sum(total(callee) for callee in calls[name])

    (entry,) = module.instructions(_ENTRY_POINT)
    return total(entry.operands[1])


def operations_by_operator(library: Path) -> dict[str, int]:
    """The operations that each operator's function takes for a FLOAT32 element, without its optional members.

    In the walk through tiles a shader has its operator's function once; what is beside that is what a shader of as many
    operands has that does next to nothing.

    Args:
        library: the directory of the compiled shaders.
    """

    def count(name: str) -> int:
        return operations(Module((library / f"{name}.spv").read_bytes()))

    beside = {
        1: count("element_wise_identity.uint32.tiled"),
        2: count("element_wise_bit_and.uint32.tiled") - 1,
    }
    counts = {}
    for path in sorted(library.glob("*.float32.tiled.spv")):
        name = path.name.split(".")[0]
        inputs = _input_count(Module(path.read_bytes()))
        if inputs in beside:
            counts[name.upper()] = operations(Module(path.read_bytes())) - beside[inputs]
    return counts


def _input_count(module: Module) -> int:
    """The bindings of a shader but its output."""
    binding = 33
    return len({words[binding] for words in module.decorations.values() if binding in words}) - 1
