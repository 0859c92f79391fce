"""``dmlvk chat`` and ``dmlvk convert-gguf``: language models in a terminal."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmlvk.cli.selection import arithmetic_option, device_selector

if TYPE_CHECKING:
    from dmlvk.language import Conversation, LanguageModel, Sampling


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@arithmetic_option
@click.option("--quantize", type=click.Choice(["4", "8"]), help="Packs plain weights in integers of so many bits.")
@click.option("--prompt", "-p", multiple=True, help="Say this instead of asking for it; may be given several times.")
@click.option("--system", help="A message that stands before all others.")
@click.option("--max-length", type=click.IntRange(1), help="Tokens that there is room for; else the folder decides.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens of an answer at most.")
@click.option("--temperature", type=float, help="0: the likeliest token is taken. Else the folder decides.")
@click.option("--top-k", type=click.IntRange(0), help="How many of the likeliest tokens may be chosen.")
@click.option("--top-p", type=float, help="The probability that lies before the last token that may be chosen.")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, help="Of random choices: the same on every device."
)
def chat(
    path: Path,
    device: str | None,
    arithmetic: str | None,
    quantize: str | None,
    prompt: tuple[str, ...],
    system: str | None,
    max_length: int | None,
    max_tokens: int | None,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int,
) -> None:
    """Talk to a language model.

    PATH is a GGUF file (the first one of several), a folder of the hub (config.json, safetensors, tokenizer.json), or
    one of onnxruntime-genai (genai_config.json, model.onnx, tokenizer.json). Ends at the end of the input, or at an
    empty line.
    """
    from dmlvk.language import Conversation, LanguageModel

    start = time.perf_counter()
    selected = None if device is None else device_selector(device)
    bits = None if quantize is None else int(quantize)
    with LanguageModel(path, selected, max_length=max_length, arithmetic=arithmetic, quantize=bits) as model:
        given: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        chosen = {name: value for name, value in given.items() if value is not None}
        sampling = dataclasses.replace(model.folder.sampling, **chosen)
        loaded = time.perf_counter() - start
        click.echo(f"{path.name} on {model.device.info.name}, loaded in {loaded:.1f} s", err=True)
        conversation = Conversation(model, system)
        for message in prompt or _lines():
            _answer(conversation, model, message, sampling, max_tokens)


def _lines() -> Iterator[str]:
    """What the user says, line by line, until there is nothing more."""
    return iter(_line, "")


def _line() -> str:
    if sys.stdin.isatty():
        click.echo("> ", nl=False, err=True)
    return sys.stdin.readline().strip()


def _answer(
    conversation: Conversation, model: LanguageModel, message: str, sampling: Sampling, max_tokens: int | None
) -> None:
    """Shows an answer as it comes, and how long it took."""
    start, first = time.perf_counter(), 0.0
    for piece in conversation.reply(message, sampling, most=max_tokens):
        first = first or time.perf_counter() - start
        click.echo(piece, nl=False)
        sys.stdout.flush()
    click.echo()
    took, count = time.perf_counter() - start, model.generated
    rest = f", {(count - 1) / (took - first):.1f} tokens/s" if count > 1 and took > first else ""
    click.echo(f"[{count} tokens, the first after {first:.2f} s{rest}; {conversation.length} in all]", err=True)


@click.command("convert-gguf")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def convert(file: Path, folder: Path) -> None:
    """Convert a GGUF file to a folder as onnxruntime-genai has them.

    Packed weights stay packed, with their values. `dmlvk chat` takes the file itself, too.
    """
    from dmlvk.language import convert_gguf

    if not file.is_file():
        raise click.UsageError(f"{file}: there is no such file")
    convert_gguf(file, folder)
    click.echo(f"{folder}: made; talk to it by `dmlvk chat {folder}`")
