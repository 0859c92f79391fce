#!/usr/bin/env python3
"""Check that ONNX Runtime's sessions give the bits of ``dmlvk.onnx``, and the same ones on every device.

    python scripts/check_onnxruntime_bits.py [--expect DIGEST]

Whole graphs (products, segmentation, detection of voices, a layer of BERT, a ResNet of bottlenecks) run by both on each
device that is usable here. A digest of all outputs is printed for each: a GPU elsewhere has the same one.

Exit status: 0 all are equal, 1 they are not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnx
import onnxruntime

import dmlvk
import dmlvk.onnx
from dmlvk.bench.onnx_models import chain, resnet50
from dmlvk.onnxruntime import PROVIDER
from tests.onnxruntime.models import inputs
from tests.onnxruntime.test_programs import embedding, segmentation, voice

_RUNS = 4
"""Of each graph: the last ones repeat the first ones in one submission."""


def graphs() -> Iterator[tuple[str, onnx.ModelProto, list[dict[str, Any]]]]:
    """Names, models and inputs."""
    yield "products", chain(), [inputs(3), inputs(8)]
    yield "segmentation", *segmentation()
    yield "voice", *voice()
    yield "embedding", *embedding()
    picture = np.random.default_rng(6).random((1, 3, 64, 64), np.float32)
    yield "ResNet", resnet50(64, (1, 1, 1, 1)), [{"x": picture}]


def digest_of(index: int, name: str) -> tuple[str, list[str]]:
    """A digest of all outputs on a device, and the graphs whose bits are not those of ``dmlvk.onnx``."""
    digest, unequal = hashlib.sha256(), []
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for title, model, feeds in graphs():
        source = model.SerializeToString()
        providers = [(PROVIDER, {"device": str(index)}), "CPUExecutionProvider"]
        inside = onnxruntime.InferenceSession(source, options, providers=providers)
        inside.disable_fallback()
        with dmlvk.Device(index) as device:
            alone = dmlvk.onnx.InferenceSession(source, device=device)
            for feed in feeds:
                runs = [[np.asarray(array).tobytes() for array in inside.run(None, feed)] for _ in range(_RUNS)]
                wanted = [np.asarray(array).tobytes() for array in alone.run(None, feed)]
                digest.update(b"".join(runs[0]))
                if any(found != wanted for found in runs):
                    unequal.append(title)
            alone.close()
    print(f"{name}: {digest.hexdigest()[:16]}, {'the bits of dmlvk.onnx' if not unequal else 'other bits'}", flush=True)
    return digest.hexdigest()[:16], unequal


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--expect", metavar="DIGEST", help="what each device must have")
    options = parser.parse_args(arguments)
    found = [digest_of(info.index, info.name) for info in dmlvk.list_devices() if info.usable]
    for title in sorted({title for _, unequal in found for title in unequal}):
        print(f"{title}: not the bits of dmlvk.onnx")
    digests = {digest for digest, _ in found} | ({options.expect} if options.expect else set())
    return 1 if len(digests) != 1 or any(unequal for _, unequal in found) else 0


if __name__ == "__main__":
    sys.exit(main())
