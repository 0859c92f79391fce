"""``dmlvk bench decoder``: what prompts and tokens of a language model take, and whether its bits are the same."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmlvk.cli.selection import WrittenFile, arithmetic_option, device_selector
from dmlvk.support.files import write_whole

if TYPE_CHECKING:
    from dmlvk.bench.decoder import DecoderBench
    from dmlvk.bench.decoder_models import DecoderSize
    from dmlvk.bench.served import ServedBench
    from dmlvk.device import Device
    from dmlvk.support.arithmetic import Arithmetic

_HASHED = {
    "steps alone": (1, 80, [1] * 24),
    "one chunk": (1, 80, [24]),
    "chunks of 7 and 17, a larger cache": (1, 300, [7, 17]),
    "a batch of 3": (3, 96, [24]),
}
"""Batch, capacity of caches and chunks of the prompt, by what is to have the same bits."""

_HASHED_STEPS = 48

_QUEUED, _SERVED_STEPS = 16, 48
"""Prompts that come together, and steps of which medians are taken."""

_EDITED = 4096  # Tokens that a file before and after its change may have together


@click.command()
@click.option("--size", "-s", default="tiny", show_default=True, metavar="NAME", help="tiny, 135M, 1B or 8B.")
@click.option("--lengths", "-l", default="16,512,4000", show_default=True, metavar="N,...", help="Of the text before.")
@click.option("--prompts", "-p", default="512", show_default=True, metavar="N,...", help="Tokens of prompts; or none.")
@click.option("--batches", "-b", default="1", show_default=True, metavar="N,...", help="Sequences at once.")
@click.option("--tokens", "-n", type=click.IntRange(8, 100_000), default=64, show_default=True, help="For medians.")
@click.option("--data-type", "-t", type=click.Choice(["float16", "float32"]), default="float16", show_default=True)
@click.option("--torch/--no-torch", default=True, help="Beside PyTorch (FLOAT16, CUDA graphs), where it is installed.")
@click.option("--kernels", is_flag=True, help="What each kind of kernel takes.")
@click.option("--hash", "hashes", is_flag=True, help="Hashes logits of several batches, caches and chunks instead.")
@click.option("--served", is_flag=True, help="What a server's texts take, beside these steps and prompts.")
@click.option(
    "--edits",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    nargs=2,
    metavar="BEFORE AFTER",
    help="With --served, folders of Python files: how fast these are written again where guesses help.",
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where models are kept.")
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@click.option("--json", "json_file", type=WrittenFile(), metavar="FILE", help="Write all.")
@click.option("--plot", type=WrittenFile(), metavar="FILE", help="Tokens over lengths, as SVG.")
@arithmetic_option
@click.pass_context
def decoder(
    context: click.Context,
    size: str,
    lengths: str,
    prompts: str,
    batches: str,
    tokens: int,
    data_type: str,
    torch: bool,
    kernels: bool,
    hashes: bool,
    served: bool,
    edits: tuple[Path, Path] | None,
    folder: Path | None,
    device: str | None,
    json_file: Path | None,
    plot: Path | None,
    arithmetic: Arithmetic | None,
) -> None:
    """Time a llama of random int4 weights (MatMulNBits, GroupQueryAttention): prompts, and tokens one by one.

    A step is submitted while the one before is computed; times of tokens are medians from one to the next. «Host» is
    what submitting takes meanwhile, «kernels» what they take by the device's clock. With --hash, exits with 1 when the
    logits' bits depend on the batch, the cache's capacity, or the prompt's division into chunks.

    --served times the same work as a server does it: the first of 16 prompts that came together, in a process and
    later; steps of --batches texts; and, with --edits, files written again behind what they were, whose tokens are
    guessed by what stood before. A commit's edits: git worktree add BEFORE COMMIT.
    """
    from dmlvk.bench.decoder_models import SIZES
    from dmlvk.bench.served import ServedBench
    from dmlvk.device import Device

    if size not in SIZES:
        raise click.UsageError(f"--size: {size!r} is none of {', '.join(SIZES)}")
    before, new, counts = _numbers(lengths, "--lengths"), _numbers(prompts, "--prompts"), _numbers(batches, "--batches")
    if not before or not counts:
        raise click.UsageError("--lengths and --batches: at least one is needed")
    if plot is not None:
        from dmlvk.bench.plot import check_plot_path

        check_plot_path(plot)
    if edits is not None and not served:
        raise click.UsageError("--edits is a part of --served, which is not given")
    if served and 1 not in counts:
        raise click.UsageError("--served: --batches must have 1, beside whose prompts those of a server are told")
    capacity = max((*before, *new)) + tokens + 16
    selector = None if device is None else device_selector(device)
    with _model(size, data_type, capacity, folder) as file, Device(selector, arithmetic=arithmetic) as opened:
        click.echo(f"{size} ({data_type}, int4 weights, {file.with_suffix('.onnx.data').stat().st_size / 1e6:.0f} MB)")
        click.echo(f"on {opened.info.name}, {opened.info.driver}")
        if hashes:
            if not _hash_all(opened, file, SIZES[size], data_type):
                context.exit(1)
            return
        results, texts = [], {}
        if served:
            room = max(capacity + max(_QUEUED, *counts), _EDITED if edits else 0)  # the first text goes on meanwhile
            with contextlib.closing(ServedBench(opened, file, SIZES[size], room, max(_QUEUED, *counts))) as of_server:
                texts = _served(of_server, {"prompts": new, "lengths": before, "batches": counts}, edits)
        for batch in counts:
            with contextlib.closing(_bench(opened, file, SIZES[size], capacity, batch, data_type)) as bench:
                prompted = [] if served and batch > 1 else new  # a server runs prompts one by one
                results.append(_timed(bench, batch, before, prompted, tokens, kernels=kernels))
        if served:
            _compared(texts, results)
    if torch:
        _time_torch(SIZES[size], capacity, results, tokens)
    if json_file is not None:
        write_whole(json_file, json.dumps(results, indent=2))
    if plot is not None:
        from dmlvk.bench.plots import write_decoder_plot

        write_decoder_plot(results, f"{size}, {opened.info.name}", plot)


def _numbers(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part and part != "none"]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise click.UsageError(f"{option}: positive integers with commas between them; got {text!r}")
    return numbers


@contextlib.contextmanager
def _model(size: str, data_type: str, capacity: int, folder: Path | None) -> Iterator[Path]:
    """The file of the model, which is written where it is not there already."""
    from dmlvk.bench.decoder_models import SIZES, write_decoder

    with tempfile.TemporaryDirectory() if folder is None else contextlib.nullcontext(folder) as directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        positions = max(4096 + 256, capacity)
        file = Path(directory) / f"{size}-{data_type}-{positions}.onnx"
        if not file.is_file():
            write_decoder(file, SIZES[size], positions, data_type)
        yield file


def _bench(device: Device, file: Path, size: DecoderSize, capacity: int, batch: int, data_type: str) -> DecoderBench:
    from dmlvk.bench.decoder import DecoderBench
    from dmlvk.datatypes import DataType

    return DecoderBench(device, file, size, capacity, batch, DataType.from_name(data_type.upper()))


def _timed(
    bench: DecoderBench, batch: int, lengths: Sequence[int], prompts: Sequence[int], tokens: int, *, kernels: bool
) -> dict[str, Any]:
    result: dict[str, Any] = {"batch": batch, "loading_seconds": bench.loading_seconds, "prompts": {}, "tokens": {}}
    click.echo(f"batch {batch}: opened in {bench.loading_seconds:.2f} s")
    for count in prompts:
        first, seconds = bench.prompt(count)
        result["prompts"][count] = {"first_seconds": first, "seconds": seconds}
        click.echo(f"  prompt of {count:5}: {_ms(seconds)} (the first time {_ms(first)})")
    for length in lengths:
        times = bench.tokens(length, tokens)
        result["tokens"][length] = {
            "seconds": times.seconds,
            "slowest_tenth_seconds": times.slowest,
            "host_seconds": times.host_seconds,
            "device_seconds": times.device_seconds,
            "launches": times.launches,
        }
        by_device = "" if times.device_seconds is None else f", kernels {_ms(times.device_seconds)}"
        click.echo(
            f"  token behind {length:5}: {_ms(times.seconds)} (nine of ten within {_ms(times.slowest)}, host "
            f"{_ms(times.host_seconds)}{by_device}, {times.launches} launches)"
        )
        if kernels:
            for label, (seconds, launches) in bench.kernels(length).items():
                click.echo(f"    {_ms(seconds)} {launches:4} x {label}")
    used = bench.memory()
    result["memory"] = dataclasses.asdict(used)
    host = "" if used.host_bytes is None else f"; {_mb(used.host_bytes)} of the process, mapped files not counted"
    click.echo(
        f"  memory: {_mb(used.device_bytes)} on the device ({used.device_bytes / used.file_bytes:.2f} times the file), "
        f"{_mb(used.cache_bytes)} of caches{host}"
    )
    return result


def _served(bench: ServedBench, given: Mapping[str, Sequence[int]], edits: tuple[Path, Path] | None) -> dict[str, Any]:
    """What a server's texts take, by what they are."""
    made: dict[str, Any] = {"warm_up_seconds": bench.warm_up()}
    click.echo(f"a server: warmed up in {made['warm_up_seconds']:.2f} s")
    made["queued"] = {length: [bench.queued(_QUEUED, length) for _ in range(3)] for length in given["prompts"]}
    made["steps"] = {
        (batch, length): bench.steps(batch, length, _SERVED_STEPS)
        for batch in given["batches"]
        for length in given["lengths"]
    }
    if edits is not None:
        made["guessed"] = found = bench.guessed(edits)
        times = found.plain_seconds / found.guessed_seconds
        click.echo(
            f"{found.files} files written again, {found.tokens} tokens: {_ms(found.plain_seconds)} each, with guesses "
            f"{_ms(found.guessed_seconds)} ({found.tokens / found.steps:.1f} a step), {times:.2f} times the tokens"
        )
    return made


def _compared(served: Mapping[str, Any], results: Sequence[dict[str, Any]]) -> None:
    """Tells, and adds to the results, what a server's texts take beside what was timed alone."""
    for length, taken in served["queued"].items():
        alone = next(result["prompts"] for result in results if result["batch"] == 1)[length]
        alone["queued_seconds"] = taken
        first, *others = (seconds / _QUEUED / alone["seconds"] for seconds in taken)
        click.echo(
            f"{_QUEUED} prompts of {length} that came together: the last first token after {min(others):.2f} times "
            f"what they take alone (the first time {first:.2f})"
        )
    for result in results:
        for length, alone in result["tokens"].items():
            alone["served_seconds"] = seconds = served["steps"][result["batch"], length]
            times = seconds / alone["seconds"]
            click.echo(
                f"{result['batch']} texts behind {length}: {_ms(seconds)} a step, {times:.2f} times what it takes alone"
            )
    if "guessed" in served:
        results[0]["guessed"] = served["guessed"]._asdict()


def _mb(size_in_bytes: int) -> str:
    return f"{size_in_bytes / 1e6:.0f} MB"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _time_torch(size: DecoderSize, capacity: int, results: Sequence[dict[str, Any]], tokens: int) -> None:
    try:
        from dmlvk.bench.decoder_torch import TorchDecoder

        for result in results:
            decoder_of_torch = TorchDecoder(size, capacity, result["batch"])
            for kind in ("prompts", "tokens"):
                for count, times in result[kind].items():
                    given = (count, 0, 5) if kind == "prompts" else (1, count, tokens)
                    times["torch_seconds"] = decoder_of_torch.seconds(*given)
                    click.echo(f"PyTorch, batch {result['batch']}: {kind} {count}: {_ms(times['torch_seconds'])}")
    except ImportError as error:
        click.echo(f"not beside PyTorch: {error}")
    except RuntimeError as error:  # memory that the device does not have, most often
        click.echo(f"PyTorch stopped: {' '.join(str(error).split())[:200]}")


def _hash_all(device: Device, file: Path, size: DecoderSize, data_type: str) -> bool:
    found: dict[str, str] = {}
    for name, (batch, capacity, chunks) in _HASHED.items():
        with contextlib.closing(_bench(device, file, size, capacity, batch, data_type)) as bench:
            found[name] = bench.hashed_logits(_HASHED_STEPS, chunks)
        click.echo(f"{found[name]}  {_HASHED_STEPS} steps behind 24 tokens: {name}")
    return _are_one(found)


def _are_one(hashes: Mapping[str, str]) -> bool:
    return len(set(hashes.values())) == 1
