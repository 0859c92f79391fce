"""Shaders with dynamic numbers, read at each launch, that others have compiled in: sizes, strides, attributes.

A driver compiles a module anew for each set of values that its specialization constants are given. Where that takes
longer than most launches, a module made here reads them from a buffer instead, and is compiled once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words, words_of
from dmlvk.spirv.opcodes import NUMBERS, numbers

_BOUND = 3  # the header's word that says how many names there are
_MEMBER_DECORATE, _DECORATE = numbers("MemberDecorate Decorate")
_SPEC_ID, _BLOCK, _ARRAY_STRIDE, _NON_WRITABLE, _BINDING, _DESCRIPTOR_SET, _OFFSET = 1, 2, 6, 24, 33, 34, 35
_ENTRY_POINT = NUMBERS["OpEntryPoint"]
_TYPE_BOOL, _TYPE_INT, _TYPE_ARRAY, _TYPE_RUNTIME_ARRAY, _TYPE_STRUCT, _TYPE_POINTER = numbers(
    "TypeBool TypeInt TypeArray TypeRuntimeArray TypeStruct TypePointer"
)
_CONSTANT, _SPEC_CONSTANT, _SPEC_CONSTANT_OP = numbers("Constant SpecConstant SpecConstantOp")
_COMPOSITES = (44, 51)
_FUNCTION, _FUNCTION_END, _VARIABLE, _LOAD, _STORE, _ACCESS_CHAIN, _LABEL = numbers(
    "Function FunctionEnd Variable Load Store AccessChain Label"
)
_EQUAL, _NOT_EQUAL, _ADD, _SWITCH = numbers("IEqual INotEqual IAdd Switch")
_PRIVATE, _PUSH_CONSTANT, _STORAGE_BUFFER = 6, 9, 12
_FIRST_OF_DRIVER = 1000  # specialization constants from here on are no pipeline's, but set in the module

# Where an instruction of a function has words that are no names: from which operand on, or which operands.
_LITERALS_FROM = {61: 3, 62: 2, 79: 4, 81: 3, 82: 4, 246: 2, 247: 1, 250: 3, 4450: 4, 4451: 4, 4452: 4}
_LITERALS_AT = {12: (3,), 54: (2,), 59: (2,)}
_NAMES_ONLY = frozenset(
    {55, 56, 57, 65, 80, 198, 199, 200, 202, 205, 224, 245, 248, 249, 252, 253, 254, 255}
    | {*range(109, 146), *range(147, 157), *range(164, 192), *range(194, 202), *range(227, 243)}
)
_UNDERSTOOD = _NAMES_ONLY.union(_LITERALS_FROM, _LITERALS_AT, (_SWITCH,))


def numbers_of(spirv: bytes) -> frozenset[int]:
    """Which constants of a module may be read from a buffer, each by its ``constant_id``.

    Those are numbers that it computes with, or does nothing with. Compiled in stay constants that are only compared,
    which say what is computed and not how much, and those that types depend on.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.

    Returns:
        the constants; none where the module has instructions that are not known here.
    """
    found = _ModuleConstants(module_words(spirv))
    return frozenset(found.numbers().values()) if found.is_understood else frozenset()


def general_shader(spirv: bytes, constants: frozenset[int], bindings: int, push_words: int) -> bytes:
    """A module that computes the same for all values of certain constants.

    It has one more binding, behind the others: a buffer of words. It has one more word of push constants: where in that
    buffer the values begin, which stand in the order of their ``constant_id``.

    Args:
        constants: some of its :func:`numbers_of`, at least one.
        push_words: how many words of push constants it is given.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    found = _ModuleConstants(words)
    names = [(constant_id, name) for name, constant_id in found.numbers().items() if constant_id in constants]
    in_order = {name: constant_id for constant_id, name in sorted(names)}
    return _Writing(words, found, in_order, bindings, push_words).made()


class _ModuleConstants:
    """A module's constants, and what becomes of them.

    Attributes:
        places: by name of a constant that a pipeline may be given, its ``constant_id``.
        computed: by name of a constant that is computed from others: type, opcode, operands.
        unsigned: the name of the type of numbers.
        is_understood: whether it is known of all operands of the functions whether they are names.
    """

    def __init__(self, words: array[int]) -> None:
        self.constant_ids: dict[int, int] = {}
        self.computed: dict[int, tuple[int, int, array[int]]] = {}
        self.unsigned = 0
        self.is_understood = True
        self._numbers: set[int] = set()
        self._plain: set[int] = set()  # constants that are the same in all pipelines
        self._fixed: set[int] = set()  # what types and composites are made of
        self._mentioned: set[int] = set()  # what functions do anything with but compare it
        self._compared: set[int] = set()
        in_function = False
        for _, opcode, operands in module_instructions(words):
            in_function = in_function or opcode == _FUNCTION
            if not in_function:
                self._note_declaration(opcode, operands)
            elif not self._numbers:
                return
            elif opcode not in _UNDERSTOOD:
                self.is_understood = False
            elif not self._numbers.isdisjoint(operands):
                self._note_use(opcode, operands)

    def _note_declaration(self, opcode: int, operands: array[int]) -> None:
        if opcode == _DECORATE and operands[1] == _SPEC_ID and operands[2] < _FIRST_OF_DRIVER:
            self.constant_ids[operands[0]] = operands[2]
        elif opcode == _TYPE_INT and operands[1] == 32 and operands[2] == 0:
            self.unsigned = operands[0]
        elif opcode == _TYPE_ARRAY:
            self._fixed.add(operands[2])
        elif opcode in _COMPOSITES:
            self._fixed.update(operands[2:])
        elif opcode == _VARIABLE:
            self._fixed.update(operands[3:])
        elif opcode == _CONSTANT:
            self._plain.add(operands[1])
        elif opcode == _SPEC_CONSTANT:
            if operands[0] == self.unsigned and operands[1] in self.constant_ids:
                self._numbers.add(operands[1])
        elif opcode == _SPEC_CONSTANT_OP:
            self.computed[operands[1]] = operands[0], operands[2], operands[3:]
            is_compared = self._is_comparison(operands[2], operands[3:])
            (self._compared if is_compared else self._mentioned).update(operands[3:])

    def _note_use(self, opcode: int, operands: array[int]) -> None:
        is_compared = opcode == _SWITCH or self._is_comparison(opcode, operands[2:])
        names = operands if is_compared else [operands[index] for index in _names(opcode, operands)]
        (self._compared if is_compared else self._mentioned).update(names)

    def _is_comparison(self, opcode: int, operands: array[int]) -> bool:
        return opcode in (_EQUAL, _NOT_EQUAL) and not self._plain.isdisjoint(operands)

    def numbers(self) -> dict[int, int]:
        """The constants that are dynamic, with their ``constant_id``: read at each launch, or by nothing."""
        fixed = set(self._fixed)
        for name, (_, _, operands) in reversed(self.computed.items()):
            if name in fixed:
                fixed.update(operands)
        return {
            name: constant_id
            for name, constant_id in self.constant_ids.items()
            if name in self._numbers - (self._compared - self._mentioned) - fixed
        }

    def depending_on(self, numbers: Iterable[int]) -> dict[int, tuple[int, int, array[int]]]:
        """Those that are computed from certain ones, in order."""
        names = set(numbers)
        depending = {}
        for name, computed in self.computed.items():
            if not names.isdisjoint(computed[2]):
                names.add(name)
                depending[name] = computed
        return depending


class _Writing:
    """A general module in the making.

    Every number becomes a variable of the invocation, which the entry point sets and all functions read.
    """

    def __init__(
        self, words: array[int], found: _ModuleConstants, numbers: dict[int, int], bindings: int, push_words: int
    ) -> None:
        self._words, self._found, self._numbers = words, found, numbers
        self._bindings, self._push_words = bindings, push_words
        self._computed = found.depending_on(numbers)
        self._bound = words[_BOUND]
        self._types: dict[int, int] = dict.fromkeys(numbers, found.unsigned)
        self._types.update((name, computed[0]) for name, computed in self._computed.items())
        self._variables = {name: self._new() for name in self._types}
        self._pointers: dict[tuple[int, int], int] = {}  # by kind of memory and type of what is there
        self._entry = 0
        self._parameters = (0, 0, 0)  # the type of the push constants, how many members it has, and their variable
        self._structures: dict[int, int] = {}  # how many members each type has

    def _new(self) -> int:
        self._bound += 1
        return self._bound - 1

    def made(self) -> bytes:
        self._look()
        made = self._words[:HEADER_WORDS]
        self._buffer, buffer_type, array_type = self._new(), self._new(), self._new()
        decorations = self._decorations(buffer_type, array_type)
        functions = 0
        for position, opcode, operands in module_instructions(self._words):
            if opcode == _FUNCTION:
                functions = position
                break
            if _TYPE_BOOL - 1 <= opcode <= _TYPE_POINTER and decorations:  # the first type, maybe OpTypeVoid
                made.extend(decorations)
                decorations = array("I")
            made.extend(self._declaration(opcode, operands))
        made.extend(self._declarations(buffer_type, array_type))
        for function in _functions(self._words, functions):
            made.extend(self._function(function))
        made[_BOUND] = self._bound
        return made.tobytes()

    def _look(self) -> None:
        for _, opcode, operands in module_instructions(self._words):
            if opcode == _FUNCTION:
                return
            if opcode == _ENTRY_POINT:
                self._entry = operands[1]
            elif opcode == _TYPE_POINTER:
                self._pointers[operands[1], operands[2]] = operands[0]
            elif opcode == _TYPE_STRUCT:
                self._structures[operands[0]] = len(operands) - 1
            elif opcode == _VARIABLE and operands[2] == _PUSH_CONSTANT:
                (structure,) = (s for (kind, s), p in self._pointers.items() if p == operands[0])
                self._parameters = structure, self._structures[structure], operands[1]

    def _decorations(self, buffer_type: int, array_type: int) -> array[int]:
        structure, members, _ = self._parameters
        made = words_of(_MEMBER_DECORATE, structure, members, _OFFSET, 4 * self._push_words)
        made += words_of(_DECORATE, array_type, _ARRAY_STRIDE, 4)
        made += words_of(_MEMBER_DECORATE, buffer_type, 0, _NON_WRITABLE)
        made += words_of(_MEMBER_DECORATE, buffer_type, 0, _OFFSET, 0)
        made += words_of(_DECORATE, buffer_type, _BLOCK)
        made += words_of(_DECORATE, self._buffer, _DESCRIPTOR_SET, 0)
        return made + words_of(_DECORATE, self._buffer, _BINDING, self._bindings)

    def _declaration(self, opcode: int, operands: array[int]) -> array[int]:
        """What stands for an instruction before the functions."""
        if opcode == _DECORATE and operands[0] in self._numbers:
            return array("I")
        if opcode in (_SPEC_CONSTANT, _SPEC_CONSTANT_OP) and operands[1] in self._types:
            return array("I")
        if opcode == _TYPE_STRUCT and operands[0] == self._parameters[0]:
            return words_of(opcode, *operands, self._found.unsigned)
        return words_of(opcode, *operands)

    def _declarations(self, buffer_type: int, array_type: int) -> array[int]:
        """What is added to them: types, places, the buffer and the variables."""
        unsigned = self._found.unsigned
        made = words_of(_TYPE_RUNTIME_ARRAY, array_type, unsigned)
        made += words_of(_TYPE_STRUCT, buffer_type, array_type)
        for kind, content in (
            (_STORAGE_BUFFER, buffer_type),
            (_STORAGE_BUFFER, unsigned),
            (_PUSH_CONSTANT, unsigned),
            *((_PRIVATE, content) for content in sorted(set(self._types.values()))),
        ):
            if (kind, content) not in self._pointers:
                self._pointers[kind, content] = self._new()
                made += words_of(_TYPE_POINTER, self._pointers[kind, content], kind, content)
        made += words_of(_VARIABLE, self._pointers[_STORAGE_BUFFER, buffer_type], self._buffer, _STORAGE_BUFFER)
        for name, variable in self._variables.items():
            made += words_of(_VARIABLE, self._pointers[_PRIVATE, self._types[name]], variable, _PRIVATE)
        self._index_names = [self._new() for _ in range(max(len(self._numbers), self._parameters[1] + 1))]
        for number, name in enumerate(self._index_names):
            made += words_of(_CONSTANT, unsigned, name, number)
        return made

    def _function(self, function: list[tuple[int, array[int]]]) -> array[int]:
        """A function, which reads the numbers that it needs when it begins."""
        is_entry = function[0][1][1] == self._entry
        used = {
            operands[index]
            for opcode, operands in function
            for index in _names(opcode, operands)
            if operands[index] in self._types
        }
        names = {name: name if is_entry else self._new() for name in self._types if name in used or is_entry}
        made = array("I")
        is_begun, is_ready = False, False
        for opcode, operands in function:
            if is_begun and not is_ready and opcode != _VARIABLE:
                is_ready = True
                made += self._set_numbers() if is_entry else self._read_numbers(names)
            is_begun = is_begun or opcode == _LABEL
            if not is_entry:
                operands = operands[:]
                for index in _names(opcode, operands):
                    operands[index] = names.get(operands[index], operands[index])
            made += words_of(opcode, *operands)
        return made

    def _set_numbers(self) -> array[int]:
        unsigned = self._found.unsigned
        _, members, parameters = self._parameters
        pointer, base = self._new(), self._new()
        made = words_of(
            _ACCESS_CHAIN, self._pointers[_PUSH_CONSTANT, unsigned], pointer, parameters, self._index_names[members]
        )
        made += words_of(_LOAD, unsigned, base, pointer)
        for number, name in enumerate(self._numbers):
            index, pointer = self._new(), self._new()
            made += words_of(_ADD, unsigned, index, base, self._index_names[number])
            made += words_of(
                _ACCESS_CHAIN,
                self._pointers[_STORAGE_BUFFER, unsigned],
                pointer,
                self._buffer,
                self._index_names[0],
                index,
            )
            made += words_of(_LOAD, unsigned, name, pointer)
            made += words_of(_STORE, self._variables[name], name)
        for name, (type_of_it, opcode, operands) in self._computed.items():
            made += words_of(opcode, type_of_it, name, *operands)
            made += words_of(_STORE, self._variables[name], name)
        return made

    def _read_numbers(self, names: dict[int, int]) -> array[int]:
        made = array("I")
        for name, own in names.items():
            made += words_of(_LOAD, self._types[name], own, self._variables[name])
        return made


def _names(opcode: int, operands: array[int]) -> Iterable[int]:
    """Which operands of an instruction in a function are names."""
    if opcode == _SWITCH:
        return (0, 1, *range(3, len(operands), 2))
    if opcode in _LITERALS_AT:
        return (index for index in range(len(operands)) if index not in _LITERALS_AT[opcode])
    return range(min(len(operands), _LITERALS_FROM.get(opcode, len(operands))))


def _functions(words: array[int], position: int) -> Iterator[list[tuple[int, array[int]]]]:
    """The instructions of each function, from the first one's position on."""
    function: list[tuple[int, array[int]]] = []
    for start, opcode, operands in module_instructions(words):
        if start >= position:
            function.append((opcode, operands))
            if opcode == _FUNCTION_END:
                yield function
                function = []
