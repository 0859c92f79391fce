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


_SIZES: tuple[list[int], ...] = ([0], [2**62, 4], [2**32, 2**32], [1] * 1000, [-1, -1], [])
_KINDS = ("F64", "BF16", "F16", "I8", "U8", "F8_E4M3", "F8_E5M2", "I32", "", 7)
_DEEP = ("[" * 200_000, '{"a":' * 200_000, "[" * 900 + "]" * 900)
_ANGLES = [
    {"rope_type": kind, "rope_theta": 1e4, "factor": factor, "original_max_position_embeddings": original}
    | {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "short_factor": [1.0] * 8, "long_factor": [1.0] * 8}
    for kind in ("linear", "llama3", "yarn", "longrope", "dynamic")
    for factor in (1e300, 1e-300, 0, -1, float("nan"), 10**400)
    for original in (1, 32, 2**62)
]
_PACKINGS = [
    {"quant_method": method, "bits": bits, "group_size": group, "weight_block_size": blocks}
    for method in ("fp8", "gptq", "awq", "mxfp4", 7, None)
    for bits in (4, 0, -1, float("nan"), 2**40)
    for group in (-1, 0, 32, 2**40)
    for blocks in ([2**40, 2**40], [0, 1], [1, 2**60], 7)
]


def damage_tensors(file: Path, choose: random.Random) -> None:
    """Damages what a safetensors file says of its tensors, or cuts it where one of them begins or ends."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, contents = json.loads(data[8 : 8 + length]), data[8 + length :]
    name, other = choose.sample([name for name in header if name != "__metadata__"], 2)
    places = [end for each in header.values() for end in each.get("data_offsets", ())]
    text, way = "", choose.randrange(8)
    if way == 0:
        damage_value(header, choose, _STRANGE)
    elif way == 1:
        header[name]["data_offsets"] = choose.choice(
            [header[other]["data_offsets"], places[:1], [0, 2**63], [2**63, 2**63 + 4], [4, 0], [1, places[0] + 1]]
        )
    elif way == 2:
        header[name]["dtype"] = choose.choice(_KINDS)
    elif way == 3:
        header[name]["shape"] = choose.choice([*_SIZES, header[name]["shape"][::-1], [*header[name]["shape"], 0]])
    elif way == 4:
        text = json.dumps(header)[:-1] + f", {json.dumps(name)}: {json.dumps(header[other])}}}"
    elif way == 5:
        text = choose.choice(_DEEP)
    encoded = (text or json.dumps(header)).encode()
    count = len(encoded) if way != 6 else choose.choice([0, 1, 2**28, 2**63, 2**64 - 1, len(encoded) + 1])
    damaged = count.to_bytes(8, "little") + encoded + contents
    borders = [0, 8, 8 + len(encoded), *(8 + len(encoded) + place for place in places)]
    file.write_bytes(damaged[: max(0, choose.choice(borders) - choose.randrange(2))] if way == 7 else damaged)


def damaged_gguf(contents: bytes, choose: random.Random) -> bytes:
    """A file with other bits, words, more or fewer bytes; most of it before the weights."""
    data, head = bytearray(contents), contents.find(b"output_norm.weight") + 64
    for _ in range(choose.randint(1, 4)):
        offset, way = choose.randrange(head if choose.random() < 0.9 else len(data)), choose.randrange(5)
        if way == 2:
            size = choose.choice([4, 8])
            data[offset : offset + size] = (choose.choice(_WORDS) % 2 ** (8 * size)).to_bytes(size, "little")
        elif way == 3 and choose.random() < 0.3:  # some bytes, names or numbers, are those of another place
            other = choose.randrange(head)
            data[offset : offset + 8] = data[other : other + 8]
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
        names = [config, config, "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"]
        name = choose.choice([name for name in names if (folder / name).exists()])
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        for _ in range(choose.randint(1, 3)):
            damage_value(content, choose, _STRANGE)
        if name == "tokenizer.json" and choose.random() < 0.4:
            content[choose.choice(["normalizer", "pre_tokenizer", "decoder", "padding", "truncation"])] = choose.choice(
                _PARTS
            )
        if name == "config.json" and choose.random() < 0.3:
            content |= choose.choice([{"rope_parameters": choose.choice(_ANGLES)}, {"rope_scaling": _ANGLES[0]}])
        if name == "config.json" and choose.random() < 0.1:
            content["quantization_config"] = choose.choice(_PACKINGS)
        text = choose.choice(_DEEP) if choose.random() < 0.02 else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    elif way < 0.68 and any(folder.glob("*.safetensors")):
        damage_tensors(choose.choice(sorted(folder.glob("*.safetensors"))), choose)
    elif way < 0.75:
        template = choose.choice(_TEMPLATES)
        if choose.random() < 0.5 and (folder / "tokenizer_config.json").exists():
            text = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template", "ab")
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
