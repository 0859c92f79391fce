"""Small operators and transfers, beside PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import dmlvk as dml
from dmlvk.bench.libraries import module
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.selection import chosen_device, device_option, json_option
from dmlvk.runtime.kompute_choice import is_bundled

_ELEMENTS = 1024
_CHAIN = 1000


def median_seconds(work: Callable[[], object], repeats: int = 300, warm_up: int = 30) -> float:
    """The median time of a call."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def medians_in_turn(works: list[Callable[[], object]], rounds: int = 12) -> list[float]:
    """The median times of calls that take turns: whatever else the machine does meets all of them.

    A turn is 30 calls, of which the first 5 do not count: each work has a Vulkan device of its own, and a GPU that goes
    over from one to another takes 200 µs (an NVIDIA H200).
    """
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, seconds, strict=True):
            for number in range(30):
                start = time.perf_counter()
                work()
                if number >= 5:
                    taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def sign(device: dml.Device, elements: int) -> dml.CompiledOperator:
    """SIGN of FLOAT32."""
    tensor = dml.TensorDesc(dml.FLOAT32, (elements,))
    return device.compile_operator(
        device.create_operator(dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor))
    )


def recorder(
    device: dml.Device, operator: dml.CompiledOperator, buffers: tuple[dml.Buffer, dml.Buffer], count: int
) -> dml.CommandRecorder:
    """Dispatches from one buffer into the other and back, each of which needs the one before."""
    tables = []
    for source, target in (buffers, buffers[::-1]):
        table = device.create_binding_table(operator)
        table.bind_inputs([dml.BufferBinding(source)])
        table.bind_outputs([dml.BufferBinding(target)])
        tables.append(table)
    made = device.create_command_recorder()
    for number in range(count):
        made.record_dispatch(operator, tables[number % 2])
    return made


class PrintedRows:
    """What was measured, printed as it comes."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []  # for the JSON file

    def show(self, what: str, seconds: float, remark: str = "", **figures: float) -> None:
        """One line; in the entry the figures stand in place of the remark, which is made of them."""
        self.entries.append({"name": what, "seconds": seconds, **figures})
        print(f"  {what:<58}{seconds * 1e6:12.1f} µs  {remark}".rstrip())

    def show_transfer(self, what: str, seconds: float, size: int) -> None:
        """One line about a number of bytes."""
        speed = size / seconds
        self.show(what, seconds, f"{speed / 1e9:.1f} GB/s", bytes=size, bytes_per_second=speed)


def small_work(rows: PrintedRows, device: dml.Device) -> None:
    """One operator, many operators, and one call."""
    x = np.random.default_rng(1).normal(0, 1, _ELEMENTS).astype(np.float32)
    operator = sign(device, _ELEMENTS)
    buffers = (device.create_buffer(x.nbytes), device.create_buffer(x.nbytes))
    buffers[0].upload(x)
    one = recorder(device, operator, buffers, 1)
    rows.show("one small operator, submitted and waited for", median_seconds(one.execute))
    chain = recorder(device, operator, buffers, _CHAIN)
    rows.show(f"one of {_CHAIN} dependent small operators", median_seconds(chain.execute, 20, 3) / _CHAIN)
    taken = median_seconds(lambda: device.run(operator, {"InputTensor": x}))
    rows.show(f"Device.run, {_ELEMENTS} elements, NumPy to NumPy", taken)


def sessions(rows: PrintedRows, device: dml.Device, mebibytes: int) -> None:
    """The same operator as a model: from NumPy to NumPy, and between values that stay on the device."""
    import dmlvk.onnx as ort

    x = np.random.default_rng(1).normal(0, 1, _ELEMENTS).astype(np.float32)
    session = ort.InferenceSession(sign_model(), device=device)
    rows.show("an ONNX session, NumPy to NumPy", median_seconds(lambda: session.run(None, {"x": x})))
    for size in (_ELEMENTS, mebibytes * 2**18):
        zeros = np.zeros(size, np.float32)
        values = [ort.OrtValue.ortvalue_from_numpy(zeros, "dml") for _ in "xy"]
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", values[0])
        binding.bind_ortvalue_output("y", values[1])

        def run(binding: Any = binding) -> None:
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        what = f"{size} elements" if size == _ELEMENTS else f"{mebibytes} MiB"
        rows.show(f"an ONNX session, {what} bound on the device", median_seconds(run, 100, 10))


def provider(rows: PrintedRows, device: dml.Device) -> None:
    """The same model by ONNX Runtime, with dmlvk inside."""
    try:
        import onnxruntime

        from dmlvk.onnxruntime import PROVIDER
    except (ImportError, dml.UnsupportedError) as error:
        print(f"  ({error})")
        return
    x = np.random.default_rng(1).normal(0, 1, _ELEMENTS).astype(np.float32)
    chosen = (PROVIDER, {"device": str(device.info.index)})
    session = onnxruntime.InferenceSession(sign_model(), providers=[chosen])
    rows.show("ONNX Runtime with dmlvk, NumPy to NumPy", median_seconds(lambda: session.run(None, {"x": x})))


def sign_model() -> bytes:
    """SIGN of FLOAT32 of any size, as ONNX's file."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Sign", ["x"], ["y"])], "sign", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def in_a_row(rows: PrintedRows, device: dml.Device, mebibytes: int) -> None:
    """Three operators, each on what the one before has left on the device: arrays beside one recorded submission."""
    x = np.random.default_rng(3).normal(0, 1, mebibytes * 2**18).astype(np.float32)
    operator = sign(device, x.size)
    buffers = (device.create_buffer(x.nbytes), device.create_buffer(x.nbytes))
    buffers[0].upload(x)
    recorded = recorder(device, operator, buffers, 3)
    source = device.array(x)

    def arrays() -> None:
        array = source
        for _ in range(3):
            array = device.run(operator, {"InputTensor": array}, keep=True)["OutputTensor"]
        array.wait()

    alone, kept = medians_in_turn([recorded.execute, arrays], 2)
    rows.show(f"three operators of {mebibytes} MiB, recorded", alone)
    ratio = kept / alone
    rows.show(
        f"three operators of {mebibytes} MiB, arrays kept on the device",
        kept,
        f"{ratio:.2f} of that",
        of_recorded=ratio,
    )


def transfers(rows: PrintedRows, device: dml.Device, mebibytes: int) -> None:
    """From a NumPy array to where the device reads it, and back into a new one."""
    x = np.random.default_rng(2).normal(0, 1, mebibytes * 2**18).astype(np.float32)
    operator = sign(device, x.size)
    buffers = (device.create_buffer(x.nbytes), device.create_buffer(x.nbytes))
    work = recorder(device, operator, buffers, 1)

    def upload() -> None:
        buffers[0].upload(x)
        work.execute()

    there, only_work = median_seconds(upload, 5, 2), median_seconds(work.execute, 5, 2)
    taken = []
    for _ in range(5):
        upload()
        start = time.perf_counter()
        buffers[1].download(np.float32)
        taken.append(time.perf_counter() - start)
    back = statistics.median(taken)
    up = max(there - only_work, 1e-9)
    rows.show_transfer(f"{mebibytes} MiB to the device", up, x.nbytes)
    rows.show_transfer(f"{mebibytes} MiB from the device", back, x.nbytes)


def pytorch(rows: PrintedRows, torch: Any, mebibytes: int) -> None:
    """The same in PyTorch on CUDA."""
    x = np.random.default_rng(1).normal(0, 1, _ELEMENTS).astype(np.float32)
    large = np.zeros(mebibytes * 2**18, np.float32)
    there = torch.from_numpy(x).cuda()

    def waited(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            work()
            torch.cuda.synchronize()

        return run

    rows.show("PyTorch, one small operator", median_seconds(waited(lambda: torch.sign(there))))
    chained = (there, torch.empty_like(there))

    def chain() -> None:
        for number in range(_CHAIN):
            torch.sign(chained[number % 2], out=chained[1 - number % 2])

    seconds = median_seconds(waited(chain), 20, 3) / _CHAIN
    rows.show(f"PyTorch, one of {_CHAIN} dependent small operators", seconds)
    rows.show("PyTorch, NumPy to NumPy", median_seconds(lambda: torch.sign(torch.from_numpy(x).cuda()).cpu().numpy()))
    up = median_seconds(waited(lambda: torch.from_numpy(large).cuda()), 5, 2)
    rows.show_transfer(f"PyTorch, {mebibytes} MiB to the device", up, large.nbytes)
    large_there = torch.from_numpy(large).cuda()
    back = median_seconds(lambda: large_there.cpu().numpy(), 5, 2)
    rows.show_transfer(f"PyTorch, {mebibytes} MiB from the device", back, large.nbytes)


@click.command()
@device_option
@click.option("-m", "--mebibytes", type=click.IntRange(1), default=64, show_default=True, help="Of large transfers.")
@json_option
def command(device: str | None, mebibytes: int, json_file: Path | None) -> None:
    """Time what is not bandwidth: small operators, Device.run, sessions, arrays on the device, uploads and downloads.

    By the wall, medians, beside PyTorch where it is installed with CUDA.
    """
    torch = module("torch")
    if torch is not None and not torch.cuda.is_available():
        torch = None
    rows = PrintedRows()
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}, Kompute {'changed' if is_bundled() else 'unchanged'}")
        small_work(rows, opened)
        if module("onnx") is None:
            print("  (sessions need the package onnx)")
        else:
            sessions(rows, opened, mebibytes)
            provider(rows, opened)
        in_a_row(rows, opened, 16)
        transfers(rows, opened, mebibytes)
        libraries = [named(OwnLibrary(opened)), *([] if torch is None else [named(TorchLibrary(torch))])]
    if torch is not None:
        pytorch(rows, torch, mebibytes)
    if json_file is not None:
        write_measured(json_file, opened.info, libraries, rows.entries)
