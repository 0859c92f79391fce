"""A run inside of ONNX Runtime, beside dmlvk.onnx."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import onnxruntime

import dmlvk.onnx
from dmlvk.bench.onnx_models import chain, resnet50
from dmlvk.onnxruntime import PROVIDER

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


@click.command()
@click.option("--runs", type=click.IntRange(10), default=2_000, show_default=True)
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another one.")
@click.option("--resnet", is_flag=True, help="ResNet-50 instead of two small products.")
def command(runs: int, model: Path | None, resnet: bool) -> None:
    """Time a run inside of ONNX Runtime beside dmlvk.onnx: the same graph, in turns, from NumPy to NumPy.

    Without a model it is two small products, of which the device's work is nearly nothing. Graphs are not rewritten by
    ONNX Runtime, so that both compute the same; of a model, sizes that it leaves open are 1, and inputs are random. On
    a machine that does something else, too, the processor's time of the calling thread says more. Exits with 1 where
    results differ.
    """
    made = resnet50() if resnet else chain(4)
    source = made.SerializeToString() if model is None else str(model)
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 4
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    inside = onnxruntime.InferenceSession(source, session_options, providers=[PROVIDER, "CPUExecutionProvider"])
    inside.disable_fallback()
    alone = dmlvk.onnx.InferenceSession(source)
    random = np.random.default_rng(0)
    feed = {}
    for argument in inside.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in argument.shape]
        feed[argument.name] = random.random(shape).astype(_TYPES[argument.type])
    results = [session.run(None, feed) for session in (inside, alone)]
    if any(a.tobytes() != b.tobytes() for a, b in zip(*results, strict=True)):
        print("results differ")
        raise click.exceptions.Exit(1)
    times, processor = [], []
    for number in range(runs + runs // 10):
        taken, used = [0.0, 0.0], [0.0, 0.0]
        for index in (0, 1) if number % 2 else (1, 0):  # neither always comes first
            start, own = time.perf_counter(), time.thread_time()
            (inside, alone)[index].run(None, feed)
            taken[index], used[index] = (time.perf_counter() - start) * 1e6, (time.thread_time() - own) * 1e6
        times.append(taken)
        processor.append(used)
    first, second = np.array(times[runs // 10 :]).T
    own_first, own_second = np.median(processor[runs // 10 :], axis=0)
    what = model or ("ResNet-50" if resnet else "two small products")
    print(f"{alone.device.info.name}, onnxruntime {onnxruntime.__version__}, {what}")
    print(f"inside of ONNX Runtime {np.median(first):9.1f} us, dmlvk.onnx {np.median(second):9.1f} us, medians")
    print(f"difference {np.median(first - second):+.1f} us, ratio {np.median(first) / np.median(second):.3f}")
    print(f"the thread's processor time {own_first:.1f} and {own_second:.1f} us, {own_first - own_second:+.1f} us")
