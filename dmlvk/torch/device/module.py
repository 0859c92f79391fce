"""What ``torch.dmlvk`` has, as PyTorch's programs ask devices for it."""

from __future__ import annotations

import types
from typing import Any

import torch

from dmlvk.device import Device
from dmlvk.errors import DeviceNotFoundError, InvalidArgumentError
from dmlvk.torch.device.kernels import fallbacks, set_fallback
from dmlvk.torch.device.tensors import NAME, RECORDER
from dmlvk.torch.types import DATA_TYPES


def _index(device: Any) -> int:
    """A device's number.

    Raises:
        DeviceNotFoundError: there is no such device.
    """
    number = device if isinstance(device, int) else 0 if device is None else torch.device(device).index or 0
    if number not in (0, -1):
        raise DeviceNotFoundError(f"torch.{NAME}: there is one device, number 0; got {device!r}")
    return 0


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
    _index(device)


def get_device_name(device: Any = None) -> str:
    """Of the Vulkan device."""
    _index(device)
    return str(RECORDER.device.info.name)


def get_device_properties(device: Any = None) -> types.SimpleNamespace:
    """Its name and memory, in bytes."""
    _index(device)
    info = RECORDER.device.info
    return types.SimpleNamespace(name=info.name, total_memory=info.memory)


def synchronize(device: Any = None) -> None:
    """Runs what is recorded, and waits for it."""
    _index(device)
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


def empty_cache() -> None:
    """Gives memory back that nobody uses."""
    RECORDER.device.arrays.pool.clear()


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
    _index(device)
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Of that generator."""
    _index(device)
    torch.default_generator.set_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("dmlvk")`` may compute in."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there are tensors of bfloat16: they are held in FLOAT32, and rounded."""
    return including_emulation and torch.bfloat16 in DATA_TYPES


def _is_in_bad_fork() -> bool:
    return False


__all__ = ["current_device", "device_count", "fallbacks", "init", "set_fallback", "synchronize", "use"]
