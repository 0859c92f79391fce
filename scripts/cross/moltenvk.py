"""MoltenVK for wheels of macOS, out of a package on PyPI that brings it: only Apple's compilers build it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.targets import CrossBuildError, Platform
from scripts.cross.tools import fetched, run

VERSION = "1.3.0"

LIBRARY = "libMoltenVK.dylib"

MANIFEST = "MoltenVK_icd.json"

_PACKAGE = "quadrants==1.1.3"
_SHA256 = "7655ce9471e016924cdca7e7e6556c711414ad3776173966b5a2deccadf61552"
_MEMBER = "quadrants/_lib/runtime/libMoltenVK.dylib"
_WORDS = ("--platform", "macosx_11_0_arm64", "--python-version", "3.12", "--implementation", "cp", "--abi", "cp312")

_CEREAL = "http://deb.debian.org/debian/pool/main/libc/libcereal/libcereal-dev_1.3.2+dfsg-4_amd64.deb"
_CEREAL_SHA256 = "a31814cd89642ed86147d674c28e68869764fb1fb8747db98e5fee050d50631e"

_PROCESSORS = {"x86_64": 0x01000007, "arm64": 0x0100000C}


def build(target: Platform) -> Path:
    """The library for one processor, in the user's cache.

    Args:
        target: a system with ``"darwin"``.

    Raises:
        CrossBuildError: PyPI does not have it any more, or it is not what it was.
    """
    machine = "arm64" if target.tag.endswith("arm64") else "x86_64"
    kept = default_cache() / "moltenvk" / f"{VERSION}-{machine}-{_SHA256[:12]}" / LIBRARY
    if not kept.is_file():
        with tempfile.TemporaryDirectory(prefix="dmlvk-moltenvk-") as name:
            folder = Path(name)
            pin = folder / "requirement.txt"
            pin.write_text(f"{_PACKAGE} --hash=sha256:{_SHA256}\n", encoding="ascii")
            words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *_WORDS]
            words += ["--require-hashes", "--dest", name, "--requirement", str(pin)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            wheels = list(folder.glob("*.whl"))
            if done.returncode != 0 or len(wheels) != 1:
                raise CrossBuildError(f"{_PACKAGE}, which has MoltenVK, is not to be had: {done.stderr.strip()[-300:]}")
            with zipfile.ZipFile(wheels[0]) as archive:
                content = of_processor(archive.read(_MEMBER), _PROCESSORS[machine])
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(content)
        partial.replace(kept)
    return kept


def of_processor(content: bytes, processor: int) -> bytes:
    """The part of a universal library that one kind of processor loads, with the signature that it has.

    Args:
        content: the library; its format is that of Apple's ``mach-o/fat.h``.

    Raises:
        CrossBuildError: it has no such part.
    """
    magic, count = struct.unpack_from(">II", content)
    for number in range(count if magic == 0xCAFEBABE else 0):
        kind, _, offset, size, _ = struct.unpack_from(">IIIII", content, 8 + 20 * number)
        if kind == processor:
            return content[offset : offset + size]
    raise CrossBuildError(f"{LIBRARY} has no part for processor {processor:#x}")


def licenses() -> dict[str, bytes]:
    """Of MoltenVK and what is linked into it, by names."""
    apache = Path("/usr/share/common-licenses/Apache-2.0")
    if not apache.is_file():
        raise CrossBuildError(f"{apache}, the licence of MoltenVK, is not here: build on Debian or Ubuntu")
    with tempfile.TemporaryDirectory(prefix="dmlvk-cereal-") as name:
        package = Path(name, "cereal.deb")
        package.write_bytes(fetched(_CEREAL, _CEREAL_SHA256))
        run(["dpkg-deb", "-x", str(package), name])
        cereal = Path(name, "usr/share/doc/libcereal-dev/copyright").read_bytes()
    return {
        "MoltenVK.txt": b"Copyright 2015 The Brenwill Workshop Ltd.\n\n" + apache.read_bytes(),
        "cereal.txt": cereal,
    }


def manifest() -> bytes:
    """What tells a loader about the library beside it."""
    icd = {"library_path": f"./{LIBRARY}", "api_version": "1.2.0", "is_portability_driver": True}
    return (json.dumps({"file_format_version": "1.0.0", "ICD": icd}, indent=4) + "\n").encode()
