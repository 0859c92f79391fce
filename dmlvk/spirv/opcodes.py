"""SPIR-V's vocabulary as far as shaders need it: the numbers of instructions, decorations and built-in functions."""

from __future__ import annotations

from typing import Final

# Storage classes.
INPUT: Final = 1
UNIFORM: Final = 2
WORKGROUP: Final = 4
PRIVATE: Final = 6
FUNCTION: Final = 7
PUSH_CONSTANT: Final = 9
STORAGE_BUFFER: Final = 12
STORAGE_CLASS_NAMES: Final = {
    0: "UniformConstant", INPUT: "Input", UNIFORM: "Uniform", 3: "Output", WORKGROUP: "Workgroup",
    5: "CrossWorkgroup", PRIVATE: "Private", FUNCTION: "Function", 8: "Generic", PUSH_CONSTANT: "PushConstant",
    10: "AtomicCounter", 11: "Image", STORAGE_BUFFER: "StorageBuffer",
}  # fmt: skip

# Decorations.
RELAXED_PRECISION: Final = 0
SPEC_ID: Final = 1
ARRAY_STRIDE: Final = 6
BUILT_IN: Final = 11
RESTRICT: Final = 19
ALIASED: Final = 20
NON_WRITABLE: Final = 24
BINDING: Final = 33
DESCRIPTOR_SET: Final = 34
OFFSET: Final = 35
NO_CONTRACTION: Final = 42

BUILT_IN_WORKGROUP_SIZE: Final = 25
CAPABILITY_SHADER: Final = 1
EXECUTION_MODE_LOCAL_SIZE: Final = 17
EXECUTION_MODEL_GL_COMPUTE: Final = 5

CAPABILITY_NAMES: Final = {
    0: "Matrix", CAPABILITY_SHADER: "Shader", 9: "Float16", 10: "Float64", 11: "Int64", 12: "Int64Atomics",
    22: "Int16", 28: "UniformBufferArrayDynamicIndexing", 30: "StorageBufferArrayDynamicIndexing", 39: "Int8",
    49: "StorageImageExtendedFormats", 50: "ImageQuery", 61: "GroupNonUniform", 62: "GroupNonUniformVote",
    63: "GroupNonUniformArithmetic", 64: "GroupNonUniformBallot", 65: "GroupNonUniformShuffle",
    66: "GroupNonUniformShuffleRelative", 67: "GroupNonUniformClustered", 4433: "StorageBuffer16BitAccess",
    4441: "VariablePointersStorageBuffer", 4442: "VariablePointers", 4448: "StorageBuffer8BitAccess",
    4464: "DenormPreserve", 4465: "DenormFlushToZero", 4466: "SignedZeroInfNanPreserve", 4467: "RoundingModeRTE",
    5116: "BFloat16TypeKHR", 5118: "BFloat16CooperativeMatrixKHR", 5345: "VulkanMemoryModel",
    6022: "CooperativeMatrixKHR",
}  # fmt: skip


def _numbered(first: int, names: str) -> dict[int, str]:
    """Number a run of names upwards from ``first``; a ``-`` leaves its number out."""
    return {first + step: name for step, name in enumerate(names.split()) if name != "-"}


_INSTRUCTIONS: Final = (
    _numbered(0, "Nop Undef SourceContinued Source SourceExtension Name MemberName String Line - Extension")
    | _numbered(11, "ExtInstImport ExtInst - MemoryModel EntryPoint ExecutionMode Capability")
    | _numbered(19, "TypeVoid TypeBool TypeInt TypeFloat TypeVector TypeMatrix TypeImage TypeSampler")
    | _numbered(27, "TypeSampledImage TypeArray TypeRuntimeArray TypeStruct TypeOpaque TypePointer TypeFunction")
    | _numbered(41, "ConstantTrue ConstantFalse Constant ConstantComposite ConstantSampler ConstantNull")
    | _numbered(48, "SpecConstantTrue SpecConstantFalse SpecConstant SpecConstantComposite SpecConstantOp")
    | _numbered(54, "Function FunctionParameter FunctionEnd FunctionCall - Variable ImageTexelPointer Load Store")
    | _numbered(63, "CopyMemory CopyMemorySized AccessChain InBoundsAccessChain PtrAccessChain ArrayLength")
    | _numbered(71, "Decorate MemberDecorate DecorationGroup GroupDecorate GroupMemberDecorate")
    | _numbered(77, "VectorExtractDynamic VectorInsertDynamic VectorShuffle CompositeConstruct CompositeExtract")
    | _numbered(82, "CompositeInsert CopyObject Transpose - SampledImage ImageSampleImplicitLod")
    | _numbered(88, "ImageSampleExplicitLod ImageSampleDrefImplicitLod ImageSampleDrefExplicitLod")
    | _numbered(91, "ImageSampleProjImplicitLod ImageSampleProjExplicitLod ImageSampleProjDrefImplicitLod")
    | _numbered(94, "ImageSampleProjDrefExplicitLod ImageFetch ImageGather ImageDrefGather ImageRead ImageWrite")
    | _numbered(100, "Image ImageQueryFormat ImageQueryOrder ImageQuerySizeLod ImageQuerySize ImageQueryLod")
    | _numbered(106, "ImageQueryLevels ImageQuerySamples")
    | _numbered(109, "ConvertFToU ConvertFToS ConvertSToF ConvertUToF UConvert SConvert FConvert QuantizeToF16")
    | _numbered(124, "Bitcast - SNegate FNegate IAdd FAdd ISub FSub IMul FMul UDiv SDiv FDiv UMod SRem SMod FRem FMod")
    | _numbered(142, "VectorTimesScalar MatrixTimesScalar VectorTimesMatrix MatrixTimesVector MatrixTimesMatrix")
    | _numbered(147, "OuterProduct Dot IAddCarry ISubBorrow UMulExtended SMulExtended - Any All IsNan IsInf IsFinite")
    | _numbered(159, "IsNormal SignBitSet LessOrGreater Ordered Unordered LogicalEqual LogicalNotEqual LogicalOr")
    | _numbered(167, "LogicalAnd LogicalNot Select IEqual INotEqual UGreaterThan SGreaterThan UGreaterThanEqual")
    | _numbered(175, "SGreaterThanEqual ULessThan SLessThan ULessThanEqual SLessThanEqual FOrdEqual FUnordEqual")
    | _numbered(182, "FOrdNotEqual FUnordNotEqual FOrdLessThan FUnordLessThan FOrdGreaterThan FUnordGreaterThan")
    | _numbered(188, "FOrdLessThanEqual FUnordLessThanEqual FOrdGreaterThanEqual FUnordGreaterThanEqual")
    | _numbered(194, "ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd Not")
    | _numbered(201, "BitFieldInsert BitFieldSExtract BitFieldUExtract BitReverse BitCount")
    | _numbered(207, "DPdx DPdy Fwidth DPdxFine DPdyFine FwidthFine DPdxCoarse DPdyCoarse FwidthCoarse")
    | _numbered(224, "ControlBarrier MemoryBarrier - AtomicLoad AtomicStore AtomicExchange AtomicCompareExchange -")
    | _numbered(232, "AtomicIIncrement AtomicIDecrement AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax")
    | _numbered(239, "AtomicUMax AtomicAnd AtomicOr AtomicXor")
    | _numbered(245, "Phi LoopMerge SelectionMerge Label Branch BranchConditional Switch Kill Return ReturnValue")
    | _numbered(255, "Unreachable")
    | _numbered(317, "NoLine")
    | _numbered(330, "ModuleProcessed ExecutionModeId DecorateId")
    | _numbered(333, "GroupNonUniformElect GroupNonUniformAll GroupNonUniformAny GroupNonUniformAllEqual")
    | _numbered(337, "GroupNonUniformBroadcast GroupNonUniformBroadcastFirst GroupNonUniformBallot")
    | _numbered(340, "GroupNonUniformInverseBallot GroupNonUniformBallotBitExtract GroupNonUniformBallotBitCount")
    | _numbered(343, "GroupNonUniformBallotFindLSB GroupNonUniformBallotFindMSB GroupNonUniformShuffle")
    | _numbered(346, "GroupNonUniformShuffleXor GroupNonUniformShuffleUp GroupNonUniformShuffleDown")
    | _numbered(349, "GroupNonUniformIAdd GroupNonUniformFAdd GroupNonUniformIMul GroupNonUniformFMul")
    | _numbered(353, "GroupNonUniformSMin GroupNonUniformUMin GroupNonUniformFMin GroupNonUniformSMax")
    | _numbered(357, "GroupNonUniformUMax GroupNonUniformFMax GroupNonUniformBitwiseAnd GroupNonUniformBitwiseOr")
    | _numbered(361, "GroupNonUniformBitwiseXor GroupNonUniformLogicalAnd GroupNonUniformLogicalOr")
    | _numbered(364, "GroupNonUniformLogicalXor GroupNonUniformQuadBroadcast GroupNonUniformQuadSwap")
    | _numbered(400, "CopyLogical PtrEqual PtrNotEqual PtrDiff")
)

NAMES: Final = {number: f"Op{name}" for number, name in _INSTRUCTIONS.items()}
"""Instruction names by number, for the instructions that a compute shader can contain."""

NUMBERS: Final = {name: number for number, name in NAMES.items()}  # Instruction numbers by name

GLSL_FUNCTIONS: Final = (
    _numbered(1, "Round RoundEven Trunc FAbs SAbs FSign SSign Floor Ceil Fract Radians Degrees Sin Cos Tan Asin Acos")
    | _numbered(18, "Atan Sinh Cosh Tanh Asinh Acosh Atanh Atan2 Pow Exp Log Exp2 Log2 Sqrt InverseSqrt Determinant")
    | _numbered(34, "MatrixInverse Modf ModfStruct FMin UMin SMin FMax UMax SMax FClamp UClamp SClamp FMix IMix Step")
    | _numbered(49, "SmoothStep Fma Frexp FrexpStruct Ldexp PackSnorm4x8 PackUnorm4x8 PackSnorm2x16 PackUnorm2x16")
    | _numbered(58, "PackHalf2x16 PackDouble2x32 UnpackSnorm2x16 UnpackUnorm2x16 UnpackHalf2x16 UnpackSnorm4x8")
    | _numbered(64, "UnpackUnorm4x8 UnpackDouble2x32 Length Distance Cross Normalize FaceForward Reflect Refract")
    | _numbered(73, "FindILsb FindSMsb FindUMsb InterpolateAtCentroid InterpolateAtSample InterpolateAtOffset NMin")
    | _numbered(80, "NMax NClamp")
)
"""Functions of the GLSL.std.450 instruction set by number."""


def opcode(name: str) -> int:
    """Return the number of the instruction called ``name``, such as ``"OpFAdd"``.

    Raises:
        KeyError: the table has no such instruction.
    """
    return NUMBERS[name]


def numbers(names: str) -> tuple[int, ...]:
    """The numbers of several instructions, named without their ``Op`` and separated by blanks, in that order.

    Raises:
        KeyError: the table has no such instruction.
    """
    return tuple(NUMBERS[f"Op{name}"] for name in names.split())


def opcodes(names: str) -> frozenset[int]:
    """Return the numbers of several instructions, named without their ``Op`` and separated by blanks.

    Raises:
        KeyError: the table has no such instruction.
    """
    return frozenset(NUMBERS[f"Op{name}"] for name in names.split())


def opcode_range(first: str, last: str) -> frozenset[int]:
    """Return every instruction number between two named instructions, both included.

    Raises:
        KeyError: the table has no such instruction.
    """
    return frozenset(range(NUMBERS[first], NUMBERS[last] + 1))


def functions(names: str) -> frozenset[int]:
    """Return the GLSL.std.450 numbers of several functions, separated by blanks.

    Raises:
        KeyError: GLSL.std.450 has no such function.
    """
    numbers = {name: number for number, name in GLSL_FUNCTIONS.items()}
    return frozenset(numbers[name] for name in names.split())
