"""Drivers for GPUs that are not here, which compile compute pipelines that are never run, and tell what they made.

A program of C asks a driver, and takes one pipeline after another from this process. Mesa's RADV with RADV_FORCE_FAMILY
needs no card; anv takes a library for the kernel (``drm_shim.py``); Debian 13's RADV, which has cooperative matrices,
runs in a root of its own, which Python cannot enter.
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
from scripts.cross.debian_roots import DEBIAN13, command, unpacked, why_not_here
from scripts.cross.targets import CrossBuildError

UNCACHED = MappingProxyType(
    {"MESA_SHADER_CACHE_DISABLE": "true", "RADV_DEBUG": "nocache", "VK_ENABLE_PIPELINE_CACHE": "false"}
)
"""Settings by which Mesa's drivers compile a pipeline anew, though they have it: only then times can be told."""

OF_DEBIAN_13 = ("navi31", "phoenix")
"""Families that its RADV compiles for: of the RX 7900, of the Ryzen 7040."""

_PROGRAM = Path(__file__).parents[1] / "native" / "pipeline_compiler.c"
_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")


@dataclasses.dataclass(frozen=True)
class Family:
    """GPUs by the driver's name.

    Attributes:
        driver: Mesa's name of it.
        target: what kernels may know of such a GPU (``shader_tools/launches.py``).
    """

    name: str

    @property
    def driver(self) -> str:
        return "anv" if self.name in drm_shim.PLATFORMS else "RADV"

    @property
    def target(self) -> str:
        if self.name in OF_DEBIAN_13:
            return "matrices of 64"
        if self.driver == "anv":
            return "64 registers"
        # Mesa 22.3, which Debian 12 has, gives RDNA 3 half of what there is, and calls it by such names.
        return "128 registers" if self.name.startswith("GFX11") else "256 registers"

    def command(self) -> list[str]:
        """What starts the program that has this family's driver.

        Raises:
            CrossBuildError: the driver, or a tool, is not here, and cannot be had.
        """
        program = drm_shim.compiled_program(_PROGRAM)
        if self.name in OF_DEBIAN_13:
            return _in_root(program, {**UNCACHED, "RADV_FORCE_FAMILY": self.name.upper()})
        settings = {**UNCACHED, "RADV_FORCE_FAMILY": self.name}
        library = _library("intel" if self.driver == "anv" else "radeon")
        if self.driver == "anv":
            settings = {**UNCACHED, "INTEL_STUB_GPU_PLATFORM": self.name, "LD_PRELOAD": str(drm_shim.library())}
        return ["env", *(f"{name}={value}" for name, value in settings.items()), str(program), library]


def _library(driver: str) -> str:
    """One of Mesa's drivers, by what its manifest says."""
    for folder in _FOLDERS:
        for machine in (".x86_64", "", ".aarch64"):
            manifest = Path(folder, f"{driver}_icd{machine}.json")
            if manifest.is_file():
                return str(json.loads(manifest.read_text("utf-8"))["ICD"]["library_path"])
    raise CrossBuildError(f"Mesa's driver {driver} is not here (apt install mesa-vulkan-drivers)")


def _in_root(program: Path, settings: Mapping[str, str]) -> list[str]:
    root = DEBIAN13
    if reason := why_not_here(root):
        raise CrossBuildError(reason)
    folder = unpacked(root)
    copy = folder / "tmp" / program.name
    if not copy.is_file():  # a program that runs cannot be written to; names have digests
        partial = Path(f"{copy}.{os.getpid()}")
        partial.write_bytes(program.read_bytes())
        partial.chmod(0o755)
        partial.replace(copy)
    driver = f"/usr/lib/{root.triplet}/libvulkan_radeon.so"
    return command(folder, [f"/tmp/{program.name}", driver], {"HOME": "/tmp", **settings})


@dataclasses.dataclass(frozen=True)
class Compiled:
    seconds: float  # of a processor core, to compile it
    statistics: dict[str, int]  # the driver's own numbers, by its own names


class PipelineCompiler:
    """A device that compiles pipelines, in a process of its own. A context manager.

    A process that the driver ends is one pipeline's failure; the next one gets another.

    Args:
        command: what starts it, of a :class:`Family`.

    Attributes:
        device: its name.

    Raises:
        DmlError: the driver opens no device.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
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

    def __enter__(self) -> PipelineCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        """Compiles a module as Kompute would.

        Args:
            constants: its specialization constants, from id 0 on.
            bindings: how many storage buffers it has.
            push_words: how many words of push constants.

        Raises:
            DmlError: the driver refuses it, or ends its process.
        """
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
