"""Random nodes of ONNX, and networks, beside PyTorch's CUDA: the furthest behind first."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.bench.exported_networks import TorchvisionNetwork
from dmlvk.bench.libraries import module
from dmlvk.bench.random_nodes import KINDS, random_node
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import arithmetic_option, chosen_device, device_option, json_option
from dmlvk.errors import DmlError

_SAMPLE_SECONDS = 0.004
_MOST_RUNS, _ROUNDS = 40, 3
_OWN_ARITHMETIC: dict[str, Any] = {"float16": "device", "float32": "portable"}
_NEAR = {"float16": 2e-2, "float32": 2e-3}
"""How far results may be off, as a part of the largest: more is another function."""

_SOON = 12.0  # Seconds of one node behind which it is named as slow to start: its driver compiles


_Work = tuple[str, Callable[[], "Cliff"]]


@dataclasses.dataclass(frozen=True)
class Cliff:
    """A node or a network, by both."""

    kind: str  # of node, or ``network``
    name: str  # operator and sizes
    data_type: str  # of its tensors
    seed: int  # by which it comes again
    seconds: float  # of a run by dmlvk
    peer_seconds: float  # of one by PyTorch
    error: float  # the largest difference, as a part of the largest result
    on_host: bool  # whether dmlvk has the host compute it

    @property
    def share(self) -> float:
        """Of PyTorch's speed."""
        return self.peer_seconds / self.seconds

    def line(self) -> str:
        """Of the table."""
        place = " HOST" if self.on_host else ""
        remark = f" DIFFERENT BY {self.error:.0e}" if self.error > _NEAR[self.data_type] else ""
        return (
            f"{self.share:6.2f} {self.seconds * 1e3:9.3f} {self.peer_seconds * 1e3:9.3f}  {self.data_type:<8}"
            f"{self.seed:5d}  {self.name}{place}{remark}"
        )


def best_of(works: Sequence[tuple[Callable[[], object], Callable[[], object]]]) -> list[float]:
    """The least time of a run of each, several behind one another, in turn.

    Args:
        works: what runs, and what waits until all runs are through.
    """
    best, counts = [math.inf] * len(works), [0] * len(works)
    for turn in range(_ROUNDS + 1):
        for number, (run, wait) in enumerate(works):
            run()
            wait()
            count = max(counts[number], 1)
            start = time.perf_counter()
            for _ in range(count):
                run()
            wait()
            took = (time.perf_counter() - start) / count
            counts[number] = max(1, min(_MOST_RUNS, int(_SAMPLE_SECONDS / took)))
            best[number] = min(best[number], took) if turn else math.inf
    return best


class BoundSession:
    """A model with its inputs on the device, which writes its output there.

    Args:
        model: a file of ONNX's as bytes, whose output is the first alone.
    """

    def __init__(self, model: bytes | str, feeds: dict[str, npt.NDArray[Any]], device: dml.Device) -> None:
        import dmlvk.onnx as ort

        self._session = ort.InferenceSession(model, device=device)
        self._binding = self._session.io_binding()
        for name, array in feeds.items():
            self._binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, "dml"))
        output = self._session.get_outputs()[0].name
        self._binding.bind_output(output, "dml")
        self.run()
        self._result = self._binding.get_outputs()[0]
        self._binding.clear_binding_outputs()
        self._binding.bind_ortvalue_output(output, self._result)

    def run(self) -> None:
        """Once, without waiting."""
        self._session.run_with_iobinding(self._binding)

    def wait(self) -> None:
        """Until all runs are through."""
        self._binding.synchronize_outputs()

    def result(self) -> npt.NDArray[Any]:
        """Of the last run."""
        values: npt.NDArray[Any] = self._result.numpy()
        return values

    @property
    def on_host(self) -> bool:
        """Whether the host computes any node."""
        return any("host" in str(part) for part in self._session.partition or ())


def error_of(own: npt.NDArray[Any], peer: npt.NDArray[Any]) -> float:
    """The largest difference as a part of the largest result; infinite where shapes differ."""
    if own.size != peer.size:
        return math.inf
    own, peer = own.astype(np.float32).ravel(), peer.astype(np.float32).ravel()
    largest = float(np.abs(peer).max(initial=1e-9, where=np.isfinite(peer)))
    with np.errstate(invalid="ignore"):
        return float(np.where(own == peer, 0, np.abs(own - peer)).max(initial=0)) / largest


def node_beside(torch: Any, device: dml.Device, data_type: str, seed: int, options: dict[str, Any]) -> Cliff:
    """Times the node of a seed by both."""
    node = random_node(seed, data_type, **options)
    place = "cuda" if torch.cuda.is_available() else "cpu"
    given = {f"i{n}": each for n, each in enumerate(node.inputs) if each is not None and n not in node.weights}
    own = BoundSession(node.model(), given, device)
    with torch.inference_mode():
        tensors = [None if each is None else torch.from_numpy(np.array(each)).to(place) for each in node.inputs]
        peer = node.peer(torch, *tensors)
        error = error_of(own.result(), peer.float().cpu().numpy())
        wait = torch.cuda.synchronize if place == "cuda" else lambda: None
        seconds, peer_seconds = best_of([(own.run, own.wait), (lambda: node.peer(torch, *tensors), wait)])
    return Cliff(node.kind, node.name, data_type, seed, seconds, peer_seconds, error, own.on_host)


def network_beside(torch: Any, device: dml.Device, data_type: str, batch: int, name: str) -> Cliff:
    """Times a network of torchvision's or timm's, exported, beside its CUDA graph."""
    network = TorchvisionNetwork(torch, name, data_type, batch)
    own = BoundSession(network.model(), {"x": network.values()}, device)
    expected = network.result()
    replay = network.replay()
    seconds, peer_seconds = best_of([(own.run, own.wait), (replay, torch.cuda.synchronize)])
    error = error_of(own.result(), expected)
    return Cliff("network", f"{name} of {batch}", data_type, 0, seconds, peer_seconds, error, own.on_host)


def summary(cliffs: Sequence[Cliff], least: float) -> list[str]:
    """What holds of all: by kind, and of those that take at least so many seconds by either."""
    long = [each for each in cliffs if max(each.seconds, each.peer_seconds) >= least]
    by_kind: dict[tuple[str, str], list[Cliff]] = defaultdict(list)
    for each in long:
        by_kind[each.data_type, each.kind].append(each)
        by_kind[each.data_type, "ALL"].append(each)
    lines = [f"{'nodes':>6}{'mean':>7}{'least':>7}{'ms behind':>11}  of at least {least * 1e6:.0f} µs"]
    for (data_type, kind), some in sorted(by_kind.items(), key=lambda item: -_behind(item[1])):
        mean = math.exp(sum(math.log(each.share) for each in some) / len(some))
        least_share = min(each.share for each in some)
        lines.append(f"{len(some):6d}{mean:7.2f}{least_share:7.2f}{_behind(some) * 1e3:11.2f}  {data_type} {kind}")
    return lines


def _behind(cliffs: Iterable[Cliff]) -> float:
    """Seconds by which they are slower than PyTorch, where they are."""
    return sum(max(0.0, each.seconds - each.peer_seconds) for each in cliffs)


def torch_or_error(small: bool) -> Any:
    """PyTorch.

    Raises:
        click.UsageError: it is not there, or has no GPU, and the sizes are not small.
    """
    torch = module("torch")
    if torch is None:
        raise click.UsageError("cliffs: needs PyTorch (the package torch), which is not installed")
    if module("onnx") is None:
        raise click.UsageError("cliffs: needs the package onnx, which is not installed")
    if not torch.cuda.is_available() and not small:
        raise click.UsageError("cliffs: PyTorch finds no CUDA device; --small compares results on processors")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def _works(torch: Any, device: dml.Device, data_type: str, options: dict[str, Any]) -> Iterable[_Work]:
    """Everything that is timed on a device, by name."""
    drawn = {"kinds": options["kind"], "small": options["small"]}
    for seed in range(options["seed"], options["seed"] + options["nodes"]):
        yield f"seed {seed}", functools.partial(node_beside, torch, device, data_type, seed, drawn)
    for name, batch in itertools.product(options["network"], options["batch"]):
        yield name, functools.partial(network_beside, torch, device, data_type, batch, name)


def measured(works: Iterable[_Work], data_type: str, end: float) -> list[Cliff]:
    """What is timed before a moment; what cannot be computed is named."""
    cliffs = []
    for what, work in works:
        if (start := time.perf_counter()) > end:
            break
        try:
            cliffs.append(work())
        except (DmlError, RuntimeError) as error:  # of one of both: out of memory, not implemented
            print(f"{data_type} {what}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        if (took := time.perf_counter() - start) > _SOON:
            print(f"{data_type} {what}: took {took:.0f} s to measure", flush=True)
        gc.collect()
    return cliffs


@click.command()
@device_option
@click.option("-n", "--nodes", type=click.IntRange(0), default=500, show_default=True, help="Of each data type.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the first node.")
@click.option("-t", "--data-type", type=click.Choice(("float16", "float32")), multiple=True, help="Both without it.")
@click.option("-k", "--kind", type=click.Choice(tuple(KINDS)), multiple=True, help="Of nodes; all without it.")
@click.option("--network", multiple=True, metavar="NAME", help="Of torchvision or timm, which must be installed.")
@click.option("--batch", type=click.IntRange(1), multiple=True, default=(1, 32), show_default=True, help="Of networks.")
@click.option("--seconds", type=click.FloatRange(0), default=math.inf, help="Begin nothing new behind so many.")
@click.option("--least", type=click.FloatRange(0), default=100, show_default=True, help="µs of nodes in the summary.")
@click.option("--rows", type=click.IntRange(0), default=60, show_default=True, help="Of the table.")
@click.option("--small", is_flag=True, help="Small sizes, on whichever device: for results, not for times.")
@arithmetic_option
@json_option
def command(**options: Any) -> None:
    """Time random nodes as models have them, and networks by export, beside PyTorch in one process.

    Values stay on the device. FLOAT16 is computed with device arithmetic and FLOAT32 without, unless --arithmetic says
    it. Nodes are those of the seeds from --seed on. The share is PyTorch's time divided by dmlvk's.
    """
    torch = torch_or_error(options["small"])
    end = time.perf_counter() + options["seconds"]
    cliffs: list[Cliff] = []
    for data_type in options["data_type"] or tuple(_OWN_ARITHMETIC):
        arithmetic = options["arithmetic"] or _OWN_ARITHMETIC[data_type]
        with dml.Device(chosen_device(options["device"]), arithmetic=arithmetic) as device:
            info = device.info
            cliffs += measured(_works(torch, device, data_type, options), data_type, end)
    print(f"{info.name}: {len(cliffs)} measured")
    print(f"{'share':>6}{'ms':>10}{'PyTorch':>10}  {'type':<9}seed  what")
    for each in sorted(cliffs, key=lambda each: each.share)[: options["rows"]]:
        print(each.line())
    print("\n".join(summary(cliffs, options["least"] / 1e6)))
    if options["json_file"] is not None:
        libraries = [{"name": "PyTorch", "version": str(torch.__version__), "device": info.name}]
        write_measured(options["json_file"], info, libraries, [dataclasses.asdict(each) for each in cliffs])
