"""Slow paths that kernels take apart, and what is deferred, have the bits of the ordinary way."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import sweep_sets
from dmlvk.kernels import access_orders, library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.target import CPU
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.runtime import shader_forms
from dmlvk.spirv.modules import uses_constant
from dmlvk.spirv.specialization import ON_PROCESSOR, PACKS_TO_NEAREST_EVEN, UNPACKS_DENORMALS
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS, called_words
from tests.binding.support import buffer_with, compiled, execute
from tests.targets import all_compute_as_gpus, kernel_of

SHADERS = Path(__file__).parents[2] / "shaders"

QUICK = sorted(
    f"{file.parent.name.replace('elementwise', 'element_wise')}_{file.stem}".upper()
    for file in SHADERS.glob("*/*.comp")
    if "#define FAST_OPERATION" in file.read_text()
)
"""The operators that have such a way, all of them in FLOAT16."""

INFINITY, NAN, LARGEST = math.inf, math.nan, 65504.0

BOUNDS = [
    *[(-1.5, 2.25), (2.25, -1.5), (0.0, -0.0), (-0.0, 0.0), (6e-8, 1e-5), (-LARGEST, LARGEST)],
    *itertools.product([-INFINITY, INFINITY, NAN, 1.0], repeat=2),
]

SIDE = 256

TENSOR = dml.TensorDesc(dml.FLOAT16, (SIDE, SIDE))

TRANSPOSED = dml.TensorDesc(dml.FLOAT16, (SIDE, SIDE), (1, SIDE))

ROWS = dml.TensorDesc(dml.FLOAT16, (SIDE, SIDE), (SIDE + 16, 1))

LAYOUTS = [(TENSOR,), (TRANSPOSED,), (ROWS,), (TRANSPOSED, TENSOR), (TENSOR, TRANSPOSED)]  # Of the inputs, in turn

SLOPES = [0.01, -0.01, 1.0, 0.25, 1.1, -3.7, 2.0**-20, 2.0**20, 1.9e-6, 1048577.0, 1e-30, 3e38, 0.0, INFINITY, NAN]


def _attributes(operator: str) -> Iterator[dict[str, Any]]:
    if operator == "ACTIVATION_LEAKY_RELU":
        yield from ({"alpha": slope} for slope in SLOPES)
        return
    for values in BOUNDS if "CLIP" in operator else [None]:
        bounds = {} if values is None else {"min": values[0], "max": values[1]}
        if operator == "ELEMENT_WISE_ROUND":
            yield from ({"rounding_mode": mode} for mode in dml.RoundingMode)
        else:
            yield bounds


def _description(operator: str, attributes: dict[str, Any], layouts: tuple[dml.TensorDesc, ...]) -> OperatorDesc:
    made = OPERATORS[operator]
    inputs = [field.attribute for field in made.fields if field.kind == "input"]
    outputs = [field.attribute for field in made.fields if field.kind == "output"]
    if any(field.attribute == "min_max_data_type" for field in made.fields):
        attributes = {**attributes, "min_max_data_type": dml.FLOAT16}
    optional = {field.attribute: None for field in made.fields if field.optional and field.kind == "attribute"}
    tensors = dict(zip(inputs, itertools.cycle(layouts), strict=False))
    return made(**optional, **attributes, **tensors, **dict.fromkeys(outputs, TENSOR))


def _orders() -> Iterator[npt.NDArray[np.uint16]]:
    """All numbers: rare ones among themselves, and beside ordinary ones in most vectors."""
    patterns = np.arange(SIDE * SIDE, dtype=np.uint16)
    yield patterns
    yield np.random.default_rng(7).permutation(patterns)


def _results(device: dml.Device, desc: OperatorDesc) -> list[npt.NDArray[np.uint16]]:
    compiled = device.compile_operator(device.create_operator(desc))
    names = [point.name for point in compiled.inputs if point.tensor is not None]
    found = []
    for order in _orders():
        values = [order, np.random.default_rng(1).permutation(order)]
        values[1][::5] = order[::5]  # equal ones too
        tensors = {name: value.view(np.float16).reshape(SIDE, SIDE) for name, value in zip(names, values, strict=False)}
        (result,) = device.run(compiled, tensors).values()
        found.append(result.view(np.uint16))
    return found


def test_there_are_such_operators() -> None:
    assert {"ELEMENT_WISE_EXP", "ELEMENT_WISE_CLIP", "ELEMENT_WISE_MAX"} <= set(QUICK)


@pytest.mark.parametrize("is_large", [False, True], ids=["one vector or tile", "two"])
@pytest.mark.parametrize("operator", QUICK)
def test_the_quick_way_gives_the_bits_of_the_ordinary_one(
    operator: str, is_large: bool, constants_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch)
    if is_large:
        monkeypatch.setattr(access_orders, "_FEWEST_WITH_TWO_VECTORS", 0)
        monkeypatch.setattr(access_orders, "_FEWEST_WITH_TWO_TILES", 0)
    first, *others = _attributes(operator)
    cases = [(first, layouts) for layouts in LAYOUTS]
    if not is_large:
        cases += [(attributes, (TENSOR,)) for attributes in others]
    ordinary = [_results(constants_device, _description(operator, *case)) for case in cases]
    monkeypatch.setattr(shader_forms, "on_processor", lambda spirv: spirv)  # and so a pipeline for a GPU
    with dml.Device(constants_device.info.index) as device:
        for case, expected in zip(cases, ordinary, strict=True):
            desc = _description(operator, *case)
            assert uses_constant(kernel_of(desc).spirv(), ON_PROCESSOR)
            for results, wanted in zip(_results(device, desc), expected, strict=True):
                different = np.flatnonzero(results != wanted)
                assert different.size == 0, (
                    f"{operator} {case}: {different.size} differ, the first at {different[0]}:"
                    f" {results.flat[different[0]]:#06x} instead of {wanted.flat[different[0]]:#06x}"
                )
        assert all(device.engine.shaders.does(trial) for trial in (UNPACKS_DENORMALS, PACKS_TO_NEAREST_EVEN)), (
            "never quick"
        )


@pytest.mark.parametrize("operator", QUICK)
def test_the_ordinary_way_alone_counts_as_the_length_of_a_function(operator: str) -> None:
    """Kernels of several operators have that one, and as many operators as their lengths allow."""
    assert called_words(library.load(f"{operator.lower()}.float16.contiguous")) < 3 * LONG_FUNCTION_WORDS


Words = npt.NDArray[np.uint32]

DEFERRING = [
    variant.name.split(".")[0].upper()
    for variant in all_variants()
    if variant.name.endswith(".float32.contiguous")
    and uses_constant(library.load(variant.name), access_orders.DEFERS_SLOW_PATH)
]

ELEMENTS = 2**18 + 4 * 256 * 3 + 3
"""Enough for it, with vectors that no invocation's share is full of, and a part of one."""

POSITIVE = (0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001)

SPECIAL = np.array([sign | bits for sign in (0, 0x80000000) for bits in POSITIVE], np.uint32)


def _deferral_description(operator: str, attributes: dict[str, object]) -> OperatorDesc:
    made = OPERATORS[operator]
    optional = {field.attribute: None for field in made.fields if field.optional}
    tensors = dict.fromkeys(["input_tensor", "output_tensor"], dml.TensorDesc(dml.FLOAT32, (ELEMENTS,)))
    return made(**(optional | attributes | tensors))


@functools.cache
def _operands() -> dict[str, Words]:
    """Operands of the slow and of the fast path among themselves, and each beside the other."""
    random = np.random.default_rng(3)
    usual = random.uniform(-4, 4, ELEMENTS).astype(np.float32).view(np.uint32)
    some = usual.copy()
    some[random.integers(0, ELEMENTS, ELEMENTS // 50)] = random.choice(SPECIAL, ELEMENTS // 50)
    return {
        "usual": usual,
        "zero or usual": np.where(random.random(ELEMENTS) < 0.5, usual & np.uint32(0x80000000), usual),
        "some special": some,
        "only special": random.choice(SPECIAL, ELEMENTS),
        "any": random.integers(0, 2**32, ELEMENTS, dtype=np.uint32),
    }


def _deferral_results(device: dml.Device, desc: OperatorDesc, in_place: bool = False) -> Iterator[tuple[str, Words]]:
    operator = compiled(device, desc)
    for name, operand in _operands().items():
        with buffer_with(device, operand) as source, buffer_with(device, operand[::-1]) as other:
            target = source if in_place else other
            execute(operator, [dml.BufferBinding(source)], [dml.BufferBinding(target)])
            yield name, target.download(np.uint32)[:ELEMENTS]


def test_there_are_deferred_operators() -> None:
    assert {"ELEMENT_WISE_TAN", "ELEMENT_WISE_SIN", "ACTIVATION_SOFTPLUS"} <= set(DEFERRING)


@pytest.mark.parametrize("operator", DEFERRING)
def test_what_is_deferred_has_the_same_bits(operator: str, device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OPERATORS[operator]
    sets = sweep_sets(made, dml.FLOAT32, optional=False) + sweep_sets(made, dml.FLOAT32, optional=True)[:1]
    for number, attributes in enumerate(sets):
        desc = _deferral_description(operator, attributes)
        assert kernel_of(desc, CPU).geometry[-1] == 1, "nothing is deferred"
        invocations = math.prod(kernel_of(desc, CPU).work_groups) * 256
        assert 0 <= 32 * invocations - ELEMENTS < 32 * 256, "more work groups than there is work for, or less"
        assert kernel_of(desc).geometry[-1] == 0
        deferred = list(_deferral_results(device, desc, in_place=number % 2 == 1))
        with monkeypatch.context() as patch:
            all_compute_as_gpus(patch)
            together = list(_deferral_results(device, desc))
        for (name, found), (_, wanted) in zip(deferred, together, strict=True):
            different = np.flatnonzero(found != wanted)
            first = different[:1]
            assert different.size == 0, (
                f"{operator} {attributes} of {name} operands: {different.size} results differ, the first one of"
                f" {_operands()[name][first]}: it is {found[first]}, not {wanted[first]}"
            )
