"""Clusters: a process for each device; the same bits whoever computes; what is lost is computed again.

One cluster of four workers (the quick command: two), on as many drivers as there are, serves all checks: processes take
seconds to start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import time
import unittest.mock
from collections.abc import Iterator
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
import psutil
import pytest
from dask.base import annotate
from distributed import Client, Event

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.dask import LocalCluster, map_blocks, map_overlap, reduce
from dmlvk.dask.cluster import _environment, _once, _wanted, selector_of
from dmlvk.objects.portable import Portable
from tests.effort import IS_QUICK

DEVICES = dml.list_devices()
WORKERS = 2 if IS_QUICK else 4

Started: TypeAlias = tuple[LocalCluster, Client]


@contextlib.contextmanager
def started() -> Iterator[Started]:
    """Half of the workers on each driver, the last one of two threads; none of the processes is left behind."""
    selectors = [DEVICES[number * len(DEVICES) // WORKERS].index for number in range(WORKERS)]
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    wanted = _wanted

    def with_a_gpu(*devices: Any) -> list[dml.DeviceInfo]:
        *others, last = wanted(*devices)
        return [*others, dataclasses.replace(last, kind="discrete GPU")]

    with unittest.mock.patch("dmlvk.dask.cluster._wanted", with_a_gpu):
        made = LocalCluster(selectors, dashboard_address=":0", env={"DMLVK_TRIED": "yes"})
    try:
        with Client(made, set_as_default=False) as client:
            yield made, client
    finally:
        workers = [child for child in psutil.Process().children(recursive=True) if is_worker(child, before)]
        with contextlib.suppress(TimeoutError):  # Dask gives up waiting where a machine does much else; we do not
            made.close()
        _, alive = psutil.wait_procs(workers, timeout=60)
        for each in alive:
            each.kill()
    assert len(workers) >= WORKERS and alive == []


def is_worker(child: psutil.Process, before: set[int]) -> bool:
    """Whether a process was started for the cluster; Python's own helper stays for the next ones."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return child.pid not in before and "resource_tracker" not in " ".join(child.cmdline())
    return False


def picture(rows: int = 64) -> da.Array:
    values = np.random.default_rng(5).standard_normal((512, 256)).astype(np.float32)
    made: da.Array = da.from_array(values, chunks=(rows, 128))
    return made


def smoothed(x: dml.Expression) -> dml.Expression:
    return F.tanh(0.3 * x[:-2, 1:-1] + x[1:-1, 1:-1] * x[2:, :-2]) / 7 - x[1:-1, 2:]


def work(array: da.Array) -> da.Array:
    made: da.Array = map_overlap(smoothed, array, depth=1, boundary="reflect", trim=False)
    return made


def hash_of(array: Any) -> str:
    return hashlib.sha256(np.asarray(array).tobytes()).hexdigest()


def computed(client: Client, array: da.Array, **options: Any) -> Any:
    return client.compute(array, **options).result(timeout=300)


def check_each_worker_has_a_process_threads_and_a_device_of_its_own(cluster: Started) -> None:
    made, client = cluster
    workers = client.scheduler_info(n_workers=-1)["workers"]
    assert len(workers) == WORKERS
    assert all(each["resources"] == {"VULKAN": 1} for each in workers.values())
    assert sorted(each["nthreads"] for each in workers.values()) == [1] * (WORKERS - 1) + [2]

    def reported(dask_worker: Any) -> tuple[object, ...]:
        return dask_worker.name, dml.default_device().info.uuid, os.environ["DMLVK_TRIED"], os.getpid()

    found = sorted(client.run(reported).values())
    assert [name for name, *_ in found] == list(range(WORKERS))
    assert [uuid for _, uuid, *_ in found] == [info.uuid for info in made.devices]
    assert len({pid for *_, pid in found}) == WORKERS
    assert all(tried == "yes" for *_, tried, _ in found)
    with pytest.raises(dml.InvalidArgumentError, match=f"each of the {WORKERS} devices has a worker"):
        made.new_worker_spec()


def check_one_worker_and_four_of_unlike_devices_give_the_same_bits(cluster: Started) -> None:
    _, client = cluster
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    hashes = [
        hash_of(computed(client, work(picture()), workers=chosen)) for chosen in ([workers[0]], [workers[-1]], workers)
    ]
    with annotate(resources={"VULKAN": 1}):
        annotated = work(picture(512))
    hashes.append(hash_of(computed(client, annotated)))  # cut in another way
    assert len(set(hashes)) == 1
    totals = [computed(client, reduce("SUM", picture(256)), workers=[workers[number]]) for number in (0, -1)]
    assert totals[0].tobytes() == totals[1].tobytes()


def check_a_model_is_compiled_once_in_each_worker_however_often_it_arrives(cluster: Started) -> None:
    _, client = cluster
    with dml.Device(DEVICES[0].index) as device:
        graph = dml.Graph(device)
        x = graph.input("x", dml.FLOAT32, (3,))
        compiled = graph.compile(y=x * 2 + 1)

    def used(model: dml.CompiledGraph, number: int) -> tuple[int, int, float]:
        values = np.full(3, number, np.float32)
        return os.getpid(), id(model), float(model.device.run(model, {"x": values})["y"][0])

    results = client.gather(client.map(lambda number: used(compiled, number), range(12)))
    assert [value for *_, value in results] == [2 * number + 1 for number in range(12)]
    assert len({(pid, model) for pid, model, _ in results}) == len({pid for pid, *_ in results})


def check_a_large_model_is_sent_once_and_outlives_the_worker_that_has_it(cluster: Started) -> None:
    """Whatever arrays it is mapped over."""
    _, client = cluster
    weights = np.random.default_rng(1).standard_normal((512, 1024)).astype(np.float32)
    with dml.Device(DEVICES[0].index) as device:
        graph = dml.Graph(device)
        x = graph.input("x", dml.FLOAT32, (1, 512))
        compiled = graph.compile(y=F.gemm(x, graph.constant(weights)))
        first, second = (np.random.default_rng(seed).standard_normal((6, 512)).astype(np.float32) for seed in (2, 3))
        expected = [device.run(compiled, {"x": row[None]})["y"][0] for row in second]
    sent: list[object] = []
    reduce_portable = Portable.__reduce__

    def counted(model: Portable) -> tuple[Any, ...]:
        sent.append(model)
        return reduce_portable(model)

    with client.as_current(), unittest.mock.patch.object(Portable, "__reduce__", counted):
        client.compute(map_blocks(compiled, da.from_array(first, chunks=(1, 512)))).result(timeout=300)
        assert sent
        sent.clear()
        mapped = map_blocks(compiled, da.from_array(second, chunks=(1, 512)))
        assert np.array_equal(client.compute(mapped).result(timeout=300), expected)
        assert sent == []
    holders = {worker for key, each in client.who_has().items() if "-model-" in str(key) for worker in each}
    killed = [pid for address, pid in client.run(os.getpid).items() if address in holders]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert killed and np.array_equal(client.compute(mapped).result(timeout=300), expected)
    client.wait_for_workers(WORKERS, timeout=300)


def check_a_lost_device_fails_the_task_with_the_error_of_dmlvk_and_the_worker_goes_on(cluster: Started) -> None:
    _, client = cluster
    (worker, *_) = client.scheduler_info(n_workers=-1)["workers"]
    made = work(picture())
    expected = hash_of(computed(client, made, workers=[worker]))

    def lose() -> int:
        from dmlvk.runtime.guard import Guard
        from dmlvk.runtime.kompute import Engine

        kept = {name: getattr(Engine, name) for name in ("run", "run_whole")}

        def lost(engine: Any, recording: Any) -> None:
            for name, method in kept.items():
                setattr(Engine, name, method)
            with Guard(engine, "running on the device"):
                raise RuntimeError("vk::Queue::submit: ErrorDeviceLost")

        for name in kept:
            setattr(Engine, name, lost)
        return os.getpid()

    pid = client.run(lose, workers=[worker])[worker]
    failing = client.compute(work(picture(128)), workers=[worker])
    with pytest.raises(dml.DeviceRemovedError, match=r"the device was lost while running on the device .*DeviceLost"):
        failing.result(timeout=300)
    assert hash_of(computed(client, made, workers=[worker])) == expected
    assert client.run(os.getpid, workers=[worker])[worker] == pid


def check_a_worker_from_elsewhere_joins_by_the_preload(cluster: Started) -> None:
    made, client = cluster
    last = DEVICES[-1]
    command = ["distributed.cli.dask_worker", made.scheduler_address, "--nthreads", "1", "--name", "elsewhere"]
    options = ["--no-nanny", "--no-dashboard", "--preload", "dmlvk.dask.preload", "--vulkan-device", str(last.uuid)]
    with subprocess.Popen([sys.executable, "-m", *command, *options], stderr=subprocess.PIPE, text=True) as process:
        try:
            client.wait_for_workers(WORKERS + 1, timeout=300)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            (address,) = (address for address, each in workers.items() if each["name"] == "elsewhere")
            assert workers[address]["resources"] == {"VULKAN": 1}
            found = client.run(lambda: dml.default_device().info.uuid, workers=[address])
            assert found == {address: last.uuid}
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def check_a_worker_killed_in_the_middle_changes_nothing(cluster: Started) -> None:
    _, client = cluster
    expected = hash_of(computed(client, work(picture())))

    def waiting(block: Any, block_id: tuple[int, ...]) -> Any:
        assert block_id != (7, 1) or Event("killed").wait(120)
        return block

    waits = da.map_blocks(waiting, picture(), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    future = client.compute(work(waits))
    address, pid = next(iter(client.run(os.getpid).items()))
    deadline = time.monotonic() + 120
    while not client.has_what([address])[address] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not future.done()
    os.kill(pid, signal.SIGKILL)
    Event("killed", client=client).set()
    assert hash_of(future.result(timeout=300)) == expected
    client.wait_for_workers(WORKERS, timeout=300)  # a new one was started in its place
    assert pid not in client.run(os.getpid, on_error="ignore").values()  # connections to the old one may be closed


CHECKS = (
    check_each_worker_has_a_process_threads_and_a_device_of_its_own,
    check_one_worker_and_four_of_unlike_devices_give_the_same_bits,
    check_a_model_is_compiled_once_in_each_worker_however_often_it_arrives,
    check_a_lost_device_fails_the_task_with_the_error_of_dmlvk_and_the_worker_goes_on,
    check_a_large_model_is_sent_once_and_outlives_the_worker_that_has_it,
    check_a_worker_from_elsewhere_joins_by_the_preload,
    check_a_worker_killed_in_the_middle_changes_nothing,
)
SLOW_CHECKS = (check_a_large_model_is_sent_once_and_outlives_the_worker_that_has_it,)
"""A worker more is started; the quick command does without."""


@pytest.mark.sweep
def test_a_cluster_of_unlike_devices() -> None:
    """One test, because pytest-xdist would start a cluster in each of its processes that gets one of several."""
    with started() as cluster:
        for check in CHECKS:
            if not (IS_QUICK and check in SLOW_CHECKS):
                check(cluster)


def test_devices_that_a_cluster_can_have() -> None:
    from dataclasses import replace

    card = replace(DEVICES[0], kind="discrete GPU", uuid="a" * 32, pci_address="0000:3b:00.0")
    other_driver = replace(card, index=1, driver="other")
    twin = replace(card, index=2, uuid=None, pci_address="0000:af:00.0")
    cpu = replace(card, index=3, kind="CPU", uuid="b" * 32, pci_address=None)
    unusable = replace(cpu, index=4, usable=False, unusable_reason="has no compute queue")
    there = [card, other_driver, twin, cpu, unusable]
    assert _once(there) == [card, twin, cpu, unusable]
    assert _wanted("all", there) == [card, twin, cpu]
    assert _wanted("gpus", there) == [card, twin]
    assert _wanted([3, 3], there) == [cpu, cpu]
    assert [selector_of(info, there) for info in there] == ["0", "1", "0000:af:00.0", "3", "4"]
    assert selector_of(cpu, [card, cpu]) == "b" * 32
    assert set(_environment(card, [card, cpu], 1, None)) == {"DMLVK_DEVICE"}
    assert _environment(cpu, [cpu], 2, lambda info: {"KIND": info.kind})["KIND"] == "CPU"
    with pytest.raises(dml.DeviceNotFoundError, match="there is no device for devices='gpus'"):
        _wanted("gpus", [cpu])


def test_a_gpu_is_kept_busy_by_two_threads_and_a_processor_by_one() -> None:
    with LocalCluster([0], n_workers=0, dashboard_address=":0") as cluster:
        (info,) = cluster.devices
        for kind, threads in (("CPU", 1), ("discrete GPU", 2), ("integrated GPU", 2)):
            cluster.devices = [dataclasses.replace(info, kind=kind)]
            (spec,) = cluster.new_worker_spec().values()
            assert spec["options"]["nthreads"] == threads


def test_clusters_that_cannot_be_are_refused_before_any_process_starts() -> None:
    with pytest.raises(dml.DeviceNotFoundError, match="No Vulkan device matches device 'no such device'"):
        LocalCluster(["no such device"])
    with pytest.raises(dml.InvalidArgumentError, match="n_workers must be from 0 to 1, the devices; got 2"):
        LocalCluster([0], n_workers=2)
    with pytest.raises(dml.InvalidArgumentError, match="a process, of one thread or, for a GPU, two"):
        LocalCluster([0], threads_per_worker=2)
