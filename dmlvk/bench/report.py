"""What was measured, with all that a reader needs to judge it; as JSON and back."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dmlvk
from dmlvk.bench.libraries import Library
from dmlvk.bench.measurement import Result
from dmlvk.bench.peaks import peak_of
from dmlvk.runtime.vulkan import DeviceInfo
from dmlvk.support.files import write_whole

if TYPE_CHECKING:
    from dmlvk.device import Device

_ON_THE_HOST = ("NumPy", "ONNX Runtime")  # What computes in caches of the host, or (ONNX's Identity) nothing at all


def named(library: Library) -> dict[str, str]:
    return {"name": library.name, "version": library.version, "device": library.device}


def environment(device: DeviceInfo, libraries: Iterable[dict[str, str]]) -> dict[str, Any]:
    """The members of :class:`BenchReport` from ``date`` to ``libraries``, of what is measured now."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": device.name,
        "driver": f"{device.driver} {device.driver_version}",
        "device_kind": device.kind,
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}",
        "libraries": tuple(libraries),
    }


def write_json(path: Path, contents: dict[str, Any]) -> None:
    """Writes what was measured; each result on a line of its own."""
    others = {name: value for name, value in contents.items() if name != "results"}
    head = json.dumps(others, indent=1).removesuffix("\n}")
    results = ",\n".join(f"  {json.dumps(result)}" for result in contents["results"])
    write_whole(path, f'{head},\n "results": [\n{results}\n ]\n}}\n')


def write_measured(
    path: Path,
    device: DeviceInfo,  # the one that was measured
    libraries: Iterable[dict[str, str]],  # name, version and device of each that was measured
    results: Sequence[dict[str, Any]],
) -> None:
    """Writes results that were measured a moment ago, with the environment as ``dmlvk bench --json`` has it."""
    write_json(path, {**environment(device, libraries), "results": list(results), "dmlvk": dmlvk.__version__})


@dataclasses.dataclass(frozen=True)
class BenchReport:
    date: str  # when, as ISO 8601 in UTC
    device: str  # the Vulkan device, by what it calls itself
    driver: str  # its driver, with version
    device_kind: str  # ``discrete GPU``, ``CPU`` …
    host: str  # the machine's system and processors
    libraries: tuple[dict[str, str], ...]  # name, version and device of each that was measured
    arithmetic: str  # ``portable`` or ``device``
    absent: dict[str, str]  # for each library that was not measured, why
    results: tuple[Result, ...]  # in the order in which they were measured

    @classmethod
    def of(
        cls, device: Device, libraries: Sequence[Library], absent: dict[str, str], results: Sequence[Result]
    ) -> BenchReport:
        """Of results that were measured a moment ago."""
        facts = environment(device.info, [named(library) for library in libraries])
        return cls(**facts, arithmetic=device.arithmetic, absent=absent, results=tuple(results))

    def peak(self) -> float | None:
        """FLOAT32 operations a second that the device can do at most; ``None``: not known."""
        return peak_of(self.device)

    def ceiling(self) -> float | None:
        """The best bandwidth of a packed copy (IDENTITY) of any library on the device, in bytes a second.

        Of the largest size: smaller ones fit into caches.
        """
        copies = [r for r in self.results if r.operator == "ELEMENT_WISE_IDENTITY" and r.layout == "contiguous"]
        largest = max((result.work for result in copies), default=0)
        bandwidths = [
            bandwidth
            for result in copies
            if result.work == largest
            for timing in result.timings
            if timing.library not in _ON_THE_HOST and (bandwidth := result.speed(timing.library)) is not None
        ]
        return max(bandwidths, default=None)

    def write(self, path: Path) -> None:
        """Writes everything as JSON, with the speeds worked out."""
        contents = dataclasses.asdict(self)
        contents["dmlvk"] = dmlvk.__version__
        contents["copy_ceiling_in_bytes_per_second"] = self.ceiling()
        contents["peak_in_operations_per_second"] = self.peak()
        for result, entry in zip(self.results, contents["results"], strict=True):
            for timing in entry["timings"]:
                timing["speed"] = result.speed(timing["library"])
        write_json(path, contents)
