"""Exports models of transformers by both of PyTorch's exporters, and compares them with ONNX Runtime.

    python scripts/try_exports.py                     all of them, by both exporters
    python scripts/try_exports.py bert gpt2 --by dynamo

Needs ``torch``, ``transformers``, ``onnxscript`` and ``onnxruntime`` (``pip install torch transformers onnxscript``);
nothing is downloaded: models have tiny configurations and random weights. Each exported model runs with inputs of the
exported sizes by ONNX Runtime's CPU provider and by dmlvk. No float output may differ by more than 1e-4 of its largest
element, and every other one must be equal. What an exporter itself cannot export, or ONNX Runtime cannot run, is told
and counted, and is no fault, unless nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnxruntime

import dmlvk as dml
import dmlvk.onnx as ort
from scripts.package_tools.exported_models import MODELS

EXPORTERS = ("torchscript", "dynamo")
LARGEST_DIFFERENCE = 1e-4


def exported(name: str, exporter: str, path: Path) -> dict[str, Any]:
    """Writes a model; what it is run with.

    Raises:
        Exception: what the exporter raises where it cannot.
    """
    import torch

    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    module = module.eval()
    printed = io.StringIO()
    with torch.no_grad(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        # Models whose own tracing touches attributes expect a first run.
        module(*inputs.values())
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            dynamo=exporter == "dynamo",
            opset_version=18 if exporter == "dynamo" else 17,
        )
    return {key: value.numpy() for key, value in inputs.items()}


def compared(path: Path, feed: dict[str, Any], device: dml.Device) -> tuple[float, str, str]:
    """The largest difference of an output as a part of its largest element; what is wrong; what the host computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    beside = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {argument.name for argument in beside.get_inputs()}
    feed = {name: value for name, value in feed.items() if name in names}
    expected = beside.run(None, feed)
    largest = 0.0
    with ort.InferenceSession(str(path), device=device) as session:
        found = session.run(None, feed)
        hosted = sorted({item.op_type for item in session.partition if item.place == "host"})
    for argument, one, other in zip(beside.get_outputs(), found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return largest, f"{argument.name}: {one.dtype}{one.shape} for {other.dtype}{other.shape}", ""
        if other.dtype.kind != "f":
            if not np.array_equal(one, other):
                return largest, f"{argument.name}: {int((one != other).sum())} values differ", ""
            continue
        finite = np.isfinite(other)
        if not np.array_equal(finite, np.isfinite(one)):
            return largest, f"{argument.name}: not finite at other places", ""
        scale = np.abs(other[finite]).max(initial=1e-30)
        largest = max(largest, float(np.abs(one[finite].astype("f8") - other[finite]).max(initial=0) / scale))
    return largest, "" if largest <= LARGEST_DIFFERENCE else "differs", ", ".join(hosted)


def main() -> int:
    """Tries the models that are asked for; 1 where something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join(MODELS)}")
    parser.add_argument("--by", choices=EXPORTERS, help="only this exporter")
    parser.add_argument("--keep", type=Path, help="a folder where the exported models stay")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MODELS)
    if unknown:
        parser.error(f"there is no model {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ["HF_HUB_OFFLINE"] = "1"
    onnxruntime.set_default_logger_severity(4)
    faults, same = [], 0
    with tempfile.TemporaryDirectory() as folder, dml.Device() as device:
        for name in arguments.names or MODELS:
            for exporter in [arguments.by] if arguments.by else EXPORTERS:
                directory = (arguments.keep or Path(folder)) / f"{name}.{exporter}"
                directory.mkdir(parents=True, exist_ok=True)
                begun = time.perf_counter()
                try:
                    feed = exported(name, exporter, directory / "model.onnx")
                except Exception as error:  # noqa: BLE001 - whatever an exporter raises
                    print(f"--  {name} by {exporter}: not exported: {_line(error)}", flush=True)
                    continue
                if arguments.keep:
                    np.savez(directory / "inputs.npz", **feed)
                try:
                    largest, problem, hosted = compared(directory / "model.onnx", feed, device)
                except dml.DmlError as error:
                    largest, problem, hosted = 0.0, _line(error), ""
                except Exception as error:
                    if not type(error).__module__.startswith("onnxruntime"):
                        raise
                    print(f"--  {name} by {exporter}: not run by ONNX Runtime: {_line(error)}", flush=True)
                    continue
                same += not problem
                if problem:
                    faults.append(f"{name} by {exporter}")
                end = f"{largest:.1e}{f', {problem}' if problem else ''}{f'; host: {hosted}' if hosted else ''}"
                seconds = time.perf_counter() - begun
                print(f"{'BAD' if problem else 'ok '} {name} by {exporter} ({seconds:.0f} s): {end}", flush=True)
    asked = len(arguments.names or MODELS) * (1 if arguments.by else len(EXPORTERS))
    left = asked - same - len(faults)
    print(f"{same} are the same, {left} were not compared, {len(faults)} differ: {', '.join(faults) or '-'}")
    return int(bool(faults) or not same)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    sys.exit(main())
