"""Kernels give specialization constants by the names that these have in GLSL; a wrong name is told when one is made."""

from __future__ import annotations

import re

import pytest

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.spirv.constant_names import constants_of, with_constant_names_only
from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words

GIVEN = {"HAS_SKIP": 1, "HAS_BIAS": 0, "GIVES_SUM": 1, "LOADED": 4, "ALL_ARE_LOADED": 0, "TILES_ARE_WHOLE": 1}
VARIANT = "residual_normalization.float32"
NAME, MEMBER_NAME = 5, 6


def _without(spirv: bytes, *opcodes: int) -> bytes:
    words = module_words(spirv)
    made = words[:HEADER_WORDS]
    for position, opcode, operands in module_instructions(words):
        if opcode not in opcodes:
            made.extend(words[position : position + 1 + len(operands)])
    return made.tobytes()


def test_every_constant_of_every_shader_has_a_name_of_its_own() -> None:
    """Of one variant for each file: that the others have names, too, is a condition of being compiled."""
    variants = {variant.source: variant.name for variant in all_variants()}
    for source, name in variants.items():
        spirv = library.load(name)
        constants = constants_of(spirv)
        decorated = {
            operands[2]
            for _, opcode, operands in module_instructions(module_words(spirv))
            if opcode == 71 and operands[1] == 1 and operands[2] < 1000  # OpDecorate, SpecId
        }
        assert set(constants.ids.values()) == decorated, source
        assert all(re.fullmatch("[A-Za-z]\\w*", constant) for constant in constants.ids), source


def test_a_local_variable_that_is_a_constant_does_not_take_its_name() -> None:
    """``const uint step = LANES_OF_CHUNK;`` gives the constant a second name."""
    ids = constants_of(library.load("reduction.sum.states.ahead")).ids
    assert "LANES_OF_CHUNK" in ids
    assert "step" not in ids


def test_nothing_else_keeps_its_name() -> None:
    """Neither functions nor variables, nor the text and the path of a source."""
    words = module_words(library.load(VARIANT))
    opcodes = [opcode for _, opcode, _ in module_instructions(words)]
    decorations = [operands for _, opcode, operands in module_instructions(words) if opcode == 71 and operands[1] == 1]
    assert opcodes.count(NAME) == len(decorations) > 5
    assert not {2, 3, 4, MEMBER_NAME, 7, 8, 317, 330} & set(opcodes)


def test_values_go_where_the_shader_has_their_names() -> None:
    """The launch's own two come first, whatever the order in which the others are given."""
    for given in (GIVEN, dict(reversed(GIVEN.items()))):
        assert PlainKernel(VARIANT, (4, 1, 1), given).specialization([0] * 6) == (0, 1, 1, 0, 1, 4, 0, 1)
    assert PlainKernel(VARIANT, (4, 2, 1), GIVEN).specialization([0] * 6) == (1, 1, 1, 0, 1, 4, 0, 1)


def test_an_id_that_a_shader_has_not_is_given_0() -> None:
    """A convolution of integers has its geometry where that of floats has it."""
    name = "convolution_integer.int8_int8"
    ids = constants_of(library.load(name)).ids
    values = PlainKernel(name, (1, 1, 1), dict.fromkeys(ids, 7)).specialization([0] * 5)
    assert set(range(len(values))) - set(ids.values()) == set(range(4, 11))
    assert [values[number] for number in range(3, 12)] == [7, *[0] * 7, 7]


def test_a_name_that_the_shader_has_not_is_refused_by_both_names() -> None:
    words = "residual_normalization.float32 has no specialization constant HAS_SKIPS"
    with pytest.raises(ShaderLibraryError, match=f"^{re.escape(words)}$"):
        PlainKernel(VARIANT, (4, 1, 1), {**GIVEN, "HAS_SKIPS": 1})


def test_a_constant_that_is_not_given_is_told() -> None:
    words = "residual_normalization.float32 is not given its specialization constant GIVES_SUM"
    with pytest.raises(ShaderLibraryError, match=f"^{re.escape(words)}$"):
        PlainKernel(VARIANT, (4, 1, 1), {name: value for name, value in GIVEN.items() if name != "GIVES_SUM"})


def test_a_module_without_names_is_not_taken() -> None:
    """As a compiler gives it that strips them."""
    module = _without(library.load(VARIANT), NAME)
    with pytest.raises(ValueError, match=r"^there is no name for the specialization constant 0$"):
        with_constant_names_only(module)
