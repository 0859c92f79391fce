"""A device whose arithmetic breaks what results rely on is named when it is opened; what it may have is told."""

from __future__ import annotations

import hashlib
import itertools
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
from tests.binding.support import compiled, floats, sign

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


LEVELS = list(dml.FeatureLevel)

TYPES_OF_64_BITS = (dml.FLOAT64, dml.INT64, dml.UINT64)

REFUSED_TYPES = (dml.DataType.UNKNOWN, dml.DataType.UINT4, dml.DataType.INT4)


def test_levels_have_directmls_values() -> None:
    """Rule 97."""
    assert [int(level) for level in LEVELS] == [
        *(0x1000, 0x2000, 0x2100, 0x3000, 0x3100, 0x4000, 0x4100),
        *(0x5000, 0x5100, 0x5200, 0x6000, 0x6100, 0x6200, 0x6300, 0x6400),
    ]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.label)
def test_device_has_the_level_that_it_was_opened_at(any_device: dml.Device, level: dml.FeatureLevel) -> None:
    """Rules 95, 96: the highest requested level that is supported; 64-bit types since 3_0."""
    ask = dml.Feature.FEATURE_LEVELS
    with dml.Device(any_device.info.index, feature_level=level) as device:
        assert device.feature_level is level and level.label in repr(device)
        assert device.check_feature_support(ask, LEVELS) is level
        assert device.check_feature_support(ask, LEVELS[::-1]) is level
        for requested in LEVELS:
            assert device.check_feature_support(ask, [requested]) is (requested if requested <= level else None)
        for first, second in itertools.pairwise(LEVELS):
            below = [one for one in (first, second) if one <= level]
            assert device.check_feature_support(ask, (second, first)) is (below[-1] if below else None)
        assert device.check_feature_support(ask, []) is None
        for data_type in dml.DataType:
            supported = device.check_feature_support(dml.Feature.TENSOR_DATA_TYPE_SUPPORT, data_type)
            wide = data_type in TYPES_OF_64_BITS
            expected = data_type not in REFUSED_TYPES and (not wide or level >= dml.FeatureLevel.LEVEL_3_0)
            assert supported is expected, data_type


@pytest.mark.parametrize(
    ("feature", "query", "kind", "message"),
    [
        (2, dml.FLOAT32, dml.UnsupportedError, r"unknown feature 2$"),
        (-1, dml.FLOAT32, dml.UnsupportedError, r"unknown feature -1$"),
        (None, dml.FLOAT32, dml.UnsupportedError, r"unknown feature None$"),
        ("FEATURE_LEVELS", LEVELS, dml.UnsupportedError, r"unknown feature 'FEATURE_LEVELS'$"),
        (0, None, dml.InvalidArgumentError, r"the query must be a DataType; got None$"),
        (0, "FLOAT32", dml.InvalidArgumentError, r"the query must be a DataType; got 'FLOAT32'$"),
        (0, 1, dml.InvalidArgumentError, r"the query must be a DataType; got 1$"),
        (0, np.float32, dml.InvalidArgumentError, r"the query must be a DataType; got <class 'numpy\.float32'>$"),
        (0, [dml.FLOAT32], dml.InvalidArgumentError, r"the query must be a DataType; got \["),
        (1, None, dml.InvalidArgumentError, r"the query must be FeatureLevels; got None$"),
        (1, 0x1000, dml.InvalidArgumentError, r"the query must be FeatureLevels; got 4096$"),
        (1, dml.FLOAT32, dml.InvalidArgumentError, r"the query must be FeatureLevels; got "),
        (1, dml.FeatureLevel.LEVEL_1_0, dml.InvalidArgumentError, r"the query must be FeatureLevels; got "),
        (1, [0x1000], dml.InvalidArgumentError, r"the query must be FeatureLevels; got \[4096\]$"),
        (1, "1_0", dml.InvalidArgumentError, r"the query must be FeatureLevels; got '1_0'$"),
        (1, [dml.FeatureLevel.LEVEL_1_0, None], dml.InvalidArgumentError, r"the query must be FeatureLevels; got \["),
    ],
)
def test_wrong_queries_are_refused(
    any_device: dml.Device, feature: Any, query: Any, kind: type[dml.DmlError], message: str
) -> None:
    """Rule 94: unsupported for an unknown feature, invalid for wrong parameters."""
    with pytest.raises(kind, match=f"^check_feature_support: {message}"):
        any_device.check_feature_support(feature, query)


@pytest.mark.parametrize("wrong", [None, 0, 1, 0x1001, 0x7000, -1, "6_4", "LEVEL_6_4", 6.4, float("nan"), [], object()])
def test_unknown_feature_levels_are_refused(any_device: dml.Device, wrong: Any) -> None:
    """Rule 98."""
    with pytest.raises(dml.InvalidArgumentError, match=r"^Device: feature_level must be a dmlvk\.FeatureLevel; got "):
        dml.Device(any_device.info.index, feature_level=wrong)


def test_levels_may_be_given_by_directmls_number(any_device: dml.Device) -> None:
    level: Any = 0x2100
    with dml.Device(any_device.info.index, feature_level=level) as device:
        assert device.feature_level is dml.FeatureLevel.LEVEL_2_1


def test_two_devices_may_have_different_levels(any_device: dml.Device) -> None:
    """A level belongs to a device, not to the process."""
    four, one = sign(floats(1, 1, 1, 4)), sign(floats(4))
    with dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_2_0) as low:
        compiled(low, four)
        with pytest.raises(dml.UnsupportedError, match=r"DimensionCount must be 4 at feature level 2_0; got 1"):
            compiled(low, one)
        compiled(any_device, one)
    with (
        dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_1_0) as lowest,
        pytest.raises(dml.UnsupportedError, match=r"^ELEMENT_WISE_SIGN: needs feature level 2_0; .* opened at 1_0$"),
    ):
        compiled(lowest, four)


def test_device_is_chosen_by_index_or_part_of_its_name(device: dml.Device) -> None:
    name = device.info.name
    index = device.info.index
    for selector in (index, str(index), name, name.upper(), name.split()[0], f"  {name[:6].lower()} "):
        with dml.Device(selector) as chosen:
            assert chosen.info.name == name, selector


def test_environment_chooses_the_default(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (str(device.info.index), device.info.name.split()[0]):
        monkeypatch.setenv("DMLVK_DEVICE", value)
        with dml.Device() as chosen:
            assert (chosen.info.index, chosen.info.name) == (device.info.index, device.info.name)
    other = (device.info.index + 1) % len(dml.list_devices())
    with dml.Device(other) as chosen:  # what is said beats the environment
        assert chosen.info.index == other
    monkeypatch.setenv("DMLVK_DEVICE", "")
    dml.Device().close()


def test_environment_that_names_no_device_is_an_error_even_with_others_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLVK_DEVICE", "no such device")
    with pytest.raises(dml.DeviceNotFoundError, match=r"^No Vulkan device matches DMLVK_DEVICE 'no such device'"):
        dml.Device()


@pytest.mark.parametrize(
    "selector", ["no such device", "", " ", "-1", "99", 99, -1, 2**70, 1.0, float("nan"), True, b"llvmpipe", [0], {}]
)
def test_selectors_that_match_nothing_are_refused_with_a_list_of_devices(selector: Any) -> None:
    with pytest.raises(dml.DeviceNotFoundError) as caught:
        dml.Device(selector)
    for info in dml.list_devices():
        assert f"{info.index}: {info.name}" in str(caught.value)


def test_feature_level_is_checked_before_the_device() -> None:
    wrong: Any = 5
    with pytest.raises(dml.InvalidArgumentError, match="feature_level"):
        dml.Device("no such device", feature_level=wrong)
