"""Operations on arrays of the standard, waiting and fused, beside NumPy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import dmlvk as dml
import dmlvk.array_api as xp
from dmlvk.array_api.lazy import SETTINGS
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option

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
        made.wait()
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


@click.command()
@device_option
@click.option("-n", "--elements", type=int, default=2**22, show_default=True, help="Of each array; a multiple of 256.")
@json_option
def command(device: str | None, elements: int, json_file: Path | None) -> None:
    """Time chains of operations on arrays of the standard: waiting and fused, each at once, and in NumPy.

    Medians, from the first call to the last element on the device. Exits with 1 where bits differ.
    """
    opened = dml.Device(chosen_device(device))
    generator = np.random.default_rng(0)
    hosts = [generator.normal(size=elements).astype(np.float32) for _ in range(2)]
    x, y = (xp.asarray(one, device=opened) for one in hosts)
    print(f"{opened.info.name}, {elements} elements; milliseconds")
    print(f"{'':12}{'waiting':>10}{'at once':>10}{'NumPy':>10}{'gain':>8}")
    results: list[dict[str, Any]] = []
    are_equal = True
    for chain in CHAINS:
        waiting, at_once, numpy = _times(chain, [(xp, True, x, y), (xp, False, x, y), (np, True, hosts[0], hosts[1])])
        SETTINGS.is_lazy = False
        eager = np.asarray(chain(xp, x, y))
        SETTINGS.is_lazy = True
        is_equal = np.array_equal(eager.view(np.uint32), np.asarray(chain(xp, x, y)).view(np.uint32))
        are_equal &= is_equal
        note = "" if is_equal else "  OTHER BITS"
        print(f"{chain.__name__:12}{waiting:10.2f}{at_once:10.2f}{numpy:10.2f}{at_once / waiting:7.2f}x{note}")
        results.append({"name": chain.__name__, "waiting": waiting, "at once": at_once, "numpy": numpy})
    if json_file is not None:
        write_measured(json_file, opened.info, [], results)
    if not are_equal:
        raise click.exceptions.Exit(1)
