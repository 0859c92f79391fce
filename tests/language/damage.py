"""Damage at random: to GGUF files, and to folders of language models."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

from tests.damage import damage_bytes, damage_value

_WORDS = (2**64 - 1, 2**63, 2**60, 2**40, 2**32, 2**31, 2**20, 1, 0, 0x7FC00000, 0x7F800000)
_STRANGE: tuple[Any, ...] = (
    *(
        None,
        -1,
        0,
        1,
        2**31,
        2**64,
        10**400,
        1e999,
        float("nan"),
        0.5,
        1e-300,
        True,
        "",
        "x" * 5000,
        "\0",
        "../x",
        "%d",
    ),
    *([], {}, [[]], [{}], {"content": 3}, [{"name": [], "template": 3}], "\ud800", "model.onnx", ["a", "b"]),
)
_TEMPLATES = (
    *(
        *("{%", "{{ 1/0 }}", "{% for i in range(10**9) %}a{% endfor %}", "{{ messages.x.y }}"),
        *("{{ 'a' * 10**9 }}", "{{ 'a' * 10**6 }}"),
    ),
    *(
        "{% for i in range(99999) %}{% for j in range(99999) %}a{% endfor %}{% endfor %}",
        "{% include 'x' %}",
        "{{ [].append(1) }}",
    ),
    *(
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{{ '\ud800' }}",
        "{{ raise_exception() }}",
        "",
        "ab",
    ),
)
_PARTS: tuple[Any, ...] = (
    *({"type": "Strip"}, {"type": "WordPiece"}, {"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}),
    *({"type": "Replace", "pattern": {"String": ""}, "content": "x" * 100}, {"type": "Sequence", "normalizers": []}),
    *({"type": "Fuse"}, {"type": "CTC"}, {"type": "Metaspace"}, {"type": "Prepend", "prepend": ""}, {"type": "NFC"}),
    {"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"},
    {"max_length": 0, "stride": 2**40, "strategy": "LongestFirst", "direction": "Right"},
)


def damaged_gguf(contents: bytes, choose: random.Random) -> bytes:
    """A file with other bits, words, more or fewer bytes; most of it before the weights."""
    data, head = bytearray(contents), contents.find(b"output_norm.weight") + 64
    for _ in range(choose.randint(1, 4)):
        offset, way = choose.randrange(head if choose.random() < 0.9 else len(data)), choose.randrange(5)
        if way == 2:
            size = choose.choice([4, 8])
            data[offset : offset + size] = (choose.choice(_WORDS) % 2 ** (8 * size)).to_bytes(size, "little")
        elif way == 4:  # the value of a field
            place = data.find(choose.choice([b"llama.", b"tokenizer.", b"general."]), offset)
            place = data.find(bytes(3), place) + choose.randint(3, 10)
            data[place : place + 4] = struct.pack("<I", choose.choice(_WORDS) % 2**32)
        else:
            damage_bytes(data, offset, choose)
    return bytes(data[: choose.randrange(len(data))] if choose.random() < 0.1 else data)


def damage_folder(folder: Path, choose: random.Random, config: str = "genai_config.json") -> None:
    """Damages something in a folder: a value in a JSON file, a template, bytes of a file, or a file is missing."""
    way = choose.random()
    if way < 0.6:
        names = [config, config, "tokenizer.json", "tokenizer_config.json"]
        name = choose.choice([name for name in names if (folder / name).exists()])
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        for _ in range(choose.randint(1, 3)):
            damage_value(content, choose, _STRANGE)
        if name == "tokenizer.json" and choose.random() < 0.4:
            content[choose.choice(["normalizer", "pre_tokenizer", "decoder", "padding", "truncation"])] = choose.choice(
                _PARTS
            )
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    elif way < 0.75:
        template = choose.choice(_TEMPLATES)
        if choose.random() < 0.5 and (folder / "tokenizer_config.json").exists():
            text = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]
            place = choose.randrange(len(text))
            template = text[:place] + choose.choice(["{%", "}}", "|", "%}{{", "'", "x", template]) + text[place + 1 :]
        (folder / "chat_template.jinja").write_bytes(template.encode("utf-8", "surrogatepass"))
    elif way < 0.8:
        choose.choice(sorted(path for path in folder.iterdir() if path.is_file())).unlink()
    else:
        file = choose.choice(sorted(path for path in folder.iterdir() if path.is_file()))
        data = bytearray(file.read_bytes())
        for _ in range(choose.randint(1, 4)):
            most = choose.choice([len(data), min(len(data), 2000)])  # what describes the rest stands first
            damage_bytes(data, choose.randrange(most), choose)
        file.write_bytes(data[: choose.randrange(len(data))] if choose.random() < 0.2 else data)
