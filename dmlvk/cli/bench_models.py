"""``dmlvk bench models``: what whole networks take, beside PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmlvk.cli.selection import WrittenFile, arithmetic_option, device_selector
from dmlvk.support.files import write_whole

if TYPE_CHECKING:
    from dmlvk.datatypes import DataType
    from dmlvk.device import Device
    from dmlvk.support.arithmetic import Arithmetic

_KERNELS = 12  # Kinds of kernels that are listed, the slowest ones


@click.command()
@click.option("--models", "-m", default="all", show_default=True, metavar="NAME,...|all", help="Parts of their names.")
@click.option("--batches", "-b", default="1,32", show_default=True, metavar="N,...", help="Pictures or texts at once.")
@click.option("--data-types", "-t", default="float16", show_default=True, metavar="TYPE,...", help="float16, float32.")
@click.option("--small", is_flag=True, help="With sizes by which they compute the same way in a moment.")
@click.option("--torch/--no-torch", default=True, help="Beside PyTorch by a CUDA graph, where there is one.")
@click.option("--kernels", is_flag=True, help="What the slowest kinds of kernels take.")
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@click.option("--json", "json_file", type=WrittenFile(), metavar="FILE", help="Write all.")
@click.option("--plot", type=WrittenFile(), metavar="FILE", help="Draw it, as SVG.")
@arithmetic_option
def models(
    models: str,
    batches: str,
    data_types: str,
    small: bool,
    torch: bool,
    kernels: bool,
    device: str | None,
    json_file: Path | None,
    plot: Path | None,
    arithmetic: Arithmetic | None,
) -> None:
    """Time networks of random weights: ResNet-50, VGG-19, ViT-B/16, BERT-base, a block of a UNet, Whisper's encoder.

    Inputs and results stay on the device, and several runs are recorded behind one another; the best submission counts.
    PyTorch computes the same networks with the same weights in the same types, with channels last and its matrix units.
    """
    from dmlvk.bench.networks import NETWORKS
    from dmlvk.datatypes import DataType
    from dmlvk.device import Device

    words = [word.strip().lower() for word in models.split(",")]
    chosen = [name for name in NETWORKS if models == "all" or any(word and word in name.lower() for word in words)]
    if not chosen:
        raise click.UsageError(f"--models: {models!r} is part of none of {', '.join(NETWORKS)}")
    counts = _counts(batches)
    names = data_types.split(",")
    if unknown := [name for name in names if name not in ("float16", "float32")]:
        raise click.UsageError(f"--data-types: float16 and float32; got {unknown[0]!r}")
    if plot is not None:
        from dmlvk.bench.plot import check_plot_path

        check_plot_path(plot)
    results: list[dict[str, Any]] = []
    with Device(None if device is None else device_selector(device), arithmetic=arithmetic) as opened:
        click.echo(f"{opened.info.name}, {opened.info.driver}, {opened.arithmetic} arithmetic")
        for name in chosen:
            for data_type in names:
                for batch in counts:
                    given = DataType.from_name(data_type.upper())
                    result = _timed(opened, name, given, batch, small=small, torch=torch, kernels=kernels)
                    results.append({**result, "arithmetic": opened.arithmetic})
        facts = f"{opened.info.name}, {opened.arithmetic} arithmetic"
    if json_file is not None:
        write_whole(json_file, json.dumps(results, indent=2))
    if plot is not None:
        from dmlvk.bench.plots import write_network_plot

        write_network_plot(results, facts, plot)


def _counts(text: str) -> Sequence[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise click.UsageError(f"--batches: positive integers with commas between them; got {text!r}")
    return counts


def _timed(
    device: Device, name: str, data_type: DataType, batch: int, *, small: bool, torch: bool, kernels: bool
) -> dict[str, Any]:
    from dmlvk.bench.network_graphs import compiled_network, kernel_seconds, network_seconds
    from dmlvk.bench.networks import NETWORKS

    compiled = compiled_network(device, NETWORKS[name], batch, data_type, small=small)
    seconds = network_seconds(device, compiled)
    words = data_type.name.lower()
    result: dict[str, Any] = {"model": name, "data_type": words, "batch": batch, "seconds": seconds}
    line = f"{name:16} {words:8} batch {batch:3}  {seconds * 1e3:9.3f} ms"
    if torch:
        result["torch_seconds"], word = _torch_seconds(name, compiled.inputs[0].tensor, small=small)
        line += word if result["torch_seconds"] is None else _share(result["torch_seconds"], seconds)
    click.echo(line)
    if kernels:
        for label, (taken, count) in list(kernel_seconds(device, compiled).items())[:_KERNELS]:
            click.echo(f"    {taken * 1e3:9.3f} ms {count:4} x {label}")
    return result


def _share(by_torch: float, seconds: float) -> str:
    return f"  PyTorch {by_torch * 1e3:9.3f} ms, share of its speed {by_torch / seconds:.2f}"


def _torch_seconds(name: str, tensor: Any, *, small: bool) -> tuple[float | None, str]:
    """What PyTorch takes, or why it does not."""
    from dmlvk.bench.networks import NETWORKS

    try:
        from dmlvk.bench.network_torch import torch_seconds

        return torch_seconds(NETWORKS[name], tensor.sizes, tensor.data_type.name.lower(), small=small), ""
    except ImportError as error:
        return None, f"  (not beside PyTorch: {error})"
    except RuntimeError as error:  # memory that the device does not have, most often
        return None, f"  (PyTorch stopped: {' '.join(str(error).split())[:120]})"
