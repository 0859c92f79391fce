#!/usr/bin/env python3
"""Measures chains of element-wise operations on arrays of the standard: waiting and fused, and each at once.

    scripts/measure_lazy_arrays.py [-d DEVICE] [-n ELEMENTS] [--json FILE]

Times are from the first call to the last element on the device, medians of runs in turn; bits are compared. NumPy's
time for the same lines stands beside them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
import dmlvk.array_api as xp
from dmlvk.array_api.lazy import SETTINGS
from scripts.measuring import argument_parser, write_measured

_REPEATS = 9


def arithmetic(_: Any, x: Any, y: Any) -> Any:
    """Eight operations, none of them a function."""
    return ((x * 1.5 + y) * x - y) * 0.25 + (x - 0.5) * y


def gelu(namespace: Any, x: Any, _: Any) -> Any:
    """The approximation by tanh, as a library would write it."""
    inner = 0.7978846 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + namespace.tanh(inner))


def distances(namespace: Any, x: Any, y: Any) -> Any:
    """A sum of what waits for it."""
    return namespace.sum(namespace.abs(x - y) / (1.0 + x * x + y * y))


def softmax(namespace: Any, x: Any, _: Any) -> Any:
    """Rows."""
    rows = namespace.reshape(x, (-1, 256))
    shares = namespace.exp(rows - namespace.max(rows, axis=-1, keepdims=True))
    return shares / namespace.sum(shares, axis=-1, keepdims=True)


CHAINS: tuple[Callable[[Any, Any, Any], Any], ...] = (arithmetic, gelu, distances, softmax)


def _done(made: Any) -> Any:
    if isinstance(made, xp.Array):
        made.device_array().wait()
    return made


def _times(chain: Callable[..., Any], namespaces: Sequence[tuple[Any, bool, Any, Any]]) -> list[float]:
    """Medians in milliseconds, all taken in turn after one run to warm up."""
    taken: list[list[float]] = [[] for _ in namespaces]
    for repeat in range(_REPEATS + 1):
        for times, (namespace, is_lazy, x, y) in zip(taken, namespaces, strict=True):
            SETTINGS.is_lazy = is_lazy
            start = time.perf_counter()
            _done(chain(namespace, x, y))
            if repeat:
                times.append((time.perf_counter() - start) * 1e3)
    SETTINGS.is_lazy = True
    return [statistics.median(times) for times in taken]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each chain; 1 where bits differ."""
    parser = argument_parser(__doc__ or "")
    parser.add_argument("-n", "--elements", type=int, default=2**22, help="of each array, a multiple of 256")
    given = parser.parse_args(arguments)
    device = dml.Device(given.device)
    generator = np.random.default_rng(0)
    hosts = [generator.normal(size=given.elements).astype(np.float32) for _ in range(2)]
    x, y = (xp.asarray(one, device=device) for one in hosts)
    print(f"{device.info.name}, {given.elements} elements; milliseconds")
    print(f"{'':12}{'waiting':>10}{'at once':>10}{'NumPy':>10}{'gain':>8}")
    results: list[dict[str, Any]] = []
    are_equal = True
    for chain in CHAINS:
        waiting, at_once, numpy = _times(chain, [(xp, True, x, y), (xp, False, x, y), (np, True, *hosts)])
        SETTINGS.is_lazy = False
        eager = np.asarray(chain(xp, x, y))
        SETTINGS.is_lazy = True
        is_equal = np.array_equal(eager.view(np.uint32), np.asarray(chain(xp, x, y)).view(np.uint32))
        are_equal &= is_equal
        note = "" if is_equal else "  OTHER BITS"
        print(f"{chain.__name__:12}{waiting:10.2f}{at_once:10.2f}{numpy:10.2f}{at_once / waiting:7.2f}x{note}")
        results.append({"name": chain.__name__, "waiting": waiting, "at once": at_once, "numpy": numpy})
    if given.json:
        write_measured(given.json, device.info, [], results)
    return 0 if are_equal else 1


if __name__ == "__main__":
    sys.exit(main())
