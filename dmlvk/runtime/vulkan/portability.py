"""Devices with a part of Vulkan only (MoltenVK's, on macOS): who lists them, where they are, what they are told first.

Vulkan's loader hides them from whoever does not ask for them (VK_KHR_portability_enumeration, loaders from 1.3.207 on).
dmlvk's Kompute asks, the unchanged one does not; a device's index is its place in Kompute's list, so dmlvk asks where
Kompute does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

ENUMERATION = b"VK_KHR_portability_enumeration"
SUBSET = "VK_KHR_portability_subset"  # What a device of such a driver has, and has to be opened with

ENUMERATION_SINCE = 1 << 22 | 3 << 12 | 207
"""The first loader that hides these devices; older ones print an error where they are asked for them."""

_FAST_MATH = "MVK_CONFIG_FAST_MATH_ENABLED"
_DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
_MANIFEST = Path("vulkan", "icd.d", "MoltenVK_icd.json")


def kompute_lists_them() -> bool:
    """Whether Kompute lists these devices; found out without loading it, which takes longer."""
    from dmlvk.runtime.kompute_choice import is_bundled

    return is_bundled()


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
    """Where the Vulkan SDK and Homebrew put the file that tells a loader about MoltenVK; dmlvk's own comes last."""
    folders = [Path("/opt/homebrew/etc"), Path("/opt/homebrew/share"), Path("/usr/local/etc"), Path("/usr/local/share")]
    sdks = sorted(Path(environment.get("HOME", "/nonexistent"), "VulkanSDK").glob("*/macOS"), reverse=True)
    if named := environment.get("VULKAN_SDK"):
        sdks.insert(0, Path(named))
    own = Path(__file__).parents[1] / "native" / _MANIFEST.name
    return [*(folder / _MANIFEST for folder in [*(sdk / "share" for sdk in sdks), *folders]), own]
