"""The promises of activations hold for attributes of every magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.operators import OPERATORS

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
