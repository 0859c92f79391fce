"""What a compiled shader must not contain, and why: each rule stands for a fault that was measured or is specified.

A rule is data: an id, the reason, and what it refuses (instructions by number, functions of GLSL.std.450, or whatever
a check of the whole module objects to). Where an operator needs an exception, ``EXEMPTIONS`` gets an entry with its
own reason; an exemption that no longer matches anything is itself reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
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


_OF_PACKED_ROWS = (
    *("blocks.float16.*.exact.*", "blocks.float16.*.planes.*"),
    *("blocks.float16.*.integer_*", "experts.float16.*.integer_*"),
)

_OF_HALVES = (
    "blocks.float16.*.matrices.*",
    "gemm.float16.cooperative.*.packed",
    "trial.half_products",
)
"""Variants that calculate in FLOAT16."""

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

_ANY_LENGTH = "size of the shared memory is unknown: *"
_ABOVE_LIMIT = "* bytes of shared memory, limit 16384"

_MATRICES = (
    ("capability", "OpCapability GroupNonUniform"),
    ("capability", "OpCapability VulkanMemoryModel"),
    ("capability", "OpCapability CooperativeMatrixKHR"),
    ("extension", '*"SPV_KHR_cooperative_matrix"'),
    ("extension", '*"SPV_KHR_vulkan_memory_model"'),
    ("unlisted-instruction", "Op#445[6789] *"),
    ("shared-memory", _ABOVE_LIMIT),
)
"""What cooperative matrices of any type break, and those of two types."""
_BYTES = (("capability", "OpCapability Int8"), ("type-width", "*OpTypeInt 8 1"))
_HALVES = (("capability", "OpCapability Float16"), ("type-width", "*OpTypeFloat 16"))


def _exemptions(reason: str, variants: str | Sequence[str], *broken: tuple[str, str]) -> Iterator[Exemption]:
    """Permission for all of these variants to break all of these rules: their ids, each with the instruction."""
    for pattern in (variants,) if isinstance(variants, str) else variants:
        for rule, instruction in broken:
            yield Exemption(rule, pattern, instruction, reason)


EXEMPTIONS: Final[tuple[Exemption, ...]] = (
    *_exemptions(
        "were its slow path not behind either sum, Intel's compiler would spill", "register_rows", ("length", "*")
    ),
    *_exemptions(
        "its length is that of the transposed inputs' tiles; dmlvk/kernels/access_orders.py gives tiles to what fits",
        "*.tiled",
        ("shared-memory", _ANY_LENGTH),
    ),
    *_exemptions(
        "below 16384 but for rows' tiles and wide work groups; dmlvk/kernels/rows/scan.py looks for room for these",
        "scan.sum.rows",
        ("shared-memory", _ANY_LENGTH),
    ),
    *_exemptions(
        "two tiles of each operand; dmlvk/kernels/products/matrix_choice.py gives them to devices that have room",
        "gemm.*.64x128.8x8*",
        ("shared-memory", _ABOVE_LIMIT),
    ),
    *_exemptions(
        "16 bytes for each invocation of a work group; dmlvk/kernels/rows/along_axes.py gives it 256 at most",
        ("*.in_registers", "*.long"),
        ("shared-memory", _ANY_LENGTH),
    ),
    *_exemptions(
        "a state for each invocation of a work group; dmlvk/kernels/rows/reduction.py has more than 256 where they fit",
        "reduction.*",
        ("shared-memory", _ANY_LENGTH),
    ),
    *_exemptions(
        "its length is a line's; index_lines.py takes it where a line fits into what the device has",
        "*er_lines",
        ("shared-memory", _ANY_LENGTH),
    ),
    *_exemptions(
        "dmlvk/kernels/products/packed_integers.py looks for room for work groups and their memory",
        ("blocks.float16.*.integer_rows.*", "experts.float16.*.integer_rows.*"),
        ("local-size", "local size 512 x 1 x 1 is 512 invocations, limit 256"),
        ("shared-memory", _ABOVE_LIMIT),
    ),
    *_exemptions(
        "compiled for those only who permit a device to round sums of products as it likes",
        [f"{family}.float32.*.device*" for family in ("gemm", "convolution", "blocks", "experts")],
        ("contraction", "*Fma*"),
    ),
    *_exemptions(
        "arithmetic of FLOAT16: taken only where the feature was enabled and the device's products are right",
        _OF_HALVES,
        *_HALVES,
    ),
    *_exemptions(
        "arithmetic of FLOAT16: taken only where the feature was enabled and the device's products are right",
        _OF_HALVES[:2],
        ("float-conversion", "*OpFConvert*"),
    ),
    *_exemptions(
        "integer dot products: taken only where the feature was enabled with its extension, and exact",
        ("*_integer.packed.*.dot", "*.float16.*.integer_rows.*.dot", "blocks.float16.*.dots.*"),
        ("capability", "OpCapability 601[89]"),
        ("extension", '*"SPV_KHR_integer_dot_product"'),
        ("unlisted-instruction", "Op#4450 *"),
    ),
    *_exemptions(
        "cooperative matrices of bytes: taken only where their features were enabled, and exact",
        "*_integer.packed.*.cooperative",
        *_MATRICES,
        *_BYTES,
    ),
    *_exemptions(
        "GLSL declares gl_SubgroupInvocationID mediump; it, its quotients and remainders are below 32",
        (
            "convolution.float16.cooperative.*.channels*",
            "gemm.float16.cooperative.*",
            "gemm.float32.cooperative.exact*",
            "blocks.float16.*.matrices.*",
            "blocks.float16.*.exact.*x*",
        ),
        ("relaxed-precision", "OpDecorate %* RelaxedPrecision"),
    ),
    *_exemptions(
        "cooperative matrices of FLOAT16: taken where a trial found sums exact (Target.has_exact_halves)",
        "blocks.float16.*.exact.*x*",
        *_MATRICES,
        *_HALVES,
        ("contraction", "*OpF*"),  # no product is contracted: each of matrices is decorated
        ("half-conversion", "*OpExtInst * PackHalf2x16 *"),  # of parts, which are FLOAT16's numbers
        ("readonly", "OpMemberDecorate %* 0 NonWritable"),  # parts of rows, and packed weights
    ),
    *_exemptions(
        "terms of packed rows are numbers below 2^24: what is not finite is looked for in the bits",
        (*_OF_PACKED_ROWS, "blocks.float16.*.dots.*", "blocks.float16.*.floats.*"),
        ("float-conversion", "*OpConvertFToS*"),
    ),
    *_exemptions(
        "terms of packed rows are numbers below 2^24: what is not finite is looked for in the bits",
        (*_OF_PACKED_ROWS, "blocks.float16.parts"),
        ("float-comparison", "*OpFUnordNotEqual*"),
    ),
    *_exemptions(
        "FLOAT16 GELU behind a product, for those who permit a device its own arithmetic: what Vulkan grants powers"
        " is far below FLOAT16's errors",
        ("gemm.float16.cooperative.*.epilogue", "gemm.float16.sums.epilogue"),
        ("driver-mathematics", "*OpExtInst * Exp2 *"),
    ),
    *_exemptions(
        "FLOAT16 attention by cooperative matrices, for those who permit a device its own arithmetic: what Vulkan "
        "grants powers, quotients and conversions is far below FLOAT16's errors; NaN among scores is added up",
        "attention.float16.cooperative.*",
        ("contraction", "*OpF*"),
        ("contraction", "*OpVectorTimesScalar*"),
        ("driver-mathematics", "*OpExtInst * Exp2 *"),
        ("float-division", "*OpFDiv*"),
        ("float-min-max", "*OpExtInst * NMax *"),
        ("half-conversion", "*OpExtInst * PackHalf2x16 *"),
    ),
    *_exemptions(
        "elements of cooperative matrices by invocations: taken only where a trial found where these lie",
        "attention.float16.cooperative.*",
        ("capability", "OpCapability GroupNonUniformShuffle"),
        ("subgroup", "*OpGroupNonUniformShuffleXor*"),
    ),
    *_exemptions(
        "elements of cooperative matrices by invocations: taken only where a trial found where these lie",
        ("attention.float16.cooperative.*", "trial.float16.cooperative.*"),
        ("float-conversion", "*OpFConvert*"),
        ("relaxed-precision", "OpDecorate %* RelaxedPrecision"),  # of gl_SubgroupInvocationID, as above
    ),
    *_exemptions(
        "cooperative matrices of FLOAT16: taken only where their features were enabled, by those who permit a "
        "device its own arithmetic",
        ("*.float16.cooperative.*", "blocks.float16.*.matrices.*"),
        *_MATRICES,
        *_HALVES,
    ),
    *_exemptions(
        "cooperative matrices of FLOAT32's parts: taken only where their features were enabled, by those who "
        "permit a device its own arithmetic",
        "gemm.float32.cooperative.*",
        *_MATRICES,
        ("capability", "OpCapability BFloat16TypeKHR"),
        ("capability", "OpCapability BFloat16CooperativeMatrixKHR"),
        ("extension", '*"SPV_KHR_bfloat16"'),
        ("type-width", "*OpTypeFloat 16 0"),
        ("contraction", "*OpFAdd*"),
        ("atomic", "*OpAtomicUMax*"),  # what the operation returns is not used
    ),
    *_exemptions(
        "bytes of FLOAT32: taken only where matrices of them were enabled; products of FLOAT32 that are added are "
        "by powers of two, and exact",
        "gemm.float32.cooperative.exact*",
        *_BYTES,
        ("contraction", "*OpFMul*"),
    ),
    *_exemptions(
        "operands of products by cooperative matrices, which no product may be written over",
        ("gemm.*.cooperative.*", "convolution.*.cooperative.*", "blocks.float16.*.matrices.*"),
        ("readonly", "OpMemberDecorate %* 0 NonWritable"),
    ),
    *_exemptions(
        "the largest of several numbers is the same in any order, and what the operation returns is not used",
        ("scatter_lines", "scatter_mark.*"),
        ("atomic", "*OpAtomicUMax*"),
    ),
    *_exemptions(
        "the order in which candidates are collected depends on it, but not their ranks: no two of them are equal",
        ("selected_tiles.*", "selected_rows.*"),
        ("atomic", "*OpAtomicIAdd*"),
    ),
)
"""Variants that may break a rule, each with its reason."""

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
