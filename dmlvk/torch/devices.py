"""The devices that graphs of PyTorch run on, each with what lies on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.torch.residency import Residency

_OPTIONS = ("device", "arithmetic", "weights")

_WEIGHTS = ("compared", "counted")

_devices: dict[str, tuple[Device, Residency]] = {}
_devices_lock = threading.Lock()


def check_options(options: Mapping[str, Any]) -> None:
    """Checks options.

    Raises:
        InvalidArgumentError: when there is no such option, or ``weights`` is neither ``"compared"`` nor ``"counted"``.
    """
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"dmlvk.torch: there is no option {sorted(unknown)}; there are {', '.join(_OPTIONS)}"
        )
    weights = options.get("weights", "compared")
    if weights not in _WEIGHTS:
        raise InvalidArgumentError(
            f"dmlvk.torch: the option weights must be one of {', '.join(_WEIGHTS)}; got {weights!r}"
        )


def device_for(options: Mapping[str, Any]) -> tuple[Device, Residency]:
    """The device that options name, which stays open, and what lies on it.

    Raises:
        InvalidArgumentError: as :func:`check_options`.
    """
    check_options(options)
    selector, arithmetic = options.get("device"), options.get("arithmetic")
    weights = options.get("weights", "compared")
    with _devices_lock:
        key = f"{id(selector) if isinstance(selector, Device) else selector!r} {arithmetic!r} {weights}"
        known = _devices.get(key)
        if known is None or known[0].engine.is_removed:
            device = selector if isinstance(selector, Device) else Device(selector, arithmetic=arithmetic)
            known = _devices[key] = device, Residency(device, compares=weights == "compared")
        return known
