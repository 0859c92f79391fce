"""How much memory the operating system has left: the memory of CPU devices, integrated GPUs and staging buffers.

A driver that allocates such memory only asks for addresses; the memory itself is taken when it is first written. Past
the end the system kills the process instead of failing the allocation, so the question has to be asked before.
"""

from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

_PRIVATE: dict[str, int] = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}


def available_in_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can still be taken without swapping, within the limits of this process's control groups (containers).

    Args:
        root: where ``proc`` and ``sys`` are; tests put a folder of their own here.

    Returns:
        None where the system does not tell (macOS, which compresses and swaps instead).
    """
    if sys.platform == "win32":
        return _available_on_windows()
    system = _number_after("MemAvailable:", root / "proc/meminfo")
    if system is None:
        return None
    return min([system * 1024, *_control_group_rooms(root)])


def resident_in_bytes(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process really occupies; None where the system does not tell."""
    try:
        pages = int((root / "proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * mmap.PAGESIZE


def can_reserve(size_in_bytes: int) -> bool:
    """Whether this process may have so many bytes of private memory more. Asks for addresses and frees them untouched.

    False under a limit on the process (``ulimit -v``) and where the system does not overcommit.
    """
    try:
        mmap.mmap(-1, size_in_bytes, **_PRIVATE).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _available_on_windows() -> int | None:
    """What can still be committed, from GlobalMemoryStatusEx."""
    import ctypes

    class MemoryStatus(ctypes.Structure):
        _fields_ = [
            ("dwLength", ctypes.c_uint32),
            ("dwMemoryLoad", ctypes.c_uint32),
            *[(name, ctypes.c_uint64) for name in ("total", "available", "total_page_file", "available_page_file")],
            *[(name, ctypes.c_uint64) for name in ("total_virtual", "available_virtual", "available_extended_virtual")],
        ]

    status = MemoryStatus()
    status.dwLength = ctypes.sizeof(status)
    if not ctypes.CDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(min(status.available, status.available_page_file))


def _control_group_rooms(root: Path) -> list[int]:
    """What each control group around this process still allows; both versions of Linux's control groups."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    rooms = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = top / path.lstrip("/")
        # A container may see the host's path here but only its own group's files, at the top.
        for folder in [group, *group.parents]:
            room = _room(folder, *names)
            if room is not None:
                rooms.append(room)
            if folder == top:
                break
    return rooms


def _room(folder: Path, limit_name: str, usage_name: str, cache_name: str) -> int | None:
    """Limit minus usage of one control group, file caches that can be dropped not counted; None without a limit."""
    try:
        limit, usage = (folder / limit_name).read_text().strip(), (folder / usage_name).read_text()
    except OSError:
        return None
    if limit == "max":
        return None
    return max(0, int(limit) - int(usage) + (_number_after(f"{cache_name} ", folder / "memory.stat") or 0))


def _number_after(key: str, file: Path) -> int | None:
    """The number behind a key at the start of a line."""
    try:
        text = file.read_text()
    except OSError:
        return None
    found = re.search(rf"^{key}\s*(\d+)", text, re.M)
    return int(found[1]) if found else None
