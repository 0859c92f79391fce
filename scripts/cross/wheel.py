"""Writes wheels: archives with the files of a distribution, what it is, and the digests of all of them."""

from __future__ import annotations

import base64
import hashlib
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

_DATE = (2020, 1, 1, 0, 0, 0)  # the same files make the same archive


def write_wheel(folder: Path, name: str, version: str, tag: str, files: Mapping[str, bytes]) -> Path:
    """A wheel.

    Args:
        tag: ``python-abi-platform``.
        files: contents by path, ``METADATA`` and licences below ``NAME-VERSION.dist-info/``.
    """
    own = f"{name}-{version}.dist-info"
    pure = str(tag.endswith("-any")).lower()
    head = f"Wheel-Version: 1.0\nGenerator: dmlvk\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    contents = {**files, f"{own}/WHEEL": head.encode()}
    rows = []
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}\n")
    contents[f"{own}/RECORD"] = "".join([*rows, f"{own}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-{version}-{tag}.whl"
    partial = made.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            entry = zipfile.ZipInfo(path, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = path.endswith((".so", ".dylib", ".dll")) or ".data/scripts/" in path
            # pip leaves a program executable only where its entry is said to be a regular file
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            archive.writestr(entry, content)
    partial.replace(made)
    return made


def with_tag(wheel: Path, folder: Path, tag: str, files: Mapping[str, bytes]) -> Path:
    """A copy of a pure wheel for one platform, with more files.

    Args:
        folder: where the copy is written.
        tag: ``python-abi-platform``.
    """
    name, version = wheel.name.split("-")[:2]
    own = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        old = {entry: archive.read(entry) for entry in archive.namelist() if not entry.endswith("/")}
    for generated in ("RECORD", "WHEEL"):
        del old[f"{own}/{generated}"]
    contents = {**old, **files}
    # Each file there is named in the metadata, https://packaging.python.org/en/latest/specifications/core-metadata/
    prefix = f"{own}/licenses/"
    named = [path.removeprefix(prefix) for path in sorted(files) if path.startswith(prefix)]
    head, separator, body = contents[f"{own}/METADATA"].partition(b"\n\n")
    licenses = "".join(f"\nLicense-File: {path}" for path in named).encode()
    contents[f"{own}/METADATA"] = head + licenses + separator + body
    return write_wheel(folder, name, version, tag, contents)
