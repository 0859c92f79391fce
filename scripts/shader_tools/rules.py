"""What a compiled shader must not contain, and why: each rule stands for a fault that was measured or is specified.

A rule is data: an id, the reason, and what it refuses (instructions by number, functions of GLSL.std.450, or whatever
a check of the whole module objects to). Where an operator needs an exception, ``exemptions.json`` gets an entry with
its own reason; an exemption that no longer matches anything is itself reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from dmlvk.spirv.opcodes import GLSL_FUNCTIONS, functions, opcode_range, opcodes
from scripts.shader_tools import checks
from scripts.shader_tools.spirv import Module


@dataclass(frozen=True)
class Rule:
    id: str  # short name, as printed and as used in exemptions
    reason: str  # what goes wrong otherwise, in one line
    instructions: frozenset[int] = frozenset()  # numbers of the instructions it refuses
    functions: frozenset[int] = frozenset()  # numbers of the GLSL.std.450 functions it refuses
    check: Callable[[Module], Iterable[checks.Objection]] | None = None  # yields what else it objects to


@dataclass(frozen=True)
class Exemption:
    """Permission for some variants to break a rule."""

    rule: str  # id of the rule
    variants: str  # glob over variant names
    instruction: str  # glob over the instruction's text, such as ``"*OpFDiv*"``
    reason: str  # why this cannot do harm there


@dataclass(frozen=True)
class Finding:
    variant: str  # name of the shader variant
    rule: str  # id of the rule
    instruction: str  # the instruction or fact objected to
    word: int  # index of the instruction's first word in the module
    file: str = ""  # GLSL file, when known
    line: int = 0  # line in it, 0 when not known


_FLOAT_COMPARISONS = opcode_range("OpIsNan", "OpUnordered") | opcode_range("OpFOrdEqual", "OpFUnordGreaterThanEqual")
_ATOMICS = opcode_range("OpAtomicLoad", "OpAtomicXor") | opcodes("ImageTexelPointer")
_DRIVER_MATHEMATICS = functions(
    "Radians Degrees Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Atan2 Pow Exp Log Exp2 Log2 "
    "Sqrt InverseSqrt Determinant MatrixInverse Modf ModfStruct FMix Step SmoothStep Frexp FrexpStruct Ldexp Length "
    "Distance Cross Normalize FaceForward Reflect Refract"
)
_FLOAT_MIN_MAX = functions("FMin FMax FClamp NMin NMax NClamp")
_FLOAT_ROUNDING = functions("Round RoundEven Trunc Floor Ceil Fract")
_FLOAT_SIGN = functions("FAbs FSign")
_HALF_CONVERSIONS = functions("PackHalf2x16 UnpackHalf2x16")
_PACKING = (
    frozenset(number for number, name in GLSL_FUNCTIONS.items() if name.startswith(("Pack", "Unpack")))
    - _HALF_CONVERSIONS
)
_FMA = functions("Fma")

ALLOWED_FUNCTIONS: Final = functions("UMin UMax SMin SMax FindILsb FindSMsb FindUMsb")
"""GLSL.std.450 functions that are exact on every device: integer ones without an undefined case."""

_NAMED_FUNCTIONS = (
    _DRIVER_MATHEMATICS | _FLOAT_MIN_MAX | _FLOAT_ROUNDING | _FLOAT_SIGN | _PACKING | _HALF_CONVERSIONS | _FMA
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "capability",
        "not every device has optional features, and Kompute as it is on PyPI enables none of them",
        check=checks.capabilities,
    ),
    Rule("extension", "nor is an extension enabled on every device", check=checks.extensions),
    Rule("instruction-set", "only GLSL.std.450 is understood by every driver", check=checks.instruction_sets),
    Rule(
        "type-width",
        "16-, 8- and 64-bit types need optional features; SwiftShader has none of them",
        check=checks.type_widths,
    ),
    Rule(
        "driver-mathematics",
        "GLSL's functions were measured up to millions of ULP off, differently on each driver",
        functions=_DRIVER_MATHEMATICS,
    ),
    Rule(
        "fma",
        "fma() may be one rounding or two: call exact_product_plus or loose_product_plus (error_free.glsl)",
        check=checks.bare_fma,
    ),
    Rule(
        "float-min-max",
        "min, max and clamp of NaN and of zeros with signs differ between drivers: compare the bits",
        functions=_FLOAT_MIN_MAX,
    ),
    Rule(
        "float-rounding",
        "round() of halves is the driver's choice and denormals may be flushed: round on the bits",
        functions=_FLOAT_ROUNDING,
    ),
    Rule(
        "float-sign",
        "abs() and sign() may flush denormals, and sign(NaN) is not defined: use the sign bit",
        functions=_FLOAT_SIGN,
    ),
    Rule("packing", "each may round as it likes", functions=_PACKING),
    Rule(
        "half-conversion",
        "unpackHalf2x16 flushes denormals on some devices, packHalf2x16 misrounds on others (SwiftShader's spills bits "
        "of infinities, too): they stand behind the constants that say what a device does",
        check=checks.half_conversions,
    ),
    Rule(
        "built-in-function",
        "not among the integer functions known to be exact on every device",
        functions=frozenset(range(1 << 10)) - ALLOWED_FUNCTIONS - _NAMED_FUNCTIONS,
    ),
    Rule(
        "float-division",
        "division may be off by 2.5 ULP and the remainders lose everything; drivers differ",
        instructions=opcodes("FDiv FRem FMod"),
    ),
    Rule(
        "signed-division",
        "% of a negative operand and INT_MIN / -1 are not defined: -7 % 3 was measured as -1 and as 2",
        instructions=opcodes("SDiv SRem SMod"),
    ),
    Rule("zero-divisor", "5u / 0u was measured as 4294967295 and as 0", check=checks.zero_divisors),
    Rule("shift-count", "a shift by the width or more is not defined", check=checks.shift_counts),
    Rule(
        "integer-carry",
        "the carry instructions have been miscompiled by drivers: take the carry from a comparison",
        instructions=opcodes("IAddCarry ISubBorrow"),
    ),
    Rule(
        "float-conversion",
        "float to integer out of range or of NaN is not defined: uint(-1.0) was measured as 2^32-1 and as 0",
        instructions=opcodes("ConvertFToU ConvertFToS FConvert QuantizeToF16"),
    ),
    Rule(
        "unsigned-to-float",
        "SwiftShader rounds twice: 5428 of 65536 random words were wrong (0xffffff7f); int to float was right",
        instructions=opcodes("ConvertUToF"),
    ),
    Rule(
        "contraction",
        "without `precise` a multiply and an add are fused on NVIDIA and not elsewhere",
        check=checks.contraction,
    ),
    Rule(
        "float-product",
        "dot and matrix products leave the order of their sum to the driver",
        instructions=opcode_range("OpMatrixTimesScalar", "OpDot"),
    ),
    Rule(
        "float-comparison",
        "float comparison flushes denormals (1e-40 == 0 on SwiftShader) and isnan() may be optimised away",
        instructions=_FLOAT_COMPARISONS,
    ),
    Rule("relaxed-precision", "mediump and lowp let a driver calculate with 16 bits", check=checks.relaxed_precision),
    Rule(
        "atomic",
        "packed stores clear with And and set with Or, which commute as minima do; other atomics depend on the order",
        instructions=_ATOMICS - opcodes("AtomicAnd AtomicOr AtomicUMin"),
    ),
    Rule(
        "derivative",
        "compute shaders have no neighbouring pixels",
        instructions=opcode_range("OpDPdx", "OpFwidthCoarse"),
    ),
    Rule(
        "image",
        "Kompute binds storage buffers, and image formats are optional",
        instructions=opcode_range("OpSampledImage", "OpImageQuerySamples")
        | opcode_range("OpTypeImage", "OpTypeSampledImage"),
    ),
    Rule(
        "subgroup",
        "subgroups are 4 wide on SwiftShader, 8 on llvmpipe, 32 on NVIDIA, and optional",
        instructions=opcode_range("OpGroupNonUniformElect", "OpGroupNonUniformQuadSwap"),
    ),
    Rule("undefined-value", "an undefined value differs from driver to driver", instructions=opcodes("Undef")),
    Rule("entry-point", "Kompute starts `main`", check=checks.entry_points),
    Rule("execution-mode", "every mode but the local size needs an extension", check=checks.execution_modes),
    Rule(
        "length",
        "AMD's compiler takes seconds: call from fewer places, write out in blocks of their own (`ALWAYS`)",
        check=checks.length,
    ),
    Rule("local-size", "SwiftShader's limit is 256 invocations in a work group", check=checks.local_size),
    Rule(
        "push-constants",
        "Vulkan guarantees 128 bytes; more works on NVIDIA and fails elsewhere",
        check=checks.push_constants,
    ),
    Rule("shared-memory", "Vulkan guarantees 16384 bytes", check=checks.shared_memory),
    Rule("bindings", "Kompute binds tensors in order from binding 0 of set 0", check=checks.bindings),
    Rule(
        "buffer-words",
        "bits of NaN and denormals survive a buffer of uint only; float loads and stores may change them",
        check=checks.buffer_elements,
    ),
    Rule("storage-class", "Kompute binds storage buffers and push constants only", check=checks.storage_classes),
    Rule("restrict", "in-place execution binds one buffer twice", check=checks.restrict),
    Rule("readonly", "in-place execution writes the buffer that is read: see restrict", check=checks.readonly),
    Rule(
        "aliased",
        "without Aliased a driver may assume that two bindings, or two views of one, never overlap",
        check=checks.aliased,
    ),
    Rule("unlisted-instruction", "not among the instructions known to give the same bits on every device"),
    Rule("malformed", "the file is not SPIR-V"),
)
"""Every rule, in the order in which they are listed."""

_COVERED = frozenset().union(*(rule.instructions for rule in RULES))

KNOWN_INSTRUCTIONS: Final = (
    opcode_range("OpSource", "OpLine")
    | opcodes("Extension ExtInstImport ExtInst MemoryModel EntryPoint ExecutionMode Capability NoLine ModuleProcessed")
    | opcodes("TypeVoid TypeBool TypeInt TypeFloat TypeVector TypeArray TypeRuntimeArray TypeStruct TypePointer")
    | opcodes("TypeFunction ConstantTrue ConstantFalse Constant ConstantComposite ConstantNull")
    | opcode_range("OpSpecConstantTrue", "OpSpecConstantOp")
    | opcodes("Function FunctionParameter FunctionEnd FunctionCall Variable Load Store CopyMemory AccessChain")
    | opcodes("InBoundsAccessChain ArrayLength Decorate MemberDecorate VectorShuffle CompositeConstruct")
    | opcodes("VectorExtractDynamic VectorInsertDynamic CompositeExtract CompositeInsert CopyObject Bitcast")
    | opcodes("ConvertSToF SNegate FNegate IAdd ISub IMul UDiv UMod FAdd FSub FMul VectorTimesScalar")
    | opcodes("UMulExtended SMulExtended Any All Select")
    | opcode_range("OpLogicalEqual", "OpLogicalNot")
    | opcode_range("OpIEqual", "OpSLessThanEqual")
    | opcode_range("OpShiftRightLogical", "OpBitCount")
    | opcodes("ControlBarrier MemoryBarrier AtomicAnd AtomicOr AtomicUMin Phi LoopMerge SelectionMerge Label Branch")
    | opcodes("BranchConditional Switch Return ReturnValue Unreachable")
)
"""Instructions that mean the same everywhere. OpFNegate is one: it turns over a bit and rounds nothing, so there is
nothing to contract but the multiply or add beside it, which carries its own decoration."""

EXEMPTIONS: Final[tuple[Exemption, ...]] = tuple(
    Exemption(rule, variants, instruction, each["reason"])
    for each in json.loads(Path(__file__).with_name("exemptions.json").read_text("utf-8"))
    for variants in each["variants"]
    for rule, instruction in each["broken"]
)
"""Variants that may break a rule, each with its reason: of ``exemptions.json``, whose entries each name several."""

REASONS: Final = {rule.id: rule.reason for rule in RULES}


def lint(variant: str, data: bytes) -> list[Finding]:
    """Return every broken rule of one module, exemptions not yet considered.

    Args:
        variant: name of the shader variant, for the findings.

    Returns:
        Findings in the order of the module, with source positions when it has debug information.
    """
    try:
        module = Module(data)
        found = {(word, rule, text) for rule, word, text in _objections(module)}
        return [
            Finding(variant, rule, text, word, *(module.source_position(word) or ("", 0)))
            for word, rule, text in sorted(found)
        ]
    except (ValueError, LookupError, RecursionError) as error:
        # A stream of words that is no module, or one whose ids lead nowhere or in a circle.
        return [Finding(variant, "malformed", f"{type(error).__name__}: {error}", 0)]


def apply_exemptions(
    findings: Iterable[Finding], exemptions: Sequence[Exemption] = EXEMPTIONS
) -> tuple[list[Finding], list[Exemption]]:
    """Separate the findings that stand from the exemptions that were of use.

    Args:
        findings: what ``lint`` returned, of all variants.

    Returns:
        The findings that no exemption covers, and the exemptions that covered none.
    """
    standing: list[Finding] = []
    used: set[Exemption] = set()
    for finding in findings:
        matching = [exemption for exemption in exemptions if _covers(exemption, finding)]
        used.update(matching)
        if not matching:
            standing.append(finding)
    return standing, [exemption for exemption in exemptions if exemption not in used]


def _covers(exemption: Exemption, finding: Finding) -> bool:
    return (
        exemption.rule == finding.rule
        and fnmatchcase(finding.variant, exemption.variants)
        and fnmatchcase(finding.instruction, exemption.instruction)
    )


def _objections(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield (rule, word, text) for everything that some rule refuses."""
    present = module.offsets.keys()
    embedded = list(checks.embedded_instructions(module))
    calls = list(module.named("OpExtInst"))
    for rule in RULES:
        for number in rule.instructions & present:
            for instruction in module.instructions(number):
                yield rule.id, instruction.offset, module.text(instruction)
        for instruction in embedded:
            if instruction.opcode in rule.instructions:
                yield rule.id, instruction.offset, f"{module.text(instruction)} in a specialization constant"
        for call in calls:
            if call.arguments[1] in rule.functions:
                yield rule.id, call.offset, module.text(call)
        if rule.check is not None:
            for word, text in rule.check(module):
                yield rule.id, word, text
    for number in present - KNOWN_INSTRUCTIONS - _COVERED:
        for instruction in module.instructions(number):
            yield "unlisted-instruction", instruction.offset, module.text(instruction)
    for instruction in embedded:
        if instruction.opcode not in KNOWN_INSTRUCTIONS | _COVERED:
            yield "unlisted-instruction", instruction.offset, f"{module.text(instruction)} in a specialization constant"
