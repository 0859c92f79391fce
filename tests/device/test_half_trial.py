"""A device's own conversions of FLOAT16 are taken where they were tried and found exact, and nowhere else."""

from __future__ import annotations

import dataclasses
import platform
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.runtime.kompute import Engine
from dmlvk.spirv.modules import uses_constant
from dmlvk.spirv.specialization import NAIVE_DRIVERS, PACKS_TO_NEAREST_EVEN, UNPACKS_DENORMALS
from dmlvk.trials import half_trial
from dmlvk.trials.device_trials import TRIALS
from tests.operators.broken import break_shader

UNPACKING = "floatBitsToUint(unpackHalf2x16(x).x)"
PACKING = "packHalf2x16(vec2(uintBitsToFloat(x), 0.0))"
TENSOR = dml.TensorDesc(dml.FLOAT16, (1 << 11,))
DESC = dml.ElementWiseAdd(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)
DENORMALS = np.arange(1 << 11, dtype=np.uint16).view(np.float16)

CONVERSIONS = (UNPACKS_DENORMALS, PACKS_TO_NEAREST_EVEN)

Answers = dict[int, list[bool]]

pytestmark = pytest.mark.every_driver  # drivers differ in what is tried


def _sums(device: dml.Device) -> None:
    """Sums of denormals and small numbers, which NumPy's must equal."""
    found = device.run(DESC, {"ATensor": DENORMALS, "BTensor": DENORMALS[::-1].copy()})["OutputTensor"]
    assert np.array_equal(found.view(np.uint16), (DENORMALS + DENORMALS[::-1]).view(np.uint16))


def _answers(monkeypatch: pytest.MonkeyPatch, device: dml.Device) -> Answers:
    """What the device's trials find from now on."""
    answers: Answers = {constant_id: [] for constant_id in CONVERSIONS}

    def noted(constant_id: int, engine: Engine) -> bool:
        answers[constant_id].append(TRIALS[constant_id](engine))
        return answers[constant_id][-1]

    monkeypatch.setattr(device.engine.shaders, "trials", {each: partial(noted, each) for each in answers})
    return answers


def _found(device: dml.Device, *, unpacks: bool = True, packs: bool = True) -> Answers:
    """What is found once on this device; nothing on one that is given numbers for all constants."""
    is_tried = device.info.driver not in NAIVE_DRIVERS
    return {UNPACKS_DENORMALS: [unpacks] * is_tried, PACKS_TO_NEAREST_EVEN: [packs] * is_tried}


def test_a_device_is_tried_once_and_only_for_float16(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with dml.Device(device.info.index) as opened:
        answers = _answers(monkeypatch, opened)
        tensor = dml.TensorDesc(dml.FLOAT32, (5,))
        for operator in (dml.ElementWiseAbs, dml.ElementWiseExp, dml.ElementWiseSqrt):
            opened.run(operator(input_tensor=tensor, output_tensor=tensor), {"InputTensor": np.ones(5, np.float32)})
        assert not any(answers.values())
        for _ in range(2):
            _sums(opened)
        assert answers == _found(device)


FAULTS = {
    ("unpacks", "denormals are flushed"): f"((x & 0x7c00u) == 0u ? (x & 0x8000u) << 16 : {UNPACKING})",
    ("unpacks", "the other half"): "floatBitsToUint(unpackHalf2x16(x).y)",
    ("unpacks", "one pattern"): f"({UNPACKING} | (x == 0x8001u ? 0x400000u : 0u))",
    ("packs", "cut off"): "packHalf2x16(vec2(uintBitsToFloat(x & 0xffffe000u), 0.0))",
    ("packs", "halves away from zero"): (
        "packHalf2x16(vec2(uintBitsToFloat((x & 0x1fffu) == 0x1000u ? x + 1u : x), 0.0))"
    ),
    ("packs", "rounded twice"): "packHalf2x16(vec2(uintBitsToFloat((x + 1u) & 0xfffffffeu), 0.0))",
    ("packs", "denormals are flushed"): f"((x & 0x7fffffffu) < 0x38800000u ? x >> 16 & 0x8000u : {PACKING})",
    ("packs", "greatest for infinite"): f"min({PACKING}, 0xfbffu)",
    ("packs", "a bit of the other half"): f"({PACKING} | ((x & 0x7f800000u) == 0x7f800000u ? 0x20000u : 0u))",
    ("packs", "one number"): f"({PACKING} ^ (x == 0x3f803001u ? 1u : 0u))",
}


@pytest.mark.parametrize(("way", "fault"), FAULTS)
def test_a_device_that_packs_or_unpacks_otherwise_does_it_by_integers(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str, fault: str
) -> None:
    sound = {"unpacks": UNPACKING, "packs": PACKING}[way]
    break_shader(monkeypatch, tmp_path, "include/float16.glsl", sound, FAULTS[way, fault])
    with dml.Device(device.info.index) as opened:
        answers = _answers(monkeypatch, opened)
        _sums(opened)
        assert answers == _found(device, **{way: False})


def test_packing_is_tried_on_both_sides_of_every_border() -> None:
    """By NumPy's own conversion, and against the neighbours of every number that is tried."""
    numbers, expected = half_trial.rounding_borders()
    is_number = (numbers & 0x7FFFFFFF) <= 0x7F800000
    with np.errstate(over="ignore"):
        rounded = numbers[is_number].view(np.float32).astype(np.float16)
    assert np.array_equal(rounded.view(np.uint16), expected[is_number])
    positive = np.unique(numbers[(numbers >> 31 == 0) & is_number])
    results = positive.view(np.float32).astype(np.float16).view(np.uint16)
    changes = np.flatnonzero(results[1:] != results[:-1])
    assert np.array_equal(results[changes], np.arange(0x7C00)), "every result but infinity has a last number"
    gaps = positive[changes + 1] - positive[changes]
    assert gaps.max() == 1, "which the first one of the next result follows"


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
            patch.setattr(opened.engine.shaders, "trials", dict.fromkeys(CONVERSIONS, fails))
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
        assert answers == _found(device)


def test_both_conversions_are_in_the_shaders() -> None:
    from dmlvk.kernels import library

    for name in ("element_wise_add.float16.contiguous", "activation_softmax.float16.in_registers"):
        assert all(uses_constant(library.load(name), constant_id) for constant_id in CONVERSIONS)
    for name in ("element_wise_add.float32.contiguous", "element_wise_exp.float32.contiguous"):
        assert not any(uses_constant(library.load(name), constant_id) for constant_id in CONVERSIONS)


PRODUCT_FAULTS = {
    "denormals are flushed": "min(PRODUCT, mix(PRODUCT, f16vec2(0.0), lessThan(abs(PRODUCT), f16vec2(6.1e-5))))",
    "cut off": "unpackFloat2x16(packFloat2x16(PRODUCT) & 0xfffefffeu)",
}


@pytest.mark.parametrize("fault", [None, *PRODUCT_FAULTS])
def test_products_of_float16_are_tried(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str | None
) -> None:
    if "shaderFloat16" not in device.engine.enabled_features:
        pytest.skip("there is no arithmetic of FLOAT16")
    product = "number * unpackFloat2x16(words_factors[BASE_WORD(factors) + factor])"
    if fault is not None:
        broken = PRODUCT_FAULTS[fault].replace("PRODUCT", f"({product})")
        break_shader(monkeypatch, tmp_path, "patterns/elementwise/half_products.comp", product, broken)
    assert half_trial.multiplies_halves(device.engine) is (fault is None)


@pytest.mark.parametrize(
    ("driver", "version", "processor", "is_tried"),
    [
        ("llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)", "aarch64", False),
        ("llvmpipe", "Mesa 24.2.8 (LLVM 17.0.6)", "aarch64", False),
        ("llvmpipe", "Mesa 25.0.7 (LLVM 19.1.7)", "aarch64", True),
        ("llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)", "riscv64", False),
        ("llvmpipe", "of nobody knows which Mesa", "aarch64", False),
        ("llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)", "x86_64", True),
        ("llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)", "AMD64", True),
        ("v3dv", "Mesa 22.3.6", "aarch64", True),
    ],
)
def test_a_compiler_that_would_end_the_process_is_not_asked(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, driver: str, version: str, processor: str, is_tried: bool
) -> None:
    info = dataclasses.replace(device.info, driver=driver, driver_version=version)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    launches: list[object] = []
    monkeypatch.setattr(half_trial, "run_on_arrays", lambda *_: launches.append(1))
    monkeypatch.setattr(device.engine, "info", info)
    half_trial.unpacks_denormals(device.engine)
    assert bool(launches) == is_tried
