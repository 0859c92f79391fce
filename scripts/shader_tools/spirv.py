"""Read a SPIR-V module: its instructions by kind, types, constants, decorations and source lines.

A module is a stream of 32-bit words. One pass notes where each instruction starts, grouped by its number; everything
else is looked up from there, so that checking thousands of modules stays a matter of seconds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dmlvk.spirv import opcodes
from dmlvk.spirv.modules import HEADER_WORDS, module_words
from dmlvk.spirv.opcodes import opcode


class MalformedModuleError(ValueError):
    """The bytes are not a SPIR-V module that can be read."""


class UnknownSizeError(ValueError):
    """A type's size is decided by a specialization constant, so it cannot be known before a pipeline is made."""


def _numbers_with_result_type() -> frozenset[int]:
    """Instructions that start with a result type and a result."""
    runs = (
        ("Undef", "Undef"), ("ExtInst", "ExtInst"), ("ConstantTrue", "ConstantNull"),
        ("SpecConstantTrue", "SpecConstantOp"), ("Function", "FunctionParameter"), ("FunctionCall", "FunctionCall"),
        ("Variable", "Load"), ("AccessChain", "ArrayLength"), ("VectorExtractDynamic", "Transpose"),
        ("SampledImage", "ImageRead"), ("Image", "ImageQuerySamples"), ("ConvertFToU", "QuantizeToF16"),
        ("Bitcast", "Bitcast"), ("SNegate", "SMulExtended"), ("Any", "FUnordGreaterThanEqual"),
        ("ShiftRightLogical", "BitCount"), ("DPdx", "FwidthCoarse"), ("AtomicLoad", "AtomicLoad"),
        ("AtomicExchange", "AtomicXor"), ("Phi", "Phi"), ("GroupNonUniformElect", "GroupNonUniformQuadSwap"),
        ("CopyLogical", "PtrDiff"),
    )  # fmt: skip
    return frozenset().union(*(opcodes.opcode_range(f"Op{first}", f"Op{last}") for first, last in runs))


_WITH_RESULT_TYPE = _numbers_with_result_type()
_WITH_RESULT_ONLY = opcodes.opcode_range("OpTypeVoid", "OpTypeFunction") | opcodes.opcodes("String ExtInstImport Label")
# Their operands are numbers, names or a mixture, not ids.
_LITERAL_OPERANDS = opcodes.opcodes(
    "Source SourceExtension Name MemberName Extension MemoryModel EntryPoint ExecutionMode Capability TypeInt "
    "TypeFloat TypeVector TypePointer Decorate MemberDecorate Constant SpecConstant SpecConstantOp Variable "
    "CompositeExtract CompositeInsert VectorShuffle Line Load Store"
)


@dataclass(frozen=True)
class Instruction:
    offset: int  # index of its first word in the module
    opcode: int  # its number
    operands: tuple[int, ...]  # the words after the first

    @property
    def name(self) -> str:
        """Name such as ``"OpFAdd"``; an instruction outside the table is named by its number."""
        return opcodes.NAMES.get(self.opcode, f"Op#{self.opcode}")

    @property
    def result(self) -> int:
        """Id of the result; 0 when there is none."""
        if self.opcode in _WITH_RESULT_TYPE:
            return self.operands[1]
        return self.operands[0] if self.opcode in _WITH_RESULT_ONLY else 0

    @property
    def arguments(self) -> tuple[int, ...]:
        """The operands after result type and result."""
        if self.opcode in _WITH_RESULT_TYPE:
            return self.operands[2:]
        return self.operands[1:] if self.opcode in _WITH_RESULT_ONLY else self.operands

    @property
    def result_type(self) -> int:
        """Id of the result's type; 0 when there is none."""
        return self.operands[0] if self.opcode in _WITH_RESULT_TYPE else 0


class Module:
    """A SPIR-V module.

    Args:
        data: the module's bytes, of either byte order.

    Raises:
        MalformedModuleError: the bytes are cut short, do not start as SPIR-V does, or an instruction runs past the end.
    """

    def __init__(self, data: bytes) -> None:
        try:
            words = module_words(data)
        except ValueError as error:
            raise MalformedModuleError(str(error)) from error
        self.words = words
        self.offsets = _index(words)

    def instructions(self, number: int) -> Iterator[Instruction]:
        """Yield the instructions of one kind in the order of the module."""
        for offset in self.offsets.get(number, ()):
            yield self.instruction(offset)

    def named(self, name: str) -> Iterator[Instruction]:
        """Yield the instructions called ``name``, such as ``"OpVariable"``."""
        return self.instructions(opcode(name))

    def instruction(self, offset: int) -> Instruction:
        """Return the instruction that starts at a word."""
        first = self.words[offset]
        return Instruction(offset, first & 0xFFFF, tuple(self.words[offset + 1 : offset + (first >> 16)]))

    @cached_property
    def decorations(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """Decorations of each id: decoration number to its further operands."""
        found: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
        for instruction in self.named("OpDecorate"):
            target, decoration, *extra = instruction.operands
            found[target][decoration] = tuple(extra)
        return dict(found)

    @cached_property
    def member_decorations(self) -> dict[tuple[int, int], dict[int, tuple[int, ...]]]:
        """Decorations of each structure member, by (structure id, member index)."""
        found: dict[tuple[int, int], dict[int, tuple[int, ...]]] = defaultdict(dict)
        for instruction in self.named("OpMemberDecorate"):
            structure, member, decoration, *extra = instruction.operands
            found[structure, member][decoration] = tuple(extra)
        return dict(found)

    @cached_property
    def definitions(self) -> dict[int, Instruction]:
        """Types, constants and global variables by their id."""
        found: dict[int, Instruction] = {}
        wanted = opcodes.opcode_range("OpTypeVoid", "OpSpecConstantOp") | {opcode("OpVariable"), opcode("OpUndef")}
        for number in wanted & self.offsets.keys():
            for instruction in self.instructions(number):
                found[instruction.result] = instruction
        return found

    def has_decoration(self, target: int, decoration: int) -> bool:
        """Whether an id carries a decoration."""
        return decoration in self.decorations.get(target, {})

    def constant(self, target: int) -> int | None:
        """Return the value of a scalar constant, 0 for a null one, or None where it is not a fixed scalar."""
        definition = self.definitions.get(target)
        if definition is None:
            return None
        if definition.opcode == opcode("OpConstantNull"):
            return 0
        return definition.arguments[0] if definition.opcode == opcode("OpConstant") else None

    def constant_elements(self, target: int) -> list[int]:
        """Return the fixed values among a constant's elements; a scalar is its own only element."""
        definition = self.definitions.get(target)
        if definition is not None and definition.opcode == opcode("OpConstantComposite"):
            elements = definition.arguments
        else:
            elements = (target,)
        return [value for element in elements if (value := self.constant(element)) is not None]

    def global_variables(self, storage_class: int | None = None) -> list[Instruction]:
        """Return the variables outside functions, of one storage class or of all."""
        return [i for i in self._global_variables if storage_class in (None, i.arguments[0])]

    @cached_property
    def _global_variables(self) -> list[Instruction]:
        return [i for i in self.named("OpVariable") if i.arguments[0] != opcodes.FUNCTION]

    def pointee(self, variable: Instruction) -> int:
        """Return the id of the type that a variable holds."""
        return self.definitions[variable.result_type].arguments[1]

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts by id: source file names when the module has debug information."""
        return {i.result: decode_string(i.arguments) for i in self.named("OpString")}

    @cached_property
    def _lines(self) -> tuple[list[int], list[Instruction]]:
        markers = sorted((*self.named("OpLine"), *self.named("OpNoLine"), *self.named("OpFunctionEnd")), key=_offset)
        return [marker.offset for marker in markers], markers

    def source_position(self, offset: int) -> tuple[str, int] | None:
        """Return source file and line of the instruction at a word, when the module has debug information."""
        offsets, markers = self._lines
        index = bisect_right(offsets, offset) - 1
        if index < 0 or markers[index].opcode != opcode("OpLine"):
            return None
        file, line, _column = markers[index].operands
        return self.strings.get(file, ""), line

    def text(self, instruction: Instruction) -> str:
        """Write an instruction nearly as a disassembler does: ``%27 = OpFMul %12 %25 %26``."""
        if instruction.opcode == opcode("OpExtInst"):
            instruction_set, function, *arguments = instruction.arguments
            words = [
                f"%{instruction_set}",
                opcodes.GLSL_FUNCTIONS.get(function, f"#{function}"),
                *(f"%{argument}" for argument in arguments),
            ]
        elif instruction.opcode in _LITERAL_OPERANDS:
            words = [str(argument) for argument in instruction.arguments]
        else:
            words = [f"%{argument}" for argument in instruction.arguments]
        if instruction.result_type:
            words.insert(0, f"%{instruction.result_type}")
        start = f"%{instruction.result} = " if instruction.result else ""
        return " ".join([start + instruction.name, *words])

    def array_length(self, array_type: Instruction) -> int:
        """Return an array type's element count: the larger one where a specialization constant chooses between two.

        Raises:
            UnknownSizeError: the count is another specialization constant.
        """
        length = self.constant(array_type.arguments[1])
        if length is None:
            length = max(self._choices(array_type.arguments[1]), default=None)
        if length is None:
            raise UnknownSizeError("the length of an array is a specialization constant")
        return length

    def _choices(self, target: int) -> list[int]:
        """The two constants that a specialization constant is one of; none where it is computed otherwise."""
        definition = self.definitions[target]
        if definition.opcode != opcode("OpSpecConstantOp") or definition.arguments[0] != opcode("OpSelect"):
            return []
        values = [self.constant(each) for each in definition.arguments[2:]]
        return [value for value in values if value is not None] if None not in values else []

    def laid_out_size(self, type_id: int) -> int:
        """Return the bytes that a type with explicit offsets and strides covers; runtime arrays count as empty.

        Raises:
            UnknownSizeError: an array's length is a specialization constant.
        """
        definition = self.definitions[type_id]
        kind = definition.name
        if kind == "OpTypeStruct":
            ends = [
                self.member_decorations[type_id, index][opcodes.OFFSET][0] + self.laid_out_size(member)
                for index, member in enumerate(definition.arguments)
            ]
            return max(ends, default=0)
        if kind == "OpTypeArray":
            stride = self.decorations[type_id][opcodes.ARRAY_STRIDE][0]
            return stride * self.array_length(definition)
        if kind == "OpTypeRuntimeArray":
            return 0
        return self.natural_layout(type_id)[0]

    def natural_layout(self, type_id: int) -> tuple[int, int]:
        """Return (size, alignment) in bytes by the std430 rules, which Vulkan counts shared memory by.

        Raises:
            UnknownSizeError: an array's length is a specialization constant, or the type has no size.
        """
        definition = self.definitions[type_id]
        kind, arguments = definition.name, definition.arguments
        if kind in ("OpTypeInt", "OpTypeFloat"):
            return arguments[0] // 8, arguments[0] // 8
        if kind == "OpTypeBool":
            return 4, 4
        if kind == "OpTypeVector":
            size, _ = self.natural_layout(arguments[0])
            return size * arguments[1], size * (2 if arguments[1] == 2 else 4)
        if kind == "OpTypeArray":
            size, alignment = self.natural_layout(arguments[0])
            return _round_up(size, alignment) * self.array_length(definition), alignment
        if kind == "OpTypeStruct":
            end = largest = 0
            for member in arguments:
                size, alignment = self.natural_layout(member)
                end = _round_up(end, alignment) + size
                largest = max(largest, alignment)
            return _round_up(end, largest or 1), largest or 1
        raise UnknownSizeError(f"{kind} has no size of its own")


def decode_string(words: tuple[int, ...]) -> str:
    """Decode a literal string: UTF-8, four bytes a word, ended by a zero byte."""
    return b"".join(word.to_bytes(4, "little") for word in words).split(b"\0", 1)[0].decode("utf-8", "replace")


def _index(words: array[int]) -> dict[int, list[int]]:
    """Note where the instructions of each kind start."""
    offsets: dict[int, list[int]] = defaultdict(list)
    position, end = HEADER_WORDS, len(words)
    while position < end:
        first = words[position]
        if first < 0x10000:
            raise MalformedModuleError(f"word {position} gives an instruction the length 0")
        offsets[first & 0xFFFF].append(position)
        position += first >> 16
    if position != end:
        raise MalformedModuleError(f"the last instruction ends at word {position}, the module at word {end}")
    return dict(offsets)


def _offset(instruction: Instruction) -> int:
    return instruction.offset


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
