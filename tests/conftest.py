"""Which Vulkan drivers the tests run on, the devices that they share, and what the quick command leaves out."""

from __future__ import annotations

import collections
import gc
import glob
import os
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
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
os.environ["DMLVK_RAISE_FAULTS"] = "1"  # in processes that tests start, too

# Examples do not change from run to run, and how long they take is no fault: a slow machine makes no test fail.
hypothesis.settings.register_profile(
    "tests", derandomize=True, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("tests")

import dmlvk as dml  # noqa: E402  # the driver choice must come first
from dmlvk.conformance.execution import Workbench  # noqa: E402  # likewise
from dmlvk.spirv.specialization import NAIVE_DRIVERS  # noqa: E402
from dmlvk.support import faults  # noqa: E402  # likewise
from tests import costs  # noqa: E402  # likewise
from tests.effort import IS_QUICK, TAKES_TURNS, TURN, OfTurn, items_of_number, items_of_turns, quick_items  # noqa: E402  # likewise
from tests.targets import every_bench  # noqa: E402  # likewise


@pytest.hookimpl(optionalhook=True)  # there is no such hook where pytest-xdist is switched off
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """How many processes ``-n auto`` makes: none where they would be in the way, else ``None``, one for each core."""
    output_is_wanted = config.getoption("capture") == "no"  # -s; what workers print goes nowhere
    single_tests = all("::" in argument for argument in config.args)  # their processes' start would take longer
    return 0 if output_is_wanted or single_tests else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests take turns on devices, and the quick command leaves out what tests say of themselves: see effort.py."""
    left_out: list[pytest.Item] = []
    if IS_QUICK:
        items[:], left_out = quick_items(items)
    items[:], others = items_of_turns(items, {_short_name(info): info for info in _DEVICES})
    items[:], of_other_numbers = items_of_number(items, costs.read())
    if costs.MEASURES:
        counts = collections.Counter(costs.function_of(item.nodeid) for item in items)
        for item in items:
            item.user_properties.append(("tests of its function", counts[costs.function_of(item.nodeid)]))
        items[:], beyond = costs.few_of_each(items)
    elif IS_QUICK and is_whole(config):
        items[:], beyond = costs.affordable(items, costs.read())
        items[:] = costs.fast_first(items, costs.read())
    else:
        beyond = []
    config.hook.pytest_deselected(items=left_out + others + of_other_numbers + beyond)


def is_whole(config: pytest.Config) -> bool:
    """Whether no folder or file was named: what is named is not measured by what all tests may take."""
    return list(config.args) == list(config.getini("testpaths"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: Python need not look through it for each test's garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fixtures that have all devices have those of this test."""
    OfTurn.begin(item)


def _processor_seconds() -> float:
    """What this process, its threads and the processes that it has waited for have taken."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Notes what a test takes of the processor, which says more than a clock where something else runs, too.

    Reports carry it from workers to the terminal.
    """
    before = _processor_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor seconds", _processor_seconds() - before))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What all tests took of the processor, and for ``--measure`` each of them."""
    found = [report for reports in terminalreporter.stats.values() for report in reports]
    reports: list[Any] = [report for report in found if isinstance(report, pytest.TestReport)]  # others are of warnings
    taken = {
        report.nodeid: seconds
        for report in reports
        for name, seconds in report.user_properties
        if name == "processor seconds"
    }
    if taken:
        terminalreporter.write_line(f"The tests took {sum(taken.values()):.0f} s of a processor core.")
    if costs.MEASURES:
        properties = {report.nodeid: dict(report.user_properties) for report in reports if report.nodeid in taken}
        counts = {costs.function_of(name): found["tests of its function"] for name, found in properties.items()}
        costs.write(taken, counts)
    elif IS_QUICK or TURN is not None:
        for function, seconds in costs.not_measured(taken, costs.read()).items():
            terminalreporter.write_line(
                f"{function} takes {seconds:.0f} s; scripts/test.sh --measure has it in the budget and in turns"
            )


def _short_name(info: dml.DeviceInfo) -> str:
    return info.name.split()[0].lower()


_DEVICES = dml.list_devices()


def pytest_report_header() -> list[str]:
    """Names the devices, so that a log shows what was tested."""
    extent = ["quick tests only; scripts/test.sh --all runs the sweeps, too"] if IS_QUICK else []
    extent += ["most tests on one of the devices; scripts/test.sh --every-driver: on each"] if TAKES_TURNS else []
    return extent + [f"Vulkan device {info.index}: {info.name} ({info.kind}, {info.driver})" for info in _DEVICES]


@pytest.fixture(autouse=True)
def no_fault_is_lost() -> Iterator[None]:
    """A test fails for a fault of dmlvk's own that something on its way took for a refusal."""
    faults.reported.clear()
    yield
    assert not faults.reported, "\n".join(faults.reported)


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


@pytest.fixture
def fresh(device: dml.Device) -> Iterator[dml.Device]:
    """A device of the test's own, on which nothing was done yet."""
    with dml.Device(device.info.index) as opened:
        yield opened


@pytest.fixture(scope="session")
def benches() -> Iterator[list[Workbench]]:
    """A workbench on every device, open for the whole session: what costs time to prepare is prepared once."""
    with every_bench() as benches:
        yield benches


@pytest.fixture(scope="session")
def constants_device() -> Iterator[dml.Device]:
    """One device whose driver is given specialization constants, for tests that replace what they are set to."""
    chosen = next((info for info in _DEVICES if info.driver not in NAIVE_DRIVERS), None)
    if chosen is None:
        pytest.skip("every driver here is given numbers instead of specialization constants")
    with dml.Device(chosen.index) as opened:
        yield opened
