"""A network's pictures through Dask, by one device and by all."""

from __future__ import annotations

import importlib.metadata
import time
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np

import dmlvk as dml
from dmlvk.bench.network_graphs import compiled_network
from dmlvk.bench.networks import NETWORKS
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import device_selector, json_option
from dmlvk.dask import LocalCluster, map_blocks
from dmlvk.runtime.vulkan.devices import choose

_NETWORK = "ResNet-50"
_REPEATS = 3


def pictures_per_second(devices: list[int | str], batch: int, blocks: int, small: bool) -> tuple[float, list[float]]:
    """What a cluster of these devices computes, the best of three times, and its results.

    Args:
        devices: one worker for each.
        batch: pictures of a block.
        blocks: of the whole array. They are zeros that workers make, so that nothing but results travels.
        small: whether with the sizes by which the network computes the same way in a moment.
    """
    with (
        LocalCluster(devices=devices, dashboard_address=":0") as cluster,
        cluster.get_client(),
        dml.Device(devices[0]) as device,
    ):
        model = compiled_network(device, NETWORKS[_NETWORK], batch, dml.FLOAT32, small=small)
        pictures = model.inputs[0].tensor
        assert pictures is not None  # a graph's input has one
        block = tuple(pictures.sizes)
        x = da.zeros((batch * blocks, *block[1:]), dtype=np.float32, chunks=block)
        y = map_blocks(model, x)
        results: Any = y[: batch * 8 * len(devices)].compute()  # workers have the model and its kernels now
        rates = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            y.sum().compute()
            rates.append(batch * blocks / (time.perf_counter() - start))
    return max(rates), results[:batch].ravel().tolist()


@click.command()
@click.option(
    "-d", "--device", "named", multiple=True, help="A device for a worker, as often as wanted.  [default: each GPU]"
)
@click.option("-b", "--batch", type=click.IntRange(1), default=32, show_default=True, help="Pictures of a block.")
@click.option("-n", "--blocks", type=click.IntRange(8), default=200, show_default=True, help="Blocks at once.")
@click.option("--small", is_flag=True, help="With fewer channels and small pictures: a try.")
@json_option
def command(named: tuple[str, ...], batch: int, blocks: int, small: bool, json_file: Path | None) -> None:
    """Time ResNet-50 through Dask by a cluster of the first device, and by one of all.

    Exits with 1 where the results of the two differ in a bit.
    """
    there = dml.list_devices()
    devices = [device_selector(text) for text in named]
    for device in devices:
        choose(there, device)  # what is not there is an error at once
    if not devices:
        devices = [info.uuid or info.index for info in there if info.usable and info.kind != "CPU"]
    if len(devices) < 2:
        raise click.UsageError(f"cluster: takes two devices or more, and there is {len(devices)}: name them by -d")
    one, alone = pictures_per_second(devices[:1], batch, blocks, small)
    print(f"one worker: {one:.0f} pictures/s", flush=True)
    all_of_them, together = pictures_per_second(devices, batch, blocks, small)
    print(f"{len(devices)} workers: {all_of_them:.0f} pictures/s, {all_of_them / one:.2f} times as many", flush=True)
    if json_file is not None:
        results = [
            {"network": _NETWORK, "batch": batch, "workers": count, "pictures_per_second": rate}
            for count, rate in ((1, one), (len(devices), all_of_them))
        ]
        info = choose(there, devices[0])
        library = {"name": "Dask", "version": importlib.metadata.version("dask"), "device": info.name}
        write_measured(json_file, info, [library], results)
    if alone != together:
        print("the results differ")
        raise click.exceptions.Exit(1)
