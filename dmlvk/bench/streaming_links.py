"""How fast blocks go to a device and back where nothing is computed, and where a model is.

Always from NumPy arrays to new NumPy arrays, in as many threads as the stream has, each with buffers of its own: the
host copies a block into memory that the device reads, the device takes it and gives another one back, the host copies
that out. One thread copies while another one waits for the device.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import copied, copy_elements

_BYTES_OF_A_THREAD = 640 * 2**20
_GIBIBYTE = 2**30

Block = npt.NDArray[np.float32]


def _gibibytes_per_second(makers: list[Callable[[], object]], nbytes: int) -> float:
    """Blocks of all threads, each of which calls what was made for it again and again; the best of three times."""

    def work(make: Callable[[], object], count: int) -> None:
        for _ in range(count):
            make()

    def seconds(count: int) -> float:
        threads = [threading.Thread(target=work, args=(make, count)) for make in makers]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    blocks = max(_BYTES_OF_A_THREAD // nbytes, 2)
    seconds(2)
    best = min(seconds(blocks) for _ in range(3))
    return len(makers) * blocks * nbytes / _GIBIBYTE / best


def staged(device: dml.Device, block: Block, threads: int) -> float | None:
    """GiB/s of blocks there and back through Kompute's staging buffers; None where the device has the host's memory."""
    engine = device.engine
    pairs = [[engine.allocate(block.nbytes), engine.allocate(block.nbytes)] for _ in range(threads)]
    try:
        if not pairs[0][0].has_staging:
            return None

        def maker(pair: list[Any]) -> Callable[[], object]:
            there, back = pair
            recording = engine.record([], upload=[there], download=[back])

            def go() -> object:
                with engine.afterwards, engine.afterwards.visit():
                    copy_elements(there.host_bytes, block.reshape(-1).view(np.uint8))
                    engine.run_whole(recording)
                    return copied(back.host_bytes)

            return go

        return _gibibytes_per_second([maker(pair) for pair in pairs], block.nbytes)
    finally:
        for pair in pairs:
            for allocation in pair:
                engine.release(allocation)


def computed(device: dml.Device, model: dml.CompiledOperator, block: Block, threads: int) -> float:
    """GiB/s of blocks through a model with one input, x: the stream itself, without Dask."""
    return _gibibytes_per_second([lambda: device.run(model, {"x": block})] * threads, block.nbytes)


def pinned(torch: Any, block: Block, threads: int) -> dict[str, float]:
    """GiB/s of blocks there and back by PyTorch, through pinned memory and streams of its own for each thread."""
    size = block.size
    source = block.reshape(-1)

    def maker(copies: bool) -> Callable[[], object]:
        there, back = (torch.empty(size, pin_memory=True) for _ in range(2))
        on_device, stream = torch.empty(size, device="cuda"), torch.cuda.Stream()

        def go() -> object:
            if copies:
                copy_elements(there.numpy(), source)
            with torch.cuda.stream(stream):
                on_device.copy_(there, non_blocking=True)
                back.copy_(on_device, non_blocking=True)
            stream.synchronize()
            return copied(back.numpy()) if copies else None

        return go

    names = {"PyTorch, pinned, without the host's copies": False, "PyTorch, pinned, with the host's copies": True}
    return {
        name: _gibibytes_per_second([maker(copies) for _ in range(threads)], block.nbytes)
        for name, copies in names.items()
    } | {
        "PyTorch, NumPy to NumPy by .cuda() and .cpu()": _gibibytes_per_second(
            [lambda: torch.from_numpy(source).cuda().cpu().numpy()] * threads, block.nbytes
        )
    }
