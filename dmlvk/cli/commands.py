"""The commands themselves: each asks the public API and shows the answer."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dmlvk.cli.selection import WrittenFile, arithmetic_option, device_selector
from dmlvk.support.arithmetic import Arithmetic


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
def devices(as_json: bool) -> None:
    """List the Vulkan devices."""
    from dmlvk.cli import tables
    from dmlvk.runtime.vulkan import list_devices

    found = list_devices()
    if as_json:
        click.echo(json.dumps(tables.devices_as_json(found), indent=2))
    else:
        tables.show_devices(found)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
@click.option("--feature-level", metavar="LEVEL", help="Only what this feature level has, such as 4_1.")
def operators(names: tuple[str, ...], as_json: bool, feature_level: str | None) -> None:
    """List the operators and what they accept: all, or those of some names ('sign', 'bit_*').

    Formula, members, data types and dimensions by feature level, in-place inputs, promised accuracy, and what was
    decided where DirectML's page is silent.
    """
    from dmlvk.cli import tables
    from dmlvk.operators import FeatureLevel

    level = None if feature_level is None else FeatureLevel.from_name(feature_level)
    if as_json:
        click.echo(json.dumps(tables.operators_as_json(level, names), indent=2))
    else:
        tables.show_operators(level, names)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@click.option(
    "--output-dir",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("output"),
    show_default=True,
    help="Where writeFile commands, and the outputs of ONNX models, go.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="For an ONNX model: an input from a .npy file or a picture. Inputs that are not given are random numbers.",
)
@click.option("--timing", is_flag=True, help="Repeat each dispatch and show its median wall times.")
@click.option(
    "--iterations", "-i", type=click.IntRange(1, 1_000_000), help="Times to run each dispatch (with --timing: 10)."
)
@click.option("--warm-up", "-w", type=click.IntRange(0, 1_000_000), help="Iterations that count as cold (1).")
@click.option(
    "--repeat", "-r", type=click.IntRange(1, 100_000), help="Dispatches submitted together per iteration (1)."
)
@click.option(
    "--trace",
    type=WrittenFile(),
    help="With --timing: write the kernels' device times for chrome://tracing or ui.perfetto.dev.",
)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder in which files must lie that a model file names; by default it may name any.",
)
@arithmetic_option
@click.pass_context
def run(
    context: click.Context,
    model: Path,
    device: str | None,
    output_dir: Path,
    inputs: tuple[str, ...],
    timing: bool,
    iterations: int | None,
    warm_up: int | None,
    repeat: int | None,
    trace: Path | None,
    root: Path | None,
    arithmetic: Arithmetic | None,
) -> None:
    """Run MODEL, a DxDispatch model file or an ONNX model (.onnx).

    DxDispatch is DirectML's own tool; its files name buffers, operators, and commands to carry out. Exits with 1
    when an «expect» command finds other values than it expects. The outputs of an ONNX model are summed up and
    written as .npy files.
    """
    from dmlvk.device import Device
    from dmlvk.models import Timing, load_model, run_model
    from dmlvk.objects.profiling import write_trace

    if not timing and (iterations, warm_up, repeat, trace) != (None, None, None, None):
        raise click.UsageError("--iterations, --warm-up, --repeat and --trace are for --timing", context)
    selector = None if device is None else device_selector(device)
    if model.suffix.lower() == ".onnx":
        from dmlvk.cli.onnx_models import DEFAULT_ITERATIONS, run_onnx_model

        if (warm_up, repeat) != (None, None):
            raise click.UsageError("--warm-up and --repeat are for DxDispatch model files", context)
        with Device(selector, arithmetic=arithmetic) as opened:
            click.echo(f"Running on '{opened.info.name}'")
            wanted = iterations or DEFAULT_ITERATIONS
            run_onnx_model(model, opened, inputs, output_dir, iterations=wanted if timing else None, trace=trace)
        return
    if inputs:
        raise click.UsageError("--input is for ONNX models", context)
    given = {"iterations": iterations, "warm_up": warm_up, "repeats": repeat}
    times = Timing(**{name: number for name, number in given.items() if number is not None})
    loaded = load_model(model, root)
    with Device(selector, arithmetic=arithmetic) as opened:
        click.echo(f"Running on '{opened.info.name}'")
        result = run_model(loaded, opened, output_dir, click.echo, times if timing else None)
        if trace is not None:
            write_trace(trace, result.kernel_times, opened)
            click.echo(f"Kernel times written to '{trace}'")
    if result.failures:
        click.echo(f"{result.failures} of {result.expectations} expectations failed")
        context.exit(1)
