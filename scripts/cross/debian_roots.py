"""Other Linuxes, unpacked from Debian's packages into folders that can be roots of processes."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.build_kompute import default_cache
from scripts.cross.targets import CrossBuildError

PACKAGES = ("python3-numpy", "python3-click", "python3-rich", "python3-pil", "mesa-vulkan-drivers", "libvulkan1")

_FORMATS = Path("/proc/sys/fs/binfmt_misc")
_EMULATED = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")

_SOURCES = "deb [arch={machine} signed-by={key}] {mirror} {suite} {parts}\n"
"""Of a version, and of its updates, which users have."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    mirror: str  # its server
    keyring: str  # whose key signs its lists, a package of Debian's
    key: Path  # in that package
    parts: str  # of the distribution


DEBIAN = Distribution(
    "http://deb.debian.org/debian",
    "debian-archive-keyring",
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    "main",
)

UBUNTU = Distribution(
    "http://archive.ubuntu.com/ubuntu",
    "ubuntu-keyring",
    Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
    "main universe",
)


@dataclasses.dataclass(frozen=True)
class Root:
    title: str  # what people call it
    machine: str  # Debian's name of the processor's kind
    triplet: str  # of the folder with libraries
    suite: str  # Debian's name of the version
    minor: int  # of its Python 3
    is_emulated: bool  # whether QEMU executes its programs here
    is_merged: bool  # whether its packages have nothing but links in ``/lib`` and ``/bin``
    distribution: Distribution = DEBIAN  # where its packages come from
    packages: tuple[str, ...] = PACKAGES  # what is unpacked, with what that depends on
    has_old_driver: bool = False  # whether its driver for the processor has less than Vulkan 1.1


DEBIAN13 = Root("Linux x86-64, Debian 13", "amd64", "x86_64-linux-gnu", "trixie", 13, is_emulated=False, is_merged=True)
"""On this processor."""


def why_not_here(root: Root) -> str | None:
    """Why this machine, or user, cannot run that system's programs; ``None`` where it can."""
    if not DEBIAN.key.is_file():
        return f"{DEBIAN.key} is not here (apt install {DEBIAN.keyring})"
    if os.geteuid() != 0:
        return "only root may have another root folder"
    return _why_not_emulated() if root.is_emulated else None


def _why_not_emulated() -> str | None:
    """Has the kernel give Arm's programs to QEMU, those that Arm's programs start, too; says why that cannot be."""
    if not _EMULATED.is_file():
        return f"{_EMULATED} is not here (apt install qemu-user-static)"
    if not (_FORMATS / _EMULATED.stem).exists():  # a system without systemd
        if not (_FORMATS / "register").exists():
            subprocess.run(
                ["mount", "-t", "binfmt_misc", "binfmt_misc", str(_FORMATS)], capture_output=True, check=False
            )
        done = subprocess.run(
            ["/usr/lib/systemd/systemd-binfmt", str(_EMULATED)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return f"the kernel takes no {_EMULATED.stem}: {done.stderr.strip()}"
    return None


def command(folder: Path, words: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """A command that runs a program of that system in its folder, with an environment of its own."""
    given = [f"{name}={value}" for name, value in settings.items()]
    bare = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    return [*bare, *given, "chroot", str(folder), *words]


def unpacked(root: Root) -> Path:
    """The folder; packages are downloaded and unpacked once.

    Raises:
        CrossBuildError: they are not to be had.
    """
    digest = hashlib.sha256(repr((root.machine, root.suite, root.packages)).encode()).hexdigest()[:12]
    folder = default_cache() / "roots" / f"{root.suite}-{root.machine}-{digest}"
    if not folder.is_dir():
        apt = folder.with_name(f"{folder.name}.apt")
        _download(root, apt)
        _unpack(root, apt, folder)
        shutil.rmtree(apt)
    return folder


def _download(root: Root, apt: Path) -> None:
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    key = _key(root.distribution)
    values = {**vars(root.distribution), "machine": root.machine, "key": key}
    sources = "".join(_SOURCES.format(suite=f"{root.suite}{part}", **values) for part in ("", "-updates"))
    (apt / "sources.list").write_text(sources, encoding="ascii")
    (apt / "status").touch()
    options = {
        "APT::Architecture": root.machine,
        "APT::Architectures": root.machine,
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",  # who reads the key
        "Debug::NoLocking": "1",
        "Acquire::Retries": "3",
    }
    command = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    wanted = ["install", "-y", "--download-only", "--no-install-recommends", *root.packages]
    for words in (["update"], wanted):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip()[-500:]
            raise CrossBuildError(f"packages of {root.suite} for {root.machine} are not to be had: {said}")


def _key(distribution: Distribution) -> Path:
    """The system's, or one of Debian 13, whose package not every Debian has."""
    if distribution.key.is_file():
        return distribution.key
    keyring = dataclasses.replace(DEBIAN13, packages=(distribution.keyring,))
    return unpacked(keyring) / distribution.key.relative_to("/")


def _unpack(root: Root, apt: Path, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("tmp", "dev", "proc"):
        (partial / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin") if root.is_merged else ():
        (partial / "usr" / name).mkdir(parents=True)
        (partial / name).symlink_to(Path("usr", name))
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(partial)], check=True)
    for name, minor in (("null", 3), ("urandom", 9)):
        os.mknod(partial / "dev" / name, 0o666 | 0o020000, os.makedev(1, minor))
    partial.rename(folder)
