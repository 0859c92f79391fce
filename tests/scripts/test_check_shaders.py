"""The linter: every rule fires on a shader that breaks it, and a shader that breaks none passes."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from dmlvk.kernels.library import glslang
from dmlvk.spirv import opcodes
from scripts.shader_tools.rules import RULES, Exemption, lint
from scripts.shader_tools.spirv import Module

from .conftest import Project, Sample, shader

Output = pytest.CaptureFixture[str]

CLEAN = """#version 450
#define BUFFER(number, name) \\
    layout(std430, set = 0, binding = number) coherent buffer Words_##name { uint words_##name[]; }; \\
    layout(std430, set = 0, binding = number) coherent buffer Fours_##name { uvec4 fours_##name[]; };
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SIZE = 1u;
layout(constant_id = 1) const bool PACKED = false;
layout(constant_id = 1002) const bool UNPACKS_DENORMALS = false;
layout(constant_id = 1004) const bool PACKS_TO_NEAREST_EVEN = false;
layout(push_constant) uniform Parameters { uint count; uint attributes[31]; } parameters;
BUFFER(0, input)
BUFFER(1, output)
shared uint tile[4096];
const uint HALF = SIZE / 2u;

float unpacked(uint half_bits)
{
    if (UNPACKS_DENORMALS) {
        return unpackHalf2x16(half_bits).x;
    }
    return 0.0;
}

uint packed(float x)
{
    if (PACKS_TO_NEAREST_EVEN) {
        return packHalf2x16(vec2(x, 0.0));
    }
    return 0u;
}

float multiply_add(float x, float y, float z)
{
    precise float product = x * y;
    precise float sum = product - (-z);
    precise vec2 scaled = vec2(x, y) * z;
    return PACKED ? sum : scaled.x;
}

float exact_product_plus(float a, float b, float c)
{
    precise float sum = fma(a, b, c);
    return sum;
}

void main()
{
    uint i = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x;
    tile[gl_LocalInvocationIndex] = fours_input[i].y;
    barrier();
    if (i >= parameters.count / SIZE + HALF) {
        return;
    }
    uint high, low;
    umulExtended(words_input[i], i | 1u, high, low);
    for (uint k = 0u; k < 4u; ++k) {
        switch (k & 3u) {
        case 0u: low += min(high, k); break;
        case 1u: low ^= uint(findMSB(high)) << k; break;
        default: low = bitfieldExtract(low, 3, 5) % SIZE;
        }
    }
    float x = uintBitsToFloat(words_input[i]);
    float sum = multiply_add(x, float(int(i)), unpacked(low));
    uint bits = floatBitsToUint(exact_product_plus(0.5, x, sum));
    atomicAnd(words_output[i >> 2u], 0xffffff00u);
    atomicOr(words_output[i >> 2u], low & 0xffu);
    fours_output[i] = uvec4(bits, low, high, uint(any(equal(uvec2(low), uvec2(high)))));
}
"""


def rules_broken(data: bytes) -> set[str]:
    return {finding.rule for finding in lint("sample", data)}


@pytest.mark.parametrize("text", [CLEAN, shader()], ids=["everything allowed", "little"])
def test_clean_shaders_pass(empty_project: Project, text: str) -> None:
    assert lint("clean", empty_project.spirv(text)) == []


INT64 = "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require"
INT16 = "#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require"
THIRD = "layout(std430, set = 0, binding = 2)"
IMAGE = "layout(r32ui, set = 0, binding = 2) uniform uimage2D im;"
UNPACKS = "layout(constant_id = 1002) const bool UNPACKS = false; layout(constant_id = 1) const bool OTHER = false;"
SPECIALIZED = "layout(constant_id = 0) const int N = 7; const int QUOTIENT = N / 2;"

CALLS = "uint f0(uint x) { return (x ^ x >> 3) * 5u; } " + " ".join(
    f"uint f{k}(uint x) {{ return {' + '.join([f'f{k - 1}(x)'] * 20)}; }}" for k in range(1, 4)
)
"""The last function has the first one's code 8,000 times."""

STORES = f"""layout(constant_id = 9) const bool ALWAYS = true;
uint f(uint x) {{ {" ".join(f"uint x{k} = x + {k}u; x ^= x{k};" for k in range(60))} return x; }}"""
"""A function of sixty variables, which Mesa remembers behind each call."""

# Rule, statements in main, declarations before it.
SOURCES = [
    ("capability", "b[i] = uint(uint64_t(a[i]) >> 3);", INT64),
    ("type-width", "b[i] = uint(uint64_t(a[i]) >> 3);", INT64),
    ("type-width", "b[i] = uint(uint16_t(a[i]));", INT16),
    ("type-width", "double d = packDouble2x32(uvec2(a[i])); b[i] = unpackDouble2x32(d).x;", ""),
    (
        "extension",
        "c[i] = uint8_t(a[i]);",
        f"#extension GL_EXT_shader_8bit_storage : require\n{THIRD} buffer C {{ uint8_t c[]; }};",
    ),
    *(
        ("driver-mathematics", f"b[i] = floatBitsToUint({function}(x));", "")
        for function in ("exp", "sqrt", "sin", "atan", "inversesqrt", "tanh", "log", "asin", "asinh", "exp2", "length")
    ),
    ("driver-mathematics", "b[i] = floatBitsToUint(pow(x, x));", ""),
    ("driver-mathematics", "b[i] = floatBitsToUint(mix(x, x, x));", ""),
    ("fma", "precise float y = fma(x, x, x); b[i] = floatBitsToUint(y);", ""),
    ("fma", "b[i] = f(x);", "uint f(float x) { precise float y = fma(x, x, x); return floatBitsToUint(y); }"),
    ("float-min-max", "b[i] = floatBitsToUint(max(x, 1.0));", ""),
    ("float-min-max", "b[i] = floatBitsToUint(min(x, 1.0));", ""),
    ("float-min-max", "b[i] = floatBitsToUint(clamp(x, 0.0, 1.0));", ""),
    *(
        ("float-rounding", f"b[i] = floatBitsToUint({call});", "")
        for call in ("round(x)", "roundEven(x)", "trunc(x)", "floor(x)", "ceil(x)", "fract(x)")
    ),
    *(("float-sign", f"b[i] = floatBitsToUint({call});", "") for call in ("abs(x)", "sign(x)")),
    ("packing", "b[i] = packUnorm2x16(vec2(x));", ""),
    ("packing", "b[i] = floatBitsToUint(unpackSnorm2x16(a[i]).x);", ""),
    ("half-conversion", "b[i] = floatBitsToUint(unpackHalf2x16(a[i]).x);", ""),
    ("half-conversion", "b[i] = packHalf2x16(vec2(x));", ""),
    ("half-conversion", "if (UNPACKS) { b[i] = packHalf2x16(vec2(x)); }", UNPACKS),
    ("half-conversion", "if (!UNPACKS) { b[i] = floatBitsToUint(unpackHalf2x16(a[i]).x); }", UNPACKS),
    ("half-conversion", "if (OTHER) { b[i] = floatBitsToUint(unpackHalf2x16(a[i]).x); }", UNPACKS),
    ("built-in-function", "b[i] = uint(clamp(n, 0, 3));", ""),
    ("built-in-function", "b[i] = uint(sign(n));", ""),
    ("float-division", "precise float y = x / 3.0; b[i] = floatBitsToUint(y);", ""),
    ("float-division", "precise float y = mod(x, 3.0); b[i] = floatBitsToUint(y);", ""),
    ("signed-division", "b[i] = uint(n / 3);", ""),
    ("signed-division", "b[i] = uint(n % 3);", ""),
    ("signed-division", "b[i] = uint(QUOTIENT);", SPECIALIZED),
    ("zero-divisor", "b[i] = a[i] / 0u;", ""),
    ("zero-divisor", "b[i] = (uvec2(a[i]) % uvec2(3u, 0u)).x;", ""),
    ("shift-count", "b[i] = a[i] << 32u;", ""),
    ("shift-count", "b[i] = uint(n >> 33);", ""),
    ("shift-count", "b[i] = (uvec2(a[i]) >> uvec2(31u, 32u)).x;", ""),
    ("integer-carry", "uint carry; b[i] = uaddCarry(a[i], i, carry) + carry;", ""),
    ("integer-carry", "uint borrow; b[i] = usubBorrow(a[i], i, borrow) + borrow;", ""),
    ("float-conversion", "b[i] = uint(x);", ""),
    ("float-conversion", "b[i] = uint(int(x));", ""),
    ("unsigned-to-float", "b[i] = floatBitsToUint(float(a[i]));", ""),
    ("contraction", "b[i] = floatBitsToUint(x * x);", ""),
    ("contraction", "b[i] = floatBitsToUint(x + 1.0);", ""),
    ("contraction", "b[i] = floatBitsToUint(x - 1.0);", ""),
    ("contraction", "b[i] = floatBitsToUint((vec2(x, 1.0) * x).y);", ""),
    # `precise` does not reach into a function that is called.
    ("contraction", "precise float y = f(x); b[i] = floatBitsToUint(y);", "float f(float x) { return x * x + 1.0; }"),
    ("float-product", "precise float y = dot(vec2(x), vec2(x)); b[i] = floatBitsToUint(y);", ""),
    ("float-product", "precise vec2 y = mat2(x) * vec2(x); b[i] = floatBitsToUint(y.x);", ""),
    *(
        ("float-comparison", f"b[i] = uint({test});", "")
        for test in ("x < 1.0", "x == 0.0", "x != x", "x >= 1.0", "isnan(x)", "isinf(x)")
    ),
    ("relaxed-precision", "mediump float y = x + 1.0; b[i] = floatBitsToUint(y);", ""),
    *(
        ("atomic", f"atomic{operation}(b[0], 1u);", "")
        for operation in ("Add", "Xor", "Max", "Exchange")
    ),
    ("atomic", "atomicCompSwap(b[0], 1u, 2u);", ""),
    ("image", "b[i] = imageLoad(im, ivec2(0)).x;", IMAGE),
    ("storage-class", "b[i] = imageLoad(im, ivec2(0)).x;", IMAGE),
    ("storage-class", "b[i] = c;", "layout(set = 0, binding = 2) uniform C { uint c; };"),
    ("subgroup", "b[i] = uint(subgroupElect());", "#extension GL_KHR_shader_subgroup_basic : require"),
    ("undefined-value", "b[i] = f(i);", "uint f(uint v) { if (v > 1u) { return v; } }"),
    ("local-size", "", "layout(local_size_x = 64, local_size_y = 8) in;"),
    ("local-size", "", "layout(local_size_x_id = 5) in;"),
    ("push-constants", "b[i] = p.c[32];", "layout(push_constant) uniform P { uint c[33]; } p;"),
    (
        "push-constants",
        "b[i] = p.c[0];",
        "layout(constant_id = 0) const uint N = 2u; layout(push_constant) uniform P { uint c[N]; } p;",
    ),
    ("length", "b[i] = f3(a[i]);", CALLS),
    ("length", " ".join(f"b[{k}] = f(a[{k}]);" for k in range(100)), STORES),
    ("shared-memory", "s[0] = a[i]; barrier(); b[i] = s[1];", "shared uint s[4097];"),
    ("shared-memory", "s[0] = a[i]; t[1] = a[i];", "shared uint s[4096]; shared uint t[2];"),
    ("shared-memory", "s[0] = a[i];", "layout(constant_id = 0) const uint N = 2u; shared uint s[N];"),
    ("bindings", "c[i] = a[i];", "layout(std430, set = 0, binding = 3) buffer C { uint c[]; };"),
    ("bindings", "c[i] = a[i];", "layout(std430, set = 1, binding = 2) buffer C { uint c[]; };"),
    ("buffer-words", "c[i] = x;", f"{THIRD} buffer C {{ float c[]; }};"),
    ("buffer-words", "c[i].y.x = n;", f"struct S {{ uint x; ivec2 y; }}; {THIRD} buffer C {{ S c[]; }};"),
    ("restrict", "c[i] = a[i];", f"{THIRD} restrict buffer C {{ uint c[]; }};"),
    ("aliased", "c[i] = a[i];", f"{THIRD} restrict buffer C {{ uint c[]; }};"),
    ("readonly", "b[i] = c[i];", f"{THIRD} readonly buffer C {{ uint c[]; }};"),
    ("readonly", "b[i] = c[i];", f"{THIRD} buffer C {{ readonly uint c[]; }};"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "body", "declarations"), SOURCES)
def test_rule_fires_on_source(empty_project: Project, rule: str, body: str, declarations: str) -> None:
    assert rule in rules_broken(empty_project.spirv(shader(body, declarations)))


def replace_instruction(old: str, new: int) -> Callable[[bytes], bytes]:
    """Return a change that gives the first instruction of a kind another number."""

    def change(data: bytes) -> bytes:
        module = Module(data)
        offset = next(module.named(old)).offset
        module.words[offset] = (module.words[offset] & ~0xFFFF) | new
        return module.words.tobytes()

    return change


def second_copy(name: str, **changes: int) -> Callable[[bytes], bytes]:
    """Return a change that repeats the first instruction of a kind, some of its words replaced (``word1=…``)."""

    def change(data: bytes) -> bytes:
        module = Module(data)
        offset = next(module.named(name)).offset
        end = offset + (module.words[offset] >> 16)
        copy = module.words[offset:end]
        for word, value in changes.items():
            copy[int(word.removeprefix("word"))] = value
        return (module.words[:end] + copy + module.words[end:]).tobytes()

    return change


def without_decoration(number: int) -> Callable[[bytes], bytes]:
    """Return a change that takes a decoration from the last that has it."""

    def change(data: bytes) -> bytes:
        words = array("I", data)
        last = [each for each in Module(data).named("OpDecorate") if each.operands[1] == number][-1]
        words[last.offset + 2] = 23  # Coherent
        return words.tobytes()

    return change


def test_calls_in_blocks_of_their_own_are_short_enough(empty_project: Project) -> None:
    statements = " ".join(f"if (ALWAYS) {{ b[{k}] = f(a[{k}]); }}" for k in range(100))
    assert "length" not in rules_broken(empty_project.spirv(shader(statements, STORES)))


# What GLSL cannot say, or glslang would not write: rule and a change to a compiled shader.
CHANGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("instruction-set", lambda data: data.replace(b"GLSL.std.450", b"OpenCL.std\0\0")),
    ("float-division", replace_instruction("OpFSub", opcodes.NUMBERS["OpFRem"])),
    ("signed-division", replace_instruction("OpIAdd", opcodes.NUMBERS["OpSRem"])),
    ("derivative", replace_instruction("OpFNegate", opcodes.NUMBERS["OpDPdx"])),
    ("undefined-value", replace_instruction("OpConstantTrue", opcodes.NUMBERS["OpUndef"])),
    ("unlisted-instruction", replace_instruction("OpFNegate", 117)),
    ("unlisted-instruction", replace_instruction("OpFNegate", 6000)),
    ("entry-point", lambda data: data.replace(b"main\0", b"mine\0")),
    ("entry-point", second_copy("OpEntryPoint")),
    ("execution-mode", second_copy("OpExecutionMode", word2=4459)),
    ("capability", second_copy("OpCapability", word1=1000)),
    ("aliased", without_decoration(opcodes.ALIASED)),
    ("malformed", lambda data: data[:-3]),
    ("malformed", lambda data: b"GLSL" + data[4:]),
    ("malformed", lambda _: b""),
]


@pytest.mark.parametrize(("rule", "change"), CHANGES)
def test_rule_fires_on_changed_module(empty_project: Project, rule: str, change: Callable[[bytes], bytes]) -> None:
    body = "precise float y = -x - 1.0; b[i] = (floatBitsToUint(y) + uint(n)) | uint(a[i] == 3u ? true : false);"
    data = empty_project.spirv(shader(body))
    assert rules_broken(data) == set()
    assert change(data) != data
    assert rule in rules_broken(change(data))


def test_fma_that_is_not_precise_is_refused(empty_project: Project) -> None:
    data = empty_project.spirv(CLEAN)
    change = without_decoration(opcodes.NO_CONTRACTION)  # those that are added stand behind glslang's own
    found = {finding.instruction for finding in lint("sample", change(data)) if finding.rule == "contraction"}
    assert len(found) == 1
    assert " Fma " in found.pop()


def test_every_rule_is_tested() -> None:
    tested = {rule for rule, *_ in SOURCES} | {rule for rule, _ in CHANGES}
    assert tested == {rule.id for rule in RULES}


def test_damage_anywhere_never_stops_the_linter(empty_project: Project) -> None:
    data = empty_project.spirv(shader("precise float y = x * x; b[i] = floatBitsToUint(y) / 3u;"))
    for position in range(20, len(data), 3):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        lint("damaged", bytes(damaged))


def library(project: Project, text: str = "", body: str = "") -> Project:
    """Compile a library of two variants; ``body`` goes into a function in an include of one of them."""
    part = f"uint part(uint v)\n{{\n    float x = uintBitsToFloat(v);\n    {body}\n    return v;\n}}\n"
    project.write("include/part.glsl", part)
    project.write("family/bad.comp", shader("b[i] = part(a[i]);", '#include "part.glsl"'))
    project.write("family/good.comp", shader(text))
    project.variants = [Sample("bad.one", "family/bad.comp"), Sample("good.one", "family/good.comp")]
    assert project.compile() == 0
    return project


def test_clean_library(empty_project: Project, capsys: Output) -> None:
    library(empty_project)
    capsys.readouterr()
    assert empty_project.check() == 0
    assert capsys.readouterr().out == "2 variants checked: 0 findings\n"


def test_findings_name_variant_rule_reason_instruction_and_line(empty_project: Project, capsys: Output) -> None:
    library(empty_project, body="v = floatBitsToUint(x * x);\n    v = uint(x);")
    capsys.readouterr()
    assert empty_project.check() == 1
    first, why, second, why_second, total = capsys.readouterr().out.splitlines()
    assert first.startswith("shaders/include/part.glsl:4: bad.one: contraction: %")
    assert " = OpFMul %" in first
    assert why == "    without `precise` a multiply and an add are fused on NVIDIA and not elsewhere"
    assert second.startswith("shaders/include/part.glsl:5: bad.one: float-conversion: %")
    assert why_second.startswith("    float to integer out of range")
    assert total == "2 variants checked: 2 findings in 1 of them"


def test_findings_without_a_compiler_have_no_line(
    empty_project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(empty_project, body="v = uint(x);")
    monkeypatch.setattr(glslang, "own_program", lambda: empty_project.root / "nowhere")
    monkeypatch.setenv("PATH", "")
    capsys.readouterr()
    assert empty_project.check() == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("bad.one: float-conversion: %")
    assert "without line numbers" in captured.err


def test_exemptions(empty_project: Project, capsys: Output) -> None:
    library(empty_project, body="v = uint(x);")
    fitting = Exemption("float-conversion", "bad.*", "*OpConvertFToU*", "the value is known to be in range")
    assert empty_project.check(exemptions=[fitting]) == 0
    for other in (
        Exemption("float-conversion", "worse.*", "*", "another variant"),
        Exemption("contraction", "bad.*", "*", "another rule"),
        Exemption("float-conversion", "bad.*", "*OpConvertFToS*", "another instruction"),
    ):
        capsys.readouterr()
        assert empty_project.check(exemptions=[fitting, other]) == 1
        assert "unused-exemption" in capsys.readouterr().out


def test_empty_library_is_a_failure(empty_project: Project, capsys: Output) -> None:
    assert empty_project.check() == 1
    captured = capsys.readouterr()
    assert "0 variants checked" in captured.out
    assert "no variant is there to be checked" in captured.err


@pytest.mark.parametrize("damage", ["gone", "changed", "source"])
def test_what_is_not_compiled_from_the_sources_as_they_are_is_a_finding(
    empty_project: Project, capsys: Output, damage: str
) -> None:
    file = library(empty_project).path("good.one")
    if damage == "gone":
        file.unlink()
    elif damage == "changed":
        file.write_bytes(b"\0" * 50)
    else:
        empty_project.write("family/good.comp", shader("b[i] = 3u;"))
    assert empty_project.check() == 1
    assert "good.one: library: not compiled from the sources as they are, or damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rule", "path", "text", "position"),
    [
        ("undefined-macro", "family/good.comp", "\n#if A == B\n#endif", "shaders/family/good.comp:2: "),
        ("unused-source", "include/forgotten.glsl", "", "shaders/include/forgotten.glsl"),
        (
            "exact-product",
            "include/part.glsl",
            "\nfloat f(float x) { return fma (x, x, x); }",
            "shaders/include/part.glsl:2: ",
        ),
        (
            "loose-product",
            "include/part.glsl",
            "\nfloat f(float x) { return loose_product_plus(x, x, x); }",
            "shaders/include/part.glsl:2: ",
        ),
        (
            "device-product",
            "include/part.glsl",
            "\nfloat f(float x) { return device_product_plus(x, x, x); }",
            "shaders/include/part.glsl:2: ",
        ),
        ("operator-file", "family/good.comp", shader(), "shaders/family/good.comp:4: "),
        ("unreadable-source", "family/good.comp", '#include "lost.glsl"', "shaders/family/good.comp:1: "),
    ],
)
def test_source_rules(empty_project: Project, capsys: Output, rule: str, path: str, text: str, position: str) -> None:
    library(empty_project)
    empty_project.write("patterns/whole.glsl", shader())
    for name in ("bad", "good"):
        empty_project.write(f"family/{name}.comp", '#include "whole.glsl"\n#include "part.glsl"\n')
    capsys.readouterr()
    empty_project.check("--source")
    lines = capsys.readouterr().out.splitlines()
    assert {line.split(": ")[1] for line in lines if line[0].isalpha()} == {"library"}, "and nothing else is wrong"
    empty_project.write(path, text)
    assert empty_project.check("--source") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if f": {rule}: " in line]
    assert lines
    assert position in lines[0]


def test_definition_that_nothing_mentions(empty_project: Project, capsys: Output) -> None:
    library(empty_project)
    for name in ("bad", "good"):
        empty_project.write(f"family/{name}.comp", '#include "part.glsl"\n')
    empty_project.variants[0] = Sample("bad.one", "family/bad.comp", (("MISPELT", "1"),))
    assert empty_project.check("--source") == 1
    assert "bad.one: unused-definition: MISPELT, passed to family/bad.comp" in capsys.readouterr().out
