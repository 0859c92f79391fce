"""Shaders whose short branches have become choices compute the same, on every device."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.kernels.library import glsl
from dmlvk.runtime.kompute import Launch
from dmlvk.spirv.flattening import flattened
from dmlvk.spirv.modules import module_instructions, module_words
from dmlvk.spirv.specialization import specialized

SELECTION_MERGE = 247
DECORATE, NO_CONTRACTION = 71, 42

KERNEL = """#version 450
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) buffer Words_input { uint words_input[]; };
layout(std430, set = 0, binding = 1) buffer Words_output { uint words_output[]; };
layout(push_constant) uniform Parameters { uint six; } parameters;
void double_odd(uint x, inout uint y)
{
    if ((x & 1u) != 0u) { y = 2u * x; }
}
uint f(uint x)
{
    %s
}
void main()
{
    uint place = gl_GlobalInvocationID.x;
    words_output[place] = f(words_input[place]);
}
"""


def branches(spirv: bytes) -> int:
    """How many branches other than loops a module has."""
    return sum(opcode == SELECTION_MERGE for _, opcode, _ in module_instructions(module_words(spirv)))


def swapped(x: int) -> int:
    smaller, larger = sorted((x & 15, x >> 4))
    return smaller * 100 + larger


def sum_of_bits(x: int) -> int:
    return sum(3 * i if x >> i & 1 else 1 for i in range(8))


def kept_sum(x: int) -> int:
    kept = result = 0
    for i in range(8 if x & 1 else 0):
        if x >> i & 1:
            kept = kept if i & 2 else i + 1
            result += kept
    return result


@pytest.mark.parametrize(
    ("body", "left", "expected"),
    [
        pytest.param("return x > 99u ? x & 12u : x | 3u;", 0, lambda x: x & 12 if x > 99 else x | 3, id="choice"),
        pytest.param(
            "uint y = x; if (x > 99u) { y = x * 3u; } return y;", 0, lambda x: 3 * x if x > 99 else x, id="one side"
        ),
        pytest.param(
            "uint y = 1u; if (x < 50u) { y = x + 1u; } else { if (x < 90u) { y = 2u * x; } else { x = 7u; } y += 3u; }"
            "return y + x;",
            0,
            lambda x: 2 * x + 1 if x < 50 else 3 * x + 3 if x < 90 else 11,
            id="sides within a side",
        ),
        pytest.param(
            "if (x < 10u) { x *= 5u; } else if (x < 20u) { x *= 3u; } else if (x < 40u) { x += 1u; } return x;",
            0,
            lambda x: 5 * x if x < 10 else 3 * x if x < 20 else x + 1 if x < 40 else x,
            id="one of four",
        ),
        pytest.param(
            "bool both = (x & 1u) != 0u && (x & 6u) != 0u; bool either = (x & 8u) != 0u || (x & 48u) != 0u;"
            "return uint(both) + 2u * uint(either);",
            0,
            lambda x: int(bool(x & 1 and x & 6)) + 2 * int(bool(x & 8 or x & 48)),
            id="and, or",
        ),
        pytest.param(
            "return x > 9u && (x < 60u || x > 90u && (x & 1u) == 0u) ? (x > 99u || x < 20u ? 1u + x : 2u + x) : 3u;",
            0,
            lambda x: (x + 1 if x > 99 or x < 20 else x + 2) if x > 9 and (x < 60 or (x > 90 and x % 2 == 0)) else 3,
            id="and, or within a choice",
        ),
        pytest.param(
            "uint a = x & 15u; uint b = x >> 4u; if (a > b) { uint kept = a; a = b; b = kept; } return a * 100u + b;",
            0,
            swapped,
            id="set and read",
        ),
        pytest.param(
            "float y = 0.5; bool is_odd = false; if ((x & 1u) != 0u) { y = float(int(x)) * 2.0; is_odd = true; }"
            "return floatBitsToUint(y) + uint(is_odd);",
            0,
            lambda x: int(np.float32(2 * x if x & 1 else 0.5).view(np.uint32)) + (x & 1),
            id="floats and truths",
        ),
        pytest.param(
            "uint sum = 0u; for (uint i = 0u; i < 8u; ++i) { if ((x >> i & 1u) != 0u) { sum += 3u * i; }"
            "else { ++sum; } } return sum;",
            0,
            sum_of_bits,
            id="in a loop",
        ),
        pytest.param(
            "return x > 99u ? x + parameters.six : gl_NumWorkGroups.x;", 0, lambda x: x + 6 if x > 99 else 1, id="given"
        ),
        pytest.param(
            "return x > 99u ? uint(findMSB(x & 15u)) : 3u;",
            0,
            lambda x: ((x & 15).bit_length() - 1) % 2**32 if x > 99 else 3,
            id="function",
        ),
        pytest.param("uint y = 5u; double_odd(x, y); return y;", 0, lambda x: 2 * x if x & 1 else 5, id="parameter"),
        pytest.param(
            "uint kept; uint sum = 0u; if ((x & 1u) == 0u) { return 0u; } for (uint i = 0u; i < 8u; ++i) {"
            "if ((x >> i & 1u) != 0u) { if ((i & 2u) == 0u) { kept = i + 1u; } sum += kept; } } return sum;",
            1,
            kept_sum,
            id="kept in a loop",
        ),
        pytest.param("return x == 0u ? 7u : 1000u / x;", 1, lambda x: 1000 // x if x else 7, id="division"),
        pytest.param("return x < 9u ? words_input[x] : 5u;", 1, lambda x: x if x < 9 else 5, id="end of a buffer"),
        pytest.param(
            "uint t[4]; for (uint i = 0u; i < 4u; ++i) { t[i] = 3u * i; } return x < 4u ? t[x] : 9u;",
            1,
            lambda x: 3 * x if x < 4 else 9,
            id="end of an array",
        ),
        pytest.param(
            "uint sum = 0u; for (uint i = 0u; i < 8u; ++i) { if (i == 3u) { continue; } if (i > x) { break; }"
            "sum += i; } return sum;",
            2,
            lambda x: sum(i for i in range(min(x + 1, 8)) if i != 3),
            id="ways out of a loop",
        ),
        pytest.param("if (x > 99u) { return 5u; } return x;", 1, lambda x: 5 if x > 99 else x, id="return"),
        pytest.param(
            "uvec2 y = uvec2(x, 1u); if (x > 99u) { y = y.yx; } return y.x;",
            1,
            lambda x: 1 if x > 99 else x,
            id="vector",
        ),
        pytest.param(
            "if (x > 99u) { words_output[gl_GlobalInvocationID.x + 256u] = 1u; } return x;", 1, lambda x: x, id="store"
        ),
    ],
)
def test_flattened_shaders_compute_the_same(
    device: dml.Device, tmp_path: Path, body: str, left: int, expected: Callable[[int], int]
) -> None:
    before = glsl.compiled(KERNEL % body)
    assert before is not None, "the tests need glslangValidator"
    after = flattened(specialized(before, ()))
    assert 0 < branches(before) >= branches(after) == left
    validate(tmp_path, after)
    numbers = np.arange(256, dtype=np.uint32)
    with device.create_buffer(numbers.nbytes) as source, device.create_buffer(2 * numbers.nbytes) as target:
        source.upload(numbers)
        target.upload(np.zeros(512, np.uint32))
        allocations = source.allocation, target.allocation
        device.engine.run(
            device.engine.record([Launch(after, (), (6,), (1, 1, 1), allocations, allocations[1:], depends=False)])
        )
        got = target.download().view(np.uint32)
    assert got[:256].tolist() == [expected(x) for x in range(256)]
    assert got[256:].tolist() == [int("words_output" in body and x > 99) for x in range(256)]


def validate(directory: Path, spirv: bytes) -> None:
    path = directory / "module.spv"
    path.write_bytes(spirv)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", str(path)], check=True)


def decorated(spirv: bytes) -> set[int]:
    """What must not be contracted."""
    return {
        operands[0]
        for _, opcode, operands in module_instructions(module_words(spirv))
        if opcode == DECORATE and operands[1] == NO_CONTRACTION
    }


def counted(spirv: bytes, opcodes: Iterable[int]) -> Counter[int]:
    return Counter(opcode for _, opcode, _ in module_instructions(module_words(spirv)) if opcode in opcodes)


@pytest.mark.parametrize(
    "name",
    [
        "element_wise_add.float32.contiguous",
        "element_wise_pow.float16.rows",
        "element_wise_divide.int64.strided",
        "element_wise_sin.float32.contiguous",
        "activation_gelu.float32.tiled",
    ],
)
def test_kernels_lose_branches_and_nothing_else(name: str, tmp_path: Path) -> None:
    before = specialized(library.load(name), (1,) * 60)
    after = flattened(before)
    assert branches(after) < branches(before)
    validate(tmp_path, after)
    assert decorated(after) == decorated(before)
    calculations = range(126, 153)
    assert counted(after, calculations) == counted(before, calculations)
    assert flattened(after) == after


def test_a_known_condition_is_left_to_the_driver() -> None:
    """It leaves out the side that is not taken."""
    spirv = glsl.compiled(KERNEL % "const bool yes = true; uint y = x; if (yes) { y = 3u * x; } return y;")
    assert spirv is not None
    assert flattened(spirv) == spirv
