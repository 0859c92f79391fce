"""Shaders that are changed for a driver: short branches are choices, constants numbers, buffers coherent."""

from __future__ import annotations

import random
import subprocess
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.kernels.library import glsl
from dmlvk.runtime.kompute import Launch
from dmlvk.runtime.pipelines import Pipelines
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.flattening import flattened
from dmlvk.spirv.modules import module_instructions, module_words
from dmlvk.spirv.specialization import (
    NAIVE_DRIVERS,
    ON_NAIVE_DRIVER,
    ON_PROCESSOR,
    PACKS_TO_NEAREST_EVEN,
    UNPACKS_DENORMALS,
    on_processor,
    specialized,
)

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


NumberArray = npt.NDArray[np.uint32]

ALWAYS = 1007  # The ``constant_id`` of a condition of ``processors.glsl`` that is true in every module

VARIANTS = (
    *("activation_hardmax.float16.alone", "activation_log_softmax.float16.long"),
    *("activation_softmax.float32.in_registers", "element_wise_add.float32.contiguous"),
    *("element_wise_exp.float16.rows", "element_wise_sign.int8.tiled", "element_wise_abs.float32.strided"),
)

SPEC_ID = 1

CONSTANT_DECORATE = 71

SPEC_CONSTANTS_OF_TRUTH = (48, 49)

SPEC_CONSTANTS = range(48, 53)


def _ids_and_truths(spirv: bytes) -> dict[int, bool]:
    """The module's specialization constants by their number, and whether each is true or false."""
    ids: dict[int, int] = {}
    truths = set()
    for _, opcode, operands in module_instructions(module_words(spirv)):
        if opcode == CONSTANT_DECORATE and operands[1] == SPEC_ID:
            ids[operands[2]] = operands[0]
        elif opcode in SPEC_CONSTANTS_OF_TRUTH:
            truths.add(operands[1])
    return {number: target in truths for number, target in ids.items()}


def _is_on_processor(spirv: bytes) -> bool:
    """Whether the module's constant of that name is true."""
    instructions = [(opcode, tuple(operands)) for _, opcode, operands in module_instructions(module_words(spirv))]
    ((target,),) = [
        operands[:1] for opcode, operands in instructions if opcode == CONSTANT_DECORATE and operands[1:] == (1, 1000)
    ]
    ((opcode, _),) = [each for each in instructions if each[0] in SPEC_CONSTANTS and each[1][1] == target]
    return opcode == SPEC_CONSTANTS_OF_TRUTH[0]


@pytest.mark.parametrize("name", VARIANTS)
def test_shaders_see_that_they_run_on_a_processor(name: str) -> None:
    before = library.load(name)
    after = on_processor(before)
    assert (_is_on_processor(before), _is_on_processor(after)) == (False, True)
    changed = [(a, b) for a, b in zip(module_words(before), module_words(after), strict=True) if a != b]
    assert len(changed) == 1, "more than the constant has changed"


def _comparable(directory: Path, spirv: bytes, *flags: str) -> list[str]:
    """What of a module does not depend on the order and the names of constants."""
    before, after = directory / "before.spv", directory / "after.spv"
    before.write_bytes(spirv)
    passes = (*flags, "--unify-const", "--eliminate-dead-const", "--compact-ids")
    subprocess.run(["spirv-opt", *passes, str(before), "-o", str(after)], check=True)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", str(after)], check=True)
    shown = subprocess.run(["spirv-dis", "--raw-id", str(after)], check=True, capture_output=True, text=True)
    return shown.stdout.splitlines()


@pytest.mark.parametrize("name", VARIANTS)
def test_constants_become_the_numbers_that_a_tool_makes_of_them(name: str, tmp_path: Path) -> None:
    spirv = library.load(name)
    truths = _ids_and_truths(spirv)
    choices = random.Random(name)
    truths |= {ON_PROCESSOR: True, ON_NAIVE_DRIVER: True}
    given = {i: choices.choice((0, 1) if is_truth else (1, 2, 3, 8, 16, 300)) for i, is_truth in truths.items()}
    given |= {ON_PROCESSOR: 1, ON_NAIVE_DRIVER: 1, UNPACKS_DENORMALS: 0, PACKS_TO_NEAREST_EVEN: 0, ALWAYS: 1}
    values = tuple(given.get(i, 0) for i in range(max(i for i in truths if i < ON_PROCESSOR) + 1))
    after = specialized(spirv, values)
    assert not any(opcode in SPEC_CONSTANTS for _, opcode, _ in module_instructions(module_words(after)))
    named = [f"{i}:{str(bool(given[i])).lower() if is_truth else given[i]}" for i, is_truth in truths.items()]
    expected = _comparable(
        tmp_path,
        spirv,
        "--set-spec-const-default-value",
        " ".join(named),
        "--freeze-spec-const",
        "--fold-spec-const-op-composite",
    )
    assert _comparable(tmp_path, after) == expected


def _module(*instructions: tuple[int, ...]) -> bytes:
    words = array("I", (0x07230203, 0x10300, 0, 100, 0))
    for opcode, *operands in instructions:
        words.extend(((len(operands) + 1) << 16 | opcode, *operands))
    return words.tobytes()


NUMBER, CONSTANT, ANOTHER = 1, 2, 3

DECLARED = ((CONSTANT_DECORATE, CONSTANT, SPEC_ID, 1), (21, NUMBER, 32, 0), (50, NUMBER, CONSTANT, 5))

A_FUNCTION = (54, NUMBER, 9, 0, 10)


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        (DECLARED, "a module without a function"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 195, CONSTANT, CONSTANT)), r"by the instruction 195 of \[0, 0\]"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 134, CONSTANT, CONSTANT)), r"by the instruction 134 of \[0, 0\]"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 128, CONSTANT, 77)), r"by the instruction 128 of \[0, None\]"),
        (((CONSTANT_DECORATE, CONSTANT, SPEC_ID, 2), *DECLARED), "no value for the specialization constant 2"),
    ],
)
def test_what_is_not_known_is_refused(instructions: tuple[tuple[int, ...], ...], message: str) -> None:
    """Rather than computed otherwise than a driver would; division by zero, for instance."""
    with pytest.raises(ValueError, match=message):
        specialized(_module(*instructions), (7, 0))


def test_numbers_have_32_bits() -> None:
    """A difference below zero begins anew from above."""
    minus = (52, NUMBER, ANOTHER, 130, CONSTANT, CONSTANT + 4)
    module = _module(*DECLARED, (43, NUMBER, CONSTANT + 4, 6), minus, A_FUNCTION)
    made = {
        operands[1]: operands[2]
        for _, opcode, operands in module_instructions(module_words(specialized(module, (0, 5))))
        if opcode == 43
    }
    assert made == {CONSTANT: 5, CONSTANT + 4: 6, ANOTHER: 0xFFFFFFFF}


def test_naive_drivers_see_numbers_and_the_others_constants(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that both are tested."""
    engine = device.engine
    made: list[tuple[bytes, int]] = []
    engine_manager = engine._manager

    class Manager:
        def __getattr__(self, name: str) -> object:
            return getattr(engine_manager, name)

        def algorithm(
            self, tensors: object, spirv: bytes, groups: object, constants: NumberArray, push: object
        ) -> object:
            made.append((spirv, constants.size))
            return engine_manager.algorithm(tensors, spirv, groups, constants, push)

    monkeypatch.setattr(engine, "_pipelines", Pipelines(Manager()))  # which has none from other tests
    values = np.zeros(1973, np.float32)  # of a size for which no other test has a recording
    tensor = dml.TensorDesc(dml.FLOAT32, values.shape)
    device.run(dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor), {"InputTensor": values})
    is_naive = "SwiftShader" in device.info.name
    assert (device.info.driver in NAIVE_DRIVERS) == is_naive
    assert made
    for spirv, count in made:
        assert is_naive or _is_on_processor(spirv) == (device.info.kind == "CPU")
        assert bool(_ids_and_truths(spirv)) != is_naive
        assert (count > 0) != is_naive


COHERENCE_VARIANTS = (
    "element_wise_add.float32.rows",
    "element_wise_sign.int8.strided",
    "activation_softmax.float16.in_registers",
)

COHERENT = 23

MEMBER_DECORATE = 72


def instructions(spirv: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """A module's instructions, and their operands."""
    return [(opcode, tuple(operands)) for _, opcode, operands in module_instructions(module_words(spirv))]


def is_coherent(instruction: tuple[int, tuple[int, ...]]) -> bool:
    opcode, operands = instruction
    return opcode == MEMBER_DECORATE and operands[2] == COHERENT


@pytest.mark.parametrize("name", COHERENCE_VARIANTS)
def test_without_coherence_leaves_out_nothing_else(name: str, tmp_path: Path) -> None:
    before = library.load(name)
    after = without_coherence(before)
    assert any(map(is_coherent, instructions(before))), "nothing to leave out"
    assert instructions(after) == [each for each in instructions(before) if not is_coherent(each)]
    path = tmp_path / "module.spv"
    path.write_bytes(after)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", str(path)], check=True)


@pytest.mark.parametrize("has_barriers", [False, True])
def test_pipelines_are_coherent_where_no_barriers_are_recorded(
    device: dml.Device, has_barriers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = device.engine
    if has_barriers and not engine._has_barriers:
        pytest.skip("Kompute as it is on PyPI has no memory barriers")
    monkeypatch.setattr(engine, "_has_barriers", has_barriers)
    monkeypatch.setattr(engine.shaders, "has_barriers", has_barriers)
    made: list[bytes] = []
    algorithm = engine._manager.algorithm

    class Manager:
        def __getattr__(self, name: str) -> object:
            return getattr(engine_manager, name)

        def algorithm(self, tensors: object, spirv: bytes, *rest: object) -> object:
            made.append(spirv)
            return algorithm(tensors, spirv, *rest)

    engine_manager = engine._manager
    monkeypatch.setattr(engine, "_pipelines", Pipelines(Manager()))  # which has none from other tests
    values = np.zeros(977 + has_barriers, np.float32)  # of a size for which no other test has a recording
    tensor = dml.TensorDesc(dml.FLOAT32, values.shape)
    device.run(dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor), {"InputTensor": values})
    coherent = [Counter(map(is_coherent, instructions(spirv)))[True] for spirv in made]
    assert coherent and all((count == 0) == has_barriers for count in coherent)
