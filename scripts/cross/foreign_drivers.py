"""Debian 13's RADV, which compiles pipelines without such a GPU: newer than Debian 12's, with cooperative matrices.

A program of C asks the driver, and takes one pipeline after another from this process: Python cannot leave its root.
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
from scripts.shader_tools.pipelines import UNCACHED, Compiled

_PROGRAM = Path(__file__).parents[1] / "native" / "pipeline_compiler.c"


@dataclasses.dataclass(frozen=True)
class Family:
    """GPUs for which the driver compiles."""

    settings: Mapping[str, str]  # what it is told by the environment
    target: str = "matrices of 64"  # what kernels may know of such a GPU (``shader_tools/launches.py``)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {name: Family({"RADV_FORCE_FAMILY": name.upper()}) for name in ("navi31", "phoenix")}
)
"""By name: of the RX 7900, of the Ryzen 7040."""


class ForeignCompiler:
    """A device that compiles pipelines, like ``PipelineCompiler``, in a process of another machine. A context manager.

    A process that the driver ends is one pipeline's failure; the next one gets another.

    Args:
        name: of one of ``FAMILIES``.

    Attributes:

    Raises:
        DmlError: the driver opens no device.
        CrossBuildError: Debian's packages, are not to be had, or a tool is not installed.
    """

    def __init__(self, name: str) -> None:
        self.family = family = FAMILIES[name]
        root = DEBIAN13
        if reason := why_not_here(root):
            raise CrossBuildError(reason)
        folder = unpacked(root)
        settings = {"HOME": "/tmp", **UNCACHED, **family.settings}
        program = drm_shim.compiled_program(_PROGRAM)
        copy = folder / "tmp" / program.name
        if not copy.is_file():  # a program that runs cannot be written to; names have digests
            partial = Path(f"{copy}.{os.getpid()}")
            partial.write_bytes(program.read_bytes())
            partial.chmod(0o755)
            partial.replace(copy)
        driver = f"/usr/lib/{root.triplet}/libvulkan_radeon.so"
        self._command = command(folder, [f"/tmp/{program.name}", driver], settings)
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
