"""Builds decoders by onnxruntime-genai's model builder, and compares prompts and tokens with ONNX Runtime.

    python scripts/try_built_decoders.py                        eight kinds of models, for cpu, dml and webgpu
    python scripts/try_built_decoders.py qwen3 gemma2 --for webgpu

Needs ``torch``, ``transformers``, ``onnxruntime-genai`` and ``onnxruntime``; nothing is downloaded: models have tiny
configurations and random weights, of int4. A prompt and some tokens behind it run by dmlvk and by ONNX Runtime's CPU
provider, with the caches of the run before. What both differ from is the same model with numbers of FLOAT32 alone: as
the builder writes it ONNX Runtime rounds activations to int8 (``accuracy_level`` 4). No output of a model of FLOAT32
may differ from that by more than 1e-4 of its largest element; one of FLOAT16 by no more than 4e-3 and twice what ONNX
Runtime's own does, where it has the model's operators at all. There are two plans, of the prompt and of a token; a
third one where another branch is taken from some length on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from scripts.package_tools.built_models import BUILT, PROVIDERS, built, widened, write_pretrained

Outputs = dict[str, np.ndarray[Any, Any]]

_PROMPT, _TOKENS = 9, 8
_DIFFERENCES = {False: 1e-4, True: 4e-3}
_HEAD = 32


def windows_of(model: onnx.ModelProto) -> dict[str, int]:
    """The inputs that are caches of a window, and how many rows it has."""
    found = {}
    for node in model.graph.node:
        named = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if named.get("sliding_window_cache"):
            found.update(dict.fromkeys(node.input[3:5], int(named["local_window_size"])))
    return found


def texts(session: Any, windows: Mapping[str, int], element: type[np.floating[Any]]) -> list[Outputs]:
    """The outputs of a prompt, and of each token behind it."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, 300, _PROMPT + _TOKENS)
    names = [argument.name for argument in session.get_outputs()]
    past: Outputs = {}
    found = []
    for total in range(_PROMPT, _PROMPT + _TOKENS + 1):
        first = 0 if total == _PROMPT else total - 1
        feed = {}
        for argument in session.get_inputs():
            if argument.name == "input_ids":
                feed[argument.name] = tokens[None, first:total]
            elif argument.name == "attention_mask":
                feed[argument.name] = np.ones((1, total), np.int64)
            elif argument.name == "position_ids":
                feed[argument.name] = np.arange(first, total)[None]
            else:
                shape = (1, argument.shape[1], windows.get(argument.name, 0), _HEAD)
                feed[argument.name] = past.get(argument.name, np.zeros(shape, element))
        outputs = dict(zip(names, session.run(None, feed), strict=True))
        past = {_past_of(name): array for name, array in outputs.items() if name.startswith("present")}
        for name, array in outputs.items():
            outputs[name] = array[:, :, : min(total, windows.get(_past_of(name), total))] if array.ndim == 4 else array
        found.append(outputs)
    return found


def _past_of(present: str) -> str:
    return present.replace("present", "past_key_values")


def distance(found: list[Outputs], exact: list[Outputs]) -> float:
    """The largest difference of an output, as a part of its largest element."""
    largest = 0.0
    for one, other in zip(found, exact, strict=True):
        for name, array in other.items():
            wide = array.astype(np.float64)
            largest = max(largest, float(np.abs(one[name] - wide).max() / np.abs(wide).max()))
    return largest


def compared(path: Path, device: dml.Device) -> tuple[str, bool]:
    """What is told of a model, and whether it is right."""
    model = onnx.load(path)
    windows = windows_of(model)
    is_half = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)
    element = np.float16 if is_half else np.float32
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    exact = texts(onnxruntime.InferenceSession(widened(model).SerializeToString(), options), windows, np.float32)
    with ort.InferenceSession(path, device=device) as session:
        own = distance(texts(session, windows, element), exact)
        plans = session._program.plan_count
        hosted = sorted({item.op_type for item in session.partition if item.place == "host"})
    is_one = plans == 2 + any(node.op_type == "If" for node in model.graph.node)
    end = f"; {plans} plans" + (f"; host: {', '.join(hosted)}" if hosted else "")
    try:
        beside = distance(texts(onnxruntime.InferenceSession(str(path), options), windows, element), exact)
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        return f"dmlvk {own:.1e}; ONNX Runtime does not run it{end}", own <= _DIFFERENCES[is_half] and is_one
    is_right = own <= _DIFFERENCES[is_half] and is_one and (not is_half or own <= 2 * beside)
    return f"dmlvk {own:.1e}, ONNX Runtime {beside:.1e}{end}", is_right


def main() -> int:
    """Tries the models that are asked for; 1 where something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join(BUILT)}")
    parser.add_argument("--for", dest="provider", choices=PROVIDERS, help="only for this execution provider")
    parser.add_argument("--keep", type=Path, help="a folder where built models stay, and are found again")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BUILT)
    if unknown:
        parser.error(f"there is no model {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    onnxruntime.set_default_logger_severity(4)
    failed, same, left = [], 0, 0
    with tempfile.TemporaryDirectory() as temporary, dml.Device() as device:
        for name in arguments.names or BUILT:
            folder = (arguments.keep or Path(temporary)) / name
            if not (folder / "hf").exists():
                write_pretrained(name, folder / "hf")
            for provider in [arguments.provider] if arguments.provider else PROVIDERS:
                path = folder / provider / "model.onnx"
                try:
                    if not path.exists():
                        built(folder / "hf", provider, folder / provider)
                    outcome, is_right = compared(path, device)
                except subprocess.CalledProcessError as error:
                    print(f"--  {name} for {provider}: not built: {error.stderr.strip().splitlines()[-1]}", flush=True)
                    left += 1
                    continue
                except dml.DmlError as error:
                    outcome, is_right = " ".join(str(error).split()), False
                print(f"{'ok ' if is_right else 'BAD'} {name} for {provider}: {outcome}", flush=True)
                same += is_right
                failed += [] if is_right else [f"{name} for {provider}"]
    print(f"{same} are the same, {left} were not built, {len(failed)} differ: {', '.join(failed) or '-'}")
    return int(bool(failed) or not same)


if __name__ == "__main__":
    sys.exit(main())
