"""Shaders for drivers that execute both sides of every branch anyway: short branches become choices between values.

glslang makes a branch of ``condition ? x & y : z``, with a variable that either side stores. SwiftShader keeps masks of
the invocations that take a side, and sets the variable under them: 30 instructions where a choice takes 5.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections import Counter
from typing import TypeAlias

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.opcodes import NUMBERS, numbers, opcode_range

_BOUND = 3  # the header's word that says how many numbers there are
_CONSTANTS, _CONSTANTS_OF_TRUTH = (
    opcode_range("OpConstantTrue", "OpConstantNull"),
    numbers("ConstantTrue ConstantFalse"),
)
_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_POINTER = numbers("TypeBool TypeInt TypeFloat TypePointer")
_FUNCTION, _PARAMETER, _FUNCTION_END, _VARIABLE, _LOAD, _STORE, _ACCESS_CHAIN = numbers(
    "Function FunctionParameter FunctionEnd Variable Load Store AccessChain"
)
_EXTENDED = NUMBERS["OpExtInst"]  # a function of GLSL.std.450
_LOGICAL_OR, _LOGICAL_AND, _LOGICAL_NOT, _SELECT, _PHI = numbers("LogicalOr LogicalAnd LogicalNot Select Phi")
_SELECTION_MERGE, _LABEL, _BRANCH, _BRANCH_CONDITIONAL = numbers("SelectionMerge Label Branch BranchConditional")
_ENDS = opcode_range("OpLoopMerge", "OpUnreachable")  # but for OpLabel

_LOCAL = 7
_READABLE = (1, _LOCAL, 9)  # and inputs, and push constants: buffers may end before what a side does not read

# Conversions, calculations without divisions, comparisons, shifts and bits: any values will do.
_CALCULATIONS = frozenset({*range(79, 84), *range(109, 116), 124, *range(126, 134), *range(142, 206)})

_Instruction: TypeAlias = "tuple[int, array[int]]"


def flattened(spirv: bytes) -> bytes:
    """A shader that computes the same with fewer branches.

    A branch is dissolved when its sides only compute, and set local numbers. What they compute is computed in any case
    then, and what they set is chosen.

    Args:
        spirv: a module without specialization constants.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    made = words[:HEADER_WORDS]
    declared = _Declarations()
    function: list[_Instruction] = []
    for _, opcode, operands in module_instructions(words):
        if function or opcode == _FUNCTION:
            function.append((opcode, operands))
        else:
            declared.add(opcode, operands)
            _write(made, (opcode, operands))
        if opcode == _FUNCTION_END:
            flattening = _Flattening(declared, function, made[_BOUND])
            for each in flattening.instructions():
                _write(made, each)
            made[_BOUND] = flattening.bound
            function = []
    return made.tobytes()


def _write(words: array[int], instruction: _Instruction) -> None:
    opcode, operands = instruction
    words.append((len(operands) + 1) << 16 | opcode)
    words.extend(operands)


def _instruction(opcode: int, *operands: int) -> _Instruction:
    return opcode, array("I", operands)


class _Declarations:
    """What stands before a module's functions."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()  # types that one condition chooses from
        # by type of pointer, the kind of memory and the type of what is there
        self.pointed: dict[int, tuple[int, int]] = {}
        self.pointers: dict[int, int] = {}  # types of variables
        self.constants: set[int] = set()  # the names of all
        self.truths: set[int] = set()  # those of them that are true or false

    def add(self, opcode: int, operands: array[int]) -> None:
        if opcode in (_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT):
            self.numbers.add(operands[0])
        elif opcode == _TYPE_POINTER:
            self.pointed[operands[0]] = operands[1], operands[2]
        elif opcode == _VARIABLE:
            self.pointers[operands[1]] = operands[0]
        elif opcode in _CONSTANTS:
            self.constants.add(operands[1])
            if opcode in _CONSTANTS_OF_TRUTH:
                self.truths.add(operands[1])


@dataclasses.dataclass
class _BasicBlock:
    """Instructions that are executed one after the other."""

    label: int  # its name
    # without the label and the last ones, which lead to other blocks
    body: list[_Instruction] = dataclasses.field(default_factory=list)
    end: list[_Instruction] = dataclasses.field(default_factory=list)  # these

    @property
    def condition(self) -> int:
        """What is asked at the end, where two blocks follow."""
        return self.end[-1][1][0]


class _Flattening:
    def __init__(self, declared: _Declarations, function: list[_Instruction], bound: int) -> None:
        self.bound = bound  # the first number that names nothing yet
        self._declared, self._function = declared, function
        self._pointers = dict(declared.pointers)
        self._fixed = set(declared.pointers)  # pointers that lead to the same place in every invocation
        self._variables: set[int] = set()
        self._negations: dict[int, int] = {}
        self._mentions: Counter[int] = Counter()
        self._jumps: Counter[int] = Counter()
        self._new_labels: dict[int, int] = {}  # of blocks that have become part of others
        for opcode, operands in function:
            self._learn(opcode, operands)

    def _learn(self, opcode: int, operands: array[int]) -> None:
        self._mentions.update(operands)
        if opcode in _ENDS and opcode != _LABEL:
            self._jumps.update(operands)
        elif opcode in (_VARIABLE, _PARAMETER, _ACCESS_CHAIN):
            self._pointers[operands[1]] = operands[0]
            if opcode != _ACCESS_CHAIN or (
                operands[2] in self._fixed and self._declared.constants.issuperset(operands[3:])
            ):
                self._fixed.add(operands[1])
            if opcode == _VARIABLE:
                self._variables.add(operands[1])
        elif opcode == _LOGICAL_NOT:
            self._negations[operands[1]] = operands[2]

    def instructions(self) -> list[_Instruction]:
        """The function with fewer branches."""
        made: list[_Instruction] = []
        blocks: list[_BasicBlock] = []
        for opcode, operands in self._function[:-1]:
            if opcode == _LABEL:
                blocks.append(_BasicBlock(operands[0]))
            elif not blocks:
                made.append((opcode, operands))
            elif opcode in _ENDS:
                blocks[-1].end.append((opcode, operands))
            else:
                blocks[-1].body.append((opcode, operands))
        done: list[_BasicBlock] = []
        for block in blocks:
            sides = self._sides_before(block, done)
            if sides:
                del done[-len(sides) :]
                self._dissolve(done[-1], sides, block)
            else:
                done.append(block)
        for block in done:
            made += [_instruction(_LABEL, block.label), *map(self._with_new_labels, block.body), *block.end]
        return [*made, self._function[-1]]

    def _with_new_labels(self, instruction: _Instruction) -> _Instruction:
        opcode, operands = instruction
        if opcode != _PHI:
            return instruction
        return opcode, array("I", (self._label(each) if i % 2 and i > 2 else each for i, each in enumerate(operands)))

    def _label(self, label: int) -> int:
        while label in self._new_labels:
            label = self._new_labels[label]
        return label

    def _sides_before(self, block: _BasicBlock, done: list[_BasicBlock]) -> list[_BasicBlock]:
        """The sides of a branch that ends where a block begins, if it can be dissolved; they are the last blocks."""
        for count in (1, 2):
            if len(done) <= count or [opcode for opcode, _ in done[-count - 1].end] != [
                _SELECTION_MERGE,
                _BRANCH_CONDITIONAL,
            ]:
                continue
            (_, merge), (_, branch) = done[-count - 1].end
            sides = done[-count:]
            ways = [side.label for side in sides] + [block.label] * (2 - count)
            if merge[0] != block.label or list(branch[1:3]) != ways or self._jumps[block.label] != 3:
                continue
            if branch[0] in self._declared.truths or not self._are_chosen(block):
                continue
            if all(self._leads_only_to(block.label, side) and all(map(self._is_harmless, side.body)) for side in sides):
                return sides
        return []

    def _are_chosen(self, block: _BasicBlock) -> bool:
        """Whether what a block takes from the ones before it are numbers."""
        return all(operands[0] in self._declared.numbers for opcode, operands in block.body if opcode == _PHI)

    def _leads_only_to(self, label: int, side: _BasicBlock) -> bool:
        ((opcode, operands), *others) = side.end
        return not others and opcode == _BRANCH and operands[0] == label and self._jumps[side.label] == 1

    def _is_harmless(self, instruction: _Instruction) -> bool:
        """Whether an instruction of a side may be executed where the other one is taken."""
        opcode, operands = instruction
        if opcode == _LOAD:
            return len(operands) == 3 and self._memory(operands[2])[0] in _READABLE
        if opcode == _STORE:
            memory, content = self._memory(operands[0])
            return len(operands) == 2 and memory == _LOCAL and content in self._declared.numbers
        if opcode == _ACCESS_CHAIN:
            return self._memory(operands[1])[0] in _READABLE
        if opcode == _EXTENDED:
            return self._pointers.keys().isdisjoint(operands[4:])
        return opcode in _CALCULATIONS

    def _memory(self, pointer: int) -> tuple[int, int]:
        """The kind of memory to which a pointer leads, the same in all invocations, and the type of what is there."""
        return self._declared.pointed[self._pointers[pointer]] if pointer in self._fixed else (-1, 0)

    def _dissolve(self, header: _BasicBlock, sides: list[_BasicBlock], follower: _BasicBlock) -> None:
        """Makes one block of a branch: the one before it, its sides, and the one behind it."""
        condition = header.condition
        last = [side.body[-1] for side in sides if side.body and side.body[-1][0] == _STORE]
        is_choice = len(last) == 2 and last[0][1][0] == last[1][1][0]
        for is_taken, side in zip((True, False), sides, strict=False):
            own = self._own_variables(side)
            for instruction in side.body[:-1] if is_choice else side.body:
                header.body += self._under(condition, is_taken, instruction, own)
        if is_choice:
            (_, (target, accepted)), (_, (_, rejected)) = last
            header.body += self._stored_choice(condition, target, accepted, rejected)
        accepting = sides[0].label
        for opcode, operands in follower.body:
            header.body.append(self._choice(condition, accepting, operands) if opcode == _PHI else (opcode, operands))
        header.end = follower.end
        self._new_labels[follower.label] = header.label

    def _own_variables(self, side: _BasicBlock) -> set[int]:
        """Variables that nothing but a side uses, which sets them before it reads them."""
        first: dict[int, int] = {}
        for opcode, operands in side.body:
            for word in self._variables.intersection(operands):
                first.setdefault(word, opcode)
        inside = Counter(word for _, operands in side.body for word in operands if word in first)
        return {
            name
            for name, opcode in first.items()
            if opcode == _STORE and inside[name] == self._mentions[name] - 1  # where it is declared
        }

    def _under(self, condition: int, is_taken: bool, instruction: _Instruction, own: set[int]) -> list[_Instruction]:
        """What stands for an instruction of a side."""
        opcode, operands = instruction
        if opcode != _STORE or operands[0] in own:
            return [instruction]
        target, value = operands
        before = self._new_name()
        load = _instruction(_LOAD, self._memory(target)[1], before, target)
        self._mentions.update(load[1])
        accepted, rejected = (value, before) if is_taken else (before, value)
        return [load, *self._stored_choice(condition, target, accepted, rejected)]

    def _stored_choice(self, condition: int, target: int, accepted: int, rejected: int) -> list[_Instruction]:
        chosen = self._new_name()
        return [
            _instruction(_SELECT, self._memory(target)[1], chosen, condition, accepted, rejected),
            _instruction(_STORE, target, chosen),
        ]

    def _new_name(self) -> int:
        self.bound += 1
        return self.bound - 1

    def _choice(self, condition: int, accepting: int, operands: array[int]) -> _Instruction:
        """What stands for the value that comes from the block that is named beside it."""
        number_type, name, value, label, other, _ = operands
        accepted, rejected = (value, other) if self._label(label) == accepting else (other, value)
        if rejected == condition:
            return _instruction(_LOGICAL_AND, number_type, name, condition, accepted)
        if self._negations.get(condition) == rejected:
            return _instruction(_LOGICAL_OR, number_type, name, rejected, accepted)
        return _instruction(_SELECT, number_type, name, condition, accepted, rejected)
