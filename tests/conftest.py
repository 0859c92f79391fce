"""Which Vulkan drivers the tests run on, and the devices that they share."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

import pytest


def _choose_drivers() -> None:
    """Both CPU drivers, unless the caller chose: llvmpipe, and SwiftShader where ``scripts/test.sh`` found it."""
    if os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES"):
        return
    drivers = sorted(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json"))
    if swiftshader := os.environ.get("DMLVK_TEST_SWIFTSHADER_ICD"):
        drivers.append(swiftshader)
    if drivers:
        os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = os.pathsep.join(drivers)


_choose_drivers()  # before anything loads Vulkan

import dmlvk as dml  # noqa: E402  # the driver choice must come first


@pytest.hookimpl(optionalhook=True)  # there is no such hook where pytest-xdist is switched off
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """How many processes ``-n auto`` makes: none where they would be in the way, else ``None``, one for each core."""
    output_is_wanted = config.getoption("capture") == "no"  # -s; what workers print goes nowhere
    single_tests = all("::" in argument for argument in config.args)  # their processes' start would take longer
    return 0 if output_is_wanted or single_tests else None


def _short_name(info: dml.DeviceInfo) -> str:
    return info.name.split()[0].lower()


_DEVICES = dml.list_devices()


def pytest_report_header() -> list[str]:
    """Names the devices, so that a log shows what was tested."""
    return [f"Vulkan device {info.index}: {info.name} ({info.kind}, {info.driver})" for info in _DEVICES]


@pytest.fixture(scope="session", params=_DEVICES, ids=_short_name)
def device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """Each device in turn, open for the whole session."""
    with dml.Device(request.param.index) as opened:
        yield opened


@pytest.fixture(scope="session")
def any_device() -> Iterator[dml.Device]:
    """One device, for what does not depend on the driver."""
    with dml.Device(_DEVICES[0].index) as opened:
        yield opened
