"""Devices with a part of Vulkan only (MoltenVK's, on macOS): who lists them, where they are, what they are told first.

Vulkan's loader hides them from whoever does not ask for them (VK_KHR_portability_enumeration, loaders from 1.3.207 on).
Kompute asks from 0.9.0+dmlvk.8 on; a device's index is its place in Kompute's list, so dmlvk asks where Kompute does.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

ENUMERATION = b"VK_KHR_portability_enumeration"
SUBSET = "VK_KHR_portability_subset"
"""What a device of such a driver has, and has to be opened with."""

ENUMERATION_SINCE = 1 << 22 | 3 << 12 | 207
"""The first loader that hides these devices; older ones print an error where they are asked for them."""

_DISTRIBUTION = re.compile(r"kp-0\.9\.0\+dmlvk\.(\d+)\.dist-info")
_LISTED_SINCE = 8

_FAST_MATH = "MVK_CONFIG_FAST_MATH_ENABLED"
_DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
_MANIFEST = Path("vulkan", "icd.d", "MoltenVK_icd.json")


@functools.cache
def kompute_lists_them() -> bool:
    """Whether the installed Kompute lists these devices; found out without importing it, which takes longer."""
    if (loaded := sys.modules.get("kp")) is not None:
        return hasattr(loaded, "lists_portability_devices")
    found = importlib.util.find_spec("kp")
    if found is None or found.origin is None:
        return False
    names = os.listdir(Path(found.origin).parent)
    versions = [int(match[1]) for name in names if (match := _DISTRIBUTION.fullmatch(name))]
    return any(version >= _LISTED_SINCE for version in versions)


def want_exact_arithmetic(platform: str = sys.platform, environment: MutableMapping[str, str] = os.environ) -> None:
    """Has MoltenVK compile without Metal's fast math, unless the user has said something about it.

    Fast math rearranges sums, contracts products, and takes NaN, infinities and signs of zeros for absent. MoltenVK
    reads the variable once, when it is loaded.
    """
    if platform == "darwin":
        environment.setdefault(_FAST_MATH, "0")


def name_drivers(platform: str = sys.platform, environment: MutableMapping[str, str] = os.environ) -> bool:
    """Tells a loader that has found no driver where MoltenVK is, unless the user has said where drivers are.

    Returns:
        whether there is something new to tell.
    """
    if platform != "darwin" or any(environment.get(name) for name in _DRIVER_VARIABLES):
        return False
    found = next((path for path in manifests(environment) if os.path.isfile(path)), None)
    if found is None:
        return False
    environment["VK_ICD_FILENAMES"] = str(found)  # the name that all loaders know
    return True


def manifests(environment: Mapping[str, str]) -> list[Path]:
    """Where the Vulkan SDK and Homebrew put the file that tells a loader about MoltenVK."""
    folders = [Path("/opt/homebrew/etc"), Path("/opt/homebrew/share"), Path("/usr/local/etc"), Path("/usr/local/share")]
    sdks = sorted(Path(environment.get("HOME", "/nonexistent"), "VulkanSDK").glob("*/macOS"), reverse=True)
    if named := environment.get("VULKAN_SDK"):
        sdks.insert(0, Path(named))
    return [folder / _MANIFEST for folder in [*(sdk / "share" for sdk in sdks), *folders]]
