"""``dmlvk serve`` and ``dmlvk verify``: language models for clients of OpenAI's API, and their answers again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dmlvk.cli.selection import arithmetic_option, device_selector
from dmlvk.errors import UnsupportedError

if TYPE_CHECKING:
    from dmlvk.language import LanguageModel
    from dmlvk.language.batch import Drafter
    from dmlvk.serving.receipts import Receipt


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@arithmetic_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--name", help="What clients call the model; else the path's last part.")
@click.option("--sequences", "-n", type=click.IntRange(1, 64), default=8, show_default=True, help="Answers at once.")
@click.option("--draft", metavar="lookup|PATH", help="What guesses tokens, which changes no answer: a smaller model.")
@click.option("--embeddings", type=click.Path(path_type=Path), help="A model that makes vectors of texts, besides.")
@click.option("--max-length", type=click.IntRange(1), help="Tokens of a prompt and its answer; else the model decides.")
@click.option("--key", envvar="DMLVK_API_KEY", default="", help="What clients must show (or DMLVK_API_KEY).")
@click.option("--allow-origin", multiple=True, metavar="URL", help="Of pages whose scripts may ask; * for any.")
@click.option("--queue", type=click.IntRange(1), default=256, show_default=True, help="Answers that may wait.")
@click.option("--most-body", type=click.IntRange(1), default=2**22, show_default=True, help="Bytes of a request.")
@click.option("--seconds", type=click.FloatRange(0.001), default=600.0, show_default=True, help="For an answer.")
@click.option("--grace", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds behind a signal.")
def serve(
    path: Path,
    device: str | None,
    arithmetic: str | None,
    host: str,
    port: int,
    name: str | None,
    sequences: int,
    draft: str | None,
    embeddings: Path | None,
    max_length: int | None,
    key: str,
    allow_origin: tuple[str, ...],
    queue: int,
    most_body: int,
    seconds: float,
    grace: float,
) -> None:
    """Serve a language model to clients of OpenAI's API.

    PATH is what `dmlvk chat` takes. An answer's bytes are the same alone, in company, after a restart and on another
    device. A signal (Ctrl-C) ends it: answers under way are finished within --grace, or told.
    """
    from dmlvk.language import EmbeddingModel, LanguageModel
    from dmlvk.language.drafting import ModelDrafter, PromptLookup

    try:
        from dmlvk.serving.app import Bounds
        from dmlvk.serving.running import serve as run
        from dmlvk.serving.running import share_heaps
        from dmlvk.serving.vectors import Vectors
    except ImportError as error:
        raise UnsupportedError(f"a server needs the extra serve: pip install dmlvk[serve] ({error})") from error
    selected = None if device is None else device_selector(device)
    is_local = host in ("127.0.0.1", "localhost", "::1")
    bounds = Bounds(most_body, queue, seconds, key, allow_origin, is_local)
    share_heaps()
    with contextlib.ExitStack() as opened:
        guesses = draft is not None
        model = LanguageModel(
            path, selected, max_length=max_length, sequences=sequences, drafts=guesses, arithmetic=arithmetic
        )
        opened.enter_context(model)
        drafter: Drafter | None = None
        if draft == "lookup":
            drafter = PromptLookup()
        elif draft is not None:
            smaller = LanguageModel(draft, model.device, arithmetic=arithmetic)
            drafter = ModelDrafter(opened.enter_context(smaller), model)
        vectors: Vectors | None = None
        if embeddings is not None:
            encoder = opened.enter_context(EmbeddingModel(embeddings, model.device, arithmetic=arithmetic))
            vectors = Vectors(encoder, embeddings.name)
        called = name or path.stem

        def started(address: str) -> None:
            click.echo(f"{called} on {model.device.info.name}: {address}/v1", err=True)

        run(model, called, bounds, drafter=drafter, vectors=vectors, host=host, port=port, grace=grace, started=started)


@click.command()
@click.argument("receipt", type=click.Path(path_type=Path))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@click.pass_context
def verify(context: click.Context, receipt: Path, path: Path, device: str | None) -> None:
    """Compute an answer again, and name the first token that differs.

    RECEIPT is a JSON file: a receipt, or an answer of `dmlvk serve` to a request with "receipt": true. PATH is its
    model. Exits with 1 when the model's files, a token, the bits of logits, or the answer's words differ.
    """
    from dmlvk.language import LanguageModel
    from dmlvk.serving.receipts import Receipt

    receipts = Receipt.read(receipt)
    room = max(len(each.prompt) + len(each.tokens) for each in receipts)
    selected = None if device is None else device_selector(device)
    with LanguageModel(path, selected, max_length=room) as model:
        for number, found in enumerate(receipts):
            fault = _fault(found, model)
            count, before = len(found.tokens) - found.forced, len(found.prompt) + found.forced
            told = fault or f"{count} tokens behind {before} are the same on {model.device.info.name}"
            click.echo(f"answer {number}: {told}" if len(receipts) > 1 else told)
            if fault:
                context.exit(1)


def _fault(found: Receipt, model: LanguageModel) -> str:
    """What of an answer is not as its receipt says; empty: nothing."""
    other = found.other_files(model)
    if other:
        return f"the model has other files than the receipt: {', '.join(other)}"
    difference = found.difference(model)
    if difference is not None:
        where = f"on {model.device.info.name}"
        return f"token {difference.place} of {len(found.tokens)} differs {where}: {difference.reason}"
    return "the answer has other words than its tokens" if found.has_other_words(model) else ""
