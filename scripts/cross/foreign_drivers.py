"""Mesa's drivers of another Debian, which compile pipelines here without such a GPU: of Arm's machines, and newer ones.

Debian 13's Mesa for arm64 has v3dv (Raspberry Pi), turnip (Qualcomm's Adreno) and panvk (Arm's Mali), which run under
qemu; that for amd64 has RADV and anv, newer than the drivers of Debian 12, with cooperative matrices. Mesa's drm-shim
is the kernel of all but RADV. A program of C asks the driver, and takes one pipeline after another from this process:
Python is slow to start under qemu, and cannot leave its root.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from dmlvk.errors import DmlError
from scripts.cross import drm_shim
from scripts.cross.debian_roots import ROOTS, command, unpacked, why_not_here
from scripts.cross.targets import CrossBuildError
from scripts.shader_tools.pipelines import UNCACHED, Compiled

_PROGRAM = Path(__file__).parents[1] / "native" / "pipeline_compiler.c"


@dataclasses.dataclass(frozen=True)
class Family:
    """GPUs for which a driver compiles.

    Attributes:
        title: what users call them.
        driver: Mesa's name of the driver for Vulkan.
        library: the file's, without ``libvulkan_``; also the name of its drm-shim.
        settings: what the drm-shim and the driver are told by the environment.
        root: the Debian whose driver it is.
        target: what kernels may know of such a GPU (``shader_tools/launches.py``).
        has_shim: whether the driver wants a kernel.
    """

    title: str
    driver: str
    library: str
    settings: Mapping[str, str]
    root: str = "aarch64_debian13"
    target: str = "any, 64 registers"
    has_shim: bool = True

    @property
    def is_emulated(self) -> bool:
        """Whether its compiler runs under qemu."""
        return ROOTS[self.root].emulator is not None


def _rdna3(title: str, name: str) -> Family:
    return Family(
        title, "RADV", "radeon", {"RADV_FORCE_FAMILY": name}, root="debian13", target="matrices of 64", has_shim=False
    )


def _mali(title: str, number: str) -> Family:
    return Family(title, "panvk", "panfrost", {"PAN_GPU_ID": number, "PAN_I_WANT_A_BROKEN_VULKAN_DRIVER": "1"})


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "v3d42": Family("Broadcom's GPU of Raspberry Pi 4", "v3dv", "broadcom", {"V3D_VERSION": "42"}),
        "v3d71": Family("Broadcom's GPU of Raspberry Pi 5", "v3dv", "broadcom", {"V3D_VERSION": "71"}),
        "a630": Family("Qualcomm's Adreno 630", "turnip", "freedreno", {"FD_GPU_ID": "630"}, target="any"),
        "a740": Family("Qualcomm's Adreno 740", "turnip", "freedreno", {"FD_GPU_ID": "740"}, target="any"),
        "g52": _mali("Arm's Mali-G52", "7212"),
        "g610": _mali("Arm's Mali-G610", "a867"),
        "navi31": _rdna3("AMD's RX 7900 by Debian 13's Mesa", "NAVI31"),
        "phoenix": _rdna3("AMD's Ryzen 7040 by Debian 13's Mesa", "PHOENIX"),
    }
)
"""By name."""


class ForeignCompiler:
    """A device that compiles pipelines, like ``PipelineCompiler``, in a process of another machine. A context manager.

    A process that the driver ends is one pipeline's failure; the next one gets another.

    Args:
        name: of one of ``FAMILIES``.

    Attributes:
        family: the GPUs.
        device: the device's name.

    Raises:
        DmlError: the driver opens no device.
        CrossBuildError: Debian's packages, or Mesa's source, are not to be had, or a tool is not installed.
    """

    def __init__(self, name: str) -> None:
        self.family = family = FAMILIES[name]
        root = ROOTS[family.root]
        if reason := why_not_here(root):
            raise CrossBuildError(reason)
        folder = unpacked(root)
        settings = {"HOME": "/tmp", **UNCACHED, **family.settings}
        files = [drm_shim.compiled_program(_PROGRAM, is_for_arm=family.is_emulated)]
        if family.has_shim:
            files.append(drm_shim.library(family.library))
            settings["LD_PRELOAD"] = f"/tmp/{files[-1].name}"
        for file in files:
            copy = folder / "tmp" / file.name
            if not copy.is_file():  # a program that runs cannot be written to; names have digests
                partial = Path(f"{copy}.{os.getpid()}")
                partial.write_bytes(file.read_bytes())
                partial.chmod(0o755)
                partial.replace(copy)
        driver = f"/usr/lib/{root.triplet}/libvulkan_{family.library}.so"
        self._command = command(root, folder, [f"/tmp/{files[0].name}", driver], settings)
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.device = self._output.readline().decode().strip()
        if not self.device:
            raise DmlError(f"the driver opens no device: exit status {self._process.wait()} of {self._command}")

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def __enter__(self) -> ForeignCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        """As ``PipelineCompiler.compile``; seconds are those of the processor, which may be an emulated one."""
        head = struct.pack(f"<4I{len(constants)}I", len(spirv), len(constants), bindings, push_words, *constants)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, either
            self._process.stdin.write(head + spirv)
            self._process.stdin.flush()
        line = self._output.readline()
        if not line:
            status = self._process.wait()
            self._start()
            raise DmlError(f"the driver's compiler ends the process ({status})")
        statistics = json.loads(line)
        result, seconds = statistics.pop("result"), statistics.pop("seconds")
        if result != 0:
            raise DmlError(f"vkCreateComputePipelines: VkResult {result}")
        return Compiled(seconds, statistics)
