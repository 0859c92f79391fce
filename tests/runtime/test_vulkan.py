"""What dmlvk learns from Vulkan itself about devices, and how it chooses one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlvk.errors import DeviceNotFoundError, DeviceRemovedError, DmlError, OutOfMemoryError
from dmlvk.runtime import validation, vulkan
from dmlvk.runtime.kompute_choice import is_bundled
from dmlvk.runtime.kompute_library import kompute
from dmlvk.runtime.vulkan import devices, loader, portability
from dmlvk.runtime.vulkan import structures as vk
from dmlvk.runtime.vulkan.devices import DeviceInfo, choose

DEVICES = vulkan.list_devices()


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own; an empty value takes a variable away."""
    merged = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in merged.items() if value},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_importing_loads_neither_kompute_nor_vulkan() -> None:
    program = """
import sys
import dmlvk.runtime.vulkan, dmlvk.runtime.validation
assert "kp" not in sys.modules and "dmlvk.runtime.bundled" not in sys.modules
assert "dmlvk.runtime.vulkan.loader" not in sys.modules
assert "dmlvk.runtime.vulkan.structures" not in sys.modules
assert sys.platform != "linux" or "libvulkan" not in open("/proc/self/maps").read()
"""
    assert run_python(program).stderr == ""


def test_listing_devices_does_not_import_kompute() -> None:
    program = "import sys; from dmlvk.runtime import vulkan; vulkan.list_devices(); print(*sys.modules)"
    assert not {"kp", "dmlvk.runtime.bundled"} & set(run_python(program).stdout.split())
    assert run_python(program).returncode == 0


@pytest.mark.skipif(not is_bundled(), reason="the unchanged Kompute has another function for it")
def test_devices_are_those_of_kompute_in_its_order() -> None:
    with validation.new_instance():
        manager = kompute().Manager(0)
    theirs = manager.device_names()
    manager.destroy()
    assert [info.name for info in DEVICES] == theirs
    assert [info.index for info in DEVICES] == list(range(len(theirs)))


@pytest.mark.skipif(shutil.which("vulkaninfo") is None, reason="vulkaninfo is not installed to compare with")
@pytest.mark.parametrize("info", DEVICES, ids=lambda info: info.name.split()[0])
def test_facts_agree_with_vulkaninfo(info: DeviceInfo, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    subprocess.run(
        ["vulkaninfo", f"--json={info.index}", "-o", str(report)], check=True, capture_output=True, cwd=tmp_path
    )
    device = json.loads(report.read_text())["capabilities"]["device"]
    properties, features = device["properties"], device["features"]
    base, limits = properties["VkPhysicalDeviceProperties"], properties["VkPhysicalDeviceProperties"]["limits"]
    assert (info.name, info.vendor_id, info.device_id) == (base["deviceName"], base["vendorID"], base["deviceID"])
    version = base["apiVersion"]
    assert info.api_version == f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
    driver = properties["VkPhysicalDeviceDriverProperties"]
    assert info.driver == driver["driverName"]
    identity = properties["VkPhysicalDeviceIDProperties"]["deviceUUID"]
    assert info.uuid == str(uuid.UUID(identity if isinstance(identity, str) else bytes(identity).hex()))
    assert (info.pci_address is None) == ("VkPhysicalDevicePCIBusInfoPropertiesEXT" not in properties)
    assert driver["driverInfo"] in ("", info.driver_version)
    ours = info.limits
    assert ours.max_storage_buffer_range == limits["maxStorageBufferRange"]
    assert ours.max_memory_allocation_count == limits["maxMemoryAllocationCount"]
    assert ours.max_compute_shared_memory_size == limits["maxComputeSharedMemorySize"]
    assert ours.max_push_constants_size == limits["maxPushConstantsSize"]
    assert ours.max_per_stage_descriptor_storage_buffers == limits["maxPerStageDescriptorStorageBuffers"]
    assert ours.max_bound_descriptor_sets == limits["maxBoundDescriptorSets"]
    assert ours.min_storage_buffer_offset_alignment == limits["minStorageBufferOffsetAlignment"]
    assert ours.min_memory_map_alignment == limits["minMemoryMapAlignment"]
    assert ours.non_coherent_atom_size == limits["nonCoherentAtomSize"]
    assert ours.timestamp_period_in_nanoseconds == limits["timestampPeriod"]
    maintenance3 = properties["VkPhysicalDeviceMaintenance3Properties"]
    assert ours.max_memory_allocation_size == maintenance3["maxMemoryAllocationSize"]
    if maintenance4 := properties.get("VkPhysicalDeviceMaintenance4Properties"):
        assert ours.max_buffer_size == maintenance4["maxBufferSize"]
    assert ours.subgroup_size == properties["VkPhysicalDeviceSubgroupProperties"]["subgroupSize"]
    if control := properties.get("VkPhysicalDeviceSubgroupSizeControlProperties"):
        assert ours.min_subgroup_size == min(control["minSubgroupSize"], ours.subgroup_size)
    theirs = {name: value for structure in features.values() for name, value in structure.items()}
    for name in ("shaderFloat64", "shaderInt64", "shaderInt16", "shaderFloat16", "shaderInt8"):
        assert (name in info.features) == theirs[name]
    for name in ("storageBuffer8BitAccess", "storageBuffer16BitAccess"):
        assert (name in info.features) == theirs[name]


@pytest.mark.parametrize("info", DEVICES, ids=lambda info: info.name.split()[0])
def test_every_device_here_is_usable_and_complete(info: DeviceInfo) -> None:
    assert info.usable and info.unusable_reason is None
    assert info.name and info.driver and info.driver_version and info.kind
    assert info.memory == sum(heap.size_in_bytes for heap in info.heaps if heap.device_local) > 0
    assert all(0 <= kind.heap < len(info.heaps) for kind in info.memory_types)
    assert info.limits.max_memory_allocation_size >= 1 << 30
    assert info.limits.max_storage_buffer_range >= 1 << 27
    assert info.compute_queue_family is not None


# Choosing.


def made(
    index: int, name: str, kind: str, usable: bool = True, uuid: str | None = None, pci_address: str | None = None
) -> DeviceInfo:
    reason = None if usable else "has no compute queue"
    return replace(
        DEVICES[0],
        index=index,
        name=name,
        kind=kind,
        usable=usable,
        unusable_reason=reason,
        uuid=uuid,
        pci_address=pci_address,
    )


MACHINE = [
    made(0, "llvmpipe", "CPU"),
    made(1, "Graphics 770", "integrated GPU"),
    made(2, "GeForce RTX 4090", "discrete GPU", usable=False),
    made(3, "GeForce RTX 4080", "discrete GPU"),
    made(4, "GeForce RTX 4080 SUPER", "discrete GPU"),
]


def test_the_default_is_the_first_usable_device_of_the_best_kind() -> None:
    assert choose(MACHINE, None).index == 3
    assert choose(MACHINE[:3], None).index == 1
    assert choose(MACHINE[:1], None).index == 0


@pytest.mark.parametrize(
    ("selector", "index"),
    [(0, 0), ("0", 0), (" 1 ", 1), ("LLVM", 0), ("770", 1), ("geforce rtx 4080", 3), ("super", 4)],
)
def test_a_selector_is_an_index_or_a_part_of_a_name(selector: int | str, index: int) -> None:
    assert choose(MACHINE, selector).index == index


TWINS = [
    made(0, "H200", "discrete GPU", uuid="5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2c3", pci_address="0000:3b:00.0"),
    made(1, "H200", "discrete GPU", uuid="5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2c4", pci_address="0000:af:00.0"),
    made(2, "H200", "discrete GPU", uuid="5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2c5", pci_address="0001:af:00.0"),
]


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        *(("5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2c4", 1), ("GPU-5C8B0D4E-1F2A-3B4C-5D6E-7F8090A1B2C5", 2)),
        *(("5c8b0d4e1f2a3b4c5d6e7f8090a1b2c3", 0), ("0000:3b:00.0", 0), (" AF:00.0 ", 1), ("00000001:AF:00.0", 2)),
    ],
)
def test_equal_cards_are_told_apart_by_uuid_and_pci_address(selector: str, index: int) -> None:
    assert choose(TWINS, selector).index == index


def test_an_ambiguous_name_is_answered_with_what_tells_the_cards_apart() -> None:
    with pytest.raises(
        DeviceNotFoundError, match="matches 3 devices, give an index, a UUID or a PCI address"
    ) as caught:
        choose(TWINS, "H200")
    assert "PCI 0000:af:00.0, UUID 5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2c4)" in str(caught.value)


@pytest.mark.parametrize("selector", ["5c8b0d4e-1f2a-3b4c-5d6e-7f8090a1b2ff", "02:00.0", "0002:3b:00.0"])
def test_no_device_of_that_uuid_or_address_is_refused(selector: str) -> None:
    with pytest.raises(DeviceNotFoundError, match=f"No Vulkan device matches device '{selector}'"):
        choose(TWINS, selector)


def test_a_part_of_a_name_that_only_one_usable_device_has_is_not_ambiguous() -> None:
    assert choose(MACHINE[:4], "rtx").index == 3


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (5, "No Vulkan device matches device 5"),
        (-1, "No Vulkan device matches device -1"),
        ("-1", "No Vulkan device matches device '-1'"),
        ("Radeon", "No Vulkan device matches device 'Radeon'"),
        ("", "No Vulkan device matches device ''"),
        ("geforce", "matches 2 devices, give an index"),
        (True, "device must be an index, a UUID, a PCI address or a part of a name, got True"),
        (1.0, "device must be an index, a UUID, a PCI address or a part of a name, got 1.0"),
        (2, "The device that matches device 2 has no compute queue"),
    ],
)
def test_a_selector_that_fits_no_device_or_several_is_refused_with_the_list(selector: Any, problem: str) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        choose(MACHINE, selector)
    message = str(caught.value)
    assert problem in message
    for device in MACHINE:
        assert f"{device.index}: {device.name}" in message
    assert "not usable: has no compute queue" in message


def test_a_machine_without_a_usable_device_says_why() -> None:
    with pytest.raises(DeviceNotFoundError, match="has no compute queue"):
        choose([MACHINE[2]], None)


def test_the_environment_variable_chooses_unless_a_selector_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    last = DEVICES[-1]
    monkeypatch.setenv("DMLVK_DEVICE", str(last.index))
    assert vulkan.select_device().name == last.name
    assert vulkan.select_device(0).index == 0
    monkeypatch.setenv("DMLVK_DEVICE", last.name.upper())
    assert vulkan.select_device().index == last.index
    assert last.uuid is not None
    monkeypatch.setenv("DMLVK_DEVICE", last.uuid)
    assert vulkan.select_device().index == last.index
    monkeypatch.setenv("DMLVK_DEVICE", "no such device")
    with pytest.raises(DeviceNotFoundError, match="matches DMLVK_DEVICE 'no such device'"):
        vulkan.select_device()
    monkeypatch.setenv("DMLVK_DEVICE", "")
    assert vulkan.select_device().usable


# Machines and devices that are not as one would wish.


def test_without_a_driver_the_error_says_what_to_install() -> None:
    program = """
from dmlvk.errors import DeviceNotFoundError
from dmlvk.runtime import vulkan
try:
    vulkan.list_devices()
except DeviceNotFoundError as error:
    print(error)
"""
    message = run_python(program, VK_DRIVER_FILES=os.devnull, VK_ICD_FILENAMES=os.devnull).stdout
    assert "no Vulkan driver works on this machine" in message
    assert loader.how_to_install() in message


def test_without_a_loader_the_error_says_what_to_install() -> None:
    program = """
from dmlvk.errors import DeviceNotFoundError
from dmlvk.runtime import vulkan
from dmlvk.runtime.vulkan import loader
loader.library_candidates = lambda: ["libno-such-vulkan.so"]
try:
    vulkan.list_devices()
except DeviceNotFoundError as error:
    print(error)
"""
    message = run_python(program).stdout
    assert "No Vulkan loader found (libno-such-vulkan.so: " in message
    assert loader.how_to_install() in message


def test_a_loader_is_looked_for_and_recommended_on_every_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VULKAN_SDK", "/sdk")
    assert loader.library_candidates("win32") == ["vulkan-1.dll"]
    assert loader.library_candidates("linux")[0] == "libvulkan.so.1"
    assert "/sdk/lib/libMoltenVK.dylib" in loader.library_candidates("darwin")
    assert "MoltenVK" in loader.how_to_install("darwin")
    assert "driver" in loader.how_to_install("win32")
    assert "mesa-vulkan-drivers" in loader.how_to_install("linux")


@pytest.fixture
def portability_driver(tmp_path: Path) -> str:
    """The manifest of a driver that is marked as one for a part of Vulkan only, which the loader hides."""
    manifest = json.loads(Path(os.environ["VK_DRIVER_FILES"].split(os.pathsep)[0]).read_text())
    library = Path(manifest["ICD"]["library_path"])
    if library.parent != Path("."):  # relative to the manifest, which moves
        library = (Path(os.environ["VK_DRIVER_FILES"].split(os.pathsep)[0]).parent / library).resolve()
    manifest["ICD"].update(library_path=str(library), is_portability_driver=True)
    driver = tmp_path / "portability.json"
    driver.write_text(json.dumps(manifest))
    return str(driver)


def test_a_device_of_a_portability_driver_is_listed_and_computes(portability_driver: str) -> None:
    program = """
import numpy as np
import dmlvk as dml
with dml.Device(0) as device:
    tensor = dml.TensorDesc(dml.FLOAT32, (3,))
    desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
    print(device.run(desc, {"InputTensor": np.float32([-1, 2, -3])})["OutputTensor"].tolist())
"""
    if not portability.kompute_lists_them():
        pytest.skip("the unchanged Kompute does not ask for such devices")
    output = run_python(program, VK_DRIVER_FILES=portability_driver, VK_ICD_FILENAMES=portability_driver).stdout
    assert output == "[1.0, 2.0, 3.0]\n"


def test_devices_that_the_loader_hides_from_an_unchanged_kompute_are_named(portability_driver: str) -> None:
    program = """
from dmlvk.errors import DeviceNotFoundError
from dmlvk.runtime import vulkan
from dmlvk.runtime.vulkan import portability
portability.kompute_lists_them = lambda: False
try:
    print("listed", [device.name for device in vulkan.list_devices()])
except DeviceNotFoundError as error:
    print(error)
"""
    output = run_python(program, VK_DRIVER_FILES=portability_driver, VK_ICD_FILENAMES=portability_driver).stdout
    if loader.offers_portability():
        assert "The loader hides " in output and "dmlvk's own Kompute asks for it" in output
    else:  # an old loader hides nothing
        assert output.startswith("listed")


def test_moltenvk_is_found_and_told_to_compute_exactly(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    portability.want_exact_arithmetic("linux", environment)
    assert not portability.name_drivers("darwin", environment)  # there is none
    assert environment == {"HOME": str(tmp_path)}
    driver = tmp_path / "VulkanSDK/1.4.309.0/macOS/share/vulkan/icd.d/MoltenVK_icd.json"
    driver.parent.mkdir(parents=True)
    driver.write_text("{}")
    assert not portability.name_drivers("linux", environment)
    portability.want_exact_arithmetic("darwin", environment)
    assert portability.name_drivers("darwin", environment)
    assert environment["MVK_CONFIG_FAST_MATH_ENABLED"] == "0"
    assert environment["VK_ICD_FILENAMES"] == str(driver)
    assert not portability.name_drivers("darwin", environment)  # what is said stays
    said = {"MVK_CONFIG_FAST_MATH_ENABLED": "1"}
    portability.want_exact_arithmetic("darwin", said)
    assert said == {"MVK_CONFIG_FAST_MATH_ENABLED": "1"}


def test_a_loader_that_only_knows_vulkan_1_0_makes_every_device_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "loader_version", lambda: loader.API_VERSION_1_0)
    for info in vulkan.list_devices():
        assert not info.usable
        assert info.unusable_reason == (
            "needs Vulkan 1.1, and loader and driver together offer 1.0.0: update the graphics driver"
        )
        assert info.limits.max_storage_buffer_range >= 1 << 27
        assert info.limits.max_memory_allocation_size == 1 << 30  # what Vulkan 1.1 guarantees


class WeirdInstance:
    """Stands for an instance whose only device can be spoiled."""

    api_version = loader.API_VERSION_1_3

    def __init__(self, spoil: Callable[[WeirdInstance], None]) -> None:
        with loader.Instance() as instance:
            handle = instance.physical_devices()[0]
            self.device_properties = instance.properties(handle)
            self.memory = instance.memory_properties(handle)
            self.families = instance.queue_families(handle)
        spoil(self)

    def properties(self, handle: int) -> vk.PhysicalDeviceProperties:
        return self.device_properties

    def memory_properties(self, handle: int) -> vk.PhysicalDeviceMemoryProperties:
        return self.memory

    def queue_families(self, handle: int) -> list[vk.QueueFamilyProperties]:
        return self.families

    def features(self, handle: int) -> vk.PhysicalDeviceFeatures:
        return vk.PhysicalDeviceFeatures()

    def extensions(self, handle: int) -> set[str]:
        return set()

    def fill(self, name: str, handle: int, *structures: vk.Extensible) -> None:
        pass  # a driver that leaves everything at zero


def described(spoil: Callable[[WeirdInstance], None]) -> DeviceInfo:
    instance: Any = WeirdInstance(spoil)
    return devices.describe(instance, 0, 0)


def few_invocations(instance: WeirdInstance) -> None:
    instance.device_properties.limits.maxComputeWorkGroupInvocations = 128


def narrow_work_groups(instance: WeirdInstance) -> None:
    instance.device_properties.limits.maxComputeWorkGroupSize[0] = 64


def few_buffers(instance: WeirdInstance) -> None:
    instance.device_properties.limits.maxPerStageDescriptorStorageBuffers = 3


def few_push_constants(instance: WeirdInstance) -> None:
    instance.device_properties.limits.maxPushConstantsSize = 64


def no_queue(instance: WeirdInstance) -> None:
    instance.families = []


def only_graphics(instance: WeirdInstance) -> None:
    for family in instance.families:
        family.queueFlags = 0x1


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ([(0xF, 64), (0xC, 64), (0xE, 64)], 2),  # an NVIDIA H100's: the third computes and does not draw
        ([(0xF, 64), (0xE, 0)], 0),  # of which only the first has a clock
        ([(0xE, 64), (0xF, 64)], 0),
        ([(0x1, 64), (0x2, 0)], 1),
        ([(0x1, 64), (0x4, 64)], None),
    ],
)
def test_a_queue_that_computes_and_does_not_draw_is_taken(
    families: list[tuple[int, int]], expected: int | None
) -> None:
    def have(instance: WeirdInstance) -> None:
        instance.families = [vk.QueueFamilyProperties(flags, 1, bits) for flags, bits in families]

    info = described(have)
    assert info.compute_queue_family == expected
    assert info.limits.timestamp_valid_bits == (0 if expected is None else families[expected][1])


def no_memory(instance: WeirdInstance) -> None:
    instance.memory.memoryTypeCount = instance.memory.memoryHeapCount = 0


def no_mappable_memory(instance: WeirdInstance) -> None:
    for kind in instance.memory.memoryTypes:
        kind.propertyFlags &= ~vk.MEMORY_PROPERTY_HOST_VISIBLE_BIT


def old(instance: WeirdInstance) -> None:
    instance.device_properties.apiVersion = loader.API_VERSION_1_0 | 42


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (few_invocations, "needs work groups of 256, has 128"),
        (narrow_work_groups, "needs work groups of 256, has 64"),
        (few_buffers, "needs 4 storage buffers, has 3"),
        (few_push_constants, "needs 128 bytes of push constants, has 64"),
        (no_queue, "has no compute queue"),
        (only_graphics, "has no compute queue"),
        (no_memory, "has no device-local memory"),
        (no_mappable_memory, "has no host-visible, host-coherent memory"),
        (old, ("needs Vulkan 1.1, and loader and driver together offer 1.0.0: update the graphics driver")),
    ],
)
def test_a_device_that_lacks_something_is_listed_as_unusable(
    spoil: Callable[[WeirdInstance], None], reason: str
) -> None:
    info = described(spoil)
    assert not info.usable
    assert info.unusable_reason == reason


def test_a_driver_that_tells_little_is_described_with_what_vulkan_guarantees() -> None:
    def spoil(instance: WeirdInstance) -> None:
        instance.device_properties.deviceName = b"M\xfcller 9000"
        instance.device_properties.deviceType = 99
        instance.device_properties.vendorID = 0x10DE
        instance.device_properties.driverVersion = 535 << 22 | 129 << 14 | 3 << 6

    info = described(spoil)
    assert info.usable
    assert info.name == "M\N{REPLACEMENT CHARACTER}ller 9000"
    assert (info.kind, info.driver, info.driver_version) == ("other", "unknown", "535.129.3.0")
    assert info.limits.max_memory_allocation_size == 1 << 30
    assert info.limits.subgroup_size == info.limits.min_subgroup_size == 0
    assert info.features == ()


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (vk.ERROR_OUT_OF_HOST_MEMORY, OutOfMemoryError),
        (vk.ERROR_OUT_OF_DEVICE_MEMORY, OutOfMemoryError),
        (vk.ERROR_DEVICE_LOST, DeviceRemovedError),
        (vk.ERROR_INITIALIZATION_FAILED, DeviceNotFoundError),
        (vk.ERROR_EXTENSION_NOT_PRESENT, DmlError),
        (-123456, DmlError),
    ],
)
def test_every_failing_result_becomes_an_error_with_its_number(result: int, error: type[DmlError]) -> None:
    with pytest.raises(error, match=rf"^vkFoo failed with \w+ \({result}\)"):
        loader.check(result, "vkFoo")


def test_results_that_are_not_failures_pass() -> None:
    loader.check(vk.SUCCESS, "vkFoo")
    loader.check(vk.INCOMPLETE, "vkFoo")


def test_an_instance_is_destroyed_at_the_end_of_its_block_and_only_once() -> None:
    states = []
    with vulkan.open_instance() as instance:
        states.append(instance.alive)
    states.append(instance.alive)
    instance.close()
    assert states == [True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="the process's libraries are read from /proc")
def test_a_driver_stays_loaded_when_nothing_is_open() -> None:
    program = """
import os
from dmlvk.runtime import vulkan
libraries = lambda: {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
before = libraries()
with vulkan.open_instance():
    drivers = libraries() - before
print(bool(drivers - libraries()), any("vulkan" in name for name in libraries() & drivers))
"""
    assert run_python(program).stdout == "False True\n"
