"""Machines that lack something read one line: what to install; Vulkan's structures lie in memory as its headers say."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dmlvk.runtime.vulkan import loader
from dmlvk.runtime.vulkan import structures as vk
from tests.processes import python

DRIVER_SOURCE = Path(__file__).with_name("fake_driver.c")

OPEN = """
import dmlvk as dml
try:
    dml.Device()
except dml.DmlError as error:
    print(f"{type(error).__name__}: {error}")
"""


def reported(code: str = OPEN, **environment: str) -> str:
    """What a program prints in a Python of its own."""
    done = python("-c", code, env={**environment}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def command(*words: str, **environment: str) -> str:
    """What a command that fails prints to the error stream, after checking that it is one line, and status 2."""
    done = python("-m", "dmlvk", *words, env={**environment}, timeout=120)
    assert done.returncode == 2, done
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the loader finds this machine's driver behind one that spoils it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the driver is built by a C compiler on Linux")
    manifest = Path(os.environ["VK_DRIVER_FILES"].split(os.pathsep)[0])
    library = json.loads(manifest.read_text())["ICD"]["library_path"]
    real = library if "/" not in library else str((manifest.parent / library).resolve())
    folder = tmp_path_factory.mktemp("driver")
    words = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(folder / "fake.so"), str(DRIVER_SOURCE)]
    subprocess.run([*words, "-ldl"], check=True)
    made = folder / "fake.json"
    made.write_text(
        json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": "./fake.so", "api_version": "1.3.0"}})
    )
    return {"VK_DRIVER_FILES": str(made), "VK_ICD_FILENAMES": str(made), "DMLVK_TEST_DRIVER": real}


def test_behind_the_fake_driver_all_is_well(fake_driver: dict[str, str]) -> None:
    assert reported(OPEN + 'print("opened")', **fake_driver) == "opened"


def test_a_driver_older_than_vulkan_1_1_is_to_be_updated(fake_driver: dict[str, str]) -> None:
    environment = {**fake_driver, "FAKE_VERSION": str(loader.API_VERSION_1_0 | 42)}
    reason = "not usable: needs Vulkan 1.1, and loader and driver together offer 1.0.0: update the graphics driver"
    line = reported(**environment)
    assert line.startswith("DeviceNotFoundError: No Vulkan device here can be used. Devices:")
    assert line.endswith(reason)
    assert command("run", "examples/sign.json", **environment).endswith(reason)


def test_a_driver_without_a_device_is_answered_with_what_to_install(fake_driver: dict[str, str]) -> None:
    environment = {**fake_driver, "FAKE_EMPTY": "1"}
    line = reported(**environment)  # newer loaders make an error of it, older ones an empty list
    assert line.startswith("DeviceNotFoundError: ")
    assert line.endswith(loader.how_to_install())
    assert command("devices", **environment) == line.replace("DeviceNotFoundError", "dmlvk")


def test_without_a_driver_a_command_says_what_to_install() -> None:
    line = command("devices", VK_DRIVER_FILES=os.devnull, VK_ICD_FILENAMES=os.devnull)
    assert "no Vulkan driver works on this machine" in line
    assert line.endswith(loader.how_to_install())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems look for libraries elsewhere")
def test_a_loader_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    for name in loader.library_candidates():
        (tmp_path / name).write_bytes(b"")
    line = command("devices", LD_LIBRARY_PATH=str(tmp_path))
    assert line.startswith("dmlvk: No Vulkan loader found (libvulkan.so.1: ")
    assert line.endswith(loader.how_to_install())


MACOS = "import urllib.request, sys\nsys.platform = 'darwin'\n"
"""What the standard library has for macOS alone is loaded before."""


def test_on_macos_without_a_loader_homebrew_is_named(tmp_path: Path) -> None:
    line = reported(MACOS + OPEN, HOME=str(tmp_path), VULKAN_SDK="")
    assert line.startswith("DeviceNotFoundError: No Vulkan loader found (libvulkan.1.dylib: ")
    assert line.endswith("brings MoltenVK, or: brew install molten-vk vulkan-loader")


def test_on_macos_with_a_loader_and_without_moltenvk_homebrew_is_named(tmp_path: Path) -> None:
    found = (
        "from dmlvk.runtime.vulkan import loader\n"
        "names = loader.library_candidates\n"
        "loader.library_candidates = lambda: names('linux')\n"
    )
    environment = {"VK_DRIVER_FILES": os.devnull, "VK_ICD_FILENAMES": os.devnull, "HOME": str(tmp_path)}
    line = reported(MACOS + found + OPEN, **environment)
    assert "VK_ERROR_INCOMPATIBLE_DRIVER (-9): no Vulkan driver works on this machine" in line
    assert line.endswith("brew install molten-vk vulkan-loader")


# sizeof and offsetof that GCC 12 gives to vulkan_core.h 1.3.239 on x86-64; every 64-bit platform has the same.
SIZES = {
    "ApplicationInfo": 48,
    "InstanceCreateInfo": 64,
    "DeviceQueueCreateInfo": 40,
    "DeviceCreateInfo": 72,
    "BufferCreateInfo": 56,
    "MemoryAllocateInfo": 32,
    "MemoryRequirements": 24,
    "LayerProperties": 520,
    "ExtensionProperties": 260,
    "QueueFamilyProperties": 24,
    "PhysicalDeviceMemoryProperties": 520,
    "PhysicalDeviceLimits": 504,
    "PhysicalDeviceProperties": 824,
    "PhysicalDeviceFeatures": 220,
    "PhysicalDeviceProperties2": 840,
    "PhysicalDeviceFeatures2": 240,
    "PhysicalDeviceMemoryProperties2": 536,
    "PhysicalDeviceMemoryBudgetProperties": 272,
    "PhysicalDeviceSubgroupProperties": 32,
    "PhysicalDeviceIDProperties": 64,
    "PhysicalDevicePCIBusInfoProperties": 32,
    "PhysicalDeviceMaintenance3Properties": 32,
    "PhysicalDeviceMaintenance4Properties": 24,
    "PhysicalDeviceDriverProperties": 536,
    "VK_KHR_16bit_storage": 32,
    "VK_KHR_8bit_storage": 32,
    "VK_KHR_shader_float16_int8": 24,
    "VK_KHR_vulkan_memory_model": 32,
    # Of a later header, 1.3.255.
    "VK_KHR_cooperative_matrix": 24,
    "CooperativeMatrixProperties": 56,
}

OFFSETS = {
    ("PhysicalDeviceLimits", "maxComputeSharedMemorySize"): 216,
    ("PhysicalDeviceLimits", "minMemoryMapAlignment"): 304,
    ("PhysicalDeviceLimits", "timestampPeriod"): 424,
    ("PhysicalDeviceLimits", "nonCoherentAtomSize"): 496,
    ("PhysicalDeviceFeatures", "shaderInt16"): 164,
    ("PhysicalDeviceProperties", "limits"): 296,
}


@pytest.mark.parametrize("name", SIZES)
def test_structures_are_as_large_as_the_headers(name: str) -> None:
    structure = vk.FEATURES[name][1] if name in vk.FEATURES else getattr(vk, name)
    assert ctypes.sizeof(structure) == SIZES[name]


@pytest.mark.parametrize(("structure", "member"), OFFSETS)
def test_members_are_where_the_header_puts_them(structure: str, member: str) -> None:
    assert getattr(getattr(vk, structure), member).offset == OFFSETS[structure, member]
