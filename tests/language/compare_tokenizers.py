"""Compares tokenizers of GGUF files with those of the hub: ``python -m tests.language.compare_tokenizers``.

Each argument is a ``tokenizer.json`` of the hub behind GGUF's name of how it cuts text (``qwen2=PATH/tokenizer.json``,
``llama`` for SentencePiece's pieces), whose fields a GGUF file gets; or behind the path of a GGUF file that has them
already. Texts are random ones and paragraphs of files; each must have the same tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.gguf_tokenizer import GgufTokenizer
from tests.language.test_tokenizers import TEXTS, tokenizer_of

_AT_ONCE = 20_000
_SCRIPTS = (
    *((0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x2000, 0x2C00), (0x3040, 0x3100)),
    *((0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1F300, 0x1FA00), (0, 0xD800), (0xE000, 0x110000)),
)
"""Ranges of characters that a random text has together."""


def fields_of(cut: str, model: dict[str, Any]) -> dict[str, Any]:
    """What a GGUF file says of a tokenizer, as llama.cpp's convert_hf_to_gguf.py makes it of tokenizer.json."""
    vocabulary, added = dict(model["model"]["vocab"]), {token["content"]: token for token in model["added_tokens"]}
    vocabulary |= {content: token["id"] for content, token in added.items()}
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    kinds = [1 if token not in added else 3 if added[token]["special"] else 4 for token in tokens]
    fields: dict[str, Any] = {"tokens": tokens, "token_type": kinds, "eos_token_id": 1, "add_bos_token": False}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["model"]["merges"]]
    if cut != "llama":
        return {**fields, "model": "gpt2", "pre": cut, "merges": merges}
    fields["token_type"] = [6 if token[:3] == "<0x" else kind for token, kind in zip(tokens, kinds, strict=True)]
    # pieces have their numbers in the order of their scores, but for runs of spaces, which have the same low one
    scores = [-float(number) if token.strip("\u2581") else -1e9 for number, token in enumerate(tokens)]
    return {**fields, "model": "llama", "scores": scores, "unknown_token_id": 0, "add_space_prefix": True}


def texts(count: int, tokens: Sequence[str], choose: random.Random) -> Iterator[str]:
    """Random texts: of pieces of the vocabulary, of marks and words, of characters of a script, or of any."""
    parts = [*(text for text in TEXTS if text), *"ab 1é\n\t.'", "  ", "'s", "'LL", "\r\n", "12", "\U0001f600"]
    for number in range(count):
        if number % 3 == 0:
            yield "".join(choose.choice(tokens) for _ in range(choose.randint(1, 12)))
        elif number % 3 == 1:
            yield "".join(choose.choice((*parts, choose.choice(tokens))) for _ in range(choose.randint(0, 12)))
        else:
            first, last = choose.choice(_SCRIPTS)
            yield "".join(chr(choose.randrange(first, last)) for _ in range(choose.randint(1, 24)))


def paragraphs(files: Sequence[Path]) -> list[str]:
    """What files have between empty lines."""
    whole = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return [part for text in whole for part in text.split("\n\n") if part]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", metavar="NAME=TOKENIZER.JSON")
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", nargs="*", type=Path, default=[])
    arguments = parser.parse_args()
    failed = 0
    for pair in arguments.pairs:
        name, _, file = pair.partition("=")
        theirs = Tokenizer.from_file(file)
        if Path(name).is_file():
            own = GgufTokenizer.of(GgufSource([GgufFile(Path(name))])).tokenizer()
        else:
            with tempfile.TemporaryDirectory() as folder:
                model = json.loads(Path(file).read_text(encoding="utf-8"))
                own = tokenizer_of(fields_of(name, model), Path(folder) / "model.gguf")
        choose = random.Random(arguments.seed)
        pieces = [theirs.decode([number]) for number in range(theirs.get_vocab_size())]
        for kind, several in (
            ("random", texts(arguments.texts, [piece for piece in pieces if piece], choose)),
            ("real", iter(paragraphs(arguments.real))),
        ):
            count = others = 0
            while some := [text for _, text in zip(range(_AT_ONCE), several, strict=False)]:
                both = [each.encode_batch_fast(some, add_special_tokens=False) for each in (own, theirs)]
                for text, ours, expected in zip(some, *both, strict=True):
                    if ours.ids != expected.ids:
                        others += 1
                        if others <= 5:
                            print(f"{name}: {text!a}: {ours.ids}, not {expected.ids}", flush=True)
                count += len(some)
            print(f"{name}: {others} of {count} {kind} texts have other tokens", flush=True)
            failed += others
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
