"""Shaders whose specialization constants are numbers, held against the tool of SPIRV-Tools that makes them so."""

from __future__ import annotations

import random
import subprocess
from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.runtime.pipelines import Pipelines
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

NumberArray = npt.NDArray[np.uint32]

ALWAYS = 1007
"""The ``constant_id`` of a condition of ``processors.glsl`` that is true in every module."""

VARIANTS = (
    "activation_hardmax.float16.alone",
    "activation_log_softmax.float16.long",
    "activation_softmax.float32.in_registers",
    "element_wise_add.float32.contiguous",
    "element_wise_exp.float16.rows",
    "element_wise_sign.int8.tiled",
    "element_wise_abs.float32.strided",
)
SPEC_ID = 1
DECORATE = 71
SPEC_CONSTANTS_OF_TRUTH = (48, 49)
SPEC_CONSTANTS = range(48, 53)


def _ids_and_truths(spirv: bytes) -> dict[int, bool]:
    """The module's specialization constants by their number, and whether each is true or false."""
    ids: dict[int, int] = {}
    truths = set()
    for _, opcode, operands in module_instructions(module_words(spirv)):
        if opcode == DECORATE and operands[1] == SPEC_ID:
            ids[operands[2]] = operands[0]
        elif opcode in SPEC_CONSTANTS_OF_TRUTH:
            truths.add(operands[1])
    return {number: target in truths for number, target in ids.items()}


def _is_on_processor(spirv: bytes) -> bool:
    """Whether the module's constant of that name is true."""
    instructions = [(opcode, tuple(operands)) for _, opcode, operands in module_instructions(module_words(spirv))]
    ((target,),) = [
        operands[:1] for opcode, operands in instructions if opcode == DECORATE and operands[1:] == (1, 1000)
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
DECLARED = ((DECORATE, CONSTANT, SPEC_ID, 1), (21, NUMBER, 32, 0), (50, NUMBER, CONSTANT, 5))
A_FUNCTION = (54, NUMBER, 9, 0, 10)


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        (DECLARED, "a module without a function"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 195, CONSTANT, CONSTANT)), r"by the instruction 195 of \[0, 0\]"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 134, CONSTANT, CONSTANT)), r"by the instruction 134 of \[0, 0\]"),
        ((*DECLARED, (52, NUMBER, ANOTHER, 128, CONSTANT, 77)), r"by the instruction 128 of \[0, None\]"),
        (((DECORATE, CONSTANT, SPEC_ID, 2), *DECLARED), "no value for the specialization constant 2"),
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
