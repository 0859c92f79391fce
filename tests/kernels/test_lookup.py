"""What kernels look up: table rows, attributes in a tensor's data type, constants by their names."""

from __future__ import annotations

import gc
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import FLOATS, sweep_sets
from dmlvk.conformance.references.rounding import FLOAT16, round_fraction
from dmlvk.conformance.references.scaling import integer_minimum
from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels import library, lookup
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.elementwise.elementwise import converted_bits
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.kernels.lookup import TABLE_ENTRIES
from dmlvk.kernels.target import GPU
from dmlvk.objects.compilation import CompiledSingleOperator
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc
from dmlvk.spirv.constant_names import constants_of, with_constant_names_only
from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.specialization import NAIVE_DRIVERS
from tests.targets import all_compute_as_gpus

PATTERNS = np.arange(TABLE_ENTRIES, dtype=np.uint16).view(np.float16)


def _descriptions(tensor_in: dml.TensorDesc, tensor_out: dml.TensorDesc) -> list[OperatorDesc]:
    """Every operator of one FLOAT16 tensor, without its optional attributes and with them."""
    descriptions = []
    for desc_class in REGULAR_OPERATORS.values():
        if (desc_class.declaration.pattern == "rows") or [
            field.kind for field in desc_class.fields if field.type == "tensor" and not field.optional
        ] != ["input", "output"]:
            continue
        absent: dict[str, Any] = {f.attribute: None for f in desc_class.fields if f.type == "tensor" and f.optional}
        for table in desc_class.declaration.support:
            if any(dml.FLOAT16 not in table.data_types[m] for m in table.data_types if m not in absent):
                break
        else:
            inputs = [f.attribute for f in desc_class.fields if f.kind == "input" and f.attribute not in absent]
            outputs = [f.attribute for f in desc_class.fields if f.kind == "output"]
            tensors = {inputs[0]: tensor_in, outputs[0]: tensor_out}
            for optional in (False, True):
                for attributes in sweep_sets(desc_class, dml.FLOAT16, optional)[:1]:
                    descriptions.append(desc_class(**absent, **tensors, **attributes))
    return descriptions


def _looked_up_names() -> list[str]:
    large = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    found = (d.operator_name for d in _descriptions(large, large) if lookup.table_desc(d, GPU) is not None)
    return sorted(set(found))


def _compiled(device: dml.Device, desc: OperatorDesc) -> CompiledSingleOperator:
    return device.compile_operator(device.create_operator(desc))


def _bits(device: dml.Device, compiled: CompiledSingleOperator, values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    (name,) = (point.name for point in compiled.inputs if point.tensor is not None)
    (result,) = device.run(compiled, {name: values}).values()
    return result.view(np.uint16)


def _both_ways(
    device: dml.Device, desc: OperatorDesc, values: npt.NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    direct = _compiled(device, desc)
    assert direct.constants == ()
    with monkeypatch.context() as context:
        context.setattr(lookup, "FEWEST_ELEMENTS", 1)
        context.setattr(lookup, "FASTER_COMPUTED", frozenset())
        looked_up = _compiled(device, desc)
    assert looked_up.constants, f"{desc} is not looked up"
    return _bits(device, direct, values), _bits(device, looked_up, values)


def test_the_functions_are_looked_up_and_what_is_exact_is_not() -> None:
    names = _looked_up_names()
    assert {"ELEMENT_WISE_LOG", "ELEMENT_WISE_SQRT", "ACTIVATION_SIGMOID"} <= set(names)
    assert not {"ELEMENT_WISE_ABS", "ELEMENT_WISE_SIGN", "ACTIVATION_RELU"} & set(names)
    tensor = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    scales = (None, dml.ScaleBias(0.5, 1.0))  # a short function, and a longer one
    powers = [dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=scale) for scale in scales]
    assert [lookup.table_desc(desc, GPU) is None for desc in powers] == [True, False]


@pytest.mark.every_driver
def test_what_is_faster_computed_is_looked_up_by_naive_drivers_alone(device: dml.Device) -> None:
    large = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    desc = dml.ElementWiseExp(input_tensor=large, output_tensor=large, scale_bias=None)
    is_looked_up = _compiled(device, desc).constants != ()
    assert is_looked_up == (device.info.driver in NAIVE_DRIVERS)


@pytest.mark.parametrize("name", _looked_up_names())
def test_a_table_gives_the_bits_of_the_kernel(device: dml.Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = dml.TensorDesc(dml.FLOAT16, (TABLE_ENTRIES,))
    for desc in _descriptions(tensor, tensor):
        if desc.operator_name == name:
            direct, looked_up = _both_ways(device, desc, PATTERNS, monkeypatch)
            wrong = np.flatnonzero(direct != looked_up)
            assert not wrong.size, f"{desc}: {wrong.size} of 65,536 differ, the first for pattern {wrong[0]:#06x}"


@pytest.mark.parametrize(
    ("access_order", "sizes", "strides_in", "strides_out"),
    [
        ("contiguous", (1, 65535), None, None),
        ("rows", (256, 256), (256, 1), (264, 1)),
        ("tiled", (256, 250), (1, 256), (256, 1)),
        ("strided", (251, 251), (1, 251), (251, 1)),
        ("strided", (251, 251), (253, 1), (504, 2)),
    ],
)
def test_every_access_order(
    device: dml.Device,
    access_order: str,
    sizes: tuple[int, ...],
    strides_in: tuple[int, ...] | None,
    strides_out: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_compute_as_gpus(monkeypatch)
    desc = dml.ElementWiseLog(
        input_tensor=dml.TensorDesc(dml.FLOAT16, sizes, strides_in),
        output_tensor=dml.TensorDesc(dml.FLOAT16, sizes, strides_out),
        scale_bias=None,
    )
    values = np.random.default_rng(5).permutation(PATTERNS)[: sizes[0] * sizes[1]].reshape(sizes)
    direct, looked_up = _both_ways(device, desc, values, monkeypatch)
    assert (direct == looked_up).all()
    monkeypatch.setattr(lookup, "FEWEST_ELEMENTS", 1)
    assert _compiled(device, desc).steps[0].kernel.variant == f"lookup.uint16.{access_order}"


def test_large_tensors_share_a_table_that_goes_with_the_last_of_them(any_device: dml.Device) -> None:
    def make(elements: int, scale: float) -> CompiledSingleOperator:
        tensor = dml.TensorDesc(dml.FLOAT16, (elements,))
        return _compiled(
            any_device,
            dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=dml.ScaleBias(scale, 0.0)),
        )

    first, second = make(2**20, 0.3), make(2**21 + 1, 0.3)
    assert first.constants == second.constants != ()
    assert make(2**20, 0.4).constants != first.constants
    (table,) = first.constants
    closed = table.is_closed
    del first, second
    gc.collect()
    assert not closed
    assert not table.is_closed  # as long as somebody refers to it
    values = np.resize(PATTERNS, 2**20)
    again = make(2**20, 0.3)
    assert again.constants == (table,)
    assert (
        _bits(any_device, again, values)[:TABLE_ENTRIES] == _bits(any_device, make(TABLE_ENTRIES, 0.3), PATTERNS)
    ).all()


def test_in_place(any_device: dml.Device) -> None:
    tensor = dml.TensorDesc(dml.FLOAT16, (2**20,))
    compiled = _compiled(any_device, dml.ElementWiseSin(input_tensor=tensor, output_tensor=tensor, scale_bias=None))
    with any_device.create_buffer(tensor.size_in_bytes + 256) as buffer:
        buffer.upload(np.resize(PATTERNS, 2**20), 256)
        table = any_device.create_binding_table(compiled)
        binding = dml.BufferBinding(buffer, 256, tensor.size_in_bytes)
        table.bind_inputs([binding])
        table.bind_outputs([binding])
        recorder = any_device.create_command_recorder()
        recorder.record_dispatch(compiled, table)
        recorder.execute()
        got = buffer.download()[256:].view(np.uint16)
    assert (got == _bits(any_device, compiled, np.resize(PATTERNS, 2**20))).all()


INTEGERS = [dml.INT8, dml.INT16, dml.INT32, dml.UINT8, dml.UINT16, dml.UINT32]

_NUMBERS = sorted({float(np.float32(value)) for value in FLOATS if math.isfinite(value)})


@pytest.mark.parametrize("data_type", INTEGERS, ids=lambda data_type: data_type.name)
def test_integers_are_truncated_and_saturated(data_type: dml.DataType) -> None:
    limits = np.iinfo(data_type.numpy_dtype)
    for value in (*_NUMBERS, math.inf, -math.inf, math.nan):
        expected = integer_minimum(value, int(limits.min), int(limits.max))
        assert converted_bits(value, data_type) == expected % 2**32, value  # sign-extended to the shader's word


@pytest.mark.parametrize("value", _NUMBERS)
def test_float16_is_rounded_to_nearest_even(value: float) -> None:
    rounded = round_fraction(Fraction(value), FLOAT16)
    got = np.array([converted_bits(value, dml.FLOAT16)], np.uint16).view(np.float16)[0]
    assert math.isinf(got) if rounded is None else float(got) == rounded
    assert np.signbit(got) == (math.copysign(1, value) < 0)


@pytest.mark.parametrize(
    ("value", "bits"),
    [(0.0, 0), (-0.0, 0x80000000), (1.0, 0x3F800000), (2.0**-149, 1), (-math.inf, 0xFF800000), (math.inf, 0x7F800000)],
)
def test_float32_stays_as_it_is(value: float, bits: int) -> None:
    assert converted_bits(value, dml.FLOAT32) == bits


def test_nan_is_the_canonical_one() -> None:
    assert converted_bits(math.nan, dml.FLOAT16) == 0x7E00
    assert converted_bits(-math.nan, dml.FLOAT16) == 0x7E00
    assert converted_bits(math.nan, dml.FLOAT32) == 0x7FC00000
    assert converted_bits(math.copysign(math.nan, -1), dml.FLOAT32) == 0x7FC00000


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
