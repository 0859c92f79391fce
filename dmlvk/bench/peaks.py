"""What devices can compute at most, as far as their makers say so: the line that speeds of products stand beside."""

from __future__ import annotations

from typing import Final

PEAKS: Final = {
    "H200": 66.9e12,
    "H100 PCIe": 51.2e12,
    "H100": 66.9e12,
    "A100": 19.5e12,
    "L40S": 91.6e12,
    "L4": 30.3e12,
    "V100-SXM2": 15.7e12,
    "Tesla T4": 8.1e12,
    "GeForce RTX 4090": 82.6e12,
    "GeForce RTX 3090": 35.6e12,
}
"""FLOAT32 operations a second, without matrix units, by a word or words of a device's name: NVIDIA's data sheets.

A fused multiply-add counts as two. Names that are part of another stand behind it.
"""


def peak_of(device_name: str) -> float | None:
    """What a device can compute at most with FLOAT32, operations a second; ``None`` where that is not known."""
    padded = f" {device_name} "
    return next((peak for name, peak in PEAKS.items() if f" {name} " in padded), None)
