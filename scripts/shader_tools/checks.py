"""Checks of a whole SPIR-V module that a list of forbidden instructions cannot express.

Each check yields what it objects to as (word offset, text); ``rules`` gives it a name and a reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import Final

from dmlvk.spirv import opcodes
from dmlvk.spirv.modules import HEADER_WORDS
from dmlvk.spirv.specialization import PACKS_TO_NEAREST_EVEN, UNPACKS_DENORMALS
from scripts.shader_tools.length import MOST_COMPARISONS, MOST_INSTRUCTIONS, length_of
from scripts.shader_tools.spirv import Instruction, Module, UnknownSizeError, decode_string

MAX_INVOCATIONS: Final = 256
MAX_PUSH_CONSTANT_BYTES: Final = 128
MAX_SHARED_BYTES: Final = 16384

ALLOWED_CAPABILITIES: Final[dict[int, str]] = {opcodes.CAPABILITY_SHADER: "every Vulkan device has it"}
"""Capabilities that a shader may declare, each with the reason why."""

Objection = tuple[int, str]

_ROUNDING_ARITHMETIC = opcodes.opcodes("FAdd FSub FMul VectorTimesScalar")
_HALF_CONVERSIONS = {
    number: constant_id
    for name, constant_id in (("UnpackHalf2x16", UNPACKS_DENORMALS), ("PackHalf2x16", PACKS_TO_NEAREST_EVEN))
    for number in opcodes.functions(name)
}
_FMA = opcodes.functions("Fma")
_BESIDE_FMA = opcodes.opcodes("Function FunctionParameter FunctionEnd Label Variable Load Store ReturnValue")
_SHIFTS = opcodes.opcodes("ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical")
_UNSIGNED_DIVISIONS = opcodes.opcodes("UDiv UMod")
_STORAGE_CLASSES = frozenset(
    (opcodes.INPUT, opcodes.WORKGROUP, opcodes.PRIVATE, opcodes.FUNCTION, opcodes.PUSH_CONSTANT, opcodes.STORAGE_BUFFER)
)


def capabilities(module: Module) -> Iterator[Objection]:
    for instruction in module.named("OpCapability"):
        number = instruction.operands[0]
        if number not in ALLOWED_CAPABILITIES:
            yield instruction.offset, f"OpCapability {opcodes.CAPABILITY_NAMES.get(number, number)}"


def extensions(module: Module) -> Iterator[Objection]:
    for instruction in module.named("OpExtension"):
        yield instruction.offset, f'OpExtension "{decode_string(instruction.operands)}"'


def instruction_sets(module: Module) -> Iterator[Objection]:
    """Object to every extended instruction set but GLSL.std.450."""
    for instruction in module.named("OpExtInstImport"):
        name = decode_string(instruction.arguments)
        if name != "GLSL.std.450":
            yield instruction.offset, f'OpExtInstImport "{name}"'


def contraction(module: Module) -> Iterator[Objection]:
    """Object to float arithmetic without NoContraction."""
    for number in _ROUNDING_ARITHMETIC & module.offsets.keys():
        for instruction in module.instructions(number):
            if not module.has_decoration(instruction.result, opcodes.NO_CONTRACTION):
                yield instruction.offset, module.text(instruction)
    for call in module.named("OpExtInst"):
        if call.arguments[1] in _FMA and not module.has_decoration(call.result, opcodes.NO_CONTRACTION):
            yield call.offset, module.text(call)


def bare_fma(module: Module) -> Iterator[Objection]:
    """Object to fma() anywhere but in a function that does nothing else: the two of error_free.glsl."""
    calls = [call for call in module.named("OpExtInst") if call.arguments[1] in _FMA]
    ends = module.offsets.get(opcodes.opcode("OpFunctionEnd"), []) if calls else []
    for start, end in zip(module.offsets.get(opcodes.opcode("OpFunction"), []), ends, strict=False):
        of_function = [call for call in calls if start < call.offset < end]
        # Only how many instructions of each kind there are is asked: most functions have hundreds.
        others = sum(
            bisect_left(offsets, end) - bisect_left(offsets, start)
            for number, offsets in module.offsets.items()
            if number not in _BESIDE_FMA
        )
        if others > len(of_function) or len(of_function) > 1:
            yield from ((call.offset, module.text(call)) for call in of_function)


def half_conversions(module: Module) -> Iterator[Objection]:
    """Object to packHalf2x16 and unpackHalf2x16 outside of an ``if`` on the constant that says what they do here."""
    labels = list(module.named("OpLabel"))
    for call in module.named("OpExtInst"):
        constant_id = _HALF_CONVERSIONS.get(call.arguments[1])
        if constant_id is None:
            continue
        guards = {
            target for target, found in module.decorations.items() if found.get(opcodes.SPEC_ID) == (constant_id,)
        }
        guarded = {i.operands[1] for i in module.named("OpBranchConditional") if i.operands[0] in guards}
        block = max((label for label in labels if label.offset < call.offset), key=lambda label: label.offset)
        if block.operands[0] not in guarded:
            yield call.offset, module.text(call)


def zero_divisors(module: Module) -> Iterator[Objection]:
    """Object to unsigned division by a constant that is, or in one element is, zero."""
    for number in _UNSIGNED_DIVISIONS & module.offsets.keys():
        for instruction in module.instructions(number):
            if 0 in module.constant_elements(instruction.arguments[1]):
                yield instruction.offset, module.text(instruction)


def shift_counts(module: Module) -> Iterator[Objection]:
    """Object to shifts by a constant of 32 or more."""
    for number in _SHIFTS & module.offsets.keys():
        for instruction in module.instructions(number):
            if any(count >= 32 for count in module.constant_elements(instruction.arguments[1])):
                yield instruction.offset, module.text(instruction)


def type_widths(module: Module) -> Iterator[Objection]:
    """Object to integers and floats that are not 32 bits wide."""
    for instruction in chain(module.named("OpTypeInt"), module.named("OpTypeFloat")):
        if instruction.arguments[0] != 32:
            yield instruction.offset, module.text(instruction)


def local_size(module: Module) -> Iterator[Objection]:
    """Object to work groups that are too large, or whose size is not fixed in the module."""
    fixed = [i for i in module.named("OpExecutionMode") if i.operands[1] == opcodes.EXECUTION_MODE_LOCAL_SIZE]
    if not fixed:
        yield HEADER_WORDS, "no LocalSize execution mode"
    for instruction in fixed:
        x, y, z = instruction.operands[2:]
        if x * y * z > MAX_INVOCATIONS:
            yield instruction.offset, f"local size {x} x {y} x {z} is {x * y * z} invocations, limit {MAX_INVOCATIONS}"
    for composite in module.named("OpSpecConstantComposite"):
        decorations = module.decorations.get(composite.result, {})
        if decorations.get(opcodes.BUILT_IN) == (opcodes.BUILT_IN_WORKGROUP_SIZE,):
            yield composite.offset, "the local size is decided by specialization constants"


def push_constants(module: Module) -> Iterator[Objection]:
    """Object to push constants beyond what every device offers."""
    for variable in module.global_variables(opcodes.PUSH_CONSTANT):
        try:
            size = module.laid_out_size(module.pointee(variable))
        except UnknownSizeError as error:
            yield variable.offset, f"size of the push constants is unknown: {error}"
            continue
        if size > MAX_PUSH_CONSTANT_BYTES:
            yield variable.offset, f"{size} bytes of push constants, limit {MAX_PUSH_CONSTANT_BYTES}"


def length(module: Module) -> Iterator[Objection]:
    """Object to modules that drivers for GPUs take seconds to compile."""
    if len(list(module.named("OpEntryPoint"))) != 1:
        return  # another rule's
    found = length_of(module)
    if found.instructions > MOST_INSTRUCTIONS:
        yield 0, f"{found.instructions} instructions with all calls in their places, limit {MOST_INSTRUCTIONS}"
    if found.comparisons > MOST_COMPARISONS:
        yield 0, f"{found.comparisons} comparisons of loads and stores with what is known, limit {MOST_COMPARISONS}"


def shared_memory(module: Module) -> Iterator[Objection]:
    """Object to shared memory beyond what every device offers."""
    total = 0
    variables = module.global_variables(opcodes.WORKGROUP)
    for variable in variables:
        try:
            total += module.natural_layout(module.pointee(variable))[0]
        except UnknownSizeError as error:
            yield variable.offset, f"size of the shared memory is unknown: {error}"
    if total > MAX_SHARED_BYTES:
        yield variables[-1].offset, f"{total} bytes of shared memory, limit {MAX_SHARED_BYTES}"


def entry_points(module: Module) -> Iterator[Objection]:
    """Object unless the module has one entry point, a compute shader called main."""
    found = list(module.named("OpEntryPoint"))
    if len(found) != 1:
        yield HEADER_WORDS, f"{len(found)} entry points instead of 1"
    for instruction in found:
        model, name = instruction.operands[0], decode_string(instruction.operands[2:])
        if (model, name) != (opcodes.EXECUTION_MODEL_GL_COMPUTE, "main"):
            yield instruction.offset, f'entry point "{name}" of execution model {model}'


def execution_modes(module: Module) -> Iterator[Objection]:
    for instruction in module.named("OpExecutionMode"):
        if instruction.operands[1] != opcodes.EXECUTION_MODE_LOCAL_SIZE:
            yield instruction.offset, f"OpExecutionMode {instruction.operands[1]}"


def bindings(module: Module) -> Iterator[Objection]:
    """Object unless the storage buffers take bindings 0, 1, 2 … of descriptor set 0, views of one binding allowed."""
    numbers: set[int] = set()
    for variable in module.global_variables(opcodes.STORAGE_BUFFER):
        decorations = module.decorations.get(variable.result, {})
        (descriptor_set,) = decorations.get(opcodes.DESCRIPTOR_SET, (0,))
        (binding,) = decorations.get(opcodes.BINDING, (0,))
        if descriptor_set != 0:
            yield variable.offset, f"binding {binding} lies in descriptor set {descriptor_set}"
        numbers.add(binding)
    # One of as many numbers as there are bindings is missing unless they are 0, 1, 2 …
    missing = [number for number in range(len(numbers)) if number not in numbers]
    if missing:
        yield HEADER_WORDS, f"bindings {sorted(numbers)} leave out {missing[0]}"


def buffer_elements(module: Module) -> Iterator[Objection]:
    """Object to storage buffers that hold anything but unsigned 32-bit words and vectors of them."""
    for variable in module.global_variables(opcodes.STORAGE_BUFFER):
        for leaf in _leaf_types(module, module.pointee(variable)):
            if leaf.name != "OpTypeInt" or leaf.arguments != (32, 0):
                yield variable.offset, f"{module.text(variable)} holds {module.text(leaf)}"


def storage_classes(module: Module) -> Iterator[Objection]:
    """Object to variables that Kompute cannot bind."""
    for variable in module.global_variables():
        number = variable.arguments[0]
        if number not in _STORAGE_CLASSES:
            yield variable.offset, f"variable of storage class {opcodes.STORAGE_CLASS_NAMES.get(number, number)}"


def restrict(module: Module) -> Iterator[Objection]:
    """Object to the promise that a buffer overlaps no other."""
    yield from _decorated(module, opcodes.RESTRICT, "Restrict")


def readonly(module: Module) -> Iterator[Objection]:
    """Object to the promise that a buffer is not written."""
    yield from _decorated(module, opcodes.NON_WRITABLE, "NonWritable")


def relaxed_precision(module: Module) -> Iterator[Objection]:
    """Object to permission to calculate with fewer bits."""
    yield from _decorated(module, opcodes.RELAXED_PRECISION, "RelaxedPrecision")


def aliased(module: Module) -> Iterator[Objection]:
    """Object to storage buffers that are not declared to overlap others."""
    for variable in module.global_variables(opcodes.STORAGE_BUFFER):
        if not module.has_decoration(variable.result, opcodes.ALIASED):
            yield variable.offset, f"{module.text(variable)} lacks Aliased"


def embedded_instructions(module: Module) -> Iterator[Instruction]:
    """Yield what specialization constants calculate, as the instructions that would calculate it in a function."""
    for instruction in module.named("OpSpecConstantOp"):
        result_type, result, number, *arguments = instruction.operands
        yield Instruction(instruction.offset, number, (result_type, result, *arguments))


def _decorated(module: Module, decoration: int, name: str) -> Iterator[Objection]:
    for instruction in module.named("OpDecorate"):
        if instruction.operands[1] == decoration:
            yield instruction.offset, f"OpDecorate %{instruction.operands[0]} {name}"
    for instruction in module.named("OpMemberDecorate"):
        if instruction.operands[2] == decoration:
            target, member = instruction.operands[:2]
            yield instruction.offset, f"OpMemberDecorate %{target} {member} {name}"


def _leaf_types(module: Module, type_id: int) -> Iterator[Instruction]:
    definition = module.definitions[type_id]
    if definition.name == "OpTypeStruct":
        for member in definition.arguments:
            yield from _leaf_types(module, member)
    elif definition.name in ("OpTypeArray", "OpTypeRuntimeArray", "OpTypeVector"):
        yield from _leaf_types(module, definition.arguments[0])
    else:
        yield definition
