"""The packed library: every compiled shader in few bytes, one file for all variants of an operator.

A file is a checksum of its head, the head's size, the head (JSON, compressed by zlib) and blocks (LZMA, no frame).
A block holds modules of similar size one behind the other, since shaders of equal size differ in little: together they
take a ninth of their size, each by itself a third. To load one, its block is decompressed, which takes some
milliseconds, and kept for the next ones of the same operator.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmlvk.support.caches import write

SUFFIX = ".pack"

BLOCK_BYTES = 2 * 2**20  # Bytes of a block before it is compressed, but where a single module has more

FORMAT = 1

# Words of 4 bytes, of which numbers of results change from module to module.
_FILTERS: list[dict[str, Any]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 2, "pb": 2, "dict_size": BLOCK_BYTES * 2}
]
_HEAD = struct.Struct("<32sI")  # SHA-256 of the head, its size


class PackError(ValueError):
    """A packed file is missing, damaged, or does not hold what is asked for; the message says which."""


@dataclass(frozen=True)
class Packed:
    key: str  # of all that decides its bytes, as ``Compiler.key`` makes it
    sha256: str  # of its bytes
    block: int  # which block it is in
    start: int  # where it begins in the block
    size: int  # its bytes


def family(variant_name: str) -> str:
    """What the packed file with a variant is called: after the operator."""
    return variant_name.split(".", 1)[0]


class Pack:
    """A packed file.

    Raises:
        PackError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                checksum, size = _HEAD.unpack(file.read(_HEAD.size))
                head = file.read(size)
        except (OSError, struct.error) as error:
            raise PackError(f"{path} cannot be read: {error}") from error
        if hashlib.sha256(head).digest() != checksum:
            raise PackError(f"{path} is damaged")
        content = json.loads(zlib.decompress(head))
        if content["format"] != FORMAT:
            raise PackError(f"{path} has the format {content['format']!r} instead of {FORMAT}")
        # what it holds, by variant
        self.modules = {name: Packed(*values) for name, values in content["modules"].items()}
        self._blocks: list[tuple[int, int]] = []
        start = _HEAD.size + size
        for block_size in content["blocks"]:
            self._blocks.append((start, block_size))
            start += block_size

    def read(self, variant_name: str) -> bytes:
        """A module.

        Raises:
            PackError: it is not there, or damaged.
        """
        if variant_name not in self.modules:
            raise PackError(f"{self.path} lacks it")
        packed = self.modules[variant_name]
        module = _block(self.path, *self._blocks[packed.block])[packed.start : packed.start + packed.size]
        if hashlib.sha256(module).hexdigest() != packed.sha256:
            raise PackError(f"{self.path} is damaged")
        return module


@functools.lru_cache(maxsize=8)
def _block(path: Path, start: int, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return lzma.decompress(file.read(size), lzma.FORMAT_RAW, filters=_FILTERS)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise PackError(f"{path} is damaged: {error}") from error


def write_pack(path: Path, modules: Mapping[str, tuple[str, bytes]]) -> None:
    """Writes a packed file, with the same bytes for the same modules, in one step.

    Args:
        modules: key and bytes by variant.

    Raises:
        OSError: it cannot be written.
    """
    positions: dict[bytes, tuple[int, int]] = {}  # equal modules are there once
    blocks: list[list[bytes]] = []
    room = 0
    for name in sorted(modules, key=lambda name: (len(modules[name][1]), name)):
        module = modules[name][1]
        if module in positions:
            continue
        if len(module) > room:
            blocks.append([])
            room = max(BLOCK_BYTES, len(module))
        positions[module] = len(blocks) - 1, sum(map(len, blocks[-1]))
        blocks[-1].append(module)
        room -= len(module)
    entries = {
        name: (key, hashlib.sha256(module).hexdigest(), *positions[module], len(module))
        for name, (key, module) in sorted(modules.items())
    }
    compressed = [lzma.compress(b"".join(block), lzma.FORMAT_RAW, filters=_FILTERS) for block in blocks]
    content = {"format": FORMAT, "blocks": [len(block) for block in compressed], "modules": entries}
    head = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    write(path, b"".join([_HEAD.pack(hashlib.sha256(head).digest(), len(head)), head, *compressed]))


def pack_paths(directory: Path) -> list[Path]:
    """The packed files of a directory, sorted."""
    return sorted(directory.glob(f"*{SUFFIX}"))


class PackedLibrary:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._packs: dict[str, Pack] = {}

    def read(self, variant_name: str, key: str | None = None) -> bytes:
        """A module.

        Args:
            key: what the module must have been made from; anything when ``None``.

        Raises:
            PackError: it is missing, damaged, or made from something else.
        """
        pack = self._pack(family(variant_name))
        if key is not None and variant_name in pack.modules and pack.modules[variant_name].key != key:
            raise PackError(f"{pack.path} has it from other sources")
        return pack.read(variant_name)

    def key(self, variant_name: str) -> str | None:
        """What a module was made from; ``None`` where its packed file lacks it.

        Raises:
            PackError: the file is missing or damaged.
        """
        packed = self._pack(family(variant_name)).modules.get(variant_name)
        return None if packed is None else packed.key

    def _pack(self, name: str) -> Pack:
        if name not in self._packs:
            self._packs[name] = Pack(self.directory / f"{name}{SUFFIX}")
        return self._packs[name]

    def names(self) -> Iterable[str]:
        """All variants that are there.

        Raises:
            PackError: a file is damaged.
        """
        for path in pack_paths(self.directory):
            yield from self._pack(path.name.removesuffix(SUFFIX)).modules
