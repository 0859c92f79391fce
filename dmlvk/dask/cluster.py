"""Clusters of processes with a Vulkan device each."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import distributed
from dask import config
from dask.system import CPU_COUNT
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker_memory import parse_memory_limit

from dmlvk.errors import DeviceNotFoundError, InvalidArgumentError
from dmlvk.objects.portable import default_device
from dmlvk.runtime.vulkan import DeviceInfo, list_devices
from dmlvk.runtime.vulkan.devices import choose

_log = logging.getLogger("dmlvk")

# By default a cluster gives a worker up that is not back 15 s after it died. One that opens a device takes longer on a
# busy machine. Whoever has set a time of his own keeps it.
config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": "300s"}}})

THREADS_OF_GPU = 2
"""Of a worker with a GPU: one copies, and hears of its next task, while the other one waits for the GPU. (ResNet-50, 32
pictures at a time, two NVIDIA H200: 1564 and 2889 pictures/s with one thread, 2184 and 4181 with two; three are alike.)
A processor computes with all of its threads for one."""

RESOURCE = "VULKAN"
"""The resource of which each worker with a device has one: ``dask.annotate(resources={"VULKAN": 1})``."""


class DevicePlugin(WorkerPlugin):
    """Opens a worker's device when the worker starts, which fails where it cannot be used, and offers VULKAN=1.

    Args:
        device: index, UUID, PCI address or part of the name; ``None``: as DMLVK_DEVICE says, else the best one.
    """

    name = "dmlvk-device"
    idempotent = True

    def __init__(self, device: int | str | None = None) -> None:
        self._device = device

    async def setup(self, worker: distributed.Worker) -> None:
        """Called by the worker."""
        if self._device is not None:
            os.environ["DMLVK_DEVICE"] = str(self._device)
        info = default_device().info
        if RESOURCE not in worker.state.total_resources:
            if worker.status is distributed.Status.running:
                await worker.set_resources(**{RESOURCE: 1})
            else:  # the scheduler learns of it when the worker registers
                worker.state.total_resources[RESOURCE] = worker.state.available_resources[RESOURCE] = 1
        _log.info(
            "worker %s: %s, %s, UUID %s, PCI %s", worker.name, info.name, info.driver, info.uuid, info.pci_address
        )


class LocalCluster(distributed.LocalCluster):
    """A cluster on this machine: for each Vulkan device a process, of two threads for a GPU, that works on it alone.

    A worker that dies is started again. Tasks that need a device can be kept from other workers by
    ``dask.annotate(resources={"VULKAN": 1})``.

    Args:
        devices: ``"all"``: every device that can be used, a card that two drivers offer once; ``"gpus"``: of these the
            GPUs; or a sequence of what ``dmlvk.Device`` takes, in which a device named twice gets two workers.
        n_workers: how many of them to start at first; ``None``: all.
        env: variables for the workers' environments, the same for all or a function of the device.
        options: as for ``distributed.LocalCluster``: ``memory_limit`` (``"auto"`` shares the machine's memory out),
            ``dashboard_address``, ``asynchronous`` and so on.

    Raises:
        DeviceNotFoundError: when there is no such device.
        InvalidArgumentError: when the arguments do not fit.
    """

    def __init__(
        self,
        devices: int | str | Sequence[int | str] = "all",
        *,
        n_workers: int | None = None,
        env: Mapping[str, str] | Callable[[DeviceInfo], Mapping[str, str]] | None = None,
        **options: Any,
    ) -> None:
        there = list_devices()
        self.devices = _wanted(devices, there)
        count = len(self.devices) if n_workers is None else n_workers
        if not 0 <= count <= len(self.devices):
            raise InvalidArgumentError(
                f"LocalCluster: n_workers must be from 0 to {len(self.devices)}, the devices; got {n_workers!r}"
            )
        if "threads_per_worker" in options or options.get("processes") is False:
            raise InvalidArgumentError("LocalCluster: every device has a process, of one thread or, for a GPU, two")
        cpus = sum(info.kind == "CPU" for info in self.devices)
        self._environments = [_environment(info, there, cpus, env) for info in self.devices]
        memory = options.pop("memory_limit", "auto")
        super().__init__(  # type: ignore[no-untyped-call]  # is not annotated
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            memory_limit=parse_memory_limit(memory, 1, len(self.devices), logger=_log),
            resources={RESOURCE: 1, **options.pop("resources", {})},
            plugins=(DevicePlugin(), *options.pop("plugins", ())),
            **options,
        )
        for _ in range(count):
            self.worker_spec.update(self.new_worker_spec())
        if not self.asynchronous:  # else `await cluster` does it
            self.sync(self._correct_state)  # type: ignore[no-untyped-call]

    def new_worker_spec(self) -> dict[int, dict[str, Any]]:
        free = [number for number in range(len(self.devices)) if number not in self.worker_spec]
        if not free:
            raise InvalidArgumentError(f"LocalCluster: each of the {len(self.devices)} devices has a worker")
        spec = copy.copy(self.new_spec)
        threads = 1 if self.devices[free[0]].kind == "CPU" else THREADS_OF_GPU
        spec["options"] = {**spec["options"], "env": self._environments[free[0]], "nthreads": threads}
        return {free[0]: spec}


def _wanted(devices: int | str | Sequence[int | str], there: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    if isinstance(devices, Iterable) and not isinstance(devices, str):
        found = [choose(there, selector) for selector in devices]
    elif devices in ("all", "gpus"):
        found = [info for info in _once(there) if info.usable and (devices == "all" or info.kind != "CPU")]
    else:
        found = [choose(there, devices)]
    if not found:
        raise DeviceNotFoundError(f"LocalCluster: there is no device for devices={devices!r}; see `dmlvk devices`")
    return found


def _once(there: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices, of several drivers' for one card only the first."""
    addresses: set[str] = set()
    kept = []
    for info in there:
        if info.usable and info.pci_address is not None:
            if info.pci_address in addresses:
                continue
            addresses.add(info.pci_address)
        kept.append(info)
    return kept


def selector_of(info: DeviceInfo, there: Sequence[DeviceInfo]) -> str:
    """What names a device in every process: its UUID, else its PCI address, else its index."""
    for name in ("uuid", "pci_address"):
        value: str | None = getattr(info, name)
        if value is not None and sum(getattr(other, name) == value for other in there) == 1:
            return value
    return str(info.index)


def _environment(
    info: DeviceInfo,
    there: Sequence[DeviceInfo],
    cpus: int,
    env: Mapping[str, str] | Callable[[DeviceInfo], Mapping[str, str]] | None,
) -> dict[str, str]:
    made = {"DMLVK_DEVICE": selector_of(info, there)}
    if info.kind == "CPU" and "LP_NUM_THREADS" not in os.environ:  # llvmpipe's: they share the cores
        made["LP_NUM_THREADS"] = str(max(1, CPU_COUNT // cpus))
    return {**made, **(env(info) if callable(env) else env or {})}
