#!/usr/bin/env python3
"""Unpack wheels of dmlvk, and say of each what an index, a system or a lawyer would refuse.

    scripts/check_wheels.py dist/*.whl

- Its name and metadata: no local version, no other project that would have to be built, what ``twine check`` wants.
- Every file is listed with its digest, and none is there twice.
- Each program and library is for the system and the processor of its tag, needs no newer one, and nothing else but what
  every such system has.
- Each part of others is in THIRD-PARTY.txt and in the list of components, with its licence.
- At most 30 MB.

Exit status: 0 all are well, 1 one is not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import base64
import email
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.cross import binaries
from scripts.cross.parts import NOTICE, SBOM
from scripts.cross.targets import tools_python

MOST_BYTES = 30_000_000

NATIVE = ("native/", "onnxruntime/", "scripts/")
"""Where programs and libraries are: Kompute, the provider, the compiler."""

_TAGS = (
    (re.compile(r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)"), "linux"),
    (re.compile(r"macosx_(\d+)_(\d+)_(x86_64|arm64)"), "darwin"),
    (re.compile(r"()()win_(amd64|arm64)"), "win32"),
)

_OF_EVERY_SYSTEM = {
    # PEP 600: what a manylinux wheel may expect, of which these are glibc's own
    "linux": re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux-(x86-64|aarch64)\.so\.\d+"),
    "win32": re.compile(r"(kernel32|ntdll|advapi32|ucrtbase|msvcrt|api-ms-win-crt-[a-z0-9-]+)\.dll"),
    "darwin": re.compile(r"/usr/lib/lib(System|objc|c\+\+)[A-Z.]*\d*[A-Z.]*\.dylib|/System/Library/Frameworks/.*"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", metavar="WHEEL", type=Path)
    options = parser.parse_args(arguments)
    is_well = True
    for wheel in options.wheels:
        found = list(faults(wheel))
        is_well &= not found
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB{'' if found else ', well'}")
        for fault in found:
            print(f"  {fault}")
    twine = [str(tools_python()), "-m", "twine", "check", "--strict", *map(str, options.wheels)]
    is_well &= subprocess.run(twine, check=False).returncode == 0
    return 0 if is_well else 1


def faults(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel, a line each."""
    name, version, *_, tag = wheel.stem.split("-")
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size} bytes, more than {MOST_BYTES}"
    if "+" in version:
        yield f"version {version} is a local one, which an index refuses"
    own = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        contents = {each: archive.read(each) for each in names}
    if len(contents) != len(names):
        yield "a file is there twice"
    yield from _record(contents, f"{own}/RECORD")
    yield from _metadata(contents, own)
    natives = {each: found for each in names if (found := binaries.read(contents[each])) is not None}
    yield from _systems(natives, tag)
    yield from _parts(contents, natives, own)


def _record(contents: dict[str, bytes], path: str) -> Iterator[str]:
    rows = dict(line.split(",", 1) for line in contents[path].decode().splitlines())
    if rows.keys() != contents.keys():
        yield f"RECORD and archive differ: {', '.join(sorted(rows.keys() ^ contents.keys()))}"
    for each, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if each != path and rows.get(each) != f"sha256={digest},{len(content)}":
            yield f"RECORD has another digest or size of {each}"


def _metadata(contents: dict[str, bytes], own: str) -> Iterator[str]:
    metadata = email.message_from_bytes(contents[f"{own}/METADATA"])
    for requirement in metadata.get_all("Requires-Dist", []):
        if re.match(r"kp\b", requirement) or " @ " in requirement:
            yield f"it requires {requirement}"
    licenses = {path.removeprefix(f"{own}/licenses/") for path in contents if path.startswith(f"{own}/licenses/")}
    if licenses != set(metadata.get_all("License-File", [])):
        yield f"License-File names {metadata.get_all('License-File')}, and there are {sorted(licenses)}"


def _systems(natives: dict[str, binaries.Binary], tag: str) -> Iterator[str]:
    matches = [(match, system) for pattern, system in _TAGS if (match := pattern.fullmatch(tag))]
    if not matches:
        yield f"the tag {tag} is of no system that is served"
        return
    ((match, system),) = matches
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(match[3], match[3])
    for folder in NATIVE:
        if not any(folder in path for path in natives):
            yield f"there is no program or library in {folder}"
    for path, found in natives.items():
        if (found.system, found.machine) != (system, machine):
            yield f"{path} is for {found.system} on {found.machine}, the wheel for {system} on {machine}"
            continue
        if found.oldest is not None and match[1] and found.oldest > (int(match[1]), int(match[2])):
            yield f"{path} needs version {found.oldest[0]}.{found.oldest[1]} of the system, the tag promises {tag}"
        for library in found.libraries:
            if not _OF_EVERY_SYSTEM[system].fullmatch(library):
                yield f"{path} needs {library}, which not every system has"


def _parts(contents: dict[str, bytes], natives: dict[str, binaries.Binary], own: str) -> Iterator[str]:
    notice, listed = contents.get(f"{own}/licenses/{NOTICE}"), contents.get(f"{own}/sboms/{SBOM}")
    if notice is None or listed is None:
        yield f"there is no {NOTICE} or no sboms/{SBOM}"
        return
    text, bill = notice.decode(), json.loads(listed)
    where = ""
    for component in bill["components"]:
        where += component["properties"][0]["value"]
        if f"{component['name']} {component['version']}\n" not in text:
            yield f"{NOTICE} does not name {component['name']} {component['version']}"
        if not component["licenses"][0]["expression"]:
            yield f"{component['name']} has no licence"
    for name in re.findall(r"^    text: +(.*)$", text, re.M):
        for each in name.split(", "):
            if not contents.get(f"{own}/licenses/{each}"):
                yield f"the licence {each} is not there"
    for path in natives:
        if "onnxruntime/" not in path and Path(path).name not in where:  # that one is dmlvk's own, in C
            yield f"no component is said to be in {path}"


if __name__ == "__main__":
    sys.exit(main())
