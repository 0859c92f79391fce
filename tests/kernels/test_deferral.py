"""What processors compute after the rest, because it is rare, has the bits that GPUs compute along with it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import sweep_sets
from dmlvk.kernels import access_orders, library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.target import CPU
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.spirv.modules import uses_constant
from tests.binding.support import buffer_with, compiled, execute
from tests.effort import some
from tests.targets import all_compute_as_gpus, kernel_of

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


def _description(operator: str, attributes: dict[str, object]) -> OperatorDesc:
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


def _results(device: dml.Device, desc: OperatorDesc, in_place: bool = False) -> Iterator[tuple[str, Words]]:
    operator = compiled(device, desc)
    for name, operand in _operands().items():
        with buffer_with(device, operand) as source, buffer_with(device, operand[::-1]) as other:
            target = source if in_place else other
            execute(operator, [dml.BufferBinding(source)], [dml.BufferBinding(target)])
            yield name, target.download(np.uint32)[:ELEMENTS]


def test_there_are_such_operators() -> None:
    assert {"ELEMENT_WISE_TAN", "ELEMENT_WISE_SIN", "ACTIVATION_SOFTPLUS"} <= set(DEFERRING)


@pytest.mark.parametrize("operator", some(DEFERRING, 3))
def test_what_is_deferred_has_the_same_bits(operator: str, device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OPERATORS[operator]
    sets = sweep_sets(made, dml.FLOAT32, optional=False) + sweep_sets(made, dml.FLOAT32, optional=True)[:1]
    for number, attributes in enumerate(sets):
        desc = _description(operator, attributes)
        assert kernel_of(desc, CPU).geometry[-1] == 1, "nothing is deferred"
        invocations = math.prod(kernel_of(desc, CPU).work_groups) * 256
        assert 0 <= 32 * invocations - ELEMENTS < 32 * 256, "more work groups than there is work for, or less"
        assert kernel_of(desc).geometry[-1] == 0
        deferred = list(_results(device, desc, in_place=number % 2 == 1))
        with monkeypatch.context() as patch:
            all_compute_as_gpus(patch)
            together = list(_results(device, desc))
        for (name, found), (_, wanted) in zip(deferred, together, strict=True):
            different = np.flatnonzero(found != wanted)
            first = different[:1]
            assert different.size == 0, (
                f"{operator} {attributes} of {name} operands: {different.size} results differ, the first one of"
                f" {_operands()[name][first]}: it is {found[first]}, not {wanted[first]}"
            )
