#!/usr/bin/env python3
"""Measure what a run costs inside of ONNX Runtime beside ``dmlvk.onnx``: the same graph, in turns, from NumPy to NumPy.

    python scripts/measure_onnxruntime.py [--runs 2000] [--model FILE.onnx | --resnet]

Without a model it is two small products, of which the device's work is nearly nothing; or a ResNet-50. Medians of both,
and of the differences from turn to turn; graphs are not rewritten by ONNX Runtime, so that both compute the same. Of a
model, sizes that it leaves open are 1, and inputs are random. On a machine that does something else, too, the
processor's time of the calling thread says more, and is told as well.

Exit status: 0 measured, 1 results differ, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnxruntime

import dmlvk.onnx
from dmlvk.onnxruntime import PROVIDER
from tests.onnxruntime.models import chain, resnet50

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--resnet", action="store_true")
    options = parser.parse_args(arguments)
    made = resnet50() if options.resnet else chain(4)
    source = made.SerializeToString() if options.model is None else str(options.model)
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
        return 1
    times, processor = [], []
    for number in range(options.runs + options.runs // 10):
        taken, used = [0.0, 0.0], [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):  # neither always comes first
            start, own = time.perf_counter(), time.thread_time()
            (inside, alone)[place].run(None, feed)
            taken[place], used[place] = (time.perf_counter() - start) * 1e6, (time.thread_time() - own) * 1e6
        times.append(taken)
        processor.append(used)
    first, second = np.array(times[options.runs // 10 :]).T
    own_first, own_second = np.median(processor[options.runs // 10 :], axis=0)
    what = options.model or ("ResNet-50" if options.resnet else "two small products")
    print(f"{alone.device.info.name}, onnxruntime {onnxruntime.__version__}, {what}")
    print(f"inside of ONNX Runtime {np.median(first):9.1f} us, dmlvk.onnx {np.median(second):9.1f} us, medians")
    print(f"difference {np.median(first - second):+.1f} us, ratio {np.median(first) / np.median(second):.3f}")
    print(f"the thread's processor time {own_first:.1f} and {own_second:.1f} us, {own_first - own_second:+.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
