"""The devices that graphs and optimizers of PyTorch run on, each with what lies on it."""

from __future__ import annotations

import threading
from typing import Any

from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.torch.residency import Residency

_devices: dict[str, tuple[Device, Residency]] = {}
_devices_lock = threading.Lock()


def device_for(options: dict[str, Any]) -> tuple[Device, Residency]:
    """The device that options name, which stays open, and what lies on it."""
    unknown = set(options) - {"device", "arithmetic"}
    if unknown:
        raise InvalidArgumentError(f"dmlvk.torch: there is no option {sorted(unknown)}; there are device, arithmetic")
    selector, arithmetic = options.get("device"), options.get("arithmetic")
    with _devices_lock:
        key = f"{id(selector) if isinstance(selector, Device) else selector!r} {arithmetic!r}"
        known = _devices.get(key)
        if known is None or known[0].engine.is_removed:
            device = selector if isinstance(selector, Device) else Device(selector, arithmetic=arithmetic)
            known = _devices[key] = device, Residency(device)
        return known
