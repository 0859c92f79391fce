"""Reading SPIR-V: layout sizes, texts, and the decoration that glslang leaves out."""

from __future__ import annotations

import sys
from array import array

import pytest

from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv import opcodes
from dmlvk.spirv.decorations import with_decorations
from scripts.shader_tools.rules import KNOWN_INSTRUCTIONS, RULES
from scripts.shader_tools.spirv import MalformedModuleError, Module, UnknownSizeError

from .conftest import Project, shader


@pytest.mark.parametrize(
    ("members", "size"),
    [
        *(("uint a;", 4), ("uint a; uvec2 b;", 16), ("uvec3 a;", 12), ("uvec3 a; uint b;", 16)),
        *(("uint a; uvec4 b;", 32), ("uint a[3]; float b;", 16)),
        *(("uvec2 a[2][3];", 48), ("uint a; layout(offset = 64) uint b;", 68)),
    ],
)
def test_push_constant_size(empty_project: Project, members: str, size: int) -> None:
    declaration = f"layout(push_constant) uniform Parameters {{ {members} }} parameters;"
    module = Module(empty_project.spirv(shader("b[i] = uint(parameters.a == parameters.a);", declaration)))
    (variable,) = module.global_variables(opcodes.PUSH_CONSTANT)
    assert module.laid_out_size(module.pointee(variable)) == size


@pytest.mark.parametrize(
    ("declaration", "size"),
    [
        ("shared uint s[33];", 132),
        ("shared uvec3 s[2];", 32),
        ("shared uvec2 s[3];", 24),
        ("struct P { uint a; uvec4 b; uint c; }; shared P s[2];", 96),
        ("struct P { bool a; float b; }; shared P s[1];", 8),
        ("shared uint s[2][5];", 40),
    ],
)
def test_shared_memory_size(empty_project: Project, declaration: str, size: int) -> None:
    module = Module(empty_project.spirv(shader("s[0] = s[1 % s.length()];", declaration)))
    (variable,) = module.global_variables(opcodes.WORKGROUP)
    assert module.natural_layout(module.pointee(variable))[0] == size


def test_size_decided_by_a_specialization_constant(empty_project: Project) -> None:
    declaration = "layout(constant_id = 0) const uint COUNT = 4u; shared uint s[COUNT];"
    module = Module(empty_project.spirv(shader("s[0] = 0u;", declaration)))
    (variable,) = module.global_variables(opcodes.WORKGROUP)
    with pytest.raises(UnknownSizeError, match="specialization constant"):
        module.natural_layout(module.pointee(variable))


def test_size_chosen_by_a_specialization_constant(empty_project: Project) -> None:
    declaration = "layout(constant_id = 0) const bool IS_SMALL = false; shared uint s[IS_SMALL ? 3 : 8];"
    module = Module(empty_project.spirv(shader("s[0] = 0u;", declaration)))
    (variable,) = module.global_variables(opcodes.WORKGROUP)
    assert module.natural_layout(module.pointee(variable))[0] == 32


def test_texts_of_instructions(empty_project: Project) -> None:
    module = Module(empty_project.spirv(shader("precise float y = x + x; b[i] = uint(n) ^ floatBitsToUint(sqrt(y));")))
    (add,) = module.named("OpFAdd")
    assert module.text(add) == f"%{add.result} = OpFAdd %{add.result_type} %{add.arguments[0]} %{add.arguments[1]}"
    (root,) = module.named("OpExtInst")
    assert module.text(root) == f"%{root.result} = OpExtInst %{root.result_type} %1 Sqrt %{root.arguments[2]}"
    (mode,) = module.named("OpExecutionMode")
    assert module.text(mode) == f"OpExecutionMode {mode.operands[0]} 17 64 1 1"


def test_other_byte_order_reads_the_same(empty_project: Project) -> None:
    data = empty_project.spirv(shader())
    words = array("I", data)
    words.byteswap()
    assert Module(words.tobytes()).words == Module(data).words


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are not a SPIR-V module"),
        (b"\0" * 21, "21 bytes are not a SPIR-V module"),
        (b"\0" * 20, "the first word is 0x00000000"),
        ((0x07230203).to_bytes(4, sys.byteorder) + b"\0" * 20, "word 5 gives an instruction the length 0"),
        (
            (0x07230203).to_bytes(4, sys.byteorder) + b"\0" * 16 + (0x00020011).to_bytes(4, sys.byteorder),
            "the last instruction ends at word 7, the module at word 6",
        ),
    ],
)
def test_malformed_modules(data: bytes, message: str) -> None:
    with pytest.raises(MalformedModuleError, match=message):
        Module(data)


def test_aliased_is_added_once_and_never_beside_restrict(empty_project: Project) -> None:
    text = shader().replace("std430, set = 0, binding = 1) buffer", "std430, set = 0, binding = 1) restrict buffer")
    data = empty_project.spirv(text)
    module = Module(data)
    a, b = sorted(module.global_variables(opcodes.STORAGE_BUFFER), key=lambda v: module.decorations[v.result][33])
    assert module.has_decoration(a.result, opcodes.ALIASED)
    assert not module.has_decoration(b.result, opcodes.ALIASED)
    assert with_decorations(data) == data


def test_fma_is_decorated_once(empty_project: Project) -> None:
    data = empty_project.spirv(
        shader("b[i] = floatBitsToUint(fma(x, x, x)); precise float y = fma(x, x, 1.0); b[i] = uint(y);")
    )
    module = Module(data)
    calls = [call for call in module.named("OpExtInst") if call.arguments[1] in opcodes.functions("Fma")]
    assert len(calls) == 2
    assert all(module.has_decoration(call.result, opcodes.NO_CONTRACTION) for call in calls)
    assert with_decorations(data) == data


def test_fma_stays_as_it_is_where_a_device_may_round_as_it_likes(empty_project: Project) -> None:
    variant = ShaderVariant("good", "family/good.comp", (("DEVICE_ARITHMETIC", "1"),))
    empty_project.write(
        variant.source, shader("b[i] = floatBitsToUint(fma(x, x, x)); precise float y = x * x; b[i] = uint(y);")
    )
    module = Module(Compiler.find(empty_project.tree).compile(variant))
    (call,) = (call for call in module.named("OpExtInst") if call.arguments[1] in opcodes.functions("Fma"))
    (other,) = module.named("OpFMul")
    assert not module.has_decoration(call.result, opcodes.NO_CONTRACTION)
    assert module.has_decoration(other.result, opcodes.NO_CONTRACTION)


def test_no_instruction_is_both_known_and_refused() -> None:
    refused = frozenset().union(*(rule.instructions for rule in RULES))
    assert not KNOWN_INSTRUCTIONS & refused


def test_no_function_is_refused_twice() -> None:
    numbers = [number for rule in RULES for number in rule.functions]
    assert len(numbers) == len(set(numbers))
