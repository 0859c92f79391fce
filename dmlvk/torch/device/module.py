"""What ``torch.dmlvk`` has, as PyTorch's programs ask devices for it."""

from __future__ import annotations

import contextlib
import time
import types
from typing import Any

import torch

from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.torch.device.kernels import fallbacks, set_fallback
from dmlvk.torch.device.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from dmlvk.torch.device.recorder import RECORDER
from dmlvk.torch.device.tensors import check_device
from dmlvk.torch.types import DATA_TYPES, NAME


def is_available() -> bool:
    """Whether it can be asked for; it is opened when it is first used."""
    return True


def is_initialized() -> bool:
    """Whether it needs no further call before it is used."""
    return True


def init() -> None:
    """Nothing: the device is opened when it is first used."""


def device_count() -> int:
    """One: the process's own (``dmlvk.default_device``), which ``DMLVK_DEVICE`` chooses."""
    return 1


def current_device() -> int:
    """Its number."""
    return 0


def set_device(device: Any) -> None:
    """Takes the one that there is.

    Raises:
        DeviceNotFoundError: it is another one.
    """
    check_device(device)


def get_device_name(device: Any = None) -> str:
    """Of the Vulkan device."""
    check_device(device)
    return str(RECORDER.device.info.name)


def get_device_properties(device: Any = None) -> types.SimpleNamespace:
    """Its name and memory, in bytes."""
    check_device(device)
    info = RECORDER.device.info
    return types.SimpleNamespace(name=info.name, total_memory=info.memory)


def synchronize(device: Any = None) -> None:
    """Runs what is recorded, and waits for it."""
    check_device(device)
    RECORDER.wait()


def use(device: Device | None) -> None:
    """Chooses what stands behind ``torch.device("dmlvk")`` from now on.

    Args:
        device: stays open as long as there are tensors on it; ``None``: the process's (``dmlvk.default_device``).

    Raises:
        InvalidArgumentError: it is no device.
    """
    if device is not None and not isinstance(device, Device):
        raise InvalidArgumentError(f"torch.{NAME}.use: needs a dmlvk.Device; got {device!r}")
    RECORDER.use(device)


def manual_seed(seed: int) -> None:
    """Seeds the generator that random numbers come from: the one of PyTorch's CPU."""
    torch.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> int:
    """Seeds that generator by chance; returns the seed."""
    return int(torch.default_generator.seed())


def initial_seed() -> int:
    """Of that generator."""
    return int(torch.default_generator.initial_seed())


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Of that generator."""
    check_device(device)
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Of that generator."""
    check_device(device)
    torch.default_generator.set_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("dmlvk")`` may compute in."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there are tensors of bfloat16: they are held in FLOAT32, and rounded."""
    return including_emulation and torch.bfloat16 in DATA_TYPES


def _is_in_bad_fork() -> bool:
    return False


class Event:
    """A moment among what is recorded.

    Args:
        enable_timing: whether :meth:`elapsed_time` is asked for, which waits for the device at each moment.
        blocking: accepted for PyTorch's sake.
        interprocess: likewise.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._has_time, self._seconds = enable_timing, 0.0

    def record(self, stream: Any = None) -> None:
        """Takes the moment."""
        RECORDER.run()
        if self._has_time:
            RECORDER.wait()
            self._seconds = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing: what is recorded later is computed later."""

    def query(self) -> bool:
        """Whether everything before it is computed: it is by the time that anybody can see results."""
        return True

    def synchronize(self) -> None:
        """Waits for everything before it."""
        RECORDER.wait()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between this moment and another one.

        Raises:
            InvalidArgumentError: one of them was not recorded with its time.
        """
        if not self._seconds or not end_event._seconds:
            raise InvalidArgumentError(f"torch.{NAME}.Event: both events must be recorded, with enable_timing=True")
        return 1000 * (end_event._seconds - self._seconds)


class Stream(torch.Stream):
    """The one order in which everything is computed: that in which it was recorded."""

    def wait_event(self, event: Any) -> None:
        """Nothing: what is recorded later is computed later."""

    def wait_stream(self, stream: Any) -> None:
        """Likewise."""

    def record_event(self, event: Any = None) -> Any:
        """Takes the moment; returns the event."""
        event = Event() if event is None else event
        event.record()
        return event

    def query(self) -> bool:
        """Whether everything is computed: it is by the time that anybody can see results."""
        return True

    def synchronize(self) -> None:
        """Waits for what is recorded."""
        RECORDER.wait()


def current_stream(device: Any = None) -> Stream:
    """The one that there is."""
    check_device(device)
    return Stream(device=f"{NAME}:0")


default_stream = current_stream


def set_stream(stream: torch.Stream) -> None:
    """Nothing: all streams are one."""


def stream(stream: torch.Stream | None) -> contextlib.AbstractContextManager[None]:
    """For ``with``: nothing, since all streams are one."""
    return contextlib.nullcontext()


__all__ = [
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "fallbacks",
    "init",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_fallback",
    "stream",
    "synchronize",
    "use",
]
