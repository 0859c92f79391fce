"""A device's own conversion of FLOAT16 is taken where it was tried and found exact, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import half_trial
from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.specialization import NAIVE_DRIVERS, UNPACKS_DENORMALS
from dmlvk.spirv import uses_constant
from tests.operators.broken import break_shader

CONVERSION = "floatBitsToUint(unpackHalf2x16(x).x)"
TENSOR = dml.TensorDesc(dml.FLOAT16, (1 << 11,))
DESC = dml.ElementWiseAdd(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)
DENORMALS = np.arange(1 << 11, dtype=np.uint16).view(np.float16)


def _sums(device: dml.Device) -> None:
    """Sums of denormals and small numbers, which NumPy's must equal."""
    found = device.run(DESC, {"ATensor": DENORMALS, "BTensor": DENORMALS[::-1].copy()})["OutputTensor"]
    assert np.array_equal(found.view(np.uint16), (DENORMALS + DENORMALS[::-1]).view(np.uint16))


def _answers(monkeypatch: pytest.MonkeyPatch, device: dml.Device) -> list[bool]:
    """What the device's trials find from now on."""
    answers: list[bool] = []

    def noted(engine: Engine) -> bool:
        answers.append(half_trial.unpacks_denormals(engine))
        return answers[-1]

    monkeypatch.setattr(device.engine, "_try_unpacking", noted)
    return answers


def test_a_device_is_tried_once_and_only_for_float16(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with dml.Device(device.info.index) as opened:
        answers = _answers(monkeypatch, opened)
        tensor = dml.TensorDesc(dml.FLOAT32, (5,))
        for operator in (dml.ElementWiseAbs, dml.ElementWiseExp, dml.ElementWiseSqrt):
            opened.run(operator(input_tensor=tensor, output_tensor=tensor), {"InputTensor": np.ones(5, np.float32)})
        assert answers == []
        for _ in range(2):
            _sums(opened)
        assert len(answers) == (device.info.driver not in NAIVE_DRIVERS)  # they are given numbers for all constants


def test_a_device_that_flushes_denormals_converts_by_integers(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flushed = f"((x & 0x7c00u) == 0u ? (x & 0x8000u) << 16 : {CONVERSION})"
    break_shader(monkeypatch, tmp_path, "include/float16.glsl", CONVERSION, flushed)
    with dml.Device(device.info.index) as opened:
        answers = _answers(monkeypatch, opened)
        _sums(opened)
        assert answers == [False] * (device.info.driver not in NAIVE_DRIVERS)


@pytest.mark.parametrize(
    "wrong",
    [
        "floatBitsToUint(unpackHalf2x16(x).y)",
        "(floatBitsToUint(unpackHalf2x16(x).x) | (x == 0x8001u ? 0x400000u : 0u))",
    ],
)
def test_every_pattern_is_tried(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: str
) -> None:
    break_shader(monkeypatch, tmp_path, "include/float16.glsl", CONVERSION, wrong)
    with dml.Device(device.info.index) as opened:
        answers = _answers(monkeypatch, opened)
        _sums(opened)
        assert answers == [False] * (device.info.driver not in NAIVE_DRIVERS)


@pytest.mark.parametrize("error", [dml.OutOfMemoryError, dml.DmlError])
def test_a_trial_that_fails_is_made_again(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, error: type[dml.DmlError]
) -> None:
    """Without memory for it integers do."""
    is_tried = device.info.driver not in NAIVE_DRIVERS
    with dml.Device(device.info.index) as opened:

        def fails(_: Engine) -> bool:
            raise error("no trial")

        with monkeypatch.context() as patch:
            patch.setattr(opened.engine, "_try_unpacking", fails)
            if error is dml.OutOfMemoryError or not is_tried:
                _sums(opened)
            else:
                with pytest.raises(dml.DmlError, match="no trial"):
                    _sums(opened)
        answers = _answers(monkeypatch, opened)
        tensor = dml.TensorDesc(dml.FLOAT16, (7,))
        halves = np.arange(7, dtype=np.float16)
        multiply = dml.ElementWiseMultiply(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
        products = opened.run(multiply, {"ATensor": halves, "BTensor": halves})["OutputTensor"]
        assert np.array_equal(products, halves * halves)
        assert answers == [True] * is_tried


def test_both_conversions_are_in_the_shaders() -> None:
    from dmlvk.kernels import library

    for name in ("element_wise_add.float16.contiguous", "activation_softmax.float16.held"):
        spirv = library.load(name)
        assert uses_constant(spirv, UNPACKS_DENORMALS)
    for name in ("element_wise_add.float32.contiguous", "element_wise_exp.float32.contiguous"):
        assert not uses_constant(library.load(name), UNPACKS_DENORMALS)
