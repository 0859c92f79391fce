"""For workers that are started elsewhere: ``dask worker … --preload dmlvk.dask.preload [--vulkan-device UUID]``."""

from __future__ import annotations

import click
import distributed

from dmlvk.dask.cluster import DevicePlugin


@click.command()
@click.option("--vulkan-device", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
async def dask_setup(worker: distributed.Worker, vulkan_device: str | None) -> None:
    """Opens the worker's device, and offers VULKAN=1."""
    await worker.plugin_add(DevicePlugin(vulkan_device))
