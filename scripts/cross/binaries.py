"""What programs and libraries need of a system: its processor, its libraries, how old it may be."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Binary:
    """What a file in a system's format says of itself."""

    system: str  # ``"linux"``, ``"win32"`` or ``"darwin"``
    machine: str  # ``"x86_64"`` or ``"aarch64"``
    libraries: tuple[str, ...] = ()  # that it needs, by name, in lower case on Windows
    oldest: tuple[int, int] | None = None  # the version that it needs, of glibc on Linux and of macOS there


_ELF = {62: "x86_64", 183: "aarch64"}
_PE = {0x8664: "x86_64", 0xAA64: "aarch64"}
_MACH = {0x01000007: "x86_64", 0x0100000C: "aarch64"}


def read(content: bytes) -> Binary | None:
    """Reads a program or library of 64 bits; ``None`` for any other file."""
    if content[:5] == b"\x7fELF\x02":
        return _elf(content)
    if content[:4] == b"\xcf\xfa\xed\xfe":
        return _mach(content)
    if content[:2] == b"MZ":
        return _pe(content)
    return None


def _elf(content: bytes) -> Binary:
    """The format: System V ABI, chapters 4 and 5."""
    machine, first, size, count = (
        *struct.unpack_from("<H", content, 18), *struct.unpack_from("<Q", content, 32),
        *struct.unpack_from("<HH", content, 54),
    )  # fmt: skip
    segments = [struct.unpack_from("<IIQQQQ", content, first + size * number) for number in range(count)]
    loaded = [(address, offset, length) for kind, _, offset, address, _, length in segments if kind == 1]

    def place(address: int) -> int:
        return next(
            int(address - start + offset) for start, offset, length in loaded if start <= address < start + length
        )

    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length in segments:
        if kind == 2:
            entries += struct.iter_unpack("<qQ", content[offset : offset + length // 16 * 16])
    strings = next((place(value) for tag, value in entries if tag == 5), 0)
    libraries = [_text(content, strings + value) for tag, value in entries if tag == 1]
    versions = [(int(major), int(minor)) for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)]
    return Binary("linux", _ELF.get(machine, str(machine)), tuple(libraries), max(versions, default=None))


def _pe(content: bytes) -> Binary:
    """https://learn.microsoft.com/en-us/windows/win32/debug/pe-format"""
    head = struct.unpack_from("<I", content, 60)[0]
    machine, sections, optional = (
        *struct.unpack_from("<HH", content, head + 4), *struct.unpack_from("<H", content, head + 20),
    )  # fmt: skip
    imports = struct.unpack_from("<I", content, head + 24 + 112 + 8)[0]
    table = [struct.unpack_from("<8sIIII", content, head + 24 + optional + 40 * n) for n in range(sections)]

    def place(address: int) -> int:
        return next(int(address - start + at) for _, size, start, _, at in table if start <= address < start + size)

    libraries: list[str] = []
    if imports:
        at = place(imports)
        while name := struct.unpack_from("<I", content, at + 12)[0]:
            libraries.append(_text(content, place(name)).lower())
            at += 20
    return Binary("win32", _PE.get(machine, hex(machine)), tuple(libraries))


def _mach(content: bytes) -> Binary:
    """``mach-o/loader.h`` of Apple's system."""
    machine, count = struct.unpack_from("<I", content, 4)[0], struct.unpack_from("<I", content, 16)[0]
    libraries, oldest = [], None
    for kind, at in _commands(content, count):
        if kind & 0x7FFFFFFF in (0x0C, 0x18):  # LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB
            libraries.append(_text(content, at + struct.unpack_from("<I", content, at + 8)[0]))
        elif kind in (0x32, 0x24):  # LC_BUILD_VERSION, LC_VERSION_MIN_MACOSX
            version = struct.unpack_from("<I", content, at + (12 if kind == 0x32 else 8))[0]
            oldest = version >> 16, version >> 8 & 255
    return Binary("darwin", _MACH.get(machine, hex(machine)), tuple(libraries), oldest)


def _commands(content: bytes, count: int) -> Iterator[tuple[int, int]]:
    at = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", content, at)
        yield kind, at
        at += size


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode(errors="replace")
