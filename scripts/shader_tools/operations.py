"""Counts what a shader computes for one element: arithmetic, comparisons, bit operations, selections, conversions."""

from __future__ import annotations

import collections
import functools

from dmlvk.datatypes import DataType
from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.variants import tiles_at_once
from dmlvk.operators import OPERATORS
from dmlvk.spirv.opcodes import opcode
from scripts.shader_tools.spirv import Module

# SPIR-V numbers its instructions in groups: arithmetic (from SNegate on), logic and comparisons (from Any on), bits and
# shifts (from ShiftRightLogical on), conversions. A Bitcast is the same register under another name. The functions of
# GLSL.std.450 that shaders may call are one operation each: least and greatest integers, places of bits, fma().
_COUNTED = frozenset([opcode("OpExtInst"), *range(109, 118), *range(126, 153), *range(154, 192), *range(194, 206)])
_FUNCTION, _FUNCTION_END, _CALL = opcode("OpFunction"), opcode("OpFunctionEnd"), opcode("OpFunctionCall")
_ENTRY_POINT, _LOOP_MERGE = opcode("OpEntryPoint"), opcode("OpLoopMerge")
_BINDING = 33  # the decoration
_ELEMENTS = 4  # Elements of FLOAT32 that an invocation computes


def operations(module: Module) -> int:
    """The operations of a module's entry point and all that it calls: both sides of branches, loops once."""
    return sum(_own_and_called(module))


def _own_and_called(module: Module) -> tuple[int, int]:
    """The operations of a module's entry point itself, and of all that it calls."""
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
    main = entry.operands[1]
    return own[main], total(main) - own[main]


def operations_by_operator() -> dict[str, int]:
    """The operations that each operator's function takes for a FLOAT32 element, without its optional members.

    In the walk through tiles a shader has its operator's function once for each of four elements of a tile; what is
    beside that is what a shader of as many operands has that does next to nothing. Where the function is long, it
    stands there once more in a loop over the elements; then it is what the entry point calls, but for what every shader
    calls there.
    """

    def module(name: str) -> Module:
        return Module(library.load(name))

    next_to_nothing = {1: module("element_wise_identity.uint32.tiled"), 2: module("element_wise_bit_and.uint32.tiled")}
    counts = {}
    for variant in all_variants():
        name = variant.name.split(".")[0].upper()
        if name not in OPERATORS or not variant.name.endswith(".float32.tiled"):
            continue
        counted = module(variant.name)
        inputs = _input_count(counted)
        if inputs in next_to_nothing:
            beside = next_to_nothing[inputs]
            tiles = tiles_at_once((DataType.FLOAT32,) * (inputs + 1))
            if _loops(counted) > _loops(beside):
                count = (_own_and_called(counted)[1] - _own_and_called(beside)[1]) // ((_ELEMENTS + 1) * tiles)
            else:
                count = (operations(counted) - operations(beside)) // (_ELEMENTS * tiles) + inputs - 1
            counts[name] = count
    return counts


def _loops(module: Module) -> int:
    """How many loops there are in a module's entry point itself."""
    (entry,) = module.instructions(_ENTRY_POINT)
    begins = {function.operands[1]: function.offset for function in module.instructions(_FUNCTION)}
    begin = begins[entry.operands[1]]
    end = min(each.offset for each in module.instructions(_FUNCTION_END) if each.offset > begin)
    return sum(begin < loop.offset < end for loop in module.instructions(_LOOP_MERGE))


def _input_count(module: Module) -> int:
    """The bindings of a shader but its output and its coefficients, which no two variables share as operands' do."""
    bindings = collections.Counter(words[_BINDING] for words in module.decorations.values() if _BINDING in words)
    return sum(views > 1 for views in bindings.values()) - 1
