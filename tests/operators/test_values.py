"""Every operator gives, for every data type, the bits that its definition asks for; a broken shader is caught."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import PATTERNS, SWEPT, Batch, ValueCase, axes_attributes, batches, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import Workbench, check_batch
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.operators import OPERATORS, REGULAR_OPERATORS
from tests.effort import IS_QUICK, TAKES_TURNS
from tests.operators.broken import break_shader
from tests.operators.geometries import Geometry
from tests.operators.test_geometry import check_geometry

CASES = pytest.mark.parametrize("case", value_cases(), ids=lambda case: case.name)

FEWER_SHAPES = 8 if IS_QUICK else 1  # So many times fewer shapes along axes

FEWER_ACTIVATIONS = 16 if IS_QUICK else 4 if TAKES_TURNS else 1
"""So many times fewer fused activations; test_fusion.py has every one."""

FEWER_PATTERNS = 16 if TAKES_TURNS else 1
"""Of types wider than 16 bits so many times fewer patterns of packed tensors are tried."""

FEWEST_PATTERNS = 2**14 if IS_QUICK else 2**16  # But as many as these

MOST_SETS = 2 if IS_QUICK else 8 if TAKES_TURNS else None
"""Of attributes, with which all patterns are tried; the first ones are those with which results differ widely."""

ALONG_AXES = [case for case in value_cases() if (case.desc_class.declaration.pattern == "rows")]


def _names_axes(case: ValueCase) -> bool:
    return bool(axes_attributes(case.desc_class, (0,)))


def _in_chunks(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same inputs in pieces as long as the first batch, which share pipelines; the last ones overlap others."""
    length = 0
    for batch in batches:
        length = length or batch.size
        for start in (max(0, min(index, batch.size - length)) for index in range(0, batch.size, length)):
            piece = tuple(np.resize(values[start : start + length], length) for values in batch.inputs)
            yield dataclasses.replace(batch, name=f"{batch.name} from {start}", inputs=piece)


def _sparse_batches(case: ValueCase, step: int, total: int, most_attribute_sets: int | None) -> Iterator[Batch]:
    """The inputs of a case, made so that drivers need not compile long functions more often than the test needs.

    Along axes every shape is a pipeline of its own: of these every ``step``-th one is taken, each case beginning with
    another one, so that as many cases have all shapes between them. All of all cases are what ``dmlvk conformance``
    runs.
    """
    made = batches(case, total, most_attribute_sets)
    if case in ALONG_AXES:
        alike = [other for other in ALONG_AXES if _names_axes(other) == _names_axes(case)]
        return itertools.islice(made, alike.index(case) % step, None, step)
    if any(field.fusable for field in case.desc_class.fields):
        return _of_each_activation(made)
    return _in_chunks(made) if case.desc_class.operator_name == "ELEMENT_WISE_POW" else made


def _of_each_activation(made: Iterator[Batch]) -> Iterator[Batch]:
    """Some of the inputs, and where there is time some of each fused activation, which is a function of its own."""
    seen: set[str | None] = set()
    for number, batch in enumerate(made):
        names = {getattr(value, "operator_name", None) for value in batch.attributes.values()}
        if number % FEWER_ACTIVATIONS == 0 or not (IS_QUICK or names <= seen):
            seen |= names
            yield batch


@pytest.mark.each_operator
@CASES
def test_packed_tensors(case: ValueCase, benches: list[Workbench]) -> None:
    """Every pattern of 8 and 16 bits (two operands of 8 bits: every pair), and 2**24 or 2**20 of the wider types.

    A sixteenth of that without some optional tensor: the operator's function is the same. Half of the shapes along axes
    that can be named, so that FLOAT32 has those that FLOAT16 leaves out; a third of the others, whose kernels are those
    of the former. Where tests take turns a twelfth of either.
    """
    tried = 0
    results: set[int] = set()
    swept = case.desc_class.operator_name in SWEPT
    patterns, most_sets = (PATTERNS, MOST_SETS) if swept else (PATTERNS // 16, MOST_SETS or 24)
    patterns = max(patterns // (FEWER_PATTERNS * (16 if case.lacks_tensors else 1)), FEWEST_PATTERNS)
    step = 1
    if case in ALONG_AXES:
        step = 12 if TAKES_TURNS and not IS_QUICK else FEWER_SHAPES * (2 if _names_axes(case) else 3)
    for batch in _sparse_batches(case, step, patterns, most_sets):
        expected = check_batch(benches, case, "contiguous", batch)
        bits = as_bits(expected)
        results |= {int(bits.min()), int(bits.max())}
        tried += batch.size
    for batch in _sparse_batches(case, 1, patterns, most_sets):  # where the shapes above have axes of one element only
        if len(results) > 1:
            break
        bits = as_bits(check_batch(benches, case, "contiguous", batch))
        results |= {int(bits.min()), int(bits.max())}
    width = max(data_type.size_in_bits for _, data_type in case.tensors("input"))
    fewer = FEWER_ACTIVATIONS if any(field.fusable for field in case.desc_class.fields) else 1
    fewest = (patterns // fewer if width > 16 else 2**width) // step
    assert tried >= fewest, f"{case.name}: tried {tried} patterns only"
    assert len(results) > 1, f"{case.name}: every result was {results}"


def test_every_operator_is_tested() -> None:
    assert {case.desc_class.operator_name for case in value_cases()} == set(REGULAR_OPERATORS)


BROKEN = json.loads(Path(__file__).with_name("broken_shaders.json").read_text(encoding="utf-8"))


def _case(name: str) -> ValueCase:
    return next(case for case in value_cases() if case.name == name)


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change["why"])
def test_wrong_values_are_caught(
    change: dict[str, str], benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    break_shader(monkeypatch, tmp_path, change["file"], change["text"], change["broken"])
    case = _case(change["case"])
    for bench in benches:
        with pytest.raises(AssertionError, match=change["message"]) as caught:
            for batch in batches(case, total=2**18):
                check_batch([bench], case, change["layout"], batch)
        assert str(caught.value).startswith(f"{bench.device.info.name}: ELEMENT_WISE_"), caught.value


def test_bytes_outside_the_output_are_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole words are stored where only some of their bytes belong to the row."""
    break_shader(monkeypatch, tmp_path, "patterns/buffers.glsl", "mask == 0xffffffffu", "mask != 0u")
    for bench in benches:
        with pytest.raises(AssertionError, match=r"bytes outside the output's elements changed|elements differ"):
            check_geometry([bench], _case("sign-int8"), Geometry("rows of 7", (6, 7), (9, 1), ((7, 1),)))


def test_an_unbroken_copy_is_not_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way in which the tests above compile shaders is not what they catch."""
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "0x3f800000u", "0x3f800000u")
    for batch in batches(_case("sign-float32"), total=2**16):
        check_batch(benches, _case("sign-float32"), "contiguous", batch)


Array = npt.NDArray[Any]

SETS = 5

VALUES = 2**13

# What a search over all magnitudes of x and attributes found to be furthest from the true value: x, attributes, error.
WORST: dict[str, list[tuple[int, tuple[int, ...], float]]] = {
    "ACTIVATION_SCALED_TANH": [
        (0xE53FD441, (0x02C7EE43, 0x185B3CC7), 0.88),
        (0x741E1AAC, (0x6DC2DCF5, 0x8989315A), 0.86),
        (0xF520ADBD, (0xF954AC57, 0x8876B7A2), 0.85),
    ],
    "ACTIVATION_PARAMETRIC_SOFTPLUS": [
        (0x539DCECB, (0x6DB0C9D6, 0xAECAED2E), 0.77),
        (0x8E080C01, (0x712F6FAD, 0x742F5FDA), 0.74),
    ],
    "ACTIVATION_SOFTPLUS": [(0xE78D0FF6, (0x1ABACBEE,), 0.75), (0xDB8B5E0A, (0x26C9BA29,), 0.71)],
    "ACTIVATION_CELU": [(0x98829F45, (0x94E7C849,), 0.71)],
    "ACTIVATION_SWISH": [(0x4FA5DF74, (0xB28CADE0,), 0.75), (0x462D4724, (0xBA875C3C,), 0.72)],
    "ACTIVATION_ELU": [(0xBE9975DC, (0x5C76FB42,), 0.93), (0xBE9B77E4, (0xC97461C7,), 0.92)],
    "ACTIVATION_SCALED_ELU": [(0xBEA122DF, (0xBE31C1DA, 0xD4AAA1E5), 0.92)],
}

ATTRIBUTES = {
    "ACTIVATION_SCALED_TANH": ("alpha", "beta"),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": ("alpha", "beta"),
    "ACTIVATION_SOFTPLUS": ("steepness",),
    "ACTIVATION_CELU": ("alpha",),
    "ACTIVATION_SWISH": ("sigmoid_input_scale",),
    "ACTIVATION_ELU": ("alpha",),
    "ACTIVATION_SCALED_ELU": ("alpha", "gamma"),
}


def _number(bits: int) -> float:
    return float(np.array(bits, np.uint32).view(np.float32))


def _errors(device: dml.Device, operator: str, attributes: Sequence[float], x: Array) -> tuple[Array, float]:
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    kind: Any = OPERATORS[operator]
    named: dict[str, Any] = dict(zip(ATTRIBUTES[operator], attributes, strict=True))
    desc = kind(input_tensor=tensor, output_tensor=tensor, **named)
    got = device.run(desc, {"InputTensor": x})["OutputTensor"]
    return ulp_errors(got, expected_output(desc, [x])), promised_ulp(desc.accuracy, dml.FLOAT32)


@pytest.mark.parametrize("operator", WORST)
def test_the_largest_errors_that_were_found_are_within_the_promise(device: dml.Device, operator: str) -> None:
    """And as large as the search has it, which knows the same bits."""
    for x, attributes, known in WORST[operator]:
        numbers = [_number(bits) for bits in attributes]
        errors, promised = _errors(device, operator, numbers, np.full(4, _number(x), np.float32))
        assert known <= errors.max() <= promised


@pytest.mark.parametrize("operator", WORST)
def test_attributes_of_all_magnitudes_keep_the_promise(any_device: dml.Device, operator: str) -> None:
    """With x of any magnitude, and such that its product or quotient with an attribute is neither small nor large."""
    random = np.random.default_rng(sum(operator.encode()))
    for _ in range(SETS):
        exponents = random.uniform(-120, 120, len(ATTRIBUTES[operator]))
        attributes = [float(np.float32(s * 2.0**e)) for s, e in zip(random.choice([-1, 1], 2), exponents, strict=False)]
        inner = attributes[0] if operator == "ACTIVATION_CELU" else 1 / attributes[-1]
        inner = 1.0 if operator in ("ACTIVATION_ELU", "ACTIVATION_SCALED_ELU") else inner
        arguments = random.choice([-1, 1], VALUES) * 2.0 ** random.uniform(-14, 7.4, VALUES)
        with np.errstate(over="ignore"):
            moderate = np.clip(arguments * inner, -3e38, 3e38).astype(np.float32)
        anything = random.integers(0, 2**32, VALUES, np.uint32).view(np.float32)
        errors, promised = _errors(any_device, operator, attributes, np.concatenate([moderate, anything]))
        assert errors.max() <= promised, attributes
