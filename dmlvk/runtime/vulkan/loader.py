"""The Vulkan loader through ctypes: the library, its calls with every result checked, instances and logical devices."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
import weakref
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from typing import Any

from dmlvk.errors import DeviceNotFoundError, DeviceRemovedError, DmlError, OutOfMemoryError
from dmlvk.runtime.vulkan import portability
from dmlvk.runtime.vulkan import structures as vk
from dmlvk.support.caches import spare_full_disk

# What dmlvk asks for: newer structures are only read from devices that have them. Kompute itself asks for 1.1; the
# version asked for changes neither which devices are listed nor their order.
API_VERSION_1_0 = 1 << 22
API_VERSION_1_1 = 1 << 22 | 1 << 12
API_VERSION_1_2 = 1 << 22 | 2 << 12
API_VERSION_1_3 = 1 << 22 | 3 << 12

# VKAPI_CALL is stdcall on Windows.
FUNCTION_TYPE: Callable[..., Any] = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)

# Result and argument types. Handles of instances, physical devices and devices are pointers, all others 64-bit numbers.
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "vkEnumerateInstanceVersion": (c_int32, c_void_p),
    "vkEnumerateInstanceLayerProperties": (c_int32, c_void_p, c_void_p),
    "vkEnumerateInstanceExtensionProperties": (c_int32, c_char_p, c_void_p, c_void_p),
    "vkCreateInstance": (c_int32, c_void_p, c_void_p, c_void_p),
    "vkDestroyInstance": (None, c_void_p, c_void_p),
    "vkEnumeratePhysicalDevices": (c_int32, c_void_p, c_void_p, c_void_p),
    "vkEnumerateDeviceExtensionProperties": (c_int32, c_void_p, c_char_p, c_void_p, c_void_p),
    "vkGetPhysicalDeviceProperties": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceProperties2": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceFeatures": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceFeatures2": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceMemoryProperties": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceMemoryProperties2": (None, c_void_p, c_void_p),
    "vkGetPhysicalDeviceQueueFamilyProperties": (None, c_void_p, c_void_p, c_void_p),
    "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR": (c_int32, c_void_p, c_void_p, c_void_p),
    "vkCreateDevice": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p),
    "vkDestroyDevice": (None, c_void_p, c_void_p),
    "vkCreateBuffer": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p),
    "vkDestroyBuffer": (None, c_void_p, c_uint64, c_void_p),
    "vkGetBufferMemoryRequirements": (None, c_void_p, c_uint64, c_void_p),
    "vkAllocateMemory": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p),
    "vkFreeMemory": (None, c_void_p, c_uint64, c_void_p),
    "vkBindBufferMemory": (c_int32, c_void_p, c_uint64, c_uint64, c_uint64),
    "vkMapMemory": (c_int32, c_void_p, c_uint64, c_uint64, c_uint64, c_uint32, c_void_p),
}


def how_to_install(platform: str = sys.platform) -> str:
    """One sentence: what gives this operating system a Vulkan loader and a driver."""
    if platform == "darwin":
        return "Install dmlvk's wheel for macOS, which brings MoltenVK, or: brew install molten-vk vulkan-loader"
    if platform == "win32":
        return "Install the graphics driver of your GPU's vendor; it brings the Vulkan loader with it."
    return (
        "Install a Vulkan loader and a driver, on Debian or Ubuntu: apt install libvulkan1 mesa-vulkan-drivers "
        "(runs on any CPU, and on AMD and Intel GPUs; NVIDIA's own driver package brings its Vulkan driver)."
    )


def library_candidates(platform: str = sys.platform) -> list[str]:
    """File names of the loader, the likeliest first."""
    if platform == "win32":
        return ["vulkan-1.dll"]
    if platform != "darwin":
        return ["libvulkan.so.1", "libvulkan.so"]
    names = ["libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"]
    folders = ["/opt/homebrew/lib", "/usr/local/lib"]  # not on the search path of a hardened Python
    folders += sorted(glob.glob(os.path.expanduser("~/VulkanSDK/*/macOS/lib")), reverse=True)
    if sdk := os.environ.get("VULKAN_SDK"):
        folders.insert(0, os.path.join(sdk, "lib"))
    own = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "libMoltenVK.dylib")  # wheels bring it
    return [*names, *(os.path.join(folder, name) for name in names for folder in folders), own]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The loader, loaded once for each process.

    Raises:
        DeviceNotFoundError: no loader on this machine.
    """
    portability.want_exact_arithmetic()
    spare_full_disk()
    tried = []
    for name in library_candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise DeviceNotFoundError(f"No Vulkan loader found ({tried[0]}). {how_to_install()}")


@lru_cache(maxsize=1)
def get_instance_proc_addr() -> Callable[..., int | None]:
    function = _library().vkGetInstanceProcAddr
    function.restype = c_void_p
    function.argtypes = (c_void_p, c_char_p)
    return function


def _function(name: str, instance: int | None = None) -> Callable[..., int] | None:
    """A Vulkan call by name, or None when this loader does not have it."""
    address = get_instance_proc_addr()(instance, name.encode())
    return FUNCTION_TYPE(*_PROTOTYPES[name])(address) if address else None


def check(result: int, function: str) -> None:
    """Turn a VkResult that says failure into an error.

    Raises:
        OutOfMemoryError: host or device memory is exhausted.
        DeviceRemovedError: the device was lost.
        DeviceNotFoundError: the driver is there but cannot serve this machine.
        DmlError: anything else, with the name of the call and of the result.
    """
    if result >= 0:
        return
    message = f"{function} failed with {vk.RESULT_NAMES.get(result, 'VkResult')} ({result})"
    if result in (vk.ERROR_OUT_OF_HOST_MEMORY, vk.ERROR_OUT_OF_DEVICE_MEMORY, vk.ERROR_TOO_MANY_OBJECTS):
        raise OutOfMemoryError(message)
    if result == vk.ERROR_DEVICE_LOST:
        raise DeviceRemovedError(message)
    if result in (vk.ERROR_INITIALIZATION_FAILED, vk.ERROR_INCOMPATIBLE_DRIVER):
        raise DeviceNotFoundError(f"{message}: no Vulkan driver works on this machine. {how_to_install()}")
    raise DmlError(message)


def enumerated(function: Callable[..., int], name: str, element: Any, *arguments: Any) -> list[Any]:
    """Call a Vulkan function that fills an array, asking again while the array is still growing."""
    while True:
        count = c_uint32()
        check(function(*arguments, ctypes.byref(count), None) or 0, name)
        array = (element * count.value)()
        if issubclass(element, vk.Extensible):
            for each in array:  # ctypes makes them without calling what sets their types
                each.sType = element.structure_type
        result = function(*arguments, ctypes.byref(count), array) or 0  # None where the function returns void
        check(result, name)
        if result != vk.INCOMPLETE:
            return list(array[: count.value])


def loader_version() -> int:
    """The loader's Vulkan version as Vulkan packs it (1.3.239 is ``1 << 22 | 3 << 12 | 239``)."""
    function = _function("vkEnumerateInstanceVersion")
    if function is None:
        return API_VERSION_1_0
    version = c_uint32()
    check(function(ctypes.byref(version)), "vkEnumerateInstanceVersion")
    return version.value


def instance_layers() -> dict[str, int]:
    """Names and versions (packed, as Vulkan does it) of the layers that the loader would switch on when asked."""
    name = "vkEnumerateInstanceLayerProperties"
    function = _function(name)
    if function is None:
        return {}  # MoltenVK without a loader
    layers = enumerated(function, name, vk.LayerProperties)
    return {layer.layerName.decode(errors="replace"): layer.specVersion for layer in layers}


def offers_portability() -> bool:
    """Whether an instance that is made with ``with_portability=True`` may list more devices than another one."""
    name = "vkEnumerateInstanceExtensionProperties"
    function = _function(name)
    if function is None:
        return False
    extensions = enumerated(function, name, vk.ExtensionProperties, None)
    return portability.ENUMERATION in [extension.extensionName for extension in extensions]


def _destroy(function: Callable[..., int], *handles: int) -> None:
    function(*handles, None)


_instances: weakref.WeakSet[Instance] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for instance in list(_instances):
        instance.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Instance:
    """A VkInstance and what can be asked of its physical devices. A context manager; :meth:`close` destroys it.

    Like Kompute's own instance it has no other extensions, so that it lists the same devices in the same order.

    Args:
        with_portability: also list devices that have a part of Vulkan only, where the loader hides them otherwise.

    Raises:
        DeviceNotFoundError: no loader, or no driver.
    """

    def __init__(self, *, with_portability: bool = False) -> None:
        version = loader_version()
        # what the instance was made for, at most 1.3, as Vulkan packs it
        self.api_version = min(version, API_VERSION_1_3)
        self.handle = self._create(with_portability and version >= portability.ENUMERATION_SINCE)
        self._functions: dict[str, Callable[..., int]] = {}
        self._finalizer = weakref.finalize(self, _destroy, self.function("vkDestroyInstance"), self.handle)
        _instances.add(self)

    def _create(self, with_portability: bool) -> int:
        application = vk.ApplicationInfo()
        application.pApplicationName = b"dmlvk"
        application.apiVersion = self.api_version
        info = vk.InstanceCreateInfo()
        info.pApplicationInfo = ctypes.pointer(application)
        if with_portability:
            info.flags = vk.INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT
            info.enabledExtensionCount = 1
            info.ppEnabledExtensionNames = (c_char_p * 1)(portability.ENUMERATION)
        handle = c_void_p()
        create = _function("vkCreateInstance")
        if create is None:
            raise DeviceNotFoundError(f"The Vulkan loader does not offer vkCreateInstance. {how_to_install()}")
        result = create(ctypes.byref(info), None, ctypes.byref(handle))
        if result == vk.ERROR_EXTENSION_NOT_PRESENT and with_portability:  # MoltenVK without a loader hides nothing
            info.flags = info.enabledExtensionCount = 0
            result = create(ctypes.byref(info), None, ctypes.byref(handle))
        if result == vk.ERROR_INCOMPATIBLE_DRIVER and portability.name_drivers():
            result = create(ctypes.byref(info), None, ctypes.byref(handle))
        check(result, "vkCreateInstance")
        assert handle.value is not None
        return handle.value

    def function(self, name: str) -> Callable[..., int]:
        """A call of this instance.

        Raises:
            DmlError: the loader does not have it.
        """
        found = self._functions.get(name)
        if found is None:
            found = _function(name, self.handle)
            if found is None:
                raise DmlError(f"The Vulkan loader does not offer {name}")
            self._functions[name] = found
        return found

    def physical_devices(self) -> list[int]:
        """Handles of all physical devices; positions are the indices that Kompute uses."""
        name = "vkEnumeratePhysicalDevices"
        return enumerated(self.function(name), name, c_void_p, self.handle)

    def extensions(self, device: int) -> set[str]:
        name = "vkEnumerateDeviceExtensionProperties"
        found = enumerated(self.function(name), name, vk.ExtensionProperties, device, None)
        return {extension.extensionName.decode(errors="replace") for extension in found}

    def properties(self, device: int) -> vk.PhysicalDeviceProperties:
        """VkPhysicalDeviceProperties, which Vulkan 1.0 has too."""
        properties = vk.PhysicalDeviceProperties()
        self.function("vkGetPhysicalDeviceProperties")(device, ctypes.byref(properties))
        return properties

    def features(self, device: int) -> vk.PhysicalDeviceFeatures:
        """VkPhysicalDeviceFeatures, which Vulkan 1.0 has too."""
        features = vk.PhysicalDeviceFeatures()
        self.function("vkGetPhysicalDeviceFeatures")(device, ctypes.byref(features))
        return features

    def memory_properties(self, device: int) -> vk.PhysicalDeviceMemoryProperties:
        """VkPhysicalDeviceMemoryProperties: memory types and heaps."""
        memory = vk.PhysicalDeviceMemoryProperties()
        self.function("vkGetPhysicalDeviceMemoryProperties")(device, ctypes.byref(memory))
        return memory

    def memory_budget(self, device: int) -> vk.PhysicalDeviceMemoryBudgetProperties:
        """Fresh budget and usage of each heap; only for a device with VK_EXT_memory_budget."""
        budget = vk.PhysicalDeviceMemoryBudgetProperties()
        self.fill("vkGetPhysicalDeviceMemoryProperties2", device, vk.PhysicalDeviceMemoryProperties2(), budget)
        return budget

    def fill(self, name: str, device: int, *structures: vk.Extensible) -> None:
        """Have a ``…2`` call of Vulkan 1.1 fill a chain of structures, all of which the device must know."""
        self.function(name)(device, ctypes.byref(vk.chain(*structures)))

    def queue_families(self, device: int) -> list[vk.QueueFamilyProperties]:
        name = "vkGetPhysicalDeviceQueueFamilyProperties"
        return enumerated(self.function(name), name, vk.QueueFamilyProperties, device)

    def cooperative_matrices(self, device: int) -> list[vk.CooperativeMatrixProperties]:
        """Kinds of cooperative matrices; only for a device with VK_KHR_cooperative_matrix."""
        name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        return enumerated(self.function(name), name, vk.CooperativeMatrixProperties, device)

    def provoke_validation(self) -> None:
        """Break one harmless rule: a structure with a wrong ``sType``, which drivers ignore and validation reports."""
        for device in self.physical_devices():
            wrong = vk.PhysicalDeviceProperties2()
            wrong.sType = 0
            self.function("vkGetPhysicalDeviceProperties2")(device, ctypes.byref(wrong))

    @property
    def alive(self) -> bool:
        """False once it is closed."""
        return self._finalizer.alive

    def close(self) -> None:
        """Destroy the instance; once is enough, twice does no harm."""
        self._finalizer()

    def leave_to_parent(self) -> None:
        """Forget the instance without destroying it, in a process that was forked from the one that made it."""
        self._finalizer.detach()

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


_kept: Instance | None = None


def keep_drivers_loaded(*, with_portability: bool = False) -> None:
    """Hold an instance for as long as the process lives, so that the drivers' libraries are not unloaded in between.

    The loader unloads them with the last instance. NVIDIA's take thread-local storage of the kind that a process has
    little of each time they are loaded, and do not give it back: after about 15 devices that were opened and closed one
    after the other, none could be opened any more.

    Args:
        with_portability: as for :class:`Instance`.

    Raises:
        DeviceNotFoundError: no loader, or no driver.
    """
    global _kept
    if _kept is None or not _kept.alive:  # a process that was forked has left its parent's to it
        _kept = Instance(with_portability=with_portability)
