"""Vulkan itself, asked directly: which devices there are, what they can do, and whether memory is left.

Kompute tells a device's name and three limits, and checks neither the result of making a buffer nor that of allocating
its memory: past the memory of the device, the process dies. So dmlvk asks first (:class:`MemoryGuard`).

Decision: a small layer of ctypes over the Vulkan loader, not the package ``vulkan`` from PyPI. dmlvk needs two dozen
calls. That package has cffi read the whole of Vulkan's headers when it is imported, loads the loader at once, raises
exceptions of its own, and is one more thing to install. ctypes is always there and releases Python's global lock during
calls, and these modules load nothing, not even ctypes' structures, before the first question is asked. None of them
imports ``kp``.

A driver is loaded with the first instance and unloaded with the last: making one costs 75 ms on an H200, a second one 3
ms. Who asks several things in a row keeps one open meanwhile: ``with open_instance(): select_device(); MemoryGuard()``.

* :mod:`.devices`: :func:`list_devices`, :func:`select_device`, :class:`DeviceInfo`.
* :mod:`.memory`: :class:`MemoryGuard`, which says yes or raises before Kompute allocates.
* :mod:`.host_memory`: how much memory the operating system has left.
* :mod:`.loader`, :mod:`.structures`: the loader's calls and Vulkan's structures.
"""

from dmlvk.runtime.vulkan.devices import (
    CooperativeMatrix,
    DeviceInfo,
    DeviceLimits,
    MemoryHeap,
    MemoryType,
    list_devices,
    open_instance,
    select_device,
)
from dmlvk.runtime.vulkan.memory import MemoryClaim, MemoryGuard, MemoryRequest

__all__ = [
    "CooperativeMatrix", "DeviceInfo", "DeviceLimits", "MemoryClaim", "MemoryGuard", "MemoryHeap", "MemoryRequest",
    "MemoryType", "list_devices", "open_instance", "select_device",
]  # fmt: skip
