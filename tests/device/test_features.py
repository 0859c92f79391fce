"""What a device says about itself (rules 94 to 98), and how one is chosen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from tests.binding.support import compiled, floats, sign

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
