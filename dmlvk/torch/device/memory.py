"""Memory as PyTorch's programs ask for it: how much tensors take, and pinned memory of the host's."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from dmlvk.torch.device.recorder import RECORDER
from dmlvk.torch.device.tensors import check_device

if TYPE_CHECKING:
    from dmlvk.arrays.memory_pool import MemoryPool

_pinned: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()


def _pool(device: Any) -> MemoryPool:
    check_device(device)
    return RECORDER.device.arrays.pool


def _statistics(device: Any = None) -> dict[str, Any]:
    """PyTorch's tables of what it counts, as far as the device counts it: bytes now, and the most there were."""
    pool = _pool(device)
    counts = {
        "allocated_bytes": (pool.taken_in_bytes, pool.most_taken_in_bytes),
        "reserved_bytes": (pool.taken_in_bytes + pool.size_in_bytes, pool.most_in_bytes),
    }
    return {name: {"all": {"current": now, "peak": peak}} for name, (now, peak) in counts.items()}


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes of tensors, and of these with what is kept for the next ones; now, and the most there were."""
    return {
        f"{name}.all.{kind}": count
        for name, of_all in _statistics(device).items()
        for kind, count in of_all["all"].items()
    }


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors and other arrays take."""
    return _pool(device).taken_in_bytes


def max_memory_allocated(device: Any = None) -> int:
    """The most there were since :func:`reset_peak_memory_stats`, in bytes."""
    return _pool(device).most_taken_in_bytes


def memory_reserved(device: Any = None) -> int:
    """Bytes that tensors and other arrays take, and those that are kept for the next ones."""
    pool = _pool(device)
    return pool.taken_in_bytes + pool.size_in_bytes


def max_memory_reserved(device: Any = None) -> int:
    """The most there were since :func:`reset_peak_memory_stats`, in bytes."""
    return _pool(device).most_in_bytes


def reset_peak_memory_stats(device: Any = None) -> None:
    """Has the most there were be what there is."""
    _pool(device).forget_most()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of the device's memory that this process does not use, and all of them."""
    total = RECORDER.device.info.memory
    return max(total - memory_reserved(device), 0), total


def empty_cache() -> None:
    """Gives memory back that nobody uses."""
    RECORDER.device.arrays.pool.clear()


def _is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    return tensor.untyped_storage() in _pinned


def _pin(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A copy: what goes to the device goes by way of memory of dmlvk's own."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu").copy_(tensor)
    _pinned.add(made.untyped_storage())
    return made


def register(library: torch.library.Library) -> None:
    """Has ``torch.accelerator`` and ``Tensor.pin_memory`` ask the device, whose guard in Python says nothing of these.

    Once a device such as this one is registered, PyTorch asks it alone.
    """
    library.impl("is_pinned", _is_pinned, "CPU")
    library.impl("_pin_memory", _pin, "CPU")
    functions = {
        "synchronizeDevice": lambda device: RECORDER.wait(),
        "isAllocatorInitialized": lambda: True,
        "emptyCache": empty_cache,
        "getDeviceStats": _statistics,
        "resetPeakStats": reset_peak_memory_stats,
        "resetAccumulatedStats": lambda device: None,
        "getMemoryInfo": mem_get_info,
    }
    for name, function in functions.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            setattr(torch._C, f"_accelerator_{name}", function)
