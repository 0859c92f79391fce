"""Mesa's drivers for GPUs of Arm's machines, which compile pipelines here: under qemu, without such a GPU.

Debian's Mesa for arm64 has v3dv (Raspberry Pi), turnip (Qualcomm's Adreno) and panvk (Arm's Mali). Mesa's drm-shim is
their kernel, as for Intel's driver. Python is slow to start under qemu: a program of C asks the driver, and takes one
pipeline after another from this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
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
from scripts.shader_tools.pipelines import Compiled

_PROGRAM = Path(__file__).parents[1] / "native" / "pipeline_compiler.c"
_ROOT = ROOTS["aarch64_debian13"]


@dataclasses.dataclass(frozen=True)
class Family:
    """GPUs for which a driver compiles.

    Attributes:
        title: what users call them.
        driver: Mesa's name of the driver for Vulkan.
        library: the file's, without ``libvulkan_``; also the name of its drm-shim.
        settings: what the drm-shim and the driver are told by the environment.
    """

    title: str
    driver: str
    library: str
    settings: Mapping[str, str]


def _mali(title: str, number: str) -> Family:
    return Family(title, "panvk", "panfrost", {"PAN_GPU_ID": number, "PAN_I_WANT_A_BROKEN_VULKAN_DRIVER": "1"})


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "v3d42": Family("Broadcom's GPU of Raspberry Pi 4", "v3dv", "broadcom", {"V3D_VERSION": "42"}),
        "v3d71": Family("Broadcom's GPU of Raspberry Pi 5", "v3dv", "broadcom", {"V3D_VERSION": "71"}),
        "a630": Family("Qualcomm's Adreno 630", "turnip", "freedreno", {"FD_GPU_ID": "630"}),
        "a740": Family("Qualcomm's Adreno 740", "turnip", "freedreno", {"FD_GPU_ID": "740"}),
        "g52": _mali("Arm's Mali-G52", "7212"),
        "g610": _mali("Arm's Mali-G610", "a867"),
    }
)
"""By name."""


class ForeignCompiler:
    """A device that compiles pipelines, like ``PipelineCompiler``, in a process of another machine. A context manager.

    A process that the driver ends is one pipeline's failure; the next one gets another.

    Args:
        name: of one of ``FAMILIES``.

    Attributes:
        device: the device's name.

    Raises:
        DmlError: the driver opens no device.
        CrossBuildError: Debian's packages, or Mesa's source, are not to be had, or a tool is not installed.
    """

    def __init__(self, name: str) -> None:
        family = FAMILIES[name]
        if reason := why_not_here(_ROOT):
            raise CrossBuildError(reason)
        folder = unpacked(_ROOT)
        shim = drm_shim.library(family.library)
        program = drm_shim.compiled_for_arm(_PROGRAM)
        for file in (shim, program):
            (folder / "tmp" / file.name).write_bytes(file.read_bytes())
            (folder / "tmp" / file.name).chmod(0o755)
        settings = {**family.settings, "LD_PRELOAD": f"/tmp/{shim.name}", "MESA_SHADER_CACHE_DISABLE": "true"}
        driver = f"/usr/lib/{_ROOT.triplet}/libvulkan_{family.library}.so"
        self._command = command(_ROOT, folder, [f"/tmp/{program.name}", driver], {"HOME": "/tmp", **settings})
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
        """As ``PipelineCompiler.compile``; seconds are those of the emulated processor."""
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
        told = json.loads(line)
        result, seconds = told.pop("result"), told.pop("seconds")
        if result != 0:
            raise DmlError(f"vkCreateComputePipelines: VkResult {result}")
        return Compiled(seconds, told)
