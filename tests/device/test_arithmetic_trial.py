"""A device whose arithmetic breaks what results rely on is named when it is opened."""

from __future__ import annotations

import hashlib
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import device
from dmlvk.kernels import library
from dmlvk.kernels.trials import RESULTS
from dmlvk.runtime.shader_forms import ShaderForms
from dmlvk.runtime.work import Launch
from dmlvk.spirv.modules import with_float_controls
from dmlvk.support.caches import keep_contents
from dmlvk.trials import arithmetic_trial
from dmlvk.trials.arithmetic_trial import faults, operands
from scripts.shader_tools.metal import with_products_as_fma

Floats = npt.NDArray[np.float32]

TOTAL, DIFFERENCE, PRODUCT, PRODUCT_PLUS, SUM_ERROR, OF_ITSELF = 0, 1, 2, 3, 5, 7


def computed() -> npt.NDArray[np.uint32]:
    """The trial as this processor's float32 computes it, step by step."""
    given = operands()
    a, b, c = given.view(np.float32).T
    half_a, half_b = ((column & np.uint32(0xFFFFF000)).view(np.float32) for column in given.T[:2])
    with np.errstate(all="ignore"):
        total = a + b
        b_part = total - a
        error = (a - (total - b_part)) + (b - b_part)
        results = [total, a - b, a * b, a * b + c, c - a * b, error, half_a * half_b + c, a - a, total - b]
        results += [a * c + b * c, a * b + c, (a * b) * c]
    stacked: npt.NDArray[np.uint32] = np.stack(results, 1).view(np.uint32)
    return stacked


def test_what_this_processor_computes_has_no_faults() -> None:
    results = computed()
    assert results.shape == (len(operands()), RESULTS)
    assert faults(operands(), results) == ()


def contracted(results: npt.NDArray[np.uint32]) -> None:
    a, b, c = operands().view(np.float32).T.astype(np.float64)
    with np.errstate(all="ignore"):
        results[:, PRODUCT_PLUS] = (a * b + c).astype(np.float32).view(np.uint32)


def rounded_to_zero(results: npt.NDArray[np.uint32]) -> None:
    a, b, _ = operands().view(np.float32).T.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = a + b
        nearest = exact.astype(np.float32)
        results[:, TOTAL] = np.where(
            np.abs(nearest) > np.abs(exact), nearest.view(np.uint32) - 1, nearest.view(np.uint32)
        )


def rearranged(results: npt.NDArray[np.uint32]) -> None:
    results[:, SUM_ERROR] = 0


def without_nan(results: npt.NDArray[np.uint32]) -> None:
    results[:, OF_ITSELF] = 0


def without_signs_of_zeros(results: npt.NDArray[np.uint32]) -> None:
    results[results == 0x80000000] = 0


def without_least_normals(results: npt.NDArray[np.uint32]) -> None:
    results[(results & 0x7FFFFFFF) == 0x00800000] = 0


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (contracted, "contraction"),
        (rounded_to_zero, "rounding"),
        (rearranged, "rearrangement"),
        (without_nan, "NaN and infinities"),
        (without_signs_of_zeros, "signs of zeros"),
        (without_least_normals, "denormals"),
    ],
)
def test_each_kind_of_fault_is_named(spoil: Callable[[npt.NDArray[np.uint32]], None], kind: str) -> None:
    results = computed()
    spoil(results)
    found = faults(operands(), results)
    assert kind in [fault.partition(" (")[0] for fault in found], found


def test_denormals_may_be_flushed_and_zeros_of_products_may_lose_their_sign() -> None:
    results = computed()
    magnitudes = results & 0x7FFFFFFF
    np.copyto(results, results & 0x80000000, where=(magnitudes > 0) & (magnitudes < 0x00800000))
    product = results[:, PRODUCT]
    product[product == 0x80000000] = 0
    assert faults(operands(), results) == ()


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache in which nothing is known of any device."""
    monkeypatch.setattr(arithmetic_trial, "_found", {})
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_device_is_tried_once_and_the_next_process_knows(
    any_device: dml.Device, untried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dml.Device(any_device.info.index) as opened:
        assert opened.arithmetic_faults == ()
    (kept,) = untried.glob("*.arithmetic")
    monkeypatch.setattr(arithmetic_trial, "_found", {})
    monkeypatch.setattr(arithmetic_trial, "_tried", lambda *_: pytest.fail("tried again"))
    with dml.Device(any_device.info.index):
        pass
    whole, key = kept.read_bytes(), kept.stem
    rubbish = [b"", b"no list", whole[:-1], whole[1:], bytes(len(whole)), b"[" * 100_000]
    rubbish += [hashlib.sha256(key.encode() + b"[]").digest() + b"[]"]
    for name, text in [("of another device", b"[]"), *((key, text) for text in (b"[" * 100_000, b'{"a": 1}', b"[1]"))]:
        keep_contents(kept, name, text)
        rubbish.append(kept.read_bytes())
    for contents in rubbish:
        kept.write_bytes(contents)
        monkeypatch.setattr(arithmetic_trial, "_found", {})
        with pytest.raises(pytest.fail.Exception, match="tried again"):
            dml.Device(any_device.info.index)


def test_a_device_that_computes_otherwise_is_warned_of(
    any_device: dml.Device, untried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_driver = ShaderForms.of

    def of(self: ShaderForms, launch: Launch) -> tuple[bytes, tuple[int, ...]]:
        spirv, constants = of_driver(self, launch)
        return with_products_as_fma(spirv, is_broken=True), constants

    monkeypatch.setattr(ShaderForms, "of", of)
    with (
        pytest.warns(dml.ArithmeticWarning, match=r"may break.*\(a \* b is 0x3f800000 instead of 0x80000000"),
        dml.Device(any_device.info.index) as opened,
    ):
        assert opened.arithmetic_faults


def test_a_device_that_only_computes_right_when_told_to_is_told_to(
    any_device: dml.Device, untried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any_device.info.float_controls:
        pytest.skip("the driver offers no float controls")
    real = arithmetic_trial.arithmetic_faults

    def found(engine: Any) -> tuple[str, ...]:
        return real(engine) if engine.declares_float_controls else ("NaN and infinities",)

    monkeypatch.setattr(device, "arithmetic_faults", found)
    tensor = dml.TensorDesc(dml.FLOAT32, (4,))
    desc = dml.operator_desc("ELEMENT_WISE_MULTIPLY", ATensor=tensor, BTensor=tensor, OutputTensor=tensor)
    a, b = np.array([1.5, -0.0, np.inf, 2**-126], np.float32), np.array([-2, 1, 0, 0.5], np.float32)
    with warnings.catch_warnings(), dml.Device(any_device.info.index) as opened:
        warnings.simplefilter("error")
        assert opened.engine.declares_float_controls
        y = opened.run(desc, {"ATensor": a, "BTensor": b})["OutputTensor"]
    np.testing.assert_array_equal(y, np.array([-3, -0.0, np.nan, 0], np.float32))
    assert np.signbit(y[1])


def test_a_module_with_float_controls_is_valid() -> None:
    controls = ("shaderSignedZeroInfNanPreserveFloat32", "shaderDenormPreserveFloat32", "shaderRoundingModeRTEFloat32")
    module = with_float_controls(library.load("trial.arithmetic"), controls)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", "-"], input=module, check=True)
